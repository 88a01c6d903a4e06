"""The solver for hinge losses: each step and each proven bound, against its formula."""

import math
from fractions import Fraction

import numpy as np
import pytest
from test_linear_svc_solver import (
    EPS,
    SOME,
    distance,
    lengths,
    margins,
    solve_exactly,
    some_records,
)

from skparisk.queries import _linear_svc_hinge as hinge
from skparisk.queries._linear_svc_hinge import Start, _Interior, _Polished
from skparisk.queries._linear_svc_solver import Rows

# Interior points


def interior(seed, n, q):
    """Return points of five databases, the first of which has no records."""
    Z, _, rng = some_records(seed, n, q)
    bounds = 0.3 * rng.integers(3, size=(5, n))
    bounds[0] = 0
    W, fixed = rng.normal(size=(2, 5, q)) / np.abs(Z).max(initial=1e-9)
    return Z, _Interior.around(Rows(Z), bounds, W, fixed, 0.25)


PLACES = [*SOME, (0, 0, 2)]


@pytest.mark.parametrize(("seed", "n", "q"), PLACES)
def test_points_start_as_central_as_their_margins_allow(seed, n, q):
    Z, points = interior(seed, n, q)
    expected = np.array([margins(Z, w) for w in points.W]).reshape(5, n)
    np.testing.assert_allclose(points.slack - points.excess, expected, atol=1e-12)
    least = np.minimum(points.slack, points.excess)
    np.testing.assert_allclose(least, 0.25, atol=1e-12)
    np.testing.assert_allclose(points.alphas + points.rest, points.bounds)
    products = points.alphas * points.excess
    np.testing.assert_allclose(products, points.rest * points.slack, atol=1e-12)
    part = points.part(np.array([2, 4]))
    np.testing.assert_array_equal(part.W, points.W[[2, 4]])
    np.testing.assert_array_equal(part.slack, points.slack[[2, 4]])


@pytest.mark.parametrize(("seed", "n", "q"), PLACES)
def test_complementarity_is_the_mean_product_in_units_of_bounds(seed, n, q):
    _, points = interior(seed, n, q)
    expected = np.zeros(5)
    for i in range(1, 5):
        total = points.alphas[i] @ points.excess[i] + points.rest[i] @ points.slack[i]
        if points.bounds[i].any():
            expected[i] = total / (2 * points.bounds[i].sum())
    np.testing.assert_allclose(points.complementarity(), expected, atol=1e-15)


def test_sides_compare_duals_to_what_they_move():
    """In units of the larger of 1 / bound and the square of the record's length."""
    rng = np.random.default_rng(0)
    Z = np.outer(2.0 ** np.arange(-2, 3), [1.0, 0.0]).repeat(40, axis=0)
    shape = (3, len(Z))
    alphas, rest, excess, slack = 2.0 ** rng.integers(-3, 4, size=(4, *shape))
    bounds = 2.0 ** rng.integers(-4, 5, size=shape)
    # Where there is no record, there is nothing to weigh.
    bounds[:, ::7] = alphas[:, ::7] = rest[:, ::7] = 0
    W = np.zeros((3, 2))
    points = _Interior(W, W, alphas, rest, excess, slack, bounds)
    expected = np.ones(shape)
    for i, j in np.ndindex(shape):
        unit = max(1 / bounds[i, j] if bounds[i, j] else 0, Z[j, 0] ** 2)
        if alphas[i, j] * unit <= excess[i, j]:
            expected[i, j] = 0
        elif rest[i, j] * unit <= slack[i, j]:
            expected[i, j] = 2
    assert set(expected.ravel()) == {0, 1, 2}
    np.testing.assert_array_equal(points.sides(Rows(Z)), expected)


