"""The report of a certificate or a ledger, and the files that it is written to."""

from __future__ import annotations

import copy
import datetime
import hashlib
import html
import json
import math
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from importlib.resources import files
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skparisk import _words as words
from skparisk._checks import check_flag
from skparisk._filed import FiledCertificate
from skparisk._text import guesses_text, printable, strict
from skparisk._version import __version__
from skparisk.audit import ClaimAudit
from skparisk.core.claim import Claim, Unit, as_certificate
from skparisk.core.laws import LAWS
from skparisk.core.noise import AdditiveNoise
from skparisk.core.rounding import ceil_text
from skparisk.cost import CostModel
from skparisk.ledger import PrivacyLedger
from skparisk.metrics import PrivateScore
from skparisk.report._policy import Check, Policy

Floats = NDArray[np.float64]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


@cache
def json_schema() -> Any:
    """Return the JSON Schema of reports, which is a file of the package."""
    text = files("skparisk.report").joinpath("report.schema.json").read_text("utf-8")
    return json.loads(text)


def _errors(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    """Yield what is wrong, by the words of JSON Schema that the file uses."""
    if "const" in schema or "enum" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        # True is no 1 here.
        if not any(type(value) is type(one) and value == one for one in allowed):
            yield f"{where} must be one of {allowed}, got {value!r}"
        return
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(type(value) in _TYPES[name] for name in types):
        yield f"{where} must be of the type {' or '.join(types)}, got {value!r}"
    elif isinstance(value, str):
        if not re.search(schema.get("pattern", ""), value):
            yield f"{where} must match {schema['pattern']}, got {value!r}"
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        missing = [name for name in schema.get("required", ()) if name not in value]
        unknown = [name for name in value if name not in known and others is False]
        if missing or unknown:
            yield f"{where} lacks {missing}, and has the unknown {unknown}"
        for name, part in value.items():
            if name in known or isinstance(others, dict):
                yield from _errors(part, known.get(name, others), f"{where}, {name!r}")
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 2**62):
            yield f"{where} must have {schema['minItems']} entries, got {len(value)}"
        for place, item in enumerate(value):
            yield from _errors(item, schema["items"], f"{where}, entry {place}")
    elif type(value) in _TYPES["number"]:
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            yield f"{where} is out of range, got {value!r}"


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
        f"aria-label='{html.escape(title)}. {html.escape(said)}'>{''.join(parts)}</svg>"
        f"<figcaption>{html.escape(title)}</figcaption></figure>"
    )


Rows = tuple[tuple[str, str], ...]

INSIDE = "inside the environment only: it was computed from private data without noise"
_NOT_GIVEN = "not declared"
_BLANK = "................................"
# What no guarantee of this kind is about.
_NEVER_PROTECTED = (
    "What is true of the population, and can be learned without any one record.",
)
_SEVERAL = (
    "A person with several records, or people who are known to belong together, to the "
    "same degree: the claim is about one record, unless it says otherwise."
)
_TOGETHER = (
    "People who are known to belong together, such as a family, to the same degree; "
    "nor somebody with more rows than anyone in the reference."
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
    neighbors = words.neighbors_of(claim) if claim.relation else "not stated"
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
        Section(
            "Unit of protection",
            rows=(("protected", _unit(claim)), ("neighboring databases", neighbors)),
        ),
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


def _unit(claim: Claim) -> str:
    if claim.protects_membership:
        return "which of the records are used, and not that a person is among them"
    if claim.group_size > 1:
        return f"any {claim.group_size} {words.counted(claim)} together"
    return words.unit_of(claim)


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
        _TOGETHER if claim.unit == Unit.PERSON else _SEVERAL,
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


# No script, no network: the page says so itself.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1a1c20; --page: #ffffff; --quiet: #565b66;
  --rule: #c9ccd3; --mark: #0b57a4; --alarm: #9b1c00; --track: #e3e6eb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e9eaee; --page: #15171b;
  --quiet: #a7adba; --rule: #444a55; --mark: #8ab8ff; --alarm: #ffb19e;
  --track: #333945; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 50rem; padding: 1rem; color: var(--ink);
  background: var(--page); font: 1rem/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; padding-top: 0.5rem;
  border-top: 1px solid var(--rule); }
p.verdict { font-size: 1.1rem; font-weight: 600; }
.alarm { color: var(--alarm); font-weight: 600; }
table { width: 100%; border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem 0.3rem 0;
  border-bottom: 1px solid var(--rule); }
