"""Budgets: what was released so far, and what still may be."""

from skparisk.ledger._open import refuse_without_level, spend, suspend_open

__all__ = ["refuse_without_level", "spend", "suspend_open"]
