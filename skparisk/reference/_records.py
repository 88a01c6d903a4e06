"""Records as they are kept: any table that scikit-learn can index by rows.

Four containers: a data frame of pandas or polars, which are never imported here; a
sparse matrix in CSR; a one-dimensional array of texts; and any other array. All but
`as_records` expect its result.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from skparisk.core.checks import IncompatibleError
from skparisk.core.release import hide_values
from skparisk.core.sealed import (
    BOOLEAN,
    MISSING,
    NUMBER,
    TEXT,
    WORDS,
    Records,
    check_names,
    container_of,
    is_frame,
    is_missing,
    is_pandas,
    is_series,
    kind_of_type,
    native_columns,
    rows_of,
    unmasked,
    values_of,
)
from skparisk.reference._parted import Parted


def as_records(X: Any, name: str = "X") -> Records:
    """Return records as they are kept, or say what is wrong with the input `name`.

    Frames stay as they are, but for the Categorical of polars. Texts become a 1-d
    object array, numbers a float64 array that may hold NaN but not infinity, sparse
    matrices float64 in CSR. What holds other things as well is a 2-d object array.
    """
    X = X[:] if isinstance(X, Parted) else X
    if is_frame(X):
        _check_shape(X.shape, name)
        for place, column in enumerate(columns_of(X)):
            where = f"{_column(column_names(X), place)} of {name}"
            kinds_in(column, where)
            if column.dtype.kind == "f" and np.isinf(column).any():
                raise ValueError(f"Input {name} contains infinity, in {where}.")
        return _plain_frame(X)
    if sparse.issparse(X):
        return _as_csr(X, name)
    array = unmasked(X)
    if not array.ndim:  # not left to scikit-learn, which would show it
        raise ValueError(
            f"Expected 2D array, got scalar array instead, in {name}: a table has rows."
        )
    if array.dtype.kind in "mM" and array.ndim == 2:
        _check_shape(array.shape, name)
        return array
    if array.dtype != object or array.ndim > 2:
        return _as_floats(array, name)
    kinds = kinds_in(array.ravel(), name)
    if kinds <= {NUMBER, BOOLEAN}:
        holes = np.fromiter(map(is_missing, array.ravel()), bool, array.size)
        return _as_floats(np.where(holes.reshape(array.shape), np.nan, array), name)
    if array.ndim == 2:
        return array
    if kinds != {TEXT}:
        raise ValueError(
            f"Expected 2D array, got 1D array instead, in {name}: only texts may have "
            f"one dimension, but it holds {_say(kinds)}.\nReshape your data."
        )
    return array


def _plain_frame(frame: Any) -> Any:
    """Return a frame of no class of its own, and without the Categorical of polars.

    These become texts, as their codes follow from all that the process has seen,
    private records among them.
    """
    if is_pandas(frame):
        kind: Any = sys.modules["pandas"].DataFrame
        own = isinstance(frame, kind) and type(frame) is not kind
        frame = kind(frame) if own else frame
        names = frame.columns
        if names.nlevels > 1:
            raise ValueError(
                "X must have names of one level, as private records are read by them: "
                "join the levels of each."
            )
        plain = type(names) is sys.modules["pandas"].Index and names.name is None
        if not plain or frame.attrs:  # which a private frame would not have
            frame = frame.copy(deep=False)
            frame.columns, frame.attrs = [*names], {}
        return frame
    coded = [x for x in frame.get_columns() if str(x.dtype).startswith("Categorical")]
    texts = [column.cast(sys.modules["polars"].String) for column in coded]
    return frame.with_columns(texts) if texts else frame


def as_numbers(records: Records, name: str, *, allow_nan: bool = False) -> Any:
    """Return records as an array of finite numbers; NaN is left if it is allowed."""
    if not is_numbers(records):  # so that no value is shown that is none
        schema = Schema.of(records)
        for place, kind in enumerate(schema.kinds):
            if kind not in (NUMBER, BOOLEAN, MISSING):
                raise ValueError(
                    f"{name} must hold numbers alone, but "
                    f"{_column(schema.names, place)} holds {kind}."
                )
    return _as_floats(records, name, "allow-nan" if allow_nan else True)


def as_targets(y: Any, name: str = "y") -> NDArray[Any]:
    """Return finite numbers of shape (n,) or (n, n_targets), or labels of shape (n,).

    Labels are texts, also of a categorical series, in an object array.
    """
    if np.ndim(y) not in (1, 2):
        raise ValueError(
            f"{name} must have one or two dimensions, got shape {np.shape(y)}."
        )
    values = np.asarray(unmasked(y))
    y = y if is_series(y) else values
    numbers = values is y and values.dtype == np.float64 and values.size
    if numbers and np.isfinite(values).all():  # as it mostly is, and found at once
        return values
    if values.dtype != object or TEXT not in kinds_in(values.ravel(), name):
        return hide_values(
            check_array, y, ensure_2d=False, dtype=np.float64, input_name=name
        )
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


def beside(targets: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return targets, if there are any, with weights of rows in a last column."""
    return np.column_stack([weights] if targets is None else [targets, weights])


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


