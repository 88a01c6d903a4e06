"""Private records, read in exactly the form of the public ones.

What was sampled is a function of public records: of their container, package, columns
and types. Any of these may change the answer: a comparison leaves a missing `Float64`
out, and is False for a missing `float64`. So private records are rebuilt in the public
form before a query sees them. Values are read one by one; one that the public type
cannot hold is missing, and never an error, which would tell about one record.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from statistics import median_low
from typing import Any, NoReturn, Self, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skparisk.core.checks import IncompatibleError

Records: TypeAlias = Any

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
# What is missing in pandas, by name, as pandas is not imported.
_GAPS = {"NoneType": None, "NAType": "NA", "NaTType": "NaT"}
_TRUTH = {"true": 1.0, "false": 0.0}
# The ends of dates, also of those in nanoseconds, and of durations; some are two days
# nearer, as a zone is to be added.
_ENDS: Mapping[str, tuple[Any, Any]] = {
    "M": (datetime.datetime.min, datetime.datetime.max),
    "M8[ns]": (datetime.datetime(1677, 9, 24), datetime.datetime(2262, 4, 9)),
    "zone": (datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 29)),
    "m": (datetime.timedelta(-106_751), datetime.timedelta(106_751)),
}
_ARROW_TEXT = "string of Arrow"
WORDS = {
    "array": "an array",
    "frame": "a data frame",
    "sparse": "a sparse matrix",
    "texts": "a list of texts",
}


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
    is_matrix: bool = False  # of sparse records: `*` is another product for arrays
    targets: TargetForm | None = None

    @classmethod
    def of(cls, X: Records, y: Any = None) -> Self:
        """Return the form of public records as references keep them, and of targets."""
        container = container_of(X)
        plain = container == "sparse" or (
            container == "array" and X.dtype.kind in "biuf"
        )
        return cls(
            container,
            n_columns=1 if container == "texts" else X.shape[1],
            columns=() if plain else tuple(map(_form_of, native_columns(X))),
            names=tuple(X.columns) if container == "frame" else (),
            is_matrix=isinstance(X, sparse.spmatrix),
            targets=None if y is None else TargetForm.of(y),
        )

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
        if self.container == "array" and found in ("array", "texts") and X.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {X.ndim}D array instead, in X.\nReshape your "
                "data: array.reshape(-1, 1) is a single feature, array.reshape(1, -1) "
                "a single sample."
            )
        if found != self.container:
            raise IncompatibleError(
                f"The reference is {WORDS[self.container]}, but X is {WORDS[found]}: "
                "give both in the same form."
            )
        if found == "sparse":
            kind = sparse.csr_matrix if self.is_matrix else sparse.csr_array
            made = kind(X, dtype=np.float64, copy=True)
            made.sum_duplicates()
            made.data[~np.isfinite(made.data)] = np.nan
            return made
        if not self.columns:
            return numbers(X)
        if found == "frame":
            check_names(self.names, [*X.columns], "X")
        elif X.shape[1:] not in ((), (self.n_columns,)):
            raise IncompatibleError(
                f"The reference has {self.n_columns} features, but X has {X.shape[1]}: "
                "the numbers must be equal."
            )
        pairs = zip(self.columns, native_columns(X), strict=True)
        read = [form.read(column) for form, column in pairs]
        if found != "frame":
            return read[0] if found == "texts" else np.column_stack(read)
        columns = {str(place): column for place, column in enumerate(read)}
        frame = _module(self.columns[0].package).DataFrame(columns)
        frame.columns = [*self.names]
        return frame


@dataclass(frozen=True, eq=False)
class ColumnForm:
    """Type of a public column, in words of which its package makes it again.

    `kind` is the type of numpy whose values it has: "float32", "int8", "bool", "M8[ns]"
    for dates, "m8[ns]" for durations, "U" for texts, "O" for objects; or "category".
    `gap` takes the place of what is missing: what the public column has for it, among
    objects, and among floats of polars, which have two; and where a type has nothing
    for it, the lower median of the public values.
    """

    package: str
    dtype: Any  # a name; of categories, that of their type; of polars, an empty table
    kind: str
    gap: Any = None
    known: tuple[Any, ...] = ()  # categories, or the types of objects
    ordered: bool = False  # of categories
    zone: str | None = None  # of dates

    @classmethod
    def of(cls, column: Any) -> Self:
        """Return the form of a public column, a series or an array."""
        dtype, package, gap, zone = column.dtype, "numpy", None, None
        known: tuple[Any, ...] = ()
        name: Any = str(dtype)
        own = getattr(dtype, "subtype", dtype)  # of numpy, in sparse ones of pandas
        listed = _listed(column)
        if isinstance(column, np.ndarray):
            name = dtype.str
            kind = dtype.str[1:] if dtype.kind in "mM" else "O"
        else:
            series = nw.from_native(column, series_only=True)
            package = series.implementation.value
            zone = getattr(series.dtype, "time_zone", None)
            kind = "O" if name == "object" else _kind_of(series.dtype)
            if own is not dtype:
                kind = own.name
            if kind == "category":
                known = tuple(series.cat.get_categories().to_list())
            if package == "polars":
                name = column.clear().to_frame().write_ipc(None).getvalue()
            elif kind == "category":
                name = str(dtype.categories.dtype)
            elif name == "string":  # in Python or in Arrow
                name = f"string[{dtype.storage}]"
            elif name == "string[pyarrow]":  # of Arrow itself, which has the same name
                name = _ARROW_TEXT
        if kind == "O":
            seen = (type(value) for value in listed if not is_missing(value))
            known = tuple(dict.fromkeys(seen))
        if kind == "O" or package == "polars":
            gap = next(filter(is_missing, listed), None)
            gap = _GAPS.get(type(gap).__name__, gap)
        elif kind[0] in "iub" and isinstance(own, np.dtype):
            gap = median_low(listed)
        ordered = bool(getattr(dtype, "ordered", False))
        return cls(package, name, kind, gap, known, ordered, zone)

    def native(self) -> Any:
        """Return the type as the package has it."""
        package = _module(self.package)
        if package is np:
            return np.dtype(self.dtype)
        if self.package == "polars":
            return package.read_ipc(self.dtype).to_series().dtype
        if self.kind == "category":
            known = package.Index([*self.known], dtype=self.dtype)
            return package.CategoricalDtype(known, self.ordered)
        if self.dtype == _ARROW_TEXT:
            return package.ArrowDtype(_module("pyarrow").string())
        return package.api.types.pandas_dtype(self.dtype)

    def read(self, column: Any) -> Any:
        """Return a private column in this form, each value by itself."""
        package, dtype, letter = _module(self.package), self.native(), self.kind[0]
        made: Any = np.ndarray if package is np else package.Series
        # Dates of polars may be of years that Python has not, at which queries panic.
        whole = letter in "iubU" or (letter in "Mm" and self.package != "polars")
        if whole and isinstance(column, made) and column.dtype == dtype:
            # Nothing is missing in two ways there. The row labels are no records.
            return column.reset_index(drop=True) if is_pandas(column) else column
        if letter == "f":  # all at once
            most = float(np.finfo(self.kind).max)
            values = np.clip(numbers(column), -most, most)
            found = [None if value != value else value for value in values.tolist()]
        else:
            read = partial(_READERS[letter], self) if letter != "c" else _category(self)
            found = [_read(value, read) for value in _listed(column)]
        gap = self.gap
        if isinstance(gap, str):
            gap = getattr(_module("pandas"), gap)
        found = [gap if value is None else value for value in found]
        if package is np:
            return np.array(found, dtype)
        strict = {"strict": False} if self.package == "polars" else {}
        return made(found, dtype=dtype, **strict)


def _form_of(column: Any) -> ColumnForm:
    """Return the form of a public column; refuse types in which nothing can be missing.

    That would be an error at the first private record that lacks a value.
    """
    with suppress(Exception):  # which may show a value
        form = ColumnForm.of(column)
        form.read(np.array([None], dtype=object))
        return form
    raise IncompatibleError(
        f"Private records cannot be read in columns of {type(column.dtype).__name__}: "
        "give the reference other types, such as floats or texts."
    )


@dataclass(frozen=True)
class TargetForm:
    """Names of public targets, and whether they are labels."""

    shape: tuple[int, ...]  # of the targets of one record
    names: tuple[Any, ...]  # numbers, where they have none
    labels: bool
    dtype: str  # of numpy: that of labels that are numbers

    @classmethod
    def of(cls, y: Any) -> Self:
        """Return the form of public targets: an array, a list, a series or a frame."""
        targets = _targets(y)
        columns = [*map(values_of, targets.values())]
        values = (value for column in columns for value in column.tolist())
        labels = any(isinstance(value, str | bytes) for value in values)
        dtype = np.result_type(*columns)  # texts are objects
        return cls(np.shape(y)[1:], tuple(targets), labels, dtype.str)

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
        columns, n_targets = _targets(y), len(self.names)
        if len(columns) != n_targets:
            raise IncompatibleError(
                f"The reference has {n_targets} targets, but y has {len(columns)}: the "
                "numbers must be equal."
            )
        if n_targets > 1:
            check_names(self.names, columns, "y")
        read = _labels if self.labels else numbers
        found = [*map(read, columns.values())]
        # One column may be as large as all that else is in memory.
        together = found[0] if len(found) == 1 else np.column_stack(found)
        return together.reshape(-1, *self.shape)


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
        gap: Any = math.nan if values.dtype.kind in "biuf" else None
        values = np.where(np.ma.getmaskarray(values), gap, values.data)
    array = np.asarray(values)
    # Not through the array, in which numbers beside texts are texts as well.
    return np.asarray(values, dtype=object) if array.dtype.kind in "UST" else array


def native_columns(records: Records) -> Iterator[Any]:
    """Yield the columns of a frame as series, those of arrays as arrays."""
    if is_pandas(records):
        yield from (records.iloc[:, place] for place in range(records.shape[1]))
    elif is_frame(records):
        yield from records.get_columns()
    else:
        yield from records.T if records.ndim > 1 else [records]


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
    return type(value).__name__ in _GAPS or bool(value != value)


def kind_of_type(kind: type) -> str | None:
    """Return what values of a type are, or None if they may not be in a table."""
    if kind.__name__ in _GAPS:
        return MISSING
    return next((word for of, word in _KINDS_OF_TYPES if issubclass(kind, of)), None)


def values_of(column: Any) -> NDArray[Any]:
    """Return the values of a column in an array, dates in universal time.

    Numbers and truth values, if none is missing, keep their types; all else that is
    neither dates nor durations is objects.
    """
    if not isinstance(column, np.ndarray):
        series = nw.from_native(column, series_only=True)
        if series.dtype == nw.Date:  # Arrow would fail at one that Python has not
            series = series.cast(nw.Datetime("ms"))
        text = series.dtype == nw.String  # not padded to the longest one
        try:
            column = series.to_list() if text else series.to_numpy()
        except Exception:  # of an odd value, such as a far date64 of Arrow
            column = np.empty(len(series), dtype=object)
            for row in range(len(series)):
                with suppress(Exception):
                    column[row] = series[row]
        if text or column.ndim > 1:  # of lists of one length
            column = np.fromiter(column, object, len(column))
    kind = column.dtype.kind
    if kind in "UST":
        return column.astype(object)
    if kind == "M":  # of the years that Python has
        return np.clip(column.astype("M8[us]"), *np.array(_ENDS["M"], "M8[us]"))
    return column.astype("m8[us]") if kind == "m" else column


def _listed(column: Any) -> list[Any]:
    """Return the values of a column one by one, dates in universal time."""
    values = values_of(column)
    if values.dtype.kind == "f" and not isinstance(column, np.ndarray):
        # One that is missing made floats of the others, which may not hold them.
        return column.to_list()
    return values.tolist()


def numbers(values: Any) -> NDArray[np.float64]:
    """Return values, or a series, as finite numbers; NaN for what is none.

    A text that is a number is read as one: whether a file has one text more in a column
    must not decide what all others are.
    """
    values = values_of(values)
    if values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # a warning would tell of a value
            found = np.array(values, dtype=np.float64)
    else:
        read = map(number_of, _listed(values.ravel()))
        found = np.fromiter(read, np.float64, values.size).reshape(values.shape)
    found[~np.isfinite(found)] = math.nan
    return found


def text_of(value: Any) -> str:
    """Return a value that is not missing as a text; 1.0 and 1 are the same one."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    try:  # of what Arrow and polars have a place for
        return str(value).encode(errors="replace").decode()
    except Exception:  # as of a number of too many digits: an error would tell of it
        return "\N{REPLACEMENT CHARACTER}"


