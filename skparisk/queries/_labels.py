"""Class labels as queries see them: numbers, of classes that are public."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    """Return the index of each label; an error names no label, which may be private."""
    labels, known = np.asarray(y, dtype=np.float64), np.asarray(classes)
    if labels.ndim != 1:
        raise ValueError(f"Labels must have one dimension, got shape {labels.shape}.")
    # A label above all classes, or NaN, would be one past the end.
    codes = np.searchsorted(known, labels).clip(max=len(known) - 1)
    if (known[codes] != labels).any():
        raise ValueError(f"Some labels are not among the classes {classes}.")
    return codes


def split_offsets(
    y: Any, classes: tuple[float, ...]
) -> tuple[Any, NDArray[np.float64] | None]:
    """Return labels, and scores that stand in columns beside them, in lines."""
    if np.ndim(y) != 2 or np.shape(y)[1] != len(classes):
        return y, None
    columns = np.asarray(y, dtype=np.float64)
    return columns[:, 0], columns[:, 1:].T


def missing_class(
    counts: NDArray[Any], classes: tuple[float, ...], n_records: int
) -> str | None:
    """Say which class a sampled database lacks, if any, from their counts in it."""
    if counts.all():
        return None
    code = int(np.argmin(counts > 0))
    return (
        f"the class {classes[code]:g} (number {code} of {len(classes)}) is missing in "
        f"a database of {n_records} records: n_records is too small for a class this "
        "rare in the reference"
    )
