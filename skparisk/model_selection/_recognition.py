"""Private records that come back as public ones, which no search may take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from skparisk._fitted_parts import refuse_frozen_on
from skparisk._private import has_records_of
from skparisk.model_selection._candidates import (
    Records,
    leading_frozen_steps,
    own_sampler,
)
from skparisk.model_selection._levels import private_parts
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity import SensitivitySampler

__all__ = ["find_samplers", "refuse_private_records"]


def refuse_private_records(estimators: Sequence[Any], records: Records) -> None:
    """Refuse samplers, frozen steps and references that know the private records.

    Before these are split: parts of them might not be recognized.
    """
    own = _sketch(records.X)
    samplers = find_samplers(estimators)
    if own is not None and any(has_records_of(sampler, own) for sampler in samplers):
        raise ValueError(
            "A SensitivitySampler of the estimator was fitted on private records, or "
            "has them as its reference: give it a public reference."
        )
    for estimator in estimators:
        frozen = leading_frozen_steps(estimator)
        parts = [step.estimator for step in frozen]
        whole = [make_pipeline(*frozen)] if frozen else []
        refuse_frozen_on(parts, whole, records.X, records.y)
    public = records.X_reference
    if public is not None and _shares_records(records.X, public):
        raise ValueError(
            "X_reference must be public and must not share records with the "
            "training data."
        )


def find_samplers(estimators: Sequence[Any]) -> list[SensitivitySampler]:
    """Return the samplers that the private parts of estimators were given."""
    parts = [part for estimator in estimators for part in private_parts(estimator)]
    return [sampler for sampler in map(own_sampler, parts) if sampler is not None]


def _shares_records(X: Any, other: Any) -> bool:
    """Tell if two tables have records in common; sparse ones if they are one object."""
    if X is other or hasattr(X, "tocsr") or hasattr(other, "tocsr"):
        return X is other
    one, two = _sketch(X), _sketch(other)
    if one is None or two is None:
        return np.array_equal(np.asarray(X), np.asarray(other))
    return one.overlaps(two)


def _sketch(X: Any) -> RecordSketch | None:
    """Return hashes of records, where they are numbers."""
    try:
        return RecordSketch.of(np.asarray(X, dtype=np.float64))
    except (TypeError, ValueError):
        return None
