"""Logistic regression of many pairs of databases from one pool, solved together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.neighbors import NeighborPairs
from skparisk.queries._logistic_solver import minimizer, penalty_shares, released

__all__ = ["CLOSE", "PoolSolver"]

_Rows: TypeAlias = NDArray[np.intp] | None

# How close to the exact answer it is proven to be, of the largest output.
CLOSE = 2.0**-34

_POOL_CONDITION = 3e3
_MOST_EVALUATIONS = 8
# Curvature is taken anew where that of a record may have changed by more.
_FAR = 2.0**-4
_SINGLE = 2.0**-12  # more than single precision changes in sums of about 1
_IN_CACHE = 2**16
_MOST_PRODUCTS = 2**25


class PoolSolver:
    """Solves pairs of databases that are drawn from one pool of records.

    The records are centered and transformed once, so that the curvature of an
    average database at the pool's own solution is close to the identity: from
    there Newton's method needs few steps, most of them with old curvature.

    Raises
    ------
    LinAlgError
        If the pool is so ill conditioned that answers would not be exact.
    """

    def __init__(
        self,
        X: NDArray[np.float64],
        codes: NDArray[np.intp],
        *,
        n_classes: int,
        C: float,
        fit_intercept: bool,
        n_records: int,
    ) -> None:
        n_rows, self._n_features = X.shape
        share = n_records / n_rows
        theta = minimizer(
            X, codes, n_classes=n_classes, C=C * share, fit_intercept=fit_intercept
        )
        design, center = X, np.zeros(self._n_features)
        penalty = np.full(self._n_features, 1 / C)
        if fit_intercept:
            center = X.mean(axis=0)
            design = np.column_stack([X - center, np.ones(n_rows)])
            theta[:, -1] += theta[:, :-1] @ center
            penalty = np.append(penalty, 0.0)
        p = _expected(theta @ -design.T, 1.0)
        weights = share * (p * (1 - p)).mean(axis=0)
        factor = np.linalg.cholesky((design.T * weights) @ design + np.diag(penalty))
        scaled = factor / np.linalg.norm(factor, axis=1, keepdims=True)
        if not np.linalg.cond(scaled) < _POOL_CONDITION:
            raise np.linalg.LinAlgError("the curvature of the pool")
        back = np.linalg.inv(factor)
        Z = design @ back.T
        self._start = theta @ factor
        # From solutions in these coordinates to those in the features' own.
        self._to_theta = back.copy()
        if fit_intercept:
            self._to_theta[:, -1] -= back[:, :-1] @ center
        self._gain = np.linalg.norm(self._to_theta, axis=0).max()
        lengths = np.linalg.norm(Z, axis=1)
        canceling = (np.abs(theta[:, : len(center)]) @ np.abs(center)).max()
        rounding = 2.0**-50 * (self._gain * share * lengths.sum() + canceling)
        if not rounding < CLOSE * self._sizes(self._start):
            raise np.linalg.LinAlgError("the rounding of answers")
        # A step of length 1 spreads the scores of a record by no more than that.
        self._reach = lengths.max() * np.sqrt(min(2, n_classes - 1))
        of_class = (codes == np.arange(1, n_classes)[:, None]).astype(np.float64)
        gathering = n_rows > 4 * n_records or _n_products(Z) > _MOST_PRODUCTS
        self._records = _Records(
            Z=Z,
            Zt=Z.T.copy(),
            of_class=of_class,
            residuals=p - of_class,
            products=None if gathering else _products(Z),
            penalty=np.kron(penalty_shares(n_classes), (back * penalty) @ back.T),
        )
        counts = np.full((1, n_rows), share)
        moments = np.zeros((1, self._start.size))
        derivatives = self._records.derivatives(counts, moments, self._start[None])
        self._curvature = derivatives[1]

    def __call__(
        self, pairs: NeighborPairs
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """Return the answers of both databases of each pair, and which are proven."""
        if self._records.products is not None:
            counts = _counts(pairs.records, len(self._records.Z))
            return self._solve(self._records, counts, pairs.removed, pairs.replacement)
        solved = [self._solve(*self._gathered(pairs, i)) for i in range(len(pairs))]
        first, second, proven = map(np.concatenate, zip(*solved, strict=True))
        return first, second, proven

    def _gathered(
        self, pairs: NeighborPairs, pair: int
    ) -> tuple[
        _Records, NDArray[np.float64], NDArray[np.intp], NDArray[np.intp] | None
    ]:
        """Return records of a pair, their counts, and which to remove and to add."""
        rows, counts, added = pairs.records[pair], np.ones((1, pairs.n_records)), None
        if pairs.replacement is not None:
            rows = np.append(rows, pairs.replacement[pair])
            counts = np.append(counts, [[0.0]], axis=1)
            added = np.array([pairs.n_records])
        return self._records.take(rows), counts, pairs.changed[[pair]], added

    def _solve(
        self,
        records: _Records,
        counts: NDArray[np.float64],
        removed: NDArray[np.intp],
        added: _Rows,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """Solve databases of these counts, and their neighbors."""
        moments = records.sums(counts, records.of_class)
        slopes = records.sums(counts, records.residuals)
        slopes += self._start.ravel() @ records.penalty
        start = np.tile(self._start, (len(counts), 1, 1))
        curvature = _Curvature(np.full_like(start, np.inf), self._curvature)
        v = start - curvature.steps(slopes)
        first, firsts_proven, curvature = self._newton(
            records, counts, moments, v, curvature
        )
        at, matrix, slopes = curvature.at, curvature.matrix, np.zeros_like(slopes)
        for sign, rows in ((-1.0, removed), (1.0, added)):
            if rows is None:
                continue
            moment, slope, square = records.of_one(rows, first, at)
            counts[np.arange(len(counts)), rows] += sign
            moments += sign * moment
            slopes += sign * slope
            matrix = matrix + sign * square
        curvature = _Curvature(at, matrix)
        v = first - curvature.steps(slopes)
        second, proven, _ = self._newton(records, counts, moments, v, curvature)
        return self._answers(first), self._answers(second), firsts_proven & proven

    def _newton(
        self,
        records: _Records,
        counts: NDArray[np.float64],
        moments: NDArray[np.float64],
        v: NDArray[np.float64],
        curvature: _Curvature,
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], _Curvature]:
        """Return minimizers, which are proven to be close, and the last curvature.

        Between two points curvature changes by factors within exp(-s) and exp(s), s
        the largest spread of a record's scores. While that is less than 1/2, the
        minimizer is within twice the step, and after the step within twice the
        change times the step (in the norm of the curvature).
        """
        for _ in range(_MOST_EVALUATIONS):
            moved = np.linalg.norm(v - curvature.at, axis=(1, 2))
            if self._reach * moved.max() <= _FAR:
                slopes = records.slopes(counts, moments, v)
            else:
                slopes, matrix = records.derivatives(counts, moments, v)
                curvature, moved = _Curvature(v, matrix), np.zeros_like(moved)
            steps = curvature.steps(slopes)
            decrement = (steps.reshape(slopes.shape) * slopes).sum(axis=1)
            length = np.sqrt(curvature.largest_inverse * decrement.clip(min=0))
            change = np.expm1(self._reach * (moved + 2 * length))
            change += _SINGLE * curvature.largest_inverse
            v = v - steps
            errors = self._gain * 2 * change * length
            proven = (change <= 0.5) & (errors <= CLOSE * self._sizes(v))
            if proven.all():
                break
        return v, proven, curvature

    def _answers(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        return released(v @ self._to_theta, self._n_features)

    def _sizes(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.abs(self._answers(v)).max(axis=-1)


@dataclass(frozen=True, eq=False)
class _Curvature:
    """Second derivatives for each database, each at a point of its own."""

    at: NDArray[np.float64]
    matrix: NDArray[np.float64]

    @cached_property
    def inverse(self) -> NDArray[np.float64]:
        """Inverses, which exist also where rounding leaves none."""
        regular = self.matrix + _SINGLE / 8 * np.eye(self.matrix.shape[1])
        return np.asarray(np.linalg.inv(regular), dtype=np.float64)

    @cached_property
    def largest_inverse(self) -> NDArray[np.float64]:
        """No less than the largest eigenvalue of each inverse."""
        return np.abs(self.inverse).sum(axis=1).max(axis=1)

    def steps(self, slopes: NDArray[np.float64]) -> NDArray[np.float64]:
        return (self.inverse @ slopes[:, :, None]).reshape(self.at.shape)


@dataclass(frozen=True, eq=False)
class _Records:
    """Transformed records; databases are counts of them, (n_databases, n_rows).

    Moments are the sums over records of z, for each class but the first.
    """

    Z: NDArray[np.float64]
    Zt: NDArray[np.float64]
    of_class: NDArray[np.float64]
    residuals: NDArray[np.float64]
    products: NDArray[np.float32] | None
    penalty: NDArray[np.float64]

    def take(self, rows: NDArray[np.intp]) -> _Records:
        """Return some of the records, without products."""
        return replace(
            self,
            Z=self.Z[rows],
            Zt=self.Zt[:, rows],
            of_class=self.of_class[:, rows],
            residuals=self.residuals[:, rows],
        )

    def sums(
        self, counts: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return sums of z, weighted with each row of weights."""
        sums = np.zeros((len(counts) * len(weights), self.Z.shape[1]))
        for rows in self._blocks(sums):
            weighted = counts[:, None, rows] * weights[:, rows]
            sums += weighted.reshape(len(sums), -1) @ self.Z[rows]
        return sums.reshape(len(counts), -1)

    def slopes(
        self,
        counts: NDArray[np.float64],
        moments: NDArray[np.float64],
        v: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return first derivatives at v."""
        flat = v.reshape(-1, v.shape[2])
        sums = np.zeros_like(flat)
        for rows in self._blocks(flat):
            minus = (-flat @ self.Zt[:, rows]).reshape(*v.shape[:2], -1)
            expected = _expected(minus, counts[:, None, rows])
            sums += expected.reshape(len(flat), -1) @ self.Z[rows]
        return sums.reshape(len(v), -1) - moments + v.reshape(len(v), -1) @ self.penalty

    def derivatives(
        self,
        counts: NDArray[np.float64],
        moments: NDArray[np.float64],
        v: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return first and second derivatives at v."""
        m, n_logits, q = v.shape
        flat = v.reshape(-1, q)
        sums = np.zeros_like(flat)
        squares = np.zeros((n_logits, n_logits, m, q * (q + 1) // 2))
        for rows in self._blocks(flat):
            minus = (-flat @ self.Zt[:, rows]).reshape(m, n_logits, -1)
            p = _expected(minus, 1.0)
            expected = counts[:, None, rows] * p
            sums += expected.reshape(len(flat), -1) @ self.Z[rows]
            for a in range(n_logits):
                for b in range(a + 1):
                    weights = float(a == b) - p[:, b]
                    weights *= expected[:, a]
                    squares[a, b] += self._squares(weights, rows)
        matrix = np.empty((m, n_logits, q, n_logits, q))
        i, j = np.triu_indices(q)
        for a in range(n_logits):
            for b in range(a + 1):
                block = np.empty((m, q, q))
                block[:, i, j] = block[:, j, i] = squares[a, b]
                matrix[:, a, :, b] = matrix[:, b, :, a] = block
        slopes = sums.reshape(m, -1) - moments + v.reshape(m, -1) @ self.penalty
        return slopes, matrix.reshape(m, n_logits * q, -1) + self.penalty

    def of_one(
        self, rows: NDArray[np.intp], v: NDArray[np.float64], at: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return what one record adds to moments, slopes at v and curvature at `at`."""
        Z, of_class = self.Z[rows], self.of_class[:, rows].T
        p, p_at = (_expected(-place @ Z[:, :, None], 1.0)[:, :, 0] for place in (v, at))
        weights = p_at[:, :, None] * (np.eye(p.shape[1]) - p_at[:, None])
        squares = np.einsum("mab,mi,mj->maibj", weights, Z, Z)
        moments, slopes = (
            (w[:, :, None] * Z[:, None]).reshape(len(Z), -1)
            for w in (of_class, p - of_class)
        )
        return moments, slopes, squares.reshape(*moments.shape, -1)

    def _squares(self, weights: NDArray[np.float64], rows: slice) -> Any:
        """Return weighted sums of z_i z_j, i <= j."""
        if self.products is not None:
            return weights.astype(np.float32) @ self.products[rows]
        squares = (self.Zt[:, rows] * weights) @ self.Z[rows]  # of one database
        return squares[np.triu_indices(len(squares))]

    def _blocks(self, of: NDArray[np.float64]) -> list[slice]:
        """Return stretches of rows, so that numbers for all of `of` fit the cache."""
        step = max(1, _IN_CACHE // len(of))
        return [slice(i, i + step) for i in range(0, len(self.Z), step)]


def _expected(minus: NDArray[np.float64], counts: Any) -> NDArray[np.float64]:
    """Return counts times probabilities of the classes but the first, in place.

    From the negated scores, of shape (..., n_classes - 1, n_rows).
    """
    if minus.shape[-2] == 1:
        odds = np.exp(minus, out=minus)
        odds += 1
        return np.divide(counts, odds, out=odds)
    top = minus.min(axis=-2, keepdims=True).clip(max=0)
    odds = np.exp(np.subtract(top, minus, out=minus), out=minus)
    odds *= counts / (odds.sum(axis=-2, keepdims=True) + np.exp(top))
    return odds


def _n_products(Z: NDArray[np.float64]) -> int:
    return Z.size * (Z.shape[1] + 1) // 2


def _products(Z: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return Z_i Z_j for each row, i <= j."""
    i, j = np.triu_indices(Z.shape[1])
    single = Z.astype(np.float32)
    return single[:, i] * single[:, j]


def _counts(records: NDArray[np.intp], n_rows: int) -> NDArray[np.float64]:
    """Return how often each database has each record."""
    counts = np.empty((len(records), n_rows))
    step = max(1, _IN_CACHE // n_rows)
    for start in range(0, len(records), step):
        block = records[start : start + step]
        flat = block + np.arange(0, len(block) * n_rows, n_rows)[:, None]
        count = np.bincount(flat.ravel(), minlength=len(block) * n_rows)
        counts[start : start + step] = count.reshape(len(block), n_rows)
    return counts
