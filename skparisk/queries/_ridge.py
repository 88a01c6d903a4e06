"""Ridge regression as a query."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import as_float
from skparisk.core.weights import symmetric
from skparisk.queries._base import Floats, SampleWeights
from skparisk.queries._linear import LinearQuery, centers_of
from skparisk.queries._sums import SumQuery

# A smaller pivot, in units in which diagonals are 1, is rounding.
_SINGULAR = 2.0**-36


@dataclass(frozen=True)
class RidgeQuery(LinearQuery, SumQuery):
    """Coefficients and intercept of scikit-learn's `Ridge`.

    Parameters
    ----------
    alpha : float or sequence of float, default=1.0
        Penalty, >= 0; one for each target, or one for all.

    fit_intercept : bool, default=True
        Whether to fit and release an intercept.

    Notes
    -----
    The answer holds ``coef_`` and then ``intercept_``, flattened.

    A record adds the products of its numbers with each other: features and targets,
    shifted by `center`. From the sums follow the normal equations, which `Ridge` solves
    as well; where they are singular, the shortest of all solutions is taken.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import RidgeQuery
    >>> RidgeQuery(alpha=0.0)(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3, 5]))
    array([2., 1.])
    """

    alpha: float | tuple[float, ...] = 1.0
    fit_intercept: bool = True
    # What features and targets are moved by, so that sums of their products do not
    # cancel: medians of public records. Only rounding depends on it.
    center: tuple[float, ...] | None = field(default=None, compare=False, repr=False)
    n_targets: int = field(default=1, compare=False, repr=False)
    # Of records whose targets have weights beside them.
    sample_weights: SampleWeights | None = field(default=None, repr=False)

    classes = None
    is_smooth = True
    products = True
    _penalty_name = "alpha"

    def __post_init__(self) -> None:
        if isinstance(self.alpha, (list, tuple, np.ndarray)) and np.ndim(self.alpha):
            object.__setattr__(self, "alpha", tuple(self.alpha))
        several = isinstance(self.alpha, tuple)
        given: Any = self.alpha if several else (self.alpha,)
        penalties = tuple(map(as_float, given))
        if not penalties or not all(0 <= each < np.inf for each in penalties):
            raise ValueError(f"alpha must be a finite number >= 0, got {self.alpha!r}.")
        object.__setattr__(self, "alpha", penalties if several else penalties[0])

    def shaped(self, X: Any, y: Any) -> Self:
        targets, _ = self.targets_of(y)
        self.check_targets(targets)
        return replace(self, n_targets=int(np.size(targets) // len(y)))

    def placed(self, X: Any, y: Any, n_records: int) -> Self:
        if not self.fit_intercept:
            return self
        targets = np.asarray(self.targets_of(y)[0], dtype=np.float64).reshape(
            len(y), -1
        )
        return replace(self, center=centers_of(np.column_stack([X, targets])))

    def forget_place(self) -> None:
        object.__setattr__(self, "center", None)

    def rows(self, X: Any, y: Any) -> Floats:
        """Return the features, targets and, with an intercept, a one of each record.

        By the root of its weight, if it has one: products are then weighted.
        """
        targets, weights = self.targets_of(y)
        targets = np.asarray(targets, dtype=np.float64).reshape(len(y), -1)
        rows = np.concatenate([np.asarray(X, dtype=np.float64), targets], axis=1)
        if self.fit_intercept:
            if self.center is not None:
                rows -= self.center
            rows = np.column_stack([rows, np.ones(len(rows))])
        return rows if weights is None else rows * np.sqrt(weights)[:, None]

    def finish(self, sums: Floats) -> Floats:
        """Return coefficients and intercepts from sums of products."""
        q = math.isqrt(2 * sums.shape[1])
        d = q - self.n_targets - self.fit_intercept
        whole = symmetric(sums, q)
        means: Any = 0.0
        if self.fit_intercept:
            means = whole[:, -1, :-1] / whole[:, -1, -1:]
            whole = whole[:, :-1, :-1] - means[:, :, None] * whole[:, -1:, :-1]
        penalties = np.broadcast_to(self.alpha, self.n_targets)
        coef = solve_penalized(whole[:, :d, :d], whole[:, :d, d:], penalties)
        coef = coef.swapaxes(1, 2)
        flat = coef.reshape(len(coef), -1)
        if not self.fit_intercept:
            return flat
        if self.center is not None:
            means = means + self.center
        means = means[:, d:] - (coef @ means[:, :d, None])[:, :, 0]
        return np.concatenate([flat, means], axis=1)

    def resized(self, share: float) -> Self:
        return self.with_penalty(tuple((np.atleast_1d(self.alpha) * share).tolist()))

    def check_targets(self, y: Floats) -> None:
        """Raise ValueError unless there is one penalty, or one for each target."""
        n_targets = y.size // len(y)
        if isinstance(self.alpha, tuple) and len(self.alpha) not in (1, n_targets):
            raise ValueError(
                f"alpha must be one number, or one for each of the {n_targets} "
                f"targets, got {len(self.alpha)}."
            )


def solve_penalized(grams: Floats, moments: Floats, penalties: Floats) -> Floats:
    """Return solutions of normal equations, of shape (m, d, t), a penalty for each t.

    Columns are scaled to a diagonal of 1, so that their units cost no digits. An
    equation that is singular to all digits has the shortest of its solutions.
    """
    solutions = np.empty_like(moments)
    each = np.arange(grams.shape[1])
    for alpha in np.unique(penalties):
        systems = grams.copy()
        systems[:, each, each] += alpha
        scales = np.sqrt(systems[:, each, each])
        scales = 1 / np.where(scales > 0, scales, 1.0)
        scaled = systems * scales[:, :, None] * scales[:, None]
        columns = penalties == alpha
        right = moments[:, :, columns] * scales[:, :, None]
        # No eigenvalue is below what the penalty adds to it.
        least = alpha * np.square(scales).min(axis=1, initial=1.0)
        regular = (least > _SINGULAR) & (np.diagonal(scaled, 0, 1, 2) > 0).all(axis=1)
        if not regular.all():
            regular[~regular] = _are_regular(scaled[~regular])
            scaled[~regular] = np.eye(len(each))
        found = np.linalg.solve(scaled, right) * scales[:, :, None]
        for number in np.flatnonzero(~regular):
            found[number] = _shortest(systems[number], moments[number][:, columns])
        solutions[:, :, columns] = found
    return solutions


def _are_regular(systems: Floats) -> NDArray[np.bool_]:
    """Tell which matrices with a diagonal of 1 have a factor to some digits."""
    try:
        factors = np.linalg.cholesky(systems)
    except np.linalg.LinAlgError:
        if len(systems) == 1:
            return np.zeros(1, dtype=bool)
        return np.concatenate([_are_regular(each[None]) for each in systems])
    left = np.square(np.diagonal(factors, axis1=1, axis2=2)).min(axis=1, initial=1.0)
    return np.asarray(left > _SINGULAR)


def _shortest(system: Floats, right: Floats) -> Floats:
    """Return the shortest least-squares solution, NaN where numbers are not finite."""
    if not np.isfinite(system).all():
        return np.full_like(right, np.nan)
    values, vectors = np.linalg.eigh(system)
    kept = values > _SINGULAR * values[-1]
    inner = vectors[:, kept].T @ right / values[kept, None]
    return np.asarray(vectors[:, kept] @ inner)
