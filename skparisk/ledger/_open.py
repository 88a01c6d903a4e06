"""Open ledgers: which of them a release is charged to, and how other processes know.

A worker of joblib may be older than the ledger, so nothing can be handed to it. The
process with the ledger holds a lock on a file that is named after it, its marker, and
the others look for the names of those that they descend from. Those that are started
while it is open also find the file's path in their environment, wherever they look for
others. A worker of Dask need not descend from its client, and opens a ledger itself.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from skparisk.core.checks import IncompatibleError
from skparisk.core.claim import Certificate, as_certificates
from skparisk.core.compose import compose_basic
from skparisk.exceptions import UnrecordedReleaseError
from skparisk.ledger._book import Book, LedgerEntry, now, refusal

# Paths of markers in the environment, one a line.
_VARIABLE = "SKPARISK_LEDGER"
_PROC = Path("/proc")


class Marker:
    """A locked file that says: a ledger is open in this process."""

    def __init__(self) -> None:
        # Of this process alone, also where another machine shares the files.
        self._prefix = f"{os.getpid()}-{uuid4().hex}-"
        # None, or one; one more where a signal handler interrupts what acquires it.
        self.held: list[tuple[int, str]] = []

    def acquire(self) -> None:
        """Tell the processes that this one started, or will start, if not told yet."""
        if self.held:
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
            for left in folder.iterdir():  # of processes that were killed
                _is_held(left, sweep=True)
        while True:
            fd, path = tempfile.mkstemp(prefix=self._prefix, dir=folder)
            if _try_lock(fd) and os.path.exists(path):
                break
            os.close(fd)  # it is swept away, or was before it was locked
        self.held.append((fd, path))
        os.environ[_VARIABLE] = "\n".join([path, *self._of_others()])

    def release(self) -> None:
        """No longer tell them."""
        while self.held:
            fd, path = self.held.pop()
            others = self._of_others()
            if others:
                os.environ[_VARIABLE] = "\n".join(others)
            else:
                os.environ.pop(_VARIABLE, None)
            os.close(fd)
            Path(path).unlink(missing_ok=True)

    def in_an_ancestor(self) -> bool:
        """Tell if a process that this one descends from has an open ledger."""
        if any(map(_is_held, self._of_others())):
            return True
        paths = _markers()
        pids = _ancestors() if paths else set()
        named = [path for path in paths if path.name.partition("-")[0] in pids]
        return any(map(_is_held, named))

    def _of_others(self) -> list[str]:
        """Return the markers in the environment that are not of this process."""
        paths = os.environ.get(_VARIABLE, "").split("\n")
        return [path for path in paths if path and self._prefix not in path]


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


def _is_held(path: str | Path, *, sweep: bool = False) -> bool:
    """Tell if any process holds a marker; maybe remove it if none does."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # released since it was listed
        return False
    except OSError:  # it is of another user
        return True
    try:
        free = _try_lock(fd)
        if free and sweep:  # and nobody else can lock it until it is gone
            Path(path).unlink(missing_ok=True)
        return not free
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


def _ancestors() -> set[str]:
    """Return the processes that started this one; all of them where /proc tells."""
    found = set()
    logical = multiprocessing.parent_process()
    if logical is not None:  # what a server forks is no child of who asked for it
        found.add(str(logical.pid))
    pid = str(os.getppid())
    while pid != "0":
        found.add(pid)
        try:
            status = (_PROC / pid / "stat").read_bytes()
        except OSError:
            break
        # "pid (name) state parent ...", where the name may hold anything.
        pid = status.rpartition(b")")[2].split()[1].decode()
    return found


def _works_for_dask() -> bool:
    """Tell if this is a worker of Dask, whose tasks any process may have sent.

    A cluster inside of this process (``processes=False``) has its ledgers.
    """
    distributed = sys.modules.get("distributed")
    workers = () if distributed is None else list(distributed.Worker._instances)
    return any(
        worker.status.name != "closed"
        and not str(worker.scheduler.address).startswith("inproc://")
        for worker in workers  # those that are gone as well
    )


@dataclass(eq=False)
class _Suspension:
    """Openings that are not charged for what a thread releases, until it is over."""

    openings: frozenset[_Opening]
    pid: int
    thread: int
    over: bool = False

    @property
    def applies(self) -> bool:
        """Whether it is that of this thread: a context may be copied."""
        here = (os.getpid(), threading.get_ident())
        return not self.over and (self.pid, self.thread) == here


@dataclass(frozen=True, eq=False)
class _Opening:
    """One time that a ledger was opened."""

    book: Book
    inside: tuple[_Suspension, ...]


class _Openings:
    """What is open in this process."""

    def __init__(self, inherited: tuple[str, ...] = ()) -> None:
        self.lock = threading.RLock()
        # In order. Each change is a single step, as a signal handler, which the lock
        # does not keep out, may open and close a ledger in between.
        self.open: dict[_Opening, None] = {}
        self.marker = Marker()
        # Markers of processes that this one was forked from.
        self.inherited = inherited


_here = _Openings()
_suspensions: ContextVar[tuple[_Suspension, ...]] = ContextVar(
    "suspensions", default=()
)


def _start_anew() -> None:
    """Leave the ledgers to the process that this one was forked from.

    Its markers stay open here, and so locked even if that process is killed.
    """
    global _here
    held = [path for _, path in _here.marker.held]
    _here = _Openings(inherited=(*_here.inherited, *held))


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_start_anew)


