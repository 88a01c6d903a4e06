"""Budgets, and the releases that are charged to them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from operator import attrgetter
from typing import Any

from scipy.optimize import toms748

from skparisk._text import floor_text
from skparisk.core.checks import CalibrationError, are_inside, as_float, check_choice
from skparisk.core.claim import Certificate, Claim, as_certificate
from skparisk.core.compose import Totals, compose_basic, exact_total
from skparisk.core.rounding import ceil_text, decimal, exact_sum, round_up
from skparisk.exceptions import BudgetExceededError

# How far the level that is left may be below the largest that fits, relatively; and
# relative to the budget.
_TOLERANCE = 2.0**-25
_NOTHING = 2.0**-40

_ALLOWED = {"epsilon": "(0, inf]", "delta": "[0, 1)", "gamma": "[0, 1]"}
# Equal releases that "exact" composes; it takes as much memory as time.
_MOST = 10_000

_ON_THE_WAY = "Levels may be chosen on the way: what holds in the end is the budget."
COMPOSITIONS = {
    "basic": f"basic. {_ON_THE_WAY}",
    "advanced": f"basic or advanced. {_ON_THE_WAY}",
    "exact": "basic or exact. How many releases there are, and their levels, must not "
    "depend on earlier releases.",
}


@dataclass(frozen=True)
class LedgerEntry:
    """One release that was charged to a ledger, or a leak that it was told of.

    Parameters
    ----------
    certificate : Certificate or FiledCertificate
        Guarantee of this release alone; of 0 releases for a leak. A filed one where the
        ledger is in a file.

    note : str
        Description of the release.

    time : str
        When it was charged: ISO 8601, UTC.
    """

    certificate: Claim
    note: str
    time: str


@dataclass(frozen=True)
class History:
    """The first entries of a list that only grows, maybe releases more, and sums.

    So one more entry costs the same however many there are.
    """

    totals: Totals = field(default_factory=Totals)
    n_entries: int = 0
    _entries: list[LedgerEntry] = field(default_factory=list)
    # Releases, and how many times each of them.
    _more: tuple[tuple[Sequence[Claim], int], ...] = ()

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All charges."""
        return tuple(islice(self._entries, self.n_entries))

    @property
    def parts(self) -> list[Claim]:
        """All releases."""
        more = [c for parts, times in self._more for _ in range(times) for c in parts]
        return [entry.certificate for entry in self.entries] + more

    def plus(self, releases: Sequence[Claim], times: int = 1) -> History:
        """Return it with releases, each so many times, that are not charged yet."""
        totals = self.totals
        for release in releases:
            totals = totals.plus(release, times)
        more = (*self._more, (releases, times))
        return History(totals, self.n_entries, self._entries, more)

    def extended(self, entries: Sequence[LedgerEntry]) -> History:
        """Return it with entries; for the latest history of a list alone."""
        totals = self.plus([each.certificate for each in entries]).totals
        self._entries[self.n_entries :] = entries
        return History(totals, self.n_entries + len(entries), self._entries)


