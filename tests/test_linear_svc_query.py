"""Linear SVMs as queries: minimizers, and blocks of pairs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from margins import duality_gap, signed
from query_pairs import RELATIONS, both_of, pairs_from, plain_differences
from scipy.optimize import minimize
from sklearn.datasets import make_classification

from skparisk.queries import LinearSVCQuery
from skparisk.reference import TableReference

LOSSES = ("hinge", "squared_hinge")


def classification(n, d, seed=0, n_classes=2):
    X, y = make_classification(
        n,
        d,
        n_informative=d,
        n_redundant=0,
        n_classes=n_classes,
        n_clusters_per_class=1,
        flip_y=0.1,
        random_state=seed,
    )
    return X, y.astype(float)


def is_minimizer(Z, w, C, loss):
    """Tell whether next to nothing of the objective is duality gap."""
    gap, objective = duality_gap(Z, w, C, loss)
    return gap <= {"hinge": 1e-8, "squared_hinge": 1e-12}[loss] * objective


# The minimizer


@pytest.mark.parametrize("loss", LOSSES)
def test_answer_is_the_solution_of_the_dual_problem(loss):
    X, y = classification(12, 2, seed=3)
    Z, C = signed(X, y), 0.7
    extra = np.eye(len(Z)) / (2 * C) if loss == "squared_hinge" else 0.0
    K = Z @ Z.T + extra
    dual = minimize(
        lambda a: 0.5 * a @ K @ a - a.sum(),
        np.full(len(Z), C / 2),
        jac=lambda a: K @ a - 1,
        bounds=[(0, C if loss == "hinge" else None)] * len(Z),
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000},
    )
    answer = LinearSVCQuery((0, 1), C=C, loss=loss)(X, y)
    np.testing.assert_allclose(answer, dual.x @ Z, rtol=0, atol=1e-5)


def clustered(rng):
    X = rng.normal(size=(60, 3))
    return X, X[:, 0] + 0.5 * rng.normal(size=60) > 0


def separable(rng):
    X, y = rng.normal(size=(50, 2)), np.arange(50) % 2
    return X + 10 * y[:, None], y


def repeated(rng):
    X, y = clustered(rng)
    rows = rng.integers(20, size=200)
    return X[rows], y[rows]


def lattice(rng):
    X = rng.integers(-1, 2, size=(100, 3)).astype(float)
    return X, X.sum(axis=1) + rng.normal(size=100) > 0


def dependent_columns(rng):
    X, y = clustered(rng)
    return np.column_stack([X, X[:, 0], np.ones(60), np.zeros(60)]), y


def all_the_same(rng):
    return np.ones((30, 2)), np.arange(30) % 3 == 0


def of_one_class(rng):
    return rng.normal(size=(30, 2)), np.zeros(30)


def more_features_than_records(rng):
    return rng.normal(size=(10, 30)), np.arange(10) % 2


def on_different_scales(rng):
    X, y = clustered(rng)
    return X * [1e-3, 1.0, 1e3], y


CASES = (
    clustered,
    separable,
    repeated,
    lattice,
    dependent_columns,
    all_the_same,
    of_one_class,
    more_features_than_records,
    on_different_scales,
)


def test_answer_minimizes_whatever_the_records():
    for loss in LOSSES:
        for C in [1e-4, 0.1, 1e5]:
            for case in CASES:
                if loss == "hinge" and C > 1:  # LinearSVC takes too long
                    continue
                X, y = case(np.random.default_rng(7))
                w = LinearSVCQuery((0, 1), C=C, loss=loss)(X, y)
                if loss == "hinge" and case is on_different_scales and C > 1e-4:
                    assert np.isnan(w).all()  # LinearSVC does not converge
                    continue
                assert is_minimizer(signed(X, y), w, C, loss)
                assert not is_minimizer(signed(X, y), 1.01 * w, C, loss)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 40),
    d=st.integers(1, 5),
    exponent=st.floats(-6, 0),
    decimals=st.integers(0, 3),
    loss=st.sampled_from(LOSSES),
)
def test_answer_minimizes_random_problems(seed, n, d, exponent, decimals, loss):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)).round(decimals), rng.integers(2, size=n)
    w = LinearSVCQuery((0, 1), C=10**exponent, loss=loss)(X, y)
    assert is_minimizer(signed(X, y), w, 10**exponent, loss)


@pytest.mark.parametrize("loss", LOSSES)
def test_order_of_records_does_not_matter(loss):
    query = LinearSVCQuery((0, 1, 2), loss=loss)
    X, y = classification(100, 3, n_classes=3)
    order = np.random.default_rng(0).permutation(100)
    size = {"hinge": 1e-6, "squared_hinge": 1e-12}[loss]
    np.testing.assert_allclose(query(X, y), query(X[order], y[order]), atol=size)


@pytest.mark.parametrize("loss", LOSSES)
def test_numbers_near_overflow_are_no_answer_and_no_warning(loss):
    query = LinearSVCQuery((0, 1), loss=loss)
    y = np.array([0, 1])
    assert np.isnan(query(np.array([[1e200], [1.0]]), y)).all()
    assert np.isnan(query(np.array([[np.inf], [1.0]]), y)).all()
    large = 1e10 if loss == "squared_hinge" else 100.0
    assert np.isfinite(query(np.array([[large], [1.0]]), y)).all()


def test_squared_hinges_are_minimized_at_any_weight_and_any_scales_of_columns():
    for seed in range(60):
        check_squared_hinge(seed)


def check_squared_hinge(seed):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(2, 40), rng.integers(1, 6)
    X = rng.normal(size=(n, d))
    if seed % 4 == 1:
        X = rng.integers(0, 3, size=(n, d)).astype(float)
    if seed % 4 == 2:
        X = X[rng.integers(0, max(2, n // 4), size=n)]
    X *= 10.0 ** rng.uniform(-3, 3, size=d)
    y = rng.integers(2, size=n)
    query = LinearSVCQuery((0, 1), C=10.0 ** rng.uniform(-9, 9), fit_intercept=False)
    w = query(X, y)
    Z = X * np.where(y, 1, -1)[:, None]
    gap, objective = duality_gap(Z, w, query.C, "squared_hinge")
    assert gap <= 2.0**-20 * objective


def test_there_is_no_answer_where_newton_steps_stop_early():
    X = [
        [2.3649e00, -2.0690e-01, 1.1764e-02, -6.4639e-01, 2.3843e-01],
        [1.3244e00, -1.3116e00, -2.4759e00, -1.3697e-01, -3.0816e-01],
        [-1.0833e03, 4.6706e02, 1.2473e03, 5.5841e02, 3.3234e03],
    ]
    X, y = np.array(X), np.array([1, 1, 0])
    answers = [
        LinearSVCQuery((0, 1), C=C, fit_intercept=False)(X, y) for C in (2.87e6, 2.87)
    ]
    assert np.isnan(answers[0]).all()
    assert is_minimizer(
        X * np.array([1, 1, -1])[:, None], answers[1], 2.87, "squared_hinge"
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_what_did_not_converge_is_not_answered(monkeypatch, loss):
    X, y = classification(60, 3)
    query = LinearSVCQuery((0, 1), loss=loss)
    assert np.isfinite(query(X, y)).all()
    monkeypatch.setattr("skparisk.queries._linear_svc._MOST_STEPS", 1)
    monkeypatch.setattr("skparisk.queries._linear_svc._MOST_PASSES", 10)
    assert np.isnan(query(X, y)).all()
    if loss == "hinge":
        pairs = pairs_from(TableReference(X, y), 60, "replace-one", size=4)
        found = query.on_pool(pairs.pool, 60)(pairs)
        assert not np.isfinite(found.values).any()
        assert found.failure.startswith("the solver did not converge")


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
        for z, c in zip(Z, counts, strict=True)
        if c and 1 - math.fsum(z * w) > 0
    ]
    hessian = [
        [Fraction(i == j) + sum(c * z[i] * z[j] for z, c in charged) for j in range(q)]
        for i in range(q)
    ]
    return solve_exactly(hessian, [sum(c * z[i] for z, c in charged) for i in range(q)])


@pytest.mark.parametrize("n_positive", [1, 5])
def test_a_class_may_be_so_rare_that_all_others_are_on_the_margin(n_positive):
    for n in (100, 2000):
        X, y = np.random.default_rng(n).normal(size=(n, 3)), np.arange(n) < n_positive
        w = LinearSVCQuery((0, 1), C=0.1, loss="hinge")(X, y)
        assert is_minimizer(signed(X, y), w, 0.1, "hinge")


def test_databases_of_a_single_class_have_the_minimizer_that_any_other_has():
    """Of 1 record x = 1 without intercept: w²/2 + C max(0, 1 - w)."""
    for label in [0, 1]:
        for loss in LOSSES:
            query = LinearSVCQuery((0, 1), C=0.25, loss=loss, fit_intercept=False)
            expected = {"hinge": 0.25, "squared_hinge": 1 / 3}[loss] * (
                1 if label else -1
            )
            np.testing.assert_allclose(
                query(np.ones((1, 1)), np.array([label])), expected
            )


def test_parameters_are_checked():
    for wrong in (
        {"C": 0},
        {"C": math.inf},
        {"loss": "log"},
        {"fit_intercept": 1},
        {"intercept_scaling": 0.0},
        {"classes": (1,)},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            LinearSVCQuery(**{"classes": (0, 1), **wrong})
    query = LinearSVCQuery((0, 1))
    with pytest.raises(ValueError, match="not among the classes"):
        query(np.ones((2, 1)), np.array([0, 3]))


def test_squared_hinges_are_minimized_as_by_exact_arithmetic():
    """Of many databases, each with its weights."""
    for C in [1e-3, 1.0, 1e4]:
        for seed in range(4):
            rng = np.random.default_rng(seed)
            Z = rng.normal(size=(20, 3)) * 10.0 ** rng.uniform(-2, 2)
            weights = rng.multinomial(30, np.full(20, 0.05), size=6).astype(float)
            y = rng.integers(2, size=20)
            weight = C / (Z**2).sum(axis=1).max()
            query = LinearSVCQuery((0, 1), C=weight, fit_intercept=False)
            X = Z * np.where(y, 1, -1)[:, None]
            answers, _ = query.answering(X, y, None)(weights, None)
            for line, w in zip(weights, answers, strict=True):
                exact = exact_squared(Z, line, w, weight)
                off = [abs(Fraction(x) - e) for x, e in zip(w, exact, strict=True)]
                assert max(off) <= 1e-10 * max(map(abs, exact))


def test_no_record_and_records_of_zeros_have_a_minimizer():
    answering = LinearSVCQuery((0, 1)).answering(
        np.zeros((2, 3)), np.array([0, 1]), None
    )
    for weights in (np.zeros((1, 2)), np.ones((1, 2))):
        assert not answering(weights, None)[0].any()


# Blocks of pairs


def assert_block_is_right(query, pairs):
    """Return the differences, after comparing them to those of the answers."""
    found = query.on_pool(pairs.pool, pairs.n_records)(pairs)
    answers = np.array(
        [[query(*d) for d in both_of(pairs, pair)] for pair in range(len(pairs))]
    )
    size = np.abs(answers).max()
    close = {"hinge": 1e-5, "squared_hinge": 1e-9}[query.loss] * size
    np.testing.assert_allclose(found.values, answers[:, 0] - answers[:, 1], atol=close)
    assert (found.errors <= close).all()
    assert (found.sizes > 0).any()
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("C", "n_classes", "scaling", "fit_intercept"),
    [(0.1, 2, 1.0, True), (0.01, 2, 5.0, True), (1, 3, 0.2, True), (0.1, 2, 1, False)],
)
def test_blocks_are_right(relation, loss, C, n_classes, scaling, fit_intercept):
    X, y = classification(150, 4, n_classes=n_classes)
    query = LinearSVCQuery(
        range(n_classes),
        C=C,
        loss=loss,
        fit_intercept=fit_intercept,
        intercept_scaling=scaling,
    )
    pairs = pairs_from(TableReference(X, y), 150, relation, size=24)
    assert_block_is_right(query, pairs)


def test_blocks_of_degenerate_records_are_right():
    for loss in LOSSES:
        for case in [repeated, lattice, dependent_columns, separable]:
            X, y = case(np.random.default_rng(7))
            pairs = pairs_from(
                TableReference(X, y.astype(float)), 50, "replace-one", size=12
            )
            assert_block_is_right(LinearSVCQuery((0, 1), C=0.1, loss=loss), pairs)


def test_a_record_beyond_the_margin_changes_nothing_but_rounding():
    X, y = classification(200, 3)
    pairs = pairs_from(TableReference(X, y), 200, "add-remove", size=40)
    query = LinearSVCQuery((0, 1), C=10.0)
    found = query.on_pool(pairs.pool, 200)(pairs)
    still = (np.abs(found.values) <= found.errors).all(axis=1)
    assert 0 < still.mean() < 1
    for pair in range(len(pairs)):
        (X, y), _ = both_of(pairs, pair)
        beyond = 1 - signed(X, y)[pairs.changed[pair]] @ query(X, y) < 0
        assert still[pair] == beyond


def test_squares_up_to_a_limit_have_an_answer():
    query = LinearSVCQuery((0, 1), loss="hinge", fit_intercept=False)
    for exponent, answered in ((249, True), (250, False)):
        X = np.array([[0.0], [2.0**exponent]])
        assert np.isfinite(query(X, np.array([0, 1]))).all() == answered


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_pairs_that_follow_other_paths_than_private_records_are_paid_for(seed):
    """Where the penalty is lost beside squares of the records."""
    rng = np.random.default_rng(seed)
    X = 1e4 * (rng.random((200, 40)) < 0.05)
    scores = X @ rng.normal(size=40) / 1e4 + 0.5 * rng.normal(size=200)
    table = TableReference(X, scores > np.median(scores))
    pairs = pairs_from(table, 100, "replace-one", size=24)
    query = LinearSVCQuery((0, 1), C=100.0)
    found = query.on_pool(pairs.pool, 100)(pairs)
    off = np.abs(found.values - plain_differences(query, pairs))
    off = off[np.isfinite(off).all(axis=1)]
    assert (off.sum(axis=1) <= found.errors.sum()).all()
    assert off.any()


def test_descent_may_depend_on_the_order_of_records():
    assert LinearSVCQuery((0, 1)).is_unordered
    assert not LinearSVCQuery((0, 1), loss="hinge").is_unordered
