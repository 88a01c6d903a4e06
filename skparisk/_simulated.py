"""Fits that are simulated on public records: there is nothing private to recognize."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SIMULATED = ContextVar("simulated", default=False)


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
