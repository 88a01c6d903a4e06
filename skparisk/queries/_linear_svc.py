"""Linear support vector machines as a query.

A database is how often each of some distinct records is in it, and one function answers
all of them: those that are drawn from a pool, many at once, and the private one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.svm import LinearSVC

from skparisk._checks import check_flag
from skparisk.core.checks import check_choice, check_positive
from skparisk.core.release import silenced
from skparisk.core.weights import symmetric
from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import Differences, PairDifferences, Query
from skparisk.queries._labels import (
    check_classes,
    label_codes,
    pool_codes,
    where_classes_present,
)
from skparisk.queries._together import (
    Floats,
    counts_pay,
    fits,
    outward_differences,
)
from skparisk.queries._weights import prediction_weights
from skparisk.reference._base import RecordPool
from skparisk.reference._mapped import loaded
from skparisk.reference._rows import count_rows

LOSSES = ("hinge", "squared_hinge")

_EPS = 2.0**-52
# Largest sums of squares of records, times C, whose products do not overflow.
_LARGEST_SQUARES = 2.0**500
# Numbers that are worked on together.
_CHUNK = 2**18


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
    intercept's coefficient included. Records are sorted first, so that their order does
    not matter.

    Hinge losses are minimized by `LinearSVC` itself, with a small tolerance. Squared
    ones, which are smooth, are minimized by Newton steps, for many databases at once,
    until the gradient is rounding. There is no answer (NaN) where that is not reached,
    as for features whose squares nearly overflow.

    A database without one of the classes has an answer as any other, as an error would
    say so: penalized intercepts have a minimizer. *Sampled* databases without one of
    the classes count as not answered: such a pair needs infinite noise.

    Differences of squared hinge losses are moved away from zero by what the answers may
    be off.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import LinearSVCQuery
    >>> query = LinearSVCQuery(classes=(0, 1), C=10.0, loss="hinge")
    >>> answer = query(np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1]))
    >>> np.abs(answer.round(6))
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
        X = np.asarray(X, dtype=np.float64)
        # A warning would be a release of its own.
        with np.errstate(all="ignore"):
            problems, numbers = self.problems(X, codes, products=False)
            counts = np.bincount(numbers)[None].astype(np.float64)
            found = [self.minimize(rows, counts)[0] for rows in problems]
        return self.answers(np.stack(found, axis=1))[0]

    def problems(
        self, X: Floats, codes: NDArray[np.intp], *, products: bool
    ) -> tuple[list[Rows], NDArray[np.intp]]:
        """Return the distinct records of each problem, and the number of each row."""
        if self.fit_intercept:
            constant = np.full(len(X), float(self.intercept_scaling))
            X = np.column_stack([X, constant])
        places, numbers = distinct_rows(np.column_stack([X, codes]))
        X, codes = X[places], codes[places]
        shared = Rows.products(X) if products else None  # of which signs cancel
        positive = range(len(self.classes))[-self.n_problems :]
        signs = [np.where(codes == k, 1.0, -1.0)[:, None] for k in positive]
        return [Rows(sign * X, shared) for sign in signs], numbers

    def minimize(
        self, rows: Rows, counts: Floats, starts: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return minimizers for many databases, and how far they may be off.

        NaN where there is no answer. Those of hinge losses are off by nothing, as they
        are whatever `LinearSVC` returns.
        """
        n, q = len(counts), rows.Z.shape[1]
        largest = self.C * counts.sum(axis=1).max() * np.square(rows.norms).max()
        if not largest < _LARGEST_SQUARES:
            return np.full((n, q), np.nan), np.zeros(n)
        if self.loss == "hinge":
            W, converged = minimize_hinge(rows.Z, counts, self.C)
            return np.where(converged[:, None], W, np.nan), np.zeros(n)
        starts = np.zeros((n, q)) if starts is None else np.nan_to_num(starts)
        return minimize_squared_hinge(rows, counts, starts, self.C)

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

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        codes = pool_codes(pool, self.classes)
        n_rows, n_features = pool.X.shape
        width = n_features + self.fit_intercept
        batched: Differences = self._plain_differences
        # Elsewhere each database is answered by itself.
        if counts_pay(n_rows, n_records) and fits(4 * n_rows * width * (width + 1)):
            batched = _LinearSVCOnPool(self, pool, codes, n_records)
        n_outputs = self.n_problems * width
        return where_classes_present(batched, codes, self.classes, n_outputs)


