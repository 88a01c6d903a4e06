"""What was spent to learn a reference from records that are not released about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skparisk.core.checks import check_at_least, check_positive
from skparisk.core.claim import Assumption, Certificate, Scope, mint


# Compared by identity, as it also stands for the records that were learned from.
@dataclass(frozen=True, eq=False)
class Learning:
    """What a reference was learned with, from records that are not released about.

    Its level is above 0 and finite.
    """

    epsilon: float
    n_records: int

    def __post_init__(self) -> None:
        check_positive(self.epsilon, "epsilon of the learning")
        check_at_least(self.n_records, "n_records", 1)

    def as_certificate(self) -> Certificate:
        """Return what holds for the records that it was learned from."""
        return mint(
            epsilon=self.epsilon, randomness=Scope.NOISE, relation="replace-one"
        )

    def check_target(self, target: Any) -> None:
        """Refuse to certify the learning together with what has no level."""
        if target.advantage is not None:
            raise ValueError(
                "advantage must be None with a LearnedReference, got "
                f"{target.advantage!r}: learning has a level, and a mean advantage has "
                "none."
            )

    def cover(self, certificate: Certificate) -> Certificate:
        """Return the claim of a release about other records, and of the learning.

        A record is in one of the two parts (:ref:`thm-learned`): the larger level
        holds for it, and of other levels those that are not smaller than that of the
        learning. No law of the loss is known for both.
        """
        return certificate.weaken(
            epsilon=self.epsilon, assumptions={Assumption.LEARNED_REFERENCE}
        )
