"""Pairs of neighboring databases: how they differ, their law and their seeds."""

import re
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
from counts import rejects_counts
from laws import FALSE_ALARM, SEEDS, assert_law, rejects_law
from query_pairs import RELATIONS, both_of, counts_of
from query_pairs import pairs_from as draw
from scipy import stats
from sklearn.mixture import GaussianMixture

from skparisk import neighbors
from skparisk.core.release import check_n_records
from skparisk.exceptions import IncompatibleError
from skparisk.neighbors import (
    NeighborPairs,
    bind_pairs,
    draw_pairs,
    known_pairs,
    n_own,
    sample_database,
)
from skparisk.reference import (
    CallableReference,
    RecordPool,
    SchemaReference,
    TableReference,
    _rows,
    as_reference,
)
from skparisk.reference._rows import count_rows

relations = pytest.mark.parametrize("relation", RELATIONS)
seeds = pytest.mark.parametrize("seed", SEEDS)

DISTINCT = np.arange(4000.0).reshape(2000, 2)
REFERENCES = {
    "leave-out": TableReference(DISTINCT, DISTINCT[:, 0]),
    "split": TableReference(DISTINCT, DISTINCT[:, 0], "split"),
    "schema": SchemaReference([(0, 1), (0, 1)]),
}


def independent(n):
    """Records that are independent, whatever others are."""
    return CallableReference(lambda m, rng: 1.0 * rng.integers(n, size=(m, 1)))


def test_replace_one_pairs_differ_in_one_record():
    """Only the record at the changed position is another one."""
    for name in REFERENCES:
        for n_records in [1, 2, 9]:
            pairs = draw(
                REFERENCES[name], n_records=n_records, relation="replace-one", size=40
            )
            assert len(pairs) == 40
            assert pairs.n_records == n_records
            for i in range(40):
                (X, y), (other_X, other_y) = both_of(pairs, i)
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


def test_add_remove_pairs_have_one_record_less():
    """The second database lacks the record at the changed position."""
    for name in REFERENCES:
        for n_records in [1, 2, 9]:
            pairs = draw(
                REFERENCES[name], n_records=n_records, relation="add-remove", size=40
            )
            assert pairs.replacement is None
            for i in range(40):
                (X, _), (other_X, _) = both_of(pairs, i)
                assert len(X) == n_records
                assert (other_X == np.delete(X, pairs.changed[i], axis=0)).all()
                assert (X[pairs.changed[i]] == pairs.pool.X[pairs.removed[i]]).all()


# Of a table: records of a database, neighbors, and the rows. In a database of more than
# half of these, shared records are drawn with replacement.
SMALL = {
    "replace-one": [("leave-out", 3, 1, 4), ("leave-out", 2, 1, 5)],
    "add-remove": [("leave-out", 3, 2, 4), ("leave-out", 2, 1, 4)],
}


def all_outcomes(sampling, n_records, n_neighbors, n_rows, relation):
    """Return each outcome that a block may have for a database, with its neighbors.

    The records in their order, where they change, and what is put there: as often as
    their probability asks for.
    """
    rows, n_shared = range(n_rows), n_records - n_neighbors
    repeated = sampling == "leave-out" and 2 * (n_shared + 1) > n_rows
    outcomes = []
    for own in permutations(rows, n_own(relation) * n_neighbors):
        others = sorted(set(rows) - set(own))
        drawn = product(others, repeat=n_shared)
        for shared in drawn if repeated else permutations(others, n_shared):
            for places in permutations(range(n_records), n_neighbors):
                left = iter(shared)
                at = dict(zip(places, own, strict=False))
                records = [at[i] if i in at else next(left) for i in range(n_records)]
                outcomes.append((*records, *places, *own[n_neighbors:]))
    return outcomes


def outcomes_drawn(sampling, n_records, n_neighbors, n_rows, relation, seed, size):
    X = np.arange(float(n_rows))[:, None]
    pairs = draw(
        TableReference(X, X[:, 0], sampling),
        n_records=n_records,
        relation=relation,
        size=size,
        seed=seed,
        n_neighbors=n_neighbors,
    )
    places = pairs.changed.reshape(size, n_neighbors)
    put = [] if pairs.replacement is None else [pairs.replacement.reshape(size, -1)]
    return np.hstack([pairs.records, places, *put])


def rejects_outcomes(drawn, outcomes):
    """Tell if a chi-square test, or one that never occurs, refuses their law."""
    cells = sorted(set(outcomes))
    index = {cell: i for i, cell in enumerate(cells)}
    chosen = [index.get(tuple(line), len(cells)) for line in drawn.tolist()]
    if max(chosen) == len(cells):
        return True
    weights = np.bincount([index[o] for o in outcomes])
    return rejects_counts(chosen, weights)


@pytest.mark.sampled(1)
@seeds
@relations
def test_each_block_of_a_small_table_is_as_likely_as_counting_says(relation, seed):
    """All that a pair consists of, together: records, places, what is put there."""
    for sampling, *sizes in SMALL[relation]:
        outcomes = all_outcomes(sampling, *sizes, relation)
        drawn = outcomes_drawn(sampling, *sizes, relation, seed, 40_000)
        assert not rejects_outcomes(drawn, outcomes)


def changed_first(n_rows, size, n, rng):
    return np.broadcast_to(np.arange(n), (size, n))


def in_order(pairs):
    free = np.arange(pairs.n_records) != pairs.changed[:, None]
    records = np.where(free, 0, pairs.removed[:, None])
    records[free] = pairs.members[:, :-1].ravel()
    return records


