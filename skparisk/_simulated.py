"""Fits that are simulated on public records: there is nothing private to recognize."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SIMULATED = ContextVar("simulated", default=False)


def in_own_context(function: _Function) -> _Function:
    """Let all that a function sets for a simulation end with it.

    Where an interruption hits the very exit of a `with`, that is not over, and what is
    released later would not be charged.
    """

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return copy_context().run(function, *args, **kwargs)

    return cast(_Function, run)


@contextmanager
def simulated() -> Iterator[None]:
    """Let what is fitted here be drawn from its own reference."""
    before = _SIMULATED.get()
    try:  # first of all: an interruption must not leave it set
        _SIMULATED.set(True)
        yield
    finally:
        _SIMULATED.set(before)


def is_simulated() -> bool:
    """Tell if the records of a fit are public, as those of its reference."""
    return _SIMULATED.get()
