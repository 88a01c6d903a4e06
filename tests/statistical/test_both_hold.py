"""Risks over pairs and noise hold on fresh pairs and fresh noise, and only just.

The noise is what the mechanism really adds, and the loss is computed from what it
releases. Records have outputs of different sizes that depend on each other, and some
records are far out.
"""

from functools import cache

import numpy as np
import pytest
from laws import FALSE_ALARM, SEEDS, exceeds
from scipy import stats

from skparisk import SensitivitySampler
from skparisk.core.calibrate import PAC, Target
from skparisk.core.exact import noise_source
from skparisk.core.noise import AdditiveNoise
from skparisk.core.pairs import SampledPairs
from skparisk.queries import MeanQuery
from skparisk.reference import CallableReference
from skparisk.sensitivity import calibrate, sample_differences

GAMMA, N_PAIRS = 0.2, 30_000
N_FRESH = {1: 20_000, 2: 20_000, 6: 20_000, 20: 12_000, 64: 12_000}
N_RECORDS = 3


def reference(k):
    """Return records of `k` features with a covariance that is far from even."""
    mixing = np.linalg.cholesky(0.6 + 0.4 * np.eye(k)) * np.geomspace(1, 5, k)

    def draw(n_records, rng):
        size = np.exp(0.3 * rng.normal(size=(n_records, 1)))
        return size * (rng.normal(size=(n_records, k)) @ mixing)

    return CallableReference(draw)


@cache
def sampled(k, seed):
    """Return a sampler, and the differences of fresh pairs."""
    sampler = SensitivitySampler(
        MeanQuery(),
        gamma=GAMMA,
        randomness="both",
        reference=reference(k),
        n_records=N_RECORDS,
        n_pairs=N_PAIRS,
        random_state=seed,
    ).fit(np.zeros((2, k)))
    fresh = sample_differences(
        MeanQuery(),
        reference(k),
        n_pairs=N_FRESH[k],
        n_records=N_RECORDS,
        n_features=k,
        random_state=seed + 10_000,
    )
    return sampler, fresh


def standard_draws(noise, size):
    """Return what is released of zeros, in the coordinates and units of the noise."""
    released = noise.prepare(np.zeros((size, noise.n_outputs)))(noise_source(0))
    return noise.shape.whiten(released) / noise.noise_scale


def count_violations(sampler, differences, draws, share=1.0):
    """Count losses beyond epsilon at `share` times the noise that was calibrated."""
    noise = sampler.mechanism_
    shifts = noise.shape.whiten(differences) / (share * noise.noise_scale)
    return violations_of(noise.law.name, shifts, draws)


def violations_of(law, shifts, draws):
    """Count losses beyond epsilon = 1 for shifts and draws in units of the noise."""
    power = {"laplace": 1, "gaussian": 2}[law]
    away, near = np.abs(draws + shifts), np.abs(draws)
    losses = ((away**power - near**power) / power).sum(axis=1)
    return int(np.count_nonzero(np.abs(losses) > 1 + 1e-9))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", ["isotropic", "whitened"])
@pytest.mark.parametrize("k", N_FRESH)
def test_losses_exceed_epsilon_at_most_at_the_risk(k, shape, seed):
    """Both ways: at 0.9 of the noise the same tests fail, for six outputs or more."""
    sampler, fresh = sampled(k, seed)
    sampler.set_params(noise_shape=shape)
    # All but one sample in ten million: then the risk is at most gamma, and the
    # binomial test is exact.
    pac = sampler.set_params(calibration=PAC(1e-7)).calibrate()
    draws = standard_draws(pac.mechanism_, len(fresh))
    assert not exceeds(count_violations(pac, fresh, draws), len(fresh), GAMMA)
    # The risk over fresh pairs and noise, given the sample, is a beta variable.
    ranked = sampler.set_params(calibration="exchangeable").calibrate()
    certificate = ranked.certificate_
    evidence = certificate.evidence
    above = evidence.n_pairs + 1 - evidence.order_index
    counts = stats.betabinom(len(fresh), above, evidence.order_index)
    violations = [
        count_violations(ranked, fresh, draws, share) for share in (0.9, 1, 1.1)
    ]
    assert counts.sf(violations[1] - 1) > FALSE_ALARM
    if k >= 6:
        assert exceeds(count_violations(pac, fresh, draws, 0.9), len(fresh), GAMMA)
        assert counts.sf(violations[0] - 1) < FALSE_ALARM
        assert counts.cdf(violations[1]) > FALSE_ALARM
        assert counts.cdf(violations[2]) < FALSE_ALARM


