"""Fits of private estimators whose releases are written down, and the choice of one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from skparisk.certificate import Certificate, DominatingLoss
from skparisk.certificate._claim import SEEDED
from skparisk.composition import compose_basic, compose_parallel, post_process
from skparisk.exceptions import (
    IncompatibleError,
    PrivacyLeakWarning,
    UnrecordedReleaseError,
    warn_caller,
)
from skparisk.ledger import PrivacyLedger, spend
from skparisk.ledger._open import check_room
from skparisk.mechanisms import ExponentialMechanism
from skparisk.model_selection._candidates import Records, fit_estimator
from skparisk.model_selection._levels import LEARNS_MORE, Candidate

__all__ = [
    "Choice",
    "charge_leaks",
    "choose_by_exponential",
    "fit_recorded",
]


# What to do in a search about a ledger that is open in another process.
_OWN_LEDGER = (
    "A private search counts with its own ledger, which is open while it fits: use "
    "n_jobs=None in the estimator."
)


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
    leak = Certificate(0.0, leaks=(LEARNS_MORE,))
    spend(leak, note="parts that are not from skparisk")
    warn_caller(
        f"{LEARNS_MORE} Fit them to public data first and wrap them in a "
        "FrozenEstimator, or wrap each in a PrivateEstimator.",
        PrivacyLeakWarning,
    )
    return [leak]


def fit_recorded(
    estimator: Any, records: Records, *, epsilon: float = math.inf
) -> tuple[Any, list[Certificate]]:
    """Fit a clone; return it with what it released, which must be within a level."""
    advice = ""
    try:
        with PrivacyLedger(epsilon) as tape:
            fitted = fit_estimator(estimator, records)
    except UnrecordedReleaseError as error:
        advice = f"{error} {_OWN_LEDGER}"
    if advice:
        raise UnrecordedReleaseError(advice)
    releases = [entry.certificate for entry in tape.releases]
    if not releases:
        raise IncompatibleError(
            "estimator must be private, or a pipeline with a private estimator: the "
            f"fit of {estimator!r} charged nothing to an open ledger."
        )
    return fitted, releases


def choose_by_exponential(
    candidates: Sequence[Candidate],
    training: Records,
    score: Callable[[Any], float],
    *,
    epsilon: float,
    provisos: Iterable[str],
    noise_random_state: Any,
) -> Choice:
    """Fit all candidates, and choose one by scores that a record changes by 1 at most.

    Parameters
    ----------
    candidates : sequence of Candidate

    training : Records
        What is fitted.

    score : callable
        Scores a model on other private records.

    epsilon : float
        Privacy level of the choice.

    provisos : iterable of str
        What the score rests on.

    noise_random_state : int, RandomState, Generator or None

    Returns
    -------
    choice : Choice
    """
    choice = Certificate(
        epsilon,
        relation="replace-one",
        void_reasons=() if noise_random_state is None else (SEEDED,),
        provisos=tuple(provisos),
    )
    known = [level for c in candidates if (level := c.level) is not None]
    # Relations that do not go together are refused before anything is released.
    compose_basic([choice, *known])
    mechanism = ExponentialMechanism(1.0, epsilon)
    if len(known) == len(candidates) and not any(level.delta for level in known):
        check_room(*map(_charged_at_least, known), mechanism)
    models, scores, fits = [], [], charge_leaks(candidates)
    for candidate in candidates:
        model, releases = fit_recorded(candidate.estimator, training)
        models.append(model)
        scores.append(score(model))
        fits += map(post_process, releases)
    index = int(mechanism.choose(scores, noise_random_state=noise_random_state))
    certificate = compose_parallel([compose_basic(fits), choice], partition="position")
    return Choice(index, models[index], certificate)


def _charged_at_least(level: Certificate) -> Certificate:
    """Return a part of what will be charged: risks may be less, and losses known."""
    loss = None
    if math.isfinite(level.epsilon):
        loss = DominatingLoss("laplace", level.epsilon)
    return dataclasses.replace(level, risk=0.0, failure_prob=0.0, loss=loss)
