"""Discrete mechanisms: a finite law for each of finitely many inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core.claim import Certificate, mint
from skparisk.core.exact import ByteSource, sample_uniform_integers
from skparisk.core.noise import to_dyadic
from skparisk.core.release import draw
from skparisk.ledger import OPEN

# What the whole-number weights of a law sum to.
TOTAL_WEIGHT = 2**62

# How far the probabilities of a row may be off a sum of 1.
_SUM_TOLERANCE = 1e-9
# More than what rounding may take from a logarithm in floating point.
_LOG_SLACK = 2.0**-50


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
        The law that outputs are drawn from: the matrix that was given, with each row
        divided by its sum and rounded to multiples of 2**-62. A probability below
        2**-62 may become 0.

    weights : ndarray of shape (n_inputs, n_outputs), int64
        The same law exactly, in units of 2**-62.

    epsilon : float
        Privacy level, in [0, inf]: logarithm of the largest ratio of two probabilities
        of one output, rounded up. Infinite if an output is possible for some inputs
        only.

    Raises
    ------
    ValueError
        If a number is no probability, a row does not sum to 1, or rounding would make
        a finite privacy level infinite.

    Notes
    -----
    **Guarantee**. The output is epsilon-differentially private for any two inputs,
    that is in the local model: by the definition, with exact integers.

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
        epsilon = _privacy_level(weights)
        if math.isinf(epsilon) and not _some_are_zero(given).any():
            raise ValueError(
                "matrix must have no probability that rounds to 0, as a multiple of "
                "2**-62, in a column of probabilities above 0: epsilon would be "
                f"infinite; got {given[given > 0].min():.3g}."
            )
        matrix = weights / TOTAL_WEIGHT
        for name, array in (("weights", weights), ("matrix", matrix)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "epsilon", epsilon)

    def as_certificate(self) -> Certificate:
        """Return the claim that composition and budgets count for one output."""
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
        """Return what draws an output for each input; what fails comes before.

        Parameters
        ----------
        values : array-like of int, of any shape
            Rows of the matrix, in [0, n_inputs). Each is a release of its own.

        Returns
        -------
        draw : callable
            ``draw(source)`` returns the outputs, made of random bytes.
        """
        n_inputs, n_outputs = self.weights.shape
        inputs = check_indices(values, "inputs", n_inputs)
        upper_ends = self.weights.cumsum(axis=1)

        def draw(source: ByteSource) -> NDArray[np.intp]:
            uniform = sample_uniform_integers(TOTAL_WEIGHT, inputs.size, source)
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


def check_indices(values: ArrayLike, name: str, n: int) -> NDArray[np.intp]:
    """Return whole numbers in [0, n); an error does not say which one is not."""
    array = np.asarray(values)
    if array.dtype.kind not in "biu" or np.any(array < 0) or np.any(array >= n):
        raise ValueError(f"{name} must be whole numbers in [0, {n}).")
    return array.astype(np.intp)


def log_ratio(high: int, low: int) -> float:
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
    weights = numbers * TOTAL_WEIGHT // sums
    order = np.argsort(-(numbers * TOTAL_WEIGHT % sums), axis=1, kind="stable")
    missing = TOTAL_WEIGHT - weights.sum(axis=1, keepdims=True)
    ranks = np.arange(matrix.shape[1])
    extra = np.empty(matrix.shape, dtype=object)
    np.put_along_axis(extra, order, (ranks < missing).astype(int), axis=1)
    return (weights + extra).astype(np.int64)


def _some_are_zero(law: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which outputs are possible for some inputs only."""
    return np.asarray((law == 0).any(axis=0) & (law > 0).any(axis=0))


def _privacy_level(weights: NDArray[np.int64]) -> float:
    """Return the logarithm of the largest ratio in a column, rounded up."""
    if _some_are_zero(weights).any():
        return math.inf
    possible = weights[:, weights.any(axis=0)]
    ratios = zip(
        possible.max(axis=0).tolist(), possible.min(axis=0).tolist(), strict=True
    )
    largest = max(Fraction(high, low) for high, low in ratios)
    return log_ratio(largest.numerator, largest.denominator)
