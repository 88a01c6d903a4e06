"""Private records that come back as public ones, which no search may take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.pipeline import make_pipeline

from skparisk._fitted_parts import refuse_frozen_on
from skparisk._training_data import known_of
from skparisk.core.release import hide_values
from skparisk.model_selection._candidates import (
    Records,
    leading_frozen_steps,
    own_sampler,
)
from skparisk.model_selection._levels import private_parts
from skparisk.reference import LearnedReference
from skparisk.reference._records import as_records
from skparisk.reference._secret import SecretDraw, SecretSample
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity import SensitivitySampler


def refuse_private_records(estimators: Sequence[Any], records: Records) -> None:
    """Refuse samplers, frozen steps and references that know the private records.

    Before these are split: parts of them might not be recognized.
    """
    own = RecordSketch.of(hide_values(as_records, records.X, "X"))
    samplers = find_samplers(estimators)
    if any(isinstance(sampler.reference, LearnedReference) for sampler in samplers):
        raise ValueError(
            "A SensitivitySampler of the estimator has a LearnedReference, which no "
            "search takes: each fit would learn anew from other records. Choose on "
            "public records, by simulate_scores, and fit once; or learn once, and "
            "search among the records that remain."
        )
    if any(isinstance(s.reference, SecretSample | SecretDraw) for s in samplers):
        raise ValueError(
            "A SensitivitySampler of the estimator has a SecretSample as its "
            "reference, which no search takes: fits to parts of the records are other "
            "draws. Choose on public records, by simulate_scores, and fit once."
        )
    if any(known_of(sampler).has(own) for sampler in samplers):
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
    if public is None:
        return
    known = RecordSketch.of(as_records(public, "X_reference"))
    # One object with itself also where all its records are alike.
    if records.X is public or own.overlaps(known):
        raise ValueError(
            "X_reference must be public and must not share records with the "
            "training data."
        )


def find_samplers(estimators: Sequence[Any]) -> list[SensitivitySampler]:
    """Return the samplers that the private parts of estimators were given."""
    parts = [part for estimator in estimators for part in private_parts(estimator)]
    return [sampler for sampler in map(own_sampler, parts) if sampler is not None]
