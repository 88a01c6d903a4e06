"""What records may be, and private records that are moved there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import is_number
from skparisk.core.sealed import (
    People,
    Records,
    container_of,
    is_missing,
    is_pandas,
    native_columns,
    numbers,
    rows_of,
    values_of,
)
from skparisk.reference._parted import Parted

_Repairs: TypeAlias = Iterator[tuple[NDArray[np.bool_], Any]]


@dataclass(frozen=True)
class Interval:
    """Numbers between two ends.

    Parameters
    ----------
    low, high : float
        The ends, which belong to it. Finite, ``low <= high``.

    missing : bool, default=False
        Whether a value may be missing. If not, the middle replaces a missing value.

    Raises
    ------
    ValueError
        If the ends are not finite, or in the wrong order.

    Examples
    --------
    >>> from skparisk.reference import Interval
    >>> Interval(18, 90).fill
    54.0
    """

    low: float
    high: float
    missing: bool = False

    def __post_init__(self) -> None:
        given = self.low, self.high
        ends = [float(end) if is_number(end) else math.nan for end in given]
        if not (all(map(math.isfinite, ends)) and ends[0] <= ends[1]):
            raise ValueError(
                "A range must have two finite ends (low, high) with low <= high, got "
                f"{given!r}."
            )
        object.__setattr__(self, "low", ends[0])
        object.__setattr__(self, "high", ends[1])

    @property
    def fill(self) -> float:
        """Middle of the interval."""
        return self.low / 2 + self.high / 2

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends, if no value may be missing."""
        return None if self.missing else (self.low, self.high)

    def repairs(self, values: NDArray[Any]) -> _Repairs:
        """Yield the values outside the interval, with replacements."""
        found = numbers(values)
        if not self.missing:
            yield np.isnan(found), self.fill
        yield found < self.low, self.low
        yield found > self.high, self.high


