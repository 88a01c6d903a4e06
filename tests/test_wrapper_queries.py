"""Queries of wrapped estimators, samplers used again, and searches and pipelines."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor, StackingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from wrapped import (
    POINTS,
    X_PUBLIC,
    Y_PUBLIC,
    X,
    Y,
    fit_public,
    private,
)

from skparisk import IncompatibleError, PrivacyLeakWarning
from skparisk.core import Leak
from skparisk.queries import (
    AttributeReader,
    EstimatorQuery,
    MeanQuery,
    PredictionReader,
)
from skparisk.wrappers._template import match_components

# Queries


def test_query_splits_an_answer_into_what_was_read():
    ridge = Ridge()
    shapes = {"coef_": (2, 4), "intercept_": (2,), "alpha_": ()}
    query = EstimatorQuery(ridge, AttributeReader(tuple(shapes)), shapes)
    assert query.n_outputs == 11
    parts = query.split(np.arange(11.0))
    assert {name: part.shape for name, part in parts.items()} == shapes
    joined = np.concatenate([part.ravel() for part in parts.values()])
    np.testing.assert_array_equal(joined, np.arange(11.0))
    assert str(query) == "Ridge (coef_, intercept_, alpha_)"


def test_queries_are_equal_if_they_ask_the_same():
    def query(estimator=None, names=("coef_",), shapes=None, **parameters):
        estimator = Ridge() if estimator is None else estimator
        shapes = {"coef_": (4,)} if shapes is None else shapes
        return EstimatorQuery(estimator, AttributeReader(names), shapes, **parameters)

    assert query() == query(Ridge(), shapes={"coef_": (5,)}, anchor={"coef_": X[0]})
    others = [
        query(Ridge(2.0)),
        query(Lasso()),
        query(names=("intercept_",)),
        query(classes=(0.0, 1.0)),
        query(align=match_components),
        EstimatorQuery(Ridge(), PredictionReader("predict", POINTS), {}),
        MeanQuery(),
    ]
    for other in others:
        assert query() != other
    points = [PredictionReader("predict", p) for p in (POINTS, POINTS.copy(), X[:3])]
    same, equal, moved = (EstimatorQuery(Ridge(), reader, {}) for reader in points)
    assert same == equal != moved
    forests = [RandomForestRegressor(n) for n in (2, 2, 3)]
    nested = [query(make_pipeline(PCA(), forest)) for forest in forests]
    assert nested[0] == nested[1] != nested[2]
    with pytest.raises(TypeError, match="unhashable"):
        hash(query())


@pytest.mark.slow
def test_queries_of_differently_fitted_frozen_estimators_are_others():
    final = [Ridge().fit(Y[:, None], slope * Y) for slope in (1.0, 1.0, -1.0)]
    stacks = [
        StackingRegressor([("ridge", Ridge())], FrozenEstimator(last), cv=2)
        for last in final
    ]
    models = [private(stack, "predict", X_public=POINTS) for stack in stacks]
    same, equal, other = (fit_public(model).sampler_.query_ for model in models)
    assert same == equal != other
    sampler = models[0].sampler_
    again = models[1].set_params(sensitivity=sampler).fit(X, Y)
    assert again.sensitivity_ == sampler.sensitivity_
    with pytest.raises(IncompatibleError, match="was fitted for StackingRegressor"):
        models[2].set_params(sensitivity=sampler).fit(X, Y)


def test_queries_with_what_has_no_pickle_are_like_nothing():
    """Not even like themselves: nobody can tell what a function does."""
    pipeline = make_pipeline(FunctionTransformer(lambda X: 2 * X), Ridge())
    model = private(pipeline, "predict", X_public=POINTS)
    query = fit_public(model).sampler_.query_
    assert query != query
    assert query != MeanQuery()
    again = clone(model).set_params(sensitivity=model.sampler_)
    with pytest.raises(IncompatibleError, match="was fitted for Pipeline"):
        again.fit(X, Y)


# Samplers that are used again


def test_fitted_pairs_of_predictions_serve_again():
    model = private(RandomForestRegressor(2), "predict", X_public=POINTS)
    fit_public(model)
    again = clone(model).set_params(sensitivity=model.sampler_).fit(X, Y)
    assert again.sensitivity_ == model.sensitivity_
    again.set_params(X_public=POINTS + 1.0)
    with pytest.raises(IncompatibleError, match="was fitted for RandomForestRegressor"):
        again.fit(X, Y)


# As part of scikit-learn: searches, pipelines, data frames


def test_set_output():
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(80) + 5)
    public = pd.DataFrame(X_PUBLIC, columns=list("abcd"))
    for estimator, names in (
        (PCA(2), ["pca0", "pca1"]),
        (StandardScaler(), "abcd"),
        (MinMaxScaler(), "abcd"),
    ):
        model = private(estimator)
        assert model.set_output(transform="pandas") is model
        transformed = model.fit_transform(frame, X_reference=public)
        assert list(transformed.columns) == list(names)
        assert list(transformed.index) == list(frame.index)
        assert list(model.get_feature_names_out()) == list(names)
        model.set_output(transform="default")
        assert isinstance(model.transform(frame), np.ndarray)
        model.set_output()
        assert isinstance(model.transform(frame), np.ndarray)


def test_names_of_columns_may_be_given():
    model = fit_public(private(StandardScaler()))
    assert list(model.get_feature_names_out(list("wxyz"))) == list("wxyz")


def test_reference_is_routed_through_a_pipeline():
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = private(StandardScaler(), epsilon=20.0)
        scaler.set_fit_request(X_reference=True, y_reference=False)
        ridge = private(Ridge()).set_fit_request(X_reference=True, y_reference=True)
        pipeline = make_pipeline(scaler, ridge, transform_input=["X_reference"])
        pipeline.fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
        first, last = pipeline[0], pipeline[-1]
        assert first.certificate_.private
        assert last.certificate_.private
        direct = private(Ridge()).fit(
            first.transform(X),
            Y,
            X_reference=X_PUBLIC,
            y_reference=Y_PUBLIC,
        )
        assert (
            last.certificate_.evidence.n_records
            == direct.certificate_.evidence.n_records
        )
        plain = make_pipeline(StandardScaler(), ridge, transform_input=["X_reference"])
        with pytest.warns(PrivacyLeakWarning, match="standardscaler to public data"):
            plain.fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
        scaler = StandardScaler().fit(X)
        direct = private(Ridge()).fit(
            scaler.transform(X),
            Y,
            X_reference=scaler.transform(X_PUBLIC),
            y_reference=Y_PUBLIC,
        )
        certificate = direct.certificate_.weaken(leaks=[Leak.LEARNS_MORE])
        assert plain[-1].certificate_ == certificate
        plain.set_params(standardscaler=FrozenEstimator(scaler.fit(X_PUBLIC)))
        search = GridSearchCV(plain, {"privateestimator__epsilon": [1.0, 2.0]}, cv=2)
        with pytest.warns(PrivacyLeakWarning, match="The parameters were chosen"):
            search.fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
        assert search.best_estimator_[-1].certificate_.leaks == {Leak.CHOSEN}
