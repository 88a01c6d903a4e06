"""A budget: what releases guarantee together, and whether that is within it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

from skparisk._validate import check_choice, check_epsilon
from skparisk.composition import (
    PrivacyGuarantee,
    compose_basic,
    compose_exact,
    compose_filter,
)
from skparisk.composition._guarantee import ceil_float, exact_sum

__all__ = ["RULES", "Budget", "triple"]

Parts = Sequence[PrivacyGuarantee]

# How far the level that is left may be below the largest that fits, relatively; and
# which share of the budget is none.
_TOLERANCE = 2.0**-24
_NOTHING = 2.0**-40


@dataclass(frozen=True)
class Rule:
    """How releases compose: basic composition, and what may be used beside it."""

    # Of delta, what is kept for the composition, fixed before the first release.
    slack_share: float
    # What else holds for releases together, given the delta and the slack.
    other: Callable[[Parts, float, float], PrivacyGuarantee] | None
    text: str


def _filter(parts: Parts, delta: float, slack: float) -> PrivacyGuarantee:
    return compose_filter(parts, delta=delta, slack=slack)


def _exact(parts: Parts, delta: float, slack: float) -> PrivacyGuarantee:
    if _own_delta(parts) == _decimal(delta):  # nothing is left for the composition
        return compose_basic(parts)
    return compose_exact(parts, delta=delta)


_ON_THE_WAY = "Levels may be chosen on the way: what holds in the end is the budget."

RULES = {
    "basic": Rule(0.0, None, f"basic. {_ON_THE_WAY}"),
    "advanced": Rule(0.5, _filter, f"basic or advanced. {_ON_THE_WAY}"),
    "exact": Rule(
        0.0,
        _exact,
        "basic or by privacy loss distributions. How many releases there are, and "
        "their levels, must not depend on earlier releases.",
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
        return min(self._totals(parts), key=lambda total: total.epsilon)

    def fits(self, parts: Parts) -> bool:
        """Tell if releases are within the budget, all of them together."""
        if math.isinf(self.epsilon):
            compose_basic(parts)  # refuses releases about different neighbors
            return True
        within = any(map(self._holds, self._totals(parts)))
        return within and self._own_deltas_fit(parts)

    def remaining(self, parts: Parts, n: int = 1) -> float:
        """Return the largest level that n more releases may have; 0 if none."""
        if math.isinf(self.epsilon):
            return math.inf

        def fits(level: float) -> bool:
            return self.fits([*parts, *[PrivacyGuarantee(level)] * n])

        low = _floor_float(self._left_by_basic(parts) / n)
        if RULES[self.composition].other is None or not fits(low):
            return low
        high = 2 * max(low, self.epsilon / n)
        while fits(high):
            low, high = high, 2 * high
        while high - low > _TOLERANCE * high and high > _NOTHING * self.epsilon:
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    @property
    def _slack(self) -> float:
        return self.delta * RULES[self.composition].slack_share

    def _own_deltas_fit(self, parts: Parts) -> bool:
        return _own_delta(parts) + _decimal(self._slack) <= _decimal(self.delta)

    def _left_by_basic(self, parts: Parts) -> Fraction:
        spent = compose_basic(parts).epsilon
        if spent > self.epsilon:
            return Fraction(0)
        return _decimal(self.epsilon) - _decimal(spent)

    def _totals(self, parts: Parts) -> Iterator[PrivacyGuarantee]:
        """Yield what holds for releases together; the cheapest to find first."""
        basic = compose_basic(parts)
        yield basic
        other = RULES[self.composition].other
        valid = self._own_deltas_fit(parts) and 0 < basic.epsilon < math.inf
        if other is not None and valid:
            yield other(parts, self.delta, self._slack)

    def _holds(self, total: PrivacyGuarantee) -> bool:
        # The risk is at most 1, so that any is within gamma=1.
        return all(map(operator.le, triple(total), self.limit))


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
