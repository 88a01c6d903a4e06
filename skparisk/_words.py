"""All words of a certificate, from its numbers and codes: what a data steward reads.

They stand in one file, to be read from top to bottom by whoever checks the words. No
claim rests on them.
"""

from __future__ import annotations

import html
import math
from typing import Any

from skparisk._text import (
    complement_text,
    floor_text,
    guesses_text,
    people_text,
    strict,
)
from skparisk._version import __version__
from skparisk.core.calibrate import point_of_level
from skparisk.core.claim import (
    Assumption,
    Claim,
    Doubt,
    Evidence,
    Leak,
    MeasuredRisk,
    Method,
    Population,
    Scope,
    Unit,
)
from skparisk.core.laws import LAWS
from skparisk.core.rounding import add_up, ceil_text, fields_of

SCHEMA = {"schema": "skparisk.certificate", "schema_version": 2}

NEIGHBORS = {
    "replace-one": "two databases that differ in one record",
    "add-remove": "two databases that differ by one added or removed record",
}
_PEOPLE = {
    "replace-one": "two databases that differ in one person, with all of their rows",
    "add-remove": "two databases that differ by one added or removed person, with all "
    "of their rows",
}
# How a claim was found.
METHODS = {
    Method.SINGLE: "one release",
    Method.BASIC: "levels, deltas and risks add up",
    Method.PARALLEL: "the maximum over disjoint parts",
    Method.EXACT: "privacy loss distributions",
    Method.FILTER: "advanced composition with levels chosen along the way",
    Method.POST_PROCESS: "risk converted into delta",
}

_OVER = {
    Scope.PAIR: "the pair of neighboring databases, for all outputs",
    Scope.PAIR_AND_NOISE: "the pair of neighboring databases and the noise together",
    Scope.NOISE: "the noise, for every pair of neighboring databases",
}
_KNOWN = {
    "declared": "declared by the caller",
    "bound": "a proven bound; records are clipped to their declared bounds",
}

_AUDIT_RESTS_ON = (
    "its records are like those of the release, and were used for nothing else"
)

# Why there is no guarantee at all, where numbers say so.
NO_NOISE = "epsilon is infinite and no noise was added: this release is NOT private."
INFINITE = "The total epsilon is infinite: these releases are NOT private."
EMPTY = (
    "At this level odds of one in ten billion may become even, so that anyone on Earth "
    "may be singled out: it promises nothing."
)
VACUOUS = "Risk and delta add up to 1 or more, so nothing is guaranteed."

LEAKS = {
    Leak.SEEDED_NOISE: (
        "The noise was drawn from a seed (noise_random_state), and anyone who knows "
        "the seed can remove it: this release is NOT private."
    ),
    Leak.SEEDED_DRAW: (
        "The secret sample was drawn from a seed (noise_random_state), and anyone who "
        "knows the seed knows who is used: this release is NOT private."
    ),
    Leak.PRIVATE_REFERENCE: (
        "The neighboring databases were sampled from the private data themselves, or "
        "from a table that shares records with them: the guarantee is only about "
        "resamples of these data, and the sensitivity and the scale and shape of the "
        "noise were computed from them without noise."
    ),
    Leak.PRIVATE_CLASSES: (
        "The classes were not declared but read off the private labels: the set of "
        "classes is released without noise."
    ),
    Leak.LEARNS_MORE: (
        "Parts of the estimator that are not from skparisk were fitted to the private "
        "data and may hold what they learned without noise."
    ),
    Leak.FITTED_PARTS: (
        "A part of the estimator had already been fitted: what it learned then is in "
        "the model's parameters without noise."
    ),
    Leak.CHOSEN: (
        "The parameters were chosen by scores on the private records, without noise."
    ),
    Leak.REDRAWN: (
        "Another secret sample of these records, or of a part of them, was drawn and "
        "released as well: what both releases together tell is not covered."
    ),
}

