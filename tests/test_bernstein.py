"""The Bernstein mechanism: its polynomial held to other ones, its noise to its law."""

import itertools
import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import SEEDS, assert_law, rejects_law
from scipy import stats
from scipy.interpolate import BPoly

from skparisk.mechanisms import (
    BernsteinMechanism,
    BernsteinPolynomial,
    bernstein_lattice,
)
from skparisk.mechanisms import _bernstein as module


def smooth(points):
    return np.sin(3 * points[:, 0]) + np.prod(points + 0.5, axis=1)


def values_of(function, lattice_size, n_dims):
    nodes = bernstein_lattice(lattice_size, n_dims)
    return function(nodes).reshape((lattice_size + 1,) * n_dims)


# The lattice


@pytest.mark.parametrize(("k", "d"), [(1, 1), (4, 1), (1, 3), (3, 2), (10, 2)])
def test_the_nodes_are_all_of_the_lattice_the_last_coordinate_fastest(k, d):
    expected = list(itertools.product([i / k for i in range(k + 1)], repeat=d))
    assert bernstein_lattice(k, d).tolist() == [list(node) for node in expected]


@pytest.mark.parametrize(("k", "d"), [(2**20 - 1, 1), (2**10 - 1, 2), (1, 20), (3, 10)])
def test_as_many_nodes_as_allowed_are_allowed_and_no_more(k, d):
    assert module.count_nodes(k, d) == 2**20
    message = (
        f"lattice_size={k + 1} makes (lattice_size + 1)**{d} nodes for {d} features"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        module.count_nodes(k + 1, d)
    with pytest.raises(ValueError, match="lattice_size"):
        bernstein_lattice(k, d + 1)


# The polynomial


@pytest.mark.parametrize("k", [1, 2, 10, 200])
def test_one_dimension_and_order_one_is_the_bernstein_polynomial_of_scipy(k):
    values = np.random.default_rng(k).normal(size=k + 1)
    x = np.linspace(0, 1, 57)
    oracle = BPoly(values[:, None], [0, 1])(x)
    assert BernsteinPolynomial(values)(x[:, None]) == pytest.approx(oracle, abs=1e-12)


def iterated(values, order, points):
    """Return sum_i C(h, i) (-1)^(i - 1) B^i f by powers of the operator's matrix."""
    k, d = len(values) - 1, values.ndim
    nodes = np.arange(k + 1) / k
    axis = stats.binom.pmf(np.arange(k + 1), k, nodes[:, None])
    operator = np.eye(1)
    for _ in range(d):
        operator = np.kron(operator, axis)
    coefficients = sum(
        math.comb(order, i)
        * (-1) ** (i - 1)
        * np.linalg.matrix_power(operator, i - 1)
        @ values.ravel()
        for i in range(1, order + 1)
    )
    weights = np.ones((len(points), 1))
    for x in points.T:
        basis = stats.binom.pmf(np.arange(k + 1), k, x[:, None])
        weights = (weights[:, :, None] * basis[:, None]).reshape(len(points), -1)
    return weights @ coefficients


@pytest.mark.parametrize("order", [1, 2, 3, 7])
@pytest.mark.parametrize(("k", "d"), [(1, 1), (10, 1), (4, 2), (3, 3), (1, 5)])
def test_the_iterated_operator_is_its_alternating_sum_of_powers(k, d, order):
    rng = np.random.default_rng([k, d])
    values, points = rng.normal(size=(k + 1,) * d), rng.uniform(size=(40, d))
    points[0], points[1] = 0, 1
    polynomial = BernsteinPolynomial(values, order)
    expected = iterated(values, order, points)
    assert polynomial(points) == pytest.approx(expected, abs=1e-10)
    assert polynomial(points).tolist() == polynomial(points).tolist()


def test_the_operator_is_not_iterated_along_each_axis_by_itself():
    """Control: in two dimensions that is another polynomial."""
    f = np.array([1.0, -2.0, 3.0])
    g = np.array([0.5, 4.0, -1.0])
    point = np.array([[0.3, 0.6]])
    joint = BernsteinPolynomial(np.outer(f, g), 2)(point)
    apart = BernsteinPolynomial(f, 2)(point[:, :1]) * BernsteinPolynomial(g, 2)(
        point[:, 1:]
    )
    assert abs(joint - apart) > 0.01
    assert joint == pytest.approx(iterated(np.outer(f, g), 2, point))


def test_a_square_is_off_by_the_variance_over_the_lattice_size():
    """B x² = x² + x (1 - x) / k, and (I - B)^h multiplies that by k^-(h - 1)."""
    x = np.linspace(0, 1, 11)[:, None]
    off = x[:, 0] * (1 - x[:, 0])
    for k, order in itertools.product([2, 10], [1, 2, 3]):
        polynomial = BernsteinPolynomial((np.arange(k + 1) / k) ** 2, order)
        assert polynomial(x) - x[:, 0] ** 2 == pytest.approx(off / k**order, abs=1e-13)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("k", [1, 2, 10, 100, 3000])
@pytest.mark.parametrize("x", [0.0, 1e-12, 0.003, 0.5, 0.97, 1.0])
def test_the_basis_is_that_of_exact_arithmetic(k, x):
    basis = module._basis(k, np.array([x]))[0]
    assert basis.sum() == pytest.approx(1, abs=1e-14)
    for j in sorted({0, 1, k // 2, round(k * x), k}):
        with mpmath.workdps(50):
            exact = mpmath.binomial(k, j) * mpmath.mpf(x) ** j
            exact *= (1 - mpmath.mpf(x)) ** (k - j)
        assert basis[j] == pytest.approx(float(exact), abs=1e-15 * max(10, k))


@pytest.mark.parametrize("values", [1.0, [], [1.0], [[1.0]], [[1, 2, 3], [1, 2, 3]]])
def test_values_of_another_shape_are_refused(values):
    with pytest.raises(ValueError, match="values must have the shape"):
        BernsteinPolynomial(values)


def test_bad_values_orders_and_points_are_refused():
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="values must be finite numbers"):
            BernsteinPolynomial([0.0, value])
    for order in (0, 1.5, True):
        with pytest.raises(ValueError, match="order must be a whole number >= 1"):
            BernsteinPolynomial([0.0, 1.0], order)
    polynomial = BernsteinPolynomial(np.eye(3))
    for points in ([0.5, 0.5], [[0.5]]):
        with pytest.raises(ValueError, match=r"points must have shape \(n_points, 2\)"):
            polynomial(points)
    for number in (-1e-9, 1 + 1e-9, np.nan):
        with pytest.raises(ValueError, match="points must be in the unit cube"):
            polynomial([[0.5, number]])
        with pytest.raises(ValueError, match="axes must be in"):
            polynomial.on_grid([[0.5], [number]])
    for axes in ([[0.5]], [0.5, 0.5]):
        with pytest.raises(ValueError, match="axes must be 2 one-dimensional arrays"):
            polynomial.on_grid(axes)


# The mechanism


@settings(deadline=None, max_examples=30)
@given(
    sensitivity=st.floats(1e-300, 1e290),
    epsilon=st.floats(1e-3, 1e6),
    k=st.integers(1, 6),
    d=st.integers(1, 4),
)
def test_the_noise_is_for_the_sup_norm_times_the_nodes_rounded_up(
    sensitivity, epsilon, k, d
):
    mechanism = BernsteinMechanism(sensitivity, epsilon, lattice_size=k, n_dims=d)
    n_nodes = (k + 1) ** d
    exact = Fraction(sensitivity) * n_nodes
    assert exact <= mechanism.laplace.sensitivity <= exact * (1 + Fraction(1, 2**51))
    assert (mechanism.n_nodes, mechanism.laplace.n_outputs) == (n_nodes, n_nodes)
    least = exact / Fraction(epsilon)
    assert least <= mechanism.noise_scale <= least * (1 + Fraction(1, 2**24))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_released_values_have_the_noise_that_is_paid_for(seed):
    mechanism = BernsteinMechanism(2e-5, 1.0, lattice_size=223, n_dims=2)
    values = np.random.default_rng(0).uniform(size=mechanism.n_nodes)
    released = mechanism.release(values, noise_random_state=seed).values
    noise = released.ravel() - values
    scale = 2e-5 * 224**2
    assert_law(noise, stats.laplace(scale=scale).cdf)
    for wrong in (0.9, 1.1):
        assert rejects_law(noise, stats.laplace(scale=wrong * scale).cdf)


def test_without_noise_it_is_the_polynomial_of_the_values():
    for sensitivity in (0.0, 1.0):
        mechanism = BernsteinMechanism(
            sensitivity, math.inf, lattice_size=3, n_dims=2, order=2
        )
        polynomial = mechanism.release(smooth)
        np.testing.assert_array_equal(polynomial.values, values_of(smooth, 3, 2))
        assert mechanism.noise_scale == 0


def test_no_warning_of_the_function_tells_of_private_data():
    mechanism = BernsteinMechanism(1.0, 1.0, lattice_size=4)
    mechanism.release(lambda points: 1 / np.maximum(1 / points[:, 0], 1.0))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sensitivity": 0.0}, "sensitivity must be a finite number above 0, got 0"),
        ({"sensitivity": np.inf}, "sensitivity must be a finite number above 0, got"),
        ({"sensitivity": 1e308, "epsilon": np.inf}, "sensitivity must be a finite"),
        ({"epsilon": 0.0}, "epsilon must be a number in"),
        ({"epsilon": "1"}, "epsilon must be a number in"),
        ({"lattice_size": 0}, "lattice_size must be a whole number >= 1, got 0"),
        ({"n_dims": 0}, "n_dims must be a whole number >= 1, got 0"),
        ({"n_dims": 18}, r"lattice_size=3 makes .* 18 features"),
        ({"order": 0}, "order must be a whole number >= 1, got 0"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    good = {"sensitivity": 1.0, "epsilon": 1.0, "lattice_size": 3, "n_dims": 2}
    with pytest.raises(ValueError, match=message):
        BernsteinMechanism(**(good | parameters))


def test_bad_values_are_refused():
    mechanism = BernsteinMechanism(1.0, 1.0, lattice_size=3, n_dims=2)
    with pytest.raises(ValueError, match=r"each of the 16 nodes, got shape \(4,\)"):
        mechanism.release(np.zeros(4))
    with pytest.raises(ValueError, match="values must be finite numbers"):
        mechanism.release(lambda points: np.log(points[:, 0]))
