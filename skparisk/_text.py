"""How numbers and texts are written: no number is rounded to the unsafe side."""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import is_dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

from skparisk.core.rounding import ceil_text, decimal, fields_of


def complement_text(probability: float) -> str:
    """Write one minus a probability that is rounded up to two digits."""
    exact = Context(prec=400, rounding=ROUND_FLOOR)  # whatever the caller has set
    return format(exact.subtract(Decimal(1), Decimal(ceil_text(probability, 2))), "f")


def floor_text(value: float, n_digits: int = 6) -> str:
    """Write a number rounded down to some digits: no more is left than is said."""
    down = Context(prec=n_digits, rounding=ROUND_FLOOR)
    return f"{float(down.create_decimal(repr(value))):g}"


def guesses_text(advantage: float) -> str:
    """Write how many of 100 guesses are right at most, rounded up to one decimal."""
    tenths = math.ceil(500 * (1 + decimal(advantage)))
    return f"{tenths / 10:g}"


def people_text(risk: float) -> str:
    """Write for how many of 100 people a bound holds, rounded down to one decimal."""
    return f"{math.floor(1000 * (1 - decimal(risk))) / 10:g}"


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


class Statement(ABC):
    """What prints as sentences, of which the first says the verdict."""

    @abstractmethod
    def _meaning(self) -> list[str]:
        """Return sentences for those who decide by it."""

    def __str__(self) -> str:
        return "\n".join(self._meaning())

    def _repr_html_(self) -> str:
        first, *rest = map(html.escape, self._meaning())
        others = "".join(f"<p>{text}</p>" for text in rest)
        return f"<div><p><strong>{first}</strong></p>{others}</div>"
