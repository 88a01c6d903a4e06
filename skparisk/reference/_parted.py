"""Private records of which only a part at a time is in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skparisk.core.sealed import PublicForm, Records, take_rows


class Parted:
    """A table in parts, each of which is made anew whenever its rows are looked at.

    Slices of rows are read part by part, as sums need; anything else loads all rows.
    Only the last part is kept.

    Parameters
    ----------
    parts : sequence of callable
        Each returns some rows, an array or a data frame, the same at each call.

    head : array or data frame
        The same columns without rows.

    mapped_by : sequence of callable, default=()
        Functions of records that act on each row by itself: what a part goes through.

    ends : ndarray of shape (n_parts,), default=None
        How many rows there are up to the end of each part. None: counted.
    """

    def __init__(
        self,
        parts: Sequence[Callable[[], Records]],
        head: Records,
        mapped_by: Sequence[Callable[[Records], Records]] = (),
        ends: NDArray[np.intp] | None = None,
    ) -> None:
        self.head = head
        if ends is not None:
            self._ends = ends
        self._parts, self._mapped_by = parts, mapped_by
        self._kept: tuple[int, Records] = (-1, None)

    def mapped(self, function: Callable[[Records], Records]) -> Self:
        """Return the records that a function of rows makes of these."""
        mapped_by = (*self._mapped_by, function)
        ends = vars(self).get("_ends")
        return type(self)(self._parts, function(self.head), mapped_by, ends)

    def copy(self) -> Self:
        """Return the same records: what slices return may be worked on in place."""
        return self.mapped(lambda records: records)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns; each part was made once, to know how many there are."""
        return (len(self), *self.head.shape[1:])

    @property
    def ndim(self) -> int:
        """As of the parts."""
        return len(self.head.shape)

    @property
    def dtype(self) -> Any:
        """As of the parts, which are arrays."""
        return self.head.dtype

    def __len__(self) -> int:
        return int(self._ends[-1])

    @cached_property
    def _ends(self) -> NDArray[np.intp]:
        return np.cumsum([len(self._part(i)) for i in range(len(self._parts))])

    def _part(self, number: int) -> Records:
        if self._kept[0] != number:
            self._kept = (-1, None)
            part = self._parts[number]()
            for function in self._mapped_by:
                part = function(part)
            self._kept = (number, part)
        return self._kept[1]

    def __getitem__(self, rows: Any) -> Records:
        """Return some rows, in a slice, or by number of all of them."""
        if not isinstance(rows, slice):
            return np.asarray(self)[rows]
        start, stop, _ = rows.indices(len(self))
        found = []
        while start < stop:
            number = int(np.searchsorted(self._ends, start, side="right"))
            part, end = self._part(number), int(self._ends[number])
            first = end - len(part)
            some = take_rows(part, slice(start - first, stop - first))
            if len(some) != min(stop, end) - start:
                raise ValueError("X must not change while it is read.")
            found.append(some)
            start += len(some)
        if stop == len(self):  # the next look is mostly one from the beginning
            self._kept = (-1, None)
        if not found:
            return self.head
        if isinstance(self.head, np.ndarray):
            return np.concatenate(found)
        # Parts may have types of their own, which narwhals does not put together.
        return nw.get_native_namespace(found[0]).concat(found)

    def gathered(self, function: Callable[[Records], NDArray[Any]]) -> NDArray[Any]:
        """Return what a function of rows returns for each of them, in memory."""
        found = np.empty((0,))
        for number, end in enumerate(self._ends):
            each = function(self._part(number))
            if not number:  # the others are put beside it as they come
                found = np.empty((len(self), *each.shape[1:]), dtype=each.dtype)
            found[end - len(each) : end] = each
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all rows, in memory."""
        return np.asarray(self[:], dtype=dtype)


def read_like(form: PublicForm, X: Any, y: Any = None) -> tuple[Any, Any]:
    """Return private records and targets in a public form; those in parts by parts."""
    if not isinstance(X, Parted):
        return form.read(X, y)
    if y is not None and form.targets is not None:
        y = form.targets.read(y)
    return X.mapped(form.read_features), y
