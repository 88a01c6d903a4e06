"""What is released has the form that was sampled: targets, and types of columns."""

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

from skparisk import (
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateEstimator,
    SensitivitySampler,
)
from skparisk.reference import TableReference
from skparisk.reference._types import in_types, types_of

RNG = np.random.default_rng(0)
PUBLIC, PRIVATE = RNG.normal(size=(2, 200, 1))
TARGETS, Y = RNG.normal(size=(2, 200))
LABELS = np.array(["a", "b"] * 100)


def mean_target(X, y):
    return y.sum() / len(y)


def share_of_a(X, y):
    return (y == "a").mean()


def moved(X, y):
    return np.abs(X[:, 0] - y).mean()


def sampler_of(query, X, y=None, **options):
    options = {"n_pairs": 200, "random_state": 0} | options
    return SensitivitySampler(query, **options).fit(X, y)


def test_more_targets_than_were_sampled_are_refused():
    """Their sum moves by a hundred times as much, as no pair says."""
    sampler = sampler_of(mean_target, PUBLIC, TARGETS)
    read = copy.deepcopy(sampler)
    for each in (sampler, sampler.calibrate(epsilon=2.0), read):
        assert each.release(PRIVATE, Y).shape == (1,)
        with pytest.raises(IncompatibleError, match=r"1 number .* y has 100 numbers"):
            each.release(PRIVATE, np.repeat(Y[:, None], 100, axis=1))


@pytest.mark.parametrize("n_targets", [(1, 3), (3, 1)])
def test_targets_that_the_reference_does_not_have_are_refused(n_targets):
    public, private = (
        np.repeat(y[:, None], n, axis=1)
        for y, n in zip((TARGETS, Y), n_targets, strict=True)
    )
    sampler = SensitivitySampler(
        mean_target, reference=TableReference(PUBLIC, public), n_pairs=200
    )
    with pytest.raises(IncompatibleError, match="each record, but y has"):
        sampler.fit(PRIVATE, private).release(PRIVATE, private)


def test_numbers_in_the_place_of_labels_are_refused():
    sampler = sampler_of(share_of_a, PUBLIC, LABELS)
    assert sampler.release(PRIVATE, LABELS).shape == (1,)
    with pytest.raises(IncompatibleError, match=r"1 label .* y has 1 number:"):
        sampler.release(PRIVATE, Y)


def test_a_column_of_targets_is_taken_as_they_were_sampled():
    """Of a column, numpy would subtract each target from each record."""
    sampler = sampler_of(moved, PUBLIC, TARGETS, epsilon=np.inf)
    released = sampler.release(PRIVATE, Y[:, None])
    assert released == moved(PRIVATE, Y) != moved(PRIVATE, Y[:, None])
    column = sampler_of(moved, PUBLIC, TARGETS[:, None], epsilon=np.inf)
    assert column.release(PRIVATE, Y) == moved(PRIVATE, Y[:, None])


def square_of_codes(frame):
    return (frame["c"].cat.codes.astype(float) ** 2).mean()


def difference(frame):
    return (frame["a"] - frame["b"]).mean()


def categories(values, known):
    return pd.DataFrame({"c": pd.Categorical(values, categories=known)})


MANY = [f"0{i}" for i in range(100)] + ["a", "b"]
OWN = RNG.choice(["a", "b"], 200)


@pytest.mark.parametrize("known", [["a", "b"], ["b", "a"], MANY])
def test_codes_of_categories_are_those_of_the_reference(known):
    """Otherwise the order of private categories says how far a record moves them."""
    public = categories(LABELS, ["a", "b"])
    sampler = sampler_of(square_of_codes, public, epsilon=np.inf)
    read = copy.deepcopy(sampler)
    for each in (sampler, read):
        assert each.release(categories(OWN, known)) == (OWN == "b").mean()


