"""Newton's method for the log loss of many databases at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

from skparisk.core.weights import RowSums, symmetric
from skparisk.queries._base import Floats

_MOST_STEPS = 1000  # a far record that is nearly not penalized takes 700
# Limits on how far scores move. LAST: Newton's method stops once the distance left is
# below LAST / n_records. _SAME: up to here, old curvature is good enough. _SMALL: below
# it, a step that is not half of the one before is rounding.
LAST, _SAME, _SMALL = 2.0**-34, 2.0**-6, 2.0**-20
# Halves of a step that are tried before as little of it as is sure to lead on.
_MOST_HALVES = 20
# Scores of a record that are far from what any are where all begin.
_FAR = 2.0**10
# Rows of systems that are inverted together.
_SMALL_SYSTEM = 24
# Of the diagonal, so that no system is singular; and the largest number of an inverse
# that is not mostly that.
_REGULAR, _HIDDEN = 2.0**-48, 2.0**44


class Minimum(NamedTuple):
    """Minimizers of m databases, with the curvature there."""

    theta: Floats  # (m, n_logits, q); NaN where it was not found
    inverse: Floats  # (m, n_logits q, n_logits q): of second derivatives
    since: Floats  # (m,): how far scores are from where these are


@dataclass
class _Way:
    """Databases on their way to minimizers, m of them."""

    weights: Floats  # (m, n_rows)
    theta: Floats  # (m, n_logits, q)
    scores: Floats  # (m, n_logits, n_rows), or (1, ...) where they are the same
    inverse: Floats  # of curvature
    since: Floats  # (m,): how far scores have moved since it was taken
    own: NDArray[np.bool_]  # whether it is that of the database

    def __post_init__(self) -> None:
        m = len(self.weights)
        self.place, self.going = np.arange(m), np.ones(m, dtype=bool)
        self.last = np.full(m, np.inf)  # how large the last step was
        self.present = (self.weights > 0).astype(np.float64)
        self.n_records = self.weights.sum(axis=1).clip(min=1)

    def scores_of(self, which: Any) -> Floats:
        """Select scores of databases; one line if all share them."""
        return self.scores if len(self.scores) == 1 else self.scores[which]

    def take(self, which: NDArray[np.bool_]) -> _Way:
        """Select databases."""
        names = "weights", "theta", "scores", "inverse", "since", "own"
        way = _Way(*(getattr(self, name)[which] for name in names))
        way.place, way.last = self.place[which], self.last[which]
        return way


class LogLoss:
    """The log loss of records, whose scores are relative to that of the first class.

    Parameters
    ----------
    design : ndarray of shape (n_rows, q)
        Columns of the records.

    codes : ndarray of shape (n_rows,)
        Classes, in 0, ..., n_logits.

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
        offsets: Floats | None,
        penalty: Floats,
        start: Floats,
    ) -> None:
        n_logits = len(start)
        of_class = codes == np.arange(1, n_logits + 1)[:, None]
        self._k, self._of_class = n_logits, of_class
        self._rows_of = [np.flatnonzero(own) for own in of_class]
        self._products = RowSums(design, products=True)
        self._penalty, self._offsets = penalty, offsets
        self._columns = np.ascontiguousarray(design.T)
        if n_logits == 1:  # scores of the other class, less those of the record's
            signs = 1.0 - 2.0 * of_class
            self._columns *= signs
            self._offsets = None if offsets is None else offsets * signs
        self._n_rows, self._is_large = len(design), start.size > _SMALL_SYSTEM
        self._start, self._shares = start, penalty_shares(n_logits + 1)
        self._penalties = np.kron(self._shares, np.diag(penalty))

    @cached_property
    def _average(self) -> Floats:
        """Curvature where all begin, of a database with each row once."""
        scores, weights = self._scores(self._start[None]), np.ones((1, self._n_rows))
        return self._curvature(scores, weights)[0] - self._penalties

    def _scores(self, theta: Floats) -> Floats:
        scores = self._along(theta)
        return scores if self._offsets is None else scores + self._offsets

    def _along(self, theta: Floats) -> Floats:
        """Return what coefficients add to scores, (m, n_logits, n_rows)."""
        m, k, q = theta.shape  # one product of two matrices
        return (theta.reshape(m * k, q) @ self._columns).reshape(m, k, -1)

    @np.errstate(all="ignore")  # that a number overflows would be a release
    def minimize(self, weights: Floats, near: Minimum | None = None) -> Minimum:
        """Return minimizers, each by itself.

        Parameters
        ----------
        weights : ndarray of shape (m, n_rows)
            How often each record is in each database.

        near : Minimum, default=None
            Minimizers of m databases with all but a record or two in common, to start
            from. None: start where all do.
        """
        (m, _), (k, q) = weights.shape, self._start.shape
        theta, inverse = np.full((m, k, q), np.nan), np.full((m, k * q, k * q), np.nan)
        ends = Minimum(theta, inverse, np.full(m, np.nan))
        if not m:
            return ends
        way = self._begin(weights, near)
        far_off = 1.0 if self._is_large else _SAME
        for number in range(_MOST_STEPS):
            slope = self._slope(way.scores, way.weights, way.theta)
            self._renew(way, way.going & (way.since > far_off))
            size, move, moves = self._go(way, slope)
            way.since += np.where(way.own, move, 0.0)
            # The next step is shorter by how much curvature has changed, or by as much
            # as this one was shorter than the last.
            falls = size / np.maximum(way.last, 1e-300)
            left = size * np.minimum(np.maximum(2 * way.since, falls), 1.0)
            rounds = (size < _SMALL) & (falls > 0.5) & (way.since <= _SAME)
            done = (left * way.n_records < LAST) | rounds
            # Of other curvature no step is the last one: where no record tells of a
            # feature, it may be as wrong as it likes.
            done &= way.own & way.going & (number > 0)
            found = way.theta, way.inverse, way.since
            for every, own in zip(ends, found, strict=True):
                every[way.place[done]] = own[done]
            way.going &= ~done & np.isfinite(size)
            if not way.going.any():
                break
            # Others lead on as long as their steps become smaller, and are far.
            leads = (falls < 0.5) & ((size > _SAME) & self._is_large | way.own)
            way.since[~leads & (~way.own | (way.since > _SAME))] = np.inf
            way.scores = np.subtract(way.scores, moves, out=moves)
            way.last = size
            if way.going.mean() < 0.5:  # less are not worth a copy
                way = way.take(way.going)
        return ends

    def _begin(self, weights: Floats, near: Minimum | None) -> _Way:
        """Return where others ended, with their curvature; or else where all begin.

        With far records at 0, which else takes long.
        """
        m = len(weights)
        if near is not None:
            theta, inverse, since = (part.copy() for part in near)
            own = np.zeros(m, dtype=bool)
            return _Way(weights, theta, self._scores(theta), inverse, since, own)
        theta, since = np.tile(self._start, (m, 1, 1)), np.zeros(m)
        scores = self._scores(self._start[None])  # the same for all
        away = ~(np.abs(scores[0]).max(axis=0) < _FAR)
        if (lost := weights[:, away].any(axis=1)).any():
            theta[lost], since[lost] = 0.0, np.inf
            scores = self._scores(theta)
        inverse, own = self._first_inverse(weights), np.zeros(m, dtype=bool)
        return _Way(weights, theta, scores, inverse, since, own)

    def _renew(self, way: _Way, which: NDArray[np.bool_]) -> None:
        """Take curvature of some databases where they are."""
        if not which.any():
            return
        some: Any = slice(None) if which.all() else which
        curvature = self._curvature(way.scores_of(some), way.weights[some])
        way.inverse[some] = _inverse(curvature)
        way.since[some], way.own[some] = 0.0, True

    def _go(self, way: _Way, slope: Floats) -> tuple[Floats, Floats, Floats]:
        """Take one step; return its size and largest move of a score, (m,), and moves.

        Its size is the larger of that move and the change of a coefficient, times the
        root of its penalty: no score tells of a feature without records.
        """
        step = (way.inverse @ slope.reshape(len(slope), -1, 1)).reshape(slope.shape)
        moves = self._along(step)
        move = _largest_spread(moves, way.present)
        if (far := (move > 1) & np.isfinite(move)).any():
            lengths, scores = np.ones(len(move)), way.scores_of(far)
            at, ahead = (way.theta[far], scores), (step[far], moves[far])
            lengths[far] = self._search(way.weights[far], at, ahead, move[far])
            for each in (step, moves):
                each *= lengths[:, None, None]
            move = lengths * move
        way.theta -= step
        penalized = (np.abs(step) * np.sqrt(self._penalty)).max(axis=(1, 2), initial=0)
        return np.maximum(move, penalized), move, moves

    def _first_inverse(self, weights: Floats) -> Floats:
        """Return the inverse of average curvature, for so many records."""
        shares, which = np.unique(weights.sum(axis=1), return_inverse=True)
        shares = shares[:, None, None] / max(self._n_rows, 1)
        return _inverse(shares * self._average + self._penalties)[which]

    def _slope(self, scores: Floats, weights: Floats, theta: Floats) -> Floats:
        residuals = self._residuals(scores)
        if len(residuals) == 1:  # the same for all
            lines = self._columns * residuals.swapaxes(0, 1)  # (k, q, n_rows)
            lines = lines.reshape(self._k * len(self._columns), self._n_rows)
            slope = weights @ lines.T
        else:
            residuals *= weights[:, None]
            flat = residuals.reshape(theta.shape[0] * self._k, self._n_rows)
            slope = flat @ self._columns.T
        return slope.reshape(theta.shape) + (self._shares @ theta) * self._penalty

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
        for number in range(_MOST_HALVES + 1):
            t = lengths[:, None, None]
            there = (a - t * step for a, step in zip(at, steps, strict=True))
            again = (lengths * move > 1) & ~(self._value(weights, *there) < value)
            if not again.any():
                break
            lengths[again] = (
                1 / move[again] if number == _MOST_HALVES else t[again, 0, 0] / 2
            )
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

    def _residuals(self, scores: Floats) -> Floats:
        """Return what losses rise by scores, of the same shape (m, n_logits, n_rows).

        None cancels where a record is nearly sure to be of its class.
        """
        p, first = self._chances(scores)
        if self._k > 1:
            for own, rows in enumerate(self._rows_of):
                others = np.delete(p[:, :, rows], own, axis=1).sum(axis=1)
                p[:, own, rows] = -(first[:, rows] + others)
        return p

    def _chances(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return probabilities of classes but the first, and of that, for any rows.

        Of two classes, that of the one that a record is not of, and nothing else.
        """
        if self._k == 1:
            p = np.exp(-scores)
            p += 1.0
            return np.divide(1.0, p, out=p), p[:, 0]
        top = scores.max(axis=1).clip(min=0.0)
        odds, first = np.exp(scores - top[:, None]), np.exp(-top)
        share = 1 / (first + odds.sum(axis=1))
        return odds * share[:, None], first * share

    def _curvature(self, scores: Floats, w: Floats) -> Floats:
        """Return second derivatives of databases, (m, k q, k q)."""
        (p, _), k, q = self._chances(scores), self._k, len(self._columns)
        if k == 1:
            return symmetric(self._products.of((p - p * p)[:, 0] * w), q) + (
                self._penalties
            )
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


def _largest_spread(moves: Floats, present: Any) -> Floats:
    """Return how far scores of a record that is present move apart, at most."""
    spread = moves.max(axis=1).clip(min=0.0) - moves.min(axis=1).clip(max=0.0)
    return np.asarray((spread * present).max(axis=1, initial=0.0))


def _inverted(matrices: Floats) -> Floats:
    """Invert matrices, or none of them, if one is singular to the last digit."""
    try:
        return np.asarray(np.linalg.inv(matrices))
    except np.linalg.LinAlgError:
        return np.full_like(matrices, np.nan)


def _inverse(systems: Floats) -> Floats:
    """Invert positive systems, in units in which their diagonals are 1.

    NaN for a system whose inverse is mostly rounding.
    """
    each = np.arange(systems.shape[1])
    scales = np.sqrt(systems[:, each, each])
    told = scales > 0
    scales = 1 / np.where(told, scales, 1.0)
    both = scales[:, :, None] * scales[:, None]
    systems *= both
    systems[:, each, each] += _REGULAR
    inverses = _inverted(systems) if len(each) <= _SMALL_SYSTEM else None
    if inverses is None or not np.isfinite(inverses).all():
        inverses = np.full_like(systems, np.nan)
        for number, system in enumerate(systems):  # all together take far longer
            factor, failed = dpotrf(system, lower=1)
            if not failed:
                lower = np.tril(dpotri(factor, lower=1)[0])
                inverses[number] = lower + np.tril(lower, -1).T
    largest = (inverses[:, each, each] * told).max(axis=1, initial=0.0)
    inverses[largest > _HIDDEN] = np.nan
    return inverses * both
