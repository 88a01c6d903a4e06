"""Any table that scikit-learn can index by rows: kept, hashed, drawn and answered."""

import datetime
import decimal
import fractions
import gc
import hashlib
import pickle
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skparisk import (
    KnownSensitivity,
    PrivacyLeakWarning,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk._private_data import validate_private_records, validate_records
from skparisk._training_data import reference_table
from skparisk.exceptions import IncompatibleError
from skparisk.model_selection import PrivateGridSearchCV
from skparisk.neighbors import bind_pairs, draw_pairs, sample_database
from skparisk.queries import FunctionQuery, MeanQuery
from skparisk.queries._base import answer_private
from skparisk.reference import (
    RecordPool,
    SchemaReference,
    TableReference,
    as_reference,
)
from skparisk.reference._records import (
    Schema,
    as_array,
    as_numbers,
    as_records,
    as_targets,
    copy_records,
    is_numbers,
    n_rows,
    take_rows,
)
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity import sample_differences

SEED = np.random.SeedSequence(0)
N_ROWS = 400


def people(n_rows=N_ROWS, seed=0):
    """Return records of mixed columns, as a frame of pandas."""
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 10, n_rows)
    age[::7] = np.nan
    days = rng.integers(20_000, size=n_rows)
    return pd.DataFrame(
        {
            "age": age,
            "children": rng.integers(5, size=n_rows),
            "city": rng.choice(["Graz", "Wien", "Łódź"], n_rows),
            "member": rng.random(n_rows) < 0.5,
            "born": np.datetime64("1950-01-01", "us") + days.astype("m8[D]"),
        }
    )


