"""Few pairs are answered one by one, where it takes longer to prepare a pool."""

import numpy as np
import pytest

from skparisk import SensitivitySampler
from skparisk.queries import (
    FunctionQuery,
    LogisticRegressionQuery,
    MeanQuery,
    RidgeQuery,
    UnitsQuery,
)
from skparisk.queries._correction import CorrectionQuery
from skparisk.reference import TableReference
from skparisk.reference._base import RecordPool
from skparisk.sensitivity import sample_differences

N_ROWS, N_RECORDS = 6000, 40
X = np.random.default_rng(0).normal(size=(N_ROWS, 3))
Y = X @ [1.0, -1.0, 0.5] + np.random.default_rng(1).normal(size=N_ROWS)
LABELS = (Y > 0) * 1.0

MODELS = {"logistic regression": (LogisticRegressionQuery((0, 1)), LABELS, 6)}


def errors_of(query, y, n_databases, n_neighbors=1, **given):
    """Return what pairs may be off, or None if they were answered one by one."""
    sampler = SensitivitySampler(
        query,
        gamma=0.4,
        n_pairs=n_databases * n_neighbors,
        neighbors_per_database=n_neighbors,
        noise_shape="isotropic",
        n_records=N_RECORDS,
        random_state=0,
        **given,
    )
    return sampler.fit(X, y).difference_errors_


@pytest.mark.parametrize("name", MODELS)
def test_few_pairs_are_answered_one_by_one(name):
    """As many as take no longer than to prepare the pool; more of them together."""
    query, y, n_answers = MODELS[name]
    limit = query.preparing(RecordPool(X, y), N_RECORDS)
    assert limit == n_answers * (N_ROWS + 500) / (N_RECORDS + 500)
    most = min(int(limit / 2), 127)
    assert errors_of(query, y, most) is None
    assert errors_of(query, y, most + 1).any()


def test_each_neighbor_is_an_answer_more():
    query, y, _ = MODELS["logistic regression"]
    limit = query.preparing(RecordPool(X, y), N_RECORDS)
    assert 9 * 8 <= limit < 9 * 9  # 9 databases, and their neighbors
    assert errors_of(query, y, 9, n_neighbors=7) is None
    assert errors_of(query, y, 9, n_neighbors=8).any()


@pytest.mark.parametrize("name", MODELS)
def test_they_are_those_of_refits(name):
    """Of the same pairs, which a function is asked about, too."""
    query, y, _ = MODELS[name]
    few, refits = (
        sample_differences(
            asked,
            TableReference(X, y),
            n_pairs=3,
            n_records=N_RECORDS,
            n_features=3,
            random_state=0,
        )
        for asked in (query, FunctionQuery(query))
    )
    np.testing.assert_array_equal(few, refits)


def test_a_whole_block_is_answered_together_whatever_it_takes(monkeypatch):
    monkeypatch.setattr(LogisticRegressionQuery, "preparing", lambda *_: 1e9)
    query, y, _ = MODELS["logistic regression"]
    assert errors_of(query, y, 127) is None
    assert errors_of(query, y, 128).any()


def test_what_a_model_is_wrapped_in_takes_as_long():
    (query, y, _), units = MODELS["logistic regression"], (1.0, 2.0, 1.0)
    pool = RecordPool(X, y)
    limit = query.preparing(pool, N_RECORDS)
    assert UnitsQuery(query, units).preparing(pool, N_RECORDS) == limit
    correction = CorrectionQuery(query, (0.0,) * 4, query)
    assert correction.preparing(pool, N_RECORDS) == limit
    for free in (MeanQuery(), RidgeQuery(1.0)):
        assert free.preparing(pool, N_RECORDS) == 0
