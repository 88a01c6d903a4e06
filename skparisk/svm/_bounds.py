"""Proven bounds of how far support vector machines move between neighbors."""

from __future__ import annotations

import math
from typing import Any

from skparisk.core.checks import check_at_least, check_positive
from skparisk.linear_model._bounds import clip_rows
from skparisk.queries import LinearSVCQuery
from skparisk.queries._bounds import solved_linear_svc_bound
from skparisk.queries._together import Floats


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
    bound = solved_linear_svc_bound(
        query.C, X.shape, x_norm=radius, intercept_scaling=scaling
    )
    if bound is None:
        raise ValueError(
            "C must be at most 2**30 / (n_records * (x_norm**2 + "
            "intercept_scaling**2)) with sensitivity='bound', for the solver to be "
            f"exact; got {query.C!r}."
        )
    l1 = query.n_problems * math.sqrt(X.shape[1] + scaling**2) * bound
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
