"""A budget that releases are charged to before their noise is drawn."""

from __future__ import annotations

import contextlib
import math
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TextIO

from skparisk.core.checks import IncompatibleError, check_at_least
from skparisk.core.claim import Certificate, as_certificate, as_certificates
from skparisk.ledger._book import Book, MemoryBook, interrupted
from skparisk.ledger._budget import Budget
from skparisk.ledger._history import History, LedgerEntry
from skparisk.ledger._lines import (
    LedgerError,
    Line,
    budget_line,
    charge_line,
    from_jsonl,
    to_jsonl,
)
from skparisk.ledger._open import charge, close_book, open_book
from skparisk.ledger._system import refuse_network
from skparisk.ledger._wording import Statement

if TYPE_CHECKING:
    import sqlite3


_TABLES = {
    "lines": "CREATE TABLE lines "
    "(number INTEGER PRIMARY KEY, document TEXT NOT NULL, sha256 TEXT NOT NULL)",
    "checkpoint": "CREATE TABLE checkpoint "
    "(lines INTEGER NOT NULL, sha256 TEXT NOT NULL)",
}
# EXTRA and fullfsync: a transaction that is over survives a loss of power. The file is
# locked from the beginning, so that nobody has to be waited for at the end.
_BEGIN = ("PRAGMA synchronous = EXTRA", "PRAGMA fullfsync = ON", "BEGIN EXCLUSIVE")
_RESERVED = ("-journal", "-shm", "-wal")  # for the files that SQLite makes beside it
_PATIENCE = 1.0  # in seconds, after which signals are looked for


class _Transactions:
    """The transactions of this process, all of which are of one thread at a time.

    SQLite must not be carried across a fork: a child that closes what it inherited
    would roll back, in the file, the transaction of its parent. So a fork waits until
    there is none.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open: dict[str, sqlite3.Connection] = {}


_here = _Transactions()


def _before_fork() -> None:
    """Wait for other threads; end what this very thread does, as a signal handler."""
    _here.lock.acquire()
    while _here.open:
        _, connection = _here.open.popitem()
        _end(connection)


def _after_fork() -> None:
    _here.lock.release()


def _start_anew() -> None:
    """Make another lock, in case that an interrupt kept the fork from waiting."""
    global _here
    _here = _Transactions()


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_start_anew
    )


class FileBook(Book):
    """A book in a file, which other processes may write to as well."""

    path: str
    _connection: sqlite3.Connection

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _real_path(path)
        super().__init__((self.path, ""), _here.lock)
        self._status: os.stat_result | None = None
        with self.locked():
            pass

    @classmethod
    def create(cls, path: str | os.PathLike[str], lines: Sequence[Line]) -> FileBook:
        """Write a new file."""
        path = _real_path(path)
        try:
            with _here.lock:
                _create_file(path)
                with _transaction(path) as connection, _translated(path):
                    if os.stat(path).st_size:
                        raise LedgerError("it is a database")
                    for table in _TABLES.values():
                        connection.execute(table)
                    connection.executemany(
                        "INSERT INTO lines VALUES (?, ?, ?)",
                        [(number, *line) for number, line in enumerate(lines)],
                    )
                    connection.execute(
                        "INSERT INTO checkpoint VALUES (?, ?)",
                        (len(lines), lines[-1].sha256),
                    )
        except LedgerError as error:
            raise FileExistsError(
                f"{path} exists, and is not an empty file: PrivacyLedger.open opens a "
                "ledger."
            ) from error
        return cls(path)

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        history, n_lines = self.history, len(self.hashes)
        try:
            with _transaction(self.path, self._status) as self._connection:
                self._catch_up()
                yield
        except BaseException:
            # Whatever of it is in the file will be read the next time.
            self.history = history
            del self.hashes[n_lines:]
            raise

    def append(self, entries: list[LedgerEntry]) -> None:
        index = len(self.hashes)
        line = charge_line(index, self.hashes[-1], entries)
        self._execute("INSERT INTO lines VALUES (?, ?, ?)", index, *line)
        self._execute("UPDATE checkpoint SET lines = ?, sha256 = ?", index + 1, line[1])
        self._read([line], self.path)  # or nothing is committed that cannot be read

    def lines(self) -> Sequence[Line]:
        rows = self._execute("SELECT document, sha256 FROM lines ORDER BY number")
        return [Line(*row) for row in rows]

    def head(self) -> str:
        return self.hashes[-1]

    def _execute(self, statement: str, *values: Any) -> list[Any]:
        with _translated(self.path):
            return self._connection.execute(statement, values).fetchall()

    def _catch_up(self) -> None:
        """Check that the lines that were read are there, and read those that are new.

        The first time all of the file is checked.
        """
        known = len(self.hashes)
        if self._execute("PRAGMA journal_mode") != [("delete",)]:
            raise LedgerError(
                f"{self.path} was changed to another journal mode: another program did "
                "that, and can set it back (PRAGMA journal_mode = DELETE)."
            )
        schema = self._execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        expected = [("table", name, name, sql) for name, sql in _TABLES.items()]
        if schema != expected:
            raise LedgerError(
                f"{self.path} must have the tables {list(_TABLES)} and nothing else, "
                f"got {[row[:2] for row in schema]}: it is not a ledger, or one that "
                "was changed, or was not made before a crash and can be made again."
            )
        if not known:
            self._status = os.stat(self.path)
            problems = self._execute("PRAGMA integrity_check")
            if problems != [("ok",)]:
                raise LedgerError(f"{self.path} is damaged: {problems[0][0]!r}.")
        rows = self._execute(
            "SELECT number, document, sha256 FROM lines WHERE number >= ? "
            "ORDER BY number",
            known - 1 if known else -(2**63),
        )
        if known and [row[::2] for row in rows[:1]] != [(known - 1, self.hashes[-1])]:
            raise LedgerError(
                f"{self.path} was cut off or rewritten while it was in use: it lacks "
                f"line {known}, which was there."
            )
        new = rows[bool(known) :]
        n_lines = known + len(new)
        checkpoint = self._execute("SELECT lines, sha256 FROM checkpoint")
        last = [(n_lines, row[2]) for row in rows[-1:]]
        numbers = [number for number, _, _ in new]
        if not rows or checkpoint != last or numbers != list(range(known, n_lines)):
            raise LedgerError(
                f"{self.path} has {n_lines} lines, which are not those that its "
                f"checkpoint {checkpoint} tells of: lines were removed or added."
            )
        self._read([Line(*row[1:]) for row in new], self.path)


def read_other(path: str) -> str:
    """Read a file of canonical JSON; if it is a ledger's, no lock on it is dropped."""
    with _here.lock:
        # It is ASCII, so that any other byte is refused in its line.
        return Path(path).read_text(encoding="ascii", errors="surrogateescape")