def predicted_and_corrected(Z, points, i):
    """Return what a step of Mehrotra's method leads to, from all equations at once."""
    W, fixed, a, b, s, x, bounds = (
        getattr(points, name)[i]
        for name in ("W", "fixed", "alphas", "rest", "excess", "slack", "bounds")
    )
    used, q = bounds > 0, len(W)
    Z, (a, b, s, x, bounds) = Z[used], (v[used] for v in (a, b, s, x, bounds))
    n = len(a)
    eye, none = np.eye(n), np.zeros((n, n))

    def direction(lower, upper):
        system = np.block(
            [
                [np.eye(q), -Z.T, np.zeros((q, 2 * n))],
                [Z, none, -eye, eye],
                [np.zeros((n, q)), np.diag(s), np.diag(a), none],
                [np.zeros((n, q)), -np.diag(x), none, np.diag(b)],
            ]
        )
        dual, primal = fixed + a @ Z - W, 1 - Z @ W - x + s
        right = np.concatenate([dual, primal, lower, upper])
        return np.split(np.linalg.solve(system, right), [q, q + n, q + 2 * n])

    def longest(*moves):
        values = zip((a, b, s, x), moves, strict=True)
        shares = [-m / v for vs, ms in values for v, m in zip(vs, ms, strict=True)]
        return 1 / max([1.0, *shares])

    def mean(a, b, s, x):
        return (a @ s + b @ x) / (2 * bounds.sum()) if n else 0.0

    dW, da, ds, dx = direction(-a * s, -b * x)
    t, now = longest(da, -da, ds, dx), mean(a, b, s, x)
    ahead = mean(a + t * da, b - t * da, s + t * ds, x + t * dx)
    center = (ahead / now) ** 3 * now * bounds if n else bounds
    dW, da, ds, dx = direction(center - a * s - da * ds, center - b * x + da * dx)
    t = 0.995 * longest(da, -da, ds, dx)
    return used, (W + t * dW, a + t * da, b - t * da, s + t * ds, x + t * dx)


@pytest.mark.parametrize(("seed", "n", "q"), PLACES)
def test_a_step_is_that_of_all_equations_at_once(seed, n, q):
    Z, points = interior(seed, n, q)
    for _ in range(4):
        better = points.improve(Rows(Z))
        for i in range(5):
            used, (W, *expected) = predicted_and_corrected(Z, points, i)
            np.testing.assert_allclose(better.W[i], W, rtol=1e-6, atol=1e-9)
            names = ("alphas", "rest", "excess", "slack")
            for name, values in zip(names, expected, strict=True):
                found = getattr(better, name)[i]
                np.testing.assert_allclose(found[used], values, rtol=1e-6)
                np.testing.assert_array_equal(
                    found[~used], getattr(points, name)[i, ~used]
                )
        points = better


def test_records_are_guessed_to_stay_where_those_of_the_pool_are():
    """Six times as far as margins move is near; beyond, some of them are charged."""
    Z = np.array([[4.0], [3.5], [2.5], [1.0], [-0.5], [-1.5], [-2.5], [-3.0]])
    for w, charged, near in (
        ([1.0], [5, 6, 7], [2, 3, 4]),
        ([-1.0], [0, 1, 2, 3], [4, 5, 6]),
    ):
        found_near, found_above = hinge._guess(Rows(Z), Start(np.array(w), 0.25))
        np.testing.assert_array_equal(found_near, near)
        np.testing.assert_array_equal(found_above, charged)


# What is proven


def floor_of(Z, counts, w, C):
    """Return what rounding explains of a duality gap."""
    size = math.sqrt(math.fsum(w * w))
    longest = max([0, *(n for n, c in zip(lengths(Z), counts, strict=True) if c)])
    return C * counts.max() * (len(w) + 1) * 8 * EPS * (1 + longest * size)


def objective_of(Z, counts, w, C):
    charged = np.maximum(margins(Z, w), 0)
    return 0.5 * w @ w + C * math.fsum(counts * charged)


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e9, 1e25])
@pytest.mark.parametrize(("seed", "n", "q"), SOME)
def test_gaps_may_be_as_large_as_rounding_and_the_objective_allow(seed, n, q, C):
    Z, counts, rng = some_records(seed, n, q)
    longest = int(np.argmax(lengths(Z)))
    for line in (counts, np.where(np.arange(n) == longest, 0, counts + 2)):
        for size in 10.0 ** np.arange(-9, 2):
            w = size * rng.normal(size=q) / np.abs(Z).max()
            floor = floor_of(Z, line, w, C)
            found = hinge._gap_floor(Rows(Z), line, w, C)
            assert found == pytest.approx(floor, rel=1e-12)
            limit = min(floor, 2.0**-20 * objective_of(Z, line, w, C))
            found = hinge.largest_gap(Rows(Z), line, w, C)
            assert found == pytest.approx(limit, rel=1e-9)


