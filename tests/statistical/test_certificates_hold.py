"""Certificates hold on fresh pairs, and the test would notice if they did not.

Each calibration is followed by one fresh pair, so that the violations of all
calibrations are independent and the exact binomial test applies: the certified
risk is over the fresh pair and the calibration together.
"""

import numpy as np
import pytest
from laws import SEEDS, exceeds, violates

from skparisk import SensitivitySampler
from skparisk.core.calibrate import PAC
from skparisk.exceptions import CalibrationError
from skparisk.queries import MeanQuery, RidgeQuery
from skparisk.reference import CallableReference, TableReference
from skparisk.sensitivity import sample_differences

GAMMA = 0.2
N_CALIBRATIONS = 400
RATE = 2.0


def exponential(n_records, rng):
    return rng.exponential(1 / RATE, size=(n_records, 1))


def linear(n_records, rng):
    X = rng.normal(size=(n_records, 3))
    return X, X @ [1.0, -2.0, 0.5] + rng.normal(size=n_records)


CASES = {
    "mean": (MeanQuery(), exponential, 20, 1),
    "median": (np.median, exponential, 20, 1),
    "ridge": (RidgeQuery(), linear, 30, 3),
    "record": (None, exponential, 1, 1),
}


def fresh_losses(
    case, seed=0, n_calibrations=N_CALIBRATIONS, relation="replace-one", **parameters
):
    """Return the loss of one fresh pair after each calibration, over epsilon."""
    query, draw, n_records, n_features = CASES[case]
    reference = CallableReference(draw)
    X, y = np.zeros((2, n_features)), np.zeros(2)
    losses, refused = [], 0
    for seeds in np.random.default_rng(seed).integers(2**31, size=(n_calibrations, 2)):
        sampler = SensitivitySampler(
            query,
            gamma=GAMMA,
            reference=reference,
            n_records=n_records,
            relation=relation,
            random_state=int(seeds[0]),
            # A shape takes pairs of its own, and fewer are not as tight.
            **{"n_pairs": 49, "noise_shape": "isotropic"} | parameters,
        )
        try:
            sampler.fit(X, y)
        except CalibrationError:  # a median that moves in few of the pairs
            refused += 1
            losses.append(0.0)  # is not released
            continue
        fresh = sample_differences(
            sampler.query_,
            reference,
            n_pairs=1,
            n_records=n_records,
            n_features=n_features,
            relation=relation,
            random_state=int(seeds[1]),
        )
        losses.append(np.abs(fresh).sum() / sampler.noise_scale_ / sampler.epsilon)
    assert refused <= 0.01 * n_calibrations
    return np.array(losses)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("case", ["mean", "median", "ridge"])
def test_fresh_pairs_exceed_epsilon_at_most_at_the_risk(case, relation, seed):
    losses = fresh_losses(case, seed, relation=relation)
    assert not violates(losses, GAMMA)
    assert violates(losses, GAMMA, noise=0.5)


def test_records_by_themselves_are_certified_too():
    losses = fresh_losses("record")
    assert not violates(losses, GAMMA)
    assert violates(losses, GAMMA, noise=0.5)


def test_pac_fails_for_its_share_of_samples_only():
    """The true risk of a mean of exponentials is exp(-rate n Delta)."""
    n_records, failure_prob, n_samples = 20, 0.05, 1000
    sampler = SensitivitySampler(
        MeanQuery(),
        gamma=GAMMA,
        calibration=PAC(failure_prob),
        reference=CallableReference(exponential),
        n_records=n_records,
        n_pairs=120,
    )
    scales = [
        sampler.set_params(random_state=seed).fit(np.zeros((2, 1))).noise_scale_
        for seed in range(n_samples)
    ]

    def failures(noise):
        risks = np.exp(-RATE * n_records * noise * np.array(scales))
        return np.count_nonzero(risks > GAMMA)

    assert not exceeds(failures(1.0), n_samples, failure_prob)
    assert exceeds(failures(0.9), n_samples, failure_prob)


@pytest.mark.parametrize("calibration", ["pac", "dkw"])
def test_other_calibrations_are_safe_too(calibration):
    losses = fresh_losses("mean", calibration=calibration, n_pairs=120)
    assert not violates(losses, GAMMA)


def test_exchangeable_calibration_is_tight():
    """The risk is not only at most gamma but, for K/(m + 1) = 1 - gamma, equal."""
    losses = fresh_losses("mean", n_calibrations=8000)

    def too_safe(noise):
        within = np.count_nonzero(losses <= noise)
        return exceeds(within, len(losses), 1 - GAMMA)

    assert not violates(losses, GAMMA)
    assert not too_safe(1.0)
    assert violates(losses, GAMMA, noise=0.9)
    assert too_safe(1.1)


@pytest.mark.parametrize("gamma", [0.02, 0.0775, 0.135, 0.25])
@pytest.mark.parametrize("n_records", [10, 100])
def test_sampled_sensitivity_of_a_mean_tends_to_the_analytic_one(gamma, n_records):
    """Rubinstein Example 6 and Figure 4: ln(1 / gamma) / (rate n)."""
    sampler = SensitivitySampler(
        MeanQuery(),
        gamma=gamma,
        reference=CallableReference(exponential),
        n_records=n_records,
        n_pairs=20_000,
        random_state=0,
    ).fit(np.zeros((2, 1)))
    analytic = np.log(1 / gamma) / (RATE * n_records)
    # Standard error of the quantile: sqrt((1 - gamma) / (gamma m)) / ln(1 / gamma).
    error = np.sqrt((1 - gamma) / (gamma * 20_000)) / np.log(1 / gamma)
    assert abs(sampler.sensitivity_ / analytic - 1) < 5 * error


def test_rows_that_are_used_once_certify_the_population():
    """Pairs of such rows hold for fresh records of the population."""
    rng = np.random.default_rng(0)
    violations = 0
    for seed in range(N_CALIBRATIONS):
        table = TableReference(exponential(500, rng), sampling="split")
        sampler = SensitivitySampler(
            MeanQuery(),
            gamma=GAMMA,
            reference=table,
            n_records=20,
            n_pairs=19,
            random_state=seed,
        ).fit(np.zeros((2, 1)))
        fresh = np.abs(np.diff(exponential(2, rng), axis=0)).item() / 20
        violations += fresh > sampler.noise_scale_ * sampler.epsilon
    assert not exceeds(violations, N_CALIBRATIONS, GAMMA)
    assert violations > 0.1 * N_CALIBRATIONS
