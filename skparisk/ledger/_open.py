"""Ledgers that are open in this process: what they are charged, and by whom."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from skparisk.composition import PrivacyGuarantee, as_guarantees
from skparisk.exceptions import IncompatibleError
from skparisk.ledger._marker import Marker, open_in_a_parent

__all__ = ["charge", "refuse_without_level", "spend", "suspend_open"]


class Ledger(Protocol):
    """What is charged."""

    @property
    def order(self) -> tuple[str, int]:
        """What it is: equal for two that are one, and the order of locking."""

    def locked(self) -> AbstractContextManager[Any]:
        """Lock it, and take in what others charged."""

    def check(self, guarantees: list[PrivacyGuarantee]) -> None:
        """Raise if these do not fit."""

    def record(self, guarantees: list[PrivacyGuarantee], note: str) -> None:
        """Write them down, for good."""


class _OpenLedgers:
    """The ledgers that are open in this process."""

    def __init__(self, inherited: bool = False) -> None:
        # A fork leaves the ledgers of its parent open, but cannot write into them.
        self.inherited = inherited
        self.lock = threading.RLock()
        # Once for each time that it was entered; read without the lock.
        self.ledgers: tuple[Ledger, ...] = ()
        self.marker = Marker()


_here = _OpenLedgers()
_suspended: ContextVar[tuple[Ledger, ...] | None] = ContextVar(
    "suspended", default=None
)


def _after_fork() -> None:
    global _here
    _here = _OpenLedgers(inherited=_here.inherited or bool(_here.ledgers))


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_after_fork)


def open_ledger(ledger: Ledger) -> None:
    """Charge a ledger for what is released from now on."""
    with _here.lock:
        if not _here.ledgers:
            _here.marker.acquire()
        _here.ledgers = (*_here.ledgers, ledger)


def close_ledger(ledger: Ledger) -> None:
    """Undo one `open_ledger`."""
    with _here.lock:
        left = list(_here.ledgers)
        left.remove(ledger)
        _here.ledgers = tuple(left)
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
    guarantees = as_guarantees(releases)
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
    """Do not charge, for what this thread releases, the ledgers that are open now."""
    token = _suspended.set((*(_suspended.get() or ()), *_here.ledgers))
    try:
        yield
    finally:
        _suspended.reset(token)


def charge(
    ledgers: Iterable[Ledger], guarantees: list[PrivacyGuarantee], note: str
) -> None:
    """Charge all ledgers, each once, or none."""
    if not guarantees:
        return
    once = {ledger.order: ledger for ledger in ledgers}
    with ExitStack() as locks:
        for order in sorted(once):
            locks.enter_context(once[order].locked())
        for ledger in once.values():
            ledger.check(guarantees)
        for ledger in once.values():
            ledger.record(guarantees, note)


def _charged(what: str) -> list[Ledger]:
    """Return the ledgers that a release of this thread is charged to."""
    suspended = _suspended.get()
    if suspended is not None:
        return [ledger for ledger in _here.ledgers if ledger not in suspended]
    if not _here.ledgers and (_here.inherited or open_in_a_parent()):
        raise IncompatibleError(
            f"{what} is refused: a ledger is open in the process that started this "
            "one, where it could not be recorded. Use n_jobs=1, or joblib's threading "
            "backend; or open a ledger in this process."
        )
    return list(_here.ledgers)
