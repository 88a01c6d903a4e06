"""Class labels as queries see them: numbers, of classes that are public."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.neighbors import NeighborPairs, count_rows

__all__ = ["check_classes", "check_classes_present", "label_codes"]

# So many records for each class are looked at first.
_FIRST_RECORDS = 64


def check_classes(classes: Any) -> tuple[float, ...]:
    """Return at least two different finite numbers, sorted."""
    numbers = np.asarray(classes, dtype=np.float64).ravel()
    unique = np.unique(numbers)
    if len(unique) < 2 or len(unique) != len(numbers) or not np.isfinite(unique).all():
        raise ValueError(
            "classes must be at least two different finite numbers, one for each "
            f"class; got {classes!r}."
        )
    return tuple(unique.tolist())


def label_codes(y: Any, classes: tuple[float, ...]) -> NDArray[np.intp]:
    """Return the index of each label in the sorted classes.

    A label that is no class is a ValueError that does not say which: it may be
    private.
    """
    labels, known = np.asarray(y, dtype=np.float64), np.asarray(classes)
    if labels.ndim != 1:
        raise ValueError(f"Labels must have one dimension, got shape {labels.shape}.")
    codes = np.searchsorted(known, labels).clip(max=len(known) - 1)
    if (known[codes] != labels).any():
        raise ValueError(f"There are labels that are none of the classes {classes}.")
    return codes


def check_classes_present(
    pairs: NeighborPairs, codes: NDArray[np.intp], classes: tuple[float, ...]
) -> None:
    """Refuse sampled databases without a class: `codes` are those of the pool."""
    n_classes = len(classes)
    few = codes[pairs.records[:, : _FIRST_RECORDS * n_classes]]
    # Two records of a class among a few are at least one in both databases.
    if all(((few == code).sum(axis=1) >= 2).all() for code in range(n_classes)):
        return
    first = count_rows(codes[pairs.records], n_classes)
    second = first.copy()
    rows = np.arange(len(pairs))
    second[rows, codes[pairs.removed]] -= 1
    if pairs.replacement is not None:
        second[rows, codes[pairs.replacement]] += 1
    missing = (first == 0) | (second == 0)
    if missing.any():
        code = int(np.argmax(missing.any(axis=0)))
        raise ValueError(
            f"The class {classes[code]:g} (number {code} of {n_classes}) is missing in "
            f"a sampled database, in {missing.any(axis=1).sum()} of {len(pairs)} pairs "
            f"of a block: n_records={pairs.n_records} is too few for how rare it is in "
            "the reference."
        )
