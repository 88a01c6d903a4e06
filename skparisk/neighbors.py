"""Neighboring databases: the relation, and drawing pairs of them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.exceptions import IncompatibleError
from skparisk.reference import DrawnRecords, RecordSource, Reference
from skparisk.reference._base import Form, RecordPool
from skparisk.reference._records import Records

__all__ = [
    "Database",
    "NeighborPairs",
    "draw_pairs",
    "sample_database",
]

Database: TypeAlias = tuple[Records, NDArray[Any] | None]

_RECORDS_PER_BLOCK = 2**21
_MOST_PAIRS_PER_BLOCK = 64
_COUNTS_IN_CACHE = 2**16


class NeighborPairs:
    """A block of pairs of neighboring databases, as indices into a pool.

    The first database of pair i has the records ``records[i]``. The second has
    another record at the position ``changed[i]``, or (add-remove) none. The records
    that both have are drawn when they are asked for.

    Parameters
    ----------
    drawn : DrawnRecords
        The records of one database alone: the one that is removed and, for
        "replace-one", its replacement; and how to draw the others.

    changed : ndarray of shape (n_pairs,)
        Positions, in 0, ..., n_records - 1.

    n_records : int
        Records of the first database of each pair.

    Attributes
    ----------
    pool : RecordPool
        The records.

    members : ndarray of shape (n_pairs, n_records)
        Indices of the records of the first databases, in any order. It takes less time
        than `records`.

    records : ndarray of shape (n_pairs, n_records)
        The same in a random order, in which the one that changes is at `changed`.

    removed : ndarray of shape (n_pairs,)
        Index of the record that only the first database has.

    replacement : ndarray of shape (n_pairs,) or None
        Index of the record in the other database; None: it has one record less.
    """

    def __init__(
        self, drawn: DrawnRecords, changed: NDArray[np.intp], n_records: int
    ) -> None:
        self._drawn = drawn
        self.pool = drawn.pool
        self.changed = changed
        self.n_records = n_records
        own = drawn.own.astype(np.intp).T
        self.removed = own[0]
        self.replacement = own[1] if len(own) > 1 else None

    @classmethod
    def of(
        cls,
        pool: RecordPool,
        records: NDArray[np.intp],
        changed: NDArray[np.intp],
        replacement: NDArray[np.intp] | None,
    ) -> Self:
        """Return pairs of which the records are known."""
        lines = np.arange(len(records))
        own = records[lines, changed][:, None]
        if replacement is not None:
            own = np.column_stack([own, replacement])
        rng = np.random.default_rng(0)  # not used: the order is known
        pairs = cls(
            DrawnRecords(pool, own, lambda: records, rng), changed, records.shape[1]
        )
        pairs.records = pairs._shared = records
        pairs.members = records.copy()
        pairs.members[lines, changed] = records[:, -1]
        pairs.members[:, -1] = own[:, 0]
        return pairs

    def __len__(self) -> int:
        return len(self.changed)

    def of_pool(self, pool: RecordPool) -> Self:
        """Return the same pairs of a pool whose records were converted, row by row."""
        assert self._shared is not None  # drawn once, for both
        other = copy.copy(self)
        other.pool = pool
        return other

    @cached_property
    def _shared(self) -> NDArray[Any]:
        return self._drawn.draw_shared()

    @cached_property
    def members(self) -> NDArray[np.intp]:
        shared = self._shared
        if shared.dtype == np.bool_:
            places = np.flatnonzero(shared).reshape(len(self), -1)
            shared = places - np.arange(0, shared.size, shared.shape[1])[:, None]
        members = np.empty((len(self), self.n_records), dtype=np.intp)
        members[:, :-1] = shared
        members[:, -1] = self.removed
        return members

    def count(self) -> NDArray[np.float64]:
        """Return how often each record of the pool is in the first databases."""
        if self._shared.dtype != np.bool_:
            return count_rows(self.members, self.pool.n_rows)
        counts = self._shared.astype(np.float64)
        counts[np.arange(len(self)), self.removed] += 1
        return counts

    @cached_property
    def records(self) -> NDArray[np.intp]:
        lines, records = np.arange(len(self)), self.members.copy()
        self._drawn.rng.permuted(records[:, :-1], axis=1, out=records[:, :-1])
        # What stands where the own record belongs goes to the end.
        records[:, -1] = records[lines, self.changed]
        records[lines, self.changed] = self.removed
        return records

    def take(self, which: NDArray[np.intp] | NDArray[np.bool_]) -> NeighborPairs:
        """Return some of the pairs."""
        replacement = None if self.replacement is None else self.replacement[which]
        return NeighborPairs.of(
            self.pool, self.records[which], self.changed[which], replacement
        )

    def databases(self, pair: int) -> Iterator[Database]:
        """Yield both databases of a pair, each as (X, y), when they are asked for."""
        rows = self.records[pair]
        position = self.changed[pair]
        yield self.pool.take(rows)
        if self.replacement is None:
            other = np.delete(rows, position)
        else:
            other = rows.copy()
            other[position] = self.replacement[pair]
        yield self.pool.take(other)


def n_own(relation: str) -> int:
    """Return how many records of a pair are in one of its databases only."""
    return 2 if relation == "replace-one" else 1


def bind_pairs(
    reference: Reference,
    *,
    n_pairs: int,
    n_records: int,
    relation: str,
    seed: np.random.SeedSequence,
) -> RecordSource:
    """Return a source of pairs of which the (larger) first has `n_records` records."""
    return reference.bind(
        n_pairs, n_shared=n_records - 1, n_own=n_own(relation), seed=seed
    )


def check_n_records(n_records: int, sampled: int, relation: str) -> None:
    """Raise IncompatibleError unless databases of that size were sampled."""
    if relation == "replace-one":
        allowed, sizes, got = [sampled], f"{sampled}", f", got {n_records}"
    else:  # how many there are is private then
        allowed, sizes, got = [sampled - 1, sampled], f"{sampled - 1} or {sampled}", ""
    if n_records not in allowed:
        raise IncompatibleError(
            f"n_records={sampled}: pairs were sampled for databases of {sizes} "
            f"records{got}; sensitivities at one size say nothing about another."
        )


def block_size(n_records: int) -> int:
    """Return the number of pairs that are drawn from one seed, by size alone.

    It bounds the memory of a block, and depends on nothing but `n_records`, so
    that the pairs do not depend on how the blocks are spread over workers.
    """
    return int(np.clip(_RECORDS_PER_BLOCK // n_records, 1, _MOST_PAIRS_PER_BLOCK))


def draw_pairs(
    source: RecordSource,
    *,
    n_records: int,
    start: int,
    size: int,
    seed: np.random.SeedSequence,
    form: Form = "given",
) -> NeighborPairs:
    """Draw pairs number start, ..., start + size - 1, in the form a query wants.

    Which position changes is drawn uniformly, independent of the records, so
    that queries which look at the order of records are measured as well.
    """
    rng = np.random.default_rng(seed)  # not seed.spawn, which changes `seed`
    changed = rng.integers(n_records, size=size)
    drawn = _in_form(source.draw(start, size, rng), form)
    return NeighborPairs(drawn, changed, n_records)


def sample_database(
    reference: Reference,
    n_records: int,
    seed: np.random.SeedSequence,
    form: Form = "given",
) -> Database:
    """Draw one database from a reference, of records that pairs may share."""
    rng = np.random.default_rng(seed)
    drawn = reference.bind(1, n_shared=n_records, n_own=0, seed=seed).draw(0, 1, rng)
    pool, shared = _in_form(drawn, form).pool, drawn.draw_shared()[0]
    rows = np.flatnonzero(shared) if shared.dtype == np.bool_ else shared
    rows = rng.permutation(rows)
    return pool.take(rows)


def _in_form(drawn: DrawnRecords, form: Form) -> DrawnRecords:
    """Return drawn records in the form that a query wants; a table is turned once."""
    pool = drawn.pool.in_form(form)
    return drawn if pool is drawn.pool else dataclasses.replace(drawn, pool=pool)


def count_rows(indices: NDArray[np.intp], n_rows: int) -> NDArray[np.float64]:
    """Return how often each index below `n_rows` stands in each line of `indices`."""
    counts = np.empty((len(indices), n_rows))
    step = max(1, _COUNTS_IN_CACHE // n_rows)
    for start in range(0, len(indices), step):
        block = indices[start : start + step]
        flat = block + np.arange(0, len(block) * n_rows, n_rows)[:, None]
        count = np.bincount(flat.ravel(), minlength=len(block) * n_rows)
        counts[start : start + step] = count.reshape(len(block), n_rows)
    return counts