DOUBTS = {
    Doubt.MADE_UP: (
        "The claim is about made-up records, not about people. On real people such "
        "claims failed where that was measured: of pairs that should exceed the level "
        "with a risk of 0.05, a share of 0.28 did for logistic regression of an income "
        "(500 people), 0.26 for that of a disease (150) and 0.08 for ridge regression "
        "of that disease (100). An audit with records that are set apart tells if it "
        "holds for these."
    ),
    Doubt.THIN: (
        "The reference table has too few rows to show the tail that this risk is "
        "about, however many pairs are drawn from it."
    ),
    Doubt.OUTLIER: (
        "What was released is further from what the reference predicts than noise and "
        "chance explain: the reference may be in other units than the records, or of "
        "other people, and then the risk says nothing about these records."
    ),
    Doubt.CONTRADICTED: (
        "An audit with real records contradicts the reference: more pairs of people "
        "exceed the level than the risk says."
    ),
}
# What helps, where it is about made-up records.
BETTER = (
    "A few public records of such people say more than a declared schema, and so does "
    "a SecretSample of the private ones, or a law that learn_reference learns."
)

# What is taken on the caller's word, as the end of a sentence.
_CONDITIONS = {
    Assumption.PUBLIC_REFERENCE: (
        "the reference that neighboring databases were sampled from is public and "
        "describes the population",
    ),
    Assumption.SECRET_DRAW: (
        "each person is one of the records, or of the ids of groups, that were drawn "
        "from, or else these are protected, and not people",
        "how many are drawn was fixed beforehand, and nobody is told who is used",
        "no other sample of these records is drawn, in this process or another; "
        "several releases are about the members of one draw",
    ),
    Assumption.NOT_ADAPTIVE: (
        "queries released with a risk did not depend on earlier releases",
    ),
    Assumption.SEEN_ONCE: (
        "each release sees a person's record once, unlike in bootstrap or boosting "
        "ensembles, and the choice of the records it sees does not depend on their "
        "values, unlike in stratified folds",
    ),
    Assumption.LIMIT_FIXED: (
        "the levels, or a limit on their sum, were fixed before the first release",
    ),
    Assumption.NUMBER_FIXED: (
        "the number of releases and their levels did not depend on earlier releases",
    ),
    Assumption.FILTER_FIXED: (
        "the limit on the level, the delta and the slack were fixed before the first "
        "release, and that limit is what all releases together guarantee",
    ),
    Assumption.DISJOINT_PARTS: (
        "the parts are disjoint, and the assignment of records to parts is fixed",
    ),
    Assumption.PAIRS_OF_PART: (
        "the pairs for the release about each part were sampled for that part alone",
    ),
    Assumption.DECLARED_LEVEL: (
        "the level, delta and risk that were given as plain numbers hold",
    ),
}

PROVISOS = {
    Assumption.SECRET_DRAW: (
        "The guarantee hides which of the records handed over are used; the scale and "
        "the shape of the noise depend on all of them, without noise."
    ),
    Assumption.LEARNED_REFERENCE: (
        "The reference was learned from other records of the private data with "
        "differential privacy: the risk is over pairs of the learned law, which may "
        "differ from real people. Where that was measured, of real pairs that should "
        "exceed the level with a risk of 0.05, a share of 0.06 did for ridge "
        "regression, and up to 0.14 for logistic regression."
    ),
    Assumption.FEW_ROWS: (
        "The reference table has fewer than 10 rows for each of the released numbers."
    ),
    Assumption.REPEATED_ROWS: (
        "The reference table has fewer than two rows for each record of a database, "
        "so rows repeat: medians, quantiles, choices, and what depends on near or "
        "equal records move less between them than between databases of real people."
    ),
    Assumption.ROWS_PER_RECORD: (
        "The reference table has few rows for the records of a database: components "
        "and centers, which are matched to a fit of the table, and predictions at "
        "points move less between databases of its rows than between databases of real "
        "people."
    ),
    Assumption.NOISY_LAW: (
        "The reference was learned from too few records for its level: the learned law "
        "is mostly noise, and nearly uniform in the declared ranges."
    ),
    Assumption.DECLARED_SENSITIVITY: (
        "The sensitivity was declared by the caller and has not been checked."
    ),
    Assumption.GIVEN_NOISE: (
        "The distribution of the noise was supplied by the caller, and what it says of "
        "its privacy loss has not been checked."
    ),
    Assumption.GIVEN_SHAPE: (
        "The shape of the noise was supplied by the caller, who says that it does not "
        "depend on the private data."
    ),
    Assumption.GIVEN_PAIRS: (
        "The differences were supplied by the caller, and it has not been checked that "
        "they are those of independent pairs of neighboring databases."
    ),
    Assumption.GIVEN_QUERY: (
        "How the answers of a query of the caller's own differ on pairs, or how far "
        "they can move, is what the query says, and has not been checked."
    ),
    Assumption.ROW_WISE_SCORE: (
        "The score of a record depends on that record alone: the model predicts each "
        "record by itself, and learned nothing from these records but what is released."
    ),
    Assumption.PUBLIC_STEPS: (
        "Steps inside the estimator were fitted on the reference, which must be "
        "public, and not on these records."
    ),
    Assumption.SUPERVISED_STEPS: (
        "Public steps looked at the targets of the reference, or at its rows, which "
        "they fit better than new people: more pairs of real people may exceed the "
        "level than the risk says. Give a TableReference with sampling='split', or fit "
        "these steps on other public records and wrap them in a FrozenEstimator."
    ),
    Assumption.FROZEN_PARTS: (
        "Frozen parts of the estimator are taken to have been fitted on public "
        "records; this is not checked."
    ),
}


