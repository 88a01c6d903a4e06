"""The law of records, learned with noise: histograms of columns, and a copula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from skparisk.core.release import forgetting
from skparisk.core.sealed import is_missing
from skparisk.mechanisms import LaplaceMechanism
from skparisk.reference._domain import Categories, Interval, holes_in
from skparisk.reference._schema import array_of

# Bins of a column of numbers: one for so many times a record's part of the level, as
# noise in more of them would outweigh what they tell; between these limits.
_RECORDS_PER_BIN = 2.0
_LEAST_BINS = 4
_MOST_BINS = 64
# Of the scale of the noise, added to each count, so that no bin is left out.
_PSEUDO_COUNT = 0.5
# Standard error of a mean product of signs, beyond which none is learned.
_LARGEST_ERROR = 0.25
# Of the level for signs, if any; the rest is for histograms. Exact in binary.
_SHARE_OF_SIGNS = 0.5
_LEAST_EIGENVALUE = 1e-3
# Of the noise of a count, over all records: beyond it histograms tell next to nothing.
_LARGEST_SCALE = 0.5

_Floats = NDArray[np.float64]


def histogram_sensitivity(n_columns: int) -> int:
    """Return by how much counts of bins differ in the l1 norm, all columns together.

    A record leaves one bin of each column and enters another (:ref:`thm-learned`).
    """
    return 2 * n_columns


def sign_sensitivity(n_columns: int) -> int:
    """Return by how much sums of products of two signs differ in the l1 norm.

    If k of d signs change, k (d - k) products do, each by 2 (:ref:`thm-learned`).
    """
    return 2 * (n_columns // 2) * (n_columns - n_columns // 2)


def share_levels(n_records: int, epsilon: float, n_columns: int) -> tuple[float, float]:
    """Return levels that sum to `epsilon`; 0 for signs that noise would drown."""
    for_signs = _SHARE_OF_SIGNS * epsilon
    learned = n_columns > 1 and (
        _sign_error(n_records, for_signs, n_columns) <= _LARGEST_ERROR
    )
    return (epsilon - for_signs, for_signs) if learned else (epsilon, 0.0)


def count_bins(n_records: int, epsilon: float, n_columns: int) -> int:
    """Return the bins of a column of numbers, from public numbers alone."""
    level, _ = share_levels(n_records, epsilon, n_columns)
    bins = n_records * level / (n_columns * _RECORDS_PER_BIN)
    return max(_LEAST_BINS, math.floor(min(bins, _MOST_BINS)))


def tells_something(n_records: int, epsilon: float, n_columns: int) -> bool:
    """Tell if the noise of a count is not as large as counts are."""
    level, _ = share_levels(n_records, epsilon, n_columns)
    scale = histogram_sensitivity(n_columns) / level
    return scale <= _LARGEST_SCALE * n_records


def _sign_error(n_records: int, level: float, n_columns: int) -> float:
    """Return the standard deviation of the noise in a mean product of signs."""
    return math.sqrt(2) * sign_sensitivity(n_columns) / (level * n_records)


@dataclass(frozen=True, eq=False)
class Axis:
    """A column as positions: in which bin a value is, and where in it."""

    # What it may hold: a bin for each category.
    column: Interval | Categories
    # All numbers that are in a range, in order. None: all in between as well.
    values: NDArray[Any] | None
    # Bins of equal width for numbers.
    n_bins: int

    @classmethod
    def of(cls, column: Any, classes: NDArray[Any] | None, n_bins: int) -> Axis:
        """Return the axis of a column that is declared."""
        if isinstance(column, Categories):
            return cls(column, _with_none(column.values), len(column.values))
        if classes is None:
            return cls(column, None, n_bins)
        return cls(column, np.sort(classes), min(n_bins, len(classes)))

    @property
    def n_counts(self) -> int:
        """Bins, and one for what is missing where a number may be."""
        return self.n_bins + (isinstance(self.column, Interval) and self.column.missing)

    def place(self, values: NDArray[Any], rng: np.random.Generator) -> _Floats:
        """Return positions in [0, n_counts): random ones for categories and gaps."""
        anywhere = rng.random(len(values))
        if isinstance(self.column, Categories):
            known = {value: place for place, value in enumerate(self.column.values)}
            listed = values.tolist()
            bins = [known[None if is_missing(value) else value] for value in listed]
            return np.array(bins) + anywhere
        holes = holes_in(values)
        low, high = self.column.low, self.column.high
        numbers = np.where(holes, low, values).astype(np.float64)
        if self.values is not None:
            found = np.searchsorted(self.values, numbers).clip(max=len(self.values) - 1)
            share = (found + anywhere) / len(self.values)
        elif low == high:
            share = anywhere
        else:  # halves, as the width may be beyond the largest number
            share = (numbers / 2 - low / 2) / (high / 2 - low / 2)
        places = np.minimum(share * self.n_bins, np.nextafter(self.n_bins, 0))
        return np.where(holes, self.n_bins + anywhere, places)

    def values_at(self, positions: _Floats) -> NDArray[Any]:
        """Return the values that positions stand for."""
        bins = positions.astype(np.intp).clip(max=self.n_counts - 1)
        if isinstance(self.column, Categories):
            assert self.values is not None
            return self.values[bins]
        share = (positions / self.n_bins).clip(max=1.0)
        if self.values is not None:
            index = (share * len(self.values)).astype(np.intp)
            return self.values[index.clip(max=len(self.values) - 1)]
        low, high = self.column.low, self.column.high
        numbers = ((1 - share) * low + share * high).clip(low, high)
        return np.where(bins < self.n_bins, numbers, np.nan)


@dataclass(frozen=True, eq=False)
class HistogramCopula:
    """A law of columns: the histogram of each, and correlations of normal scores."""

    # The columns.
    axes: tuple[Axis, ...]
    # For each of them, the shares of its bins.
    shares: tuple[_Floats, ...]
    # Shape (n_columns, n_columns). With rows of length 1: normal scores are it times
    # independent ones.
    factor: _Floats

    def sample(self, n_records: int, rng: np.random.Generator) -> list[NDArray[Any]]:
        """Return columns of records that are independent and alike."""
        scores = rng.standard_normal((n_records, len(self.axes))) @ self.factor.T
        found = []
        for axis, shares, u in zip(self.axes, self.shares, ndtr(scores).T, strict=True):
            ends = np.cumsum(shares)
            bins = np.searchsorted(ends, u, side="right").clip(max=len(ends) - 1)
            inside = (u - ends[bins]) / shares[bins] + 1
            # Rounding must not lead to the next bin.
            places = bins + inside.clip(0.0, np.nextafter(1.0, 0))
            found.append(axis.values_at(places))
        return found


@forgetting
def learn_copula(
    axes: Sequence[Axis],
    columns: Sequence[NDArray[Any]],
    epsilon: float,
    *,
    rng: np.random.Generator,
    noise_random_state: Any = None,
) -> HistogramCopula:
    """Return the law of records, with noise for `epsilon` in all (:ref:`thm-learned`).

    `rng` places what is anywhere in a bin, independently of the records.
    """
    n_records, n_columns = len(columns[0]), len(axes)
    for_histograms, for_signs = share_levels(n_records, epsilon, n_columns)
    with np.errstate(all="ignore"):  # an error would tell of a record
        positions = [axis.place(v, rng) for axis, v in zip(axes, columns, strict=True)]
    counts = [
        np.bincount(place.astype(np.intp), minlength=axis.n_counts)
        for axis, place in zip(axes, positions, strict=True)
    ]
    mechanism = LaplaceMechanism(
        histogram_sensitivity(n_columns),
        for_histograms,
        sum(map(len, counts)),
    )
    noisy = mechanism.release(
        np.concatenate(counts), noise_random_state=noise_random_state
    )
    ends = np.cumsum([len(part) for part in counts])[:-1]
    least = _PSEUDO_COUNT * mechanism.noise_scale
    shares = tuple(_shares(part, n_records, least) for part in np.split(noisy, ends))
    factor = np.eye(n_columns)
    if for_signs:
        signs = np.column_stack(
            [_signs(place, part) for place, part in zip(positions, shares, strict=True)]
        )
        pairs = np.triu_indices(n_columns, 1)
        products = LaplaceMechanism(
            sign_sensitivity(n_columns), for_signs, len(pairs[0])
        ).release((signs.T @ signs)[pairs], noise_random_state=noise_random_state)
        error = _sign_error(n_records, for_signs, n_columns)
        factor = _correlate(products / n_records, error, n_columns)
    return HistogramCopula(tuple(axes), shares, factor)


def _shares(noisy: _Floats, n_records: int, least: float) -> _Floats:
    """Return shares of bins: the nearest counts >= 0 with their sum, and a few more."""
    counts = nearest_counts(noisy, n_records) + least
    return np.asarray(counts / counts.sum())


def nearest_counts(noisy: _Floats, total: int) -> _Floats:
    """Return the nearest counts that are not negative, and add up to a total."""
    # Onto a simplex: what is taken off all is such that the rest adds up.
    falling = np.sort(noisy, axis=None)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    taken = excess[np.flatnonzero(falling > excess)[-1]]
    return np.asarray((noisy - taken).clip(min=0.0))


def _signs(positions: _Floats, shares: _Floats) -> _Floats:
    """Return 1 for records above the median of a column, and -1 for the others."""
    bins = positions.astype(np.intp)
    ends = np.cumsum(shares)
    below = ends[bins] - shares[bins] * (1 - (positions - bins))
    return np.where(below >= 0.5, 1.0, -1.0)


def _correlate(products: _Floats, error: float, n_columns: int) -> _Floats:
    """Return the factor of a correlation matrix, from noisy means of products.

    Normal scores of correlation r have a mean product of signs of 2 arcsin(r) / pi.
    What is within an error of 0 counts as 0, and the rest is that much nearer.
    """
    kept = np.sign(products) * (np.abs(products) - error).clip(0.0, 1.0)
    matrix = np.eye(n_columns)
    rows, columns = np.triu_indices(n_columns, 1)
    matrix[rows, columns] = matrix[columns, rows] = np.sin(np.pi / 2 * kept)
    values, vectors = np.linalg.eigh(matrix)
    factor = vectors * np.sqrt(values.clip(min=_LEAST_EIGENVALUE))
    factor /= np.linalg.norm(factor, axis=1, keepdims=True)
    return np.asarray(factor)


def _with_none(values: Sequence[Any]) -> NDArray[Any]:
    """Return categories, with NaN among numbers for what is missing."""
    present = array_of([value for value in values if value is not None])
    if None not in values or present.dtype.kind not in "iuf":
        return array_of(values)
    return np.array([math.nan if v is None else v for v in values], dtype=np.float64)
