"""Private records are asked about in exactly the form of the public ones.

Container, package, columns and types. A query here returns what it sees, at an infinite
level, so that what is released is what was asked.
"""

import copy
import decimal
import math
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse, stats
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skparisk import (
    IncompatibleError,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateEstimator,
    PrivateMoments,
    PrivateRidge,
    SensitivitySampler,
    private_score,
)
from skparisk.reference import TableReference

pytestmark = pytest.mark.usefixtures("in_order")

RNG = np.random.default_rng(0)
PUBLIC, PRIVATE = RNG.normal(size=(2, 200, 1))
TARGETS, Y = RNG.normal(size=(2, 200))
LABELS = np.array(["a", "b"] * 100)


def sampler_of(query, X, y=None, **options):
    options = {"n_pairs": 200, "random_state": 0} | options
    return SensitivitySampler(query, **options).fit(X, y)


# Ordinary queries, whose answers depend on the form


def share_high(frame):
    return (frame["crp"] > 10).mean()


def share_flu(frame):
    return (frame["diag"] == "flu").mean()


def values(n, rng):
    return np.where(rng.random(n) < 0.2, rng.exponential(8, n), np.nan)


def crp(n, rng):
    return pd.DataFrame({"crp": values(n, rng)})


def diagnoses(n, rng):
    names = rng.choice(["flu", "covid", None], n, p=[0.12, 0.08, 0.8])
    return pd.DataFrame({"diag": names})


def words(n, rng):
    return (rng.random((n, 20)) < 0.1) * rng.exponential(size=(n, 20))


SCORES = RNG.normal(size=20)
# A query, people, what makes public ones of them, and private ones.
FORMS = {
    "nullable types": (share_high, crp, lambda X: X, pd.DataFrame.convert_dtypes),
    "plain types": (share_high, crp, pd.DataFrame.convert_dtypes, lambda X: X),
    "texts": (share_flu, diagnoses, lambda X: X, pd.DataFrame.convert_dtypes),
    "objects": (share_flu, diagnoses, lambda X: X.astype(object), lambda X: X),
    "another package": (share_high, crp, lambda X: X, pl.from_pandas),
    "polars": (share_high, crp, pl.from_pandas, lambda X: X),
    "nulls of polars": (
        share_high,
        crp,
        lambda X: pl.DataFrame({"crp": X["crp"].to_numpy()}),
        pl.from_pandas,
    ),
    "sparse matrices": (
        lambda X: (X * SCORES).mean(),
        words,
        sparse.csr_array,
        sparse.csr_matrix,
    ),
    "sparse arrays": (
        lambda X: (X @ SCORES).mean() + isinstance(X, sparse.spmatrix),
        words,
        sparse.csr_matrix,
        sparse.csr_array,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_claims_hold_for_private_records_in_another_form(name):
    """Of fresh pairs of people, in the form that the library is given them in."""
    query, people, as_public, as_private = FORMS[name]
    rng, n, n_pairs = np.random.default_rng(1), 200, 120
    sampler = sampler_of(query, as_public(people(2000, rng)), n_records=n)
    exact = sampler.calibrate(epsilon=np.inf)
    n_beyond = 0
    for _ in range(n_pairs):
        both = people(n + 1, rng)
        rows = [np.arange(n), np.append(np.arange(1, n), n)]
        taken = [both.iloc[r] if hasattr(both, "iloc") else both[r] for r in rows]
        one, other = (exact.release(as_private(part))[0] for part in taken)
        n_beyond += abs(one - other) > sampler.epsilon * sampler.noise_scale_
    assert stats.binom.sf(n_beyond - 1, n_pairs, sampler.risk_) > 1e-3
    assert sampler.certificate_.private


# What a query sees of private records

SEEN = []


def spy(X):
    SEEN.append(X.copy() if hasattr(X, "copy") else X.clone())
    return 1.0


def spy_on_both(X, y):
    SEEN.append((X, y))
    return 1.0


def seen(public, private, query=spy):
    """Return private records as a query is given them, after public ones."""
    (X, *y), own = ((X,) if query is spy else X for X in (public, private))
    n_records = own[0].shape[0] if hasattr(own[0], "shape") else len(own[0])
    sampler = sampler_of(query, X, *y, epsilon=np.inf, n_pairs=20, n_records=n_records)
    with warnings.catch_warnings():  # some of the private records are public
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        sampler.release(*own)
    return SEEN[-1]


def twice(column):
    if callable(column):
        column = column()
    if isinstance(column, pl.Series):
        return pl.DataFrame({"x": pl.concat([column] * 2)})
    return pd.DataFrame({"x": pd.concat([column] * 2)})


NUMBERS = [2.0, None, 7.0, 1.0]
IN_PANDAS = {
    "float64": pd.Series(NUMBERS, dtype="float64"),
    "float32": pd.Series(NUMBERS, dtype="float32"),
    "Float64": pd.Series(NUMBERS, dtype="Float64"),
    "Int64": pd.Series(NUMBERS, dtype="Int64"),
    "int64[pyarrow]": pd.Series(NUMBERS, dtype="int64[pyarrow]"),
    "double[pyarrow]": pd.Series(NUMBERS, dtype="double[pyarrow]"),
    "UInt8": pd.Series(NUMBERS, dtype="UInt8"),
    "objects": pd.Series(NUMBERS, dtype=object),
}
IN_POLARS = {
    "Float64": pl.Series(NUMBERS),
    "Float32": pl.Series(NUMBERS, dtype=pl.Float32),
    "Int16": pl.Series([2, None, 7, 1], dtype=pl.Int16),
    "Decimal": pl.Series(NUMBERS, dtype=pl.Decimal(10, 2)),
}
IN_OTHERS = {
    "texts": pd.Series(["2.0", "unknown", " 7", "1"]),
    "one text": pd.Series([2, "unknown", "7", 1.0], dtype=object),
    "infinite": pd.Series([2.0, -np.inf, 7.0, 1.0]),
    "odd": pd.Series([2, {"a": 1}, np.float32(7), True], dtype=object),
    "dates": pd.Series([2, pd.Timestamp("2020-01-01"), 7, 1], dtype=object),
    "complex": pd.Series([2, 1j, 7, 1]),
    "complex objects": pd.Series([2 + 0j, 1j, 7, 1 + 0j], dtype=object),
    "NaN of polars": pl.Series([2.0, np.nan, 7.0, 1.0]),
    "polars texts": pl.Series(["2.0", "x", "7", "true"]),
}
EVERY = [*IN_PANDAS.values(), *IN_POLARS.values(), *IN_OTHERS.values()]


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_PANDAS)
def test_numbers_are_read_in_the_types_of_pandas(name):
    """Also texts that are numbers; one value never decides what the others are."""
    public = IN_PANDAS[name]
    expected = pd.DataFrame({"x": pd.concat([public] * 2, ignore_index=True)})
    for private in EVERY:
        found = seen(pd.concat([expected] * 3), twice(private))
        pd.testing.assert_frame_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_POLARS)
