"""What a column may hold: a range, or categories."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.core.sealed import is_missing, numbers

_Repairs: TypeAlias = Iterator[tuple[NDArray[np.bool_], Any]]


@dataclass(frozen=True)
class Interval:
    """Numbers, dates or durations between two ends.

    Parameters
    ----------
    low, high : float, numpy.datetime64 or numpy.timedelta64
        The ends, which belong to it. Finite, ``low <= high``.

    missing : bool, default=False
        Whether a value may be missing. If not, the middle stands for what is missing.

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

    low: Any
    high: Any
    missing: bool = False

    def __post_init__(self) -> None:
        ends = self.low, self.high
        dates = np.datetime64, np.timedelta64  # the second is a number to numpy
        if not (type(self.low) is type(self.high) and isinstance(self.low, dates)):
            numbers = all(isinstance(end, Real) for end in ends)
            numbers = numbers and not any(isinstance(end, dates) for end in ends)
            ends = (float(self.low), float(self.high)) if numbers else (math.nan,) * 2
            if not all(map(math.isfinite, ends)):
                ends = math.nan, math.nan
        if not ends[0] <= ends[1]:
            raise ValueError(
                "A range must have two finite ends (low, high) with low <= high, got "
                f"({self.low!r}, {self.high!r})."
            )
        object.__setattr__(self, "low", ends[0])
        object.__setattr__(self, "high", ends[1])

    @property
    def fill(self) -> Any:
        """The middle."""
        if isinstance(self.low, float):
            return self.low / 2 + self.high / 2
        return self.low + (self.high - self.low) // 2

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends, where these are numbers and all values have to be there."""
        numbers = isinstance(self.low, float) and not self.missing
        return (self.low, self.high) if numbers else None

    def repairs(self, values: NDArray[Any]) -> _Repairs:
        """Yield which values are outside, and what takes their place."""
        comparable = self._comparable(values)
        if not self.missing:
            yield comparable != comparable, self.fill
        yield comparable < self.low, self.low
        yield comparable > self.high, self.high

    def _comparable(self, values: NDArray[Any]) -> NDArray[Any]:
        if not isinstance(self.low, float):
            return values.astype(f"{self.low.dtype.kind}8[us]")
        return numbers(values)


@dataclass(frozen=True)
class Categories:
    """Some values: texts, numbers, booleans, and None where a value may be missing.

    Parameters
    ----------
    values : sequence
        The categories, distinct; NaN is None. Compared with ``==``, so that 1, 1.0 and
        True are one.

    default : object, default=None
        What stands for a value that is no category, and for one that is missing if
        None is no category. None: the first category that is not None.

    Raises
    ------
    ValueError
        If there is no category, one is there twice or cannot be compared, or the
        default is none of them.

    Examples
    --------
    >>> from skparisk.reference import Categories
    >>> Categories(["f", "m"]).default
    'f'
    """

    values: tuple[Any, ...]
    default: Any = None
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
        default = self.present[0] if self.default is None else self.default
        if default not in known:
            raise ValueError(f"default must be a category, got {default!r}.")
        object.__setattr__(self, "default", default)
        object.__setattr__(self, "_known", known)

    @property
    def missing(self) -> bool:
        """Whether a value may be missing."""
        return None in self._known

    @property
    def present(self) -> list[Any]:
        """Those that are not None."""
        return [value for value in self.values if value is not None]

    @property
    def ends(self) -> tuple[float, float] | None:
        """The least and the largest, where all categories are numbers."""
        if not all(isinstance(value, Real) for value in self.values):
            return None
        return float(min(self.values)), float(max(self.values))

    def repairs(self, values: NDArray[Any]) -> _Repairs:
        """Yield which values are no category, and what takes their place."""
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
