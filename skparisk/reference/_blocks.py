"""Rows that are drawn from blocks, which are read once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.core.sealed import Records, is_frame
from skparisk.reference._records import (
    as_records,
    as_targets,
    concatenate,
    n_rows,
    take_rows,
)
from skparisk.reference._sketch import RecordSketch

_X, _Y = "X of the reference", "y of the reference"


def draw_from_blocks(
    blocks: Iterable[Any], most: int, random_state: Any
) -> tuple[Records, NDArray[Any] | None, RecordSketch]:
    """Return so many rows of blocks, without replacement, all equally likely.

    In their order, and with the sketch of all there were. Each row draws a number, and
    those with the smallest ones are kept: what is kept does not depend on how rows are
    cut into blocks.
    """
    kept: tuple[Records, Any] | None = None
    numbers, sketch = np.empty(0), RecordSketch.empty(False)
    for block in blocks:
        X, y = block if isinstance(block, tuple) else (block, None)
        X, y = as_records(X, _X), None if y is None else as_targets(y, _Y)
        if y is not None and len(y) != n_rows(X):
            raise ValueError(
                "X and y of a block must have the same number of rows, got "
                f"{n_rows(X)} and {len(y)}."
            )
        if kept is not None and _columns(X) != _columns(kept[0]):
            raise ValueError(
                "All blocks must have the same columns, in the same order, got "
                f"{_columns(kept[0])} and {_columns(X)}."
            )
        if kept is None:
            sketch = RecordSketch.empty(y is not None)
        elif (kept[1] is None) != (y is None):
            raise ValueError("Either all blocks must have targets (y), or none.")
        sketch = sketch.followed_by(X, y)
        drawn = random_state.uniform(size=n_rows(X))
        numbers = np.concatenate([numbers, drawn])
        rows = np.arange(len(numbers))
        if len(rows) > most:
            rows = np.sort(np.argpartition(numbers, most - 1)[:most])
        numbers = numbers[rows]
        kept = _followed_by(kept, (X, y), rows)
    if kept is None:
        raise ValueError("blocks must hold at least one block of records, got none.")
    return *kept, sketch


def _columns(X: Records) -> list[Any] | int:
    """Return the names of the columns of a data frame, or how many others there are."""
    return [*X.columns] if is_frame(X) else math.prod(X.shape[1:])


def _followed_by(
    kept: tuple[Records, Any] | None, block: tuple[Records, Any], rows: NDArray[np.intp]
) -> tuple[Records, Any]:
    """Return some of the rows that were kept, and of a block that comes after them."""
    if kept is None:
        return take_rows(block[0], rows), take_rows(block[1], rows)
    n_kept = n_rows(kept[0])
    old, new = rows[rows < n_kept], rows[rows >= n_kept] - n_kept
    if not len(new):  # mostly, after many blocks
        return kept
    X, y = (
        None
        if after is None
        else concatenate([take_rows(before, old), take_rows(after, new)])
        for before, after in zip(kept, block, strict=True)
    )
    return X, y
