"""Logistic regressions solved together: how far they may be off, and what is proven."""

import numpy as np
import pytest
from scipy.linalg import eigvalsh
from test_logistic import RELATIONS, make_data, make_query, pairs_from
from test_neighbor_groups import groups_from

from skparisk.queries import _logistic_descent, _logistic_pool
from skparisk.queries._logistic_descent import PoolDescent, _Odds, _ratio
from skparisk.queries._logistic_pool import PoolSolver, _Curvature
from skparisk.queries._logistic_records import OwnRecords, Records, SharedRecords
from skparisk.queries._logistic_solver import (
    AverageDatabase,
    minimizer,
    penalty_shares,
    released,
)
from skparisk.queries._together import CLOSE
from skparisk.reference import TableReference

N, D, C = 60, 4, 0.3  # records of a database and of the pool, features
M = 3  # databases
EVERY = slice(None)


def make_average(n_classes, fit_intercept=True, n_rows=N, shift=3.0, n_records=N):
    X, y = make_data(n_classes, n_rows)
    return AverageDatabase.of(
        X + shift,
        (y / 2).astype(int),
        n_classes=n_classes,
        C=C,
        fit_intercept=fit_intercept,
        n_records=n_records,
    )


def counts_of(average):
    """Return counts of databases, of which one lacks most of the records."""
    rng = np.random.default_rng(0)
    n_rows = len(average.design)
    counts = rng.multinomial(N, np.full(n_rows, 1 / n_rows), size=M).astype(float)
    counts[1, rng.permutation(n_rows)[: n_rows // 2]] = 0.0
    return counts


def own_records(records):
    """Return the same records as those of each database by itself."""
    Z, of_class = (np.stack([part] * M) * 1.0 for part in (records.Z, records.of_class))
    return OwnRecords(Z, of_class, of_class, records.penalty)


def exact_answers(average, counts):
    """Return minimizers in the coordinates of the features, and of each database."""
    found = []
    for line in counts.astype(int):
        X, codes = (
            np.repeat(part, line, axis=0) for part in (average.X, average.codes)
        )
        n_classes = len(average.of_class) + 1
        found.append(
            minimizer(
                X,
                codes,
                n_classes=n_classes,
                C=C,
                fit_intercept=average.fit_intercept,
            )
        )
    return np.array(found)


def centered(average, theta):
    """Return the same for features that are centered."""
    theta = theta.copy()
    if average.fit_intercept:
        theta[..., -1] += theta[..., :-1] @ average.center
    return theta


# By conjugate gradients


def plain_intercepts(design, p, counts):
    """Return the least curvature in intercepts, and how they tilt, of one database."""
    k, n_rows = p.shape
    shares, x = penalty_shares(k + 1), design[:, :-1]
    weights = np.array([np.diag(each) - np.outer(each, each) for each in p.T])
    matrix = np.einsum("n,nab->ab", counts, weights)
    mixed = np.einsum("n,nab,nj->jab", counts, weights, x)
    least = eigvalsh(matrix, shares)[0]
    lower = np.linalg.cholesky(shares)
    tilts = lower.T @ np.linalg.solve(matrix, mixed) @ np.linalg.inv(lower.T)
    rounding = 0.0
    for row in range(n_rows):
        size = counts[row] * np.linalg.norm(design[row])
        for own in p[:, row]:
            rounding += own * size * ((1 - own) * (n_rows + 8) + 4)
    rounding *= 2.0**-24 * (k + 1)
    return least, np.linalg.norm(tilts) + rounding / least


def plain_errors(average, design, p, residuals, slopes, counts):
    """Return how far answers of one database may be off, by the slope that is left."""
    k = len(p)
    dual = np.linalg.inv(penalty_shares(k + 1))
    terms = 2.0**-50 * abs(residuals).sum(axis=0) * counts

    def length_of(g):
        return np.sqrt(np.trace(g.T @ dual @ g))

    coef = length_of(slopes[:, :D]) + terms @ np.linalg.norm(design, axis=1)
    root, center = np.sqrt(C), np.linalg.norm(average.center)
    if average.fit_intercept:
        least, tilt = plain_intercepts(design, p, counts)
        intercept = length_of(slopes[:, D:]) + terms.sum()
        length = np.hypot(intercept / np.sqrt(least), (coef + tilt * intercept) * root)
        of_intercepts = 1 / np.sqrt(least) + tilt * root
    else:
        length, of_intercepts = coef * root, 0.0
    longest = np.linalg.norm(design, axis=1).max()
    factor = 2.0
    for _ in range(2):
        spread = np.sqrt(2) * factor * length * (longest * root + of_intercepts)
        factor = np.exp(spread) if spread <= np.log(2) else np.inf
    moved = (1 + center) * root + of_intercepts
    return factor * length * moved + 2.0**-50 * average.canceling


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("shift", [0.0, 30.0, 1e6])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_errors_follow_from_slopes(n_classes, fit_intercept, shift, own):
    """As the formula has them, for slopes of any size, and for none."""
    average = make_average(n_classes, fit_intercept, shift=shift)
    solver, counts = PoolDescent(average), counts_of(average)
    records = own_records(solver.records) if own else solver.records
    rng = np.random.default_rng(1)
    v = average.theta + 0.1 * rng.normal(size=(M, *average.theta.shape))
    odds = _Odds.of(records.minus_logits(v, EVERY), records.of_class)
    units = rng.normal(size=v.shape)
    kinds = {"none": 0, "close": 0, "far": 0}
    for size in (0.0, 1e-15, 1e-13, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0):
        # Databases, coefficients and intercepts with slopes of their own size.
        slopes = size * units * [[[1.0]], [[3.0]], [[0.2]]]
        for part in (slopes, slopes * ([0.0] * D + [1.0] * fit_intercept)):
            found = solver._errors(records, v, odds, part, counts)
            for i in range(M):
                expected = plain_errors(
                    average,
                    average.design,
                    odds.p[i],
                    odds.residuals[i],
                    part[i],
                    counts[i],
                )
                kinds["none" if size == 0 else "close"] += expected < np.inf
                kinds["far"] += expected == np.inf
                assert found[i] == pytest.approx(expected, rel=2e-5, abs=0)
    assert min(kinds.values()) >= 3


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_no_minimizer_is_further_away(n_classes, fit_intercept):
    average = make_average(n_classes, fit_intercept)
    solver, counts = PoolDescent(average), counts_of(average)
    records = solver.records
    exact = exact_answers(average, counts)
    n_found = 0
    for seed in range(10):
        away = np.random.default_rng(seed).normal(size=exact.shape)
        if seed % 2:
            away[:, :, :D] *= 1e-3
        for size in (0.1, 1e-2, 1e-3, 1e-6, 0.0):
            v = centered(average, exact) + size * away
            odds = _Odds.of(records.minus_logits(v, EVERY), records.of_class)
            slopes = records.weighted_sums(odds.residuals * counts[:, None], EVERY)
            slopes += solver._penalized(v)
            errors = solver._errors(records, v, odds, slopes, counts)
            off = abs(solver._answers(v) - released(exact, D)).max(axis=1)
            assert (off <= errors).all()
            n_found += np.isfinite(errors).sum()
            largest = abs(solver._answers(v)).max(axis=1)
            proven = solver._prove(records, v, odds, slopes, counts)
            np.testing.assert_array_equal(proven, errors <= CLOSE * largest)
            assert proven.all() == (size == 0)
    assert n_found > 60


def test_answers_are_close_by_their_own_size(monkeypatch):
    """Beside databases whose answers are larger, or smaller."""
    average = make_average(3)
    solver = PoolDescent(average)
    v = average.theta * np.array([1e-3, 1.0, 1e3])[:, None, None]
    largest = abs(solver._answers(v)).max(axis=1)
    for shares in ([1.01, 0.99, 1.01], [0.99, 1.01, 0.99]):
        errors = CLOSE * largest * shares
        monkeypatch.setattr(PoolDescent, "_errors", lambda *_, errors=errors: errors)
        proven = solver._prove(solver.records, v, None, None, None)
        np.testing.assert_array_equal(proven, np.array(shares) < 1)


def simple_records(Z, k):
    return SharedRecords(Z, np.zeros((k, len(Z))), np.zeros((k, len(Z))), np.eye(1))


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_intercepts_do_not_tilt_by_less_than_single_precision_shows(n_classes):
    """Where all of the tilt is rounding: records in opposite places cancel."""
    k = n_classes - 1
    solver = PoolDescent(make_average(n_classes, shift=0.0))
    Z = np.array([[2.0, 0, 0, 1, 1], [-2.0, 0, 0, -1, 1], [0, 0, 0, 0, 1]])
    counts = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 5.0]])
    p = np.array([0.25, 0.125, 0.0625])[:k]
    for factor in (1.0, 2.0**-8):
        odds = _Odds(np.tile(factor * p[:, None], (2, 1, 3)), np.zeros((2, k, 3)))
        least, tilt = solver._intercepts(simple_records(Z, k), odds, counts)
        for i in range(2):
            expected = plain_intercepts(Z, odds.p[i], counts[i])
            assert least[i] == pytest.approx(expected[0], rel=1e-12, abs=0)
            assert tilt[i] == pytest.approx(expected[1], rel=1e-5, abs=0)
            assert tilt[i] < 1e-4


