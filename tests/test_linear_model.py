"""PrivateRidge: every way to give the sensitivity, and what stays on the model."""

import contextlib
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_pairs import InBlocks
from sklearn.base import clone
from sklearn.linear_model import Ridge
from unnoised import numbers_in

from skparisk import (
    CalibrationError,
    PrivacyLeakWarning,
    PrivateMoments,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.linear_model import ridge_sensitivity_bound
from skparisk.queries import Query, RidgeQuery

A_DAY = np.timedelta64(1, "D")  # no number, though of a kind of integers
RNG = np.random.default_rng(0)
COEF = np.array([3.0, -1.0, 0.5])


def make_data(n_records, n_targets=None):
    X = RNG.normal(size=(n_records, 3))
    noise = RNG.normal(size=n_records if n_targets is None else (n_records, n_targets))
    signal = X @ COEF
    return X, (signal if n_targets is None else signal[:, None]) + noise


X, Y = make_data(200)
X_PUBLIC, Y_PUBLIC = make_data(400)


BOUND = {"sensitivity": "bound", "x_norm": 2.0, "y_bounds": (-3.0, 5.0)}


def test_infinite_epsilon_is_scikit_learns_ridge():
    for fit_intercept in [True, False]:
        for n_targets in [None, 1, 2]:
            X, y = make_data(60, n_targets)
            ridge = Ridge(alpha=2.0, fit_intercept=fit_intercept).fit(X, y)
            model = PrivateRidge(2.0, epsilon=np.inf, fit_intercept=fit_intercept)
            public = make_data(30, n_targets)
            model.fit(X, y, X_reference=public[0], y_reference=public[1])
            np.testing.assert_allclose(model.coef_, ridge.coef_, rtol=1e-12)
            np.testing.assert_allclose(model.intercept_, ridge.intercept_, rtol=1e-11)
            assert model.coef_.shape == ridge.coef_.shape
            assert np.shape(model.intercept_) == np.shape(ridge.intercept_)
            np.testing.assert_allclose(model.predict(X), ridge.predict(X), rtol=1e-12)
            assert not model.certificate_.private


def test_penalty_of_each_target():
    X, y = make_data(60, 2)
    public = make_data(30, 2)
    reference = {"X_reference": public[0], "y_reference": public[1]}
    ridge = Ridge(alpha=np.array([0.5, 5.0])).fit(X, y)
    for alpha in ([0.5, 5.0], np.array([0.5, 5.0]), (0.5, 5.0)):
        model = PrivateRidge(alpha, epsilon=np.inf).fit(X, y, **reference)
        np.testing.assert_allclose(model.coef_, ridge.coef_, rtol=1e-12)
    with pytest.raises(ValueError, match="one for each of the 2 targets, got 3"):
        PrivateRidge([1.0, 2.0, 3.0]).fit(X, y, **reference)


def test_without_reference_it_warns_and_keeps_no_sampled_difference(monkeypatch):
    # Of private records no center is learned: to compare with the very same pairs.
    monkeypatch.setattr(RidgeQuery, "placed", Query.placed)
    diagonal = SensitivitySampler(noise_shape="diagonal")  # weighed by no records
    model = PrivateRidge(sensitivity=diagonal, random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        model.fit(X, Y)
    numbers = numbers_in(pickle.dumps(model))
    sampler = diagonal.set_params(query=RidgeQuery(), random_state=0).fit(X, Y)
    assert sampler.sensitivity_ == model.sensitivity_  # the very same pairs
    assert not numbers.intersection(sampler.differences_.ravel().tolist())
    others = set(sampler.sensitivities_.tolist()) - {model.sensitivity_}
    assert not numbers & others
    assert not hasattr(model.sampler_, "differences_")
    assert model.certificate_.reference_is_private
    assert not model.certificate_.private
    assert "were computed from them without noise" in str(model.certificate_)


# The analytic bound


def worst_neighbors(n, alpha, relation, seed):
    """Search hard pairs: records along and across one direction, clipped to 1."""
    rng = np.random.default_rng(seed)
    best = 0.0
    for _ in range(150):
        angles = rng.choice([0, np.pi / 2, np.pi, rng.uniform(0, np.pi)], size=n + 1)
        radii = rng.choice([0.0, alpha**0.5, 1.0, rng.uniform()], size=n + 1)
        rows = np.minimum(radii, 1)[:, None] * np.c_[np.cos(angles), np.sin(angles)]
        if rng.uniform() < 0.5:
            size = min(1.0, math.sqrt(alpha / n))
            rows[: n - 1] = [size, 0.0]
        targets = rng.choice([-1.0, 1.0], size=n + 1)
        if rng.uniform() < 0.5:
            targets[: n - 1] = 1.0
        first = np.arange(n)
        second = first[:-1] if relation == "add-remove" else [*first[:-1], n]
        if not len(second):
            continue
        theta = [
            np.linalg.solve(
                rows[d].T @ rows[d] + alpha * np.eye(2), rows[d].T @ targets[d]
            )
            for d in (first, second)
        ]
        best = max(best, float(np.linalg.norm(theta[0] - theta[1])))
    return best


@pytest.mark.sampled(4)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    ("n", "alpha", "attained"),
    [
        (1, 0.1, 0.99),
        (1, 1.0, 0.99),
        (2, 0.5, 0.3),
        (10, 1.0, 0.2),
        (10, 20.0, 0.35),
        (50, 2.0, 0.2),
    ],
)
def test_bound_is_not_exceeded_and_nearly_attained(n, alpha, attained, relation):
    bound = ridge_sensitivity_bound(n, alpha, relation=relation)
    if relation == "add-remove" and n == 1:
        n, bound = 2, ridge_sensitivity_bound(2, alpha, relation=relation)
        attained = 0.3
    worst = worst_neighbors(n, alpha, relation, seed=0)
    assert attained * bound < worst <= bound * (1 + 1e-9)


@settings(derandomize=True, max_examples=40)
@given(
    n=st.integers(1, 10**6),
    alpha=st.floats(1e-3, 1e6),
    x_norm=st.floats(1e-2, 1e2),
    y_bound=st.floats(1e-2, 1e2),
)
def test_bound_scales_with_rows_and_targets(n, alpha, x_norm, y_bound):
    """L2(R, alpha) = L2(1, alpha / R^2) / R, times Y."""
    for relation in ("replace-one", "add-remove"):
        bound = ridge_sensitivity_bound(
            n, alpha, x_norm=x_norm, y_bound=y_bound, relation=relation
        )
        unit = ridge_sensitivity_bound(n, alpha / x_norm**2, relation=relation)
        assert bound == pytest.approx(unit / x_norm * y_bound)


def test_bound_of_known_cases():
    for n, alpha, expected in [
        (1, 2.0, 2 / 3),  # 2 B = 2 n/(n + alpha)
        (100, 100.0, min(2.5 / 100, 2 / 101 * (1 + 99 / 199), 1.0)),
        (10_000, 1.0, 2 * 0.5 * (1 + 0.5 * math.sqrt(9999))),
        (25, 1.0, min(4.5, 1 + 0.5 * math.sqrt(24), 5.0)),
    ]:
        assert ridge_sensitivity_bound(n, alpha) == pytest.approx(expected, rel=1e-12)


def test_bound_is_put_together_from_the_largest_solution_and_gain():
    """Each is a maximum over one eigenvalue or length, which is looked for here."""
    for n in [1, 2, 3, 10, 1000]:
        for alpha in [0.01, 0.3, 0.9, 1.0, 1.7, 2.5, 9.0, 300.0]:
            share = np.linspace(0, 1, 200_001)

            def solution(
                m,
            ):  # of m records: sqrt(m s) / (s + alpha) at an eigenvalue s <= m
                return (m * np.sqrt(share) / (m * share + alpha)).max()

            gain = (share / (alpha + share**2)).max()  # of one record of length up to 1
            size, smaller = solution(n), solution(n - 1)
            replaced = min((2 + size) / alpha, 2 * gain * (1 + smaller), 2 * size)
            removed = min(gain * (1 + smaller), size + smaller)
            assert ridge_sensitivity_bound(n, alpha) == pytest.approx(
                replaced, rel=1e-6
            )
            without = ridge_sensitivity_bound(n, alpha, relation="add-remove")
            assert without == pytest.approx(removed, rel=1e-6)


def test_limits_of_the_bound_are_refused_by_name():
    for name in ["n_records", "alpha", "x_norm", "y_bound"]:
        with pytest.raises(ValueError, match=rf"^{name} must be"):
            ridge_sensitivity_bound(**{"n_records": 9, "alpha": 1.0, name: 0})
        with pytest.raises(ValueError, match=r"^alpha / x_norm\*\*2 must be"):
            ridge_sensitivity_bound(9, 1e-300, x_norm=1e20)


@pytest.mark.parametrize("factor", [1e6, 1e300])
def test_records_outside_the_bounds_are_clipped_without_a_word(factor):
    far = X.copy()
    far[0] *= factor
    PrivateRidge(**BOUND).fit(far, Y * 1e6)


@pytest.mark.parametrize(
    ("offset", "scale", "alpha"), [(1e8, 1.0, 0.0), (1e6, 1.0, 1e-3), (0.0, 1e-8, 0.0)]
)
def test_rounding_of_ridge_itself_is_sampled_too(offset, scale, alpha):
    """Targets without noise: what moves is only rounding, if that is not refused."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 2)) * [1.0, scale] + offset
    targets = features[:, 0]
    query = RidgeQuery(alpha).placed(features, targets, len(targets))
    sampler, plain = (
        SensitivitySampler(asked, n_pairs=99, random_state=0, noise_shape="isotropic")
        for asked in (query, InBlocks(lambda X, y: query(X, y)))
    )
    try:
        plain.fit(features, targets)
        sampler.fit(features, targets)
    except CalibrationError:  # there is nothing but rounding
        assert not alpha
    else:
        assert sampler.sensitivity_ == pytest.approx(plain.sensitivity_, rel=1e-6)


# As part of scikit-learn


def test_bad_configurations_are_refused():
    bound, few = {"sensitivity": "bound", "x_norm": 1.0}, X_PUBLIC[:1]
    two = r"y_bounds must be two finite numbers .* got "
    for parameters, given_, message in [
        ({"alpha": -1.0}, {}, "alpha must be a finite number >= 0, got -1"),
        ({"alpha": A_DAY}, {}, "alpha must be .* >= 0, got .*timedelta64"),
        ({"sensitivity": "bound"}, {}, "x_norm must be a finite number"),
        (bound, {}, f"{two}None"),
        (bound | {"y_bounds": (2, 1)}, {}, rf"{two}\(2, 1\)"),
        (bound | {"y_bounds": (0, 0)}, {}, "not both 0"),
        ({"x_norm": 1.0}, {}, "x_norm and y_bounds must be None unless"),
        ({}, {"X_reference": few, "y_reference": Y_PUBLIC[:1]}, "at least 2 records"),
        ({"fit_intercept": "yes"}, {}, "fit_intercept must be True or Fal"),
    ]:
        with pytest.raises(ValueError, match=message):
            PrivateRidge(**parameters).fit(X, Y, **given_)


# Moments


@pytest.mark.parametrize("n_targets", [1, 2])
def test_ridge_of_moments_is_that_of_scikit_learn(n_targets):
    """Without noise; with public records, or with bounds, that clip to nothing."""
    Y_all = np.column_stack([Y, X[:, 0] - Y])[:, :n_targets].squeeze()
    wide = {"sensitivity": "bound", "x_norm": 20.0, "y_bounds": (-40.0, 40.0)}
    for alpha in (0.5, None):
        model = PrivateRidge(alpha, epsilon=np.inf, **wide)
        model.fit(X, Y_all)
        known = Ridge(0.5 if alpha else 1e-9).fit(X, Y_all)
        assert model.alpha_ == (alpha or 0.0)
        np.testing.assert_allclose(model.coef_, known.coef_, atol=1e-4)
        np.testing.assert_allclose(model.predict(X), known.predict(X), atol=1e-3)
        assert model.score(X, Y_all) == pytest.approx(known.score(X, Y_all), abs=1e-4)
        other = model.moments_.ridge(3.0)
        np.testing.assert_allclose(
            other.coef_, Ridge(3.0).fit(X, Y_all).coef_, atol=1e-4
        )


def test_what_moments_cannot_do_is_refused():
    """An intercept is always theirs, and one penalty."""
    moments = {"sensitivity": "bound", "x_norm": 1.0}
    moments["y_bounds"] = (-1.0, 1.0)
    for wrong, message in (
        ({"fit_intercept": False}, "fit_intercept must be True with sens"),
        ({"alpha": [1.0, 2.0]}, "alpha must be None, 'auto' or one number"),
    ):
        with pytest.raises(ValueError, match=message):
            PrivateRidge(**{**moments, **wrong}).fit(X, Y)


def test_public_numbers_whose_squares_are_infinite_are_named():
    for model in [PrivateRidge(), PrivateRidge(1.0), PrivateMoments()]:
        for size in [1e160, 1e200]:
            X = np.random.default_rng(0).normal(size=(200, 2))
            model = clone(model).set_params(random_state=0)
            with pytest.raises(ValueError, match=r"X_reference .* 1e150.* other units"):
                model.fit(
                    X[:50],
                    X[:50, 0],
                    X_reference=size * X[50:],
                    y_reference=size * X[50:, 1],
                )


def test_a_public_column_beyond_all_squares_is_no_error_of_numpy():
    X = np.random.default_rng(0).normal(size=(200, 2))
    public = np.column_stack([1e200 * X[50:, 0], X[50:, 1]])
    for alpha in (None, 1.0):
        model = PrivateRidge(alpha, random_state=0)
        with contextlib.suppress(CalibrationError):
            model.fit(X[:50], X[:50, 0], X_reference=public, y_reference=X[50:, 1])
