"""Private records, read in exactly the form of the public ones.

What was sampled is a function of public records: of their container, package, columns
and types. Any of these may change the answer: a comparison leaves a missing `Float64`
out, and is False for a missing `float64`. So private records are rebuilt in the public
form before a query sees them. Values are read one by one; one that the public type
cannot hold is missing, and never an error, which would tell about one record.
"""

from __future__ import annotations

import builtins
import datetime
import decimal
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from numbers import Real
from typing import Any, NoReturn, Self, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skparisk.core.checks import IncompatibleError

Records: TypeAlias = Any
Floats: TypeAlias = NDArray[np.float64]
Holes: TypeAlias = NDArray[np.bool_]

NUMBER, BOOLEAN, TEXT, MISSING = "number", "boolean", "text", "missing"
_KINDS_OF_TYPES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bool, np.bool_), BOOLEAN),
    ((str, bytes), TEXT),
    # Before numbers, as np.timedelta64 is an integer to numpy.
    ((datetime.timedelta, np.timedelta64), "duration"),
    ((datetime.date, np.datetime64), "date"),
    ((datetime.time,), "time"),
    ((Real, decimal.Decimal), NUMBER),
)
# Of pandas; they are compared by name, as pandas is not imported.
_MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})
_TRUTH = {"true": 1.0, "false": 0.0}
_GAPS: Mapping[str, Callable[[], Any]] = {
    "float": lambda: math.nan,
    "NAType": lambda: import_module("pandas").NA,
    "NaTType": lambda: import_module("pandas").NaT,
}
_OF_ARROW = "string of Arrow"
# Where types of objects are made again; what is of others is kept, or missing.
_TYPES = {"builtins": builtins, "numpy": np, "decimal": decimal, "datetime": datetime}
# Nanoseconds in the units of dates; the last one is that of days without a time.
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "D": 86400 * 10**9}
WORDS = {
    "array": "an array",
    "frame": "a data frame",
    "sparse": "a sparse matrix",
    "texts": "a list of texts",
}
_FLAT = (
    "Expected 2D array, got {} array instead, in X.\nReshape your data: "
    "array.reshape(-1, 1) is a single feature, array.reshape(1, -1) a single sample."
)


@dataclass(frozen=True, eq=False)
class PublicForm:
    """Container, columns and types of public records, and the form of their targets.

    Made of public records alone, by `of`. Plain texts and numbers, so that a model that
    holds it can be saved. An array of numbers has no `columns`.
    """

    container: str
    n_columns: int
    columns: tuple[ColumnForm, ...] = ()
    names: tuple[Any, ...] = ()  # of the columns of a data frame
    package: str = "numpy"
    is_matrix: bool = False  # of sparse records: `*` is another product for arrays
    targets: TargetForm | None = None

    @classmethod
    def of(cls, X: Records, y: Any = None) -> Self:
        """Return the form of public records as references keep them, and of targets."""
        targets = None if y is None else TargetForm.of(y)
        container = container_of(X)
        n_columns = 1 if container == "texts" else X.shape[1]
        if container == "sparse":
            is_matrix = not isinstance(X, sparse.sparray)
            return cls(container, n_columns, is_matrix=is_matrix, targets=targets)
        if container == "array" and X.dtype.kind in "biuf":
            return cls(container, n_columns, targets=targets)
        columns = tuple(map(ColumnForm.of, native_columns(X)))
        if container != "frame":
            return cls(container, n_columns, columns, targets=targets)
        names, package = tuple(X.columns), _package_of(X)
        return cls(container, n_columns, columns, names, package, targets=targets)

    def read(self, X: Any, y: Any = None) -> tuple[Records, Any]:
        """Return private records and targets in this form.

        Raises
        ------
        IncompatibleError
            If the container, the names or the number of columns, or the number of
            targets is another. No message has a value or a name of private records.
        """
        if y is not None and self.targets is not None:
            y = self.targets.read(y)
        return self.read_features(X), y

    def read_features(self, X: Any) -> Records:
        """Return private records in this form, without targets."""
        X = unmasked(X)
        found = container_of(X)
        if self.container == "texts" and found == "array" and X.ndim == 1:
            found = "texts"  # a list that happens to have no text
        if found != self.container:
            if self.container == "array" and found == "texts":
                raise ValueError(_FLAT.format("1D"))
            raise IncompatibleError(
                f"The reference is {WORDS[self.container]}, but X is {WORDS[found]}: "
                "give both in the same form."
            )
        if found == "frame":
            check_names(self.names, [*X.columns], "X")
        elif found == "array" and X.ndim != 2:
            raise ValueError(_FLAT.format(f"{X.ndim}D" if X.ndim else "scalar"))
        if self.columns and [*X.shape[1:]] not in ([], [self.n_columns]):
            raise IncompatibleError(
                f"The reference has {self.n_columns} features, but X has {X.shape[1]}: "
                "the numbers must be equal."
            )
        if found == "sparse":
            kind = sparse.csr_matrix if self.is_matrix else sparse.csr_array
            made = kind(X, dtype=np.float64, copy=True)
            made.sum_duplicates()
            made.data[~np.isfinite(made.data)] = np.nan
            return made
        if not self.columns:
            return numbers(X)
        pairs = zip(self.columns, native_columns(X), strict=True)
        read = [form.read(column) for form, column in pairs]
        if found != "frame":
            return read[0] if found == "texts" else np.column_stack(read)
        make = import_module(self.package).DataFrame
        if self.package == "polars":
            return make(dict(zip(self.names, read, strict=True)))
        frame = make(dict(enumerate(read)))
        frame.columns = [*self.names]
        return frame


