"""Budgets, and where releases are written down: in memory, or in a SQLite database.

A line is a JSON document and a hash, which is that of the hash before it and of the
text of the document. So the last hash, the head, stands for all that is before it. The
first line is the budget, each other one a charge.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import re
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import reduce
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from skparisk._filed import FiledCertificate
from skparisk._text import floor_text, from_strict, strict
from skparisk.core.checks import (
    IncompatibleError,
    are_inside,
    as_float,
    check_choice,
)
from skparisk.core.claim import Certificate, Claim, as_certificate
from skparisk.core.compose import Totals, compose_basic
from skparisk.core.rounding import ceil_text, decimal, exact_sum, round_up, safe_root
from skparisk.exceptions import BudgetExceededError, UnrecordedReleaseError

_ALLOWED = {"epsilon": "(0, inf]", "delta": "[0, 1)", "gamma": "[0, 1]"}
_ON_THE_WAY = "Levels may be chosen on the way: what holds in the end is the budget."
COMPOSITIONS = {
    "basic": f"basic. {_ON_THE_WAY}",
    "advanced": f"basic or advanced. {_ON_THE_WAY}",
}


@dataclass(frozen=True)
class LedgerEntry:
    """One release that was charged to a ledger, or a leak that it was told of.

    Parameters
    ----------
    certificate : Certificate or FiledCertificate
        Guarantee of this release alone; of 0 releases for a leak. A filed one where the
        ledger is in a file.

    note : str
        Description of the release.

    time : str
        When it was charged: ISO 8601, UTC.
    """

    certificate: Claim
    note: str
    time: str


@dataclass(frozen=True)
class History:
    """All charges, and their sums."""

    totals: Totals = field(default_factory=Totals)
    entries: tuple[LedgerEntry, ...] = ()

    def plus(self, releases: Iterable[Claim]) -> Totals:
        """Return the sums with releases that are not charged yet."""
        return reduce(Totals.plus, releases, self.totals)

    def charged(self, entries: Sequence[LedgerEntry]) -> History:
        """Return it with more charges."""
        totals = self.plus(each.certificate for each in entries)
        return History(totals, (*self.entries, *entries))


@dataclass(frozen=True)
class Budget:
    """Limits of all releases together, and their composition."""

    epsilon: float
    delta: float
    gamma: float
    composition: str

    def __post_init__(self) -> None:
        check_choice(self.composition, "composition", COMPOSITIONS)
        for name in _ALLOWED:
            object.__setattr__(self, name, _check_limit(getattr(self, name), name))
        if self.composition != "basic" and not self.delta / 2:
            raise ValueError(
                f"composition={self.composition!r} needs a delta above 0, got "
                f"{self.delta!r}."
            )

    @property
    def limit(self) -> tuple[float, float, float]:
        """Largest level, delta and risk; without one of the level there is none."""
        if math.isinf(self.epsilon):
            return math.inf, 1.0, 1.0
        return self.epsilon, self.delta, self.gamma

    def spent(self, totals: Totals) -> Certificate:
        """Return the guarantee of all releases together."""
        claims = self._claims(totals)
        return min(claims, key=attrgetter("epsilon"), default=totals.basic())

    def fits(self, totals: Totals) -> bool:
        """Tell if releases are within the budget, all of them together."""
        return math.isinf(self.epsilon) or self._level(totals) <= self.epsilon

    def remaining(self, totals: Totals, n: int = 1) -> float:
        """Return the largest level that n more releases may have; 0 if none."""
        if math.isinf(self.epsilon):
            return math.inf

        def room(level: float) -> float:
            after = self._level(totals.plus(as_certificate(level), n))
            return max(self.epsilon - after, -self.epsilon)

        spent = totals.basic().epsilon
        left = decimal(self.epsilon) - decimal(min(spent, self.epsilon))
        low = _floor_float(left / n)
        if room(low) < 0:
            return 0.0
        if self.composition == "basic":
            return low
        high = 2 * max(low, self.epsilon / n)
        while room(high) >= 0:
            high *= 2
        return safe_root(room, high, low, None)

    def _claims(self, totals: Totals) -> Iterator[Certificate]:
        """Yield guarantees of the releases at the budget's delta."""
        # What is kept of delta for the composition must not depend on the releases.
        slack = self.delta / 2
        advanced = self.composition == "advanced"
        if advanced and totals.sums["delta"] > decimal(self.delta) - decimal(slack):
            return
        yield totals.basic()
        if advanced:
            yield totals.filter(self.delta, slack)

    def _level(self, totals: Totals) -> float:
        """Return the level of releases at a delta and risk within; infinite if none."""
        found = map(triple, self._claims(totals))
        return min(
            (e for e, d, risk in found if d <= self.delta and risk <= self.gamma),
            default=math.inf,
        )


