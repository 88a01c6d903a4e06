"""The proven bound of logistic regression holds, and rows are clipped to it."""

import numpy as np
import pytest
from linear_classifiers import (
    BOUND,
    LOGISTIC,
    PUBLIC,
    X_PUBLIC,
    Y_PUBLIC,
    X,
    Y,
    classes_2_3,
    exact,
    make,
    make_data,
    numbers_of,
    scikit_learn,
    with_and_without_intercept,
)
from sklearn.preprocessing import Normalizer

from skparisk.linear_model import logistic_sensitivity_bound


def clipped(X, x_norm):
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True) / x_norm, 1.0)


@with_and_without_intercept
@classes_2_3
def test_bounded_logistic_regression_penalizes_the_intercept(n_classes, fit_intercept):
    X, y = make_data(80, n_classes)
    model = exact(LOGISTIC, fit_intercept=fit_intercept, C=0.5, **BOUND).fit(X, y)
    rows = clipped(X, 2.0)
    assert (rows != X).any()
    if fit_intercept:
        rows = np.column_stack([rows, np.ones(80)])
    twin = scikit_learn(LOGISTIC, rows, y, fit_intercept=False, C=0.5)
    np.testing.assert_allclose(model.coef_, twin.coef_[:, :3], rtol=1e-10)
    constants = twin.coef_[:, 3] if fit_intercept else np.zeros(len(twin.coef_))
    np.testing.assert_allclose(model.intercept_, constants, rtol=1e-10)
    l2 = logistic_sensitivity_bound(
        0.5, x_norm=np.sqrt(4.0 + fit_intercept), n_classes=n_classes
    )
    expected = np.sqrt(twin.coef_.size) * l2
    assert expected < model.sensitivity_ < expected * (1 + 1e-8)
    assert (model.risk_, model.gamma_, model.sampler_) == (0.0, 0.0, None)


@pytest.mark.parametrize("factor", [1e6, 1e300])
def test_records_beyond_the_bound_are_clipped_without_a_word(factor):
    far = X.copy()
    far[0] *= factor
    model = make(LOGISTIC, classes=[0, 1], **BOUND).fit(far, Y)
    assert model.certificate_.private
    near = exact(LOGISTIC, **BOUND).fit(X[1:], Y[1:])
    moved = numbers_of(exact(LOGISTIC, **BOUND).fit(far, Y)) - numbers_of(near)
    assert abs(moved).sum() < model.sensitivity_


def test_a_reference_must_be_within_what_is_declared():
    model = make(LOGISTIC, **BOUND)
    with pytest.raises(ValueError, match=r"x_norm=2.0 was declared, but a record of"):
        model.fit(X, Y, **PUBLIC)
    unit = Normalizer().fit_transform(X_PUBLIC)
    assert np.linalg.norm(unit, axis=1).max() > 1.0  # by rounding
    model.set_params(x_norm=1.0).fit(X, Y, X_reference=unit, y_reference=Y_PUBLIC)
    with pytest.raises(ValueError, match=r"x_norm=1.0 was declared"):
        model.fit(X, Y, X_reference=unit * (1 + 1e-6), y_reference=Y_PUBLIC)


def hard_records(rng, n_records, n_classes):
    """Return records along one direction, some too long, and their labels."""
    direction = rng.choice([np.ones(2), rng.normal(size=2), np.array([0.0, 1.0])])
    sizes = rng.choice([-1, 1, -1, 1, 0, 0.5, 50, rng.normal()], size=n_records)
    rows = sizes[:, None] * direction / np.linalg.norm(direction)
    labels = rng.integers(n_classes, size=n_records)
    if rng.uniform() < 0.6:
        labels[:-2] = labels[0]  # the last two are where the neighbors differ
    return rows, labels


def worst_neighbors(model, n_classes, seed, n_trials=40):
    """Return the largest share of the sensitivity, and where one lacks a class."""
    rng = np.random.default_rng(seed)
    worst = worst_lacking = 0.0
    for _ in range(n_trials):
        n_records = int(rng.integers(1, 6))
        rows, labels = hard_records(rng, n_records + 1, n_classes)
        first, second = np.arange(n_records), [*range(n_records - 1), n_records]
        answers = [numbers_of(model.fit(rows[d], labels[d])) for d in (first, second)]
        share = np.abs(np.subtract(*answers)).sum() / model.sensitivity_
        found = [len(np.unique(labels[d])) for d in (first, second)]
        worst = max(worst, share)
        if min(found) < n_classes and found[0] != found[1]:
            worst_lacking = max(worst_lacking, share)
    return worst, worst_lacking


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("C", "attained", "n_classes", "fit_intercept"),
    [(0.05, 0.37, 2, True), (0.05, 0.37, 3, False), (3.0, 0.1, 3, True)],
)
def test_the_bound_holds_also_where_one_neighbor_lacks_a_class(
    fit_intercept, n_classes, C, attained
):
    model = exact(
        LOGISTIC, fit_intercept=fit_intercept, C=C, classes=range(n_classes)
    ).set_params(sensitivity="bound", x_norm=1.0)
    worst, worst_lacking = worst_neighbors(model, n_classes, seed=0)
    assert attained < worst_lacking <= worst <= 1.0


def test_the_search_for_neighbors_notices_answers_of_zero_without_a_class():
    """Which logistic regression has, where its intercept is free."""
    model = exact(LOGISTIC, C=0.05, classes=[0, 1])
    bound = make(model, **BOUND | {"x_norm": 1.0}).fit(
        *hard_records(np.random.default_rng(0), 5, 2)
    )
    model.set_params(sensitivity=bound.sensitivity_)
    assert worst_neighbors(model, 2, seed=0)[0] > 1.0