@dataclass(frozen=True)
class ColumnType:
    """Type of a column, in words of which its package makes it again."""

    kind: str
    package: str
    name: str
    plain: str = "O"  # the type of numpy, in universal time for dates
    zone: str | None = None
    categories: tuple[Any, ...] = ()
    of_categories: str = ""
    ordered: bool = False

    @classmethod
    def of(cls, column: Any) -> Self:
        """Return the type of a series, or of an array of one dimension."""
        dtype = column.dtype
        if isinstance(column, np.ndarray):
            kind = {"M": "date", "m": "duration"}.get(dtype.kind, "objects")
            return cls(kind, "numpy", dtype.str, dtype.str)
        package, name = _package_of(column), str(dtype)
        if package == "pandas" and dtype == "object":  # whatever is in it
            return cls("objects", package, name)
        if name == "string":  # in Python or in Arrow
            return cls("text", package, f"string[{dtype.storage}]")
        if name == "string[pyarrow]":  # of Arrow itself, which has the same name
            return cls("text", package, _OF_ARROW)
        found = nw.from_native(column, series_only=True).dtype
        if found.is_float() or found.is_decimal():
            return cls("number", package, name)
        if found.is_integer():
            return cls("integer", package, name, str(found).lower())
        if found == nw.Boolean:
            return cls("boolean", package, name, "bool")
        if isinstance(found, nw.Date | nw.Datetime):
            unit = getattr(found, "time_unit", "D")
            zone = getattr(found, "time_zone", None)
            return cls("date", package, name, f"M8[{unit}]", zone)
        if isinstance(found, nw.Duration):
            return cls("duration", package, name, f"m8[{found.time_unit}]")
        if isinstance(found, nw.Categorical | nw.Enum):
            if package == "polars":  # others than Enum have no list of their own
                listed = tuple(getattr(found, "categories", ()))
                return cls("category", package, name, categories=listed)
            known = dtype.categories
            return cls(
                "category",
                package,
                name,
                categories=tuple(known.to_list()),
                of_categories=str(known.dtype),
                ordered=bool(dtype.ordered),
            )
        return cls("text" if found == nw.String else "objects", package, name)

    def native(self) -> Any:
        """Return the type as the package has it."""
        if self.package == "numpy":
            return np.dtype(self.name)
        package: Any = import_module(self.package)
        if self.package == "pandas":
            if self.kind == "category":
                known = package.Index([*self.categories], dtype=self.of_categories)
                return package.CategoricalDtype(known, self.ordered)
            if self.name == _OF_ARROW:
                return package.ArrowDtype(import_module("pyarrow").string())
            return package.api.types.pandas_dtype(self.name)
        if self.kind == "category":
            return package.Enum([*self.categories])
        if self.kind in ("date", "duration") and self.plain != "M8[D]":
            unit = np.datetime_data(self.plain)[0]
            kind = package.Datetime if self.kind == "date" else package.Duration
            return kind(unit, self.zone) if self.kind == "date" else kind(unit)
        name, _, size = self.name.partition("(")
        kind = getattr(package, name)
        return kind(*map(int, re.findall(r"\d+", size))) if size else kind


