"""Logistic regression of one database, solved to the last digits.

Scores are relative to the first class, whose score is 0: binary problems have one
row of coefficients, problems of K classes K - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from skparisk.queries._looked_up import LookedUp
from skparisk.queries._together import CLOSE, Floats
from skparisk.reference._mapped import loaded

_MOST_STEPS = 500
_CLOSE_TO_SCORES = 2.0**-28
# Of so many records one is taken to begin with, if that is enough, also of each class.
_SKIPPED, _FEWEST, _OF_EACH = 8, 2**12, 2**6
# Steps that move scores by less are next to the end; curvature changes by no more than
# that share, and is taken as it was.
_SMALL, _SAME = 2.0**-20, 2.0**-26
# Numbers of a stretch of records, which are read again at once.
_IN_CACHE = 2**17
# Reciprocal condition from which no eigenvalue can be rounding of 0.
_REGULAR = 1e-9


def minimizer(
    X: Floats,
    codes: NDArray[np.intp],
    *,
    n_classes: int,
    C: float,
    fit_intercept: bool,
    offsets: Floats | None = None,
) -> Floats:
    """Return the minimizer, one row for each class but the first: (coef, intercept).

    `offsets`, of shape (n_classes - 1, n_records), are what scores are before.

    Newton's method from zero to the floating-point floor, on centered columns that
    are scaled to second derivatives of about 1 there.
    """
    n_records, n_features = X.shape
    # Powers of 2: scaling by them is exact, and squares do not overflow.
    exponent = np.frexp(np.abs(X).max(axis=0, initial=1.0))[1]
    design = np.ones((n_records, n_features + fit_intercept))
    features = design[:, :n_features]
    np.multiply(X, np.ldexp(1.0, -exponent), out=features)
    if fit_intercept:
        center = features.mean(axis=0)
        features -= center
    root_penalty = np.zeros(design.shape[1])
    # No less: a column of zeros is divided by it.
    root_penalty[:n_features] = np.ldexp(C**-0.5, -exponent).clip(min=1e-300)
    # p (1 - p) is at most 1/4, so this is the root of the largest second derivative.
    lengths = np.sqrt(np.einsum("ij,ij->j", design, design))
    scale = 1 / np.hypot(lengths / 2, root_penalty)
    design *= scale
    problem = _Problem(
        design,
        codes,
        (root_penalty * scale) ** 2,
        penalty_shares(n_classes),
        offsets,
    )
    theta = problem.solve() * scale
    if fit_intercept:
        theta[:, -1] -= theta[:, :n_features] @ center
    theta[:, :n_features] = np.ldexp(theta[:, :n_features], -exponent)
    return theta


class AverageDatabase(NamedTuple):
    """A pool whose records count by their share in databases that are drawn from it.

    Its minimizer and its curvature are near those of such databases. With an intercept
    features are centered, and `theta` is for these.
    """

    theta: Floats
    design: Floats
    center: Floats
    penalty: Floats
    of_class: Floats
    n_records: int
    C: float
    # Records that databases are drawn from, and their classes.
    X: Any
    codes: NDArray[np.intp]
    # Scores that records have before, of those that are looked at and of all.
    offsets: Floats | None
    of_pool: Floats | None

    @classmethod
    def of(
        cls,
        X: Any,
        codes: NDArray[np.intp],
        *,
        n_classes: int,
        C: float,
        fit_intercept: bool,
        n_records: int,
        part: NDArray[np.intp] | None = None,
        offsets: Floats | None = None,
    ) -> Self:
        """Return that of a pool from which databases of `n_records` are drawn.

        Or of a part of it: of these rows.
        """
        pool, all_codes, of_pool = X, codes, offsets
        if part is None:
            X = loaded(X)
        else:
            X, codes = X[part], codes[part]
            offsets = None if offsets is None else offsets[:, part]
        n_rows, n_features = X.shape
        theta = minimizer(
            X,
            codes,
            n_classes=n_classes,
            C=C * (n_records / n_rows),
            fit_intercept=fit_intercept,
            offsets=offsets,
        )
        design, center = X, np.zeros(n_features)
        penalty = np.full(n_features, 1 / C)
        if fit_intercept:
            center = X.mean(axis=0)
            design = np.column_stack([X - center, np.ones(n_rows)])
            theta[:, -1] += theta[:, :-1] @ center
            penalty = np.append(penalty, 0.0)
        of_class = (codes == np.arange(1, n_classes)[:, None]).astype(np.float64)
        return cls(
            theta,
            design,
            center,
            penalty,
            of_class,
            n_records,
            C,
            pool,
            all_codes,
            offsets,
            of_pool,
        )

    def looked_up(self, matrix: Floats) -> Floats | LookedUp:
        """Return records of the pool less the center, times the matrix."""
        if len(self.design) == len(self.codes):
            return self.design @ matrix.T
        return LookedUp(self.X, self.center, matrix)

    @property
    def share(self) -> float:
        """How often each record counts."""
        return self.n_records / len(self.design)

    @property
    def counts(self) -> Floats:
        """The same for all records, as counts of one database."""
        return np.full((1, len(self.design)), self.share)

    @property
    def answer(self) -> Floats:
        """Its minimizer, as it would be released."""
        theta, n_features = self.theta.copy(), len(self.center)
        if self.fit_intercept:
            theta[:, -1] -= theta[:, :n_features] @ self.center
        return released(theta, n_features)

    @property
    def fit_intercept(self) -> bool:
        """Whether the last column is that of an intercept."""
        return self.design.shape[1] > len(self.center)

    @property
    def canceling(self) -> float:
        """Largest size of what cancels where scores are moved back from the center."""
        coef = self.theta[:, : len(self.center)]
        return float((np.abs(coef) @ np.abs(self.center)).max())

    @property
    def close(self) -> float:
        """How close answers are to be, of the largest output.

        Those that are added to scores are small against these, and so against rounding.
        """
        return CLOSE if self.of_pool is None else _CLOSE_TO_SCORES

    @property
    def canceling_scores(self) -> float:
        """Largest size of scores that records have before, from which others differ."""
        return 0.0 if self.of_pool is None else float(np.abs(self.of_pool).max())


def penalty_shares(n_classes: int) -> Floats:
    """Return the quadratic form of scikit-learn's penalty on K - 1 rows.

    Of K > 2 classes all have coefficients, which sum to 0 at the minimizer. Rows v_k
    relative to the first class then cost sum |v_k|^2 - |sum v_k|^2 / K.
    """
    identity = np.eye(n_classes - 1)
    return identity if n_classes == 2 else identity - 1 / n_classes


def released(theta: Floats, n_features: int) -> Floats:
    """Return (..., n_outputs) as scikit-learn has them, from rows but the first."""
    if theta.shape[-2] > 1:
        first = np.zeros_like(theta[..., :1, :])
        theta = np.concatenate([first, theta], axis=-2)
        theta = theta - theta.mean(axis=-2, keepdims=True)
    coef, intercept = theta[..., :n_features], theta[..., n_features:]
    flat = (*theta.shape[:-2], -1)
    return np.concatenate([coef.reshape(flat), intercept.reshape(flat)], axis=-1)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Sum of the losses of records, plus a penalty for each column and its shares."""

    design: Floats
    codes: NDArray[np.intp]
    penalty: Floats
    shares: Floats
    offsets: Floats | None = None

    def solve(self) -> Floats:
        point = _Point(self, self._start())
        last_move = np.inf
        for _ in range(_MOST_STEPS):
            slope = point.slope()
            if last_move > _SAME:  # else curvature is nearly what it was
                curvature = point.curvature()
            step = -_solve_psd(curvature, slope.ravel()).reshape(slope.shape)
            move = spread(step @ self.design.T).max(initial=0.0)
            # So close, a step is far smaller than the last one; one that is not even
            # half of it consists of rounding, and no later one will do better.
            if last_move / 2 <= move < _SMALL:
                break
            last_move = move
            point = self._line_search(point, step, move, float((slope * step).sum()))
        return point.theta

    def _start(self) -> Floats:
        """Return the minimizer of a few of many records, or else zeros."""
        codes, n_rows = self.codes[::_SKIPPED], len(self.shares)
        of_each = np.bincount(codes, minlength=n_rows + 1)
        if len(codes) < _FEWEST or of_each.min() < _OF_EACH:
            return np.zeros((n_rows, self.design.shape[1]))
        design, penalty = self.design[::_SKIPPED].copy(), self.penalty / _SKIPPED
        offsets = None if self.offsets is None else self.offsets[:, ::_SKIPPED]
        return _Problem(design, codes, penalty, self.shares, offsets).solve()

    def _line_search(
        self, point: _Point, step: Floats, move: float, expected: float
    ) -> _Point:
        """Go along a step, which spreads scores by `move`, to where it is lower."""
        # Along the step curvature grows by at most exp(move t), so the objective, of
        # the slope -d at first, falls by at least d (t - (exp(move t) - 1 - move t) /
        # move^2) (Sun and Tran-Dinh 2019, for nu = 2): of d t by more than a quarter
        # while move t <= 1.
        length = 1.0
        while length * move > 1:
            there = _Point(self, point.theta + length * step)
            if there.value <= point.value + 1e-4 * length * expected:
                return there
            length /= 2
        return _Point(self, point.theta + length * step)


