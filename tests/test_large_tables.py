"""References that are not in memory: files mapped to it, and blocks of rows."""

import multiprocessing
import resource
import sys

import numpy as np
import pytest
from counts import rejects_counts, seeds

from skparisk import PrivateMoments, PrivateRidge, SensitivitySampler
from skparisk.core.rounding import fields_of
from skparisk.exceptions import PrivacyLeakWarning
from skparisk.queries import (
    LogisticRegressionQuery,
    MeanQuery,
    MomentsQuery,
    RidgeQuery,
    UnitsQuery,
    _sums,
)
from skparisk.reference import TableReference, _base, _mapped, _rows
from skparisk.reference._mapped import MappedNumbers

N_ROWS = 3000
ROWS = np.random.default_rng(0).normal(size=(N_ROWS, 4))
ROWS[:, -1] += ROWS[:, 0]
PRIVATE = np.random.default_rng(1).normal(size=(120, 4))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Map small files, look few rows up at once, and load few."""
    monkeypatch.setattr(_mapped, "_LEAST_BYTES", 0)
    monkeypatch.setattr(_mapped, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(_mapped, "_NUMBERS_AT_ONCE", 1000)


def in_file(tmp_path, rows, mode="r"):
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    return np.load(path, mmap_mode=mode)


def fitted(query, X, y, **words):
    sampler = SensitivitySampler(query, n_records=120, n_pairs=80, random_state=0)
    reference = TableReference(X, y)
    sampler.set_params(reference=reference, **words)
    return sampler.fit(PRIVATE[:, :3], PRIVATE[:, 3])


QUERIES = {
    "means": MeanQuery(),
    "moments": MomentsQuery([0.0] * 4, [1.0] * 4, n_records=120, n_targets=1),
    "ridge": RidgeQuery(1.0),
    "ridge in units": UnitsQuery(RidgeQuery(1.0), (0.5, 2.0, 1.0)),
    "function": lambda X, y: X.mean(axis=0) + y.mean(),
    "logistic": LogisticRegressionQuery((0, 1)),
}


@pytest.mark.parametrize("most", [0, 2**20])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
@pytest.mark.parametrize("name", QUERIES)
def test_pairs_of_a_file_are_those_of_the_same_rows_in_memory(
    name, dtype, most, tmp_path, monkeypatch
):
    """To the last bit, whether all rows are looked at once or each when drawn."""
    monkeypatch.setattr(_sums, "_SMALL_POOL", most)
    rows = (ROWS * 100).astype(dtype)
    if name == "logistic":
        rows[:, 3] = rows[:, 3] > 0
    table = in_file(tmp_path, rows)
    X, y = table[:, :3], table[:, 3]
    found = fitted(QUERIES[name], X, y)
    expected = fitted(
        QUERIES[name], rows[:, :3].astype(float), rows[:, 3].astype(float)
    )
    np.testing.assert_array_equal(found.differences_, expected.differences_)
    assert found.certificate_ == expected.certificate_
    assert isinstance(TableReference(X, y).pool.X, MappedNumbers)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_rows_that_are_looked_at_when_drawn_give_the_same_differences(
    fit_intercept, relation, monkeypatch
):
    words = {"relation": relation, "n_records": 120}
    query = RidgeQuery(1.0, fit_intercept=fit_intercept)
    once = fitted(query, ROWS[:, :3], ROWS[:, 3], **words).differences_
    monkeypatch.setattr(_sums, "_SMALL_POOL", 0)
    drawn = fitted(query, ROWS[:, :3], ROWS[:, 3], **words).differences_
    np.testing.assert_allclose(drawn, once, rtol=0, atol=1e-12)


def test_workers_map_the_file_as_well(tmp_path):
    table = in_file(tmp_path, ROWS)
    one, two = (
        fitted(RidgeQuery(1.0), table[:, :3], table[:, 3], n_jobs=n_jobs).differences_
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_rows_are_looked_up_as_those_of_an_array(tmp_path):
    table = in_file(tmp_path, ROWS.astype(np.float32))
    numbers = MappedNumbers.of(table, "X")
    expected = ROWS.astype(np.float32).astype(float)
    assert (numbers.shape, len(numbers), numbers.size) == (
        ROWS.shape,
        N_ROWS,
        ROWS.size,
    )
    rng = np.random.default_rng(0)
    for rows in (
        slice(10, 30),
        rng.integers(N_ROWS, size=500),
        rng.integers(N_ROWS, size=(3, 200)),
        rng.random(N_ROWS) < 0.1,
        np.empty(0, dtype=int),
    ):
        np.testing.assert_array_equal(numbers[rows], expected[rows])
        assert numbers[rows].dtype == np.float64
    units = np.array([0.5, 1.0, 2.0, 4.0])
    twice = numbers.in_units(units).in_units(units)
    np.testing.assert_array_equal(np.asarray(twice), expected / units**2)
    np.testing.assert_array_equal(twice.low, expected.min(axis=0) / units**2)
    np.testing.assert_array_equal(numbers.high, expected.max(axis=0))
    assert _mapped.map_numbers(numbers, "X") is numbers


def test_what_is_no_file_or_cannot_be_given_back_is_read(tmp_path, monkeypatch):
    """Of a copy on write the pages hold what nobody else has."""
    copied = in_file(tmp_path, ROWS, mode="c")
    copied[:] = 1.0
    assert _mapped.map_numbers(copied, "X") is None
    view = np.asarray(copied).view(np.memmap)
    assert _mapped.map_numbers(view, "X") is None
    assert (TableReference(view).pool.X == 1.0).all()
    assert _mapped.map_numbers(ROWS, "X") is None
    text = in_file(tmp_path, np.array([["a"], ["b"]]))
    assert _mapped.map_numbers(text, "X") is None
    table = in_file(tmp_path, ROWS)
    monkeypatch.delattr(_mapped.mmap, "MADV_DONTNEED", raising=False)
    assert (MappedNumbers.of(table, "X")[:] == ROWS).all()
    monkeypatch.setattr(_mapped, "_LEAST_BYTES", 10**9)
    assert _mapped.map_numbers(table, "X") is None


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("column", [1, 3])
def test_numbers_that_are_not_finite_are_refused_wherever_they_are(
    wrong, column, tmp_path
):
    rows = ROWS.copy()
    rows[-1, column] = wrong
    table = in_file(tmp_path, rows)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fitted(MeanQuery(), table[:, :3], table[:, 3]).fit(PRIVATE[:, :3])


def test_private_records_in_a_file_are_recognized(tmp_path):
    rows = np.vstack([ROWS, PRIVATE])
    table = in_file(tmp_path, rows)
    assert TableReference(table).sketch.same_rows(TableReference(rows).sketch)
    model = PrivateRidge(1.0, random_state=0)
    with pytest.warns(PrivacyLeakWarning):
        model.fit(
            PRIVATE[:, :3],
            PRIVATE[:, 3],
            X_reference=table[:, :3],
            y_reference=table[:, 3],
        )


@pytest.mark.parametrize("model", [PrivateRidge, PrivateMoments])
def test_fits_load_all_of_a_file_of_few_rows(model, tmp_path):
    """They learn from public records what they learn of these in memory."""
    table = in_file(tmp_path, ROWS)
    found, expected = (
        model(random_state=0)
        .fit(
            PRIVATE[:, :3],
            PRIVATE[:, 3],
            X_reference=public[:, :3],
            y_reference=public[:, 3],
        )
        .certificate_
        for public in (table, ROWS)
    )
    # Noise decides if what was released is an outlier.
    claims = [fields_of(claim) for claim in (found, expected)]
    assert all(claim.pop("doubts") is not None for claim in claims)
    assert claims[0] == claims[1]


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("sampling", ["leave-out", "split"])
def test_private_records_are_clipped_to_the_range_of_a_file(
    sampling, relation, tmp_path
):
    found, expected = (
        SensitivitySampler(
            QUERIES["function"],
            n_records=120,
            n_pairs=80,
            relation=relation,
            reference=TableReference(rows[:, :3], rows[:, 3], sampling, clip=True),
            random_state=0,
        ).fit(PRIVATE[:, :3], PRIVATE[:, 3])
        for rows in (in_file(tmp_path, ROWS), ROWS)
    )
    np.testing.assert_array_equal(found.differences_, expected.differences_)
    assert found.certificate_ == expected.certificate_


@pytest.mark.parametrize("model", [PrivateRidge, PrivateMoments])
def test_fits_load_a_part_of_a_file(model, tmp_path, monkeypatch):
    """For all that is learned from public records besides pairs."""
    monkeypatch.setattr(_base, "_MOST_LOADED", 500)
    monkeypatch.delattr(MappedNumbers, "__array__")
    monkeypatch.setattr(_sums, "_SMALL_POOL", 0)
    table = in_file(tmp_path, ROWS)
    public = {"X_reference": table[:, :3], "y_reference": table[:, 3]}
    found = model(random_state=0).fit(PRIVATE[:, :3], PRIVATE[:, 3], **public)
    assert found.risk_ <= 0.05
    if model is PrivateRidge:
        assert found.reference_comparison_.n_reference == 500


@seeds
def test_rows_of_a_huge_table_are_drawn_without_replacement(seed, monkeypatch):
    """As of a small one: all subsets of the others are equally likely."""
    monkeypatch.setattr(_rows, "_MOST_PLACES", 0)
    monkeypatch.setattr(_rows, "_DENSE", 0)
    rng = np.random.default_rng(seed)
    own = np.tile([[2]], (20_000, 1))
    rows = _rows.draw_subsets(7, own, 3, rng)
    assert not (rows == 2).any()
    subsets = np.sort(rows - (rows > 2), axis=1)
    assert (np.diff(subsets, axis=1) > 0).all()
    codes = np.unique(subsets @ [36, 6, 1], return_inverse=True)[1]
    assert not rejects_counts(codes, np.ones(20))
    assert rejects_counts(codes, np.r_[np.full(10, 0.9), np.full(10, 1.1)])


# Blocks


def blocks_of(rows, size):
    return (
        (part[:, :3], part[:, 3])
        for part in np.split(rows, range(size, len(rows), size))
    )


def test_rows_of_blocks_do_not_depend_on_how_they_are_cut():
    tables = [
        TableReference.of_blocks(blocks_of(ROWS, size), n_rows=200)
        for size in (N_ROWS, 700, 60)
    ]
    for table in tables:
        assert table.n_rows == 200
        np.testing.assert_array_equal(table.pool.X, tables[0].pool.X)
        np.testing.assert_array_equal(table.pool.y, tables[0].pool.y)
        known = {*map(tuple, ROWS)}
        assert {*map(tuple, np.column_stack([table.pool.X, table.pool.y]))} <= known
        assert table.sketch.n_rows == N_ROWS
        assert table.sketch.same_rows(TableReference(ROWS[:, :3], ROWS[:, 3]).sketch)
    every = TableReference.of_blocks(blocks_of(ROWS, 700), n_rows=10**6)
    np.testing.assert_array_equal(every.pool.X, ROWS[:, :3])


@seeds
def test_all_rows_of_blocks_are_as_likely(seed):
    """Those of the first block and of the last; and not 10 % more or less."""
    rng = np.random.default_rng(seed)
    rows = np.arange(10.0)[:, None]
    drawn = [
        TableReference.of_blocks([rows[:4], rows[4:]], n_rows=4, random_state=rng)
        for _ in range(4000)
    ]
    chosen = np.concatenate([table.pool.X[:, 0] for table in drawn]).astype(int)
    # Without replacement counts vary less than a chi-square test expects.
    assert not rejects_counts(chosen, np.ones(10))
    assert rejects_counts(chosen, np.r_[np.full(5, 0.9), np.full(5, 1.1)])


def test_private_records_that_were_not_drawn_are_recognized():
    blocks = [*blocks_of(np.vstack([PRIVATE, ROWS]), 500)]
    table = TableReference.of_blocks(blocks, n_rows=100)
    assert table.sketch.overlaps(TableReference(PRIVATE[:, :3], PRIVATE[:, 3]).sketch)
    own = np.random.default_rng(5).normal(size=(120, 3))
    assert not table.sketch.overlaps(TableReference(own).sketch)
    with pytest.warns(PrivacyLeakWarning):
        PrivateRidge(1.0).fit(PRIVATE[:, :3], PRIVATE[:, 3], X_reference=table)


def test_blocks_without_targets_and_frames():
    pd = pytest.importorskip("pandas")
    frames = (pd.DataFrame({"a": part, "b": "x"}) for part in np.split(ROWS[:, 0], 10))
    table = TableReference.of_blocks(frames, n_rows=50, sampling="split")
    assert table.n_rows == 50
    assert table.feature_names == ("a", "b")
    assert table.pool.y is None


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "at least one block"),
        ([(ROWS[:, :3], ROWS[:5, 3])], "same number of rows"),
        ([(ROWS[:, :3], ROWS[:, 3]), ROWS[:, :3]], "Either all blocks"),
        ([ROWS, np.full((2, 4), np.inf)], "infinity"),
        ([ROWS, ROWS[:, :3]], "same columns, in the same order, got 4 and 3"),
    ],
)
def test_blocks_that_are_no_table_are_refused(blocks, message):
    with pytest.raises(ValueError, match=message):
        TableReference.of_blocks(blocks)


@pytest.mark.parametrize("columns", [["b", "a"], ["a"]])
def test_blocks_of_other_columns_are_refused(columns):
    """Their records would be put together by names, and known by places."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS[:, :2], columns=["a", "b"])
    with pytest.raises(ValueError, match=r"same columns, .*\['a', 'b'\] and "):
        TableReference.of_blocks([frame, frame[columns]])


