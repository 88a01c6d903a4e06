"""A certificate in words, for whoever files it: the notation of a data steward."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

from skparisk._text import NEIGHBORS, NO_NOISE, SEEDED, ceil_text

if TYPE_CHECKING:
    from skparisk.calibration._certificate import RiskCertificate

__all__ = [
    "HEURISTIC_CLAIM",
    "guarantee",
    "leaks",
    "provisos",
    "rows",
    "void_reasons",
]

# Each caveat is one sentence.
HEURISTIC_CLAIM = (
    "The claimed risk reproduces a formula of Dandekar et al. whose proof does not "
    "hold: it is no guarantee."
)
PRIVATE_REFERENCE = (
    "The neighboring databases were sampled from the private data themselves, or from "
    "a table that has records in common with them: the guarantee is over resamples of "
    "these, and the sensitivity and the scale and shape of the noise depend on them "
    "without noise."
)
PRIVATE_CLASSES = (
    "The classes were not declared and were read off the private labels: which classes "
    "there are is released without noise."
)
DECLARED = "The sensitivity was declared by the caller and is not checked."

KNOWN = {
    "declared": "provided that the declared sensitivity is a true bound",
    "bound": "by a proven bound of the sensitivity, records being clipped to their "
    "declared bounds",
}


def void_reasons(certificate: RiskCertificate) -> tuple[str, ...]:
    """Return why there is no guarantee at all."""
    cases = {
        SEEDED: certificate.seeded,
        NO_NOISE: math.isinf(certificate.epsilon),
        HEURISTIC_CLAIM: certificate.calibration == "bessel",
    }
    return tuple(text for text, applies in cases.items() if applies)


def leaks(certificate: RiskCertificate) -> tuple[str, ...]:
    """Return what about the private data was released without noise."""
    cases = {
        PRIVATE_REFERENCE: certificate.reference_is_private,
        PRIVATE_CLASSES: certificate.classes_are_private,
    }
    leaked = tuple(text for text, applies in cases.items() if applies)
    return leaked + certificate.further_leaks


def provisos(certificate: RiskCertificate) -> tuple[str, ...]:
    """Return what else the guarantee rests on."""
    declared = (DECLARED,) if certificate.calibration == "declared" else ()
    return declared + certificate.provisos


def guarantee(certificate: RiskCertificate) -> str:
    """Return the claim as a sentence."""
    if certificate.voided:
        return f"There is no guarantee. {certificate.caveats[0]}"
    neighbors = NEIGHBORS[certificate.relation]
    if certificate.classes_are_private:
        neighbors += " and have the same classes"
    level = ceil_text(certificate.epsilon)
    if certificate.randomness == "explicit":
        whom = f"For any {neighbors}, {certificate.n_records} records:"
        known = KNOWN[certificate.calibration]
        if certificate.risk:
            risk = ceil_text(certificate.risk)
            return (
                f"{whom} the privacy loss of the release exceeds {level} with "
                f"probability at most {risk} over the noise, {known}."
            )
        return f"{whom} the release is {_private_at(certificate)}, {known}."
    confidence = 1 - Decimal(ceil_text(certificate.risk))
    whom = (
        f"For {neighbors} ({certificate.n_records} records, {certificate.reference}): "
        f"with probability at least {confidence} {_over(certificate)},"
    )
    if certificate.randomness == "implicit":
        return (
            f"{whom} the release is {_private_at(certificate)} for that pair, whatever "
            "is released."
        )
    return f"{whom} the privacy loss of the release is between -{level} and {level}."


def _private_at(certificate: RiskCertificate) -> str:
    level = ceil_text(certificate.epsilon)
    if certificate.delta:
        level = f"({level}, {ceil_text(certificate.delta)})"
    return f"{level}-differentially private"


def _over(certificate: RiskCertificate) -> str:
    both = certificate.randomness == "both"
    if certificate.failure_prob is not None:
        fresh = "the fresh pair and the noise" if both else "the fresh pair"
        share = ceil_text(certificate.failure_prob)
        return f"over {fresh}, in all but a share {share} of all samples of pairs"
    if both:
        return "over the fresh pair, the noise and the sampled pairs together"
    return "over the fresh pair and the sampled pairs together"


def rows(certificate: RiskCertificate) -> list[tuple[str, str]]:
    """Return the numbers of a claim, by name."""
    achieved = ceil_text(certificate.risk)
    if certificate.voided:
        achieved = "none is guaranteed"
    table = [
        ("privacy level epsilon", ceil_text(certificate.epsilon)),
        ("risk achieved", f"{achieved} (asked for: {certificate.gamma:g})"),
        ("delta", ceil_text(certificate.delta)),
        ("risk is over", _risk_is_over(certificate)),
        ("relation", certificate.relation),
        ("records, outputs", f"{certificate.n_records}, {certificate.n_outputs}"),
        ("sensitivity", f"{certificate.sensitivity:.6g} ({_norm(certificate)})"),
        ("noise", _noise(certificate)),
    ]
    if certificate.risk and certificate.randomness != "implicit":
        table.append(("computed from it, such as predictions", _processed(certificate)))
    if certificate.n_pairs is None:
        return [*table, ("sensitivity known", certificate.calibration)]
    table += [
        ("calibration", _calibration(certificate)),
        ("reference", str(certificate.reference)),
    ]
    if certificate.for_new_people is not None:
        table.append(("for new people", certificate.for_new_people))
    if not certificate.reference_is_private:
        public = "the reference is public and describes the population"
        table.append(("taken on the caller's word", public))
    if certificate.failure_prob is not None:
        share = ceil_text(certificate.failure_prob)
        table.append(("fails for a share of samples", share))
    return table


def _norm(certificate: RiskCertificate) -> str:
    names = {"laplace": "l1 norm", "gaussian": "l2 norm", "exponential": "sup norm"}
    return names[certificate.mechanism]


def _risk_is_over(certificate: RiskCertificate) -> str:
    if certificate.randomness == "implicit":
        return "the pair of neighboring databases, for all outputs"
    if certificate.randomness == "both":
        return "the pair of neighboring databases and the noise together"
    if certificate.risk:
        return "the noise, for every pair of neighboring databases"
    return "nothing: the level holds for every pair and output"


def _noise(certificate: RiskCertificate) -> str:
    scale = f"{certificate.mechanism}, scale {certificate.noise_scale:.6g}"
    if certificate.mechanism == "exponential":
        return f"{scale}: chosen in proportion to exp(score / (2 scale))"
    if certificate.noise_shape == "isotropic":
        return f"{scale} per output"
    shape = certificate.noise_shape
    return f"{scale}, {shape} by {certificate.n_shape_pairs} other sampled pairs"


def _processed(certificate: RiskCertificate) -> str:
    level = f"({ceil_text(certificate.epsilon)}, {ceil_text(certificate.risk)})"
    average = ""
    if certificate.n_pairs:
        samples = " and samples" if certificate.failure_prob is None else ""
        average = f", on average over pairs{samples}"
    return f"{level}-differentially private{average}"


def _calibration(certificate: RiskCertificate) -> str:
    name, m = certificate.calibration, certificate.n_pairs
    if certificate.n_draws == 0:
        average = f"{name}, average of the exact risks of {m} sampled pairs"
        if certificate.n_unanswered:
            average += f"; {certificate.n_unanswered} without an answer count as 1"
        return average
    what = "sensitivity" if certificate.randomness == "implicit" else "critical scale"
    number = f"{name}, {what} number {certificate.order_index} of {m} sampled"
    if certificate.n_draws not in (None, 1):
        number += f" pairs with {certificate.n_draws} draws of the noise each"
    if certificate.n_unanswered:
        number += f"; {certificate.n_unanswered} without an answer count as infinite"
    return number
