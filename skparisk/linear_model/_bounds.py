"""Proven bounds of how far linear models move between neighboring databases."""

from __future__ import annotations

import math

from skparisk._validate import check_at_least, check_choice, check_positive
from skparisk.neighbors import RELATIONS

__all__ = ["ridge_sensitivity_bound"]


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
    check_choice(relation, "relation", RELATIONS)
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
