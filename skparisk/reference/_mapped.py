"""Numbers in a file that is mapped to memory, of which only some rows are looked at."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Smaller files are read: that takes no more memory than what is made of them.
_LEAST_BYTES = 2**24
_SHARED = ("r", "r+", "w+")
# Numbers of a stretch that is gone through, and rows that are looked up, before their
# pages are given back: the system brings in 64 kB around each of these.
_NUMBERS_AT_ONCE, _ROWS_AT_ONCE = 2**20, 2**8


@dataclass(frozen=True, eq=False)
class MappedNumbers:
    """Numbers in a file, as doubles: indexed by rows, like an array."""

    # The file, of shape (n_rows, n_columns) or (n_rows,).
    array: NDArray[Any]
    # Shape (n_columns,). The least and the largest number of each, NaN left out.
    low: Floats
    high: Floats
    # Whether a number is missing.
    has_nan: bool
    # Shape (n_columns,). What the numbers of each are divided by.
    units: Floats | None = None

    dtype = np.dtype(np.float64)

    @classmethod
    def of(cls, array: NDArray[Any], name: str) -> Self:
        """Return the numbers of a file, in which there must be no infinity."""
        width = array.shape[1] if array.ndim == 2 else 1
        low, high, has_nan = np.full(width, np.inf), np.full(width, -np.inf), False
        for block in stretches(array):
            columns = np.asarray(block, dtype=np.float64).reshape(len(block), -1)
            if np.isinf(columns).any():
                raise ValueError(f"Input {name} contains infinity.")
            has_nan |= bool(np.isnan(columns).any())
            low = np.fmin(low, np.fmin.reduce(columns, axis=0))
            high = np.fmax(high, np.fmax.reduce(columns, axis=0))
        return cls(array, low, high, has_nan)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, and columns if there are two dimensions."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """One or two."""
        return self.array.ndim

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.array.size

    def __len__(self) -> int:
        return len(self.array)

    def in_units(self, units: Floats) -> Self:
        """Return the same numbers in other units, powers of 2."""
        return replace(
            self,
            low=self.low / units,
            high=self.high / units,
            units=units if self.units is None else units * self.units,
        )

    def __getitem__(self, rows: Any) -> Floats:
        """Return some rows, by number, in the shape of the numbers."""
        found = self._look_up(rows)
        if self.units is not None:
            found /= self.units
        return found

    def _look_up(self, rows: Any) -> Floats:
        if isinstance(rows, slice):
            found = np.array(self.array[rows], dtype=np.float64)
            _give_back(self.array)
            return found
        numbers = np.asarray(rows)
        if numbers.dtype == bool:
            numbers = np.flatnonzero(numbers)
        flat = numbers.ravel()
        order = np.argsort(flat, kind="stable")  # as they are in the file
        found = np.empty((len(flat), *self.shape[1:]))
        for start in range(0, len(flat), _ROWS_AT_ONCE):
            some = order[start : start + _ROWS_AT_ONCE]
            found[some] = self.array[flat[some]]
            _give_back(self.array)
        return found.reshape(*numbers.shape, *self.shape[1:])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all of them, in memory."""
        return np.asarray(self[:], dtype=dtype)


def map_numbers(X: Any, name: str) -> MappedNumbers | None:
    """Return the numbers of a large file that is mapped to memory; None for others.

    Of one that is private to this process ("c") pages cannot be given back, as it may
    have been changed; nor of a view that does not know (None).
    """
    if isinstance(X, MappedNumbers):
        return X
    if not isinstance(X, np.memmap) or X.mode not in _SHARED or X.nbytes < _LEAST_BYTES:
        return None
    if X.ndim not in (1, 2) or X.dtype.kind not in "fiub":
        return None
    return MappedNumbers.of(X, name)


def loaded(records: Any) -> Any:
    """Return numbers of a file in memory; other records as they are."""
    return np.asarray(records) if isinstance(records, MappedNumbers) else records


def stretches(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield all rows in blocks; the pages of a file are given back."""
    step = max(1, _NUMBERS_AT_ONCE * len(array) // max(array.size, 1))
    for start in range(0, len(array), step):
        yield np.asarray(array[start : start + step])
        _give_back(array)


def _give_back(array: NDArray[Any]) -> None:
    """Let the system have the pages of a file again: they can be read once more."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    advice = getattr(mmap, "MADV_DONTNEED", None)  # not on all systems
    if isinstance(base, mmap.mmap) and advice is not None:
        base.madvise(advice)
