"""What a report says, section by section, in the words of the certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skparisk import _words as words
from skparisk.core.claim import Claim
from skparisk.report._pictures import gain_picture, risk_picture

Rows = tuple[tuple[str, str], ...]

INSIDE = "inside the environment only: it was computed from private data without noise"
_NOT_GIVEN = "not declared"
_BLANK = "................................"
# What no guarantee of this kind is about.
_NEVER_PROTECTED = (
    "What is true of the population, and can be learned without any one record.",
    "A person with several records, or people who are known to belong together, to the "
    "same degree: the claim is about one record, unless it says otherwise.",
)
_BEYOND_RISK = (
    "People in the pairs that the risk leaves out, who tend to be those with the most "
    "unusual records."
)


@dataclass(frozen=True)
class Section:
    """A heading, and what is under it."""

    title: str
    texts: tuple[str, ...] = ()
    rows: Rows = ()
    items: tuple[str, ...] = ()
    # A table of several columns: the first row is its head.
    table: tuple[tuple[str, ...], ...] = ()
    pictures: tuple[str, ...] = ()
    # Whether the texts are a warning.
    alarm: bool = False


def sections_of(document: Mapping[str, Any], claim: Claim) -> tuple[Section, ...]:
    """Return the sections of the document of a report, which is about a claim."""
    declared = document["declared"]
    return (
        _identity(document),
        Section(
            "Product and intended use",
            rows=_declared(declared, "product", "use", "not_for"),
        ),
        Section(
            "The claim",
            (claim.guarantee,),
            tuple(words.level_rows(claim)),
            alarm=not claim.private,
        ),
        Section("Unit of protection", rows=_unit(claim)),
        Section("How it was computed", rows=tuple(words.how_rows(claim))),
        Section(
            "Taken on trust",
            () if _trusted(claim) else ("Nothing but the software itself.",),
            items=_trusted(claim),
        ),
        Section("Not protected", items=_not_protected(claim)),
        _budget(document["ledger"]),
        Section(
            "What it means",
            rows=(
                *words.gain_rows(claim),
                *_error(document["noise"], claim),
                *_cost(document["cost"], claim),
            ),
            pictures=(gain_picture(claim), risk_picture(claim)),
        ),
        _evidence(document, claim),
        _checks(document),
        Section(
            "Decision",
            rows=tuple(
                (name, str(said) or _BLANK)
                for name, said in document["decision"].items()
            ),
        ),
    )


def _identity(document: Mapping[str, Any]) -> Section:
    about = {
        "report": f"{document['schema']}, schema version {document['schema_version']}",
        "id": document["id"],
        "time (UTC)": document["created"],
        "versions": ", ".join(
            f"{name} {version}" for name, version in document["versions"].items()
        ),
    }
    files = [
        (f"SHA-256 of {file['name']}", file["sha256"]) for file in document["files"]
    ]
    rows = (*about.items(), *(files or [("released file", "none was given")]))
    declared = _declared(document["declared"], "project", "data_set")
    return Section("Identity", rows=(*rows, *declared))


def _declared(declared: Mapping[str, str], *names: str) -> Rows:
    return tuple(
        (f"{name.replace('_', ' ')} (declared)", declared[name] or _NOT_GIVEN)
        for name in names
    )


def _unit(claim: Claim) -> Rows:
    unit = "one record"
    if claim.group_size > 1:
        unit = f"any {claim.group_size} records together"
    if claim.protects_membership:
        unit = "which of the records are used, and not that a person is among them"
    neighbors = words.NEIGHBORS.get(claim.relation or "", "not stated")
    return (("protected", unit), ("neighboring databases", neighbors))


def _trusted(claim: Claim) -> tuple[str, ...]:
    """Return the words of others that the claim rests on."""
    given = (f"{text[0].upper()}{text[1:]}." for text in claim.conditions)
    return (*given, *words.doubts(claim), *words.provisos(claim))


def _not_protected(claim: Claim) -> tuple[str, ...]:
    risky = claim.risk and claim.randomness != "explicit" and not claim.void
    beyond = (_BEYOND_RISK,) if risky else ()
    return (
        *words.void_reasons(claim),
        *words.leaks(claim),
        *beyond,
        *_NEVER_PROTECTED,
    )


def _budget(ledger: Mapping[str, Any] | None) -> Section:
    if ledger is None:
        text = "No ledger was given: what else was released of these people is unknown."
        return Section("The budget", (text,))
    releases = tuple(tuple(row) for row in ledger["releases"])
    head = ("number", "time", "level", "what")
    return Section(
        "The budget",
        rows=tuple(ledger["rows"].items()),
        table=(head, *releases) if releases else (),
    )


def _error(noise: Mapping[str, Any] | None, claim: Claim) -> Rows:
    """Return how large the noise is."""
    name = "expected error by the noise"
    if noise is None:
        shape = "isotropic" if claim.evidence is None else claim.evidence.noise_shape
        text = "of another size for each output: see the noise"
        return ((name, text),) if shape != "isotropic" else ()
    text = f"{noise['typical']:.3g} for each output"
    if noise["least"] < noise["most"]:
        text = (
            f"{noise['typical']:.3g}, the root mean square over the outputs, from "
            f"{noise['least']:.3g} to {noise['most']:.3g}"
        )
    inside = f"; {INSIDE}" if claim.reference_is_private else ""
    return ((name, f"{text} (standard deviation, in units of the output){inside}"),)


def _cost(cost: Mapping[str, Any] | None, claim: Claim) -> Rows:
    """Return what is to be paid, by the numbers that somebody declared."""
    if cost is None:
        return ()
    by = ", ".join(f"{name} {value:g}" for name, value in cost["declared"].items())
    total = f"{float(cost['total']):,.2f}"
    text = f"{total} in units of money, by a {cost['model']} with {by} (declared)"
    if not claim.private:
        text += "; the full compensation, as the guarantee does not stand"
    return (("cost for all people together", text),)


def _evidence(document: Mapping[str, Any], claim: Claim) -> Section:
    rows = list(words.audit_rows(claim))
    audit = document["attack_audit"]
    texts: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    if audit is not None:
        inside = "" if audit["public"] else f" ({INSIDE})"
        rows.append(("attack audit", audit["verdict"] + inside))
        texts = (f"What the attacks on such releases show{inside}:",)
        items = tuple(audit["meaning"])
    if claim.reference_is_private:
        rows.append(("sensitivity and noise scale", INSIDE))
    rows += [
        (
            score["name"],
            score["value"] if score["private"] else f"{score['value']} ({INSIDE})",
        )
        for score in document["scores"]
    ]
    if not rows:
        texts = ("No audit was made, and no score was given.",)
    return Section("Evidence", texts, tuple(rows), items)


def _checks(document: Mapping[str, Any]) -> Section:
    title, checks = "Checks against a policy", document["checks"]
    if checks is None:
        return Section(title, ("No policy was given.",))
    kept = all(check["passed"] for check in checks)
    rows = tuple(
        (
            check["rule"],
            "pass" if check["passed"] else "FAIL",
            check["found"],
            check["required"],
        )
        for check in checks
    )
    said = "Every rule is kept." if kept else "It does not keep the policy."
    table = (("rule", "result", "found", "required"), *rows)
    attacked = any(check["rule"] == "attack_audited" for check in checks)
    audit = document["attack_audit"]
    inside = attacked and audit and not audit["public"]
    texts = (said, f"The rule attack_audited is {INSIDE}.") if inside else (said,)
    return Section(title, texts, table=table, alarm=not kept)
