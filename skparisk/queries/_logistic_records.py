"""Sums over the records of many databases, which logistic regression needs.

Logits are the scores of the classes but the first, relative to the first.
Derivatives are flat over logits and columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.core.weights import symmetric
from skparisk.neighbors import NeighborPairs
from skparisk.queries._looked_up import LookedUp
from skparisk.queries._products import Products
from skparisk.queries._together import Floats

# Logits of a stretch of rows; the arrays made from them are read again at once.
_IN_CACHE = 2**16


def expected_counts(minus: Floats, counts: Any) -> Floats:
    """Return counts times probabilities of the classes but the first, in place.

    From the negated logits, of shape (..., n_logits, n_rows).
    """
    if minus.shape[-2] == 1:
        odds = np.exp(minus, out=minus)
        odds += 1
        return np.divide(counts, odds, out=odds)
    # Relative to the largest score, so that nothing overflows; the first class has the
    # logit 0, and exp(top) in the denominator.
    top = minus.min(axis=-2, keepdims=True).clip(max=0)
    odds = np.exp(np.subtract(top, minus, out=minus), out=minus)
    odds *= counts / (odds.sum(axis=-2, keepdims=True) + np.exp(top))
    return odds


@dataclass(frozen=True, eq=False)
class Records(ABC):
    """Records z, of which m databases are counts, of shape (m, n_rows)."""

    # Of shape (..., n_rows, q): the same for all databases, or those of each.
    Z: Floats
    # Of shape (..., n_logits, n_rows): whether a record is of each class but the first;
    # its probability at some point, less that.
    of_class: Floats
    residuals: Floats
    # Second derivatives that do not depend on records.
    penalty: NDArray[np.floating]
    # Of shape (..., n_logits, n_rows): what logits are before; None: 0.
    offsets: Floats | None = None

    @abstractmethod
    def _pick(self, columns: NDArray[np.intp]) -> tuple[Floats, Floats, Any]:
        """Return z, the class and what logits are before, of one for each database."""

    @abstractmethod
    def some(self, which: NDArray[np.bool_]) -> Self:
        """Return the records of some of the databases."""

    @abstractmethod
    def minus_scores(self, v: Floats, rows: slice) -> Floats:
        """Return what v takes from logits, of shape (m, n_logits, some rows)."""

    @abstractmethod
    def weighted_sums(self, weights: Floats, rows: slice) -> Floats:
        """Return weighted sums of z, of shape (m, n_logits, q)."""

    @abstractmethod
    def _squares(self, weights: Floats, rows: slice) -> NDArray[Any]:
        """Return sums of z_i z_j, i <= j, with weights of shape (m, some rows)."""

    def minus_logits(self, v: Floats, rows: slice) -> Floats:
        """Return negated logits, of shape (m, n_logits, some rows)."""
        minus = self.minus_scores(v, rows)
        if self.offsets is not None:
            minus -= self.offsets[..., rows]
        return minus

    def square_lengths(self) -> Floats:
        """Return the square of the length of each record."""
        return np.asarray(np.square(self.Z).sum(axis=-1))

    @cached_property
    def longest(self) -> float:
        """Length of the longest record."""
        return float(np.sqrt(self.square_lengths().max()))

    @cached_property
    def single(self) -> Self:
        """The same in single precision, for what need not be exact."""
        return replace(self, Z=self.Z.astype(np.float32))

    def sums(self, counts: Floats, weights: Floats) -> Floats:
        """Return sums of z over databases, weighted for each logit."""
        n_logits = weights.shape[-2]
        sums = np.zeros((len(counts), n_logits, self.Z.shape[-1]))
        for rows in _blocks(counts, n_logits):
            sums += self.weighted_sums(counts[:, None, rows] * weights[..., rows], rows)
        return sums.reshape(len(counts), -1)

    def slopes(self, counts: Floats, moments: Floats, v: Floats) -> Floats:
        """Return first derivatives at v; moments are the sums of z of each class."""
        sums = np.zeros_like(v)
        for rows in _blocks(counts, v.shape[1]):
            minus = self.minus_logits(v, rows)
            sums += self.weighted_sums(
                expected_counts(minus, counts[:, None, rows]), rows
            )
        return sums.reshape(len(v), -1) - moments + v.reshape(len(v), -1) @ self.penalty

    def derivatives(
        self, counts: Floats, moments: Floats, v: Floats
    ) -> tuple[Floats, Floats]:
        """Return first and second derivatives at v."""
        m, n_logits, q = v.shape
        sums = np.zeros_like(v)
        squares = np.zeros((n_logits, n_logits, m, q * (q + 1) // 2))
        for rows in _blocks(counts, n_logits):
            p = expected_counts(self.minus_logits(v, rows), 1.0)
            expected = counts[:, None, rows] * p
            sums += self.weighted_sums(expected, rows)
            for a in range(n_logits):
                for b in range(a + 1):
                    weights = float(a == b) - p[:, b]
                    weights *= expected[:, a]
                    squares[a, b] += self._squares(weights, rows)
        matrix = np.empty((m, n_logits, q, n_logits, q))
        for a in range(n_logits):
            for b in range(a + 1):
                matrix[:, a, :, b] = matrix[:, b, :, a] = symmetric(squares[a, b], q)
        slopes = sums.reshape(m, -1) - moments + v.reshape(m, -1) @ self.penalty
        return slopes, matrix.reshape(m, n_logits * q, -1) + self.penalty

    def of_one(
        self, columns: NDArray[np.intp], v: Floats, at: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return what one record adds to moments, slopes at v and curvature at `at`."""
        Z, of_class, offsets = self._pick(columns)
        p, p_at = (
            expected_counts(-place @ Z[:, :, None] - offsets, 1.0)[:, :, 0]
            for place in (v, at)
        )
        weights = p_at[:, :, None] * (np.eye(p.shape[1]) - p_at[:, None])
        squares = np.einsum("mab,mi,mj->maibj", weights, Z, Z)
        moments, slopes = (
            (w[:, :, None] * Z[:, None]).reshape(len(Z), -1)
            for w in (of_class, p - of_class)
        )
        return moments, slopes, squares.reshape(*moments.shape, -1)