def triple(total: Claim) -> tuple[float, float, float]:
    """Return level, delta and risk, with the probability that a certificate fails."""
    risk = round_up(exact_sum((total.risk, total.failure_prob)))
    return total.epsilon, total.delta, min(1.0, risk)


def refusal(
    budget: Budget, history: History, certificates: Sequence[Certificate]
) -> BudgetExceededError:
    """Return the error for releases that do not fit; it may take long to find."""
    asked = compose_basic(certificates)
    spent = triple(budget.spent(history.totals))
    largest = budget.remaining(history.totals)
    return BudgetExceededError(
        f"the budget of the ledger has no room for {in_words(triple(asked))}. Its "
        f"limit is {limit_in_words(budget)}, of which {in_words(spent)} is spent. What "
        f"still fits: {left_in_words(largest)}. Nothing was charged.",
        spent,
        budget.limit,
        largest,
    )


def in_words(numbers: tuple[float, float, float]) -> str:
    """Write level, delta and risk; the last two only if there are any."""
    epsilon, delta, risk = map(ceil_text, numbers)
    more = "" if delta == "0" else f", delta {delta}"
    if risk != "0":
        more += ", any risk" if risk == "1" else f", risk {risk}"
    return f"epsilon {epsilon}{more}"


def limit_in_words(budget: Budget) -> str:
    """Write a budget."""
    if math.isinf(budget.epsilon):
        return "no limit: releases are recorded only"
    return in_words(budget.limit)


def left_in_words(epsilon: float) -> str:
    """Write the level that one more release may have, rounded down."""
    if epsilon == 0:
        return "nothing"
    if math.isinf(epsilon):
        return "no limit"
    return f"one release at epsilon {floor_text(epsilon)}, if delta and risk fit too"


def _floor_float(value: Fraction) -> float:
    """Return the largest float that is written as a decimal number <= `value`."""
    return 0.0 - round_up(-value)


def _check_limit(value: Any, name: str) -> float:
    """Return a limit, rounded down to a float."""
    rounded = as_float(value)
    if not (math.isnan(rounded) or rounded == value):
        rounded = _floor_float(Fraction(*value.as_integer_ratio()))
    if not are_inside(rounded, _ALLOWED[name]):
        raise ValueError(f"{name} must be a number in {_ALLOWED[name]}, got {value!r}.")
    return rounded


if TYPE_CHECKING:
    import sqlite3

_PROC = Path("/proc")
_NETWORK = re.compile(
    r"9p|acfs|afs|beegfs|ceph|cifs|coda|davfs2?|gfs2?|glusterfs|gpfs|lustre|ncpfs|"
    r"nfs4?|ocfs2|orangefs|panfs|prl_fs|pvfs2|smb[23]|smbfs|vboxsf|vmhgfs|"
    # In user space most are remote, but for these.
    r"fuse(\.(?!(cryfs|encfs|fuse-overlayfs|gocryptfs)$).*)?"
)

_SCHEMA = {"schema": "skparisk.ledger", "schema_version": 1}
_BUDGET = [field.name for field in dataclasses.fields(Budget)]
_CHARGE = ["index", "note", "releases", "time"]


class LedgerError(ValueError):
    """The file or export of a ledger differs from what the library wrote."""


class Line(NamedTuple):
    """A document, as canonical JSON, and the hash of all lines up to this one."""

    text: str
    sha256: str


