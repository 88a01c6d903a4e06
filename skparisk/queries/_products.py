"""Sums over many databases of products of columns, from how often rows count."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.queries._together import fits

# Bytes of products that are made for a stretch of rows: they are read again at once.
_IN_CACHE = 2**22
# Fewer databases do not pay for products that are made anew: a multiplication of each
# record by its weight, and of two matrices, is then less work.
_FEW = 8


class Products:
    """Products of columns with each other, of each row.

    They are kept where memory allows it, and else made for a stretch of rows at a time.
    Columns have the shape (q, n_rows).
    """

    def __init__(self, columns: NDArray[Any]) -> None:
        self._columns = columns
        self._n_products = len(columns) * (len(columns) + 1) // 2
        self._fit = fits(self._n_products * columns.shape[1] * columns.itemsize)
        self._step = max(1, _IN_CACHE // (self._n_products * columns.itemsize))

    @cached_property
    def _kept(self) -> NDArray[Any]:
        return self._of(slice(None))

    def sums(self, weights: NDArray[Any], rows: slice = slice(None)) -> NDArray[Any]:
        """Return weighted sums over some rows, of shape (m, n_products).

        Weights have the shape (m, some rows). Products are of columns i and j, i <= j,
        row by row of the upper triangle.
        """
        if self._fit:
            return np.asarray(weights @ self._kept[:, rows].T)
        if len(weights) < _FEW:
            return self._one_by_one(weights, rows)
        sums = np.zeros((len(weights), self._n_products), dtype=self._columns.dtype)
        first, last, _ = rows.indices(self._columns.shape[1])
        for start in range(first, last, self._step):
            stretch = slice(start, min(start + self._step, last))
            counted = slice(stretch.start - first, stretch.stop - first)
            sums += weights[:, counted] @ self._of(stretch).T
        return sums

    def _of(self, rows: slice) -> NDArray[Any]:
        """Return the products of a stretch of rows, a line for each."""
        columns = self._columns[:, rows]
        q, n_rows = columns.shape
        products = np.empty((self._n_products, n_rows), dtype=columns.dtype)
        start = 0
        for i in range(q):
            stop = start + q - i
            np.multiply(columns[i], columns[i:], out=products[start:stop])
            start = stop
        return products

    def _one_by_one(self, weights: NDArray[Any], rows: slice) -> NDArray[Any]:
        """Return the same from matrices of weighted columns, for each database."""
        columns = self._columns[:, rows]
        upper = np.triu_indices(len(columns))
        sums = np.empty((len(weights), self._n_products), dtype=columns.dtype)
        for line, weight in zip(sums, weights, strict=True):
            line[:] = ((columns * weight) @ columns.T)[upper]
        return sums