@dataclass(frozen=True, eq=False)
class ColumnForm:
    """Type of a public column, and what is missing in it.

    `missing` names the type of what stands for a missing value among objects, and among
    floats of polars, which have two. `fill` takes its place where the column has none:
    the lower median of the public values. `types` are the names of those of Python that
    objects have, for each kind of value.
    """

    type: ColumnType
    missing: str = "NoneType"
    fill: int = 0
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, column: Any) -> Self:
        """Return the form of a public column, a series or an array."""
        form = cls(ColumnType.of(column))
        kind, (values, holes) = form.type.kind, plain(column)
        there = values[~holes]
        if kind in ("integer", "boolean") and there.size:
            middle = (there.size - 1) // 2
            return replace(form, fill=int(np.partition(there, middle)[middle]))
        if kind == "number" and form.type.package == "polars" and holes.any():
            return form if column.is_null().any() else replace(form, missing="float")
        if kind != "objects":
            return form
        gaps = [type(value).__name__ for value in column if _is_gap(value)]
        types: dict[str, dict[str, None]] = {}
        for value in there:
            name = f"{type(value).__module__}.{type(value).__qualname__}"
            types.setdefault(str(kind_of_type(type(value))), {})[name] = None
        return replace(
            form,
            missing=gaps[0] if gaps else "NoneType",
            types={kind: tuple(known) for kind, known in types.items()},
        )

    def read(self, column: Any) -> Any:
        """Return a private column in this form, each value by itself."""
        kind, package = self.type.kind, self.type.package
        if kind not in ("number", "objects") and ColumnType.of(column) == self.type:
            # Nothing is missing in two ways there. The row labels are no records.
            return column.reset_index(drop=True) if is_pandas(column) else column
        values, holes = plain(column)
        if kind in ("date", "duration"):
            return self._of_times(_times(values, holes, np.dtype(self.type.plain)))
        if kind == "number":
            found: NDArray[Any] = numbers(values, holes)
            holes = np.isnan(found)
        elif kind in ("integer", "boolean"):
            found, holes = _whole(values, holes, np.dtype(self.type.plain))
        else:
            found = self._objects(values, holes)
            holes = np.array([value is None for value in found], dtype=bool)
        dtype = self.type.native()
        if kind != "objects" and isinstance(dtype, np.dtype):
            found[holes] = math.nan if kind == "number" else self.fill
            with np.errstate(over="ignore"):
                found = found.astype(dtype)
            if kind == "number":
                found[~np.isfinite(found)] = math.nan
        else:
            found = found.astype(object)
            found[holes] = _GAPS.get(self.missing, lambda: None)()
        if package == "numpy":
            return found
        make = import_module(package).Series
        if package == "pandas":
            return make(found, dtype=dtype)
        return make(found.tolist(), dtype=dtype, strict=False)

    def _objects(self, values: NDArray[Any], holes: Holes) -> NDArray[np.object_]:
        """Return values as objects that the type has, None for all others."""
        read: Callable[[Any], Any] = self._as_object
        if self.type.kind == "text":
            read = text_of
        elif self.type.kind == "category":
            known = self.type.categories
            exact = {value: value for value in known}
            alike = {key_of(value): value for value in reversed(known)}

            def read(value: Any) -> Any:
                return exact[value] if value in exact else alike.get(key_of(value))

        found = np.full(len(values), None, dtype=object)
        for place in np.flatnonzero(~holes):
            with suppress(Exception):  # of an odd value, of which no error tells
                value = values[place]
                if isinstance(value, complex):  # all are, as soon as one value was
                    value = number_of(value)
                if kind_of_type(type(value)) is not None and not is_missing(value):
                    found[place] = read(value)
        return found

    def _as_object(self, value: Any) -> Any:
        """Return a value as one of the types that the public column has."""
        kind, own = str(kind_of_type(type(value))), type(value)
        if kind == NUMBER and math.isnan(number_of(value)):
            return None
        if f"{own.__module__}.{own.__qualname__}" in self.types.get(kind, ()):
            return value
        if kind not in self.types:
            kind = TEXT if TEXT in self.types else NUMBER
            value = number_of(value) if kind == NUMBER else value
        if kind == TEXT:
            value = text_of(value)
        module, _, name = self.types[kind][0].rpartition(".")
        return None if is_missing(value) else getattr(_TYPES[module], name)(value)

    def _of_times(self, times: NDArray[Any]) -> Any:
        """Return a column of dates or durations, which are in universal time."""
        package, zone = self.type.package, self.type.zone
        if package == "numpy":
            return times
        series = import_module(package).Series(times)
        if package == "pandas":
            series = series.dt.tz_localize("UTC") if zone else series
            return series.astype(self.type.native())
        if zone:
            series = series.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        return series.cast(self.type.native())


