"""Ridge regression as a query, with all pairs of a block solved together.

The query and how a pool answers it stand together, as both have to answer alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dposv
from sklearn import config_context
from sklearn.linear_model import ridge_regression

from skparisk.core.checks import as_float
from skparisk.core.pairs import LargestMove
from skparisk.core.release import silenced
from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import Differences, PairDifferences, Query
from skparisk.queries._bounds import longest_row, solved_ridge_bounds
from skparisk.queries._looked_up import LookedUp, answers_to_prepare, representative
from skparisk.queries._products import Products
from skparisk.queries._together import (
    Floats,
    counts_pay,
    outward_differences,
    symmetric,
)
from skparisk.queries._weights import column_means, prediction_weights
from skparisk.reference._base import RecordPool
from skparisk.reference._domain import Domain
from skparisk.reference._mapped import loaded


@dataclass(frozen=True)
class RidgeQuery(Query):
    """Coefficients and intercept of scikit-learn's `Ridge`.

    Parameters
    ----------
    alpha : float or sequence of float, default=1.0
        Penalty, >= 0; one for each target, or one for all.

    fit_intercept : bool, default=True
        Whether there is an intercept, which is then released too.

    Notes
    -----
    The answer holds ``coef_`` and then ``intercept_``, flattened.

    `differences` solves all pairs of a block together. The records of a pool
    are centered and transformed once, by the Cholesky factor of their own normal
    equations, so that each resample's normal equations are close to the
    identity; the Gram matrices of a block are one product of bootstrap counts
    and products of features; the neighbor is a change of rank two. Pairs that
    are not well conditioned are refitted with `Ridge`, and all pairs of a pool on
    which `Ridge` itself loses digits. Differences are rounded away from zero, by
    2**-32 of the largest coefficient.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import RidgeQuery
    >>> RidgeQuery(alpha=0.0)(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3, 5]))
    array([2., 1.])
    """

    alpha: float | tuple[float, ...] = 1.0
    fit_intercept: bool = True

    is_repeatable = True
    is_smooth = True
    needs_y = True

    def __post_init__(self) -> None:
        if isinstance(self.alpha, (list, tuple, np.ndarray)) and np.ndim(self.alpha):
            object.__setattr__(self, "alpha", tuple(self.alpha))
        several = isinstance(self.alpha, tuple)
        given: Any = self.alpha if several else (self.alpha,)
        penalties = tuple(map(as_float, given))
        if not penalties or not all(0 <= each < np.inf for each in penalties):
            raise ValueError(f"alpha must be a finite number >= 0, got {self.alpha!r}.")
        object.__setattr__(self, "alpha", penalties if several else penalties[0])

    def __call__(self, X: Any, y: Any = None) -> Floats:
        coef, intercept = self.fit(X, y)
        if not self.fit_intercept:
            return coef.ravel()
        return np.concatenate([coef.ravel(), np.ravel(intercept)])

    def resized(self, share: float) -> RidgeQuery:
        return replace(self, alpha=tuple((np.atleast_1d(self.alpha) * share).tolist()))

    def largest_move(
        self, domain: Domain, n_records: int, relation: str
    ) -> LargestMove | None:
        box, targets = domain.box, domain.target_box
        if (
            self.fit_intercept
            or box is None
            or targets is None
            or not np.all(self.alpha)
        ):
            return None
        x_norm, y_bound = longest_row(box), float(np.abs(targets).max())
        if not x_norm or not y_bound:
            return None
        bounds = solved_ridge_bounds(
            np.broadcast_to(self.alpha, targets.shape[1]).tolist(),
            (n_records, box.shape[1]),
            x_norm=x_norm,
            y_bound=y_bound,
            relation=relation,
        )
        if bounds is None:
            return None
        outputs = np.repeat(bounds, box.shape[1])
        return LargestMove(outputs, float(np.linalg.norm(bounds)))

    def output_weights(self, X: Any, n_outputs: int) -> Floats | None:
        return prediction_weights(X, n_outputs, fit_intercept=self.fit_intercept)

    def check_targets(self, y: Floats) -> None:
        """Raise ValueError unless there is one penalty, or one for each target."""
        n_targets = y.size // len(y)
        if isinstance(self.alpha, tuple) and len(self.alpha) not in (1, n_targets):
            raise ValueError(
                f"alpha must be one number, or one for each of the {n_targets} "
                f"targets, got {len(self.alpha)}."
            )

    def fit(self, X: Any, y: Any) -> tuple[Floats, Any]:
        """Return ``coef_`` and ``intercept_`` as scikit-learn's `Ridge` has them."""
        # What it does after its checks, which take twice as long. On copies, as there:
        # how numbers stand in memory decides how sums are rounded.
        X, y = np.array(X, dtype=np.float64), np.array(y, dtype=np.float64)
        with np.errstate(all="ignore"):  # that a number overflows would be a release
            if not self.fit_intercept:
                return _ridge(X, y, self.alpha), 0.0
            center, mean = column_means(X), y.mean(axis=0)
            X -= center
            y -= mean
            coef = _ridge(X, y, self.alpha)
            return coef, mean - center @ coef.T

    def preparing(self, pool: RecordPool, n_records: int) -> float:
        most = _most_transformed(pool, n_records)
        return answers_to_prepare(pool, n_records, most, _PREPARING)

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        if pool.y is None:
            raise ValueError(
                "The ridge query needs targets, but the reference has none (y)."
            )
        self.check_targets(pool.y)
        whole = isinstance(pool.X, np.ndarray)  # and not numbers in a file
        if whole and not _has_squares(pool.X, pool.y):
            return self._plain_differences
        if n_records <= pool.X.shape[1]:  # only the penalty makes these regular
            return self._plain_differences
        try:
            batched = _RidgeOnPool(self, pool, n_records)
        except LinAlgError:
            return self._plain_differences
        # What is released is the answer of `Ridge`, rounding errors included.
        rows = np.arange(min(n_records, len(pool.X)))
        if batched.agrees(rows, self(pool.X[rows], pool.y[rows])):
            return batched
        return self._plain_differences


