"""Drawing rows of a table, for a block of pairs at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.integer[Any]]

# From so many draws of each row on, rows have most of theirs together: all but so many
# deviations of how many these are.
_MANY, _MARGIN = 16, 4.0
# Numbers that are counted together: few enough for a cache.
_COUNTED = 2**14


def draw_rows(n_rows: int, shape: tuple[int, ...], rng: np.random.Generator) -> Rows:
    """Return rows, uniform and independent."""
    return rng.integers(n_rows, size=shape, dtype=_number(n_rows))


def draw_few_distinct(n_rows: int, size: int, n: int, rng: np.random.Generator) -> Rows:
    """Return lines of a few rows without replacement, in random order.

    Line by line: the first do not depend on how many there are.
    """
    left = n_rows - np.arange(n)
    rows = rng.integers(left, size=(size, n), dtype=_number(n_rows))
    for column in range(1, n):
        rows[:, column] = _step_over(rows[:, column], rows[:, :column])
    return rows


def draw_subsets(n_rows: int, own: Rows, length: int, rng: np.random.Generator) -> Rows:
    """Return uniform subsets, in no random order, of rows that are not in `own`."""
    size, n_own = own.shape
    rows = np.empty((size, length), dtype=_number(n_rows))
    for line in rows:
        line[:] = rng.choice(n_rows - n_own, length, replace=False, shuffle=False)
    return _step_over(rows, own)


def draw_shared_rows(
    n_rows: int, own: Rows, length: int, rng: np.random.Generator
) -> Rows:
    """Return how often each row is drawn, in unsigned integers: with replacement.

    None of those of a line of `own` is drawn in it. To list the rows, which are more
    than half of all that there are, takes longer than to count them.
    """
    size, n_own = own.shape
    n_others = n_rows - n_own
    counts = np.zeros((size, n_rows), dtype=np.min_scalar_type(length))
    if length >= _MANY * n_others:
        _draw_counts(counts, n_others, length, rng)
    else:
        step = max(1, _COUNTED // length)
        for start in range(0, size, step):
            lines = counts[start : start + step]
            drawn = draw_rows(n_others, (len(lines), length), rng)
            lines[:] = count_rows(drawn, n_rows)
    _keep_out(counts, own)
    return counts


def _keep_out(counts: Rows, own: Rows) -> None:
    """Give what rows of `own` were drawn to others, which were not drawn from.

    These are the last ones, as many as a line of `own` has, but for those in it.
    """
    (size, n_own), n_rows = own.shape, counts.shape[1]
    n_drawn, first = n_rows - n_own, np.arange(0, size * n_rows, n_rows)[:, None]
    drawn_from = own < n_drawn
    free = np.ones(own.shape, dtype=bool)
    lines, places = np.nonzero(~drawn_from)
    free[lines, own[lines, places] - n_drawn] = False
    # Line by line, and in each line as many.
    taken = (own + first)[drawn_from]
    others = (np.arange(n_drawn, n_rows) + first)[free]
    flat = counts.reshape(-1)
    flat[others] = flat[taken]
    flat[taken] = 0


def _draw_counts(
    counts: Rows, n_rows: int, length: int, rng: np.random.Generator
) -> None:
    """Fill lines with how often each of the first rows is drawn, with replacement.

    Given their sum, independent numbers of one Poisson law are how often rows are
    drawn in so many draws. So nearly all draws are such numbers, and the rest is drawn
    row by row; where the numbers come to more than all draws, they are drawn anew.
    """
    mean = max(0.0, length - _MARGIN * math.sqrt(length)) / n_rows
    missing = np.full(len(counts), -1, dtype=np.int64)
    while (again := np.flatnonzero(missing < 0)).size:
        drawn = rng.poisson(mean, (again.size, n_rows))
        missing[again] = length - drawn.sum(axis=1)
        # Numbers beyond all draws do not fit; their line is drawn anew.
        counts[again, :n_rows] = drawn.clip(max=length)
    places = np.repeat(np.arange(len(counts)) * counts.shape[1], missing)
    places += draw_rows(n_rows, places.shape, rng)
    # A one of another type would take thirty times as long.
    np.add.at(counts.reshape(-1), places, counts.dtype.type(1))


def count_rows(rows: Rows, n_rows: int) -> NDArray[np.float64]:
    """Return how often each of so many rows stands in each line."""
    counts = np.empty((len(rows), n_rows))
    step = max(1, _COUNTED // n_rows)
    for start in range(0, len(rows), step):
        lines = rows[start : start + step]
        flat = lines + np.arange(0, len(lines) * n_rows, n_rows)[:, None]
        count = np.bincount(flat.ravel(), minlength=len(lines) * n_rows)
        counts[start : start + step] = count.reshape(len(lines), n_rows)
    return counts


def listed(drawn: Rows) -> Rows:
    """Return the rows of each line, also if these are counted."""
    if drawn.dtype.kind == "i":
        return drawn
    n_rows = drawn.shape[1]
    rows = np.arange(n_rows, dtype=_number(n_rows))
    return np.stack([rows.repeat(line.astype(np.intp)) for line in drawn])


def _step_over(rows: Rows, own: Rows) -> Rows:
    """Turn uniform numbers, in place, into uniform rows that are not in `own`."""
    for taken in np.sort(own, axis=1).T.astype(rows.dtype):
        rows += rows >= (taken if rows.ndim == 1 else taken[:, None])
    return rows


def _number(n_rows: int) -> type[np.int32] | type[np.int64]:
    return np.int32 if n_rows < 2**31 else np.int64
