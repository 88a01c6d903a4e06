"""Pairs of neighboring databases: how they differ, their law and their seeds."""

import re
from itertools import product

import numpy as np
import pytest
from laws import FALSE_ALARM, SEEDS, assert_law, rejects_law
from scipy import stats
from sklearn.mixture import GaussianMixture

from skparisk.exceptions import IncompatibleError
from skparisk.neighbors import (
    bind_pairs,
    block_size,
    check_n_records,
    draw_pairs,
    n_own,
)
from skparisk.reference import (
    DensityReference,
    SchemaReference,
    TableReference,
    as_reference,
)

RELATIONS = ("replace-one", "add-remove")
relations = pytest.mark.parametrize("relation", RELATIONS)
seeds = pytest.mark.parametrize("seed", SEEDS)

DISTINCT = np.arange(4000.0).reshape(2000, 2)
REFERENCES = {
    "bootstrap": TableReference(DISTINCT, DISTINCT[:, 0]),
    "subsample": TableReference(DISTINCT, DISTINCT[:, 0], "subsample"),
    "disjoint": TableReference(DISTINCT, DISTINCT[:, 0], "disjoint"),
    "schema": SchemaReference([(0, 1), (0, 1)]),
}


def draw(reference, *, n_records, relation, size, seed=0, start=0, n_pairs=None):
    """Draw one block of pairs, its seed a child of a root."""
    root = np.random.SeedSequence([seed, 11])
    source_seed, pairs_seed = root.spawn(2)
    source = bind_pairs(
        reference,
        n_pairs=n_pairs or size,
        n_records=n_records,
        relation=relation,
        seed=source_seed,
    )
    return draw_pairs(
        source,
        n_records=n_records,
        start=start,
        size=size,
        seed=pairs_seed,
    )


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("n_records", [1, 2, 9])
def test_replace_one_pairs_differ_in_one_record(name, n_records):
    """Only the record at the changed position is another one."""
    pairs = draw(REFERENCES[name], n_records=n_records, relation="replace-one", size=40)
    assert len(pairs) == 40
    assert pairs.n_records == n_records
    for i in range(40):
        (X, y), (other_X, other_y) = pairs.databases(i)
        position = pairs.changed[i]
        assert X.shape == other_X.shape == (n_records, 2)
        same = np.all(other_X == X, axis=1)
        assert np.delete(same, position).all()
        assert (X[position] == pairs.pool.X[pairs.removed[i]]).all()
        assert (other_X[position] == pairs.pool.X[pairs.replacement[i]]).all()
        # With replacement, a record may be replaced by itself.
        assert same[position] == (pairs.removed[i] == pairs.replacement[i])
        if name == "schema":
            assert y is None
            assert other_y is None
        else:
            assert (y == X[:, 0]).all()
            assert (other_y == other_X[:, 0]).all()


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("n_records", [1, 2, 9])
def test_add_remove_pairs_have_one_record_less(name, n_records):
    """The second database lacks the record at the changed position."""
    pairs = draw(REFERENCES[name], n_records=n_records, relation="add-remove", size=40)
    assert pairs.replacement is None
    for i in range(40):
        (X, _), (other_X, _) = pairs.databases(i)
        assert len(X) == n_records
        assert (other_X == np.delete(X, pairs.changed[i], axis=0)).all()
        assert (X[pairs.changed[i]] == pairs.pool.X[pairs.removed[i]]).all()


@pytest.mark.parametrize("name", ["subsample", "disjoint"])
def test_pairs_without_replacement_share_no_record(name):
    """The replacement is not among the records of the first database."""
    pairs = draw(REFERENCES[name], n_records=30, relation="replace-one", size=50)
    rows = np.column_stack([pairs.records, pairs.replacement])
    assert all(len(set(row)) == 31 for row in rows)
    if name == "disjoint":
        assert len(np.unique(rows)) == rows.size


