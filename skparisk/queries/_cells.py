"""Counts and sums over the cells that declared columns of a data frame make."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_relation
from skparisk.core.sealed import is_missing, key_of, numbers
from skparisk.queries._base import Floats
from skparisk.queries._sums import SumQuery, sparse_rows
from skparisk.reference._domain import Interval
from skparisk.reference._records import columns_of

# Cells of what is not declared, and of what is not there.
OTHER, MISSING = "(other)", "(missing)"
# Steps of half a range that a number is rounded to.
_STEPS = 2.0**20
# Sums of so many steps are whole numbers that doubles hold.
_MOST_RECORDS = 2**28

Codes: TypeAlias = NDArray[np.intp]
# Of numbers, as parts of half of a range; and which are missing.
_Shares: TypeAlias = tuple[Floats, Floats]


@dataclass(frozen=True)
class Kinds:
    """Cells of declared categories, of all others, and of what is missing.

    Parameters
    ----------
    values : tuple
        The categories that are not None.
    """

    values: tuple[Any, ...]

    @property
    def labels(self) -> tuple[Any, ...]:
        return tuple(dict.fromkeys([*self.values, OTHER, MISSING]))

    def of(self, column: NDArray[Any]) -> Codes:
        """Return the cell of each value, whatever it is."""
        codes = {label: place for place, label in enumerate(self.labels)}
        # A text that is a number is that number: one text more in a column of a file
        # must not decide what all others are.
        alike = {key_of(label): codes[label] for label in reversed(self.values)}
        found = (self._code(value, codes, alike) for value in column.tolist())
        return np.fromiter(found, np.intp, len(column))

    @staticmethod
    def _code(value: Any, codes: dict[Any, int], alike: dict[Any, int]) -> int:
        # It may have no hash, or compare to nothing: no error tells of it.
        with suppress(Exception):
            if value in codes:
                return codes[value]
            if is_missing(value):
                return codes[MISSING]
            return alike.get(key_of(value), codes[OTHER])
        return codes[OTHER]


@dataclass(frozen=True)
class Bins:
    """Cells of numbers between neighboring edges, and of what is missing.

    Parameters
    ----------
    edges : tuple of float
        Increasing. A number below or above all is in the first or the last bin, an edge
        in the bin above it.
    """

    edges: tuple[float, ...]

    @property
    def labels(self) -> tuple[Any, ...]:
        return (*zip(self.edges[:-1], self.edges[1:], strict=True), MISSING)

    def of(self, column: NDArray[Any]) -> Codes:
        """Return the cell of each value; what is no number is missing."""
        found = numbers(column)
        bins = np.searchsorted(self.edges[1:-1], found, side="right")
        return np.where(np.isnan(found), len(self.edges) - 1, bins)


@dataclass(frozen=True)
class CellSums:
    """One question: counts, and sums of some columns, for each cell."""

    # The columns whose cells are crossed. Empty: one cell with all records.
    by: tuple[str, ...]
    # What they are divided into.
    cells: tuple[Kinds | Bins, ...]
    # Columns that are summed.
    values: tuple[str, ...] = ()
    # What these are clipped to.
    ranges: tuple[Interval, ...] = ()
    # Whether records are counted: they need not be where there is one cell, and how
    # many there are is public.
    counted: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each column."""
        return tuple(len(cells.labels) for cells in self.cells)

    @property
    def n_sums(self) -> int:
        """Numbers for a cell: records, and a sum and what is missing of each value."""
        return int(self.counted) + 2 * len(self.values)

    @property
    def n_outputs(self) -> int:
        """Numbers in an answer."""
        return self.n_sums * math.prod(self.shape)

    def bound(self, relation: str) -> float:
        """Return the largest l1 distance of answers on neighbors."""
        # A value is in its sum by 1 at most, or missing, which counts as 1.
        largest = float(self.counted) + len(self.values)
        if relation == "add-remove":
            return largest
        # Two records in one cell differ in its count by their weights alone.
        return 2 * largest if self.cells else max(2.0 * len(self.values), 1.0)

    def entries(
        self, n_rows: int, codes: Callable[..., Codes], shares: Callable[..., _Shares]
    ) -> tuple[Codes, Floats]:
        """Return to which sums each record adds, and what, (n_rows, n_sums).

        Sums are in the order of `n_sums` and `shape`.
        """
        cell = np.zeros(n_rows, dtype=np.intp)
        for name, cells, n_cells in zip(self.by, self.cells, self.shape, strict=True):
            cell = cell * n_cells + codes(name, cells)
        added = [np.ones(n_rows)] if self.counted else []
        for name, interval in zip(self.values, self.ranges, strict=True):
            added += shares(name, interval)
        places = cell[:, None] + np.arange(self.n_sums) * math.prod(self.shape)
        return places, np.column_stack(added)

    def __str__(self) -> str:
        what = ["counts"] * self.counted + [f"sums of {name!r}" for name in self.values]
        by = f" by {', '.join(map(repr, self.by))}" if self.by else ""
        return f"{' and '.join(what)}{by}"


