"""Databases as weights of the rows of a pool, and sums over them.

One function of rows answers sampled databases and the private one: in a sampled one
each row of the pool counts as often as it was drawn, in the private one each counts
once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

_Floats = NDArray[np.float64]
# Numbers of products that are kept, and of a stretch, which are read again at once.
_KEPT, _IN_CACHE = 2**24, 2**19
# For fewer databases the product of weighted rows and rows is less work.
_FEW = 8


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums of what rows add: numbers, or the products of any two of them.

    Parameters
    ----------
    added : ndarray or sparse array of shape (n_rows, q)
        What each row adds, whatever other rows there are.

    products : bool, default=False
        Whether products of columns i and j, i <= j, are summed instead: row by row of
        the upper triangle.
    """

    added: Any
    products: bool = False

    @property
    def width(self) -> int:
        """Numbers of a sum."""
        q = int(self.added.shape[1])
        return q * (q + 1) // 2 if self.products else q

    def total(self) -> _Floats:
        """Return the sums over all rows, of shape (width,)."""
        if not self.products:
            return np.asarray(self.added.sum(axis=0), dtype=np.float64)
        return _upper(self.added.T @ self.added)

    def of(self, weights: NDArray[Any]) -> _Floats:
        """Return weighted sums, of shape (m, width), for weights (m, n_rows)."""
        if not self.products:
            return np.asarray(weights @ self.added)
        n_rows = len(self.added)
        if not len(weights):
            return np.zeros((0, self.width))
        if len(weights) < _FEW or self.width > _IN_CACHE // 64:
            return np.stack([_upper((self.added.T * w) @ self.added) for w in weights])
        if n_rows * self.width <= _KEPT:
            return np.asarray(weights @ self._kept)
        sums, step = np.zeros((len(weights), self.width)), _IN_CACHE // self.width
        for start in range(0, n_rows, step):
            stretch = slice(start, start + step)
            sums += weights[:, stretch] @ self._products_of(stretch)
        return sums

    def of_lists(self, size: int) -> _Floats:
        """Return sums over lists of `size` rows that follow each other, (m, width)."""
        n_lists = self.added.shape[0] // size
        if issparse(self.added):
            places = np.arange(n_lists * size)
            ends = np.arange(0, n_lists * size + 1, size)
            lists = csr_array((np.ones(len(places)), places, ends))
            return np.asarray((lists @ self.added).toarray())
        lines = self.added.reshape(n_lists, size, -1)
        if not self.products:
            return np.asarray(lines.sum(axis=1))
        return _upper(lines.transpose(0, 2, 1) @ lines)

    def each(self, rows: NDArray[np.intp]) -> _Floats:
        """Return what single rows add to the sums, of the shape of `rows` and width."""
        found = self.added[rows.ravel()]
        found = found.toarray() if issparse(found) else found
        if self.products:
            i, j = _places(found.shape[1])
            found = found[:, i] * found[:, j]
        return np.asarray(found.reshape(*rows.shape, -1))

    @cached_property
    def _kept(self) -> _Floats:
        return self._products_of(slice(None))

    def _products_of(self, rows: slice) -> _Floats:
        lines = np.ascontiguousarray(self.added[rows].T)
        products = np.empty((self.width, lines.shape[1]))
        start = 0
        for i, line in enumerate(lines):  # whole columns at a time are contiguous
            stop = start + len(lines) - i
            np.multiply(line, lines[i:], out=products[start:stop])
            start = stop
        return products.T


def symmetric(upper: _Floats, size: int) -> _Floats:
    """Return matrices whose upper triangles are given, of shape (m, size, size)."""
    return np.take(upper, _triangle(size), axis=1)


def _upper(matrices: _Floats) -> _Floats:
    return np.asarray(matrices[(..., *_places(matrices.shape[-1]))])


@cache
def _places(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(size)


@cache
def _triangle(size: int) -> NDArray[np.intp]:
    """Return where each number of a symmetric matrix is in its upper triangle."""
    places = np.empty((size, size), dtype=np.intp)
    i, j = _places(size)
    places[i, j] = places[j, i] = np.arange(len(i))
    return places


def sums_of_pairs(
    shared: _Floats, removed: _Floats, added: _Floats | None
) -> tuple[_Floats, _Floats]:
    """Return the sums of databases, and of their r neighbors.

    They are only added up: subtracting a record far larger than the others would leave
    none of their digits.

    Parameters
    ----------
    shared : ndarray of shape (m, width)
        Sums over the records that a database shares with all of its neighbors.

    removed, added : ndarray of shape (m, r, width)
        What the records add that each neighbor lacks, and that it has instead.

    Returns
    -------
    databases : ndarray of shape (m, width)
    neighbors : ndarray of shape (m, r, width)
    """
    before = np.cumsum(removed, axis=1)
    databases = shared + before[:, -1]
    neighbors = np.repeat(shared[:, None], removed.shape[1], axis=1)
    neighbors[:, 1:] += before[:, :-1]
    after = np.cumsum(removed[:, :0:-1], axis=1)[:, ::-1]
    neighbors[:, :-1] += after
    return databases, neighbors if added is None else neighbors + added
