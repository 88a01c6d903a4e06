"""Logistic regression: its minimizers, their differences, and their bound."""

import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from skparisk.linear_model import logistic_sensitivity_bound
from skparisk.linear_model._bounds import bounded_logistic_problem
from skparisk.neighbors import NeighborPairs, bind_pairs, draw_pairs
from skparisk.queries import (
    LogisticRegressionQuery,
    _logistic,
    _logistic_pool,
    _logistic_records,
    _logistic_solver,
)
from skparisk.queries._looked_up import representative
from skparisk.reference import Domain, Interval, TableReference
from skparisk.reference._base import RecordPool

RELATIONS = ("replace-one", "add-remove")

# Of the largest output: how far answers may be from the exact minimizer.
EXACT = 1e-12


# Oracles


def derivatives(query, X, y, answer):
    """Return the gradient in extended precision, and the Hessian, at an answer.

    In the coordinates of centered features, where there is an intercept: they are
    the coefficients and then the intercept, of each class (of the second, if two).
    """
    n_classes, (n, d) = len(query.classes), X.shape
    n_rows = 1 if n_classes == 2 else n_classes
    X, answer = X.astype(np.longdouble), answer.astype(np.longdouble)
    theta = answer[: n_rows * d].reshape(n_rows, d)
    penalty = np.ones(d)
    if query.fit_intercept:
        center = X.mean(axis=0)
        intercepts = answer[n_rows * d :] + theta @ center
        theta = np.column_stack([theta, intercepts])
        X = np.column_stack([X - center, np.ones(n)])
        penalty = np.append(penalty, 0.0)
    scores = X @ theta.T
    if n_rows == 1:
        scores = np.column_stack([0 * scores, scores])
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    # 1 - p, without cancellation.
    rest = p @ (1 - np.eye(n_classes))
    own = np.searchsorted(query.classes, y)[:, None] == np.arange(n_classes)
    residuals = np.where(own, -rest, p)
    p, rest, residuals = (part[:, -n_rows:] for part in (p, rest, residuals))
    gradient = query.C * residuals.T @ X + theta * penalty
    if n_rows > 1:  # along a common shift of all classes there is only rounding
        gradient -= gradient.mean(axis=0)
    X, q = X.astype(float), len(penalty)
    hessian = np.zeros((n_rows, q, n_rows, q))
    for a in range(n_rows):
        for b in range(n_rows):
            weights = p[:, a] * (rest[:, a] if a == b else -p[:, b])
            hessian[a, :, b] = query.C * (X.T * weights.astype(float)) @ X
        hessian[a, :, a] += np.diag(penalty)
    return gradient.ravel(), hessian.reshape(n_rows * q, -1)


def gap(query, X, y, answer):
    """Return how far the minimizer is, of the largest output, by a Newton step."""
    gradient, hessian = derivatives(query, X, y, answer)
    scale = 1 / np.sqrt(hessian.diagonal())
    step = np.linalg.lstsq(
        hessian * scale * scale[:, None], gradient.astype(float) * scale, rcond=1e-14
    )[0]
    n_rows = 1 if len(query.classes) == 2 else len(query.classes)
    step = (step * scale).reshape(n_rows, -1)
    if n_rows > 1:  # a common shift, which least squares may leave, changes nothing
        step -= step.mean(axis=0)
    if query.fit_intercept:
        step[:, -1] -= step[:, :-1] @ X.mean(axis=0)
    return abs(step).max() / abs(answer).max()


def scikit_learn(query, X, y, tol=1e-12):
    model = LogisticRegression(
        C=query.C,
        solver="newton-cholesky",
        tol=tol,
        max_iter=1000,
        fit_intercept=query.fit_intercept,
    )
    model.fit(X, y)
    assert model.classes_.tolist() == list(query.classes)
    intercept = model.intercept_ if query.fit_intercept else np.zeros(0)
    if len(intercept) > 1:  # a common shift changes nothing
        intercept = intercept - intercept.mean()
    return np.concatenate([model.coef_.ravel(), intercept])


# Data


def overlapping(scores, X, rng):
    noise = 1.5 * rng.normal(size=scores.shape)
    return X, np.argmax(scores + noise, axis=1)


