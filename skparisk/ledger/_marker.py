"""How a process tells those that it started that it has an open ledger.

A worker of joblib may be older than the ledger, so nothing can be handed to it. The
process with the ledger holds a lock on a file that is named after it, and the others
look for the names of those that they descend from. Those that are started while it is
open also find the file's path in their environment, wherever they look for others.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from skparisk.ledger._system import ancestors

# Paths of markers, one a line.
_VARIABLE = "SKPARISK_LEDGER"


class Marker:
    """A locked file that says: a ledger is open in this process."""

    def __init__(self) -> None:
        # Of this process alone, also where another machine shares the files.
        self._prefix = f"{os.getpid()}-{uuid4().hex}-"
        # None, or one; one more where a signal handler interrupts what acquires it.
        self._held: list[tuple[int, str]] = []

    def acquire(self) -> None:
        """Tell the processes that this one started, or will start, if not told yet."""
        if self._held:
            return
        folder = _folder()
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if _own_folder() is None:
            raise PermissionError(
                f"{folder} is not a directory of this user, so that other processes "
                "could not be told that a ledger is open here: set TMPDIR to a "
                "directory of your own."
            )
        if os.name == "posix":  # pragma: no branch
            _sweep(folder)
        fd, path = self._make(folder)
        self._held.append((fd, path))
        os.environ[_VARIABLE] = "\n".join([path, *self._of_others()])

    def release(self) -> None:
        """No longer tell them."""
        while self._held:
            fd, path = self._held.pop()
            others = self._of_others()
            if others:
                os.environ[_VARIABLE] = "\n".join(others)
            else:
                os.environ.pop(_VARIABLE, None)
            os.close(fd)
            Path(path).unlink(missing_ok=True)

    def leave(self) -> tuple[str, ...]:
        """Leave it to the process that this one was forked from; return where it is.

        It stays open, and so locked even if that process is killed.
        """
        return tuple(path for _, path in self._held)

    def in_an_ancestor(self) -> bool:
        """Tell if a process that this one descends from has an open ledger."""
        if any(map(_is_held, self._of_others())):
            return True
        paths = _markers()
        pids = ancestors() if paths else set()
        named = [path for path in paths if path.name.partition("-")[0] in pids]
        return any(_is_held(str(path)) for path in named)

    def _make(self, folder: Path) -> tuple[int, str]:
        while True:
            fd, path = tempfile.mkstemp(prefix=self._prefix, dir=folder)
            if _try_lock(fd) and os.path.exists(path):
                return fd, path
            os.close(fd)  # it is swept away, or was before it was locked

    def _of_others(self) -> list[str]:
        """Return the markers in the environment that are not of this process."""
        paths = os.environ.get(_VARIABLE, "").split("\n")
        return [path for path in paths if path and self._prefix not in path]


def any_held() -> bool:
    """Tell if any process of this user on this machine has an open ledger."""
    return any(_is_held(str(path)) for path in _markers())


def _markers() -> list[Path]:
    folder = _own_folder()
    return [] if folder is None else list(folder.iterdir())


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


def _is_held(path: str) -> bool:
    with _tried(path) as free:
        return not free


def _sweep(folder: Path) -> None:
    """Remove the markers that nobody holds: of processes that were killed."""
    for path in folder.iterdir():
        with _tried(str(path)) as free:
            if free:  # and nobody else can lock it until it is gone
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def _tried(path: str) -> Iterator[bool]:
    """Lock a marker if nobody holds it, and tell if so."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # released since it was listed
        yield True
        return
    except OSError:  # it is of another user
        yield False
        return
    try:
        yield _try_lock(fd)
    finally:
        os.close(fd)  # unlocks


def _try_lock(fd: int) -> bool:
    """Lock a file, until it is closed, unless somebody else has.

    Not by SQLite, whose locks are those of one process: a process that is forked shares
    this one, and so keeps it when the one it was forked from is killed.
    """
    try:
        if sys.platform == "win32":  # pragma: no cover
            import msvcrt

            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
