"""Several neighbors of one database: what is drawn, answered, and certified."""

import math
from functools import partial

import numpy as np
import pytest
from laws import exceeds
from query_pairs import RELATIONS, both_of, counts_of, pairs_from
from rows import risk_for_rows
from sklearn.datasets import make_classification, make_regression

from skparisk import FiledCertificate, SchemaReference, SensitivitySampler
from skparisk.core.calibrate import Exchangeable, Target
from skparisk.core.claim import Evidence
from skparisk.core.pairs import SampledPairs
from skparisk.exceptions import CalibrationError
from skparisk.queries import (
    FunctionQuery,
    LinearSVCQuery,
    LogisticRegressionQuery,
    MeanQuery,
    MomentsQuery,
    RidgeQuery,
    _sums,
)
from skparisk.reference import CallableReference, TableReference
from skparisk.sensitivity import calibrate, sample_differences

N, R = 40, 5


def groups_from(reference, *, relation="replace-one", n_records=N, size=3, r=R):
    return pairs_from(reference, n_records, relation, size, seed=3, n_neighbors=r)


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


class Fixed(CallableReference):
    """A reference of a fixed number of records, which none can leave."""

    def bind(self, n_pairs, *, n_shared, n_own, seed):
        if n_own == 1:
            raise ValueError("no record can leave")
        return super().bind(n_pairs, n_shared=n_shared, n_own=n_own, seed=seed)


def test_a_reference_that_refuses_a_relation_refuses_it_for_groups_too():
    """Two neighbors with one record less differ in as many as one that is replaced."""
    reference = Fixed(lambda n, rng: rng.normal(size=(n, 1)), "normal")
    with pytest.raises(ValueError, match="no record can leave"):
        groups_from(reference, relation="add-remove", r=2)


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

    reference = TableReference(np.arange(200.0)[:, None])
    differences = sample_differences(
        FunctionQuery(mean),
        reference,
        n_pairs=20,
        n_records=30,
        n_features=1,
        neighbors_per_database=10,
        random_state=0,
    )
    assert differences.shape == (20, 1)
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


# What is certified


PUBLIC = np.random.default_rng(1).exponential(size=(400, 2))
PRIVATE = np.random.default_rng(2).exponential(size=(20, 2))


def spread(X):
    return np.array([X.mean(), X.std()])


@pytest.mark.parametrize(
    "parameters",
    [
        {"noise_shape": "isotropic"},
        {"noise_shape": "whitened"},
        {"randomness": "both"},
        {"randomness": "both", "law": "gaussian"},
        {"advantage": 0.2},
    ],
    ids=str,
)
def test_samplers_count_databases(parameters):
    sampler = SensitivitySampler(
        spread,
        n_pairs=480,
        neighbors_per_database=4,
        n_records=20,
        gamma=0.1,
        random_state=0,
        **parameters,
    ).fit(PUBLIC)
    evidence = sampler.certificate_.evidence
    assert sampler.n_pairs_ == 480
    assert evidence.n_neighbors == 4
    m = evidence.n_pairs // 4
    assert m == (120 if parameters.get("noise_shape") == "isotropic" else 96)
    assert len(sampler.sensitivities_) == 4 * m
    words = str(sampler.certificate_)
    assert f"4 neighbors of each of {m} sampled databases" in words
    if evidence.order_index is not None:
        gamma = risk_for_rows(0.1, len(PUBLIC), 4 * m)
        index = 4 * m - math.floor(4 * ((m + 1) * gamma - 1) + 1e-9)
        assert evidence.order_index == index
        assert sampler.risk_ == pytest.approx(1 - index / (4 * (m + 1)))
    if "advantage" not in parameters:
        assert sampler.risk_ <= 0.1
        smaller = sampler.calibrate(gamma=0.05)
        assert smaller.certificate_.evidence.n_neighbors == 4
        assert smaller.noise_scale_ > sampler.noise_scale_
        assert sampler.sensitivity_ <= sampler.calibrate(gamma=0.02).sensitivity_
    assert sampler.release(PRIVATE).shape == (2,)


