"""A noisy answer and one of public records, weighed by how far each may be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Of a variance of 1: what is singular but for rounding can be solved for.
_RIDGE = 2.0**-36
_SMALLEST = np.finfo(np.float64).tiny
# Of the mean weight: along what public records do not tell apart, others may differ.
_LEAST_WEIGHT = 2.0**-10
# Logarithms of how much larger a shift is than the error of the public fit.
_LOG_ODDS = np.linspace(-12.0, 60.0, 721)


@dataclass(frozen=True, eq=False)
class Weighed:
    """What a release tells of how far a public fit is off, for each output."""

    # What is to be added to the public fit.
    correction: Floats
    # Of the release, the mean among the outputs, in [0, 1].
    weight: float
    # Standard deviations of what public and private people differ in: medians.
    shift: Floats


def weigh(
    distance: Floats,
    *,
    noise: Floats,
    private: Floats,
    public: Floats,
    shape: Floats,
    surplus: Floats | None = None,
) -> Weighed:
    """Return the correction of least expected error to a public fit.

    `distance` is what a release says of it: with noise of the covariance `noise`, with
    `private`, that of the private fit over people drawn by chance, and less the error
    of the public fit, of the covariance `public`. What the populations differ in is as
    likely in any direction that costs as much by the inverse of `shape`.

    `surplus` is what the fit to be corrected has beyond the one that was taken from the
    release: what a penalty took from both, and so from the distance. The less alike
    people are, the less of it is kept.
    """
    n_outputs = len(distance)
    units = units_of(noise + private + public)
    scales = np.outer(units, units)
    of_release, shape = (noise + private) / scales, shape / scales
    distance, public = distance / units, public / scales
    surplus = np.zeros(n_outputs) if surplus is None else surplus / units
    found = _Shifts.of(distance, of_release, public, shape)
    turn = found.turn
    inverse = found.chances @ (1 / (found.variances + found.sizes[:, None]))
    gain = np.eye(n_outputs) - of_release @ (turn.T * inverse) @ turn
    # As James and Stein: of its mean square, that of shifts is not of private people.
    size = max(np.sum((turn @ surplus) ** 2) / n_outputs, _SMALLEST)
    dropped = found.chances @ np.minimum(found.sizes, size) / size
    return Weighed(
        units * (gain @ distance - dropped * surplus),
        float(np.clip(np.trace(gain) / n_outputs, 0.0, 1.0)),
        units * np.sqrt(found.median * np.diag(shape)),
    )


def weights_of_seen(
    seen: Floats, response: Floats, *, release: Floats, public: Floats
) -> tuple[Floats, float]:
    """Return weights, in [0, 1], of what a release shows of a shift, and its variance.

    Along axes in which shifts are alike. A release shows ``response @ shift``, with an
    error of the covariance `release`, of a shift that is `public` and what populations
    differ in. The weights are those with which it is closest to the shift itself on
    average: nothing that a penalty took is enlarged, but no more is taken.
    """
    shown = response @ public @ response.T
    unit = max(np.trace(release + shown) / len(seen), _SMALLEST)
    seen, release, public, shown = (
        seen / np.sqrt(unit),
        *(each / unit for each in (release, public, shown)),
    )
    found = _Shifts.of(seen, release, shown, response @ response.T)
    sizes = found.sizes[:, None]
    variances = np.diag(release + shown) + sizes * np.diag(response @ response.T)
    products = np.diag(public @ response.T) + sizes * np.diag(response)
    weights = found.chances @ (products / np.maximum(variances, _SMALLEST))
    return np.clip(weights, 0.0, 1.0), unit * found.median


class _Shifts(NamedTuple):
    """How likely which shifts are, by how far a release is from a public fit."""

    # To directions in which chance is independent, and shifts are alike.
    turn: Floats
    variances: Floats
    # Variances of shifts, and how likely each is.
    sizes: Floats
    chances: Floats

    @classmethod
    def of(
        cls, distance: Floats, release: Floats, public: Floats, shape: Floats
    ) -> Self:
        n_outputs = len(distance)
        turn = np.linalg.inv(np.linalg.cholesky(_lifted(shape, _RIDGE)))
        chance = release + public + _RIDGE * np.eye(n_outputs)
        variances, axes = np.linalg.eigh(turn @ chance @ turn.T)
        turn = axes.T @ turn
        usual = np.trace(turn @ public @ turn.T) / n_outputs
        sizes = usual * np.exp(_LOG_ODDS)
        chances = _posterior((turn @ distance) ** 2, variances + sizes[:, None])
        return cls(turn, variances, sizes, chances)

    @property
    def median(self) -> float:
        return float(self.sizes[np.searchsorted(np.cumsum(self.chances), 0.5)])


def units_of(covariance: Floats) -> Floats:
    """Return units in which no output has a variance above 1."""
    largest = np.sqrt(np.diag(covariance))
    return np.where(largest > 0, largest, 1.0)


def shape_of(weights: Floats, units: Floats | None = None) -> Floats:
    """Return a covariance that costs as much in any direction, by weights of outputs.

    But for directions of little weight, in these units.
    """
    scales = 1.0 if units is None else np.outer(units, units)
    inverse = np.linalg.inv(_lifted(weights * scales, _LEAST_WEIGHT))
    return np.asarray(inverse * scales, dtype=np.float64)


def _lifted(matrix: Floats, share: float) -> Floats:
    """Return a matrix of which no direction has less than a share of their mean."""
    mean = np.trace(matrix) / len(matrix)
    return matrix + share * (mean if mean > 0 else 1.0) * np.eye(len(matrix))


def _posterior(squares: Floats, variances: Floats) -> Floats:
    """Return how likely each shift is, for squares of such variances.

    Before these are known its mean is what is usual, and it is more than c times that
    with probability 1 / (1 + c)^2.
    """
    before = -2 * np.logaddexp(0, _LOG_ODDS) - np.logaddexp(0, -_LOG_ODDS)
    log = before - np.sum(np.log(variances) + squares / variances, axis=1) / 2
    chances = np.exp(log - log.max())
    return np.asarray(chances / chances.sum())
