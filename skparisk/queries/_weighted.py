"""Queries that answer many databases at once, each a vector of weights of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import Differences, Floats, PairDifferences
from skparisk.queries._labels import label_codes, missing_class
from skparisk.queries._linear import LinearQuery
from skparisk.queries._sums import counts_pay, how_far_off
from skparisk.reference._base import RecordPool
from skparisk.reference._rows import count_rows

Answers: TypeAlias = Callable[[Floats, Any], tuple[Floats, Any]]

# Weights, or numbers of systems, that are answered together.
_AT_ONCE = 2**16
# Databases at least; more for one system of many columns, whose products are all made.
_WIDE, _FEWEST = 32, (8, 32)
_NOT_CONVERGED = (
    "the solver did not converge: bring features to similar scales, or take a "
    "stronger penalty"
)


class WeightedQuery(LinearQuery):
    """A function of how often each row of a pool is in a database.

    Sampled databases and the private one, where each row is there once, are answered by
    the same method. Sampled databases without one of the classes count as not answered:
    such a pair needs infinite noise.
    """

    classes: tuple[float, ...]

    @property
    def is_unordered(self) -> bool:
        return True

    @property
    def _needs_all_classes(self) -> bool:
        """Whether the answer is 0 without a class: there is no minimizer."""
        return False

    def _labels_of(self, targets: Any) -> tuple[NDArray[np.intp], Floats | None]:
        """Return the class of each record by number; and scores beforehand, if any."""
        return label_codes(targets, self.classes), None

    def answering(
        self, X: Floats, codes: NDArray[np.intp], offsets: Floats | None
    ) -> Answers:
        """Return what answers databases of rows of a pool.

        A function of weights, (m, n_rows), that returns (m, n_outputs), NaN where a
        database has no answer; and what is near to these, a named tuple of arrays with
        a line for each database, which may be given for databases that differ in a
        record. No answer depends on that, on other databases, or on rows of weight 0,
        but for rounding.
        """
        raise NotImplementedError

    def __call__(self, X: Any, y: Any = None) -> Floats:
        targets, weights = self.targets_of(y)
        X, (codes, offsets) = np.asarray(X, dtype=np.float64), self._labels_of(targets)
        if self._needs_all_classes and len(np.unique(codes)) < len(self.classes):
            return np.zeros(self.n_problems * (X.shape[1] + self.fit_intercept))
        answers = self.answering(X, codes, offsets)
        own = np.ones(len(X)) if weights is None else weights
        return answers(own[None], None)[0][0]

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        self.check_has_targets(pool)
        return PoolWeights(self, pool)

    @property
    def n_problems(self) -> int:
        """Rows of coefficients: one for two classes, else one for each class."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def _with_constant(self, X: Floats, constant: float = 1.0) -> Floats:
        """Return records; with intercepts, a constant in the last column."""
        if not self.fit_intercept:
            return X
        return np.column_stack([X, np.full(len(X), constant)])

    def _flat(self, solutions: Floats) -> Floats:
        """Return answers for solutions of shape (m, n_problems, q)."""
        m, lines, q = solutions.shape
        d = q - self.fit_intercept
        coef, intercepts = solutions[:, :, :d], solutions[:, :, d:]
        parts = coef.reshape(m, lines * d), intercepts.reshape(m, lines * (q - d))
        return np.concatenate(parts, axis=1)


