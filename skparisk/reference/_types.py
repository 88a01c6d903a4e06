"""Types of the columns of data frames: those of the public ones hold for all.

Numbers of another width are rounded, or wrap around, elsewhere, the codes of categories
follow from their order, and the numbers of dates from their unit and zone: a query
would be asked something else.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.reference._columns import holes_in
from skparisk.reference._records import columns_of, is_frame

# The name that numpy has for a type of numbers, dates or durations, of dates with the
# zone after a comma; the categories after how they are ordered; or None for all else.
ColumnType: TypeAlias = str | tuple[Any, ...] | None

_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {"float32", "float64"}
_PLAIN = (str, int, float, bool)
# Nanoseconds in the units of dates; the last one is that of days without a time.
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "D": 86400 * 10**9}


def types_of(records: Any) -> tuple[ColumnType, ...] | None:
    """Return the types of the columns of a data frame; None of other records."""
    return tuple(map(_type_of, records.dtypes)) if is_frame(records) else None


def _type_of(dtype: Any) -> ColumnType:
    """Return a type of pandas or polars in words that both have."""
    categories = getattr(dtype, "categories", None)
    if categories is not None and not str(dtype).startswith("Categorical"):
        values = categories.tolist() if hasattr(dtype, "kind") else [*categories]
        if all(type(value) in _PLAIN for value in values):
            return (bool(getattr(dtype, "ordered", False)), *values)
    name = str(dtype).lower().partition("[")[0]
    return name if name in _INTEGERS | _FLOATS else _date_type(dtype)


def _date_type(dtype: Any) -> str | None:
    """Return what numpy calls a type of dates or durations, with its zone, or None."""
    if isinstance(dtype, np.dtype):
        return str(dtype) if dtype.kind in "mM" else None
    name = str(dtype)
    if name == "Date":
        return "datetime64[D]"
    unit = getattr(dtype, "unit", getattr(dtype, "time_unit", None))
    if name.startswith("Duration"):
        return f"timedelta64[{unit}]"
    if not name.lower().startswith("datetime"):
        return None
    zone = getattr(dtype, "tz", getattr(dtype, "time_zone", None))
    return f"datetime64[{unit}]" if zone is None else f"datetime64[{unit}],{zone}"


def in_types(frame: Any, types: tuple[ColumnType, ...] | None) -> Any:
    """Return a frame whose columns have these types, each value by itself.

    What a type has no place for is missing, or the nearest number that it has. Numbers
    with fractions, or that are missing, stay so in a column of whole numbers.
    """
    own = types_of(frame)
    if own is None or types is None or own == types:
        return frame
    other = [place for place, wanted in enumerate(types) if own[place] != wanted]
    if not hasattr(frame, "iloc"):
        columns = frame.get_columns()
        found = [_in_polars(columns[at], own[at], types[at]) for at in other]
        return frame.with_columns(found)
    moved = frame.copy(deep=False)
    for at in other:
        moved.isetitem(at, _in_pandas(frame.iloc[:, at], own[at], types[at]))
    return moved


def _in_pandas(series: Any, own: ColumnType, wanted: ColumnType) -> Any:
    pandas: Any = sys.modules["pandas"]
    if wanted is None:
        return series.astype(object)
    if isinstance(wanted, tuple):
        ordered, *known = wanted
        plain = series.astype(object)
        plain = plain.where(plain.isin(known), None)
        return plain.astype(pandas.CategoricalDtype(known, ordered))
    if wanted.startswith(("datetime", "timedelta")):
        return _dates_in_pandas(series, wanted)
    if own in _INTEGERS and wanted in _INTEGERS and not series.isna().any():
        return series.clip(*_ends(own, wanted)).astype(wanted)
    values: NDArray[Any] = next(columns_of(series.to_frame()))
    numbers = np.where(holes_in(values), np.nan, values).astype(np.float64)
    kind = wanted if wanted in _FLOATS else "float64"
    with np.errstate(over="ignore"):  # a warning would tell of a record
        return pandas.Series(numbers.astype(kind), index=series.index)


def _in_polars(series: Any, own: ColumnType, wanted: ColumnType) -> Any:
    polars: Any = sys.modules["polars"]
    if isinstance(own, tuple):
        series = series.cast(polars.String)
    if wanted is None:
        return series
    if isinstance(wanted, tuple):
        return series.cast(polars.Enum([*map(str, wanted[1:])]), strict=False)
    if wanted.startswith(("datetime", "timedelta")):
        zone = wanted.partition(",")[2]
        # Those of a zone are numbers of universal time. It has no seconds of its own.
        numbers = _in_unit(series.to_numpy(), wanted.replace("[s]", "[ms]"))
        dates = polars.Series(series.name, numbers)
        if not zone:
            return dates
        return dates.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    if own in _INTEGERS and wanted in _INTEGERS:
        kind = wanted.title().replace("Uint", "UInt")
        return series.clip(*_ends(own, wanted)).cast(getattr(polars, kind))
    kind = "Float32" if wanted == "float32" else "Float64"
    return series.cast(getattr(polars, kind), strict=False)


def _dates_in_pandas(series: Any, wanted: str) -> Any:
    pandas: Any = sys.modules["pandas"]
    kind, zone = wanted[:1].upper(), wanted.partition(",")[2]
    if series.dtype.kind not in "mM":  # objects
        read = pandas.to_datetime if kind == "D" else pandas.to_timedelta
        series = read(series, errors="coerce", **({"utc": True} if kind == "D" else {}))
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    dates = pandas.Series(_in_unit(series.to_numpy(), wanted), index=series.index)
    return dates.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else dates


def _in_unit(dates: NDArray[Any], wanted: str) -> NDArray[Any]:
    """Return dates or durations in another unit, rounded down, or its nearest ones."""
    dtype = np.dtype(wanted.partition(",")[0])
    own, new = (_UNITS[np.datetime_data(each)[0]] for each in (dates.dtype, dtype))
    empty, numbers = np.isnat(dates), dates.astype(np.int64)
    if own < new:
        numbers = numbers // (new // own)
    else:
        # Two days from the end, as a zone is to be added.
        most = (np.iinfo(np.int64).max - 2 * _UNITS["D"] // new) // (own // new)
        numbers = np.clip(numbers, -most, most) * (own // new)
    return np.where(empty, np.array("NaT", dtype), numbers.astype(dtype))


def _ends(own: str, wanted: str) -> tuple[int, int]:
    """Return the least and the largest number that both types have."""
    both = np.iinfo(own), np.iinfo(wanted)
    return max(each.min for each in both), min(each.max for each in both)