def first_row_more_often(n_rows, shape, rng, **shortest):
    rows = rng.integers(n_rows, size=shape, dtype=np.int32)
    return np.where(rng.random(shape) < 0.05, np.int32(0), rows)


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (_rows, "_keep_out", lambda counts, own: None),
        (neighbors, "draw_few_distinct", changed_first),
        (NeighborPairs, "records", property(in_order)),
        (_rows, "draw_rows", first_row_more_often),
    ],
    ids=["own rows are shared", "one place", "no order", "one row"],
)
def test_draws_of_another_law_are_noticed(owner, name, broken, monkeypatch):
    monkeypatch.setattr(owner, name, broken)
    relation = "replace-one"
    sampling, *sizes = SMALL[relation][0]
    drawn = outcomes_drawn(sampling, *sizes, relation, 0, 40_000)
    assert rejects_outcomes(drawn, all_outcomes(sampling, *sizes, relation))


@pytest.mark.sampled(1)
@seeds
@relations
def test_both_databases_have_the_law_of_an_iid_reference(relation, seed):
    """So does the replacement: here a mixture whose samples come sorted."""
    mixture = GaussianMixture(2, random_state=0).fit([[0.0], [1.0], [9.0], [10.0]])
    mixture.means_, mixture.weights_ = np.array([[9.0], [0.0]]), np.array([0.7, 0.3])
    mixture.covariances_ = np.ones((2, 1, 1))

    def sample(n_records, rng):
        mixture.random_state = np.random.RandomState(rng.bit_generator)
        return mixture.sample(n_records)[0]

    reference = CallableReference(sample)
    pairs = draw(reference, n_records=40, relation=relation, size=1500, seed=seed)
    databases = [tuple(both_of(pairs, i)) for i in range(len(pairs))]

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
@relations
def test_records_are_in_random_order(relation, seed):
    """Also where they are drawn as a set: databases of 3 of 6 people."""
    table = TableReference(np.arange(6.0)[:, None])
    pairs = draw(table, n_records=3, relation=relation, size=30_000, seed=seed)
    assert_equally_likely(pairs.records, 120)
    lines = np.arange(len(pairs))
    assert (pairs.records[lines, pairs.changed] == pairs.removed).all()
    assert (np.sort(pairs.members, axis=1) == np.sort(pairs.records, axis=1)).all()
    counts = counts_of(pairs)
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
        i: draw_pairs(source, n_records=6, start=7 * i, size=7, seed=children[i])
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


def test_a_function_gets_new_records_in_each_block():
    """The generator handed to a function is that of the block."""
    reference = as_reference(lambda n, rng: rng.normal(size=(n, 1)))
    blocks = blocks_of(reference, "replace-one", (0, 1, 2))
    assert len(np.unique([block.pool.X for block in blocks])) == 3 * 7 * 7


def test_rows_are_counted_line_by_line_also_of_a_long_table():
    """Of which not all lines are counted at once."""
    rng = np.random.default_rng(0)
    for n_rows in (3, 2**13, 2**13 + 1, 2**15):
        lines = rng.integers(n_rows, size=(7, 50))
        counts = count_rows(lines, n_rows)
        assert counts.shape == (7, n_rows)
        for line, count in zip(lines, counts, strict=True):
            assert (count == np.bincount(line, minlength=n_rows)).all()


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


def test_pairs_of_known_rows_are_of_these():
    rows, rng = np.arange(15).reshape(3, 5), np.random.default_rng(0)
    pairs = known_pairs(RecordPool(DISTINCT[:15]), rows, rng)
    for i in range(3):
        (X, _), (other, _) = both_of(pairs, i)
        for found, chosen in ((X, rows[i, :4]), (other, rows[i, 1:])):
            assert sorted(found[:, 0] // 2) == chosen.tolist()


def test_records_come_in_the_form_that_is_asked_for():
    """As they were given, if nothing is said."""
    frame = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40)})
    reference, seed = TableReference(frame), [0, 11]
    pairs = draw(reference, n_records=9, relation="add-remove", size=2)
    assert isinstance(pairs.pool.X, pd.DataFrame)
    array = draw(reference, n_records=9, relation="add-remove", size=2, form="numbers")
    assert isinstance(array.pool.X, np.ndarray)
    for i in range(2):
        assert (pairs.first(i)[0].to_numpy() == array.first(i)[0]).all()
    given, _ = sample_database(reference, 9, np.random.SeedSequence(seed))
    asked, _ = sample_database(reference, 9, np.random.SeedSequence(seed), "numbers")
    assert isinstance(given, pd.DataFrame)
    assert isinstance(asked, np.ndarray)
    assert (given.to_numpy() == asked).all()


@pytest.mark.parametrize("name", REFERENCES)
def test_a_database_alone_is_drawn_as_those_of_pairs_are(name):
    """The same from the same seed; without replacement no record is there twice."""
    reference = REFERENCES[name]
    (X, y), (again, _), (other, _) = (
        sample_database(reference, 200, np.random.SeedSequence(seed))
        for seed in (1, 1, 2)
    )
    assert X.shape == (200, 2)
    assert np.array_equal(X, again)
    assert not np.array_equal(X, other)
    assert y is None if name == "schema" else (y == X[:, 0]).all()
    n_different = len(np.unique(X[:, 0]))
    assert n_different == 200 or (name == "split" and n_different > 150)
    assert (np.diff(X[:, 0]) < 0).any()  # not in the order of the table