def test_numbers_are_read_in_the_types_of_polars(name):
    expected = twice(IN_POLARS[name])
    for private in EVERY:
        found = seen(pl.concat([expected] * 3), twice(private))
        assert found.equals(expected), private
        assert found.schema == expected.schema


def test_missing_floats_of_polars_are_as_in_public_records():
    """NaN and null are two things there, of which comparisons make two others."""
    for one in (None, np.nan):
        public = pl.DataFrame({"x": [1.0, one, 3.0] * 20})
        for other in (None, np.nan):
            found = seen(public, pl.DataFrame({"x": [5.0, other] * 15}))
            assert found["x"].null_count() == (0 if one is not None else 15)


def test_numbers_that_a_type_has_no_place_for_are_the_nearest():
    given = pd.Series([-500, 2**40, 1.6, 100], dtype=object)
    expected = {
        "int8": [-128, 127, 2, 100],
        "UInt8": [0, 255, 2, 100],
        "int64": [-500, 2**40, 2, 100],
        "uint64": [0, 2**40, 2, 100],
    }
    for dtype, values_ in expected.items():
        public = pd.DataFrame({"x": pd.Series(range(40), dtype=dtype)})
        found = seen(public, twice(given))["x"]
        assert found.tolist() == values_ * 2
        assert found.dtype == dtype
    whole = pd.DataFrame({"x": pd.Series([2**63 + 1, 2**53 + 1] * 9, dtype="uint64")})
    assert seen(whole, whole)["x"].tolist() == whole["x"].tolist()
    signed = pd.DataFrame({"x": pd.Series([1, 2] * 9, dtype="int64")})
    assert seen(signed, whole)["x"].tolist() == [2**63 - 1, 2**53 + 1] * 9


@pytest.mark.parametrize("dtype", ["float32", "Float32", "float[pyarrow]"])
def test_numbers_beyond_short_floats_are_none_that_is_infinite(dtype):
    """An error would tell of them."""
    public = pd.DataFrame({"x": pd.Series([1.0, 2.0] * 20, dtype=dtype)})
    found = seen(public, pd.DataFrame({"x": [1e300, -1e300] * 20}))["x"]
    assert np.isfinite(found.to_numpy(dtype=float)).all()
    assert found.dtype == public["x"].dtype


