"""Rows of a large pool that are transformed when they are looked up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.queries._together import Floats, counts_pay
from skparisk.reference._base import RecordPool

# Records that give a transformation of all, for each column.
_ROWS_PER_COLUMN = 64
# Records that take as long as what an answer takes beside its records.
_BESIDE = 500


def representative(
    pool: RecordPool, n_records: int, most: int
) -> NDArray[np.intp] | None:
    """Return rows of a pool that tell what databases have in common; None for all.

    All of them, or if they are far more than those of a database, and more numbers than
    `most`, about as many as it has, from all over the pool (whose records may be
    sorted): others are transformed when they are drawn.
    """
    n_rows, n_features = pool.X.shape
    if counts_pay(n_rows, n_records) or n_rows * n_features <= most:
        return None
    n_some = max(n_records, _ROWS_PER_COLUMN * n_features)
    if n_some >= n_rows:
        return None
    return np.linspace(0, n_rows - 1, n_some).astype(np.intp)


def answers_to_prepare(
    pool: RecordPool, n_records: int, most: int, n_answers: int
) -> float:
    """Return as how many answers it takes to prepare what `representative` says.

    If it takes `n_answers` about as many records as are prepared.
    """
    rows = representative(pool, n_records, most)
    n_prepared = pool.n_rows if rows is None else len(rows)
    return n_answers * (n_prepared + _BESIDE) / (n_records + _BESIDE)


class LookedUp:
    """Records less their center, and a linear map of these: indexed like an array.

    Of n_rows, or these in a file; with a matrix for one column more, if it is so wide,
    of ones.
    """

    def __init__(self, records: Any, center: Floats, matrix: Floats) -> None:
        self._records, self._center, self._matrix = records, center, matrix
        self.shape = (len(records), len(matrix))

    def __getitem__(self, rows: NDArray[Any]) -> Floats:
        """Return some rows, by number."""
        found = self._records[rows].reshape(*rows.shape, -1) - self._center
        if len(self._matrix) > len(self._center):
            ones = np.ones((*rows.shape, 1))
            found = np.concatenate([found, ones], axis=-1)
        return np.asarray(found @ self._matrix.T)
