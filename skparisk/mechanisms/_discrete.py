"""Discrete mechanisms: any with a finite law for each input; randomized response."""

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
from skparisk.core.noise import to_dyadic
from skparisk.core.release import draw
from skparisk.ledger import OPEN

# Sum of the whole-number weights of a law.
_TOTAL_WEIGHT = 2**62

_MOST_ANSWERS = 2**31
# How far probabilities may be off a sum of 1.
_SUM_TOLERANCE = 1e-9
# More than what rounding may take from a logarithm in floating point.
_LOG_SLACK = 2.0**-50
# More than what rounding may add to an exponential function.
_EXP_SLACK = Fraction(1, 2**50)
# exp(64) is more than any ratio of two weights.
_LARGEST_EXPONENT = 64.0


@dataclass(frozen=True, eq=False)
class DiscreteMechanism:
    """Any mechanism with finitely many inputs and outputs, drawn exactly.

    Parameters
    ----------
    matrix : array-like of shape (n_inputs, n_outputs)
        Probability of each output, for each input; in [0, 1], each row sums to 1
        within 1e-9. It must be public.

    Attributes
    ----------
    matrix : ndarray of shape (n_inputs, n_outputs)
        Law of the outputs: the given matrix, each row divided by its sum and rounded to
        multiples of 2**-62.

    weights : ndarray of shape (n_inputs, n_outputs), int64
        The same law exactly, in units of 2**-62.

    epsilon : float
        Privacy level, in [0, inf]: logarithm of the largest ratio of two probabilities
        of one output, rounded up. Infinite if only some inputs allow an output.

    Raises
    ------
    ValueError
        If a number is no probability, a row does not sum to 1, or rounding would make
        a finite privacy level infinite.

    Notes
    -----
    **Guarantee**. The output is epsilon-differentially private for any two inputs (the
    local model): by the definition, with exact integers.

    Examples
    --------
    >>> from skparisk.mechanisms import DiscreteMechanism
    >>> mechanism = DiscreteMechanism([[0.5, 0.3, 0.2], [0.25, 0.3, 0.45]])
    >>> round(mechanism.epsilon, 4)  # ln(0.45 / 0.2)
    0.8109
    >>> mechanism.sample([0, 1, 1]).shape
    (3,)
    """

    matrix: NDArray[np.float64]
    weights: NDArray[np.int64] = field(init=False, repr=False)
    epsilon: float = field(init=False)

    def __post_init__(self) -> None:
        given = _check_matrix(self.matrix)
        weights = _whole_weights(given)
        epsilon = _matrix_level(weights)
        if math.isinf(epsilon) and not _some_are_zero(given).any():
            raise ValueError(
                "matrix must have no probability that rounds to 0, as a multiple of "
                "2**-62, in a column of probabilities above 0: epsilon would be "
                f"infinite; got {given[given > 0].min():.3g}."
            )
        matrix = weights / _TOTAL_WEIGHT
        for name, array in (("weights", weights), ("matrix", matrix)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "epsilon", epsilon)

    def as_certificate(self) -> Certificate:
        """Return the claim of one output, for composition and budgets."""
        return mint(epsilon=self.epsilon)

    def sample(
        self, inputs: ArrayLike, *, noise_random_state: Any = None
    ) -> NDArray[np.intp]:
        """Return an output for each input.

        Parameters
        ----------
        inputs : array-like of int, of any shape
            Rows of the matrix, in [0, n_inputs). Each is a release of its own.

        noise_random_state
            As in :meth:`LaplaceMechanism.release`.

        Returns
        -------
        outputs : ndarray of the shape of `inputs`
            Columns of the matrix.

        Raises
        ------
        ValueError
            If an input is no row of the matrix.

        BudgetExceededError
            If a ledger is open and refuses; each input is charged.
        """
        outputs: NDArray[np.intp] = draw(
            self,
            inputs,
            [self.as_certificate()] * np.size(inputs),
            OPEN,
            note="DiscreteMechanism",
            noise_random_state=noise_random_state,
        )
        return outputs

    def prepare(self, values: ArrayLike) -> Callable[[ByteSource], NDArray[np.intp]]:
        """Return a function that draws an output for each input; it checks first."""
        n_inputs, n_outputs = self.weights.shape
        inputs = _check_indices(values, "inputs", n_inputs)
        upper_ends = self.weights.cumsum(axis=1)

        def draw(source: ByteSource) -> NDArray[np.intp]:
            uniform = sample_uniform_integers(_TOTAL_WEIGHT, inputs.size, source)
            draws = uniform.astype(np.int64).reshape(inputs.shape)
            # The first output whose upper end is above the draw, by bisection.
            first = np.zeros(inputs.shape, dtype=np.intp)
            last = np.full(inputs.shape, n_outputs - 1)
            for _ in range((n_outputs - 1).bit_length()):
                middle = (first + last) // 2
                above = upper_ends[inputs, middle] > draws
                last = np.where(above, middle, last)
                first = np.where(above, first, middle + 1)
            return first

        return draw


