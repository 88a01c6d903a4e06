"""Budgets: what was released so far, and what still may be.

A :class:`PrivacyLedger` that is open is charged for every release of the library, and
refuses the one that would exceed its budget before any noise is drawn.
"""

from skparisk.ledger._book import LedgerEntry, LedgerError
from skparisk.ledger._ledger import PrivacyLedger
from skparisk.ledger._open import OPEN, check_room, spend, suspend_open

__all__ = [
    "OPEN",
    "LedgerEntry",
    "LedgerError",
    "PrivacyLedger",
    "check_room",
    "spend",
    "suspend_open",
]
