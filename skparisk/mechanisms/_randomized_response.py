"""Randomized response: answers to a question, each made private by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core.checks import check_at_least, check_epsilon, check_number
from skparisk.core.claim import Certificate, mint
from skparisk.core.exact import ByteSource, sample_uniform_integers
from skparisk.core.release import draw
from skparisk.ledger import OPEN
from skparisk.mechanisms._discrete import TOTAL_WEIGHT, check_indices, log_ratio

_MOST_ANSWERS = 2**31
# How far proportions may be off a sum of 1.
_SUM_TOLERANCE = 1e-9
# More than what rounding may add to an exponential function in floating point.
_EXP_SLACK = Fraction(1, 2**50)
# exp(64) is more than any ratio of two weights.
_LARGEST_EXPONENT = 64.0


@dataclass(frozen=True)
class RandomizedResponse:
    """The true answer with some probability, and else any other, drawn exactly.

    Parameters
    ----------
    n_answers : int, default=2
        Number N of possible answers, in [1, 2**31].

    epsilon : float, default=None
        Privacy level, in (0, inf]. The truth is told as often as it allows. Infinite:
        always.

    truth_probability : float, default=None
        Probability p of the true answer, in [0, 1]; each other one has a probability
        of (1 - p)/(N - 1). Exactly one of `epsilon` and `truth_probability` must be
        given.

    Attributes
    ----------
    epsilon : float
        Achieved privacy level, \\|ln(p (N - 1)/(1 - p))\\|, rounded up; never above the
        one that was asked for. 0 for one answer, which tells nothing.

    truth_probability : float
        Probability of the true answer, rounded to the nearest floating-point number.

    weights : tuple of int
        Those of the true and of each other answer: the exact law.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee**. The response is epsilon-differentially private for any two answers,
    that is in the local model: no one needs to be trusted but the one who answers
    (Warner 1965; Kairouz, Oh and Viswanath 2016 for more than two answers). The
    level is that of the whole numbers that the probabilities are rounded to.

    Examples
    --------
    >>> from skparisk.mechanisms import RandomizedResponse
    >>> coins = RandomizedResponse(truth_probability=0.75)
    >>> round(coins.epsilon, 4)  # ln 3
    1.0986
    >>> responses = coins.randomize([0, 1, 1, 0] * 1000)
    >>> coins.estimate_proportions(responses).sum()
    np.float64(1.0)
    """

    n_answers: int = 2
    epsilon: Any = field(default=None, kw_only=True)
    truth_probability: Any = field(default=None, kw_only=True)
    weights: tuple[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n_answers = check_at_least(self.n_answers, "n_answers", 1)
        if n_answers > _MOST_ANSWERS:
            raise ValueError(f"n_answers must be at most 2**31, got {n_answers!r}.")
        if (self.epsilon is None) == (self.truth_probability is None):
            raise ValueError(
                "exactly one of epsilon and truth_probability must be given, got "
                f"{self.epsilon!r} and {self.truth_probability!r}."
            )
        if self.epsilon is None:
            probability = check_number(
                self.truth_probability, "truth_probability", "[0, 1]"
            )
            truth, other = _weights_of_probability(n_answers, probability)
            most = math.inf
        else:
            most = check_epsilon(self.epsilon)
            truth, other = _weights_of_level(n_answers, most)
        divisor = math.gcd(truth, other)
        weights = (truth // divisor, other // divisor)
        # The exact weights keep the level; the slack of its rounding may not.
        epsilon = min(_privacy_level(n_answers, *weights), most)
        object.__setattr__(self, "n_answers", n_answers)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "truth_probability", weights[0] / self._total)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Probability of each response (columns) for each true answer (rows)."""
        truth, other = self.weights
        matrix = np.full((self.n_answers, self.n_answers), other / self._total)
        np.fill_diagonal(matrix, truth / self._total)
        return matrix

    def as_certificate(self) -> Certificate:
        """Return the claim that counts for one response of a person."""
        return mint(epsilon=self.epsilon, relation="replace-one")

    def randomize(
        self, answers: ArrayLike, *, noise_random_state: Any = None
    ) -> NDArray[np.intp]:
        """Return a response to each answer.

        Parameters
        ----------
        answers : array-like of int, of any shape
            In [0, n_answers). Each is a release of its own. The first axis is over
            people; further ones are over questions that each of them is asked.

        noise_random_state
            As in :meth:`LaplaceMechanism.release`.

        Returns
        -------
        responses : ndarray of the shape of `answers`
            In [0, n_answers).

        Raises
        ------
        ValueError
            If an answer is out of range.

        BudgetExceededError
            If a ledger is open and refuses; each question is charged once, as its
            answers are those of different people.
        """
        n_questions = math.prod(np.shape(answers)[1:])
        responses: NDArray[np.intp] = draw(
            self,
            answers,
            [self.as_certificate()] * n_questions,
            OPEN,
            note=str(self),
            noise_random_state=noise_random_state,
        )
        return responses

    def prepare(self, values: ArrayLike) -> Callable[[ByteSource], NDArray[np.intp]]:
        """Return what draws a response to each answer; what fails comes before.

        Parameters
        ----------
        values : array-like of int, of any shape
            Answers, in [0, n_answers).

        Returns
        -------
        draw : callable
            ``draw(source)`` returns the responses, made of random bytes.
        """
        answers = check_indices(values, "answers", self.n_answers)
        _, other = self.weights

        def draw(source: ByteSource) -> NDArray[np.intp]:
            if not other:
                return answers.copy()
            draws = sample_uniform_integers(self._total, answers.size, source)
            # The others have `other` draws each, and the truth those that are left.
            rank = (draws // np.uint64(other)).astype(np.intp).reshape(answers.shape)
            told = rank + (rank >= answers)
            return np.where(rank < self.n_answers - 1, told, answers)

        return draw

    def estimate_proportions(self, responses: ArrayLike) -> NDArray[np.float64]:
        """Estimate how frequent each answer is, from responses.

        A function of what is released, at no cost in privacy.

        Parameters
        ----------
        responses : array-like of int, of any shape
            In [0, n_answers); at least one.

        Returns
        -------
        proportions : ndarray of shape (n_answers,)
            (share of responses - q)/(p - q), with p the probability of the truth and q
            that of each other answer. Unbiased. They sum to 1, and may be below 0 or
            above 1.

        Raises
        ------
        ValueError
            If a response is out of range, there is none, or all responses are as
            probable whatever the answers are (p = q).
        """
        counts, n = self._count(responses, least=1)
        scale, other = n * self._slope, n * self.weights[1]
        estimates = [(count * self._total - other) / scale for count in counts]
        return np.array(estimates)

    def estimate_variances(self, responses: ArrayLike) -> NDArray[np.float64]:
        """Estimate the variance of each estimated proportion, from the same responses.

        A function of what is released, at no cost in privacy.

        Parameters
        ----------
        responses : array-like of int, of any shape
            In [0, n_answers); at least two.

        Returns
        -------
        variances : ndarray of shape (n_answers,)
            Unbiased estimates of :meth:`variance`.

        Raises
        ------
        ValueError
            As for :meth:`estimate_proportions`, or if there are fewer than two.
        """
        counts, n = self._count(responses, least=2)
        scale = n**2 * (n - 1) * self._slope**2
        return np.array([c * (n - c) * self._total**2 / scale for c in counts])

    def variance(self, proportions: ArrayLike, n_responses: int) -> NDArray[np.float64]:
        """Return the variance of each estimated proportion.

        Over both the draw of people and their responses: their answers are
        independent draws from a population with these proportions.

        Parameters
        ----------
        proportions : array-like of shape (n_answers,)
            True proportions of the answers in the population, in [0, 1]; they sum to 1.

        n_responses : int
            Number n of responses, >= 1.

        Returns
        -------
        variances : ndarray of shape (n_answers,)
            l (1 - l)/(n (p - q)²), with l = q + (p - q) proportion the probability of
            a response (Warner 1965). The part of the noise alone is what this exceeds
            proportion (1 - proportion)/n by.

        Raises
        ------
        ValueError
            If a parameter is out of range, or p = q.
        """
        n_responses = check_at_least(n_responses, "n_responses", 1)
        proportions = np.asarray(proportions, dtype=np.float64)
        if (
            proportions.shape != (self.n_answers,)
            or not (proportions >= 0).all()
            or abs(proportions.sum() - 1) > _SUM_TOLERANCE
        ):
            raise ValueError(
                f"proportions must be {self.n_answers} numbers (n_answers) in [0, 1] "
                f"that sum to 1, got {proportions!r}."
            )
        slope = self._slope / self._total
        share = self.weights[1] / self._total + slope * proportions
        return np.asarray(share * (1 - share) / (n_responses * slope**2))

    @property
    def _total(self) -> int:
        truth, other = self.weights
        return truth + (self.n_answers - 1) * other

    @property
    def _slope(self) -> int:
        """Return by how much an answer changes the weight of a response."""
        truth, other = self.weights
        if truth == other:
            raise ValueError(
                f"truth_probability must not be 1 / {self.n_answers} (n_answers): each "
                "response is then equally probable whatever the answer is, and says "
                "nothing about the proportions."
            )
        return truth - other

    def _count(self, responses: ArrayLike, least: int) -> tuple[list[int], int]:
        responses = check_indices(responses, "responses", self.n_answers)
        if responses.size < least:
            raise ValueError(
                f"responses must have a size of at least {least}, got {responses.size}."
            )
        counts = np.bincount(responses.ravel(), minlength=self.n_answers)
        return counts.tolist(), responses.size


def _weights_of_level(n_answers: int, epsilon: float) -> tuple[int, int]:
    """Return weights of the true and each other answer, within a ratio of exp(epsilon).

    The true answer has the other weight w and, rounded down, w (exp(epsilon) - 1).
    """
    if n_answers == 1 or math.isinf(epsilon):
        return 1, 0
    gain = Fraction(math.expm1(min(epsilon, _LARGEST_EXPONENT))) * (1 - _EXP_SLACK)
    other = max(1, math.floor(TOTAL_WEIGHT / (n_answers + gain)))
    truth = other + math.floor(other * gain)
    return min(truth, TOTAL_WEIGHT - (n_answers - 1) * other), other


def _weights_of_probability(n_answers: int, probability: float) -> tuple[int, int]:
    """Return weights of the true and each other answer, rounded toward equal ones."""
    if n_answers == 1:
        return 1, 0
    if probability == 1 / n_answers:
        return 1, 1
    unit = TOTAL_WEIGHT >> (n_answers - 2).bit_length()
    exact = (1 - Fraction(probability)) * unit
    other = math.ceil(exact) if probability > 1 / n_answers else math.floor(exact)
    return (n_answers - 1) * (unit - other), other


def _privacy_level(n_answers: int, truth: int, other: int) -> float:
    if n_answers == 1:
        return 0.0
    if not truth or not other:
        return math.inf
    return log_ratio(max(truth, other), min(truth, other))
