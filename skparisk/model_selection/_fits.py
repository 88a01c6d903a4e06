"""Fits of a search: records that they refuse, releases that they record, the choice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from skparisk._fitted_parts import refuse_frozen_on
from skparisk._training_data import known_of
from skparisk._words import LEAKS
from skparisk.core.checks import IncompatibleError, PrivacyLeakWarning, warn_caller
from skparisk.core.claim import Certificate, Leak, as_certificate
from skparisk.core.release import hide_values
from skparisk.exceptions import UnrecordedReleaseError
from skparisk.ledger import PrivacyLedger
from skparisk.ledger._open import tell_open
from skparisk.model_selection._candidates import (
    Records,
    fit_estimator,
    leading_frozen_steps,
    own_sampler,
)
from skparisk.model_selection._levels import Candidate, private_parts
from skparisk.reference import LearnedReference
from skparisk.reference._records import as_records
from skparisk.reference._secret import SecretDraw, SecretSample
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity import SensitivitySampler

# Remedy in a search for a ledger that is open in another process.
_OWN_LEDGER = (
    "A private search counts with its own ledger, which is open while it fits: use "
    "n_jobs=None in the estimator."
)


@dataclass(frozen=True, eq=False)
class Task:
    """Candidates, records and parameters of a selection."""

    candidates: Sequence[Candidate]
    records: Records
    seeds: np.random.SeedSequence
    estimator: Any
    scoring: Any
    n_jobs: int | None
    verbose: int
    noise_random_state: Any


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen candidate, fitted, and the guarantee of the whole search."""

    index: int
    fitted: Any
    certificate: Certificate
    results: dict[str, Any] | None = None


def charge_leaks(candidates: Iterable[Candidate]) -> list[Certificate]:
    """Charge, warn of and return what fits of candidates may hold without noise."""
    if not any(candidate.learns_more for candidate in candidates):
        return []
    leak = tell_open(leaks=[Leak.LEARNS_MORE], note="parts that are not from skparisk")
    warn_caller(
        f"{LEAKS[Leak.LEARNS_MORE]} Fit them to public data first and wrap them in a "
        "FrozenEstimator, or wrap each in a PrivateEstimator.",
        PrivacyLeakWarning,
    )
    return [leak]


def fit_recorded(estimator: Any, records: Records) -> tuple[Any, list[Certificate]]:
    """Fit a clone; return it with the certificates of its releases."""
    advice = ""
    try:
        with PrivacyLedger(math.inf) as tape:
            fitted = fit_estimator(estimator, records)
    except UnrecordedReleaseError as error:
        advice = f"{error} {_OWN_LEDGER}"
    if advice:
        raise UnrecordedReleaseError(advice)
    # A ledger in memory keeps the certificates themselves.
    releases = [as_certificate(entry.certificate) for entry in tape.releases]
    if not releases:
        raise IncompatibleError(
            "estimator must be private, or a pipeline with a private estimator: the "
            f"fit of {estimator!r} charged nothing to an open ledger."
        )
    return fitted, releases


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
