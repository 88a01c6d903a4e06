"""Linear support vector machines as a query, with blocks of pairs solved together.

The query and how a pool answers it stand together, as both have to answer alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skparisk._checks import check_flag
from skparisk.core.checks import check_choice, check_positive
from skparisk.core.pairs import LargestMove
from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import Differences, PairDifferences, Query
from skparisk.queries._bounds import longest_row, solved_linear_svc_bound
from skparisk.queries._labels import (
    check_classes,
    label_codes,
    pool_codes,
    where_classes_present,
)
from skparisk.queries._linear_svc_hinge import Start, minimize_hinge, solve_hinge
from skparisk.queries._linear_svc_solver import (
    Rows,
    Solved,
    distinct_rows,
    minimize_squared_hinge,
    solve_squared_hinge,
)
from skparisk.queries._looked_up import answers_to_prepare, representative
from skparisk.queries._together import (
    Floats,
    counts_pay,
    fits,
    outward_differences,
)
from skparisk.queries._weights import prediction_weights
from skparisk.reference._base import RecordPool
from skparisk.reference._domain import Domain
from skparisk.reference._mapped import MappedNumbers, loaded
from skparisk.reference._rows import count_rows

LOSSES = ("hinge", "squared_hinge")


@dataclass(frozen=True)
class LinearSVCQuery(Query):
    r"""Coefficients and intercepts of a linear support vector machine.

    Parameters
    ----------
    classes : sequence of float
        The labels there may be, at least two; public. They are sorted.

    C : float, default=1.0
        Weight of the losses, > 0: the penalty is the smaller, the larger it is.

    loss : {"hinge", "squared_hinge"}, default="squared_hinge"
        Loss of a record that is not beyond the margin.

    fit_intercept : bool, default=True
        Whether there is an intercept, which is then released too.

    intercept_scaling : float, default=1.0
        Value s > 0 of a constant column; the intercept is s times its coefficient. The
        larger s, the less the intercept is penalized.

    Notes
    -----
    The answer holds ``coef_`` and then ``intercept_`` of scikit-learn's `LinearSVC`,
    flattened: one problem for two classes, else one against the rest for each. Each is
    the minimizer of :math:`\tfrac12\|w\|^2 + C \sum \ell(1 - y\,w \cdot x)`, the
    intercept's coefficient included. `LinearSVC` stops before that, wherever its random
    order leads it; here the answer is the minimizer but for rounding, and the same for
    records in any order. Its duality gap is checked: there is no answer (NaN) where it
    is not down to rounding, as for records that depend on each other at a C beyond a
    million, or for features whose squares nearly overflow.

    A database without one of the classes has an answer as any other, as an error would
    say so: penalized intercepts have a minimizer. *Sampled* databases without one of
    the classes count as not answered: such a pair needs infinite noise.

    `differences` solves the pairs of a block together, from the minimizer of the pool.
    A record beyond the margin changes nothing, and such differences are exactly 0.
    The others are rounded away from zero, by 2**-29 of the largest coefficient. Pairs
    of which it is not certain which records are on the margin are solved one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import LinearSVCQuery
    >>> query = LinearSVCQuery(classes=(0, 1), C=10.0, loss="hinge")
    >>> answer = query(np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1]))
    >>> np.abs(answer.round(9))
    array([1., 0.])
    """

    classes: tuple[float, ...]
    C: float = 1.0
    loss: str = "squared_hinge"
    fit_intercept: bool = True
    intercept_scaling: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", check_classes(self.classes))
        object.__setattr__(self, "C", check_positive(self.C, "C"))
        check_choice(self.loss, "loss", LOSSES)
        check_flag(self.fit_intercept, "fit_intercept")
        scaling = check_positive(self.intercept_scaling, "intercept_scaling")
        object.__setattr__(self, "intercept_scaling", scaling)

    is_repeatable = True
    needs_y = True

    @property
    def is_smooth(self) -> bool:
        return self.loss == "squared_hinge"

    @property
    def n_problems(self) -> int:
        """One for two classes, else one for each class."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def __call__(self, X: Any, y: Any = None) -> Floats:
        codes = label_codes(y, self.classes)
        design = self._design(np.asarray(X, dtype=np.float64))
        # A warning would be a release of its own.
        with np.errstate(all="ignore"):
            solutions = [self._minimize(Z) for Z in self.problems(design, codes)]
        return self.answers(np.array([solutions]))[0]

    def largest_move(
        self, domain: Domain, n_records: int, relation: str
    ) -> LargestMove | None:
        box = domain.box
        if self.loss != "hinge" or box is None or not longest_row(box):
            return None
        scaling = float(self.intercept_scaling) if self.fit_intercept else 0.0
        bound = solved_linear_svc_bound(
            self.C,
            (n_records, box.shape[1]),
            x_norm=longest_row(box),
            intercept_scaling=scaling,
            relation=relation,
        )
        if bound is None:
            return None
        n_coef, n_problems = box.shape[1] * self.n_problems, self.n_problems
        # An intercept is the coefficient of its column, times the scaling.
        intercepts = [scaling * bound] * (n_problems * self.fit_intercept)
        l2 = math.sqrt(n_problems) * max(1.0, scaling) * bound
        return LargestMove(np.array([bound] * n_coef + intercepts), l2)

    def _design(self, X: Floats) -> Floats:
        if not self.fit_intercept:
            return X
        return np.column_stack([X, np.full(len(X), float(self.intercept_scaling))])

    def problems(self, design: Floats, codes: NDArray[np.intp]) -> list[Floats]:
        """Return the records of each problem, with the sign of their side."""
        positive = range(len(self.classes))[-self.n_problems :]
        return [np.where(codes == k, 1.0, -1.0)[:, None] * design for k in positive]

    def _minimize(self, Z: Floats) -> Floats:
        if not self.C * np.square(Z).sum() < _LARGEST_SQUARES:
            return np.full(Z.shape[1], np.nan)
        rows, numbers = distinct_rows(Z)
        counts = np.bincount(numbers).astype(np.float64)
        w, proven = self.minimize(Z[rows], counts)
        return w if proven else np.full(Z.shape[1], np.nan)

    def minimize(self, Z: Floats, counts: Floats) -> tuple[Floats, bool]:
        """Return the minimizer for distinct records that occur so often, if proven."""
        minimize = minimize_hinge if self.loss == "hinge" else minimize_squared_hinge
        return minimize(Z, counts, self.C)

    def answers(self, solutions: Floats) -> Floats:
        """Return answers of shape (n, n_outputs) for (n, n_problems, q) solutions."""
        if not self.fit_intercept:
            return solutions.reshape(len(solutions), -1)
        coefs = solutions[:, :, :-1].reshape(len(solutions), -1)
        return np.hstack([coefs, self.intercept_scaling * solutions[:, :, -1]])

    def resized(self, share: float) -> LinearSVCQuery:
        return replace(self, C=self.C / share)

    def output_weights(self, X: Any, n_outputs: int) -> Floats | None:
        return prediction_weights(X, n_outputs, fit_intercept=self.fit_intercept)

    def preparing(self, pool: RecordPool, n_records: int) -> float:
        return answers_to_prepare(pool, n_records, _MOST_SORTED, _PREPARING)

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        codes = pool_codes(pool, self.classes)
        batched: Differences = self._plain_differences
        if self._is_far_from_largest(pool, self.C * n_records):
            batched = _LinearSVCOnPool(self, pool, codes, n_records)
        n_outputs = self.n_problems * (pool.X.shape[1] + self.fit_intercept)
        return where_classes_present(batched, codes, self.classes, n_outputs)

    def _is_far_from_largest(self, pool: RecordPool, weight: float) -> bool:
        """Tell if normal equations of records of such a weight lose no digits."""
        constant = self.intercept_scaling**2 * self.fit_intercept
        with np.errstate(over="ignore"):
            corner = np.square(pool.extent).max(axis=0).sum() + constant
            if weight * corner <= _LARGEST:  # no record is longer
                return True
            longest = np.square(loaded(pool.X)).sum(axis=1).max() + constant
            return bool(weight * longest <= _LARGEST)


