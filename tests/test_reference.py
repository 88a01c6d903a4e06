"""Where records come from: the law of what is drawn, and what is refused."""

import pickle
import re
import warnings
from itertools import combinations, permutations, product

import numpy as np
import pandas as pd
import pytest
from laws import FALSE_ALARM, SEEDS
from scipy import stats

from skparisk import ReferenceWarning, SensitivitySampler
from skparisk._words import PROVISOS
from skparisk.core import Assumption, Doubt
from skparisk.exceptions import IncompatibleError
from skparisk.reference import Schema, TableReference, as_reference

SEED = np.random.SeedSequence(20)
TABLE = np.arange(12.0).reshape(6, 2)


def rng_of(seed):
    return np.random.default_rng([seed, 7])


def table_of(n_rows, sampling):
    """Return a table whose only feature is the number of the row."""
    return TableReference(np.arange(float(n_rows))[:, None], sampling=sampling)


def listed(drawn):
    """Return the rows of each line, also if these are counted."""
    if drawn.dtype.kind == "i":
        return drawn
    return np.array([np.arange(drawn.shape[1]).repeat(line * 1) for line in drawn])


def lines_of(drawn):
    """Return shared rows, and then those of one database alone."""
    shared = listed(drawn.draw_shared())
    return np.hstack([shared.reshape(len(drawn.own), -1), drawn.own])


def rows_drawn(reference, n_pairs, n_drawn, rng, seed=SEED, n_own=2):
    """Return the indices of all databases."""
    source = reference.bind(n_pairs, n_shared=n_drawn - n_own, n_own=n_own, seed=seed)
    return lines_of(source.draw(0, n_pairs, rng))


def records_drawn(reference, n_pairs, n_drawn, rng):
    """Return features of shape (n_pairs, n_drawn, n_features), and targets."""
    source = reference.bind(n_pairs, n_shared=n_drawn - 2, n_own=2, seed=SEED)
    drawn = source.draw(0, n_pairs, rng)
    pool, rows = drawn.pool, lines_of(drawn)
    return pool.X[rows], None if pool.y is None else pool.y[rows]


def assert_equally_likely(outcomes, cells):
    """Assert by a chi-square test that outcomes are uniform on the cells."""
    cells = list(cells)
    seen, counts = np.unique(np.asarray(outcomes), axis=0, return_counts=True)
    assert {tuple(outcome) for outcome in seen} <= set(cells)
    counts = np.append(counts, np.zeros(len(cells) - len(seen)))
    assert stats.chisquare(counts).pvalue >= FALSE_ALARM


# Tables


