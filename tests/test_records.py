"""Records and targets as they are kept, and the schemas that they fit."""

import datetime
import decimal
import fractions
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from guises import N_ROWS, as_categories, as_polars, as_records, people, schema_of
from scipy import sparse

from skparisk.core.sealed import (
    copy_records,
    group_rows,
    ids_of,
    is_series,
    key_of_id,
    take_rows,
    text_of,
)
from skparisk.reference import TableReference


def describe(X):
    schema = schema_of(X)
    return schema.container, schema.names, schema.kinds


@pytest.mark.parametrize("make", [as_polars, as_categories, lambda frame: frame])
def test_frames_stay_as_they_are(make):
    frame = make(people())
    assert as_records(frame) is frame
    assert TableReference(frame).n_records == N_ROWS
    rows = np.array([3, 1, 1])
    assert type(take_rows(frame, rows)) is type(frame)
    assert TableReference(take_rows(frame, rows)).n_records == 3
    copied = copy_records(frame)
    assert copied is not frame
    assert copied.equals(frame)


def test_texts_become_objects():
    for texts in [
        ["a", "b"],
        np.array(["a", "b"]),
        np.array(["a", "b"], dtype=object),
        pd.Series(["a", "b"]),
        pd.Series(["a", "b"], dtype="category"),
        pl.Series(["a", "b"]),
    ]:
        records = as_records(texts)
        assert records.dtype == object
        assert records.tolist() == ["a", "b"]
        assert describe(texts) == ("texts", None, ("text",))


def test_numbers_become_floats():
    for X in [
        [[1, 2], [3, 4]],
        [[1, np.nan], [True, 0]],
        np.array([[1, 2], [3, 4]], dtype=np.float32),
        np.array([[True, False], [True, True]]),
        np.array([[1, None], [pd.NA, decimal.Decimal("0.5")]], dtype=object),
    ]:
        records = as_records(X)
        assert describe(X) == ("array", None, ("number", "number"))
        expected = [[np.nan if pd.isna(v) else float(v) for v in row] for row in X]
        np.testing.assert_array_equal(records, expected)


def test_floats_and_sparse_matrices_are_not_copied():
    X = np.ones((3, 2))
    assert np.shares_memory(as_records(X), X)
    for kind in (sparse.csr_array, sparse.csr_matrix):
        matrix = kind(X)
        assert as_records(matrix) is matrix
        assert type(as_records(kind(X.astype(int)))) is kind
    made = as_records(sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2)))
    assert made.toarray().tolist() == [[0.0, 3.0], [0.0, 0.0]]
    twice = sparse.csr_array(
        (np.ones(2), np.array([1, 1]), np.array([0, 2, 2])), (2, 2)
    )
    assert as_records(twice).data.tolist() == [2.0]
    assert twice.data.tolist() == [1.0, 1.0]