# Largest entries of normal equations in which the identity is not lost: 20 bits of the
# penalty are left.
_LARGEST = 2.0**32
# Up to here products of two sums of squares do not overflow.
_LARGEST_SQUARES = 2.0**500
_LEAST_SPREAD = 2.0**-12
# Share of the largest coefficient that differences are moved away from zero by.
_OUTWARD = 2.0**-29
# Numbers of a pool that are sorted, however few databases are drawn from it.
_MOST_SORTED = 2**17
# Answers that take as long as to prepare as many records.
_PREPARING = 6
# Numbers that are worked on together.
_CHUNK = 2**18
# The start is the minimizer for about that many times the records of a database.
_ROWS_FOR_START = 4
# How near the answer of the neighbor is, in units of how near that of the pool is.
_NEIGHBOR_CLOSENESS = 2.0**-3


class _Task(NamedTuple):
    """Pairs that are solved together: counts of the first databases, and the change."""

    pairs: slice
    problems: list[Rows]
    counts: Floats
    removed: NDArray[np.intp]
    added: NDArray[np.intp] | None


class _Distinct(NamedTuple):
    """Records, each once and sorted, with the signs of each problem; and who has them.

    `numbers` says which of them each row is.
    """

    signed: list[Floats]
    numbers: NDArray[np.intp]

    def some(self, numbers: NDArray[np.intp]) -> _Distinct:
        """Return the records of these numbers alone."""
        kept, places = np.unique(numbers, return_inverse=True)
        return _Distinct([Z[kept] for Z in self.signed], places)


