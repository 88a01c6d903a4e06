"""Certificates of moments hold for people, and intervals hold what they should."""

import numpy as np
import pytest
from laws import FALSE_ALARM, SEEDS
from scipy import stats

from skparisk import PrivateMoments, SensitivitySampler
from skparisk.moments import ReleasedSums, fit_ols

GAMMA = 0.1


def people(n, rng):
    """Return heavy-tailed features, and a target that is linear in them."""
    X = rng.standard_t(4, size=(n, 2))
    return X, X @ [1.0, -0.5] + rng.standard_t(4, size=n)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_risk_holds_for_new_people(seed):
    """Whom no table has seen; at 0.9 and 1.1 of the noise the test fails."""
    rng = np.random.default_rng(seed)
    X, y = people(50_000, rng)
    moments = PrivateMoments(
        gamma=GAMMA, sensitivity=SensitivitySampler(n_pairs=20_000), random_state=seed
    ).fit(*people(20, rng), X_reference=X, y_reference=y)
    sampler = moments.sampler_
    evidence = moments.certificate_.require_evidence()
    assert evidence.for_new_people is None  # each row is in one pair
    assert evidence.n_pairs + evidence.n_shape_pairs == 20_000
    z = [sampler.query_._whole(*people(20_000, rng)) for _ in range(2)]
    i, j = np.triu_indices(3)
    one, other = (
        np.concatenate([each, each[:, i] * each[:, j]], axis=1) * sampler.query_._steps
        for each in z
    )
    losses = np.abs(sampler.mechanism_.shape.whiten(one - other)).sum(axis=1)
    losses /= sampler.noise_scale_
    # The risk over fresh pairs, given the sample, is a beta variable.
    above = evidence.n_pairs + 1 - evidence.order_index
    counts = stats.betabinom(len(losses), above, evidence.order_index)
    less, same, more = (np.count_nonzero(losses > share) for share in (0.9, 1, 1.1))
    assert counts.sf(same - 1) > FALSE_ALARM
    assert counts.cdf(same) > FALSE_ALARM
    assert counts.sf(less - 1) < FALSE_ALARM
    assert counts.cdf(more) < FALSE_ALARM


def coverage(share, n_releases=2000):
    """Return how often 95 % intervals hold, with a share of the noise accounted for."""
    rng = np.random.default_rng(7)
    n, d, beta = 400, 3, np.array([0.5, -0.3])
    bias, held = 0.2, []
    noise = np.diag(np.full(9, 12.0**2))
    for _ in range(n_releases):
        X = rng.normal(loc=[0.3, 0.0], size=(n, 2))
        y = bias + X @ beta + rng.normal(size=n)
        Z = np.column_stack([X, y])
        i, j = np.triu_indices(d)
        sums = np.concatenate([Z.sum(axis=0), (Z.T @ Z)[i, j]])
        sums += rng.laplace(scale=12 / 2**0.5, size=9)
        told = ReleasedSums(sums, share**2 * noise, n, np.zeros(d), np.ones(d))
        low, high = fit_ols(told, np.arange(2), 2).confint().T
        truth = np.array([bias, *beta])
        held.append((low <= truth) & (truth <= high))
    return np.mean(held, axis=0)


def test_intervals_hold_the_coefficients():
    """In 95 of 100 releases, within a point; fewer if the noise is not known."""
    assert np.abs(coverage(1.0) - 0.95).max() < 0.01 + 2 * (0.05 * 0.95 / 2000) ** 0.5
    assert coverage(0.5).max() < 0.93
    assert coverage(1.5).min() > 0.96
