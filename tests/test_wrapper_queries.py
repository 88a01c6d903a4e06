"""Queries of wrapped estimators, samplers used again, and searches and pipelines."""

import itertools

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor, StackingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    StandardScaler,
)
from wrapped import POINTS, X_PUBLIC, Y_PUBLIC, X, Y, fit_public, private

from skparisk import (
    IncompatibleError,
    PrivacyLeakWarning,
    ReferenceWarning,
    SensitivitySampler,
)
from skparisk.core import Assumption, Leak
from skparisk.queries import (
    AttributeReader,
    EstimatorQuery,
    MeanQuery,
    PredictionReader,
)
from skparisk.queries._estimator import repeatable
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


def test_fitted_pairs_of_another_question_are_refused():
    sampler = fit_public(private(Ridge())).sampler_
    with pytest.raises(IncompatibleError, match=r"was fitted for Ridge \(coef_, inte"):
        private(Ridge(), ("coef_",), sensitivity=sampler).fit(X, Y)


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
            first.transform(X), Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC
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


# Components and centers are aligned to an anchor of public records


@st.composite
def components(draw):
    k, p = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    numbers = np.random.default_rng(draw(st.integers(0, 2**31)))
    fit = {
        "components_": numbers.normal(size=(k, p)),
        "explained_variance_": numbers.exponential(size=k),
        "mean_": numbers.normal(size=p),
    }
    order = draw(st.permutations(range(k)))
    signs = np.array(draw(st.lists(st.sampled_from([-1, 1]), min_size=k, max_size=k)))
    return fit, {"components_": numbers.normal(size=(k, p))}, list(order), signs


@settings(deadline=None, max_examples=60)
@given(components())
def test_components_are_the_same_for_any_signs_and_order(drawn):
    fit, anchor, order, signs = drawn
    other = {
        "components_": (fit["components_"] * signs[:, None])[order],
        "explained_variance_": fit["explained_variance_"][order],
        "mean_": fit["mean_"],
    }
    aligned = match_components(fit, anchor)
    again = match_components(other, anchor)
    assert aligned.keys() == fit.keys()
    for name, values in aligned.items():
        np.testing.assert_array_equal(again[name], values)
    np.testing.assert_array_equal(aligned["mean_"], fit["mean_"])
    # The best of all orders, by brute force, and no component points away.
    like = np.abs(anchor["components_"] @ fit["components_"].T)
    rows = np.arange(len(order))
    best = max(like[rows, list(p)].sum() for p in itertools.permutations(rows))
    chosen = (aligned["components_"] * anchor["components_"]).sum(axis=1)
    assert (chosen >= -1e-12).all()
    assert chosen.sum() == pytest.approx(best)
    for row, value in zip(
        aligned["components_"], aligned["explained_variance_"], strict=True
    ):
        (own,) = fit["components_"][fit["explained_variance_"] == value]
        assert np.array_equal(row, own) or np.array_equal(row, -own)


def test_numbers_without_components_stay():
    numbers = {"mean_": np.ones(2)}
    assert match_components(numbers, numbers) is numbers


ROUND, ROUND_PUBLIC = np.split(np.random.default_rng(1).normal(size=(240, 3)), [80])


class Unaligned(PCA):
    """Of which nothing is known."""


def test_without_alignment_the_sensitivity_is_larger():
    t, noise = np.split(np.random.default_rng(1).normal(size=(240, 3)), [1], axis=1)
    records = t * [1, -1] + 0.3 * noise
    found = []
    for estimator in (PCA(1), Unaligned(1)):
        model = private(estimator, ("components_",), gamma=0.05)
        model.set_params(
            sensitivity=SensitivitySampler(noise_shape="isotropic", n_pairs=49)
        )
        model.fit(records[:20], X_reference=records[20:])
        found.append(model.sensitivity_)
    assert found[0] < 0.8 * found[1]


@pytest.mark.parametrize("behind", [False, True])
def test_released_fit_has_the_order_and_the_signs_of_the_anchor(behind):
    estimator = make_pipeline(MaxAbsScaler(), PCA(3)) if behind else PCA(3)
    reference = ROUND_PUBLIC / np.abs(ROUND_PUBLIC).max(axis=0)
    model = private(estimator, epsilon=1e8).fit(
        ROUND, X_reference=reference if behind else ROUND_PUBLIC
    )
    query, name = model.sampler_.query_, "steps.pca.components_" * behind
    name = name or "components_"
    public = PCA(3).fit(reference if behind else ROUND_PUBLIC).components_
    np.testing.assert_allclose(query.anchor[name], public)
    released = (model.estimator_[-1] if behind else model.estimator_).components_
    plain = repeatable(PCA(3)).fit(ROUND).components_
    expected = query.align({name: plain}, query.anchor)[name]
    np.testing.assert_allclose(released, expected, atol=1e-5)
    flipped = {n: v[::-1] * -1.0 for n, v in query.anchor.items()}
    other = query.align({name: plain}, flipped)[name]
    assert np.abs(other - expected).max() > 0.1  # so it is the anchor that decides


def test_nothing_is_aligned_without_noise():
    exact = private(PCA(3), epsilon=np.inf).fit(ROUND, X_reference=-ROUND_PUBLIC[::-1])
    np.testing.assert_array_equal(
        exact.estimator_.components_, PCA(3).fit(ROUND).components_
    )


@pytest.mark.parametrize(
    ("estimator", "n_rows", "told"),
    [
        (PCA(2), 319, True),
        (PCA(2), 320, False),
        (make_pipeline(StandardScaler(), PCA(2)), 319, True),
        (StandardScaler(), 319, False),
    ],
)
def test_table_of_few_rows_for_what_is_matched_is_told(
    estimator, n_rows, told, recwarn
):
    """Real pairs are beyond the noise more often: 26 to 33 % at a risk of 20 %."""
    records = np.random.default_rng(0).normal(size=(n_rows, 3)) * [3.0, 2.0, 1.0]
    model = private(estimator, noise_random_state=0)
    model.fit(records[:20] + 0.1, X_reference=records)
    text = f"has {n_rows} rows, fewer than 16 times the 20 records of a database"
    messages = [
        str(each.message)
        for each in recwarn
        if issubclass(each.category, ReferenceWarning)
    ]
    assert any(text in message for message in messages) == told
    assert (Assumption.ROWS_PER_RECORD in model.certificate_.assumptions) == told