def test_other_things_are_refused():
    for X, error, message in [
        ([1.0, 2.0], ValueError, "Expected 2D array, got 1D array instead"),
        (np.array([1.0, "a"], dtype=object), ValueError, "it holds number and text"),
        (np.array([None, None]), ValueError, "Expected 2D array, got 1D array"),
        (np.array(["2020"], dtype="M8[D]"), ValueError, "Expected 2D array"),
        (np.ones((2, 2, 2)), ValueError, "dim 3"),
        (np.full((2, 2, 2), "a"), ValueError, "could not convert string"),
        (np.ones((2, 1)) * 1j, ValueError, "Complex data not supported"),
        ([[np.inf]], ValueError, "Input X of the reference contains infinity"),
        (
            sparse.csr_array([[np.inf]]),
            ValueError,
            "Input X of the reference contains infinity",
        ),
        (pd.DataFrame({"a": [1.0, np.inf]}), ValueError, "the column 'a' of X of"),
        (np.empty((0, 2)), ValueError, "0 sample(s) (shape=(0, 2))"),
        (np.empty((2, 0)), ValueError, "0 feature(s) (shape=(2, 0))"),
        (np.empty((0, 2), dtype="M8[D]"), ValueError, "required, in X of"),
        (pd.DataFrame({"a": []}), ValueError, "0 sample(s) (shape=(0, 1))"),
        (pd.DataFrame(index=[1]), ValueError, "0 feature(s) (shape=(1, 0))"),
        (sparse.csr_array((0, 2)), ValueError, "0 sample(s)"),
        (
            np.array([[{"a": 1}]], dtype=object),
            TypeError,
            "argument must be a string or a number, not 'dict', in X of",
        ),
        (
            pl.DataFrame({"a": pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2))}),
            TypeError,
            "not 'ndarray', in the column 'a' of X of",
        ),
        (pl.DataFrame({"a": [[1]]}), TypeError, "the column 'a' of X of"),
        (
            np.array([[10**400]]),
            ValueError,
            "reference holds a number beyond 1.8e308 or",
        ),
        (
            pd.DataFrame({"a": pd.Series([-(10**400), "x"], dtype=object)}),
            ValueError,
            "'a' of X of the reference holds a number beyond",
        ),
        (
            pd.DataFrame({"a": [fractions.Fraction(10**400), 1]}),
            ValueError,
            "The column 'a' of X of the reference holds a number beyond",
        ),
        (
            pd.DataFrame({"a": [decimal.Decimal("sNaN"), 1]}),
            ValueError,
            "The column 'a' of X of the reference holds a number beyond",
        ),
        (pd.DataFrame({0: [1j]}), TypeError, "column number 0 of X of"),
        (
            pd.DataFrame({"a": pd.period_range("2020", periods=2)}),
            TypeError,
            "not 'Period', in the column 'a'",
        ),
    ]:
        with pytest.raises(error, match=re.escape(message)):
            TableReference(X)


def test_targets_are_numbers_or_labels():
    def as_targets(y):
        return TableReference(
            [[1]] * np.shape(y)[0] if np.ndim(y) else [[1]], y
        ).targets

    assert as_targets([1, 2]).dtype == np.float64
    assert as_targets(pd.Series([True, False])).tolist() == [1.0, 0.0]
    for labels in (["a", "b"], pd.Series(["a", "b"], dtype="category"), [["a"], ["b"]]):
        made = as_targets(labels)
        assert made.dtype == object
        assert made.tolist() == ["a", "b"]
    for y, message in (
        (
            [["a", "b"]] * 2,
            "must have one dimension if it holds labels, got shape (2, 2)",
        ),
        (
            np.array(["a", None], dtype=object),
            "of the reference contains missing labels.",
        ),
        ([1.0, np.nan], "y of the reference contains NaN"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            as_targets(y)


# Schemas


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
    assert dict(zip(frame.columns, schema_of(frame).kinds, strict=True)) == {
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


def test_ids_are_what_python_has_for_them():
    """Whatever they are in; dates by the microsecond."""
    for one in (np.array([7]), pd.Series([7]), pl.Series([7]), [7], (7,)):
        assert [(type(x), x) for x in ids_of(one)] == [(int, 7)]
    day, hour = datetime.datetime(2020, 1, 1), datetime.timedelta(hours=1)
    assert ids_of(np.array([day], dtype="M8[ns]")) == [day]
    assert ids_of(np.array([hour], dtype="m8[ns]")) == [hour]
    for none in (np.ones((2, 2)), "ab", 7, [[1]], iter([7])):
        assert ids_of(none) is None
    rows = group_rows([1, 0] * 50, "groups", 100).rows
    assert rows.tolist() == [*range(0, 100, 2), *range(1, 100, 2)]


def test_ids_of_other_types_are_compared_by_what_they_spell():
    for one, key in (("1.0", 1), (b" 7 ", 7), ("1.5", 1.5), (b"a\xff", "a\ufffd")):
        assert (type(key_of_id(one)), key_of_id(one)) == (type(key), key)
    assert key_of_id("2020-01-01") == datetime.datetime(2020, 1, 1)


def test_series_are_columns_of_pandas_and_polars():
    assert is_series(pd.Series([1]))
    assert is_series(pl.Series([1]))
    for other in (np.ones(2), [1], pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]})):
        assert not is_series(other)


def test_texts_that_no_file_holds_are_read_without_an_error():
    assert text_of("a\ud800") == "a?"
    assert text_of(10**5000) == "\N{REPLACEMENT CHARACTER}"
