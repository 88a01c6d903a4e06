"""Rows of a large pool that are transformed when they are looked up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.queries._together import Floats

__all__ = ["LookedUp"]


class LookedUp:
    """Records less their center, and a linear map of these: indexed like an array.

    Parameters
    ----------
    records : ndarray, or numbers in a file, of shape (n_rows,) or (n_rows, n_columns)
        The records of a pool.

    center : ndarray of shape (n_columns,)
        What is subtracted.

    matrix : ndarray of shape (q, q), default=None
        What is multiplied by; for one column more, of ones, if it has as many.
    """

    def __init__(
        self, records: Any, center: Floats, matrix: Floats | None = None
    ) -> None:
        self._records, self._center, self._matrix = records, center, matrix
        width = len(center) if matrix is None else len(matrix)
        self.shape = (len(records), width)

    def __getitem__(self, rows: NDArray[Any]) -> Floats:
        """Return some rows, by number."""
        found = self._records[rows].reshape(*rows.shape, -1) - self._center
        if self._matrix is None:
            return np.asarray(found)
        if len(self._matrix) > len(self._center):
            ones = np.ones((*rows.shape, 1))
            found = np.concatenate([found, ones], axis=-1)
        return np.asarray(found @ self._matrix.T)
