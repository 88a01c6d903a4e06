"""Several neighbors of one database, as penalties are tried on."""

from functools import partial

import numpy as np
import pytest
from query_pairs import RELATIONS, both_of, counts_of
from sklearn.datasets import make_classification, make_regression

from skparisk import SchemaReference
from skparisk.neighbors import bind_pairs, draw_pairs
from skparisk.queries import (
    FunctionQuery,
    LinearSVCQuery,
    LogisticRegressionQuery,
    MeanQuery,
    RidgeQuery,
    _sums,
)
from skparisk.reference import CallableReference, TableReference

N, R = 40, 5


def groups_from(reference, *, relation="replace-one", n_records=N, size=3, r=R):
    source_seed, seed = np.random.SeedSequence(3).spawn(2)
    source = bind_pairs(
        reference,
        n_pairs=size * r,
        n_records=n_records,
        relation=relation,
        seed=source_seed,
        n_neighbors=r,
    )
    return draw_pairs(
        source, n_records=n_records, start=0, size=size, seed=seed, n_neighbors=r
    )


def references():
    X = np.arange(1000.0)[:, None]
    yield SchemaReference([(0, 1)])
    yield CallableReference(lambda n, rng: rng.normal(size=(n, 1)), "normal")
    for n_rows, sampling in ((50, "leave-out"), (1000, "leave-out"), (1000, "split")):
        yield TableReference(X[:n_rows], sampling=sampling)


