"""How a process tells those that it started that it has an open ledger.

A worker of joblib may be older than the ledger, so nothing can be handed to it. The
process with the ledger holds a lock on a file that is named after it, and the others
look for the names of those that they descend from.
"""

from __future__ import annotations

import multiprocessing
import os
import stat
import tempfile
from pathlib import Path

from skparisk.ledger._locks import lock, try_lock, unlock

__all__ = ["Marker", "in_an_ancestor"]


class Marker:
    """A locked file that says: a ledger is open in this process."""

    def __init__(self) -> None:
        # None, or one.
        self._held: list[tuple[int, str]] = []

    def acquire(self) -> None:
        """Tell the processes that this one started, or will start."""
        folder = _folder()
        folder.mkdir(mode=0o700, exist_ok=True)
        if _own_folder() is None:
            raise PermissionError(
                f"{folder} is not a directory of this user, so that other processes "
                "could not be told that a ledger is open here: set TMPDIR to a "
                "directory of your own."
            )
        fd, path = tempfile.mkstemp(prefix=f"{os.getpid()}-", dir=folder)
        lock(fd)
        self._held.append((fd, path))

    def release(self) -> None:
        """No longer tell them."""
        while self._held:
            fd, path = self._held.pop()
            unlock(fd)
            os.close(fd)
            Path(path).unlink(missing_ok=True)

    def leave(self) -> list[str]:
        """Leave it to the process that this one was forked from; return where it is."""
        for fd, _ in self._held:
            os.close(fd)
        return [path for _, path in self._held]


def in_an_ancestor() -> bool:
    """Tell if a process that this one descends from has an open ledger."""
    folder = _own_folder()
    markers = [] if folder is None else list(folder.iterdir())
    if not markers:
        return False
    ancestors = _ancestors()
    return any(
        _is_locked(path) for path in markers if path.name.partition("-")[0] in ancestors
    )


def _folder() -> Path:
    return Path(tempfile.gettempdir(), f"skparisk-{_user()}")


def _own_folder() -> Path | None:
    """Return the folder if it is there, and nobody else can have put it there."""
    try:
        folder = _folder()  # maybe there is no place for temporary files at all
        status = folder.lstat()
    except FileNotFoundError:
        return None
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == _user()
    return folder if own else None


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # released since it was listed
        return False
    free = try_lock(fd)
    os.close(fd)  # unlocks
    return not free


def _ancestors() -> set[str]:
    """Return the processes that started this one; all of them where /proc tells."""
    ancestors = set()
    logical = multiprocessing.parent_process()
    if logical is not None:  # what a server forks is no child of who asked for it
        ancestors.add(str(logical.pid))
    pid = str(os.getppid())
    while pid not in ("0", ""):
        ancestors.add(pid)
        pid = _parent(pid)
    return ancestors


def _parent(pid: str) -> str:
    try:
        status = Path("/proc", pid, "stat").read_bytes()
    except OSError:
        return ""
    # "pid (name) state parent ...", where the name may hold anything.
    return status.rpartition(b")")[2].split()[1].decode()