@dataclass(frozen=True)
class TargetForm:
    """Number and names of public targets, and whether they are labels."""

    shape: tuple[int, ...]  # of the targets of one record
    names: tuple[Any, ...] | None
    labels: bool
    dtype: str  # of numpy: that of labels that are numbers

    @classmethod
    def of(cls, y: Any) -> Self:
        """Return the form of public targets: an array, a list, a series or a frame."""
        names = tuple(y.columns) if is_frame(y) else None
        columns = [plain(column)[0] for column in _target_columns(y)]
        labels = any(
            kind_of_type(type(value)) == TEXT
            for values in columns
            if values.dtype == object
            for value in values
        )
        dtype = np.dtype(object) if labels else np.result_type(*columns)
        return cls(np.shape(y)[1:], names, labels, dtype.str)

    @property
    def n_targets(self) -> int:
        """How many there are for each record."""
        return math.prod(self.shape)

    def read(self, y: Any) -> NDArray[Any]:
        """Return private targets in this form: numbers, or labels; NaN or None if none.

        Raises
        ------
        IncompatibleError
            If there are more or fewer for each record, or columns have other names.
        """
        if np.ndim(y) not in (1, 2):
            raise ValueError(
                f"y must have one or two dimensions, got {np.ndim(y)} of them."
            )
        columns = _target_columns(y)
        if len(columns) != self.n_targets:
            raise IncompatibleError(
                f"The reference has {self.n_targets} targets, but y has "
                f"{len(columns)}: the numbers must be equal."
            )
        if self.n_targets > 1:
            names = tuple(y.columns) if is_frame(y) else None
            if (names is None) != (self.names is None):
                raise IncompatibleError(
                    "The targets of the reference and those of X must both be a data "
                    "frame, or both an array: columns are known by name or by place."
                )
            if self.names is not None and names is not None:
                check_names(self.names, names, "y")
        read = _labels if self.labels else _numbers_or_whole
        found = [read(*plain(column)) for column in columns]
        made = np.column_stack(found) if found else np.empty((len(y), 0))
        return made.reshape(len(made), *self.shape)


def is_frame(X: Any) -> bool:
    """Tell if it is a data frame of pandas or polars."""
    return hasattr(X, "columns") and (is_pandas(X) or hasattr(X, "get_columns"))


def is_pandas(records: Any) -> bool:
    """Tell if a data frame or a series is of pandas."""
    return hasattr(records, "iloc")


def is_series(values: Any) -> bool:
    """Tell if it is a column of pandas or polars."""
    return hasattr(values, "to_frame") and hasattr(values, "dtype")


def container_of(records: Records) -> str:
    """Return the name of what records are in."""
    if is_frame(records):
        return "frame"
    if sparse.issparse(records):
        return "sparse"
    objects = records.ndim == 1 and records.dtype.kind == "O"
    return "texts" if objects else "array"


def unmasked(values: Any) -> Any:
    """Return an array without a mask: what is masked is missing."""
    if is_frame(values) or sparse.issparse(values):
        return values
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        kind = np.float64 if values.dtype.kind in "biuf" else object
        values = np.array(values.data, dtype=kind)
        values[mask] = math.nan if kind is np.float64 else None
    array = np.asarray(values)
    if array.dtype.kind in "UST":
        # Not through the array, in which numbers beside texts are texts as well.
        array = np.asarray(array if values is array else values, dtype=object)
    return array


def native_columns(records: Records) -> Iterator[Any]:
    """Yield the columns of a frame as series, those of arrays as arrays."""
    if is_pandas(records):
        yield from (records.iloc[:, place] for place in range(records.shape[1]))
    elif is_frame(records):
        yield from records.get_columns()
    else:
        yield from records.reshape(len(records), -1).T