def separated(scores, X, rng):
    return X, np.argmax(scores, axis=1)


def on_different_scales(scores, X, rng):
    X, y = overlapping(scores, X, rng)
    return X * [1e-3, 1e3, 1.0, 30.0], y


def far_from_zero(scores, X, rng):
    X, y = overlapping(scores, X, rng)
    return X + np.array([1e4, 0.0, 0.0, -10.0]), y


def with_a_constant(scores, X, rng):
    X, y = overlapping(scores, X, rng)
    X[:, 0] = 3.0
    return X, y


SHAPES = (
    overlapping,
    separated,
    on_different_scales,
    far_from_zero,
    with_a_constant,
)


def make_data(n_classes, n=200, shape=overlapping, seed=0):
    """Return features and labels 0, 2, 4, ..."""
    rng = np.random.default_rng([seed, n_classes])
    X = rng.normal(size=(n, 4))
    X, codes = shape(X @ rng.normal(size=(4, n_classes)), X, rng)
    return X, 2.0 * codes


def make_query(n_classes, C=1.0, fit_intercept=True):
    return LogisticRegressionQuery(
        tuple(2.0 * np.arange(n_classes)), C=C, fit_intercept=fit_intercept
    )


def pairs_from(X, y, *, n_records, relation="replace-one", size=6, seed=0):
    source_seed, pairs_seed = np.random.SeedSequence([seed, 5]).spawn(2)
    source = bind_pairs(
        TableReference(X, y),
        n_pairs=size,
        n_records=n_records,
        relation=relation,
        seed=source_seed,
    )
    return draw_pairs(
        source,
        n_records=n_records,
        start=0,
        size=size,
        seed=pairs_seed,
    )


# The minimizer


@pytest.mark.sampled(30)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_answers_are_the_exact_minimizers(shape, n_classes, C, fit_intercept):
    """In extended precision, and as scikit-learn has them, as far as it gets."""
    X, y = make_data(n_classes, shape=shape)
    query = make_query(n_classes, C, fit_intercept)
    answer = query(X, y)
    n_rows = 1 if n_classes == 2 else n_classes
    assert answer.shape == (n_rows * (4 + fit_intercept),)
    assert gap(query, X, y, answer) < EXACT
    if shape is far_from_zero:  # scikit-learn does not center columns
        return
    expected = scikit_learn(query, X, y)
    allowed = 1e-9 + 2 * gap(query, X, y, expected)
    assert allowed < 1e-6
    np.testing.assert_allclose(
        answer, expected, rtol=0, atol=allowed * abs(expected).max()
    )


def test_classes_of_a_multinomial_answer_have_no_common_shift():
    X, y = make_data(3)
    answer = make_query(3)(X, y)
    coef, intercept = answer[:12].reshape(3, 4), answer[12:]
    assert abs(coef.sum(axis=0)).max() < 1e-14
    assert abs(intercept.sum()) < 1e-14


@pytest.mark.parametrize("C", [1e-12, 1e8, 1e12])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_extreme_penalties_are_solved_too(n_classes, C):
    for shape in (overlapping, separated):
        X, y = make_data(n_classes, n=60, shape=shape)
        query = make_query(n_classes, C)
        assert gap(query, X, y, query(X, y)) < EXACT


@pytest.mark.parametrize("n_classes", [2, 3])
def test_columns_of_any_size_give_finite_answers_without_a_word(n_classes):
    X, y = make_data(n_classes)
    for scales in ([1e150, 1e-150, 1.0, 1.0], [1e300, 1.0, 0.0, 1e-310]):
        for C in (1e-300, 1.0, 1e300):
            answer = make_query(n_classes, C)(X * scales, y)
            assert np.isfinite(answer).all()
            assert answer.any()
    X[0] *= 1e6
    query = make_query(n_classes)
    assert gap(query, X, y, query(X, y)) < 1e-11


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_order_of_records_changes_nothing_but_rounding(n_classes):
    X, y = make_data(n_classes)
    query, order = make_query(n_classes), np.random.default_rng(0).permutation(len(X))
    answer = query(X, y)
    np.testing.assert_allclose(query(X[order], y[order]), answer, rtol=0, atol=1e-13)
    assert (query(X, y) == answer).all()


