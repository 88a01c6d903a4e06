"""Errors and warnings of the library."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

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
        What was to be released, and what still fits.

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


class CalibrationError(ValueError):
    """No noise scale reaches the target with what was sampled.

    Parameters
    ----------
    message : str
        What was asked, and what would make it possible.

    target : float
        The value that was asked for.

    best : float
        The best value that can be reached.

    Examples
    --------
    >>> from skparisk.exceptions import CalibrationError
    >>> error = CalibrationError("too few pairs", target=0.001, best=0.01)
    >>> error.target, error.best
    (0.001, 0.01)
    """

    def __init__(self, message: str, target: float, best: float) -> None:
        super().__init__(message)
        self.target = target
        self.best = best

    def __reduce__(self) -> tuple[type, tuple[str, float, float]]:
        return type(self), (str(self), self.target, self.best)


class IncompatibleError(TypeError):
    """Two parts do not fit: what was sampled, and what it is to be used for."""


class UnrecordedReleaseError(IncompatibleError):
    """A ledger is open in another process, where this release cannot be recorded."""


class PrivacyLeakWarning(UserWarning):
    """The guarantee rests on something that the library cannot check."""


class ReferenceWarning(UserWarning):
    """A reference cannot carry the claim, or is far from what was released."""


class UtilityWarning(UserWarning):
    """A fit to the public records alone scores better than the private model."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside this package and scikit-learn."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        ("skparisk", "sklearn")
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_if_seeded(noise_random_state: Any) -> None:
    """Warn that the noise can be removed by whoever knows or guesses the seed."""
    if noise_random_state is not None:
        warn_caller(
            f"noise_random_state={noise_random_state!r} makes the noise repeatable, so "
            "it can be removed: what is released is not private. Leave it None except "
            "in tests.",
            PrivacyLeakWarning,
        )


def warn_private_classes() -> None:
    """Warn that the classes are those of the data that are to be protected."""
    warn_caller(
        "The classes are those of the private labels because none were declared: the "
        "set of classes is released without noise. Declare classes, or give a "
        "reference with labels.",
        PrivacyLeakWarning,
    )


def warn_redrawn() -> None:
    """Warn that two secret samples of the same records were released."""
    warn_caller(
        "Another secret sample of these records, or of a part of them, was released "
        "before, as by each fold of a cross-validation: there is no theorem for both "
        "together. Draw once, half = SecretSample(fraction).draw(X, y), and give "
        "reference=half to all fits.",
        PrivacyLeakWarning,
    )


def warn_private_reference() -> None:
    """Warn that pairs are sampled from the data that are to be protected."""
    warn_caller(
        "Neighboring databases are sampled from the private data themselves, or from a "
        "table that shares records with them: the sensitivity and the noise scale are "
        "then computed from these data without noise, and the guarantee is only about "
        "resamples of them. Ways out: public records, X_reference=X_public, "
        "y_reference=y_public, of which forty may do; a secret sample of the records, "
        "sensitivity=SensitivitySampler(reference=SecretSample(0.5)); a "
        "proven bound, sensitivity='bound', where there is one. The documentation says "
        'how to choose, under "Little or no public data".',
        PrivacyLeakWarning,
    )
