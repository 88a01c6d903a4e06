"""Databases of more records than the reference has rows: counts instead of lists."""

import dataclasses

import numpy as np
import pytest
from counts import rejects_counts, seeds
from query_pairs import RELATIONS, counts_of, pairs_from, plain_differences
from scipy import stats
from test_logistic import make_data, make_query

from skparisk import PrivateRidge, SensitivitySampler
from skparisk.exceptions import PrivacyLeakWarning
from skparisk.queries import (
    LinearSVCQuery,
    LogisticRegressionQuery,
    MeanQuery,
    MomentsQuery,
    RidgeQuery,
    UnitsQuery,
)
from skparisk.reference import TableReference, _rows

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


# Tables in a file that is mapped to memory


N_ROWS = 3000
ROWS = np.random.default_rng(0).normal(size=(N_ROWS, 4))
ROWS[:, -1] += ROWS[:, 0]
PRIVATE = np.random.default_rng(1).normal(size=(120, 4))


def in_file(tmp_path, rows):
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    return np.load(path, mmap_mode="r")


def fitted(query, X, y, **words):
    sampler = SensitivitySampler(query, n_records=120, n_pairs=80, random_state=0)
    reference = TableReference(X, y)
    sampler.set_params(reference=reference, **words)
    return sampler.fit(PRIVATE[:, :3], PRIVATE[:, 3])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pairs_of_a_file_are_those_of_the_same_rows_in_memory(dtype, tmp_path):
    """To the last bit."""
    rows = ROWS.astype(dtype)
    table = in_file(tmp_path, rows)
    found = fitted(RidgeQuery(1.0), table[:, :3], table[:, 3])
    expected = fitted(RidgeQuery(1.0), rows[:, :3].astype(float), rows[:, 3])
    np.testing.assert_array_equal(found.differences_, expected.differences_)
    assert found.certificate_ == expected.certificate_


def test_private_records_in_a_file_are_recognized(tmp_path):
    table = in_file(tmp_path, np.vstack([ROWS, PRIVATE]))
    model = PrivateRidge(1.0, random_state=0)
    with pytest.warns(PrivacyLeakWarning):
        model.fit(
            PRIVATE[:, :3],
            PRIVATE[:, 3],
            X_reference=table[:, :3],
            y_reference=table[:, 3],
        )


@seeds
def test_all_subsets_of_the_others_are_equally_likely(seed):
    """And not 10 % more or less."""
    rng = np.random.default_rng(seed)
    own = np.tile([[2]], (20_000, 1))
    rows = _rows.draw_subsets(7, own, 3, rng)
    assert not (rows == 2).any()
    subsets = np.sort(rows - (rows > 2), axis=1)
    assert (np.diff(subsets, axis=1) > 0).all()
    codes = np.unique(subsets @ [36, 6, 1], return_inverse=True)[1]
    assert not rejects_counts(codes, np.ones(20))
    assert rejects_counts(codes, np.r_[np.full(10, 0.9), np.full(10, 1.1)])
