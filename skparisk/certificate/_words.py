"""All words of a certificate, from its plain fields: what a data steward reads.

They stand in one file, to be read from top to bottom by whoever checks the words.
"""

from __future__ import annotations

import math

from skparisk.certificate._attackers import advantage_of
from skparisk.certificate._claim import (
    DECLARED,
    MEMBERSHIP,
    PRIVATE_CLASSES,
    PRIVATE_REFERENCE,
    REDRAWN,
    Claim,
    Evidence,
)
from skparisk.core.rounding import (
    add_up,
    ceil_text,
    complement_text,
    guesses_text,
    people_text,
)

NEIGHBORS = {
    "replace-one": "two databases that differ in one record",
    "add-remove": "two databases that differ by one added or removed record",
}
_GROUPS = {
    "replace-one": "two databases that differ in at most {} records",
    "add-remove": "two databases that differ by at most {} added or removed records",
}

# How a claim was found.
METHODS = {
    "single": "one release",
    "basic": "levels, deltas and risks add up",
    "parallel": "the maximum over disjoint parts",
    "advanced": "advanced composition, tight mean of the loss",
    "dwork-roth": "advanced composition (Dwork and Roth 2014, Theorem 3.20)",
    "laplace": "advanced composition with the mean loss of Laplace noise",
    "exact": "privacy loss distributions",
    "filter": "advanced composition with levels chosen along the way",
    "group": "group privacy",
    "post-process": "risk converted into delta",
    "transferred": "transferred to another population",
}
# Valid only if the number of releases and their levels were fixed beforehand.
_FIXED_LEVELS = ("advanced", "dwork-roth", "laplace", "exact")

_OVER = {
    "implicit": "the pair of neighboring databases, for all outputs",
    "both": "the pair of neighboring databases and the noise together",
    "explicit": "the noise, for every pair of neighboring databases",
}
_KNOWN = {
    "declared": "declared by the caller",
    "bound": "a proven bound; records are clipped to their declared bounds",
}

_AUDIT_RESTS_ON = (
    "its records are like those of the release, and were used for nothing else"
)


def in_words(claim: Claim) -> str:
    """Return the claim as a sentence."""
    if claim.void_reasons:
        return f"There is no guarantee. {claim.void_reasons[0]}"
    words = _claim_in_words(claim)
    if DECLARED in claim.provisos:
        words += ", provided that the declared sensitivity is a true bound"
    words += "."
    if MEMBERSHIP in claim.provisos:
        words = f"{_who_is_used(claim)} {words}"
    if REDRAWN in claim.leaks:
        words += " This does not cover what other samples of these records tell."
    if {*claim.leaks} - {REDRAWN}:
        words += " This does not cover what was released without noise."
    return words


def _who_is_used(claim: Claim) -> str:
    """Return what is protected instead of records."""
    n_candidates = None if claim.evidence is None else claim.evidence.n_candidates
    if claim.evidence is None or n_candidates is None:
        which, all_of = "which of the records handed over are used", "all of them"
    else:
        n_records = claim.evidence.n_records
        which = f"which {n_records} of these {n_candidates} records are used"
        all_of = f"all {n_candidates}"
    return (
        f"What is protected is {which}, against someone who knows {all_of}; that a "
        "person is among them is not protected, and the scale and the shape of the "
        "noise depend on them."
    )


def membership_odds(claim: Claim, evidence: Evidence) -> float:
    """Return the largest posterior odds that a record is used, outside the risk."""
    if evidence.n_candidates is None:
        raise AttributeError("this certificate is not about a secret sample.")
    if claim.void_reasons:
        return math.inf
    n_others = evidence.n_candidates - evidence.n_records
    try:
        odds = math.exp(claim.epsilon) * evidence.n_records / n_others
    except OverflowError:
        return math.inf
    return odds * (1 + 2.0**-40)