def key_of(value: Any) -> Any:
    """Return one key for a text and for the number, or truth value, that it spells."""
    number = number_of(value)
    return text_of(value) if math.isnan(number) else number


def number_of(value: Any) -> float:
    """Return a value as a finite number; NaN if it is missing, or is none."""
    with suppress(ArithmeticError, TypeError, ValueError):
        value = _real(value)
        if isinstance(value, str):
            word = value.strip().lower()
            value = _TRUTH[word] if word in _TRUTH else float(word)
        elif kind_of_type(type(value)) not in (NUMBER, BOOLEAN):
            return math.nan
        return float(value) if math.isfinite(value) else math.nan
    return math.nan


def _read(value: Any, read: Callable[[Any], Any]) -> Any:
    """Return what is read of a value; None if it is missing, or nothing can be."""
    with suppress(Exception):  # of an odd value, of which no error tells
        value = _real(value)
        if kind_of_type(type(value)) is not None and not is_missing(value):
            return read(value)
    return None


def _real(value: Any) -> Any:
    """Return a complex number that is real as a float: one makes all others complex."""
    return value.real if isinstance(value, complex) and value.imag == 0 else value


def _labels(column: Any) -> NDArray[np.object_]:
    """Return values as texts, None for what is missing."""
    read = (_read(value, text_of) for value in _listed(column))
    return np.array([*read], dtype=object)


