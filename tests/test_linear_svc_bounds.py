"""Bounds of linear support vector machines: never exceeded, and nearly attained."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from margins import duality_gap, signed
from sklearn.svm import SVC

from skparisk.papers import rubinstein_svm_sensitivity_bound
from skparisk.queries import LinearSVCQuery
from skparisk.queries._linear_svc import Rows, minimize_squared_hinge
from skparisk.svm import _bounds as module
from skparisk.svm import linear_svc_sensitivity_bound, svm_sensitivity_bound
from skparisk.svm._bounds import bounded_linear_svc_problem, proven_distance

RELATIONS = ("replace-one", "add-remove")


def worst_pairs(n, d, radius, seed=0):
    """Yield pairs of databases: opposite, random, and of labels of one class."""
    rng = np.random.default_rng(seed)
    direction = np.full(d, radius / math.sqrt(d))
    for X in (np.tile(direction, (n, 1)), rng.normal(size=(n, d))):
        X = X * radius / np.linalg.norm(X, axis=1, keepdims=True)
        for y in (np.zeros(n), np.ones(n), rng.integers(2, size=n)):
            for x in (X[0], -X[0], X[-1]):
                other, label = np.vstack([x, X[1:]]), np.append(1 - y[0], y[1:])
                yield (X, y), (other, label)
                yield (X, y), (X[1:], y[1:])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("radius", "scaling"), [(1.0, 0.0), (3.0, 0.5), (1.0, 4.0)])
def test_bound_is_never_exceeded_and_nearly_attained(radius, scaling):
    attained = {}
    for n, C, d in itertools.product((2, 3, 10), (1e-3, 0.1, 10.0), (1, 3)):
        query = LinearSVCQuery(
            (0, 1),
            C=C,
            loss="hinge",
            fit_intercept=scaling > 0,
            intercept_scaling=scaling or 1.0,
        )
        for first, second in worst_pairs(n, d, radius):
            relation = RELATIONS[len(first[0]) != len(second[0])]
            bound = linear_svc_sensitivity_bound(
                C, x_norm=radius, intercept_scaling=scaling, relation=relation
            )
            move = query(*first) - query(*second)
            if scaling:
                move[-1] /= scaling
            ratio = np.linalg.norm(move) / bound
            assert ratio <= 1 + 1e-6
            attained[relation] = max(attained.get(relation, 0), ratio)
    assert min(attained.values()) > 0.99


def test_bound_is_in_units_of_its_parameters():
    bound = linear_svc_sensitivity_bound(0.1, x_norm=3.0, intercept_scaling=4.0)
    assert bound == pytest.approx(1.0)
    assert linear_svc_sensitivity_bound(0.1, intercept_scaling=0) == 0.2
    assert linear_svc_sensitivity_bound(0.1, relation="add-remove") == pytest.approx(
        0.1 * math.sqrt(2)
    )
    for wrong in (
        {"C": 0},
        {"x_norm": -1},
        {"intercept_scaling": -1},
        {"relation": "?"},
        {"C": 1e-300, "x_norm": 1e-300, "intercept_scaling": 0},
    ):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))}"):
            linear_svc_sensitivity_bound(**{"C": 1.0, **wrong})


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("scaling", [0.5, 1.0, 5.0])
def test_bounded_problem_pays_for_all_that_is_released(
    n_classes, fit_intercept, scaling
):
    C, n, d = 0.002, 6, 4
    radius = math.sqrt(d)
    query = LinearSVCQuery(
        range(n_classes),
        C=C,
        loss="hinge",
        fit_intercept=fit_intercept,
        intercept_scaling=scaling,
    )
    largest = 0.0
    X = np.full((n, d), 5.0)  # clipped to 1
    labels = np.arange(n) % n_classes
    for others in (X, -X, np.random.default_rng(0).normal(size=(n, d))):
        for label in range(1, n_classes):
            first = np.vstack([X[:1], others[1:]])
            clipped, bounded, bound = bounded_linear_svc_problem(query, first, radius)
            assert np.linalg.norm(clipped, axis=1).max() <= radius * (1 + 1e-15)
            y = labels.copy()
            y[0] = label
            move = np.abs(bounded(clipped, labels) - bounded(clipped, y)).sum()
            assert move <= bound
            largest = max(largest, move / bound)
    assert largest > 0.5 if n_classes == 2 else largest > 0.3
    exact = query.n_problems * linear_svc_sensitivity_bound(
        C, x_norm=radius, intercept_scaling=scaling if fit_intercept else 0
    )
    exact *= math.sqrt(d + (scaling**2 if fit_intercept else 0))
    # Two answers may be off, by a 64th each.
    assert bound == pytest.approx(exact * (1 + 1 / 32), rel=1e-9)


def test_bounded_problem_refuses_what_has_no_bound():
    X = np.ones((10, 2))
    with pytest.raises(ValueError, match="loss must be 'hinge'"):
        bounded_linear_svc_problem(LinearSVCQuery((0, 1)), X, 1.0)
    query = LinearSVCQuery((0, 1), loss="hinge", C=1e12)
    with pytest.raises(ValueError, match="C must be at most"):
        bounded_linear_svc_problem(query, X, 1.0)
    with pytest.raises(ValueError, match="x_norm"):
        bounded_linear_svc_problem(query, X, None)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    exponent=st.floats(-6, 2),
    decimals=st.integers(0, 4),
    scale=st.floats(-4, 1),
)
def test_duality_gap_is_below_what_the_bound_pays_for(
    seed, n, exponent, decimals, scale
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(decimals) * [1, 1, 10**scale]
    y, C = rng.integers(2, size=n), min(10**exponent, 51 / n)
    query = LinearSVCQuery((0, 1), C=C, loss="hinge")
    X, query, paid = bounded_linear_svc_problem(query, X, 2.0)
    gap, _ = duality_gap(signed(X, y), query(X, y), C, "hinge")
    bound = linear_svc_sensitivity_bound(C, x_norm=2.0)
    assert 2 * math.sqrt(2 * max(gap, 0.0)) <= paid / math.sqrt(4) - bound


def on_the_margin(rng, n):
    """Next to all records of one class, next to which the other is rare."""
    return rng.normal(size=(n, 4)) * [1e-4, 1e-2, 1, 1], np.arange(n) < 2


def lattice(rng, n):
    X = rng.integers(-2, 3, size=(n, 4)).astype(float)
    return X, X.sum(axis=1) + rng.normal(size=n) > 0


def nearly_the_same(rng, n):
    return 1 + 1e-5 * rng.normal(size=(n, 4)), np.arange(n) % 2


def outlying(rng, n):
    return rng.normal(size=(n, 4)) * 10.0 ** rng.uniform(-3, 3, (n, 1)), np.arange(
        n
    ) % 2


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", [on_the_margin, lattice, nearly_the_same, outlying])
@pytest.mark.parametrize("n", [3, 30, 500])
@pytest.mark.parametrize("share", [1.0, 2.0**-4, 2.0**-10])
def test_whatever_the_records_there_is_an_answer(case, n, share):
    """Whether there is one would tell of them; up to the largest C."""
    X, y = case(np.random.default_rng(n), n)
    C = share * 51 / n
    query = LinearSVCQuery((0, 1), C=C, loss="hinge")
    X, query, _ = bounded_linear_svc_problem(query, X, 2.0)
    assert np.isfinite(query(X, y.astype(float))).all()


@pytest.mark.parametrize("seed", range(6))
def test_points_are_no_further_from_the_minimizer_than_is_proven(seed):
    """From the minimizer of the very best of some answers, which is proven, too."""
    rng = np.random.default_rng(seed)
    rows = Rows(rng.normal(size=(30, 3)) * 10.0 ** rng.uniform(-1, 1, size=3))
    counts = rng.integers(0, 3, size=30).astype(float)
    for C in (0.01, 0.3):
        (w,), _ = module.minimize_hinge(rows.Z, counts[None], C, 1e-12)
        known = proven_distance(rows, counts, w, C)
        assert known < 1e-5
        for size in (1e-6, 1e-3, 0.1, 10.0):
            other = w + size * rng.normal(size=3)
            off = np.linalg.norm(other - w)
            assert off - known <= proven_distance(rows, counts, other, C)
        near = w + 1e-2 * rng.normal(size=3)
        assert proven_distance(rows, counts, near, C) > known
    # The minimizer of another loss, and no number, are not close.
    counts, zeros = counts[None], np.zeros((1, 3))
    (other,), _ = minimize_squared_hinge(rows, counts, zeros, 0.3)
    assert proven_distance(rows, counts[0], other, 0.3) > np.linalg.norm(other - w) / 2
    assert not proven_distance(rows, counts[0], w * np.nan, 0.3) <= np.inf


def test_answers_that_are_not_close_are_sought_again_and_then_not_given(monkeypatch):
    """Where the solver stops early, answers may be further apart than the bound."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2.0
    query = LinearSVCQuery((0, 1), C=0.1, loss="hinge")
    X, query, _ = bounded_linear_svc_problem(query, X, 2.0)
    close = query(X, y)
    tried, minimize = [], module.minimize_hinge

    def stopping_early(Z, counts, C, tolerance):
        tried.append(tolerance)
        W, converged = minimize(Z, counts, C, tolerance)
        return W + (tolerance > limit) * 2 * query.largest_error, converged

    monkeypatch.setattr(module, "minimize_hinge", stopping_early)
    for limit, tolerances in (
        (1e-8, [1e-8]),
        (1e-10, [1e-8, 1e-10]),
        (0.0, [1e-8, 1e-10, 1e-12]),
    ):
        tried.clear()
        found = query(X, y)
        assert tried == tolerances
        assert np.isnan(found).all() == (limit == 0)
        if limit:
            np.testing.assert_allclose(found, close, atol=2 * query.largest_error)