def test_steps_are_limited(monkeypatch):
    """Where rounding never lets the solver see the end, it ends."""
    X, y = make_data(2)
    query = make_query(2)
    exact = query(X, y)
    monkeypatch.setattr(_logistic_solver, "_MOST_STEPS", 2)
    early = query(X, y)
    assert 1e-6 < abs(early - exact).max() < 0.5


def test_a_database_without_a_class_answers_zeros():
    """There is no minimizer, and an error would say so."""
    X, y = make_data(3)
    query = make_query(3)
    assert query(X[y < 4], y[y < 4]).tolist() == [0.0] * 15
    assert make_query(2)(X[y == 0], y[y == 0]).tolist() == [0.0] * 5
    assert make_query(2)(X[:0], y[:0]).tolist() == [0.0] * 5


def test_without_intercept_a_missing_class_leaves_a_minimizer():
    """So that the bound of the sensitivity holds for all databases."""
    X, y = make_data(3)
    for n_classes, rows in ((3, y < 4), (2, y == 0), (2, y < 0)):
        query = make_query(n_classes, fit_intercept=False)
        answer = query(X[rows], y[rows])
        gradient, _ = derivatives(query, X[rows], y[rows], answer)
        assert abs(gradient).max() < 1e-13
        assert answer.any() == rows.any()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"classes": (1.0,)}, "classes"),
        ({"classes": (1.0, np.nan)}, "classes"),
        ({"C": 0.0}, "C must"),
        ({"C": np.inf}, "C must"),
        ({"C": "1"}, "C must"),
        ({"fit_intercept": 1}, "^fit_intercept"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, name):
    with pytest.raises(ValueError, match=name):
        LogisticRegressionQuery(**{"classes": (0.0, 1.0), **parameters})


def test_labels_that_are_no_class_are_refused_without_saying_which():
    X, y = make_data(2)
    with pytest.raises(ValueError, match="not among the classes") as error:
        make_query(2)(X, y + 0.123)
    assert "123" not in str(error.value)
    pairs = pairs_from(X, y + 0.5, n_records=10)
    with pytest.raises(ValueError, match="not among the classes"):
        make_query(2).differences(pairs)


def test_queries_are_values():
    query = LogisticRegressionQuery((3, 1, 2.0), C=2)
    assert query == LogisticRegressionQuery(np.array([1.0, 2.0, 3.0]), C=2.0)
    assert query.classes == (1.0, 2.0, 3.0)
    assert type(query.C) is float
    assert query != LogisticRegressionQuery((1, 2), C=2.0)
    assert query.needs_y
    assert pickle.loads(pickle.dumps(query)) == query
    assert len({query, LogisticRegressionQuery((1, 2, 3), C=2.0)}) == 1


# Differences of pairs


@pytest.fixture
def refits(monkeypatch):
    """Record the databases that are answered one by one."""
    sizes = []
    answer = LogisticRegressionQuery.__call__

    def recorded(self, X, y=None):
        sizes.append(len(X))
        return answer(self, X, y)

    monkeypatch.setattr(LogisticRegressionQuery, "__call__", recorded)
    return sizes


def assert_differences(query, pairs):
    """Never below the differences of the answers, and above by no more than said."""
    block = query.on_pool(pairs.pool, pairs.n_records)(pairs)
    differences, errors = block.values, block.errors
    if errors is None:
        errors = np.zeros_like(differences)
    assert len(pairs)
    for i, (difference, error) in enumerate(zip(differences, errors, strict=True)):
        first, second = (query(*database) for database in pairs.databases(i))
        plain = first - second
        assert (abs(difference - plain) <= error).all()
        assert (abs(difference) >= abs(plain)).all()
        size = max(abs(first).max(), abs(second).max())
        assert error.max() <= 2.0**-31 * size * (1 + 1e-8)


def assert_contract(query, pairs):
    """Of differences that were not answered one by one."""
    errors = query.on_pool(pairs.pool, pairs.n_records)(pairs).errors
    assert errors is not None
    assert_differences(query, pairs)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_rows", [100, 250, 1300])
