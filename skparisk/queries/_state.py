"""What a fitted estimator holds: numbers at named places, to read and to fill.

A place is an attribute, or one of an object inside: ``coef_``,
``steps.ridge.coef_``, ``estimators_.0.coef_``.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

Numbers: TypeAlias = Mapping[str, NDArray[np.float64]]

# What holds attributes, and nothing that a fit learns.
_CLOSED = (
    FrozenEstimator,
    type,
    types.ModuleType,
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
)
_TREE = ("sklearn.tree._tree", "Tree")


def find_places(fitted: Any, *, frozen: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield each place of an object once; inside a FrozenEstimator if `frozen`."""
    seen: set[int] = set()
    left: list[tuple[str, Any]] = [("", fitted)]
    while left:
        place, value = left.pop()
        shared = not isinstance(value, float | int | str)
        if shared and id(value) in seen:
            continue
        seen.add(id(value))
        if place:
            yield place, value
        if frozen and isinstance(value, FrozenEstimator):
            value = vars(value)
        inside = list(_children(value))
        left += [
            (f"{place}.{name}" if place else name, child)
            for name, child in reversed(inside)
        ]


def find_numbers(fitted: Any) -> dict[str, NDArray[np.float64]]:
    """Return the floats that can be read from a fitted estimator, and put back."""
    found = {}
    for place, value in find_places(fitted):
        if isinstance(value, np.ndarray) and value.ndim:
            if value.dtype.kind == "f" and value.size:
                found[place] = value.astype(np.float64)
        elif _is_float(value) and _can_be_set(fitted, place):
            found[place] = np.asarray(value, dtype=np.float64)
    return found


def read(fitted: Any, place: str) -> Any:
    """Return what stands at a place.

    Raises AttributeError, KeyError, IndexError or ValueError if there is none.
    """
    value = fitted
    for name in place.split(".") if place else ():
        value = _child(value, name)
    return value


def fill(fitted: Any, numbers: Numbers) -> None:
    """Put numbers at places, arrays in place for all who share them, or raise."""
    for place, values in numbers.items():
        parent, _, name = place.rpartition(".")
        holder = read(fitted, parent)
        old: Any = None
        with suppress(AttributeError, LookupError):
            old = _child(holder, name)
        is_same = isinstance(old, np.ndarray) and old.shape == values.shape
        if is_same and old.ndim and old.dtype.kind == "f":
            old[...] = values
            continue
        value = values.copy() if values.ndim else float(values)
        if isinstance(holder, dict | list):
            holder[_key(holder, name)] = value  # type: ignore[index]
        else:
            setattr(holder, name, value)


def _is_float(value: Any) -> bool:
    return isinstance(value, float | np.floating) or (
        isinstance(value, np.ndarray) and value.dtype.kind == "f"
    )


def parent_of(place: str) -> str:
    """Return the place of the object that holds a place; "" is the whole."""
    return place.rpartition(".")[0]


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, child in value.items():
            plain = isinstance(key, str | int) and not isinstance(key, bool)
            if plain and "." not in str(key):
                yield str(key), child
    elif isinstance(value, list | tuple):
        names: set[str | None] = {None}
        for number, child in enumerate(value):
            name = _name_of(child)
            if name is None or name in names:
                yield str(number), child
            else:  # a step: its name, and what has it
                yield name, child[1]
            names.add(name)
    elif isinstance(value, np.ndarray):
        if value.dtype == object:
            yield from ((str(i), child) for i, child in enumerate(value.flat))
    elif hasattr(value, "__dict__") and not isinstance(value, _CLOSED):
        yield from vars(value).items()


def _child(holder: Any, name: str) -> Any:
    if isinstance(holder, dict):
        return holder[_key(holder, name)]
    if isinstance(holder, list | tuple):
        for child in holder:
            if _name_of(child) == name:
                return child[1]
        return holder[int(name)]
    if isinstance(holder, np.ndarray):
        return holder.flat[int(name)]
    return getattr(holder, name)


def _key(holder: Any, name: str) -> str | int:
    if isinstance(holder, dict):
        return name if name in holder else int(name)
    return int(name)


def _name_of(child: Any) -> str | None:
    """Return the name of a step, as pipelines and the like hold them."""
    named = isinstance(child, tuple) and len(child) > 1 and isinstance(child[0], str)
    is_step = named and hasattr(child[1], "get_params")
    return child[0] if is_step and child[0].isidentifier() else None


def _can_be_set(fitted: Any, place: str) -> bool:
    return not isinstance(read(fitted, parent_of(place)), tuple | np.ndarray)


def blank_padding(root: Any) -> None:
    """Set bytes between the fields of nodes of scikit-learn's trees to 0.

    A copy of a tree leaves there what stood in memory before, which may have been
    private, and a pickle has it.
    """
    for _, value in find_places(root, frozen=True):
        if (type(value).__module__, type(value).__name__) == _TREE:
            nodes = value.__getstate__()["nodes"]  # not a copy
            own = np.zeros(nodes.dtype.itemsize, dtype=bool)
            for dtype, offset, *_ in nodes.dtype.fields.values():
                own[offset : offset + dtype.itemsize] = True
            nodes.view(np.uint8).reshape(len(nodes), -1)[:, ~own] = 0


class Unpadded:
    """Copies have blank padding, whatever holds the trees."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = memo[id(self)] = copy.copy(self)
        vars(copied).update(copy.deepcopy(vars(self), memo))
        blank_padding(copied)
        return copied
