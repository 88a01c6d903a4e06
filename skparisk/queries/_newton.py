"""Newton's method for the log loss of many databases at once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

from skparisk.core.weights import RowSums, symmetric
from skparisk.queries._base import Floats

_MOST_STEPS = 1000  # a far record that is nearly not penalized takes 700
# What a step moves scores by at most: less is the last step, as what is left is its
# square; curvature is taken as it was where they have moved by less since; and a step
# that is small, and not half of the last one, is rounding.
_LAST, _SAME, _SMALL = 2.0**-34, 2.0**-6, 2.0**-20
# Scores of a record that are far from what any are where all begin.
_FAR = 2.0**10
# Rows of systems that are inverted together.
_SMALL_SYSTEM = 24
# Of the diagonal, so that no system is singular.
_REGULAR = 2.0**-48


class LogLoss:
    """The log loss of records, whose scores are relative to that of the first class.

    Parameters
    ----------
    design : ndarray of shape (n_rows, q)
        Columns of the records.

    codes : ndarray of shape (n_rows,)
        Classes, in 0, ..., n_logits.

    n_logits : int
        Scores of a record.

    offsets : ndarray of shape (n_logits, n_rows) or None
        Scores that records have before.

    penalty : ndarray of shape (q,)
        Half of it is the weight of a squared coefficient.

    start : ndarray of shape (n_logits, q)
        Where all databases begin.
    """

    def __init__(
        self,
        design: Floats,
        codes: NDArray[np.intp],
        n_logits: int,
        offsets: Floats | None,
        penalty: Floats,
        start: Floats,
    ) -> None:
        of_class = codes == np.arange(1, n_logits + 1)[:, None]
        self._k, self._of_class = n_logits, of_class
        self._products = RowSums(design, products=True)
        self._penalty, self._offsets = penalty, offsets
        self._columns = np.ascontiguousarray(design.T)
        if n_logits == 1:  # scores of the other class, less those of the record's
            signs = 1.0 - 2.0 * of_class
            self._columns *= signs
            self._offsets = None if offsets is None else offsets * signs
        self._start, self._shares = start, penalty_shares(n_logits + 1)
        self._penalties = np.kron(self._shares, np.diag(penalty))

    @cached_property
    def _average(self) -> Floats:
        """Curvature where all begin, of a database with each row once."""
        _, curving = self._derivatives(self._scores(self._start[None]))
        weights = np.ones((1, self._columns.shape[1]))
        return self._curvature(curving, weights, slice(None))[0] - self._penalties

    def _scores(self, theta: Floats) -> Floats:
        scores = self._along(theta)
        return scores if self._offsets is None else scores + self._offsets

    def _along(self, theta: Floats) -> Floats:
        """Return what coefficients add to scores, (m, n_logits, n_rows)."""
        m, k, q = theta.shape  # one product of two matrices
        return (theta.reshape(m * k, q) @ self._columns).reshape(m, k, -1)

    @np.errstate(all="ignore")  # that a number overflows would be a release
    def minimize(self, weights: Floats, near: Floats | None = None) -> Floats:
        """Return minimizers, (m, n_logits, q), each by itself; NaN if it is not found.

        Parameters
        ----------
        weights : ndarray of shape (m, n_rows)
            How often each record is in each database.

        near : ndarray of shape (m, n_logits, q), default=None
            Those of m databases that are nearly the same, to begin with. None: where
            all begin.
        """
        m, q, k = len(weights), len(self._columns), self._k
        if not m:
            return np.empty((0, k, q))
        present, left = weights > 0, np.arange(m)
        found = np.full((m, k, q), np.nan)
        since = np.full(m, np.inf)
        if near is None:
            theta = np.tile(self._start, (m, 1, 1))
            scores = self._scores(self._start[None])  # the same for all
            share = weights.sum(axis=1) / max(weights.shape[1], 1)
            inverse = _inverse(share[:, None, None] * self._average + self._penalties)
            since = np.zeros(m)
            # Not where a far record would take long to come back.
            away = ~(np.abs(scores[0]).max(axis=0) < _FAR)
            if (lost := (present & away).any(axis=1)).any():
                theta[lost], since[lost] = 0.0, np.inf
                scores = self._scores(theta)
        else:
            theta, inverse = near, np.empty((m, k * q, k * q))
            scores = self._scores(theta)
        last = np.full(m, np.inf)
        for number in range(_MOST_STEPS):
            residuals, curving = self._derivatives(scores)
            flat = (residuals * weights[:, None]).reshape(len(left) * k, -1)
            slope = (flat @ self._columns.T).reshape(theta.shape)
            slope += (self._shares @ theta) * self._penalty
            new = since > _SAME
            if new.any():
                which = slice(None) if new.all() else new
                inverse[which] = _inverse(self._curvature(curving, weights, which))
                since[which] = 0.0
            step = (inverse @ slope.reshape(len(left), -1, 1)).reshape(slope.shape)
            moves = self._along(step)
            move = _largest_spread(moves, present)
            lengths = np.ones(len(left))
            if (far := (move > 1) & np.isfinite(move)).any():
                there = scores if len(scores) == 1 else scores[far]
                lengths[far] = self._search(
                    weights[far],
                    (theta[far], there),
                    (step[far], moves[far]),
                    move[far],
                )
            theta = theta - lengths[:, None, None] * step
            done = (move < _LAST) | ((move < _SMALL) & (move > last / 2))
            # Of other curvature no step is the last one: where no record tells of a
            # feature, scores do not move however wrong it is.
            others = near is None and not number
            done &= not others
            found[left[done]] = theta[done]
            go = ~done & np.isfinite(move)
            if not go.any():
                break
            moves *= lengths[:, None, None]
            scores = scores - moves
            last, since = move, since + (np.inf if others else lengths * move)
            if not go.all():
                left, last, since = left[go], last[go], since[go]
                theta, scores, inverse = theta[go], scores[go], inverse[go]
                weights, present = weights[go], present[go]
        return found

    def _search(
        self,
        weights: Floats,
        at: tuple[Floats, Floats],
        steps: tuple[Floats, Floats],
        move: Floats,
    ) -> Floats:
        """Return how much of each step to go, so that the objective falls.

        Points and steps are coefficients, and scores. Curvature along a step grows by
        at most exp(move t), so that it is sure to fall up to where move t is 1 (Sun and
        Tran-Dinh 2019, for nu = 2).
        """
        value, lengths = self._value(weights, *at), np.ones(len(weights))
        while (again := lengths * move > 1).any():
            t = lengths[:, None, None]
            there = (a - t * step for a, step in zip(at, steps, strict=True))
            again &= ~(self._value(weights, *there) < value)
            if not again.any():
                break
            lengths[again] /= 2
        return lengths

    def _value(self, weights: Floats, theta: Floats, scores: Floats) -> Floats:
        """Return the objective at coefficients and their scores."""
        if self._k == 1:
            losses = np.logaddexp(0.0, scores[:, 0])
        else:
            top = scores.max(axis=1).clip(min=0)
            odds = np.exp(scores - top[:, None]).sum(axis=1) + np.exp(-top)
            losses = top + np.log(odds) - (scores * self._of_class).sum(axis=1)
        penalty = ((self._shares @ theta) * theta * self._penalty).sum(axis=(1, 2))
        return np.asarray((losses * weights).sum(axis=1) + penalty / 2)

    def _derivatives(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return residuals, and what curvature follows from, (m, n_logits, n_rows).

        No residual cancels where a record is nearly sure to be of its class.
        """
        if self._k == 1:
            p = np.exp(-scores)
            p += 1.0
            np.divide(1.0, p, out=p)
            return p, p - p * p
        top = scores.max(axis=1, keepdims=True).clip(min=0)
        odds, first = np.exp(scores - top), np.exp(-top)
        share = 1 / (odds.sum(axis=1, keepdims=True) + first)
        residuals = np.where(self._of_class, 0.0, odds)
        others = residuals.sum(axis=1, keepdims=True) + first
        residuals = np.where(self._of_class, -others, residuals) * share
        return residuals, odds * share

    def _curvature(self, p: Floats, weights: Floats, which: Any) -> Floats:
        """Return second derivatives for some databases, (m, k q, k q)."""
        w, k, q = weights[which], self._k, len(self._columns)
        p = p if len(p) == 1 else p[which]
        if k == 1:
            return symmetric(self._products.of(p[:, 0] * w), q) + self._penalties
        m, (a, b) = len(w), np.triu_indices(k)
        each = -p[:, a] * p[:, b]
        each[:, a == b] += p
        each = (each * w[:, None]).reshape(m * len(a), w.shape[1])
        blocks = symmetric(self._products.of(each), q).reshape(m, len(a), q, q)
        whole = np.empty((m, k, q, k, q))
        whole[:, a, :, b] = whole[:, b, :, a] = blocks.swapaxes(0, 1)
        return whole.reshape(m, k * q, k * q) + self._penalties