@pytest.mark.parametrize("package", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.uint8, np.float32])
def test_private_numbers_have_the_width_of_public_ones(package, kind):
    """Differences of unsigned numbers wrap around."""
    rows = RNG.integers(0, 100, size=(2, 2, 200))
    public, private = ({"a": a, "b": b} for a, b in rows)
    given = package({name: column.astype(kind) for name, column in private.items()})
    sampler = sampler_of(difference, package(public), epsilon=np.inf)
    assert sampler.release(given) == pytest.approx(np.mean(rows[1][0] - rows[1][1]))


def test_an_estimator_is_given_private_records_in_public_types():
    public = categories(LABELS, ["a", "b"])
    for known in (["a", "b"], MANY):
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


def test_no_category_is_kept_of_a_reference_that_is_private():
    public = categories(LABELS, ["a", "b"]).assign(x=np.arange(200.0))
    sampler = sampler_of(square_of_codes, public)
    assert sampler.pairs_.types == ((False, "a", "b"), "float64")
    with pytest.warns(PrivacyLeakWarning):
        sampler.release(public)
    assert sampler.pairs_.types is None


# Of a column: what it is given as, in what type it is wanted, and what is made of it.
PANDAS = {
    "wider": (pd.Series([1, 2], dtype="int8"), "int64", [1, 2]),
    "narrower": (pd.Series([-500, 100, 500]), "int8", [-128, 100, 127]),
    "unsigned": (pd.Series([-5, 2**40]), "uint64", [0, 2**40]),
    "signed": (pd.Series([2**64 - 1], dtype="uint64"), "int64", [2**63 - 1]),
    "nullable": (pd.Series([1, None], dtype="Int8"), "int64", [1.0, np.nan]),
    "full": (pd.Series([1, 2], dtype="Int8"), "int64", [1, 2]),
    "fractions": (pd.Series([1.5, None]), "int64", [1.5, np.nan]),
    "single": (pd.Series([1.5], dtype="float32"), "float64", [1.5]),
    "to single": (pd.Series([1]), "float32", [1.0]),
    "beyond single": (pd.Series([1e300]), "float32", [np.inf]),
    "objects": (pd.Series([2, None], dtype=object), "float64", [2.0, np.nan]),
    "categories of numbers": (pd.Series([2, 3]).astype("category"), "int64", [2, 3]),
    "texts": (pd.Series(["a", "x", None]), (False, "a"), ["a", None, None]),
    "ordered": (pd.Series(["a", "b"]), (True, "b", "a"), ["a", "b"]),
    "to texts": (pd.Series(["a", "b"]).astype("category"), None, ["a", "b"]),
    "to objects": (pd.Series([7], dtype="int8"), None, [7]),
}


@pytest.mark.parametrize("name", PANDAS)
def test_columns_of_pandas_have_the_types_that_are_wanted(name):
    given, wanted, values = PANDAS[name]
    frame = pd.DataFrame({"x": given.to_numpy(), "x2": given})
    frame.columns = ["x", "x"]
    kept = frame.copy()
    (found,) = in_types(frame.iloc[:, [1]], (wanted,)).items()
    expected = pd.Series(values, dtype=object)
    assert [*found[1].astype(object).where(found[1].notna(), None)] == [
        *expected.where(expected.notna(), None)
    ]
    if isinstance(wanted, tuple):
        assert types_of(found[1].to_frame()) == (wanted,)
    pd.testing.assert_frame_equal(frame, kept)


POLARS = {
    "wider": (pl.Series([1, 2], dtype=pl.Int8), "int64", pl.Int64, [1, 2]),
    "narrower": (pl.Series([-500, 500]), "uint8", pl.UInt8, [0, 255]),
    "missing": (pl.Series([1, None], dtype=pl.Int8), "int64", pl.Int64, [1, None]),
    "fractions": (pl.Series([1.5, None]), "int64", pl.Float64, [1.5, None]),
    "single": (pl.Series([1.5]), "float32", pl.Float32, [1.5]),
    "texts": (pl.Series(["a", "x"]), (False, "a"), pl.Enum(["a"]), ["a", None]),
    "to texts": (pl.Series(["a"], dtype=pl.Enum(["a"])), None, pl.String, ["a"]),
    "as they are": (pl.Series([1], dtype=pl.Int8), None, pl.Int8, [1]),
}


