"""Predictions at public points, and the surrogates that answer elsewhere."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from wrapped import (
    DECLARED,
    LABELS,
    POINTS,
    X_PUBLIC,
    X,
    Y,
    assert_same,
    data_for,
    declare_classes,
    fit_declared,
    fit_plain,
    fit_public,
    private,
    reference_for,
    served_methods,
)

from skparisk import IncompatibleError, SensitivitySampler
from skparisk.wrappers._template import as_probabilities

# Predictions of few neighbors do not move on most pairs.
RARE = {"gamma": 0.05, "sensitivity": SensitivitySampler(n_pairs=38)}
PREDICTORS = [
    (RandomForestRegressor(5), "predict"),
    (GradientBoostingRegressor(n_estimators=3), "predict"),
    (KNeighborsRegressor(3), "predict"),
    (make_pipeline(StandardScaler(), Ridge()), "predict"),
    (GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=2), "predict"),
    (RandomForestClassifier(5), "predict_proba"),
    (GradientBoostingClassifier(n_estimators=2), "predict_proba"),
    (KNeighborsClassifier(3), "predict_proba"),
    (make_pipeline(StandardScaler(), LogisticRegression()), "predict_proba"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("estimator", "release"), PREDICTORS, ids=repr)
def test_predictions_at_public_points(estimator, release):
    plain = fit_plain(estimator)
    exact = private(estimator, release, X_public=POINTS, epsilon=np.inf)
    fit_declared(exact)
    assert_same(getattr(exact, release)(POINTS), getattr(plain, release)(POINTS))
    if release == "predict_proba":
        np.testing.assert_array_equal(exact.predict(POINTS), plain.predict(POINTS))
        with np.errstate(divide="ignore"):
            logarithms = np.log(plain.predict_proba(POINTS))
        assert_same(exact.predict_log_proba(POINTS), logarithms)
    noisy = fit_public(private(estimator, release, X_public=POINTS, **RARE))
    assert noisy.certificate_.private
    assert noisy.certificate_.evidence.n_outputs == plain_outputs(plain, release)
    assert np.isfinite(noisy.score(*data_for(estimator)))
    if release == "predict_proba":
        answer = noisy.predict_proba(X)
        assert ((answer >= 0) & (answer <= 1)).all()
        np.testing.assert_allclose(answer.sum(axis=1), 1.0, rtol=1e-12)
        assert set(noisy.predict(X)) <= set(noisy.classes_)
    offered = {"predict", "score"}
    if release == "predict_proba":
        offered |= {"predict_proba", "predict_log_proba"}
    assert served_methods(noisy) == offered
    assert not hasattr(noisy, "fit_predict")


def plain_outputs(plain, release):
    return getattr(plain, release)(POINTS).size


def test_elsewhere_the_nearest_point_answers_in_units_of_deviations():
    points, rows = np.array([[0.0, 0.0], [1.0, 1000.0]]), np.arange(8) % 2
    model = private(Ridge(), "predict", X_public=points, epsilon=np.inf, **DECLARED)
    model.fit(points[rows] + 1e-3 * np.c_[rows, rows], np.array([5.0, 7.0])[rows])
    first, second = model.predict(points)
    assert model.predict([[0.9, 0.0], [0.9, 200.0]]).tolist() == [first, second]


def test_targets_in_columns_are_predicted_too():
    targets = np.c_[Y, -Y]
    model = private(RandomForestRegressor(3), "predict", X_public=POINTS)
    model.set_params(epsilon=np.inf, **DECLARED).fit(X, targets)
    plain = RandomForestRegressor(3, random_state=0).fit(X, targets)
    assert_same(model.predict(POINTS), plain.predict(POINTS))


def test_surrogate_regressor_is_fitted_to_what_was_released():
    model = private(RandomForestRegressor(3), "predict", X_public=X_PUBLIC)
    model.set_params(epsilon=np.inf, surrogate=Ridge(2.0), **DECLARED).fit(X, Y)
    forest = RandomForestRegressor(3, random_state=0).fit(X, Y)
    ridge = Ridge(2.0).fit(X_PUBLIC, forest.predict(X_PUBLIC))
    assert_same(model.predict(X), ridge.predict(X))
    assert not hasattr(model.surrogate, "coef_")


@pytest.mark.parametrize("surrogate", [KNeighborsRegressor(3), Ridge()])
def test_surrogates_of_classifiers_learn_probabilities(surrogate):
    model = private(GaussianNB(), "predict_proba", X_public=X_PUBLIC)
    model.set_params(epsilon=np.inf, surrogate=surrogate, **DECLARED).fit(X, LABELS)
    naive = GaussianNB().fit(X, LABELS)
    shares = clone(surrogate).fit(X_PUBLIC, naive.predict_proba(X_PUBLIC))
    expected = np.clip(shares.predict(X), 0, 1)
    expected /= expected.sum(axis=1, keepdims=True)
    assert_same(model.predict_proba(X), expected)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1, max_size=5)
)
def test_probabilities_are_mended_where_they_must_be(rows):
    mended = as_probabilities(np.array(rows))
    assert ((mended >= 0) & (mended <= 1)).all()
    np.testing.assert_allclose(mended.sum(axis=1), 1.0)
    np.testing.assert_allclose(as_probabilities(mended), mended, rtol=1e-12)


def test_probabilities_that_need_no_mending_stay_exactly():
    exact = GaussianNB().fit(X, LABELS).predict_proba(X)
    np.testing.assert_array_equal(as_probabilities(exact), exact)
    nothing = as_probabilities(np.array([[-1.0, 0.0]]))
    assert nothing.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(frame):
    def columns(values, names="abcd"):
        return frame(dict(zip(names, values.T, strict=True)))

    estimator = KNeighborsClassifier()
    model = private(estimator, "predict_proba", X_public=columns(POINTS), **RARE)
    reference = reference_for(estimator) | {"X_reference": columns(X_PUBLIC)}
    model.fit(columns(X), LABELS, **reference)
    answer = model.predict(columns(X))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert_same(answer, model.predict(X))
    declare_classes(model)
    model.set_params(X_public=columns(POINTS, "dcba"), **DECLARED)
    with pytest.raises(IncompatibleError, match="but X_public has the same"):
        model.fit(columns(X), LABELS)
    model.set_params(X_public=POINTS)
    with pytest.raises(IncompatibleError, match="but X_public is an array"):
        model.fit(columns(X), LABELS)
