"""Queries that follow from a sum over records, and the sums of many databases."""

import numpy as np
import pytest
from query_pairs import RELATIONS, pairs_from, plain_differences
from scipy.sparse import csr_array

from skparisk.core import weights as module
from skparisk.core.weights import RowSums, sums_of_pairs, symmetric
from skparisk.queries import FunctionQuery, SumQuery
from skparisk.reference import TableReference

X = np.random.default_rng(0).normal(size=(60, 3))
POOL = TableReference(X, X @ [1.0, -1.0, 0.5])


class Shares(SumQuery):
    """Means of what is positive, weighted by targets."""

    needs_y = True

    def rows(self, X, y):
        return np.column_stack([X.clip(0) * y[:, None], np.abs(y)])

    def finish(self, sums):
        return sums[:, :-1] / sums[:, -1:]


class SparseShares(Shares):
    def rows(self, X, y):
        return csr_array(super().rows(X, y))


class Cubes(SumQuery):
    """Products of products, which need all of a row but no target."""

    products = True

    def rows(self, X, y):
        return np.column_stack([X, X[:, 0] * X[:, 1], np.ones(len(X))])

    def finish(self, sums):
        return np.linalg.inv(symmetric(sums, 5))[:, 0]


def shares(X, y):
    return (X.clip(0) * y[:, None]).sum(axis=0) / np.abs(y).sum()


def inverse(X):
    Z = np.column_stack([X, X[:, 0] * X[:, 1], np.ones(len(X))])
    return np.linalg.inv(Z.T @ Z)[0]


QUERIES = [(Shares(), shares), (SparseShares(), shares), (Cubes(), inverse)]


@pytest.mark.parametrize(("small", "at_once"), [(0, 1), (2**20, 2**20)])
@pytest.mark.parametrize(
    ("n_records", "relation"), [*zip((12, 100), RELATIONS, strict=True)]
)
@pytest.mark.parametrize(("query", "plain"), QUERIES)
def test_differences_are_those_of_a_plain_function(
    query, plain, relation, n_records, small, at_once, monkeypatch
):
    """Of small and large tables, all rows of which are added up once or not."""
    monkeypatch.setattr("skparisk.queries._sums._SMALL_POOL", small)
    monkeypatch.setattr("skparisk.queries._sums._LISTED_AT_ONCE", at_once)
    monkeypatch.setattr("skparisk.queries._sums._ROWS_AT_ONCE", 7)
    pairs = pairs_from(POOL, n_records=n_records, relation=relation, size=9)
    expected = plain_differences(FunctionQuery(plain), pairs)
    found = query.on_pool(pairs.pool, n_records)(pairs)
    close = 1e-12 * found.sizes.max()
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=close)
    np.testing.assert_allclose(found.errors, 0, rtol=0, atol=close)
    np.testing.assert_array_equal(query.differences(pairs), found.values)


@pytest.mark.parametrize("n_records", [12, 100])
def test_rows_that_see_other_records_are_refused(n_records):
    class Company(Shares):
        def rows(self, X, y):
            return X * X.mean(0)

    pairs = pairs_from(POOL, n_records=n_records, relation="replace-one")
    with pytest.raises(ValueError, match="must be a function of each record by itself"):
        Company().differences(pairs)


def test_an_enormous_record_that_leaves_takes_no_digits_with_it():
    for r in [1, 4]:
        for replaced in [True, False]:
            shared, removed, added = (X[:40].reshape(10, 4, 3) for _ in range(3))
            shared, removed, added = (
                shared[:, 0],
                removed[:, :r].copy(),
                2 * added[:, :r],
            )
            removed[:, 0] *= 1e200
            added = added if replaced else None
            databases, neighbors = sums_of_pairs(shared, removed, added)
            np.testing.assert_allclose(
                databases, shared + removed.sum(axis=1), rtol=1e-12
            )
            for i in range(r):
                others = np.delete(removed, i, axis=1).sum(axis=1)
                joined = added[:, i] if replaced else 0.0
                expected = shared + others + joined
                np.testing.assert_allclose(
                    neighbors[:, i], expected, rtol=1e-13, atol=1e-14
                )


@pytest.mark.parametrize(("kept", "cache"), [(0, 64), (0, 400), (2**24, 2**19)])
@pytest.mark.parametrize("m", [0, 1, 20])
@pytest.mark.parametrize("kind", ["dense", "sparse", "products"])
def test_sums_of_rows_are_those_of_numpy(kind, m, kept, cache, monkeypatch):
    """Of no, few and many databases; products that are kept or made in parts."""
    monkeypatch.setattr(module, "_KEPT", kept)
    monkeypatch.setattr(module, "_IN_CACHE", cache)
    rng = np.random.default_rng(1)
    Z, rows = rng.normal(size=(210, 3)), np.arange(24).reshape(4, 6)
    weights, (i, j) = rng.integers(4, size=(m, 210)) * 1.0, np.triu_indices(3)
    lines = Z[:, i] * Z[:, j] if kind == "products" else Z
    sums = RowSums(csr_array(Z) if kind == "sparse" else Z, kind == "products")
    assert sums.width == lines.shape[1]
    for found, expected in (
        (sums.total(), lines.sum(axis=0)),
        (sums.of(weights), weights @ lines),
        (sums.of_lists(7), lines.reshape(30, 7, -1).sum(axis=1)),
        (sums.each(rows), lines[rows]),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    if kind == "products":
        expected = np.einsum("mr,ri,rj->mij", weights, Z, Z)
        whole = symmetric(sums.of(weights), 3)
        np.testing.assert_allclose(whole, expected, rtol=1e-12, atol=1e-12)


def test_a_sum_query_must_say_what_records_add():
    with pytest.raises(NotImplementedError):
        SumQuery()(np.ones((2, 1)))


def test_many_records_are_answered_again_in_parts():
    """As private ones are: rounding is all that it changes."""
    pairs = pairs_from(POOL, n_records=300_000, relation="replace-one", size=2)
    found = Shares().on_pool(pairs.pool, pairs.n_records)(pairs)
    assert (found.errors > 0).any()
    assert (found.errors < 1e-10).all()
    for seen, expected in zip(
        found.values, plain_differences(shares, pairs), strict=True
    ):
        np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-12)