def _claim_in_words(claim: Claim) -> str:
    several = claim.n_releases > 1
    what = f"the {claim.n_releases} releases together" if several else "the release"
    are = "are" if several else "is"
    if not (claim.risk or claim.failure_prob):
        return f"{_whom(claim, 'any ')} {what} {are} {_private_at(claim)}"
    if claim.randomness == "implicit":
        return (
            f"{_whom(claim)} with probability at least "
            f"{complement_text(claim.risk)} over "
            f"{_over(claim, 'a fresh pair')}, {what} {are} {_private_at(claim)} for "
            "that pair, whatever the output"
        )
    every = claim.randomness == "explicit"
    whom = _whom(claim, "any " if every else "")
    if claim.delta or (claim.post_processed and not every):
        average = "" if every else f", on average over {_over(claim, 'a fresh pair')}"
        return f"{whom} {what} {are} {_private_at(claim, _all_in_all(claim))}{average}"
    over = _over(claim, "the noise" if every else "a fresh pair, its noise")
    return (
        f"{whom} the privacy loss of {what} exceeds {ceil_text(claim.epsilon)} with "
        f"probability at most {ceil_text(claim.risk)} over {over}"
    )


def _whom(claim: Claim, any_: str = "") -> str:
    """Return which pairs the claim is about."""
    relation = claim.relation or ""
    neighbors = NEIGHBORS.get(relation, "two neighboring databases")
    if claim.evidence is not None and claim.evidence.made_up:
        neighbors = neighbors.replace("databases", "databases of made-up records", 1)
    if claim.group_size > 1:
        steps = "two databases that are at most {} neighbors apart"
        neighbors = _GROUPS.get(relation, steps).format(claim.group_size)
    if PRIVATE_CLASSES in claim.leaks:  # others differ in what has no noise
        neighbors += " and have the same classes"
    if claim.evidence is not None:
        n_records = claim.evidence.n_records
        count = "1 record" if n_records == 1 else f"{n_records} records"
        found = [count, claim.evidence.reference]
        neighbors += f" ({', '.join(text for text in found if text)})"
    return f"For {any_}{neighbors}:"


def _private_at(claim: Claim, delta: float | None = None) -> str:
    level = ceil_text(claim.epsilon)
    delta = claim.delta if delta is None else delta
    if delta:
        level = f"({level}, {ceil_text(min(1.0, delta))})"
    return f"{level}-differentially private"


def _all_in_all(claim: Claim) -> float:
    """Return delta and risk together, as a delta on average."""
    # Over the noise alone there are no samples of pairs to set apart.
    failure = claim.failure_prob if claim.randomness == "explicit" else 0.0
    return add_up([claim.delta, claim.risk, failure])


def _over(claim: Claim, what: str) -> str:
    """Return what a risk is over, besides `what`."""
    if claim.failure_prob:
        share = ceil_text(claim.failure_prob)
        what = " and ".join(what.rsplit(", ", 1))
        return f"{what}, for all but a fraction {share} of the samples of pairs"
    return what if claim.randomness == "explicit" else f"{what} and the sampled pairs"


def conditions(claim: Claim) -> tuple[str, ...]:
    """Return what is taken on the caller's word."""
    several = claim.n_releases > 1
    risky = claim.risk > 0 or claim.failure_prob > 0
    # What is not known may need as much as any of them.
    fixed = claim.method in _FIXED_LEVELS or claim.method not in METHODS
    sampled = risky and claim.randomness != "explicit"
    secret = MEMBERSHIP in claim.provisos
    cases = {
        "the reference that neighboring databases were sampled from is public and "
        "describes the population": (
            sampled and PRIVATE_REFERENCE not in claim.leaks and not secret
        ),
        "each person has one of the records that were drawn from, or else records are "
        "protected, and not people": secret,
        "how many are drawn was fixed beforehand, and nobody is told who is used": (
            secret
        ),
        "no other sample of these records is drawn, in this process or another; "
        "several releases are about the members of one draw": secret,
        "queries released with a risk did not depend on earlier releases": (
            several and sampled
        ),
        "each release sees a person's record once, unlike in bootstrap or boosting "
        "ensembles, and the choice of the records it sees does not depend on their "
        "values, unlike in stratified folds": several,
        "the levels, or a limit on their sum, were fixed before the first release": (
            several and claim.method == "basic"
        ),
        "the number of releases and their levels did not depend on earlier "
        "releases": several and fixed,
        "the limit on the level, the delta and the slack were fixed before the first "
        "release, and that limit is what all releases together guarantee": (
            several and claim.method == "filter"
        ),
        "the parts are disjoint, and the assignment of records to parts is fixed": (
            claim.method == "parallel"
        ),
        "the pairs for the release about each part were sampled for that part alone": (
            claim.method == "parallel" and sampled
        ),
        "each step from neighbor to neighbor in a group is distributed like a sampled "
        "pair": claim.method == "group" and sampled,
        "the divergence between the populations is at most the given value": (
            claim.method == "transferred"
        ),
    }
    return tuple(text for text, applies in cases.items() if applies)


