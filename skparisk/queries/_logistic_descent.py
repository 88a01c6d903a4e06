"""Logistic regression of many pairs that have too many second derivatives.

Newton's method with steps from conjugate gradients, which the curvature of the pool
preconditions: it costs a few products with the records, where the matrix of all logits
and columns costs thousands.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skparisk.neighbors import NeighborPairs
from skparisk.queries._logistic_records import (
    OwnRecords,
    Records,
    SharedRecords,
    gathered,
)
from skparisk.queries._logistic_solver import AverageDatabase, penalty_shares, released
from skparisk.queries._together import CLOSE, Floats, counts_pay

__all__ = ["PoolDescent"]

_MOST_STEPS = 60
_MOST_DIRECTIONS = 60
# Where it stops, in units of the largest coefficient.
_ENOUGH = 2.0**-46
# Shares of the slope that steps leave: the less, the nearer they are to the end.
_LEFT, _MOST_LEFT = 1e-4, 0.1
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
        n_rows, self._n_features = len(design), len(self._center)
        self._start, self._C, self._penalty = theta, average.C, penalty
        self._shares = penalty_shares(len(of_class) + 1)
        self._roots = np.linalg.inv(np.linalg.cholesky(self._shares))
        self._longest = float(
            np.linalg.norm(design[:, : self._n_features], axis=1).max()
        )
        self._rounding = 2.0**-50 * average.canceling
        curving = np.asarray(np.kron(self._shares, np.diag(penalty)), dtype=np.float64)
        self.records: OwnRecords | SharedRecords
        shared = SharedRecords(design, of_class, of_class, curving)
        counts = average.counts
        curvature = shared.derivatives(counts, np.zeros((1, theta.size)), theta[None])
        self._inverse = np.linalg.inv(curvature[1][0]).astype(np.float32)
        self.records = shared
        if not counts_pay(n_rows, average.n_records):
            own = of_class[None]
            self.records = OwnRecords(design[None], own, own, curving)

    def __call__(
        self, pairs: NeighborPairs
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Return the answers of both databases of each pair, and which are proven."""
        records, n_rows = self.records, pairs.n_records
        if isinstance(records, SharedRecords):
            counts, n_rows = pairs.counts, len(records.Z)
        step = max(1, _TOGETHER // (n_rows * len(self._start)))
        solved = []
        for start in range(0, pairs.n_databases, step):
            part = slice(start, start + step)
            if isinstance(records, OwnRecords):
                solved.append(self.solve(*gathered(records, pairs, part)))
                continue
            removed, added = pairs.swaps
            added = None if added is None else added[part]
            solved.append(self.solve(records, counts[part], removed[part], added))
        first, second, proven = map(np.concatenate, zip(*solved, strict=True))
        return first, second, proven

    def solve(
        self,
        records: Records,
        counts: Floats,
        removed: NDArray[np.intp],
        added: NDArray[np.intp] | None,
    ) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Solve databases of these counts, and their neighbors."""
        start = np.tile(self._start, (len(counts), 1, 1))
        first, proven = self._descend(records, counts, start)
        each = np.arange(len(counts))
        shape = (*removed.shape, *first.shape[1:])
        second, also = np.empty(shape), np.empty(shape[:2], dtype=bool)
        for number, left in enumerate(removed.T):
            others = counts.copy()
            others[each, left] -= 1
            if added is not None:
                others[each, added[:, number]] += 1
            second[:, number], also[:, number] = self._descend(records, others, first)
        also &= proven[:, None]
        firsts = np.repeat(first, removed.shape[1], axis=0)
        second = second.reshape(firsts.shape)
        return self._answers(firsts), self._answers(second), also.ravel()

    def _descend(
        self, records: Records, counts: Floats, v: Floats
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return minimizers, and which of them are proven to be close."""
        every, last = slice(None), np.full(len(v), np.inf)
        for _ in range(_MOST_STEPS):
            odds = _Odds(records.minus_logits(v, every), records.of_class)
            residuals = odds.residuals * counts[:, None]
            slopes = records.weighted_sums(residuals, every) + self._penalized(v)
            # About how far it is, and as good as it gets if that no longer falls.
            left = np.abs(self._preconditioned(slopes)).max(axis=(1, 2))
            left /= np.abs(v).max(axis=(1, 2))
            if ((left < _ENOUGH) | ((left < CLOSE) & (left > last / 4))).all():
                break
            last = left
            share = left.clip(_LEFT, _MOST_LEFT)
            steps = self._directions(records, odds.p, counts, slopes, share)
            # Curvature along the step grows by at most exp(move t): that far the
            # objective is sure to fall, as in `minimizer`.
            scores = records.minus_logits(steps, every)
            spread = scores.max(axis=1).clip(min=0) - scores.min(axis=1).clip(max=0)
            move = spread.max(axis=1, where=counts > 0, initial=1e-300)
            lengths = np.where(move < 1, 1.0, np.log1p(move) / move)
            v = v - lengths[:, None, None] * steps
        return v, self._prove(records, v, odds, slopes, counts)

    def _penalized(self, v: Floats) -> Floats:
        shares = self._shares.astype(v.dtype, copy=False)
        return (shares @ v) * self._penalty.astype(v.dtype, copy=False)

    def _directions(
        self,
        records: Records,
        p: Floats,
        counts: Floats,
        slopes: Floats,
        left: Floats,
    ) -> Floats:
        """Return steps that lower the slopes to about a share of what they are.

        In single precision: slopes, of double precision, tell where they have led.
        """
        single, every = records.single, slice(None)
        p = p.astype(np.float32)
        expected = p * counts[:, None].astype(np.float32)
        slopes = slopes.astype(np.float32)
        steps, better = np.zeros_like(slopes), self._preconditioned(slopes)
        direction, size = better, _inner(slopes, better)
        enough = left**2 * size
        for _ in range(_MOST_DIRECTIONS):
            scores = -single.minus_logits(direction, every)
            scores -= np.einsum("man,man->mn", p, scores)[:, None]
            scores *= expected
            product = single.weighted_sums(scores, every) + self._penalized(direction)
            length = _ratio(size, _inner(direction, product))
            steps = steps + length * direction
            slopes = slopes - length * product
            better = self._preconditioned(slopes)
            last, size = size, _inner(slopes, better)
            if (size <= enough).all():
                break
            direction = better + _ratio(size, last) * direction
        return steps.astype(np.float64)

    def _preconditioned(self, slopes: Floats) -> Floats:
        return (slopes.reshape(len(slopes), -1) @ self._inverse).reshape(slopes.shape)

    def _prove(
        self, records: Records, v: Floats, odds: _Odds, slopes: Floats, counts: Floats
    ) -> NDArray[np.bool_]:
        """Return which points are proven to be close to the minimizer.

        With e the distance to the minimizer, H the mean curvature in between and g the
        slope, Q = e'He <= e'g. Q is at least |W|^2/C for the coefficients W, and the
        losses' curvature in them and in the intercepts is within factors of 2 of what
        it is here, while scores differ by less than log 2. (If the minimizer is further
        away, all of this holds of the point on the way to it where they do, where the
        slope still points away.) Once it is known how little they differ, the factors
        are closer to 1.
        """
        n_coef, penalty = self._n_features, 1 / self._C
        squares = records.square_lengths() - (v.shape[2] > n_coef)
        errors = 2.0**-50 * np.abs(odds.residuals).sum(axis=1) * counts
        coef = self._dual_norm(slopes[:, :, :n_coef])
        coef += (errors * np.sqrt(squares.clip(min=0))).sum(axis=1)
        intercept = self._dual_norm(slopes[:, :, n_coef:]) + errors.sum(axis=1)
        least, most = np.ones(len(v)), np.zeros(len(v))
        if v.shape[2] > n_coef:
            least, most = self._curvatures(records, odds, counts)
        else:
            intercept = np.zeros(len(v))
        factor = np.full(len(v), 2.0)
        for _ in range(2):
            # Of the scores that coefficients give, and those that intercepts do, the
            # second are no longer than all of them and the first.
            reach = (1 + np.sqrt(factor * most / penalty)) * np.sqrt(factor / least)
            root = coef / np.sqrt(penalty) + intercept * reach
            coefs = root / np.sqrt(penalty)
            intercepts = root * reach * (v.shape[2] > n_coef)
            spread = np.sqrt(2) * (coefs * self._longest + intercepts)
            factor = np.where(spread <= np.log(2), np.exp(spread.clip(max=1.0)), np.inf)
        moved = coefs * (1 + np.linalg.norm(self._center)) + intercepts
        size = np.abs(self._answers(v)).max(axis=-1)
        return np.asarray(moved + self._rounding <= CLOSE * size)

    def _curvatures(
        self, records: Records, odds: _Odds, counts: Floats
    ) -> tuple[Floats, Floats]:
        """Return the least curvature in intercepts, and the most in coefficients."""
        p = odds.p
        matrix = -np.einsum("man,mbn,mn->mab", p, p, counts, optimize=True)
        each = np.arange(p.shape[1])
        matrix[:, each, each] += (p * counts[:, None]).sum(axis=2)
        least = np.linalg.eigvalsh(self._roots @ matrix @ self._roots.T)[:, 0]
        # That of a record's loss is at most twice 1 less its largest probability.
        grams = records.grams(2 * odds.doubt * counts)[:, : self._n_features]
        most = np.linalg.eigvalsh(grams[:, :, : self._n_features])[:, -1]
        return least.clip(min=1e-300), most.clip(min=0)

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


def _inner(one: Floats, other: Floats) -> Floats:
    return np.einsum("mab,mab->m", one, other)


def _ratio(one: Floats, other: Floats) -> Floats:
    """Return ratios for each database, 0 where it is solved."""
    ratio = np.divide(one, other, out=np.zeros_like(one), where=other > 0)
    return ratio[:, None, None]


class _Odds:
    """Probabilities of the classes but the first, less what is the case.

    Nothing cancels where a probability is close to 1.
    """

    def __init__(self, minus: Floats, of_class: Floats) -> None:
        top = minus.min(axis=1, keepdims=True).clip(max=0)
        odds = np.exp(np.subtract(top, minus, out=minus), out=minus)
        first = np.exp(top)
        total = odds.sum(axis=1, keepdims=True) + first
        own = np.max(of_class, axis=-2, keepdims=True)  # 0 for the first class
        others = odds * (1 - of_class)
        others_sum = others.sum(axis=1, keepdims=True) + first * own
        self.p = odds / total
        self.residuals = (others - of_class * others_sum) / total
        # The probability that it is another class than its own, or than the likeliest.
        likeliest = np.maximum(odds.max(axis=1, keepdims=True), first)
        self.doubt = np.minimum(others_sum, total - likeliest)[:, 0] / total[:, 0]