def sparse_table(n_rows, n_columns, seed=0):
    """Return records most of which is zero, in CSR."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    return sparse.csr_array(np.where(rng.random(X.shape) < 0.3, X, 0.0))


def as_polars(frame):
    """Return the same records in polars."""
    columns = {name: frame[name].to_list() for name in frame.columns}
    return pl.DataFrame(columns).fill_nan(None)


def as_objects(frame):
    """Return the same records in an array of objects."""
    return frame.astype(object).to_numpy()


def as_categories(frame):
    """Return the same records, with categories for texts."""
    return frame.astype({"city": "category"})


def in_other_types(frame):
    """Return the same records in types that pandas has besides those of numpy."""
    return frame.astype(
        {
            "age": "Float64",
            "children": "Int64",
            "city": "string",
            "member": "boolean",
            "born": "datetime64[s]",
        }
    ).assign(born=lambda f: f["born"].dt.tz_localize("UTC"))


GUISES = {
    "itself": lambda frame: frame,
    "polars": as_polars,
    "objects": as_objects,
    "categories": as_categories,
    "other types": in_other_types,
    "polars categories": lambda f: as_polars(f).with_columns(
        pl.col("city").cast(pl.Categorical), pl.col("born").dt.cast_time_unit("ms")
    ),
}


def median_age(X):
    return X["age"].median()


def share_of_graz(X):
    return (X["city"] == "Graz").mean()


def text_length(X):
    return np.mean([len(text) for text in X])


def graz_of_labels(X, y):
    return (y == "Graz").mean()


def sampler_of(query=median_age, **parameters):
    defaults = {"gamma": 0.1, "n_pairs": 40, "random_state": 0, "n_records": 50}
    return SensitivitySampler(query, **defaults | parameters)


# Records


@pytest.mark.parametrize("make", [as_polars, as_categories, lambda frame: frame])
def test_frames_stay_as_they_are(make):
    frame = make(people())
    assert as_records(frame) is frame
    assert n_rows(frame) == N_ROWS
    rows = np.array([3, 1, 1])
    assert type(take_rows(frame, rows)) is type(frame)
    assert n_rows(take_rows(frame, rows)) == 3
    copied = copy_records(frame)
    assert copied is not frame
    assert copied.equals(frame)
    assert not is_numbers(frame)


@pytest.mark.parametrize(
    "texts",
    [
        ["a", "b"],
        np.array(["a", "b"]),
        np.array(["a", "b"], dtype=object),
        pd.Series(["a", "b"]),
        pd.Series(["a", "b"], dtype="category"),
        pl.Series(["a", "b"]),
    ],
)
def test_texts_become_objects(texts):
    records = as_records(texts)
    assert records.dtype == object
    assert records.tolist() == ["a", "b"]
    assert Schema.of(records) == Schema("texts", None, ("text",))


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2], [3, 4]],
        [[1, np.nan], [True, 0]],
        np.array([[1, 2], [3, 4]], dtype=np.float32),
        np.array([[True, False], [True, True]]),
        np.array([[1, None], [pd.NA, decimal.Decimal("0.5")]], dtype=object),
    ],
)
def test_numbers_become_floats(X):
    records = as_records(X)
    assert is_numbers(records)
    assert Schema.of(records) == Schema("array", None, ("number", "number"))
    expected = [[np.nan if pd.isna(v) else float(v) for v in row] for row in X]
    np.testing.assert_array_equal(records, expected)


def test_floats_and_sparse_matrices_are_not_copied():
    X = np.ones((3, 2))
    assert as_records(X) is X
    for kind in (sparse.csr_array, sparse.csr_matrix):
        matrix = kind(X)
        assert as_records(matrix) is matrix
        assert type(as_records(kind(X.astype(int)))) is kind
    made = as_records(sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2)))
    assert made.toarray().tolist() == [[0.0, 3.0], [0.0, 0.0]]
    twice = sparse.csr_array((np.ones(2), np.array([1, 1]), np.array([0, 2])), (1, 2))
    assert as_records(twice).data.tolist() == [2.0]
    assert twice.data.tolist() == [1.0, 1.0]


def test_lists_of_mixed_values_keep_their_numbers():
    """numpy would turn the numbers into texts."""
    records = as_records([["a", 1.5], ["b", None]])
    assert records.tolist() == [["a", 1.5], ["b", None]]
    assert Schema.of(records).kinds == ("text", "number")


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([1.0, 2.0], ValueError, "Expected 2D array, got 1D array instead"),
        (np.array([1.0, "a"], dtype=object), ValueError, "it holds number and text"),
        (np.array([None, None]), ValueError, "Expected 2D array, got 1D array"),
        (np.array(["2020"], dtype="M8[D]"), ValueError, "Expected 2D array"),
        (np.ones((2, 2, 2)), ValueError, "dim 3"),
        (np.full((2, 2, 2), "a"), ValueError, "could not convert string"),
        (np.ones((2, 1)) * 1j, ValueError, "Complex data not supported"),
        ([[np.inf]], ValueError, "Input pub contains infinity"),
        (sparse.csr_array([[np.inf]]), ValueError, "Input pub contains infinity"),
        (pd.DataFrame({"a": [1.0, np.inf]}), ValueError, "the column 'a' of pub"),
        (np.empty((0, 2)), ValueError, "0 sample(s) (shape=(0, 2))"),
        (np.empty((2, 0)), ValueError, "0 feature(s) (shape=(2, 0))"),
        (np.empty((0, 2), dtype="M8[D]"), ValueError, "required, in pub"),
        (pd.DataFrame({"a": []}), ValueError, "0 sample(s) (shape=(0, 1))"),
        (pd.DataFrame(index=[1]), ValueError, "0 feature(s) (shape=(1, 0))"),
        (sparse.csr_array((0, 2)), ValueError, "0 sample(s)"),
        (
            np.array([[{"a": 1}]], dtype=object),
            TypeError,
            "argument must be a string or a number, not 'dict', in pub",
        ),
        (pl.DataFrame({"a": [[1]]}), TypeError, "the column 'a' of pub"),
        (np.array([[10**400]]), ValueError, "Pub holds a number beyond 1.8e308 or"),
        (
            pd.DataFrame({"a": [-(10**400), "x"]}),
            ValueError,
            "The column 'a' of pub holds a number beyond 1.8e308 or a signaling NaN",
        ),
        (
            pd.DataFrame({"a": [fractions.Fraction(10**400), 1]}),
            ValueError,
            "The column 'a' of pub holds a number beyond",
        ),
        (
            pd.DataFrame({"a": [decimal.Decimal("sNaN"), 1]}),
            ValueError,
            "The column 'a' of pub holds a number beyond",
        ),
        (pd.DataFrame({0: [1j]}), TypeError, "column number 0 of pub"),
        (
            pd.DataFrame({"a": pd.period_range("2020", periods=2)}),
            TypeError,
            "not 'Period', in the column 'a'",
        ),
    ],
)
def test_other_things_are_refused(X, error, message):
    with pytest.raises(error, match=re.escape(message)):
        as_records(X, "pub")


def test_numbers_of_python_that_a_float_can_hold_are_numbers():
    frame = pd.DataFrame({"a": [10**308, decimal.Decimal("NaN"), None, 2.5, np.nan]})
    assert as_records(frame) is frame
    assert Schema.of(frame).kinds == ("number",)


def test_dates_in_an_array_stay_dates():
    X = np.array([["2020-01-01"], ["NaT"]], dtype="M8[D]")
    assert as_records(X) is X
    assert Schema.of(X).kinds == ("date",)


def test_empty_arrays_of_objects_are_refused():
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        as_records(np.empty((0, 2), dtype=object))
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\)"):
        as_records(np.empty((2, 0), dtype=object))


def test_numbers_of_records():
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": [0.5, None]})
    expected = [[1.0, 1.0, 0.5], [2.0, 0.0, np.nan]]
    for made in (frame, as_polars(frame)):
        numbers = as_numbers(made, "X", allow_nan=True)
        np.testing.assert_array_equal(numbers, expected)
        np.testing.assert_array_equal(as_array(made, "X"), expected)
        with pytest.raises(ValueError, match="Input X contains NaN"):
            as_numbers(made, "X")
    with pytest.raises(ValueError, match=r"\(the column 'city' of X holds text\)"):
        as_numbers(people().drop(columns="born"), "X")
    with pytest.raises(ValueError, match=r"of X holds (text|date)"):
        as_numbers(people(), "X")
    X = np.ones((2, 1))
    assert as_array(X, "X") is X


@pytest.mark.parametrize("make", [as_polars, lambda frame: frame])
def test_a_frame_of_mixed_columns_as_an_array(make):
    array = as_array(make(people(20)), "X")
    assert array.dtype == object
    assert Schema.of(array).kinds == Schema.of(people(20)).kinds
    own, other = RecordSketch.of(array), RecordSketch.of(people(20))
    assert own.ordered == other.ordered


def test_targets_are_numbers_or_labels():
    assert as_targets([1, 2]).dtype == np.float64
    assert as_targets(pd.Series([True, False])).tolist() == [1.0, 0.0]
    for labels in (["a", "b"], pd.Series(["a", "b"], dtype="category"), [["a"], ["b"]]):
        made = as_targets(labels)
        assert made.dtype == object
        assert made.tolist() == ["a", "b"]
    for y, message in (
        (
            [["a", "b"]],
            "y must have one dimension if it holds labels, got shape (1, 2)",
        ),
        (np.array(["a", None], dtype=object), "Input y contains missing labels."),
        ([1.0, np.nan], "Input y contains NaN"),
        (1.0, "y must have one or two dimensions, got shape ()."),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            as_targets(y)


# Schemas


def test_the_schema_of_a_frame():
    kinds = ("number", "number", "text", "boolean", "date")
    names = ("age", "children", "city", "member", "born")
    for guise, make in GUISES.items():
        schema = Schema.of(make(people()))
        assert schema.kinds == kinds
        assert schema.names == (None if guise == "objects" else names)


def test_kinds_of_rare_columns():
    frame = pd.DataFrame(
        {
            "none": [None, None],
            "nan": [np.nan, np.nan],
            "mixed": [1.5, "a"],
            "holes": [np.nan, "a"],
            "time": [datetime.time(3), None],
            "duration": pd.to_timedelta(["1D", None]),
            "durations": np.array([datetime.timedelta(1), None], dtype=object),
            "dates": [datetime.date(2020, 1, 1), pd.NaT],
            "codes": pd.Series([3, 4], dtype="category"),
            "bytes": [b"a", b"b"],
            "never": pd.to_datetime([None, None]),
        }
    )
    assert dict(zip(frame.columns, Schema.of(frame).kinds, strict=True)) == {
        "none": "missing",
        "nan": "missing",
        "mixed": "number and text",
        "holes": "text",
        "time": "time",
        "duration": "duration",
        "durations": "duration",
        "dates": "date",
        "codes": "number",
        "bytes": "text",
        "never": "missing",
    }


def test_schemas_that_fit():
    numbers = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.0]})
    flags = pd.DataFrame({"a": [1, 2], "b": [True, False]})
    holes = pd.DataFrame({"a": [1, 2], "b": [None, None]})
    array = Schema.of(np.ones((2, 2)))
    for one, two in (
        (Schema.of(numbers), Schema.of(as_polars(numbers))),
        (Schema.of(numbers), array),
        (Schema.of(flags), array),
        (Schema.of(holes), Schema.of(flags)),
        (Schema.of(numbers), Schema.of_width(2)),
        (Schema.of(["a"] and as_records(["a"])), Schema.of_width(1)),
    ):
        one.check_same(two)
        two.check_same(one)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (
            people().astype({"children": str}),
            "In the reference the column 'children' holds number, but in X it holds "
            "text: convert one of them",
        ),
        (people().assign(member=1), "the column 'member' holds boolean, but in X it h"),
        (
            people().drop(columns="born"),
            "has the column 'born', which X lacks: ",
        ),
        (
            people().rename(columns={"city": "town"}),
            "The reference lacks the column 'town' of X: ",
        ),
        (np.ones((3, 5)), "the column 'city' holds text, but in X it holds number"),
        (sparse.csr_array((3, 5)), "is a data frame, but X is a sparse matrix"),
        (as_records(["a"]), "is a data frame, but X is a list of texts"),
    ],
)
def test_a_schema_error_names_the_column(X, message):
    with pytest.raises(IncompatibleError, match=re.escape(message)):
        TableReference(people()).check_schema(Schema.of(X))


def test_columns_without_names_are_numbered():
    with pytest.raises(IncompatibleError, match="column number 1 holds text"):
        Schema.of(as_records([[1, "a"]])).check_same(Schema.of(np.ones((1, 2))))


# Hashes of rows


def hashes(records, y=None):
    """Return all that a sketch knows."""
    sketch = RecordSketch.of(as_records(records), y)
    parts = [sketch.features] if y is None else [sketch.features, sketch.records]
    return sketch.ordered, *(part.tolist() for part in parts)


@pytest.mark.parametrize("guise", GUISES)
def test_rows_hash_alike_in_any_container(guise):
    assert hashes(GUISES[guise](people())) == hashes(people())


@pytest.mark.parametrize("column", range(5))
def test_other_values_hash_differently(column):
    frame, other = people(2).astype(object), people(2).astype(object)
    other.iloc[1, column] = {2: "Linz", 4: pd.Timestamp("1999-09-09")}.get(column, 7.5)
    one, two = (RecordSketch.of(as_records(as_objects(f))) for f in (frame, other))
    assert len(np.intersect1d(one.features, two.features)) == 1


def test_numbers_hash_alike_in_any_container():
    X = np.random.default_rng(0).integers(-2, 3, size=(50, 4)).astype(float)
    X[0, 0] = -0.0
    y = X[:, 0] + 1.0
    expected = hashes(X, y)
    for other in (
        X.astype(int),
        X.astype(object),
        X.tolist(),
        sparse.csr_array(X),
        sparse.coo_matrix(X),
        pd.DataFrame(X, columns=[*"abcd"]),
        pd.DataFrame(X.astype(int)),
        pl.DataFrame(X),
    ):
        assert hashes(other, y) == expected
    assert hashes(X, y.astype(int).astype(object)) == expected


def test_the_hash_of_floats_stays_what_it_was():
    """Certificates and files may hold it."""
    sketch = RecordSketch.of(np.arange(12.0).reshape(4, 3) - 5, np.arange(4.0))
    told = hashlib.sha256(sketch.features.tobytes() + sketch.records.tobytes())
    assert told.hexdigest()[:16] == "17930cef3c5ce9bc"


def test_a_sparse_matrix_hashes_in_blocks_and_with_empty_rows():
    X = sparse_table(200_000, 9)
    own, other = RecordSketch.of(X), RecordSketch.of(X.toarray())
    assert own.ordered == other.ordered
    assert (own.features == other.features).all()
    explicit = X[:50].copy()
    explicit.data[:] = 0.0
    assert hashes(explicit) == hashes(np.zeros((50, 9)))


def test_missing_values_of_all_kinds_hash_alike():
    kinds = [None, np.nan, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")]
    frames = [pd.DataFrame({"a": np.array(["x", v], dtype=object)}) for v in kinds]
    dates = pd.DataFrame({"a": [pd.Timestamp("2020"), pd.NaT]})
    assert len({str(hashes(frame)) for frame in frames}) == 1
    assert hashes(dates)[1] != hashes(frames[0])[1]
    common = np.intersect1d(hashes(dates)[1], hashes(frames[0])[1])
    assert len(common) == 1
    other_bits = np.array([0x7FF8000000000123], dtype=np.uint64).view(np.float64)
    assert hashes(other_bits[:, None]) == hashes([[np.nan]])


def test_dates_hash_alike_in_any_resolution():
    stamps = pd.to_datetime(["2020-01-01", "1999-12-31"])
    there = datetime.timezone(datetime.timedelta(hours=2))
    aware = [stamp.tz_localize("UTC").astimezone(there) for stamp in stamps]
    told = {
        str(hashes(pd.DataFrame({"a": values})))
        for values in (stamps, stamps.as_unit("s"), stamps.tz_localize("UTC"))
    }
    told |= {
        str(hashes(np.array(values, dtype=object)[:, None]))
        for values in (
            [*stamps],
            [stamp.date() for stamp in stamps],
            [stamp.to_pydatetime() for stamp in stamps],
            aware,
            [stamp.to_datetime64() for stamp in stamps],
        )
    }
    told.add(str(hashes(pl.DataFrame({"a": [stamp.date() for stamp in stamps]}))))
    told.add(str(hashes(stamps.to_numpy().astype("M8[D]")[:, None])))
    assert len(told) == 1


def test_durations_hash_alike_and_times_by_what_they_say():
    spans = [datetime.timedelta(hours=3), datetime.timedelta(days=9)]
    told = {
        str(hashes(made))
        for made in (
            pd.DataFrame({"a": pd.to_timedelta(spans)}),
            np.array(spans, dtype=object)[:, None],
            np.array([[np.timedelta64(3, "h")], [np.timedelta64(9, "D")]]),
            np.array([[np.timedelta64(3, "h")], [np.timedelta64(9, "D")]], object),
            pl.DataFrame({"a": spans}),
        )
    }
    assert len(told) == 1
    times = [datetime.time(3), datetime.time(4)]
    assert hashes(pl.DataFrame({"a": times})) == hashes(pd.DataFrame({"a": times}))


def test_texts_hash_by_content():
    texts = ["a", "b", "\ud800", "a"]
    assert hashes(texts) == hashes(np.array(texts, dtype=object)[:, None])
    assert hashes([b"a", b"b"]) == hashes(["a", "b"])
    assert hashes(["a", "c"]) != hashes(["a", "b"])


@pytest.mark.slow
def test_hashes_are_the_same_in_all_processes():
    """Python's own hash of a text is not."""
    code = (
        "from skparisk.reference._sketch import RecordSketch\n"
        "from skparisk.reference._records import as_records\n"
        "print(RecordSketch.of(as_records(['Graz', 'Wien'])).ordered)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) == hashes(["Graz", "Wien"])[0]


def test_labels_are_hashed_with_their_records():
    X, y = np.arange(20)[:, None] % 3.0, np.arange(20).astype(str).astype(object)
    own = RecordSketch.of(X, y)
    assert own.overlaps(RecordSketch.of(X[::-1], y[::-1]))
    assert not own.overlaps(RecordSketch.of(X[::-1], y + "x"))


def test_data_frames_need_not_be_installed():
    """scikit-learn imports pandas where it is there; the package never does."""
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name in ('pandas', 'polars'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing)\n"
        "import numpy as np\n"
        "from skparisk import SensitivitySampler\n"
        "from skparisk.reference import TableReference\n"
        "assert TableReference(np.array([['a', 1], ['b', 2]])).sketch.n_rows == 2\n"
        "X = np.random.default_rng(0).normal(size=(60, 1))\n"
        "SensitivitySampler(np.mean, gamma=0.1, n_pairs=20).fit(X)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


# References and pools


def mixed_sample(n_records, rng):
    return people(n_records, rng.integers(2**32))


def as_pairs(reference, **parameters):
    """Return a few pairs of databases of a reference."""
    source = bind_pairs(
        reference, n_pairs=3, n_records=5, relation="replace-one", seed=SEED
    )
    return draw_pairs(source, n_records=5, start=0, size=3, seed=SEED, **parameters)


@pytest.mark.parametrize("make", GUISES.values(), ids=GUISES)
def test_databases_have_the_rows_of_any_table(make):
    reference = TableReference(make(people()))
    assert reference.pool.X is as_records(reference.pool.X)
    assert reference.n_rows == N_ROWS
    assert repr(reference).startswith(f"TableReference({N_ROWS} rows, 5 features")
    pairs = as_pairs(reference)
    rows = pairs.records[1]
    first, second = pairs.databases(1)
    assert type(first[0]) is type(reference.pool.X)
    drawn = [RecordSketch.of(X).features for X, _ in (first, second)]
    expected = RecordSketch.of(as_records(as_objects(people())[rows])).features
    assert (drawn[0] == expected).all()
    assert len(np.intersect1d(*drawn)) == 4
    assert n_rows(sample_database(reference, 7, SEED)[0]) == 7


def test_databases_of_a_pair_are_made_one_at_a_time():
    taken = []

    class Pool(RecordPool):
        def take(self, rows):
            taken.append(rows)
            return super().take(rows)

    reference = TableReference(np.ones((9, 1)))
    reference.pool = Pool(reference.pool.X)
    databases = as_pairs(reference).databases(0)
    assert len(taken) == 0
    next(databases)
    assert len(taken) == 1


@pytest.mark.parametrize(
    "X",
    [
        sparse_table(30, 4),
        as_records([str(i) for i in range(30)]),
    ],
    ids=["sparse", "texts"],
)
def test_sparse_matrices_and_texts_are_tables(X):
    reference = TableReference(X, np.arange(30))
    (first, y), _ = as_pairs(reference).databases(0)
    assert type(first) is type(X)
    assert y.shape == (5,)
    assert RecordSketch.of(take_rows(X, y.astype(int))).ordered == (
        RecordSketch.of(first).ordered
    )
    assert pickle.loads(pickle.dumps(reference)).sketch.ordered == (
        reference.sketch.ordered
    )


def test_the_numbers_of_a_table():
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [True, False, True]})
    reference = TableReference(frame, ["x", "y", "x"], "bootstrap")
    numbers = reference.numbers
    assert numbers.sampling == "bootstrap"
    assert numbers.schema == Schema("array", ("a", "b"), ("number", "number"))
    assert numbers.pool.X.tolist() == [[1.0, 1.0], [2.0, 0.0], [3.0, 1.0]]
    assert numbers.pool.y is None
    assert numbers.numbers is numbers
    assert reference.pool.numbers is reference.pool.numbers
    assert reference.pool.in_form("given") is reference.pool
    assert reference.pool.in_form("array").X.tolist() == numbers.pool.X.tolist()
    assert reference.pool.in_form("array").y.tolist() == ["x", "y", "x"]
    assert numbers.pool.in_form("array") is numbers.pool.in_form("numbers")