@pytest.mark.parametrize("margin", [-0.5, 1e-12])
@pytest.mark.parametrize("size", [0.25, 4.0])
def test_gaps_are_as_small_as_the_objective_demands(margin, size):
    """However large C is; losses are none or as large as the rest."""
    w, counts, C = np.array([0.6, 0.8]) * size, np.array([1.0, 2.0]), 1e12
    Z = np.array([[1.5, 2.0], [4.0, 3.0]])
    Z *= (1 - margin) / (Z @ w)[:, None]
    limit = 2.0**-20 * objective_of(Z, counts, w, C)
    assert limit < floor_of(Z, counts, w, C)
    found = hinge.largest_gap(Rows(Z), counts, w, C)
    assert found == pytest.approx(limit, rel=1e-3)


def exact_gap(Z, counts, C, w, duals):
    """Return the objective less that of the dual problem, without rounding."""
    half = Fraction(1, 2)
    w, Z = [Fraction(x) for x in w], [[Fraction(x) for x in z] for z in Z]
    duals, C = [Fraction(a) for a in duals], Fraction(C)
    gap = half * sum(x * x for x in w) - sum(duals)
    for z, c in zip(Z, counts, strict=True):
        charged = 1 - sum(x * y for x, y in zip(z, w, strict=True))
        gap += C * Fraction(c) * max(charged, 0)
    for j in range(len(w)):
        gap += half * sum(a * z[j] for a, z in zip(duals, Z, strict=True)) ** 2
    return float(gap)


def assert_polished(Z, counts, on, above, alphas, C):
    found = hinge._polish(Rows(Z), counts, on, above, alphas, C)
    part, total = Z[on], C * counts[above] @ Z[above]
    bounds, limit = C * counts[on], max(1, *part.shape) * EPS
    if len(on):
        inverse = np.linalg.pinv(part, rcond=limit)
        w = inverse.sum(axis=1) + total - inverse @ (part @ total)
        moves = inverse.T @ (w - total - alphas @ part)
        clipped = np.clip(alphas + moves, 0, bounds)
        values = np.linalg.svd(part, compute_uv=False)
        dependent = len(values) < len(on) or values[-1] <= values[0] * limit
        least = 0.0 if dependent else values[-1]
    else:
        w, clipped, least = total, alphas, math.inf
    np.testing.assert_allclose(found.w, w, rtol=1e-6, atol=1e-9 * np.abs(w).max())
    np.testing.assert_allclose(found.alphas, clipped, atol=1e-9 * bounds.max(initial=1))
    assert (found.alphas >= 0).all()
    assert (found.alphas <= bounds).all()
    np.testing.assert_array_equal(found.on, on)
    assert found.least_singular == pytest.approx(least, rel=1e-9)
    largest = np.abs(found.margins).max()
    np.testing.assert_allclose(
        found.margins, margins(Z, found.w), atol=1e-12 * (1 + largest)
    )
    duals = np.zeros(len(Z))
    duals[above], duals[on] = C * counts[above], found.alphas
    gap = exact_gap(Z, counts, C, found.w, duals)
    scale = objective_of(Z, counts, found.w, C)
    assert found.gap == pytest.approx(gap, rel=1e-9, abs=1e-13 * scale)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("q", [1, 3, 5])
def test_gaps_are_those_of_feasible_duals_whatever_is_guessed(seed, q):
    """With few records on the margin, too many, the same twice, or one of zeros."""
    Z, counts, rng = some_records(seed, 14, q)
    Z[3], Z[4] = Z[2], 0
    counts[:5] += 1
    for n_on in (0, 1, 2, 3, 5, 9):
        on = rng.choice(14, size=n_on, replace=False) if n_on != 1 else np.array([4])
        above = np.setdiff1d(np.arange(14), on)[::2]
        C = 10.0 ** rng.uniform(-3, 1)
        alphas = C * counts[on] * rng.uniform(-0.2, 1.2, size=n_on)
        assert_polished(Z, counts, on, above, alphas, C)


