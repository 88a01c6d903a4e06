"""Fits of private estimators whose releases are written down, and the choice of one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from skparisk._text import SEEDED
from skparisk.composition import (
    PrivacyGuarantee,
    compose_basic,
    compose_parallel,
    post_process,
)
from skparisk.exceptions import IncompatibleError
from skparisk.ledger import PrivacyLedger
from skparisk.mechanisms import ExponentialMechanism
from skparisk.model_selection._candidates import Records, fit_estimator
from skparisk.model_selection._levels import Candidate

__all__ = ["Choice", "add_provisos", "choose_by_exponential", "fit_recorded"]


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidate that was chosen, fitted, and what all of it guarantees."""

    index: int
    fitted: Any
    certificate: PrivacyGuarantee
    results: dict[str, Any] | None = None


def fit_recorded(
    estimator: Any, records: Records, *, epsilon: float = math.inf, gamma: float = 1.0
) -> tuple[Any, list[PrivacyGuarantee]]:
    """Fit a clone; return it with what it released, which must be within a budget."""
    with PrivacyLedger(epsilon, gamma=gamma) as tape:
        fitted = fit_estimator(estimator, records)
    releases = [entry.guarantee for entry in tape.releases]
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
    choice = PrivacyGuarantee(
        epsilon,
        relation="replace-one",
        void_reasons=() if noise_random_state is None else (SEEDED,),
        provisos=tuple(provisos),
    )
    # Relations that do not go together are refused before anything is released.
    compose_basic([choice, *(c.level for c in candidates if c.level is not None)])
    mechanism = ExponentialMechanism(1.0, epsilon)
    models, scores, fits = [], [], []
    for candidate in candidates:
        model, releases = fit_recorded(candidate.estimator, training)
        models.append(model)
        scores.append(score(model))
        fits += [add_provisos(post_process(r), candidate.provisos) for r in releases]
    index = int(mechanism.choose(scores, noise_random_state=noise_random_state))
    certificate = compose_parallel([compose_basic(fits), choice], partition="position")
    return Choice(index, models[index], certificate)


def add_provisos(
    guarantee: PrivacyGuarantee, provisos: Iterable[str]
) -> PrivacyGuarantee:
    """Return a guarantee that rests on more."""
    together = sorted({*guarantee.provisos, *provisos})
    return dataclasses.replace(guarantee, provisos=tuple(together))
