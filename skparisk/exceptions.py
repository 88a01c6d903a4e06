"""Errors and warnings of the library."""

from __future__ import annotations

__all__ = [
    "CalibrationError",
    "HeuristicGuaranteeWarning",
    "IncompatibleError",
    "PrivacyLeakWarning",
]


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


class PrivacyLeakWarning(UserWarning):
    """The guarantee rests on something that the library cannot check."""


class HeuristicGuaranteeWarning(UserWarning):
    """A formula is reproduced from a paper, and does not guarantee what it says."""