class _Point:
    """The objective of a problem and its derivatives at a point.

    Nothing cancels where a probability is close to 1, so that databases are solved
    to the last digits also where the classes are separated.
    """

    def __init__(self, problem: _Problem, theta: Floats) -> None:
        self._problem = problem
        self.theta = theta
        self._rows = np.arange(len(problem.codes))
        scores = np.zeros((len(theta) + 1, len(self._rows)))
        np.matmul(theta, problem.design.T, out=scores[1:])
        if problem.offsets is not None:
            scores[1:] += problem.offsets
        scores -= scores[problem.codes, self._rows]
        self._top = scores.max(axis=0)
        # exp(score - top): of a record's class, and of the others.
        self._odds = np.exp(scores - self._top)
        self._own = self._odds[problem.codes, self._rows]
        self._odds[problem.codes, self._rows] = 0.0
        self._others = self._odds.sum(axis=0)

    @cached_property
    def _penalty_slope(self) -> Floats:
        return (self._problem.shares @ self.theta) * self._problem.penalty

    @cached_property
    def value(self) -> float:
        # Scores are relative to the record's class. If that is on top, own is 1 and
        # the loss is log1p(others), to the last digit however small.
        losses = self._top + np.log1p(self._others + (self._own - 1))
        return float(losses.sum() + (self.theta * self._penalty_slope).sum() / 2)

    @cached_property
    def _probabilities(self) -> tuple[Floats, Floats]:
        """Those of each class, and of all others."""
        codes, total = self._problem.codes, self._own + self._others
        rest = (self._own + (self._others - self._odds)) / total
        rest[codes, self._rows] = self._others / total
        p = self._odds / total
        p[codes, self._rows] = self._own / total
        return p, rest

    def slope(self) -> Floats:
        """Return the gradient."""
        (p, rest), codes = self._probabilities, self._problem.codes
        # p of another class, and p - 1 of the own.
        residuals = p.copy()
        residuals[codes, self._rows] = -rest[codes, self._rows]
        return residuals[1:] @ self._problem.design + self._penalty_slope

    def curvature(self) -> Floats:
        """Return the Hessian, for flat gradients."""
        problem, (p, rest) = self._problem, self._probabilities
        n_rows, q = self.theta.shape
        curvature = np.empty((n_rows, q, n_rows, q))
        for a in range(n_rows):
            for b in range(a + 1):
                weights = p[1 + a] * (rest[1 + a] if a == b else -p[1 + b])
                block = _weighted_gram(problem.design, weights)
                block.flat[:: q + 1] += problem.shares[a, b] * problem.penalty
                curvature[a, :, b] = curvature[b, :, a] = block
        return curvature.reshape(n_rows * q, -1)


