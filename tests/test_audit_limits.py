"""Limits of a risk from a noisy count: exact, against the laws of SciPy."""

from functools import cache

import numpy as np
import pytest
from counts import rejects_counts, seeds
from scipy import stats

from skparisk.audit import required_blocks
from skparisk.audit._limits import CountNoise, risk_limits
from skparisk.core.exact import noise_source, sample_discrete_laplace

CELLS = [
    (n_blocks, epsilon, confidence)
    for n_blocks in (1, 7, 40, 150)
    for epsilon in (0.3, 1.0, 4.0)
    for confidence in (0.5, 0.9, 0.95)
]
RISKS = (0.0, 1e-6, 0.004, 0.02, 0.05, 0.2, 0.5, 0.77, 0.98, 1.0)


@cache
def limits(count, n_blocks, epsilon, confidence):
    """Return the limits at a noisy count."""
    noise = CountNoise.at(epsilon)
    return risk_limits(count, n_blocks, noise=noise, confidence=confidence)


def noisy_law(n_blocks, risk, epsilon):
    """Return noisy counts and their probabilities: SciPy's two laws, convolved."""
    reach = int(np.ceil(50 / epsilon))
    noise = stats.dlaplace.pmf(np.arange(-reach, reach + 1), epsilon)
    blocks = stats.binom.pmf(np.arange(n_blocks + 1), n_blocks, risk)
    return np.arange(-reach, n_blocks + reach + 1), np.convolve(blocks, noise)


def coverage(n_blocks, risk, epsilon, confidence, limits_at=limits):
    """Return how often each limit holds: a sum over all noisy counts, no simulation."""
    counts, law = noisy_law(n_blocks, risk, epsilon)
    likely = law > 1e-14
    found = [
        limits_at(int(count), n_blocks, epsilon, confidence) for count in counts[likely]
    ]
    held = np.array([(lower <= risk, risk <= upper) for lower, upper in found])
    missed = 1 - law[likely].sum()  # counts as held
    return law[likely] @ held + missed


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cell", CELLS)
def test_each_limit_holds_with_its_confidence(cell):
    """At every risk, by an exact sum."""
    n_blocks, epsilon, confidence = cell
    for risk in RISKS:
        assert (
            coverage(n_blocks, risk, epsilon, confidence) >= confidence - 1e-10
        ).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_limits_are_tight(epsilon, confidence):
    """Just beyond a limit the noisy count is as improbable as it may be."""
    n_blocks = 30
    for count in (0, 3, 15, 27):
        lower, upper = limits(count, n_blocks, epsilon, confidence)
        tail = {}
        for name, risk in (("lower", lower), ("upper", upper)):
            counts, law = noisy_law(n_blocks, risk, epsilon)
            low = counts <= count if name == "upper" else counts >= count
            tail[name] = law[low].sum()
        assert lower < upper
        if upper < 1:
            assert 1 - confidence - 1e-6 < tail["upper"] <= 1 - confidence
            assert coverage(n_blocks, upper * (1 + 1e-9), epsilon, confidence)[
                1
            ] == pytest.approx(confidence, abs=1e-6)
        if lower > 0:
            assert 1 - confidence - 1e-6 < tail["lower"] <= 1 - confidence


def without_the_noise(count, n_blocks, epsilon, confidence):
    """Limits of Clopper and Pearson, as if there were no noise."""
    count = min(max(count, 0), n_blocks)
    tail = 1 - confidence
    upper = (
        stats.beta.ppf(1 - tail, count + 1, n_blocks - count) if count < n_blocks else 1
    )
    lower = stats.beta.ppf(tail, count, n_blocks - count + 1) if count else 0
    return lower, upper


def of_a_block_more(count, n_blocks, epsilon, confidence):
    """Limits as if there had been more blocks than there were."""
    return limits(count, int(1.1 * n_blocks) + 1, epsilon, confidence)


@pytest.mark.parametrize("broken", [without_the_noise, of_a_block_more])
def test_broken_limits_are_noticed(broken):
    """The sum finds risks at which they hold too rarely."""
    held = [coverage(40, risk, 0.3, 0.95, broken)[1] for risk in (0.02, 0.2, 0.5, 0.9)]
    assert min(held) < 0.94


