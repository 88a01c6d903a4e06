"""The report of a certificate or a ledger, and the file that it is kept in.

Nearly half of it is docstrings: what a report has, and who says it.
"""

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
from functools import cache, cached_property
from importlib.metadata import version
from importlib.resources import files
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np

from skparisk import _words as words
from skparisk._checks import check_flag
from skparisk._filed import FiledCertificate
from skparisk._text import printable, strict
from skparisk._version import __version__
from skparisk.audit import ClaimAudit
from skparisk.core.claim import Claim, as_certificate
from skparisk.core.laws import LAWS
from skparisk.core.noise import AdditiveNoise
from skparisk.core.rounding import add_up, ceil_text
from skparisk.cost import CostModel
from skparisk.ledger import PrivacyLedger
from skparisk.metrics import PrivateScore
from skparisk.report._policy import Check, Policy
from skparisk.report._sections import Section, sections_of

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


def check_document(document: Any) -> None:
    """Raise ValueError unless a document has the shape of a report."""
    for error in _errors(document, json_schema(), "the report"):
        raise ValueError(f"this is not a report of skparisk: {error}.")


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
        yield from _errors_of_object(value, schema, where)
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 2**62):
            yield f"{where} must have {schema['minItems']} entries, got {len(value)}"
        for place, item in enumerate(value):
            yield from _errors(item, schema["items"], f"{where}, entry {place}")
    elif type(value) in _TYPES["number"]:
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            yield f"{where} is out of range, got {value!r}"


def _errors_of_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], where: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    missing = [name for name in schema.get("required", ()) if name not in value]
    unknown = [name for name in value if name not in known] if others is False else []
    if missing or unknown:
        yield f"{where} lacks {missing}, and has the unknown {unknown}"
    for name, part in value.items():
        if name in known:
            yield from _errors(part, known[name], f"{where}, {name!r}")
        elif isinstance(others, dict):
            yield from _errors(part, others, f"{where}, {name!r}")


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
_TODO = "TODO"
_NUMBERS = ("epsilon", "delta", "risk", "failure_prob", "randomness", "relation")


def acro_record(document: Mapping[str, Any], claim: Claim) -> dict[str, Any]:
    """Return what ACRO keeps of a session with one output.

    It is never "pass": whoever wrote the report chose the policy.
    """
    checks = document["checks"] or []
    broken = not claim.private or not all(check["passed"] for check in checks)
    status = "fail" if broken else "review"
    names = ("passed", "found", "required")
    outcome = {name: {check["rule"]: check[name] for check in checks} for name in names}
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
    return {"version": _ACRO_VERSION, "tool": tool, "results": {"output_0": record}}


def registry_record(document: Mapping[str, Any], claim: Claim) -> str:
    """Return a draft for the registry, which has the scale of no noise in it.

    The registry is public, and a scale may come from private data.
    """
    if claim.void:
        raise ValueError(
            "there is no guarantee that could be registered, so leave out the .yaml. "
            f"{words.void_reasons(claim)[0]}"
        )
    declared = document["declared"]
    name = declared["project"] or declared["product"] or f"{_TODO} its name"
    curator = f"{_TODO} who publishes it"
    created = document["created"][:10]
    variant, parameters = _variant(claim)
    version = document["versions"]["skparisk"]
    noise = "" if claim.evidence is None else f", {claim.evidence.law} noise"
    unprotected = [*words.leaks(claim)]
    if claim.relation == "replace-one":
        unprotected.append("The number of records.")
    deployment = {
        "basic": {
            "name": name,
            "data_curators": [curator],
            "intended_use": declared["use"] or f"{_TODO} what it is for",
            "data_product_type": "Machine learning model",
            "data_product_region": f"{_TODO} which region the data describe",
            "description": declared["product"] or f"{_TODO} what is released",
            "publication_date": created,
        },
        "dp_variant": {
            "variant_name": variant,
            "data_domain": declared["data_set"] or f"{_TODO} what a record may be",
            "unprotected_quantities": _listed(unprotected),
        },
        "privacy_loss": {
            "privacy_unit": _unit(claim),
            "privacy_unit_details": words.NEIGHBORS.get(
                claim.relation or "", f"{_TODO} what neighboring databases are"
            ),
            "privacy_parameters": parameters,
            "privacy_parameters_details": _listed(_details(claim)),
        },
        "deployment_model": {
            "model_name": "Central",
            "release_type": "One release" if claim.n_releases == 1 else "Many releases",
        },
        "accounting": {"composition": words.METHODS[claim.method]},
        "implementation": {"mechanisms": f"skparisk {version}{noise}"},
        "administrative": {
            "notes": f"From the report {document['id']} of skparisk.",
            "registry_authors": [f"{_TODO} who fills this in"],
        },
    }
    # Its tools make the slug like this, and look for it in the first line, unquoted.
    parts = (printable(name), curator, created[:4])
    slug = "_".join(re.sub(r"\W+", "_", part.lower()) for part in parts)
    head = (
        f"url_slug: {slug.replace('_', '-')}",
        f"# A draft: fill in what says {_TODO}, and check the type and the date.",
        *_yaml({"status": "Draft", "tier": 2, "deployment": deployment}),
    )
    return "\n".join(head) + "\n"


