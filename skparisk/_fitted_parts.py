"""Parts of a wrapped estimator that were fitted before, maybe on the private data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator

from skparisk._fitted import fitted_names
from skparisk.core.checks import PrivacyLeakWarning, warn_caller
from skparisk.core.release import forgetting, silenced
from skparisk.core.sealed import copy_records, take_rows
from skparisk.queries._estimator import repeatable, takes_targets
from skparisk.queries._state import find_places
from skparisk.reference._records import n_rows

# Sums in another order, or of numbers that were rounded to 32 bits, differ by less.
_SAME = 1e-5


@dataclass(frozen=True)
class FittedParts:
    """What came fitted: bare, to be fitted again, or frozen, to be used as it is."""

    bare: tuple[Any, ...]
    frozen: tuple[Any, ...]


def find_fitted_parts(estimator: Any) -> FittedParts:
    """Return the parts of an estimator that are fitted already, but for samplers."""
    frozen, bare = [], []
    params = estimator.get_params(deep=True)
    closed = tuple(
        f"{name}__"
        for name, part in params.items()
        if isinstance(part, FrozenEstimator)
    )
    for name, part in params.items():
        if "sensitivity" in name.split("__") or name.startswith(closed):
            continue
        if isinstance(part, FrozenEstimator):
            frozen.append(part.estimator)
        elif _is_fitted(part):
            bare.append(part)
    return FittedParts(tuple(bare), tuple(frozen))


def warn_fitted_parts(estimator: Any) -> None:
    """Warn that what was learned before stays in the parameters."""
    for part in find_fitted_parts(estimator).bare:
        warn_caller(
            f"The {type(part).__name__} has already been fitted, and what it learned "
            "stays in this model's parameters without noise. Wrap a clone "
            "instead (sklearn.base.clone).",
            PrivacyLeakWarning,
        )


def refuse_frozen_on(
    frozen: Sequence[Any], estimators: Iterable[Any], X: Any, y: Any
) -> None:
    """Refuse frozen parts that have learned what a fit to private records learns.

    The `estimators` that hold them are thawed, fitted to these records, and forgotten.
    A part that either half of the records teaches the same, such as the range of few
    values, shows no sign of having learned it from these.
    """
    for estimator in estimators:
        suspects = alike = _that_learned(frozen, estimator, X, y)
        if not suspects:
            continue
        order = np.random.default_rng(0).permutation(n_rows(X))
        for half in (order[::2], order[1::2]):
            some, targets = take_rows(X, half), take_rows(y, half)
            alike = _that_learned(alike, estimator, some, targets)
        if len(alike) < len(suspects):
            raise ValueError(
                "A frozen part of the estimator holds what a fit to the training data "
                "would learn, and it would be released without noise. Fit it on public "
                "records."
            )


@forgetting
def _that_learned(frozen: Sequence[Any], estimator: Any, X: Any, y: Any) -> list[Any]:
    """Return the frozen parts that have learned what a fit to records learns."""
    if not frozen:
        return []
    try:
        with np.errstate(all="ignore"), silenced():
            thawed = repeatable(_thaw(estimator))
            records = copy_records(X)
            thawed.fit(records, y) if takes_targets(thawed) else thawed.fit(records)
    except Exception:
        return []  # there is nothing that it could have learned from these records
    parts = [thawed, *(part for _, part in find_places(thawed))]
    found = [part for part in parts if _is_fitted(part)]
    return [
        part for part in frozen if any(_learned_the_same(part, one) for one in found)
    ]


def _is_fitted(part: Any) -> bool:
    return isinstance(part, BaseEstimator) and bool(fitted_names(part))


def _thaw(estimator: Any) -> Any:
    """Return a clone in which nothing is frozen."""
    if isinstance(estimator, FrozenEstimator):
        return clone(estimator.estimator)
    thawed = clone(estimator)
    frozen = {
        name: clone(part.estimator)
        for name, part in thawed.get_params(deep=True).items()
        if isinstance(part, FrozenEstimator)
    }
    return thawed.set_params(**frozen)


def _learned_the_same(one: Any, other: Any) -> bool:
    """Tell if two fits of one kind have the same numbers, of which there are some."""
    if type(one) is not type(other):
        return False
    numbers = [
        {
            name: np.asarray(value)
            for name in fitted_names(part)
            if isinstance(value := vars(part)[name], np.ndarray | float)
            and np.asarray(value).dtype.kind == "f"
        }
        for part in (one, other)
    ]
    first, second = numbers
    return bool(first) and all(
        name in second
        and value.shape == second[name].shape
        and np.allclose(value, second[name], rtol=_SAME, atol=0.0, equal_nan=True)
        for name, value in first.items()
    )