def rows(claim: Claim) -> list[tuple[str, str]]:
    """Return the numbers of a claim, by name."""
    return [
        *level_rows(claim),
        *gain_rows(claim),
        *how_rows(claim),
        *audit_rows(claim),
        *(("taken on the caller's word", text) for text in conditions(claim)),
    ]


def level_rows(claim: Claim) -> list[tuple[str, str]]:
    """Return what is claimed."""
    evidence = claim.evidence
    risk = "none is guaranteed" if claim.void_reasons else ceil_text(claim.risk)
    if evidence is not None and evidence.gamma and claim.epsilon:
        risk += f" (asked for: {evidence.gamma:g})"
    over = "nothing: the level holds for every pair and output"
    if claim.risk or claim.failure_prob:
        over = _OVER[claim.randomness]
    table = [
        ("privacy level epsilon", ceil_text(claim.epsilon)),
        ("delta", ceil_text(claim.delta)),
        ("risk", risk),
        ("risk is over", over),
    ]
    if claim.failure_prob:
        share = ceil_text(claim.failure_prob)
        table.append(("fails for a fraction of the samples of pairs", share))
    table.append(("relation", claim.relation or "not stated"))
    if claim.risk and claim.randomness != "implicit" and not claim.void_reasons:
        table.append(("anything computed from it, such as predictions", _after(claim)))
    if evidence is not None and evidence.worst_loss is not None:
        worst = ceil_text(evidence.worst_loss)
        table.append(("largest loss of any pair, also outside the risk", worst))
    return table


def gain_rows(claim: Claim) -> list[tuple[str, str]]:
    """Return what the claim means."""
    return [("what an attacker gains", _gain(claim)), *_rows_of_membership(claim)]


def _gain(claim: Claim) -> str:
    """Return what an attacker gains, in numbers of right guesses."""
    if claim.void_reasons:
        return "nothing is guaranteed"
    gain = advantage_of(claim)
    once = f"at most {guesses_text(gain.mean)} times in 100"
    words = (
        f"someone who knows everything but whether it was you guesses right {once} "
        "instead of 50"
    )
    if gain.risk:
        words += ", on average over people"
        if gain.quantile < 1:
            share, most = people_text(gain.risk), guesses_text(gain.quantile)
            words += f"; for {share} of 100 people at most {most} times in 100"
    if claim.leaks:
        words += ", not counting what was released without noise"
    return words


def _rows_of_membership(claim: Claim) -> list[tuple[str, str]]:
    """Return what a claim about a secret sample means for one of the records."""
    evidence = claim.evidence
    if evidence is None or evidence.n_candidates is None or claim.void_reasons:
        return []
    n_others = evidence.n_candidates - evidence.n_records
    prior = f"{evidence.n_records}/{n_others}"
    share = ceil_text(min(1.0, _all_in_all(claim)))
    level = ceil_text(claim.epsilon)
    most = ceil_text(membership_odds(claim, evidence))
    odds = (
        "odds that a record is used",
        f"at most {most} outside the risk{' and delta' if claim.delta else ''}, where "
        f"they were {prior} before",
    )
    one = (
        "for one record",
        f"({level}, delta_i)-differentially private, with a delta_i whose mean over "
        f"the {evidence.n_candidates} records and the sampled pairs is at most "
        f"{share}; that of a single record may be larger, also 1",
    )
    # An advantage alone leaves the odds of no output as they were.
    return [odds, one] if claim.epsilon else [one]


