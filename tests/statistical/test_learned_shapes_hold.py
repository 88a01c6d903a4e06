"""Risks hold on fresh pairs where the shape is learned and weighed, and only just."""

import numpy as np
import pytest
from laws import FALSE_ALARM, SEEDS, exceeds
from noise_plans import learned_shape
from scipy import stats

from skparisk import SensitivitySampler
from skparisk.core.calibrate import Target
from skparisk.queries import RidgeQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import calibrate, sample_differences

GAMMA, N_RECORDS = 0.1, 100


@pytest.mark.parametrize("seed", SEEDS)
def test_risk_of_the_default_is_that_of_fresh_pairs(seed):
    """For a table in units of its own; at 0.9 and 1.1 of the noise the test fails."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(5, size=(2000, 6)) * np.geomspace(1e-2, 1e2, 6) + 3.0
    y = X @ np.geomspace(1e2, 1e-2, 6) + rng.standard_t(3, size=2000)
    table = TableReference(X, y)
    query = RidgeQuery(10.0)
    sampler = SensitivitySampler(
        query,
        gamma=GAMMA,
        reference=table,
        n_records=N_RECORDS,
        n_pairs=20_000,
        random_state=seed,
    ).fit(X, y)
    assert sampler.pairs_.weights is not None
    evidence = sampler.certificate_.require_evidence()
    assert (evidence.noise_shape, evidence.n_shape_pairs) == ("whitened", 2048)
    fresh = sample_differences(
        query,
        table,
        n_pairs=20_000,
        n_records=N_RECORDS,
        n_features=6,
        random_state=seed + 10_000,
    )
    losses = np.abs(sampler.mechanism_.shape.whiten(fresh)).sum(axis=1)
    losses /= sampler.noise_scale_
    # The risk over fresh pairs, given the sample, is a beta variable.
    above = evidence.n_pairs + 1 - evidence.order_index
    counts = stats.betabinom(len(fresh), above, evidence.order_index)
    less, same, more = (np.count_nonzero(losses > share) for share in (0.9, 1, 1.1))
    assert counts.sf(same - 1) > FALSE_ALARM
    assert counts.cdf(same) > FALSE_ALARM
    assert counts.sf(less - 1) < FALSE_ALARM
    assert counts.cdf(more) < FALSE_ALARM


def test_pairs_that_made_the_shape_cannot_calibrate():
    """One fresh pair after each of many calibrations, with or without a weight."""
    n_calibrations, n_pairs, k = 600, 60, 20
    weights = np.diag(np.geomspace(1, 100, k))
    violations = {"others": 0, "the same": 0}
    rng = np.random.default_rng(0)
    for _ in range(n_calibrations):
        first, second = rng.standard_t(5, size=(2, n_pairs, k))
        fresh = rng.standard_t(5, size=(1, k))
        shape = learned_shape("whitened", first, weights=weights)
        for name, pairs in (("others", second), ("the same", first)):
            noise, _ = calibrate(pairs, Target(1.0, GAMMA), shape=shape, n_records=9)
            length = np.abs(shape.whiten(fresh)).sum()
            violations[name] += bool(length > noise.noise_scale)
    assert not exceeds(violations["others"], n_calibrations, GAMMA)
    assert exceeds(violations["the same"], n_calibrations, GAMMA)
