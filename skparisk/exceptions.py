"""Errors and warnings of the library."""

from __future__ import annotations

from typing import Any

from skparisk.core.checks import (
    CalibrationError,
    IncompatibleError,
    PrivacyLeakWarning,
)

__all__ = [
    "BudgetExceededError",
    "CalibrationError",
    "IncompatibleError",
    "PrivacyLeakWarning",
    "ReferenceWarning",
    "UnrecordedReleaseError",
    "UtilityWarning",
]


class BudgetExceededError(ValueError):
    """A release would exceed the budget of a ledger: no noise was drawn.

    Parameters
    ----------
    message : str
        The refused release, and the room left.

    spent, limit : tuple of (float, float, float)
        Privacy level, delta and risk: of all releases so far, and of the budget.

    largest_epsilon : float
        The largest privacy level that one more release, without delta and risk, may
        have; 0 if there is none.

    Examples
    --------
    >>> from skparisk.exceptions import BudgetExceededError
    >>> error = BudgetExceededError("too much", (0.8, 0, 0), (1, 0, 1), 0.2)
    >>> error.spent, error.largest_epsilon
    ((0.8, 0, 0), 0.2)
    """

    def __init__(
        self,
        message: str,
        spent: tuple[float, float, float],
        limit: tuple[float, float, float],
        largest_epsilon: float,
    ) -> None:
        super().__init__(message)
        self.spent = spent
        self.limit = limit
        self.largest_epsilon = largest_epsilon

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (str(self), self.spent, self.limit, self.largest_epsilon)


class UnrecordedReleaseError(IncompatibleError):
    """A ledger is open in another process, which cannot record this release."""


class ReferenceWarning(UserWarning):
    """A reference cannot carry the claim, or lies far from the release."""


class UtilityWarning(UserWarning):
    """A fit to the public records alone scores better than the private model."""