def now() -> str:
    """Return the time as it is written down."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def budget_line(budget: Budget) -> Line:
    """Return the first line of a new ledger."""
    # The number tells ledgers apart that have the same budget.
    return _seal(_budget_document(budget, uuid4().hex, now()), "")


def charge_line(index: int, previous: str, entries: Sequence[LedgerEntry]) -> Line:
    """Return the line of a charge: entries with one note and one time."""
    charge = {
        "index": index,
        "note": entries[0].note,
        "releases": [entry.certificate.to_dict() for entry in entries],
        "time": entries[0].time,
    }
    return _seal(charge, previous)


def as_budget(document: dict[str, Any], where: str) -> Budget:
    """Return the budget that the first line holds."""
    found = {name: document.get(name) for name in _SCHEMA}
    if found != _SCHEMA:
        raise LedgerError(f"{where} must have the schema {_SCHEMA}, got {found}.")
    limits = from_strict({name: document.get(name) for name in _BUDGET})
    try:
        budget = Budget(**limits)
    except (TypeError, ValueError) as error:
        raise LedgerError(f"{where} has no valid budget: {error}") from error
    texts = document.get("id"), document.get("created")
    rebuilt = _budget_document(budget, *map(str, texts))
    if _as_text(rebuilt) != _as_text(document):
        raise LedgerError(f"{where} must be {rebuilt}, got {document}.")
    return budget


def as_entries(document: dict[str, Any], index: int, where: str) -> list[LedgerEntry]:
    """Return the releases that a charge is for."""
    if sorted(document) != _CHARGE:
        raise LedgerError(f"{where} must have the entries {_CHARGE}.")
    _, note, releases, time = (document[name] for name in _CHARGE)
    if _as_text(document["index"]) != str(index):
        raise LedgerError(f"{where} must have the index {index}.")
    if not (isinstance(note, str) and isinstance(time, str) and releases):
        raise LedgerError(f"{where} must have a note, a time and releases.")
    try:
        certificates = map(FiledCertificate.from_dict, releases)
        return [LedgerEntry(certificate, note, time) for certificate in certificates]
    except (TypeError, ValueError) as error:
        raise LedgerError(f"{where} holds no releases: {error}") from error


def to_jsonl(lines: Iterable[Line]) -> str:
    """Write lines, each with its hash; at last how many there are, and the head."""
    documents = [json.loads(line.text) | {"sha256": line.sha256} for line in lines]
    documents.append({"lines": len(documents), "sha256": documents[-1]["sha256"]})
    return "".join(f"{_as_text(document)}\n" for document in documents)


def _budget_document(budget: Budget, number: str, created: str) -> dict[str, Any]:
    limits = strict(budget)
    return {**_SCHEMA, **limits, "id": number, "created": created}


def _seal(document: dict[str, Any], previous: str) -> Line:
    text = _as_text(document)
    return Line(text, hashlib.sha256((previous + text).encode()).hexdigest())


def _as_text(document: Any) -> str:
    """Write canonical JSON, of which there is one for each document."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _parse(text: str, where: str) -> dict[str, Any]:
    """Read canonical JSON."""
    try:
        document = json.loads(text)
        canonical = _as_text(document)
    except (RecursionError, TypeError, ValueError) as error:
        raise LedgerError(f"{where} is not JSON: {error}.") from error
    if canonical != text or not isinstance(document, dict):
        raise LedgerError(f"{where} is not an object as the library writes it.")
    return document