@pytest.mark.parametrize("name", POLARS)
def test_columns_of_polars_have_the_types_that_are_wanted(name):
    given, wanted, dtype, values = POLARS[name]
    frame = pl.DataFrame({"x": given, "other": np.arange(len(given))})
    found = in_types(frame, (wanted, "int64"))
    assert found["x"].dtype == dtype
    assert found["x"].to_list() == values
    assert found.columns == frame.columns
    assert frame["x"].dtype == given.dtype


def test_frames_of_the_same_types_are_not_copied():
    frame = pd.DataFrame({"x": [1.0], "c": pd.Categorical(["a"])})
    assert in_types(frame, types_of(frame)) is frame
    assert in_types(frame, None) is frame
    assert in_types(PUBLIC, ("int64",)) is PUBLIC
    odd = pd.DataFrame({"c": pd.Categorical([pd.Timestamp(2020, 1, 1)])})
    assert types_of(odd) == (None,)
    assert types_of(pl.DataFrame({"c": ["a"]}, {"c": pl.Categorical})) == (None,)


ZONE = "Europe/Paris"
TIMES = np.array(["2020-01-01T12:00:01.5", "NaT", "1910-01-01"], dtype="M8[us]")
TIMES = pd.Series(TIMES)
SPANS = pd.Series(pd.to_timedelta([1.5, None, -3], unit="s")).astype("m8[us]")
IN_PANDAS = {
    "seconds": TIMES.astype("M8[s]"),
    "nanoseconds": TIMES.astype("M8[ns]"),
    "universal": TIMES.dt.tz_localize("UTC"),
    "zone": TIMES.dt.tz_localize("UTC").dt.tz_convert(ZONE),
    "objects": TIMES.dt.tz_localize("UTC").astype(object),
    "span": SPANS,
    "span in seconds": SPANS.astype("m8[s]"),
    "span of objects": SPANS.astype(object),
}


@pytest.mark.parametrize("given", IN_PANDAS)
@pytest.mark.parametrize("wanted", IN_PANDAS)
def test_dates_of_pandas_are_in_the_unit_and_zone_that_is_wanted(given, wanted):
    """The same points in time, or spans, rounded down."""
    if given.startswith("span") != wanted.startswith("span"):
        return
    given, wanted = (IN_PANDAS[name].to_frame("x") for name in (given, wanted))
    found = in_types(given, types_of(wanted))
    if wanted["x"].dtype == object:  # of which numbers are those of the objects
        return
    assert types_of(found) == types_of(wanted)
    whole = "s" in str(given["x"].dtype).partition("[")[2].partition(",")[0][:1]
    expected = wanted["x"].dt.floor("s") if whole else wanted["x"]
    pd.testing.assert_series_equal(found["x"], expected)


def of_polars(dtype, zone=None):
    values = pl.Series(TIMES.to_numpy() if dtype != pl.Duration else SPANS.to_numpy())
    values = values.cast(dtype)
    return values.dt.replace_time_zone(zone) if zone else values


IN_POLARS = {
    "date": of_polars(pl.Date),
    "milliseconds": of_polars(pl.Datetime("ms")),
    "nanoseconds": of_polars(pl.Datetime("ns")),
    "universal": of_polars(pl.Datetime("us"), "UTC"),
    "zone": of_polars(pl.Datetime("us"), "UTC").dt.convert_time_zone(ZONE),
}


