"""Certificates of wrapped estimators hold on fresh pairs.

Each fit is followed by one fresh pair, so that the exact binomial test applies to the
violations of all fits. Other than for queries by themselves, each fit has an anchor of
its own, and labels are sampled with the records.
"""

import numpy as np
import pytest
from laws import SEEDS, violates
from sklearn.base import is_classifier
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skparisk import PrivateEstimator, SensitivitySampler
from skparisk.core.calibrate import Target
from skparisk.reference import CallableReference
from skparisk.sensitivity import calibrate, sample_differences

GAMMA = 0.2
N_PAIRS = 9  # the second largest of them is exceeded at the risk GAMMA, and not below


def regression(n_records, rng):
    X = rng.normal(size=(n_records, 2))
    return X, X @ [1.0, -2.0] + rng.normal(size=n_records)


def classification(n_records, rng):
    """Two overlapping classes; a database without one is next to impossible."""
    y = rng.integers(2, size=n_records)
    return rng.normal(size=(n_records, 2)) + y[:, None], 1.0 * y


def clusters(n_records, rng):
    group = rng.integers(2, size=(n_records, 1))
    return rng.normal(size=(n_records, 2)) * [1.0, 2.0] + 4.0 * group


CASES = {
    "Ridge": (Ridge(), regression),
    "Lasso": (Lasso(0.1), regression),
    "LogisticRegression": (LogisticRegression(max_iter=10), classification),
    "LinearSVC": (LinearSVC(max_iter=30), classification),
    "GaussianNB": (GaussianNB(), classification),
    "PCA": (PCA(1), clusters),
    "StandardScaler": (StandardScaler(), clusters),
    "KMeans": (KMeans(2, n_init=1, max_iter=10), clusters),
}


def fresh_losses(case, seed, n_fits=120, n_records=40):
    """Return the loss of one fresh pair after each fit, over epsilon."""
    estimator, draw = CASES[case]
    reference = CallableReference(draw)
    sampler = SensitivitySampler(n_pairs=N_PAIRS, reference=reference)
    losses = []
    rng = np.random.default_rng(seed)
    for seeds in rng.integers(2**31, size=(n_fits, 2)):
        model = PrivateEstimator(
            estimator, gamma=GAMMA, sensitivity=sampler, random_state=int(seeds[0])
        )
        if is_classifier(estimator):
            model.set_params(classes=[0.0, 1.0])
        drawn = draw(n_records, rng)
        model.fit(*(drawn if isinstance(drawn, tuple) else (drawn,)))
        fresh = sample_differences(
            model.sampler_.query_,
            reference,
            n_pairs=1,
            n_records=n_records,
            n_features=2,
            random_state=int(seeds[1]),
        )
        losses.append(np.abs(fresh).sum() / model.noise_scale_ / model.epsilon)
    assert model.risk_ == GAMMA
    return np.array(losses)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", CASES)
def test_fresh_pairs_exceed_epsilon_at_most_at_the_risk(case, seed):
    losses = fresh_losses(case, seed)
    assert not violates(losses, GAMMA)
    assert violates(losses, GAMMA, noise=0.5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("forest", "draw"),
    [
        (RandomForestRegressor(10, max_depth=3, random_state=0), regression),
        (RandomForestClassifier(10, max_depth=3, random_state=0), classification),
    ],
    ids=["targets", "classes"],
)
def test_leaf_sums_hold_and_not_with_a_tenth_less_noise(forest, draw, seed):
    """Splits are fixed: many calibrations, each with a fresh pair, take no fits."""
    n_records, n_calibrations = 40, 2500
    reference = CallableReference(draw)
    sampler = SensitivitySampler(n_pairs=N_PAIRS, reference=reference)
    model = PrivateEstimator(forest, gamma=GAMMA, sensitivity=sampler, random_state=0)
    if is_classifier(forest):
        model.set_params(classes=[0.0, 1.0])
    model.fit(*draw(n_records, np.random.default_rng(seed)))
    differences = sample_differences(
        model.sampler_.query_,
        reference,
        n_pairs=n_calibrations * (N_PAIRS + 1),
        n_records=n_records,
        n_features=2,
        random_state=seed,
    )
    target = Target(1.0, GAMMA, randomness="implicit")
    losses = []
    for group in differences.reshape(n_calibrations, N_PAIRS + 1, -1):
        noise, certificate = calibrate(group[1:], target, n_records=n_records)
        losses.append(np.abs(group[0]).sum() / noise.noise_scale)
    assert certificate.risk == GAMMA
    assert not violates(np.array(losses), GAMMA)
    assert violates(np.array(losses), GAMMA, noise=0.9)