@pytest.mark.parametrize("k", [1, 3])
def test_curvature_that_may_be_rounding_proves_nothing(k):
    """Of the sums that cancel, or beside the curvature of other classes."""
    solver = PoolDescent(make_average(k + 1, shift=0.0))
    Z = np.ones((4, D + 1))
    records, counts = simple_records(Z, k), np.array([[1.0] * 4, [3.0] * 4])

    def least_of(p):
        p = np.tile(np.array(p)[:, None], (2, 1, 4))
        return solver._intercepts(records, _Odds(p, np.zeros_like(p)), counts)

    rest, known = 2.0**-38 * 4, [True, False]
    if k == 1:
        # 1 - p of all, where sums are 4 and 12, of curvature 1 - p times as much.
        cases = [
            ([1 - factor * rest], n)
            for factor, n in zip((1.1, 0.9), known, strict=True)
        ]
    else:
        shares = penalty_shares(4)
        for_all = []
        for factor in (1.3, 0.7):
            p = np.array([0.3, 1e-4, 1e-9])
            matrix = np.diag(p) - np.outer(p, p)
            values = eigvalsh(matrix, shares)
            p[2] *= factor * 2.0**-26 * values[-1] / values[0]
            for_all.append(p)
        cases = [*zip(for_all, known, strict=True)]
    for p, is_known in cases:
        least, tilt = least_of(p)
        expected = plain_intercepts(Z, np.tile(np.array(p)[:, None], 4), counts[0])[0]
        if is_known:
            np.testing.assert_allclose(least, expected * np.array([1, 3]), rtol=0.01)
        else:
            assert (least == 1e-300).all()
            assert (tilt > 1e290).all()


