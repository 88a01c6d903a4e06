"""Logistic regression of many pairs that have too many second derivatives.

Newton's method with steps from conjugate gradients, which the curvature of the pool
preconditions: it costs a few products with the records, where the matrix of all logits
and columns costs thousands. Steps and the proof that they have arrived are of the same
curvature, and are read together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray

from skparisk.neighbors import NeighborPairs
from skparisk.queries._logistic_neighbors import (
    Inverse,
    InverseOfNeighbors,
    Swapped,
    inverse_curvature,
)
from skparisk.queries._logistic_records import (
    Part,
    PoolRecords,
    Records,
    SharedRecords,
    Solved,
    join_solved,
    parts_of,
)
from skparisk.queries._logistic_solver import (
    AverageDatabase,
    penalty_shares,
    released,
    spread,
)
from skparisk.queries._together import Floats, counts_pay

_MOST_STEPS = 60
_MOST_DIRECTIONS = 60
# From where it may be proven, in units of the largest coefficient.
_PROVABLE = 2.0**-40
# Where curvature of a database is taken, in these units. How many operations that saves
# a neighbor, for each record and coefficient; and how many take as long as to solve a
# database by itself does, beside its operations; as measured.
_NEAR, _SAVED, _ALONE = 2.0**-6, 400, 3e7
# Share of the largest curvature in intercepts from which the least is no rounding.
_REGULAR = 2.0**-26
# Shares of the slope that steps leave: the less, the nearer they are to the end.
_LEFT, _MOST_LEFT = 1e-4, 0.2
# Logits of databases that are solved together; the arrays fit the cache.
_TOGETHER = 2**17


class PoolDescent:
    """Solves pairs of databases that are drawn from one pool of records.

    Raises
    ------
    LinAlgError
        If answers would not be exact.
    """

    def __init__(self, average: AverageDatabase) -> None:
        theta, penalty = average.theta, average.penalty
        design, of_class = average.design, average.of_class
        self._center = average.center
        self._n_features = len(self._center)
        self._start, self._C, self._penalty = theta, average.C, penalty
        self._shares = penalty_shares(len(of_class) + 1)
        self._roots = np.linalg.inv(np.linalg.cholesky(self._shares))
        self._rounding = 2.0**-50 * average.canceling
        self.close, self.floor = average.close, 0.0
        # Of a slope, for each of the sizes that residuals have.
        self._digits = 2.0**-50 * (1 + average.canceling_scores)
        curving = np.kron(self._shares, np.diag(penalty))
        self.records: PoolRecords | SharedRecords
        self.records = shared = SharedRecords(
            design, of_class, of_class, curving, average.offsets
        )
        counts = average.counts
        curvature = shared.derivatives(counts, np.zeros((1, theta.size)), theta[None])
        self._inverse = Inverse(np.linalg.inv(curvature[1][0]).astype(np.float32))
        looked_up = average.looked_up(np.eye(design.shape[1]))
        self._n_rows = len(average.codes)
        self._pool = PoolRecords(
            looked_up, average.codes, theta, curving, average.of_pool
        )
        if not counts_pay(self._n_rows, average.n_records):
            self.records = self._pool

    def __call__(self, pairs: NeighborPairs) -> Solved:
        """Return the answers of both databases of each pair, and which are proven."""
        n_rows = pairs.n_records
        if _pays(min(n_rows, self._n_rows), self._start.size, pairs.n_neighbors):
            groups = _groups(self._pool, pairs)
            return join_solved(self._solve_group(*group) for group in groups)
        if isinstance(self.records, SharedRecords):
            n_rows = len(self.records.Z)
        step = max(1, _TOGETHER // (n_rows * len(self._start)))
        parts = parts_of(self.records, pairs, step)
        return join_solved(self.solve(*part) for part in parts)

    def _solve_group(
        self,
        records: SharedRecords,
        counts: Floats,
        removed: NDArray[np.intp],
        added: NDArray[np.intp] | None,
    ) -> Solved:
        """Solve one database and its neighbors, by curvature of its own."""
        near, _ = self._descend(
            records, counts[None], self._start[None], self._inverse, _NEAR
        )
        r = len(removed)
        try:
            inverse = inverse_curvature(records, counts, near[0])
            (first,), (proven,) = self._descend(records, counts[None], near, inverse)
            theirs, start = InverseOfNeighbors.of(
                inverse,
                first,
                _swapped(records, removed),
                None if added is None else _swapped(records, added),
            )
        except np.linalg.LinAlgError:
            joined = None if added is None else added[None]
            return self.solve(records, counts[None], removed[None], joined)
        others = _others(np.tile(counts, (r, 1)), removed, added)
        second, also = self._descend(records, others, start, theirs)
        firsts = np.tile(first, (r, 1, 1))
        return self._answers(firsts), self._answers(second), also & proven

    def solve(
        self,
        records: Records,
        counts: Floats,
        removed: NDArray[np.intp],
        added: NDArray[np.intp] | None,
    ) -> Solved:
        """Solve databases of these counts, and their neighbors."""
        start = np.tile(self._start, (len(counts), 1, 1))
        first, proven = self._descend(records, counts, start, self._inverse)
        shape = (*removed.shape, *first.shape[1:])
        second, also = np.empty(shape), np.empty(shape[:2], dtype=bool)
        for number, left in enumerate(removed.T):
            joined = None if added is None else added[:, number]
            others = _others(counts.copy(), left, joined)
            second[:, number], also[:, number] = self._descend(
                records, others, first, self._inverse
            )
        also &= proven[:, None]
        firsts = np.repeat(first, removed.shape[1], axis=0)
        second = second.reshape(firsts.shape)
        return self._answers(firsts), self._answers(second), also.ravel()

    def _descend(
        self,
        records: Records,
        counts: Floats,
        v: Floats,
        inverse: Inverse | InverseOfNeighbors,
        near: float = 0.0,
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return minimizers, and which of them are proven to be close.

        Those that are `near`, if that is given.
        """
        every, which = slice(None), np.arange(len(v))
        found, proven = np.empty_like(v), np.zeros(len(v), dtype=bool)
        last = np.full(len(v), np.inf)
        before, steps, lengths = v, v, last
        for _ in range(_MOST_STEPS):
            odds = _Odds.of(records.minus_logits(v, every), records.of_class)
            residuals = odds.residuals * counts[:, None]
            slopes = records.weighted_sums(residuals, every) + self._penalized(v)
            # About how far it is.
            left = np.abs(inverse.times(slopes)).max(axis=(1, 2))
            left /= np.abs(v).max(axis=(1, 2))
            found[which], done = v, left < near
            ready = left < _PROVABLE
            if ready.any():
                some = records.some(ready)
                done[ready] = self._prove(
                    some, v[ready], odds.some(ready), slopes[ready], counts[ready]
                )
                proven[which] = done & ready
                # It is as good as it gets.
                done |= ready & (left > last / 4)
            if done.all():
                break
            if done.any():
                go = ~done
                which, v, counts, slopes = which[go], v[go], counts[go], slopes[go]
                left, last, before = left[go], last[go], before[go]
                steps, lengths, odds = steps[go], lengths[go], odds.some(go)
                records, inverse = records.some(go), inverse.some(go)
            # Curvature along a step grows by at most exp(move t): that far the
            # objective is sure to fall, as in `minimizer`.
            back = before - lengths[:, None, None] * steps
            far = left > last
            before, last = v, np.where(far, np.inf, left)
            share = left.clip(_LEFT, _MOST_LEFT)
            steps = self._directions(records, odds.p, counts, slopes, share, inverse)
            scores = records.single.minus_scores(steps.astype(np.float32), every)
            spreads = spread(scores.swapaxes(0, 1))
            move = spreads.max(axis=1, where=counts > 0, initial=1e-30).astype(float)
            lengths = np.where(move < 1, 1.0, np.log1p(move) / move)
            v = np.where(far[:, None, None], back, v - steps)
        return found, proven

    def _penalized(self, v: Floats) -> Floats:
        return (self._shares @ v) * self._penalty

    def _directions(
        self,
        records: Records,
        p: Floats,
        counts: Floats,
        slopes: Floats,
        left: Floats,
        inverse: Inverse | InverseOfNeighbors,
    ) -> Floats:
        """Return steps that lower the slopes to about a share of what they are.

        In single precision: slopes, of double precision, tell where they have led.
        """
        single, every = records.single, slice(None)
        p = p.astype(np.float32)
        expected = p * counts[:, None].astype(np.float32)
        slopes = slopes.astype(np.float32)
        steps, better = np.zeros_like(slopes), inverse.times(slopes)
        direction, size = better, _inner(slopes, better)
        enough = left**2 * size
        for _ in range(_MOST_DIRECTIONS):
            scores = -single.minus_scores(direction, every)
            scores -= np.einsum("man,man->mn", p, scores)[:, None]
            scores *= expected
            product = single.weighted_sums(scores, every)
            product += self._penalized(direction)
            length = _ratio(size, _inner(direction, product))
            steps = steps + length * direction
            slopes = slopes - length * product
            better = inverse.times(slopes)
            last, size = size, _inner(slopes, better)
            if (size <= enough).all():
                break
            direction = better + _ratio(size, last) * direction
        return steps.astype(np.float64)

    def _prove(
        self, records: Records, v: Floats, odds: _Odds, slopes: Floats, counts: Floats
    ) -> NDArray[np.bool_]:
        """Return which points are proven to be close to the minimizer."""
        size = np.abs(self._answers(v)).max(axis=-1)
        errors = self._errors(records, v, odds, slopes, counts)
        return np.asarray(errors <= self.close * size)

    def _errors(
        self, records: Records, v: Floats, odds: _Odds, slopes: Floats, counts: Floats
    ) -> Floats:
        """Return how far answers are at most from those of the minimizer.

        With e the distance to the minimizer, H the curvature here and g the slope,
        e'He <= factor e'g, as curvature in between is within that factor of H: 2 while
        scores differ by less than log 2. (If the minimizer is further away, all of this
        holds of the point on the way to it where they do, where the slope still points
        away.) So the length of e is at most factor times that of g, in the norm of H
        and its dual. Once it is known how little scores differ, the factor is closer
        to 1.
        """
        n_coef, penalty = self._n_features, 1 / self._C
        has_intercept = v.shape[2] > n_coef
        errors = self._digits * np.abs(odds.residuals).sum(axis=1) * counts
        coef = self._dual_norm(slopes[:, :, :n_coef])
        coef += (errors * np.sqrt(records.square_lengths())).sum(axis=1)
        # With intercepts b eliminated, the curvature in coefficients W is at least
        # their penalty: e'He >= |b + tilt W|^2 least + |W|^2 penalty.
        least, tilt = np.full(len(v), np.inf), np.zeros(len(v))
        intercept = np.zeros(len(v))
        if has_intercept:
            least, tilt = self._intercepts(records, odds, counts)
            intercept = self._dual_norm(slopes[:, :, n_coef:]) + errors.sum(axis=1)
        length = np.hypot(
            intercept / np.sqrt(least), (coef + tilt * intercept) / np.sqrt(penalty)
        )
        of_coefs = 1 / np.sqrt(penalty)
        of_intercepts = 1 / np.sqrt(least) + tilt / np.sqrt(penalty)
        factor = np.full(len(v), 2.0)
        for _ in range(2):
            apart = records.longest * of_coefs + of_intercepts
            apart = np.sqrt(2) * factor * length * apart
            factor = np.exp(np.where(apart <= np.log(2), apart, np.inf))
        moved = (1 + np.linalg.norm(self._center)) * of_coefs + of_intercepts
        return np.asarray(factor * length * moved + self._rounding)

    def _intercepts(
        self, records: Records, odds: _Odds, counts: Floats
    ) -> tuple[Floats, Floats]:
        """Return the least curvature in intercepts, and how much they tilt at most.

        That is how much the best intercepts move with coefficients.
        """
        p = odds.p
        m, k, n_rows = p.shape
        expected = p * counts[:, None]
        matrix, each = -expected @ p.swapaxes(1, 2), np.arange(k)
        matrix[:, each, each] += expected.sum(axis=2)
        values, vectors = np.linalg.eigh(self._roots @ matrix @ self._roots.T)
        # Less may be rounding, of which nothing is known: sums cancel where a class is
        # sure.
        sums = 2.0**-38 * n_rows * expected.sum(axis=(1, 2))
        sure = values[:, 0] > np.maximum(_REGULAR * values[:, -1], sums)
        least = np.where(sure, values[:, 0], 1e-300)
        # Of intercepts and coefficients together; rounding in sums that are as large.
        single = records.single
        mixed = np.empty((m, k, k, self._n_features))
        p, expected = p.astype(np.float32), expected.astype(np.float32)
        for a in range(k):
            weights = -expected[:, a, None] * p[:, : a + 1]
            weights[:, a] += expected[:, a]
            found = single.weighted_sums(weights, slice(None))[:, :, :-1]
            mixed[:, a, : a + 1] = mixed[:, : a + 1, a] = found
        mixed = self._roots @ mixed.reshape(m, k, -1)
        mixed = self._roots @ mixed.reshape(m, k, k, -1)
        # A weight is rounded as the count that is expected, however small it is.
        sizes = (expected * ((1 - p) * (n_rows + 8) + 4)).sum(axis=1)
        sizes *= np.sqrt(records.square_lengths())
        rounding = 2.0**-24 * sizes.sum(axis=1) * (k + 1)
        tilts = vectors.swapaxes(1, 2) @ mixed.reshape(m, k, -1)
        tilts /= np.maximum(values, least[:, None])[:, :, None]
        return least, np.linalg.norm(tilts, axis=(1, 2)) + rounding / least

    def _dual_norm(self, slopes: Floats) -> Floats:
        """Return lengths of slopes over all classes, the first one as well."""
        total = np.square(slopes).sum(axis=(1, 2))
        if slopes.shape[1] > 1:
            total = total + np.square(slopes.sum(axis=1)).sum(axis=1)
        return np.sqrt(total)

    def _answers(self, v: Floats) -> Floats:
        theta = v.copy()
        if v.shape[2] > self._n_features:
            theta[:, :, -1] -= v[:, :, :-1] @ self._center
        return released(theta, self._n_features)