def _real_path(path: str | bytes | os.PathLike[str]) -> str:
    real = os.path.realpath(os.fsdecode(path))
    if real.lower().endswith(_RESERVED):
        raise ValueError(
            f"path must not end in {' or '.join(_RESERVED)}, as files beside a "
            f"database do, got {path!r}."
        )
    refuse_network(real)
    return real


def _create_file(path: str) -> None:
    """Make the file, which nobody else can read, unless it is there."""
    for beside in (path + suffix for suffix in _RESERVED):
        if os.path.lexists(beside) and not os.path.lexists(path):
            raise FileExistsError(f"{beside} exists, which SQLite would write over.")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with contextlib.suppress(FileExistsError):  # maybe of a crash
        os.close(os.open(path, flags, 0o600))


@contextmanager
def _transaction(
    path: str, known: os.stat_result | None = None
) -> Iterator[sqlite3.Connection]:
    """Lock a database until the transaction is over: for good, or as if never begun.

    Who has several has to lock them in the order of their paths.
    """
    import sqlite3

    if any(other >= path for other in _here.open):
        raise interrupted()
    before = os.stat(path)
    if not stat.S_ISREG(before.st_mode):
        raise LedgerError(f"{path} is not a file.")
    try:
        with _translated(path):
            connection = _here.open[path] = sqlite3.connect(
                f"{Path(path).as_uri()}?mode=rw",
                uri=True,
                timeout=_PATIENCE,
                isolation_level=None,
            )
            _begin(connection)
        status = os.stat(path)
        if not all(os.path.samestat(status, old) for old in (before, known or before)):
            raise LedgerError(f"{path} was replaced while it was in use.")
        if status.st_nlink != 1:
            raise LedgerError(
                f"{path} has {status.st_nlink} names (hard links), each of which would "
                "have a journal of its own: remove all but one."
            )
        yield connection
        with _translated(path):
            connection.execute("COMMIT")
    finally:
        if _here.open.pop(path, None):  # else a fork has ended it
            with _translated(path):
                _end(connection)