def penalty_shares(n_classes: int) -> Floats:
    """Return the quadratic form of scikit-learn's penalty on scores but the first.

    Of K > 2 classes all have coefficients, which sum to 0 at the minimizer. Rows v_k
    relative to the first class then cost sum |v_k|^2 - |sum v_k|^2 / K.
    """
    identity = np.eye(n_classes - 1)
    return identity if n_classes == 2 else identity - 1 / n_classes


def _largest_spread(moves: Floats, present: NDArray[np.bool_]) -> Floats:
    """Return how far scores of a record that is present move apart, at most."""
    if moves.shape[1] == 1:
        spread = np.abs(moves[:, 0])
    else:
        spread = moves.max(axis=1).clip(min=0) - moves.min(axis=1).clip(max=0)
    return (spread * present).max(axis=1, initial=0.0)


def _inverse(systems: Floats) -> Floats:
    """Invert positive systems, in units in which their diagonals are 1."""
    each = np.arange(systems.shape[1])
    scales = np.sqrt(systems[:, each, each])
    scales = 1 / np.where(scales > 0, scales, 1.0)
    both = scales[:, :, None] * scales[:, None]
    systems *= both
    systems[:, each, each] += _REGULAR
    if len(each) <= _SMALL_SYSTEM:
        try:
            return np.linalg.inv(systems) * both
        except np.linalg.LinAlgError:
            pass  # one of them is singular, which others are not to suffer from
    for number, system in enumerate(systems):  # all together take far longer
        factor, failed = dpotrf(system, lower=1)
        lower = np.full_like(system, np.nan) if failed else dpotri(factor, lower=1)[0]
        lower = np.tril(lower)
        systems[number] = lower + np.tril(lower, -1).T
    return systems * both