def test_an_unclamped_count_would_exclude_all_risks():
    """At very low counts no risk is likely enough, so that the limit is that at 0."""
    assert limits(-50, 10, 1.0, 0.95) == (0.0, limits(0, 10, 1.0, 0.95).upper)
    assert limits(60, 10, 1.0, 0.95) == (limits(10, 10, 1.0, 0.95).lower, 1.0)
    assert limits(0, 10, 1.0, 0.95).upper > 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_blocks", "median"), [(100, 0.070), (200, 0.049), (400, 0.037)]
)
def test_figures_of_the_method(n_blocks, median):
    """The median upper limit at a true risk of 2 %, and how often it holds."""
    counts, law = noisy_law(n_blocks, 0.02, 1.0)
    middle = int(counts[np.searchsorted(law.cumsum(), 0.5)])
    assert limits(middle, n_blocks, 1.0, 0.95).upper == pytest.approx(median, abs=6e-4)
    assert coverage(n_blocks, 0.02, 1.0, 0.95)[1] >= 0.97


@pytest.mark.parametrize(
    ("gamma", "epsilon", "confidence", "risk"),
    [(0.3, 1.0, 0.95, None), (0.4, 0.3, 0.8, 0.1), (0.3, 2.0, 0.5, 0.0)],
)
def test_required_blocks_are_the_fewest(gamma, epsilon, confidence, risk):
    """With fewer the verdict "supported" is less likely than not, by brute force."""
    found = required_blocks(gamma, epsilon=epsilon, confidence=confidence, risk=risk)
    true = gamma / 2 if risk is None else risk

    def chance(n_blocks):
        counts, law = noisy_law(n_blocks, true, epsilon)
        most = -1
        while limits(most + 1, n_blocks, epsilon, confidence).upper <= gamma:
            most += 1
        return law[counts <= most].sum() if most >= 0 else 0.0

    assert found > 1
    assert chance(found) >= 0.5
    assert all(chance(fewer) < 0.5 for fewer in range(1, found))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": 1.0}, r"gamma must be a number in \(0, 1\), got 1.0"),
        ({"epsilon": 0}, "epsilon must be a finite number above 0, got 0"),
        ({"epsilon": np.inf}, "epsilon must be a finite number above 0, got inf"),
        ({"epsilon": 1e-7}, r"epsilon must be at least 2\*\*-20"),
        ({"confidence": 0.4}, r"confidence must be a number in \[0.5, 1\), got 0.4"),
        ({"confidence": 1}, r"confidence must be a number in \(0, 1\), got 1"),
        ({"risk": 0.19}, r"risk must be a number in \[0, 0.18\], 0.9 gamma, got 0.19"),
        ({"risk": True}, "risk must be a number in"),
        ({"risk": "low"}, "risk must be a number in"),
    ],
)
def test_wrong_parameters(arguments, message):
    """The message has the name, the value and what is allowed."""
    with pytest.raises(ValueError, match=message):
        required_blocks(**{"gamma": 0.2, "epsilon": 1.0, **arguments})


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 3.7, 5000.0])
def test_the_level_of_the_noise_is_not_above_what_is_charged(epsilon):
    """It is a rational number just below, and that of the limits."""
    noise = CountNoise.at(epsilon)
    assert noise.level <= epsilon
    if epsilon <= 4000:
        assert noise.level >= epsilon * (1 - 2.0**-19)
    assert noise.cdf(-1) == pytest.approx(1 - noise.cdf(0))
    assert noise.cdf(5) - noise.cdf(4) == pytest.approx(
        noise.pmf(np.array([5]))[0], abs=1e-12
    )


@seeds
@pytest.mark.parametrize(
    ("scale", "divisor"), [(7, 3), (5, 11), (1, 1), (2**40, 2**39)]
)
def test_noise_of_a_rational_scale_has_its_law(scale, divisor, seed):
    """The law of SciPy, and not one with a level 10 % off on either side."""
    drawn = sample_discrete_laplace(scale, 50_000, noise_source(seed), divisor=divisor)
    kept = np.arange(-4, 5)
    chosen = drawn.clip(-4, 4) + 4

    def law(level):
        inner = stats.dlaplace.pmf(kept[1:-1], level)
        ends = stats.dlaplace.sf(3, level)
        return [ends, *inner, ends]

    assert not rejects_counts(chosen, law(divisor / scale))
    for off in (0.9, 1.1):
        assert rejects_counts(chosen, law(off * divisor / scale))


@pytest.mark.parametrize("divisor", [0, 1.5, 2**52 + 1])
def test_a_divisor_is_a_whole_number(divisor):
    with pytest.raises(ValueError, match="divisor must be a whole number in"):
        sample_discrete_laplace(3, 1, noise_source(), divisor=divisor)
