"""Queries whose answer follows from a sum over records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from skparisk._threads import one_thread
from skparisk.core.sealed import take_rows
from skparisk.core.weights import RowSums, sums_of_pairs
from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import (
    Differences,
    Floats,
    PairDifferences,
    Query,
    same_but_for,
)
from skparisk.reference._base import RecordPool
from skparisk.reference._records import n_rows

# Rows of a private database that are added up together.
_ROWS_AT_ONCE = 2**13
# Numbers of a pool whose rows are added up once, however few databases have of them;
# and of rows that are worked on together.
_SMALL_POOL, _LISTED_AT_ONCE = 2**20, 2**20
# Rows compared alone and in company, and the share by which they may differ.
_ALONE, _SAME = 3, 2.0**-40
# A database is answered in the private form as well: others may be off by more.
MARGIN = 16.0
# Which databases are, by number; and after them each so many. Of more records only the
# first: it takes far longer than sampled ones, of which few rows are counted.
_LOOKED_AT, _EACH, _MANY = (0, 8), 128, 2**16


class SumQuery(Query):
    """A function of sums of terms, one term for each record.

    Sampled databases and the private one are answered by the same two methods: only how
    often each row counts is another thing.
    """

    is_unordered = True

    # Whether products of any two numbers of a row are summed.
    products = False

    @classmethod
    def _is_one_method(cls, owner: type[Query]) -> bool:
        return owner is SumQuery and cls.__call__ is SumQuery.__call__

    def shaped(self, X: Any, y: Any) -> Self:
        """Return the query for records of a shape, or raise ValueError."""
        return self

    def rows(self, X: Any, y: Any) -> Any:
        """Return the terms of each record by itself, of shape (n_records, q)."""
        raise NotImplementedError

    def finish(self, sums: Floats) -> Floats:
        """Return the answers, (m, n_outputs), from sums of shape (m, width)."""
        return sums

    def _check_n_records(self, n_records: int) -> None:
        """Raise ValueError if sums over so many records are not those that it says."""

    def __call__(self, X: Any, y: Any = None) -> Floats:
        self._check_n_records(n_rows(X))
        shaped = self.shaped(X, y)
        total: Any = 0.0
        # That one overflows would be a release.
        with np.errstate(all="ignore"), one_thread():
            for start in range(0, max(n_rows(X), 1), _ROWS_AT_ONCE):
                some = slice(start, min(start + _ROWS_AT_ONCE, n_rows(X)))
                part = shaped.rows(take_rows(X, some), take_rows(y, some))
                total = total + RowSums(part, self.products).total()
            return np.asarray(shaped.finish(total[None])[0])

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        self.check_has_targets(pool)
        self._check_n_records(n_records)
        return PoolSums(self.shaped(pool.X, pool.y), pool, n_records)


@dataclass(frozen=True)
class RecordQuery(SumQuery):
    """One record, released as it is (the local model)."""

    is_sum = True

    def rows(self, X: Any, y: Any) -> Floats:
        """Return the records."""
        return np.asarray(X, dtype=np.float64)


@dataclass(frozen=True)
class MeanQuery(SumQuery):
    """Mean of each feature.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import MeanQuery
    >>> MeanQuery()(np.array([[1.0], [2.0], [9.0]]))
    array([4.])
    """

    is_mean = True

    def rows(self, X: Any, y: Any) -> Floats:
        """Return features, and 1."""
        return np.column_stack([np.asarray(X, dtype=np.float64), np.ones(len(X))])

    def finish(self, sums: Floats) -> Floats:
        """Return means."""
        return sums[:, :-1] / sums[:, -1:]


def counts_pay(n_rows: int, n_records: int) -> bool:
    """Tell if sums over databases are best found from how often each row counts.

    Counts of all rows are mostly zeros where the pool is much larger than a database:
    one big matrix product then costs more than many small ones.
    """
    return n_rows <= 4 * n_records


def how_far_off(
    query: Query, pool: RecordPool, pairs: NeighborPairs, first: Floats, second: Floats
) -> Floats:
    """Return by how much differences may be off, from some pairs of a block, if any.

    Of which both databases, with answers (m, n_outputs) and (n_pairs, n_outputs), are
    answered a second time, as the private one is: infinite if that has no answer.
    """
    off = np.zeros(first.shape[1])
    if pairs.start is None:
        return off
    looked_at = {*_LOOKED_AT, *range(0, pairs.start + len(first), _EACH)}
    if pairs.n_records > _MANY:
        looked_at = {0}
    for number in range(len(first)):
        if pairs.start + number not in looked_at:
            continue
        pair = number * pairs.n_neighbors
        for answer, rows in zip(
            (first[number], second[pair]), pairs.rows_of(pair), strict=True
        ):
            if np.isfinite(answer).all():
                with np.errstate(all="ignore"):
                    apart = np.abs(answer - query(*pool.take_in_parts(rows)))
                apart[np.isnan(apart)] = np.inf
                off = np.maximum(off, MARGIN * apart)
    return off


class PoolSums:
    """Answers of a sum query on the pairs of one pool."""

    def __init__(self, query: SumQuery, pool: RecordPool, n_records: int) -> None:
        self._query, self._pool, self._checked = query, pool, False
        self._is_counted = counts_pay(pool.n_records, n_records) and not query.is_sum
        n_numbers = math.prod(pool.X.shape)
        self._is_whole = self._is_counted or n_numbers <= _SMALL_POOL

    def __call__(self, pairs: NeighborPairs) -> PairDifferences:
        query, (removed, added) = self._query, pairs.swaps
        with np.errstate(all="ignore"):
            gone = self._each(removed)
            joined = None if added is None else self._each(added)
            shared = self._shared(pairs, gone.shape[-1])
            databases, neighbors = sums_of_pairs(shared, gone, joined)
            first = query.finish(databases)
            second = query.finish(neighbors.reshape(-1, neighbors.shape[-1]))
            values = first[pairs.database] - second
        if query.is_sum:
            return PairDifferences(values)
        off = how_far_off(query, self._pool, pairs, first, second)
        with np.errstate(all="ignore"):
            sizes = np.abs([first.max(0), first.min(0), second.max(0), second.min(0)])
        return PairDifferences(values, off, sizes=sizes.max(axis=0))

    @cached_property
    def _whole(self) -> RowSums:
        return self._sums_of(self._pool)

    def _sums_of(self, pool: RecordPool) -> RowSums:
        added = self._query.rows(pool.X, pool.y)
        if not self._checked:
            self._checked = True
            self._refuse_company(pool.X, pool.y, added)
        return RowSums(added, self._query.products, pool.sizes)

    def _refuse_company(self, X: Any, y: Any, added: Any) -> None:
        """Refuse a query whose rows change when others stand beside them."""
        for row in np.unique(np.linspace(0, n_rows(X) - 1, _ALONE).astype(np.intp)):
            alone = self._query.rows(take_rows(X, [row]), take_rows(y, [row]))
            one, other = (
                each.toarray() if issparse(each) else np.asarray(each)
                for each in (alone, added[[row]])
            )
            if not same_but_for(_SAME, one, other):
                raise ValueError(
                    f"rows of the query {self._query} must be a function of each "
                    "record by itself, but a record adds something else where others "
                    "are beside it: use constants from public records in their place."
                )

    def _each(self, rows: NDArray[np.intp]) -> Floats:
        """Return what single records add, of shape (m, r, width)."""
        if self._is_whole:
            return self._whole.each(rows)
        taken = self._sums_of(self._pool.part(rows.ravel()))
        return taken.each(np.arange(rows.size).reshape(rows.shape))

    def _shared(self, pairs: NeighborPairs, width: int) -> Floats:
        """Return sums over what databases share with neighbors, of shape (m, width)."""
        n_shared = pairs.n_records - pairs.n_neighbors
        if not n_shared:
            return np.zeros((pairs.n_databases, width))
        if self._is_counted:
            return self._whole.of(pairs.shared_counts)
        members = pairs.members[:, :n_shared]
        numbers = n_shared * math.prod(self._pool.X.shape) // self._pool.n_records
        step = max(1, _LISTED_AT_ONCE // max(1, numbers))
        parts = []
        for start in range(0, len(members), step):
            some = members[start : start + step].ravel()
            if self._is_whole:
                rows = self._whole.part(some)
            else:
                rows = self._sums_of(self._pool.part(some))
            parts.append(rows.of_lists(n_shared))
        return np.concatenate(parts)


def sparse_rows(places: NDArray[np.intp], numbers: Floats, width: int) -> csr_array:
    """Return rows that are 0 but at a few places, as many in each.

    Parameters
    ----------
    places : ndarray of shape (n_records, n_each)
        Columns, in 0, ..., width - 1.

    numbers : ndarray of shape (n_records, n_each)
        Numbers at these places.

    width : int
        Columns of the rows.
    """
    n_records, n_each = places.shape
    ends = np.arange(n_records + 1) * n_each
    shape = (n_records, width)
    return csr_array((numbers.ravel(), places.ravel(), ends), shape=shape)
