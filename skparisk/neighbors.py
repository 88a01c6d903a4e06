"""Neighboring databases: the relation, and drawing pairs of them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_at_least
from skparisk.core.sealed import Records
from skparisk.reference import DrawnRecords, RecordSource, Reference
from skparisk.reference._base import Form, RecordPool
from skparisk.reference._rows import count_rows, draw_few_distinct, listed

__all__ = [
    "Database",
    "NeighborPairs",
    "draw_pairs",
    "sample_database",
]

Database: TypeAlias = tuple[Records, NDArray[Any] | None]

# Records and databases of a block.
_TOGETHER, _ONE_BY_ONE = (2**23, 128), (2**12, 8)


class NeighborPairs:
    """A block of pairs of neighboring databases, as indices into a pool.

    Each of m databases has r neighbors: m times r pairs, in the order of the databases.
    The first database of pair i has the records ``records[database[i]]``. The second
    has another record at the position ``changed[i]``, or (add-remove) none. Shared
    records and positions are drawn on first use.

    Parameters
    ----------
    drawn : DrawnRecords
        For each database the r removed records, for "replace-one" their r replacements,
        and a function to draw the others.

    n_records : int
        Records of the first database of each pair.

    n_neighbors : int
        r.

    start : int or None
        Number of the first database among all drawn ones, from 0. None: nothing is
        calibrated to these pairs.

    Attributes
    ----------
    database : ndarray of shape (n_pairs,)
        Which of the m databases is the first of a pair.

    members : ndarray of shape (m, n_records)
        Indices of the records of the first databases, in any order except the removed
        last r: faster than `records`.

    records : ndarray of shape (m, n_records)
        The same in a random order, with the changing records at `changed`.

    changed : ndarray of shape (n_pairs,)
        Position of the record that the second database does not have, in 0, ...,
        n_records - 1: uniform, independent of the records, and another one for each
        neighbor of a database.

    removed : ndarray of shape (n_pairs,)
        Index of the record that only the first database has.

    replacement : ndarray of shape (n_pairs,) or None
        Index of the record in the other database; None: it has one record less.
    """

    def __init__(
        self,
        drawn: DrawnRecords,
        n_records: int,
        n_neighbors: int,
        start: int | None = 0,
    ) -> None:
        self._drawn = drawn
        self.pool, self.start = drawn.pool, start
        self.n_records, self.n_neighbors = n_records, n_neighbors
        own = drawn.own.astype(np.intp)
        self._left, joined = own[:, :n_neighbors], own[:, n_neighbors:]
        self.database = np.repeat(np.arange(len(own)), n_neighbors)
        self.removed = self._left.ravel()
        self.replacement = joined.ravel() if joined.size else None

    def __len__(self) -> int:
        return len(self.removed)

    @property
    def n_databases(self) -> int:
        """Different first databases: m."""
        return len(self._left)

    @property
    def swaps(self) -> tuple[NDArray[np.intp], NDArray[np.intp] | None]:
        """Removed and added records of neighbors, a line for each database."""
        added, shape = self.replacement, self._left.shape
        return self._left, None if added is None else added.reshape(shape)

    @cached_property
    def _shared(self) -> NDArray[Any]:
        return self._drawn.draw_shared()

    @cached_property
    def members(self) -> NDArray[Any]:
        shared = listed(self._shared)
        # Short where the pool allows it: they are many, and most are only gone through.
        members = np.empty((self.n_databases, self.n_records), dtype=shared.dtype)
        members[:, : -self.n_neighbors] = shared
        members[:, -self.n_neighbors :] = self._left
        return members

    def rows_of(self, pair: int) -> Iterator[NDArray[Any]]:
        """Yield the records of both databases of a pair, in any order."""
        number, place = divmod(pair, self.n_neighbors)
        shared = listed(self._shared[number : number + 1])[0]
        others = np.delete(self._left[number], place)
        if self.replacement is not None:
            others = np.append(others, self.replacement[pair])
        for own in (self._left[number], others):
            yield np.append(shared, own.astype(shared.dtype))

    @property
    def shared_counts(self) -> NDArray[np.float64]:
        """Count of each record of the pool in both databases of pairs."""
        if self._shared.dtype.kind == "i":
            return count_rows(self._shared, self.pool.n_records)
        return self._shared.astype(np.float64)

    @cached_property
    def changed(self) -> NDArray[np.intp]:
        _ = self._shared  # drawn before, from the same source of numbers
        shape = self.n_records, self.n_databases, self.n_neighbors
        return draw_few_distinct(*shape, self._drawn.rng).astype(np.intp).ravel()

    @cached_property
    def records(self) -> NDArray[np.intp]:
        lines = np.arange(self.n_databases)[:, None]
        changed = self.changed.reshape(-1, self.n_neighbors)
        shared = self._drawn.rng.permuted(listed(self._shared), axis=1)
        records = np.empty((self.n_databases, self.n_records), dtype=shared.dtype)
        free = np.ones(records.shape, dtype=np.bool_)
        free[lines, changed] = False
        records[free] = shared.ravel()
        records[lines, changed] = self._left
        return records

    def on(self, pool: RecordPool) -> NeighborPairs:
        """Return the same pairs of other records."""
        _ = self.records  # drawn once
        other = copy.copy(self)
        other.pool = pool
        return other

    def first(self, pair: int) -> Database:
        """Return the first database of a pair, the same for all of its neighbors."""
        return self.pool.take(self.records[self.database[pair]])

    def second(self, pair: int) -> Database:
        """Return the second database of a pair."""
        rows, position = self.records[self.database[pair]], self.changed[pair]
        if self.replacement is None:
            return self.pool.take(np.delete(rows, position))
        rows = rows.copy()
        rows[position] = self.replacement[pair]
        return self.pool.take(rows)


def known_pairs(
    pool: RecordPool, rows: NDArray[np.intp], rng: np.random.Generator
) -> NeighborPairs:
    """Return a pair for each line of rows, shuffled, whose last replaces the first."""
    drawn = DrawnRecords(pool, rows[:, [0, -1]], lambda: rows[:, 1:-1], rng)
    return NeighborPairs(drawn, rows.shape[1] - 1, 1)


def n_own(relation: str) -> int:
    """Return the number of records that only one database of a pair has."""
    return 2 if relation == "replace-one" else 1


def bind_pairs(
    reference: Reference,
    *,
    n_pairs: int,
    n_records: int,
    relation: str,
    seed: np.random.SeedSequence,
    n_neighbors: int = 1,
) -> RecordSource:
    """Return a source of pairs of which the (larger) first has `n_records` records."""
    own = n_own(relation)
    if n_neighbors > 1:  # a reference that refuses a relation knows it by `n_own`
        reference.bind(1, n_shared=n_records - 1, n_own=own, seed=seed)
    return reference.bind(
        n_pairs // n_neighbors,
        n_shared=n_records - n_neighbors,
        n_own=own * n_neighbors,
        seed=seed,
    )


def count_databases(n_pairs: int, n_neighbors: int, least: int = 1) -> int:
    """Return the number of databases of so many pairs, checked."""
    n_databases = check_at_least(n_pairs, "n_pairs", least) // n_neighbors
    if n_databases * n_neighbors != n_pairs:
        raise ValueError(
            f"n_pairs must be a multiple of neighbors_per_database={n_neighbors}, got "
            f"{n_pairs!r}."
        )
    return n_databases


def block_size(n_records: int, one_by_one: bool = False) -> int:
    """Return the number of databases that are drawn from one seed.

    The size of a database bounds the memory of a block; if databases are answered one
    by one, a block has few. Workers must not matter, so nothing else does.
    """
    at_once, most = _ONE_BY_ONE if one_by_one else _TOGETHER
    return int(np.clip(at_once // n_records, 1, most))


def draw_pairs(
    source: RecordSource,
    *,
    n_records: int,
    start: int,
    size: int,
    seed: np.random.SeedSequence,
    form: Form = "given",
    n_neighbors: int = 1,
    tried: bool = False,
) -> NeighborPairs:
    """Draw databases from `start` on and their neighbors; `tried` calibrate nothing."""
    rng = np.random.default_rng(seed)  # not seed.spawn, which changes `seed`
    drawn = _in_form(source.draw(start, size, rng), form)
    return NeighborPairs(drawn, n_records, n_neighbors, None if tried else start)


def sample_database(
    reference: Reference,
    n_records: int,
    seed: np.random.SeedSequence,
    form: Form = "given",
    *,
    in_parts: bool = False,
) -> Database:
    """Draw one database from the shared records of a reference."""
    pool, records = _sample(reference, n_records, seed, form)
    return (pool.take_in_parts if in_parts else pool.take)(records)


def sample_people(
    reference: Reference, n_records: int, seed: np.random.SeedSequence
) -> tuple[Records, Any, NDArray[Any] | None]:
    """Return such a database, and whose each row is, if records are people."""
    pool, records = _sample(reference, n_records, seed, "given")
    sizes = pool.sizes
    groups = None if sizes is None else named_rows("drawn", sizes[records])
    return (*pool.take(records), groups)


def named_rows(side: str, sizes: NDArray[np.intp]) -> NDArray[Any]:
    """Return ids of rows, for people with so many each, as no other side has them."""
    names = np.array([f"{side} {number}" for number in range(len(sizes))])
    return np.repeat(names, sizes)


def _sample(
    reference: Reference, n_records: int, seed: np.random.SeedSequence, form: Form
) -> tuple[RecordPool, NDArray[np.intp]]:
    rng = np.random.default_rng(seed)
    drawn = reference.bind(1, n_shared=n_records, n_own=0, seed=seed).draw(0, 1, rng)
    (shared,) = listed(drawn.draw_shared())
    return _in_form(drawn, form).pool, rng.permutation(shared)


def _in_form(drawn: DrawnRecords, form: Form) -> DrawnRecords:
    """Return drawn records in the form that a query wants."""
    return dataclasses.replace(drawn, pool=drawn.pool.in_form(form))
