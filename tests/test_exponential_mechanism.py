"""The exponential mechanism: choices follow the law exactly, and no other level."""

import math
import os
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from counts import rejects_counts, seeds
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import FALSE_ALARM
from scipy import stats

from skparisk.core.exact import noise_source, sample_bernoulli_decay
from skparisk.mechanisms import ExponentialChoice, ExponentialMechanism

finite = st.floats(allow_nan=False, allow_infinity=False)
mpmath.mp.dps = 60


def exact_steps(choice, scores):
    """Return the rounded scores, lifted to at most 2**62 steps below the best."""
    grid = Fraction(2) ** choice.exponent
    steps = [math.floor(Fraction(score) / grid + Fraction(1, 2)) for score in scores]
    return [max(k, max(steps) - 2**62) for k in steps]


def exact_law(choice, scores):
    """Return the law of the choice in 60 digits, from Fractions."""
    steps = exact_steps(choice, scores)
    best = max(steps)
    weights = [
        mpmath.exp(mpmath.mpf(k - best) / mpmath.mpf(2 * choice.steps)) for k in steps
    ]
    total = mpmath.fsum(weights)
    return [weight / total for weight in weights]


def exact_loss(choice, scores, neighbor):
    """Return the largest privacy loss over all candidates, in 60 digits."""
    pairs = zip(exact_law(choice, scores), exact_law(choice, neighbor), strict=True)
    return max(abs(mpmath.log(p / q)) for p, q in pairs)


@pytest.mark.slow
@seeds
@pytest.mark.parametrize(
    ("sensitivity", "epsilon"), [(4.0, 4.0), (2.5, 0.8), (3.7e-4, 1e-4)]
)
def test_choices_follow_the_law_and_no_other_level(sensitivity, epsilon, seed):
    scores = np.array([0.0, 4.0, 8.0, 2.0, 6.0, 6.0])
    mechanism = ExponentialMechanism(sensitivity, epsilon)
    chosen = mechanism.choose(np.tile(scores, (100_000, 1)), noise_random_state=seed)
    assert chosen.shape == (100_000,)

    def law(level):
        return np.exp(level * scores / (2 * sensitivity))

    assert not rejects_counts(chosen, law(epsilon))
    for wrong in (0.85 * epsilon, 1.15 * epsilon):
        assert rejects_counts(chosen, law(wrong))
    assert rejects_counts(chosen, law(2 * epsilon))  # without the factor 2
    assert rejects_counts(chosen, np.arange(1, 7) * epsilon)  # without the exp


@pytest.mark.parametrize(
    ("scores", "sensitivity", "epsilon"),
    [
        ([3, 2, 3, 0], 4, 1.0),  # an auction: revenues at a price of 1, 2, 3, 4
        # Accuracy of a threshold 100, ..., 500 for five patients.
        ([0.6, 0.8, 0.8, 0.8, 0.8], 0.2, 1.25),
    ],
)
def test_worked_examples_of_the_lecture(scores, sensitivity, epsilon):
    mechanism = ExponentialMechanism(sensitivity, epsilon)
    weights = np.exp(np.array(scores) * epsilon / (2 * sensitivity))
    np.testing.assert_allclose(
        mechanism.probabilities(scores), weights / weights.sum(), rtol=1e-8
    )
    scale = sensitivity / epsilon
    assert scale < mechanism.noise_scale < scale * (1 + 1e-8)


@settings(deadline=None, max_examples=50)
@given(
    sensitivity=st.floats(1e-100, 1e100),
    epsilon=st.floats(1e-8, 1e6),
    scores=st.lists(finite, min_size=1, max_size=5),
)
@example(sensitivity=5e-324, epsilon=1.0, scores=[0.0, 5e-324])
@example(sensitivity=1.0, epsilon=1.0, scores=[-1.7e308, 1.7e308, 1.7e308])
def test_probabilities_are_those_of_the_exact_law(sensitivity, epsilon, scores):
    mechanism = ExponentialMechanism(sensitivity, epsilon)
    law = np.array([float(p) for p in exact_law(mechanism, scores)])
    got = mechanism.probabilities(scores)
    assert got.sum() == pytest.approx(1, rel=1e-14)
    np.testing.assert_allclose(got, law, rtol=1e-12, atol=1e-200)
    again = mechanism.probabilities([scores, scores[::-1]])
    np.testing.assert_array_equal(again[0], got)
    np.testing.assert_allclose(again[1], got[::-1], rtol=1e-12)


