"""Bytes between the fields of what is released: nobody set them."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from skparisk.queries._state import find_places

_TREE = ("sklearn.tree._tree", "Tree")


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
