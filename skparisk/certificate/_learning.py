"""What was spent to learn a reference from records that are not released about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skparisk.certificate._advantage import Advantage
from skparisk.certificate._attackers import advantage_of
from skparisk.certificate._certificate import Certificate
from skparisk.certificate._claim import Evidence
from skparisk.core.checks import check_at_least, check_positive
from skparisk.core.laws import Law
from skparisk.core.rounding import ceil_text, check_range, fields_of

_LEARNED = (
    "The reference was learned from {} other records of the private data with "
    "{}differential privacy: the risk is over pairs of the learned law, which may "
    "differ from real people. Where that was measured, of real pairs that should "
    "exceed the level with a risk of 0.05, a share of 0.06 did for ridge regression, "
    "and up to 0.14 for logistic regression."
)


# Compared by identity, as it also stands for the records that were learned from.
@dataclass(frozen=True, eq=False)
class Learning:
    """What a reference was learned with, from records that are not released about.

    Its level is above 0 and finite, its delta in [0, 1). It `rests_on` sentences, as
    the guarantee of the learning does.
    """

    epsilon: float
    delta: float
    n_records: int
    rests_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_positive(self.epsilon, "epsilon of the LearnedReference")
        check_range(self.delta, "delta of the LearnedReference", 1.0)
        check_at_least(self.n_records, "n_records", 1)

    def as_certificate(self) -> Certificate:
        """Return what holds for the records that it was learned from."""
        return Certificate(
            self.epsilon,
            self.delta,
            randomness="explicit",
            relation="replace-one",
            provisos=self.rests_on,
        )

    @property
    def provisos(self) -> tuple[str, ...]:
        """What a release whose pairs come from the learned law rests on."""
        level = f"{ceil_text(self.epsilon)}-"
        if self.delta:
            level = f"({ceil_text(self.epsilon)}, {ceil_text(self.delta)})-"
        return (_LEARNED.format(self.n_records, level), *self.rests_on)

    def check_target(self, target: Any, law: Law) -> None:
        """Refuse to certify the learning together with what has no level, or delta."""
        if target.advantage is not None:
            raise ValueError(
                "advantage must be None with a LearnedReference, got "
                f"{target.advantage!r}: learning has a level, and a mean advantage has "
                "none."
            )
        if self.delta and (target.randomness == "both" or law.chooses):
            raise ValueError(
                "delta of the LearnedReference must be 0 with randomness='both' or "
                f"law='exponential', which certify no delta; got {self.delta!r}."
            )

    def cover(self, certificate: Certificate) -> Certificate:
        """Return the claim of a release about other records, and of the learning.

        A record is in one of the two parts (:ref:`thm-learned`): the larger level and
        the larger delta hold for it, and of other levels those that are not smaller
        than that of the learning. No law of the loss is known for both.
        """
        evidence = certificate.evidence
        covered = replace(
            certificate,
            epsilon=max(self.epsilon, certificate.epsilon),
            delta=max(self.delta, certificate.delta),
            loss=None,
            evidence=None if evidence is None else self._cover_evidence(evidence),
        )
        return covered.amended(provisos=self.provisos)

    def _cover_evidence(self, evidence: Evidence) -> Evidence:
        curve, measured = evidence.curve, evidence.advantage
        if curve is not None:
            curve = np.maximum(curve, [self.epsilon, 0.0])
        if measured is not None:
            own, larger = advantage_of(self.as_certificate()), fields_of(measured)
            for name in larger.keys() - {"risk"}:
                larger[name] = max(larger[name], getattr(own, name))
            measured = Advantage(**larger)
        return replace(evidence, curve=curve, advantage=measured)
