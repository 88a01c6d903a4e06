"""Records as they are kept: any table that scikit-learn can index by rows.

Four containers: a data frame of pandas or polars, which are never imported here; a
sparse matrix in CSR; a one-dimensional array of texts; and any other array. All but
`as_records` expect what it returns.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from skparisk.exceptions import IncompatibleError
from skparisk.reference._mapped import MappedNumbers

Records: TypeAlias = Any

NUMBER, BOOLEAN, TEXT, MISSING = "number", "boolean", "text", "missing"
_KINDS_OF_TYPES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bool, np.bool_), BOOLEAN),
    ((str, bytes), TEXT),
    # Before numbers, as np.timedelta64 is an integer to numpy.
    ((datetime.timedelta, np.timedelta64), "duration"),
    ((datetime.date, np.datetime64), "date"),
    ((datetime.time,), "time"),
    ((Real, Decimal), NUMBER),
)
# Of pandas; they are compared by name, as pandas is not imported.
_MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})
_CONTAINERS = {
    "array": "an array",
    "frame": "a data frame",
    "sparse": "a sparse matrix",
    "texts": "a list of texts",
}


def as_records(X: Any, name: str = "X") -> Records:
    """Return records as they are kept, or say what is wrong with the input `name`.

    Frames stay as they are, but for the Categorical of polars. Texts become a 1-d
    object array, numbers a float64 array that may hold NaN but not infinity, sparse
    matrices float64 in CSR. What holds other things as well is a 2-d object array.
    """
    if is_frame(X):
        _check_shape(X.shape, name)
        for place, column in enumerate(columns_of(X)):
            where = f"{_column(column_names(X), place)} of {name}"
            kinds_in(column, where)
            if column.dtype.kind == "f" and np.isinf(column).any():
                raise ValueError(f"Input {name} contains infinity, in {where}.")
        return _without_codes(X)
    if sparse.issparse(X):
        return _as_csr(X, name)
    array = np.asarray(X)
    if not array.ndim:  # not left to scikit-learn, which would show it
        raise ValueError(
            f"Expected 2D array, got scalar array instead, in {name}: a table has rows."
        )
    if array.dtype.kind in "UST":
        # Not through the array, in which numbers beside texts are texts as well.
        array = np.asarray(array if X is array else X, dtype=object)
    if array.dtype.kind in "mM" and array.ndim == 2:
        _check_shape(array.shape, name)
        return array
    if array.dtype != object or array.ndim > 2:
        return _as_floats(X, name)
    kinds = kinds_in(array.ravel(), name)
    if kinds <= {NUMBER, BOOLEAN}:
        return _as_floats(_without_missing(array), name)
    if array.ndim == 2:
        return array
    if kinds != {TEXT}:
        raise ValueError(
            f"Expected 2D array, got 1D array instead, in {name}: only texts may have "
            f"one dimension, but it holds {_say(kinds)}.\nReshape your data."
        )
    return array


def _without_codes(frame: Any) -> Any:
    """Return a frame without the Categorical of polars, which become texts.

    Their codes follow from all that the process has seen, private records among them.
    """
    if hasattr(frame, "iloc"):
        return frame
    coded = [x for x in frame.get_columns() if str(x.dtype).startswith("Categorical")]
    texts = [column.cast(sys.modules["polars"].String) for column in coded]
    return frame.with_columns(texts) if texts else frame


def as_numbers(records: Records, name: str, *, allow_nan: bool = False) -> Any:
    """Return records as an array of finite numbers; NaN is left if it is allowed.

    Numbers in a file stay there.
    """
    if isinstance(records, MappedNumbers) and (allow_nan or not records.has_nan):
        return records
    try:
        return _as_floats(records, name, "allow-nan" if allow_nan else True)
    except (TypeError, ValueError) as error:
        schema = Schema.of(records)
        for place, kind in enumerate(schema.kinds):
            if kind not in (NUMBER, BOOLEAN, MISSING):
                raise ValueError(
                    f"{error} ({_column(schema.names, place)} of {name} holds {kind})"
                ) from error
        raise


def as_array(records: Records, name: str) -> NDArray[Any]:
    """Return a frame as `as_records` would have it in an array; others as they are."""
    if not is_frame(records):
        return records
    if {*Schema.of(records).kinds} <= {NUMBER, BOOLEAN, MISSING}:
        return as_numbers(records, name, allow_nan=True)
    return np.column_stack([column.astype(object) for column in columns_of(records)])


def as_targets(y: Any, name: str = "y") -> NDArray[Any]:
    """Return finite numbers of shape (n,) or (n, n_targets), or labels of shape (n,).

    Labels are texts, also of a categorical series, in an object array.
    """
    if np.ndim(y) not in (1, 2):
        raise ValueError(
            f"{name} must have one or two dimensions, got shape {np.shape(y)}."
        )
    values = np.asarray(y)
    numbers = values is y and values.dtype == np.float64 and values.size
    if numbers and np.isfinite(values).all():  # as it mostly is, and found at once
        return values
    if values.dtype.kind in "UST":
        values = values.astype(object)
    if values.dtype != object or TEXT not in kinds_in(values.ravel(), name):
        return check_array(y, ensure_2d=False, dtype=np.float64, input_name=name)
    labels = values[:, 0] if values.shape[1:] == (1,) else values
    if labels.ndim != 1:
        raise ValueError(
            f"{name} must have one dimension if it holds labels, got shape "
            f"{labels.shape}."
        )
    _check_shape(labels.shape, name)
    if any(map(is_missing, labels)):
        raise ValueError(f"Input {name} contains missing labels.")
    return labels


def n_rows(records: Records) -> int:
    """Return how many records there are."""
    return int(records.shape[0])


def take_rows(records: Records, rows: Any) -> Records:
    """Return some records, or targets, by number; None if there are none."""
    if records is None:
        return None
    if not hasattr(records, "iloc"):
        return records[rows]
    # The index is no part of a record, and would have one row several times.
    return records.iloc[rows].reset_index(drop=True)


def copy_records(records: Records) -> Records:
    """Return records that may be worked on in place, or None if there are none."""
    if records is None:
        return None
    if hasattr(records, "iloc"):
        return records.copy().reset_index(drop=True)
    return records.copy() if hasattr(records, "copy") else records.clone()


def concatenate(parts: Sequence[Records]) -> Records:
    """Return the records of some tables of one container, one after the other."""
    if is_frame(parts[0]):
        # By the package of the frame itself, which is imported where one is given.
        package = type(parts[0]).__module__.partition(".")[0]
        return sys.modules[package].concat(parts)
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def frame_like(frame: Any, array: NDArray[Any]) -> Any:
    """Return the columns of an array in a data frame of the same kind and names."""
    return type(frame)(dict(zip(frame.columns, array.T, strict=True)))


def container_of(records: Records) -> str:
    """Return the name of what records are in."""
    if is_frame(records):
        return "frame"
    if sparse.issparse(records):
        return "sparse"
    return "texts" if records.ndim == 1 else "array"


def is_frame(X: Any) -> bool:
    """Tell if it is a data frame of pandas or polars."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_columns"))