def _variant(claim: Claim) -> tuple[str, dict[str, float]]:
    """Return the variant, and what a reader may take for its parameters.

    A risk over pairs is in no parameter: the variant is then one of its own.
    """
    sure = claim.randomness == "explicit" or not (claim.risk or claim.failure_prob)
    if sure and claim.private and not claim.protects_membership:
        delta = add_up([claim.delta, claim.risk, claim.failure_prob])
        if not delta:
            return "Pure DP", {"epsilon": claim.epsilon}
        return "Approximate DP", {"epsilon": claim.epsilon, "delta": delta}
    return "Custom", {
        "epsilon": claim.epsilon,
        **({"delta": claim.delta} if claim.delta else {}),
    }


def _details(claim: Claim) -> Iterator[str]:
    yield claim.guarantee
    if claim.risk or claim.failure_prob:
        over = dict(words.level_rows(claim))["risk is over"]
        yield f"The level fails with a risk of {ceil_text(claim.risk)}, over {over}."
    if claim.failure_prob:
        share = ceil_text(claim.failure_prob)
        yield f"The risk may be larger for a fraction {share} of the samples of pairs."
    yield from words.doubts(claim)
    yield from words.provisos(claim)
    yield from _on_trust(claim)


def _unit(claim: Claim) -> str:
    if claim.protects_membership:
        return "Membership of a record in a secret sample"
    if claim.group_size > 1:
        return f"Any {claim.group_size} records together"
    return "One record"


def _on_trust(claim: Claim) -> list[str]:
    return [f"Taken on trust: {text}." for text in claim.conditions]


def _listed(texts: Iterable[str]) -> str:
    """Return a list of Markdown, of lines that hold one text each."""
    return "\n".join(f"- {printable(text)}" for text in texts)


def _yaml(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield lines of YAML, which both of its versions read alike; nothing is empty."""
    inner = f"{indent}  "
    for name, part in value.items():
        start = f"{indent}{name}:"
        if isinstance(part, Mapping):
            yield start
            yield from _yaml(part, inner)
        elif isinstance(part, list):
            yield start
            yield from (f"{inner}- {_quoted(text)}" for text in part)
        elif isinstance(part, float):
            # Without a point, as in 1e-06, it is a text.
            text = repr(part)
            yield f"{start} {text if '.' in text else text.replace('e', '.0e')}"
        elif isinstance(part, int):
            yield f"{start} {part}"
        elif part.startswith("- "):
            yield f"{start} |"
            yield from (f"{inner}{line}" for line in part.splitlines())
        elif part:
            yield f"{start} {_quoted(part)}"


def _quoted(text: str) -> str:
    """Return a text in double quotes, as JSON and YAML both have them."""
    return json.dumps(printable(text), ensure_ascii=False)


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
        By name. What is no :class:`~skparisk.metrics.PrivateScore` is marked as "inside
        the environment only"; what is one counts in the limits of the policy, beside
        the claim: also if `source` is a ledger that holds it, on the safe side.

    cost : CostModel, default=None
        What privacy levels cost, such as a :class:`~skparisk.cost.CompensationModel`;
        its numbers are declared, and taken over.

    attack_audit : ClaimAudit, default=None
        What attacks on such releases found, by :func:`~skparisk.audit_claim`: of the
        same level, delta and relation. Marked as "inside the environment only".

    audit_is_public : bool, default=False
        Whether the records of that audit were public or simulated, so that it may be
        shown.

    project, data_set, product, use, not_for : str, default=""
        What is declared, and taken over as it is.

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
    Its `id` is the SHA-256 of all that it says but for the decision, which is left
    blank: an edited report has another one. That is no signature: file the id, or the
    report, where it cannot be exchanged.

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
        """Return the report that a document is of.

        Parameters
        ----------
        document : mapping
            What was saved as JSON.

        Raises
        ------
        ValueError
            If it is no report of this schema, its id is not that of what it says, or
            its certificate contradicts itself.
        """
        check_document(document)
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
        """Return the report that was saved as JSON.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        ValueError
            As of `from_dict`, or if it is no JSON.
        """
        return cls.from_dict(json.loads(Path(path).read_text("utf-8")))

    def check(self, policy: Policy) -> tuple[Check, ...]:
        """Return what each rule of a policy says of the claim, and what is beside it.

        That is its private scores, and the audit that attacked such releases.

        Parameters
        ----------
        policy : Policy
        """
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
        """Return it as the record that ACRO keeps for output checkers.

        Returns
        -------
        text : str
            What a file ``results.json`` of ACRO holds, with one output of the type
            "custom". Its status is "fail" where there is no guarantee as it is written
            or a rule of the policy is broken, else "review", and never "pass".
        """
        record = acro_record(self.document, self.certificate)
        return json.dumps(record, indent=4, allow_nan=False) + "\n"

    def to_registry(self) -> str:
        """Return it as a draft for the Differential Privacy Deployments Registry.

        Returns
        -------
        text : str
            YAML of the schema of that registry. Who publishes and what region it is
            about, and what was not declared, is marked with TODO. With a risk over
            pairs the variant is "Custom", and the risk in the details of the
            parameters. Scores, scales of noise and the ledger are not in it.

        Raises
        ------
        ValueError
            If there is no guarantee.
        """
        return registry_record(self.document, self.certificate)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it, as the ending of the file says.

        Parameters
        ----------
        path : str or path-like
            Ends in .html, .json, .md, .acro.json or .yaml, as `to_registry`.

        Raises
        ------
        ValueError
            If it ends in anything else, or as of `to_registry`.
        """
        Path(path).write_bytes(self._content(path))

    def _content(self, path: str | os.PathLike[str]) -> bytes:
        """Return what is written to a file of that name."""
        writers = {
            ".acro.json": self.to_acro,
            ".html": self.to_html,
            ".json": self.to_json,
            ".md": self.to_markdown,
            ".yaml": self.to_registry,
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