# Of the largest coefficient: pairs that may be off by more are answered one by one.
_TRUSTED = 2.0**-22


class _LinearSVCOnPool:
    """Differences of minimizers for many pairs from one pool of records."""

    def __init__(
        self,
        query: LinearSVCQuery,
        pool: RecordPool,
        codes: NDArray[np.intp],
        n_records: int,
    ) -> None:
        self._query = query
        X = np.asarray(loaded(pool.X), dtype=np.float64)
        self._problems, self._numbers = query.problems(X, codes, products=True)
        counts = np.bincount(self._numbers).astype(np.float64) * (n_records / len(X))
        self._starts = [np.zeros(rows.Z.shape[1]) for rows in self._problems]
        if query.is_smooth:
            found = [query.minimize(rows, counts[None])[0] for rows in self._problems]
            self._starts = [w for (w,) in found]

    def __call__(self, pairs: NeighborPairs) -> PairDifferences:
        query, r = self._query, pairs.n_neighbors
        n_rows, q = self._problems[0].Z.shape
        first, second = np.empty((2, len(pairs), query.n_problems, q))
        off = np.empty((len(pairs), query.n_problems))
        members, (removed, added) = self._numbers[pairs.members], pairs.swaps
        step = max(1, _CHUNK // (n_rows * r))
        for start in range(0, len(members), step):
            part = slice(start, start + step)
            of_pairs = slice(start * r, (start + step) * r)
            counts = count_rows(members[part], n_rows)
            others = np.repeat(counts, r, axis=0)
            lines = np.arange(len(others))
            others[lines, self._numbers[removed[part]].ravel()] -= 1
            if added is not None:
                others[lines, self._numbers[added[part]].ravel()] += 1
            for k, (rows, w) in enumerate(
                zip(self._problems, self._starts, strict=True)
            ):
                starts = np.broadcast_to(w, (len(counts), q))
                found = query.minimize(rows, counts, starts)
                first[of_pairs, k], error = (
                    np.repeat(each, r, axis=0) for each in found
                )
                second[of_pairs, k], other = query.minimize(
                    rows, others, first[of_pairs, k]
                )
                off[of_pairs, k] = np.maximum(error, other)
        answers, others = query.answers(first), query.answers(second)
        largest = np.maximum(np.abs(answers), np.abs(others))
        if not query.is_smooth:
            answered = np.isfinite(largest)
            sizes = largest.max(axis=0, where=answered, initial=0.0)
            failure = None if answered.all() else _NOT_CONVERGED
            return PairDifferences(answers - others, sizes=sizes, failure=failure)
        # Here and where it is released, both answers may be off.
        outward = 4 * max(1.0, query.intercept_scaling) * off.max(axis=1)
        trusted = outward <= _TRUSTED * largest.max(axis=1)
        moved = np.broadcast_to(outward[:, None], answers.shape)
        return outward_differences(query, pairs, answers, others, moved, trusted)


# Hinge losses

# Of `LinearSVC`: how far margins and duals may be off, and passes over the records.
_TOLERANCE, _MOST_PASSES = 1e-8, 10**6
_NOT_CONVERGED = (
    "LinearSVC did not converge: standardize the features, or take a smaller C"
)


def minimize_hinge(
    Z: Floats, counts: Floats, C: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return what `LinearSVC` learns on many databases, and whether it converged."""
    machine = LinearSVC(
        C=C,
        loss="hinge",
        fit_intercept=False,
        tol=_TOLERANCE,
        max_iter=_MOST_PASSES,
        random_state=0,
    )
    # It wants two classes, which signed records are not: one of zeros costs the same
    # whatever the solution is.
    Z, labels = np.vstack([Z, np.zeros(Z.shape[1])]), np.append(np.ones(len(Z)), 0.0)
    W, n_passes = np.empty((len(counts), Z.shape[1])), np.empty(len(counts))
    # That one did not converge would be a release of its own.
    with silenced(), config_context(assume_finite=True, skip_parameter_validation=True):
        for i, count in enumerate(counts):
            some = np.append(count > 0, True)
            machine.fit(Z[some], labels[some], np.append(count, 1.0)[some])
            W[i], n_passes[i] = machine.coef_[0], machine.n_iter_
    return W, n_passes < _MOST_PASSES


# Squared hinge losses
#
# Minimize ½|w|² + C Σ c max(0, 1 - z·w)² over w, with signed records z, how often each
# occurs c, and margins 1 - z·w that are charged above 0. With the right active records
# a Newton step is exact.

_Step: TypeAlias = Callable[[Floats], Floats]

_MOST_STEPS = 100
# The most of the objective that may be duality gap, however far rounding goes.
_LARGEST_GAP = 2.0**-20
# Margins closer to 0 than that share of their terms may be on either side.
_TIE = 2.0**-44


class Rows:
    """Signed records of shape (n_rows, q), and what many databases of them share."""

    def __init__(self, Z: Floats, products: Floats | None = None) -> None:
        self.Z = Z
        self.norms = np.sqrt(np.einsum("ij,ij->i", Z, Z))
        self._products = products

    @staticmethod
    def products(Z: Floats) -> Floats:
        """Return Z_i Z_j of each record, of shape (n_rows, q (q + 1) / 2)."""
        i, j = np.triu_indices(Z.shape[1])
        return Z[:, i] * Z[:, j]

    def margins(self, W: Floats) -> Floats:
        """Return 1 - z·w, of shape (n_databases, n_rows)."""
        return 1.0 - W @ self.Z.T

    def step(self, weights: Floats) -> Floats:
        """Minimize ½|w|² + ½ Σ weight (1 - z·w)², by normal equations."""
        q = self.Z.shape[1]
        if self._products is None:
            grams = np.array([(self.Z * c[:, None]).T @ self.Z for c in weights])
        else:
            grams = symmetric(weights @ self._products, q)
        return solve_positive(grams + np.eye(q), weights @ self.Z)

    def accurate_step(self, weights: Floats) -> Floats:
        """Do the same for one database, by orthogonal factors."""
        active = weights[0] > 0
        roots = np.sqrt(weights[0, active])
        q = self.Z.shape[1]
        system = np.vstack([np.eye(q), self.Z[active] * roots[:, None]])
        right = np.append(np.zeros(q), roots)
        factor: Any = np.linalg.qr(np.column_stack([system, right]), mode="r")
        # Factors of the records have the root of the condition of the normal equations.
        # Least squares: where C is huge, the factor may be singular to all digits.
        solution: Floats = np.linalg.lstsq(factor[:q, :q], factor[:q, q])[0]
        return solution[None]


def distinct_rows(rows: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return an index of each distinct row, sorted, and the number of each row."""
    # Sorted, so that sums over records, and their rounding, are those of any order.
    order = rows[:, 0].argsort()
    if not np.diff(rows[order, 0]).all():
        order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    numbers = np.empty(len(rows), dtype=np.intp)
    numbers[order] = np.cumsum(new) - 1
    return order[new], numbers


def minimize_squared_hinge(
    rows: Rows, counts: Floats, starts: Floats, C: float
) -> tuple[Floats, Floats]:
    """Return minimizers for many databases, and how far they may be off.

    NaN where the gradient is not down to rounding, also with accurate steps.
    """
    W = _newton(rows, 2 * C * counts, starts, rows.step)
    off = _distances(rows, counts, W, C)
    for i in np.flatnonzero(np.isinf(off)):
        own = slice(i, i + 1)
        zeros = np.zeros_like(W[own])
        W[own] = _newton(rows, 2 * C * counts[own], zeros, rows.accurate_step)
        off[own] = _distances(rows, counts[own], W[own], C)
    W[np.isinf(off)] = np.nan
    return W, off


def _distances(rows: Rows, counts: Floats, W: Floats, C: float) -> Floats:
    """Return how far minimizers may be, infinite where gradients are not rounding."""
    # The objective is 1-strongly convex: the minimizer is no further than the gradient
    # is long, and the objective no more than half of its square above the least.
    sizes = _lengths(W)
    charged = np.maximum(rows.margins(W), 0.0)
    weights = 2 * C * counts * (charged > 0)
    charges = weights * charged
    objectives = 0.5 * (sizes**2 + np.einsum("ij,ij->i", charges, charged))
    gradients = _lengths(W - charges @ rows.Z)
    sums = charges + weights * (1 + rows.norms * sizes[:, None])
    # Roundings of a long sum add up as a random walk does.
    terms = 8 * (W.shape[1] + 1) + np.sqrt(counts.sum(axis=1))
    floors = terms * _EPS * (sizes + sums @ rows.norms)
    least = np.minimum(floors, np.sqrt(2 * _LARGEST_GAP * objectives))
    return np.where(gradients <= least, gradients + floors, math.inf)


def _newton(rows: Rows, weights: Floats, starts: Floats, step: _Step) -> Floats:
    """Semismooth Newton steps until the active records stay the same, then exact."""
    W = starts.copy()
    todo = np.arange(len(W))
    for _ in range(_MOST_STEPS):
        margins, weighted = rows.margins(W[todo]), weights[todo]
        active = margins > 0
        ahead = step(weighted * active)
        moves = rows.margins(ahead)
        # On the active records the loss is quadratic: if the step keeps them, it is the
        # minimizer. Records that rounding puts on the other side do not count.
        tie = _TIE * (1 + _lengths(ahead)[:, None] * rows.norms)
        changed = ((moves > 0) != active) & (np.abs(moves) > tie) & (weighted > 0)
        moves -= margins
        settled = ~changed.any(axis=1) | (np.abs(moves) <= tie).all(axis=1)
        W[todo[settled]] = ahead[settled]
        going = ~settled
        todo = todo[going]
        if not len(todo):
            break
        W[todo] = _search_line(
            W[todo], ahead[going], margins[going], moves[going], weighted[going]
        )
    return W


def _search_line(
    W: Floats, ahead: Floats, margins: Floats, moves: Floats, weights: Floats
) -> Floats:
    """Go towards `ahead` as long as the objective decreases, to a tenth of the way."""
    # The objective is convex, so the sign of its slope along the way can be bisected,
    # and it falls all the way to `low`. Pieces are finitely many: no more precision is
    # needed than that each step gets somewhere.
    P = ahead - W
    low, high = np.zeros(len(W)), np.ones(len(W))
    tried = high.copy()
    todo = np.arange(len(W))
    pulls = weights * moves
    while len(todo):
        t = tried[todo, None]
        charged = np.maximum(margins[todo] + t * moves[todo], 0.0)
        slopes = np.einsum("ij,ij->i", P[todo], W[todo] + t * P[todo])
        down = slopes + np.einsum("ij,ij->i", charged, pulls[todo]) <= 0
        low[todo[down]] = tried[todo[down]]
        high[todo[~down]] = tried[todo[~down]]
        todo = todo[(low[todo] < 0.9 * high[todo]) & (high[todo] > _EPS)]
        tried[todo] = 0.5 * (low[todo] + high[todo])
    return W + low[:, None] * P


def _lengths(vectors: Floats) -> Floats:
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths


def solve_positive(systems: Floats, right: Floats) -> Floats:
    """Solve positive definite systems, which rounding must not make singular."""
    scales = 1 / np.sqrt(systems.diagonal(axis1=1, axis2=2))
    scaled = systems * scales[:, :, None] * scales[:, None, :]
    # A few ulps of the diagonal, which is 1.
    scaled += 8 * _EPS * np.eye(scales.shape[1])
    solutions: Any = np.linalg.solve(scaled, (scales * right)[:, :, None])
    return scales * solutions[:, :, 0]
