"""Logistic regression of records that have scores beforehand."""

import numpy as np
import pytest
from scipy.special import softmax

from skparisk.neighbors import bind_pairs, draw_pairs
from skparisk.queries import (
    FunctionQuery,
    LogisticRegressionQuery,
    _logistic,
    _logistic_descent,
)
from skparisk.queries._logistic_descent import PoolDescent
from skparisk.queries._logistic_pool import PoolSolver
from skparisk.queries._logistic_records import OwnRecords, SharedRecords
from skparisk.queries._logistic_solver import AverageDatabase
from skparisk.queries._looked_up import LookedUp
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences

RNG = np.random.default_rng(0)
N, D = 120, 4
X = RNG.normal(size=(N, D)) * [1.0, 2.0, 0.5, 1.0] + [0.0, 3.0, 0.0, 0.0]
CODES = RNG.integers(3, size=N)
SEEDS = np.random.SeedSequence(0).spawn(2)
SCORES = 2.0 * RNG.normal(size=(N, 2))


def targets(n_classes, scores=SCORES):
    """Return labels with scores beside them."""
    return np.column_stack([CODES % n_classes, scores[:, : n_classes - 1]])


def query_of(n_classes, fit_intercept=True, C=0.3):
    return LogisticRegressionQuery(tuple(range(n_classes)), C, fit_intercept)


def slope(query, features, y, answer):
    """Return the gradient at an answer, in extended precision."""
    n_classes = len(query.classes)
    n_rows = 1 if n_classes == 2 else n_classes
    features = features.astype(np.longdouble)
    coef = answer[: n_rows * D].reshape(n_rows, D)
    scores = features @ coef.T + (answer[n_rows * D :] if query.fit_intercept else 0)
    if n_rows == 1:
        scores = np.column_stack([0 * scores, scores])
    scores[:, 1:] += y[:, 1:]
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    off = (p - (y[:, :1] == np.arange(n_classes)))[:, -n_rows:]
    found = [query.C * off.T @ features + coef]
    if query.fit_intercept:
        found.append(query.C * off.sum(axis=0)[:, None])
    return np.column_stack(found)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("size", [1.0, 40.0])
