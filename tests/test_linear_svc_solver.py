"""Solvers of linear SVMs: each step and each proven bound, against its formula."""

import math
from fractions import Fraction

import numpy as np
import pytest

from skparisk.queries import _linear_svc_hinge as hinge
from skparisk.queries import _linear_svc_solver as squared
from skparisk.queries._linear_svc_solver import Rows

EPS = 2.0**-52


def lengths(Z):
    return [math.sqrt(math.fsum(z * z for z in row)) for row in Z]


def margins(Z, w):
    return np.array([1 - math.fsum(z * w) for z in Z])


def some_records(seed, n=12, q=3):
    """Return records on any scale, some of which are there many times or never."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, q)) * 10.0 ** rng.uniform(-2, 2)
    return Z, rng.integers(4, size=n).astype(float), rng


SOME = [(seed, n, q) for seed in range(6) for n, q in ((12, 3), (3, 5), (1, 1))]


# Records, and steps to minimizers


@pytest.mark.parametrize(("seed", "n", "q"), SOME)
def test_sums_over_records_are_those_of_their_definition(seed, n, q):
    Z, _, rng = some_records(seed, n, q)
    weights, W = rng.uniform(size=(4, n)), rng.normal(size=(4, q))
    weights[0] = 0
    hessians = [
        np.eye(q) + sum(c * np.outer(z, z) for c, z in zip(line, Z, strict=True))
        for line in weights
    ]
    steps = [np.linalg.solve(h, c @ Z) for h, c in zip(hessians, weights, strict=True)]
    for rows in (Rows(Z), Rows(Z, Rows.products(Z))):
        np.testing.assert_allclose(rows.norms, lengths(Z))
        expected = [margins(Z, w) for w in W]
        np.testing.assert_allclose(rows.margins(W), expected, atol=1e-12)
        np.testing.assert_allclose(rows.hessians(weights), hessians, atol=1e-12)
        np.testing.assert_allclose(rows.step(weights), steps, rtol=1e-6, atol=1e-9)
        which = np.arange(0, n, 2)
        part = rows.part(which)
        only = np.where(np.arange(n) % 2, 0.0, weights)
        np.testing.assert_allclose(
            part.hessians(weights[:, which]), rows.hessians(only), atol=1e-12
        )
    for line, step in zip(weights, steps, strict=True):
        found = Rows(Z).accurate_step(line[None])
        np.testing.assert_allclose(found, [step], rtol=1e-6, atol=1e-9)


def test_products_that_are_known_are_summed():
    Z, weights, _ = some_records(0)
    rows = Rows(Z, 3 * Rows.products(Z))
    whole, part = rows.hessians(weights[None])[0], rows.part(np.arange(5))
    np.testing.assert_allclose(whole, np.eye(3) + 3 * (Z.T * weights) @ Z)
    few = part.hessians(weights[None, :5])[0]
    np.testing.assert_allclose(few, np.eye(3) + 3 * (Z[:5].T * weights[:5]) @ Z[:5])


def test_systems_that_are_singular_to_all_digits_are_solved():
    """And never lead up: the product with the right side is positive."""
    ones, scales = np.ones((3, 3)), np.diag([1e-200, 1.0, 1e200])
    right = np.array([[1.0, 1, 1], [1.0, -1, 0], [1e-200, 2, 1e200]])
    found = squared.solve_positive(np.array([ones, ones, scales]), right)
    np.testing.assert_allclose(found[0].sum(), 1)
    assert found[1] @ right[1] > 0
    np.testing.assert_allclose(found[2], [1, 2, 1])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("q", [1, 2, 3])
def test_distinct_rows_are_sorted_and_numbered(seed, q):
    rows = np.random.default_rng(seed).integers(-1, 2, size=(40, q)).astype(float)
    places, numbers = squared.distinct_rows(rows)
    expected, inverse = np.unique(rows, axis=0, return_inverse=True)
    np.testing.assert_array_equal(rows[places], expected)
    np.testing.assert_array_equal(numbers, inverse.ravel())


@pytest.mark.parametrize(("seed", "n", "q"), SOME)
def test_a_line_is_searched_to_a_tenth_of_the_way(seed, n, q):
    Z, counts, rng = some_records(seed, n, q)
    starts, ahead = rng.normal(size=(2, 30, q)) / np.abs(Z).max()
    weights = rng.uniform(size=(30, n)) * counts
    # Towards the minimizer of a quadratic loss, the objective may fall all the way.
    ahead[::3] = Rows(Z).step(weights)[::3]
    before = Rows(Z).margins(starts)
    after = Rows(Z).margins(ahead)
    found = squared._search_line(starts, ahead, before, after - before, weights)

    def slope(i, t):
        w, way = starts[i] + t * (ahead[i] - starts[i]), ahead[i] - starts[i]
        charged = np.maximum(1 - Z @ w, 0)
        return way @ (w - (weights[i] * charged) @ Z)

    shares = []
    for i in range(30):
        way = ahead[i] - starts[i]
        t = (found[i] - starts[i]) @ way / (way @ way)
        np.testing.assert_allclose(found[i], starts[i] + t * way, atol=1e-12)
        tiny = 1e-9 * abs(slope(i, 0.0))
        assert 0 <= t <= 1
        assert t == 0 or slope(i, t) <= tiny
        assert t == pytest.approx(1) or slope(i, t / 0.899 + 4 * EPS) >= -tiny
        shares.append(t)
    assert min(shares) < 0.9 or n == 1


def test_a_step_that_is_exact_is_taken_whole():
    """From 0 towards the minimizer 1/2 of w²/2 + (1 - w)²/2."""
    zero, half, one = np.zeros((1, 1)), np.full((1, 1), 0.5), np.ones((1, 1))
    found = squared._search_line(zero, half, one, -half, one)
    assert found == 0.5


# What is proven of squared hinge losses


def proof(Z, counts, w, C):
    """Return the length of the gradient, what rounding explains, and the objective."""
    gradient, size = list(w), math.sqrt(math.fsum(w * w))
    explained, objective = size, 0.5 * size**2
    for z, count, m, norm in zip(Z, counts, margins(Z, w), lengths(Z), strict=True):
        if m > 0:
            gradient -= 2 * C * count * m * z
            explained += 2 * C * count * norm * (m + 1 + norm * size)
            objective += C * count * m**2
    return np.linalg.norm(gradient), (len(w) + 1) * 8 * EPS * explained, objective


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e9, 1e25])
@pytest.mark.parametrize(("seed", "n", "q"), SOME)
def test_gradients_may_be_as_long_as_rounding_and_the_objective_allow(seed, n, q, C):
    Z, counts, rng = some_records(seed, n, q)
    for size in 10.0 ** np.arange(-9, 1):
        w = size * rng.normal(size=q) / np.abs(Z).max()
        found, longest = squared.gradient_length(Rows(Z), counts, w, C)
        length, explained, objective = proof(Z, counts, w, C)
        largest = math.sqrt(2.0**-19 * objective)
        assert found == pytest.approx(length, rel=1e-9)
        assert longest == pytest.approx(min(explained, largest), rel=1e-12)


@pytest.mark.parametrize("C", [1e15, 1e24])
@pytest.mark.parametrize("size", [0.25, 4.0])
def test_gradients_are_as_short_as_the_objective_demands(size, C):
    """It is little but w²/2 where records are hardly charged, however large C is."""
    w, counts = np.array([0.6, 0.8]) * size, np.array([1.0, 2.0])
    Z = np.array([[1.5, 2.0], [4.0, 3.0]])
    Z *= (1 - 1e-9) / (Z @ w)[:, None]
    _, explained, objective = proof(Z, counts, w, C)
    assert explained > math.sqrt(2.0**-19 * objective)
    _, longest = squared.gradient_length(Rows(Z), counts, w, C)
    assert longest == pytest.approx(math.sqrt(2.0**-19 * objective), rel=1e-6)


@pytest.mark.parametrize(
    "solve", [squared.minimize_squared_hinge, hinge.minimize_hinge]
)
@pytest.mark.parametrize("n_rows", [0, 2])
def test_no_record_and_records_of_zeros_have_a_proven_minimizer(solve, n_rows):
    for counts in (np.zeros(n_rows), np.ones(n_rows)):
        if n_rows or solve is squared.minimize_squared_hinge:
            w, proven = solve(np.zeros((n_rows, 3)), counts, 1.0)
            np.testing.assert_array_equal(w, np.zeros(3))
            assert proven


def squared_bound(Z, counts, w, C):
    """Return how far w may be off, infinite if pieces are uncertain, and the radius."""
    q, size, norms = len(w), np.linalg.norm(w), np.array(lengths(Z))
    ms = margins(Z, w)
    radius = 2.0**-24 * size
    hessian, gradient, terms = np.eye(q), w.copy(), np.abs(w)
    off, certain = 0.0, True
    for z, count, m, norm in zip(Z, counts, ms, norms, strict=True):
        if count and abs(m) <= radius * norm:
            certain = False
        if m > 0:
            hessian += 2 * C * count * np.outer(z, z)
            gradient -= 2 * C * count * m * z
            terms += 2 * C * count * m * np.abs(z)
            off += 2 * C * count * (q * EPS * (1 + size * norm)) ** 2
    unsure = np.abs(gradient) + math.sqrt(counts.sum()) * EPS * terms
    error = np.linalg.norm(np.abs(np.linalg.inv(hessian)) @ unsure)
    error = 2 * (error + math.sqrt(off) / 2)
    return (error if certain and error < radius else math.inf), radius


HADAMARD = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2


def exact_problem(seed):
    """Return records, counts of databases, C, and minimizers, all without rounding.

    Records are orthogonal, and each has a coefficient k / (1 + k); one costs nothing,
    one only has zeros, and one is nowhere.
    """
    rng = np.random.default_rng(seed)
    sizes, scale = 2.0 ** -rng.integers(3, size=4), 2.0 ** rng.integers(-3, 4)
    k = rng.permuted(np.tile([0, 1, 3, 7], (5, 1)), axis=1)
    counts, W = k / sizes**2, (k / (1 + k) / sizes) @ HADAMARD
    Z = np.vstack([sizes[:, None] * HADAMARD, 4 * sizes @ HADAMARD])
    Z = np.vstack([Z, np.zeros((1, 4)), Z[:1]])
    left = 200 - counts.sum(axis=1)
    counts = np.column_stack([counts, left - 3, np.full(5, 3.0), np.zeros(5)])
    return scale * Z, counts, 0.5 / scale**2, W / scale


def assert_errors(Z, counts, C, W, rtol):
    """Compare them to what they should be; return which are finite."""
    found = squared._bound(Rows(Z), counts, W, C)
    expected = [squared_bound(Z, c, w, C) for c, w in zip(counts, W, strict=True)]
    errors, radius = np.transpose(expected)
    np.testing.assert_array_equal(found.W, W)
    np.testing.assert_allclose(found.radius, radius, rtol=1e-12)
    np.testing.assert_allclose(found.errors, errors, rtol=rtol)
    return np.isfinite(errors)


@pytest.mark.parametrize("seed", range(8))
def test_errors_of_exact_solutions_are_what_rounding_may_do(seed):
    Z, counts, C, W = exact_problem(seed)
    assert assert_errors(Z, counts, C, W, 1e-9).all()
    assert assert_errors(Z, counts[:1], C, W[:1], 1e-9).all()
    found = squared.solve_squared_hinge(Rows(Z), counts, np.zeros((5, 4)), C)
    np.testing.assert_allclose(found.W, W, rtol=0, atol=1e-14 * np.abs(W).max())
    assert (np.linalg.norm(found.W - W, axis=1) <= found.errors).all()


@pytest.mark.parametrize("seed", range(8))
def test_errors_grow_with_the_gradient_until_pieces_are_uncertain(seed):
    Z, counts, C, W = exact_problem(seed)
    rng = np.random.default_rng(seed)
    moves = rng.integers(-8, 9, size=(5, 4)) * 2.0**-30 * np.abs(W).max()
    assert assert_errors(Z, counts, C, W + moves, 1e-6).any()
    assert not assert_errors(Z, counts, C, W + 2.0**12 * moves, 1e-6).all()
    # A record that is close to the margin of the first database; also where not drawn.
    for share in (2.0**-26, 2.0**-23, -(2.0**-26)):
        at = (1 + share) * W[0] / (W[0] @ W[0])
        for n_times in (0, 1, 5):
            more = np.column_stack([counts, np.full(5, 1.0) * n_times])
            with_it = np.vstack([Z, at])
            certain = assert_errors(with_it, more, C, W, 1e-6)
            assert certain[0] == (n_times == 0 or abs(share) > 2.0**-24)


def solve_exactly(system, right):
    """Solve linear equations of fractions."""
    lines = [[*line, r] for line, r in zip(system, right, strict=True)]
    for i in range(len(lines)):
        pivot = next(j for j in range(i, len(lines)) if lines[j][i] != 0)
        lines[i], lines[pivot] = lines[pivot], lines[i]
        lines[i] = [x / lines[i][i] for x in lines[i]]
        for j in range(len(lines)):
            if j != i:
                both = zip(lines[j], lines[i], strict=True)
                factor = lines[j][i]
                lines[j] = [x - factor * y for x, y in both]
    return [line[-1] for line in lines]


def exact_squared(Z, counts, w, C):
    """Return the exact minimizer where the records that w charges are charged."""
    q, two_c = len(w), 2 * Fraction(C)
    charged = [
        ([Fraction(x) for x in z], two_c * Fraction(c))
        for z, c, m in zip(Z, counts, margins(Z, w), strict=True)
        if c and m > 0
    ]
    hessian = [
        [Fraction(i == j) + sum(c * z[i] * z[j] for z, c in charged) for j in range(q)]
        for i in range(q)
    ]
    return solve_exactly(hessian, [sum(c * z[i] for z, c in charged) for i in range(q)])


def distance(w, exact):
    return math.sqrt(sum((Fraction(x) - e) ** 2 for x, e in zip(w, exact, strict=True)))


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e5])
@pytest.mark.parametrize("seed", range(4))
def test_solutions_of_squared_hinges_are_no_further_off_than_their_errors(seed, C):
    Z, _, rng = some_records(seed, 20, 3)
    counts = rng.multinomial(30, np.full(20, 0.05), size=6).astype(float)
    weight = C / (Z**2).sum(axis=1).max()
    found = squared.solve_squared_hinge(Rows(Z), counts, np.zeros((6, 3)), weight)
    for line, w, error in zip(counts, found.W, found.errors, strict=True):
        assert distance(w, exact_squared(Z, line, w, weight)) <= error < math.inf
