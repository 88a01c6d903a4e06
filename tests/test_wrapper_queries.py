"""Queries of wrapped estimators, and samplers that are used again."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor, StackingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from wrapped import (
    POINTS,
    X_PUBLIC,
    Y_PUBLIC,
    X,
    Y,
    fit_public,
    private,
)

from skparisk import IncompatibleError, SensitivitySampler
from skparisk.neighbors import sample_database
from skparisk.queries import (
    AttributeReader,
    EstimatorQuery,
    MeanQuery,
    PredictionReader,
)
from skparisk.reference import TableReference
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


def test_first_database_is_drawn_from_the_reference():
    table = TableReference(X_PUBLIC, Y_PUBLIC)
    seed = np.random.SeedSequence(1)
    drawn, targets = sample_database(table, 50, seed)
    rows = [X_PUBLIC.tolist().index(row) for row in drawn.tolist()]
    assert len(set(rows)) == 50
    np.testing.assert_array_equal(Y_PUBLIC[rows], targets)
    again, _ = sample_database(table, 50, seed)
    np.testing.assert_array_equal(drawn, again)
    assert sample_database(TableReference(X_PUBLIC), 3, seed)[1] is None
    other, _ = sample_database(table, 50, np.random.SeedSequence(2))
    assert (drawn != other).any()


# Samplers that are used again


def test_fitted_pairs_of_predictions_serve_again():
    model = private(RandomForestRegressor(2), "predict", X_public=POINTS)
    fit_public(model)
    again = clone(model).set_params(sensitivity=model.sampler_).fit(X, Y)
    assert again.sensitivity_ == model.sensitivity_
    again.set_params(X_public=POINTS + 1.0)
    with pytest.raises(IncompatibleError, match="was fitted for RandomForestRegressor"):
        again.fit(X, Y)


@pytest.mark.parametrize(
    "other",
    [
        private(Ridge(2.0)),
        private(Lasso()),
        private(Ridge(), ("coef_",)),
    ],
)
def test_fitted_pairs_of_another_question_are_refused(other):
    sampler = fit_public(private(Ridge())).sampler_
    with pytest.raises(IncompatibleError, match=r"was fitted for Ridge \(coef_, inte"):
        other.set_params(sensitivity=sampler).fit(X, Y)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_shaped_noise(law):
    sampler = SensitivitySampler(
        n_pairs=60, randomness="both", law=law, noise_shape="whitened"
    )
    model = fit_public(private(PCA(2), sensitivity=sampler))
    assert model.certificate_.private
    assert model.transform(X).shape == (80, 2)