def test_answers_are_added_to_the_scores(n_classes, fit_intercept, size):
    """They minimize the loss; without the scores they would not."""
    query, y = query_of(n_classes, fit_intercept), targets(n_classes, size * SCORES)
    answer = query(X, y)
    assert np.abs(slope(query, X, y, answer)).max() < 1e-11
    other = query(X, y[:, 0])
    assert np.abs(slope(query, X, y, other)).max() > 1.0
    if n_classes > 2:
        n_coef = n_classes * D
        sums = answer[:n_coef].reshape(n_classes, D).sum(axis=0)
        np.testing.assert_allclose(sums, 0.0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_that_say_nothing(n_classes):
    """Zeros change nothing; those that an intercept might have take it away."""
    query, y = query_of(n_classes), targets(n_classes)
    plain = query(X, y[:, 0])
    np.testing.assert_array_equal(query(X, targets(n_classes, 0 * SCORES)), plain)
    level = np.array([0.7, -0.2])[: n_classes - 1]
    moved = query(X, targets(n_classes, np.ones_like(SCORES) * [0.7, -0.2]))
    n_coef = len(plain) // (D + 1) * D
    np.testing.assert_allclose(moved[:n_coef], plain[:n_coef], atol=1e-11)
    all_classes = level if n_classes == 2 else [0.0, *level] - np.mean([0.0, *level])
    np.testing.assert_allclose(moved[n_coef:], plain[n_coef:] - all_classes, atol=1e-11)


def test_scores_of_a_first_look_at_many_records():
    """Of every eighth of them, with the scores of these."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(2**15, D))
    codes, scores = rng.integers(2, size=2**15), rng.normal(size=2**15)
    y = np.column_stack([codes, scores])
    query = query_of(2)
    answer = query(features, y)
    assert np.abs(slope(query, features, y, answer)).max() < 1e-8


def test_other_columns_are_no_scores():
    for y in (np.zeros((N, 3)), np.zeros((N, 1)), np.zeros((N, 2, 1))):
        with pytest.raises(ValueError, match="Labels must have one dimension"):
            query_of(2)(X, y)


SOLVERS = {
    "whole": (PoolSolver, 1, 0),
    "products": (PoolDescent, 1, 0),
    "groups": (PoolDescent, 6, 1),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
# Fewer records than the pool has, of which each is looked up; and more.
@pytest.mark.parametrize("n_records", [25, 200])
def test_pairs_are_answered_as_one_by_one(
    monkeypatch, solver, relation, n_classes, fit_intercept, n_records
):
    kind, n_neighbors, pays = SOLVERS[solver]
    monkeypatch.setattr(_logistic, "_cheapest", lambda *_: kind)
    monkeypatch.setattr(_logistic_descent, "_pays", lambda *_: bool(pays))
    query, y = query_of(n_classes, fit_intercept), targets(n_classes)
    plain = FunctionQuery(lambda X, y: query(X, y))
    answered = []
    monkeypatch.setattr(
        LogisticRegressionQuery,
        "__call__",
        lambda self, *given, call=LogisticRegressionQuery.__call__: (
            answered.append(1) or call(self, *given)
        ),
    )
    found, known = (
        sample_differences(
            each,
            TableReference(X, y),
            n_pairs=24,
            n_records=n_records,
            n_features=D,
            relation=relation,
            neighbors_per_database=n_neighbors,
            random_state=0,
        )
        for each in (query, plain)
    )
    # Of the first, not even one by itself but that which shows if they agree.
    assert len(answered) < 24 + 24 // n_neighbors + 4
    finite = np.isfinite(found)  # a database may lack a class
    assert finite.mean() > 0.9
    largest = np.abs(known[finite]).max()
    np.testing.assert_allclose(found[finite], known[finite], atol=1e-5 * largest)
    # Away from zero, by what the answers may be off.
    assert (np.abs(found) >= np.abs(known)).all()


@pytest.mark.parametrize("kind", [PoolSolver, PoolDescent])
def test_scores_of_a_large_pool_are_looked_up(monkeypatch, kind):
    """Some of the rows tell what all have in common."""
    rng = np.random.default_rng(2)
    features, scores = rng.normal(size=(40_000, D)), 3.0 * rng.normal(size=40_000)
    y = np.column_stack([rng.integers(2, size=40_000), scores])
    monkeypatch.setattr(_logistic, "_cheapest", lambda *_: kind)
    query, table = query_of(2), TableReference(features, y)
    source = bind_pairs(
        table, n_pairs=12, n_records=30, relation="replace-one", seed=SEEDS[0]
    )
    pairs = draw_pairs(source, n_records=30, start=0, size=12, seed=SEEDS[1])
    solver = query._pool_solver(table.pool, y[:, 0].astype(int), 30, scores[None])
    looked_up = solver._pool if kind is PoolDescent else solver.records
    assert isinstance(looked_up.Z, LookedUp)
    first, second, proven = solver(pairs)
    assert proven.all()
    for pair, answers in enumerate(zip(first, second, strict=True)):
        for answer, database in zip(answers, pairs.databases(pair), strict=True):
            np.testing.assert_allclose(answer, query(*database), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("own", [False, True])
def test_what_one_record_adds_is_at_its_scores(own):
    """Moments, slopes and curvature of single records, with and without scores."""
    m, n_rows, k, q = 3, 6, 2, 4
    rng = np.random.default_rng(4)
    Z, scores = rng.normal(size=(m, n_rows, q)), 3.0 * rng.normal(size=(m, k, n_rows))
    of_class = np.eye(k + 1)[rng.integers(k + 1, size=(m, n_rows))][..., 1:]
    of_class = of_class.swapaxes(1, 2)
    parts = (Z, of_class, of_class, np.eye(k * q), scores)
    if own:
        records = OwnRecords(*parts)
    else:
        records = SharedRecords(*(part[0] for part in parts[:3]), parts[3], scores[0])
    v, at = rng.normal(size=(2, m, k, q))
    columns = np.array([4, 0, 4])
    moments, slopes, curvature = records.of_one(columns, v, at)
    for each, column in enumerate(columns):
        table = each if own else 0
        z, before = Z[table, column], scores[table, :, column]
        target = of_class[table, :, column]

        def shares(theta, z=z, before=before):
            return softmax(np.append(0.0, theta @ z + before))[1:]

        np.testing.assert_allclose(moments[each], np.kron(target, z), rtol=1e-12)
        off = shares(v[each]) - target
        np.testing.assert_allclose(slopes[each], np.kron(off, z), rtol=1e-9)
        p = shares(at[each])
        squares = np.kron(np.diag(p) - np.outer(p, p), np.outer(z, z))
        np.testing.assert_allclose(curvature[each], squares, rtol=1e-9, atol=1e-12)
    if own:
        some = records.some(np.array([False, True, True]))
        np.testing.assert_array_equal(some.offsets, scores[1:])
        return
    swapped = _logistic_descent._swapped(records, columns)
    expected = Z[0, columns] @ v[0].T + scores[0][:, columns].T
    np.testing.assert_allclose(swapped.scores(v[0]), expected, rtol=1e-12)


def test_a_part_of_a_pool_has_the_scores_of_its_rows():
    common = {"n_classes": 3, "C": 0.3, "fit_intercept": True, "n_records": N}
    part = np.arange(10, 90)
    some = AverageDatabase.of(X, CODES, part=part, offsets=SCORES.T, **common)
    alone = AverageDatabase.of(X[part], CODES[part], offsets=SCORES[part].T, **common)
    np.testing.assert_allclose(some.theta, alone.theta, rtol=1e-12)
    np.testing.assert_array_equal(some.offsets, SCORES[part].T)
    np.testing.assert_array_equal(some.of_pool, SCORES.T)


def test_huge_numbers_say_nothing_by_a_warning():
    """Products that overflow, whatever the caller makes of these."""
    with np.errstate(all="raise"):
        answer = query_of(2)(1e200 * X, targets(2))
    assert answer.shape == (D + 1,)
