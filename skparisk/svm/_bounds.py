"""Proven bounds of how far support vector machines move between neighbors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from skparisk.core.checks import check_at_least, check_positive
from skparisk.linear_model._bounds import clip_rows
from skparisk.queries import LinearSVCQuery
from skparisk.queries._bounds import linear_svc_sensitivity_bound
from skparisk.queries._linear_svc import Rows, minimize_hinge
from skparisk.queries._together import Floats

# Of the bound: how far an answer may be from the exact minimizer.
_SHARE = 2.0**-6
# The largest C times squares of all records, up to which `LinearSVC` gets that close.
_LARGEST_SQUARES = 2.0**8
# Of `LinearSVC`: tried until the answer is that close.
_TOLERANCES = (1e-8, 1e-10, 1e-12)
# Which records may be on the margin, of the terms that their margins are sums of.
_BANDS = 2.0 ** -np.arange(12, 40, 3)
_EPS = 2.0**-52


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
    if query.C * len(X) * math.hypot(radius, scaling) ** 2 > _LARGEST_SQUARES:
        raise ValueError(
            "C must be at most 2**8 / (n_records * (x_norm**2 + "
            "intercept_scaling**2)) with sensitivity='bound', for the solver to be "
            f"as exact as the bound; got {query.C!r}."
        )
    exact = linear_svc_sensitivity_bound(
        query.C, x_norm=radius, intercept_scaling=scaling
    )
    checked = CheckedLinearSVCQuery(**vars(query), largest_error=_SHARE * exact)
    # Both answers may be off.
    bound = (1 + 2 * _SHARE) * exact
    l1 = query.n_problems * math.sqrt(X.shape[1] + scaling**2) * bound
    return X, checked, l1 * (1 + 2.0**-40)


@dataclass(frozen=True)
class CheckedLinearSVCQuery(LinearSVCQuery):
    """Minimizers of hinge losses that are proven to be so close to the exact ones.

    NaN where they are not.

    Parameters
    ----------
    largest_error : float
        In the l2 norm, of each problem.
    """

    largest_error: float = 0.0

    def minimize(
        self, rows: Rows, counts: Floats, starts: Floats | None = None
    ) -> tuple[Floats, Floats]:
        for tolerance in _TOLERANCES:
            W, _ = minimize_hinge(rows.Z, counts, self.C, tolerance)
            databases = list(zip(counts, W, strict=True))
            off = np.array([proven_distance(rows, c, w, self.C) for c, w in databases])
            proven = off <= self.largest_error
            if proven.all():
                break
        return np.where(proven[:, None], W, np.nan), off


def proven_distance(rows: Rows, counts: Floats, w: Floats, C: float) -> float:
    """Return how far w may be from the minimizer of hinge losses."""
    return min(_proven_distance(rows, counts, w, C, band) for band in _BANDS)


def _proven_distance(
    rows: Rows, counts: Floats, w: Floats, C: float, band: float
) -> float:
    margins, size = 1 - rows.Z @ w, math.hypot(*w)
    reach = 1 + rows.norms * size
    near = np.abs(margins) <= band * reach
    # The objective is 1-strongly convex: a gap g to any feasible duals puts the
    # minimizer within sqrt(2 g). It is a sum of terms >= 0: losses minus dual times
    # margin of each record, and half the square of w - Z' dual. The former are 0 for
    # records that are not near the margin, with the duals of their sides.
    most = C * counts
    duals = np.where(margins > 0, most, 0.0)
    if near.any():
        Z, rest = rows.Z[near], w - duals[~near] @ rows.Z[~near]
        # In units in which features count alike: it stops by a sum of squares.
        units = np.abs(Z).max(axis=0)
        units[units == 0] = 1.0
        system = (most[near, None] * Z / units).T
        found = lsq_linear(system, rest / units, (0, 1), method="bvls", tol=1e-16)
        duals[near] = most[near] * found.x
    losses = most * np.maximum(margins, 0.0) - duals * margins
    # Of the margins, of q + 1 terms, and of the sums over records: the most there is.
    rounding = (len(w) + 1) * 8 * _EPS * (most * reach)[near].sum()
    residual = math.hypot(*(w - duals @ rows.Z))
    residual += (len(duals) + 4) * _EPS * float(duals @ rows.norms)
    distance = math.sqrt(2 * (losses[near].sum() + rounding) + residual**2)
    return (1 + 2.0**-20) * distance


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