def clipped_float(value):
    return float(min(max(value, Fraction(-1.7e308)), Fraction(1.7e308)))


@settings(deadline=None, max_examples=60)
@given(
    sensitivity=st.floats(1e-100, 1e100),
    epsilon=st.floats(1e-8, 50),
    size=st.floats(0, 1e6),
    data=st.data(),
)
def test_loss_of_neighbors_is_within_epsilon(sensitivity, epsilon, size, data):
    """In 60 digits, whatever the scores; also where they are lifted."""
    mechanism = ExponentialMechanism(sensitivity, epsilon)
    unit = st.floats(-1, 1)
    scores = data.draw(st.lists(unit, min_size=2, max_size=5))
    scores = [float(score * size * sensitivity) for score in scores]
    shifts = data.draw(st.lists(unit, min_size=len(scores), max_size=len(scores)))
    neighbor = [s + d * sensitivity for s, d in zip(scores, shifts, strict=True)]
    # The slack for rounded sensitivities covers that of the neighbor here.
    assert exact_loss(mechanism, scores, neighbor) <= epsilon


@settings(deadline=None, max_examples=60)
@given(
    steps=st.integers(1, 2**52),
    exponent=st.integers(-1074, 100),
    scores=st.lists(finite, min_size=2, max_size=4),
    distance=st.floats(0, 1e6),
    data=st.data(),
)
@example(steps=1, exponent=0, scores=[0.5, 0.0], distance=0.9, data=None)
def test_rounding_adds_at_most_one_step_to_the_loss(
    steps, exponent, scores, distance, data
):
    """The loss is at most d / noise_scale + 1 / steps, where scores are d apart."""
    choice = ExponentialChoice(steps, exponent)
    unit = st.floats(-1, 1)
    shifts = [-1.0, 1.0]
    if data is not None:
        shifts = [data.draw(unit) for _ in scores]
    neighbor = [
        clipped_float(Fraction(s) + Fraction(d) * Fraction(distance * choice.grid))
        for s, d in zip(scores, shifts, strict=True)
    ]
    apart = max(
        abs(Fraction(a) - Fraction(b)) for a, b in zip(scores, neighbor, strict=True)
    )
    bound = apart / (steps * Fraction(2) ** exponent) + Fraction(1, steps)
    with mpmath.workdps(60):  # old versions do not compare with fractions
        largest = mpmath.mpf(bound.numerator) / bound.denominator
        assert exact_loss(choice, scores, neighbor) <= largest


def test_the_loss_is_nearly_attained():
    """One candidate gains and the many others lose: the factor 2 is needed."""
    mechanism = ExponentialMechanism(1.0, 1.0)
    scores, neighbor = [0.0] * 2000, [1.0] + [-1.0] * 1999
    assert 0.99 < exact_loss(mechanism, scores, neighbor) <= 1


@settings(deadline=None, max_examples=50)
@given(sensitivity=st.floats(5e-324, 1e200), epsilon=st.floats(1e-12, 1e9))
def test_rounding_is_paid_for_and_costs_hardly_more(sensitivity, epsilon):
    mechanism = ExponentialMechanism(sensitivity, epsilon)
    grid = Fraction(2) ** mechanism.exponent
    level, scale = Fraction(epsilon), mechanism.steps * grid
    assert (Fraction(sensitivity) + grid) / scale <= level
    if sensitivity > 1e-290:
        share = max(Fraction(1, 2**28), 1 / level / 2**49)
        assert scale <= Fraction(sensitivity) / level * (1 + share)


def test_huge_gaps_of_scores_are_no_trouble():
    mechanism = ExponentialMechanism(1e-300, 1.0)
    scores = [[-1e300, 1e300, 0.0], [1e300, 1e300, -1e308]]
    law = mechanism.probabilities(scores)
    np.testing.assert_array_equal(law, [[0, 1, 0], [0.5, 0.5, 0]])
    chosen = mechanism.choose(np.repeat(scores, 100, axis=0))
    assert (chosen[:100] == 1).all()
    assert set(chosen[100:]) == {0, 1}
    # The coarsest scale: the farthest candidate counts as 2**62 steps below the best.
    coarse = ExponentialChoice(2**52, -1074)
    far = coarse.probabilities([0.0, 1e300])
    np.testing.assert_allclose(far, [math.exp(-512), 1], rtol=1e-12)
    assert coarse.prepare([0.0, 1e300])(os.urandom) == 1