def _pays(n_rows: int, size: int, n_neighbors: int) -> bool:
    """Tell if curvature of its own takes less than it saves, for so many coefficients.

    To databases of so many different records.
    """
    taken = n_rows * size**2 + size**3 + _ALONE
    return n_neighbors * _SAVED * n_rows * size >= taken


def _others(
    counts: Floats, removed: NDArray[np.intp], added: NDArray[np.intp] | None
) -> Floats:
    """Change counts of databases, a line each, to those of a neighbor of each."""
    each = np.arange(len(counts))
    counts[each, removed] -= 1
    if added is not None:
        counts[each, added] += 1
    return counts


def _swapped(records: SharedRecords, columns: NDArray[np.intp]) -> Swapped:
    before = None if records.offsets is None else records.offsets[:, columns].T
    return Swapped(records.Z[columns], records.of_class[:, columns].T, before)


def _groups(pool: PoolRecords, pairs: NeighborPairs) -> Iterator[Part]:
    """Yield each database: its different records, and those of its neighbors.

    With their counts, and what is removed and added.
    """
    n = pairs.n_records
    _, all_added = pairs.swaps
    for database, members in enumerate(pairs.members):
        rows = members
        if all_added is not None:
            rows = np.concatenate([members, all_added[database]])
        rows, places = np.unique(rows, return_inverse=True)
        # Records that are removed are the last of the members.
        removed = places[n - pairs.n_neighbors : n]
        added = None if all_added is None else places[n:]
        counts = np.bincount(places[:n], minlength=len(rows)).astype(np.float64)
        of_class = pool.of_class(rows)
        yield (
            SharedRecords(
                pool.Z[rows], of_class, of_class, pool.penalty, pool.offsets_of(rows)
            ),
            counts,
            removed,
            added,
        )


