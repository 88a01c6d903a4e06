"""Where releases are written down."""

from __future__ import annotations

import itertools
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from skparisk.composition import PrivacyGuarantee, compose_basic
from skparisk.exceptions import BudgetExceededError, IncompatibleError
from skparisk.ledger._budget import Budget, triple
from skparisk.ledger._wording import Report, in_words, left_in_words

__all__ = ["Book", "LedgerEntry", "MemoryBook", "now"]

_serial = itertools.count()


@dataclass(frozen=True)
class LedgerEntry:
    """One release that was charged to a ledger.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        What it guarantees by itself.

    note : str
        What was released.

    time : str
        When it was charged: ISO 8601, UTC.
    """

    guarantee: PrivacyGuarantee
    note: str
    time: str


class Book(ABC):
    """A budget, and the releases that were charged to it."""

    budget: Budget
    path: str | None = None

    def __init__(self) -> None:
        # Equal for two books that are one, and the order of locking, everywhere.
        self.order: tuple[str, int] = ("", next(_serial))
        self.entries: list[LedgerEntry] = []
        self._pid = os.getpid()
        self._thread_lock = threading.RLock()

    @property
    def head(self) -> str | None:
        """Hash of the last line of its file."""
        return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock it for this thread."""
        # First of all, as a fork may have left the lock locked for good.
        if self._pid != os.getpid():
            raise IncompatibleError(
                "the ledger is that of the process that this one was forked from, "
                "where a release of this one could not be recorded. Use n_jobs=1, or "
                "joblib's threading backend; or open a ledger in this process."
            )
        with self._thread_lock:
            yield

    def check(self, guarantees: Sequence[PrivacyGuarantee]) -> None:
        """Refuse releases that do not fit; the book is locked."""
        past = [entry.guarantee for entry in self.entries]
        if self.budget.fits([*past, *guarantees]):
            return
        asked = compose_basic(guarantees)
        spent, limit = triple(self.budget.spent(past)), self.budget.limit
        largest = self.budget.remaining(past)
        raise BudgetExceededError(
            f"the budget of the ledger has no room for {in_words(triple(asked))}. Its "
            f"limit is {in_words(limit)}, of which {in_words(spent)} is spent. What "
            f"still fits: {left_in_words(largest)}. Nothing was charged.",
            spent,
            limit,
            largest,
        )

    @abstractmethod
    def append(self, guarantees: Sequence[PrivacyGuarantee], note: str) -> None:
        """Write releases down, all or none; the book is locked."""

    def report(self) -> Report:
        """Return what is filed of it; the book is locked."""
        kept = {"file": self.path, "head": self.head}
        known = {name: text for name, text in kept.items() if text is not None}
        return Report(self.budget, self.entries, known)


class MemoryBook(Book):
    """A book that lasts as long as the process."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self.budget = budget

    def append(self, guarantees: Sequence[PrivacyGuarantee], note: str) -> None:
        """Write releases down, all or none; the book is locked."""
        time = now()
        self.entries += [LedgerEntry(g, note, time) for g in guarantees]


def now() -> str:
    """Return the time as it is written down."""
    return datetime.now(UTC).isoformat(timespec="seconds")
