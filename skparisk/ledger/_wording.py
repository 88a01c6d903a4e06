"""A ledger in words, for whoever files it."""

from __future__ import annotations

import html
import math
from typing import Any

from skparisk._text import floor_text, printable
from skparisk._words import html_row
from skparisk.core.claim import Claim
from skparisk.core.rounding import ceil_text
from skparisk.ledger._budget import RULES, Budget, triple
from skparisk.ledger._history import History


class Statement:
    """What is filed of a ledger: the budget, what is spent and left, each release."""

    def __init__(self, budget: Budget, history: History, kept: dict[str, str]) -> None:
        spent = budget.spent(history)
        self.rows = {
            "budget": limit_in_words(budget.limit),
            "composition": RULES[budget.composition].text,
            "spent": _level(spent),
            "left": left_in_words(budget.remaining(history)),
            "releases": str(spent.n_releases),
            **{name: printable(text) for name, text in kept.items()},
        }
        self.releases = [
            (str(number), entry.time, _level(entry.certificate), printable(entry.note))
            for number, entry in enumerate(history.entries, 1)
        ]
        self.claim = printable(spent.guarantee)
        self.caveats = [
            *(f"Caveat: {printable(text)}" for text in spent.caveats),
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

    def as_dict(self) -> dict[str, Any]:
        """Return its rows, and those of the releases, as plain texts.

        Where the file is says something of a machine, and nothing of the budget.
        """
        rows = {name: text for name, text in self.rows.items() if name != "file"}
        return {"rows": rows, "releases": [list(row) for row in self.releases]}

    def as_html(self) -> str:
        """Return it as tables."""
        rows = "".join(html_row(*row) for row in self.rows.items())
        releases = "".join(html_row(*row) for row in self.releases)
        titles = html_row("", "time", "level", "note", n_heads=4)
        claim = "".join(
            f"<p>{html.escape(text)}</p>" for text in (self.claim, *self.caveats)
        )
        return (
            f"<div>{claim}<table>{rows}</table><table>{titles}{releases}</table></div>"
        )


def _level(release: Claim) -> str:
    numbers = triple(release)
    level = in_words(numbers) if release.n_releases or any(numbers) else "no release"
    if release.void or release.leaks:
        return f"{level}, NOT private"
    return level + (", which does not stand" if release.doubts else "")


def in_words(numbers: tuple[float, float, float]) -> str:
    """Write level, delta and risk; the last two only if there are any."""
    epsilon, delta, risk = map(ceil_text, numbers)
    more = "" if delta == "0" else f", delta {delta}"
    if risk != "0":
        more += ", any risk" if risk == "1" else f", risk {risk}"
    return f"epsilon {epsilon}{more}"


def limit_in_words(limit: tuple[float, float, float]) -> str:
    """Write a budget."""
    unlimited = math.isinf(limit[0])
    return "no limit: releases are recorded only" if unlimited else in_words(limit)


def left_in_words(epsilon: float) -> str:
    """Write the level that one more release may have, rounded down."""
    if epsilon == 0:
        return "nothing"
    if math.isinf(epsilon):
        return "no limit"
    return f"one release at epsilon {floor_text(epsilon)}, without delta and risk"