def _has_squares(X: Floats, y: Floats) -> bool:
    """Tell if sums of products are finite."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.square(X).sum() + np.square(y).sum()))


def _ridge(X: Floats, y: Floats, alpha: float | tuple[float, ...]) -> Floats:
    """Return the coefficients without an intercept, as `ridge_regression` finds them.

    Mostly by the same factor, to the last digit, without what takes longer around it.
    """
    n_rows, n_features = X.shape
    if isinstance(alpha, float) and y.ndim == 1 < n_features <= n_rows:
        gram = X.T @ X
        gram.flat[:: n_features + 1] += alpha
        _, coef, failed = dposv(gram, X.T @ y)
        if not failed and np.isfinite(coef).all():  # else it says what is wrong
            return np.asarray(coef.ravel())
    if not _has_squares(X, y):
        return np.full((*y.shape[1:], n_features), np.nan)
    checked = config_context(assume_finite=True, skip_parameter_validation=True)
    with checked, silenced():  # that it is ill conditioned would be a release
        # scikit-learn 1.6 takes no tuple.
        return ridge_regression(X, y, np.asarray(alpha), check_input=False)


# Share of the largest coefficient that differences are moved away from zero by.
_OUTWARD = 2.0**-32
# Solving loses the condition times 2**-52: 1e6 is where that reaches `_OUTWARD`. The
# factor of the pool's normal equations has the square root of their own condition.
_PAIR_CONDITION = 1e6
_POOL_CONDITION = 3e3
# How far from 1 eigenvalues may be without a further look.
_NEAR = 0.9
# A record may leave by a change of rank one if this much of its direction is left,
# which costs four bits, and join if there is this much at most of it then, by which the
# system of the neighbor is worse; and if the inverse costs no more than six bits.
_LEAST_LEFT, _MOST_JOINED = 2.0**-4, 2.0**10
_INVERSE_CONDITION = 2.0**6
# What `Ridge` solves is conditioned as badly as pool and pair together.
_CONDITION_OF_BOTH = 2.0**22
# Numbers that are transformed once, whatever databases take of them; and if this is no
# more than so many databases take.
_FEW_TRANSFORMED, _MOST_TRANSFORMED = 2**17, 2**20
_TAKEN_TOGETHER = 64
# Answers that take as long as to prepare as many records; and a few more, as those of
# some pairs together take half of what answers one by one take.
_PREPARING = 12
# Numbers that are gathered together: few enough for their memory to be used again.
_CHUNK = 2**20


class _RidgeOnPool:
    """Differences of ridge solutions for many pairs from one pool of records."""

    def __init__(self, query: RidgeQuery, pool: RecordPool, n_records: int) -> None:
        self._query = query
        records = _representative(pool, n_records)
        X, y = loaded(records.X), loaded(records.y)
        n_rows, n_features = X.shape
        targets = y.reshape(n_rows, -1)
        alphas = np.broadcast_to(query.alpha, targets.shape[1])
        self._center = column_means(X) if query.fit_intercept else np.zeros(n_features)
        self._n_features = n_features
        design = X - self._center
        self._target_means = np.zeros(targets.shape[1])
        if query.fit_intercept:
            design = np.column_stack([design, np.ones(n_rows)])
            self._target_means = targets.mean(axis=0)
            targets = targets - self._target_means
        penalized = np.arange(design.shape[1]) < n_features
        # L L' = expected normal equations of a database, with the least of the
        # penalties: one transformation for all targets, and the others only add to it.
        expected = design.T @ design * (n_records / n_rows)
        factor = np.linalg.cholesky(expected + np.diag(penalized * alphas.min()))
        # Rows of unit length: the units of the features cost no digits.
        scaled = factor / np.linalg.norm(factor, axis=1, keepdims=True)
        condition = np.linalg.cond(scaled)
        if condition > _POOL_CONDITION:
            raise LinAlgError("the pool's normal equations")
        # `Ridge` subtracts means in floating point: far from zero it loses digits.
        low, high = records.extent
        deviation = np.maximum(high - self._center, self._center - low)
        moving = deviation > 0
        largest = np.maximum(high, -low)
        distance = (largest[moving] / deviation[moving]).max(initial=1.0)
        if distance * condition * 2.0**-52 > _OUTWARD / 8:
            raise LinAlgError("the centering of the pool")
        self._condition = float(
            np.clip(
                _CONDITION_OF_BOTH / condition**2, _INVERSE_CONDITION, _PAIR_CONDITION
            )
        )
        self._back = np.linalg.inv(factor)
        self._Z: Any
        self._targets: Any
        if n_rows == pool.n_rows:
            self._Z, self._targets = design @ self._back.T, targets
        else:
            self._Z = LookedUp(pool.X, self._center, self._back)
            self._targets = LookedUp(pool.y, self._target_means)
        penalty = self._back @ (penalized[:, None] * self._back.T)
        self._systems: list[tuple[Floats, Any]]
        if (alphas == alphas[0]).all():  # views, where others take copies
            self._systems = [(alphas[0] * penalty, slice(None))]
        else:
            self._systems = [
                (alpha * penalty, alphas == alpha) for alpha in np.unique(alphas)
            ]
        self._products = None
        if counts_pay(pool.n_rows, n_records):  # whole columns at a time are contiguous
            self._products = Products(self._Z.T.copy(), self._targets.T.copy())

    def __call__(self, pairs: NeighborPairs) -> PairDifferences:
        gram, moment = (
            self._gathered(pairs.members)
            if self._products is None
            else self._counted(pairs, self._products)
        )
        if pairs.n_neighbors == 1:
            grams, moments = self._swap(gram, moment, pairs.removed, pairs.replacement)
            solutions, trusted = self._solve(
                np.concatenate([gram, grams]),
                np.concatenate([moment, moments]),
                np.concatenate([np.zeros(len(gram)), _trace(gram)]),
            )
            first, second = np.split(solutions, 2)
            both = np.logical_and(*np.split(trusted, 2))
        else:
            first, second, both = self._solve_neighbors(gram, moment, pairs)
        answers, others = self._answers(first), self._answers(second)
        # Rounding goes with what is released, so intercepts count in full size here.
        sizes = self._sizes(answers)[pairs.database]
        outward = _OUTWARD * np.maximum(sizes, self._sizes(others))
        answers = answers[pairs.database]
        return outward_differences(self._query, pairs, answers, others, outward, both)

    def _solve_neighbors(
        self, gram: Floats, moment: Floats, pairs: NeighborPairs
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Return solutions of databases and of neighbors, and which pairs are trusted.

        A record that leaves and one that joins are changes of rank one of the inverse
        (Sherman and Morrison), where that loses few digits; else database and neighbor
        are solved by themselves.
        """
        removed, added = pairs.swaps
        first = np.empty_like(moment)
        second = np.empty((*removed.shape, *moment.shape[1:]))
        rows = [self._Z[which] for which in (removed, added) if which is not None]
        trusted = np.ones(removed.shape, dtype=bool)
        direct = np.zeros(removed.shape, dtype=bool)
        for penalty, columns in self._systems:
            system = gram + penalty
            regular = _well_conditioned(system, _INVERSE_CONDITION)
            system[~regular] = np.eye(len(penalty))
            inverse = np.linalg.inv(system)
            theta = inverse @ moment[:, :, columns]
            first[:, :, columns] = theta
            X, y = rows[0], self._targets[removed][:, :, columns]
            u = X @ inverse
            left = 1 - _products_of(u, X)
            stays = left >= _LEAST_LEFT  # which is not so where it is not finite
            direct |= ~(regular[:, None] & stays)
            left[~stays] = 1.0
            gone = (X @ theta - y) / left[:, :, None]
            moved = theta[:, None] + u[..., None] * gone[:, :, None]
            if added is not None:
                X, y = rows[1], self._targets[added][:, :, columns]
                across = _products_of(u, X)[:, :, None]
                v = X @ inverse
                v += u * (across / left[:, :, None])
                more = 1 + _products_of(v, X)
                direct |= ~(more <= _MOST_JOINED)
                coming = (y - X @ theta - across * gone) / more[:, :, None]
                moved += v[..., None] * coming[:, :, None]
            second[:, :, :, columns] = moved
        if direct.any():
            again = np.flatnonzero(direct.any(axis=1))
            first[again], good = self._solve(gram[again], moment[again])
            trusted[again] = good[:, None]
            lines, numbers = np.nonzero(direct)
            joined = None if added is None else added[lines, numbers]
            swapped = self._swap(
                gram[lines], moment[lines], removed[lines, numbers], joined
            )
            second[lines, numbers], good = self._solve(*swapped, _trace(gram[lines]))
            trusted[lines, numbers] &= good
        return first, second.reshape(-1, *moment.shape[1:]), trusted.ravel()

    def agrees(self, rows: NDArray[np.intp], answer: Floats) -> bool:
        """Return whether an answer of `Ridge` is off by far less than `_OUTWARD`."""
        solutions, trusted = self._solve(*self._gathered(rows[None]))
        own = self._released(self._answers(solutions))[0]
        error, size = np.abs(own - answer).max(), np.abs(own).max()
        # An eighth, because this one database stands for all that will be sampled.
        return bool(trusted.all() and error <= _OUTWARD / 8 * size)

    def _solve(
        self, grams: Floats, moments: Floats, before: Any = 0.0
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return solutions, and which of them can be trusted.

        Not where little is left of the trace that there was `before` a record left.
        """
        floor = before / _PAIR_CONDITION
        solutions = np.empty_like(moments)
        trusted = np.ones(len(grams), dtype=bool)
        for penalty, columns in self._systems:
            system = grams + penalty
            trusted &= _well_conditioned(system, self._condition, floor)
            # A singular one would stop the whole block; it is refitted in any case.
            system[~trusted] = np.eye(len(penalty))
            solutions[:, :, columns] = np.linalg.solve(system, moments[:, :, columns])
        return solutions, trusted

    def _counted(
        self, pairs: NeighborPairs, products: Products
    ) -> tuple[Floats, Floats]:
        """Gram matrices of a block as counts x products."""
        q = self._Z.shape[1]
        sums, n_upper = products.sums(pairs.counts), q * (q + 1) // 2
        moments = sums[:, n_upper:].reshape(pairs.n_databases, q, -1)
        return symmetric(sums, q), moments

    def _gathered(self, records: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Gram matrices of a block from the records themselves, in chunks."""
        q, t = self._Z.shape[1], self._targets.shape[1]
        gram = np.empty((len(records), q, q))
        moment = np.empty((len(records), q, t))
        step = max(1, _CHUNK // (records.shape[1] * (q + t)))
        for start in range(0, len(records), step):
            block = slice(start, start + step)
            Z = self._Z[records[block]]
            transposed = Z.transpose(0, 2, 1)
            gram[block] = transposed @ Z
            moment[block] = transposed @ self._targets[records[block]]
        return gram, moment

    def _swap(
        self,
        gram: Floats,
        moment: Floats,
        removed: NDArray[np.intp],
        replacement: NDArray[np.intp] | None,
    ) -> tuple[Floats, Floats]:
        """Take the removed record out and put the replacement in."""
        for sign, rows in ((-1.0, removed), (1.0, replacement)):
            if rows is not None:
                Z = sign * self._Z[rows][:, :, None]
                gram = gram + Z * self._Z[rows][:, None, :]
                moment = moment + Z * self._targets[rows][:, None, :]
        return gram, moment

    def _answers(self, solutions: Floats) -> Floats:
        """Undo the transformation: (..., n_targets) to coefficients and intercepts.

        The intercepts lack the mean of the pool's targets, which cancels.
        """
        n, q, t = solutions.shape
        # One product of two matrices: as many as there are solutions take longer.
        theta = solutions.swapaxes(1, 2).reshape(n * t, q) @ self._back
        theta = theta.reshape(n, t, q)
        coef = theta[:, :, : self._n_features]
        answers = coef.reshape(len(coef), -1)
        if not self._query.fit_intercept:
            return answers
        intercepts = theta[:, :, -1] - coef @ self._center
        return np.concatenate([answers, intercepts], axis=1)

    def _released(self, answers: Floats) -> Floats:
        """Add the mean of the pool's targets to the intercepts: 0 without these."""
        released = answers.copy()
        released[:, -len(self._target_means) :] += self._target_means
        return released

    def _sizes(self, answers: Floats) -> Floats:
        """Return the largest number of each answer that is released, as a column."""
        released = self._released(answers)
        # Rows are short: it takes less time to go through them side by side.
        return np.abs(released.T, order="C").max(axis=0)[:, None]


def _representative(pool: RecordPool, n_records: int) -> RecordPool:
    """Return the records of a pool that databases are transformed by."""
    rows = representative(pool, n_records, _most_transformed(pool, n_records))
    return pool if rows is None else RecordPool(*pool.take(rows))


def _most_transformed(pool: RecordPool, n_records: int) -> int:
    """Return how many numbers of a pool are transformed at the most."""
    taken = _TAKEN_TOGETHER * n_records * pool.X.shape[1]
    return int(np.clip(taken, _FEW_TRANSFORMED, _MOST_TRANSFORMED))


def _trace(matrices: Floats) -> Floats:
    return np.asarray(np.trace(matrices, axis1=1, axis2=2))


def _products_of(rows: Floats, others: Floats) -> Floats:
    """Return the inner product of each row with the other one of its place."""
    return np.asarray(np.einsum("mri,mri->mr", rows, others))


def _well_conditioned(
    system: Floats, condition: float = _PAIR_CONDITION, floor: Any = 0.0
) -> NDArray[np.bool_]:
    """Return which symmetric matrices can be solved without loss of digits.

    Of which no eigenvalue is below the largest / `condition`, nor below a `floor`.
    """
    # Nearly all systems are that close, as the pool was transformed for it.
    floors = np.broadcast_to(floor, len(system))
    with np.errstate(over="ignore", invalid="ignore"):  # such as of huge records
        good = _near_identity(system) & (floors <= 1 - _NEAR)
        rest = np.flatnonzero(~good)
        if len(rest):
            good[rest] = _conditioned(system[rest], condition, floors[rest])
    return good


def _near_identity(system: Floats) -> NDArray[np.bool_]:
    """Return which symmetric matrices have all eigenvalues within `_NEAR` of 1."""
    away = system - np.eye(system.shape[1])
    near = _sum_of_squares(away) < _NEAR**2
    if not near.all():
        # Sums of the eigenvalues' fourth powers are far closer to the largest of them
        # than those of their squares, where there are many.
        rest = away[~near]
        near[~near] = _sum_of_squares(rest @ rest) < _NEAR**4
    return near


def _sum_of_squares(matrices: Floats) -> Floats:
    flat = matrices.reshape(len(matrices), -1)
    return np.asarray(np.vecdot(flat, flat))


def _conditioned(system: Floats, condition: float, floor: Floats) -> NDArray[np.bool_]:
    """Return the same of those that are not near the identity."""
    # No eigenvalue exceeds a sum of a row. What is not finite would be factored.
    most = np.abs(system).sum(axis=2).max(axis=1)
    good = np.isfinite(most)
    system, least = system[good], np.maximum(most[good] / condition, floor[good])
    # A factor is found in a fifth of the time of eigenvalues, and only if all are
    # above what is taken off the diagonal.
    try:
        np.linalg.cholesky(system - least[:, None, None] * np.eye(system.shape[1]))
    except LinAlgError:
        values = np.linalg.eigvalsh(system)
        least = np.maximum(values[:, -1] / condition, floor[good])
        good[good] = values[:, 0] > least
    return good
