"""What a report says, section by section, in the words of the certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk import _words as words
from skparisk._text import guesses_text
from skparisk.core.claim import Claim
from skparisk.core.rounding import ceil_text

Floats = NDArray[np.float64]

_WIDTH = 340
# Of a curve: each of them holds by itself, so that fewer say less, and nothing wrong.
_MOST_POINTS = 60


def gain_picture(claim: Claim) -> str:
    """Draw how often an attacker guesses right; nothing without a guarantee."""
    if claim.void:
        return ""
    gain = claim.advantage
    bars = [("guessing blindly", 50.0, "quiet")]
    bars.append(("on average, at most", float(guesses_text(gain.mean)), "bar"))
    if gain.risk and gain.quantile < 1:
        most = float(guesses_text(gain.quantile))
        bars.append(("all but the risk, at most", most, "bar"))
    parts = []
    for place, (name, value, kind) in enumerate(bars):
        top = 8 + 34 * place
        parts.append(
            f"<text x='0' y='{top + 8}'>{name}: {value:g} in 100</text>"
            f"<rect class='track' x='0' y='{top + 13}' width='{_WIDTH}' height='9'/>"
            f"<rect class='{kind}' x='0' y='{top + 13}' height='9' "
            f"width='{_WIDTH * value / 100:.1f}'/>"
        )
    said = "; ".join(f"{name} {value:g} of 100" for name, value, _ in bars)
    return _svg("Right guesses of an attacker", said, 34 * len(bars) + 8, parts)


def risk_picture(claim: Claim) -> str:
    """Draw the risks that are certified for other levels, if there are any."""
    if claim.void:
        return ""
    levels, risks = claim.points()
    kept = np.isfinite(levels) & (levels > 0) & (risks > 0)
    order = np.argsort(levels[kept], kind="stable")
    levels = levels[kept][order]
    risks = np.minimum.accumulate(risks[kept][order])
    if len(levels) < 3 or levels.max() <= levels.min() or risks.max() <= risks.min():
        return ""
    chosen = np.unique(np.linspace(0, len(levels) - 1, _MOST_POINTS).astype(int))
    levels, risks = levels[chosen], risks[chosen]
    left, right, top, bottom = 44, _WIDTH - 10, 22, 190
    x = _places(levels, left, right)
    y = _places(risks, bottom, top)
    steps = f"M{x[0]:.1f} {y[0]:.1f}" + "".join(
        f"H{across:.1f}V{up:.1f}" for across, up in zip(x[1:], y[1:], strict=True)
    )
    parts = [
        f"<path class='axis' d='M{left} {top}V{bottom}H{right}'/>",
        f"<path class='line' d='{steps}'/>",
        "<text x='0' y='12'>risk</text>",
        f"<text x='0' y='{top + 8}'>{risks.max():.2g}</text>",
        f"<text x='0' y='{bottom}'>{risks.min():.2g}</text>",
        f"<text x='{left}' y='{bottom + 16}'>{levels.min():.2g}</text>",
        f"<text x='{right}' y='{bottom + 16}' text-anchor='end'>{levels.max():.3g}"
        "</text>",
        f"<text x='{(left + right) / 2}' y='{bottom + 16}' text-anchor='middle'>"
        "epsilon</text>",
    ]
    said = (
        f"From a risk of {ceil_text(float(risks[0]), 3)} at epsilon {levels[0]:.3g} to "
        f"{ceil_text(float(risks[-1]), 3)} at {levels[-1]:.3g}, both on log scales."
    )
    return _svg("Certified risk at other privacy levels", said, bottom + 24, parts)


def _places(values: Floats, first: float, last: float) -> Floats:
    """Return where values are between two ends, on a log scale."""
    logs = np.log(values)
    shares = (logs - logs.min()) / (logs.max() - logs.min())
    return first + (last - first) * shares


def _svg(title: str, said: str, height: float, parts: list[str]) -> str:
    return (
        f"<figure><svg viewBox='0 0 {_WIDTH} {math.ceil(height)}' role='img' "
        f"aria-label='{escape(title)}. {escape(said)}'>{''.join(parts)}</svg>"
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )


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
