"""Budgets: the releases so far, and the room for more.

An open :class:`PrivacyLedger` is charged for every release of the library. It refuses a
release beyond its budget before any noise is drawn.
"""

from skparisk.ledger._book import LedgerEntry as LedgerEntry
from skparisk.ledger._book import LedgerError
from skparisk.ledger._ledger import PrivacyLedger
from skparisk.ledger._open import OPEN as OPEN
from skparisk.ledger._open import check_room as check_room
from skparisk.ledger._open import spend, suspend_open

__all__ = [
    "LedgerError",
    "PrivacyLedger",
    "spend",
    "suspend_open",
]