def void_reasons(claim: Claim) -> tuple[str, ...]:
    """Return why there is no guarantee at all; nothing where there is one."""
    found = [LEAKS[leak] for leak in _in_order(Leak, claim.leaks) if leak.voids]
    if math.isinf(claim.epsilon):
        found.append(NO_NOISE if claim.method == Method.SINGLE else INFINITE)
    if claim.vacuous and not found:
        found.append(VACUOUS)
    return tuple(found)


def leaks(claim: Claim) -> tuple[str, ...]:
    """Return what the noise does not cover."""
    return tuple(LEAKS[x] for x in _in_order(Leak, claim.leaks) if not x.voids)


def doubts(claim: Claim) -> tuple[str, ...]:
    """Return why the guarantee may be about others than these people."""
    return tuple(DOUBTS[each] for each in _in_order(Doubt, claim.doubts))


def provisos(claim: Claim) -> tuple[str, ...]:
    """Return what the guarantee rests on, in whole sentences."""
    codes = _in_order(Assumption, claim.assumptions)
    return tuple(PROVISOS[code] for code in codes if code in PROVISOS)


def conditions(claim: Claim) -> tuple[str, ...]:
    """Return what is taken on the caller's word, each as the end of a sentence."""
    codes = _in_order(Assumption, claim.assumptions)
    return tuple(text for code in codes for text in _CONDITIONS.get(code, ()))


def reasons_against(claim: Claim) -> tuple[str, ...]:
    """Return why the guarantee does not stand; nothing where it does."""
    void = void_reasons(claim)
    empty = (EMPTY,) if claim.empty and not void else ()
    return (*void, *empty, *leaks(claim), *doubts(claim))


def caveats(claim: Claim) -> tuple[str, ...]:
    """Return why a guarantee does not stand, and what it rests on if it does."""
    return (*reasons_against(claim), *provisos(claim))


def rests_on(claim: Claim) -> tuple[str, ...]:
    """Return what the guarantee rests on, in whole sentences."""
    given = (f"{text[0].upper()}{text[1:]}." for text in conditions(claim))
    return (*provisos(claim), *given)


def verdict(claim: Claim) -> str:
    """Return in one sentence whether the guarantee stands, for whom, and if not why."""
    if not claim.n_releases:
        return "Nothing was released yet."
    if reasons := reasons_against(claim):
        return f"The guarantee does NOT stand. {' '.join(reasons)}"
    level = f"epsilon {ceil_text(claim.epsilon, 2)}"
    if claim.delta:
        level += f" and delta {ceil_text(claim.delta, 2)}"
    if outside := add_up([claim.risk, claim.failure_prob]):
        level += f", outside a risk of {ceil_text(min(1.0, outside), 2)}"
    return f"The guarantee stands: it protects {protected(claim)}, at {level}."


def protected(claim: Claim) -> str:
    """Return whom or what a guarantee protects, in a few words."""
    if claim.protects_membership:
        return "which of the records are used, and not that a person is among them"
    if claim.unit == Unit.PERSON:
        return "one person, with all of their rows"
    return "one record (one row)" if claim.unit else "one of what it does not state"


def _in_order(kind: Any, codes: Any) -> list[Any]:
    return [code for code in kind if code in codes]