def test_infinite_epsilon_chooses_the_best_and_of_equals_the_first():
    mechanism = ExponentialMechanism(0.0, math.inf)
    scores = [[1.0, 3.0, 3.0], [1.0, 1.0, 1.0], [0.0, 5e-324, 0.0]]
    np.testing.assert_array_equal(mechanism.choose(scores), [1, 0, 1])
    np.testing.assert_array_equal(mechanism.probabilities(scores), np.eye(3)[[1, 0, 1]])
    assert mechanism.choose([1.0, 2.0]) == 1
    assert mechanism.probabilities([1.0, 2.0]).tolist() == [0, 1]
    assert mechanism.noise_scale == 0


@seeds
@pytest.mark.parametrize(
    ("numerator", "denominator"),
    [(0, 3), (1, 3), (3, 3), (5, 2), (7, 2), (2**53 + 1, 2**53), (5 * 2**50, 2**50)],
)
def test_bernoulli_of_any_exponent(numerator, denominator, seed):
    draws = sample_bernoulli_decay(
        np.full(50_000, numerator, dtype=np.uint64), denominator, noise_source(seed)
    )
    x = numerator / denominator

    def rejects(probability):
        test = stats.binomtest(int(draws.sum()), draws.size, probability)
        return test.pvalue < FALSE_ALARM

    assert not rejects(math.exp(-x))
    if x:
        for wrong in (x - 0.4, x + 0.4):
            assert rejects(math.exp(-max(wrong, 0)))
    else:
        assert draws.all()


def test_a_choice_of_a_scale_is_rounded_up():
    choice = ExponentialChoice.at_least(0.3, least_steps=2**45)
    assert 0.3 <= choice.noise_scale <= 0.3 * (1 + 2**-40)
    assert choice.steps >= 2**45
    assert choice.grid == 2.0**choice.exponent
    assert choice == ExponentialChoice(choice.steps, choice.exponent)
    weights = np.exp(np.array([1.0, 2.0]) / 0.6)
    np.testing.assert_allclose(
        choice.probabilities([1.0, 2.0]), weights / weights.sum(), rtol=1e-9
    )


@pytest.mark.parametrize(
    ("steps", "exponent"), [(-1, 0), (2**52 + 1, 0), (1.5, 0), (1, -1075), (1, 0.5)]
)
def test_a_choice_refuses_what_is_no_grid(steps, exponent):
    with pytest.raises(ValueError, match=r"(steps|exponent) must be"):
        ExponentialChoice(steps, exponent)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_choice_refuses_what_is_no_scale(scale):
    with pytest.raises(ValueError, match="noise_scale must be"):
        ExponentialChoice.at_least(scale)


@pytest.mark.parametrize("scores", [3.0, [], np.zeros((2, 0)), np.zeros((1, 2, 3))])
def test_scores_of_another_shape_are_refused(scores):
    mechanism = ExponentialMechanism(1.0, 1.0)
    for method in (mechanism.choose, mechanism.probabilities):
        with pytest.raises(ValueError, match="scores must have the shape"):
            method(scores)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_scores_that_are_no_numbers_are_refused_without_naming_them(bad):
    for epsilon in (1.0, math.inf):
        mechanism = ExponentialMechanism(1.0, epsilon)
        for method in (mechanism.choose, mechanism.probabilities):
            with pytest.raises(ValueError, match="finite numbers, got NaN or inf") as e:
                method([123.25, bad])
            assert "123.25" not in str(e.value)


def test_no_warning_tells_of_scores():
    """A warning is a release: not even where numpy is told to warn of underflow."""
    with np.errstate(all="raise"):
        mechanism = ExponentialMechanism(1.0, 1.0)
        mechanism.probabilities([0.0, 1e300])
        mechanism.choose([0.0, 1e300])


def test_the_choice_depends_on_epsilon():
    """An implementation that forgot the exp had the same law at every level."""
    scores = [3.0, 2.0, 3.0, 0.0]
    laws = [ExponentialMechanism(4.0, e).probabilities(scores) for e in (0.1, 1, 10)]
    assert laws[0].max() - laws[0].min() < 0.02
    assert laws[1].max() - laws[1].min() > 0.05
    assert laws[2].max() - laws[2].min() > 0.3
    uniform = ExponentialMechanism(1.0, 1e-12).probabilities(scores)
    np.testing.assert_allclose(uniform, 0.25, rtol=1e-11)
