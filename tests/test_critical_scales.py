"""Critical scales against bisection, exact fractions, high precision and their laws."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import SEEDS, assert_law, exceeds, rejects_law

from skparisk.core.losses import critical_scales, peak_losses

LARGEST, LEAST = sys.float_info.max, 5e-324

# The oracle computes in long double; where that is no more than double, it is the
# oracle that is less accurate.
LONG_EPS = float(np.finfo(np.longdouble).eps)
RTOL = 1e-12 if LONG_EPS < 1e-18 else 1e-8

derandomized = settings(derandomize=True, deadline=None, max_examples=80)


def laplace_loss(v, noise, s):
    """Return C(s) of the rows for Laplace noise, by its definition."""
    return (np.abs(noise - s[:, np.newaxis] * v) - np.abs(noise)).sum(axis=1)


def laplace_marks(v, noise):
    """Return places between which C does not turn, row by row in ascending order."""
    towards = v * noise > 0
    kinks = np.where(towards, np.abs(noise / np.where(towards, v, 1)), 0)
    return np.sort(kinks, axis=1)


def draw(n_pairs, n_outputs, rng):
    """Return pairs of all sorts: even, uneven, with zeros, and pushed into a dip."""
    noise = rng.laplace(size=(n_pairs, n_outputs))
    spread = rng.choice([0.0, 1.0, 3.0], size=(n_pairs, 1))
    v = rng.normal(size=noise.shape) * np.exp(spread * rng.normal(size=noise.shape))
    v[rng.random(v.shape) < 0.05] = 0.0
    noise[rng.random(v.shape) < 0.02] = 0.0
    v[:, 0] += v[:, 0] == 0
    # Where differences and noise have one sign, the loss falls first.
    pushed = rng.random(noise.shape) < rng.choice([0.0, 0.5, 1.0], size=(n_pairs, 1))
    return np.where(pushed, np.copysign(v, noise), v), noise


class Brute:
    """The loss in long double, walked from mark to mark, and then bisected."""

    def __init__(self, v, noise):
        self.v, self.noise = v.astype(np.longdouble), noise.astype(np.longdouble)
        self.marks = list(laplace_marks(self.v, self.noise).T)

    def loss_at(self, s):
        return laplace_loss(self.v, self.noise, s)

    def critical_scales(self, epsilon):
        """Return 1/s at the first crossing of ±epsilon, and which of the two it is."""
        low = np.zeros(len(self.v), np.longdouble)
        high = np.full(len(self.v), np.nan, np.longdouble)
        marks, mark = self.marks.copy(), low
        while np.isnan(high).any():
            mark = marks.pop(0) if marks else 2 * mark + 1
            beyond = np.abs(self.loss_at(mark)) > epsilon
            low = np.where(np.isnan(high) & ~beyond, mark, low)
            high = np.where(np.isnan(high) & beyond, mark, high)
        side = np.sign(self.loss_at(high))
        for _ in range(80):
            middle = (low + high) / 2
            beyond = side * self.loss_at(middle) > epsilon
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return (1 / high).astype(float), side

    def peak_losses(self, scale):
        """Return the largest |C| at the end, and at the marks before it."""
        end = np.full(len(self.v), 1 / np.longdouble(scale))
        ends = [end, *(np.minimum(mark, end) for mark in self.marks)]
        return np.max([np.abs(self.loss_at(s)) for s in ends], axis=0).astype(float)


def critical(v, noise, epsilon):
    return critical_scales(np.array(v, float), np.array(noise, float), epsilon)


def peak(v, noise, scale):
    return peak_losses(np.array(v, float), np.array(noise, float), scale)


all_pairs = {
    "seed": st.integers(0, 10**6),
    "n_outputs": st.sampled_from([1, 2, 3, 8, 33]),
    "epsilon": st.floats(1e-3, 30.0),
}


def some_pairs(n_outputs, seed):
    return draw(20, n_outputs, np.random.default_rng(seed))


def exact_loss(v, noise, s):
    return sum(abs(e - s * x) - abs(e) for x, e in zip(v, noise, strict=True))


def exact_critical_scale(v, noise, epsilon):
    """Return the critical scale of one pair in fractions, from chord to chord."""
    kinks = {e / x for x, e in zip(v, noise, strict=True) if x * e > 0}
    # C(s) >= s |v|_1 - 2 |E|_1, so it is above epsilon there.
    least = (epsilon + 2 * sum(map(abs, noise))) / sum(map(abs, v))
    far = 1 + max(kinks, default=0) + least
    left, at_left = Fraction(0), Fraction(0)
    for right in [*sorted(kinks), far]:
        at_right = exact_loss(v, noise, right)
        if abs(at_right) > epsilon:
            break
        left, at_left = right, at_right
    level = epsilon if at_right > 0 else -epsilon
    share = (level - at_left) / (at_right - at_left)
    return 1 / (left + share * (right - left))


def as_fractions(row):
    return [Fraction(float(x)) for x in row]


# Against other algorithms


def test_critical_scales_are_those_of_bisection():
    """For 10 000 pairs of each law, many of which fall below -epsilon first."""
    for epsilon in [1e-3, 0.1, 0.5, 1.0, 8.0]:
        for n_outputs in [1, 2, 6, 20, 64]:
            v, noise = draw(400, n_outputs, np.random.default_rng(n_outputs))
            expected, side = Brute(v, noise).critical_scales(epsilon)
            scales = critical(v, noise, epsilon)
            np.testing.assert_allclose(scales, expected, rtol=RTOL)
            if epsilon <= 0.5:
                assert np.count_nonzero(side < 0) > 60
            assert np.count_nonzero(side > 0) > 60


def test_peak_losses_are_the_largest_of_all_turning_points():
    """The peak is what the definition of the loss gives where it may turn."""
    for scale in [1e-2, 0.3, 1.0, 5.0, 1e4]:
        for n_outputs in [1, 2, 6, 64]:
            v, noise = draw(200, n_outputs, np.random.default_rng(n_outputs))
            expected = Brute(v, noise).peak_losses(scale)
            rounding = 1e-15 * n_outputs * np.abs(v / scale).sum(axis=1)
            of_oracle = LONG_EPS * n_outputs * (1 + noise**2).sum(axis=1)
            peaks = peak(v, noise, scale)
            assert np.all(np.abs(peaks - expected) <= rounding + of_oracle)


def test_laplace_critical_scales_in_exact_arithmetic():
    """In fractions the scales are the same to their last digits, at any epsilon."""
    for epsilon in [1e-12, 1e-6, 1e-3, 0.5, 3.0, 1e6]:
        for n_outputs in [1, 2, 7, 40]:
            rng = np.random.default_rng(7)
            v, noise = draw(400 // (10 + n_outputs), n_outputs, rng)
            scales = critical(v, noise, epsilon)
            expected = [
                float(exact_critical_scale(*map(as_fractions, pair), Fraction(epsilon)))
                for pair in zip(v, noise, strict=True)
            ]
            np.testing.assert_allclose(scales, expected, rtol=2e-15)


@pytest.mark.parametrize("left_over", [1e-3, 1e-7, 1e-12])
def test_laplace_critical_scales_where_the_differences_cancel(left_over):
    """Slopes far below the differences are accurate too, on either side of 0."""
    rng = np.random.default_rng(2)
    v = rng.normal(size=(50, 7))
    v[:, 0] = -v[:, 1:].sum(axis=1) * (1 + left_over * rng.normal(size=50))
    noise = 1 + rng.exponential(size=v.shape)
    epsilon = 1e-3 * left_over
    scales = critical(v, noise, epsilon)
    expected = [
        float(exact_critical_scale(*map(as_fractions, pair), Fraction(epsilon)))
        for pair in zip(v, noise, strict=True)
    ]
    np.testing.assert_allclose(scales, expected, rtol=2e-15)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("left_over", [1e-10, 1e-13, 1e-15])
def test_laplace_critical_scales_where_the_loss_rests_at_minus_epsilon(left_over):
    """The answer is that for the loss up to rounding, also where C hardly moves.

    The first kink is all but at -epsilon, and C is all but flat up to the second.
    """
    rng = np.random.default_rng(4)
    v = rng.random(size=(500, 4))
    v[:, 0] = v[:, 1:].sum(axis=1) * (1 + left_over * rng.normal(size=500))
    noise = 0.3 * v * (1 + rng.random(size=v.shape))
    noise[:, 0] = 0.3 * v[:, 0]
    for row, draws in zip(v, noise, strict=True):
        fractions = as_fractions(row), as_fractions(draws)
        epsilon = -exact_loss(*fractions, fractions[1][0] / fractions[0][0])
        (scale,) = critical([row], [draws], float(epsilon))
        slack = Fraction(1, 10**14)
        assert exact_critical_scale(*fractions, epsilon * (1 + slack)) <= scale
        assert scale <= exact_critical_scale(*fractions, epsilon * (1 - slack))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_loss_that_touches_minus_epsilon_has_not_crossed_it(epsilon):
    """Ties of small whole numbers are decided exactly: the crossing is above."""
    rng = np.random.default_rng(3)
    v = rng.integers(-3, 4, size=(600, 3)) * 1.0
    v[:, 0] += v[:, 0] == 0
    noise = rng.integers(-4, 5, size=v.shape) / 4 * epsilon
    scales = critical(v, noise, epsilon)
    n_touching = 0
    for scale, *pair in zip(scales, v, noise, strict=True):
        row = [as_fractions(part) for part in pair]
        expected = exact_critical_scale(*row, Fraction(epsilon))
        assert scale == pytest.approx(float(expected), rel=1e-15)
        kinks = {e / x for x, e in zip(*row, strict=True) if x * e > 0}
        before = [exact_loss(*row, s) for s in kinks if s < 1 / expected]
        n_touching += -epsilon in before
    assert n_touching > 10


# Properties


@derandomized
@given(**all_pairs)
def test_peak_loss_at_the_critical_scale_is_epsilon(seed, n_outputs, epsilon):
    """It is epsilon there, less at 1.01 of the scale, and more at 0.99."""
    v, noise = some_pairs(n_outputs, seed)
    at_one = v / critical(v, noise, epsilon)[:, np.newaxis]
    gap = np.abs(peak(at_one, noise, 1.0) - epsilon)
    assert np.all(gap <= 1e-15 * n_outputs * np.abs(at_one).sum(axis=1))
    assert np.all(peak(at_one, noise, 1.01) < epsilon)
    assert np.all(peak(at_one, noise, 0.99) > epsilon)


@derandomized
@given(**all_pairs, factor=st.floats(1e-6, 1e6), power=st.integers(-900, 900))
def test_scales_are_in_the_unit_of_the_differences(
    seed, n_outputs, epsilon, factor, power
):
    """Differences times c need c times the noise; exactly so for powers of two."""
    v, noise = some_pairs(n_outputs, seed)
    scales = critical(v, noise, epsilon)
    exact = critical(np.ldexp(v, power), noise, epsilon)
    np.testing.assert_array_equal(exact, np.ldexp(scales, power))
    close = critical(factor * v, noise, epsilon)
    np.testing.assert_allclose(close, factor * scales, rtol=1e-9)


@derandomized
@given(**all_pairs)
def test_order_and_signs_of_outputs_do_not_matter(seed, n_outputs, epsilon):
    """Nor does it matter which pairs are in one block."""
    v, noise = some_pairs(n_outputs, seed)
    scales, peaks = critical(v, noise, epsilon), peak(v, noise, 0.5)
    rng = np.random.default_rng(seed)
    order = rng.permutation(n_outputs)
    np.testing.assert_allclose(
        critical(v[:, order], noise[:, order], epsilon), scales, rtol=1e-10
    )
    signs = rng.choice([-1, 1], size=v.shape)
    flipped = signs * v, signs * noise
    np.testing.assert_array_equal(critical(*flipped, epsilon), scales)
    np.testing.assert_array_equal(peak(*flipped, 0.5), peaks)
    alone = critical(v[3:4], noise[3:4], epsilon)
    np.testing.assert_array_equal(alone, scales[3:4])


@derandomized
@given(
    n_outputs=st.integers(1, 6), seed=st.integers(0, 10**6), tenths=st.integers(1, 12)
)
def test_ties_in_decimals_are_rounded_in_the_loss_only(n_outputs, seed, tenths):
    """Whichever side of -epsilon a tie is taken for, the peak there is epsilon."""
    rng = np.random.default_rng(seed)
    v = rng.integers(-4, 5, size=(50, n_outputs)) / 10
    v[:, 0] += v[:, 0] == 0
    noise = rng.integers(-6, 7, size=v.shape) / 10
    epsilon = tenths / 10
    at_one = v / critical(v, noise, epsilon)[:, np.newaxis]
    assert np.all(np.isfinite(at_one))
    assert np.all(peak(at_one, noise, 1.0) <= epsilon * (1 + 1e-14))
    assert np.all(peak(at_one, noise, 0.999) >= epsilon * (1 - 1e-14))


# Edges


def test_answers_that_agree_need_no_noise():
    """A pair without a difference has scale 0 and loss 0, beside others or alone."""
    v = np.array([[0.0, -0.0, 0.0], [1.0, 0.0, -2.0], [0.0, 0.0, 0.0]])
    noise = np.array([[1.0, -1.0, 0.0], [1.0, 2.0, -3.0], [0.0, -0.0, 0.0]])
    for epsilon in (LEAST, 1e-300, 1.0, LARGEST):
        scales = critical(v, noise, epsilon)
        assert scales[0] == scales[2] == 0 < scales[1]
    for scale in (LEAST, 1e-300, 1.0, LARGEST):
        peaks = peak(v, noise, scale)
        assert peaks[0] == peaks[2] == 0 < peaks[1]


def test_without_noise_the_loss_is_the_norm():
    """At noise 0, of either sign, the loss is |v|_1 / b."""
    v, noise = [[3.0, -4.0]] * 2, [[0.0, 0.0], [-0.0, -0.0]]
    assert critical(v, noise, 0.5).tolist() == [14.0] * 2
    assert peak(v, noise, 14.0).tolist() == [0.5] * 2


def test_no_pairs():
    """A block may be empty."""
    assert critical(np.empty((0, 3)), np.empty((0, 3)), 1.0).shape == (0,)
    assert peak(np.empty((0, 3)), np.empty((0, 3)), 1.0).shape == (0,)


def test_differences_near_the_ends_of_floating_point():
    """Tiny and huge differences scale like others; neither NaN nor a warning."""
    rng = np.random.default_rng(1)
    v, noise = draw(50, 5, rng)
    scales = critical(v, noise, 0.5)
    for size in (1e-300, 1e300):
        at_end = critical(size * v, noise, 0.5)
        np.testing.assert_allclose(at_end, size * scales, rtol=1e-10)
        peaks = peak(size * v, noise, size)
        np.testing.assert_allclose(peaks, peak(v, noise, 1.0), rtol=1e-10)
    sizes = np.array([LEAST, 1e-310, 1e-300, 1e-160, 1.0, 1e160, 1e300, LARGEST])
    v = rng.choice([-1.0, 1.0], size=(500, 6)) * rng.choice(sizes, size=(500, 6))
    noise = rng.laplace(size=v.shape)
    noise[::2] *= rng.choice([0.0, LEAST, 1e-300, 1e149], size=noise[::2].shape)
    for number in (LEAST, 1e-300, 1e-20, 1.0, 1e20, 1e300, LARGEST):
        for result in (critical(v, noise, number), peak(v, noise, number)):
            assert np.all(result >= 0)  # so none is NaN


def test_output_far_below_the_others_does_not_matter():
    """The scale of (1, 1e-300) is that of (1, 0)."""
    differences = [[1.0, 1e-300], [1.0, 0.0]]
    scales = critical(differences, [[0.2, 0.3]] * 2, 0.5)
    assert scales[0] == scales[1] == pytest.approx(1 / 0.9)


def test_called_twice_with_the_same_answer():
    """The arguments are left as they are, lists and whole numbers will do."""
    v, noise = some_pairs(4, 0)
    before = v.copy(), noise.copy()
    first = critical(v, noise, 0.5), peak(v, noise, 0.5)
    second = critical(v, noise, 0.5), peak(v, noise, 0.5)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal((v, noise), before)
    assert first[0].dtype == first[1].dtype == np.float64
    for function in (critical, peak):
        whole = function([[1, 2]], [[1, -1]], 1)
        assert whole == function([[1.0, 2.0]], [[1.0, -1.0]], 1.0)


# The law of the critical scale of one output


@pytest.mark.parametrize("seed", SEEDS)
def test_law_of_the_critical_scale_of_one_output(seed):
    """It is |v| / epsilon with probability (1 + exp(-epsilon)) / 2, else in between.

    With E and v of one sign and |E| < epsilon, the loss stays above -epsilon, and
    reaches epsilon at s |v| = epsilon + 2 |E|.
    """
    epsilon, n_pairs = 1.5, 50_000
    noise = np.random.default_rng(seed).laplace(size=(n_pairs, 1))
    scales = critical(np.full_like(noise, -2.0), noise, epsilon)
    at_worst = np.isclose(scales, 2 / epsilon, rtol=1e-14, atol=0)
    share = (1 + math.exp(-epsilon)) / 2
    count = int(at_worst.sum())
    assert not exceeds(count, n_pairs, share)
    assert not exceeds(n_pairs - count, n_pairs, 1 - share)

    draws = (2 / scales[~at_worst] - epsilon) / 2

    def cdf(x, scale=1.0):
        return np.expm1(-np.clip(x, 0, epsilon) / scale) / math.expm1(-epsilon / scale)

    assert_law(draws, cdf)
    for factor in (0.8, 1.25):
        assert rejects_law(draws, lambda x, factor=factor: cdf(x, factor))
