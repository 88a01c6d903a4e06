"""What rounding costs, and how no number is rounded to the unsafe side."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from skparisk.core.checks import is_number

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
        return str(exact)
    return f"{float(rounded):g}"


def fields_of(part: Any, kind: type | None = None) -> dict[str, Any]:
    """Return the fields of a dataclass, or those that another one has as well."""
    names = [field.name for field in fields(part if kind is None else kind)]
    return {name: getattr(part, name) for name in names}


def safe_root(
    excess: Callable[[float], float], unsafe: float, safe: float, root: float | None
) -> float:
    """Return a root, moved toward `safe` until the excess is not negative."""
    if root is None:
        root = float(brentq(excess, unsafe, safe, xtol=1e-300, rtol=1e-15, maxiter=999))
    clamp = min if unsafe < safe else max
    root, step = clamp(root, safe), math.copysign(math.ulp(root), safe - unsafe)
    while root != safe and excess(root) < 0:
        root, step = clamp(root + step, safe), 2 * step
    return root


def unwrap(values: Any) -> Any:
    """Return a float for a single number, the array otherwise."""
    return float(values) if np.ndim(values) == 0 else values


# Steps of the grid in a noise scale: as a rule at least, and at the most.
USUAL_STEPS = 2**40
MOST_STEPS = 2**52

# Share of the privacy level that pays for the grid.
GRID_SHARE = 2.0**-20


def below(epsilon: float) -> float:
    """Return the level to calibrate continuous noise at."""
    return epsilon * (1 - GRID_SHARE)


def with_grid(losses: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return losses on a grid that is fine enough for `epsilon`, rounded up."""
    return losses + 2 * GRID_SHARE * np.maximum(losses, epsilon)


def grid_steps(epsilon: float, reach: float, shift: float) -> int:
    """Return the steps of the grid at which it costs its share of the level at most.

    Rounding lengthens a distance by at most `reach` steps, and the loss of two answers
    so many scales apart moves by at most that over the steps, or by 8 if that is more,
    where the noise moves within a step at both ends; see `Law.on_grid`.
    """
    finest = max((max(shift, 8.0) + 1) / epsilon, 1 / shift if shift else math.inf)
    steps = reach * finest / GRID_SHARE
    if not steps <= MOST_STEPS / 2:
        least = epsilon * steps / (MOST_STEPS / 2)
        wanted = f"at least {least:.3g}" if math.isfinite(least) else "larger"
        raise ValueError(
            f"epsilon must be {wanted} for this many outputs with noise on a grid, "
            f"got {epsilon!r}."
        )
    return max(USUAL_STEPS, math.ceil(steps))


def advantage_steps(advantage: float, n_outputs: int, n_pairs: int) -> int:
    """Return the steps for a mean advantage of at most this.

    The grid adds at most 9 outputs / steps to the advantage of a pair: that is a small
    share of what is asked for, and half of what is left to the sampled pairs.
    """
    left = Fraction(advantage) * (n_pairs + 1) - 1
    share = min(Fraction(advantage) / 2**18, left / (2 * n_pairs))
    steps = math.ceil(9 * n_outputs / share)
    if steps > MOST_STEPS / 2:
        raise ValueError(
            "advantage must be larger for this many outputs and pairs with noise on a "
            f"grid, or n_pairs larger, got {advantage!r} with {n_outputs} outputs and "
            f"n_pairs={n_pairs}."
        )
    return max(USUAL_STEPS, steps)