def is_numbers(records: Records) -> bool:
    """Tell if records are an array of floats, or these in a file."""
    return (
        isinstance(records, np.ndarray | MappedNumbers)
        and records.dtype == np.float64
        and records.ndim == 2
    )


def is_missing(value: Any) -> bool:
    """Tell if a value stands for none: None, NaN, and what pandas has besides."""
    return type(value).__name__ in _MISSING_TYPES or bool(value != value)


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame, where all are strings."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def columns_of(records: Records) -> Iterator[NDArray[Any]]:
    """Yield the columns of what is not sparse, as arrays of one dimension.

    Dates are in universal time; what is neither numbers, booleans nor dates is objects.
    """
    if hasattr(records, "iloc"):
        for place in range(records.shape[1]):
            yield _pandas_column(records.iloc[:, place])
    elif is_frame(records):
        for column in records.get_columns():
            values = column.to_numpy()
            kind = values.dtype.kind
            yield values.astype(f"{kind}8[us]") if kind in "mM" else values
    else:
        yield from records.reshape(len(records), -1).T


@dataclass(frozen=True)
class Schema:
    """The columns of a table: what is public of it, and must be the same of two.

    Parameters
    ----------
    container : {"array", "frame", "sparse", "texts"} or None
        What the records are in. None: not known.

    names : tuple of str or None
        Names of the columns, where they have some.

    kinds : tuple of str
        What each column holds: "number", "boolean", "text", "date", "duration", "time",
        or several of these. "missing" where nothing is there, which fits anything.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.reference import Schema
    >>> Schema.of(np.array([["Graz", 1.5], ["Wien", None]], dtype=object)).kinds
    ('text', 'number')
    """

    container: str | None
    names: tuple[str, ...] | None
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, records: Records, names: Sequence[str] | None = None) -> Self:
        """Return the schema of records.

        Parameters
        ----------
        records : ndarray, sparse matrix or data frame
            Records as a :class:`RecordPool` has them.

        names : sequence of str, default=None
            Names of the columns, where the records themselves have none.
        """
        container = container_of(records)
        known = column_names(records) if names is None else tuple(names)
        if container == "sparse" or is_numbers(records):
            return cls(container, known, (NUMBER,) * records.shape[1])
        return cls(container, known, tuple(map(_kind, columns_of(records))))

    @classmethod
    def of_width(cls, n_columns: int) -> Self:
        """Return a schema of which nothing is known but the number of columns.

        Parameters
        ----------
        n_columns : int
        """
        return cls(None, None, (MISSING,) * n_columns)

    @property
    def n_columns(self) -> int:
        """Number of columns; 1 for texts."""
        return len(self.kinds)

    def as_numbers(self) -> Self:
        """Return the schema of the same table as an array of numbers."""
        return type(self)("array", self.names, (NUMBER,) * self.n_columns)

    def check_same(self, other: Schema) -> None:
        """Compare this schema, of a reference, with that of records `X`.

        An array and a data frame may have the same columns, and frames of pandas and
        polars. Names are compared where both have some.

        Parameters
        ----------
        other : Schema
            That of `X`.

        Raises
        ------
        IncompatibleError
            If they differ; the message says in which column.
        """
        containers = {self.container, other.container} - {None}
        if len(containers) == 2 and containers & {"sparse", "texts"}:
            raise IncompatibleError(
                f"The reference is {_CONTAINERS[str(self.container)]}, but X is "
                f"{_CONTAINERS[str(other.container)]}: give both in the same form."
            )
        if self.names is not None and other.names is not None:
            _check_same_names(self.names, other.names)
        if self.n_columns != other.n_columns:
            raise IncompatibleError(
                f"The reference has {self.n_columns} features, but X has "
                f"{other.n_columns}: the numbers must be equal."
            )
        frames = containers == {"frame"}
        for place, (one, two) in enumerate(zip(self.kinds, other.kinds, strict=True)):
            if not _fit(one, two, frames):
                column = _column(self.names or other.names, place)
                raise IncompatibleError(
                    f"In the reference {column} holds {one}, but in X it holds {two}: "
                    "convert one of them, so that both hold the same kind of values."
                )