def test_records_that_are_as_good_as_dependent_are_dependent():
    Z = np.array([[1.0, 0, 0], [1.0, 1.5 * EPS, 0], [0, 0, 1.0]])
    on, above, counts = np.array([0, 1]), np.array([2]), np.ones(3)
    assert_polished(Z, counts, on, above, np.full(2, 0.5), 1.0)


def hinge_bound(Z, counts, best, C):
    """Return how far a solution may be off, infinite if uncertain, and the radius."""
    q, size, norms = len(best.w), np.linalg.norm(best.w), lengths(Z)
    floor = floor_of(Z, counts, best.w, C)
    radius = 2 * math.sqrt(2 * floor)
    certain = best.gap <= floor
    total, off = 0.0, []
    for i, norm in enumerate(norms):
        if i in best.on:
            off.append(abs(best.margins[i]) + q * EPS * (1 + norm * size))
        elif counts[i] and abs(best.margins[i]) <= radius * norm + floor / C:
            certain = False
        if best.margins[i] > 0:
            total += counts[i] * norm
    for i, alpha in zip(best.on, best.alphas, strict=True):
        slack = min(alpha, C * counts[i] - alpha)
        certain = certain and slack * best.least_singular > radius
    error = np.linalg.norm(off) / best.least_singular + q * EPS * size
    rounding = math.sqrt(counts.sum()) * EPS * C * total
    if len(off) < q:
        error += rounding
    certain = certain and error <= radius / 4 and rounding <= radius / 4
    return (error if certain else math.inf), radius


@pytest.mark.parametrize("n_on", [0, 1, 2, 3])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(5))
def test_errors_of_hinges_are_those_of_their_equations_if_pieces_are_certain(
    seed, C, n_on
):
    Z, counts, rng = some_records(seed, 10, 3)
    Z[-1] *= 1e-9  # so short that its margin is off by rounding only
    counts[:n_on], counts[-1] = rng.integers(1, 4, size=n_on), 1
    rows, on = Rows(Z), np.arange(n_on)
    # Exactly on the margin is not above it.
    ms = np.append(2.0**-50 * np.arange(n_on), rng.choice([-0.5, 0.5, 2], 10 - n_on))
    w = rng.normal(size=3) / np.abs(Z).max()
    floor, norms = floor_of(Z, counts, w, C), np.array(lengths(Z))
    radius, least = 2 * math.sqrt(2 * floor), norms.max() / 7
    clear = _Polished(w, 0.0, on, 0.5 * C * counts[on], ms, least if n_on else math.inf)
    least_slack = radius / clear.least_singular
    cases = [(clear, True)]
    for share in (0.9, 1.1):
        cases.append((clear._replace(gap=share * floor), share < 1))
        for i in (5, 6, 9):
            limit = share * (radius * norms[i] + floor / C)
            for sign in (-1, 1):
                near = ms.copy()
                near[i] = sign * limit
                cases.append(
                    (clear._replace(margins=near), share > 1 or counts[i] == 0)
                )
        for i in range(n_on):
            for place in (share * least_slack, C * counts[i] - share * least_slack):
                alphas = clear.alphas.copy()
                alphas[i] = place
                cases.append((clear._replace(alphas=alphas), share > 1))
            off = ms.copy()
            off[:n_on] = share * radius / 4 * clear.least_singular / math.sqrt(n_on)
            cases.append((clear._replace(margins=off), share < 1))
    for best, certain in cases:
        found = hinge._bound(rows, counts, best, C)
        np.testing.assert_allclose(
            found, hinge_bound(Z, counts, best, C), rtol=1e-9, atol=0
        )
        assert math.isfinite(found[0]) == certain