def test_ratios_of_what_is_solved_are_zero():
    ratio = _ratio(np.array([1.0, 3.0, 0.0]), np.array([4.0, 0.5, 0.0]))
    np.testing.assert_array_equal(ratio, np.array([0.25, 6.0, 0.0])[:, None, None])


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_directions_leave_the_share_of_slopes_that_is_asked_for(n_classes, own):
    """By all second derivatives; and where there is no slope, no step."""
    average = make_average(n_classes)
    solver, counts = PoolDescent(average), counts_of(average)
    shared = solver.records
    records = own_records(shared) if own else shared
    rng = np.random.default_rng(2)
    v = average.theta + 0.1 * rng.normal(size=(M, *average.theta.shape))
    _, matrix = shared.derivatives(counts, np.zeros((M, v[0].size)), v)
    odds = _Odds.of(shared.minus_logits(v, EVERY), shared.of_class)
    slopes = rng.normal(size=v.shape)
    slopes[2] = 0.0
    inverse = solver._inverse
    assert inverse.matrix.dtype == np.float32
    for share in (0.2, 1e-2, 1e-4):
        left = np.array([share, 0.9, 0.9])
        steps = solver._directions(records, odds.p, counts, slopes, left, inverse)
        assert steps.dtype == float
        assert not steps[2].any()
        rest = slopes.reshape(M, -1)
        rest = rest - (matrix @ steps.reshape(M, -1, 1))[:, :, 0]
        for i in (0, 1):
            size, before = (
                g @ inverse.matrix @ g for g in (rest[i], slopes[i].ravel())
            )
            assert size <= (left[i] ** 2 + 1e-10) * before * 1.01
    np.testing.assert_array_equal(slopes[2], 0.0)