def _blocks(counts: Floats, n_logits: int) -> list[slice]:
    """Return stretches of rows, so that their logits fit the cache."""
    m, n_rows = counts.shape
    step = max(1, _IN_CACHE // (m * n_logits))
    return [slice(start, start + step) for start in range(0, n_rows, step)]


class SharedRecords(Records):
    """The same records for all databases: Z is (n_rows, q)."""

    @cached_property
    def _Zt(self) -> Floats:
        return self.Z.T.copy()

    @cached_property
    def _products(self) -> Products:
        # Second derivatives only direct steps, whose ends are proven from slopes of
        # double precision: single precision is as good, and twice as fast.
        return Products(self._Zt.astype(np.float32))

    def _pick(self, columns: NDArray[np.intp]) -> tuple[Floats, Floats, Any]:
        before = 0.0 if self.offsets is None else self.offsets.T[columns, :, None]
        return self.Z[columns], self.of_class[:, columns].T, before

    def some(self, which: NDArray[np.bool_]) -> Self:
        return self

    def minus_scores(self, v: Floats, rows: slice) -> Floats:
        flat = -v.reshape(-1, v.shape[2])
        return (flat @ self._Zt[:, rows]).reshape(*v.shape[:2], -1)

    def weighted_sums(self, weights: Floats, rows: slice) -> Floats:
        flat = weights.reshape(-1, weights.shape[2])
        return (flat @ self.Z[rows]).reshape(*weights.shape[:2], -1)

    def _squares(self, weights: Floats, rows: slice) -> NDArray[Any]:
        return self._products.sums(weights.astype(np.float32), rows)


class OwnRecords(Records):
    """Records of its own for each database: Z is (m, n_rows, q)."""

    @cached_property
    def _Zt(self) -> Floats:
        return self.Z.swapaxes(1, 2).copy()

    def _pick(self, columns: NDArray[np.intp]) -> tuple[Floats, Floats, Any]:
        each = np.arange(len(columns))
        before: Any = 0.0
        if self.offsets is not None:
            before = self.offsets[each, :, columns, None]
        return self.Z[each, columns], self.of_class[each, :, columns], before

    def some(self, which: NDArray[np.bool_]) -> Self:
        return replace(
            self,
            Z=self.Z[which],
            of_class=self.of_class[which],
            residuals=self.residuals[which],
            offsets=None if self.offsets is None else self.offsets[which],
        )

    def minus_scores(self, v: Floats, rows: slice) -> Floats:
        return -v @ self._Zt[:, :, rows]

    def weighted_sums(self, weights: Floats, rows: slice) -> Floats:
        return weights @ self.Z[:, rows]

    def _squares(self, weights: Floats, rows: slice) -> NDArray[Any]:
        squares = (self._Zt[:, :, rows] * weights[:, None]) @ self.Z[:, rows]
        i, j = np.triu_indices(self.Z.shape[2])
        return squares[:, i, j]


@dataclass(frozen=True, eq=False)
class PoolRecords:
    """The records of a pool, and what is looked up of them where they are drawn."""

    # Of shape (n_rows, q), and the class of each.
    Z: Floats | LookedUp
    codes: NDArray[np.intp]
    # Of shape (n_logits, q): the point at which residuals are.
    start: Floats
    # As those of `Records`.
    penalty: NDArray[np.floating]
    offsets: Floats | None = None

    def take(self, rows: NDArray[np.intp]) -> OwnRecords:
        """Return those of databases of (m, n) rows."""
        Z = self.Z[rows]
        of_class, offsets = self.of_class(rows), self.offsets_of(rows)
        minus = -self.start @ Z.swapaxes(1, 2)
        if offsets is not None:
            minus -= offsets
        residuals = expected_counts(minus, 1.0) - of_class
        return OwnRecords(Z, of_class, residuals, self.penalty, offsets)

    def of_class(self, rows: NDArray[np.intp]) -> Floats:
        """Return whether some are of each class but the first."""
        classes = np.arange(1, len(self.start) + 1)[:, None]
        return (self.codes[rows][..., None, :] == classes).astype(np.float64)

    def offsets_of(self, rows: NDArray[np.intp]) -> Floats | None:
        """Return what logits of some are before."""
        if self.offsets is None:
            return None
        return np.moveaxis(self.offsets[:, rows], 0, -2)


# Records of databases, their counts, and which neighbors remove and add.
Part: TypeAlias = tuple[Any, Floats, NDArray[np.intp], NDArray[np.intp] | None]
# Answers of both databases of each pair, and which of these are proven.
Solved: TypeAlias = tuple[Floats, Floats, NDArray[np.bool_]]


def parts_of(
    records: SharedRecords | PoolRecords, pairs: NeighborPairs, step: int
) -> Iterator[Part]:
    """Yield as many databases at a time."""
    removed, added = pairs.swaps
    for start in range(0, pairs.n_databases, step):
        part = slice(start, start + step)
        joined = None if added is None else added[part]
        if isinstance(records, SharedRecords):
            yield records, pairs.counts[part], removed[part], joined
        else:
            yield _gathered(records, pairs.members[part], pairs.n_neighbors, joined)


def join_solved(solved: Iterable[Solved]) -> Solved:
    """Return what was solved in parts."""
    first, second, proven = map(np.concatenate, zip(*solved, strict=True))
    return first, second, proven


def _gathered(
    pool: PoolRecords,
    rows: NDArray[np.intp],
    n_neighbors: int,
    added: NDArray[np.intp] | None,
) -> Part:
    n, r = rows.shape[1], n_neighbors
    counts = np.ones(rows.shape)
    # Records that are removed are the last of the members.
    removed = np.tile(np.arange(n - r, n), (len(rows), 1))
    if added is None:
        return pool.take(rows), counts, removed, None
    rows = np.column_stack([rows, added])
    counts = np.column_stack([counts, np.zeros((len(counts), r))])
    return pool.take(rows), counts, removed, removed + r
