"""The frontier of cost and error: efficient points, from simulated budgets."""

import math

import numpy as np
import pytest
from costs import POINTS, STAFF, refuses
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skparisk.cost
from skparisk.core.calibrate import PAC
from skparisk.cost import Frontier, frontier
from skparisk.exceptions import IncompatibleError
from skparisk.linear_model import PrivateRidge
from skparisk.sensitivity import SensitivitySampler


def test_efficient_points_are_beaten_by_none():
    assert POINTS.efficient.tolist() == [False, True, True, False, True]
    rng = np.random.default_rng(0)
    cost, error = rng.integers(0, 6, size=(2, 40)).astype(float)
    ones = np.ones(40)
    points = Frontier(ones, ones / 2, cost, error, ones)
    for i in range(40):
        beaten = any(
            (cost[j] <= cost[i] and error[j] < error[i])
            or (cost[j] < cost[i] and error[j] <= error[i])
            for j in range(40)
        )
        assert points.efficient[i] != beaten


FRONTIER_ERRORS = {
    "epsilon must be a vector of some numbers in (0, inf], got [].": {"epsilon": []},
    "epsilon must be a vector of 1 numbers in (0, inf], got [0].": {"epsilon": [0]},
    "gamma must be a vector of 1 numbers in (0, 1), got [1].": {"gamma": [1]},
    "cost must be a vector of 1 numbers in [0, inf], got [-1].": {"cost": [-1]},
    "error must be a vector of 1 numbers in (-inf, inf), got [nan].": (
        {"error": [math.nan]}
    ),
    "error must be a vector of 1 numbers in (-inf, inf), got [1, 2].": {
        "error": [1, 2]
    },
    "error_std must be a vector of 1 numbers in [0, inf), got [inf].": (
        {"error_std": [math.inf]}
    ),
}


@pytest.mark.parametrize("expected", FRONTIER_ERRORS)
def test_points_out_of_range_are_refused(expected):
    words = {"epsilon": [1], "cost": [1], "error": [1]}
    words |= {"gamma": [0.5], "error_std": [0]}
    refuses(lambda: Frontier(**words | FRONTIER_ERRORS[expected]), expected)


@pytest.fixture
def simulated(monkeypatch):
    """Return the calls of a simulation that scores minus (1 + split) / epsilon."""
    calls = []

    def simulate(estimators, X, y, **words):
        calls.append((estimators, X, y, words))
        levels = [e.get_params().get("ridge__epsilon", None) for e in estimators]
        levels = [
            e.epsilon if level is None else level
            for e, level in zip(estimators, levels, strict=True)
        ]
        return -np.outer(1 / np.array(levels), [1.0, 2.0, 3.0])

    monkeypatch.setattr(skparisk.cost, "simulate_scores", simulate)
    return calls


X, Y = np.arange(12.0).reshape(6, 2), np.arange(6.0)


def test_frontier_tries_each_level_with_each_risk(simulated):
    model = PrivateRidge()
    words = {"scoring": "r2", "cv": 3, "n_jobs": 2, "random_state": 5, "verbose": 1}
    points = frontier(
        model, X, Y, epsilon=[1.0, 4.0], gamma=[0.1, 0.2], cost=STAFF, **words
    )
    assert points.epsilon.tolist() == [1, 4, 1, 4]
    assert points.gamma.tolist() == [0.1, 0.1, 0.2, 0.2]
    expected = [
        STAFF.budget_of((level, 0.0, risk))
        for level, risk in zip(points.epsilon, points.gamma, strict=True)
    ]
    np.testing.assert_allclose(points.cost, expected, rtol=1e-15)
    assert points.error.tolist() == [2.0, 0.5, 2.0, 0.5]
    spread = math.sqrt(2 / 3)
    np.testing.assert_allclose(points.error_std, [spread, spread / 4] * 2)
    assert points.efficient.tolist() == [True, True, False, False]
    ((estimators, X_given, y_given, given),) = simulated
    assert X_given is X
    assert y_given is Y
    assert given == words | {"n_records": 6}
    tried = [(e.epsilon, e.gamma) for e in estimators]
    assert tried == [(1.0, 0.1), (4.0, 0.1), (1.0, 0.2), (4.0, 0.2)]
    assert (model.epsilon, model.gamma) == (1.0, 0.05)