@pytest.mark.parametrize("given", IN_POLARS)
@pytest.mark.parametrize("wanted", IN_POLARS)
def test_dates_of_polars_are_in_the_unit_and_zone_that_is_wanted(given, wanted):
    """A date is its first moment."""
    expected = IN_POLARS[wanted]
    if given == "date" and wanted != "date":
        expected = pl.Series(TIMES.dt.floor("D").to_numpy()).cast(
            expected.dtype.base_type()(expected.dtype.time_unit)
        )
        if IN_POLARS[wanted].dtype.time_zone:
            expected = expected.dt.replace_time_zone("UTC")
            expected = expected.dt.convert_time_zone(IN_POLARS[wanted].dtype.time_zone)
    frames = (pl.DataFrame({"x": IN_POLARS[name]}) for name in (given, wanted))
    given_, wanted_ = frames
    found = in_types(given_, types_of(wanted_))
    assert found["x"].dtype == wanted_["x"].dtype
    assert found["x"].to_list() == expected.to_list()


def test_spans_of_polars_and_seconds_of_pandas():
    spans = pl.DataFrame({"x": pl.Series(SPANS.to_numpy())})
    found = in_types(spans, ("timedelta64[ms]",))
    assert found["x"].dtype == pl.Duration("ms")
    assert found["x"].to_list() == spans["x"].to_list()
    times = pl.DataFrame({"x": pl.Series(TIMES.to_numpy())})
    found = in_types(times, types_of(TIMES.astype("M8[s]").to_frame()))
    assert found["x"].dtype == pl.Datetime("ms")


def test_dates_that_a_unit_has_no_place_for_are_its_nearest():
    """An error would tell of a record; and a zone can be added to the last one."""
    far = pd.DataFrame({"x": pd.Series(["9999-12-31", "0001-01-01"], dtype="M8[s]")})
    for wanted in ("datetime64[ns]", f"datetime64[ns],{ZONE}"):
        found = in_types(far, (wanted,))["x"]
        assert [date.year for date in found] == [2262, 1677]
        assert str(found.astype(str)[0]).startswith("2262-04-")


def hours(frame):
    """Return what depends on unit and zone."""
    column = frame["t"]
    if hasattr(frame, "iloc"):
        return (column.dt.hour + column.astype("int64") / 1e18).mean()
    return (column.dt.hour() + column.to_physical() / 1e18).mean()


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_query_is_asked_about_private_dates_as_about_public_ones(kind):
    """Whatever unit and zone they are in; also by a sampler that was saved."""
    own, public = (
        pd.Series(np.datetime64("2020-01-01", "ms") + RNG.integers(0, 10**9, 200))
        for _ in range(2)
    )
    if kind == "polars":
        public, own = (pl.Series(part.to_numpy()) for part in (public, own))
        others = own.dt.replace_time_zone("UTC"), own.cast(pl.Datetime("ns"))
        others = (*others, others[0].dt.convert_time_zone(ZONE))
        table = pl.DataFrame
    else:
        others = own.astype("M8[ns]"), own.dt.tz_localize("UTC")
        others = (*others, others[1].dt.tz_convert(ZONE))
        table = pd.DataFrame
    sampler = sampler_of(hours, table({"t": public}), epsilon=np.inf)
    read = copy.deepcopy(sampler)
    for each in (sampler, read):
        released = each.release(table({"t": own}))
        for other in others:
            assert each.release(table({"t": other})) == released


def test_codes_of_polars_that_follow_from_a_process_are_not_there():
    """They would be those of whatever was read before, also of private records."""

    def codes(frame):
        return frame["c"].to_physical().mean()

    def texts(frame):
        return (frame["c"] == "b").mean()

    public = pl.DataFrame({"c": pl.Series(LABELS.tolist(), dtype=pl.Categorical)})
    with pytest.raises(Exception, match=r"mean|numeric|str|None"):
        sampler_of(codes, public)
    sampler = sampler_of(texts, public, epsilon=np.inf)
    for dtype in (pl.Categorical, pl.String):
        own = pl.DataFrame({"c": pl.Series(OWN.tolist(), dtype=dtype)})
        assert sampler.release(own) == (OWN == "b").mean()
