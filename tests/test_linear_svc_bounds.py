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
from skparisk.queries import (
    LinearSVCQuery,
    _linear_svc_hinge,
)
from skparisk.queries import _linear_svc as module
from skparisk.svm import linear_svc_sensitivity_bound, svm_sensitivity_bound
from skparisk.svm._bounds import bounded_linear_svc_problem

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
            assert ratio <= 1 + 1e-9
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
    assert exact < bound < 1.001 * exact


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
    exponent=st.floats(-5, 6),
    decimals=st.integers(0, 4),
)
def test_duality_gap_is_below_what_the_bound_pays_for(seed, n, exponent, decimals):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(decimals)
    y, C = rng.integers(2, size=n), 10**exponent
    query = LinearSVCQuery((0, 1), C=C, loss="hinge")
    X, query, paid = bounded_linear_svc_problem(query, X, 2.0)
    Z = signed(X, y)
    rows, numbers = module.distinct_rows(Z)
    counts = np.bincount(numbers).astype(float)
    found, _ = _linear_svc_hinge.minimize_hinge(Z[rows], counts, C)
    np.testing.assert_array_equal(found[:3], query(X, y)[:3])
    gap, _, _ = duality_gap(Z, found, C, "hinge")
    bound = linear_svc_sensitivity_bound(C, x_norm=2.0)
    assert 2 * math.sqrt(2 * max(gap, 0.0)) <= paid / math.sqrt(4) - bound


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
