"""Where releases are written down."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import uuid4

from skparisk.certificate import Certificate
from skparisk.composition import compose_basic
from skparisk.exceptions import BudgetExceededError, IncompatibleError
from skparisk.ledger._budget import Budget, triple
from skparisk.ledger._history import History, LedgerEntry
from skparisk.ledger._wording import in_words, left_in_words, limit_in_words

__all__ = ["Book", "MemoryBook", "now", "refusal"]


class Book(ABC):
    """A budget, and the releases that were charged to it."""

    budget: Budget
    path: str | None = None

    def __init__(self, order: tuple[str, str]) -> None:
        # Equal for two books that are one, and the order of locking, everywhere.
        self.order = order
        self.history = History()
        self._pid = os.getpid()
        self._thread_lock = threading.RLock()
        self._busy = False

    @property
    def head(self) -> str | None:
        """Hash of the last line of its file."""
        return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock it for this thread, which must not have locked it already."""
        # First of all, as a fork may have left the lock locked for good.
        if self._pid != os.getpid():
            raise IncompatibleError(
                "the ledger is that of the process that this one was forked from, "
                "where a release of this one could not be recorded. Use n_jobs=1, or "
                "joblib's threading backend; or open a ledger in this process."
            )
        # With a plain lock, who interrupts this thread would wait for it forever.
        with self._thread_lock:
            if self._busy:
                raise IncompatibleError(
                    "a charge is being made by this very thread, which a signal "
                    "handler or a finalizer has interrupted: neither release nor use "
                    "the ledger there."
                )
            try:
                self._busy = True
                yield
            finally:
                self._busy = False

    @abstractmethod
    def append(self, guarantees: Sequence[Certificate], note: str) -> None:
        """Write releases down, all or none; the book is locked."""


class MemoryBook(Book):
    """A book that lasts as long as the process."""

    def __init__(self, budget: Budget) -> None:
        # A number in order would tell how many runs of a private search there were.
        super().__init__(("", uuid4().hex))
        self.budget = budget

    def append(self, guarantees: Sequence[Certificate], note: str) -> None:
        """Write releases down, all or none; the book is locked."""
        time = now()
        entries = [LedgerEntry(guarantee, note, time) for guarantee in guarantees]
        self.history = self.history.extended(entries)


def refusal(
    budget: Budget, history: History, guarantees: Sequence[Certificate]
) -> BudgetExceededError:
    """Return the error for releases that do not fit; it may take long to find."""
    asked = compose_basic(guarantees)
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


def now() -> str:
    """Return the time as it is written down."""
    return datetime.now(UTC).isoformat(timespec="seconds")
