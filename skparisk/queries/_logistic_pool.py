"""Logistic regression of many pairs of databases from one pool, solved together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skparisk.neighbors import NeighborPairs
from skparisk.queries._logistic_records import (
    PoolRecords,
    Records,
    SharedRecords,
    Solved,
    expected_counts,
    join_solved,
    parts_of,
)
from skparisk.queries._logistic_solver import AverageDatabase, penalty_shares, released
from skparisk.queries._together import Floats, counts_pay

_POOL_CONDITION = 1e3
_MOST_EVALUATIONS = 8
# Curvature is taken anew where that of a record may have changed by more: up to there
# a step with old curvature leaves 7 % of the distance, and costs far less.
_FAR = 2.0**-4
# Corrections of a good public fit are near zero: the noise pays for their rounding, up
# to this share of them. Other answers must round to less than they are close.
_MOST_ROUNDED = 2.0**-22
_SINGLE = 2.0**-12  # more than single precision changes in sums of about 1
_GATHERED = 2**14


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

    def __init__(self, average: AverageDatabase) -> None:
        theta, penalty = average.theta, average.penalty
        design, center, of_class = average.design, average.center, average.of_class
        self._n_features = len(center)
        minus = theta @ -design.T
        if average.offsets is not None:
            minus -= average.offsets
        p = expected_counts(minus, 1.0)
        weights = average.share * (p * (1 - p)).mean(axis=0)
        factor = np.linalg.cholesky((design.T * weights) @ design + np.diag(penalty))
        scaled = factor / np.linalg.norm(factor, axis=1, keepdims=True)
        if not np.linalg.cond(scaled) < _POOL_CONDITION:
            raise np.linalg.LinAlgError("the curvature of the pool")
        back = np.linalg.inv(factor)
        Z = design @ back.T
        self._start = theta @ factor
        # From solutions in these coordinates to those in the features' own.
        self._to_theta = back.copy()
        if average.fit_intercept:
            self._to_theta[:, -1] -= back[:, :-1] @ center
        # A coefficient is an inner product with a column: by Cauchy-Schwarz it moves no
        # more than its length times the move of the solution.
        self._gain = np.linalg.norm(self._to_theta, axis=0).max()
        # Columns that are nearly the same cancel in Z: it has the digits of the terms.
        terms = np.linalg.norm(np.abs(design) @ np.abs(back).T, axis=1)
        self._rounding = 2.0**-50 * (
            self._gain * average.share * terms.sum() * (1 + average.canceling_scores)
            + average.canceling
        )
        self.close = average.close
        most, self.floor = self.close, 0.0
        if average.offsets is not None:
            most, self.floor = _MOST_ROUNDED, 2 * self._rounding
        if not self._rounding < most * self._sizes(self._start):
            raise np.linalg.LinAlgError("the rounding of answers")
        # A step of length 1 spreads scores by no more than that for each unit of the
        # record's length: of two classes by |v z|, of more by |(v_a - v_b) z|, where
        # |v_a - v_b| <= sqrt(2).
        self._reach = np.sqrt(min(2, len(of_class)))
        residuals = p - of_class
        shares = penalty_shares(len(of_class) + 1)
        curving = np.kron(shares, (back * penalty) @ back.T)
        shared = SharedRecords(Z, of_class, residuals, curving, average.offsets)
        counts = average.counts
        moments = np.zeros((1, self._start.size))
        derivatives = shared.derivatives(counts, moments, self._start[None])
        self.records: PoolRecords | SharedRecords = shared
        if not counts_pay(len(average.codes), average.n_records):
            looked_up = average.looked_up(back)
            self.records = PoolRecords(
                looked_up, average.codes, self._start, curving, average.of_pool
            )
        self._curvature = derivatives[1]

    def __call__(self, pairs: NeighborPairs) -> Solved:
        """Return the answers of both databases of each pair, and which are proven."""
        step = pairs.n_databases
        if isinstance(self.records, PoolRecords):
            step = max(1, _GATHERED // pairs.n_records)
        parts = parts_of(self.records, pairs, step)
        return join_solved(self.solve(*part) for part in parts)

    def solve(
        self,
        records: Records,
        counts: Floats,
        removed: NDArray[np.intp],
        added: NDArray[np.intp] | None,
    ) -> Solved:
        """Solve databases of these counts, and their neighbors."""
        moments = records.sums(counts, records.of_class)
        slopes = records.sums(counts, records.residuals)
        slopes += self._start.ravel() @ records.penalty
        start = np.tile(self._start, (len(counts), 1, 1))
        # Good enough for one step. Taken to be from infinitely far away, it is not used
        # to prove anything: `_newton` begins with curvature of each database's own.
        curvature = _Curvature(np.full_like(start, np.inf), self._curvature)
        v = start - curvature.steps(slopes)
        first, firsts_proven, curvature = self._newton(
            records, counts, moments, v, curvature
        )
        shape = (*removed.shape, *first.shape[1:])
        second, proven = np.empty(shape), np.empty(shape[:2], dtype=bool)
        for number, left in enumerate(removed.T):
            joined = None if added is None else added[:, number]
            second[:, number], proven[:, number] = self._solve_neighbor(
                records, counts, moments, first, curvature, (left, joined)
            )
        proven &= firsts_proven[:, None]
        firsts = np.repeat(first, removed.shape[1], axis=0)
        second = second.reshape(firsts.shape)
        return self._answers(firsts), self._answers(second), proven.ravel()

    def _solve_neighbor(
        self,
        records: Records,
        counts: Floats,
        moments: Floats,
        first: Floats,
        curvature: _Curvature,
        swap: tuple[NDArray[np.intp], NDArray[np.intp] | None],
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Solve a neighbor of each database, from the minimizer of that."""
        # The slope is 0 there but for the record that is swapped, so the neighbor
        # starts one Newton step away, with curvature that fits it.
        at, matrix = curvature.at, curvature.matrix
        counts, each = counts.copy(), np.arange(len(counts))
        slopes = np.zeros_like(moments)
        for sign, rows in zip((-1.0, 1.0), swap, strict=True):
            if rows is None:
                continue
            moment, slope, square = records.of_one(rows, first, at)
            counts[each, rows] += sign
            moments = moments + sign * moment
            slopes += sign * slope
            matrix = matrix + sign * square
        curvature = _Curvature(at, matrix)
        v = first - curvature.steps(slopes)
        second, proven, _ = self._newton(records, counts, moments, v, curvature)
        return second, proven

    def _newton(
        self,
        records: Records,
        counts: Floats,
        moments: Floats,
        v: Floats,
        curvature: _Curvature,
    ) -> tuple[Floats, NDArray[np.bool_], _Curvature]:
        """Return minimizers, which are proven to be close, and the last curvature."""
        reach = self._reach * records.longest
        for _ in range(_MOST_EVALUATIONS):
            moved = np.linalg.norm(v - curvature.at, axis=(1, 2)).max()
            if reach * moved <= _FAR:
                slopes = records.slopes(counts, moments, v)
            else:
                slopes, matrix = records.derivatives(counts, moments, v)
                curvature = _Curvature(v, matrix)
            v, errors = self._step(reach, v, curvature, slopes)
            proven = errors <= np.maximum(self.close * self._sizes(v), self.floor)
            if proven.all():
                break
        return v, proven, curvature

    def _step(
        self, reach: float, v: Floats, curvature: _Curvature, slopes: Floats
    ) -> tuple[Floats, Floats]:
        """Return where a step leads, and how far answers are at most from exact ones.

        Between two points curvature changes by factors within exp(-s) and exp(s), s
        the largest spread of a record's scores. While that is less than 1/2, the
        minimizer is within twice the step, and after the step within twice the
        change times the step (in the norm of the curvature).
        """
        steps = curvature.steps(slopes)
        decrement = (steps.reshape(slopes.shape) * slopes).sum(axis=1)
        # From the norm of the curvature, which the proof is in, to the Euclidean.
        length = np.sqrt(curvature.largest_inverse * decrement)
        moved = np.linalg.norm(v - curvature.at, axis=(1, 2))
        change = np.expm1(reach * (moved + 2 * length))
        change += _SINGLE * curvature.largest_inverse
        errors = self._gain * 2 * change * length + self._rounding
        return v - steps, np.where(change <= 0.5, errors, np.inf)

    def _answers(self, v: Floats) -> Floats:
        return released(v @ self._to_theta, self._n_features)

    def _sizes(self, v: Floats) -> Floats:
        return np.abs(self._answers(v)).max(axis=-1)


@dataclass(frozen=True, eq=False)
class _Curvature:
    """Second derivatives for each database, each at a point of its own."""

    at: Floats
    matrix: Floats

    @cached_property
    def inverse(self) -> NDArray[np.floating]:
        """Inverses, which exist also where rounding leaves none."""
        # What is added is part of what `_newton` allows for single precision.
        regular = self.matrix + _SINGLE / 8 * np.eye(self.at[0].size)
        return np.linalg.inv(regular)

    @cached_property
    def largest_inverse(self) -> Floats:
        """No less than the largest eigenvalue of each inverse."""
        # Any operator norm is a bound, and this one takes no decomposition.
        return np.abs(self.inverse).sum(axis=1).max(axis=1)

    def steps(self, slopes: Floats) -> Floats:
        return (self.inverse @ slopes[:, :, None]).reshape(self.at.shape)
