"""Bounds of linear support vector machines: never exceeded, and nearly attained."""

import itertools
import math

import numpy as np
import pytest
from query_pairs import RELATIONS
from sklearn.svm import SVC

from skparisk.papers import rubinstein_svm_sensitivity_bound
from skparisk.queries import LinearSVCQuery
from skparisk.svm import linear_svc_sensitivity_bound, svm_sensitivity_bound


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


@pytest.mark.slow
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