# Memory


def _growth(path, found):
    """Tell how much memory a fit takes beside what is there before."""
    unit = 1 if sys.platform == "darwin" else 1024

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    X = np.random.default_rng(1).normal(size=(100, 9))
    words = {"n_pairs": 40, "gamma": 0.2, "random_state": 0}
    SensitivitySampler(RidgeQuery(1.0), **words).fit(X, X[:, 0])  # imports
    before = peak()
    table = np.load(path, mmap_mode="r")
    reference = TableReference(table[:, :9], table[:, 9])
    SensitivitySampler(RidgeQuery(1.0), reference=reference, **words).fit(X, X[:, 0])
    found.put(peak() - before)


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(_mapped.mmap, "MADV_DONTNEED"), reason="pages cannot be given back"
)
def test_a_fit_takes_less_memory_than_the_file(tmp_path):
    """256 MB of single precision, which are 512 MB as doubles."""
    path = tmp_path / "rows.npy"
    n_rows = 6_400_000
    table = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, 10))
    for start in range(0, n_rows, 10**5):
        rng = np.random.default_rng(start)
        table[start : start + 10**5] = rng.normal(size=(10**5, 10))
    del table
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    process = context.Process(target=_growth, args=(path, found))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert found.get(timeout=10) < path.stat().st_size
