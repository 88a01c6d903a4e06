"""Exponential mechanism, discrete mechanisms, randomized response: exact laws."""

import copy
import itertools
import math
import os
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import FALSE_ALARM, SEEDS
from scipy import stats

from skparisk._secure_noise import noise_source
from skparisk.mechanisms import (
    DiscreteMechanism,
    ExponentialChoice,
    ExponentialMechanism,
    LaplaceMechanism,
    RandomizedResponse,
    _discrete,
    _exponential,
)

seeds = pytest.mark.parametrize("seed", SEEDS)
finite = st.floats(allow_nan=False, allow_infinity=False)
mpmath.mp.dps = 60


def rejects_counts(chosen, probabilities):
    """Tell if a chi-square test refuses the probabilities of some indices."""
    observed = np.bincount(np.ravel(chosen), minlength=len(probabilities))
    expected = observed.sum() * np.asarray(probabilities) / np.sum(probabilities)
    return stats.chisquare(observed, expected).pvalue < FALSE_ALARM


def count_urandom(monkeypatch):
    """Serve and count the operating system's bytes."""
    calls = []

    def urandom(count, real=os.urandom):
        calls.append(count)
        return real(count)

    monkeypatch.setattr(os, "urandom", urandom)
    return calls


# The exponential mechanism


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


@seeds
def test_one_row_follows_the_law_as_many_rows_do(seed):
    mechanism = ExponentialMechanism(1.0, 2.0)
    rng = np.random.default_rng(seed)
    scores = [0.0, 2.0, 1.0]
    chosen = [mechanism.choose(scores, noise_random_state=rng) for _ in range(4000)]
    assert {type(index) for index in chosen} == {int}
    assert not rejects_counts(chosen, np.exp(scores))
    assert rejects_counts(chosen, np.exp(np.array(scores) * 0.7))


def test_the_choice_depends_on_epsilon():
    """An implementation that forgot the exp had the same law at every level."""
    scores = [3.0, 2.0, 3.0, 0.0]
    laws = [ExponentialMechanism(4.0, e).probabilities(scores) for e in (0.1, 1, 10)]
    assert laws[0].max() - laws[0].min() < 0.02
    assert laws[1].max() - laws[1].min() > 0.05
    assert laws[2].max() - laws[2].min() > 0.3
    uniform = ExponentialMechanism(1.0, 1e-12).probabilities(scores)
    np.testing.assert_allclose(uniform, 0.25, rtol=1e-11)


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


@settings(deadline=None, max_examples=100)
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


@settings(deadline=None, max_examples=150)
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


@settings(deadline=None, max_examples=150)
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
    assert exact_loss(choice, scores, neighbor) <= bound


def test_the_loss_is_nearly_attained():
    """One candidate gains and the many others lose: the factor 2 is needed."""
    mechanism = ExponentialMechanism(1.0, 1.0)
    scores, neighbor = [0.0] * 2000, [1.0] + [-1.0] * 1999
    assert 0.99 < exact_loss(mechanism, scores, neighbor) <= 1


@settings(deadline=None, max_examples=100)
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
    assert coarse.choose([0.0, 1e300]) == 1


def test_infinite_epsilon_chooses_the_best_and_of_equals_the_first():
    mechanism = ExponentialMechanism(0.0, math.inf)
    scores = [[1.0, 3.0, 3.0], [1.0, 1.0, 1.0], [0.0, 5e-324, 0.0]]
    np.testing.assert_array_equal(mechanism.choose(scores), [1, 0, 1])
    np.testing.assert_array_equal(mechanism.probabilities(scores), np.eye(3)[[1, 0, 1]])
    assert mechanism.choose([1.0, 2.0]) == 1
    assert mechanism.probabilities([1.0, 2.0]).tolist() == [0, 1]
    assert mechanism.noise_scale == 0