@dataclass(frozen=True)
class CellsQuery(SumQuery):
    """Counts and sums over cells of data frames, as one query.

    Parameters
    ----------
    questions : sequence of CellSums
        The questions.

    weight : tuple of str and float, default=None
        A column whose number, clipped to [0, `weight[1]`], says how much a record
        counts; 0 where it is missing. Sums are then in units of ``weight[1]``.

    Notes
    -----
    **Guarantee** (:ref:`thm-tables`). Each record is in one cell of each question. It
    adds there 1, and for each summed column a whole number of steps in [-1, 1], or 0
    and a 1 for a missing value; or as much times a weight in [0, 1]. Sums are exact, so
    answers on neighbors differ by the terms of one record. Any value has a cell: no
    private value is refused.
    """

    questions: Sequence[CellSums]
    weight: tuple[str, float] | None = None

    any_table = True
    is_sum = True

    @property
    def columns(self) -> list[str]:
        """Columns that the query reads."""
        asked = [name for each in self.questions for name in (*each.by, *each.values)]
        return list(dict.fromkeys([*asked, *self.weight[:1]] if self.weight else asked))

    @property
    def n_outputs(self) -> int:
        """Numbers in an answer."""
        return sum(each.n_outputs for each in self.questions)

    def bound(self, relation: str = "replace-one") -> float:
        """Return the largest l1 distance of answers on any neighbors.

        Parameters
        ----------
        relation : {"replace-one", "add-remove"}, default="replace-one"
            How neighbors differ.

        Notes
        -----
        **Guarantee** (:ref:`thm-tables`). The sum over questions of 2 (1 + K) with K
        summed columns, or of max(2 K, 1) where there is one cell; with "add-remove" of
        1 + K. Neighbors attain it.
        """
        check_relation(relation)
        return sum(each.bound(relation) for each in self.questions)

    def rows(self, X: Any, y: Any) -> Any:
        """Return the terms of each record in each sum, as a sparse array."""
        n_rows = len(X)
        names = self.columns
        columns = dict(zip(names, columns_of(X[names]), strict=True)) if names else {}

        # Each column is looked at once, in however many questions it is.
        @cache
        def codes(name: str, cells: Kinds | Bins) -> Codes:
            return cells.of(columns[name])

        @cache
        def shares(name: str, interval: Interval) -> _Shares:
            return _find_shares(columns[name], interval)

        weights = None
        if self.weight is not None:
            name, most = self.weight
            weights = _find_weights(columns[name], most)[:, None]
        found, before = [], 0
        for each in self.questions:
            places, numbers = each.entries(n_rows, codes, shares)
            if weights is not None:
                numbers = _in_steps(numbers * weights)
            found.append((places + before, numbers))
            before += each.n_outputs
        places, numbers = (np.concatenate(p, axis=1) for p in zip(*found, strict=True))
        return sparse_rows(places, numbers, before)

    def _check_n_records(self, n_records: int) -> None:
        if n_records > _MOST_RECORDS:
            raise ValueError(f"There must be at most 2**28 records, got {n_records}.")

    def split(self, answer: Floats) -> list[Floats]:
        """Return the sums of each question, (n_sums, cells ...)."""
        ends = np.cumsum([each.n_outputs for each in self.questions])[:-1]
        return [
            part.reshape(each.n_sums, *each.shape)
            for each, part in zip(self.questions, np.split(answer, ends), strict=True)
        ]

    def __str__(self) -> str:
        asked = "; ".join(map(str, self.questions))
        return f"{asked}; weighted by {self.weight[0]!r}" if self.weight else asked


def _find_shares(column: NDArray[Any], interval: Interval) -> _Shares:
    """Return numbers as shares of half of their range, and which are missing."""
    found = numbers(column)
    missing = np.isnan(found)
    center, half = interval.fill, half_of(interval)
    clipped = np.where(missing, center, found).clip(interval.low, interval.high)
    steps = _in_steps((clipped - center) / half).clip(-1, 1)
    return steps, missing.astype(np.float64)


def _find_weights(column: NDArray[Any], most: float) -> Floats:
    """Return weights as shares of the largest one; 0 where one is missing."""
    return _in_steps(np.nan_to_num(numbers(column)).clip(0, most) / most)


def _in_steps(shares: Floats) -> Floats:
    """Return whole numbers of steps, of which sums are exact."""
    return np.rint(shares * _STEPS) / _STEPS


def half_of(interval: Interval) -> float:
    """Return half of the width of a range; 1 where it is a point."""
    return float(interval.high / 2 - interval.low / 2) or 1.0