class Book(ABC):
    """A budget, and the releases that were charged to it."""

    budget: Budget
    path: str | None = None

    def __init__(self, order: tuple[str, str], lock: threading.RLock) -> None:
        # Equal for two books that are one, and the order of locking, everywhere.
        self.order = order
        self.history = History()
        # Of the lines that were read.
        self.hashes: list[str] = []
        self._pid = os.getpid()
        # With a plain lock, who interrupts a thread would wait for it forever.
        self._lock = lock

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock it for this thread, which must not have locked it already."""
        # First of all, as a fork may have left the lock locked for good.
        if self._pid != os.getpid():
            raise UnrecordedReleaseError(
                "the ledger is that of the process that this one was forked from, "
                "where a release of this one could not be recorded. Use n_jobs=1, or "
                "joblib's threading backend; or open a ledger in this process."
            )
        with self._lock, self._in_use():
            yield

    @abstractmethod
    def _in_use(self) -> AbstractContextManager[None]:
        """Use it, or refuse in a thread that does already."""

    @abstractmethod
    def append(self, entries: list[LedgerEntry]) -> None:
        """Write one charge down, all of it or nothing; the book is locked."""

    @abstractmethod
    def lines(self) -> Sequence[Line]:
        """Return all lines; the book is locked."""

    def head(self) -> str:
        """Return the hash of the last line; the book is locked."""
        return self.lines()[-1].sha256

    def _read(self, lines: Iterable[Line], source: str) -> None:
        """Take in lines that follow those that were read, all or none."""
        hashes: list[str] = []
        entries: list[LedgerEntry] = []
        for index, line in enumerate(lines, len(self.hashes)):
            where = f"line {index + 1} of {source}"
            document = _parse(line.text, where)
            if _seal(document, (hashes or self.hashes or [""])[-1]) != line:
                raise LedgerError(
                    f"{where} was changed, or does not follow the line before: its "
                    "hash is not that of its text."
                )
            if index:
                entries += as_entries(document, index, where)
            else:
                self.budget = as_budget(document, where)
            hashes.append(line.sha256)
        try:
            self.history = self.history.charged(entries)
        except IncompatibleError as error:
            raise LedgerError(f"{source} holds no releases: {error}") from error
        self.hashes += hashes


class MemoryBook(Book):
    """A book that lasts as long as the process, with the lines of a file."""

    def __init__(self, *lines: Line) -> None:
        # A number in order would tell how many runs of a private search there were.
        super().__init__(("", uuid4().hex), threading.RLock())
        self._busy = False
        self._lines = [*lines]
        self._read(self._lines, "the ledger")

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        if self._busy:
            raise interrupted()
        try:
            self._busy = True
            yield
        finally:
            self._busy = False

    def append(self, entries: list[LedgerEntry]) -> None:
        line = charge_line(len(self._lines), self._lines[-1].sha256, entries)
        self.history = self.history.charged(entries)
        self._lines.append(line)

    def lines(self) -> Sequence[Line]:
        return self._lines


def interrupted() -> IncompatibleError:
    """Return the error for who uses a book that this very thread is using."""
    return IncompatibleError(
        "a charge is being made by this very thread, which a signal handler or a "
        "finalizer has interrupted: neither release nor use the ledger there."
    )


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

    SQLite must not be carried across a fork: a child that closes its inherited
    connection would roll back, in the file, the transaction of its parent. So a fork
    waits until there is none.
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
    def create(cls, path: str | os.PathLike[str], line: Line) -> FileBook:
        """Write a new file, which begins with the line of a budget."""
        path = _real_path(path)
        try:
            with _here.lock:
                _create_file(path)
                with _transaction(path) as connection, _translated(path):
                    if os.stat(path).st_size:
                        raise LedgerError("it is a database")
                    for table in _TABLES.values():
                        connection.execute(table)
                    connection.execute("INSERT INTO lines VALUES (0, ?, ?)", line)
                    connection.execute(
                        "INSERT INTO checkpoint VALUES (1, ?)", (line.sha256,)
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
        """Check known lines, at first the whole file, and read new ones."""
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


def _real_path(path: str | bytes | os.PathLike[str]) -> str:
    real = os.path.realpath(os.fsdecode(path))
    if real.lower().endswith(_RESERVED):
        raise ValueError(
            f"path must not end in {' or '.join(_RESERVED)}, as files beside a "
            f"database do, got {path!r}."
        )
    try:
        mounts = (_PROC / "self" / "mountinfo").read_bytes()
    except OSError:  # not Linux: nothing is known
        mounts = b""
    kind = network_type(real, os.fsdecode(mounts))
    if kind:
        raise ValueError(
            f"path must be on a local disk: {real} is on a network file system "
            f"({kind}), where the locks that keep two processes from spending one "
            "budget may not hold. Keep the ledger on a local disk, and copy its export "
            "(to_jsonl)."
        )
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
    """Lock a database for a transaction; of several, in the order of their paths."""
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


def network_type(path: str, mounts: str) -> str | None:
    """Return the type of a network file system by `mounts`; None: local, or unknown."""
    if re.match(r"\\\\(\?\\UNC\\|[^?.\\])", path):
        return "UNC path"
    longest, kind = "", ""
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        escaped = fields.split(" ")[4]
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), escaped)
        inside = f"{path}/".startswith(f"{point.rstrip('/')}/")
        # Of two at one place the later one hides the other.
        if inside and len(point) >= len(longest):
            longest, kind = point, rest.split(" ")[0]
    return kind if _NETWORK.fullmatch(kind) else None
