"""Sums over the records of many databases, against those of each record by itself."""

import numpy as np
import pytest
from test_neighbor_groups import groups_from

from skparisk.queries import _logistic_records
from skparisk.queries._logistic_descent import _groups, _Odds, _others
from skparisk.queries._logistic_records import (
    OwnRecords,
    PoolRecords,
    SharedRecords,
    expected_counts,
    parts_of,
)
from skparisk.reference import TableReference

M, N, Q = 3, 7, 4  # databases, records, columns
KINDS = ("shared", "own")


def make_records(kind, n_logits, seed=0):
    """Return records, counts of databases, and codes of shape (m, n_rows)."""
    rng = np.random.default_rng([seed, n_logits])
    shape = () if kind == "shared" else (M,)
    Z = rng.normal(size=(*shape, N, Q))
    codes = rng.integers(n_logits + 1, size=(*shape, N))
    classes = np.arange(1, n_logits + 1)[:, None]
    of_class = (codes[..., None, :] == classes).astype(float)
    root = rng.normal(size=(n_logits * Q,) * 2)
    make = SharedRecords if kind == "shared" else OwnRecords
    records = make(Z, of_class, rng.normal(size=of_class.shape), root @ root.T)
    counts = rng.integers(4, size=(M, N)).astype(float)
    counts[1, 2:] = 0.0  # all of few records
    return records, counts, np.broadcast_to(codes, (M, N))


def each_record(records, counts, codes):
    """Yield database, z, count and class."""
    Z = np.broadcast_to(records.Z, (M, N, Q))
    for i in range(M):
        for row in range(N):
            yield i, Z[i, row], counts[i, row], codes[i, row]


def probabilities(logits):
    """Return those of all classes but the first, and of all others than each."""
    scores = np.append(np.longdouble(0), logits.astype(np.longdouble))
    p = np.exp(scores - scores.max())
    p /= p.sum()
    rest = np.array([np.delete(p, a).sum() for a in range(len(p))])
    return p[1:], rest[1:]


def plain_derivatives(records, counts, codes, v):
    """Return moments, slopes and curvature of each database."""
    k = v.shape[1]
    moments, slopes = np.zeros((M, k, Q)), np.zeros((M, k, Q))
    curvature = np.zeros((M, k, Q, k, Q))
    for i, z, count, code in each_record(records, counts, codes):
        p, _ = probabilities(v[i] @ z)
        p = p.astype(float)
        own = np.arange(1, k + 1) == code
        moments[i] += count * np.outer(own, z)
        slopes[i] += count * np.outer(p - own, z)
        weights = np.diag(p) - np.outer(p, p)
        curvature[i] += count * np.einsum("ab,i,j->aibj", weights, z, z)
    flat = v.reshape(M, -1)
    slopes = slopes.reshape(M, -1) + flat @ records.penalty
    curvature = curvature.reshape(M, k * Q, k * Q) + records.penalty
    return moments.reshape(M, -1), slopes, curvature


