"""Fitted state, which must never be half of one fit and half of another."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from skparisk._checks import hide_counts
from skparisk._dask import in_memory, in_parts, is_dask

Fit = TypeVar("Fit", bound=Callable[..., Any])


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
                if is_dask(data):
                    parts = name == "X" and getattr(estimator, "_takes_parts", False)
                    given.arguments[name] = in_parts(data) if parts else in_memory(data)
            return fit(*given.args, **given.kwargs)
        except BaseException:
            _forget(estimator)
            raise

    return hide_counts(cast(Fit, fit_whole))


def _forget(estimator: object) -> None:
    for name in list(vars(estimator)):
        if name.endswith("_") and not name.startswith("_"):
            delattr(estimator, name)
