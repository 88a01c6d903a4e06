"""Records and targets as they are kept, and the schemas that they fit."""

import datetime
import decimal
import fractions
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from guises import (
    GUISES,
    N_ROWS,
    as_categories,
    as_polars,
    people,
)
from scipy import sparse

from skparisk.core.sealed import copy_records, take_rows
from skparisk.exceptions import IncompatibleError
from skparisk.reference import (
    TableReference,
)
from skparisk.reference._records import (
    Schema,
    as_numbers,
    as_records,
    as_targets,
    is_numbers,
    n_rows,
)


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
        assert Schema.of(records) == Schema("texts", None, ("text",))


def test_numbers_become_floats():
    for X in [
        [[1, 2], [3, 4]],
        [[1, np.nan], [True, 0]],
        np.array([[1, 2], [3, 4]], dtype=np.float32),
        np.array([[True, False], [True, True]]),
        np.array([[1, None], [pd.NA, decimal.Decimal("0.5")]], dtype=object),
    ]:
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


def test_other_things_are_refused():
    for X, error, message in [
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
        (
            pl.DataFrame({"a": pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2))}),
            TypeError,
            "not 'ndarray', in the column 'a' of pub",
        ),
        (pl.DataFrame({"a": [[1]]}), TypeError, "the column 'a' of pub"),
        (np.array([[10**400]]), ValueError, "Pub holds a number beyond 1.8e308 or"),
        (
            pd.DataFrame({"a": pd.Series([-(10**400), "x"], dtype=object)}),
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
    ]:
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
        with pytest.raises(ValueError, match="Input X contains NaN"):
            as_numbers(made, "X")
    with pytest.raises(ValueError, match="alone, but the column 'city' holds text"):
        as_numbers(people().drop(columns="born"), "X")
    with pytest.raises(ValueError, match=r"holds (text|date)"):
        as_numbers(people(), "X")


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
    for one, two in (
        (Schema.of(numbers), Schema.of(as_polars(numbers))),
        (Schema.of(numbers), Schema.of(flags)),
        (Schema.of(holes), Schema.of(flags)),
        (Schema.of(numbers), Schema.of_width(2)),
        (Schema.of(["a"] and as_records(["a"])), Schema.of_width(1)),
    ):
        one.check_same(two)
        two.check_same(one)


def test_a_schema_error_names_the_column():
    for X, message in [
        (people().drop(columns="born"), "but X lacks 'born': "),
        (people().rename(columns={"city": "town"}), "but X lacks 'city': "),
        (people().assign(more=1), "but X has other columns beside them: "),
        (np.ones((3, 5)), "is a data frame, but X is an array"),
        (sparse.csr_array((3, 5)), "is a data frame, but X is a sparse matrix"),
        (as_records(["a"]), "is a data frame, but X is a list of texts"),
    ]:
        with pytest.raises(IncompatibleError, match=re.escape(message)):
            TableReference(people()).check_schema(Schema.of(X))


def test_columns_without_names_are_numbered():
    with pytest.raises(ValueError, match="column number 1 holds text"):
        as_numbers(as_records([[1, "a"]]), "X")
