"""Databases of more records than the reference has rows: counts instead of lists."""

import dataclasses

import numpy as np
import pytest
from counts import rejects_counts, seeds
from query_pairs import RELATIONS, counts_of, pairs_from, plain_differences
from scipy import stats
from sklearn.base import clone
from test_logistic import make_data, make_query

from skparisk import SensitivitySampler
from skparisk.linear_model import PrivateRidge
from skparisk.linear_model import _penalty_choice as choice
from skparisk.queries import (
    LinearSVCQuery,
    LogisticRegressionQuery,
    MeanQuery,
    MomentsQuery,
    Query,
    RidgeQuery,
    UnitsQuery,
)
from skparisk.reference import TableReference, _rows
from skparisk.reference._parted import Parted

N_OTHERS, LENGTH, N_DRAWS = 5, 40, 20_000
# From how many draws of a row on these are drawn together, and how many deviations
# fewer than all. With none fewer, they are more than all in half of the lines, which
# are drawn anew.
WAYS = {"one by one": (10**9, 0.0), "most": (0, 4.0), "too many": (0, 0.0)}


@pytest.mark.parametrize("way", WAYS)
@seeds
def test_counts_have_the_law_of_draws_with_replacement(seed, way, monkeypatch):
    """Each row, and two of them together, are binomial; nothing 10 % off is."""
    monkeypatch.setattr("skparisk.reference._rows._MANY", WAYS[way][0])
    monkeypatch.setattr("skparisk.reference._rows._MARGIN", WAYS[way][1])
    rng = np.random.default_rng(seed)
    own = np.tile(np.array([[1, 4]]), (N_DRAWS, 1))
    counts = _rows.draw_shared_rows(N_OTHERS + 2, own, LENGTH, rng)
    assert counts.dtype.kind == "u"
    assert not counts[:, [1, 4]].any()
    assert (counts.sum(axis=1) == LENGTH).all()
    others = np.delete(counts, [1, 4], axis=1).astype(np.intp)
    every = np.arange(LENGTH + 1)
    for columns in ([0], [2], [4], [0, 1], [1, 3]):
        share = len(columns) / N_OTHERS
        sums = others[:, columns].sum(axis=1)
        # Cells that expect few are one.
        low, high = stats.binom.ppf([1e-3, 1 - 1e-3], LENGTH, share).astype(int)

        def law(p, low=low, high=high):
            pmf = stats.binom.pmf(every, LENGTH, p)
            ends = pmf[: low + 1].sum(), pmf[high:].sum()
            return [ends[0], *pmf[low + 1 : high], ends[1]]

        cells = sums.clip(low, high) - low
        assert not rejects_counts(cells, law(share))
        for wrong in (0.9, 1.1):
            assert rejects_counts(cells, law(wrong * share))


def test_counted_rows_are_listed_where_a_query_takes_them():
    """Members, records and counts of a block are of the same databases."""
    table = TableReference(np.arange(6.0)[:, None])
    pairs = pairs_from(table, n_records=20, relation="replace-one", size=30)
    assert pairs._shared.dtype.kind == "u"
    lines = np.arange(len(pairs))
    assert (pairs.records[lines, pairs.changed] == pairs.removed).all()
    for rows in (pairs.members, pairs.records):
        assert rows.shape == (30, 20)
        counts = np.array([np.bincount(line, minlength=6) for line in rows])
        counts[lines, pairs.removed] -= 1
        np.testing.assert_array_equal(counts, pairs.shared_counts)
    for own in (pairs.replacement, pairs.removed):
        assert not pairs.shared_counts[lines, own].any()


LINEAR = {
    "ridge": RidgeQuery(1.0),
    "logistic": LogisticRegressionQuery((0, 2)),
    "three classes": LogisticRegressionQuery((0, 2, 4)),
}


def test_differences_of_counted_databases_are_those_of_answers():
    for relation in RELATIONS:
        for name in LINEAR:
            query, n_classes = LINEAR[name], 3 if name == "three classes" else 2
            X, y = make_data(n_classes, 60)
            pairs = pairs_from(
                TableReference(X, y), n_records=200, relation=relation, size=10
            )
            assert pairs._shared.dtype.kind == "u"
            found = query.on_pool(pairs.pool, 200)(pairs)
            expected = plain_differences(query, pairs)
            slack = 1e-12 * np.abs(query(X, y)).max()
            assert (np.abs(found.values) >= np.abs(expected) - slack).all()
            assert (np.abs(found.values - expected) <= found.errors + slack).all()


