"""Queries at another number of records: repeated records are the oracle."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    HuberRegressor,
    Lasso,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from skparisk import (
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.audit._audit import Audited
from skparisk.queries import (
    AttributeReader,
    EstimatorQuery,
    LinearSVCQuery,
    LogisticRegressionQuery,
    MeanQuery,
    RidgeQuery,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.normal(size=40)
LABELS = (Y > 0).astype(float)
COEF = AttributeReader(("coef_",))


def test_as_many_times_the_records_have_the_same_answer():
    for query, y in [
        (RidgeQuery(3.0), Y),
        (RidgeQuery((3.0, 0.5)), np.column_stack([Y, -(Y**2)])),
        (LogisticRegressionQuery((0, 1), C=0.2), LABELS),
        (LinearSVCQuery((0, 1), C=0.2), LABELS),
        (LinearSVCQuery((0, 1), C=0.2, loss="hinge"), LABELS),
        (MeanQuery(), None),
    ]:
        for times in [2, 5]:
            repeated = None if y is None else np.repeat(y, times, axis=0)
            many = query.resized(times)(np.repeat(X, times, axis=0), repeated)
            np.testing.assert_allclose(many, query(X, y), rtol=1e-6, atol=1e-9)


def test_a_query_that_is_not_resized_has_another_answer():
    query = RidgeQuery(3.0)
    many = query(np.repeat(X, 5, axis=0), np.repeat(Y, 5))
    assert np.abs(many - query(X, Y)).max() > 1e-3


def test_penalties_of_estimators_follow_the_records():
    for estimator in [
        Ridge(3.0),
        RidgeClassifier(3.0),
        KernelRidge(alpha=2.0),
        HuberRegressor(alpha=2.0, tol=1e-9, max_iter=10_000),
        LogisticRegression(C=0.1, tol=1e-10),
        LinearSVC(C=0.1, tol=1e-10, max_iter=100_000),
        SVC(C=0.1, kernel="linear", tol=1e-9),
        Lasso(0.1, tol=1e-12),
        make_pipeline(StandardScaler(), Ridge(3.0)),
    ]:
        y = LABELS if hasattr(estimator, "decision_function") else Y
        few = estimator.fit(X, y).predict(X)
        many = EstimatorQuery(estimator, COEF, {"coef_": (3,)}).resized(4.0).estimator
        many = many.fit(np.repeat(X, 4, axis=0), np.repeat(y, 4)).predict(X)
        np.testing.assert_allclose(many, few, rtol=1e-4, atol=1e-4)


def test_estimators_of_others_stay_as_they_are():
    class Ridge:  # of the same name
        def get_params(self, deep):
            return {"alpha": 1.0}

    impostor = EstimatorQuery(Ridge(), COEF, {"coef_": (3,)})
    assert type(impostor.resized(2.0).estimator) is Ridge


@pytest.mark.parametrize(
    ("model", "y", "weight"),
    [
        (
            PrivateRidge(2.0, combine=None),
            Y,
            lambda query: np.ravel(query.alpha)[0] / 2.0,
        ),
        (
            PrivateLogisticRegression(2.0, combine=None),
            np.where(LABELS, "yes", "no"),
            lambda query: 2.0 / query.C,
        ),
        (PrivateEstimator(Ridge(2.0)), Y, lambda query: query.estimator.alpha / 2.0),
    ],
    ids=["ridge", "labels", "wrapped"],
)
def test_an_audit_weighs_penalties_against_as_many_records_fewer(model, y, weight):
    rng = np.random.default_rng(1)
    X_public = rng.normal(size=(300, 3))
    y_public = np.resize(y, 300)
    few = SensitivitySampler(n_pairs=9)
    model.set_params(gamma=0.3, random_state=0, sensitivity=few).fit(
        X, y, X_reference=X_public, y_reference=y_public
    )
    audited = Audited.of(model, X_public, y_public)
    seed = np.random.SeedSequence(0)
    for n_records, share in ((25, 25 / 40), (40, 1.0)):
        query = audited.calibrate(n_records, None, seed).sampler.query_
        assert weight(query) == pytest.approx(share)


def test_what_has_no_penalty_is_calibrated_once():
    few = SensitivitySampler(n_pairs=9, random_state=0)
    model = PrivateEstimator(StandardScaler(), gamma=0.3, sensitivity=few)
    model.fit(X, X_reference=RNG.normal(size=(300, 3)))
    query = model.sampler_.query_
    assert query.resized(0.5) == query