class PoolWeights:
    """Answers of a query on the pairs of one pool."""

    def __init__(self, query: WeightedQuery, pool: RecordPool) -> None:
        self._query, self._pool = query, pool

    def __call__(self, pairs: NeighborPairs) -> PairDifferences:
        query = self._query
        whole = counts_pay(self._pool.n_records, pairs.n_records)
        parts = self._counted(pairs) if whole else self._alone(pairs)
        found, failure = [], None
        for rows, weights, neighbors in parts:
            found.append(rows.answer_pairs(weights, neighbors))
            failure = failure or rows.failure
        databases, others = map(np.concatenate, zip(*found, strict=True))
        values = databases[pairs.database] - others
        off = how_far_off(query, self._pool, pairs, databases, others)
        answered = np.isfinite(values).all(axis=1, keepdims=True)
        values = np.where(answered, values, np.inf)
        sizes = np.maximum(np.abs(databases[pairs.database]), np.abs(others))
        largest = sizes.max(axis=0, where=answered, initial=0.0)
        return PairDifferences(values, off, largest, failure)

    @cached_property
    def _whole(self) -> _Rows:
        return _Rows(self._query, self._pool)

    def _counted(self, pairs: NeighborPairs) -> Iterator[tuple[_Rows, Floats, Floats]]:
        """Yield databases, and then their neighbors, as weights of the whole pool."""
        removed, added = pairs.swaps
        r, shared = pairs.n_neighbors, pairs.shared_counts
        n_rows = self._pool.X.shape[0]
        # A database has a weight for each row, and a system of as many numbers squared.
        unknowns = self._pool.X.shape[1] * len(self._query.classes)
        wide = self._pool.X.shape[1] > _WIDE and len(self._query.classes) == 2
        fewest = _FEWEST[wide]
        step = max(fewest // r, 1, _AT_ONCE // (r * max(n_rows, unknowns**2)))
        for start in range(0, pairs.n_databases, step):
            some = slice(start, start + step)
            joined = None if added is None else added[some]
            yield self._whole, *_with_neighbors(shared[some], removed[some], joined)

    def _alone(self, pairs: NeighborPairs) -> Iterator[tuple[_Rows, Floats, Floats]]:
        """Yield each database and its neighbors, as weights of their own rows."""
        n, r = pairs.n_records, pairs.n_neighbors
        _, added = pairs.swaps
        for number, members in enumerate(pairs.members):
            every = members if added is None else np.append(members, added[number])
            rows, places = np.unique(every, return_inverse=True)
            shared = count_rows(places[None, : n - r], len(rows))
            left = places[None, n - r : n]
            joined = None if added is None else places[None, n:]
            own = _Rows(self._query, self._pool.part(rows))
            yield own, *_with_neighbors(shared, left, joined)


class _Rows:
    """Rows of a pool, and answers on sampled databases of these."""

    def __init__(self, query: WeightedQuery, pool: RecordPool) -> None:
        targets, self._weights = query.targets_of(pool.y)
        codes, offsets = query._labels_of(targets)
        self._classes, self._sizes = query.classes, pool.sizes
        self._answers = query.answering(np.asarray(pool.X, np.float64), codes, offsets)
        self._of_class = 1.0 * (codes[:, None] == np.arange(len(query.classes)))
        self.failure: str | None = None  # why a database has no answer

    def answer_pairs(self, weights: Floats, others: Floats) -> tuple[Floats, Floats]:
        """Return answers on databases and on r neighbors of each; NaN for both."""
        if self._sizes is not None:  # all rows of a person count as often
            weights, others = (
                np.repeat(each, self._sizes, axis=1) for each in (weights, others)
            )
        whole, r = self._have_all(weights), len(others) // len(weights)
        found, near = self._answers(self._weighed(_some(weights, whole)), None)
        also = np.repeat(whole, r) & self._have_all(others)
        # Each neighbor begins where its database ended.
        places = np.repeat(np.cumsum(whole) - 1, r)[also]
        if r > 1 or not also.all():
            near = type(near)(*(part[places] for part in near))
        moved, _ = self._answers(self._weighed(_some(others, also)), near)
        if self.failure is None and not np.isfinite(moved).all():
            self.failure = _NOT_CONVERGED
        return _at(whole, found), _at(also, moved)

    def _weighed(self, counts: Floats) -> Floats:
        """Return weights of rows that are there so often."""
        return counts if self._weights is None else counts * self._weights

    def _have_all(self, weights: Floats) -> NDArray[np.bool_]:
        """Tell which databases have records of all classes."""
        counts = weights @ self._of_class
        if not counts.all():
            lacking = counts[~counts.all(axis=1)][0]
            self.failure = missing_class(lacking, self._classes, int(lacking.sum()))
        return np.asarray(counts.all(axis=1))


def _some(weights: Floats, which: NDArray[np.bool_]) -> Floats:
    return weights if which.all() else weights[which]


def _at(which: NDArray[np.bool_], answers: Floats) -> Floats:
    """Return answers of these databases, and NaN for others."""
    every = np.full((len(which), answers.shape[1]), np.nan)
    every[which] = answers
    return every


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
