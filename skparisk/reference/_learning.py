"""What was spent to learn a reference from records that are not released about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skparisk.core.checks import check_at_least, check_positive
from skparisk.core.claim import Assumption, Certificate, Scope, mint
from skparisk.core.laws import Law
from skparisk.core.rounding import check_range


# Compared by identity, as it also stands for the records that were learned from.
@dataclass(frozen=True, eq=False)
class Learning:
    """What a reference was learned with, from records that are not released about.

    Its level is above 0 and finite, its delta in [0, 1). It `rests_on` what the
    guarantee of the learning does.
    """

    epsilon: float
    delta: float
    n_records: int
    rests_on: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        check_positive(self.epsilon, "epsilon of the LearnedReference")
        check_range(self.delta, "delta of the LearnedReference", 1.0)
        check_at_least(self.n_records, "n_records", 1)

    def as_certificate(self) -> Certificate:
        """Return what holds for the records that it was learned from."""
        return mint(
            epsilon=self.epsilon,
            delta=self.delta,
            randomness=Scope.NOISE,
            relation="replace-one",
            assumptions=self.rests_on,
        )

    @property
    def assumptions(self) -> frozenset[Assumption]:
        """What a release whose pairs come from the learned law rests on."""
        return self.rests_on | {Assumption.LEARNED_REFERENCE}

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
        return certificate.weaken(
            epsilon=self.epsilon, delta=self.delta, assumptions=self.assumptions
        )