def test_a_pool_of_numbers_does_not_hold_itself():
    """Else each block of a function's records would wait for a garbage collection."""
    pool = RecordPool(np.ones((2, 1)))
    assert pool.numbers is pool
    assert not any(held is pool for held in gc.get_referents(vars(pool)))


def test_a_table_with_other_targets():
    reference = TableReference(people(4), ["a", "b", "a", "b"], "split")
    assert reference.pool.y.tolist() == ["a", "b", "a", "b"]
    before = reference.sketch
    coded = reference.with_targets([0, 1, 0, 1])
    assert coded.pool.y.tolist() == [0.0, 1.0, 0.0, 1.0]
    assert coded.pool.X is reference.pool.X
    assert (coded.sampling, coded.schema) == ("split", reference.schema)
    assert not np.array_equal(coded.sketch.records, before.records)
    np.testing.assert_array_equal(reference.sketch.records, before.records)
    assert reference.with_targets(None).pool.y is None
    with pytest.raises(ValueError, match="same number of rows, got 4 and 1"):
        reference.with_targets([1.0])


@pytest.mark.parametrize(
    "made",
    [
        lambda X: X,
        as_polars,
        as_objects,
        lambda X: X["city"].tolist(),
        lambda X: sparse.csr_array(X[["children"]].to_numpy()),
        lambda X: X[["children"]].to_numpy().tolist(),
    ],
)
def test_functions_make_records_of_any_kind(made):
    reference = as_reference(lambda n, rng: made(mixed_sample(n, rng)))
    pairs = as_pairs(reference)
    expected = as_records(made(people(3)))
    assert type(pairs.pool.X) is type(expected)
    Schema.of(expected).check_same(Schema.of(pairs.pool.X))
    assert pairs.pool.n_rows == 3 * 6


