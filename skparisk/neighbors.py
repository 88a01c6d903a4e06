"""Neighboring databases: the relation, and drawing pairs of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skparisk.exceptions import IncompatibleError
from skparisk.reference import RecordPool, RecordSource, Reference

__all__ = [
    "RELATIONS",
    "Database",
    "NeighborPairs",
    "block_size",
    "check_n_records",
    "count_rows",
    "draw_pairs",
    "n_drawn",
    "sample_database",
]

RELATIONS = ("replace-one", "add-remove")

Database = tuple[NDArray[np.float64], NDArray[np.float64] | None]

_RECORDS_PER_BLOCK = 2**21
_MOST_PAIRS_PER_BLOCK = 64
_COUNTS_IN_CACHE = 2**16


@dataclass(frozen=True, eq=False)
class NeighborPairs:
    """A block of pairs of neighboring databases, as indices into a pool.

    The first database of pair i has the records ``records[i]``. The second has
    another record at the position ``changed[i]``, or (add-remove) none.

    Parameters
    ----------
    pool : RecordPool
        The records.

    records : ndarray of shape (n_pairs, n_records)
        Indices of the first databases.

    changed : ndarray of shape (n_pairs,)
        Positions, in 0, ..., n_records - 1.

    replacement : ndarray of shape (n_pairs,) or None
        Index of the record in the other database; None: it has one record less.
    """

    pool: RecordPool
    records: NDArray[np.intp]
    changed: NDArray[np.intp]
    replacement: NDArray[np.intp] | None

    def __len__(self) -> int:
        return len(self.records)

    @property
    def n_records(self) -> int:
        """Records of the first database of each pair."""
        return self.records.shape[1]

    @property
    def removed(self) -> NDArray[np.intp]:
        """Index of the record that only the first database has, for each pair."""
        return self.records[np.arange(len(self)), self.changed]

    def databases(self, pair: int) -> tuple[Database, Database]:
        """Return both databases of a pair, each as (X, y)."""
        rows = self.records[pair]
        position = self.changed[pair]
        if self.replacement is None:
            other = np.delete(rows, position)
        else:
            other = rows.copy()
            other[position] = self.replacement[pair]
        return self._database(rows), self._database(other)

    def _database(self, rows: NDArray[np.intp]) -> Database:
        y = self.pool.y
        return self.pool.X[rows], None if y is None else y[rows]


def n_drawn(n_records: int, relation: str) -> int:
    """Return how many records are drawn to make one pair."""
    return n_records + 1 if relation == "replace-one" else n_records


def check_n_records(n_records: int, sampled: int, relation: str) -> None:
    """Raise IncompatibleError unless databases of that size were sampled."""
    if relation == "replace-one":
        allowed, sizes, got = [sampled], f"{sampled}", f", got {n_records}"
    else:  # how many there are is private then
        allowed, sizes, got = [sampled - 1, sampled], f"{sampled - 1} or {sampled}", ""
    if n_records not in allowed:
        raise IncompatibleError(
            f"n_records={sampled}: pairs are sampled for databases of {sizes} "
            f"records{got}; sensitivities of one size say nothing about another."
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
    relation: str,
    start: int,
    size: int,
    seed: np.random.SeedSequence,
) -> NeighborPairs:
    """Draw pairs number start, ..., start + size - 1.

    Which position changes is drawn uniformly, independent of the records, so
    that queries which look at the order of records are measured as well.
    """
    rng = np.random.default_rng(seed)  # not seed.spawn, which changes `seed`
    changed = rng.integers(n_records, size=size)
    pool, indices = source.draw(start, size, rng)
    if relation == "replace-one":
        return NeighborPairs(pool, indices[:, :-1], changed, indices[:, -1])
    return NeighborPairs(pool, indices, changed, None)


def sample_database(
    reference: Reference, n_records: int, seed: np.random.SeedSequence
) -> Database:
    """Draw one database from a reference, in the way that the pairs are drawn."""
    source = reference.bind(1, n_records, seed)
    pool, indices = source.draw(0, 1, np.random.default_rng(seed))
    return pool.X[indices[0]], None if pool.y is None else pool.y[indices[0]]


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