def test_differences_are_those_of_answers_one_by_one(
    n_rows, n_classes, fit_intercept, relation, refits
):
    """From pools of fewer, as many and many more records than a database has."""
    X, y = make_data(n_classes, n_rows, on_different_scales)
    query = make_query(n_classes, 0.1, fit_intercept)
    pairs = pairs_from(X, y, n_records=250, relation=relation)
    assert query.differences(pairs).shape[0] == 6
    # The one that tells how exact the solver is, unless all of the pool was solved.
    assert refits == [250] * (n_rows > 250)
    assert_contract(query, pairs)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("C", [1e-3, 1e2])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_differences_keep_the_contract_for_all_data(shape, C, n_classes):
    X, y = make_data(n_classes, 120, shape)
    X[:, 3] += 1e9 * (shape is far_from_zero)
    query = make_query(n_classes, C)
    assert_contract(query, pairs_from(X, y, n_records=120, size=4))


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n_records=st.integers(20, 60),
    n_rows=st.integers(20, 400),
    log_C=st.floats(-3, 3),
    relation=st.sampled_from(RELATIONS),
)
def test_small_databases_keep_the_contract(seed, n_records, n_rows, log_C, relation):
    X, y = make_data(2, n_rows, seed=seed)
    y[: n_rows // 2] = np.arange(n_rows // 2) % 2 * 2.0
    pairs = pairs_from(X, y, n_records=n_records, relation=relation, size=3, seed=seed)
    labels = [y for i in range(3) for _, y in pairs.databases(i)]
    assume(all(len(np.unique(y)) == 2 for y in labels))
    assert_differences(make_query(2, 10.0**log_C), pairs)


def with_all_classes(pairs):
    """Return the pairs whose databases have all classes of the pool."""
    n_classes = len(np.unique(pairs.pool.y))
    keep = [
        i
        for i in range(len(pairs))
        if all(len(np.unique(y)) == n_classes for _, y in pairs.databases(i))
    ]
    replacement = None if pairs.replacement is None else pairs.replacement[keep]
    return NeighborPairs.of(
        pairs.pool, pairs.records[keep], pairs.changed[keep], replacement
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [overlapping, far_from_zero])
@pytest.mark.parametrize("C", [1e-9, 1e-7])
def test_odds_near_one_keep_the_contract(C, shape, seed):
    """Answers near 0 have the rounding of the two log odds that cancel in them."""
    X, _ = make_data(2, 30, shape, seed=seed)
    y = np.where(np.arange(30) < 11, 0.0, 2.0)
    pairs = with_all_classes(pairs_from(X, y, n_records=6, size=60, seed=seed))
    assert_contract(make_query(2, C), pairs)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("nearness", [1e-4, 1e-6, 1e-8])
def test_features_that_are_nearly_the_same_keep_the_contract(nearness, seed, relation):
    X, y = make_data(3, 12, seed=seed)
    X = np.column_stack([X[:, 0], X[:, 0] + nearness * X[:, 1]])
    y[:9] = np.repeat([0.0, 2.0, 4.0], 3)
    pairs = pairs_from(X, y, n_records=10, relation=relation, size=24, seed=seed)
    assert_differences(make_query(3, 3e5), with_all_classes(pairs))


@pytest.mark.parametrize("n_rows", [1000, 4100])
def test_what_is_said_to_be_proven_is_close(n_rows):
    """For all pairs of full blocks, by the exact minimizers."""
    X, y = make_data(2, n_rows)
    query = make_query(2)
    solver = query._pool_solver(RecordPool(X, y), (y / 2).astype(int), 1000)
    pairs = pairs_from(X, y, n_records=1000, size=40)
    first, second, proven = solver(pairs)
    assert proven.all()
    for i in range(40):
        for own, database in zip(
            (first[i], second[i]), pairs.databases(i), strict=True
        ):
            exact = query(*database)
            assert abs(own - exact).max() <= 2.0**-34 * abs(exact).max()


def test_pairs_that_do_not_converge_are_answered_one_by_one(refits):
    """Few records with strong weights: some are too far from the pool's solution."""
    X, y = make_data(2, 40)
    query = make_query(2, 1e3)
    pairs = pairs_from(X, y, n_records=40, size=20)
    query.differences(pairs)
    assert 1 < len(refits) < 1 + 2 * 20
    assert_contract(query, pairs)


@pytest.mark.parametrize("evaluations", [1, 2])
def test_too_few_steps_are_noticed(evaluations, refits, monkeypatch):
    monkeypatch.setattr(_logistic_pool, "_MOST_EVALUATIONS", evaluations)
    X, y = make_data(2)
    pairs = pairs_from(X, y, n_records=200)
    assert_contract(make_query(2), pairs)
    assert refits[:13] == [200] * 13


def collinear(X):
    X[:, 1] = X[:, 0] + 1e-7 * X[:, 1]
    return X


def huge(X):
    return X * 1e300


@pytest.mark.parametrize(
    ("data", "shape", "C"),
    [
        (overlapping, collinear, 1e9),
        (overlapping, huge, 1.0),
        (separated, np.copy, 1e10),  # nearly no record has any weight
    ],
)
def test_ill_conditioned_pools_are_answered_one_by_one(data, shape, C, refits):
    X, y = make_data(2, shape=data)
    X = shape(X)
    query = make_query(2, C)
    pairs = pairs_from(X, y, n_records=200)
    block = query.on_pool(pairs.pool, 200)(pairs)
    differences, errors = block.values, block.errors
    assert errors is None
    assert refits == [200] * 12
    for i, difference in enumerate(differences):
        first, second = (query(*database) for database in pairs.databases(i))
        assert (difference == first - second).all()


def test_a_solver_that_disagrees_with_the_answers_is_not_used(refits, monkeypatch):
    answers = _logistic_pool.PoolSolver._answers
    monkeypatch.setattr(
        _logistic_pool.PoolSolver,
        "_answers",
        lambda self, v: answers(self, v) * (1 + 1e-9),
    )
    X, y = make_data(2)
    pairs = pairs_from(X, y, n_records=200)
    errors = make_query(2).on_pool(pairs.pool, 200)(pairs).errors
    assert errors is None
    assert refits == [200] * 12


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_contract_notices_a_neighbor_that_is_not_changed(relation, monkeypatch):
    """The tests above would see it."""
    of_one = _logistic_records.Records.of_one
    monkeypatch.setattr(
        _logistic_records.Records,
        "of_one",
        lambda self, *args: tuple(0 * part for part in of_one(self, *args)),
    )
    X, y = make_data(2)
    with pytest.raises(AssertionError):
        assert_contract(make_query(2), pairs_from(X, y, n_records=200))


@pytest.fixture
def looked_up(monkeypatch):
    """Look up the rows of each pool that is larger than its databases."""
    monkeypatch.setattr(_logistic, "_MOST_TRANSFORMED", 0)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_of_a_large_pool_are_looked_up(
    n_classes, fit_intercept, relation, refits, looked_up, monkeypatch
):
    """So that what is prepared does not grow with the pool."""
    asked = []
    of = _logistic.AverageDatabase.of

    def recorded(X, codes, **words):
        asked.append(words["part"])
        return of(X, codes, **words)

    monkeypatch.setattr(_logistic.AverageDatabase, "of", recorded)
    X, y = make_data(n_classes, 3000, on_different_scales)
    query = make_query(n_classes, 0.1, fit_intercept)
    pairs = pairs_from(X, y, n_records=150, relation=relation)
    query.differences(pairs)
    assert len(asked[0]) == 256
    assert refits == [150]
    assert_contract(query, pairs)


def test_records_that_the_looked_up_part_does_not_show(looked_up):
    """Longer than all of these, which what is proven depends on."""
    X, y = make_data(2, 3000)
    X[1::2] *= 30.0
    part = representative(RecordPool(X, y), 100, 0)
    assert part is not None
    X[part] /= 30.0
    assert_differences(make_query(2), pairs_from(X, y, n_records=100))


def test_all_rows_tell_of_classes_that_are_rare(looked_up, refits):
    X, y = make_data(2, 2000)
    part = representative(RecordPool(X, y), 100, 0)
    assert part is not None
    y[part] = 0.0
    pairs = pairs_from(X, y, n_records=100)
    make_query(2).differences(pairs)
    assert refits == [100]
    assert_contract(make_query(2), pairs)


def test_rows_are_looked_up_only_if_they_are_many():
    X, y = make_data(2, 2000)
    pool = RecordPool(X, y)
    assert representative(pool, 500, 0) is None  # counts of all rows
    assert representative(pool, 100, X.size) is None
    assert len(representative(pool, 300, X.size - 1)) == 300
    assert len(representative(pool, 10, 0)) == 256  # for each column
    assert representative(RecordPool(X[:200], y[:200]), 10, 0) is None


def test_sampled_databases_need_all_classes(monkeypatch):
    """Also those of a pool that lacks one, or where the neighbor alone does."""
    X, y = make_data(2)
    y[:] = 0.0
    pairs = pairs_from(X, y, n_records=50)
    found = make_query(2).on_pool(pairs.pool, 50)(pairs)
    assert np.isinf(found.values).all()
    assert re.match(r"the class 2 .* is missing", found.failure)
    with monkeypatch.context() as patch:  # it is not even tried to solve the pool
        patch.delattr(_logistic, "AverageDatabase")
        make_query(2).on_pool(pairs.pool, 50)
    y[0] = 2.0
    records = np.arange(200)[None]
    pairs = NeighborPairs.of(RecordPool(X, y), records, np.array([0]), np.array([1]))
    assert np.isinf(make_query(2).differences(pairs)).all()
    pairs = NeighborPairs.of(RecordPool(X, y), records, np.array([1]), np.array([2]))
    assert_contract(make_query(2), pairs)


def test_a_reference_without_labels_is_refused():
    X, _ = make_data(2)
    with pytest.raises(ValueError, match=r"the reference has none \(y\)"):
        make_query(2).on_pool(RecordPool(X), 10)


def test_sampling_leaves_the_pairs_as_they_are():
    X, y = make_data(2)
    for n_records in (40, 200):
        pairs = pairs_from(X, y, n_records=n_records)
        records = pairs.records.copy()
        evaluate = make_query(2).on_pool(pairs.pool, n_records)
        assert (evaluate(pairs).values == evaluate(pairs).values).all()
        assert (pairs.records == records).all()


# The bound


def moved(query, first, second):
    return float(np.linalg.norm(query(*first) - query(*second)))


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 4),
    n=st.integers(1, 12),
    log_C=st.floats(-3, 3),
    x_norm=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_the_bound_is_not_exceeded(seed, n_classes, n, log_C, x_norm):
    rng = np.random.default_rng(seed)
    C = 10.0**log_C
    query = make_query(n_classes, C, fit_intercept=False)
    X = rng.normal(size=(n + 1, 2)) * rng.choice([0.1, 10.0], size=(n + 1, 1))
    X *= x_norm / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), x_norm)
    y = rng.choice(query.classes, size=n + 1)
    for relation, one, other in (
        ("replace-one", slice(n), slice(1, n + 1)),  # as sets, one record differs
        ("add-remove", slice(n + 1), slice(n)),
    ):
        bound = logistic_sensitivity_bound(
            C, x_norm=x_norm, n_classes=n_classes, relation=relation
        )
        assert moved(query, (X[one], y[one]), (X[other], y[other])) <= bound