def document(claim: Claim, *, curve: bool = False) -> dict[str, Any]:
    """Return plain numbers, codes and words, which strict JSON has."""
    written = fields_of(claim)
    for name in ("leaks", "assumptions", "doubts"):
        written[name] = sorted(map(str, written[name]))
    for name in ("randomness", "method", "unit"):
        written[name] = None if written[name] is None else str(written[name])
    if claim.loss is not None:
        # A law of the caller's own is in no document: its level alone counts there.
        known, name = fields_of(claim.loss), claim.loss.law.name
        written["loss"] = known | {"law": name} if name in LAWS else None
    if claim.evidence is not None:
        written["evidence"] = evidence = fields_of(claim.evidence)
        evidence["population"] = str(evidence["population"])
        points = evidence.pop("curve")
        if not curve and points is not None and claim.randomness == "both":
            # Nothing else that is written says what level the noise was made for.
            points = point_of_level(points, claim.epsilon)
            curve = len(points) > 0
        if curve and points is not None:
            evidence["curve"] = points.tolist()
    return {
        **SCHEMA,
        "version": __version__,
        "guarantee": guarantee(claim),
        "caveats": list(caveats(claim)),
        "conditions": list(conditions(claim)),
        "private": claim.private,
        **strict(written),
    }


def text(claim: Claim) -> str:
    """Return the guarantee, a table and the caveats."""
    table = "\n".join(f"  {name}: {value}" for name, value in rows(claim))
    notes = "".join(f"\nCaveat: {each}" for each in caveats(claim))
    return f"{guarantee(claim)}\n{table}{notes}"


def html_of(claim: Claim) -> str:
    """Return the guarantee, the caveats and a table."""
    table = "".join(html_row(*row) for row in rows(claim))
    notes = "".join(
        f"<p><strong>Caveat.</strong> {html.escape(each)}</p>"
        for each in caveats(claim)
    )
    said = html.escape(guarantee(claim))
    return f"<div><p>{said}</p>{notes}<table>{table}</table></div>"


def html_row(*cells: str, n_heads: int = 1) -> str:
    """Return a row of a table, whose first cells say what the others are."""
    tags = ["th"] * n_heads + ["td"] * (len(cells) - n_heads)
    inner = "".join(
        f"<{tag} style='text-align:left'>{html.escape(cell)}</{tag}>"
        for tag, cell in zip(tags, cells, strict=True)
    )
    return f"<tr>{inner}</tr>"


def guarantee(claim: Claim) -> str:
    """Return the claim as a sentence."""
    if not claim.n_releases:
        return "Nothing was released yet, so nothing is claimed."
    if claim.void:
        return f"There is no guarantee. {void_reasons(claim)[0]}"
    words = _claim_in_words(claim)
    if Assumption.DECLARED_SENSITIVITY in claim.assumptions:
        words += ", provided that the declared sensitivity is a true bound"
    words += "."
    if claim.protects_membership:
        words = f"{_who_is_used(claim)} {words}"
    if Leak.REDRAWN in claim.leaks:
        words += " This does not cover what other samples of these records tell."
    if claim.leaks - {Leak.REDRAWN}:
        words += " This does not cover what was released without noise."
    return words


def _who_is_used(claim: Claim) -> str:
    """Return what is protected instead of records."""
    units = counted(claim)
    which, all_of = f"which of the {units} handed over are used", "all of them"
    evidence = claim.evidence
    if evidence is not None and evidence.n_candidates is not None:
        n, all_of = evidence.n_candidates, f"all {evidence.n_candidates}"
        which = f"which {evidence.n_records} of these {n} {units} are used"
    return (
        f"The guarantee hides {which}, from someone who knows {all_of}; that a person "
        "is among them is not protected, and the scale and the shape of the noise "
        "depend on them."
    )


def _claim_in_words(claim: Claim) -> str:
    several = claim.n_releases > 1
    what = f"the {claim.n_releases} releases together" if several else "the release"
    are = "are" if several else "is"
    if not (claim.risk or claim.failure_prob):
        return f"{_whom(claim, 'any ')} {what} {are} {_private_at(claim)}"
    if claim.randomness == Scope.PAIR:
        return (
            f"{_whom(claim)} with probability at least "
            f"{complement_text(claim.risk)} over "
            f"{_over(claim, 'a fresh pair')}, {what} {are} {_private_at(claim)} for "
            "that pair, whatever the output"
        )
    every = claim.randomness == Scope.NOISE
    whom = _whom(claim, "any " if every else "")
    if claim.delta or (claim.post_processed and not every):
        average = "" if every else f", on average over {_over(claim, 'a fresh pair')}"
        return f"{whom} {what} {are} {_private_at(claim, _all_in_all(claim))}{average}"
    over = _over(claim, "the noise" if every else "a fresh pair, its noise")
    return (
        f"{whom} the privacy loss of {what} exceeds {ceil_text(claim.epsilon, 3)} with "
        f"probability at most {ceil_text(claim.risk, 2)} over {over}"
    )


