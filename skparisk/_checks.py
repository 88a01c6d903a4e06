"""Checks of parameters and of groups, and warnings, that the core does not need."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import (
    PrivacyLeakWarning,
    check_at_least,
    check_random_state,
    is_whole,
    warn_caller,
)
from skparisk.core.exact import ByteSource, random_order
from skparisk.core.release import hide_values
from skparisk.core.sealed import People, group_rows

Function = TypeVar("Function", bound=Callable[..., Any])


def warn_private_classes() -> None:
    """Warn that the classes are those of the data that are to be protected."""
    warn_caller(
        "The classes are those of the private labels because none were declared: the "
        "set of classes is released without noise. Declare classes, or give a "
        "reference with labels.",
        PrivacyLeakWarning,
    )


def warn_redrawn() -> None:
    """Warn that two secret samples of the same records were released."""
    warn_caller(
        "Another secret sample of these records, or of a part of them, was released "
        "before, as by each fold of a cross-validation: there is no theorem for both "
        "together. Draw once, half = SecretSample(fraction).draw(X, y), and give "
        "reference=half to all fits.",
        PrivacyLeakWarning,
    )


def warn_private_reference() -> None:
    """Warn that pairs are sampled from the data that are to be protected."""
    warn_caller(
        "Neighboring databases are sampled from the private data themselves, or from a "
        "table that shares records with them: the sensitivity and the noise scale are "
        "then computed from these data without noise, and the guarantee is only about "
        "resamples of them. Ways out: public records, X_reference=X_public, "
        "y_reference=y_public, of which forty may do; a secret sample of the records, "
        "sensitivity=SensitivitySampler(reference=SecretSample(0.5)); a "
        "proven bound, sensitivity='bound', where there is one. The documentation says "
        'how to choose, under "Little or no public data".',
        PrivacyLeakWarning,
    )


def check_bounds(
    bounds: Any, name: str, width: int | None = None
) -> NDArray[np.float64]:
    """Return the ends of each column, (width, 2); one pair may stand for all."""
    try:
        ends = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        ends = np.empty(0)
    if width is not None and ends.shape == (2,):
        ends = np.tile(ends, (width, 1))
    with np.errstate(all="ignore"):
        right = ends.ndim == 2 and ends.shape == (width or max(len(ends), 1), 2)
        sizes = np.diff(ends) if right else np.zeros(1)
    if not ((sizes > 0) & np.isfinite(sizes)).all():
        several = "," if width is None else f", or one for each of the {width} columns,"
        raise ValueError(
            f"{name} must be a pair (lowest, highest) of finite numbers"
            f"{' for each feature' * (width is None)}{several} with lowest < highest; "
            f"got {bounds!r}."
        )
    return ends


def check_flag(value: Any, name: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_n_jobs(value: Any) -> int | None:
    """Return a number of workers in the sense of joblib: any whole number but 0."""
    if value is not None and (not is_whole(value) or value == 0):
        raise ValueError(
            f"n_jobs must be None or a whole number other than 0, got {value!r}."
        )
    return value


def check_verbose(value: Any) -> int:
    """Return how much to tell; None is 0."""
    return 0 if value is None else check_at_least(value, "verbose", 0)


def check_max_rows(max_rows: Any, groups: Any) -> int:
    """Return how many rows of a person a bound is of; 0 where each row is a record."""
    if (max_rows is None) != (groups is None):
        raise ValueError(
            "max_rows and groups must be given together, as a bound is of so many rows "
            f"of each person; got max_rows={max_rows!r} and "
            f"{'no groups' if groups is None else 'groups'}."
        )
    return 0 if max_rows is None else check_at_least(max_rows, "max_rows", 1)


def check_seed(value: Any, name: str) -> None:
    """Refuse what `check_random_state` does, which takes long for a number."""
    if not (is_whole(value) and 0 <= value < 2**32):
        check_random_state(value, name)


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Return what seeds follow from, drawn once; `random_state` is checked."""
    entropy = check_random_state(random_state, "random_state").bytes(16)
    return np.random.SeedSequence(int.from_bytes(entropy, "little"))


def hide_counts(function: Function) -> Function:
    """Let no error of a function show how many rows there are, as a shape does.

    Where that is private: with `groups`, or where it is one of an object whose
    neighbors have one record more or less.
    """

    @wraps(function)
    def hiding(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if kwargs.get("groups") is not None or any(map(_adds_or_removes, args[:1])):
                error.args = tuple(map(_without_counts, error.args))
            raise

    return cast(Function, hiding)


def _adds_or_removes(asked: Any) -> bool:
    """Tell if a method is of an object whose neighbors have another size."""
    parts = asked.get_params().values() if hasattr(asked, "get_params") else ()
    relations = (getattr(part, "relation", None) for part in (asked, *parts))
    return "add-remove" in map(str, relations)


def _without_counts(told: Any) -> Any:
    """Return a message without the number of rows in a shape; intervals are none."""
    shape = r"(?<!reshape)\(\d+(?=,[\d, ]*\))"
    return re.sub(shape, "(n", told) if isinstance(told, str) else told


def private_people(
    groups: Any, size: int, *, max_rows: int = 0, source: ByteSource | None = None
) -> People | None:
    """Return whose each private row is, by number; None where each row is a record.

    In the order in which people come. With a `source`, `max_rows` of each are kept.
    """
    if groups is None:
        return None
    people = hide_values(group_rows, groups, "groups", size)
    if source is None:
        return people
    return people.at_most(max_rows, random_order(size, source))
