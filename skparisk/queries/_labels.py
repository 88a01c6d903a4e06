"""Class labels as queries see them: numbers, of classes that are public."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import (
    Differences,
    PairDifferences,
    is_one_by_one,
    one_by_one,
)
from skparisk.reference._base import RecordPool
from skparisk.reference._rows import count_rows

# So many records for each class are looked at first: mostly they settle it, and need no
# count of all.
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
    # A label above all classes, or NaN, would be one past the end.
    codes = np.searchsorted(known, labels).clip(max=len(known) - 1)
    if (known[codes] != labels).any():
        raise ValueError(f"Some labels are not among the classes {classes}.")
    return codes


def split_offsets(
    y: Any, classes: tuple[float, ...]
) -> tuple[Any, NDArray[np.float64] | None]:
    """Return labels, and scores that records have beforehand, if these are there.

    In columns beside the labels, one for each class but the first; returned in lines.
    """
    if np.ndim(y) != 2 or np.shape(y)[1] != len(classes):
        return y, None
    columns = np.asarray(y, dtype=np.float64)
    return columns[:, 0], columns[:, 1:].T


def pool_codes(pool: RecordPool, classes: tuple[float, ...]) -> NDArray[np.intp]:
    """Return the codes of a pool's labels, which must be there."""
    if pool.y is None:
        raise ValueError("The query needs labels, but the reference has none (y).")
    return label_codes(pool.y, classes)


def where_classes_present(
    evaluate: Differences,
    codes: NDArray[np.intp],
    classes: tuple[float, ...],
    n_outputs: int,
) -> Differences:
    """Return what evaluates pairs of which no database lacks a class.

    Others have no answer: their differences are infinite. `codes` are those of the
    pool.
    """

    def differences(pairs: NeighborPairs) -> PairDifferences:
        missing = _lack_classes(pairs, codes, len(classes))
        if not missing.any():
            return evaluate(pairs)
        code = int(np.argmax(missing.any(axis=0)))
        failure = (
            f"the class {classes[code]:g} (number {code} of {len(classes)}) is "
            f"missing; n_records={pairs.n_records} is too small for a class this rare "
            "in the reference"
        )
        whole = np.flatnonzero(~missing.any(axis=1))
        values = np.full((len(pairs), n_outputs), np.inf)
        if not whole.size:
            return PairDifferences(values, failure=failure)
        some = evaluate(pairs.take(whole))
        values[whole] = some.values
        return replace(some, values=values, failure=some.failure or failure)

    return one_by_one(differences) if is_one_by_one(evaluate) else differences


def _lack_classes(
    pairs: NeighborPairs, codes: NDArray[np.intp], n_classes: int
) -> NDArray[np.bool_]:
    """Return which classes a database of each pair lacks, (n_pairs, n_classes)."""
    if pairs.counted:
        of_class = codes[:, None] == np.arange(n_classes)
        first = (pairs.counts @ of_class)[pairs.database]
    else:
        few = codes[pairs.members[:, : _FIRST_RECORDS * n_classes]]
        # Two records of a class among a few are at least one in both databases.
        if all(((few == code).sum(axis=1) >= 2).all() for code in range(n_classes)):
            return np.zeros((len(pairs), n_classes), dtype=bool)
        first = count_rows(codes[pairs.members], n_classes)[pairs.database]
    second = first.copy()
    rows = np.arange(len(pairs))
    second[rows, codes[pairs.removed]] -= 1
    if pairs.replacement is not None:
        second[rows, codes[pairs.replacement]] += 1
    return np.asarray((first == 0) | (second == 0))
