"""Proven bounds of how far linear models move between neighboring databases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skparisk._validate import (
    check_at_least,
    check_positive,
    check_relation,
)
from skparisk.queries import LogisticRegressionQuery, RidgeQuery
from skparisk.queries._together import Floats

__all__ = [
    "bounded_logistic_problem",
    "bounded_ridge_problem",
    "check_y_bounds",
    "clip_rows",
    "logistic_sensitivity_bound",
    "ridge_sensitivity_bound",
    "split_intercepts",
]

# Beyond this the solver is not exact enough for a bound on the exact minimizer.
_LARGEST_CONDITION = 2.0**40
# Below this the rounding of a clipped row may make it longer.
_LEAST_RADIUS = 2.0**-1000


def ridge_sensitivity_bound(
    n_records: int,
    alpha: float,
    *,
    x_norm: float = 1.0,
    y_bound: float = 1.0,
    relation: str = "replace-one",
) -> float:
    r"""Return a bound of the l2 sensitivity of ridge coefficients.

    Parameters
    ----------
    n_records : int
        Records of a database, >= 1; with "add-remove", of the larger one, which
        must then be a public number, as the bound grows with it.

    alpha : float
        Penalty, > 0.

    x_norm : float, default=1.0
        Largest l2 norm of a row of features, R > 0.

    y_bound : float, default=1.0
        Largest absolute target, Y > 0.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        What neighboring databases are.

    Returns
    -------
    bound : float
        Of :math:`\|\theta - \theta'\|_2`, in units of the coefficients. The l1
        norm is at most sqrt(n_features) times that.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee**. For the exact minimizer of
    :math:`\sum (y - x \theta)^2 + \alpha \|\theta\|^2` without intercept. At
    R = Y = 1, with B the largest norm of a solution and g the largest move per
    unit of residual, replace-one is
    :math:`\min\{(2 + B(n))/\alpha,\ 2 g (1 + B(n - 1)),\ 2 B(n)\}` and
    add-remove :math:`\min\{g (1 + B(n - 1)),\ B(n) + B(n - 1)\}`. The first term:
    at one optimum the other objective, which is 2 alpha strongly convex, has half
    a gradient of norm at most 2 + B. The second: remove one record, add the
    other.

    Examples
    --------
    >>> from skparisk.linear_model import ridge_sensitivity_bound
    >>> ridge_sensitivity_bound(1, 1.0)
    1.0
    """
    n = check_at_least(n_records, "n_records", 1)
    radius = check_positive(x_norm, "x_norm")
    bound = check_positive(y_bound, "y_bound")
    a = check_positive(alpha, "alpha") / radius / radius  # L2(R, alpha) = L2(1, a) / R
    check_positive(a, "alpha / x_norm**2")
    check_relation(relation)
    size, smaller = _largest_solution(n, a), _largest_solution(n - 1, a)
    gain = 1 / (1 + a) if a >= 1 else 1 / (2 * math.sqrt(a))
    if relation == "replace-one":
        unit = min((2 + size) / a, 2 * gain * (1 + smaller), 2 * size)
    else:
        unit = min(gain * (1 + smaller), size + smaller)
    return unit * bound / radius


def _largest_solution(n: int, a: float) -> float:
    """Return B(n, alpha), the largest norm of a ridge solution at R = Y = 1."""
    return 0.5 * math.sqrt(n / a) if n >= a else n / (n + a)


def bounded_ridge_problem(
    query: RidgeQuery, X: Floats, y: Floats, *, x_norm: Any, y_bounds: Any
) -> tuple[Floats, Floats, RidgeQuery, float]:
    """Return clipped data, the query without free intercept, its l1 sensitivity."""
    low, high = check_y_bounds(y_bounds)
    X, radius = _clipped_rows(X, x_norm, query.fit_intercept)
    y = np.clip(y, low, high)
    alphas = np.broadcast_to(query.alpha, y.size // len(y)).tolist()
    bounds = [
        ridge_sensitivity_bound(
            len(X), alpha, x_norm=radius, y_bound=max(abs(low), abs(high))
        )
        for alpha in alphas
    ]
    # The bound is for the exact minimizer: pay for the rounding of the solver.
    condition = 1 + len(X) * radius**2 / min(alphas)
    if condition > _LARGEST_CONDITION:
        raise ValueError(
            "alpha must be at least n_records * x_norm**2 * 2**-40 with "
            f"sensitivity='bound', for the solver to be exact; got {query.alpha!r}."
        )
    slack = 1 + X.shape[1] * condition * 2.0**-50
    sensitivity = math.sqrt(X.shape[1]) * math.fsum(bounds) * slack
    return X, y, RidgeQuery(query.alpha, fit_intercept=False), sensitivity


def logistic_sensitivity_bound(
    C: float, *, x_norm: float = 1.0, n_classes: int = 2, relation: str = "replace-one"
) -> float:
    r"""Return a bound of the l2 sensitivity of logistic regression.

    Parameters
    ----------
    C : float
        Inverse of the penalty's strength, > 0.

    x_norm, relation
        As in :func:`ridge_sensitivity_bound`.

    n_classes : int, default=2
        Classes, K >= 2. More than two have a row of coefficients each.

    Returns
    -------
    bound : float
        Of :math:`\|W - W'\|_F`, in units of the coefficients. The l1 norm is at most
        sqrt(number of coefficients) times that.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee**. For the exact minimizer of :math:`\frac12 \|W\|^2 + C \sum` (log
    loss) without intercept: :math:`2 C R` for replace-one, :math:`C R` for
    add-remove, and :math:`\sqrt 2` times that for more than two classes, whatever
    the number of records. The objective is 1-strongly convex, so that minimizers of
    two objectives are no further apart than the gradients of their difference are
    long; the gradient of a record's loss is no longer than R, or
    :math:`\sqrt 2 R`. (Chaudhuri, Monteleoni and Sarwate, JMLR 2011, Lemma 7.)

    Examples
    --------
    >>> from skparisk.linear_model import logistic_sensitivity_bound
    >>> logistic_sensitivity_bound(0.5, x_norm=3.0)
    3.0
    """
    weight = check_positive(C, "C")
    radius = check_positive(x_norm, "x_norm")
    n_classes = check_at_least(n_classes, "n_classes", 2)
    check_relation(relation)
    slope = check_positive(weight * radius, "C * x_norm")
    if n_classes > 2:
        slope *= math.sqrt(2)
    return 2 * slope if relation == "replace-one" else slope


def bounded_logistic_problem(
    query: LogisticRegressionQuery, X: Floats, x_norm: Any
) -> tuple[Floats, LogisticRegressionQuery, float]:
    """Return clipped rows, the query without free intercept, its l1 sensitivity."""
    X, radius = _clipped_rows(X, x_norm, query.fit_intercept)
    n_classes = len(query.classes)
    bound = logistic_sensitivity_bound(query.C, x_norm=radius, n_classes=n_classes)
    total = query.C * len(X) * radius  # the longest gradient of the losses
    if total * radius > _LARGEST_CONDITION:
        raise ValueError(
            "C must be at most 2**40 / (n_records * x_norm**2) with "
            f"sensitivity='bound', for the solver to be exact; got {query.C!r}."
        )
    n_outputs = X.shape[1] * (n_classes if n_classes > 2 else 1)
    # The bound is for the exact minimizer, which is no further away than the
    # gradient is long: pay for the rounding of both gradients.
    largest = min(2 * total, math.sqrt(2 * query.C * len(X) * math.log(n_classes)))
    gradient = total * (1 + radius * largest) + largest
    bound += 2 * n_outputs * gradient * 2.0**-50
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
