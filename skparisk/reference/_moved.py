"""Columns of data frames that are moved into their domain, in their own types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from skparisk.reference._columns import (
    Categories,
    Column,
    Interval,
    clip_array,
    holes_in,
)
from skparisk.reference._records import columns_of


def clip_frame(frame: Any, columns: Sequence[Column]) -> Any:
    """Return a frame of pandas or polars whose columns are moved."""
    if not hasattr(frame, "iloc"):
        pairs = zip(frame.get_columns(), columns, strict=True)
        return frame.with_columns([_clip_polars(*pair) for pair in pairs])
    clipped = frame.copy()
    for place, column in enumerate(columns):
        clipped.isetitem(place, _clip_pandas(frame.iloc[:, place], column))
    return clipped


def _clip_pandas(series: Any, column: Column) -> Any:
    """Return a moved column, of its own type where that can hold the domain."""
    if column is None:
        return series
    dtype = series.dtype
    values = next(columns_of(series.to_frame()))
    if isinstance(column, Interval) and dtype.kind in "mM":
        moved = clip_array(values, [column])
        made = type(series)(moved, index=series.index)
        zone = getattr(dtype, "tz", None)
        return (made if zone is None else made.dt.tz_localize("UTC")).astype(dtype)
    if isinstance(column, Interval) and dtype.kind in "iuf":
        ends = _ends_in(getattr(dtype, "numpy_dtype", dtype), column)
        if ends is None:
            moved = clip_array(values.astype(np.float64), [column])
            return type(series)(moved, index=series.index)
        low, high, fill = ends
        return (series if column.missing else series.fillna(fill)).clip(low, high)
    if isinstance(column, Interval) and dtype.kind == "b":
        numbers = np.where(holes_in(values), np.nan, values).astype(np.float64)
        return type(series)(clip_array(numbers, [column]), index=series.index)
    categorical = hasattr(series, "cat")
    moved = series.astype(object) if categorical else series
    # With a row more that is always moved: else the type would tell if another was.
    moved = moved.iloc[[*range(len(values)), 0]]
    for wrong, value in column.repairs(values):
        moved = moved.mask(np.append(wrong, True), value)
    moved = moved.iloc[:-1]
    if not categorical or not isinstance(column, Categories):
        return moved
    return moved.astype(type(dtype)(column.present, ordered=dtype.ordered))


def _clip_polars(series: Any, column: Column) -> Any:
    """Do the same with a column of polars."""
    if column is None:
        return series
    dtype, name, make = series.dtype, series.name, type(series)
    values = next(columns_of(series.to_frame()))
    if isinstance(column, Interval) and dtype.is_temporal():
        made = make(name, clip_array(values, [column]))
        if getattr(dtype, "time_zone", None) is not None:
            made = made.dt.replace_time_zone("UTC")
        return made.cast(dtype)
    if isinstance(column, Interval) and dtype.is_numeric():
        plain = None if dtype.is_decimal() else np.dtype(str(dtype).lower())
        ends = None if plain is None else _ends_in(plain, column)
        if ends is None:
            return make(name, clip_array(values.astype(np.float64), [column]))
        low, high, fill = ends
        if not column.missing:
            series = series.fill_null(fill)
            series = series.fill_nan(fill) if dtype.is_float() else series
        return series.clip(low, high)
    categorical = str(dtype).startswith(("Categorical", "Enum"))
    moved = series.cast(str) if categorical else series
    for wrong, value in column.repairs(values):
        moved = moved.zip_with(make(~wrong), make([value] * len(series)))
    if str(dtype).startswith("Enum") and isinstance(column, Categories):
        return moved.cast(type(dtype)(column.present))
    return moved.cast(dtype) if categorical else moved


def _ends_in(dtype: np.dtype[Any], interval: Interval) -> tuple[Any, Any, Any] | None:
    """Return ends and middle as numbers of a type, or None if that has none in it."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            low, high = dtype.type(interval.low), dtype.type(interval.high)
            # As floats: numpy would round the end itself to the type.
            if float(low) < interval.low:
                low = np.nextafter(low, dtype.type(np.inf))
            if float(high) > interval.high:
                high = np.nextafter(high, dtype.type(-np.inf))
    else:
        info = np.iinfo(dtype)
        low = max(math.ceil(interval.low), info.min)
        high = min(math.floor(interval.high), info.max)
    if low > high:
        return None
    fill = interval.fill if dtype.kind == "f" else math.floor(interval.fill)
    # As floats: the middle may be beyond the type.
    ends = (float(low), float(high)) if dtype.kind == "f" else (low, high)
    return low, high, min(max(fill, ends[0]), ends[1])
