"""What an audit of a reference found, in numbers and words."""

from __future__ import annotations

import dataclasses
import html
from dataclasses import dataclass
from typing import Any

from skparisk._text import floor_text
from skparisk._words import LEAKS
from skparisk.core.claim import Certificate, Leak, MeasuredRisk, mint
from skparisk.core.rounding import ceil_text, fields_of

_VERDICTS = {
    "supported": (
        "The audit supports the reference: the true risk is at most {gamma}."
    ),
    "contradicted": (
        "The audit contradicts the reference: the true risk is above {gamma}. Do "
        "not use this reference at this risk."
    ),
    "inconclusive": (
        "The audit is inconclusive: the true risk may be below or above {gamma}. More "
        "blocks, or a larger epsilon for the audit, tell more."
    ),
}


@dataclass(frozen=True)
class ReferenceAudit(MeasuredRisk):
    """What an audit of a reference found, and what it cost.

    Made by :func:`audit_reference`; prints as a paragraph. All of it is computed from
    the noisy count and from what is public.

    Parameters
    ----------
    n_records, n_blocks, noisy_count : int
    epsilon, gamma, confidence, lower, upper : float
    seeded : bool
        As for :class:`~skparisk.core.MeasuredRisk`.

    audited : Certificate
        That of the calibration that was audited, for databases of `n_records`.

    release_records : int, default=None
        Records of a database of the release itself, where that is known.

    Examples
    --------
    >>> from skparisk import PrivateRidge, audit_reference
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> public = {"X_reference": X[:1000], "y_reference": y[:1000]}
    >>> ridge = PrivateRidge(epsilon=1.0, gamma=0.2, random_state=0)
    >>> people = X[1000:4000], y[1000:4000]
    >>> audit = audit_reference(ridge, *people, epsilon=1.0, **public)
    >>> audit.n_blocks, audit.n_records, audit.certificate.epsilon
    (53, 55, 1.0)
    """

    audited: Certificate = dataclasses.field(kw_only=True, repr=False)
    release_records: int | None = dataclasses.field(default=None, kw_only=True)

    @property
    def measured(self) -> MeasuredRisk:
        """What a certificate has of it."""
        return MeasuredRisk(**fields_of(self, MeasuredRisk))

    @property
    def certificate(self) -> Certificate:
        """What the audit itself guarantees to those whose records it used."""
        return cost_of_audit(self.epsilon, self.seeded)

    def as_certificate(self) -> Certificate:
        """Return what composition and budgets count of it."""
        return self.certificate

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings: strict JSON, also for YAML.

        Returns
        -------
        document : dict
            The measured numbers, the verdict and what it means; the certificates of
            the audited calibration and of the audit itself.
        """
        return {
            "schema": "skparisk.audit",
            **dataclasses.asdict(self.measured),
            "release_records": self.release_records,
            "verdict": self.verdict,
            "meaning": self._meaning(),
            "audited": self.audited.to_dict(),
            "certificate": self.certificate.to_dict(),
        }

    def _meaning(self) -> list[str]:
        """Return sentences for those who decide whether to use the reference."""
        low, high = floor_text(self.lower, 3), ceil_text(self.upper, 3)
        n, confidence = self.n_records, f"{self.confidence:g}"
        target = self.audited.require_evidence()
        seeded = (
            [f"The audit itself is void. {LEAKS[Leak.SEEDED_NOISE]}"]
            if self.seeded
            else []
        )
        return [
            *seeded,
            _VERDICTS[self.verdict].format(gamma=f"{self.gamma:g}"),
            f"At blocks of {n} records, as large as {n} people and one who takes the "
            f"place of another, the true risk of exceeding the level "
            f"{ceil_text(self.audited.epsilon)} is at most {high} (confidence "
            f"{confidence}) and at least {low} (confidence {confidence}), measured on "
            f"{self.n_blocks} blocks. Records of neighboring databases: "
            f"{target.reference}.",
            self._about_the_release(),
            "That rests on the caller's word: the records of the audit are like those "
            "of the release, and were used for nothing else.",
            f"The audit cost those records {ceil_text(self.epsilon)}-differential "
            "privacy.",
        ]

    def _about_the_release(self) -> str:
        """Return what the risk at the size of the blocks is for the release."""
        known = self.release_records
        if known == self.n_records:
            return f"The release is about databases of {known} records, too."
        if known is None:
            return "That it is the same at larger databases is evidence, not proof."
        return (
            f"That it is the same at databases of {known} records, which the release "
            "is about, is evidence, not proof. Penalties, where there are any, were "
            "scaled down with the number of records."
        )

    def __str__(self) -> str:
        return "\n".join(self._meaning())

    def _repr_html_(self) -> str:
        first, *rest = map(html.escape, self._meaning())
        others = "".join(f"<p>{text}</p>" for text in rest)
        return f"<div><p><strong>{first}</strong></p>{others}</div>"


def cost_of_audit(epsilon: float, seeded: bool) -> Certificate:
    """Return what is charged for an audit."""
    leaks = frozenset({Leak.SEEDED_NOISE} if seeded else ())
    return mint(epsilon=epsilon, relation="replace-one", leaks=leaks)