def _whole_number(form: ColumnForm, value: Any) -> int:
    """Return the nearest whole number that the type has."""
    ends = np.iinfo(form.kind)
    whole = int(value) if isinstance(value, Integral) else round(number_of(value))
    return min(max(whole, int(ends.min)), int(ends.max))


def _time(form: ColumnForm, value: Any) -> Any:
    """Return the nearest date, or duration, that the type has; None if it is none."""
    letter = form.kind[0]
    if letter == "M" and isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    if kind_of_type(type(value)) != ("date" if letter == "M" else "duration"):
        return None
    low, high = _ENDS.get(form.kind, _ENDS[letter if form.zone is None else "zone"])
    value = min(max(np.array(value, f"{letter}8[us]").item(), low), high)
    if form.kind == "M8[D]":
        return value.date()
    return value if form.zone is None else value.replace(tzinfo=datetime.UTC)


def _category(form: ColumnForm) -> Callable[[Any], Any]:
    """Return what looks up a category, or the first one that spells the same."""
    alike = {key_of(value): value for value in reversed(form.known)}
    known = alike | {value: value for value in form.known}
    return lambda value: known.get(value, known.get(key_of(value)))


def _object(form: ColumnForm, value: Any) -> Any:
    """Keep an object of a type that the column has, and make one of these of others."""
    kind = kind_of_type(type(value))
    if kind == NUMBER and math.isnan(number_of(value)):  # an infinite one
        return None
    if type(value) in form.known:
        return value
    types = {kind_of_type(own): own for own in reversed(form.known)}
    if kind not in types:
        kind = TEXT if TEXT in types else NUMBER
        value = number_of(value) if kind == NUMBER else value
    value = text_of(value) if kind == TEXT else value
    return None if is_missing(value) else types[kind](value)


