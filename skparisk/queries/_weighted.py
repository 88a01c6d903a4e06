"""Queries that answer many databases at once, each a vector of weights of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import Differences, Floats, PairDifferences, Query
from skparisk.queries._sums import counts_pay, how_far_off
from skparisk.reference._base import RecordPool
from skparisk.reference._mapped import loaded
from skparisk.reference._records import n_rows
from skparisk.reference._rows import count_rows

Answers: TypeAlias = Callable[[Floats, Any], tuple[Floats, Any]]

# Weights that are answered together.
_AT_ONCE = 2**16
_NOT_CONVERGED = (
    "the solver did not converge: bring features to similar scales, or take a "
    "stronger penalty"
)


class WeightedQuery(Query):
    """A function of how often each row of a pool is in a database.

    Sampled databases and the private one, where each row is there once, are answered by
    the same method.
    """

    is_repeatable = True

    def answering(self, X: Any, y: Any) -> Answers:
        """Return what answers databases of rows of a pool.

        A function of weights, (m, n_rows), that returns (m, n_outputs), NaN where a
        database has no answer; and what is near to it, as arrays with a line for each,
        which may be given for databases that differ in a record. No answer depends on
        that, on other databases, or on rows of weight 0, but for rounding.
        """
        raise NotImplementedError

    def __call__(self, X: Any, y: Any = None) -> Floats:
        answers, _ = self.answering(X, y)(np.ones((1, n_rows(X))), None)
        return answers[0]

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        return PoolWeights(self, pool)


class PoolWeights:
    """Answers of a query on the pairs of one pool."""

    def __init__(self, query: WeightedQuery, pool: RecordPool) -> None:
        self._query, self._pool = query, pool

    def __call__(self, pairs: NeighborPairs) -> PairDifferences:
        query, r = self._query, pairs.n_neighbors
        whole = counts_pay(self._pool.n_rows, pairs.n_records)
        parts = self._counted(pairs) if whole else self._alone(pairs)
        first, second = [], []
        for answering, weights, neighbors in parts:
            found, near = answering(weights, None)
            first.append(found)
            # Each neighbor begins where its database ended.
            near = type(near)(*(np.repeat(each, r, axis=0) for each in near))
            second.append(answering(neighbors, near)[0])
        databases, others = np.concatenate(first), np.concatenate(second)
        values = databases[pairs.database] - others
        off = how_far_off(query, self._pool, pairs, databases)
        answered = np.isfinite(values)
        sizes = np.maximum(np.abs(databases[pairs.database]), np.abs(others))
        largest = sizes.max(axis=0, where=answered, initial=0.0)
        failure = None if answered.all() else _NOT_CONVERGED
        return PairDifferences(values, off, largest, failure)

    @cached_property
    def _whole(self) -> Answers:
        return self._query.answering(loaded(self._pool.X), loaded(self._pool.y))

    def _counted(
        self, pairs: NeighborPairs
    ) -> Iterator[tuple[Answers, Floats, Floats]]:
        """Yield databases, and then their neighbors, as weights of the whole pool."""
        removed, added = pairs.swaps
        n_rows, r = self._pool.n_rows, pairs.n_neighbors
        step = max(8, _AT_ONCE // (n_rows * r))
        for start in range(0, pairs.n_databases, step):
            some = slice(start, start + step)
            joined = None if added is None else added[some]
            shared = pairs.shared_counts[some]
            yield self._whole, *_with_neighbors(shared, removed[some], joined)

    def _alone(self, pairs: NeighborPairs) -> Iterator[tuple[Answers, Floats, Floats]]:
        """Yield each database and its neighbors, as weights of their own rows."""
        r = pairs.n_neighbors
        _, added = pairs.swaps
        for number, members in enumerate(pairs.members):
            every = members if added is None else np.append(members, added[number])
            rows, places = np.unique(every, return_inverse=True)
            X, y = self._pool.take(rows)
            n = pairs.n_records
            shared = count_rows(places[None, : n - r], len(rows))
            left = places[None, n - r : n]
            joined = None if added is None else places[None, n:]
            answering = self._query.answering(X, y)
            yield answering, *_with_neighbors(shared, left, joined)


def _with_neighbors(
    shared: Floats, removed: NDArray[np.intp], added: NDArray[np.intp] | None
) -> tuple[Floats, Floats]:
    """Return weights of databases, and those of the r neighbors of each."""
    (m, r), lines = removed.shape, np.arange(len(shared))
    first = shared.copy()
    np.add.at(first, (lines[:, None], removed), 1.0)
    others = np.repeat(first, r, axis=0)
    each = np.arange(m * r)
    others[each, removed.ravel()] -= 1.0
    if added is not None:
        others[each, added.ravel()] += 1.0
    return first, others