def open_book(book: Book) -> None:
    """Charge a ledger for what is released from now on."""
    opening = _Opening(book, _suspended())
    with _here.lock:
        _here.open[opening] = None
        try:
            _here.marker.acquire()
        except BaseException:
            del _here.open[opening]
            raise


def close_book(book: Book) -> None:
    """Undo one `open_book`; nothing to do in a process that was forked since."""
    with _here.lock:
        openings = [opening for opening in list(_here.open) if opening.book is book]
        # The one of this block; else the first, which most suspensions are about.
        here = [opening for opening in openings if opening.inside == _suspended()]
        for opening in here[-1:] or openings[:1]:
            del _here.open[opening]
        if not _here.open:
            _here.marker.release()


def spend(*releases: Any, note: str = "") -> None:
    """Charge all open ledgers, or refuse: call it before any noise is drawn.

    Parameters
    ----------
    *releases, note
        As for :meth:`PrivacyLedger.spend`.

    Raises
    ------
    BudgetExceededError, IncompatibleError
        As for :meth:`PrivacyLedger.spend`; also in a signal handler that interrupts a
        charge of this thread. Nothing was charged.

    UnrecordedReleaseError
        If no ledger is open here, but one is in the process that started this one, or
        this is a worker of Dask.

    LedgerError, OSError
        If the file of a ledger was changed, or cannot be written. Of several ledgers
        some may be charged.
    """
    certificates = as_certificates([*releases])
    charge(_charged("a release"), certificates, note)


def tell_open(*, note: str, **codes: Iterable[Any]) -> Certificate:
    """Tell open ledgers of leaks and assumptions; return these as a certificate."""
    told = compose_basic([]).weaken(**codes)  # type: ignore[arg-type]
    spend(told, note=note)
    return told


def check_room(*releases: Any) -> None:
    """Refuse, as `spend` would, releases that do not fit; charge nothing.

    They may not fit any more when they are charged, if others release as well.

    Parameters
    ----------
    *releases : certificates, mechanisms or numbers
        What :func:`~skparisk.core.as_certificate` takes.

    Raises
    ------
    BudgetExceededError, IncompatibleError
        As for `spend`.
    """
    certificates = as_certificates([*releases])
    for book in _charged("a release"):
        with book.locked():
            history = book.history
        if not book.budget.fits(history.plus(certificates)):
            raise refusal(book.budget, history, certificates)


def refuse_without_level(
    what: str,
    *,
    remedy: str = "Release it outside of the ledger, and charge its level by "
    "ledger.spend((epsilon, delta, risk)).",
) -> None:
    """Refuse a release whose privacy level is unknown if it had to be recorded."""
    if _charged(what):
        raise IncompatibleError(
            f"{what} cannot be recorded in the open ledger: its privacy level is not "
            f"known. {remedy}"
        )


class _OpenLedgers:
    """All ledgers that are open in this process, as one."""

    check_room = staticmethod(check_room)
    spend = staticmethod(spend)

    refuse_unknown = staticmethod(refuse_without_level)


OPEN = _OpenLedgers()


@contextmanager
def suspend_open() -> Iterator[None]:
    """Suspend charges for releases of public data by this thread.

    Ledgers opened inside are charged, also if they were open before. Do not yield
    inside: a generator would suspend its caller as well.
    """
    here = (os.getpid(), threading.get_ident())
    suspension = _Suspension(frozenset(list(_here.open)), *here)
    try:
        _suspensions.set((*_suspended(), suspension))
        yield
    finally:
        # First of all, as other contexts may have a copy.
        suspension.over = True
        _suspensions.set(_suspended())


def charge(books: Iterable[Book], certificates: list[Certificate], note: str) -> None:
    """Charge all ledgers, each once, or none."""
    if not isinstance(note, str):
        raise ValueError(f"note must be a str, got {note!r}.")
    if not certificates:
        return
    once = {book.order: book for book in books}
    with ExitStack() as locks:
        for order in sorted(once):
            locks.enter_context(once[order].locked())
        histories = {book: book.history for book in once.values()}
        full = [
            book
            for book, history in histories.items()
            if not book.budget.fits(history.plus(certificates))
        ]
        if not full:
            time = now()
            entries = [LedgerEntry(each, note, time) for each in certificates]
            for book in histories:
                book.append(entries)
    for book in full:  # what still fits takes time to find: nobody waits for it
        raise refusal(book.budget, histories[book], certificates)


def _suspended() -> tuple[_Suspension, ...]:
    """Return the suspensions that this thread is inside of."""
    return tuple(s for s in _suspensions.get() if s.applies)


def _charged(what: str) -> list[Book]:
    """Return the ledgers that a release of this thread is charged to."""
    suspensions, openings = _suspended(), list(_here.open)
    if suspensions:
        left_out = frozenset().union(*(s.openings for s in suspensions))
        return [opening.book for opening in openings if opening not in left_out]
    if not openings and (
        any(map(os.path.exists, _here.inherited)) or _here.marker.in_an_ancestor()
    ):
        raise UnrecordedReleaseError(
            f"{what} is refused: a ledger is open in the process that started this "
            "one, where it could not be recorded. Use n_jobs=1, or joblib's threading "
            "backend; or open a ledger in this process."
        )
    if not openings and _works_for_dask():
        raise UnrecordedReleaseError(
            f"{what} is refused: this is a worker of Dask, and a ledger may be open in "
            "the process that sent it this task, where it could not be recorded. "
            "Release it in that process; or open a ledger in the task."
        )
    return [opening.book for opening in openings]
