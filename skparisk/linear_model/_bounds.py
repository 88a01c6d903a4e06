"""Proven bounds of how far linear models move between neighboring databases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skparisk.core.checks import check_positive
from skparisk.queries import LogisticRegressionQuery
from skparisk.queries._base import Floats
from skparisk.queries._bounds import solved_logistic_bound

# Below this the rounding of a clipped row may make it longer.
_LEAST_RADIUS = 2.0**-1000


def bounded_logistic_problem(
    query: LogisticRegressionQuery, X: Floats, x_norm: Any
) -> tuple[Floats, LogisticRegressionQuery, float]:
    """Return clipped rows, the query without free intercept, its l1 sensitivity."""
    X, radius = _clipped_rows(X, x_norm, query.fit_intercept)
    n_classes = len(query.classes)
    bound = solved_logistic_bound(query.C, X.shape, x_norm=radius, n_classes=n_classes)
    if bound is None:
        raise ValueError(
            "C must be at most 2**40 / (n_records * x_norm**2) with "
            f"sensitivity='bound', for the solver to be exact; got {query.C!r}."
        )
    n_outputs = X.shape[1] * (n_classes if n_classes > 2 else 1)
    query = LogisticRegressionQuery(query.classes, query.C, fit_intercept=False)
    return X, query, math.sqrt(n_outputs) * bound * (1 + 2.0**-40)


def clip_rows(X: Floats, radius: float) -> Floats:
    """Return rows that are no longer than a radius, of whatever size they are."""
    if radius < _LEAST_RADIUS:
        raise ValueError(f"x_norm must be at least 2**-1000, got {radius!r}.")
    sizes = np.abs(X).max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):  # a warning would be a release of its own
        units = np.where(sizes > 0, X / sizes, 0.0)  # no square of these is lost
        lengths = np.linalg.norm(units, axis=1, keepdims=True)
        return np.where(lengths > radius / sizes, units * (radius / lengths), X)


def split_intercepts(answer: Floats, n_features: int, fit_intercept: bool) -> Floats:
    """Return an answer with the coefficients of a constant last column at its end."""
    if not fit_intercept:
        return answer
    rows = answer.reshape(-1, n_features + 1)
    return np.concatenate([rows[:, :n_features].ravel(), rows[:, n_features]])


def _clipped_rows(X: Floats, x_norm: Any, fit_intercept: bool) -> tuple[Floats, float]:
    """Return rows no longer than their bound, maybe with a constant, and that bound."""
    radius = check_positive(x_norm, "x_norm")
    X = clip_rows(X, radius)
    if fit_intercept:
        return np.column_stack([X, np.ones(len(X))]), math.hypot(radius, 1.0)
    return X, radius


def check_y_bounds(bounds: Any) -> tuple[float, float]:
    """Return the lowest and the highest target."""
    values = np.asarray(() if bounds is None else bounds)
    if (
        values.shape != (2,)
        or values.dtype.kind not in "iuf"
        or not np.isfinite(values).all()
        or not values[0] <= values[1]
        or not values.any()
    ):
        raise ValueError(
            "y_bounds must be two finite numbers (lowest, highest), not both 0, got "
            f"{bounds!r}."
        )
    return float(values[0]), float(values[1])
