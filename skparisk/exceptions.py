"""Errors and warnings of the library."""

from skparisk.core.checks import (
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
