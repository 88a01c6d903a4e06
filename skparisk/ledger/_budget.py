"""A budget: what releases guarantee together, and whether that is within it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from operator import attrgetter
from typing import Any

from scipy.optimize import toms748

from skparisk._validate import check_choice, check_epsilon
from skparisk.composition import (
    PrivacyGuarantee,
    compose_basic,
    compose_exact,
    compose_filter,
)
from skparisk.composition._guarantee import ceil_float, exact_sum
from skparisk.exceptions import CalibrationError

__all__ = ["RULES", "Budget", "triple"]

# How far the level that is left may be below the largest that fits, relatively; and
# relative to the budget.
_TOLERANCE = 2.0**-25
_NOTHING = 2.0**-40

Parts = Sequence[PrivacyGuarantee]


def _basic(parts: Parts, delta: float) -> Iterator[PrivacyGuarantee]:
    yield compose_basic(parts)


def _advanced(parts: Parts, delta: float) -> Iterator[PrivacyGuarantee]:
    # What is kept of delta for the composition must not depend on the releases.
    slack = delta / 2
    if _own_delta(parts) <= _decimal(delta) - _decimal(slack):
        yield compose_basic(parts)
        yield compose_filter(parts, delta=delta, slack=slack)


def _exact(parts: Parts, delta: float) -> Iterator[PrivacyGuarantee]:
    yield compose_basic(parts)
    try:
        together = compose_exact(parts, delta=delta)
    except CalibrationError:  # no level has this delta
        return
    yield together


@dataclass(frozen=True)
class Rule:
    """How releases compose."""

    # What holds for releases together at a delta, in the order of what it costs to
    # find; any of it may be used.
    claims: Callable[[Parts, float], Iterator[PrivacyGuarantee]]
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
        plain = {
            "epsilon": check_epsilon(self.epsilon),
            "delta": _check_share(self.delta, "delta"),
            "gamma": _check_share(self.gamma, "gamma"),
        }
        if plain["delta"] == 1:
            raise ValueError("delta must be a number in [0, 1), got 1.")
        if self.composition != "basic" and plain["delta"] == 0:
            raise ValueError(
                f"composition={self.composition!r} needs a delta above 0, got 0."
            )
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def limit(self) -> tuple[float, float, float]:
        """Largest level, delta and risk."""
        return self.epsilon, self.delta, self.gamma

    def spent(self, parts: Parts) -> PrivacyGuarantee:
        """Return what releases guarantee together."""
        claims = RULES[self.composition].claims(parts, self.delta)
        return min(claims, key=attrgetter("epsilon"), default=compose_basic(parts))

    def fits(self, parts: Parts) -> bool:
        """Tell if releases are within the budget, all of them together."""
        if math.isinf(self.epsilon):
            compose_basic(parts)  # refuses releases about different neighbors
            return True
        return any(level <= self.epsilon for level in self._levels(parts))

    def remaining(self, parts: Parts, n: int = 1) -> float:
        """Return the largest level that n more releases may have; 0 if none."""
        if math.isinf(self.epsilon):
            return math.inf

        def after(level: float) -> list[PrivacyGuarantee]:
            return [*parts, *[PrivacyGuarantee(level)] * n]

        def excess(level: float) -> float:
            least = min(self._levels(after(level)), default=math.inf)
            if least <= self.epsilon:
                fitting.append(float(level))
            return min(least - self.epsilon, self.epsilon)

        spent = compose_basic(parts).epsilon
        left = _decimal(self.epsilon) - _decimal(min(spent, self.epsilon))
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

    def _levels(self, parts: Parts) -> Iterator[float]:
        """Yield the levels that releases have together, at a delta and risk within."""
        for claim in RULES[self.composition].claims(parts, self.delta):
            epsilon, delta, risk = triple(claim)
            if delta <= self.delta and risk <= self.gamma:
                yield epsilon


def triple(total: PrivacyGuarantee) -> tuple[float, float, float]:
    """Return level, delta and risk, with the probability that a certificate fails."""
    risk = ceil_float(exact_sum((total.risk, total.failure_prob)))
    return total.epsilon, total.delta, min(1.0, risk)


def _own_delta(parts: Parts) -> Fraction:
    return exact_sum(part.delta for part in parts)


def _decimal(number: float) -> Fraction:
    return Fraction(repr(number))


def _floor_float(value: Fraction) -> float:
    """Return the largest float that is written as a decimal number <= `value`."""
    return 0.0 - ceil_float(-value)


def _check_share(value: Any, name: str) -> float:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number in [0, 1], got {value!r}.")
    return float(value)
