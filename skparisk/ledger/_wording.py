"""A ledger in words, for whoever files it."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_FLOOR, Context
from typing import TYPE_CHECKING

from skparisk._text import ceil_text
from skparisk.composition import PrivacyGuarantee
from skparisk.ledger._budget import RULES, Budget, triple

if TYPE_CHECKING:
    from skparisk.ledger._book import LedgerEntry

__all__ = ["Report", "in_words", "left_in_words"]


class Report:
    """What is filed of a ledger: the budget, what is spent and left, each release."""

    def __init__(
        self, budget: Budget, entries: Sequence[LedgerEntry], kept: dict[str, str]
    ) -> None:
        parts = [entry.guarantee for entry in entries]
        spent = budget.spent(parts)
        self.rows = {
            "budget": in_words(budget.limit),
            "composition": RULES[budget.composition].text,
            "spent": in_words(triple(spent)),
            "left": left_in_words(budget.remaining(parts)),
            "releases": str(len(entries)),
            **kept,
        }
        self.releases = [
            (
                str(number),
                entry.time,
                _level(entry.guarantee),
                " ".join(entry.note.split()),
            )
            for number, entry in enumerate(entries, 1)
        ]
        self.claim = spent.guarantee
        self.caveats = [
            *(f"Caveat: {text}" for text in spent.caveats),
            *(f"On the caller's word: {text}." for text in spent.conditions),
        ]

    def as_text(self) -> str:
        """Return it as lines."""
        rows = [f"  {name}: {value}" for name, value in self.rows.items()]
        releases = [
            f"  {number}. {time}: {level}" + (f" ({note})" if note else "")
            for number, time, level, note in self.releases
        ]
        lines = ["Privacy ledger", *rows, *releases, self.claim, *self.caveats]
        return "\n".join(lines)

    def as_html(self) -> str:
        """Return it as tables."""
        rows = "".join(_row(row, "td") for row in self.rows.items())
        releases = "".join(_row(row, "td") for row in self.releases)
        titles = _row(("", "time", "level", "note"), "th")
        claim = "".join(
            f"<p>{html.escape(text)}</p>" for text in (self.claim, *self.caveats)
        )
        return (
            f"<div>{claim}<table>{rows}</table><table>{titles}{releases}</table></div>"
        )


def _level(release: PrivacyGuarantee) -> str:
    return in_words(triple(release)) + ("" if release.private else ", NOT private")


def in_words(numbers: tuple[float, float, float]) -> str:
    """Write level, delta and risk; the last two only if there are any."""
    epsilon, delta, risk = map(ceil_text, numbers)
    more = "" if delta == "0" else f", delta {delta}"
    if risk != "0":
        more += ", any risk" if risk == "1" else f", risk {risk}"
    return f"epsilon {epsilon}{more}"


def left_in_words(epsilon: float) -> str:
    """Write the level that one more release may have, rounded down."""
    if epsilon == 0:
        return "nothing"
    text = f"{epsilon:g}"
    if math.isfinite(epsilon):
        down = Context(prec=6, rounding=ROUND_FLOOR)
        text = f"{float(down.create_decimal(repr(epsilon))):g}"
    return f"one release at epsilon {text}, without delta and risk"


def _row(cells: Iterable[str], tag: str) -> str:
    inner = "".join(
        f"<{tag} style='text-align:left'>{html.escape(cell)}</{tag}>" for cell in cells
    )
    return f"<tr>{inner}</tr>"