class _LinearSVCOnPool:
    """Differences of minimizers for many pairs from one pool of records."""

    def __init__(
        self,
        query: LinearSVCQuery,
        pool: RecordPool,
        codes: NDArray[np.intp],
        n_records: int,
    ) -> None:
        self._query, self._X, self._codes = query, pool.X, codes
        # All records, each once; or None until it takes less time to sort them than
        # those of each database, which are the same in the same order.
        self._all: _Distinct | None = None
        self._n_sorted = 0
        part = representative(pool, n_records, _MOST_SORTED)
        some = None if part is None else self._distinct(part)
        # Where many are the same, all of them are few.
        if some is None or 2 * len(some.signed[0]) <= len(some.numbers):
            self._all = self._distinct(None)
            step = max(1, pool.n_rows // (_ROWS_FOR_START * n_records))
            some = self._all.some(self._all.numbers[::step])
        counts = np.bincount(some.numbers)
        weights = counts * (n_records / counts.sum())
        self._starts = [self._find_start(Z, weights) for Z in some.signed]
        self._shared = None
        if self._all is None:
            return
        n_rows, q = self._all.signed[0].shape
        n_bytes = 4 * n_rows * q * (q + 1)
        if counts_pay(n_rows, n_records) and fits(n_bytes):
            products = Rows.products(self._all.signed[0])  # of which signs cancel
            self._shared = [Rows(Z, products) for Z in self._all.signed]

    def _distinct(self, rows: NDArray[np.intp] | None) -> _Distinct:
        """Return some rows of the pool, or all; each record once, sorted."""
        X = loaded(self._X) if rows is None else self._X[rows]
        codes = self._codes if rows is None else self._codes[rows]
        design = self._query._design(X)
        kept, numbers = distinct_rows(np.column_stack([design, codes]))
        return _Distinct(self._query.problems(design[kept], codes[kept]), numbers)

    def _look_up(self, rows: NDArray[np.intp]) -> _Distinct:
        """Do the same for the records of a database, and find out what is faster."""
        if self._all is None:
            places, numbers = np.unique(rows, return_inverse=True)
            self._n_sorted += len(places)
            if self._n_sorted <= len(self._X) or isinstance(self._X, MappedNumbers):
                found = self._distinct(places)
                return _Distinct(found.signed, found.numbers[numbers])
            self._all = self._distinct(None)
        return self._all.some(self._all.numbers[rows])

    def _find_start(self, Z: Floats, counts: Floats) -> Start:
        """Minimize for the pool; the minimizer of half of it moves as a resample's.

        This only guesses which records change sides. Wrong guesses cost time, as each
        answer is checked.
        """
        w, _ = self._query.minimize(Z, counts)
        of_half, _ = self._query.minimize(Z[::2], 2 * counts[::2])
        moves = Z @ (w - of_half)
        return Start(w, max(_LEAST_SPREAD, float(np.std(moves))))

    def __call__(self, pairs: NeighborPairs) -> PairDifferences:
        query = self._query
        shape = (len(pairs), query.n_problems, len(self._starts[0].w))
        first, second = np.empty(shape), np.empty(shape)
        off, still = np.empty((2, *shape[:2]))
        for task in self._tasks(pairs):
            for k, start in enumerate(self._starts):
                found = self._solve(task, task.problems[k], start)
                for of_all, own in zip((first, second, off, still), found, strict=True):
                    of_all[task.pairs, k] = own
        answers, others = query.answers(first), query.answers(second)
        largest = np.maximum(np.abs(answers), np.abs(others)).max(axis=1)
        # Here and where it is released, both answers may be off.
        scale = max(1.0, query.intercept_scaling)
        trusted = 4 * scale * off.max(axis=1) <= _OUTWARD * largest
        # A record that costs nothing around the minimizer has no part in what makes it
        # one: these minimizers are the same, not only close.
        unmoved = query.answers(np.broadcast_to(still[:, :, None], shape)) > 0
        outward = np.where(unmoved, 0.0, _OUTWARD * largest[:, None])
        return outward_differences(query, pairs, answers, others, outward, trusted)

    def _tasks(self, pairs: NeighborPairs) -> Iterator[_Task]:
        r, (removed, added) = pairs.n_neighbors, pairs.swaps
        if self._shared is not None:
            assert self._all is not None
            numbers, n_rows = self._all.numbers, len(self._shared[0].Z)
            members = numbers[pairs.members]
            step = max(1, _CHUNK // (n_rows * r))
            for start in range(0, len(members), step):
                part = slice(start, start + step)
                yield _Task(
                    slice(start * r, (start + step) * r),
                    self._shared,
                    count_rows(members[part], n_rows),
                    numbers[removed[part]],
                    None if added is None else numbers[added[part]],
                )
            return
        n = pairs.n_records
        for i, record in enumerate(pairs.members):  # the last of which are removed
            used = record if added is None else np.append(record, added[i])
            found = self._look_up(used)
            yield _Task(
                slice(i * r, (i + 1) * r),
                [Rows(Z) for Z in found.signed],
                count_rows(found.numbers[None, :n], len(found.signed[0])),
                found.numbers[None, n - r : n],
                None if added is None else found.numbers[None, n:],
            )

    def _solve(self, task: _Task, rows: Rows, start: Start) -> tuple[Any, ...]:
        """Solve the first databases, then the second ones that are not the same.

        Return both minimizers, how far they may be off, and who has not moved.
        """
        m, r = task.removed.shape
        starts = np.broadcast_to(start.w, (m, len(start.w)))
        solved = self._minimize(rows, task.counts, starts, start, 1.0)
        solved = Solved(*(np.repeat(part, r, axis=0) for part in solved))
        counts, still = np.repeat(task.counts, r, axis=0), np.isfinite(solved.errors)
        for sign, changed in ((-1.0, task.removed), (1.0, task.added)):
            if changed is not None:
                record = changed.ravel()
                counts[np.arange(m * r), record] += sign
                margins = 1 - np.einsum("ij,ij->i", rows.Z[record], solved.W)
                # Beyond the margin at all points within the radius (Cauchy-Schwarz), so
                # at the exact minimizer as well.
                still &= margins < -solved.radius * rows.norms[record]
        second, errors = solved.W.copy(), solved.errors.copy()
        moved = np.flatnonzero(~still)
        if len(moved):
            other = self._minimize(
                rows, counts[moved], second[moved], start, _NEIGHBOR_CLOSENESS
            )
            second[moved] = other.W
            errors[moved] = np.maximum(errors[moved], other.errors)
        return solved.W, second, errors, still

    def _minimize(
        self, rows: Rows, counts: Floats, starts: Floats, pool: Start, closeness: float
    ) -> Solved:
        if self._query.loss == "hinge":
            return solve_hinge(rows, counts, starts, self._query.C, pool, closeness)
        return solve_squared_hinge(rows, counts, starts, self._query.C)