def test_functions_make_labels():
    reference = as_reference(lambda n, rng: (mixed_sample(n, rng), ["a"] * n))
    assert as_pairs(reference).pool.y.tolist() == ["a"] * 18


# Recognition


@pytest.mark.parametrize("guise", GUISES)
def test_private_records_are_recognized_in_any_container(guise):
    frame = people()
    shuffled = GUISES[guise](frame.sample(frac=1.0, random_state=0))
    own = RecordSketch.of(as_records(frame))
    assert TableReference(shuffled).sketch.overlaps(own)
    fresh = TableReference(GUISES[guise](people(seed=1)))
    assert not fresh.sketch.overlaps(own)


@pytest.mark.parametrize("guise", ["polars", "categories"])
def test_a_release_of_the_reference_itself_is_told(guise):
    sampler = sampler_of().fit(people())
    with pytest.warns(PrivacyLeakWarning, match="public"):
        sampler.release(GUISES[guise](people().iloc[7:57]))
    assert sampler.certificate_.reference_is_private
    assert sampler.pairs_.withheld


# Queries on any table


@pytest.mark.parametrize("query", [median_age, share_of_graz])
@pytest.mark.parametrize("make", [lambda frame: frame, as_polars])
def test_a_function_of_frames_from_end_to_end(query, make):
    sampler = sampler_of(query, epsilon=np.inf).fit(make(people()))
    assert sampler.n_features_in_ == 5
    assert sampler.feature_names_in_.tolist() == list(people().columns)
    private = people(50, seed=1)
    released = sampler.release(make(private))
    assert released == pytest.approx([query(private)])
    again = sampler_of(query, n_jobs=2).fit(make(people()))
    assert (again.differences_ == sampler.differences_).all()
    loaded = pickle.loads(pickle.dumps(sampler))
    assert loaded.release(make(private)) == pytest.approx(released)