def test_what_is_missing_among_whole_numbers_is_the_median_of_public_ones():
    """Their type has no place for it, and one of another type would show."""
    public = pd.DataFrame({"x": [10, 20, 90] * 9, "b": [True, True, False] * 9})
    private = pd.DataFrame({"x": [1, None] * 9, "b": ["no idea", "False"] * 9})
    found = seen(public, private)
    assert found["x"].tolist() == [1, 20] * 9
    assert found["b"].tolist() == [True, False] * 9
    assert (found.dtypes == public.dtypes).all()


def test_what_is_missing_leaves_whole_numbers_as_they_are():
    """As floats, which a table has beside gaps, they would be others."""
    whole = [2**53 + 1, None] * 4
    public = pd.DataFrame({"x": pd.Series([1, 2, 3] * 9)})
    for private in (
        *(pd.Series(whole, dtype=dtype) for dtype in ("Int64", "int64[pyarrow]")),
        pd.Series(whole, dtype="Int64").astype("category"),
        pl.Series(whole),
    ):
        assert seen(public, twice(private))["x"].tolist() == [2**53 + 1, 2] * 8


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("own", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("data", [[1, 2, 3], [1.0, 2.0, np.inf]])
def test_sparse_records_are_read_as_the_public_kind_of_floats(kind, own, data):
    """Each place once, nothing infinite; and those of the caller stay as they are."""
    public = kind(RNG.poisson(1.0, (40, 3)).astype(float))
    private = own((data, [0, 0, 2], [0, 2] + [3] * 19), shape=(20, 3))
    found = seen(public, private)
    assert (type(found), found.dtype, found.nnz) == (kind, np.float64, 2)
    assert found.data.tolist() == [
        3.0,
        3.0 if data[2] == 3 else pytest.approx(np.nan, nan_ok=True),
    ]
    assert private.data.tolist() == data


@pytest.mark.parametrize("unit", ["D", "ms"])
def test_arrays_of_dates_are_read_in_the_public_unit(unit):
    dates = np.array(["2020-01-01", "NaT", "1910-01-01"], f"M8[{unit}]")
    expected = np.tile(np.stack([dates, dates[::-1]], axis=1), (6, 1))
    texts = np.where(np.isnat(expected), None, expected.astype("M8[D]").astype(str))
    for private in (expected.astype("M8[s]"), expected.astype(object), texts):
        found = seen(expected, private)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_sparse_columns_of_pandas_are_read_as_their_numbers():
    for values_, expected in (
        ([0, 1, 1], [1, 0, 9]),
        ([0.0, 1.0, 2.0], [None, 0.0, 9.0]),
        ([False, True, True], [True, False, True]),
    ):
        public = twice(pd.Series(pd.arrays.SparseArray(values_ * 5)))
        found = seen(public, twice(pd.Series([None, 0, 9], dtype=object)))["x"]
        assert found.dtype == public["x"].dtype
        assert found.astype(object).where(found.notna(), None).tolist() == expected * 2


TEXTS = ["a", None, "7", "True"]
IN_TEXTS = {
    "str": pd.Series(TEXTS),
    "string": pd.Series(TEXTS, dtype="string"),
    "objects": pd.Series(TEXTS, dtype=object),
    "objects with NaN": pd.Series(["a", np.nan, "7", "True"], dtype=object),
    "objects with NA": pd.Series(["a", pd.NA, "7", "True"], dtype=object),
    "categories": pd.Series(TEXTS, dtype="category"),
    "polars": pl.Series(TEXTS),
    "enum": pl.Series(TEXTS, dtype=pl.Enum(["True", "a", "7"])),
}
OTHER_TEXTS = {
    "values": pd.Series(["a", None, 7.0, True], dtype=object),
    "bytes": pd.Series([b"a", None, np.int8(7), np.True_], dtype=object),
    "more categories": pl.Series(TEXTS, dtype=pl.Categorical),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_TEXTS)
def test_texts_are_read_in_the_public_type(name):
    """None and NaN are not the same to a comparison."""
    public = twice(IN_TEXTS[name])
    for private in [*IN_TEXTS.values(), *OTHER_TEXTS.values()]:
        found = seen(public, twice(private))
        if isinstance(public, pl.DataFrame):
            assert found.equals(public)
            assert found.schema == public.schema
            continue
        pd.testing.assert_frame_equal(found, public.reset_index(drop=True))
        gaps, own = ([type(x) for x in X["x"][X["x"].isna()]] for X in (found, public))
        assert gaps == own


def test_categories_and_texts_of_pandas_keep_their_types():
    """Numbers are looked up however they are written."""
    dtype = pd.CategoricalDtype(pd.Index([1, 2], dtype="int8"))
    public = twice(pd.Series([1, 2, None, 1], dtype=dtype))
    found = seen(public, twice(pd.Series(["1.0", 2, None, "true"], dtype=object)))
    assert found["x"].dtype == dtype
    assert found["x"].cat.categories.dtype == "int8"
    assert found["x"].fillna(2).tolist() == [1, 2, 2, 1] * 2
    for storage in ("python", "pyarrow"):
        public = twice(pd.Series(TEXTS, dtype=pd.StringDtype(storage)))
        found = seen(public, twice(pd.Series(TEXTS, dtype=object)))
        assert found["x"].dtype.storage == storage
        assert found["x"].dtype == public["x"].dtype


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="zones are set by tzset")
def test_dates_do_not_depend_on_where_the_computer_is(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        noon = pd.Series([pd.Timestamp("2020-01-01T12:00")] * 4)
        private = twice(noon.dt.tz_localize("UTC").astype(object))
        assert (seen(twice(noon), private)["x"] == noon[0]).all()
    finally:
        monkeypatch.undo()
        time.tzset()


def test_infinite_objects_are_missing():
    public = twice(pd.Series([1, "a", 2.5, None], dtype=object))
    for infinite in (math.inf, np.float32(-np.inf), decimal.Decimal("inf")):
        private = pd.Series([infinite, "a", 2.5, None], dtype=object)
        assert seen(public, twice(private))["x"].isna().sum() == 4


def test_texts_that_no_file_can_hold_are_read_as_others():
    """An error of Arrow or polars would show them."""
    for name in IN_TEXTS:
        private = pd.Series(["\ud800", "a"], dtype=object)
        assert (
            seen(twice(IN_TEXTS[name]), twice(private))["x"].to_list()[1::2]
            == ["a"] * 2
        )


def test_types_that_private_records_cannot_be_read_in_are_refused():
    """At the public table, and not at the first record that lacks a value."""
    for column in [
        pd.Series(pd.arrays.SparseArray([0, "a"] * 9)),
        pd.Series([1.5] * 18, dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        pl.Series([1, "a"] * 9, dtype=pl.Object),
    ]:
        with pytest.raises(IncompatibleError, match="cannot be read in columns of"):
            seen(twice(column), twice(column))


def test_values_that_are_no_public_category_are_missing():
    known = pd.CategoricalDtype(["b", "a"], ordered=True)
    public = pd.DataFrame({"x": pd.Series(["a", "b"] * 20, dtype=known)})
    private = pd.DataFrame({"x": pd.Series(["a", "zoo"] * 10, dtype="category")})
    found = seen(public, private)["x"]
    assert found.dtype == known
    assert found.astype(object).where(found.notna(), None).tolist() == ["a", None] * 10
    numbers = pd.DataFrame({"x": pd.Categorical([3, 1] * 20)})
    found = seen(numbers, pd.DataFrame({"x": ["1", 3.0, "x", True] * 9}))["x"]
    assert found.cat.codes.tolist() == [0, 1, -1, 0] * 9


def test_objects_have_types_that_public_ones_have():
    """Numbers beside texts stay numbers; what is neither is missing."""
    public = pd.DataFrame({"x": pd.Series([1.5, "a"] * 20, dtype=object)})
    private = [np.float32(2.5), 3, "b", np.str_("c"), pd.Timestamp(2020, 1, 1), {}]
    found = seen(public, pd.DataFrame({"x": pd.Series(private * 4, dtype=object)}))
    expected = [2.5, 3.0, "b", "c", "2020-01-01 00:00:00", None]
    assert found["x"].tolist() == expected * 4
    assert [type(value) for value in found["x"][:4]] == [float, float, str, str]


TIMES = pd.Series(np.array(["2020-01-01T12:00:01", "NaT", "1910-01-01"], "M8[us]"))
ZONE = "Europe/Paris"
IN_TIMES = {
    "seconds": TIMES.astype("M8[s]"),
    "nanoseconds": TIMES.astype("M8[ns]"),
    "universal": TIMES.dt.tz_localize("UTC"),
    "zone": TIMES.dt.tz_localize("UTC").dt.tz_convert(ZONE),
    "milliseconds of polars": pl.Series(TIMES.to_numpy().astype("M8[ms]")),
    # Not before the test: it starts threads of polars, and mutants.py forks.
    "zone of polars": lambda: (
        pl.Series(TIMES.to_numpy())
        .dt.replace_time_zone("UTC")
        .dt.convert_time_zone(ZONE)
    ),
}
OTHER_TIMES = [
    TIMES.dt.tz_localize("UTC").astype(object),
    pd.Series(["2020-01-01T12:00:01", "never", "1910-01-01"]),
    pd.Series(["2020-01-01T13:00:01+01:00", 5, "1910-01-01"], dtype=object),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", IN_TIMES)
def test_dates_are_read_in_the_public_unit_and_zone(name):
    public = twice(IN_TIMES[name])
    for private in [*IN_TIMES.values(), *OTHER_TIMES]:
        found = seen(public, twice(private))
        if isinstance(public, pl.DataFrame):
            assert found.equals(public)
            assert found.schema == public.schema
        else:
            pd.testing.assert_frame_equal(found, public.reset_index(drop=True))


def test_durations_and_days_are_read_as_well():
    spans = pd.Series(pd.to_timedelta([1.5, None, -3], unit="s"))
    for dtype in ("m8[us]", "m8[ns]", "m8[s]"):
        public = twice(spans.astype(dtype))
        for private in (spans, spans.astype(object), pl.Series(spans.to_numpy())):
            found = seen(public, twice(private))
            expected = public["x"].dt.floor("s") if dtype == "m8[s]" else public["x"]
            assert found["x"].tolist() == expected.tolist()
            assert found["x"].dtype == dtype
    days = pl.Series(TIMES.to_numpy()).cast(pl.Date)
    for private in (TIMES, days, pd.Series(["2020-01-01", "x", "1910-01-01"])):
        assert seen(twice(days), twice(private))["x"].equals(twice(days)["x"])
    # A number is no date, and a date no duration.
    wrong = pd.Series([5, None, TIMES[0]], dtype=object)
    assert seen(twice(spans), twice(wrong))["x"].isna().all()
    assert seen(twice(spans), twice(TIMES))["x"].isna().all()


def test_dates_that_a_unit_has_no_place_for_are_its_nearest():
    """An error would tell of a record; and a zone can be added to the last one."""
    far = pd.Series(["9999-12-31", "0001-01-01"], dtype="M8[s]")
    for zone in (None, ZONE):
        public = twice(
            pd.Series(["2020-01-01"] * 9, dtype="M8[ns]").dt.tz_localize(zone)
        )
        found = seen(public, twice(far))["x"]
        assert [date.year for date in found] == [2262, 1677] * 2
    public = twice(pd.Series(["2020-01-01"] * 9, dtype="M8[us]").dt.tz_localize(ZONE))
    texts = pd.Series(["9999-12-31T23:59", "0001-01-01"])
    assert seen(public, twice(texts))["x"].dt.year.tolist() == [9999, 1] * 2
    public = twice(pd.Series([1] * 9, dtype="m8[ns]"))
    spans = pd.Series(np.array([10**12, -(10**12)], "m8[s]"))
    found = seen(public, twice(spans))["x"]
    assert [span.days for span in found] == [106_751, -106_751] * 2
    days = pl.Series([2**31 - 1, -(2**31)] * 9, dtype=pl.Int32).cast(pl.Date)
    found = seen(twice(pl.Series([0] * 18, dtype=pl.Int32).cast(pl.Date)), twice(days))
    assert [date.year for date in found["x"].to_list()] == [9999, 1] * 18


def test_dates_beyond_the_year_9999_are_the_last_ones():
    """Python has none, and Arrow fails with an error that shows the day."""
    days = pd.Series([2**30, 0] * 4, dtype="int32[pyarrow]").astype("date32[pyarrow]")
    seconds = pd.Series(np.array(["20000-01-01", "1970-01-01"] * 4, "M8[s]"))
    public = twice(pd.Series(["1970-01-01", "2000-01-01"] * 9, dtype="M8[us]"))
    for private in (days, seconds, pl.Series([10**15, 0] * 4).cast(pl.Datetime("ms"))):
        found = seen(public, twice(private))["x"]
        assert found.dt.year.isin([9999, 1970]).all(), private


def test_a_date_that_python_has_not_is_a_missing_one():
    """Arrow fails at all of a column of date64 if one of it is that far."""
    kept = pa.array([2**62, 86_400_000] * 2, pa.int64()).view(pa.date64())
    public = twice(pd.Series(["1970-01-01", "2000-01-01"] * 9, dtype="M8[us]"))
    private = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([kept])))
    found = seen(public, twice(private))["x"]
    assert found.isna().tolist() == [True, False] * 4
    assert found[1] == pd.Timestamp("1970-01-02")


def test_a_number_that_no_double_holds_is_missing_without_a_warning():
    long = np.array([[np.longdouble("1e400")], [1.0]] * 9)
    found = seen(np.arange(18.0)[:, None], long)
    assert found[1] == 1.0
    assert found[0] != np.inf


def test_arrays_are_read_column_by_column():
    mixed = np.array([["Graz", 1.5], ["Wien", None]] * 10, dtype=object)
    found = seen(mixed, [["Linz", "2.5"], [7, "none"]] * 9)
    assert found.tolist() == [["Linz", 2.5], ["7", None]] * 9
    assert seen(np.ones((20, 2)), [["1", "x"], [True, 2]] * 9)[1].tolist() == [1.0, 2.0]
    days = np.array([["2020-01-01"]] * 20, dtype="M8[D]")
    found = seen(days, np.array([["1999-05-05T10"]] * 9, dtype="M8[h]"))
    assert found.dtype == days.dtype
    assert str(found[0, 0]) == "1999-05-05"
    assert seen(["a", None] * 9, [1, "b"] * 9).tolist() == ["1", "b"] * 9
    assert seen(["a"] * 18, [1, 2] * 9).tolist() == ["1", "2"] * 9


def test_masked_values_are_missing():
    """And not what is below the mask, in public records as well."""
    rows = np.arange(40.0).reshape(20, 2)
    mask = rows == 6
    found = seen(rows, np.ma.array(rows, mask=mask))
    np.testing.assert_array_equal(np.isnan(found), mask)
    table = TableReference(np.ma.array(rows.astype(int), mask=mask), rows[:, 0])
    np.testing.assert_array_equal(np.isnan(table.pool.X), mask)
    words = np.ma.array([["a"], ["b"]] * 9, mask=[[True], [False]] * 9)
    assert seen(words, words)[:2].tolist() == [[None], ["b"]]
    masked = np.ma.array(rows[:, 0], mask=mask[:, 0])
    with pytest.raises(ValueError, match="Input y contains NaN"):
        PrivateRidge(1.0).fit(rows, masked, X_reference=PUBLIC, y_reference=TARGETS)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_row_labels_and_classes_of_frames_are_no_part_of_records(kind):
    class Frame(pd.DataFrame):
        """Has methods of its own."""

    public = kind({"x": np.arange(40.0)})
    private = Frame({"x": np.arange(30.0)}, index=[f"person {i}" for i in range(30)])
    found = seen(public, private)
    assert type(found) is kind
    assert [*found.columns] == ["x"]
    if kind is pd.DataFrame:
        assert found.index.equals(pd.RangeIndex(30))


# Names


def square_of_codes(frame):
    return (frame["c"].cat.codes.astype(float) ** 2).mean()


def categories(values_, known):
    return pd.DataFrame({"c": pd.Categorical(values_, categories=known)})


MANY = [f"0{i}" for i in range(100)] + ["a", "b"]
OWN = RNG.choice(["a", "b"], 200)


@pytest.mark.slow
@pytest.mark.parametrize("known", [["a", "b"], ["b", "a"], MANY])
def test_codes_of_categories_are_those_of_the_reference(known):
    """Otherwise the order of private categories says how far a record moves them."""
    public = categories(LABELS, ["a", "b"])
    sampler = sampler_of(square_of_codes, public, epsilon=np.inf)
    for each in (sampler, copy.deepcopy(sampler)):
        assert each.release(categories(OWN, known)) == (OWN == "b").mean()
    fitted = PrivateEstimator(
        Codes(), release=("mean_",), epsilon=np.inf, random_state=0
    ).fit(categories(OWN, known), X_reference=public)
    assert fitted.estimator_.mean_ == (OWN == "b").mean()


class Codes(TransformerMixin, BaseEstimator):
    """Learns the mean of codes."""

    def fit(self, X, y=None):
        self.mean_ = np.array([X["c"].cat.codes.mean()])
        return self

    def transform(self, X):
        return X["c"].cat.codes.to_numpy()[:, None] - self.mean_


def test_functions_that_make_frames_are_read_in_one_form():
    """Each database may have other categories, if they are found in it."""

    def made(n, rng):
        return pd.DataFrame(
            {"c": pd.Series(rng.choice(["a", "b"], n)).astype("category")}
        )

    sampler = SensitivitySampler(
        square_of_codes, reference=made, n_records=200, n_pairs=60, epsilon=np.inf
    ).fit(made(200, RNG))
    assert sampler.release(categories(OWN, MANY)) == (OWN == "b").mean()


X_NAMED, X_OTHER = (pd.DataFrame(RNG.uniform(-1, 1, (n, 2))) for n in (200, 300))


def pair_of(X):
    return pd.DataFrame({"rate": X[0] + RNG.normal(size=len(X)), "wage": 900 * X[1]})


@pytest.mark.parametrize(
    "model",
    [
        PrivateRidge(1.0, random_state=0),
        PrivateMoments(random_state=0),
        PrivateEstimator(LinearRegression(), random_state=0),
    ],
)
def test_named_targets_in_another_order_are_refused(model):
    """The noise of one target would be that of the other."""
    y, public = pair_of(X_NAMED), pair_of(X_OTHER)
    swapped = public[["wage", "rate"]]
    for bad in (swapped, swapped.to_numpy(), TableReference(X_OTHER, swapped)):
        given = (
            {"X_reference": bad}
            if isinstance(bad, TableReference)
            else {"X_reference": X_OTHER, "y_reference": bad}
        )
        with pytest.raises(IncompatibleError, match=r"order|lacks"):
            model.fit(X_NAMED, y, **given)
    model.fit(X_NAMED, y, X_reference=X_OTHER, y_reference=public)
    assert model.certificate_.private
    again = copy.deepcopy(model).set_params(sensitivity=model.sampler_)
    with pytest.raises(IncompatibleError, match="in another order"):
        again.fit(X_NAMED, y[["wage", "rate"]])


def mean_target(X, y):
    return y.sum() / len(y)


def test_more_targets_than_were_sampled_are_refused():
    """Their sum moves by a hundred times as much, as no pair says."""
    sampler = sampler_of(mean_target, PUBLIC, TARGETS)
    for each in (sampler, sampler.calibrate(epsilon=2.0), copy.deepcopy(sampler)):
        assert each.release(PRIVATE, Y).shape == (1,)
        with pytest.raises(IncompatibleError, match=r"has 1 targets, but y has 100"):
            each.release(PRIVATE, np.repeat(Y[:, None], 100, axis=1))
    three = sampler_of(mean_target, PUBLIC, np.repeat(TARGETS[:, None], 3, axis=1))
    with pytest.raises(IncompatibleError, match=r"has 3 targets, but y has 1"):
        three.release(PRIVATE, Y)


def test_targets_are_read_as_they_were_sampled():
    """Of a column, numpy would subtract each target from each record."""
    texts = Y.astype(str).astype(object)
    for public, private in (
        (TARGETS, Y[:, None]),
        (TARGETS[:, None], Y),
        (TARGETS, texts),
    ):
        _, found = seen((PUBLIC, public), (PRIVATE, private), spy_on_both)
        assert found.shape == (200, *public.shape[1:])
        np.testing.assert_array_equal(found.ravel(), Y)
    for numbers in (np.arange(200), pd.Series(np.arange(200.0)), pl.Series(range(200))):
        _, found = seen((PUBLIC, LABELS), (PRIVATE, numbers), spy_on_both)
        assert found.tolist() == [str(i) for i in range(200)]
        assert found.dtype == object
    frames = pd.DataFrame({"a": TARGETS, "b": Y}), pl.DataFrame({"a": Y, "b": TARGETS})
    _, found = seen((PUBLIC, frames[0]), (PRIVATE, frames[1]), spy_on_both)
    np.testing.assert_array_equal(found, np.column_stack([Y, TARGETS]))
    # A single target may have any name, several are in order.
    one = pd.DataFrame({"wage": Y})
    _, found = seen((PUBLIC, TARGETS), (PRIVATE, one), spy_on_both)
    np.testing.assert_array_equal(found, Y)
    swapped = pd.DataFrame({"b": TARGETS, "a": Y})
    message = r"^The reference has the columns \['a', 'b'\], but y has the same columns"
    with pytest.raises(IncompatibleError, match=message):
        seen((PUBLIC, frames[0]), (PRIVATE, swapped), spy_on_both)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        seen((PUBLIC, TARGETS), (PRIVATE, ["many"] * 200), spy_on_both)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        seen((PUBLIC, LABELS), (PRIVATE, [None] * 200), spy_on_both)
    with pytest.raises(ValueError, match="one or two dimensions"):
        seen((PUBLIC, TARGETS), (PRIVATE, np.ones((200, 1, 1))), spy_on_both)


def test_no_private_name_is_shown():
    public = pd.DataFrame({"age": [1.0, 2.0] * 9, "sex": [0.0, 1.0] * 9})
    private = public.rename(columns={"sex": "Maria Huber"})
    sampler = sampler_of(spy, public, epsilon=np.inf, n_pairs=20)
    with pytest.raises(IncompatibleError, match="but X lacks 'sex'") as caught:
        sampler.release(private)
    assert "Maria" not in str(caught.value)
    with pytest.raises(IncompatibleError, match="has other columns beside them"):
        sampler.release(public.assign(maria=1.0))


def test_scores_are_of_records_whose_columns_are_those_of_the_model():
    """Nothing is charged for a score of columns in another order."""
    frame = pd.DataFrame(RNG.normal(size=(200, 2)), columns=["a", "b"])
    model = LinearRegression().fit(frame, frame["a"])
    options = {"scoring": "mean_absolute_error", "epsilon": 1.0, "y_bounds": (-3, 3)}
    bad = frame[["b", "a"]], frame.rename(columns={"b": "c"}), frame.to_numpy()
    with PrivacyLedger(1.0) as ledger:
        for X in bad:
            with pytest.raises(IncompatibleError, match="model"):
                private_score(model, X, frame["a"], **options)
        assert ledger.spent.epsilon == 0.0
        assert private_score(model, frame, frame["a"], **options).value < 0.5


def test_a_categorical_of_polars_that_a_sampler_is_fitted_to_is_read_as_text():
    def frame(seed):
        names = np.random.default_rng(seed).choice(["x", "y"], 200)
        return pl.DataFrame({"a": pl.Series(names.tolist(), dtype=pl.Categorical)})

    def share(X):
        return float((X["a"] == "x").sum() / len(X))

    sampler = SensitivitySampler(share, n_pairs=40, gamma=0.2, epsilon=1e9)
    released = sampler.set_params(random_state=0).fit(frame(0)).release(frame(1))
    assert released == pytest.approx(share(frame(1)), abs=1e-6)


def test_names_of_several_levels_are_refused_in_public_records():
    columns = pd.MultiIndex.from_product([["spent"], range(3)])
    public = pd.DataFrame(np.ones((60, 3)), columns=columns)
    sampler = SensitivitySampler(lambda X: X.to_numpy().mean(), n_pairs=40)
    with pytest.raises(ValueError, match="names of one level"):
        sampler.fit(public)


@pytest.mark.parametrize("odd", [b"no text \xff", 10**5000], ids=["bytes", "digits"])
def test_a_label_that_no_text_can_be_made_of_is_another_label(odd):
    y = np.array(["no", "yes"] * 100, dtype=object)
    X = np.arange(200.0)[:, None]
    sampler = SensitivitySampler(lambda X, y: float((y == "yes").mean()), n_pairs=40)
    sampler.set_params(gamma=0.2, random_state=0, epsilon=1e9).fit(X, y)
    own = np.concatenate([y[:199], [odd]])
    assert sampler.release(X + 0.5, own) == pytest.approx(0.495, abs=1e-6)


def test_tables_of_texts_have_as_many_columns():
    public = np.array([["a", "b"], ["c", "d"]] * 50, dtype=object)
    sampler = sampler_of(lambda X: float((X == "a").mean()), public, gamma=0.2)
    with pytest.raises(IncompatibleError, match="has 2 features, but X has 3"):
        sampler.release(np.array([["a", "b", "c"]] * 100, dtype=object))


def test_a_value_that_cannot_be_compared_is_a_missing_one():
    public = pd.DataFrame({"x": pd.Series(["a", "b"] * 50, dtype=object)})
    private = pd.DataFrame({"x": pd.Series(["c", "d"] * 50, dtype=object)})
    private.iloc[3, 0] = Uncomparable()
    assert seen(public, private)["x"].isna().tolist() == [
        row == 3 for row in range(100)
    ]


class Uncomparable:
    def __ne__(self, other):
        raise RuntimeError


def test_texts_of_arrow_itself_are_read_as_such():
    """Pandas gives them the same name as its own texts that are kept there."""
    texts = pd.Series(["a", "b"] * 50, dtype=pd.ArrowDtype(pa.string()))
    private = pd.DataFrame({"x": ["c", 4] * 50})
    found = seen(pd.DataFrame({"x": texts}), private)["x"]
    assert isinstance(found.dtype, pd.ArrowDtype)
    assert found.tolist() == ["c", "4"] * 50


def test_a_model_reads_what_it_is_asked_about_as_what_it_was_fitted_to():
    """One text in a column of a file makes all of its values texts."""
    frames = [
        pd.DataFrame({"job": rng.integers(0, 3, 300), "age": rng.normal(size=300)})
        for rng in map(np.random.default_rng, range(3))
    ]
    known, X, new = frames
    coded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["job"]),
        remainder="passthrough",
    )
    model = PrivateEstimator(make_pipeline(coded, Ridge()), gamma=0.2, random_state=0)
    targets = {"y": X["job"] == 1, "y_reference": known["job"] == 1}
    model.fit(X, **targets, X_reference=known)
    texts = new.astype({"job": str})
    texts.loc[5, "job"] = "?"
    others = np.arange(300) != 5
    assert (model.predict(texts)[others] == model.predict(new)[others]).all()
    assert model.predict(new).std() > 0.1
    with pytest.raises(ValueError, match="is not shown") as caught:
        model.score(texts, ["secret"] * 300)
    assert "secret" not in str(caught.value)