def _weighted_gram(design: Floats, weights: Floats) -> Floats:
    """Return the weighted sum of products of records with themselves."""
    gram = np.zeros((design.shape[1],) * 2)
    step = max(1, _IN_CACHE // design.shape[1])
    for start in range(0, len(design), step):
        stretch = slice(start, start + step)
        gram += (design[stretch].T * weights[stretch]) @ design[stretch]
    return gram


def _solve_psd(matrix: Floats, vector: Floats) -> Floats:
    """Solve for a positive semidefinite matrix, which may be singular in rounding."""
    scale = np.sqrt(matrix.diagonal())
    scale = 1 / np.where(scale > 0, scale, 1.0)
    matrix = matrix * scale * scale[:, None]
    factor, failed = dpotrf(matrix)
    if not failed and dpocon(factor, np.abs(matrix).sum(axis=0).max())[0] > _REGULAR:
        return np.asarray(scale * dpotrs(factor, scale * vector)[0])
    values, vectors = eigh(matrix)
    # Smaller eigenvalues are rounding of 0: a step along them would be without bound.
    values = values.clip(min=max(len(values) * 2.0**-52 * values[-1], 1e-300))
    return scale * (vectors @ ((vectors.T @ (scale * vector)) / values))


def spread(scores: Floats) -> Floats:
    """Return the largest score minus the smallest; the first class has 0."""
    return scores.max(axis=0).clip(min=0) - scores.min(axis=0).clip(max=0)
