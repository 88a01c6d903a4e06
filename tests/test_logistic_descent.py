"""Logistic regressions of many outputs: steps from products, and what is proven."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from test_logistic import (
    SHAPES,
    assert_contract,
    assert_differences,
    gap,
    make_data,
    make_query,
    overlapping,
    pairs_from,
    refits,  # noqa: F401
)
from test_neighbor_groups import groups_from

from skparisk._threads import one_thread
from skparisk.queries import (
    LogisticRegressionQuery,
    _logistic,
    _logistic_descent,
    _logistic_neighbors,
)
from skparisk.queries._logistic_descent import PoolDescent
from skparisk.queries._logistic_neighbors import InverseOfNeighbors
from skparisk.queries._logistic_pool import PoolSolver
from skparisk.queries._logistic_solver import AverageDatabase
from skparisk.queries._together import CLOSE
from skparisk.reference import TableReference
from skparisk.reference._base import RecordPool


@pytest.fixture
def descent(monkeypatch):
    """Solve all pools by products, however few outputs there are."""
    monkeypatch.setattr(_logistic, "_cheapest", lambda *_: PoolDescent)


def test_many_outputs_take_products_and_few_take_all_second_derivatives():
    assert _logistic._cheapest(1797, 9, 62) is PoolDescent
    assert _logistic._cheapest(569, 1, 31) is PoolSolver
    assert _logistic._cheapest(178, 2, 14) is PoolSolver
    assert _logistic._cheapest(200_000, 1, 51) is PoolSolver


@pytest.mark.parametrize("n_records", [10, 100, 100_000])
@pytest.mark.parametrize("n_logits", [1, 2, 9])
def test_second_derivatives_are_made_where_they_take_less_time(n_logits, n_records):
    """As measured: of each record, and to invert their matrix."""
    chosen = [_logistic._cheapest(n_records, n_logits, q) for q in range(1, 300)]
    for q, solver in enumerate(chosen, 1):
        whole = n_records * q * (n_logits + 1) + 6 * (n_logits * q) ** 2
        assert (solver is PoolSolver) == (whole <= 427 * n_records)
    assert set(chosen) == {PoolSolver, PoolDescent}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_rows", [50, 120])
def test_records_logits_and_columns_tell_which_is_chosen(
    n_rows, fit_intercept, monkeypatch
):
    """Of databases of so many different records."""
    asked = []

    def cheapest(*sizes):
        asked.append(sizes)
        return PoolSolver

    monkeypatch.setattr(_logistic, "_cheapest", cheapest)
    X, y = make_data(3, n_rows)
    query = make_query(3, fit_intercept=fit_intercept)
    query.on_pool(RecordPool(X, y), 80)
    assert asked == [(min(n_rows, 80), 2, 4 + fit_intercept)]


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_rows", [60, 120, 1300])
def test_differences_are_those_of_answers_one_by_one(
    n_rows,
    n_classes,
    fit_intercept,
    relation,
    descent,
    refits,  # noqa: F811
):
    """From pools of fewer, as many, and many more records than a database has."""
    X, y = make_data(n_classes, n_rows)
    query = make_query(n_classes, 0.5, fit_intercept)
    pairs = pairs_from(X, y, n_records=120, relation=relation, size=4)
    assert query.differences(pairs).shape[0] == 4
    # The one that tells how exact the solver is, unless all of the pool was solved.
    assert refits == [120] * (n_rows > 120)
    assert_contract(query, pairs)


@pytest.mark.parametrize("C", [1e-3, 1e3])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_differences_keep_the_contract_for_all_data(shape, C, descent):
    X, y = make_data(3, 120, shape)
    assert_differences(make_query(3, C), pairs_from(X, y, n_records=120, size=3))


@pytest.mark.parametrize("shift", [0.0, 1e3])
@pytest.mark.parametrize("C", [1.0, 3e5])
@pytest.mark.parametrize("nearness", [1e-2, 1e-4, 1e-6])
def test_features_that_are_nearly_the_same_keep_the_contract(
    nearness, C, shift, descent
):
    """Their scores cancel; if too much, databases are answered one by one."""
    X, y = make_data(3, 60)
    X = np.column_stack([X[:, 0], X[:, 0] + nearness * X[:, 1], X[:, 2]]) + shift
    assert_differences(make_query(3, C), pairs_from(X, y, n_records=50, size=4))


@pytest.mark.parametrize("n_steps", range(1, 8))
def test_what_is_proven_is_that_close(n_steps, monkeypatch):
    """Wherever it stops: if it says that a point is close, it is."""
    monkeypatch.setattr(_logistic_descent, "_MOST_STEPS", n_steps)
    X, y = make_data(3, 150)
    query = make_query(3)
    codes = (y / 2).astype(int)
    average = AverageDatabase.of(
        X, codes, n_classes=3, C=1.0, fit_intercept=True, n_records=150
    )
    solver = PoolDescent(average)
    pairs = pairs_from(X, y, n_records=150, size=5)
    first, _, proven = solver(pairs)
    gaps = [
        gap(query, *next(pairs.databases(i)), answer) for i, answer in enumerate(first)
    ]
    assert (np.array(gaps)[proven] <= CLOSE).all()
    assert proven.all() or n_steps < 7
    if n_steps <= 2:
        assert max(gaps) > CLOSE
        assert not proven.any()


def test_pairs_that_are_not_proven_are_answered_one_by_one(descent, monkeypatch):
    X, y = make_data(3, 100)
    pairs = pairs_from(X, y, n_records=100, size=3)
    query = make_query(3)
    evaluate = query.on_pool(pairs.pool, 100)
    monkeypatch.setattr(_logistic_descent, "_MOST_STEPS", 1)
    block = evaluate(pairs)
    assert not block.errors.any()
    plain = [np.subtract(*(query(*d) for d in pairs.databases(i))) for i in range(3)]
    np.testing.assert_array_equal(block.values, plain)


@pytest.mark.parametrize(("most", "solved"), [((1, 8), False), ((60, 60), True)])
def test_damped_steps_lead_to_solutions_that_are_far_away(most, solved, monkeypatch):
    """From that of the pool; what too few directions have left unsolved is noticed."""
    for name, number in zip(("_MOST_DIRECTIONS", "_MOST_STEPS"), most, strict=True):
        monkeypatch.setattr(_logistic_descent, name, number)
    X, y = make_data(3, 60, overlapping)
    X[:3] *= 30.0
    average = AverageDatabase.of(
        X, (y / 2).astype(int), n_classes=3, C=1.0, fit_intercept=True, n_records=60
    )
    pairs = pairs_from(X, y, n_records=60, size=5)
    first, _, proven = PoolDescent(average)(pairs)
    databases = [next(pairs.databases(i)) for i in range(5)]
    gaps = [
        gap(make_query(3), *each, answer)
        for each, answer in zip(databases, first, strict=True)
    ]
    assert (np.array(gaps)[proven] <= CLOSE).all()
    assert proven.all() == solved
    assert (max(gaps) <= CLOSE) == solved


@pytest.mark.parametrize(
    ("n_classes", "C", "factor", "n_steps", "share"),
    [
        (2, 1.0, 1.0, 6, 0.99),
        (2, 1.0, 100.0, 12, 0.85),
        (2, 100.0, 100.0, 12, 0.7),
        (3, 1.0, 1.0, 6, 0.8),
        (3, 1.0, 100.0, 12, 0.55),
        (3, 100.0, 100.0, 12, 0.35),
    ],
)
def test_solutions_that_are_far_away_take_few_steps(
    n_classes, C, factor, n_steps, share, monkeypatch
):
    """Of a pool with records that are far from others, and in few databases.

    Half of the steps are not enough.
    """
    X, y = make_data(n_classes, 300)
    X[::40] *= factor
    average = AverageDatabase.of(
        X,
        (y / 2).astype(int),
        n_classes=n_classes,
        C=C,
        fit_intercept=True,
        n_records=60,
    )
    pairs = pairs_from(X, y, n_records=60, size=64)
    for most, enough in ((n_steps, True), (n_steps // 2, False)):
        monkeypatch.setattr(_logistic_descent, "_MOST_STEPS", most)
        with np.errstate(all="ignore"):
            _, _, proven = PoolDescent(average)(pairs)
        assert (proven.mean() >= share) == enough


# Curvature of its own for a database with several neighbors


@pytest.fixture
def grouped(descent, monkeypatch):
    """Take it, however few outputs there are."""
    monkeypatch.setattr(_logistic_descent, "_pays", lambda *_: True)


def test_curvature_pays_for_several_neighbors_of_many_records():
    assert _logistic_descent._pays(1797, 558, 16)
    assert _logistic_descent._pays(1797, 558, 2)
    assert not _logistic_descent._pays(1797, 558, 1)
    assert not _logistic_descent._pays(50, 558, 16)
    assert not _logistic_descent._pays(50, 100, 1)


def average_of(X, y, n_records, fit_intercept=True):
    return AverageDatabase.of(
        X,
        (y / 2).astype(int),
        n_classes=3,
        C=1.0,
        fit_intercept=fit_intercept,
        n_records=n_records,
    )


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_rows", [120, 1300])
def test_neighbors_of_a_database_by_its_curvature(
    n_rows,
    n_classes,
    fit_intercept,
    relation,
    grouped,
    refits,  # noqa: F811
):
    X, y = make_data(n_classes, n_rows)
    query = make_query(n_classes, 0.5, fit_intercept)
    pairs = groups_from(TableReference(X, y), relation=relation, size=2, n_records=120)
    assert query.differences(pairs).shape[0] == len(pairs)
    assert refits == [120] * (n_rows > 120)  # none of the pairs
    assert_contract(query, pairs)


@pytest.mark.parametrize("C", [1e-3, 1e3])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_neighbors_keep_the_contract_for_all_data(shape, C, grouped):
    X, y = make_data(3, 120, shape)
    pairs = groups_from(TableReference(X, y), size=2, n_records=120)
    assert_differences(make_query(3, C), pairs)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_steps", range(1, 6))
def test_neighbors_are_as_close_as_is_proven(n_steps, fit_intercept, monkeypatch):
    """Wherever it stops: if it says that a point is close, it is."""
    X, y = make_data(3, 150)
    pairs = groups_from(TableReference(X, y), size=2, n_records=150)
    solver = PoolDescent(average_of(X, y, 150, fit_intercept))
    monkeypatch.setattr(_logistic_descent, "_pays", lambda *_: True)
    monkeypatch.setattr(_logistic_descent, "_MOST_STEPS", n_steps)
    _, second, proven = solver(pairs)
    query = make_query(3, fit_intercept=fit_intercept)
    gaps = np.array(
        [gap(query, *pairs.second(i), answer) for i, answer in enumerate(second)]
    )
    assert (gaps[proven] <= CLOSE).all()
    assert proven.all() == (n_steps >= 4)
    assert (gaps.max() <= CLOSE) == (n_steps >= 4)


def test_neighbors_begin_where_swapped_records_lead(monkeypatch):
    """Nearer to the end than the database is, and corrections help."""
    X, y = make_data(3, 150)
    pairs = groups_from(TableReference(X, y), size=1, n_records=150)
    monkeypatch.setattr(_logistic_descent, "_pays", lambda *_: True)
    begun = []
    of = InverseOfNeighbors.of

    def recorded(whole, first, removed, added):
        found = of(whole, first, removed, added)
        begun.append((first, found[1]))
        return found

    monkeypatch.setattr(InverseOfNeighbors, "of", recorded)
    solver = PoolDescent(average_of(X, y, 150))
    _, second, proven = solver(pairs)
    assert proven.all()
    ((first, start),) = begun
    ends = [
        np.linalg.norm(solver._answers(place) - second, axis=-1)
        for place in (first[None], start)
    ]
    assert (ends[1] < ends[0] / 5).all()


def test_without_curvature_in_single_precision_that_of_the_pool_serves(
    grouped,
    monkeypatch,
    refits,  # noqa: F811
):
    monkeypatch.setattr(_logistic_neighbors, "spotrf", lambda *_, **__: (None, 1))
    X, y = make_data(3, 120)
    for relation in ("replace-one", "add-remove"):
        pairs = groups_from(
            TableReference(X, y), relation=relation, size=2, n_records=120
        )
        refits.clear()
        make_query(3).differences(pairs)
        assert refits == []
        assert_contract(make_query(3), pairs)


def test_a_wrong_start_is_noticed(grouped, monkeypatch):
    """Control: what is wrong of the curvature costs steps, and no digit."""
    monkeypatch.setattr(
        InverseOfNeighbors,
        "of",
        lambda whole, first, removed, added: (
            whole,
            np.tile(-first, (len(removed.Z), 1, 1)),
        ),
    )
    X, y = make_data(3, 120)
    assert_contract(
        make_query(3), groups_from(TableReference(X, y), size=2, n_records=120)
    )


@pytest.mark.parametrize("grouping", [True, False])
def test_rows_of_a_large_pool_are_looked_up(
    grouping,
    descent,
    monkeypatch,
    refits,  # noqa: F811
):
    monkeypatch.setattr(_logistic_descent, "_pays", lambda *_: grouping)
    monkeypatch.setattr(_logistic, "_MOST_TRANSFORMED", 0)
    X, y = make_data(3, 2500)
    for fit_intercept in (True, False):
        query = make_query(3, fit_intercept=fit_intercept)
        pairs = groups_from(TableReference(X, y), size=2, n_records=120)
        refits.clear()
        query.differences(pairs)
        assert refits == [120]
        assert_contract(query, pairs)


def test_digits_are_solved_together(refits):  # noqa: F811
    """620 outputs."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:400, X.std(axis=0) > 0] / 16, y[:400].astype(float)
    query = LogisticRegressionQuery(tuple(range(10)))
    pairs = pairs_from(X, y, n_records=120, size=2)
    with one_thread():
        block = query.on_pool(pairs.pool, 120)(pairs)
        assert refits == [120]
        assert block.values.shape == (2, 620)
        first, second = (query(*database) for database in pairs.databases(1))
    assert (abs(block.values[1] - (first - second)) <= block.errors[1]).all()