def test_a_class_that_is_missing_is_noticed_from_counts():
    X, y = make_data(2, 40)
    y[:] = np.arange(40) == 7
    query = LogisticRegressionQuery((0, 1))
    pairs = pairs_from(
        TableReference(X, y), n_records=60, relation="replace-one", size=40
    )
    missing = np.isinf(query.differences(pairs)).any(axis=1)
    counts = counts_of(pairs)[:, 7]
    others = counts - (pairs.removed == 7) + (pairs.replacement == 7)
    np.testing.assert_array_equal(missing, (counts == 0) | (others == 0))
    assert 0 < missing.sum() < 40


# What is found out once


class Asked(Query):
    """A mean that counts how often it is asked; known to answer alike or not."""

    def __init__(self, known):
        self.known, self.n_asked = known, 0

    @property
    def is_repeatable(self):
        return self.known

    def __call__(self, X, y=None):
        self.n_asked += 1
        return X.mean(axis=0)

    def on_pool(self, pool, n_records):
        return MeanQuery().on_pool(pool, n_records)


@pytest.mark.parametrize("known", [True, False])
def test_a_query_that_is_known_to_answer_alike_is_asked_once(known):
    rows = np.arange(60.0)[:, None]
    fitted = SensitivitySampler(Asked(known), n_pairs=100, random_state=0).fit(rows)
    assert fitted.query_.n_asked == 1 + (not known)


def test_queries_that_say_so_answer_alike():
    for query in [
        RidgeQuery(),
        LinearSVCQuery((0, 2)),
        make_query(2),
        MomentsQuery([0.0] * 5, [1.0] * 5, n_records=100, n_targets=1),
        UnitsQuery(RidgeQuery(), (1.0, 2.0, 4.0, 1.0)),
    ]:
        X, y = make_data(2, 100)
        assert query.is_repeatable
        assert dataclasses.is_dataclass(query)
        before = vars(query).copy()
        np.testing.assert_array_equal(query(X, y), query(X.copy(), y.copy()))
        assert vars(query) == before
        assert not MeanQuery().is_repeatable  # cheap, so it is tried


# Fits of many records


def test_many_records_share_databases_where_a_penalty_is_chosen(monkeypatch):
    """Which change neither the pairs that calibrate, nor much of the choice."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X @ [1.0, 0.0, -1.0] + rng.normal(size=600)
    seen = []

    class Spy(choice.PairSpec):
        def sample(self, *args, **words):
            seen.append((self.n_neighbors, self.n_pairs))
            return super().sample(*args, **words)

    monkeypatch.setattr("skparisk.linear_model._penalty_choice.PairSpec", Spy)
    models = []
    for least in (100, 10**6):
        monkeypatch.setattr("skparisk.linear_model._penalty_choice._LARGE", least)
        model = PrivateRidge(random_state=0, epsilon=0.5)
        model.fit(X[:300], y[:300], X_reference=X[300:], y_reference=y[300:])
        models.append(model)
    assert {*seen} == {(5, 125), (1, 125)}
    several, single = (np.log10(model.alpha_) for model in models)
    assert abs(several - single) < 0.7


def test_databases_of_many_records_are_answered_in_parts(monkeypatch):
    """And only the first of them a second time."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    table = TableReference(X, X.sum(axis=1) + rng.normal(size=100))
    sampler = SensitivitySampler(
        RidgeQuery(), reference=table, n_records=20_000, n_pairs=150, random_state=0
    )
    data = X[:9], X[:9, 0]
    plain = sampler.fit(*data)
    asked = []
    answer = RidgeQuery.__call__
    monkeypatch.setattr(
        RidgeQuery,
        "__call__",
        lambda self, *data: asked.append(data) or answer(self, *data),
    )
    monkeypatch.setattr("skparisk.reference._base._TAKEN_AT_ONCE", 3_000)
    monkeypatch.setattr("skparisk.queries._sums._MANY", 10_000)
    parted = clone(sampler).fit(*data)
    np.testing.assert_allclose(
        parted.differences_, plain.differences_, rtol=0, atol=1e-12
    )
    # Once for what is asked, and both databases of the first pair.
    assert len(asked) == 3
    assert all(isinstance(given[0], Parted) for given in asked)
