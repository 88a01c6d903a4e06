"""Proposition 19 of Rubinstein and Aldà: a bound that is not proven everywhere."""

from __future__ import annotations

import math

from skparisk.svm._bounds import check_box


def rubinstein_svm_sensitivity_bound(
    n_records: int, C: float, *, n_features: int
) -> float:
    r"""Return Rubinstein and Aldà's bound of the l1 sensitivity of an SVM.

    Parameters
    ----------
    n_records, C, n_features
        As in :func:`~skparisk.svm.svm_sensitivity_bound`, n, C and d.

    Returns
    -------
    bound : float
        Of :math:`\|(w, b) - (w', b')\|_1`.

    Notes
    -----
    Rubinstein and Aldà, ICML 2017, Proposition 19, as far as it can be recovered from
    print: :math:`2 + 2 C_R \sqrt d + 4 C_R d / n` with :math:`C_R = n C`, for hinge
    loss, replace-one, records in [0, 1]^d and an intercept without penalty.
    :func:`~skparisk.svm.svm_sensitivity_bound` is less where n C is at least 1/4;
    below that the formula is not proven.

    Examples
    --------
    >>> from skparisk.papers import rubinstein_svm_sensitivity_bound
    >>> rubinstein_svm_sensitivity_bound(1000, 0.003, n_features=16)
    26.192
    """
    n, weight, d = check_box(n_records, C, n_features)
    return 2 + 2 * weight * math.sqrt(d) + 4 * weight * d / n