def test_a_function_of_texts_and_labels():
    texts = people()["city"].tolist()
    sampler = sampler_of(text_length, epsilon=np.inf).fit(texts)
    assert not hasattr(sampler, "n_features_in_")
    assert sampler.release(["abc"] * 50) == pytest.approx([3.0])
    labels = sampler_of(graz_of_labels, epsilon=np.inf).fit(people(), texts)
    assert labels.release(people(50), ["Graz"] * 50) == pytest.approx([1.0])
    for X in (np.ones((50, 1)), people(50)):
        with pytest.raises(ValueError, match="X must be texts, as it was in fit, got"):
            sampler.release(X)
    with pytest.raises(ValueError, match="X must be a table, as it was in fit, got te"):
        sampler_of().fit(people()).release(["a"] * 50)


def test_a_function_of_a_sparse_matrix():
    X = sparse_table(300, 6)
    sampler = sampler_of(lambda X: X.mean(axis=0), epsilon=np.inf).fit(X)
    assert sampler.n_features_in_ == 6
    private = sparse_table(50, 6, seed=1).tocoo()
    assert sampler.release(private) == pytest.approx(private.mean(axis=0))


def test_numbers_beside_frames_are_arrays():
    """A function sees the private records as it saw the public ones."""
    seen = set()

    def mean_age(X):
        seen.add(type(X))
        return np.asarray(X)[:, 0].mean()

    frame = people()[["children", "age"]].fillna(0.0)
    private = frame.iloc[:50] + 0.5
    sampler_of(mean_age, reference=TableReference(frame)).fit(frame.to_numpy())
    assert seen == {np.ndarray}
    sampler = sampler_of(mean_age, reference=TableReference(frame.to_numpy()))
    sampler.fit(frame).release(private)
    sampler_of(mean_age).fit(frame.to_numpy()).release(private.to_numpy())
    sampler_of(mean_age, reference=SchemaReference([(0, 1), (0, 9)])).fit(
        frame
    ).release(private)
    assert seen == {np.ndarray}
    sampler_of(mean_age).fit(frame).release(private)
    assert seen == {np.ndarray, pd.DataFrame}


