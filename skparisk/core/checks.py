"""Errors and warnings, and checks of parameters: name, value and what is allowed."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
import sklearn.utils
from numpy.typing import NDArray


class CalibrationError(ValueError):
    """No noise scale reaches the target with the sampled pairs.

    Parameters
    ----------
    message : str
        The request, and a remedy.

    target : float
        The requested value.

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
    """Two parts do not fit, such as sampled pairs and the records of a release."""


class PrivacyLeakWarning(UserWarning):
    """The guarantee has an assumption that no code can check, or a known leak."""


# Where users import them from, which is what tracebacks say.
for _name, _kind in list(globals().items()):
    if _name.endswith(("Error", "Warning")):
        _kind.__module__ = "skparisk.exceptions"


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


_RELATIONS = ("replace-one", "add-remove")


def is_number(value: Any) -> bool:
    """Tell if it is a real number; truth values and durations are none."""
    return isinstance(value, Real) and not isinstance(value, bool | np.timedelta64)


def is_whole(value: Any) -> bool:
    """Tell if it is a whole number; truth values and durations are none."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.timedelta64)


def as_float(value: Any) -> float:
    """Return the float that a number counts as, for a check; NaN where it is none.

    A fraction may be within a range whose end it is rounded to.
    """
    try:
        return float(value) if is_number(value) else math.nan
    except OverflowError:
        return math.nan


def are_inside(numbers: Any, allowed: str) -> Any:
    """Tell which numbers are in an interval, such as "(0, 1]"; NaN is in none."""
    low, high = map(float, allowed[1:-1].split(","))
    above = numbers >= low if allowed[0] == "[" else numbers > low
    return above & (numbers <= high if allowed[-1] == "]" else numbers < high)


def check_number(value: Any, name: str, allowed: str) -> float:
    """Return a number in an interval."""
    number = as_float(value)
    if not are_inside(number, allowed):
        raise ValueError(f"{name} must be a number in {allowed}, got {value!r}.")
    return number


def check_floats(value: Any, name: str, allowed: str) -> NDArray[np.float64]:
    """Return an array of floats that are all in an interval."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or not np.all(are_inside(array, allowed)):
        raise ValueError(f"{name} must be in {allowed}, got {value!r}.")
    return array.astype(np.float64)


def check_epsilon(value: Any, name: str = "epsilon") -> float:
    """Return a privacy level in (0, inf]."""
    return check_number(value, name, "(0, inf]")


def check_share(value: Any, name: str) -> float:
    """Return a share in [0, 1)."""
    return check_number(value, name, "[0, 1)")


def check_probability(value: Any, name: str) -> float:
    """Return a probability in (0, 1)."""
    return check_number(value, name, "(0, 1)")


def check_positive(value: Any, name: str) -> float:
    """Return a finite number above 0."""
    number = as_float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}.")
    return number


def check_at_least(value: Any, name: str, least: int) -> int:
    """Return a whole number that is not below `least`."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}.")
    return int(value)


def check_choice(value: Any, name: str, allowed: Iterable[str]) -> str:
    """Return one of the allowed words."""
    allowed = tuple(allowed)
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise ValueError(f"{name} must be one of {words}; got {value!r}.")
    return value


def check_relation(value: Any) -> str:
    """Return how neighboring databases differ."""
    return check_choice(value, "relation", _RELATIONS)


def check_random_state(
    value: Any, name: str
) -> np.random.RandomState | np.random.Generator:
    """Return a generator as scikit-learn does, or the one of NumPy that was given."""
    if isinstance(value, np.random.Generator):
        return value
    try:
        return sklearn.utils.check_random_state(value)
    except ValueError as error:
        raise ValueError(
            f"{name} must be None, a whole number in [0, 2**32), a RandomState or a "
            f"Generator, got {value!r}."
        ) from error
