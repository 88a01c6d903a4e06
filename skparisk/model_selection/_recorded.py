"""What a search chooses from and returns, and fits whose releases are recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skparisk._words import LEAKS
from skparisk.core.checks import IncompatibleError, PrivacyLeakWarning, warn_caller
from skparisk.core.claim import Certificate, Leak, as_certificate
from skparisk.exceptions import UnrecordedReleaseError
from skparisk.ledger import PrivacyLedger
from skparisk.ledger._open import tell_open
from skparisk.model_selection._candidates import Records, fit_estimator
from skparisk.model_selection._levels import Candidate

# What to do in a search about a ledger that is open in another process.
_OWN_LEDGER = (
    "A private search counts with its own ledger, which is open while it fits: use "
    "n_jobs=None in the estimator."
)


@dataclass(frozen=True, eq=False)
class Task:
    """What a selection chooses from, and the parameters that all of them share."""

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
    """The candidate that was chosen, fitted, and what all of it guarantees."""

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
    # Of a ledger in memory, which keeps what it was charged with.
    releases = [as_certificate(entry.certificate) for entry in tape.releases]
    if not releases:
        raise IncompatibleError(
            "estimator must be private, or a pipeline with a private estimator: the "
            f"fit of {estimator!r} charged nothing to an open ledger."
        )
    return fitted, releases