@pytest.mark.sampled(1)
@seeds
@relations
def test_both_databases_have_the_law_of_an_iid_reference(relation, seed):
    """So does the replacement: here a mixture whose samples come sorted."""
    mixture = GaussianMixture(2, random_state=0).fit([[0.0], [1.0], [9.0], [10.0]])
    mixture.means_, mixture.weights_ = np.array([[9.0], [0.0]]), np.array([0.7, 0.3])
    mixture.covariances_ = np.ones((2, 1, 1))
    pairs = draw(
        DensityReference(mixture),
        n_records=40,
        relation=relation,
        size=1500,
        seed=seed,
    )
    databases = [tuple(pairs.databases(i)) for i in range(len(pairs))]

    def cdf(x, scale=1.0):
        return 0.3 * stats.norm.cdf(x, scale=scale) + 0.7 * stats.norm.cdf(
            x, 9, scale=scale
        )

    for side in (0, 1):
        records = np.concatenate([pair[side][0].ravel() for pair in databases])
        assert_law(records, cdf)
        for wrong in (0.9, 1.1):
            assert rejects_law(records, lambda x, wrong=wrong: cdf(x, wrong))
        assert_law(np.array([pair[side][0][0, 0] for pair in databases]), cdf)
    if relation == "replace-one":
        assert_law(pairs.pool.X[pairs.replacement, 0], cdf)
    assert_law(pairs.pool.X[pairs.removed, 0], cdf)


def assert_equally_likely(outcomes, cells):
    seen, counts = np.unique(np.asarray(outcomes), axis=0, return_counts=True)
    assert len(seen) <= cells
    counts = np.append(counts, np.zeros(cells - len(seen)))
    assert stats.chisquare(counts).pvalue >= FALSE_ALARM


@seeds
def test_records_of_both_databases_are_independent_draws(seed):
    """Each tuple of records is equally likely in the first and the other database."""
    table = TableReference([[0.0], [1.0], [2.0]], sampling="bootstrap")
    pairs = draw(table, n_records=3, relation="replace-one", size=20_000, seed=seed)
    databases = [tuple(pairs.databases(i)) for i in range(len(pairs))]
    for side in (0, 1):
        assert_equally_likely([pair[side][0].ravel() for pair in databases], 27)


@seeds
@relations
def test_the_position_is_uniform_and_independent_of_the_records(relation, seed):
    """All of (position, records) are equally likely."""
    table = TableReference([[0.0], [1.0]], sampling="bootstrap")
    pairs = draw(table, n_records=3, relation=relation, size=40_000, seed=seed)
    outcomes = np.column_stack([pairs.changed, pairs.records])
    assert set(map(tuple, outcomes)) == set(product(range(3), *[range(2)] * 3))
    assert_equally_likely(outcomes, 24)


@seeds
@relations
@pytest.mark.parametrize("sampling", ["leave-out", "subsample"])
def test_records_are_in_random_order(sampling, relation, seed):
    """Also where they are drawn as a set: databases of 3 of 6 people."""
    table = TableReference(np.arange(6.0)[:, None], sampling=sampling)
    pairs = draw(table, n_records=3, relation=relation, size=30_000, seed=seed)
    assert_equally_likely(pairs.records, 120)
    lines = np.arange(len(pairs))
    assert (pairs.records[lines, pairs.changed] == pairs.removed).all()
    assert (np.sort(pairs.members, axis=1) == np.sort(pairs.records, axis=1)).all()
    counts = pairs.counts
    assert counts.sum(axis=1).tolist() == [3] * len(pairs)
    assert (counts[lines[:, None], pairs.records] == 1).all()


def blocks_of(reference, relation, order, seed=3):
    """Draw blocks of 7 pairs in an order, each from a child of one seed."""
    source_seed, pairs_seed = np.random.SeedSequence(seed).spawn(2)
    source = bind_pairs(
        reference, n_pairs=21, n_records=6, relation=relation, seed=source_seed
    )
    children = pairs_seed.spawn(3)
    drawn = {
        i: draw_pairs(
            source,
            n_records=6,
            start=7 * i,
            size=7,
            seed=children[i],
        )
        for i in order
    }
    return [drawn[i] for i in range(3)]


