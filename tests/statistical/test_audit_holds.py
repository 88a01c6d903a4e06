"""Audits, end to end: limits hold, honest references pass, narrow ones are found."""

import numpy as np
import pytest
from laws import assert_binomial_at_most, exceeds
from scipy import stats

from skparisk import SensitivitySampler
from skparisk.audit import required_blocks
from skparisk.audit._audit import Audited
from skparisk.audit._blocks import BlockJudge, count_exceeding, cut_blocks
from skparisk.audit._limits import CountNoise, risk_limits
from skparisk.queries import MeanQuery
from skparisk.reference import CallableReference

GAMMA, CONFIDENCE, EPSILON, SIZE, N_BLOCKS = 0.2, 0.95, 1.0, 22, 60
RUNS = 800
NOISE = CountNoise.at(EPSILON)


def sampler(spread=1.0, n_pairs=19_999, **parameters):
    """Return what calibrates to numbers of a spread, at a level of 1."""
    reference = CallableReference(
        lambda n, rng: rng.exponential(scale=spread, size=(n, 1))
    )
    return SensitivitySampler(
        MeanQuery(),
        gamma=GAMMA,
        n_pairs=n_pairs,
        reference=reference,
        random_state=0,
        **parameters,
    )


def judge_of(asked):
    """Return the judge of blocks, calibrated for their size."""
    what = Audited.of(asked, None, None)
    found = what.calibrate(SIZE - 1, None, np.random.SeedSequence(0))
    return BlockJudge.of(found.sampler)


def true_risk(judge, n=40_000):
    """Return the share of many pairs of the population that exceed the level."""
    rng = np.random.default_rng(10)
    X = rng.exponential(size=(n * 2, 1))
    # A mean moves by two records alone: n pairs of two, in units of databases.
    moves = np.abs(X[:n] - X[n:])[:, 0] / (SIZE - 1)
    unit = judge.law.unit_noise(judge.target.epsilon, 0.0, 1)
    return (moves * unit.scale > judge.noise_scale).mean()


def audits(judge, runs=RUNS):
    """Return the limits of many audits, each on people of its own."""
    rng, found = np.random.default_rng(3), []
    for run in range(runs):
        X = rng.exponential(size=(N_BLOCKS * SIZE, 1))
        blocks = cut_blocks((X, None), N_BLOCKS, SIZE, np.random.SeedSequence(run))
        count = count_exceeding(judge, blocks)
        noise = stats.dlaplace.rvs(EPSILON, random_state=rng)
        found.append(count + noise)
    return np.array(found)


def limits(counts, noise=NOISE):
    """Return the lower and upper limits at these counts."""
    known = {
        count: risk_limits(count, N_BLOCKS, noise=noise, confidence=CONFIDENCE)
        for count in {*counts.tolist()}
    }
    return np.array([known[count] for count in counts.tolist()]).T


@pytest.fixture(scope="module")
def honest():
    """A reference that is the population, and the counts of audits of it."""
    judge = judge_of(sampler())
    return true_risk(judge), audits(judge)


def test_limits_hold_as_often_as_they_say(honest):
    """Each of them; and limits that leave the noise out do not."""
    risk, counts = honest
    lower, upper = limits(counts)
    assert_binomial_at_most(int((upper < risk).sum()), RUNS, 1 - CONFIDENCE)
    assert_binomial_at_most(int((lower > risk).sum()), RUNS, 1 - CONFIDENCE)
    # All of the noise is what the limits are for: at a tenth of it they fail.
    noisier = counts + np.random.default_rng(4).geometric(0.1, RUNS)
    noisier -= np.random.default_rng(5).geometric(0.1, RUNS)
    lower, upper = limits(noisier)
    assert exceeds(int((upper < risk).sum()), RUNS, 1 - CONFIDENCE)
    # Nor do those of a count to which each audit adds 4 blocks that it did not see.
    lower, _ = limits(counts + 4)
    assert exceeds(int((lower > risk).sum()), RUNS, 1 - CONFIDENCE)


def test_an_honest_reference_is_rarely_contradicted(honest):
    """Its risk is just below what is asked for, so that it is rarely supported, too."""
    risk, counts = honest
    assert risk == pytest.approx(GAMMA, abs=0.015)
    lower, _ = limits(counts)
    assert_binomial_at_most(int((lower > GAMMA).sum()), RUNS, 1 - CONFIDENCE)


def test_the_count_has_the_law_that_theory_gives_it(honest):
    """Binomial of the true risk, with the noise: its mean and its spread."""
    risk, counts = honest
    variance = N_BLOCKS * risk * (1 - risk) + stats.dlaplace.var(EPSILON)
    off = (counts.mean() - N_BLOCKS * risk) / np.sqrt(variance / RUNS)
    assert abs(off) < 5
    assert counts.var() == pytest.approx(variance, rel=0.2)


def test_a_wide_reference_is_supported_as_often_as_planned():
    """At a true risk of half of what is asked for: at least every other time."""
    wanted = required_blocks(GAMMA, epsilon=EPSILON)
    assert wanted <= N_BLOCKS
    # The difference of two exponentials is above x with probability exp(-x).
    judge = judge_of(sampler(np.log(GAMMA / 2) / np.log(GAMMA)))
    risk = true_risk(judge)
    assert risk == pytest.approx(GAMMA / 2, abs=0.02)
    counts = audits(judge, 400)
    _, upper = limits(counts)
    supported = int((upper <= GAMMA).sum())
    assert not exceeds(400 - supported, 400, 0.5)


def test_a_narrow_reference_is_contradicted():
    """At half the spread the true risk is 0.45: found out nearly always."""
    judge = judge_of(sampler(0.5))
    risk = true_risk(judge)
    assert risk == pytest.approx(np.sqrt(GAMMA), abs=0.03)
    lower, upper = limits(audits(judge, 200))
    assert (lower > GAMMA).mean() > 0.9
    assert_binomial_at_most(int((upper < risk).sum()), 200, 1 - CONFIDENCE)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_one_draw_of_the_noise_has_the_risk_that_is_claimed(law):
    """For a risk over noise and pair: over many blocks the share is gamma."""
    asked = sampler(n_pairs=2999, randomness="both", law=law)
    counts = audits(judge_of(asked), 100)
    n_all = 100 * N_BLOCKS
    share = counts.sum() / n_all
    assert share == pytest.approx(GAMMA, abs=0.03)
    narrow = sampler(0.5, 2999, randomness="both", law=law)
    assert audits(judge_of(narrow), 10).sum() / (10 * N_BLOCKS) > 0.3
