"""Proven bounds of how far support vector machines move between neighbors."""

from __future__ import annotations

import math
from typing import Any

from skparisk._validate import check_at_least, check_positive, check_relation
from skparisk.linear_model._bounds import clip_rows
from skparisk.queries import LinearSVCQuery
from skparisk.queries._together import Floats

__all__ = [
    "bounded_linear_svc_problem",
    "check_box",
    "linear_svc_sensitivity_bound",
    "svm_sensitivity_bound",
]

# Beyond this the solver is not exact enough for a bound on the exact minimizer.
_LARGEST_CONDITION = 2.0**30


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
        column. ``intercept_`` is s b, so that of what `LinearSVC` calls coefficients
        and intercept, the l1 norm is at most sqrt(n_features + s**2) times the bound.

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
    grows with the residual.

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


def bounded_linear_svc_problem(
    query: LinearSVCQuery, X: Floats, x_norm: Any
) -> tuple[Floats, LinearSVCQuery, float]:
    """Return clipped rows, the query, and a bound of its l1 sensitivity."""
    if query.loss != "hinge":
        raise ValueError(
            "loss must be 'hinge' with sensitivity='bound': other losses have no "
            f"bound; got {query.loss!r}."
        )
    radius = check_positive(x_norm, "x_norm")
    X = clip_rows(X, radius)
    scaling = query.intercept_scaling if query.fit_intercept else 0.0
    bound = linear_svc_sensitivity_bound(
        query.C, x_norm=radius, intercept_scaling=scaling
    )
    (n_records, n_features), longest = X.shape, math.hypot(radius, scaling)
    total = query.C * n_records
    if total * longest**2 > _LARGEST_CONDITION:
        raise ValueError(
            "C must be at most 2**30 / (n_records * (x_norm**2 + "
            "intercept_scaling**2)) with sensitivity='bound', for the solver to be "
            f"exact; got {query.C!r}."
        )
    # The bound is for the exact minimizer w. The solver's duality gap g is down to
    # rounding, and it is within sqrt(2 g) of w: pay for that, on both databases.
    reach = 1 + longest * min(total * longest, math.sqrt(2 * total))
    gap = 2 * total * (n_features + 2) * 2.0**-49 * reach
    bound += 2 * (math.sqrt(2 * gap) + n_records * total * longest * 2.0**-52)
    l1 = query.n_problems * math.sqrt(n_features + scaling**2) * bound
    return X, query, l1 * (1 + 2.0**-40)


def svm_sensitivity_bound(n_records: int, C: float, *, n_features: int) -> float:
    r"""Return a proven bound of the l1 sensitivity of an SVM with a free intercept.

    Parameters
    ----------
    n_records : int
        Records of a database, n >= 1.

    C : float
        Weight of the losses, > 0, as in scikit-learn's `SVC`.

    n_features : int
        Features d >= 1.

    Returns
    -------
    bound : float
        Of :math:`\|(w, b) - (w', b')\|_1`.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee**. For the exact minimizer with hinge loss and a linear kernel, records
    in [0, 1]^d, an intercept without penalty, replace-one, and both classes in both
    databases: :math:`2 + \min(C_R d / 2, \sqrt{C_R d}) + 4 C_R d / n` with
    :math:`C_R = n C`. The last term is for w, the others are for the intercept.

    Examples
    --------
    >>> from skparisk.svm import svm_sensitivity_bound
    >>> round(svm_sensitivity_bound(1000, 0.003, n_features=12), 3)
    8.144
    """
    n, weight, d = check_box(n_records, C, n_features)
    return 2 + min(weight * d / 2, math.sqrt(weight * d)) + 4 * weight * d / n


def check_box(n_records: int, C: float, n_features: int) -> tuple[int, float, int]:
    """Return n, the paper's C, and d."""
    n = check_at_least(n_records, "n_records", 1)
    d = check_at_least(n_features, "n_features", 1)
    return n, check_positive(n * check_positive(C, "C"), "n_records * C"), d