table.pairs { table-layout: fixed; }
table.pairs th { width: 36%; font-weight: 500; color: var(--quiet); }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }
.wide { overflow-x: auto; overflow-wrap: break-word; margin-top: 1rem; }
figure { margin: 1rem 0; max-width: 32rem; }
figcaption { color: var(--quiet); }
svg { width: 100%; height: auto; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.track { fill: var(--track); } .bar { fill: var(--mark); }
.quiet { fill: var(--quiet); }
.axis, .line { fill: none; stroke: var(--quiet); }
.line { stroke: var(--mark); stroke-width: 2; }
@media print { :root { --ink: #000; --page: #fff; --quiet: #333; --alarm: #000; }
  body { max-width: none; font-size: 10pt; } h2 { break-after: avoid; }
  tr, figure { break-inside: avoid; } }
"""


def as_page(title: str, verdict: str, sections: Iterable[Section], alarm: bool) -> str:
    """Return a page of HTML: all that is in it is escaped, but for its own pictures."""
    mark = " alarm" if alarm else ""
    body = "".join(map(_section_in_html, sections))
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{_text(title)}</h1>\n"
        f"<p class='verdict{mark}'>{_text(verdict)}</p>\n"
        f"{body}</main>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return html.escape(printable(text))


def _section_in_html(section: Section) -> str:
    mark = " class='alarm'" if section.alarm else ""
    parts = [f"<h2>{_text(section.title)}</h2>"]
    parts += [f"<p{mark}>{_text(text)}</p>" for text in section.texts]
    if section.items:
        listed = "".join(f"<li>{_text(item)}</li>" for item in section.items)
        parts.append(f"<ul>{listed}</ul>")
    caption = f"<caption>{_text(section.title)}</caption>"
    if section.rows:
        rows = "".join(
            f"<tr><th scope='row'>{_text(name)}</th><td>{_text(value)}</td></tr>"
            for name, value in section.rows
        )
        parts.append(f"<table class='pairs'>{caption}<tbody>{rows}</tbody></table>")
    if section.table:
        head, *others = section.table
        titles = "".join(f"<th scope='col'>{_text(name)}</th>" for name in head)
        rows = "".join(
            f"<tr><th scope='row'>{_text(row[0])}</th>"
            f"{''.join(f'<td>{_text(cell)}</td>' for cell in row[1:])}</tr>"
            for row in others
        )
        # It may be wider than a phone, and is then scrolled, also by keys.
        parts.append(
            f"<div class='wide' role='region' tabindex='0' "
            f"aria-label='{_text(section.title)}'>"
            f"<table>{caption}<thead><tr>{titles}</tr></thead>"
            f"<tbody>{rows}</tbody></table></div>"
        )
    return f"<section>{''.join((*parts, *section.pictures))}</section>\n"


def as_markdown(
    title: str, verdict: str, sections: Iterable[Section], head: Mapping[str, Any]
) -> str:
    """Return Markdown with a head of YAML, as model cards have."""
    # What JSON writes on one line is YAML as well.
    given = {name: json.dumps(head[name], ensure_ascii=False) for name in head}
    lines = ["---", *(f"{name}: {given[name]}" for name in given), "---", ""]
    lines += [f"# {_plain(title)}", "", f"**{_plain(verdict)}**"]
    for section in sections:
        lines += ["", f"## {_plain(section.title)}"]
        for text in section.texts:
            lines += ["", _plain(text)]
        lines += ["", *(f"- {_plain(item)}" for item in section.items)]
        if section.rows:
            lines += ["", *_table((("field", "value"), *section.rows))]
        if section.table:
            lines += ["", *_table(section.table)]
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *others = ["| " + " | ".join(map(_plain, row)) + " |" for row in rows]
    return [head, "|" + " --- |" * len(rows[0]), *others]


def _plain(text: str) -> str:
    """Return a text that Markdown, and HTML in it, show as it is."""
    escaped = re.sub(r"([\\`*_\[\]#|~$!])", r"\\\1", printable(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# Whose results.json this is the shape of: ACRO reads that of its own version alone.
_ACRO_VERSION = "1.0.2"
_NUMBERS = ("epsilon", "delta", "risk", "failure_prob", "randomness", "relation")


def _on_trust(claim: Claim) -> list[str]:
    return [f"Taken on trust: {text}." for text in claim.conditions]


def noise_of(source: Any, claim: Claim) -> dict[str, float] | None:
    """Return standard deviations of the noise of outputs; None if they are not known.

    A certificate alone has them if the noise has the same size for each output.
    """
    sampler, evidence = getattr(source, "sampler_", source), claim.evidence
    noise = getattr(sampler, "mechanism_", getattr(source, "noise", None))
    if isinstance(noise, AdditiveNoise):
        deviations = noise.deviations()
        # Of what is released: constants have none.
        deviations = deviations[deviations > 0] if noise.steps else deviations
    elif (
        evidence is not None
        and evidence.noise_shape == "isotropic"
        and evidence.law in LAWS
        and evidence.law != "exponential"
    ):
        deviations = np.array([LAWS[evidence.law]().deviation * evidence.noise_scale])
    else:
        return None
    most = float(deviations.max())
    if not math.isfinite(most):
        return None
    # Of the largest, so that no square overflows.
    typical = most and most * float(np.sqrt(np.mean((deviations / most) ** 2)))
    least = float(deviations.min())
    return {"typical": typical, "least": least, "most": most}


def cost_of(cost: CostModel, claim: Claim) -> dict[str, Any]:
    """Return what the release costs by numbers that were declared."""
    return {
        "model": type(cost).__name__,
        "declared": {
            name: float(value)
            for name, value in vars(cost).items()
            if isinstance(value, Real) and math.isfinite(value)
        },
        "total": strict(cost.budget_of(claim)),
    }


SCHEMA = {"schema": "skparisk.report", "schema_version": 1}
DECLARED = ("project", "data_set", "product", "use", "not_for")
_DECISION = ("checker", "date", "decision", "reason")
_PACKAGES = ("numpy", "scipy", "scikit-learn")


class Report:
    """What is filed of a release: its claim, what it rests on, and what it means.

    Parameters
    ----------
    source : fitted estimator, Certificate, FiledCertificate, mechanism or PrivacyLedger
        What was released. Of a ledger, all its releases together.

    ledger : PrivacyLedger, default=None
        What the release was charged to. None: that of `source`, if it is one.

    policy : Policy, default=None
        Limits that it is checked against.

    files : list of path-like, default=()
        Files that are released: their SHA-256 is in the report.

    scores : mapping of str to PrivateScore, number or text, default=None
        By name. A :class:`~skparisk.metrics.PrivateScore` adds to the claim in the
        limits of the policy, also if `source` is a ledger that holds it. Any other is
        marked as "inside the environment only".

    cost : CostModel, default=None
        Declared costs of privacy levels, such as a
        :class:`~skparisk.cost.CompensationModel`.

    attack_audit : ClaimAudit, default=None
        Attacks on such releases (:func:`~skparisk.audit_claim`), of the same level,
        delta and relation. Marked as "inside the environment only".

    audit_is_public : bool, default=False
        Whether the records of that audit were public or simulated: no such mark.

    project, data_set, product, use, not_for : str, default=""
        Declarations, taken over as they are.

    Attributes
    ----------
    document : dict
        All that it says, as plain numbers, strings and lists.

    certificate : Certificate
        The claim.

    Raises
    ------
    ValueError
        If `source` has no certificate, or another parameter is of the wrong kind.

    OSError
        If a file cannot be read.

    Notes
    -----
    `id` is the SHA-256 of the document without the decision, which is left blank: an
    edited report has another one. That is no signature: file the id, or the report,
    where it cannot be exchanged.

    Examples
    --------
    >>> from skparisk.core import as_certificate
    >>> from skparisk.report import Report
    >>> report = Report(as_certificate(0.5), project="wages")
    >>> report.document["certificate"]["epsilon"], report.document["checks"]
    (0.5, None)
    >>> "# Privacy report: wages" in report.to_markdown()
    True
    """

    document: dict[str, Any]
    certificate: Claim

    def __init__(
        self,
        source: Any,
        *,
        ledger: PrivacyLedger | None = None,
        policy: Policy | None = None,
        files: Iterable[str | os.PathLike[str]] = (),
        scores: Mapping[str, Any] | None = None,
        cost: CostModel | None = None,
        attack_audit: ClaimAudit | None = None,
        audit_is_public: bool = False,
        project: str = "",
        data_set: str = "",
        product: str = "",
        use: str = "",
        not_for: str = "",
    ) -> None:
        if isinstance(source, PrivacyLedger) and ledger is None:
            ledger = source
        claim = _claim_of(source)
        given = (project, data_set, product, use, not_for)
        declared = dict(zip(DECLARED, given, strict=True))
        wrong = [name for name, text in declared.items() if not isinstance(text, str)]
        if wrong:
            raise ValueError(f"{wrong[0]} must be a text, got {declared[wrong[0]]!r}.")
        for value, name, kind in (
            (ledger, "ledger", PrivacyLedger),
            (policy, "policy", Policy),
            (cost, "cost", CostModel),
            (attack_audit, "attack_audit", ClaimAudit),
        ):
            if value is not None and not isinstance(value, kind):
                raise ValueError(
                    f"{name} must be None or a {kind.__name__}, got {value!r}."
                )
        check_flag(audit_is_public, "audit_is_public")
        if hasattr(source, "certificate_") and not product:
            declared["product"] = type(source).__name__
        now = datetime.datetime.now(datetime.UTC)
        document: dict[str, Any] = {
            **SCHEMA,
            "created": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "versions": {
                "skparisk": __version__,
                "python": platform.python_version(),
                **{name: version(name) for name in _PACKAGES},
            },
            "declared": declared,
            "files": [
                {"name": printable(Path(file).name), "sha256": sha256_of(file)}
                for file in files
            ],
            "certificate": claim.to_dict(curve=True),
            "ledger": None if ledger is None else ledger._as_dict(),
            "noise": noise_of(source, claim),
            "cost": None if cost is None else cost_of(cost, claim),
            "scores": [_score(*each) for each in (scores or {}).items()],
            "attack_audit": _audit(attack_audit, claim, audit_is_public),
            "checks": None,
            "decision": dict.fromkeys(_DECISION, ""),
        }
        self.document, self.certificate = document, claim
        if policy is not None:
            document["checks"] = [dict(vars(each)) for each in self.check(policy)]
        document["id"] = _id_of(document)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], /) -> Self:
        """Return the report of a document, such as one that was saved as JSON.

        Raises
        ------
        ValueError
            If the document does not follow the schema, its id is not its hash, or its
            certificate contradicts itself.
        """
        for error in _errors(document, json_schema(), "the report"):
            raise ValueError(f"this is not a report of skparisk: {error}.")
        if _id_of(document) != document["id"]:
            raise ValueError(
                f"the report has the id {document['id']!r}, which is not that of what "
                "it says: it was edited since it was written."
            )
        report = cls.__new__(cls)
        report.document = copy.deepcopy(dict(document))
        report.certificate = FiledCertificate.from_dict(document["certificate"])
        return report

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the report that was saved as JSON; ValueError as of `from_dict`."""
        return cls.from_dict(json.loads(Path(path).read_text("utf-8")))

    def check(self, policy: Policy) -> tuple[Check, ...]:
        """Check the claim, its private scores and its attack audit against a policy."""
        attacked, scores = self.document["attack_audit"], self.document["scores"]
        verdict = None if attacked is None else attacked["verdict"]
        private = [one["certificate"] for one in scores]
        claims = [
            FiledCertificate.from_dict(each) for each in private if each is not None
        ]
        return policy.check(self.certificate, *claims, attack_verdict=verdict)

    @property
    def id(self) -> str:
        """SHA-256 of all that it says, but for the decision."""
        return str(self.document["id"])

    @property
    def title(self) -> str:
        """A heading, with the project if there is one."""
        declared = self.document["declared"]
        about = declared["project"] or declared["product"]
        return f"Privacy report: {about}" if about else "Privacy report"

    @property
    def verdict(self) -> str:
        """Whether the guarantee stands, in a few words."""
        if self.certificate.private:
            return "The guarantee stands as it is written below."
        if self.certificate.void:
            return "NOT private: there is no guarantee."
        if self.certificate.leaks:
            return "NOT private as a whole: something was released without noise."
        return "The guarantee does NOT stand: it may not be about these people."

    def to_json(self) -> str:
        """Return it as strict JSON."""
        return json.dumps(self.document, indent=1, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """Return it as a page that needs no other file, no script and no network."""
        alarm = not self.certificate.private
        return as_page(self.title, self.verdict, self._sections, alarm)

    def to_markdown(self) -> str:
        """Return it as Markdown with a head of YAML, as model cards have."""
        claim = self.document["certificate"]
        names = ("epsilon", "delta", "risk", "relation", "private")
        head = {
            "title": printable(self.title),
            "library_name": "skparisk",
            **{name: self.document[name] for name in (*SCHEMA, "id", "created")},
            **{name: claim[name] for name in names},
            "files": self.document["files"],
        }
        return as_markdown(self.title, self.verdict, self._sections, head)

    def to_acro(self) -> str:
        """Return it as a file ``results.json`` of ACRO, for output checkers.

        With one output of the type "custom". Its status is "fail" where the guarantee
        does not stand as written or a rule of the policy is broken, else "review".
        """
        document, claim = self.document, self.certificate
        checks = document["checks"] or []
        # It is never "pass": whoever wrote the report chose the policy.
        broken = not claim.private or not all(check["passed"] for check in checks)
        status = "fail" if broken else "review"
        names = ("passed", "found", "required")
        outcome = {
            name: {check["rule"]: check[name] for check in checks} for name in names
        }
        files = document["files"]
        record = {
            "uid": "output_0",
            "status": status,
            "type": "custom",
            "properties": {
                "method": "skparisk",
                **{name: document["certificate"][name] for name in _NUMBERS},
                "private": claim.private,
                "report": document["id"],
                "sha256": {file["name"]: file["sha256"] for file in files},
            },
            "files": [{"name": file["name"], "sdc": {}} for file in files],
            "outcome": outcome if checks else {},
            "command": printable(document["declared"]["product"]) or "skparisk",
            "summary": f"{status}; {claim.guarantee}",
            "timestamp": document["created"],
            "comments": [*claim.caveats, *_on_trust(claim)],
            "exception": "",
            "fair": {},
        }
        tool = {
            "@type": "SoftwareApplication",
            "name": "skparisk",
            "version": document["versions"]["skparisk"],
        }
        results = {"output_0": record}
        whole = {"version": _ACRO_VERSION, "tool": tool, "results": results}
        return json.dumps(whole, indent=4, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file that ends in .html, .json, .md or .acro.json."""
        Path(path).write_bytes(self._content(path))

    def _content(self, path: str | os.PathLike[str]) -> bytes:
        """Return what is written to a file of that name."""
        writers = {
            ".acro.json": self.to_acro,
            ".html": self.to_html,
            ".json": self.to_json,
            ".md": self.to_markdown,
        }
        for ending, write in writers.items():
            if Path(path).name.endswith(ending):
                return write().encode("utf-8")
        raise ValueError(f"path must end in {', '.join(writers)}, got '{path}'.")

    @cached_property
    def _sections(self) -> tuple[Any, ...]:
        return sections_of(self.document, self.certificate)

    def __str__(self) -> str:
        return self.to_markdown()

    def __repr__(self) -> str:
        return f"Report({self.title!r}, id={self.id[:12]!r})"


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _claim_of(source: Any) -> Claim:
    """Return what was released guarantees."""
    if isinstance(source, FiledCertificate):
        return source
    if isinstance(source, PrivacyLedger):
        return source.spent
    found = getattr(source, "certificate_", source)
    if not hasattr(found, "as_certificate"):
        raise ValueError(
            "source must be a fitted estimator, a Certificate, a mechanism or a "
            f"PrivacyLedger, got {type(source).__name__}: fit it first."
        )
    return as_certificate(found)


def _score(name: str, score: Any) -> dict[str, Any]:
    claim = score.certificate if isinstance(score, PrivateScore) else None
    return {
        "name": str(name),
        "value": str(score),
        "private": claim is not None and claim.private,
        "certificate": None if claim is None else claim.to_dict(),
    }


def _audit(audit: Any, claim: Claim, public: bool) -> dict[str, Any] | None:
    """Return what an audit says, if there is one, which must be of such a claim."""
    if audit is None:
        return None
    names = ("epsilon", "delta", "relation")
    audited, own = ([getattr(one, n) for n in names] for one in (audit.claim, claim))
    if audited != own:
        raise ValueError(
            f"attack_audit must be of the claim of source, with {', '.join(names)} = "
            f"{own}, got one of {audited}."
        )
    meaning = [printable(text) for text in audit.to_dict()["meaning"]]
    return {"verdict": audit.verdict, "meaning": meaning, "public": bool(public)}


def _id_of(document: Mapping[str, Any]) -> str:
    """Return the hash of what was said when it was written."""
    said = {name: document[name] for name in document if name not in ("id", "decision")}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
