"""Errors and warnings of the library."""

from skparisk.core.exceptions import (
    BudgetExceededError,
    CalibrationError,
    IncompatibleError,
    PrivacyLeakWarning,
    ReferenceWarning,
    UnrecordedReleaseError,
    UtilityWarning,
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