def _begin(connection: sqlite3.Connection) -> None:
    """Wait for the lock, for as long as it takes."""
    import sqlite3

    while True:
        try:
            for statement in _BEGIN:
                connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise


def _end(connection: sqlite3.Connection) -> None:
    """Close it, and take back what was not committed."""
    with contextlib.closing(connection):
        connection.rollback()


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Raise an error of the library for one of SQLite."""
    import sqlite3

    try:
        yield
    except sqlite3.ProgrammingError as error:
        raise IncompatibleError(
            "a charge was interrupted by a signal handler or a finalizer that forked "
            "this process. Nothing was released."
        ) from error
    except (sqlite3.Error, UnicodeDecodeError) as error:
        unusable = OSError, "could not be read or written"
        kinds = {
            sqlite3.SQLITE_READONLY: (PermissionError, "or its directory is read-only"),
            sqlite3.SQLITE_CANTOPEN: unusable,
            sqlite3.SQLITE_FULL: unusable,
            sqlite3.SQLITE_IOERR: unusable,
        }
        # What Python finds itself, such as text that is no text, has no code.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        kind, what = kinds.get(code, (LedgerError, "is not a ledger, or is damaged"))
        raise kind(f"{path} {what}: {error}. Nothing was released.") from error


class PrivacyLedger:
    """A privacy budget: every release is recorded, and none may exceed it.

    While a ledger is open (``with ledger:``), all releases of the library are charged
    to it, in whatever thread they are made: it is not local to a thread. The one that
    does not fit is refused before its noise is drawn. Ledgers may be nested; all that
    are open are charged, or none.

    Parameters
    ----------
    epsilon : float
        Privacy level that all releases together may have, in (0, inf], rounded down to
        a float as all limits are. Infinite: no limit at all, neither of delta nor of
        risk; releases are only recorded.

    delta : float, default=0.0
        Additive relaxation that they may have together, in [0, 1).

    gamma : float, default=1.0
        Risk that they may have together, including the probability that a certificate
        fails, in [0, 1]. 1: any risk.

    composition : {"basic", "advanced", "exact"}, default="basic"
        How releases compose. "basic": levels, deltas and risks add up. "advanced":
        that, or advanced composition of levels that are chosen on the way
        (:ref:`thm-filter`), where one half of `delta` is for the composition and the
        other for the deltas of the releases.
        "exact": "basic", or :func:`~skparisk.core.compose_exact`; slow for
        hundreds of releases, the others are not. The last two need a `delta` above 0.

    path : str or path-like, default=None
        A new file that the ledger is kept in, a SQLite database, which outlives a
        crash, and which other processes may use at the same time by :meth:`open`. It
        must be on a local disk. None: it is kept in memory.

    Raises
    ------
    ValueError
        If a parameter is out of range, of `remaining` as well, or `path` is on a
        network file system, as far as the system tells, or has an ending that SQLite
        uses, such as "-journal".

    OSError
        If `path` exists and is not an empty file (FileExistsError), or cannot be
        written, as on a full disk.

    ImportError
        If `composition` is "exact", and dp-accounting is missing.

    Notes
    -----
    **Guarantee** (:ref:`thm-ledger`). Whatever is asked on the way, and with levels
    that depend on earlier releases, all releases that were charged are together
    (epsilon, delta)-differentially private, but for a risk of at most `gamma`; with
    "exact", provided that how many there are, and their levels, were fixed before. A
    risk over pairs adds up if what is asked does not depend on earlier releases. The
    caller must ensure that all releases about the same people are charged: a ledger
    knows nothing of those that were made while it was closed, on another machine, or
    without the library. A release that is made in a process that cannot record it,
    such as a worker of joblib, is refused. What is released inside of
    :func:`~skparisk.ledger.suspend_open` is not charged; what is released with
    ``charges=`` of one's own is charged as these say.

    A ledger is a handle: copies, and clones of scikit-learn, are the same ledger. It
    cannot be pickled.

    Examples
    --------
    >>> from skparisk.ledger import PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=1.0)
    >>> ledger.spend(0.4, note="mean age")
    >>> ledger.spent.epsilon, ledger.remaining()
    (0.4, 0.6)
    >>> ledger.spend(0.7)
    Traceback (most recent call last):
    skparisk.exceptions.BudgetExceededError: the budget of the ledger has no room ...
    """

    _book: Book

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        gamma: float = 1.0,
        *,
        composition: str = "basic",
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        budget = Budget(epsilon, delta, gamma, composition)
        # Imports what it will need.
        budget.spent(History().plus([as_certificate(1.0)]))
        self._book = _make_book([budget_line(budget)], path)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, head: str | None = None
    ) -> PrivacyLedger:
        """Return the ledger that a file holds, with its budget.

        All of it is checked; later on only what is new.

        Parameters
        ----------
        path : str or path-like
            As it was given to the ledger.

        head : str, default=None
            The `head` that was filed at any time before. What it stood for must still
            be there.

        Raises
        ------
        LedgerError
            If it is not as the library wrote it.

        ValueError
            If it is on a network file system, as far as the system tells.

        OSError
            If it is not there, or cannot be read. It can be looked at where it cannot
            be written to, but for what a crash left to mend.
        """
        ledger = cls.__new__(cls)
        ledger._book = book = FileBook(path)
        _check_head(head, book.hashes, f"{book.path}")
        return ledger

    @classmethod
    def from_jsonl(
        cls,
        file: str | os.PathLike[str] | TextIO,
        *,
        path: str | os.PathLike[str] | None = None,
        head: str | None = None,
    ) -> PrivacyLedger:
        """Return a new ledger with all that another one held when it was exported.

        It has the same head, and is a ledger of its own from then on: what is charged
        to one of them the other does not know of.

        Parameters
        ----------
        file : str, path-like or text file
            What `to_jsonl` wrote.

        path, head : str or path-like, default=None
            As for a new ledger, and as for `open`.

        Raises
        ------
        LedgerError
            If the export is not as the library wrote it; else as for a new ledger.

        Examples
        --------
        >>> import io
        >>> from skparisk.ledger import PrivacyLedger
        >>> ledger = PrivacyLedger(epsilon=1.0)
        >>> ledger.spend(0.4, note="mean age")
        >>> export = io.StringIO()
        >>> ledger.to_jsonl(export)
        >>> again = PrivacyLedger.from_jsonl(io.StringIO(export.getvalue()))
        >>> again.remaining(), again.head == ledger.head
        (0.6, True)
        """
        if isinstance(file, str | bytes | os.PathLike):
            source = os.fsdecode(file)
            text = read_other(source)
        else:
            source, text = "the export", file.read()
        lines = from_jsonl(text, source)
        _check_head(head, [line.sha256 for line in lines], source)
        ledger = cls.__new__(cls)
        ledger._book = _make_book(lines, path, source)
        return ledger

    def to_jsonl(self, file: str | os.PathLike[str] | TextIO) -> None:
        """Write all that it holds as JSON lines, to read, to file and to import.

        The first line is the budget; each other one a charge, with its time, its note
        and the certificates of its releases; the last one tells how many there are.
        Each has the hash of all that is before, so that changes are noticed.

        Parameters
        ----------
        file : str, path-like or text file
            A new file, which only its owner may read (a FileExistsError if it is
            there); or one that is open.
        """
        with self._book.locked():
            text = to_jsonl(self._book.lines())
        if isinstance(file, str | bytes | os.PathLike):
            privately = partial(os.open, mode=0o600)
            with open(file, "x", encoding="ascii", opener=privately) as new:
                new.write(text)
        else:
            file.write(text)

    @property
    def limit(self) -> tuple[float, float, float]:
        """The budget: level, delta and risk; (inf, 1, 1) if it has no limit."""
        return self._book.budget.limit

    @property
    def spent(self) -> Certificate:
        """What all releases so far guarantee together, at levels fixed beforehand.

        If they were chosen on the way, what holds is `limit`.
        """
        return self._book.budget.spent(self._history())

    @property
    def releases(self) -> tuple[LedgerEntry, ...]:
        """Each charge so far: its `certificate`, `note` and `time`."""
        return self._history().entries

    @property
    def head(self) -> str:
        """Hash of all that it holds.

        Filed elsewhere, it shows later that nothing of this was rewritten.
        """
        with self._book.locked():
            return self._book.head()

    @property
    def path(self) -> str | None:
        """The file, without links."""
        return self._book.path

    def remaining(self, n: int = 1) -> float:
        """Return the largest privacy level that n more releases may have.

        Parameters
        ----------
        n : int, default=1
            Releases of that level each, without delta and risk; >= 1, and at most
            10000 with "exact".

        Returns
        -------
        epsilon : float
            Rounded down, so that they fit; in [0, inf]. 0: none of them fits.
        """
        n = check_at_least(n, "n", 1)
        return self._book.budget.remaining(self._history(), n)

    def split(self, k: int) -> tuple[float, ...]:
        """Return k equal privacy levels that fit, where ``epsilon / k`` may not.

        Parameters
        ----------
        k : int
            As for `remaining`.

        Returns
        -------
        epsilons : tuple of float
            k times ``remaining(k)``.

        Examples
        --------
        >>> from skparisk import PrivacyLedger
        >>> PrivacyLedger(epsilon=10.0).split(3)
        (3.333333333333333, 3.333333333333333, 3.333333333333333)
        """
        k = check_at_least(k, "k", 1)
        return (self.remaining(k),) * k

    def spend(self, *releases: Any, note: str = "") -> None:
        """Charge this ledger for releases that are made elsewhere, open or not.

        Parameters
        ----------
        *releases : certificates, mechanisms or tuples of float
            What :func:`~skparisk.core.as_certificate` takes, such as
            (epsilon, delta, risk). All of them are charged, or none.

        note : str, default=""
            What is released: it is kept in the ledger, so nothing private.

        Raises
        ------
        BudgetExceededError
            If they do not fit into the budget. Nothing was charged.

        IncompatibleError
            If their relation of neighboring databases is not that of earlier ones, or
            the ledger is that of another process (then an
            :class:`~skparisk.exceptions.UnrecordedReleaseError`). Nothing was charged.

        OSError
            If the file cannot be written: PermissionError where that is not allowed.

        ValueError
            If a release is none, or several are given as numbers that are no tuples.
        """
        if len(releases) > 1 and any(isinstance(part, Real) for part in releases):
            raise ValueError(
                "several releases must not be given as bare numbers: write "
                "(epsilon, delta, risk) for one, and (epsilon,) for each of several; "
                f"got {releases!r}."
            )
        charge([self._book], as_certificates([*releases]), note)

    def __enter__(self) -> Self:
        with self._book.locked():
            pass  # refuses in a process that was forked since
        open_book(self._book)
        return self

    def __exit__(self, *error: object) -> None:
        close_book(self._book)

    def __copy__(self) -> Self:
        return self

    __sklearn_clone__ = __copy__

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a PrivacyLedger cannot be pickled: a copy in another process would not "
            "know of what is charged here. Keep it in a file (path=...), and use "
            "PrivacyLedger.open(path) there."
        )

    def __repr__(self) -> str:
        budget = self._book.budget
        limit = f"epsilon={budget.epsilon!r}"
        if math.isfinite(budget.epsilon):
            limit += f", delta={budget.delta!r}, gamma={budget.gamma!r}"
        return (
            f"PrivacyLedger({limit}, composition={budget.composition!r}, "
            f"path={self.path!r})"
        )

    def __str__(self) -> str:
        return self._statement().as_text()

    def _repr_html_(self) -> str:
        return self._statement().as_html()

    def _history(self) -> History:
        with self._book.locked():
            return self._book.history

    def _statement(self) -> Statement:
        with self._book.locked():
            history, head = self._book.history, self._book.head()
        kept = {} if self.path is None else {"file": self.path}
        return Statement(self._book.budget, history, kept | {"head": head})


def _make_book(
    lines: Sequence[Line],
    path: str | os.PathLike[str] | None,
    source: str = "the ledger",
) -> Book:
    """Return a new book that begins with lines."""
    book = MemoryBook(lines, source)
    return book if path is None else FileBook.create(path, lines)


def _check_head(head: str | None, hashes: Sequence[str], source: str) -> None:
    if head is not None and head not in hashes:
        raise LedgerError(
            f"{source} has no line with the hash head={head!r}: it is not the ledger "
            "that this was filed of, or it was rewritten since."
        )