def _whom(claim: Claim, any_: str = "") -> str:
    """Return which pairs the claim is about."""
    neighbors, many = neighbors_of(claim), counted(claim)
    if claim.evidence is not None and claim.evidence.population == Population.DECLARED:
        neighbors = neighbors.replace("databases", "databases of made-up records", 1)
    if Leak.PRIVATE_CLASSES in claim.leaks:  # others differ in what has no noise
        neighbors += " and have the same classes"
    if claim.evidence is not None:
        n_records = claim.evidence.n_records
        count = "1 record" if n_records == 1 else f"{n_records} {many}"
        found = [count, claim.evidence.reference]
        neighbors += f" ({', '.join(text for text in found if text)})"
    return f"For {any_}{neighbors}:"


def neighbors_of(claim: Claim) -> str:
    """Return what neighboring databases are."""
    known = _PEOPLE if claim.unit == Unit.PERSON else NEIGHBORS
    return known.get(claim.relation or "", "two neighboring databases")


def counted(claim: Claim) -> str:
    """Return what databases are counted in."""
    return "people" if claim.unit == Unit.PERSON else "records"


def unit_of(claim: Claim) -> str:
    """Return what is protected, of one of these."""
    if claim.unit != Unit.PERSON:
        return "one record" if claim.unit else "not stated"
    words, evidence = "one person, with all of their rows", claim.evidence
    if evidence is not None and evidence.rows_per_person is not None:
        few, most = evidence.rows_per_person
        words += (
            f" ({few} to {most} in the reference; someone with more is covered only as "
            "far as it has such people)"
        )
    return f"{words}; how many private rows there are is not public"


def _private_at(claim: Claim, delta: float | None = None) -> str:
    level = ceil_text(claim.epsilon, 3)
    delta = claim.delta if delta is None else delta
    if delta:
        level = f"({level}, {ceil_text(min(1.0, delta), 2)})"
    return f"{level}-differentially private"


def _all_in_all(claim: Claim) -> float:
    """Return delta and risk together, as a delta on average."""
    # Over the noise alone there are no samples of pairs to set apart.
    failure = claim.failure_prob if claim.randomness == Scope.NOISE else 0.0
    return add_up([claim.delta, claim.risk, failure])


def _over(claim: Claim, what: str) -> str:
    """Return what a risk is over, besides `what`."""
    if claim.failure_prob:
        share = ceil_text(claim.failure_prob, 3)
        what = " and ".join(what.rsplit(", ", 1))
        return f"{what}, for all but a fraction {share} of the samples of pairs"
    return what if claim.randomness == Scope.NOISE else f"{what} and the sampled pairs"


def rows(claim: Claim) -> list[tuple[str, str]]:
    """Return the numbers of a claim, by name."""
    return [
        *level_rows(claim),
        *gain_rows(claim),
        *how_rows(claim),
        *audit_rows(claim),
        *(("taken on the caller's word", each) for each in conditions(claim)),
    ]


def level_rows(claim: Claim) -> list[tuple[str, str]]:
    """Return what is claimed."""
    evidence = claim.evidence
    risk = "none is guaranteed" if claim.void else ceil_text(claim.risk)
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
    table.append(("unit of protection", unit_of(claim)))
    table.append(("relation", claim.relation or "not stated"))
    if claim.risk and claim.randomness != Scope.PAIR and not claim.void:
        table.append(("anything computed from it, such as predictions", _after(claim)))
    return table


def gain_rows(claim: Claim) -> list[tuple[str, str]]:
    """Return what the claim means."""
    gained, beyond = claim.advantage, ""
    if gained.risk and gained.quantile < 1:
        share, most = people_text(gained.risk), guesses_text(gained.quantile)
        beyond = f"; for {share} of 100 people at most {most} times in 100"
    return [("what an attacker gains", gain(claim, beyond)), *membership_rows(claim)]


