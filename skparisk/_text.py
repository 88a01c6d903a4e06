"""Numbers in words: rounded so that no claim is larger than what holds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context

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
    digits = Context(prec=n_digits, rounding=ROUND_CEILING)
    return f"{float(digits.create_decimal(repr(value))):g}"
