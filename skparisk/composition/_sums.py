"""Sums and bounds that are never rounded down."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction

__all__ = ["ROUNDING", "add_up", "ceil_float", "concentrated", "exact_sum", "round_up"]

# Relative error of a few operations in double precision, with a margin of 2**8.
ROUNDING = 2.0**-40
# A sum of squares that is less may be one of numbers whose squares are none.
_LEAST_SQUARES = 1e-300
_LARGEST = Fraction(sys.float_info.max)


def exact_sum(numbers: Iterable[float]) -> Fraction:
    """Return the sum of the decimal numbers that floats are written as."""
    return sum((Fraction(repr(float(number))) for number in numbers), Fraction(0))


def add_up(numbers: Iterable[float]) -> float:
    """Return the sum of the decimal numbers that floats are written as, rounded up."""
    listed = list(numbers)
    if math.inf in listed:
        return math.inf
    return round_up(exact_sum(listed))


def round_up(value: Fraction) -> float:
    """Return the least float that is written as a number >= `value`, maybe inf."""
    return ceil_float(value) if value <= _LARGEST else math.inf


def ceil_float(value: Fraction) -> float:
    """Return the least float that is written as a decimal number >= `value`."""
    nearest = float(value)
    while Fraction(repr(nearest)) < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


def concentrated(squares: float, mean: float, delta: float) -> float:
    """Return what a sum exceeds with probability delta at most (Hoeffding), rounded up.

    `squares` is the sum of the squares that the terms are within, `mean` their mean.
    """
    spread = math.sqrt(2 * -math.log(delta) * max(squares, _LEAST_SQUARES))
    return (spread + mean) * (1 + ROUNDING)