def _check_same_names(reference: tuple[str, ...], given: tuple[str, ...]) -> None:
    """Raise IncompatibleError unless columns are the same, in the same order."""
    if reference == given:
        return
    missing = [name for name in given if name not in reference]
    more = [name for name in reference if name not in given]
    said = "has the same columns in another order"
    if missing:
        said = f"lacks the column {missing[0]!r} of X"
    elif more:
        said = f"has the column {more[0]!r}, which X lacks"
    raise IncompatibleError(
        f"The reference {said}: its columns are {list(reference)}, those of X "
        f"{list(given)}, and they must be the same, in the same order."
    )


def _fit(one: str, two: str, frames: bool) -> bool:
    """Tell if columns may be of one table; arrays have numbers for booleans."""
    if one == two or MISSING in (one, two):
        return True
    return not frames and {one, two} == {NUMBER, BOOLEAN}


def _kind(column: NDArray[Any]) -> str:
    """Return what a column holds, in a word."""
    return _say(kinds_in(column, "the table"))


def _say(kinds: set[str]) -> str:
    return " and ".join(sorted(kinds)) or MISSING


def kinds_in(values: NDArray[Any], where: str) -> set[str]:
    """Return the kinds of values that are not missing, or refuse other things."""
    if values.dtype == object:
        types = {*map(type, values)}
        floats = {kind for kind in types if issubclass(kind, float)}
        if floats and all(map(is_missing, _floats_among(values))):
            types -= floats
    else:
        empty = (values[:1] != values[:1]).any() and (values != values).all()
        types = set() if empty else {values.dtype.type}
    words = {kind: _kind_of_type(kind) for kind in types}
    for kind, word in words.items():
        if word is None:
            raise TypeError(
                f"argument must be a string or a number, not {kind.__name__!r}, in "
                f"{where}: it may hold numbers, texts, booleans, dates and missing "
                "values."
            )
    # Those of numpy are floats, or become some.
    exact = {kind for kind, word in words.items() if word == NUMBER}
    exact -= {kind for kind in exact if issubclass(kind, float | np.generic)}
    if exact and not all(_has_float(value) for value in values if type(value) in exact):
        raise ValueError(
            f"{where[:1].upper()}{where[1:]} holds a number beyond 1.8e308 or a "
            "signaling NaN, which no float can hold."
        )
    return {word for word in words.values() if word is not None} - {MISSING}


