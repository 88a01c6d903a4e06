"""The minimizer of one logistic regression: derivatives, steps and linear systems."""

import numpy as np
import pytest
from test_logistic import EXACT, gap, make_data, make_query

from skparisk.queries import _logistic_solver
from skparisk.queries._logistic_solver import (
    AverageDatabase,
    _Point,
    _Problem,
    _solve_psd,
    _weighted_gram,
    penalty_shares,
    spread,
)

# Oracles


def make_problem(n_classes, n=30, seed=0, theta=None):
    """Return a problem; with `theta`, records are of the class of its largest score."""
    rng = np.random.default_rng([seed, n_classes])
    design = rng.normal(size=(n, 3)) * [1.0, 0.1, 20.0]
    codes = rng.integers(n_classes, size=n)
    if theta is not None:
        codes = np.vstack([np.zeros(n), theta @ design.T]).argmax(axis=0)
    penalty = np.array([0.3, 1.7, 0.0])
    return _Problem(design, codes, penalty, penalty_shares(n_classes))


@np.errstate(over="ignore", invalid="ignore")
def plain_point(problem, theta):
    """Return value, slope and curvature in extended precision, record by record."""
    k, q = theta.shape
    theta = theta.astype(np.longdouble)
    value, slope = np.longdouble(0), np.zeros((k, q), dtype=np.longdouble)
    curvature = np.zeros((k, q, k, q), dtype=np.longdouble)
    for x, code in zip(
        problem.design.astype(np.longdouble), problem.codes, strict=True
    ):
        scores = np.append(np.longdouble(0), theta @ x)
        odds = np.exp(scores - scores[code])
        others = (
            odds.sum() - odds[code] if odds.max() > 1 else np.delete(odds, code).sum()
        )
        p = odds / (1 + others)
        value += np.log1p(others)
        residuals = p.copy()
        residuals[code] = -others / (1 + others)
        rest = np.array([np.delete(odds, a).sum() for a in range(k + 1)]) / (1 + others)
        slope += residuals[1:, None] * x
        for a in range(k):
            for b in range(k):
                weight = p[1 + a] * (rest[1 + a] if a == b else -p[1 + b])
                curvature[a, :, b] += weight * np.outer(x, x)
    for a in range(k):
        for b in range(k):
            share = problem.shares[a, b] * problem.penalty
            slope[a] += share * theta[b]
            value += (theta[a] * share * theta[b]).sum() / 2
            curvature[a, :, b] += np.diag(share)
    return value, slope, curvature.reshape(k * q, k * q)


def close(found, exact, digits=1e-12):
    return abs(found - exact).max() <= digits * abs(exact).max()


# Derivatives