@pytest.mark.parametrize("n_rows", [N, 5 * N])
def test_what_is_not_proven_is_not_said_to_be(n_rows, monkeypatch):
    monkeypatch.setattr(
        PoolDescent, "_prove", lambda self, r, v, *_: np.zeros(len(v), dtype=bool)
    )
    X, y = make_data(3, n_rows)
    solver = PoolDescent(make_average(3, n_rows=n_rows, shift=0.0))
    _, _, proven = solver(pairs_from(X, y, n_records=N))
    assert proven.shape == (6,)
    assert not proven.any()


def test_databases_of_a_block_may_take_different_numbers_of_steps():
    """Those that are proven leave it: of a pool with records that few of them have."""
    X, y = make_data(3, 5 * N)
    X[:: 2 * N] *= 30.0
    average = AverageDatabase.of(
        X, (y / 2).astype(int), n_classes=3, C=1.0, fit_intercept=True, n_records=N
    )
    solver = PoolDescent(average)
    for pairs in (
        pairs_from(X, y, n_records=N, size=12),
        pairs_from(X, y, n_records=N, size=12, relation="add-remove"),
    ):
        first, second, proven = solver(pairs)
        assert proven.all()
        for i in range(12):
            for found, database in zip(
                (first[i], second[i]), pairs.databases(i), strict=True
            ):
                exact = make_query(3)(*database)
                assert abs(found - exact).max() <= CLOSE * abs(exact).max()


# By all second derivatives


def back_of(solver, average):
    """Return what solutions are multiplied by for features that are centered."""
    back = solver._to_theta.copy()
    if average.fit_intercept:
        back[:, -1] += back[:, :-1] @ average.center
    return back