def test_one_candidate_is_chosen_and_no_rows_give_no_choice():
    mechanism = ExponentialMechanism(1.0, 1.0)
    assert mechanism.choose([-7.0]) == 0
    assert mechanism.probabilities([-7.0]) == [1.0]
    np.testing.assert_array_equal(mechanism.choose(np.zeros((3, 1))), [0, 0, 0])
    assert mechanism.choose(np.zeros((0, 3))).shape == (0,)
    assert mechanism.probabilities(np.zeros((0, 3))).shape == (0, 3)


def test_a_tiny_level_chooses_uniformly():
    mechanism = ExponentialMechanism(1.0, 1e-15)
    chosen = mechanism.choose(np.tile([0.0, 1.0, 2.0], (3000, 1)), noise_random_state=0)
    assert not rejects_counts(chosen, np.ones(3))


def test_one_good_candidate_among_many_is_found():
    scores = np.zeros(50_000)
    scores[123] = 1000.0
    assert ExponentialMechanism(1.0, 1.0).choose(scores) == 123


@seeds
@pytest.mark.parametrize(
    ("numerator", "denominator"),
    [(0, 3), (1, 3), (3, 3), (5, 2), (7, 2), (2**53 + 1, 2**53), (5 * 2**50, 2**50)],
)
def test_bernoulli_of_any_exponent(numerator, denominator, seed):
    draws = _exponential._sample_bernoulli_exp(
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


def test_a_choice_without_noise_is_the_best():
    assert ExponentialChoice(0, 0).choose([1.0, 1.5, 1.5]) == 1


@pytest.mark.parametrize("make", [ExponentialMechanism, LaplaceMechanism])
@pytest.mark.parametrize(
    ("sensitivity", "epsilon", "message"),
    [
        (-1.0, 1.0, "sensitivity must be"),
        (0.0, 1.0, "sensitivity must be"),
        (math.inf, math.inf, "sensitivity must be"),
        (math.nan, 1.0, "sensitivity must be"),
        (1.0, 0.0, "epsilon must be"),
        (1.0, -1.0, "epsilon must be"),
        (1.0, math.nan, "epsilon must be"),
        (1.0, "1", "epsilon must be"),
        (1.0, 1e-17, "epsilon must be at least"),
        (1e308, 1e-8, "beyond the largest float"),
    ],
)
def test_parameters_are_checked_as_for_laplace(make, sensitivity, epsilon, message):
    with pytest.raises(ValueError, match=message):
        make(sensitivity, epsilon)


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


# Discrete mechanisms


def rows_of_weights(n_inputs, n_outputs):
    number = st.one_of(st.floats(0, 1), st.floats(1e-12, 1e-3))
    row = st.lists(number, min_size=n_outputs, max_size=n_outputs).filter(
        lambda row: sum(row) > 0.01
    )
    return st.lists(row, min_size=n_inputs, max_size=n_inputs)


@settings(deadline=None, max_examples=100)
@given(
    given=st.tuples(st.integers(1, 4), st.integers(1, 6)).flatmap(
        lambda shape: rows_of_weights(*shape)
    )
)
def test_the_released_law_is_the_nearest_of_whole_numbers(given):
    matrix = np.array(given) / np.sum(given, axis=1, keepdims=True)
    try:
        mechanism = DiscreteMechanism(matrix)
    except ValueError:
        small = matrix[(matrix > 0).all(axis=0) & np.ones(matrix.shape, bool)]
        assert small.min() < 2.0**-61
        return
    weights = [[int(w) for w in row] for row in mechanism.weights]
    for row, law in zip(weights, matrix.tolist(), strict=True):
        assert sum(row) == 2**62
        total = sum(Fraction(p) for p in law)
        for weight, p in zip(row, law, strict=True):
            assert abs(weight - Fraction(p) / total * 2**62) < 1
            assert p > 0 or weight == 0
    np.testing.assert_allclose(mechanism.matrix, matrix, rtol=1e-9, atol=2.0**-62)
    columns = [column for column in zip(*weights, strict=True) if any(column)]
    if any(min(column) == 0 for column in columns):
        assert mechanism.epsilon == math.inf
    else:
        exact = max(
            mpmath.log(mpmath.mpf(max(column)) / min(column)) for column in columns
        )
        assert exact <= mechanism.epsilon <= exact * (1 + mpmath.mpf(2) ** -49)


@seeds
def test_outputs_follow_their_rows_and_no_other_level(seed):
    matrix = np.array([[0.5, 0.3, 0.2], [0.25, 0.3, 0.45], [0.2, 0.6, 0.2]])
    mechanism = DiscreteMechanism(matrix)
    inputs = np.tile([[0], [1], [2]], 50_000)
    outputs = mechanism.sample(inputs, noise_random_state=seed)
    assert outputs.shape == inputs.shape
    for row, drawn in zip(matrix, outputs, strict=True):
        assert not rejects_counts(drawn, row)
        for power in (0.8, 1.2):
            assert rejects_counts(drawn, row**power)
    assert mechanism.epsilon == pytest.approx(math.log(0.5 / 0.2), rel=1e-14)


def test_each_output_has_exactly_its_share_of_the_draws(monkeypatch):
    """At both ends of what belongs to each output."""
    rng = np.random.default_rng(0)
    for n_outputs in (1, 2, 3, 7, 8, 9):
        mechanism = DiscreteMechanism(rng.dirichlet(np.ones(n_outputs), size=3))
        for row in range(3):
            ends = np.cumsum(mechanism.weights[row])
            starts = ends - mechanism.weights[row]
            draws = np.concatenate([starts, ends - 1]).astype(np.uint64)
            monkeypatch.setattr(
                _discrete, "sample_uniform_integers", lambda *_, d=draws: d
            )
            outputs = mechanism.sample(np.full(draws.size, row))
            np.testing.assert_array_equal(outputs, [*range(n_outputs)] * 2)


def test_an_output_of_some_inputs_only_is_no_privacy():
    mechanism = DiscreteMechanism([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    assert mechanism.epsilon == math.inf
    assert set(mechanism.sample([1] * 100)) == {0}
    assert set(mechanism.sample([0] * 100)) == {0, 1}


def test_one_input_tells_nothing():
    assert DiscreteMechanism([[0.25, 0.75, 0.0]]).epsilon == 0
    assert DiscreteMechanism([[1.0], [1.0]]).epsilon == 0


def test_a_probability_that_becomes_zero_is_not_silently_infinite():
    tiny = 2.0**-70
    with pytest.raises(ValueError, match=r"matrix must have no probability.*8.47e-22"):
        DiscreteMechanism([[1.0, tiny, 0], [0.5, 0.5, 0]])
    # All of a column may vanish, and what is infinite anyway may stay so.
    gone = DiscreteMechanism([[1.0, tiny], [1.0, 2 * tiny]])
    assert gone.epsilon == 0
    assert DiscreteMechanism([[1, tiny, 0], [0.4, 0.5, 0.1]]).epsilon == math.inf


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([0.5, 0.5], "matrix must have the shape"),
        (np.zeros((0, 2)), "matrix must have the shape"),
        (np.zeros((2, 0)), "matrix must have the shape"),
        ([[1.5, -0.5]], "matrix must hold numbers in"),
        ([[math.nan, 1.0]], "matrix must hold numbers in"),
        ([[0.5, 0.5], [0.5, 0.4]], "sum of 0.9"),
        ([[0.5, 0.5 + 2e-9]], "matrix must have rows that sum to 1"),
    ],
)
def test_what_is_no_law_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        DiscreteMechanism(matrix)
    DiscreteMechanism([[0.5, 0.5 + 5e-10]])


@pytest.mark.parametrize("inputs", [[2], [-1], [0.0], ["0"], np.uint64(2**63), [None]])
def test_an_input_that_is_no_row_is_refused_without_naming_it(inputs):
    mechanism = DiscreteMechanism(np.eye(2))
    with pytest.raises(
        ValueError, match=r"^inputs must be whole numbers in \[0, 2\)\.$"
    ):
        mechanism.sample(inputs)


def test_any_shape_of_inputs():
    mechanism = DiscreteMechanism(np.eye(3)[[2, 0]])
    assert mechanism.sample(0) == 2
    assert mechanism.sample(0).shape == ()
    assert mechanism.sample(np.zeros((0, 4), int)).shape == (0, 4)
    np.testing.assert_array_equal(mechanism.sample([[True, False]]), [[0, 2]])
    np.testing.assert_array_equal(mechanism.sample(np.uint8([1, 0])), [0, 2])


def test_the_law_cannot_be_changed_later():
    given = np.array([[0.5, 0.5], [0.25, 0.75]])
    mechanism = DiscreteMechanism(given)
    given[0] = 1
    np.testing.assert_array_equal(mechanism.matrix[0], [0.5, 0.5])
    for array in (mechanism.matrix, mechanism.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 0


# Randomized response


def exact_ratio(response):
    truth, other = response.weights
    return mpmath.mpf(max(truth, other)) / min(truth, other)


@settings(deadline=None, max_examples=200)
@given(
    n_answers=st.integers(2, 2000) | st.sampled_from([2, 2**20, 2**31]),
    epsilon=st.floats(1e-25, 40) | st.floats(40, 1e300),
)
@example(n_answers=2, epsilon=5e-324)
@example(n_answers=3, epsilon=1e-30)
@example(n_answers=2, epsilon=math.log(3))
def test_the_achieved_level_never_exceeds_the_target(n_answers, epsilon):
    response = RandomizedResponse(n_answers, epsilon=epsilon)
    truth, other = response.weights
    assert truth >= other >= 1
    assert truth + (n_answers - 1) * other <= 2**62
    exact = mpmath.log(exact_ratio(response))
    assert exact <= response.epsilon <= epsilon
    if 1e-9 < epsilon < 20 and n_answers <= 2000:
        assert exact >= epsilon * (1 - 1e-6)
        assert exact >= epsilon * (1 - 1e-14) - n_answers * math.exp(epsilon) * 1e-18
    if epsilon > 45:  # as close to the truth as whole numbers are
        assert other == 1
        assert response.epsilon > 42


@settings(deadline=None, max_examples=100)
@given(n_answers=st.integers(2, 300), probability=st.floats(0, 1))
@example(n_answers=7, probability=1e-300)
@example(n_answers=300, probability=0.1)
@example(n_answers=300, probability=0.001)
@example(n_answers=300, probability=1 - 2.0**-53)
@example(n_answers=2, probability=0.5)
def test_the_level_of_a_probability(n_answers, probability):
    response = RandomizedResponse(n_answers, truth_probability=probability)
    truth, other = response.weights
    total = truth + (n_answers - 1) * other
    assert abs(Fraction(truth, total) - Fraction(probability)) <= Fraction(1, 2**51)
    if probability > 0.5:
        assert response.truth_probability == probability
    if probability > 1.01 / n_answers:  # rounded toward equal probabilities
        assert Fraction(truth, total) <= Fraction(probability)
    if probability < 0.99 / n_answers:
        assert Fraction(truth, total) >= Fraction(probability)
    if truth and other:
        exact = mpmath.log(exact_ratio(response))
        assert exact <= response.epsilon <= exact * (1 + mpmath.mpf(2) ** -49)
    if 0.01 < probability < 0.99 and abs(probability * n_answers - 1) > 1e-3:
        odds = probability * (n_answers - 1) / (1 - probability)
        assert response.epsilon == pytest.approx(abs(math.log(odds)), rel=1e-10)


def test_coin_flips_have_level_ln_3():
    """The truth for heads, and else what a second coin says."""
    coins = RandomizedResponse(truth_probability=0.75)
    assert coins.weights == (3, 1)
    assert math.log(3) <= coins.epsilon <= math.log(3) * (1 + 2**-49)
    np.testing.assert_array_equal(coins.matrix, [[0.75, 0.25], [0.25, 0.75]])
    assert coins.epsilon == DiscreteMechanism(coins.matrix).epsilon
    by_level = RandomizedResponse(epsilon=math.log(3))
    assert by_level.truth_probability == pytest.approx(0.75, rel=1e-14)
    # The lecture's estimate of those who say no: 1.5 - 2 * mean.
    responses = [1, 1, 0, 1, 0, 0, 0, 0]
    expected = [1.5 - 2 * 3 / 8, 2 * 3 / 8 - 0.5]
    np.testing.assert_allclose(coins.estimate_proportions(responses), expected)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_certain_responses_are_no_privacy(probability):
    response = RandomizedResponse(truth_probability=probability)
    assert response.epsilon == math.inf
    answers = np.array([[0, 1], [1, 1]])
    expected = answers if probability else 1 - answers
    released = response.randomize(answers)
    np.testing.assert_array_equal(released, expected)
    assert released is not answers
    np.testing.assert_allclose(response.estimate_proportions(released), [0.25, 0.75])


def test_infinite_epsilon_tells_the_truth():
    response = RandomizedResponse(5, epsilon=math.inf)
    assert (response.epsilon, response.truth_probability) == (math.inf, 1)
    np.testing.assert_array_equal(response.randomize([4, 0, 3]), [4, 0, 3])
    np.testing.assert_array_equal(response.matrix, np.eye(5))


@pytest.mark.parametrize("given", [{"epsilon": 1.0}, {"truth_probability": 0.3}])
def test_one_answer_tells_nothing(given):
    response = RandomizedResponse(1, **given)
    assert response.epsilon == 0
    np.testing.assert_array_equal(response.randomize([0, 0]), [0, 0])
    np.testing.assert_array_equal(response.estimate_proportions([0, 0]), [1])
    np.testing.assert_array_equal(response.estimate_variances([0, 0]), [0])
    np.testing.assert_array_equal(response.matrix, [[1]])


def test_every_response_is_exact_over_all_draws():
    """Fed every value of a byte once, each response comes as often as it should."""
    response = RandomizedResponse(3, truth_probability=0.5)
    assert response.weights == (2, 1)

    class EveryByte(np.random.RandomState):
        def bytes(self, length):
            return bytes(range(256))[:length]

    for truth in range(3):
        released = response.randomize([truth] * 256, noise_random_state=EveryByte())
        assert np.bincount(released).tolist() == [
            128 if answer == truth else 64 for answer in range(3)
        ]


@seeds
@pytest.mark.parametrize(("n_answers", "epsilon"), [(2, 1.0), (4, 2.0), (3, 0.5)])
def test_responses_follow_the_law_and_no_other_level(n_answers, epsilon, seed):
    response = RandomizedResponse(n_answers, epsilon=epsilon)
    for truth in (0, n_answers - 1):
        answers = np.full(100_000, truth)
        released = response.randomize(answers, noise_random_state=seed)

        def law(level, truth=truth):
            return np.exp(level * (np.arange(n_answers) == truth))

        assert not rejects_counts(released, law(epsilon))
        assert not rejects_counts(released, response.matrix[truth])
        for wrong in (0.85 * epsilon, 1.15 * epsilon):
            assert rejects_counts(released, law(wrong))


@settings(deadline=None, max_examples=50)
@given(n_answers=st.integers(2, 40), epsilon=st.floats(0.01, 30))
def test_the_matrix_has_the_level_by_the_rule_of_columns(n_answers, epsilon):
    response = RandomizedResponse(n_answers, epsilon=epsilon)
    matrix = response.matrix
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
    level = math.log((matrix.max(axis=0) / matrix.min(axis=0)).max())
    assert level == pytest.approx(response.epsilon, rel=1e-9)
    assert response.truth_probability == matrix[0, 0]


@pytest.mark.parametrize(
    ("given", "proportions"),
    [
        ({"n_answers": 2, "epsilon": 1.0}, [0.3, 0.7]),
        ({"n_answers": 3, "epsilon": 0.7}, [0.5, 0.5, 0.0]),
        ({"n_answers": 3, "truth_probability": 0.1}, [0.2, 0.3, 0.5]),
        ({"n_answers": 3, "epsilon": math.inf}, [0.2, 0.3, 0.5]),
    ],
)
def test_estimates_are_unbiased_with_the_stated_variance(given, proportions):
    """By enumeration of all responses of three people from a population."""
    response = RandomizedResponse(**given)
    share = np.array(proportions) @ response.matrix
    mean, square, estimated = np.zeros((3, len(proportions)))
    for responses in itertools.product(range(len(proportions)), repeat=3):
        probability = math.prod(share[list(responses)])
        estimate = response.estimate_proportions(responses)
        assert estimate.sum() == pytest.approx(1, abs=1e-12)
        mean += probability * estimate
        square += probability * estimate**2
        estimated += probability * response.estimate_variances(responses)
    np.testing.assert_allclose(mean, proportions, atol=1e-12)
    variance = response.variance(proportions, 3)
    np.testing.assert_allclose(square - mean**2, variance, atol=1e-12)
    np.testing.assert_allclose(estimated, variance, atol=1e-12)


def test_variance_is_that_of_warner():
    """Warner 1965: pi (1 - pi)/n + (1/(16 (p - 1/2)²) - 1/4)/n."""
    p, share, n = 0.7, 0.2, 50
    got = RandomizedResponse(truth_probability=p).variance([share, 1 - share], n)
    warner = share * (1 - share) / n + (1 / (16 * (p - 0.5) ** 2) - 0.25) / n
    np.testing.assert_allclose(got, warner)


@seeds
def test_estimates_recover_a_population(seed):
    """Within what the variance allows, and not if half of the noise is forgotten."""
    rng = np.random.default_rng(seed)
    proportions = np.array([0.1, 0.6, 0.05, 0.25])
    response = RandomizedResponse(4, epsilon=1.0)
    answers = rng.choice(4, size=100_000, p=proportions)
    responses = response.randomize(answers, noise_random_state=rng)
    deviation = np.sqrt(response.variance(proportions, answers.size))
    estimates = response.estimate_proportions(responses)
    assert (np.abs(estimates - proportions) < 6 * deviation).all()
    np.testing.assert_allclose(
        np.sqrt(response.estimate_variances(responses)), deviation, rtol=0.05
    )
    wrong = RandomizedResponse(4, epsilon=2.0).estimate_proportions(responses)
    assert (np.abs(wrong - proportions) > 6 * deviation).any()


@pytest.mark.parametrize("n_answers", [2, 3, 10])
def test_uniform_responses_estimate_nothing(n_answers):
    response = RandomizedResponse(n_answers, truth_probability=1 / n_answers)
    assert response.weights == (1, 1)
    assert response.epsilon == 0
    for estimate in (
        lambda: response.estimate_proportions([0, 1]),
        lambda: response.estimate_variances([0, 1]),
        lambda: response.variance([1] + [0] * (n_answers - 1), 5),
    ):
        with pytest.raises(ValueError, match="truth_probability must not be 1 / "):
            estimate()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "exactly one of epsilon and truth_probability"),
        ({"epsilon": 1.0, "truth_probability": 0.5}, "exactly one of epsilon"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"truth_probability": 1.1}, r"truth_probability must be a number in \[0, 1\]"),
        ({"truth_probability": math.nan}, "truth_probability must be"),
        ({"truth_probability": True}, "truth_probability must be"),
        ({"truth_probability": "1"}, "truth_probability must be"),
        ({"n_answers": 0, "epsilon": 1.0}, "n_answers must be"),
        ({"n_answers": 2.0, "epsilon": 1.0}, "n_answers must be"),
        (
            {"n_answers": 2**31 + 1, "epsilon": 1.0},
            "n_answers must be at most",
        ),
    ],
)
def test_bad_parameters_of_randomized_response(given, message):
    with pytest.raises(ValueError, match=message):
        RandomizedResponse(**given)


