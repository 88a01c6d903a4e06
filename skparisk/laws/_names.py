"""Laws by name, and laws of one's own."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from skparisk._validate import check_choice
from skparisk.laws._base import Law
from skparisk.laws._exponential import Exponential
from skparisk.laws._gaussian import Gaussian
from skparisk.laws._laplace import Laplace

LAWS: dict[str, Callable[[], Law]] = {
    "laplace": Laplace,
    "gaussian": Gaussian,
    "gaussian-classical": lambda: Gaussian("classical"),
    "exponential": Exponential,
}
# Names of proven laws. That of noise for a matrix is none of single numbers.
OWN_NAMES = frozenset({*LAWS, "wishart"})
NORMS: dict[float, str] = {1: "l1", 2: "l2", math.inf: "sup"}


def is_ours(part: Any) -> bool:
    """Tell if an object is of this package, where it was proven or is marked."""
    kind = type(part)
    module = kind.__module__
    if module.partition(".")[0] != __name__.partition(".")[0]:
        return False
    # A class says itself where it is from: it must also be found there.
    return getattr(sys.modules.get(module), kind.__qualname__, None) is kind


def is_named(part: Any) -> bool:
    """Tell if a part has a name, as a plain string.

    One of another type could be equal to none, and be written as one of ours.
    """
    return type(part.name) is str and bool(part.name)


def as_law(law: Any) -> Law:
    """Return the law of a name, or the one that is given."""
    if not isinstance(law, Law):
        return LAWS[check_choice(law, "law", LAWS)]()
    if not is_named(law) or law.norm not in NORMS:
        raise ValueError(
            f"law must have a name, and the norm 1, 2 or inf; got {law!r} with the "
            f"name {law.name!r} and the norm {law.norm!r}."
        )
    if type(law).__hash__ is None:
        raise ValueError(
            f"law must be a value, immutable and hashable; got {law!r} of a class that "
            "is not: make it a dataclass with frozen=True."
        )
    if not is_ours(law) and law.name in OWN_NAMES:
        raise ValueError(
            f"law must not be one of your own named {law.name!r}, which certificates "
            "use for one of skparisk's; give it another name."
        )
    return law