def _inner(one: Floats, other: Floats) -> Floats:
    return np.einsum("mab,mab->m", one, other)


def _ratio(one: Floats, other: Floats) -> Floats:
    """Return ratios for each database, 0 where it is solved."""
    return (one / np.where(other > 0, other, np.inf))[:, None, None]


class _Odds:
    """Probabilities of the classes but the first, less what is the case.

    Nothing cancels where a probability is close to 1.
    """

    def __init__(self, p: Floats, residuals: Floats) -> None:
        self.p, self.residuals = p, residuals

    def some(self, which: NDArray[np.bool_]) -> Self:
        """Return those of some of the databases."""
        return type(self)(self.p[which], self.residuals[which])

    @classmethod
    def of(cls, minus: Floats, of_class: Floats) -> Self:
        """Return them from negated logits, which are overwritten."""
        top = minus.min(axis=1, keepdims=True).clip(max=0)
        odds = np.exp(np.subtract(top, minus, out=minus), out=minus)
        first = np.exp(top)
        share = 1 / (odds.sum(axis=1, keepdims=True) + first)
        residuals = odds * (1 - of_class)
        others = residuals.sum(axis=1, keepdims=True) + first
        np.copyto(residuals, -others, where=of_class > 0)
        residuals *= share
        odds *= share
        return cls(odds, residuals)