def is_numbers(records: Records) -> bool:
    """Tell if records are an array of floats, or these in parts."""
    return (
        isinstance(records, np.ndarray | Parted)
        and records.dtype == np.float64
        and records.ndim == 2
    )


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame, where all are strings."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def columns_of(records: Records) -> Iterator[NDArray[Any]]:
    """Return the columns of what is not sparse, as arrays of one dimension.

    Dates are in universal time; what is neither numbers, booleans nor dates is objects.
    """
    return map(values_of, native_columns(records))


@dataclass(frozen=True)
class Schema:
    """The public columns of a table, which two tables must share.

    Parameters
    ----------
    container : {"array", "frame", "sparse", "texts"} or None
        Container of the records. None: not known.

    names : tuple of str or None
        Names of the columns, where they have some.

    kinds : tuple of str
        Kind of each column: "number", "boolean", "text", "date", "duration", "time", or
        several of these; "missing" for an empty column, which fits anything.

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
        """Return the schema of records; `names` for records without names."""
        records = rows_of(records)
        container = container_of(records)
        known = column_names(records) if names is None else tuple(names)
        if container == "sparse" or is_numbers(records):
            return cls(container, known, (NUMBER,) * records.shape[1])
        columns = columns_of(records)
        kinds = tuple(_say(kinds_in(column, "the table")) for column in columns)
        return cls(container, known, kinds)

    @classmethod
    def of_width(cls, n_columns: int) -> Self:
        """Return a schema that knows only the number of columns."""
        return cls(None, None, (MISSING,) * n_columns)

    @property
    def n_columns(self) -> int:
        """Number of columns; 1 for texts."""
        return len(self.kinds)

    def as_numbers(self) -> Self:
        """Return the schema of the same table as an array of numbers."""
        return type(self)("array", self.names, (NUMBER,) * self.n_columns)

    def check_same(
        self, other: Schema, what: str = "X", own: str = "The reference"
    ) -> None:
        """Raise IncompatibleError if container, names or number of columns differ.

        Names are compared where both have some. Kinds are not: private values are read
        in the types of the reference. `what` and `own` are the names of both in errors.
        """
        if len({self.container, other.container} - {None}) == 2:
            raise IncompatibleError(
                f"{own} is {WORDS[str(self.container)]}, but {what} is "
                f"{WORDS[str(other.container)]}: give both in the same form."
            )
        if self.names is not None and other.names is not None:
            check_names(self.names, other.names, what, own)
        if self.n_columns != other.n_columns:
            raise IncompatibleError(
                f"{own} has {self.n_columns} features, but {what} has "
                f"{other.n_columns}: the numbers must be equal."
            )


def _say(kinds: set[str]) -> str:
    return " and ".join(sorted(kinds)) or MISSING


def kinds_in(values: NDArray[Any], where: str) -> set[str]:
    """Return the kinds of values that are not missing, or refuse other things."""
    if values.dtype == object:
        types = {*map(type, values)}
        floats = {kind for kind in types if issubclass(kind, float)}
        numbers = (value for value in values if isinstance(value, float))
        if floats and all(map(is_missing, numbers)):
            types -= floats
    else:
        empty = (values[:1] != values[:1]).any() and (values != values).all()
        types = set() if empty else {values.dtype.type}
    words = {kind: kind_of_type(kind) for kind in types}
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
    return hide_values(
        check_array, X, dtype=np.float64, ensure_all_finite=finite, input_name=name
    )


def _as_csr(X: Any, name: str) -> Any:
    """Return float64 in CSR, each entry once, without a copy where it is that."""
    records = hide_values(
        check_array,
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
