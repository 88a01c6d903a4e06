"""What hardly moves in sampled pairs is not released next to bare.

An output that differs in no pair is what it is on public records; one that differs in
few pairs, but then by more than its noise, is refused by name.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.naive_bayes import GaussianNB

from skparisk import (
    CalibrationError,
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateMoments,
    SecretSample,
    SensitivitySampler,
    audit_reference,
)

N = 200
RNG = np.random.default_rng(0)


def people(n, *, twins):
    """Return features of which the last is twice the first in public tables."""
    X = RNG.normal(size=(n, 3))
    if twins:
        X[:, 2] = 2 * X[:, 0]
    return X, X @ [1.0, -1.0, 1.0] + RNG.normal(size=n)


def constant(n, *, constant):
    """Return features of which the last does not vary in public tables."""
    X = RNG.normal(size=(n, 3))
    if constant:
        X[:, 2] = 7.0
    return X, (X[:, 0] > 0).astype(int)


PUBLIC, PUBLIC_TARGETS = people(4 * N, twins=True)
PRIVATE, TARGETS = people(N, twins=False)
FLAT, FLAT_LABELS = constant(4 * N, constant=True)
VARIED, LABELS = constant(N, constant=False)


def sampler(**given):
    return SensitivitySampler(**{"n_pairs": 400, "random_state": 0, **given})


def released_twice(model, X, y=None, **public):
    """Return fits to private tables that have little in common, and their constants."""
    fits = [
        clone(model).fit(X, y, **public),
        clone(model).fit(X * 3, None if y is None else y[::-1], **public),
    ]
    claims = [fit.certificate_ for fit in fits]
    assert not any(claim.void or claim.leaks for claim in claims)
    return *fits, fits[0].certificate_.evidence.n_constant


TWINS = {"X_reference": PUBLIC, "y_reference": PUBLIC_TARGETS}
CLASSES = {"X_reference": FLAT, "y_reference": FLAT_LABELS}


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["auto", "isotropic", "diagonal", "whitened"])
def test_a_coefficient_that_public_twins_leave_at_zero(shape):
    """Seen: noise of 1e-16, where 36 % of real pairs were beyond epsilon."""
    model = PrivateEstimator(
        Lasso(alpha=0.1), sensitivity=sampler(noise_shape=shape), random_state=0
    )
    first, other, n = released_twice(model, PRIVATE, TARGETS, **TWINS)
    zero = np.abs(first.estimator_.coef_) < 1e-12
    assert n == zero.sum() == 1
    assert first.estimator_.coef_[zero] == other.estimator_.coef_[zero]
    assert abs(Lasso(alpha=0.1).fit(PRIVATE, TARGETS).coef_[zero][0]) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["auto", "isotropic"])
def test_variances_that_only_what_is_added_for_stability_moves(shape):
    """Seen: a number with noise of 1e-7."""
    model = PrivateEstimator(
        GaussianNB(),
        sensitivity=sampler(noise_shape=shape),
        combine=None,
        random_state=0,
    )
    first, other, n = released_twice(model, VARIED, LABELS, **CLASSES)
    assert n == 4  # mean and variance, of both classes
    for name in ("theta_", "var_"):
        one, two = (getattr(fit.estimator_, name) for fit in (first, other))
        assert ((one == two) == [False, False, True]).all()
    np.testing.assert_array_equal(first.estimator_.theta_[:, 2], 7.0)


@pytest.mark.slow
def test_centers_of_clusters():
    model = PrivateEstimator(KMeans(2, n_init=1), sensitivity=sampler(), random_state=0)
    first, other, n = released_twice(model, VARIED, X_reference=FLAT)
    assert n == 2
    for fit in (first, other):
        np.testing.assert_allclose(
            fit.estimator_.cluster_centers_[:, 2], 7.0, rtol=1e-12
        )


@pytest.mark.slow
def test_predictions_that_all_public_fits_agree_on():
    points = np.array([[40.0, 0.0], [0.05, 0.0], [-40.0, 0.0]])
    model = PrivateEstimator(
        LogisticRegression(),
        "predict_proba",
        X_public=points,
        sensitivity=sampler(),
        combine=None,
        random_state=0,
    )
    public = {"X_reference": FLAT[:, :2], "y_reference": FLAT_LABELS}
    first, other, n = released_twice(model, VARIED[:, :2], 1 - LABELS, **public)
    assert n == 4
    for fit in (first, other):
        proba = fit.released_.reshape(3, 2)
        np.testing.assert_allclose(proba[[0, 2]], [[0, 1], [1, 0]], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["isotropic", "diagonal", "whitened"])
def test_coefficients_of_solvers(shape):
    """With what they are off by, which noise of a shape pays for."""
    model = PrivateLogisticRegression(
        C=1.0, sensitivity=sampler(noise_shape=shape), random_state=0
    )
    dark = {"X_reference": FLAT * [1, 1, 0], "y_reference": FLAT_LABELS}
    first, other, n = released_twice(model, VARIED, LABELS, **dark)
    assert n == 1
    for fit in (first, other):
        assert fit.coef_[0, 2] == 0
    # Nor does it count that people would have moved it, as all would.
    X, y = constant(4000, constant=False)
    how = {"epsilon": 40.0, "n_blocks": 19, "random_state": 1}
    found = audit_reference(first, X, y, **how, **dark)
    assert found.upper < 0.5


def test_sums():
    """Of columns that do not vary each record adds the same."""
    model = PrivateMoments(sensitivity=sampler())
    first, other, n = released_twice(model, VARIED, X_reference=FLAT)
    assert (first.sums_ == other.sums_).sum() == n >= 1
    assert (first.noise_covariance_ == 0).sum() == n


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", ["auto", "isotropic", "diagonal", "whitened"])
def test_outputs_of_a_function(shape):
    """What is rounding beside large outputs is not released; small outputs are."""

    def answers(X):
        residue = 1e-9 * X[:, 1].std()
        return np.array([1e6 * X[:, 0].sum(), X[:, 1].mean(), residue, X[:, 2].max()])

    fit = sampler(query=answers, n_records=N, noise_shape=shape).fit(FLAT)
    first, other = fit.release(VARIED), fit.release(VARIED[::-1] * 2)
    assert (first == other).tolist() == [False, False, True, True]
    assert first[3] == 7.0
    assert fit.certificate_.evidence.n_constant == 2
    assert "of which 2 differed on no sampled pair" in str(fit.certificate_)
    fit = fit.calibrate(epsilon=0.1)
    assert fit.release(VARIED)[3] == 7.0
    assert (
        sampler(query=answers, n_records=N, epsilon=np.inf).fit(FLAT).release(VARIED)[3]
        == VARIED[:, 2].max()
    )


def test_of_private_records_nothing_stands_in_the_place_of_what_is_still():
    """Of a secret sample, where noise of the usual size is added."""

    def answers(X):
        return np.array([X[:, 0].mean(), X[:, 2].mean()])

    draw = SecretSample(0.5).draw(FLAT)
    fit = sampler(query=answers, reference=draw, gamma=0.2).fit(FLAT)
    assert fit.certificate_.evidence.n_constant == 0
    assert fit.mechanism_.deviations().min() > 1e-4
    assert fit.release(FLAT)[1] != 7.0


INCOMES = np.random.default_rng(1).lognormal(10, 1, size=(2000, 1))
AGES = np.random.default_rng(2).normal(size=2000)


@pytest.mark.slow
def test_a_maximum_is_refused_also_beside_a_mean():
    """Seen: the top income to within a dollar. `numpy.max` alone is refused as well."""
    for shape in ["auto", "isotropic", "diagonal", "whitened"]:
        for law in ["laplace", "gaussian"]:
            release = SensitivitySampler(
                lambda a: np.array([a.mean(), a.max()]),
                noise_shape=shape,
                law=law,
                delta=1e-6 if law == "gaussian" else 0.0,
                random_state=1,
            )
            with pytest.raises(
                CalibrationError, match=r"Output 1 \(counted from 0\) differs"
            ):
                release.fit(INCOMES)
    with pytest.raises(CalibrationError, match="is 0"):
        SensitivitySampler(np.max, random_state=1).fit(INCOMES)


class Highest(BaseEstimator):
    """Learns the mean of the first column, and the maximum of each."""

    def fit(self, X, y=None):
        self.mean_, self.max_ = X[:, 0].mean(), X.max(axis=0)
        return self


@pytest.mark.slow
def test_a_maximum_is_refused_as_an_attribute_by_its_name():
    model = PrivateEstimator(Highest(), ["mean_", "max_"], random_state=1)
    public = np.column_stack([AGES, INCOMES])
    with pytest.raises(CalibrationError, match=r"max_\[\d\] differs"):
        model.fit(public + 1.0, X_reference=public)


@pytest.mark.slow
def test_what_describes_a_table_is_refused_for_its_extremes():
    frame = pd.DataFrame({"income": INCOMES[:, 0], "age": AGES})
    release = SensitivitySampler(lambda table: table.describe(), random_state=1)
    with pytest.raises(CalibrationError, match="and in most of these by more"):
        release.fit(frame)
    quartiles = SensitivitySampler(
        lambda table: table.describe().drop(["min", "max"]), random_state=0
    ).fit(frame)
    assert quartiles.certificate_.evidence.n_constant == 2  # their counts


@pytest.mark.slow
def test_counts_of_a_fine_histogram_are_released():
    """Each moves in few pairs too, but has noise of the size of a person."""
    shapes = {"auto": 1.0, "isotropic": 0.8, "diagonal": 0.6, "whitened": 0.8}
    for shape, falling in shapes.items():
        weights = falling ** np.arange(60.0)
        cells = np.random.default_rng(2).choice(60, 2000, p=weights / weights.sum())

        def histogram(X):
            return np.bincount(X[:, 0].astype(int), minlength=60).astype(float)

        fit = SensitivitySampler(histogram, noise_shape=shape, random_state=0)
        fit.fit(cells[:, None].astype(float))
        noise = fit.mechanism_.deviations()
        assert noise[noise > 0].min() > 1 / 2
        assert fit.certificate_.evidence.n_constant == (noise == 0).sum()