def check_names(
    public: Any, private: Any, what: str, own: str = "The reference"
) -> None:
    """Refuse columns of other names or in another order, and show no private name."""
    if [*public] == [*private]:
        return
    lacking = [name for name in public if name not in [*private]]
    said = "has other columns beside them"
    if lacking:
        said = f"lacks {lacking[0]!r}"
    elif len(public) == len(private):
        said = "has the same columns in another order"
    raise IncompatibleError(
        f"{own} has the columns {[*public]}, but {what} {said}: they must be the same, "
        "in the same order."
    )


def is_missing(value: Any) -> bool:
    """Tell if a value stands for none: None, NaN, and what pandas has besides."""
    return type(value).__name__ in _MISSING_TYPES or bool(value != value)


def kind_of_type(kind: type) -> str | None:
    """Return what values of a type are, or None if they may not be in a table."""
    if kind.__name__ in _MISSING_TYPES:
        return MISSING
    return next((word for of, word in _KINDS_OF_TYPES if issubclass(kind, of)), None)


def plain(column: Any) -> tuple[NDArray[Any], Holes]:
    """Return the values of a column in an array, and which of them are missing.

    Numbers, truth values, and dates in universal time keep their types; all else is
    objects.
    """
    if isinstance(column, np.ndarray):
        values = column
        if values.dtype != object:
            return values, np.asarray(values != values)
    else:
        series = nw.from_native(column, series_only=True)
        gaps, kind = series.is_null().to_numpy(), series.dtype
        if kind.is_integer() or kind == nw.Boolean:
            empty: Any = False if kind == nw.Boolean else 0
            return series.fill_null(empty).to_numpy(), gaps
        if kind.is_float() or (kind.is_temporal() and kind != nw.Time):
            values = series.to_numpy()
            return values, gaps | (values != values)
        listed = series.to_list()
        values = np.fromiter(listed, object, len(listed))
    return values, np.fromiter(map(_is_gap, values.ravel()), bool, values.size).reshape(
        values.shape
    )


def numbers(values: NDArray[Any], holes: Holes | None = None) -> Floats:
    """Return values as finite numbers; NaN for what is missing, or is no number.

    A text that is a number is read as one: whether a file has one text more in a column
    must not decide what all others are.
    """
    if values.dtype == object:
        read = map(number_of, values.ravel())
        found = np.fromiter(read, np.float64, values.size).reshape(values.shape)
    elif values.dtype.kind in "mM":
        found = np.full(values.shape, math.nan)
    elif values.dtype.kind == "c":  # all of it is, as soon as one value was
        found = np.where(values.imag == 0, values.real, math.nan)
    else:
        found = np.array(values, dtype=np.float64)
    found[~np.isfinite(found)] = math.nan
    if holes is not None:
        found[holes] = math.nan
    return found