# How a value is read, by the first letter of the kind; floats are read all at once.
_READERS: Mapping[str, Callable[[ColumnForm, Any], Any]] = {
    "i": _whole_number,
    "u": _whole_number,
    "b": lambda _, value: {0.0: False, 1.0: True}[number_of(value)],
    "U": lambda _, value: text_of(value),
    "M": _time,
    "m": _time,
    "O": _object,
}


def _kind_of(dtype: Any) -> str:
    """Return the type of numpy whose values a type of narwhals has."""
    name = type(dtype).__name__
    if name in ("Date", "Datetime", "Duration"):
        unit = getattr(dtype, "time_unit", "D")
        return f"{'m' if name == 'Duration' else 'M'}8[{unit}]"
    if dtype.is_numeric():
        return "float64" if dtype.is_decimal() else name.lower()
    kinds = {"Boolean": "bool", "String": "U", "Categorical": "category"}
    return {**kinds, "Enum": "category"}.get(name, "O")


def _module(name: Any) -> Any:
    """Return a package of tables, which is imported only where it is needed."""
    if name == "numpy":
        return np
    return nw.Implementation.from_backend(name).to_native_namespace()


def _targets(y: Any) -> dict[Any, Any]:
    """Return the columns of targets by name, or by number where they have none."""
    if is_frame(y):
        return dict(zip(y.columns, native_columns(y), strict=True))
    if is_series(y):
        return {0: y}
    array = unmasked(y)
    return dict(enumerate(array.reshape(len(array), -1).T if array.size else ()))