@pytest.mark.sampled(3)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("x_norm", [0.5, 2.0])
def test_the_bound_is_nearly_attained(x_norm, n_classes, relation):
    """By a record that a majority contradicts, across where the majority bends."""
    C = 0.1 / x_norm**2
    query = make_query(n_classes, C, fit_intercept=False)
    X = np.tile([x_norm, 0.0], (40_000, 1))
    y = np.zeros(len(X))
    y[0] = 2.0
    across = np.array([0.4, math.sqrt(1 - 0.4**2)]) * x_norm
    X[0] = across
    if relation == "add-remove":
        neighbor = X[1:], y[1:]
    else:
        neighbor = X.copy(), y
        neighbor[0][0] = across * [1, -1]
    bound = logistic_sensitivity_bound(
        C, x_norm=x_norm, n_classes=n_classes, relation=relation
    )
    assert 0.8 * bound < moved(query, (X, y), neighbor) <= bound


def test_a_query_knows_its_bound_where_there_is_one():
    """Not where columns have no bounds, or only one value, or with an intercept."""
    bounded = Domain([Interval(-1, 1), Interval(0, 2)])
    query = make_query(2, 0.5, fit_intercept=False)
    for relation in RELATIONS:
        move = query.largest_move(bounded, 100, relation)
        l2 = logistic_sensitivity_bound(0.5, x_norm=math.sqrt(5), relation=relation)
        assert l2 < move.l2 < l2 * (1 + 1e-8)
        assert move.outputs.tolist() == [move.l2] * 2
        for domain in (Domain([Interval(-1, 1), None]), Domain([Interval(0, 0)] * 2)):
            assert query.largest_move(domain, 100, relation) is None
        assert make_query(2).largest_move(bounded, 100, relation) is None


