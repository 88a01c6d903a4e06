"""What a reproduction reports: lines of numbers, and pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

DANDEKAR = "Dandekar"
RUBINSTEIN = "Rubinstein"
LECTURE = "Lecture"


@dataclass(frozen=True)
class Line:
    """One number or statement of a source, and the same by skparisk.

    Parameters
    ----------
    item : str
        Where it stands, as "Figure 5" or "Section 5.3".
    what : str
        What it is.
    paper, here : str
        As the source has it, and as it came out.
    agrees : bool or None
        Compared in this run; None where there is nothing to compare with.
    why_not : str, default=""
        The reason, for a difference that is known, or for none being possible.
    note : str, default=""
        What else a reader must know, above all what is true.
    """

    item: str
    what: str
    paper: str
    here: str
    agrees: bool | None
    why_not: str = ""
    note: str = ""

    @property
    def surprising(self) -> bool:
        """Whether it differs without a reason, or agrees although one is given."""
        return bool(self.agrees) == bool(self.why_not)

    @property
    def verdict(self) -> str:
        return {True: "yes", False: "no", None: "not comparable"}[self.agrees]


@dataclass(frozen=True)
class Picture:
    """A figure of a source, drawn again, with what it claims and what is true."""

    item: str
    claim: str
    verdict: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (7.0, 3.2)

    @property
    def file_stem(self) -> str:
        return re.sub(r"\W+", "_", self.item.lower()).strip("_")


@dataclass(frozen=True)
class Study:
    """All that one script reproduces."""

    source: str
    lines: list[Line]
    pictures: list[Picture] = field(default_factory=list)

    def surprises(self) -> list[Line]:
        return [line for line in self.lines if line.surprising]


def near(here: float, paper: float, digits: int) -> bool:
    """Return whether a number is the printed one, to a unit of its last digit.

    Papers round, and some cut off: 74434.41 is printed as 74434.40.
    """
    return abs(here - paper) <= 1.01 * 10.0**-digits
