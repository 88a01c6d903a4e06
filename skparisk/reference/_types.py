"""Types of the columns of data frames: those of the public ones hold for all.

Numbers of another width are rounded, or wrap around, elsewhere, and the codes of
categories follow from their order: a query would be asked something else.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.reference._columns import holes_in
from skparisk.reference._records import columns_of, is_frame

# The name that numpy has for a type of numbers; the categories after how they are
# ordered; or None for anything else.
ColumnType: TypeAlias = str | tuple[Any, ...] | None

_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {"float32", "float64"}
_PLAIN = (str, int, float, bool)


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
    return name if name in _INTEGERS | _FLOATS else None


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
    if own in _INTEGERS and wanted in _INTEGERS:
        kind = wanted.title().replace("Uint", "UInt")
        return series.clip(*_ends(own, wanted)).cast(getattr(polars, kind))
    kind = "Float32" if wanted == "float32" else "Float64"
    return series.cast(getattr(polars, kind), strict=False)


def _ends(own: str, wanted: str) -> tuple[int, int]:
    """Return the least and the largest number that both types have."""
    both = np.iinfo(own), np.iinfo(wanted)
    return max(each.min for each in both), min(each.max for each in both)