class Sealed:
    """Private records at the boundary, hidden from printing, copying and pickling.

    Made by `seal`, and opened by the functions of `core/release.py` alone.

    Attributes
    ----------
    n_records : int
        Number of records.

    of_people : bool
        Whether a record is a person with several rows.
    """

    __slots__ = ("_sealed", "n_records", "of_people")

    def __init__(self, X: Records, y: Any) -> None:
        self._sealed = X, y
        self.n_records = int(X.shape[0])
        self.of_people = isinstance(X, People)

    def __repr__(self) -> str:
        return "Sealed()"

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "private records are sealed: they cannot be copied, pickled, converted or "
            "looked at, but only released about, with noise."
        )

    __reduce_ex__ = __copy__ = __deepcopy__ = __array__ = __iter__ = __len__ = _refuse


def seal(X: Records, y: Any = None, *, like: PublicForm | None = None) -> Sealed:
    """Seal private records, which only a release can open.

    Parameters
    ----------
    X, y : records and targets
        Checked records and targets.

    like : PublicForm, default=None
        Public form to cast the records to: container, columns and types.

    Raises
    ------
    IncompatibleError
        If the container or the columns differ from the public ones.
    """
    return Sealed(X if like is None else on_rows(like.read_features, X), y)


def open_sealed(private: Sealed) -> tuple[Records, Any]:
    """Return the records: for the functions of `core/release.py` alone."""
    return private._sealed


