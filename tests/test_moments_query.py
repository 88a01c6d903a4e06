"""Sums of records and of their products: exact, and how far one record moves them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_pairs import RELATIONS, pairs_from

from skparisk import SensitivitySampler
from skparisk.queries import MomentsQuery
from skparisk.queries._moments import shorten
from skparisk.reference import TableReference
from skparisk.reference._base import RecordPool


def moments(z):
    """Return what one record adds to the sums."""
    i, j = np.triu_indices(len(z))
    return np.concatenate([z, z[i] * z[j]])


def rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_sums_of_all_columns_and_products():
    """Features and targets in units, the upper triangle row by row."""
    X, y = rows(50, 2), rows(50, 1, seed=1)[:, 0]
    query = MomentsQuery([0.5, 0.0, 1.0], [2.0, 1.0, 0.5], 50, n_targets=1)
    z = np.column_stack([(X[:, 0] - 0.5) / 2, X[:, 1], (y - 1) / 0.5])
    np.testing.assert_allclose(query(X, y), sum(map(moments, z)), atol=1e-4)
    assert query.needs_y
    assert query.is_sum
    assert query.n_outputs == len(query(X, y)) == 9
    assert not MomentsQuery([0.0], [1.0], 5).needs_y


@pytest.mark.parametrize("radius", [None, 1.3])
def test_sums_are_exact_in_any_order(radius):
    """Of records far away, too: each adds what it adds, whatever the others are."""
    X = rows(500, 3) * np.logspace(0, 4, 500)[:, None]
    query = MomentsQuery([0.0] * 3, [1.0] * 3, 500, radius=radius)
    order = np.random.default_rng(5).permutation(500)
    np.testing.assert_array_equal(query(X), query(X[order]))
    alone = sum(query(X[i : i + 1]) for i in range(500))
    np.testing.assert_array_equal(query(X), alone)


@pytest.mark.parametrize("relation", RELATIONS)
def test_pairs_answer_as_databases_do(relation):
    """To the last bit, without a record that both databases have."""
    X, y = rows(40, 2), rows(40, 2, seed=2)
    query = MomentsQuery([0.0] * 4, [1.0] * 4, 15, n_targets=2)
    pairs = pairs_from(TableReference(X, y), 15, relation, size=20)
    found = query.on_pool(pairs.pool, 15)(pairs)
    plain = query._plain_differences(pairs)
    np.testing.assert_array_equal(found.values, plain.values)
    assert found.errors is None


def test_records_are_within_limit_and_radius():
    """Those that are farther away are moved, never beyond."""
    far = np.array([[1e308, -1e308, 0.5]])
    query = MomentsQuery([0.0] * 3, [1e-300, 1.0, 1.0], 4, limit=2.0)
    np.testing.assert_allclose(query(far)[:3], [2, -2, 0.5], atol=1e-6)
    query = MomentsQuery([0.0] * 3, [1.0] * 3, 4, limit=2.0, radius=1.0)
    found = query(far)[:3]
    assert np.linalg.norm(found) <= 1
    np.testing.assert_allclose(found, far[0].clip(-2, 2) / 8.25**0.5, atol=1e-6)
    inside = np.array([[0.1, 0.2, 0.0]])
    np.testing.assert_allclose(query(inside)[:3], inside[0], atol=1e-6)
    np.testing.assert_array_equal(query(np.zeros((1, 3))), np.zeros(9))


def test_rows_are_shortened_to_hardly_less_than_the_radius():
    """So that rounding makes none longer; those inside stay as they are."""
    rng = np.random.default_rng(0)
    for radius in (1e-3, 0.7, 40.0):
        z = rng.normal(size=(500, 3)) * radius
        short = shorten(z, radius)
        long = np.array([sum(Fraction(x) ** 2 for x in row) for row in short.tolist()])
        assert (long <= Fraction(radius) ** 2).all()
        far = np.linalg.norm(z, axis=1) > radius
        assert far.any()
        np.testing.assert_array_equal(short[~far], z[~far])
        lengths = np.linalg.norm(short[far], axis=1) / radius
        assert (abs(lengths - (1 - 2.0**-40)) <= 2.0**-50).all()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(n_records=st.integers(1, 2**53), limit=st.floats(0.5, 1e6))
def test_the_grid_is_as_fine_as_exact_sums_allow(n_records, limit):
    """Largest sums are below 2**53 steps; half of the grid would not do."""
    query = MomentsQuery([0.0], [1.0], n_records, limit=limit)
    steps = int(np.rint(limit / query.grid))
    assert n_records * steps**2 <= 2**53
    most = (2**53 / n_records) ** 0.5
    assert 2 * limit / query.grid > 0.9 * most - 2


def test_rows_that_are_used_once_for_sums():
    """A table gives as many pairs as it has pairs of rows, whatever the databases."""
    X = rows(60, 2)
    query = MomentsQuery([0.0, 0.0], [1.0, 1.0], 10**6)
    table = TableReference(X)
    table.sampling = "used-once"
    sampler = SensitivitySampler(
        query, gamma=0.1, n_pairs=30, n_records=10**6, reference=table, random_state=0
    ).fit(X)
    pool = RecordPool(X)
    found = sampler.differences_
    both = np.concatenate([query._whole(pool.X, None) * query.grid])
    used = set()
    for difference in found:
        gaps = np.abs(both[:, None, :] - both[None, :, :] - difference[:2]).sum(axis=2)
        pair = divmod(int(gaps.argmin()), 60)
        assert gaps.min() == 0
        used |= {*pair}
    assert len(used) == 60  # each row once
    assert sampler.pairs_.answer is None
    assert sampler.n_records_ == 10**6
    assert "no row used twice" in sampler.certificate_.evidence.reference
    with pytest.raises(ValueError, match="at least 62 rows"):
        sampler.set_params(n_pairs=31).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"center": []}, "^center must be finite numbers, one for each column, got"),
        ({"center": [np.nan, 0.0]}, "center must be"),
        ({"scale": [0.0, 1.0]}, "^scale must be finite numbers above 0, one for each"),
        ({"n_targets": -1}, "^n_targets must be"),
        ({"scale": [1.0]}, "2 and 1"),
        ({"n_records": 0}, "n_records must be"),
        ({"n_records": 2**53 + 1}, "at most 2"),
        ({"n_targets": 2}, "less than the 2 columns"),
        ({"limit": 0.0}, "limit must be"),
        ({"radius": -1.0}, "radius must be"),
    ],
)
def test_parameters_are_checked(parameters, message):
    """By name and value."""
    good = {"center": [0.0, 0.0], "scale": [1.0, 1.0], "n_records": 5}
    with pytest.raises(ValueError, match=message):
        MomentsQuery(**{**good, **parameters})


def test_databases_must_suit():
    """No more records than sums are exact for, and the same columns."""
    query = MomentsQuery([0.0, 0.0], [1.0, 1.0], 5)
    with pytest.raises(ValueError, match="there are more records"):
        query(np.zeros((6, 2)))
    with pytest.raises(ValueError, match="has 2 columns"):
        query(np.zeros((5, 3)))
    with pytest.raises(ValueError, match="there are more records"):
        query.on_pool(RecordPool(np.zeros((5, 2))), 6)
