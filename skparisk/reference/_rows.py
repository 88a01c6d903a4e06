"""Drawing rows of a table, for a block of pairs at a time.

Rows are short integers where the table allows it: drawing them takes half the time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtr

Rows = NDArray[np.integer[Any]]

# A coin for each row is faster than drawing rows one by one, if so many are drawn.
_DENSE = 16
# Rows that are stepped over one after the other.
_FEW = 4
# Rows of several lines that are listed together.
_LISTED = 2**16
_PLACES = 2**18
# Of more rows no array has a place for each.
_MOST_PLACES = 2**22
# From so many draws of each row on, rows have most of theirs together: all but so many
# deviations of how many these are.
_MANY, _MARGIN = 2, 4.0
# Of more rows, too many short integers are drawn in vain to be uniform.
_FEW_OF_SHORT = 2**11
# Numbers that are counted together, and counts that are drawn: few enough for a cache.
_COUNTED, _DRAWN = 2**14, 2**16


def draw_rows(
    n_rows: int,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    *,
    shortest: bool = False,
) -> Rows:
    """Return rows, uniform and independent.

    The shortest integers are drawn sooner, and are for rows that are only counted.
    """
    number = np.int16 if shortest and n_rows <= _FEW_OF_SHORT else _number(n_rows)
    return rng.integers(n_rows, size=shape, dtype=number)


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
    many = length >= _MANY * n_others
    step = max(1, _DRAWN // n_others if many else _COUNTED // length)
    for start in range(0, size, step):
        lines = counts[start : start + step]
        if many:
            _draw_counts(lines, n_others, length, rng)
        else:
            drawn = draw_rows(n_others, (len(lines), length), rng, shortest=True)
            lines[:] = count_rows(drawn, n_rows, counts.dtype)
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
    lines: Rows, n_rows: int, length: int, rng: np.random.Generator
) -> None:
    """Fill lines with how often each of the first rows is drawn, with replacement.

    Given their sum, independent numbers of one Poisson law are how often rows are
    drawn in so many draws. So nearly all draws are such numbers, and the rest is drawn
    row by row; where the numbers come to more than all draws, they are drawn anew.
    """
    mean = max(0.0, length - _MARGIN * math.sqrt(length)) / n_rows
    missing = np.full(len(lines), -1, dtype=np.int64)
    while (again := np.flatnonzero(missing < 0)).size:
        drawn = _draw_poisson(mean, (again.size, n_rows), rng)
        lines[again, :n_rows] = drawn
        missing[again] = length - drawn.sum(axis=1, dtype=np.int64)
    places = np.repeat(np.arange(len(lines)) * lines.shape[1], missing)
    places += draw_rows(n_rows, places.shape, rng)
    # A one of another type would take thirty times as long.
    np.add.at(lines.reshape(-1), places, lines.dtype.type(1))


def _draw_poisson(
    mean: float, shape: tuple[int, int], rng: np.random.Generator
) -> NDArray[np.unsignedinteger[Any]]:
    """Return independent numbers of a Poisson law, by its distribution function.

    The first sixteen bits of a uniform number nearly always tell which one it is.
    """
    numbers, undecided, distribution, first = _poisson_numbers(mean)
    n = shape[0] * shape[1]
    bits = rng.bit_generator.random_raw(-(-n // 4)).view(np.uint16)[:n]
    drawn = numbers.take(bits)
    (again,) = undecided.take(bits).nonzero()
    uniform = (bits[again] + rng.random(again.size)) * 2.0**-16
    drawn[again] = first + np.searchsorted(distribution, uniform, side="right")
    return drawn.reshape(shape)


@lru_cache(maxsize=8)
def _poisson_numbers(
    mean: float,
) -> tuple[
    NDArray[np.unsignedinteger[Any]], NDArray[np.bool_], NDArray[np.float64], int
]:
    """Return the number of a Poisson law for each sixteen bits, and where it is open.

    And the distribution function, from a first number on: to its rounding, there are
    no smaller ones, nor larger ones than the last.
    """
    most = 12 * math.sqrt(mean) + 40
    numbers = np.arange(max(0, int(mean - most)), int(mean + most) + 1)
    distribution = pdtr(numbers, mean)
    distribution[-1] = 1.0
    ends = (distribution * 2**16).astype(np.intp)
    undecided = np.zeros(2**16, dtype=np.bool_)
    undecided[ends[ends < 2**16]] = True
    short = numbers.astype(np.min_scalar_type(numbers[-1] + 1))
    by_bits = short.repeat(np.diff(ends, prepend=0))
    return by_bits, undecided, distribution, int(numbers[0])


def count_rows(rows: Rows, n_rows: int, dtype: Any = np.float64) -> NDArray[Any]:
    """Return how often each of so many rows stands in each line."""
    counts = np.empty((len(rows), n_rows), dtype=dtype)
    step = max(1, _COUNTED // n_rows)
    for start in range(0, len(rows), step):
        lines = rows[start : start + step]
        flat = lines + np.arange(0, len(lines) * n_rows, n_rows)[:, None]
        count = np.bincount(flat.ravel(), minlength=len(lines) * n_rows)
        counts[start : start + step] = count.reshape(len(lines), n_rows)
    return counts


def listed(drawn: NDArray[Any]) -> Rows:
    """Return the rows of each line, also if these are counted or marked."""
    if drawn.dtype.kind == "i":
        return np.asarray(drawn)
    n_rows = drawn.shape[1]
    rows: Any = np.arange(n_rows, dtype=_number(n_rows))
    lines = [rows.repeat(line.astype(np.intp)) for line in drawn]
    return lines[0][None] if len(lines) == 1 else np.stack(lines)


def _step_over(rows: Rows, own: Rows, n_rows: int) -> Rows:
    """Turn numbers of other rows than those of each line of `own` into rows, in place.

    Of `n_rows` rows in all: numbers that are uniform become rows that are uniform on
    the others, without a second draw.
    """
    if own.shape[1] > _FEW:  # one look at a list of all others is less work
        every, step = np.arange(n_rows, dtype=rows.dtype), max(1, _LISTED // n_rows)
        for start in range(0, len(rows), step):
            lines, taken = rows[start : start + step], own[start : start + step]
            free = np.ones((len(lines), n_rows), dtype=bool)
            np.put_along_axis(free, taken, False, axis=1)
            others = np.broadcast_to(every, free.shape)[free]
            first = np.arange(0, others.size, n_rows - own.shape[1], dtype=rows.dtype)
            lines += first[:, None]
            np.take(others, lines, out=lines, mode="clip")
        return rows
    for taken in np.sort(own, axis=1).T.astype(rows.dtype):
        rows += rows >= taken[:, None]
    return rows


def draw_few_distinct(n_rows: int, size: int, n: int, rng: np.random.Generator) -> Rows:
    """Return lines of a few rows without replacement, in random order."""
    if n == 2 < n_rows or (
        n > 2 and n * n <= 2 * n_rows
    ):  # most lines are right at once
        right = np.empty((0, n), dtype=_number(n_rows))
        while len(right) < size:  # of as many lines as it mostly takes, and a few
            left = (size - len(right)) * math.exp(n * n / (2 * n_rows))
            drawn = draw_rows(n_rows, (int(left + 3 * math.sqrt(left)), n), rng)
            # Two are compared at once: to sort them takes longer than to draw.
            ordered = drawn if n == 2 else np.sort(drawn, axis=1)
            distinct = (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
            right = np.concatenate([right, drawn[distinct]])
        return right[:size]
    rows = np.empty((size, n), dtype=_number(n_rows))
    for column in range(n):
        drawn = draw_rows(n_rows - column, (size,), rng)
        for taken in np.sort(rows[:, :column], axis=1).T:
            drawn += drawn >= taken
        rows[:, column] = drawn
    return rows


def draw_subsets(
    n_rows: int, own: Rows, length: int, rng: np.random.Generator
) -> Rows | NDArray[np.bool_]:
    """Return rows without replacement within each line, and none of those of `own`.

    All subsets are equally likely: nothing here depends on the names of rows. Where
    they are many of all rows, a truth value is returned for each row, else the rows.
    """
    size, n_own = own.shape
    if not length:
        return np.empty((size, 0), dtype=_number(n_rows))
    if _DENSE * length > n_rows:
        return _choose_by_coins(n_rows, own, length, rng)
    rows = np.empty((size, length), dtype=_number(n_rows))
    if n_rows > _MOST_PLACES:
        for line in rows:
            line[:] = rng.choice(n_rows - n_own, length, replace=False, shuffle=False)
        return _step_over(rows, own, n_rows)
    step = max(1, _PLACES // n_rows)
    for start in range(0, size, step):
        _fill_by_redrawing(rows[start : start + step], n_rows - n_own, rng)
    return _step_over(rows, own, n_rows)


def _choose_by_coins(
    n_rows: int, own: Rows, length: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Choose those of all other rows whose coin says so, and mend how many these are.

    A coin is a byte, so about as many are chosen as there should be. Of a line that has
    too many, members that are drawn at random leave; of others, rows that are drawn at
    random join.
    """
    size, n_own = own.shape
    n_others = n_rows - n_own
    share = round(256 * length / n_others)
    n_words = -(-size * n_rows // 8)
    coins = rng.bit_generator.random_raw(n_words).view(np.uint8)[: size * n_rows]
    chosen = coins < share
    offsets = np.arange(size) * n_rows
    kept_out = (own + offsets[:, None]).ravel()
    chosen[kept_out] = False
    surplus = np.count_nonzero(chosen.reshape(size, n_rows), axis=1) - length
    state = chosen.view(np.uint8)
    state[kept_out] = 2
    while surplus.any():
        missing = np.abs(surplus)
        # Some tries are in vain.
        hit = np.where(surplus > 0, length, n_others - length) / n_rows
        tries = np.where(missing, missing / hit * 1.3 + 6 / hit, 0).astype(np.intp)
        drawn = draw_rows(n_rows, (int(tries.sum()),), rng)
        drawn = drawn + np.repeat(offsets, tries)
        drawn = drawn[state.take(drawn) == np.repeat(surplus > 0, tries)]
        # In the order of the draws: each once, and no more than are missing.
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        lines = drawn // n_rows
        rank = np.arange(len(drawn)) - np.searchsorted(lines, lines)
        mended = rank < missing.take(lines)
        state[drawn[mended]] ^= 1
        surplus -= np.sign(surplus) * np.bincount(lines[mended], minlength=size)
    return (state == 1).reshape(size, n_rows)


def _fill_by_redrawing(rows: Rows, n_rows: int, rng: np.random.Generator) -> None:
    """Fill lines with rows that are drawn, and drawn again where they were before.

    `holders` says which place holds a number last: numbers of other lines are other
    numbers here.
    """
    size, length = rows.shape
    offsets = np.arange(size) * n_rows
    held = (draw_rows(n_rows, rows.shape, rng) + offsets[:, None]).ravel()
    places = np.arange(held.size)
    holders = np.zeros(size * n_rows, dtype=np.int32)
    holders[held] = places
    left = np.flatnonzero(holders.take(held) != places)
    while left.size:
        drawn = draw_rows(n_rows, (left.size,), rng) + offsets.take(left // length)
        free = held.take(holders.take(drawn)) != drawn
        filled, new = left[free], drawn[free]
        held[filled] = new
        holders[new] = filled
        left = np.concatenate([left[~free], filled[holders.take(new) != filled]])
    rows[:] = held.reshape(rows.shape) - offsets[:, None]


def _number(n_rows: int) -> type[np.int32] | type[np.int64]:
    return np.int32 if n_rows < 2**31 else np.int64