@dataclass(frozen=True, eq=False, repr=False)
class People:
    """Records of which each is a person, with all of their rows.

    Rows of a person follow each other. It has the shape of records, and is taken from
    like them; what is to see rows has to ask for them, by `rows_of` or `on_rows`, so
    that nothing takes rows for people.

    Parameters
    ----------
    rows : records or targets of shape (n_rows, ...)
        Person by person.

    ends : ndarray of shape (n_people,)
        Where the rows of each one end.
    """

    rows: Any
    ends: NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of people, and the rest of the shape of rows."""
        return (len(self.ends), *self.rows.shape[1:])

    @property
    def sizes(self) -> NDArray[np.intp]:
        """How many rows each one has."""
        return np.diff(self.ends, prepend=0)

    @property
    def firsts(self) -> NDArray[np.intp]:
        """Where the rows of each one begin."""
        return self.ends - self.sizes

    @property
    def numbers(self) -> NDArray[np.intp]:
        """Whose each row is, by number."""
        return np.repeat(np.arange(len(self.ends)), self.sizes)

    def places(self, people: Any) -> NDArray[np.intp]:
        """Return the rows of some people, person by person."""
        sizes, ends = self.sizes[people], self.ends[people]
        return np.repeat(ends - sizes.cumsum(), sizes) + np.arange(sizes.sum())

    def take(self, people: Any) -> People:
        """Return some people, by number."""
        rows = take_rows(self.rows, self.places(people))
        return People(rows, self.sizes[people].cumsum())

    def at_most(self, most: int, order: NDArray[np.intp]) -> People:
        """Return them with so many rows each: those that a random order has first.

        So which rows of a person are kept depends on nobody else.
        """
        sizes = self.sizes
        person = self.numbers
        mixed = order[np.argsort(person[order], kind="stable")]
        first = np.arange(len(person)) - np.repeat(self.firsts, sizes) < most
        rows = take_rows(self.rows, np.sort(mixed[first]))
        return People(rows, np.minimum(sizes, most).cumsum())


def group_rows(groups: Any, name: str, n_rows: int) -> People:
    """Return people, in the order in which they come, whose rows are numbers of rows.

    Raises
    ------
    ValueError
        If there are not as many ids as rows, or one is missing.
    """
    ids = ids_of(groups)
    if ids is None or len(ids) != n_rows:
        raise ValueError(
            f"{name} must be a list of one id for each row, such as a number or a text."
        )
    if any(map(is_missing, ids)):
        raise ValueError(f"{name} must have an id for each row, but some are missing.")
    known: dict[Any, int] = {}
    codes = np.fromiter(
        (known.setdefault(one, len(known)) for one in ids), np.intp, n_rows
    )
    order = np.argsort(codes, kind="stable")
    return People(order, np.bincount(codes, minlength=1).cumsum())


def ids_of(groups: Any) -> list[Any] | None:
    """Return ids as a list, each as it was given; None if they are no list of ids."""
    if isinstance(groups, np.ndarray) and groups.dtype.kind in "mM":
        groups = groups.astype(f"{groups.dtype.kind}8[us]")  # others become numbers
    if hasattr(groups, "tolist") or hasattr(groups, "to_list"):
        one_dimension = len(getattr(groups, "shape", ())) == 1
        listed = getattr(groups, "tolist", None) or groups.to_list
        ids = listed() if one_dimension else None
    else:  # an iterator is used up once it was read
        once = isinstance(groups, Iterator)
        ids = list(groups) if isinstance(groups, Iterable) and not once else None
    hashable = ids is not None and all(isinstance(one, Hashable) for one in ids)
    return ids if hashable and not isinstance(groups, str | bytes) else None


def key_of_id(one: Any) -> Any:
    """Return what an id is compared by between tables, which may be of other types."""
    if isinstance(one, bytes):
        one = one.decode(errors="replace")
    text = str(one).strip()
    with suppress(ValueError, OverflowError):
        return int(number) if (number := float(text)).is_integer() else number
    with suppress(ValueError):
        return datetime.datetime.fromisoformat(text)
    return text


def of_people(records: Any, people: People | None) -> Any:
    """Return records, or targets, grouped; as they are without people, or None."""
    if people is None or records is None:
        return records
    return People(take_rows(records, people.rows), people.ends)


def rows_of(records: Any) -> Any:
    """Return rows, person by person if a record is a person; or records themselves."""
    return records.rows if isinstance(records, People) else records


def on_rows(function: Callable[..., Any], records: Any, *others: Any) -> Any:
    """Return what a function of rows makes of them, of the same people if they are."""
    made = function(*map(rows_of, (records, *others)))
    return People(made, records.ends) if isinstance(records, People) else made


def take_rows(records: Records, rows: Any) -> Records:
    """Return some records, or targets, by number; None if there are none."""
    if records is None:
        return None
    if isinstance(records, People):
        return records.take(rows)
    if not hasattr(records, "iloc"):
        return records[rows]
    # The index is no part of a record, and would have one row several times.
    return records.iloc[rows].reset_index(drop=True)


def copy_records(records: Records) -> Records:
    """Return records that may be worked on in place, or None if there are none."""
    if records is None:
        return None
    if isinstance(records, People):
        return on_rows(copy_records, records)
    if is_pandas(records):
        return records.copy().reset_index(drop=True)
    return records.copy() if hasattr(records, "copy") else records.clone()
