"""Locks that other processes see, on files that the caller opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

__all__ = ["hold", "lock", "try_lock", "unlock"]

_POLL_SECONDS = 0.002

_held: set[FileIO] = set()


def _close_in_child() -> None:
    """Do not hold what the process that this one was forked from has locked."""
    while _held:
        _held.pop().close()


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_close_in_child)


@contextmanager
def hold(file: FileIO) -> Iterator[None]:
    """Hold the lock of a file."""
    _held.add(file)
    try:
        lock(file.fileno())
        try:
            yield
        finally:
            unlock(file.fileno())
    finally:
        _held.discard(file)


def lock(fd: int) -> None:
    """Wait for the lock of a file."""
    from filelock import lock_descriptor

    lock_descriptor(fd, poll_interval=_POLL_SECONDS)


def try_lock(fd: int) -> bool:
    """Lock a file if nobody else has."""
    from filelock import lock_descriptor

    return lock_descriptor(fd, blocking=False)


def unlock(fd: int) -> None:
    """Unlock a file: also for processes that were forked while it was locked."""
    from filelock import unlock_descriptor

    unlock_descriptor(fd)