@pytest.mark.parametrize("in_cache", [1, 6, 2 * M * 2 + 1, 2**16])
@pytest.mark.parametrize("n_logits", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_each_record(kind, n_logits, in_cache, monkeypatch):
    """Whatever part of the records is gone through at once."""
    monkeypatch.setattr(_logistic_records, "_IN_CACHE", in_cache)
    records, counts, codes = make_records(kind, n_logits)
    v = np.random.default_rng(1).normal(size=(M, n_logits, Q))
    moments, slopes, curvature = plain_derivatives(records, counts, codes, v)
    close = {"rtol": 1e-12, "atol": 1e-12}
    found = records.sums(counts, records.of_class)
    np.testing.assert_allclose(found, moments, **close)
    np.testing.assert_allclose(records.slopes(counts, moments, v), slopes, **close)
    also, matrix = records.derivatives(counts, moments, v)
    np.testing.assert_allclose(also, slopes, **close)
    # Single precision is enough for the records of all databases.
    digits = {"rtol": 1e-5, "atol": 1e-5} if kind == "shared" else close
    np.testing.assert_allclose(matrix, curvature, **digits)
    np.testing.assert_array_equal(matrix, matrix.swapaxes(1, 2))


@pytest.mark.parametrize("n_logits", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_one_record_adds_what_it_is_to_sums(kind, n_logits):
    records, counts, codes = make_records(kind, n_logits)
    v, at = np.random.default_rng(1).normal(size=(2, M, n_logits, Q))
    columns = np.array([4, 0, 4])
    one = np.zeros_like(counts)
    one[np.arange(M), columns] = 1.0
    moments, slopes, _ = plain_derivatives(records, one, codes, v)
    _, _, curvature = plain_derivatives(records, one, codes, at)
    found = records.of_one(columns, v, at)
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(found[0], moments, **close)
    flat = v.reshape(M, -1)
    np.testing.assert_allclose(found[1], slopes - flat @ records.penalty, **close)
    np.testing.assert_allclose(found[2], curvature - records.penalty, **close)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_those_of_records(kind):
    records, *_ = make_records(kind, 2)
    lengths = np.linalg.norm(records.Z, axis=-1)
    np.testing.assert_allclose(records.square_lengths(), lengths**2)
    assert records.longest == pytest.approx(lengths.max(), rel=1e-15, abs=0)


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_and_some_databases(kind):
    records, counts, _ = make_records(kind, 2)
    assert records.single.Z.dtype == np.float32
    np.testing.assert_allclose(records.single.Z, records.Z, rtol=1e-7)
    which = np.array([True, False, True])
    v, some = np.random.default_rng(1).normal(size=(M, 2, Q)), records.some(which)
    every = slice(None)
    np.testing.assert_allclose(
        some.minus_logits(v[which], every), records.minus_logits(v, every)[which]
    )
    weights = np.broadcast_to(records.of_class, (M, 2, N)) * counts[:, None]
    np.testing.assert_allclose(
        some.weighted_sums(weights[which], every),
        records.weighted_sums(weights, every)[which],
        atol=1e-15,
    )


# Logits of one database: small, large, and far apart from each other.
LOGITS = (
    [[0.0, 1.0, -2.0]],
    [[900.0, -900.0, 710.0]],
    [[-800.0, -1e6, -5.0]],
    [[-800.0, 3.0, 700.0], [-900.0, 2.0, -700.0]],
    [[1e4, -1e4, 0.0], [1e4 + 1, -1e4, 0.5], [-1e4, -1e4, 1.0]],
)


@pytest.mark.parametrize("logits", LOGITS)
def test_no_probability_overflows(logits):
    """Nor is it rounded where it is small; and neither are they less what is so."""
    logits = np.stack([np.array(logits), np.zeros((len(logits), 3))])
    m, k, n = logits.shape
    exact = np.empty((2, m, k, n), dtype=np.longdouble)
    for i in range(m):
        for row in range(n):
            exact[:, i, :, row] = probabilities(logits[i, :, row])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        counts = np.array([[2.0], [3.0]])[:, None] * np.ones((m, 1, n))
        found = expected_counts(-logits, counts) if k > 1 else None
        alone = expected_counts(-logits[:1], 1.0) if k > 1 else None
        for code in range(k + 1):
            of_class = np.zeros((m, k, n))
            of_class[:, code - 1 : code] = 1.0
            odds = _Odds.of(-logits, of_class)
            residuals = np.where(of_class > 0, -exact[1], exact[0])
            np.testing.assert_allclose(odds.p, exact[0].astype(float), rtol=1e-12)
            np.testing.assert_allclose(
                odds.residuals, residuals.astype(float), rtol=1e-12
            )
            shared = _Odds.of(-logits, of_class[0])
            np.testing.assert_array_equal(shared.residuals, odds.residuals)
            some = odds.some(np.array([False, True]))
            np.testing.assert_array_equal(some.p, odds.p[1:])
            np.testing.assert_array_equal(some.residuals, odds.residuals[1:])
    if k == 1:  # an infinite number of odds is none
        with np.errstate(over="ignore"):
            found = expected_counts(-logits, counts)
            alone = expected_counts(-logits[:1], 1.0)
    expected = (exact[0] * counts).astype(float)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-307)
    np.testing.assert_allclose(
        alone, exact[0, :1].astype(float), rtol=1e-12, atol=1e-307
    )


def test_records_of_a_pool_are_looked_up():
    rng = np.random.default_rng(0)
    Z, codes = rng.normal(size=(20, Q)), rng.integers(3, size=20)
    start, penalty = rng.normal(size=(2, Q)), np.eye(2 * Q)
    pool = PoolRecords(Z, codes, start, penalty)
    rows = np.array([[3, 5, 5], [19, 0, 3]])
    records = pool.take(rows)
    np.testing.assert_array_equal(records.Z, Z[rows])
    assert records.penalty is penalty
    assert pool.of_class(rows).dtype == float
    for i in range(2):
        for place, row in enumerate(rows[i]):
            own = codes[row] == np.array([1, 2])
            np.testing.assert_array_equal(records.of_class[i, :, place], own)
            p, _ = probabilities(start @ Z[row])
            np.testing.assert_allclose(
                records.residuals[i, :, place], (p - own).astype(float), rtol=1e-12
            )
    np.testing.assert_array_equal(pool.of_class(rows[0]), records.of_class[0])


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_counts_are_those_of_the_databases(relation):
    """Of a database that has a record more than once, and of its neighbors."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, Q - 1)), rng.integers(3, size=12).astype(float)
    pairs = groups_from(TableReference(X, y), relation=relation, n_records=10)
    design = np.column_stack([pairs.pool.X, np.ones(len(pairs.pool.X))])
    codes = pairs.pool.y.astype(int)
    pool = PoolRecords(design, codes, np.zeros((2, Q)), np.eye(2 * Q))
    r = pairs.n_neighbors

    def counted(Z, counts):
        """Return records, sorted, as often as they count."""
        rows = np.repeat(Z, counts.astype(int), axis=0)
        assert (counts >= 0).all()
        return rows[np.lexsort(rows.T)]

    parts = parts_of(pool, pairs, 1)
    for i, (records, counts, removed, added) in enumerate(_groups(pool, pairs)):
        assert counts.dtype == float
        databases = [pairs.first(i * r)] + [pairs.second(i * r + j) for j in range(r)]
        databases = [np.column_stack([X, np.ones(len(X))]) for X, _ in databases]
        found = _others(np.tile(counts, (r, 1)), removed, added)
        for own, database in zip([counts, *found], databases, strict=True):
            np.testing.assert_array_equal(
                counted(records.Z, own), counted(database, np.ones(len(database)))
            )
        own, one, left, joined = next(parts)
        for j in range(r):
            new = None if joined is None else joined[:, j]
            theirs = _others(one.copy(), left[:, j], new)
            np.testing.assert_array_equal(
                counted(own.Z[0], theirs[0]), counted(records.Z, found[j])
            )
