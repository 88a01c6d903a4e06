"""Linear models that penalize coefficients as if columns were in other units."""

import math

import numpy as np
import pytest
from query_pairs import pairs_from, plain_differences
from sklearn.linear_model import LogisticRegression, Ridge

from skparisk.queries import (
    LinearSVCQuery,
    LogisticRegressionQuery,
    RidgeQuery,
    UnitsQuery,
)
from skparisk.queries._linear import MappedQuery, in_units, units_of
from skparisk.reference import TableReference

RNG = np.random.default_rng(0)
UNITS = (0.25, 1.0, 1024.0)
X = RNG.normal(size=(60, 3)) * UNITS
Y = X @ [4.0, -1.0, 0.001] + RNG.normal(size=60)
LABELS = (Y > 0) + (Y > 2.0) * 1.0
QUERIES = [
    RidgeQuery(3.0),
    RidgeQuery(3.0, fit_intercept=False),
    LogisticRegressionQuery((0.0, 1.0, 2.0), C=0.1),
    LinearSVCQuery((0.0, 1.0, 2.0), C=0.1, fit_intercept=False),
]


def targets_for(query):
    return Y if isinstance(query, RidgeQuery) else LABELS


def test_answers_are_those_of_scikit_learn_in_other_units():
    found = UnitsQuery(RidgeQuery(3.0), UNITS)(X, Y)
    plain = Ridge(3.0).fit(X / UNITS, Y)
    expected = [*plain.coef_ / UNITS, plain.intercept_]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    query = LogisticRegressionQuery((0.0, 1.0, 2.0), C=0.1)
    found = UnitsQuery(query, UNITS)(X, LABELS)
    plain = LogisticRegression(C=0.1, tol=1e-10, max_iter=9999).fit(X / UNITS, LABELS)
    expected = [*(plain.coef_ / UNITS).ravel(), *plain.intercept_]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_pairs_differ_as_their_answers_do():
    for query in QUERIES:
        asked = UnitsQuery(query, UNITS)
        table = TableReference(X, targets_for(query))
        pairs = pairs_from(table, n_records=30, relation="replace-one", size=6)
        found = asked.on_pool(pairs.pool, 30)(pairs)
        errors = 0.0 if found.errors is None else found.errors
        off = np.abs(found.values - plain_differences(asked, pairs))
        assert (off <= errors + 1e-9 / np.tile(UNITS, 2).min()).all()
        weights = asked.output_weights(X, found.values.shape[1])
        np.testing.assert_array_equal(
            weights, query.output_weights(X, found.values.shape[1])
        )


def test_more_records_have_a_larger_penalty():
    query = UnitsQuery(RidgeQuery(3.0), UNITS).resized(2.0)
    assert query == UnitsQuery(RidgeQuery((6.0,)), UNITS)
    assert query.penalty == (6.0,)
    assert query.classes is None
    assert query.needs_y
    assert "in other units" in str(query)
    with pytest.raises(NotImplementedError):
        MappedQuery(RidgeQuery())(X, Y)


def test_another_penalty_leaves_all_else_as_it_is():
    for query in QUERIES:
        changed = UnitsQuery(query, UNITS).with_penalty(7.0)
        assert changed.penalty == 7.0
        assert changed.with_penalty(query.penalty) == UnitsQuery(query, UNITS)


def test_units_are_powers_of_2_next_to_deviations():
    units = units_of(
        np.array([[0.0, 5.0, 1e200, 90.0], [6.0, 5.0, 0, 0]]), fit_intercept=True
    )
    assert units == (4.0, 1.0, 1.0, 32.0)
    assert units_of(np.full((60, 1), 0.1), fit_intercept=True) == (1.0,)
    assert units_of(np.array([[0.0, 6.0]]), fit_intercept=False) == (1.0, 8.0)
    assert in_units(QUERIES[0], (1.0, 1.0)) is in_units(QUERIES[0], None)
    for wrong in ((), (3.0,), (0.0,), (math.inf,), (-2.0,)):
        with pytest.raises(ValueError, match="units must be powers of 2, got"):
            UnitsQuery(QUERIES[0], wrong)