def test_bounds_of_known_cases():
    assert logistic_sensitivity_bound(0.5) == 1.0
    assert logistic_sensitivity_bound(0.5, relation="add-remove") == 0.5
    assert logistic_sensitivity_bound(3.0, x_norm=2.0) == 12.0
    multinomial = logistic_sensitivity_bound(3.0, x_norm=2.0, n_classes=5)
    assert multinomial == pytest.approx(12.0 * math.sqrt(2))
    three = logistic_sensitivity_bound(3.0, x_norm=2.0, n_classes=3)
    assert three == multinomial


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"C": 0.0}, "^C must"),
        ({"x_norm": -1.0}, "^x_norm must"),
        ({"C": 1e200, "x_norm": 1e200}, r"^C \* x_norm must"),
        ({"n_classes": 1}, "^n_classes must"),
        ({"relation": "both"}, "relation"),
    ],
)
def test_bounds_of_what_is_out_of_range_are_refused(parameters, name):
    with pytest.raises(ValueError, match=name):
        logistic_sensitivity_bound(**{"C": 1.0, **parameters})


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_bounded_problem_has_short_rows_and_no_free_intercept(
    n_classes, fit_intercept
):
    X, y = make_data(n_classes)
    query = make_query(n_classes, 0.7, fit_intercept)
    rows, bounded, sensitivity = bounded_logistic_problem(query, X, 1.5)
    assert bounded == make_query(n_classes, 0.7, fit_intercept=False)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(rows[:, :4], X * np.minimum(1, 1.5 / norms))
    assert (norms > 1.5).any()
    radius = 1.5
    if fit_intercept:
        assert (rows[:, 4] == 1).all()
        radius = math.sqrt(1.5**2 + 1)
    n_outputs = len(bounded(rows, y))
    assert n_outputs == (4 + fit_intercept) * (1 if n_classes == 2 else 3)
    l2 = logistic_sensitivity_bound(0.7, x_norm=radius, n_classes=n_classes)
    exact = math.sqrt(n_outputs) * l2
    assert exact < sensitivity < exact * (1 + 1e-8)


def test_the_bounded_problem_pays_for_the_rounding_of_its_solver():
    """What is paid for is more than how far the answers are from the minimizers."""
    X, y = make_data(2, n=1000)
    for C in (1e-2, 1e2, 1e6):
        query = make_query(2, C)
        rows, bounded, sensitivity = bounded_logistic_problem(query, X, 1.0)
        l2 = logistic_sensitivity_bound(C, x_norm=math.sqrt(2.0))
        paid = sensitivity - math.sqrt(5) * l2
        gradient, _ = derivatives(bounded, rows, y, bounded(rows, y))
        # The objective is 1-strongly convex.
        assert 2 * math.sqrt(5) * np.linalg.norm(gradient.astype(float)) < paid


def test_far_rows_are_clipped_without_a_word():
    X, _ = make_data(2)
    X[0] *= 1e200
    rows, *_ = bounded_logistic_problem(make_query(2), X, 1.0)
    assert np.isfinite(rows).all()


def test_the_bounded_problem_needs_a_penalty_that_the_solver_can_see():
    X, _ = make_data(2)
    with pytest.raises(ValueError, match="C must be at most"):
        bounded_logistic_problem(make_query(2, 1e11), X, 1.0)
