"""Checks of parameters: the name, the value and what is allowed, in one message."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

__all__ = [
    "check_at_least",
    "check_choice",
    "check_epsilon",
    "check_positive",
    "check_probability",
]


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_epsilon(value: Any, name: str = "epsilon") -> float:
    """Return a privacy level in (0, inf]."""
    if not _is_real(value) or not value > 0:
        raise ValueError(f"{name} must be a number in (0, inf], got {value!r}.")
    return float(value)


def check_probability(value: Any, name: str) -> float:
    """Return a probability in (0, 1)."""
    if not _is_real(value) or not 0 < value < 1:
        raise ValueError(f"{name} must be a number in (0, 1), got {value!r}.")
    return float(value)


def check_positive(value: Any, name: str) -> float:
    """Return a finite number above 0."""
    if not _is_real(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}.")
    return float(value)


def check_at_least(value: Any, name: str, least: int) -> int:
    """Return a whole number that is not below `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}.")
    return int(value)


def check_choice(value: Any, name: str, allowed: Iterable[str]) -> str:
    """Return one of the allowed words."""
    allowed = tuple(allowed)
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise ValueError(f"{name} must be one of {words}; got {value!r}.")
    return value
