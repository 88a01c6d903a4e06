"""Estimators that follow from released sums: which they are, and what serves them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from sklearn.pipeline import Pipeline


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


def steps_before(fitted: Any) -> Pipeline | None:
    """Return the steps of a fitted pipeline before its last, if there are any."""
    several = isinstance(fitted, Pipeline) and len(fitted) > 1
    return fitted[:-1] if several else None


def step_names(before: Pipeline | None) -> tuple[str, ...]:
    """Return the names of these steps."""
    return () if before is None else tuple(before.named_steps)


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
    n_records: float

    def check_serves(self, method: str) -> None:
        """Do nothing: each method is served."""

    def _inside(self, name: str) -> str:
        """Return where an attribute is, of a fit that may be a pipeline's last step."""
        if isinstance(self.fitted, Pipeline):
            return f"steps.{self.fitted.steps[-1][0]}.{name}"
        return name