@relations
@pytest.mark.parametrize("name", REFERENCES)
def test_blocks_depend_on_their_seed_only(name, relation):
    """In whatever order blocks are drawn, they are the same; they differ in seeds."""
    reference = REFERENCES[name]
    blocks = blocks_of(reference, relation, (0, 1, 2))
    again = blocks_of(reference, relation, (2, 0, 1))
    other = blocks_of(reference, relation, (0, 1, 2), seed=4)
    for block, same, different in zip(blocks, again, other, strict=True):
        assert (block.changed == same.changed).all()
        assert (block.pool.X[block.records] == same.pool.X[same.records]).all()
        assert (block.pool.X[block.removed] == same.pool.X[same.removed]).all()
        if relation == "replace-one":
            assert (
                block.pool.X[block.replacement] == same.pool.X[same.replacement]
            ).all()
        assert (
            block.pool.X[block.records] != different.pool.X[different.records]
        ).any()
        assert (block.changed != different.changed).any()


@relations
def test_drawing_leaves_the_seed_as_it_was(relation):
    """Called twice with one seed, the pairs are the same."""
    seed = np.random.SeedSequence(5)
    source = bind_pairs(
        REFERENCES["schema"], n_pairs=4, n_records=6, relation=relation, seed=seed
    )
    first, again = (
        draw_pairs(source, n_records=6, start=0, size=4, seed=seed) for _ in range(2)
    )
    assert (first.changed == again.changed).all()
    assert (first.pool.X[first.records] == again.pool.X[again.records]).all()


@seeds
def test_blocks_are_independent(seed):
    """The same place in two blocks holds each pair of rows equally often."""
    table = TableReference(np.arange(3.0)[:, None], sampling="bootstrap")
    source = table.bind(1, n_shared=1, n_own=2, seed=None)
    children = np.random.SeedSequence(seed).spawn(6000)
    drawn = [
        draw_pairs(source, n_records=2, start=0, size=1, seed=child)
        for child in children
    ]
    first, second = drawn[::2], drawn[1::2]
    outcomes = [
        (a.records[0, 0], b.records[0, 0], a.changed[0], b.changed[0])
        for a, b in zip(first, second, strict=True)
    ]
    assert_equally_likely(outcomes, 36)


def test_a_function_gets_new_records_in_each_block():
    """The generator handed to a function is that of the block."""
    reference = as_reference(lambda n, rng: rng.normal(size=(n, 1)))
    blocks = blocks_of(reference, "replace-one", (0, 1, 2))
    assert len(np.unique([block.pool.X for block in blocks])) == 3 * 7 * 7


def test_blocks_are_bounded_and_depend_on_the_size_only():
    """A block never holds more than 64 pairs, nor 2**23 records if it can."""
    assert block_size(1) == block_size(1000) == block_size(2**17) == 64
    assert block_size(2**17 + 1) == 63
    assert block_size(2**23) == block_size(2**23 + 1) == block_size(2**30) == 1
    for n_records in (1, 7, 999, 23_600, 10**6):
        assert isinstance(block_size(n_records), int)
        assert block_size(n_records) * n_records <= 2**23


def test_records_of_one_database_only_are_two_if_one_is_replaced():
    """The replacement is drawn as well."""
    assert n_own("replace-one") == 2
    assert n_own("add-remove") == 1


def test_databases_of_another_size_are_refused():
    """Only the sizes that were sampled are allowed."""
    check_n_records(7, 7, "replace-one")
    check_n_records(7, 7, "add-remove")
    check_n_records(6, 7, "add-remove")
    cases = [
        (6, "replace-one", "7 records, got 6"),
        (8, "replace-one", "7 records, got 8"),
        (5, "add-remove", "6 or 7 records"),
        (8, "add-remove", "6 or 7 records"),
    ]
    for n_records, relation, allowed in cases:
        message = (
            f"n_records=7: pairs were sampled for databases of {allowed}; "
            "sensitivities at one size say nothing about another."
        )
        with pytest.raises(IncompatibleError, match=re.escape(message)):
            check_n_records(n_records, 7, relation)