def _after(claim: Claim) -> str:
    """Return what holds for whatever is computed from a release."""
    level = _private_at(claim, _all_in_all(claim))
    if claim.randomness == "explicit":
        return level
    return f"{level}, on average over {_over(claim, 'a fresh pair')}"


def how_rows(claim: Claim) -> list[tuple[str, str]]:
    """Return how it was computed."""
    evidence = claim.evidence
    if evidence is None:
        method = METHODS.get(claim.method, claim.method)
        return [("releases", str(claim.n_releases)), ("composition", method)]
    known = _KNOWN.get(evidence.calibration)
    sensitivity = f"{evidence.sensitivity:.6g} ({evidence.norm} norm)"
    if known is not None:
        sensitivity += f", {known}"
    outputs = f"{evidence.n_records}, {evidence.n_outputs}"
    if evidence.n_constant:
        outputs += (
            f", of which {evidence.n_constant} differed on no sampled pair: they are "
            "not released, but what they are on public records"
        )
    table = [
        ("records, outputs", outputs),
        ("sensitivity", sensitivity),
        ("noise", _noise(evidence)),
    ]
    if evidence.n_pairs is not None:
        table += [
            ("calibration", _calibration(evidence, claim)),
            ("reference", str(evidence.reference)),
        ]
    if evidence.n_candidates is not None:
        n_candidates = str(evidence.n_candidates)
        table.append(("records that they were drawn from", n_candidates))
    if evidence.for_new_people is not None:
        table.append(("for new people", evidence.for_new_people))
    return table


def audit_rows(claim: Claim) -> list[tuple[str, str]]:
    """Return what an audit of the reference measured, where there can be one."""
    evidence = claim.evidence
    if evidence is None or evidence.n_pairs is None:
        return []
    if evidence.n_candidates is not None:
        return []
    audit = evidence.audit
    if audit is None:
        return [("reference audited", "not audited")]
    return [
        ("reference audited", audit.summary),
        ("the audit rests on the caller's word", _AUDIT_RESTS_ON),
    ]


def _noise(evidence: Evidence) -> str:
    scale = f"{evidence.law}, scale {evidence.noise_scale:.6g}"
    if evidence.margin > 1:
        more = f"{(evidence.margin - 1) * 100:.2g} %"
        scale += f" ({more} of it more, for what the table as a whole is off by)"
    if evidence.law == "exponential":
        return (
            f"{scale}: chosen with probability proportional to exp(score / (2 scale))"
        )
    if evidence.noise_shape == "isotropic":
        return f"{scale} per output"
    if evidence.n_shape_pairs is None:
        return f"{scale}, {evidence.noise_shape}"
    using = f"using {evidence.n_shape_pairs} other sampled pairs"
    return f"{scale}, {evidence.noise_shape} {using}"


def _calibration(evidence: Evidence, claim: Claim) -> str:
    name, m = evidence.calibration, evidence.n_pairs
    assert m is not None
    groups, r = "", evidence.n_neighbors
    if r > 1:
        groups = f", {r} neighbors of each of {m // r} sampled databases"
    if evidence.averages:
        what = "exact risks" if claim.epsilon else "advantages"
        average = f"{name}, average of the {what} of {m} sampled pairs{groups}"
        if evidence.n_unanswered:
            average += f"; {evidence.n_unanswered} without an answer count as 1"
        return average
    what = "sensitivity" if claim.randomness == "implicit" else "critical scale"
    number = f"{name}, {what} number {evidence.order_index} of {m} sampled"
    if groups:
        number += " pairs"
    number += groups
    if evidence.n_unanswered:
        number += f"; {evidence.n_unanswered} without an answer count as infinite"
    return number