@pytest.mark.parametrize("size", [0.0, 0.3, 5.0, 60.0])
@pytest.mark.parametrize("of_largest", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_a_point_has_the_value_and_derivatives_of_the_objective(
    n_classes, of_largest, size
):
    """Also where all classes are sure, and losses far below rounding errors of 1."""
    theta = size * np.random.default_rng(n_classes).normal(size=(n_classes - 1, 3))
    problem = make_problem(n_classes, theta=theta if of_largest else None)
    point = _Point(problem, theta)
    value, slope, curvature = plain_point(problem, theta)
    assert close(point.value, value)
    assert close(point.slope(), slope)
    assert close(point.curvature(), curvature)


def test_small_losses_are_not_rounded():
    """Of a class that is sure, without a penalty beside it."""
    problem = _Problem(
        np.array([[30.0], [-40.0]]), np.array([1, 0]), np.zeros(1), np.ones((1, 1))
    )
    point = _Point(problem, np.ones((1, 1)))
    assert point.value == pytest.approx(np.exp(-30) + np.exp(-40), rel=1e-12, abs=0)


def test_the_spread_is_that_of_all_classes():
    scores = np.array([[1.0, -3.0, 2.0, 0.0], [2.0, -1.0, -2.0, 0.0]])
    every = np.vstack([np.zeros(4), scores])
    np.testing.assert_array_equal(spread(scores), np.ptp(every, axis=0))


@pytest.mark.parametrize("in_cache", [1, 6, 7, 1000])
def test_weighted_products_are_summed_by_stretches(in_cache, monkeypatch):
    monkeypatch.setattr(_logistic_solver, "_IN_CACHE", in_cache)
    rng = np.random.default_rng(0)
    design, weights = rng.normal(size=(7, 3)), rng.normal(size=7)
    expected = np.einsum("n,ni,nj->ij", weights, design, design)
    np.testing.assert_allclose(_weighted_gram(design, weights), expected, rtol=1e-13)


# Linear systems


def make_psd(eigenvalues, seed=0):
    rng = np.random.default_rng(seed)
    vectors, _ = np.linalg.qr(rng.normal(size=(len(eigenvalues),) * 2))
    matrix = vectors * eigenvalues @ vectors.T
    return (matrix + matrix.T) / 2, rng.normal(size=len(eigenvalues))


@pytest.mark.parametrize(
    ("eigenvalues", "digits"),
    [([1.0, 2.0, 0.3], 1e-14), ([1.0, 3.0, 1e-3], 1e-12), ([1.0, 1.5, 1e-11], 1e-4)],
)
def test_systems_are_solved_whatever_the_scales_of_columns(eigenvalues, digits):
    """By a factor or by eigenvalues, where they are far apart."""
    matrix, vector = make_psd(eigenvalues)
    found = _solve_psd(matrix, vector)
    assert close(found, np.linalg.solve(matrix, vector), digits)
    # Powers of 4 scale exactly.
    for powers in ([0, 40, -40], [30, 31, 32], [-30, -31, -32]):
        scales = 4.0 ** np.array(powers)
        scaled = _solve_psd(matrix * scales * scales[:, None], vector * scales)
        np.testing.assert_array_equal(scaled * scales, found)


def test_columns_of_zeros_are_left_out():
    matrix, vector = make_psd([1.0, 2.0, 0.5])
    whole = np.zeros((4, 4))
    whole[:3, :3] = matrix
    found = _solve_psd(whole, np.append(vector, 0.0))
    assert close(found[:3], np.linalg.solve(matrix, vector), 1e-13)
    assert found[3] == 0


@pytest.mark.parametrize("n_columns", [2, 3, 64])
@pytest.mark.parametrize("seed", range(5))
def test_there_is_no_step_along_rounding_errors(seed, n_columns):
    """Of columns that are the same, no direction but their sum is known."""
    rng = np.random.default_rng(seed)
    column = rng.normal(size=(50, 1))
    design = np.tile(column, n_columns) * (
        1 + 2.0**-52 * rng.integers(2, size=n_columns)
    )
    matrix = design.T @ design
    vector = design.T @ rng.normal(size=50)
    least = np.linalg.lstsq(matrix, vector, rcond=1e-10)[0]
    assert np.linalg.norm(_solve_psd(matrix, vector)) < 10 * np.linalg.norm(least)


def test_a_factor_that_is_rounding_is_not_used():
    """Where it can be computed, but eigenvalues are below what that leaves."""
    n, least = 64, 2.0**-50
    matrix = np.full((n, n), 1 - least) + least * np.eye(n)
    np.linalg.cholesky(matrix)
    # Of the direction of these signs, what is known is at most that share.
    signs = (-1.0) ** np.arange(n)
    found = _solve_psd(matrix, 1 + 2.0**-38 * signs)
    expected = 1 / n + 2.0**-38 * signs / (n * 2.0**-52 * n)
    np.testing.assert_allclose(found, expected, rtol=0.02)


# Steps


def hard_problem(seed, n_classes=3):
    """Return a problem that whole Newton steps from zero may not solve."""
    rng = np.random.default_rng([seed, 8, n_classes, 3])
    X = rng.standard_cauchy(size=(8, 3))
    codes = rng.integers(n_classes, size=8)
    X = np.column_stack([X, np.ones(8)])
    penalty = np.append(np.full(3, 1e-6), 0.0)
    shares = penalty_shares(n_classes)
    return _Problem(X / np.linalg.norm(X, axis=0), codes, penalty, shares)


def slope_left(problem, theta):
    """Return the slope that is left, of what it was at zero."""
    _, slope, _ = plain_point(problem, theta)
    _, first, _ = plain_point(problem, np.zeros_like(theta))
    return float(abs(slope).max() / abs(first).max())


def newton_step(point):
    slope = point.slope()
    return -_solve_psd(point.curvature(), slope.ravel()).reshape(slope.shape)


@pytest.mark.parametrize(
    ("n_classes", "seed"),
    [
        (2, 40),
        (2, 170),
        (3, 34),
        (3, 53),
        (3, 98),
        (3, 161),
        (4, 15),
        (4, 65),
        (4, 121),
    ],
)
def test_whole_steps_lead_astray_and_shorter_ones_do_not(n_classes, seed):
    problem = hard_problem(seed, n_classes)
    point = _Point(problem, np.zeros((n_classes - 1, 4)))
    with np.errstate(all="ignore"):
        for _ in range(60):
            point = _Point(problem, point.theta + newton_step(point))
    found = problem.solve()
    assert not np.allclose(point.theta, found, rtol=0.1)
    assert slope_left(problem, found) < 1e-12


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("size", [0.0, 1e-9, 1.0, 20.0])
def test_each_step_goes_down(size, n_classes):
    """Wherever it begins: where whole steps go up, and where there are none at all."""
    shorter = 0
    for seed in range(20):
        problem = make_problem(n_classes, n=12, seed=seed)
        theta = np.random.default_rng(seed).normal(size=(n_classes - 1, 3))
        point = _Point(problem, problem.solve() + size * theta)
        step = newton_step(point)
        move = spread(step @ problem.design.T).max()
        expected = float((point.slope() * step).sum())
        there = problem._line_search(point, step, move, expected)
        before, after = (plain_point(problem, p.theta)[0] for p in (point, there))
        assert after <= before * (1 + 1e-15)
        if size >= 1:  # not less than a share of what the slope promises
            length = np.linalg.norm(there.theta - point.theta) / np.linalg.norm(step)
            shorter += length < 0.99
            assert after <= before + 1e-4 * length * expected
            # As short as is sure at the least, and a whole step if that goes down.
            assert length >= min(1.0, 0.499 / move)
            whole = plain_point(problem, point.theta + step)[0]
            assert (length > 0.99) == bool(whole <= before + 1e-4 * expected)
    assert (shorter > 0) == (size >= 1)


def test_a_step_that_goes_up_a_little_is_halved():
    """Where the curvature grows by all that it may, beside a slope that is constant."""
    theta = np.array([[60.0]])
    move, loss = 1.9, np.exp(-60.0)
    penalty = (1 + move) * loss / (60 - move)
    problem = _Problem(
        np.ones((1, 1)), np.array([1]), np.array([penalty]), penalty_shares(2)
    )
    point = _Point(problem, theta)
    step = newton_step(point)
    assert step[0, 0] == pytest.approx(-move)
    before, up = (plain_point(problem, at)[0] for at in (theta, theta + step))
    assert before < up < before * (1 + 1e-2)
    there = problem._line_search(point, step, move, float(point.slope()[0, 0] * -move))
    assert there.theta[0, 0] == pytest.approx(60 - move / 2)


def test_a_step_that_goes_nowhere_is_halved():
    """To the other side of an objective that is the same on both."""
    problem = _Problem(
        np.ones((2, 1)), np.array([0, 1]), np.array([1e6]), penalty_shares(2)
    )
    point = _Point(problem, np.array([[10.0]]))
    expected = -20.0 * float(point.slope()[0, 0])
    there = problem._line_search(point, np.array([[-20.0]]), 20.0, expected)
    assert there.theta[0, 0] == 0


def test_few_steps_are_taken(monkeypatch):
    """Curvature is not taken again where it is what it was; and there is an end."""
    taken = []
    curvature = _Point.curvature
    monkeypatch.setattr(
        _Point, "curvature", lambda self: taken.append("curvature") or curvature(self)
    )
    slope = _Point.slope
    monkeypatch.setattr(
        _Point, "slope", lambda self: taken.append("slope") or slope(self)
    )
    for n_classes in (2, 3, 4):
        taken.clear()
        make_problem(n_classes).solve()
        assert taken.count("curvature") <= 9
        assert taken.count("slope") <= 12


@pytest.fixture
def few(monkeypatch):
    """Begin with every second of eight records and more, of two of a class."""
    for name, number in (("_SKIPPED", 2), ("_FEWEST", 4), ("_OF_EACH", 2)):
        monkeypatch.setattr(_logistic_solver, name, number)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_of_many_records_a_part_is_solved_first(n_classes, few):
    problem = make_problem(n_classes, n=41)
    assert len(problem.codes[::4]) >= 4
    start = problem._start()
    half = _Problem(
        problem.design[::2], problem.codes[::2], problem.penalty / 2, problem.shares
    )
    assert slope_left(half, start) < 1e-12
    assert slope_left(problem, problem.solve()) < 1e-12
    assert slope_left(problem, start) > 1e-3


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_part_needs_records_of_each_class(n_classes, few):
    for missing in range(n_classes):
        problem = make_problem(n_classes, n=41)
        problem.codes[2:][problem.codes[2:] == missing] = (missing + 1) % n_classes
        assert not problem._start().any()
    assert not make_problem(n_classes, n=6)._start().any()


def test_a_part_may_be_just_large_enough(few):
    problem = make_problem(2, n=8)
    problem.codes[::2] = [0, 1, 1, 0]
    assert problem._start().any()


# The data


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_units_of_columns_change_units_of_answers(n_classes, fit_intercept):
    """Units that are powers of 2, up to where numbers end."""
    X, y = make_data(n_classes, 60)
    n_rows = 1 if n_classes == 2 else n_classes
    answer = make_query(n_classes, 0.7, fit_intercept)(X, y)
    for power in (-500, -30, 3, 500):
        query = make_query(n_classes, 0.7 * 4.0**-power, fit_intercept)
        scaled = query(X * 2.0**power, y)
        scaled[: 4 * n_rows] *= 2.0**power
        np.testing.assert_allclose(scaled, answer, rtol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_column_of_zeros_is_no_error_for_any_penalty(fit_intercept):
    X, y = make_data(2, 64)
    for C in (1e308, 1.0, 1e-308):
        query = make_query(2, C, fit_intercept)
        without = query(X[:, :3], y)
        for number in (0.0, 2.0**-1000, 2.0**520, 2.0**1000):
            answer = query(np.column_stack([X[:, :3], np.full(64, number)]), y)
            assert np.isfinite(answer).all()
            if fit_intercept or number == 0:
                assert answer[3] == 0
                np.testing.assert_allclose(np.delete(answer, 3), without, rtol=1e-6)


def test_data_may_be_any_numbers():
    X, y = make_data(3, 80)
    query = make_query(3)
    for kind in (bool, np.uint8, np.int8, np.float32, object):
        some = np.asfortranarray((60 * abs(X)).astype(kind))
        expected = query(some.astype(float), y)
        np.testing.assert_array_equal(query(some, y), expected)
        np.testing.assert_allclose(query(some.tolist(), y), expected, rtol=1e-12)
        assert gap(query, some.astype(float), y, expected) < EXACT


# The average database of a pool


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("part", [None, np.arange(3, 90, 2)])
def test_the_average_database_is_the_pool_with_other_weights(
    part, n_classes, fit_intercept
):
    """Or a part of the pool."""
    X, y = make_data(n_classes, 90)
    X += 3.0
    codes = (y / 2).astype(int)
    average = AverageDatabase.of(
        X,
        codes,
        n_classes=n_classes,
        C=0.3,
        fit_intercept=fit_intercept,
        n_records=200,
        part=part,
    )
    rows = np.arange(90) if part is None else part
    share = 200 / len(rows)
    assert average.share == share
    np.testing.assert_array_equal(average.counts, np.full((1, len(rows)), share))
    query = make_query(n_classes, 0.3 * share, fit_intercept)
    np.testing.assert_allclose(average.answer, query(X[rows], y[rows]), rtol=1e-12)
    # In its own coordinates, the slope is 0 there.
    center = X[rows].mean(axis=0) if fit_intercept else np.zeros(4)
    design = X[rows] - center
    if fit_intercept:
        design = np.column_stack([design, np.ones(len(rows))])
    np.testing.assert_allclose(average.center, center)
    np.testing.assert_allclose(average.design, design)
    expected = [1 / 0.3] * 4 + [0.0] * fit_intercept
    np.testing.assert_allclose(average.penalty, expected)
    assert average.of_class.dtype == float
    for code in range(1, n_classes):
        np.testing.assert_array_equal(average.of_class[code - 1], codes[rows] == code)
    problem = _Problem(
        design, codes[rows], average.penalty / share, penalty_shares(n_classes)
    )
    assert slope_left(problem, average.theta) < 1e-12
    assert (average.C, average.n_records) == (0.3, 200)
    assert average.X is X
    assert average.codes is codes
    canceling = abs(average.theta[:, :4]) @ abs(center)
    assert average.canceling == pytest.approx(canceling.max())
