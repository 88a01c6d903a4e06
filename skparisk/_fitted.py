"""Fitted state, which must never be half of one fit and half of another."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np

from skparisk._checks import hide_counts
from skparisk.reference._parted import Parted

Fit = TypeVar("Fit", bound=Callable[..., Any])

# Partitions that are computed together, so that workers share them.
_AT_ONCE = 4


def whole_fit(fit: Fit) -> Fit:
    """Let a method set all fitted attributes, or leave none if it fails.

    Also where it fails after a release, as by a warning that is an error: the claim may
    not yet say all that it has to. Collections of Dask are loaded, but the private
    records of an estimator that takes them in parts.
    """

    @wraps(fit)
    def fit_whole(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        _forget(estimator)
        try:
            given = signature(fit).bind(estimator, *args, **kwargs)
            for name, data in given.arguments.items():
                if _is_dask(data):
                    parts = name == "X" and getattr(estimator, "_takes_parts", False)
                    loaded = _in_parts(data) if parts else _computed([data])[0]
                    given.arguments[name] = loaded
            return fit(*given.args, **given.kwargs)
        except BaseException:
            _forget(estimator)
            raise

    return hide_counts(cast(Fit, fit_whole))


def fitted_names(estimator: object) -> list[str]:
    """Return the names of fitted attributes."""
    return [n for n in vars(estimator) if n.endswith("_") and not n.startswith("_")]


def _forget(estimator: object) -> None:
    for name in fitted_names(estimator):
        delattr(estimator, name)


def _is_dask(data: Any) -> bool:
    """Tell if data are a collection of Dask, which is not imported for it."""
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(data))


def _in_parts(X: Any) -> Parted:
    """Return the records of a Dask array, or frame, some partitions at a time."""
    if hasattr(X, "columns"):
        head, made = X._meta, X.to_delayed()
    else:
        if X.ndim != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D array instead, in X.")
        head, made = np.empty((0, X.shape[1])), X.rechunk({1: -1}).to_delayed().ravel()
    groups = [made[i : i + _AT_ONCE] for i in range(0, len(made), _AT_ONCE)]
    return Parted([partial(_together, group) for group in groups], head)


def _together(parts: Any) -> Any:
    """Return the rows of some partitions."""
    found = _computed(parts)
    if isinstance(found[0], np.ndarray):
        return np.concatenate(found)
    return sys.modules["pandas"].concat(found)


def _computed(data: Any) -> Any:
    """Return collections of Dask in memory."""
    failure = ""
    try:
        return sys.modules["dask"].compute(*data)
    except Exception as error:  # whose message may show a value
        failure = type(error).__name__
    raise ValueError(
        f"X and y must be data that Dask can compute, but that failed ({failure}): "
        "its message is not shown because it may reveal something about the records."
    )