@dataclass(frozen=True)
class Budget:
    """Limits of all releases together, and their composition."""

    epsilon: float
    delta: float
    gamma: float
    composition: str

    def __post_init__(self) -> None:
        check_choice(self.composition, "composition", COMPOSITIONS)
        for name in _ALLOWED:
            object.__setattr__(self, name, _check_limit(getattr(self, name), name))
        if self.composition != "basic" and not self.delta / 2:
            raise ValueError(
                f"composition={self.composition!r} needs a delta above 0, got "
                f"{self.delta!r}."
            )

    @property
    def limit(self) -> tuple[float, float, float]:
        """Largest level, delta and risk; without one of the level there is none."""
        if math.isinf(self.epsilon):
            return math.inf, 1.0, 1.0
        return self.epsilon, self.delta, self.gamma

    def spent(self, history: History) -> Certificate:
        """Return the guarantee of all releases together."""
        basic = history.totals.basic()
        return min(self._claims(history), key=attrgetter("epsilon"), default=basic)

    def fits(self, history: History) -> bool:
        """Tell if releases are within the budget, all of them together."""
        if math.isinf(self.epsilon):
            return True
        return any(level <= self.epsilon for level in self._levels(history))

    def remaining(self, history: History, n: int = 1) -> float:
        """Return the largest level that n more releases may have; 0 if none."""
        if math.isinf(self.epsilon):
            return math.inf
        if self.composition == "exact" and n > _MOST:
            raise ValueError(
                f"n must be at most {_MOST} with composition='exact', got {n}."
            )

        def after(level: float) -> History:
            return history.plus([as_certificate(level)], n)

        def excess(level: float) -> float:
            least = min(self._levels(after(level)), default=math.inf)
            if least <= self.epsilon:
                fitting.append(float(level))
            return min(least - self.epsilon, self.epsilon)

        spent = history.totals.basic().epsilon
        left = decimal(self.epsilon) - decimal(min(spent, self.epsilon))
        low = _floor_float(left / n)
        if not self.fits(after(low)):
            return 0.0
        if self.composition == "basic":
            return low
        fitting = [low]
        high = 2 * max(low, self.epsilon / n)
        while excess(high) <= 0:
            high *= 2
        # It narrows down two levels, of which one fits and the other does not.
        toms748(excess, low, high, xtol=_NOTHING * self.epsilon, rtol=_TOLERANCE)
        return max(fitting)

    def _claims(self, history: History) -> Iterator[Certificate]:
        """Yield guarantees of the releases at the budget's delta, cheapest first."""
        totals = history.totals
        # What is kept of delta for the composition must not depend on the releases.
        slack = self.delta / 2
        advanced = self.composition == "advanced"
        if advanced and totals.sums["delta"] > decimal(self.delta) - decimal(slack):
            return
        yield totals.basic()
        if advanced:
            yield totals.filter(self.delta, slack)
        elif self.composition == "exact":
            with suppress(CalibrationError):  # no level has this delta
                yield exact_total(history.parts, self.delta)

    def _levels(self, history: History) -> Iterator[float]:
        """Yield the levels that releases have together, at a delta and risk within."""
        for claim in self._claims(history):
            epsilon, delta, risk = triple(claim)
            if delta <= self.delta and risk <= self.gamma:
                yield epsilon


def triple(total: Claim) -> tuple[float, float, float]:
    """Return level, delta and risk, with the probability that a certificate fails."""
    risk = round_up(exact_sum((total.risk, total.failure_prob)))
    return total.epsilon, total.delta, min(1.0, risk)


def refusal(
    budget: Budget, history: History, certificates: Sequence[Certificate]
) -> BudgetExceededError:
    """Return the error for releases that do not fit; it may take long to find."""
    asked = compose_basic(certificates)
    spent = triple(budget.spent(history))
    largest = budget.remaining(history)
    return BudgetExceededError(
        f"the budget of the ledger has no room for {in_words(triple(asked))}. Its "
        f"limit is {limit_in_words(budget)}, of which {in_words(spent)} is spent. What "
        f"still fits: {left_in_words(largest)}. Nothing was charged.",
        spent,
        budget.limit,
        largest,
    )


def in_words(numbers: tuple[float, float, float]) -> str:
    """Write level, delta and risk; the last two only if there are any."""
    epsilon, delta, risk = map(ceil_text, numbers)
    more = "" if delta == "0" else f", delta {delta}"
    if risk != "0":
        more += ", any risk" if risk == "1" else f", risk {risk}"
    return f"epsilon {epsilon}{more}"


def limit_in_words(budget: Budget) -> str:
    """Write a budget."""
    if math.isinf(budget.epsilon):
        return "no limit: releases are recorded only"
    return in_words(budget.limit)


def left_in_words(epsilon: float) -> str:
    """Write the level that one more release may have, rounded down."""
    if epsilon == 0:
        return "nothing"
    if math.isinf(epsilon):
        return "no limit"
    return f"one release at epsilon {floor_text(epsilon)}, without delta and risk"


def _floor_float(value: Fraction) -> float:
    """Return the largest float that is written as a decimal number <= `value`."""
    return 0.0 - round_up(-value)


def _check_limit(value: Any, name: str) -> float:
    """Return a limit, rounded down to a float."""
    rounded = as_float(value)
    if not (math.isnan(rounded) or rounded == value):
        rounded = _floor_float(Fraction(*value.as_integer_ratio()))
    if not are_inside(rounded, _ALLOWED[name]):
        raise ValueError(f"{name} must be a number in {_ALLOWED[name]}, got {value!r}.")
    return rounded
