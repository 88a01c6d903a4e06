"""A guarantee in words, for whoever files it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from skparisk._text import NEIGHBORS, ceil_text

if TYPE_CHECKING:
    from skparisk.composition._guarantee import PrivacyGuarantee

__all__ = ["METHODS", "conditions", "in_words", "rows"]

# How a guarantee was found, in words.
METHODS = {
    "single": "one release",
    "basic": "levels, deltas and risks add up",
    "parallel": "the largest of disjoint parts",
    "advanced": "advanced composition, tight mean of the loss",
    "dwork-roth": "advanced composition (Dwork and Roth 2014, Theorem 3.20)",
    "laplace": "advanced composition with the mean loss of Laplace noise",
    "privacy-at-risk": "Dandekar et al. 2021, Theorem 3",
    "privacy-at-risk-preprint": "Dandekar et al. (preprint), Theorem 3",
    "exact": "privacy loss distributions",
    "filter": "advanced composition with levels chosen on the way",
    "group": "group privacy",
    "approximate": "risk turned into delta",
    "transferred": "another population",
    "random-stopping": "random stopping: three times the level of one run",
}
# Valid only if how many releases there are, and their levels, were fixed before.
_FIXED_LEVELS = ("advanced", "dwork-roth", "laplace", "exact")


def conditions(claim: PrivacyGuarantee) -> tuple[str, ...]:
    """Return what is taken on the caller's word."""
    several = claim.n_releases > 1
    sampled = claim.risk > 0 and claim.randomness != "explicit"
    cases = {
        "what was asked with a risk did not depend on earlier releases": (
            several and sampled
        ),
        "each release sees the record of a person once, so not in bootstrap or "
        "boosting ensembles; and which records it sees does not depend on their "
        "values, so not in stratified folds": several
        and claim.method != "random-stopping",
        "levels, or a limit of their sum, were fixed before the first release": (
            several and claim.method == "basic"
        ),
        "how many releases there are, and their levels, did not depend on earlier "
        "releases": several and claim.method in _FIXED_LEVELS,
        "a limit of the level, delta and slack were fixed before the first "
        "release, and that limit is what all releases together guarantee": (
            several and claim.method == "filter"
        ),
        "the parts are disjoint, and which record is in which is fixed": (
            claim.method == "parallel"
        ),
        "pairs for the release of a part were sampled as for that part": (
            claim.method == "parallel" and sampled
        ),
        "each step from neighbor to neighbor in a group is as a sampled pair": (
            claim.method == "group" and sampled
        ),
        "the divergence of the populations is at most what was given": (
            claim.method == "transferred"
        ),
    }
    return tuple(text for text, applies in cases.items() if applies)


def in_words(claim: PrivacyGuarantee) -> str:
    """Return the claim as a sentence."""
    if claim.voided:
        return f"There is no guarantee. {claim.caveats[0]}"
    words = _claim_in_words(claim)
    if claim.leaks:
        words += " This is apart from what was released without noise."
    return words


def _claim_in_words(claim: PrivacyGuarantee) -> str:
    neighbors = _neighbors(claim)
    several = claim.n_releases > 1
    what = f"{claim.n_releases} releases together" if several else "release"
    are = "are" if several else "is"
    if not (claim.risk or claim.failure_prob):
        return f"For any {neighbors}: the {what} {are} {_private_at(claim)}."
    if claim.randomness == "implicit":
        return (
            f"For {neighbors}: with probability at least {_confidence(claim)} over "
            f"{_over(claim, 'the fresh pair')}, the {what} {are} {_private_at(claim)} "
            "for that pair, whatever is released."
        )
    every = claim.randomness == "explicit"
    whom = f"For {'any ' if every else ''}{neighbors}:"
    if claim.delta or (claim.post_processed and not every):
        average = "" if every else ", on average over " + _over(claim, "the fresh pair")
        level = _private_at(claim, claim.delta + claim.risk)
        return f"{whom} the {what} {are} {level}{average}."
    over = _over(claim, "the noise" if every else "the fresh pair and the noise")
    return (
        f"{whom} the privacy loss of the {what} exceeds {ceil_text(claim.epsilon)} "
        f"with probability at most {ceil_text(claim.risk)} over {over}."
    )


def _neighbors(claim: PrivacyGuarantee) -> str:
    if claim.group_size == 1:
        return NEIGHBORS.get(claim.relation or "", "two neighboring databases")
    steps = {
        "replace-one": "that differ in at most {} records",
        "add-remove": "that at most {} added or removed records make equal",
    }.get(claim.relation or "", "that are at most {} neighbors apart")
    return f"two databases {steps.format(claim.group_size)}"


def _private_at(claim: PrivacyGuarantee, delta: float | None = None) -> str:
    level = ceil_text(claim.epsilon)
    delta = claim.delta if delta is None else delta
    if delta:
        level = f"({level}, {ceil_text(min(1.0, delta))})"
    return f"{level}-differentially private"


def _confidence(claim: PrivacyGuarantee) -> str:
    return str(1 - Decimal(ceil_text(claim.risk)))


def _over(claim: PrivacyGuarantee, what: str) -> str:
    if claim.failure_prob:
        share = ceil_text(claim.failure_prob)
        return f"{what}, in all but a share {share} of all samples of pairs"
    return what if claim.randomness == "explicit" else f"{what} and the sampled pairs"


def rows(claim: PrivacyGuarantee) -> list[tuple[str, str]]:
    """Return the numbers of a claim, by name."""
    over = {
        "implicit": "the pair of databases",
        "both": "the pair of databases and the noise together",
        "explicit": "the noise, for every pair",
    }
    table = [
        ("privacy level epsilon", ceil_text(claim.epsilon)),
        ("delta", ceil_text(claim.delta)),
        ("risk", ceil_text(claim.risk)),
    ]
    if claim.risk:
        table.append(("risk is over", over[claim.randomness]))
    if claim.failure_prob:
        table.append(("fails for a share of samples", ceil_text(claim.failure_prob)))
    table += [
        ("relation", claim.relation or "not said"),
        ("releases", str(claim.n_releases)),
        ("composition", METHODS[claim.method]),
    ]
    table += [("taken on the caller's word", text) for text in claim.conditions]
    return table
