"""Where releases are written down."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from uuid import uuid4

from skparisk.core.checks import IncompatibleError
from skparisk.core.claim import Certificate
from skparisk.core.compose import compose_basic
from skparisk.exceptions import BudgetExceededError, UnrecordedReleaseError
from skparisk.ledger._budget import Budget, triple
from skparisk.ledger._history import History, LedgerEntry
from skparisk.ledger._lines import (
    LedgerError,
    Line,
    as_budget,
    as_entries,
    charge_line,
    open_line,
)
from skparisk.ledger._wording import in_words, left_in_words, limit_in_words


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
            document = open_line(line, (hashes or self.hashes or [""])[-1], where)
            if index:
                entries += as_entries(document, index, where)
            else:
                self.budget = as_budget(document, where)
            hashes.append(line.sha256)
        try:
            self.history = self.history.extended(entries)
        except IncompatibleError as error:
            raise LedgerError(f"{source} holds no releases: {error}") from error
        self.hashes += hashes


class MemoryBook(Book):
    """A book that lasts as long as the process.

    It has the lines that a file would have, so that it can be exported; they are
    written when somebody asks for them, as most ledgers in memory are never filed.
    """

    def __init__(self, lines: Iterable[Line], source: str = "the ledger") -> None:
        # A number in order would tell how many runs of a private search there were.
        super().__init__(("", uuid4().hex), threading.RLock())
        self._busy = False
        self._lines = [*lines]
        self._charges: list[list[LedgerEntry]] = []  # of which there is no line yet
        self._read(self._lines, source)

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
        self.history = self.history.extended(entries)
        self._charges.append(entries)

    def lines(self) -> Sequence[Line]:
        for entries in self._charges:
            line = charge_line(len(self._lines), self._lines[-1].sha256, entries)
            self._lines.append(line)
        self._charges = []
        return self._lines


def interrupted() -> IncompatibleError:
    """Return the error for who uses a book that this very thread is using."""
    return IncompatibleError(
        "a charge is being made by this very thread, which a signal handler or a "
        "finalizer has interrupted: neither release nor use the ledger there."
    )


def refusal(
    budget: Budget, history: History, certificates: Sequence[Certificate]
) -> BudgetExceededError:
    """Return the error for releases that do not fit; it may take long to find."""
    asked = compose_basic(certificates)
    spent = triple(budget.spent(history))
    largest = budget.remaining(history)
    return BudgetExceededError(
        f"the budget of the ledger has no room for {in_words(triple(asked))}. Its "
        f"limit is {limit_in_words(budget.limit)}, of which {in_words(spent)} is "
        f"spent. What still fits: {left_in_words(largest)}. Nothing was charged.",
        spent,
        budget.limit,
        largest,
    )
