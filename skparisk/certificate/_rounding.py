"""How numbers and texts are written: no number is rounded to the unsafe side."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

from skparisk._validate import is_number

# Relative error of a few operations in double precision, with a margin of 2**8.
ROUNDING = 2.0**-40
_LARGEST = Fraction(sys.float_info.max)


def decimal(number: float) -> Fraction:
    """Return the decimal number that a float is written as."""
    return Fraction(repr(float(number))) if number else Fraction(0)


def exact_sum(numbers: Iterable[float]) -> Fraction:
    """Return the sum of the decimal numbers that floats are written as."""
    return sum(map(decimal, numbers), Fraction(0))


def add_up(numbers: Iterable[float]) -> float:
    """Return the sum of the decimal numbers that floats are written as, rounded up."""
    listed = list(numbers)
    if math.inf in listed:
        return math.inf
    return round_up(exact_sum(listed))


def round_up(value: Fraction) -> float:
    """Return the least float that is written as a decimal number >= `value`."""
    if value > _LARGEST:
        return math.inf
    nearest = float(value)
    while decimal(nearest) < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


def check_range(value: Any, name: str, most: float = math.inf) -> float:
    """Return a number in [0, most] as a float, rounded up."""
    if not is_number(value) or not 0 <= value <= most:
        raise ValueError(f"{name} must be a number in [0, {most:g}], got {value!r}.")
    if isinstance(value, Rational):
        return round_up(Fraction(value))
    rounded = float(value)  # of a number that may have more digits
    return math.nextafter(rounded, math.inf) if rounded < value else rounded


def ceil_text(value: float, n_digits: int = 6) -> str:
    """Write a number rounded up to some digits: it is never claimed too small."""
    if math.isinf(value):
        return "inf"
    exact = Decimal(repr(value))
    rounded = Context(prec=n_digits, rounding=ROUND_CEILING).create_decimal(exact)
    if rounded == 1 and exact < 1:  # a probability of 1 would say nothing
        return format(exact, "f")
    return f"{float(rounded):g}"


def complement_text(probability: float) -> str:
    """Write one minus a probability, of which `ceil_text` would write the rest."""
    exact = Context(prec=400, rounding=ROUND_FLOOR)  # whatever the caller has set
    return format(exact.subtract(Decimal(1), Decimal(ceil_text(probability))), "f")


def floor_text(value: float, n_digits: int = 6) -> str:
    """Write a number rounded down to some digits: no more is left than is said."""
    down = Context(prec=n_digits, rounding=ROUND_FLOOR)
    return f"{float(down.create_decimal(repr(value))):g}"


def guesses_text(advantage: float) -> str:
    """Write how many of 100 guesses are right at most, if either answer is as likely.

    Rounded up, to one decimal.
    """
    tenths = math.ceil(500 * (1 + decimal(advantage)))
    return f"{tenths / 10:g}"


def people_text(risk: float) -> str:
    """Write for how many of 100 people a bound holds, rounded down to one decimal."""
    return f"{math.floor(1000 * (1 - decimal(risk))) / 10:g}"


def fields_of(part: Any, kind: type | None = None) -> dict[str, Any]:
    """Return the fields of a dataclass, or those that another one has as well."""
    names = [field.name for field in fields(part if kind is None else kind)]
    return {name: getattr(part, name) for name in names}


def strict(value: Any) -> Any:
    """Return what strict JSON has for it: lists, and "inf" for an infinite number."""
    if is_dataclass(value):
        value = fields_of(value)
    if isinstance(value, Mapping):
        return {name: strict(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [strict(each) for each in value]
    return "inf" if isinstance(value, float) and value == math.inf else value


def from_strict(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return entries of a document, with the infinite numbers that `strict` wrote."""
    return {name: math.inf if v == "inf" else v for name, v in entries.items()}


def printable(text: str) -> str:
    """Write a text as one line, whatever it does to a terminal or a file."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in " ".join(text.split())
    )
