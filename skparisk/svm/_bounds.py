"""Proven bounds of how far support vector machines move between neighbors."""

from __future__ import annotations

import math

from skparisk.core.checks import check_at_least, check_positive


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
