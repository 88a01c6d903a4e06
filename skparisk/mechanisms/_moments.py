"""Second moments of how answers differ on pairs, from few pairs as well."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Against the output that moves most: what moves less is next to constant.
_SMALLEST_SHARE = 2.0**-50
# What moves less has no inverse.
_LEAST_MOVE = 2.0**-960


class Moments(NamedTuple):
    """Second moments: root mean squares, 0 without a move, and correlations.

    Correlations are those of an identity for an output that does not move, and None if
    there are more outputs than pairs.
    """

    scales: NDArray[np.float64]
    correlations: NDArray[np.float64] | None

    def matrix(self) -> NDArray[np.float64]:
        """Return the second moments, of shape (n_outputs, n_outputs)."""
        if self.correlations is None:
            return np.diag(self.scales**2)
        return self.scales[:, None] * self.correlations * self.scales


def root_mean_squares(
    differences: NDArray[np.float64], errors: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the root mean square of each output; 0 for one that does not move.

    That is one that differs by no more than `errors`, than 2**-50 of the one that moves
    most, or than 2**-960.
    """
    sizes = np.abs(differences)
    largest = sizes.max(axis=0)
    moves = (sizes > (0.0 if errors is None else errors)).any(axis=0)
    moves &= largest > max(_SMALLEST_SHARE * largest.max(), _LEAST_MOVE)
    standard = differences[:, moves] / largest[moves]  # no overflow in squares
    scales = np.zeros(len(largest))
    scales[moves] = np.sqrt(np.mean(standard**2, axis=0)) * largest[moves]
    return scales


def second_moments(
    differences: NDArray[np.float64], errors: NDArray[np.float64] | None = None
) -> Moments:
    """Estimate second moments, not centered, shrunk by the rule of Ledoit and Wolf."""
    scales = root_mean_squares(differences, errors)
    if len(differences) < len(scales):
        return Moments(scales, None)
    correlations, moves = np.eye(len(scales)), scales > 0
    if moves.any():
        shrunk = shrunk_moments(differences[:, moves] / scales[moves])
        correlations[np.ix_(moves, moves)] = shrunk
    return Moments(scales, correlations)


def shrunk_moments(
    values: NDArray[np.float64], n_independent: int | None = None
) -> NDArray[np.float64]:
    """Return second moments of rows, not centered, by the rule of Ledoit and Wolf.

    Shrunk toward a multiple of the identity, so that any rotation of the rows is one of
    these; of the size of 1, as squares must not overflow. Where rows depend on each
    other they tell no more than `n_independent` would.
    """
    n_rows, n_columns = values.shape
    moments = values.T @ values / n_rows
    mean = np.trace(moments) / n_columns
    size = np.sum(moments**2)
    spread = size - n_columns * mean**2
    n_telling = n_rows if n_independent is None else min(n_rows, max(n_independent, 1))
    lengths = np.einsum("ij,ij->i", values, values)
    error = (np.mean(lengths**2) - size) / n_telling
    share = min(1.0, max(error, 0.0) / spread) if spread > 0 else 0.0
    return (1 - share) * moments + share * mean * np.eye(n_columns)
