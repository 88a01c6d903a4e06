"""Logistic regression of one database, solved to the last digits.

Scores are relative to the first class, whose score is 0: binary problems have one
row of coefficients, problems of K classes K - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from skparisk.queries._together import Floats

__all__ = ["AverageDatabase", "minimizer", "penalty_shares", "released"]

_MOST_STEPS = 500
# Reciprocal condition from which no eigenvalue can be rounding of 0.
_REGULAR = 1e-9


def minimizer(
    X: Floats, codes: NDArray[np.intp], *, n_classes: int, C: float, fit_intercept: bool
) -> Floats:
    """Return the minimizer, one row for each class but the first: (coef, intercept).

    Newton's method from zero to the floating-point floor, on centered columns that
    are scaled to second derivatives of about 1 there.
    """
    n_records, n_features = X.shape
    exponent = np.frexp(np.abs(X).max(axis=0, initial=0.0))[1]
    design = np.ldexp(X, -exponent)  # exact, and squares do not overflow
    center = np.zeros(n_features)
    if fit_intercept:
        center = design.mean(axis=0)
        design = np.column_stack([design - center, np.ones(n_records)])
    root_penalty = np.zeros(design.shape[1])
    root_penalty[:n_features] = np.ldexp(C**-0.5, -exponent).clip(max=2.0**1000)
    # p (1 - p) is at most 1/4, so this is the root of the largest second derivative.
    scale = 1 / np.hypot(np.linalg.norm(design, axis=0) / 2, root_penalty)
    problem = _Problem(
        design * scale, codes, (root_penalty * scale) ** 2, penalty_shares(n_classes)
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

    @classmethod
    def of(
        cls,
        X: Floats,
        codes: NDArray[np.intp],
        *,
        n_classes: int,
        C: float,
        fit_intercept: bool,
        n_records: int,
    ) -> Self:
        """Return that of a pool from which databases of `n_records` are drawn."""
        n_rows, n_features = X.shape
        theta = minimizer(
            X,
            codes,
            n_classes=n_classes,
            C=C * (n_records / n_rows),
            fit_intercept=fit_intercept,
        )
        design, center = X, np.zeros(n_features)
        penalty = np.full(n_features, 1 / C)
        if fit_intercept:
            center = X.mean(axis=0)
            design = np.column_stack([X - center, np.ones(n_rows)])
            theta[:, -1] += theta[:, :-1] @ center
            penalty = np.append(penalty, 0.0)
        of_class = (codes == np.arange(1, n_classes)[:, None]).astype(np.float64)
        return cls(theta, design, center, penalty, of_class, n_records, C)

    @property
    def share(self) -> float:
        """How often each record counts."""
        return self.n_records / len(self.design)

    @property
    def fit_intercept(self) -> bool:
        """Whether the last column is that of an intercept."""
        return self.design.shape[1] > len(self.center)

    @property
    def canceling(self) -> float:
        """Largest size of what cancels where scores are moved back from the center."""
        coef = self.theta[:, : len(self.center)]
        return float((np.abs(coef) @ np.abs(self.center)).max())


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

    def solve(self) -> Floats:
        point = _Point(self, np.zeros((len(self.shares), self.design.shape[1])))
        last_move = np.inf
        for _ in range(_MOST_STEPS):
            slope, curvature = point.derivatives()
            step = -_solve_psd(curvature, slope.ravel()).reshape(slope.shape)
            move = _spread(step @ self.design.T).max(initial=0.0)
            # So close, a step is about the square of the last one; one that is not
            # even half of it consists of rounding, and no later one will do better.
            if last_move / 2 <= move < 2.0**-20:
                break
            last_move = move
            point = self._line_search(point, step, move, float((slope * step).sum()))
        return point.theta

    def _line_search(
        self, point: _Point, step: Floats, move: float, expected: float
    ) -> _Point:
        """Go along a step, which spreads scores by `move`, to where it is lower."""
        # Along the step curvature grows by at most exp(move t): this far the
        # objective is sure to fall (Sun and Tran-Dinh 2019, for nu = 2): its slope, at
        # first -d, is at most -d + d (exp(move t) - 1) / move.
        sure = np.log1p(move) / move if move else 1.0
        length = 1.0
        while length > sure:
            there = _Point(self, point.theta + length * step)
            if there.value <= point.value + 1e-4 * length * expected:
                return there
            length /= 2
        return _Point(self, point.theta + sure * step)


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

    def derivatives(self) -> tuple[Floats, Floats]:
        """Return the gradient, and the Hessian for flat gradients."""
        problem = self._problem
        design, codes = problem.design, problem.codes
        total = self._own + self._others
        rest = (self._own + (self._others - self._odds)) / total  # 1 - p
        rest[codes, self._rows] = self._others / total
        p = self._odds / total
        p[codes, self._rows] = self._own / total
        # p of another class, and p - 1 of the own.
        residuals = p.copy()
        residuals[codes, self._rows] = -rest[codes, self._rows]
        slope = residuals[1:] @ design + self._penalty_slope
        n_rows, q = self.theta.shape
        curvature = np.empty((n_rows, q, n_rows, q))
        for a in range(n_rows):
            for b in range(a + 1):
                weights = p[1 + a] * (rest[1 + a] if a == b else -p[1 + b])
                block = (design.T * weights) @ design
                block.flat[:: q + 1] += (
                    self._problem.shares[a, b] * self._problem.penalty
                )
                curvature[a, :, b] = curvature[b, :, a] = block
        return slope, curvature.reshape(n_rows * q, -1)


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


def _spread(scores: Floats) -> Floats:
    """Return the largest score minus the smallest; the first class has 0."""
    return scores.max(axis=0).clip(min=0) - scores.min(axis=0).clip(max=0)
