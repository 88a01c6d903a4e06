"""Private records in a Dask array or data frame, which may not fit into memory."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from skparisk.reference._parted import Parted

# Partitions that are computed together, so that workers share them.
_AT_ONCE = 4


def is_dask(data: Any) -> bool:
    """Tell if data are a collection of Dask, which is not imported for it."""
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(data))


def in_parts(X: Any) -> Parted:
    """Return the records of a Dask array, or frame, some partitions at a time."""
    if hasattr(X, "columns"):
        head, made = X._meta, X.to_delayed()
    else:
        if X.ndim != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D array instead, in X.")
        head, made = np.empty((0, X.shape[1])), X.rechunk({1: -1}).to_delayed().ravel()
    groups = [made[i : i + _AT_ONCE] for i in range(0, len(made), _AT_ONCE)]
    return Parted([partial(_together, group) for group in groups], head)


def in_memory(data: Any) -> Any:
    """Compute a collection of Dask; return other data as they are."""
    return _computed([data])[0] if is_dask(data) else data


def _together(parts: Any) -> Any:
    """Return the rows of some partitions."""
    found = _computed(parts)
    if isinstance(found[0], np.ndarray):
        return np.concatenate(found)
    return sys.modules["pandas"].concat(found)


def _computed(data: Any) -> Any:
    failure = ""
    try:
        return sys.modules["dask"].compute(*data)
    except Exception as error:  # whose message may show a value
        failure = type(error).__name__
    raise ValueError(
        f"X and y must be data that Dask can compute, but that failed ({failure}): "
        "its message is not shown because it may reveal something about the records."
    )
