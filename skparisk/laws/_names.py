"""Laws by name, and laws of one's own."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

from skparisk.core.checks import check_choice
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


def check_name(part: Any, what: str, taken: Iterable[str], one: str = "one") -> None:
    """Refuse a part of the caller's without a name, or with that of one of ours.

    A name of another type than str could be equal to none, and be written as one of
    ours.
    """
    if type(part.name) is not str or not part.name:
        raise ValueError(f"{what} must have a name, got {part.name!r}.")
    if part.name in taken and not is_ours(part):
        raise ValueError(
            f"{what} must not be {one} of your own named {part.name!r}, which "
            "certificates use for one of skparisk's; give it another name."
        )


def as_law(law: Any) -> Law:
    """Return the law of a name, or the one that is given."""
    if not isinstance(law, Law):
        return LAWS[check_choice(law, "law", LAWS)]()
    check_name(law, "law", OWN_NAMES)
    if law.norm not in NORMS:
        raise ValueError(
            f"law must have the norm 1, 2 or inf; got {law!r} with {law.norm!r}."
        )
    if type(law).__hash__ is None:
        raise ValueError(
            f"law must be a value, immutable and hashable; got {law!r} of a class that "
            "is not: make it a dataclass with frozen=True."
        )
    return law
