"""Numbers in words: rounded so that no claim is larger than what holds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

__all__ = ["NEIGHBORS", "NO_NOISE", "SEEDED", "ceil_text"]

NEIGHBORS = {
    "replace-one": "two databases that differ in one record",
    "add-remove": "two databases of which one has one record more",
}

# Each caveat is one sentence.
SEEDED = (
    "The noise was drawn from a seed (noise_random_state), so it can be removed: "
    "this release is NOT private."
)
NO_NOISE = "epsilon is infinite and no noise was added: this release is NOT private."


def ceil_text(value: float, n_digits: int = 6) -> str:
    """Write a number rounded up to some digits: it is never claimed too small."""
    if math.isinf(value):
        return "inf"
    exact = Decimal(repr(value))
    rounded = Context(prec=n_digits, rounding=ROUND_CEILING).create_decimal(exact)
    if rounded == 1 and exact < 1:  # a probability of 1 would say nothing
        return format(exact, "f")
    return f"{float(rounded):g}"
