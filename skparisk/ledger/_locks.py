"""Locks that other processes see, on files that the caller opened."""

from __future__ import annotations

__all__ = ["lock", "try_lock", "unlock"]

_POLL_SECONDS = 0.002


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
