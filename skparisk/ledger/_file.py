"""A book in a file, that outlives the process and its crash: a SQLite database.

A charge is one transaction, which adds a line and replaces the checkpoint: how many
lines there are, and the hash of the last one. It is on the disk before any noise is
drawn. So what a crash leaves is the state before the charge or the one after it, and
lines that were edited, added or cut off are noticed.

POSIX drops all locks that a process has on a file when it closes *any* descriptor of
it: nothing here opens the file but SQLite, which knows.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skparisk.core.checks import IncompatibleError
from skparisk.ledger._book import Book, interrupted
from skparisk.ledger._history import LedgerEntry
from skparisk.ledger._lines import LedgerError, Line, charge_line
from skparisk.ledger._system import refuse_network

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