def _check_indices(values: ArrayLike, name: str, n: int) -> NDArray[np.intp]:
    """Return whole numbers in [0, n); an error does not say which one is not."""
    array = np.asarray(values)
    if array.dtype.kind not in "biu" or np.any(array < 0) or np.any(array >= n):
        raise ValueError(f"{name} must be whole numbers in [0, {n}).")
    return array.astype(np.intp)


def _log_ratio(high: int, low: int) -> float:
    """Return ln(high / low) for high >= low > 0, rounded up; 0 if they are equal."""
    return math.log1p((high - low) / low) * (1 + _LOG_SLACK)


def _check_matrix(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return a matrix of probabilities whose rows sum to 1."""
    given = np.array(matrix, dtype=np.float64)
    if given.ndim != 2 or not given.size:
        raise ValueError(
            "matrix must have the shape (n_inputs, n_outputs), both at least 1, got "
            f"{given.shape}."
        )
    if not ((given >= 0) & (given <= 1)).all():
        raise ValueError("matrix must hold numbers in [0, 1].")
    sums = given.sum(axis=1)
    worst = sums[np.abs(sums - 1).argmax()]
    if not abs(worst - 1) <= _SUM_TOLERANCE:
        raise ValueError(
            f"matrix must have rows that sum to 1 within {_SUM_TOLERANCE:g}, got a "
            f"sum of {worst:.12g}."
        )
    return given


def _whole_weights(matrix: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers in proportion to each row, by the largest remainders."""
    numbers, _ = to_dyadic(matrix)
    sums = numbers.sum(axis=1, keepdims=True)
    weights = numbers * _TOTAL_WEIGHT // sums
    order = np.argsort(-(numbers * _TOTAL_WEIGHT % sums), axis=1, kind="stable")
    missing = _TOTAL_WEIGHT - weights.sum(axis=1, keepdims=True)
    ranks = np.arange(matrix.shape[1])
    extra = np.empty(matrix.shape, dtype=object)
    np.put_along_axis(extra, order, (ranks < missing).astype(int), axis=1)
    return (weights + extra).astype(np.int64)


def _some_are_zero(law: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which outputs are possible for some inputs only."""
    return np.asarray((law == 0).any(axis=0) & (law > 0).any(axis=0))


def _matrix_level(weights: NDArray[np.int64]) -> float:
    """Return the logarithm of the largest ratio in a column, rounded up."""
    if _some_are_zero(weights).any():
        return math.inf
    possible = weights[:, weights.any(axis=0)]
    ratios = zip(
        possible.max(axis=0).tolist(), possible.min(axis=0).tolist(), strict=True
    )
    largest = max(Fraction(high, low) for high, low in ratios)
    return _log_ratio(largest.numerator, largest.denominator)


@dataclass(frozen=True)
class RandomizedResponse:
    """Randomized response: the true answer with some probability, drawn exactly.

    Parameters
    ----------
    n_answers : int, default=2
        Number N of possible answers, in [1, 2**31].

    epsilon : float, default=None
        Privacy level, in (0, inf]. Infinite: always the true answer.

    truth_probability : float, default=None
        Probability p of the true answer, in [0, 1]; each other one has a probability
        of (1 - p)/(N - 1). Exactly one of `epsilon` and `truth_probability` must be
        given.

    Attributes
    ----------
    epsilon : float
        Achieved privacy level, \\|ln(p (N - 1)/(1 - p))\\|, rounded up, and at most
        the given one. 0 for one answer.

    truth_probability : float
        Probability of the true answer, rounded to the nearest floating-point number.

    weights : tuple of int
        Weights of the true answer and of each other answer: the exact law.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee**. The response is epsilon-differentially private for any two answers
    (the local model: nobody else needs to be trusted), after all rounding (Warner 1965;
    Kairouz, Oh and Viswanath 2016 for more than two answers).

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
        """Return the claim of one response of a person."""
        return mint(epsilon=self.epsilon, relation="replace-one")

    def randomize(
        self, answers: ArrayLike, *, noise_random_state: Any = None
    ) -> NDArray[np.intp]:
        """Return a response to each answer.

        Parameters
        ----------
        answers : array-like of int, of any shape
            In [0, n_answers). The first axis is over people, further ones over
            questions to each of them.

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
            If a ledger is open and refuses; each question is charged once.
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
        """Return a function that draws a response to each answer; it checks first."""
        answers = _check_indices(values, "answers", self.n_answers)
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
        """Estimate the proportion of each answer. Post-processing, so it is free.

        Parameters
        ----------
        responses : array-like of int, of any shape
            In [0, n_answers); at least one.

        Returns
        -------
        proportions : ndarray of shape (n_answers,)
            (share of responses - q)/(p - q), with p the probability of the truth and q
            of each other answer. Unbiased, of sum 1; single ones may be below 0.

        Raises
        ------
        ValueError
            If a response is out of range, there is none, or p = q.
        """
        responses = _check_indices(responses, "responses", self.n_answers)
        n = responses.size
        if not n:
            raise ValueError("responses must have a size of at least 1, got 0.")
        counts = np.bincount(responses.ravel(), minlength=self.n_answers).tolist()
        scale, other = n * self._slope, n * self.weights[1]
        estimates = [(count * self._total - other) / scale for count in counts]
        return np.array(estimates)

    def variance(self, proportions: ArrayLike, n_responses: int) -> NDArray[np.float64]:
        """Return the variance of each estimated proportion.

        Over independent draws of people from a population, and over their responses.

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
            a response (Warner 1965).

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


def _weights_of_level(n_answers: int, epsilon: float) -> tuple[int, int]:
    """Return weights of the true and each other answer, within a ratio of exp(epsilon).

    The true answer has the other weight w and, rounded down, w (exp(epsilon) - 1).
    """
    if n_answers == 1 or math.isinf(epsilon):
        return 1, 0
    gain = Fraction(math.expm1(min(epsilon, _LARGEST_EXPONENT))) * (1 - _EXP_SLACK)
    other = max(1, math.floor(_TOTAL_WEIGHT / (n_answers + gain)))
    truth = other + math.floor(other * gain)
    return min(truth, _TOTAL_WEIGHT - (n_answers - 1) * other), other


def _weights_of_probability(n_answers: int, probability: float) -> tuple[int, int]:
    """Return weights of the true and each other answer, rounded toward equal ones."""
    if n_answers == 1:
        return 1, 0
    if probability == 1 / n_answers:
        return 1, 1
    unit = _TOTAL_WEIGHT >> (n_answers - 2).bit_length()
    exact = (1 - Fraction(probability)) * unit
    other = math.ceil(exact) if probability > 1 / n_answers else math.floor(exact)
    return (n_answers - 1) * (unit - other), other


def _privacy_level(n_answers: int, truth: int, other: int) -> float:
    if n_answers == 1:
        return 0.0
    if not truth or not other:
        return math.inf
    return _log_ratio(max(truth, other), min(truth, other))