@pytest.mark.parametrize("answers", [[2], [-1], [0.5], ["a"]])
def test_an_answer_out_of_range_is_refused_without_naming_it(answers):
    response = RandomizedResponse(epsilon=1.0)
    for name, method in (
        ("answers", response.randomize),
        ("responses", response.estimate_proportions),
        ("responses", response.estimate_variances),
    ):
        with pytest.raises(ValueError, match=rf"^{name} must be whole numbers in"):
            method(answers)


@pytest.mark.parametrize(
    ("proportions", "n"),
    [
        ([1.0], 5),
        ([0.5, 0.6], 5),
        ([-0.5, 1.5], 5),
        ([math.nan, 1.0], 5),
        ([0.5, 0.5], 0),
    ],
)
def test_what_are_no_proportions_is_refused(proportions, n):
    with pytest.raises(ValueError, match=r"(proportions|n_responses) must be"):
        RandomizedResponse(epsilon=1.0).variance(proportions, n)


def test_too_few_responses_are_refused():
    response = RandomizedResponse(epsilon=1.0)
    with pytest.raises(
        ValueError, match="responses must have a size of at least 1, got 0"
    ):
        response.estimate_proportions(np.zeros(0, int))
    with pytest.raises(
        ValueError, match="responses must have a size of at least 2, got 1"
    ):
        response.estimate_variances([0])