def test_what_is_no_group_is_refused():
    for parameters, message in [
        (
            {"calibration": "pac"},
            "neighbors_per_database must be 1 with calibration=PAC",
        ),
        ({"n_pairs": 1001}, "multiple of neighbors_per_database=4"),
        ({"n_records": 3}, "at most 3 with n_records=3"),
        ({"reference": TableReference(PUBLIC[:15])}, "at most 3 with a reference"),
        ({"neighbors_per_database": 0}, "neighbors_per_database must be"),
        (
            {"query": MomentsQuery(center=[0.0, 0.0], scale=[1.0, 1.0], n_records=20)},
            "at most 1 with MomentsQuery.*, a sum over",
        ),
        (
            {"reference": TableReference(PUBLIC, sampling="split")},
            "at most 1 with sampling='split'",
        ),
    ]:
        given = {"query": spread, "neighbors_per_database": 4, "n_records": 20}
        sampler = SensitivitySampler(**{**given, **parameters})
        with pytest.raises(ValueError, match=message):
            sampler.fit(PUBLIC)


def test_evidence_holds_whole_groups():
    evidence = Evidence(
        gamma=0.05,
        sensitivity=1.0,
        noise_scale=1.0,
        n_records=10,
        n_outputs=1,
        calibration="exchangeable",
        n_pairs=30,
        order_index=30,
        n_neighbors=4,
    )
    with pytest.raises(ValueError, match="multiple of n_neighbors=4, got 30"):
        FiledCertificate(1.0, risk=0.05, randomness="implicit", evidence=evidence)


@pytest.mark.parametrize("shape", ["isotropic", "whitened"])
def test_too_few_databases_are_refused_with_the_pairs_that_are_enough(shape):
    sampler = SensitivitySampler(
        spread, n_pairs=72, neighbors_per_database=4, n_records=20, noise_shape=shape
    )
    with pytest.raises(CalibrationError, match=r"n_pairs >= .* in all") as error:
        sampler.fit(PUBLIC)
    needed = int(str(error.value).split("n_pairs >= ")[-1].split()[0])
    assert needed == (76 if shape == "isotropic" else 96)
    sampler.set_params(n_pairs=needed).fit(PUBLIC)


# 30 databases of 8 neighbors, all of which are as far apart as their database says.
M, EACH, GAMMA = 30, 8, 0.05


def shares_beyond(index, factor=1.0, n_samples=40_000):
    """Return how often a fresh pair is beyond a share of the K-th distance."""
    rng = np.random.default_rng(0)
    databases = np.exp(0.02 * rng.normal(size=(n_samples, M + 1)))
    sampled = np.sort(np.repeat(databases[:, :M], EACH, axis=1), axis=1)
    return int(np.count_nonzero(databases[:, M] > factor * sampled[:, index - 1]))


def test_the_risk_of_groups_holds_and_is_noticed_with_less_noise():
    index = Exchangeable(EACH).order_index(M, GAMMA)
    rng = np.random.default_rng(0)
    pairs = SampledPairs(
        rng.normal(size=(M * EACH, 1)), None, np.zeros(1), n_neighbors=EACH
    )
    _, certificate = calibrate(pairs, Target(1.0, GAMMA), n_records=10)
    assert certificate.evidence.order_index == index
    assert not exceeds(shares_beyond(index), 40_000, certificate.risk)
    assert exceeds(shares_beyond(index, 0.9), 40_000, GAMMA)


def test_pairs_of_one_database_are_not_independent():
    """Control: counted as pairs, they are beyond the noise too often."""
    index = Exchangeable().order_index(M * EACH, GAMMA)
    assert exceeds(shares_beyond(index), 40_000, GAMMA)
