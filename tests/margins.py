"""Linear support vector machines as the textbooks have them."""

import numpy as np
from scipy.optimize import lsq_linear


def signed(X, y, scaling=1.0):
    """Return the records of a problem with labels 0 and 1, times their sign."""
    return np.column_stack([X, np.full(len(X), scaling)]) * np.where(y, 1, -1)[:, None]


def duality_gap(Z, w, C, loss):
    """Return the gap, and the objective."""
    margins, size = 1 - Z @ w, np.linalg.norm(w)
    charged = np.maximum(margins, 0)
    if loss == "squared_hinge":
        gap = 0.5 * np.linalg.norm(w - 2 * C * charged @ Z) ** 2
        return gap, 0.5 * size**2 + C * charged @ charged
    near = np.abs(margins) <= 1e-6 * (1 + np.linalg.norm(Z, axis=1) * size)
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
    return losses.sum() + 0.5 * residual**2, 0.5 * size**2 + C * charged.sum()