def test_functions_may_be_given_missing_values():
    X = np.random.default_rng(0).normal(size=(100, 2))
    X[::3, 0] = np.nan
    sampler_of(lambda X: np.nanmedian(X, axis=0)).fit(X).release(X[:50] + 0.5)


@pytest.mark.parametrize(
    ("reference", "error", "message"),
    [
        ([[np.nan, 1.0]] * 30, ValueError, "Input X of the reference contains NaN"),
        ([["a", 1.0]] * 30, IncompatibleError, "column number 0 holds text, but in X"),
        (sparse.csr_array((30, 2)), IncompatibleError, "is a sparse matrix, but X"),
    ],
)
def test_queries_of_numbers_refuse_other_tables(reference, error, message):
    sampler = sampler_of(MeanQuery(), reference=TableReference(reference))
    with pytest.raises(error, match=message):
        sampler.fit(np.ones((50, 2)))


def test_queries_of_numbers_take_frames_of_numbers():
    frame = people()[["children", "member"]]
    X = frame.to_numpy(dtype=float)
    expected = sampler_of(MeanQuery()).fit(X).differences_
    for reference in (frame, as_polars(frame)):
        sampler = sampler_of(MeanQuery(), reference=TableReference(reference))
        assert (sampler.fit(X).differences_ == expected).all()


def test_labels_are_no_targets_of_numbers():
    reference = TableReference(np.ones((60, 1)), ["a"] * 60)
    sampler = sampler_of(None, reference=reference)
    private = PrivateRidge(sensitivity=sampler)
    message = r"but the reference has none \(y\) that are numbers"
    with pytest.raises(ValueError, match=message):
        private.fit(np.arange(50.0)[:, None], np.arange(50.0))
    X = np.random.default_rng(0).normal(size=(60, 1))
    sampler_of(MeanQuery(), reference=TableReference(X, ["a"] * 60)).fit(X)


def test_differences_of_any_table():
    differences = sample_differences(
        FunctionQuery(share_of_graz),
        TableReference(people()),
        n_pairs=5,
        n_records=20,
        n_features=5,
    )
    assert differences.shape == (5, 1)
    with pytest.raises(IncompatibleError, match="has 5 features, but X has 4"):
        sample_differences(
            FunctionQuery(share_of_graz),
            TableReference(people()),
            n_pairs=5,
            n_records=20,
            n_features=4,
        )
    boxes = SchemaReference([(0, 1)])
    sizes = {"n_pairs": 3, "n_records": 4, "n_features": 1}
    assert sample_differences(MeanQuery(), boxes, **sizes).shape == (3, 1)


