"""Proven bounds of what solvers return: those of exact minimizers, and the rounding."""

import math

import pytest

from skparisk.linear_model import logistic_sensitivity_bound
from skparisk.queries._bounds import solved_logistic_bound

N, D, RADIUS = 5000, 7, 3.0


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