def test_bounds_of_the_box_are_those_of_the_paper_and_the_proof():
    printed = rubinstein_svm_sensitivity_bound(1000, 0.003, n_features=8)
    assert printed == pytest.approx(2 + 2 * 3 * math.sqrt(8) + 4 * 3 * 8 / 1000)
    proved = svm_sensitivity_bound(1000, 0.003, n_features=8)
    assert proved == pytest.approx(2 + math.sqrt(24) + 4 * 3 * 8 / 1000)
    few = svm_sensitivity_bound(10, 0.01, n_features=4)
    assert few == pytest.approx(2 + 0.2 + 0.16)
    for bound in (rubinstein_svm_sensitivity_bound, svm_sensitivity_bound):
        for wrong in ({"n_records": 0}, {"C": 0}, {"n_features": 0}):
            with pytest.raises(ValueError, match=next(iter(wrong))):
                bound(**{"n_records": 5, "C": 1.0, "n_features": 2, **wrong})


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_bound_of_a_free_intercept_holds_for_corners_of_the_box(C):
    rng = np.random.default_rng(0)
    n, d, largest = 6, 2, 0.0

    def answer(X, y):
        svc = SVC(kernel="linear", C=C, tol=1e-8).fit(X, y)
        return np.append(svc.coef_, svc.intercept_)

    bound = svm_sensitivity_bound(n, C, n_features=d)
    assert bound <= rubinstein_svm_sensitivity_bound(n, C, n_features=d)
    for _ in range(40):
        X = rng.integers(2, size=(n, d)).astype(float)
        y = np.append([0, 1], rng.integers(2, size=n - 2))
        other, label = X.copy(), y.copy()
        other[-1], label[-1] = rng.integers(2, size=d), 1 - y[-1]
        move = np.abs(answer(X, y) - answer(other, label)).sum()
        assert move <= bound
        largest = max(largest, move / bound)
    assert largest > 0.05


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("C", "size", "x_norm"), [(1e100, 1e-63, 1e-70), (1e-100, 1.0, 1.0)]
)
def test_bound_holds_for_weights_and_rows_of_extreme_sizes(
    C, size, x_norm, fit_intercept
):
    """With no record on the margin, too, there is a proof."""
    rng = np.random.default_rng(0)
    X, y = size * rng.normal(size=(5, 2)), np.array([0.0, 1, 0, 1, 1])
    neighbor = np.concatenate([-X[:1], X[1:]])
    query = LinearSVCQuery((0, 1), C=C, loss="hinge", fit_intercept=fit_intercept)
    if fit_intercept and C > 1:
        with pytest.raises(ValueError, match="C must be at most"):
            bounded_linear_svc_problem(query, X, x_norm)
        return
    answers = []
    for records in (X, neighbor):
        clipped, bounded, l1 = bounded_linear_svc_problem(query, records, x_norm)
        answers.append(bounded(clipped, y))
    assert np.isfinite(answers).all()
    assert np.abs(answers[0] - answers[1]).sum() <= l1