def test_neighbors_of_a_database_differ_from_it_in_another_record_each():
    for relation in RELATIONS:
        for reference in list(references()):
            pairs = groups_from(reference, relation=relation)
            assert (len(pairs), pairs.n_databases, pairs.n_neighbors) == (15, 3, R)
            assert pairs.database.tolist() == [0] * 5 + [1] * 5 + [2] * 5
            for d in range(3):
                changed = pairs.changed[d * R : (d + 1) * R]
                assert len(set(changed.tolist())) == R
                np.testing.assert_array_equal(
                    pairs.records[d, changed], pairs.removed[d * R : (d + 1) * R]
                )
            np.testing.assert_array_equal(
                np.sort(pairs.members, axis=1), np.sort(pairs.records, axis=1)
            )
            counts = counts_of(pairs)
            assert (counts.sum(axis=1) == N).all()
            for i in range(15):
                (X, _), (other, _) = both_of(pairs, i)
                np.testing.assert_array_equal(X, pairs.first(i)[0])
                np.testing.assert_array_equal(X, pairs.first(i // R * R)[0])
                if relation == "add-remove":
                    np.testing.assert_array_equal(
                        np.delete(X, pairs.changed[i], 0), other
                    )
                else:
                    moved = np.flatnonzero((other != X).any(axis=1))
                    assert set(moved.tolist()) <= {pairs.changed[i]}


def test_with_leave_out_no_differing_record_is_among_the_others():
    pairs = groups_from(TableReference(np.zeros((60, 1))), size=50)
    for d in range(50):
        own = set(pairs.removed[d * R : (d + 1) * R].tolist())
        joined = set(pairs.replacement[d * R : (d + 1) * R].tolist())
        assert len(own) == len(joined) == R
        assert not own & joined
        members = pairs.members[d].tolist()
        assert not joined & set(members)
        assert all(members.count(record) == 1 for record in own)


def regression(n_rows, **how):
    X, y = make_regression(n_rows, 4, noise=5.0, random_state=0)
    return TableReference(X, y, **how)


def classes(n_rows, n_classes=2, **how):
    X, y = make_classification(
        n_rows, 4, n_informative=4, n_redundant=0, n_classes=n_classes, random_state=0
    )
    return TableReference(X, y.astype(float), **how)


QUERIES = {
    "ridge": (RidgeQuery(), regression),
    "ridge, no intercept": (RidgeQuery(0.5, fit_intercept=False), regression),
    "logistic": (LogisticRegressionQuery((0, 1)), classes),
    "three classes": (
        LogisticRegressionQuery((0, 1, 2)),
        partial(classes, n_classes=3),
    ),
    "hinge": (LinearSVCQuery((0, 1), loss="hinge"), classes),
    "squared hinge": (LinearSVCQuery((0, 1)), classes),
    "mean": (MeanQuery(), regression),
    "function": (FunctionQuery(lambda X: X.max(axis=0)), regression),
}


def assert_contract(query, pairs):
    """Differences are those of answers, but for what they are said to be off."""
    block = query.on_pool(pairs.pool, pairs.n_records)(pairs)
    errors = 0.0 if block.errors is None else block.errors
    close = 1e-5 if getattr(query, "loss", "") == "hinge" else 1e-11
    for i, value in enumerate(block.values):
        first, second = (query(*database) for database in both_of(pairs, i))
        size = max(abs(first).max(), abs(second).max(), 1)
        assert (abs(value - (first - second)) <= errors + close * size).all()
        assert np.max(errors) <= close * size


def test_differences_are_those_of_answers_one_by_one():
    for relation in RELATIONS:
        for name in QUERIES:
            query, make = QUERIES[name]
            n_rows = 400 if name in ("ridge", "logistic") else 60
            assert_contract(query, groups_from(make(n_rows), relation=relation))


def test_ridge_of_records_that_join_from_afar_too():
    """Such as codes of what is missing, of which most databases have none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70_000, 2))
    y = X.sum(axis=1) + rng.normal(size=len(X))
    coded = rng.random(len(X)) < 0.02
    X[coded, 0] = 99_999_999
    pairs = groups_from(TableReference(X, y), n_records=20, size=40, r=16)
    assert 5 < coded[pairs.replacement].sum() < 30
    assert_contract(RidgeQuery().placed(X, y, 20), pairs)


def test_neighbors_that_are_singular_too():
    """Without the one record that makes the rank full, in either database."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(N, 2)), rng.normal(size=N)
    X[1:, 1] = X[1:, 0]
    pairs = groups_from(TableReference(X, y), size=60, r=3)
    times = (pairs.records == 0).sum(axis=1)[pairs.database]
    others = times - (pairs.removed == 0) + (pairs.replacement == 0)
    assert ((times == 0) & (others > 0)).any()
    assert ((times > 0) & (others == 0)).any()
    assert_contract(RidgeQuery(0.0), pairs)


def test_the_contract_notices_a_wrong_change(monkeypatch):
    """Control."""
    pairs, right = groups_from(regression(60)), _sums.sums_of_pairs

    def wrong(*parts):
        first, second = right(*parts)
        return first, second + 1e-6 * (second - first[:, None])

    monkeypatch.setattr("skparisk.queries._sums.sums_of_pairs", wrong)
    with pytest.raises(AssertionError):
        assert_contract(RidgeQuery(), pairs)


def test_a_database_is_answered_once():
    asked = []

    def mean(X):
        asked.append(len(X))
        return X.mean(axis=0)

    pairs = groups_from(TableReference(np.arange(200.0)[:, None]), size=2, r=10)
    block = FunctionQuery(mean).on_pool(pairs.pool, N)(pairs)
    assert block.values.shape == (20, 1)
    assert len(asked) == 2 + 20


def test_pairs_of_a_database_without_an_answer_are_infinite():
    def of_even(X):
        if X.sum() % 2:
            raise ValueError("odd")
        return X.sum()

    reference = TableReference(np.arange(200.0)[:, None])
    pairs = groups_from(reference, size=20)
    values = FunctionQuery(of_even).on_pool(pairs.pool, N)(pairs).values
    for i in range(len(pairs)):
        odd = [bool(X.sum() % 2) for X, _ in both_of(pairs, i)]
        assert np.isinf(values[i, 0]) == any(odd)
