"""What is certified for several neighbors of each database, by plain formulas.

What is exchangeable is a database, which counts the mean of its neighbors; and a fresh
one counts as one more database, at the most.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from skparisk.core.calibrate import Target
from skparisk.core.pairs import SampledPairs
from skparisk.exceptions import CalibrationError
from skparisk.sensitivity import calibrate

N, R = 99, 4


def groups(n_databases=N, r=R, k=1, **known):
    """Return pairs of which those of one database are alike."""
    rng = np.random.default_rng(1)
    sizes = np.repeat(rng.lognormal(sigma=0.7, size=n_databases), r)
    differences = sizes[:, None] * rng.uniform(0.8, 1.2, size=(n_databases * r, k))
    return SampledPairs(differences, None, np.zeros(k), n_neighbors=r, **known)


def mean_of(numbers, r):
    """Return what is certified of these, with a fresh database that counts as 1."""
    return (np.sum(numbers) / r + 1) / (len(numbers) // r + 1)


def gaussian_gain(a):
    return 2 * ndtr(a / 2) - 1


def laplace_gain(a):
    return -np.expm1(-a / 2)


GAINS = {"laplace": laplace_gain, "gaussian": gaussian_gain}
every_law = pytest.mark.parametrize("law", GAINS)


def asked(law, **target):
    return Target(1.0, 0.1, **({"delta": 1e-4} if law == "gaussian" else {}) | target)


def test_gains_are_read_one_database_below():
    for law in GAINS:
        for r in [1, R]:
            pairs = groups(r=r)
            noise, claim = calibrate(pairs, asked(law), law=law, n_records=10)
            measured, distances = (
                claim.evidence.advantage,
                np.abs(pairs.differences[:, 0]),
            )
            index, ordered = claim.evidence.order_index, np.sort(distances)
            below = noise.noise_scale * ordered[index - 1 - r] / ordered[index - 1]
            gained = GAINS[law](distances / below)
            assert measured.mean == pytest.approx(mean_of(gained, r), rel=1e-4)


@pytest.mark.parametrize("r", [1, R])
def test_other_levels_of_a_risk_over_the_noise_count_databases(r):
    def risks(scale, level=1.0):
        a = distances / scale
        return ndtr(a / 2 - level / a) + ndtr(-a / 2 - level / a)

    pairs = groups(r=r)
    distances = np.abs(pairs.differences[:, 0])
    target = Target(1.0, 0.1, randomness="both")
    noise, claim = calibrate(pairs, target, law="gaussian", n_records=10)
    assert mean_of(risks(noise.noise_scale), r) == pytest.approx(0.1, rel=1e-4)
    # At the scale below, the fresh database is not counted a second time.
    allowed = 0.1 * (N + 1)
    below = brentq(lambda s: risks(s).sum() / r - allowed, 1e-3, 1e3, xtol=1e-14)
    levels, certified = np.transpose(claim.evidence.curve)
    expected = [mean_of(risks(below, level), r) for level in levels]
    np.testing.assert_allclose(certified, expected, rtol=1e-3)


def test_noise_for_an_advantage_counts_databases():
    for law in GAINS:
        for r in [1, R]:
            pairs = groups(r=r)
            distances = np.abs(pairs.differences[:, 0])
            target = Target.of_advantage(0.1)
            noise, claim = calibrate(pairs, target, law=law, n_records=10)
            gained = GAINS[law](distances / noise.noise_scale)
            assert mean_of(gained, r) == pytest.approx(0.1, rel=1e-4)
            assert claim.evidence.advantage.mean == 0.1


def test_pairs_that_differ_by_rounding_alone_ask_for_no_noise():
    """Most of these: it would be for nothing but rounding errors."""
    for target, message in [
        (Target.of_advantage(0.1), r"at advantage=0\.1 is 0"),
        (Target(1.0, 0.1, randomness="both"), r"at gamma=0\.1 is 0"),
        (Target(1.0, 0.1, 1e-6), r"at gamma=0\.1 is 0"),
    ]:
        differences = np.full((99, 1), 1e-9)
        differences[:5] = 1
        pairs = SampledPairs(differences, None, np.full(1, 1e-9))
        how = {"law": "gaussian", "n_records": 10}
        with pytest.raises(CalibrationError, match=message):
            calibrate(pairs, target, **how)
        alone = SampledPairs(differences, None, np.zeros(1))
        noise, _ = calibrate(alone, target, **how)
        assert noise.noise_scale > 0


@pytest.mark.parametrize("rule", ["exchangeable", "pac", "dkw"])
def test_draws_are_counted_by_the_rule(rule):
    differences = np.random.default_rng(0).laplace(size=(1999, 1))
    target = Target(1.0, 0.1, randomness="both")
    how = {"rule": rule, "n_records": 10, "random_state": 0}
    _, claim = calibrate(differences, target, **how)
    if rule == "exchangeable":
        assert claim.evidence.order_index == 1999 - 199
        assert claim.risk == pytest.approx(0.1)
    else:
        assert claim.evidence.order_index > 1999 - 199
        assert claim.risk < 0.1
    (none, told) = calibrate(differences, Target(math.inf, 0.1, 0.0, "both"), **how)
    assert none.noise_scale == 0
    assert (told.risk, told.evidence.order_index) == (
        claim.risk,
        claim.evidence.order_index,
    )