@pytest.mark.parametrize("n_on", [0, 2, 3])
@pytest.mark.parametrize("share", [0.95, 1.05])
def test_sums_over_very_many_records_are_not_certain(n_on, share):
    """Where they are off by more than a quarter of the radius: some 10**8 records."""
    Z, counts, rng = some_records(0, 10, 3)
    ms = np.append(np.zeros(n_on), np.full(10 - n_on, 0.5))
    w, on = rng.normal(size=3) / np.abs(Z).max(), np.arange(n_on)
    n_times = 1 + counts
    for _ in range(2):
        radius = 2 * math.sqrt(2 * floor_of(Z, n_times, w, 1.0))
        rounding = (n_times * (ms > 0)) @ lengths(Z) * math.sqrt(n_times.sum()) * EPS
        n_times = n_times * (share * radius / 4 / rounding)
    assert n_times.sum() > 1e7
    best = _Polished(w, 0.0, on, n_times[on] / 2, ms, np.max(lengths(Z)))
    found = hinge._bound(Rows(Z), n_times, best, 1.0)
    np.testing.assert_allclose(found, hinge_bound(Z, n_times, best, 1.0), rtol=1e-9)
    assert math.isfinite(found[0]) == (share < 1)


def exact_hinge(Z, counts, C, on, charged):
    """Return the exact minimizer with these records on the margin, after a proof."""
    Z = [[Fraction(x) for x in z] for z in Z]
    C, q = Fraction(C), len(Z[0])

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    total = [sum(C * Fraction(counts[i]) * Z[i][j] for i in charged) for j in range(q)]
    system = [[dot(Z[i], Z[j]) for j in on] for i in on]
    alphas = solve_exactly(system, [1 - dot(Z[i], total) for i in on])
    w = [
        total[j] + sum(a * Z[i][j] for a, i in zip(alphas, on, strict=True))
        for j in range(q)
    ]
    for a, i in zip(alphas, on, strict=True):
        assert 0 <= a <= C * Fraction(counts[i])
    for i, z in enumerate(Z):
        if counts[i] and i not in on:
            assert (dot(z, w) <= 1) == (i in charged)
    return w


@pytest.mark.parametrize("C", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_solutions_of_hinges_are_no_further_off_than_their_errors(seed, C):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(20, 3)) + 0.4
    counts = rng.multinomial(30, np.full(20, 0.05), size=6).astype(float)
    pool = Start(hinge.minimize_hinge(Z, np.full(20, 1.5), C)[0], 0.1)
    starts = np.broadcast_to(pool.w, (6, 3))
    found = hinge.solve_hinge(Rows(Z), counts, starts, C, pool, 1.0)
    for line, w, error, radius in zip(counts, *found, strict=True):
        ms = margins(Z, w)
        near = np.abs(ms) <= 1e-9
        on = np.flatnonzero(near & (line > 0))
        charged = np.flatnonzero((ms > 0) & ~near & (line > 0))
        exact = exact_hinge(Z, line, C, on.tolist(), charged.tolist())
        assert distance(w, exact) <= error < radius


@pytest.mark.parametrize("spread", [1e-9, 1e-3, 0.3, 100.0])
def test_only_wrong_guesses_are_solved_again(monkeypatch, spread):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 3)) + 0.4
    counts = rng.multinomial(60, np.full(40, 0.025), size=6).astype(float)
    w, _ = hinge.minimize_hinge(Z, np.full(40, 1.5), 0.1)
    minimize, again = hinge._minimize, []

    def spy(rows, weights, starts, C, away, guess=None):
        again.extend(weights if guess is None else ())
        return minimize(rows, weights, starts, C, away, guess)

    monkeypatch.setattr(hinge, "_minimize", spy)
    starts = np.broadcast_to(w, (6, 3))
    found = hinge.solve_hinge(Rows(Z), counts, starts, 0.1, Start(w, spread), 1.0)
    assert len(again) == {1e-9: 6, 1e-3: 6, 0.3: 0, 100.0: 0}[spread]
    monkeypatch.undo()
    for line, solved, error in zip(counts, found.W, found.errors, strict=True):
        alone, proven = hinge.minimize_hinge(Z[line > 0], line[line > 0], 0.1)
        assert proven
        np.testing.assert_allclose(solved, alone, rtol=0, atol=1e-12)
        assert error < 1e-12
