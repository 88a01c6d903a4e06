"""Linear support vector machines as the textbooks have them."""

import numpy as np
from scipy.optimize import lsq_linear


def signed(X, y, scaling=1.0):
    """Return the records of a problem with labels 0 and 1, times their sign."""
    return np.column_stack([X, np.full(len(X), scaling)]) * np.where(y, 1, -1)[:, None]


def duality_gap(Z, w, C, loss):
    """Return the gap, what rounding explains of it, and the objective."""
    margins, norms = 1 - Z @ w, np.linalg.norm(Z, axis=1)
    size, charged = np.linalg.norm(w), np.maximum(margins, 0)
    unit = 2.0**-48 * (len(w) + 1)
    rounding = unit * (1 + norms * size)
    if loss == "squared_hinge":
        charges = 2 * C * charged
        gap = 0.5 * np.linalg.norm(w - charges @ Z) ** 2
        off = unit * (size + charges @ norms) + 2 * C * (rounding @ norms)
        return gap, off**2, 0.5 * size**2 + C * charged @ charged
    near = np.abs(margins) <= 64 * rounding
    duals = np.where(margins > 0, C, 0.0)
    if near.any():
        duals[near] = 0
        scales = np.abs(Z[near]).max(axis=0)
        scales[scales == 0] = 1
        system, right = (Z[near] / scales).T, (w - duals @ Z) / scales
        # Where C is huge, bounds are in the way of a solution's digits.
        solution = lsq_linear(system * C, right, (0, 1), method="bvls", tol=1e-16)
        duals[near] = C * solution.x
    losses = C * charged - duals * margins
    residual = np.linalg.norm(w - duals @ Z)
    off = unit * (size + duals @ norms)
    explained = C * rounding.sum() + off**2
    return (
        losses.sum() + 0.5 * residual**2,
        explained,
        0.5 * size**2 + C * charged.sum(),
    )