N_CALIBRATIONS = 800
SMALL = 59  # pairs that calibrate


@pytest.mark.parametrize("shape", ["isotropic", "whitened"])
@pytest.mark.parametrize(
    "law", ["gaussian", "laplace"], ids=["risk control", "laplace"]
)
def test_risk_is_over_the_sampled_pairs_as_well(law, shape):
    """One fresh pair and draw after each of many calibrations with few pairs."""
    k, n_pairs = 6, SMALL if shape == "isotropic" else 2 * SMALL
    rng = np.random.default_rng(1)
    records = reference(k).sample(2 * N_CALIBRATIONS * (n_pairs + 1), rng)
    differences = (records[::2] - records[1::2]).reshape(N_CALIBRATIONS, -1, k)
    unit = AdditiveNoise.at_least(law, 1.0, n_outputs=k)
    draws = standard_draws(unit, N_CALIBRATIONS)
    shifts, risks = [], []
    for seed, (*pairs, fresh) in enumerate(differences):
        noise, certificate = calibrate(
            SampledPairs(np.array(pairs), None, np.zeros(k), draw_seed=seed),
            Target(1.0, GAMMA, randomness="both"),
            law=law,
            shape=shape,
            n_records=1,
        )
        shifts.append(noise.shape.whiten(fresh) / noise.noise_scale)
        risks.append(certificate.risk)
    assert max(risks) <= GAMMA
    for share, too_often in ((1.0, False), (0.7, True)):
        count = violations_of(law, np.array(shifts) / share, draws)
        assert exceeds(count, N_CALIBRATIONS, GAMMA) is too_often


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_left_of_outputs_has_a_risk_on_average_only(seed):
    """Noise of outputs that are not released hid the loss of those that are.

    More losses exceed the level than the risk says, and the claim is about events.
    """
    n_cells, n_copies, gamma = 5000, 4, 0.05

    def query(X):
        cells = 0.02 * np.bincount(X[:, 0].astype(int), minlength=n_cells)
        return np.append(np.full(n_copies, float(len(X))), cells)

    def draw(n_records, rng):
        return rng.integers(n_cells, size=(n_records, 1)).astype(float)

    sampler = SensitivitySampler(
        query,
        gamma=gamma,
        randomness="both",
        relation="add-remove",
        noise_shape="isotropic",
        n_pairs=399,
        reference=CallableReference(draw),
        n_records=5,
        random_state=seed,
    ).fit(np.zeros((5, 1)))
    certificate, noise = sampler.certificate_, sampler.mechanism_
    assert certificate.evidence.n_constant > 0
    assert certificate.post_processed
    assert "on average" in str(certificate)
    n_fresh = 40_000
    moves = np.full((n_fresh, n_copies + 1), 1.0)
    moves[:, -1] = 0.02 * (np.random.default_rng(seed).random(n_fresh) < 0.06)
    draws = np.random.default_rng(seed + 1).laplace(size=moves.shape)
    shifts = moves / noise.noise_scale
    losses = (np.abs(draws + shifts) - np.abs(draws)).sum(axis=1)
    beyond = np.maximum(0, -np.expm1(certificate.epsilon - losses))
    assert beyond.mean() <= gamma
    assert exceeds(int((losses > certificate.epsilon).sum()), n_fresh, gamma)
