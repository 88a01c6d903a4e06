"""A budget: what releases guarantee together, and whether that is within it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Any

from scipy.optimize import toms748

from skparisk.core.checks import CalibrationError, are_inside, as_float, check_choice
from skparisk.core.claim import Certificate, Claim, as_certificate
from skparisk.core.compose import exact_total
from skparisk.core.rounding import decimal, exact_sum, round_up
from skparisk.ledger._history import History

# How far the level that is left may be below the largest that fits, relatively; and
# relative to the budget.
_TOLERANCE = 2.0**-25
_NOTHING = 2.0**-40

_ALLOWED = {"epsilon": "(0, inf]", "delta": "[0, 1)", "gamma": "[0, 1]"}
# Of equal releases that "exact" composes; it takes as much memory as time.
_MOST = 10_000


def _basic(history: History, delta: float) -> Iterator[Certificate]:
    yield history.totals.basic()


def _advanced(history: History, delta: float) -> Iterator[Certificate]:
    # What is kept of delta for the composition must not depend on the releases.
    slack = delta / 2
    if history.totals.sums["delta"] <= decimal(delta) - decimal(slack):
        yield history.totals.basic()
        yield history.totals.filter(delta, slack)


def _exact(history: History, delta: float) -> Iterator[Certificate]:
    yield history.totals.basic()
    with suppress(CalibrationError):  # no level has this delta
        yield exact_total(history.parts, delta)


@dataclass(frozen=True)
class Rule:
    """How releases compose."""

    # What holds for releases together at a delta, in the order of what it costs to
    # find; any of it may be used.
    claims: Callable[[History, float], Iterator[Certificate]]
    text: str


_ON_THE_WAY = "Levels may be chosen on the way: what holds in the end is the budget."

RULES = {
    "basic": Rule(_basic, f"basic. {_ON_THE_WAY}"),
    "advanced": Rule(_advanced, f"basic or advanced. {_ON_THE_WAY}"),
    "exact": Rule(
        _exact,
        "basic or exact. How many releases there are, and their levels, must not "
        "depend on earlier releases.",
    ),
}


@dataclass(frozen=True)
class Budget:
    """What releases may guarantee together, and how that is found."""

    epsilon: float
    delta: float
    gamma: float
    composition: str

    def __post_init__(self) -> None:
        check_choice(self.composition, "composition", RULES)
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
        """Return what releases guarantee together."""
        claims = RULES[self.composition].claims(history, self.delta)
        basic = history.totals.basic()
        return min(claims, key=attrgetter("epsilon"), default=basic)

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

    def _levels(self, history: History) -> Iterator[float]:
        """Yield the levels that releases have together, at a delta and risk within."""
        for claim in RULES[self.composition].claims(history, self.delta):
            epsilon, delta, risk = triple(claim)
            if delta <= self.delta and risk <= self.gamma:
                yield epsilon


def triple(total: Claim) -> tuple[float, float, float]:
    """Return level, delta and risk, with the probability that a certificate fails."""
    risk = round_up(exact_sum((total.risk, total.failure_prob)))
    return total.epsilon, total.delta, min(1.0, risk)


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