def gain(claim: Claim, beyond: str = "") -> str:
    """Return what an attacker gains, as a number of right guesses, and what is beyond.

    That is of single people, where the number is an average.
    """
    if claim.void:
        return "nothing is guaranteed"
    once = f"at most {guesses_text(claim.advantage.mean)} times in 100"
    words = (
        f"someone who knows everything but whether it was you guesses right {once} "
        "instead of 50"
    )
    if claim.advantage.risk:
        words += f", on average over people{beyond}"
    if claim.leaks:
        words += ", not counting what was released without noise"
    return words


def membership_rows(claim: Claim) -> list[tuple[str, str]]:
    """Return what a claim about a secret sample means for one of the records."""
    evidence = claim.evidence
    if evidence is None or evidence.n_candidates is None or claim.void:
        return []
    n_others = evidence.n_candidates - evidence.n_records
    prior = f"{evidence.n_records}/{n_others}"
    share = ceil_text(min(1.0, _all_in_all(claim)))
    level = ceil_text(claim.epsilon)
    most = ceil_text(claim.membership_odds)
    unit = "person" if claim.unit == Unit.PERSON else "record"
    odds = (
        f"odds that a {unit} is used",
        f"at most {most} outside the risk{' and delta' if claim.delta else ''}, where "
        f"they were {prior} before",
    )
    one = (
        f"for one {unit}",
        f"({level}, delta_i)-differentially private, with a delta_i whose mean over "
        f"the {evidence.n_candidates} {counted(claim)} and the sampled pairs is at "
        f"most {share}; that of a single one may be larger, also 1",
    )
    # An advantage alone leaves the odds of no output as they were.
    return [odds, one] if claim.epsilon else [one]


def _after(claim: Claim) -> str:
    """Return what holds for whatever is computed from a release."""
    level = _private_at(claim, _all_in_all(claim))
    if claim.randomness == Scope.NOISE:
        return level
    return f"{level}, on average over {_over(claim, 'a fresh pair')}"


def how_rows(claim: Claim) -> list[tuple[str, str]]:
    """Return how it was computed."""
    evidence = claim.evidence
    if evidence is None:
        method = METHODS[claim.method]
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
        (f"{counted(claim)}, outputs", outputs),
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
        table.append((f"{counted(claim)} that they were drawn from", n_candidates))
    if evidence.for_new_people is not None:
        table.append(("for new people", evidence.for_new_people))
    return table


def audit_summary(audit: MeasuredRisk) -> str:
    """Return half a sentence of what an audit measured."""
    low, high = floor_text(audit.lower, 2), ceil_text(audit.upper, 2)
    found = {
        "supported": f"at most {high}",
        "contradicted": f"at least {low}",
        "inconclusive": f"between {low} and {high}, each limit",
    }
    seeded = (
        "; its noise was drawn from a seed, so that the audit itself is NOT private"
    )
    return (
        f"measured at blocks of {audit.n_records} records: risk "
        f"{found[audit.verdict]} with confidence {audit.confidence:g} "
        f"({audit.verdict} at a risk of {audit.gamma:g})"
        f"{seeded if audit.seeded else ''}"
    )


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
        ("reference audited", audit_summary(audit)),
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
    shape = evidence.noise_shape
    scale += " per output" if shape == "isotropic" else f", {shape}"
    if evidence.n_shape_pairs is not None:
        scale += f" using {evidence.n_shape_pairs} other sampled pairs"
    return scale


def _calibration(evidence: Evidence, claim: Claim) -> str:
    m, r = evidence.n_pairs, evidence.n_neighbors
    assert m is not None
    if evidence.averages:
        found = f"average of the {'exact risks' if claim.epsilon else 'advantages'}"
    else:
        of_pair = claim.randomness == Scope.PAIR
        found = "sensitivity" if of_pair else "critical scale"
        found += f" number {evidence.order_index}"
    found = f"{evidence.calibration}, {found} of {m} sampled pairs"
    if r > 1:
        found += f", {r} neighbors of each of {m // r} sampled databases"
    if evidence.n_unanswered:
        counted = "1" if evidence.averages else "infinite"
        found += f"; {evidence.n_unanswered} without an answer count as {counted}"
    return found