def test_records_to_release_must_have_the_columns_of_the_fit():
    sampler = sampler_of().fit(people())
    private = people(50, seed=1)
    with pytest.raises(IncompatibleError, match="the column 'city' holds text"):
        sampler.release(private.assign(city=91234.25))
    with pytest.raises(ValueError, match="feature names should match"):
        sampler.release(private.rename(columns={"city": "town"}))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        sampler_of(graz_of_labels).fit(people(), ["a"])


SECRET = "91234.25"


@pytest.mark.parametrize(
    "wrong",
    [
        {"city": [{SECRET: 1}] * 50},
        {"age": [np.inf] * 50},
        {"age": [SECRET] * 50},
        {"born": pd.period_range("1912-03-04", periods=50)},
    ],
)
def test_no_message_shows_private_values(wrong):
    sampler = sampler_of().fit(people())
    with pytest.raises((ValueError, TypeError)) as caught:
        sampler.release(people(50, seed=1).assign(**wrong))
    assert "91234" not in repr(caught.value)
    assert caught.value.__context__ is None


def test_a_query_that_fails_on_private_records_tells_nothing():
    def strict(X):
        if (X["city"] == SECRET).any():
            raise ValueError(SECRET)
        return len(X)

    for frame in (people(50), as_polars(people(50))):
        assert answer_private(FunctionQuery(strict), frame, None) == [50.0]
    with pytest.raises(ValueError, match="has no answer on the private data") as caught:
        answer_private(FunctionQuery(strict), people(50).assign(city=SECRET), None)
    assert SECRET not in str(caught.value)


def test_a_query_cannot_change_private_records():
    def spoil(X):
        X["age"] = 0.0
        return 1.0

    frame = people(5)
    answer_private(FunctionQuery(spoil), frame, None)
    assert frame.equals(people(5))


# For estimators


def test_private_records_are_validated():
    model = BaseEstimator()
    frame = people(30)
    assert validate_private_records(model, frame, allow_nan=False) is frame
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.n_features_in_ == 5
    with pytest.raises(ValueError, match="feature names should match"):
        validate_private_records(model, frame[["age"]], reset=False, allow_nan=True)
    X, y = validate_private_records(
        BaseEstimator(), [[np.nan]], [[1, 2]], allow_nan=True, multi_output=True
    )
    assert (X.shape, y.tolist()) == ((1, 1), [[1, 2]])
    labels = validate_private_records(model, frame, ["a"] * 30, allow_nan=True)[1]
    assert labels.tolist() == ["a"] * 30
    numbers = np.array([1, 2.5], dtype=object)
    _, y = validate_private_records(
        BaseEstimator(), ["a", "b"], numbers, allow_nan=True, y_numeric=True
    )
    assert y.dtype == np.float64
    texts = BaseEstimator()
    assert validate_private_records(texts, ["a"], allow_nan=False).shape == (1,)
    assert not hasattr(texts, "n_features_in_")
    for X in ([[np.nan]], sparse.csr_array([[np.nan]])):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            validate_private_records(model, X, allow_nan=False)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        validate_private_records(model, [[1.0]], [np.nan], allow_nan=True)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        validate_records(model, [[1.0]], [1.0, 2.0], allow_nan=True)
    with pytest.raises(ValueError, match="requires y to be passed"):
        validate_private_records(LogisticRegression(), [[1.0]], None, allow_nan=True)


def test_a_reference_of_an_estimator_is_a_table_or_made_one():
    table = TableReference(people(), people()["city"])
    assert reference_table(None, None) is None
    assert reference_table(table, None, any_table=True) is table
    made = reference_table(people(), people()["city"], any_table=True)
    assert made.pool.y.tolist() == table.pool.y.tolist()
    unlabeled = reference_table([[1], [2]], None, needs_y=False)
    assert unlabeled.numbers is unlabeled
    floats = TableReference([[1.0], [2.0]], [1.0, 2.0])
    assert reference_table(floats, None) is floats
    for arguments, message in (
        ((table, people()["city"]), "y_reference must be None if X_reference is a Tab"),
        ((None, [1.0]), "must be given together"),
        (([[1.0]], None), "must be given together"),
        ((TableReference([[1], [2]]), None), "must have targets, but it has none"),
        (([[1], [2]], ["a", "b"]), "y_reference must be numbers, but it holds labels"),
        (([[np.nan], [2]], [1, 2]), "Input X of the reference contains NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            reference_table(*arguments)


def numbers_and_labels(seed, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2))
    return X, (X[:, 0] + rng.normal(size=n_rows) > 0).astype(int)


def test_private_estimators_take_a_table_with_its_targets():
    X, y = numbers_and_labels(0)
    public, labels = numbers_and_labels(1)
    cheap = SensitivitySampler(n_pairs=30)
    parameters = {"sensitivity": cheap, "random_state": 0, "epsilon": np.inf}
    for model, codes in (
        (PrivateRidge(gamma=0.2, **parameters), labels),
        (PrivateLogisticRegression(gamma=0.2, **parameters), labels),
        (PrivateLogisticRegression(gamma=0.2, **parameters), np.array(["no", "yes"])),
    ):
        given = codes if codes is labels else codes[labels]
        own = y if codes is labels else codes[y]
        plain = model.fit(X, own, X_reference=public, y_reference=given).coef_
        model.fit(X, own, X_reference=TableReference(public, given))
        np.testing.assert_array_equal(model.coef_, plain)
    assert model.classes_.tolist() == ["no", "yes"]


def test_a_table_of_integer_labels_has_integer_classes():
    X, y = numbers_and_labels(0)
    model = PrivateLogisticRegression(
        sensitivity=SensitivitySampler(n_pairs=30), gamma=0.2, random_state=0
    )
    model.fit(X, y, X_reference=TableReference(*numbers_and_labels(1)))
    assert model.classes_.dtype == y.dtype


# Searches


class Median(BaseEstimator):
    """Not private: for records that go through a search as they are given."""

    def fit(self, X, y=None):
        self.median_ = X["age"].median()
        return self


def ridge():
    return PrivateRidge(sensitivity=KnownSensitivity(0.5), random_state=0)


def test_a_search_takes_a_table_with_its_targets():
    X, y = numbers_and_labels(0)
    public, labels = numbers_and_labels(1)
    search = PrivateGridSearchCV(ridge(), {"alpha": [1.0, 100.0]}, random_state=0)
    search.fit(X, y, X_reference=public, y_reference=labels)
    scores = search.cv_results_["mean_test_score"]
    search.fit(X, y, X_reference=TableReference(public, labels))
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], scores)


