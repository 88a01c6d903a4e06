"""All numbers that an object, or its pickle, holds, and where."""

import re
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from types import CellType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.core.sealed import is_frame
from skparisk.reference._records import columns_of

# Fractions of these denominators are shares and settings, and may be equal by chance.
_SHARES = 240
_DECIMAL = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")
# Of numbers that are written in bytes: fewer digits may be there by chance.
_FEWEST_DIGITS = 6
_BYTES = (bytes, bytearray, memoryview, array)
# Where functions keep what they were made with.
_OF_FUNCTIONS = ("__closure__", "__defaults__", "__kwdefaults__", "__self__")
_OF_PARTIALS = ("func", "args", "keywords")


def places_of_numbers(thing: Any) -> dict[float, str]:
    """Return all telling floats that can be reached from an object, and where."""
    found: dict[float, str] = {}
    seen: dict[int, Any] = {}
    left: list[tuple[str, Any]] = [("", thing)]
    while left:
        place, value = left.pop()
        if id(value) in seen or isinstance(value, type | ModuleType):
            continue
        seen[id(value)] = value  # held, as an identity may be used again
        own, inside = _look_at(value)
        found = {number: _join(place, name) for number, name in own.items()} | found
        left += reversed([(_join(place, name), part) for name, part in inside])
    return found


def _look_at(value: Any) -> tuple[dict[float, str], list[tuple[str, Any]]]:
    """Return the numbers that a value is made of, and what else it holds."""
    if isinstance(value, str):
        return dict.fromkeys(_in_text(value), ""), []
    if isinstance(value, _BYTES):
        return dict.fromkeys(numbers_in(bytes(value)), ""), []
    if isinstance(value, Decimal | Fraction):
        return _placed(np.array(float(value))), []
    if isinstance(value, bool | int | float | complex | np.generic | np.ndarray):
        return _look_at_array(np.asarray(value))
    return {}, [(str(name), part) for name, part in _parts(value)]


def _look_at_array(
    array: NDArray[Any],
) -> tuple[dict[float, str], list[tuple[str, Any]]]:
    if array.dtype.names is not None:
        return {}, [(name, array[name]) for name in array.dtype.names]
    if array.dtype.kind == "c":
        return {}, [("real", array.real), ("imag", array.imag)]
    if array.dtype.kind in "iufb":
        return _placed(array), []
    # Objects, texts and bytes one by one; dates are no numbers.
    return {}, [] if array.dtype.kind in "mM" else _numbered(array.ravel().tolist())


def _placed(array: NDArray[Any]) -> dict[float, str]:
    flat = np.ravel(array)
    known = telling(flat)
    if not array.ndim:
        return dict.fromkeys(known, "")
    return {
        float(number): str(i)
        for i, number in reversed([*enumerate(flat.tolist())])
        if float(number) in known
    }


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what an object holds, with names."""
    if isinstance(value, Mapping):
        yield from value.items()
        yield from ((f"key {i}", key) for i, key in enumerate(value))
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from enumerate(value)
    elif isinstance(value, CellType) and value != CellType():  # which is empty
        yield "contents", value.cell_contents
    yield from _columns(value)
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            own = f"_{kind.__name__.lstrip('_')}{name}" if private else name
            yield name, getattr(value, own, None)
    if callable(value):
        for name in (*_OF_FUNCTIONS, *_OF_PARTIALS):
            yield name, getattr(value, name, None)


def _columns(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the columns of a table, and of what it has for an index."""
    if is_frame(value):
        yield from zip(map(str, value.columns), columns_of(value), strict=True)
        yield "columns", list(value.columns)
        yield "index", getattr(value, "index", None)
    elif hasattr(value, "to_numpy") and hasattr(value, "dtype"):  # a series, an index
        yield "values", value.to_numpy()
        yield "index", getattr(value, "index", None)
        yield "categories", getattr(value.dtype, "categories", None)


def _numbered(values: list[Any]) -> list[tuple[str, Any]]:
    return [(str(i), value) for i, value in enumerate(values)]


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place and name else place or name


def _in_text(text: str) -> set[float]:
    """Return all telling numbers that are written in a text."""
    return telling([float(number) for number in _DECIMAL.findall(text)])


def numbers_in(document: bytes) -> set[float]:
    """Return all telling numbers of a byte string: doubles anywhere, and decimals."""
    found: set[float] = set()
    for offset in range(8):
        whole = document[offset : offset + (len(document) - offset) // 8 * 8]
        for order in "<>":
            found |= telling(np.frombuffer(whole, f"{order}f8"))
    written = _DECIMAL.findall(document.decode("latin-1"))
    long = (text for text in written if sum(map(str.isdigit, text)) >= _FEWEST_DIGITS)
    return found | telling([float(number) for number in long])


def telling(values: Any) -> set[float]:
    """Return the finite numbers that are not equal by chance: no plain fractions."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    numbers = numbers[np.isfinite(numbers)]
    small = np.where(np.abs(numbers) < 1, numbers, np.pi)
    # No shares of records, and no thirds, which a projected release of classes may be.
    numbers = numbers[small * _SHARES != np.round(small * _SHARES)]
    return set(numbers[numbers != np.round(numbers)].tolist())
