"""Released numbers are brought into the range that public records tell of."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from sklearn.cluster import KMeans
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Lasso, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from wrapped import (
    LABELS,
    LABELS_PUBLIC,
    POINTS,
    X_PUBLIC,
    Y_PUBLIC,
    X,
    Y,
    fit_declared,
    fit_plain,
    fit_public,
    private,
)

from skparisk import SensitivitySampler
from skparisk.queries import AttributeReader
from skparisk.reference import SchemaReference, TableReference
from skparisk.wrappers import _estimator as _ranges
from skparisk.wrappers._estimator import Ranges, find_ranges
from skparisk.wrappers._public_records import PublicRecords

LOW, HIGH = X_PUBLIC.min(axis=0), X_PUBLIC.max(axis=0)
WIDTH = HIGH - LOW
NOISY = {"epsilon": 1e-4}


def ranges_of(estimator, names, X_reference=X_PUBLIC, y_reference=None):
    table = X_reference
    if not isinstance(table, SchemaReference | TableReference):
        table = TableReference(table, y_reference)
    public = PublicRecords.draw(estimator, table, 80, np.random.SeedSequence(0), None)
    fits = list(public.fits(estimator))
    return find_ranges(estimator, public, AttributeReader(names), fits)


@pytest.mark.parametrize(
    ("estimator", "places", "means"),
    [
        (KMeans(3, random_state=0), ["cluster_centers_"], True),
        (StandardScaler(), ["mean_"], True),
        (MinMaxScaler(), ["data_min_", "data_max_"], False),
        (RobustScaler(), ["center_"], None),
    ],
    ids=repr,
)
def test_locations_are_in_the_range_of_columns(estimator, places, means):
    found = ranges_of(estimator, tuple(places))
    assert list(found.bounds) == places
    for low, high in found.bounds.values():
        np.testing.assert_array_equal([low, high], [LOW, HIGH])
    if means is not None:
        assert (found.means == tuple(places)) == means


def test_variances_deviations_and_covariances_are_within_the_bound_of_popoviciu():
    low, high = ranges_of(StandardScaler(), ("var_",)).bounds["var_"]
    np.testing.assert_allclose([low, high], [np.zeros(4), WIDTH**2 / 4])
    low, high = ranges_of(StandardScaler(), ("scale_",)).bounds["scale_"]
    np.testing.assert_allclose([low, high], [np.zeros(4), WIDTH])
    found = ranges_of(EmpiricalCovariance(), ("covariance_",))
    low, high = found.bounds["covariance_"]
    np.testing.assert_allclose(high, np.outer(WIDTH, WIDTH) / 4)
    np.testing.assert_allclose(low, np.diag(np.diag(high)) - high)


@pytest.mark.parametrize(
    ("estimator", "names", "table"),
    [
        (Ridge(), ("coef_", "intercept_"), TableReference(X_PUBLIC, Y_PUBLIC)),
        (Lasso(9.0), ("coef_",), TableReference(X_PUBLIC, Y_PUBLIC)),  # zeros
        (PCA(4), ("components_", "explained_variance_"), X_PUBLIC),
        (FactorAnalysis(1), ("components_",), X_PUBLIC),
        (StandardScaler(), ("mean_",), TableReference(X_PUBLIC, sampling="split")),
        (StandardScaler(), ("n_samples_seen_",), X_PUBLIC),
    ],
    ids=repr,
)
def test_what_may_be_anything_has_no_range(estimator, names, table):
    found = ranges_of(estimator, names, table)
    assert (found.bounds, found.shares, found.means) == ({}, (), ())


def test_declared_ranges_are_taken_as_they_are_declared():
    schema = SchemaReference([(0.0, 9.0)] * 4)
    found = ranges_of(StandardScaler(), ("mean_", "var_"), schema)
    np.testing.assert_array_equal(found.bounds["mean_"], [[0.0] * 4, [9.0] * 4])
    np.testing.assert_array_equal(found.bounds["var_"][1], [20.25] * 4)
    assert found.means == ()  # simulated records say nothing of who there is


def test_noise_leaves_centers_among_the_public_records():
    model = fit_public(private(KMeans(3, n_init=1), **NOISY))
    for center in model.estimator_.cluster_centers_:
        # An oracle: a linear program finds the shares of the records.
        mixed = linprog(
            np.zeros(len(X_PUBLIC)),
            A_eq=np.vstack([X_PUBLIC.T, np.ones(len(X_PUBLIC))]),
            b_eq=np.append(center, 1.0),
        )
        assert mixed.success


def test_noise_leaves_variances_and_shares_in_their_range():
    reference = {"X_reference": X_PUBLIC, "y_reference": LABELS_PUBLIC}
    model = private(GaussianNB(), **NOISY).fit(X, LABELS, **reference).estimator_
    assert ((model.theta_ >= LOW) & (model.theta_ <= HIGH)).all()
    assert ((model.var_ >= 0) & (model.var_ <= WIDTH**2 / 4 + 1e-9)).all()
    assert ((model.class_prior_ >= 0) & (model.class_prior_ <= 1)).all()
    assert model.class_prior_.sum() == pytest.approx(1)


def test_frames_have_the_same_ranges_as_arrays():
    names = list("abcd")
    private_, public = (pd.DataFrame(each, columns=names) for each in (X, X_PUBLIC))
    model = private(StandardScaler(), **NOISY).fit(private_, X_reference=public)
    mean = model.estimator_.mean_
    assert ((mean >= LOW) & (mean <= HIGH)).all()


def test_a_sampler_that_was_fitted_before_knows_the_ranges():
    first = fit_public(private(KMeans(3, n_init=1)))
    again = private(KMeans(3, n_init=1), sensitivity=first.sampler_, **NOISY).fit(X)
    centers = again.estimator_.cluster_centers_
    assert ((centers >= LOW) & (centers <= HIGH)).all()


def test_without_noise_nothing_is_clipped():
    """Also where the reference is narrower than the private records."""
    model = private(StandardScaler(), epsilon=np.inf)
    model.fit(X + 90, X_reference=X_PUBLIC)
    plain = fit_plain(StandardScaler()).fit(X + 90)
    np.testing.assert_array_equal(model.estimator_.mean_, plain.mean_)


def test_without_a_reference_there_are_no_ranges():
    model = fit_declared(private(StandardScaler(), epsilon=1e-4))
    assert np.abs(model.estimator_.mean_).max() > 90


def test_predictions_are_in_the_range_of_public_targets():
    forest = RandomForestRegressor(3, max_depth=2)
    model = private(forest, "predict", X_public=POINTS, **NOISY)
    predicted = fit_public(model).predict(POINTS)
    assert Y_PUBLIC.min() <= predicted.min() <= predicted.max() <= Y_PUBLIC.max()
    two = private(forest, "predict", X_public=POINTS, **NOISY).fit(
        X,
        np.stack([Y, 9 * Y], axis=1),
        X_reference=X_PUBLIC,
        y_reference=np.stack([Y_PUBLIC, 9 * Y_PUBLIC], axis=1),
    )
    assert np.abs(two.predict(POINTS)[:, 0]).max() <= np.abs(Y_PUBLIC).max()


def test_an_estimator_that_refuses_moved_records_has_no_range():
    class Strict(StandardScaler):
        def fit(self, X, y=None):
            if np.max(X) > HIGH.max():
                raise ValueError("too large")
            return super().fit(X, y)

    assert ranges_of(Strict(), ("mean_",)).bounds == {}


def test_what_is_not_there_or_no_number_has_no_range():
    assert ranges_of(StandardScaler(), ("other_",)).bounds == {}
    texts = TableReference(pd.DataFrame({"a": ["x", "y"] * 80}), Y_PUBLIC)
    assert ranges_of(DummyRegressor(), ("constant_",), texts).bounds == {}


def test_a_known_sensitivity_clips_to_the_reference_as_well():
    model = private(StandardScaler(), sensitivity=1e6).fit(X, X_reference=X_PUBLIC)
    assert (model.estimator_.mean_ >= LOW).all()
    assert (model.estimator_.mean_ <= HIGH).all()


def test_little_noise_leaves_means_where_they_are():
    """A hull of few records may be further from the truth than the release."""
    ranges = Ranges({}, means=("mean_",))
    far = {"mean_": HIGH + 1}
    kept = ranges.bring_among(far, X_PUBLIC, {"mean_": np.full(4, 1e-3)})
    np.testing.assert_array_equal(kept["mean_"], far["mean_"])
    moved = ranges.bring_among(far, X_PUBLIC, {"mean_": np.full(4, 9.0)})
    assert (moved["mean_"] < HIGH).all()
    inside = {"mean_": X_PUBLIC.mean(axis=0)}
    same = ranges.bring_among(inside, X_PUBLIC, {"mean_": np.full(4, 9.0)})
    np.testing.assert_array_equal(same["mean_"], inside["mean_"])


@pytest.mark.parametrize("error", [RuntimeError, np.linalg.LinAlgError])
def test_what_was_released_is_not_lost_where_the_hull_is_not_found(error, monkeypatch):
    def fail(*args):
        raise error("no convergence")

    monkeypatch.setattr(_ranges, "nnls", fail)
    ranges = Ranges({}, means=("mean_",))
    kept = ranges.bring_among({"mean_": HIGH}, X_PUBLIC, {"mean_": np.full(4, 9.0)})
    np.testing.assert_array_equal(kept["mean_"], HIGH)


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [True, False])
def test_noisy_centers_of_wine_are_of_use(scaled):
    """Against a single center, which says nothing, over five splits."""
    records = load_wine().data
    shares = []
    for seed in range(5):
        rows = np.random.default_rng(seed).permutation(len(records))
        parts = [records[some] for some in np.split(rows, [60, 119])]
        if scaled:
            scaler = StandardScaler().fit(parts[0])
            parts = [scaler.transform(part) for part in parts]
        public, own, test = parts
        shaped = SensitivitySampler(n_pairs=100, noise_shape="whitened")
        model = private(KMeans(3, n_init=1), gamma=0.05, sensitivity=shaped)
        centers = model.fit(own, X_reference=public).estimator_.cluster_centers_

        def inertia(centers, test=test):
            return ((test[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum()

        shares.append(inertia(centers) / inertia(own.mean(axis=0)[None]))
    assert np.median(shares) < 1.75
