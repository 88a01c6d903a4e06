"""Proven bounds of what solvers return: those of exact minimizers, and the rounding."""

import math

import numpy as np
import pytest

from skparisk.linear_model import logistic_sensitivity_bound, ridge_sensitivity_bound
from skparisk.queries._bounds import (
    solved_logistic_bound,
    solved_ridge_bounds,
)

N, D, RADIUS = 5000, 7, 3.0


def test_ridge_pays_for_the_condition_of_the_worst_penalty():
    """Records and features times the condition of the normal equations."""
    limits = {"x_norm": RADIUS, "y_bound": 2.0}
    alphas = [1e-4, 1.0, 30.0]
    exact = [ridge_sensitivity_bound(N, alpha, **limits) for alpha in alphas]
    paid = np.array(solved_ridge_bounds(alphas, (N, D), **limits)) - exact
    condition = 1 + N * RADIUS**2 / 1e-4
    # No solution is longer than this, and both may be off.
    sizes = 2.0 * np.sqrt(N / np.array(alphas)) / 2
    share = (N + 8 * D) * condition * 2.0**-52
    np.testing.assert_allclose(paid, 2 * share * sizes, rtol=1e-5)
    assert solved_ridge_bounds([1.0], (N, D), **limits)[0] < exact[1] * (1 + 1e-5)


def test_ridge_has_no_bound_beyond_the_digits_of_its_solver():
    limits = {"x_norm": 4.0, "y_bound": 1.0}
    assert solved_ridge_bounds([2.0**-34], (1, 1), **limits) is not None
    assert solved_ridge_bounds([1.0, 2.0**-36], (1, 1), **limits) is None
    assert solved_ridge_bounds([2.0**-34], (3, 1), **limits) is not None
    assert solved_ridge_bounds([2.0**-34], (4, 1), **limits) is None


def test_logistic_regression_pays_for_its_gradient():
    """Each of two gradients is a sum of n terms, at coefficients that are so large."""
    for n_classes, n_outputs in [(2, D), (3, 3 * D), (10, 10 * D)]:
        for C in [1e-6, 100.0]:
            limits = {"x_norm": RADIUS, "n_classes": n_classes}
            exact = logistic_sensitivity_bound(C, **limits)
            solved = solved_logistic_bound(C, (N, D), **limits)
            # At 0 no loss is above the log of n_classes, and the penalty is 0.
            largest = min(
                2 * C * N * RADIUS, math.sqrt(2 * C * N * math.log(n_classes))
            )
            gradient = C * N * RADIUS * (1 + RADIUS * largest) + largest
            paid = 2 * n_outputs * gradient * 2.0**-50
            paid += 2.0**-33 * C * RADIUS  # as Newton's method stops
            off = {"rel": 1e-5, "abs": exact * 2.0**-52}
            assert solved - exact == pytest.approx(paid, **off)
            assert (largest < 1) == (C < 1)


def test_logistic_regression_has_no_bound_beyond_the_digits_of_its_solver():
    logistic = {"x_norm": 4.0, "n_classes": 2}
    assert solved_logistic_bound(2.0**35, (2, 1), **logistic) is not None
    assert solved_logistic_bound(2.0**35, (3, 1), **logistic) is None
    assert solved_logistic_bound(1.01 * 2.0**36, (1, 1), **logistic) is None
