"""Schemas and what they are written down in: data frames, and files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.core.sealed import is_frame
from skparisk.reference._records import column_names
from skparisk.reference._specs import Spec

_TOP = ("columns", "target", "container")


def columns_of_frame(
    frame: Any, declared: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """Return what each column of a frame holds, by its type or as declared."""
    names = column_names(frame) if is_frame(frame) else None
    if names is None:
        raise ValueError(
            "frame must be a data frame of pandas or polars whose columns have texts "
            f"as names, got an object of type {type(frame).__name__}."
        )
    lacking = [name for name in declared if name not in names]
    if lacking:
        raise ValueError(
            f"columns must be columns of the frame, {list(names)}; got {lacking[0]!r}."
        )
    found: dict[str, Any] = {}
    for name in names:
        dtype = frame[name].dtype
        values = _values_of_type(dtype)
        if name in declared:
            found[name] = declared[name]
        elif values is None:
            raise ValueError(
                f"columns must say what {name!r} holds, because its type, {dtype}, "
                "does not: give its range, such as {" + f"{name!r}: (0, 100)" + "}."
            )
        else:
            spec = Spec.of(values, f"The column {name!r}")
            found[name] = dataclasses.replace(spec, dtype=dtype)
    return found, type(frame).__module__.partition(".")[0]


def _values_of_type(dtype: Any) -> list[Any] | None:
    """Return the values that a boolean or categorical type allows."""
    if str(dtype).lower() in ("bool", "boolean"):
        return [False, True]
    categories = getattr(dtype, "categories", None)
    return None if categories is None else list(categories)


def put_in(
    container: str,
    names: Sequence[str] | None,
    columns: Sequence[NDArray[Any]],
    dtypes: Sequence[Any],
) -> Any:
    """Return columns in a container: an array, or a frame of a package that is named.

    The package is imported here, as it is only needed for this.
    """
    if container == "array" or names is None:
        numbers = all(values.dtype.kind in "biuf" for values in columns)
        dtype = np.float64 if numbers else object
        return np.column_stack([values.astype(dtype) for values in columns])
    package = import_module(container)
    made = {
        name: package.Series(name=name, dtype=dtype, **_data(container, values))
        for name, values, dtype in zip(names, columns, dtypes, strict=True)
    }
    return package.DataFrame(made)


def _data(container: str, values: NDArray[Any]) -> dict[str, Any]:
    """Return values as a series of the package is given them."""
    if container == "pandas":
        return {"data": values}
    return {"values": values.tolist(), "nan_to_null": False}


def read_layout(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a schema that a document of TOML declares."""
    _check_keys(document, _TOP, "the schema")
    columns = document.get("columns", {})
    if not isinstance(columns, Mapping):
        raise ValueError("columns must be tables [columns.NAME] in the schema.")
    arguments = {name: document[name] for name in document if name != "columns"}
    missing = {
        name: column["missing"]
        for name, column in columns.items()
        if isinstance(column, Mapping) and "missing" in column
    }
    arguments["columns"] = {
        name: _read_column(column, f"the column {name!r}", "missing")
        for name, column in columns.items()
    }
    arguments["missing"] = missing
    target = document.get("target")
    if isinstance(target, list):
        arguments["target"] = tuple(target)
    elif isinstance(target, Mapping):
        arguments["target"] = _read_column(target, "the target")
    return arguments


def _read_column(column: Any, where: str, *optional: str) -> Any:
    """Return what a table of TOML says that a column holds."""
    if not isinstance(column, Mapping):
        raise ValueError(f"{where} must be a table of TOML, got {column!r}.")
    found = [key for key in _KINDS if key in column]
    if len(found) != 1:
        raise ValueError(
            f"{where} must have one of {', '.join(_KINDS)}; got {list(column)}."
        )
    read, more = _KINDS[found[0]]
    _check_keys(column, (found[0], *more, *optional), where)
    values = column[found[0]]
    if not isinstance(values, list):
        raise ValueError(f"{found[0]} of {where} must be a list, got {values!r}.")
    weights = column.get("weights")
    try:
        return read(values) if weights is None else read(values, weights)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{found[0]} of {where} is wrong: {error}") from error


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = [key for key in table if key not in known]
    if unknown:
        raise ValueError(
            f"{where} has the key {unknown[0]!r}, which must be one of "
            f"{', '.join(known)}."
        )


def _read_whole(ends: list[Any]) -> range:
    low, high = ends
    return range(low, high + 1)


def _read_range(ends: list[Any]) -> tuple[Any, Any]:
    low, high = ends
    return low, high


def _read_categories(values: list[Any], weights: Any = None) -> Any:
    if weights is None:
        return values
    if not isinstance(weights, list) or len(weights) != len(values):
        raise ValueError(
            f"weights must be a list of {len(values)} numbers, got {weights!r}"
        )
    return Spec.weighted(values, weights)


def _read_histogram(edges: list[Any], weights: Any = None) -> Spec:
    known = isinstance(weights, list) and len(weights) == len(edges) - 1
    if not known or not (np.diff(np.asarray(edges, dtype=np.float64)) > 0).all():
        raise ValueError(
            "edges must increase, with a weight for each interval between them; got "
            f"{edges!r} and weights {weights!r}"
        )
    return Spec.histogram(edges, weights)


_KINDS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "range": (_read_range, ()),
    "whole": (_read_whole, ()),
    "categories": (_read_categories, ("weights",)),
    "edges": (_read_histogram, ("weights",)),
}