@dataclass(frozen=True)
class Categories:
    """Allowed values: texts, numbers, booleans, and None for a missing value.

    Parameters
    ----------
    values : sequence
        The categories, distinct; NaN is None. Compared with ``==``, so that 1, 1.0 and
        True are one. The first other than None replaces a value outside the categories,
        and a missing one if None is no category.

    Raises
    ------
    ValueError
        If there is no category, or one is there twice or cannot be compared.

    Examples
    --------
    >>> from skparisk.reference import Categories
    >>> Categories(["f", "m"]).default
    'f'
    """

    values: tuple[Any, ...]
    _known: frozenset[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = tuple(None if is_missing(value) else value for value in self.values)
        try:
            known = frozenset(given)
        except TypeError:
            known = frozenset()
        if not known - {None} or len(known) < len(given):
            raise ValueError(
                "categories must be at least one text, number or boolean, and each "
                f"only once, got {list(self.values)!r}."
            )
        object.__setattr__(self, "values", given)
        object.__setattr__(self, "_known", known)

    @property
    def missing(self) -> bool:
        """Whether a value may be missing."""
        return None in self._known

    @property
    def present(self) -> list[Any]:
        """The categories other than None."""
        return [value for value in self.values if value is not None]

    @property
    def default(self) -> Any:
        """The first category other than None."""
        return self.present[0]

    @property
    def ends(self) -> tuple[float, float] | None:
        """Least and largest category, if all are numbers."""
        if not all(isinstance(value, Real) for value in self.values):
            return None
        return float(min(self.values)), float(max(self.values))

    def repairs(self, values: NDArray[Any]) -> _Repairs:
        """Yield the values outside the categories, with replacements."""
        holes = holes_in(values)
        known = np.fromiter(map(self._known.__contains__, values.tolist()), bool)
        yield ~np.where(holes, self.missing, known), self.default


Column: TypeAlias = Interval | Categories | None


def holes_in(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are missing."""
    if values.dtype != object:
        return np.asarray(values != values)
    return np.fromiter(map(is_missing, values), bool, len(values))


def clip_array(array: NDArray[Any], columns: Sequence[Column]) -> NDArray[Any]:
    """Return an array of one or two dimensions whose columns are moved."""
    clipped = array.copy()
    # A view, so that what is changed in it is changed in the copy.
    views = clipped.T if array.ndim > 1 else [clipped]
    for values, column in zip(views, columns, strict=True):
        if column is not None:
            for wrong, value in list(column.repairs(values)):
                values[wrong] = value
    return clipped


@dataclass(frozen=True)
class Domain:
    """Possible records: the allowed values of each column and target.

    Parameters
    ----------
    columns : sequence of Interval, Categories or None
        For each column of the features, by position. None: anything.

    targets : sequence of Interval, Categories or None, default=()
        For each column of the targets. Empty: anything.

    Notes
    -----
    A map to a domain fixed before private records are seen keeps every guarantee:
    neighboring databases stay neighbors, or become equal (:ref:`thm-schema`).

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.reference import Categories, Domain, Interval
    >>> domain = Domain([Interval(18, 90), Categories([0, 1])])
    >>> domain.clip(np.array([[17.5, 1.0], [91.0, 7.0]]))[0]
    array([[18.,  1.],
           [90.,  0.]])
    """

    columns: Sequence[Column]
    targets: Sequence[Column] = ()

    def __post_init__(self) -> None:
        for name in ("columns", "targets"):
            given = tuple(getattr(self, name))
            if not all(isinstance(each, Column) for each in given):
                raise ValueError(
                    f"{name} of a Domain must be Interval, Categories or None, got "
                    f"{given!r}."
                )
            object.__setattr__(self, name, given)

    @property
    def box(self) -> NDArray[np.float64] | None:
        """Lowest and highest values of features, (2, n_columns), if all are numbers."""
        return _box(self.columns)

    @property
    def target_box(self) -> NDArray[np.float64] | None:
        """Lowest and highest targets; None without targets."""
        return _box(self.targets)

    def clip(
        self, X: Records, y: NDArray[Any] | None = None
    ) -> tuple[Records, NDArray[Any] | None]:
        """Clip records to the domain, silently.

        Parameters
        ----------
        X : ndarray or data frame
            Records in the form of a :class:`RecordPool`; they stay unchanged.

        y : ndarray of shape (n_rows,) or (n_rows, n_targets), default=None
            Their targets.

        Returns
        -------
        X : like `X`
            Numbers are moved to the nearest end of their range, and unknown categories
            become the default. In a frame ranges are of floats, and categories of
            objects (pandas) or of a type that has them (polars).

        y : ndarray or None
            The same of targets.

        Raises
        ------
        ValueError
            If there are more or fewer targets than the domain has, or `X` is a sparse
            matrix.
        """
        if isinstance(X, People):
            clipped = self.clip(X.rows, rows_of(y))
            made: Any = tuple(None if x is None else People(x, X.ends) for x in clipped)
            return made
        container = container_of(X)
        if container == "sparse":
            raise ValueError("A sparse matrix cannot be clipped: give a dense array.")
        if isinstance(X, Parted):
            X = X.mapped(lambda records: self.clip(records)[0])
        elif container == "frame":
            X = _clip_frame(X, self.columns)
        elif container == "array":
            X = clip_array(X, self.columns)
        if y is not None and self.targets:
            n_targets = 1 if y.ndim == 1 else y.shape[1]
            if n_targets != len(self.targets):
                raise ValueError(
                    f"The reference has {len(self.targets)} targets, but y has "
                    f"{n_targets}, and the numbers must be equal."
                )
            y = clip_array(y, self.targets)
        return X, y


def _box(columns: Sequence[Column]) -> NDArray[np.float64] | None:
    ends = [None if column is None else column.ends for column in columns]
    known = [pair for pair in ends if pair is not None]
    return np.array(known).T if ends and len(known) == len(ends) else None


def _clip_frame(frame: Any, columns: Sequence[Column]) -> Any:
    """Return a frame of pandas or polars whose columns are moved."""
    pairs = zip(native_columns(frame), columns, strict=True)
    moved = {str(place): _clip_column(*pair) for place, pair in enumerate(pairs)}
    clipped = type(frame)(moved)
    clipped.columns = frame.columns
    return clipped


def _clip_column(series: Any, column: Column) -> Any:
    """Clip a column, and read it again: its type tells nothing of values."""
    if column is None:
        return series.reset_index(drop=True) if is_pandas(series) else series
    values = values_of(series)
    if isinstance(column, Interval):
        return type(series)(clip_array(numbers(values), [column]))
    moved = clip_array(values.astype(object), [column])
    if is_pandas(series):
        return type(series)(moved, dtype=object)
    return type(series)(moved.tolist(), strict=False)  # texts, if there are some
