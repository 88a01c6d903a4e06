"""Randomized response: its level, its law and the estimates from what was answered."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from counts import rejects_counts, seeds
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skparisk.mechanisms import DiscreteMechanism, RandomizedResponse, _discrete

mpmath.mp.dps = 60


def exact_ratio(response):
    truth, other = response.weights
    return mpmath.mpf(max(truth, other)) / min(truth, other)


@settings(deadline=None, max_examples=80)
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
@example(n_answers=3, probability=0.4)
@example(n_answers=10, probability=0.15)
@example(n_answers=3, probability=1e-6)
@example(n_answers=3, probability=3e-7)
@example(n_answers=3, probability=1.7e-8)
def test_the_level_of_a_probability(n_answers, probability):
    response = RandomizedResponse(n_answers, truth_probability=probability)
    truth, other = response.weights
    total = truth + (n_answers - 1) * other
    assert total <= 2**62
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


def test_each_response_has_exactly_its_share_of_large_numbers_of_draws(monkeypatch):
    """At both ends of what belongs to each, where doubles are too short."""
    for n_answers in (2, 3, 7):
        response = RandomizedResponse(n_answers, epsilon=0.5)
        truth, other = response.weights
        assert other > 2**53
        ranks = range(n_answers - 1)
        draws = [d for r in ranks for d in (r * other, (r + 1) * other - 1)]
        last = [(n_answers - 1) * other, (n_answers - 1) * other + truth - 1]
        drawn = np.array(draws + last, dtype=np.uint64)
        monkeypatch.setattr(_discrete, "sample_uniform_integers", lambda *_, d=drawn: d)
        for answer in range(n_answers):
            others = [r for r in range(n_answers) if r != answer]
            expected = [*np.repeat(others, 2), answer, answer]
            found = response.randomize([answer] * len(drawn))
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("given", [{"epsilon": 1.0}, {"truth_probability": 0.3}])
def test_one_answer_tells_nothing(given):
    response = RandomizedResponse(1, **given)
    assert response.epsilon == 0
    np.testing.assert_array_equal(response.randomize([0, 0]), [0, 0])
    np.testing.assert_array_equal(response.estimate_proportions([0, 0]), [1])
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
    mean, square = np.zeros((2, len(proportions)))
    for responses in itertools.product(range(len(proportions)), repeat=3):
        probability = math.prod(share[list(responses)])
        estimate = response.estimate_proportions(responses)
        assert estimate.sum() == pytest.approx(1, abs=1e-12)
        mean += probability * estimate
        square += probability * estimate**2
    np.testing.assert_allclose(mean, proportions, atol=1e-12)
    variance = response.variance(proportions, 3)
    np.testing.assert_allclose(square - mean**2, variance, atol=1e-12)


def test_variance_is_that_of_warner():
    """Warner 1965: pi (1 - pi)/n + (1/(16 (p - 1/2)²) - 1/4)/n."""
    p, share, n = 0.7, 0.2, 50
    got = RandomizedResponse(truth_probability=p).variance([share, 1 - share], n)
    warner = share * (1 - share) / n + (1 / (16 * (p - 0.5) ** 2) - 0.25) / n
    np.testing.assert_allclose(got, warner)


@pytest.mark.parametrize("n_answers", [2, 3, 10])
def test_uniform_responses_estimate_nothing(n_answers):
    response = RandomizedResponse(n_answers, truth_probability=1 / n_answers)
    assert response.weights == (1, 1)
    assert response.epsilon == 0
    for estimate in (
        lambda: response.estimate_proportions([0, 1]),
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
        ({"n_answers": 2**31 + 1, "epsilon": 1.0}, "n_answers must be at most"),
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
