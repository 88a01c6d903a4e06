"""Proven bounds of how far the answers of queries move between neighbors.

For exact minimizers, and for what their solvers return, rounding included.
"""

from __future__ import annotations

import math

from skparisk.core.checks import check_at_least, check_positive, check_relation
from skparisk.queries._newton import LAST

# Beyond this a solver is not exact enough for a bound on the exact minimizer.
_LARGEST_CONDITION = 2.0**40


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
    **Guarantee**. For the exact minimizer of :math:`\sum (y - x \theta)^2 + \alpha
    \|\theta\|^2` without intercept. At R = Y = 1, with B the largest norm of a solution
    and g the largest move per unit of residual, replace-one is :math:`\min\{(2 +
    B(n))/\alpha,\ 2 g (1 + B(n - 1)),\ 2 B(n)\}` and add-remove :math:`\min\{g (1 + B(n
    - 1)),\ B(n) + B(n - 1)\}`. The first term: at one optimum the other, 2 alpha
    strongly convex objective has half a gradient of norm at most 2 + B. The second:
    remove one record, add the other.

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
    loss) without intercept: :math:`2 C R` for replace-one, :math:`C R` for add-remove,
    and :math:`\sqrt 2` times that for more than two classes, whatever the number of
    records. The objective is 1-strongly convex, so two minimizers are at most as far
    apart as the gradient of the difference of their objectives is long. The gradient of
    a record's loss is at most R, or :math:`\sqrt 2 R`, long. (Chaudhuri, Monteleoni and
    Sarwate, JMLR 2011, Lemma 7.)

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


def solved_logistic_bound(
    C: float,
    shape: tuple[int, int],
    *,
    x_norm: float,
    n_classes: int,
) -> float | None:
    """Return an l2 bound of solved coefficients; None if the solver is inexact."""
    n_records, n_features = shape
    total = C * n_records * x_norm  # the longest gradient of the losses
    if total * x_norm > _LARGEST_CONDITION:
        return None
    bound = logistic_sensitivity_bound(C, x_norm=x_norm, n_classes=n_classes)
    n_outputs = n_features * (n_classes if n_classes > 2 else 1)
    # The bound is for the exact minimizer, which is no further away than the
    # gradient is long: pay for the rounding of both gradients.
    largest = min(2 * total, math.sqrt(2 * C * n_records * math.log(n_classes)))
    gradient = total * (1 + x_norm * largest) + largest
    # Newton's method stops once scores move by less than LAST / n_records. The distance
    # left is at most the length of the gradient, to which each record adds its share.
    left = 2 * LAST * C * x_norm
    return bound + 2 * n_outputs * gradient * 2.0**-50 + left


def linear_svc_sensitivity_bound(
    C: float,
    *,
    x_norm: float = 1.0,
    intercept_scaling: float = 1.0,
    relation: str = "replace-one",
) -> float:
    r"""Return a bound of the l2 sensitivity of a linear SVM with hinge loss.

    Parameters
    ----------
    C : float
        Weight of the losses, > 0, as in scikit-learn's `LinearSVC`.

    x_norm, relation
        As in :func:`~skparisk.linear_model.ridge_sensitivity_bound`.

    intercept_scaling : float, default=1.0
        Constant s >= 0 of the intercept's column; 0 for no intercept.

    Returns
    -------
    bound : float
        Of :math:`\|(w, b) - (w', b')\|_2`, with b the coefficient of the constant
        column. ``intercept_`` is s b, so for the coefficients and intercept of
        `LinearSVC` the l1 norm is at most sqrt(n_features + s**2) times the bound.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee**. For the exact minimizer of :math:`\frac12 \|(w, b)\|^2 + C \sum \max
    (0, 1 - y (x \cdot w + s b))`: :math:`2 C \sqrt{R^2 + s^2}` for replace-one, half
    of that for add-remove, whatever the number of records. The objective is 1-strongly
    convex, and the loss of a record has subgradients no longer than
    :math:`\sqrt{R^2 + s^2}`. The squared hinge loss has no such bound, as its slope
    grows with the residual. `LinearSVC` stops early, so that its answers may be further
    apart: the bound is no `sensitivity` of :class:`~skparisk.PrivateLinearSVC`.

    Examples
    --------
    >>> from skparisk.svm import linear_svc_sensitivity_bound
    >>> linear_svc_sensitivity_bound(0.1, x_norm=3.0, intercept_scaling=4.0)
    1.0
    """
    weight = check_positive(C, "C")
    radius = check_positive(x_norm, "x_norm")
    if intercept_scaling != 0:
        radius = math.hypot(
            radius, check_positive(intercept_scaling, "intercept_scaling")
        )
    check_relation(relation)
    slope = check_positive(weight * radius, "C * x_norm")
    return 2 * slope if relation == "replace-one" else slope
