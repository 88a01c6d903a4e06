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

from skparisk.core.sealed import People

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

    sizes : ndarray of shape (n_records,), default=None
        How many rows each record has, which follow each other, if that is a person.
        None: each row is one.
    """

    added: Any
    products: bool = False
    sizes: NDArray[np.intp] | None = None

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
        """Return weighted sums, of shape (m, width), for weights (m, n_records)."""
        if not self.products:
            return np.asarray(weights @ self._by_record(self.added))
        n_rows = len(self.added)
        if not len(weights):
            return np.zeros((0, self.width))
        few = len(weights) < _FEW or self.width > _IN_CACHE // 64
        if not few and n_rows * self.width <= _KEPT:
            return np.asarray(weights @ self._kept)
        if self.sizes is not None:
            weights = np.repeat(weights, self.sizes, axis=1)
        if few:
            return np.stack([_upper((self.added.T * w) @ self.added) for w in weights])
        sums, step = np.zeros((len(weights), self.width)), _IN_CACHE // self.width
        for start in range(0, n_rows, step):
            stretch = slice(start, start + step)
            sums += weights[:, stretch] @ self._products_of(stretch)
        return sums

    def of_lists(self, size: int) -> _Floats:
        """Return sums over lists of `size` records each, of shape (m, width)."""
        if self.sizes is not None:
            sizes = self.sizes.reshape(-1, size).sum(axis=1)
            if not self.products:
                found = _added_up(self.added, sizes)
                return np.asarray(found.toarray() if issparse(found) else found)
            parts = np.split(self.added, sizes.cumsum()[:-1])
            return np.stack([_upper(part.T @ part) for part in parts])
        n_lists = self.added.shape[0] // size
        if issparse(self.added):
            sizes = np.full(n_lists, size)
            return np.asarray(_added_up(self.added, sizes).toarray())
        lines = self.added.reshape(n_lists, size, -1)
        if not self.products:
            return np.asarray(lines.sum(axis=1))
        return _upper(lines.transpose(0, 2, 1) @ lines)

    def part(self, records: NDArray[Any]) -> RowSums:
        """Return what some records add, by number."""
        if self.sizes is None:
            return RowSums(self.added[records], self.products)
        people = People(self.added, self.sizes.cumsum()).take(records)
        return RowSums(people.rows, self.products, people.sizes)

    def each(self, rows: NDArray[np.intp]) -> _Floats:
        """Return what records add to the sums, of the shape of `rows` and width."""
        part = self.part(rows.ravel())
        found = part.added.toarray() if issparse(part.added) else part.added
        if self.products:
            i, j = _places(found.shape[1])
            found = found[:, i] * found[:, j]
        found = part._by_record(found)
        return np.asarray(found.reshape(*rows.shape, -1))

    @cached_property
    def _kept(self) -> _Floats:
        kept: _Floats = self._by_record(self._products_of(slice(None)))
        return kept

    def _by_record(self, found: Any) -> Any:
        return found if self.sizes is None else _added_up(found, self.sizes)

    def _products_of(self, rows: slice) -> _Floats:
        lines = np.ascontiguousarray(self.added[rows].T)
        products = np.empty((self.width, lines.shape[1]))
        start = 0
        for i, line in enumerate(lines):  # whole columns at a time are contiguous
            stop = start + len(lines) - i
            np.multiply(line, lines[i:], out=products[start:stop])
            start = stop
        return products.T


def _added_up(added: Any, sizes: NDArray[np.intp]) -> Any:
    """Return sums over rows that follow each other, so many for each sum."""
    ends = sizes.cumsum()
    if not issparse(added):
        return np.add.reduceat(added, ends - sizes, axis=0)
    places = np.arange(added.shape[0])
    return csr_array((np.ones(len(places)), places, np.append(0, ends))) @ added


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

    Of shapes (m, width) and (m, r, width); from the sums over the records that a
    database shares with all of its neighbors (m, width), and from what the records add
    that each neighbor lacks, and that it has instead (m, r, width). They are only added
    up: subtracting a record far larger than the others would leave none of their
    digits.
    """
    before = np.cumsum(removed, axis=1)
    databases = shared + before[:, -1]
    neighbors = np.repeat(shared[:, None], removed.shape[1], axis=1)
    neighbors[:, 1:] += before[:, :-1]
    after = np.cumsum(removed[:, :0:-1], axis=1)[:, ::-1]
    neighbors[:, :-1] += after
    return databases, neighbors if added is None else neighbors + added