@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_coordinates_of_a_pool_and_what_is_lost_in_them(
    n_classes, fit_intercept, shift
):
    average = make_average(n_classes, fit_intercept, shift=shift, n_records=200)
    solver = PoolSolver(average)
    q, k = D + fit_intercept, n_classes - 1
    back = back_of(solver, average)
    # One output moves by no more than the gain, and by as much in the worst case.
    units = np.eye(k * q).reshape(k * q, k, q)
    outputs = solver._answers(units)
    one = 1.0 if k == 1 else (n_classes**2 - n_classes - 1) / n_classes**2
    gain = np.linalg.norm(outputs, axis=0).max() / np.sqrt(one)
    assert solver._gain == pytest.approx(gain, rel=1e-12, abs=0)
    sizes = solver._sizes(units * np.arange(1, 1 + k * q)[:, None, None])
    expected = abs(outputs).max(axis=1) * np.arange(1, 1 + k * q)
    np.testing.assert_allclose(sizes, expected)
    # Two scores move apart by no more than the length of a record.
    apart = np.linalg.norm([1.0, 1.0]) if k > 1 else 1.0
    assert solver._reach == pytest.approx(apart, rel=1e-15, abs=0)
    terms = sum(np.linalg.norm(abs(x) @ abs(back).T) for x in average.design)
    rounding = gain * 200 / N * terms + average.canceling
    assert solver._rounding == pytest.approx(2.0**-50 * rounding, rel=1e-12, abs=0)
    np.testing.assert_allclose(solver.records.Z, average.design @ back.T, rtol=1e-12)
    np.testing.assert_allclose(solver._start @ back, average.theta, rtol=1e-9)
    if k == 1:
        np.testing.assert_allclose(solver._curvature[0], np.eye(q), atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_beforehand_take_digits_of_answers_that_are_added_to_them(n_classes):
    X, y = make_data(n_classes, N)
    scores = 7.0 * np.random.default_rng(1).normal(size=(n_classes - 1, N))
    common = {"n_classes": n_classes, "C": C, "fit_intercept": True, "n_records": N}
    average = AverageDatabase.of(X, (y / 2).astype(int), offsets=scores, **common)
    lost = 1 + abs(scores).max()
    assert lost > 10
    assert PoolDescent(average)._digits == 2.0**-50 * lost
    solver = PoolSolver(average)
    back = back_of(solver, average)
    terms = sum(np.linalg.norm(abs(x) @ abs(back).T) for x in average.design)
    rounding = solver._gain * terms * lost + average.canceling
    assert solver._rounding == pytest.approx(2.0**-50 * rounding, rel=1e-12, abs=0)
    assert solver.close == 2.0**-28 > PoolSolver(make_average(n_classes)).close


def plain_step(solver, reach, v, at, matrix, slopes):
    """Return where a step of one database leads, and how far it may be off."""
    inverse = np.linalg.inv(matrix + 2.0**-15 * np.eye(len(matrix)))
    step = inverse @ slopes
    largest = abs(inverse).sum(axis=1).max()
    length = np.sqrt(largest * (slopes @ step))
    change = np.expm1(reach * (np.linalg.norm(v - at) + 2 * length))
    change += 2.0**-12 * largest
    errors = solver._gain * 2 * change * length + solver._rounding
    return v - step.reshape(v.shape), errors if change <= 0.5 else np.inf


@pytest.mark.parametrize("n_classes", [2, 4])
def test_errors_of_a_step_follow_from_slopes_and_curvature(n_classes):
    average = make_average(n_classes)
    solver, counts = PoolSolver(average), counts_of(average)
    records, rng = solver.records, np.random.default_rng(1)
    at = solver._start + 0.1 * rng.normal(size=(M, *solver._start.shape))
    none = np.zeros((M, solver._start.size))
    _, matrix = records.derivatives(counts, none, at)
    curvature = _Curvature(at, matrix)
    n_finite = 0
    for away in (0.0, 0.003, 0.01):
        v = at + away * rng.normal(size=at.shape) * [[[1.0]], [[0.1]], [[2.0]]]
        for size in (1e-12, 1e-6, 1e-3, 0.01, 0.1):
            slopes = size * rng.normal(size=none.shape) * [[1.0], [0.1], [3.0]]
            reach = 1.3 * solver._reach
            found, errors = solver._step(reach, v, curvature, slopes)
            for i in range(M):
                point, error = plain_step(
                    solver, reach, v[i], at[i], matrix[i], slopes[i]
                )
                np.testing.assert_allclose(found[i], point, rtol=1e-9)
                assert errors[i] == pytest.approx(error, rel=1e-9, abs=0)
                n_finite += error < np.inf
    assert 10 < n_finite < 3 * 6 * M - 10


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_no_minimizer_is_further_from_where_a_step_leads(n_classes, fit_intercept):
    average = make_average(n_classes, fit_intercept)
    solver, counts = PoolSolver(average), counts_of(average)
    records = solver.records
    exact = exact_answers(average, counts)
    own = centered(average, exact) @ np.linalg.inv(back_of(solver, average))
    moments = records.sums(counts, records.of_class)
    reach, n_found = solver._reach * records.longest, 0
    for seed in range(10):
        away = np.random.default_rng(seed).normal(size=own.shape)
        for size in (0.03, 1e-2, 1e-3, 1e-6, 0.0):
            at = own + size * away
            _, matrix = records.derivatives(counts, moments, at)
            for v in (at, at + size / 4 * away[:, ::-1]):
                slopes = records.slopes(counts, moments, v)
                step, errors = solver._step(reach, v, _Curvature(at, matrix), slopes)
                off = abs(solver._answers(step) - released(exact, D)).max(axis=1)
                assert (off <= errors).all()
                n_found += np.isfinite(errors).sum()
    assert n_found > 100


def test_inverses_are_there_also_where_curvature_is_rounding():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(M, 3, 3))
    matrix = root @ root.swapaxes(1, 2)
    matrix[1] = 0.0
    matrix[2] = np.diag([1.0, 1e-9, 0.0])
    curvature = _Curvature(np.zeros((M, 1, 3)), matrix)
    inverse = curvature.inverse
    values = np.linalg.eigvalsh(inverse)
    assert (values > 0).all()
    assert (curvature.largest_inverse >= values[:, -1] * (1 - 1e-12)).all()
    np.testing.assert_allclose(
        curvature.largest_inverse, abs(inverse).sum(axis=2).max(axis=1), rtol=1e-6
    )
    # What is added is part of what single precision may have lost.
    assert abs(np.linalg.inv(inverse) - matrix).max() < 2.0**-13
    slopes = rng.normal(size=(M, 3))
    steps = curvature.steps(slopes)
    expected = np.array([inverse[i] @ slopes[i] for i in range(M)])
    np.testing.assert_allclose(steps[:, 0], expected)


