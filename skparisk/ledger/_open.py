"""Ledgers that are open in this process: what they are charged, and by whom."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from skparisk.composition import PrivacyGuarantee, as_guarantees
from skparisk.exceptions import IncompatibleError
from skparisk.ledger._book import Book
from skparisk.ledger._marker import Marker, in_an_ancestor

__all__ = [
    "charge",
    "close_book",
    "open_book",
    "refuse_without_level",
    "spend",
    "suspend_open",
]


class _OpenBooks:
    """The ledgers that are open in this process."""

    def __init__(self, inherited: tuple[str, ...] = ()) -> None:
        self.lock = threading.RLock()
        # Once for each time that it was entered. Replaced, so read without the lock.
        self.books: tuple[Book, ...] = ()
        self.marker = Marker()
        # Of processes that this one was forked from.
        self.inherited = inherited


_here = _OpenBooks()
_suspended: ContextVar[tuple[Book, ...] | None] = ContextVar("suspended", default=None)


def _start_anew() -> None:
    """Leave the ledgers to the process that this one was forked from."""
    global _here
    _here = _OpenBooks(inherited=(*_here.inherited, *_here.marker.leave()))


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_start_anew)


def open_book(book: Book) -> None:
    """Charge a ledger for what is released from now on."""
    with _here.lock:
        if not _here.books:
            _here.marker.acquire()
        _here.books = (*_here.books, book)


def close_book(book: Book) -> None:
    """Undo one `open_book`; nothing to do in a process that was forked since."""
    with _here.lock:
        left = list(_here.books)
        if book in left:
            left.remove(book)
            _here.books = tuple(left)
            if not left:
                _here.marker.release()


def spend(*releases: Any, note: str = "") -> None:
    """Charge all open ledgers, or refuse: call it before any noise is drawn.

    Parameters
    ----------
    *releases : certificates, guarantees, mechanisms or numbers
        What :func:`~skparisk.composition.as_guarantee` takes. All of them are
        charged, or none.

    note : str, default=""
        What is released.

    Raises
    ------
    BudgetExceededError
        If they do not fit into the budget of an open ledger. Nothing was charged.

    IncompatibleError
        If their relation is not that of what a ledger holds; or if no ledger is open
        here, but one is in the process that started this one, where it cannot be
        recorded. Nothing was charged.
    """
    guarantees = as_guarantees([*releases])
    charge(_charged("a release"), guarantees, note)


def refuse_without_level(what: str) -> None:
    """Refuse a release whose privacy level is unknown if it had to be recorded.

    Parameters
    ----------
    what : str
        What is to be released.

    Raises
    ------
    IncompatibleError
        If a ledger is open.
    """
    if _charged(what):
        raise IncompatibleError(
            f"{what} cannot be recorded in the open ledger: its privacy level is not "
            "known. Release it outside of the ledger, and charge its level by "
            "ledger.spend((epsilon, delta, risk))."
        )


@contextmanager
def suspend_open() -> Iterator[None]:
    """Do not charge, for what this thread releases, the ledgers that are open now.

    For releases of public data. Ledgers that are opened inside are charged.
    """
    token = _suspended.set(_here.books)
    try:
        yield
    finally:
        _suspended.reset(token)


def charge(
    books: Iterable[Book], guarantees: list[PrivacyGuarantee], note: str
) -> None:
    """Charge all ledgers, each once, or none."""
    if not isinstance(note, str):
        raise ValueError(f"note must be a str, got {note!r}.")
    if not guarantees:
        return
    once = {book.order: book for book in books}
    with ExitStack() as locks:
        for order in sorted(once):
            locks.enter_context(once[order].locked())
        for book in once.values():
            book.check(guarantees)
        for book in once.values():
            book.append(guarantees, note)


def _charged(what: str) -> list[Book]:
    """Return the ledgers that a release of this thread is charged to."""
    suspended = _suspended.get()
    if suspended is not None:
        return [book for book in _here.books if book not in suspended]
    books = list(_here.books)
    if not books and (any(map(os.path.exists, _here.inherited)) or in_an_ancestor()):
        raise IncompatibleError(
            f"{what} is refused: a ledger is open in the process that started this "
            "one, where it could not be recorded. Use n_jobs=1, or joblib's threading "
            "backend; or open a ledger in this process."
        )
    return books