@pytest.mark.parametrize(
    ("sampling", "y_reference", "message"),
    [
        ("leave-out", [1.0], "y_reference must be None if X_reference is a TableRef"),
        ("split", None, "must have sampling='leave-out' in a search, got 'split'"),
    ],
)
def test_a_search_refuses_what_a_table_cannot_say(sampling, y_reference, message):
    table = TableReference(*numbers_and_labels(1), sampling)
    search = PrivateGridSearchCV(ridge(), {"alpha": [1.0]})
    with pytest.raises(ValueError, match=message):
        search.fit(*numbers_and_labels(0), X_reference=table, y_reference=y_reference)


@pytest.mark.parametrize("guise", GUISES)
def test_a_search_recognizes_private_records_of_frames(guise):
    search = PrivateGridSearchCV(make_pipeline(Median(), ridge()), {})
    public = GUISES[guise](people().sample(frac=0.5, random_state=0))
    message = "X_reference must be public and must not share records"
    y = np.arange(N_ROWS)
    with pytest.raises(ValueError, match=message):
        search.fit(people(), y, X_reference=public, y_reference=y[:200])
    same = np.ones((N_ROWS, 1))
    with pytest.raises(ValueError, match=message):
        search.fit(same, y, X_reference=same, y_reference=y)


def test_a_search_takes_sparse_matrices_apart():
    """They are recognized by their rows, and not only as one object."""
    X = sparse_table(N_ROWS, 6)
    y = np.arange(N_ROWS)
    search = PrivateGridSearchCV(make_pipeline(Median(), ridge()), {})
    with pytest.raises(ValueError, match="must not share records"):
        search.fit(X, y, X_reference=X[::2], y_reference=y[::2])


def test_a_search_over_estimators_of_any_table_lets_them_see_it(monkeypatch):
    X, y = people().drop(columns="born"), np.arange(N_ROWS) % 2
    search = PrivateGridSearchCV(ridge(), {})
    public = people(seed=1).drop(columns="born")
    with pytest.raises(ValueError, match="could not convert string to float"):
        search.fit(X, y, X_reference=public, y_reference=y)
    seen = []

    def fit(self, X, y, **reference):
        seen.append(type(X))
        raise ValueError("seen")

    monkeypatch.setattr(PrivateRidge, "_takes_any_table", True)
    monkeypatch.setattr(PrivateRidge, "fit", fit)
    with pytest.raises(ValueError, match="seen"):
        search.fit(X, y, X_reference=public, y_reference=y)
    assert seen == [pd.DataFrame]


# Memory


def test_a_large_frame_is_not_copied():
    """Sketch and database of a frame take less than twice its size in numbers."""
    n_rows, n_columns = 100_000, 20
    rng = np.random.default_rng(0)
    columns = {}
    for i in range(n_columns):
        kinds = (
            rng.normal(size=n_rows),
            rng.integers(1000, size=n_rows),
            rng.choice(["a", "b", "c"], n_rows),
            np.datetime64("2020-01-01", "us") + rng.integers(9, size=n_rows),
            pd.Categorical.from_codes(rng.integers(3, size=n_rows), [*"xyz"]),
        )
        columns[f"c{i}"] = kinds[i % len(kinds)]
    frame = pd.DataFrame(columns)
    tracemalloc.start()
    try:
        reference = TableReference(frame)
        assert reference.sketch.n_rows == n_rows
        X, _ = sample_database(reference, 1000, SEED)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert X.shape == (1000, n_columns)
    assert peak <= 2 * n_rows * n_columns * 8


def test_a_text_that_is_no_table_is_not_shown():
    for X in ("a secret", b"a secret", 3.5):
        with pytest.raises(ValueError, match="got scalar array instead") as error:
            validate_private_records(BaseEstimator(), X, allow_nan=False)
        assert "secret" not in str(error.value)
        assert "3.5" not in str(error.value)