@pytest.mark.parametrize(("n_classes", "n_slopes"), [(2, 4), (3, 6)])
def test_a_database_takes_second_derivatives_once_and_a_neighbor_none(
    n_classes, n_slopes, monkeypatch
):
    """What is known of the pool, and of the records that are swapped, saves them."""
    n = 2000
    X, y = make_data(n_classes, n)
    average = AverageDatabase.of(
        X,
        (y / 2).astype(int),
        n_classes=n_classes,
        C=1e-3,
        fit_intercept=True,
        n_records=n,
    )
    solver, calls = PoolSolver(average), []
    for name in ("derivatives", "slopes"):
        plain = getattr(Records, name)

        def counted(self, *args, name=name, plain=plain):
            calls.append(name)
            return plain(self, *args)

        monkeypatch.setattr(Records, name, counted)
    for relation in RELATIONS:
        calls.clear()
        _, _, proven = solver(pairs_from(X, y, n_records=n, relation=relation))
        assert proven.all()
        assert calls.count("derivatives") == 1
        assert calls.count("slopes") <= n_slopes


# Both


@pytest.mark.parametrize(
    ("solver_type", "method"), [(PoolSolver, "_newton"), (PoolDescent, "_descend")]
)
@pytest.mark.parametrize("n_rows", [N, 5 * N])
def test_a_pair_is_proven_if_both_of_its_databases_are(
    n_rows, solver_type, method, monkeypatch
):
    X, y = make_data(2, n_rows)
    pairs = groups_from(TableReference(X, y), size=2, r=2, n_records=N)
    solver = solver_type(make_average(2, n_rows=n_rows, shift=0.0))
    plain, calls = getattr(solver_type, method), []
    # Of two databases: themselves, and the first and the second neighbor of each.
    said = np.array([[1, 0], [1, 1], [0, 1]], dtype=bool)

    def some_proven(self, *args):
        found = plain(self, *args)
        assert found[1].all()
        calls.append(said[len(calls)])
        return found[0], calls[-1].copy(), *found[2:]

    monkeypatch.setattr(solver_type, method, some_proven)
    _, _, proven = solver(pairs)
    assert len(calls) == 3
    assert proven.tolist() == [True, False, False, False]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_neighbors_of_a_group_are_proven_if_the_database_is(first, second, monkeypatch):
    X, y = make_data(2, N)
    pairs = groups_from(TableReference(X, y), size=1, r=2, n_records=N)
    monkeypatch.setattr(_logistic_descent, "_pays", lambda *_: True)
    solver = PoolDescent(make_average(2, shift=0.0))
    plain, calls = PoolDescent._descend, []

    def some_proven(self, *args):
        found, proven = plain(self, *args)
        calls.append(len(proven))
        if len(calls) == 2:
            assert proven.all()
            proven[:] = first
        if len(calls) == 3:
            assert proven.all()
            proven[0] = second
        return found, proven

    monkeypatch.setattr(PoolDescent, "_descend", some_proven)
    _, _, proven = solver(pairs)
    assert calls == [1, 1, 2]
    assert proven.tolist() == [first and second, first]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("r", [1, 2])
@pytest.mark.parametrize("n_rows", [N // 2, N, 5 * N])
@pytest.mark.parametrize("solver_type", [PoolSolver, PoolDescent])
def test_databases_may_be_solved_a_few_at_a_time(
    solver_type, n_rows, r, relation, monkeypatch
):
    X, y = make_data(3, n_rows)
    pairs = groups_from(
        TableReference(X, y), size=5, r=r, n_records=N, relation=relation
    )
    solver = solver_type(make_average(3, n_rows=n_rows, shift=0.0))
    shared = isinstance(solver.records, SharedRecords)
    assert shared == (n_rows <= N)
    if not shared:
        assert solver.records.Z.shape == (n_rows, D + 1)
    whole = solver(pairs)
    answers = whole[0].shape
    assert answers == (5 * r, 3 * (D + 1))
    assert whole[2].all()
    for at_once in (1, 2, 3):
        monkeypatch.setattr(_logistic_pool, "_GATHERED", at_once * N)
        logits = 2 * (n_rows if shared else N)
        monkeypatch.setattr(_logistic_descent, "_TOGETHER", at_once * logits)
        parts = solver(pairs)
        assert parts[2].all()
        for one, other in zip(parts[:2], whole[:2], strict=True):
            assert one.shape == answers
            off = abs(one - other).max(axis=1)
            assert (off <= 2 * CLOSE * abs(other).max(axis=1)).all()
    for i in range(5 * r):
        for found, database in zip(
            (whole[0][i], whole[1][i]), pairs.databases(i), strict=True
        ):
            exact = make_query(3, C)(*database)
            assert abs(found - exact).max() <= CLOSE * abs(exact).max()
