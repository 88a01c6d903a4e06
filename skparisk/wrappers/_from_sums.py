"""Estimators that follow from released sums: which they are, and what serves them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from sklearn.pipeline import Pipeline

from skparisk.queries._addends import TargetAddend
from skparisk.reference import Reference, SchemaReference
from skparisk.wrappers._public_steps import PublicSteps

# Targets that vary by less, against the largest, do not vary: their units are that one.
_LEAST_SPREAD = 2.0**-30


def find_kind(estimator: Any, kinds: Mapping[str, Collection[str]]) -> Any:
    """Return an estimator of exactly a known class: itself, or the end of a pipeline.

    None, where there is none. Classes are given by the package they are imported from.
    """
    if isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    kind = type(estimator)
    for package, names in kinds.items():
        known = getattr(sys.modules.get(package), kind.__qualname__, None)
        if kind.__qualname__ in names and known is kind:
            return estimator
    return None


def find_target_addend(y: Any, reference: Reference, n_records: int) -> TargetAddend:
    """Return what targets add, in the range of the reference, and in its units."""
    targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    low, high = targets.min(axis=0), targets.max(axis=0)
    domain = reference.domain
    if domain is not None and domain.target_box is not None:
        low, high = domain.target_box
    # Their squares, and what they add up to, may be beyond all numbers.
    size = np.maximum(np.abs(low), np.abs(high))
    size = np.where(size > 0, size, 1.0)
    shares = targets / size
    center, unit = size * shares.mean(axis=0), size * shares.std(axis=0)
    if isinstance(reference, SchemaReference) and reference.learning is None:
        center = low / 2 + high / 2
    unit = np.where(unit > _LEAST_SPREAD * size, unit, size)
    return TargetAddend(low, high, center, unit, n_records)


@dataclass(frozen=True, eq=False)
class SumsTemplate:
    """What is public of an estimator; all its methods follow from released sums."""

    # What methods would need besides: nothing.
    needs: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})

    # With what is of public records.
    fitted: Any
    # What was summed.
    addend: Any
    # Private records.
    n_records: int
    # What was fitted on the reference.
    public_steps: PublicSteps = field(default=PublicSteps(), kw_only=True)

    def check_serves(self, method: str) -> None:
        """Do nothing: each method is served."""

    def _inside(self, name: str) -> str:
        """Return where an attribute is, of a fit that may be a pipeline's last step."""
        if isinstance(self.fitted, Pipeline):
            return f"steps.{self.fitted.steps[-1][0]}.{name}"
        return name