def _has_float(number: Any) -> bool:
    """Tell if there is a float for a whole or decimal number or a fraction."""
    try:
        return math.isfinite(float(number)) or number != number
    except (OverflowError, ValueError):
        return False


def _kind_of_type(kind: type) -> str | None:
    """Return what values of a type are, or None if they may not be in a table."""
    if kind.__name__ in _MISSING_TYPES:
        return MISSING
    return next((word for of, word in _KINDS_OF_TYPES if issubclass(kind, of)), None)


def _floats_among(values: NDArray[Any]) -> Iterator[float]:
    return (value for value in values if isinstance(value, float))


def _column(names: Sequence[str] | None, place: int) -> str:
    return f"column number {place}" if names is None else f"the column {names[place]!r}"


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    for number, what in zip(shape, ("sample", "feature"), strict=False):
        if number < 1:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is "
                f"required, in {name}."
            )


def _as_floats(
    X: Any, name: str, finite: bool | str = "allow-nan"
) -> NDArray[np.float64]:
    return check_array(X, dtype=np.float64, ensure_all_finite=finite, input_name=name)


def _as_csr(X: Any, name: str) -> Any:
    """Return float64 in CSR, each entry once, without a copy where it is that."""
    records = check_array(
        X,
        accept_sparse="csr",
        dtype=np.float64,
        ensure_all_finite="allow-nan",
        input_name=name,
    )
    if not records.has_canonical_format:
        records = records.copy()
        records.sum_duplicates()
    return records


def _without_missing(array: NDArray[Any]) -> NDArray[Any]:
    """Return objects in which NaN stands for what is missing."""
    holes = np.fromiter(map(is_missing, array.ravel()), bool, array.size)
    return np.where(holes.reshape(array.shape), np.nan, array)


def _pandas_column(column: Any) -> NDArray[Any]:
    kind = column.dtype.kind
    if kind in "mM":
        return column.to_numpy(dtype=f"{kind}8[us]")
    if kind in "iuf" and not isinstance(column.dtype, np.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return column.to_numpy()
