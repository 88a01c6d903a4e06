"""The exponential mechanism: a choice among candidates by their scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core.claim import Certificate, mint
from skparisk.core.exact import (
    ByteSource,
    sample_bernoulli_decay,
    sample_uniform_integers,
)
from skparisk.core.laws import LAWS, Law
from skparisk.core.noise import AdditiveNoise, OnGrid, round_to_grid, to_dyadic
from skparisk.core.release import draw, hide_values
from skparisk.ledger import OPEN
from skparisk.mechanisms._additive import DECLARED, LaplaceMechanism

# No candidate counts as farther below the best one, in steps of the grid.
_FARTHEST = 2**62
# Candidates that are tried in one round, over all rows, unless there are more rows.
_MOST_TRIES = 2**20


class _Chooser(OnGrid):
    """What chooses among candidates, for a noise scale in steps of a grid."""

    def prepare(self, values: ArrayLike) -> Callable[[ByteSource], Any]:
        """Return a function that draws a choice by scores; it checks first."""
        rows, single = _check_scores(values), np.ndim(values) == 1

        def draw(source: ByteSource) -> int | NDArray[np.intp]:
            if self.steps:
                chosen = _choose(self._steps_below_best(rows), 2 * self.steps, source)
            else:
                chosen = rows.argmax(axis=1)
            return int(chosen[0]) if single else chosen

        return draw

    def probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the law of the choice; it is as private as the scores themselves.

        Parameters
        ----------
        scores : array-like of shape (n_candidates,) or (n_rows, n_candidates)
            Finite numbers.

        Returns
        -------
        probabilities : ndarray of the shape of `scores`
            The exact probabilities of the choice, in floating point.

        Raises
        ------
        ValueError
            If a score is NaN or infinite, or there is no candidate.
        """
        rows = _check_scores(scores)
        if self.steps:
            exponents = self._steps_below_best(rows) / (2 * self.steps)
            with np.errstate(under="ignore"):
                weights = np.exp(-exponents)
        else:
            weights = np.zeros(rows.shape)
            weights[np.arange(len(rows)), rows.argmax(axis=1)] = 1.0
        return (weights / weights.sum(axis=1, keepdims=True)).reshape(np.shape(scores))

    def _steps_below_best(self, rows: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Return how far each rounded score is below the best, in steps of the grid.

        At most 2**62: this lifts a score k to max(k, best - 2**62), and so takes no
        two vectors of scores farther apart in the sup norm.
        """
        numbers, exponent = to_dyadic(rows)
        on_grid = round_to_grid(numbers, exponent - self.exponent)
        below = on_grid.max(axis=1, keepdims=True) - on_grid
        return np.minimum(below, _FARTHEST).astype(np.uint64)


@dataclass(frozen=True)
class ExponentialChoice(_Chooser):
    """An exact choice with probabilities proportional to exp(score / (2 noise_scale)).

    Parameters
    ----------
    steps : int
        Noise scale in steps of the grid, in [0, 2**52]; 0 for the best candidate, and
        of equals the first.

    exponent : int
        The grid is 2**exponent, in units of the scores.

    Attributes
    ----------
    noise_scale : float
        Scale b: candidate r is chosen with a probability proportional to
        exp(score_r / (2 b)).

    grid : float
        Scores are rounded to its multiples.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee**. The privacy loss of scores that differ by at most d in the sup norm
    is at most d / noise_scale + 1 / steps. Rounded to the grid g they differ by at most
    D = d/g + 1 steps. Each weight exp(k_r / (2 steps)) then changes by a factor within
    exp(±D / (2 steps)), and so does their sum: the loss is at most D / steps (McSherry
    and Talwar 2007, Theorem 6).

    Examples
    --------
    >>> from skparisk.mechanisms import ExponentialChoice
    >>> choice = ExponentialChoice.at_least(4.0)
    >>> choice.probabilities([3.0, 2.0, 3.0, 0.0]).round(4)
    array([0.2801, 0.2472, 0.2801, 0.1925])
    """

    steps: int
    exponent: int

    def __post_init__(self) -> None:
        noise = AdditiveNoise("laplace", self.steps, self.exponent)  # the same checks
        object.__setattr__(self, "steps", noise.steps)
        object.__setattr__(self, "exponent", noise.exponent)

    @classmethod
    def at_least(cls, noise_scale: float, *, least_steps: int = 1) -> Self:
        """Return a choice of a noise scale, rounded up.

        Parameters
        ----------
        noise_scale, least_steps
            As in :meth:`AdditiveNoise.at_least`, in units of the scores. Their rounding
            adds at most 1 / least_steps to the privacy loss.

        Raises
        ------
        ValueError
            As there.
        """
        noise = AdditiveNoise.at_least("laplace", noise_scale, least_steps=least_steps)
        return cls(noise.steps, noise.exponent)


@dataclass(frozen=True)
class ExponentialMechanism(_Chooser):
    """A choice among candidates for a known sensitivity of their scores, drawn exactly.

    Parameters
    ----------
    sensitivity : float
        Largest difference of a candidate's scores for neighboring databases, the
        sup-norm sensitivity of all scores together; finite, > 0, or >= 0 with
        ``epsilon=inf``. In units of the scores.

    epsilon : float
        Privacy level, in (0, inf]. Infinite: the best candidate is chosen, and of
        equals the first.

    Attributes
    ----------
    noise_scale : float
        Scale b: sensitivity / epsilon, and slightly more to pay for rounding.

    grid, steps, exponent : float, int, int
        As of :class:`ExponentialChoice`.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the noise scale is no finite number.

    Notes
    -----
    **Guarantee**. For databases whose scores differ by at most `sensitivity` in the
    sup norm, the choice is epsilon-differentially private (McSherry and Talwar 2007,
    Theorem 6). The caller must ensure that the candidates are the same for all
    databases. Sampling is exact: a uniform candidate is accepted with a probability of
    exp(-x), x its distance from the best over 2 b, by Algorithm 1 of Canonne, Kamath
    and Steinke 2020. The time this takes depends on the scores: nobody may observe it.

    Examples
    --------
    >>> from skparisk.mechanisms import ExponentialMechanism
    >>> auction = ExponentialMechanism(sensitivity=4.0, epsilon=1.0)
    >>> revenues = [3.0, 2.0, 3.0, 0.0]  # at a price of 1, 2, 3, 4
    >>> auction.probabilities(revenues).round(4)
    array([0.2801, 0.2472, 0.2801, 0.1925])
    >>> auction.choose(revenues) in range(4)
    True
    """

    sensitivity: float
    epsilon: float
    steps: int = field(init=False, repr=False)
    exponent: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # The scores differ by sensitivity + grid on the grid, as do values there.
        known = LaplaceMechanism(self.sensitivity, self.epsilon)
        object.__setattr__(self, "sensitivity", known.sensitivity)
        object.__setattr__(self, "epsilon", known.epsilon)
        object.__setattr__(self, "steps", known.noise.steps)
        object.__setattr__(self, "exponent", known.noise.exponent)

    def as_certificate(self) -> Certificate:
        """Return the claim of one choice, for composition and budgets."""
        return mint(epsilon=self.epsilon, assumptions=DECLARED)

    def choose(
        self, scores: ArrayLike, *, noise_random_state: Any = None
    ) -> int | NDArray[np.intp]:
        """Choose a candidate at random, favoring high scores.

        Parameters
        ----------
        scores : array-like of shape (n_candidates,) or (n_rows, n_candidates)
            Finite numbers. Each row is a release of its own. The time it takes depends
            on them: about n_candidates times the probability of the best one are tried.

        noise_random_state
            As in :meth:`LaplaceMechanism.release`.

        Returns
        -------
        chosen : int or ndarray of shape (n_rows,)
            Index of the candidate, for each row.

        Raises
        ------
        ValueError
            If a score is NaN or infinite, or there is no candidate.

        BudgetExceededError, IncompatibleError
            If a ledger is open and refuses; each row is charged.
        """
        chosen: int | NDArray[np.intp] = draw(
            self,
            scores,
            [self.as_certificate()] * len(_check_scores(scores)),
            OPEN,
            note=str(self),
            noise_random_state=noise_random_state,
        )
        return chosen


def _check_scores(scores: ArrayLike) -> NDArray[np.float64]:
    """Return finite scores as rows of at least one candidate."""
    rows = hide_values(np.asarray, scores, dtype=np.float64)
    if rows.ndim not in (1, 2) or rows.shape[-1] == 0:
        raise ValueError(
            "scores must have the shape (n_candidates,) or (n_rows, n_candidates) "
            f"with n_candidates >= 1, got {rows.shape}."
        )
    if not np.isfinite(rows).all():
        raise ValueError("scores must be finite numbers, got NaN or infinity.")
    return np.asarray(np.atleast_2d(rows))


def _choose(
    below: NDArray[np.uint64], scale: int, source: ByteSource
) -> NDArray[np.intp]:
    """Return a column for each row, drawn in proportion to exp(-below / scale).

    The first uniform candidate that is accepted with that probability. Each round
    tries twice as many as the last, for all rows that have none yet.
    """
    n_rows, n_candidates = below.shape
    chosen = np.empty(n_rows, dtype=np.intp)
    running = np.arange(n_rows)
    tries = 1
    while running.size:
        size = (running.size, tries)
        candidates = sample_uniform_integers(n_candidates, math.prod(size), source)
        candidates = candidates.reshape(size).astype(np.intp)
        distances = below[running[:, np.newaxis], candidates]
        accepted = sample_bernoulli_decay(distances.ravel(), scale, source).reshape(
            size
        )
        first = candidates[np.arange(running.size), accepted.argmax(axis=1)]
        done = accepted.any(axis=1)
        chosen[running[done]] = first[done]
        running = running[~done]
        tries = min(2 * tries, max(1, _MOST_TRIES // max(1, running.size)))
    return chosen


@dataclass(frozen=True)
class Exponential(Law):
    """The exponential mechanism: a candidate, with probability as exp(score / (2 b)).

    Scores of neighbors differ in the sup norm, and by one step of the grid at the most,
    as one output with Laplace noise does: its loss is in the same bounds.

    Examples
    --------
    >>> from skparisk.mechanisms import Exponential
    >>> Exponential().unit_noise(0.5, 0.0, n_outputs=100).scale
    2.000001907350452
    """

    name: ClassVar[str] = "exponential"
    norm: ClassVar[float] = math.inf
    deviation: ClassVar[float] = math.nan

    def sample(self, scale: int, size: int, source: ByteSource) -> NDArray[np.int64]:
        raise TypeError("Exponential chooses a candidate, and adds no noise.")

    @staticmethod
    def chooses(scale: float, steps: int) -> ExponentialChoice:
        if not scale:
            return ExponentialChoice(0, 0)
        return ExponentialChoice.at_least(scale, least_steps=steps)


LAWS["exponential"] = Exponential