def text_of(value: Any) -> str:
    """Return a value that is not missing as a text; 1.0 and 1 are the same one."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    try:
        return str(value)
    except Exception:  # as of a number of too many digits: an error would tell of it
        return "\N{REPLACEMENT CHARACTER}"


def key_of(value: Any) -> Any:
    """Return one key for a text and for the number, or truth value, that it spells."""
    number = number_of(value)
    return text_of(value) if math.isnan(number) else number


def number_of(value: Any) -> float:
    """Return a value as a finite number; NaN if it is missing, or is none."""
    if type(value) is complex and value.imag == 0:
        value = value.real
    with suppress(ArithmeticError, TypeError, ValueError):
        if isinstance(value, str):
            word = value.strip().lower()
            value = _TRUTH[word] if word in _TRUTH else float(word)
        elif kind_of_type(type(value)) not in (NUMBER, BOOLEAN):
            return math.nan
        return float(value) if math.isfinite(value) else math.nan
    return math.nan


def _whole(
    values: NDArray[Any], holes: Holes, wanted: np.dtype[Any]
) -> tuple[NDArray[Any], Holes]:
    """Return the nearest whole numbers, or truth values, that a type has."""
    if values.dtype.kind not in "biu":
        values = numbers(values, holes)
        holes = np.isnan(values)
        values = np.rint(np.where(holes, 0.0, values))
    if wanted.kind == "b":
        return values == 1, holes | ((values != 0) & (values != 1))
    ends = np.iinfo(wanted)
    low, high = values <= ends.min, values >= ends.max
    found = np.where(low | high, 0, values).astype(wanted)
    found[low], found[high] = ends.min, ends.max
    return found, holes


def _labels(values: NDArray[Any], holes: Holes) -> NDArray[np.object_]:
    """Return values as texts, None for what is missing."""
    listed = zip(values.tolist(), holes.tolist(), strict=True)
    read = (None if hole else text_of(value) for value, hole in listed)
    return np.fromiter(read, object, len(values))


def _times(values: NDArray[Any], holes: Holes, wanted: np.dtype[Any]) -> NDArray[Any]:
    """Return dates or durations in a unit, rounded down; NaT for what is none.

    Where the unit has no place for one, it is the nearest that it has, but for two
    days, as a zone is to be added.
    """
    if values.dtype == object:
        listed = zip(values.tolist(), holes.tolist(), strict=True)
        read = [None if hole else _time_of(v, wanted.kind) for v, hole in listed]
        values = np.array(read, dtype=f"{wanted.kind}8[us]")
    elif values.dtype.kind != wanted.kind:
        return np.full(len(values), "NaT", dtype=wanted)
    if np.datetime_data(values.dtype)[0] not in _UNITS:  # hours, or weeks
        values = values.astype(f"{wanted.kind}8[s]")
    own, new = (_UNITS[np.datetime_data(each)[0]] for each in (values.dtype, wanted))
    counts, gaps = values.astype(np.int64), np.isnat(values)
    if own < new:
        counts = counts // (new // own)
    else:
        most = (np.iinfo(np.int64).max - 2 * _UNITS["D"] // new) // (own // new)
        counts = np.clip(counts, -most, most) * (own // new)
    return np.where(gaps, np.array("NaT", wanted), counts.astype(wanted))


def _time_of(value: Any, kind: str) -> Any:
    """Return a date in universal time, or a duration; None if a value is neither."""
    with suppress(Exception):  # of an odd value, of which no error tells
        if isinstance(value, str) and kind == "M":
            value = datetime.datetime.fromisoformat(value)
        if kind_of_type(type(value)) != {"M": "date", "m": "duration"}[kind]:
            return None
        if getattr(value, "tzinfo", None) is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return np.array(value, dtype=f"{kind}8[us]")[()]
    return None


def _is_gap(value: Any) -> bool:
    with suppress(Exception):  # of an odd value, of which no error tells
        return is_missing(value)
    return True


def _package_of(records: Any) -> str:
    return type(records).__module__.partition(".")[0]


def _numbers_or_whole(values: NDArray[Any], holes: Holes) -> NDArray[Any]:
    """Return finite numbers; whole ones as they are, which floats may not hold."""
    whole = values.dtype.kind in "iu" and not holes.any()
    return values if whole else numbers(values, holes)


def _target_columns(y: Any) -> list[Any]:
    """Return the columns of targets, each an array or a series."""
    if is_frame(y):
        return [*native_columns(y)]
    if is_series(y):
        return [y]
    array = unmasked(y)
    return [*array.reshape(len(array), -1).T] if array.size else []


class Sealed:
    """Private records at the boundary, which show nothing of themselves.

    Made by `seal`, and opened by the functions of `core/release.py` alone.

    Attributes
    ----------
    n_records : int
        How many there are.
    """

    __slots__ = ("_sealed", "n_records")

    def __init__(self, X: Records, y: NDArray[Any] | None) -> None:
        self._sealed = X, y
        self.n_records = int(X.shape[0])

    def __repr__(self) -> str:
        return "Sealed()"

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "private records are sealed: they cannot be copied, pickled, converted or "
            "looked at, but only released about, with noise."
        )

    __reduce_ex__ = __copy__ = __deepcopy__ = __array__ = __iter__ = __len__ = _refuse


def seal(X: Records, y: Any = None, *, like: PublicForm | None = None) -> Sealed:
    """Return private records that nothing can look at but a release.

    Parameters
    ----------
    X, y : records and targets
        As they were checked.

    like : PublicForm, default=None
        What the records are read in: container, columns and types of public ones.

    Raises
    ------
    IncompatibleError
        If the container or the columns are others than the public ones.
    """
    return Sealed(X if like is None else like.read_features(X), y)


def open_sealed(private: Sealed) -> tuple[Records, Any]:
    """Return the records: for the functions of `core/release.py` alone."""
    return private._sealed


def copy_records(records: Records) -> Records:
    """Return records that may be worked on in place, or None if there are none."""
    if records is None:
        return None
    if is_pandas(records):
        return records.copy().reset_index(drop=True)
    return records.copy() if hasattr(records, "copy") else records.clone()