def test_too_few_rows_to_sample_are_refused_with_numbers():
    """One row less than needed is refused, exactly enough rows are not."""
    message = (
        "sampling='leave-out' needs a reference table of at least 3 rows for "
        "n_pairs=100 pairs of databases made of 11 records each, got 2; add public "
        "records."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        table_of(2, "leave-out").bind(100, n_shared=11 - 2, n_own=2, seed=SEED)
    assert rows_drawn(table_of(3, "leave-out"), 100, 11, rng_of(0)).shape == (100, 11)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n_own", [1, 2])
def test_leave_out_keeps_own_rows_out_of_the_shared(n_own, seed):
    """With replacement where a database has more than half of the rows."""
    rng = rng_of(seed)
    rows = rows_drawn(table_of(5, "leave-out"), 30_000, 2 + n_own, rng, n_own=n_own)
    rng.permuted(rows[:, :2], axis=1, out=rows[:, :2])  # counted in no order
    cells = [
        (*shared, *own)
        for own in permutations(range(5), n_own)
        for shared in product(set(range(5)) - set(own), repeat=2)
    ]
    assert_equally_likely(rows, cells)


@pytest.mark.parametrize("seed", SEEDS)
def test_leave_out_is_without_replacement_where_there_is_room(seed):
    """Which is the law of real pairs: databases of 3 of 6 people."""
    rows = rows_drawn(table_of(6, "leave-out"), 30_000, 4, rng_of(seed))
    rows[:, :2].sort(axis=1)
    cells = [
        (*shared, *own)
        for own in permutations(range(6), 2)
        for shared in combinations(sorted(set(range(6)) - set(own)), 2)
    ]
    assert_equally_likely(rows, cells)
    crowded = rows_drawn(table_of(5, "leave-out"), 1000, 4, rng_of(seed))
    assert any(len(set(line)) < 4 for line in crowded.tolist())


@pytest.mark.parametrize("n_shared", [3, 40])
def test_split_uses_each_row_of_one_half_once(n_shared):
    """And draws shared rows from the other half, the same half for all seeds."""
    reference, halves = table_of(20, "split"), []
    for seed in range(3):
        rows = rows_drawn(
            reference, 5, n_shared + 2, rng_of(seed), np.random.SeedSequence(seed)
        )
        own, shared = rows[:, -2:], rows[:, :-2]
        assert len(set(own.ravel())) == 10
        assert not set(own.ravel()) & set(shared.ravel())
        halves.append(set(own.ravel()))
    assert halves[0] == halves[1] == halves[2]
    alone = rows_drawn(reference, 1, 300, rng_of(0), n_own=0)
    assert not set(alone[0]) & halves[0]  # what is learned of them is no pair's
    message = "at least 24 rows for n_pairs=6 .* n_pairs=5 is the most it has rows for"
    with pytest.raises(ValueError, match=message):
        rows_drawn(reference, 6, 5, rng_of(0))


def test_all_subsets_are_equally_likely():
    for seed in SEEDS:
        for n_rows, length, n_own in [(6, 3, 0), (7, 2, 1)]:
            table = table_of(n_rows, "leave-out")
            rows = rows_drawn(table, 20_000, length + n_own, rng_of(seed), n_own=n_own)
            rows[:, :length].sort(axis=1)
            cells = [
                (*chosen, *taken)
                for taken in permutations(range(n_rows), n_own)
                for chosen in combinations(
                    sorted(set(range(n_rows)) - set(taken)), length
                )
            ]
            assert_equally_likely(rows, cells)


def test_what_a_table_cannot_carry_is_said():
    for sampling, n_rows, sizes, words in [
        ("leave-out", 20, {}, {}),
        ("leave-out", 19, {"n_outputs": 1}, {"repeated-rows": ""}),
        ("leave-out", 99, {"n_outputs": 10}, {"few-rows": "10 for each of 10"}),
        ("leave-out", 60, {"n_records": 61}, {"repeated-rows": "rows repeat: medians"}),
        ("leave-out", 60, {"n_records": 60}, {"repeated-rows": ""}),
        ("leave-out", 60, {"n_records": 31}, {"repeated-rows": ""}),
        ("leave-out", 60, {"n_records": 30}, {}),
        (
            "leave-out",
            10,
            {},
            {"few-rows": "fewer than 10 for each of 2", "repeated-rows": ""},
        ),
        ("split", 38, {}, {}),
    ]:
        usual = {"n_records": 10, "n_outputs": 2}
        found = table_of(n_rows, sampling).shortcomings(**usual | sizes)
        assert found.keys() == words.keys()
        assert all(words[code] in text for code, text in found.items())
        assert all(bool(words[code]) == bool(text) for code, text in found.items())


def test_what_a_table_cannot_carry_is_a_warning_and_on_the_certificate():
    rng = np.random.default_rng(0)
    sampler = SensitivitySampler(np.median, random_state=0)
    with pytest.warns(ReferenceWarning, match="15 pairs .* takes 20 of them") as w:
        sampler.fit(rng.normal(size=(30, 1)))
    assert w[0].filename == __file__
    assert sampler.certificate_.doubts == {Doubt.THIN}
    caveat, repeated = sampler.certificate_.caveats
    assert "too few rows to show the tail" in caveat
    assert repeated == PROVISOS[Assumption.REPEATED_ROWS]
    assert not sampler.certificate_.private
    assert "not known: proven only for answers that" in str(sampler.certificate_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.fit(rng.normal(size=(40, 1)))
        assert sampler.certificate_.caveats == (repeated,)
        sampler.set_params(n_records=20).fit(rng.normal(size=(40, 1)))
    assert sampler.certificate_.caveats == ()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_table_is_the_same_and_read_only(protocol):
    """Nothing of a table is lost in a pickle."""
    frame = pd.DataFrame(TABLE, columns=["age", "income"])
    reference = TableReference(frame, TABLE[:, 0], "split")
    loaded = pickle.loads(pickle.dumps(reference, protocol=protocol))
    assert loaded.pool.X.equals(frame)
    assert (loaded.pool.numbers.X == TABLE).all()
    assert (loaded.pool.y == TABLE[:, 0]).all()
    assert not loaded.pool.numbers.X.flags.writeable
    assert not loaded.pool.y.flags.writeable
    assert (loaded.sampling, loaded.schema.names) == ("split", ("age", "income"))
    source = pickle.loads(
        pickle.dumps(
            reference.bind(1, n_shared=3 - 2, n_own=2, seed=SEED), protocol=protocol
        )
    )
    drawn = lines_of(source.draw(0, 1, rng_of(0)))
    assert (drawn == rows_drawn(reference, 1, 3, rng_of(0))).all()


def test_other_columns_are_refused():
    """The number of columns, their names and their order must be those of X."""
    frame = pd.DataFrame(TABLE, columns=["age", "income"])
    reference = TableReference(frame)
    reference.check_schema(Schema.of(frame))
    for names in (("age", "income"), None):
        TableReference(TABLE).check_schema(Schema.of(TABLE, names))
        with pytest.raises(IncompatibleError, match="is a data frame, but X is an arr"):
            reference.check_schema(Schema.of(TABLE, names))
    message = "The reference has 2 features, but X has 3: the numbers must be equal."
    with pytest.raises(IncompatibleError, match=re.escape(message)):
        TableReference(TABLE).check_schema(Schema.of(np.ones((2, 3))))
    message = (
        "The reference has the columns ['age', 'income'], but X has the same columns "
        "in another order: they must be the same, in the same order."
    )
    with pytest.raises(IncompatibleError, match=re.escape(message)):
        reference.check_schema(Schema.of(frame[["income", "age"]]))


def test_bad_tables_are_refused():
    """Each message has the name, the value and what is allowed."""
    for arguments, message in [
        (([[1.0]],), "A reference needs at least 2 records"),
        (([[1.0]],), "got n_samples = 1."),
        ((np.empty((0, 2)),), "0 sample(s)"),
        ((np.empty((2, 0)),), "0 feature(s)"),
        (([1.0, 2.0],), "Expected 2D array, got 1D array"),
        (([[1.0], [-np.inf]],), "Input X of the reference contains infinity"),
        (
            (TABLE, [1.0, 2.0]),
            "X and y of a reference must have the same number of rows, got 6 and 2.",
        ),
        ((TABLE, [1, 2, 3, 4, 5, np.nan]), "Input y of the reference contains NaN"),
        (
            (TABLE, 1.0),
            "y of the reference must have one or two dimensions, got shape ().",
        ),
        (
            (TABLE, np.ones((6, 1, 1))),
            "y of the reference must have one or two dimensions, got shape (6, 1, 1).",
        ),
        (
            (TABLE, None, "jackknife"),
            "sampling must be one of 'leave-out', 'split'; got 'jackknife'.",
        ),
        ((TABLE, None, None), "'split'; got None."),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            TableReference(*arguments)


# Functions


@pytest.mark.parametrize("seed", SEEDS)
def test_sorted_records_are_put_in_random_order(seed):
    """Each order of the records of a database is equally likely, targets with them."""
    reference = as_reference(
        lambda n, rng: (np.arange(float(n))[:, None], np.arange(n))
    )
    X, y = records_drawn(reference, 4000, 4, rng_of(seed))
    assert (X[:, :, 0] == y).all()
    assert_equally_likely(y.astype(int), permutations(range(4)))


def test_bad_records_of_a_function_are_refused():
    """The message says that it is the reference that returned them."""
    for sample, message in [
        (
            lambda n, rng: rng.normal(size=(n - 1, 2)),
            "The reference was asked for 6 records and returned X of shape (5, 2).",
        ),
        (
            lambda n, rng: (rng.normal(size=(n, 2)), rng.normal(size=n + 1)),
            "The reference was asked for 6 records and returned y of shape (7,).",
        ),
        (
            lambda n, rng: np.full((n, 1), np.inf),
            "Input X of the reference contains infinity",
        ),
        (
            lambda n, rng: (np.ones((n, 1)), np.full(n, np.inf)),
            "Input y of the reference contains infinity",
        ),
        (
            lambda n, rng: (np.ones((n, 1)), np.ones((n, 1, 1))),
            "y of the reference must have one or two dimensions",
        ),
        (lambda n, rng: rng.normal(size=n), "Expected 2D array, got 1D array"),
        (
            lambda n, rng: (
                np.ones((n, 1)),
                np.ones(n) if rng.random() < 0.5 else None,
            ),
            "The reference returned y for only some databases.",
        ),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            records_drawn(as_reference(sample), 2, 6, rng_of(0))