def test_frontier_of_a_pipeline_and_of_plain_numbers(simulated):
    pipeline = make_pipeline(FunctionTransformer(), PrivateRidge())
    pipeline.steps[1] = ("ridge", pipeline.steps[1][1])
    points = frontier(
        pipeline,
        X.tolist(),
        Y.tolist(),
        epsilon=2.0,
        gamma=0.1,
        cost=STAFF,
        epsilon_param="ridge__epsilon",
        gamma_param="ridge__gamma",
    )
    assert points.epsilon.tolist() == [2.0]
    assert points.error.tolist() == [1.0]
    assert simulated[0][3]["n_records"] == 6
    frontier(PrivateRidge(), X, Y, epsilon=2.0, gamma=0.1, cost=STAFF, n_records=77)
    assert simulated[1][3]["n_records"] == 77


def test_frontier_counts_all_that_is_not_known(simulated):
    """What delta, and samples of pairs that fail, add; nothing for a known bound."""

    def cost(model):
        points = frontier(model, X, Y, epsilon=1.0, gamma=0.1, cost=STAFF)
        return points.cost[0]

    gaussian = SensitivitySampler(law="gaussian", delta=0.01)
    pac = SensitivitySampler(calibration=PAC(0.02))
    seeded = SensitivitySampler(noise_random_state=0)
    unknown = {gaussian: 0.11, pac: 0.12, seeded: 1.0, 0.5: 0.0, None: 0.1}
    for sensitivity, risk in unknown.items():
        expected = STAFF.budget_of((1.0, 0.0, risk))
        assert cost(PrivateRidge(sensitivity=sensitivity)) == pytest.approx(expected)


def test_frontier_refuses_what_it_cannot_count(simulated):
    words = {"epsilon": 1.0, "gamma": 0.1, "cost": STAFF}
    with pytest.raises(IncompatibleError, match=r"must be private.* got Ridge\(\)"):
        frontier(Ridge(), X, Y, epsilon_param="alpha", gamma_param="tol", **words)
    cases = {
        "cost must be a CostModel, got 5.": {"cost": 5},
        "epsilon must be a number in (0, inf], got 0.": {"epsilon": 0},
        "gamma must be a number in (0, 1), got 1.": {"gamma": [0.1, 1]},
        "epsilon must be a number or a vector, got [].": {"epsilon": []},
        "gamma must be a number or a vector, got [[0.1]].": {"gamma": [[0.1]]},
    }
    for expected, wrong in cases.items():
        if "gamma must be a number in" in expected:
            expected = "gamma must be a number in (0, 1), got 1.0."
        refuses(lambda w=wrong: frontier(PrivateRidge(), X, Y, **words | w), expected)
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        frontier(PrivateRidge(), X, Y, gamma_param="nothing", **words)
    assert not simulated


@pytest.mark.slow
def test_measured_error_falls_as_the_cost_rises():
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, size=(200, 2))
    targets = features @ [1.0, -1.0] + 0.1 * rng.normal(size=200)
    words = {
        "epsilon": [0.02, 0.1, 50.0],
        "gamma": 0.1,
        "cost": STAFF,
        "n_records": 300,
        "cv": 4,
        "random_state": 0,
        "scoring": "neg_mean_absolute_error",
    }
    sampler = SensitivitySampler(n_pairs=200)
    model = PrivateRidge(sensitivity=sampler, combine=None)
    points = frontier(model, features, targets, **words)
    assert (np.diff(points.error) < 0).all()
    assert (np.diff(points.cost) > 0).all()
    assert points.efficient.all()
    assert points.error[1] <= 0.1 < points.error[0]
    again = frontier(model, features, targets, **words)
    assert again.error.tolist() == points.error.tolist()