# All of them

RELEASES = {
    "exponential": lambda seed: ExponentialMechanism(1.0, 1.0).choose(
        np.zeros((200, 7)), noise_random_state=seed
    ),
    "discrete": lambda seed: DiscreteMechanism(np.full((2, 4), 0.25)).sample(
        [0, 1] * 100, noise_random_state=seed
    ),
    "response": lambda seed: RandomizedResponse(9, epsilon=1.0).randomize(
        [4] * 200, noise_random_state=seed
    ),
}
releases = pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)


@releases
def test_noise_is_from_the_operating_system_alone(release, monkeypatch):
    """What is released is a function of its bytes, and numpy's state is untouched."""
    calls = count_urandom(monkeypatch)
    before = np.random.get_state()[1].copy()
    assert not np.array_equal(release(None), release(None))
    assert sum(calls) >= 100
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    repeated = []
    for _ in range(2):
        monkeypatch.setattr(os, "urandom", np.random.RandomState(3).bytes)
        repeated.append(release(None))
    np.testing.assert_array_equal(*repeated)


@releases
def test_a_seed_repeats_and_takes_nothing_from_the_system(release, monkeypatch):
    calls = count_urandom(monkeypatch)
    first, again = release(7), release(7)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, release(8))
    generator = np.random.default_rng(7)
    assert not np.array_equal(release(generator), release(generator))
    np.testing.assert_array_equal(release(np.random.RandomState(7)), first)
    assert not calls
    with pytest.raises(ValueError, match="noise_random_state"):
        release("seed")


@pytest.mark.parametrize(
    "mechanism",
    [
        ExponentialMechanism(2.0, 0.5),
        ExponentialChoice(2**41, -40),
        RandomizedResponse(3, epsilon=1.0),
        DiscreteMechanism([[0.5, 0.5], [0.25, 0.75]]),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_mechanisms_are_values(mechanism):
    for twin in (copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))):
        assert repr(twin) == repr(mechanism)
        if not isinstance(mechanism, DiscreteMechanism):
            assert twin == mechanism
            assert hash(twin) == hash(mechanism)
    with pytest.raises(AttributeError):
        mechanism.epsilon = 3.0
