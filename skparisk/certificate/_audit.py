"""What an audit of the reference measured, as it stands on a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skparisk.core.checks import (
    check_at_least,
    check_flag,
    check_positive,
    check_probability,
    is_whole,
)
from skparisk.core.exceptions import IncompatibleError
from skparisk.core.rounding import ceil_text, check_range, floor_text

# What an audited calibration has in common with that of a release.
_OF_CLAIM = ("epsilon", "delta", "failure_prob", "randomness", "relation")
_OF_EVIDENCE = (
    "reference",
    "gamma",
    "law",
    "noise_shape",
    "calibration",
    "averages",
    "n_outputs",
)

_SEEDED = "; its noise was drawn from a seed, so that the audit itself is NOT private"


@dataclass(frozen=True)
class MeasuredRisk:
    """How often pairs of real records exceeded the level, in blocks of some size.

    Made by :func:`~skparisk.audit.audit_reference`, not by hand.

    Parameters
    ----------
    n_records : int
        Records of a database of such a pair: of a block without its last one.

    n_blocks : int
        Blocks, each of which is one pair.

    noisy_count : int
        How many of them exceeded the level, plus noise.

    epsilon : float
        Privacy level that this was released with, finite, > 0. Unitless.

    gamma : float
        Risk that the verdict is about, in (0, 1): at least the one that the audited
        noise is calibrated to.

    confidence : float
        Confidence of each of the limits, in [0.5, 1).

    lower, upper : float
        Limits of the true risk at databases of that size, in [0, 1].

    seeded : bool, default=False
        Whether the noise of the count can be repeated, and so removed.

    Raises
    ------
    ValueError
        If a number is out of range, or the limits are not in order.
    """

    n_records: int
    n_blocks: int
    noisy_count: int
    epsilon: float
    gamma: float
    confidence: float
    lower: float
    upper: float
    seeded: bool = False

    def __post_init__(self) -> None:
        if not is_whole(self.noisy_count):
            raise ValueError(
                f"noisy_count must be a whole number, got {self.noisy_count!r}."
            )
        plain: dict[str, Any] = {
            "n_records": check_at_least(self.n_records, "n_records", 1),
            "n_blocks": check_at_least(self.n_blocks, "n_blocks", 1),
            "noisy_count": int(self.noisy_count),
            "epsilon": check_positive(self.epsilon, "epsilon"),
            "gamma": check_probability(self.gamma, "gamma"),
            "confidence": check_probability(self.confidence, "confidence"),
            "lower": check_range(self.lower, "lower", 1.0),
            "upper": check_range(self.upper, "upper", 1.0),
            "seeded": check_flag(self.seeded, "seeded"),
        }
        if plain["confidence"] < 0.5 or plain["lower"] > plain["upper"]:
            raise ValueError(
                "lower must be at most upper, and their confidence at least 0.5; got "
                f"{self.lower!r}, {self.upper!r} and {self.confidence!r}."
            )
        vars(self).update(plain)  # frozen for all others

    @property
    def verdict(self) -> str:
        """What that says of the risk gamma, for databases of that size.

        "supported" (the upper limit is at most gamma), "contradicted" (the lower limit
        is above it) or "inconclusive".
        """
        if self.upper <= self.gamma:
            return "supported"
        return "contradicted" if self.lower > self.gamma else "inconclusive"

    @property
    def summary(self) -> str:
        """Half a sentence, for a certificate."""
        low, high = floor_text(self.lower, 2), ceil_text(self.upper, 2)
        found = {
            "supported": f"at most {high}",
            "contradicted": f"at least {low}",
            "inconclusive": f"between {low} and {high}, each limit",
        }
        verdict = self.verdict
        return (
            f"measured at blocks of {self.n_records} records: risk {found[verdict]} "
            f"with confidence {self.confidence:g} ({verdict} at a risk of "
            f"{self.gamma:g})"
            f"{_SEEDED if self.seeded else ''}"
        )


def check_same_calibration(certificate: Any, audited: Any) -> None:
    """Raise IncompatibleError unless an audit is about the noise of a certificate.

    `audited` is the certificate of the same calibration for as many records or fewer.
    """
    own, other = certificate.require_evidence(), audited.require_evidence()
    compared = [(name, certificate, audited) for name in _OF_CLAIM]
    compared += [(name, own, other) for name in _OF_EVIDENCE]
    for name, one, two in compared:
        if getattr(one, name) != getattr(two, name):
            raise IncompatibleError(
                f"The audit is of a calibration with {name}={getattr(two, name)!r}, "
                f"but the certificate has {name}={getattr(one, name)!r}: it says "
                "nothing about that."
            )
    if other.n_records > own.n_records:
        raise IncompatibleError(
            f"The audit is of databases of n_records={other.n_records}, but the "
            f"certificate is about {own.n_records}: there must be at least as many."
        )


def refuse_second_audit(certificate: Any) -> None:
    """Raise IncompatibleError if there is an audit: the better of two is none."""
    if certificate.require_evidence().audit is not None:
        raise IncompatibleError(
            "The certificate has an audit already: limits that are chosen among those "
            "of several audits do not hold with their confidence. Fit again with what "
            "was learned, on records of which none was in the first."
        )
