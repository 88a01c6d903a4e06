"""Reports of certificates and ledgers, their files, and policies of institutions."""

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
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import numpy as np

from skparisk import _words as words
from skparisk._checks import check_flag
from skparisk._filed import FiledCertificate
from skparisk._text import printable
from skparisk._version import __version__
from skparisk.core.checks import IncompatibleError, check_number, check_relation
from skparisk.core.claim import Assumption, Claim, Unit, as_certificate
from skparisk.core.compose import Totals
from skparisk.core.noise import AdditiveNoise
from skparisk.core.rounding import add_up, ceil_text
from skparisk.ledger import PrivacyLedger
from skparisk.metrics import PrivateScore
from skparisk.report._files import write_new


@dataclass(frozen=True)
class Check:
    """The result of one rule of a policy.

    Parameters
    ----------
    rule : str
        Name of the rule.

    passed : bool
        Whether it is kept.

    found, required : str
        In words.
    """

    rule: str
    passed: bool
    found: str
    required: str

    def __str__(self) -> str:
        word = "pass" if self.passed else "FAIL"
        return f"{word}  {self.rule}: {self.found} (required: {self.required})"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Limits that a certificate must keep; None and False are no rules.

    One more rule always applies: the guarantee must stand as written.

    Parameters
    ----------
    epsilon : float, default=None
        Largest privacy level, in (0, inf). Unitless.

    delta, gamma : float, default=None
        Largest delta, and largest risk with the probability that the certificate fails,
        in [0, 1].

    relation : {"replace-one", "add-remove"}, default=None
        Required neighboring databases.

    reference_audited : bool, default=False
        Require an audit that supports the risk, where pairs were sampled.

    public_reference : bool, default=False
        Require pairs of a public reference, by the word of the caller, or none.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skparisk.core import as_certificate
    >>> from skparisk.report import Policy
    >>> for check in Policy(epsilon=1.0, gamma=0.05).check(as_certificate(2.0)):
    ...     print(check)
    pass  guarantee: it stands (required: it stands as it is written)
    FAIL  epsilon: 2 (required: at most 1)
    pass  gamma: 0 (required: at most 0.05)
    """

    epsilon: float | None = None
    delta: float | None = None
    gamma: float | None = None
    relation: str | None = None
    reference_audited: bool = False
    public_reference: bool = False

    def __post_init__(self) -> None:
        # None may be infinite, as that would be no rule.
        limits = {"epsilon": "(0, inf)", "delta": "[0, 1]", "gamma": "[0, 1]"}
        for name, allowed in limits.items():
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, allowed)
        if self.relation is not None:
            check_relation(self.relation)
        for name in ("reference_audited", "public_reference"):
            check_flag(getattr(self, name), name)

    @classmethod
    def from_toml(cls, path: Any) -> Self:
        """Return the policy in a TOML file, with the parameters as keys.

        Raises
        ------
        ValueError
            If a key is unknown, a value is out of range, or there is no rule.
        """
        rules = tomllib.loads(Path(path).read_text("utf-8"))
        known = [field.name for field in fields(cls)]
        unknown = [name for name in rules if name not in known]
        if unknown or not rules:
            raise ValueError(
                f"a policy must have one of the keys {known}, and no others; got "
                f"{unknown or 'none'}."
            )
        return cls(**rules)

    def check(self, certificate: Claim, *others: Claim) -> tuple[Check, ...]:
        """Return the result of each rule.

        Parameters
        ----------
        certificate : Certificate
            The certificate to check.

        *others : Certificate
            Of other releases of the same records, such as private scores. All
            guarantees must stand, and the limits are for sums, as of
            :func:`~skparisk.core.compose_basic`: over different relations or units
            there are none, and no limit is kept.

        Returns
        -------
        checks : tuple of Check
            For the guarantee, and for each rule in use, in the order of the parameters.
            Without a guarantee no limit is kept.
        """
        claim, claims = certificate, [certificate, *others]
        wrong = next((each for each in claims if not each.private), claim)
        found = " ".join(words.reasons_against(wrong)) or "it stands"
        checks = [
            Check("guarantee", wrong.private, found, "it stands as it is written")
        ]
        none = "none is guaranteed"
        try:
            total = Totals.of(claims).basic()
        except IncompatibleError as error:
            total, none = as_certificate(math.inf), f"{none}: {error}"
        numbers = {
            "epsilon": total.epsilon,
            "delta": total.delta,
            "gamma": add_up([total.risk, total.failure_prob]),
        }
        for name, number in numbers.items():
            limit = getattr(self, name)
            if limit is not None:
                kept = not total.void and number <= limit
                found = none if total.void else ceil_text(number)
                checks.append(Check(name, kept, found, f"at most {limit:g}"))
        if self.relation is not None:
            same = claim.relation == self.relation
            found = claim.relation or "none"
            checks.append(Check("relation", same, found, self.relation))
        if self.reference_audited:
            audited = "reference_audited", *_audited(claim)
            checks.append(Check(*audited, "an audit supports the risk"))
        if self.public_reference:
            public = "public_reference", *_public(claim)
            checks.append(Check(*public, "a public one, or none"))
        return tuple(checks)


def _samples(claim: Claim) -> bool:
    """Tell if a claim may rest on sampled pairs; of several releases, by the risk."""
    if claim.evidence is not None:
        return claim.evidence.n_pairs is not None
    return claim.randomness != "explicit" and bool(claim.risk or claim.failure_prob)


def _audited(claim: Claim) -> tuple[bool, str]:
    if not _samples(claim):
        return not claim.void, "nothing was sampled"
    audit = None if claim.evidence is None else claim.evidence.audit
    if audit is None:
        return False, "not audited"
    return audit.verdict == "supported" and not audit.seeded, words.audit_summary(audit)


def _public(claim: Claim) -> tuple[bool, str]:
    if claim.reference_is_private:
        return False, "the private data themselves"
    if claim.protects_membership:
        return False, "a sample of the records themselves"
    if not _samples(claim):
        return not claim.void, "nothing was sampled"
    return True, "public, by the word of the caller"


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
def _read(name: str) -> str:
    """Return what a file of the package holds: the JSON Schema, or the style."""
    return files("skparisk.report").joinpath(name).read_text("utf-8")


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


Rows = tuple[tuple[str, str], ...]

INSIDE = "inside the environment only: it was computed from private data without noise"
_BLANK = "................................"
# What no guarantee of this kind is about.
_NEVER = (
    "Facts about the whole population. They can be learned without any one person's "
    "record."
)
_SEVERAL = (
    "A person with several records, or people who are known to belong together, to the "
    "same degree: the claim is about one record, unless it says otherwise."
)
_TOGETHER = (
    "People who are known to belong together, such as a family, to the same degree; "
    "nor somebody with more rows than anyone in the reference."
)
_UNLIKE = "People unlike those in the reference. The promise may fail for them."
_BEYOND_RISK = (
    "People whose pairs belong to the share (the risk) that the guarantee leaves out. "
    "They tend to have the most unusual records."
)


@dataclass(frozen=True)
class Section:
    """A heading, and what is under it."""

    title: str
    texts: tuple[str, ...] = ()
    rows: Rows = ()
    items: tuple[str, ...] = ()
    # Whether the texts are a warning.
    alarm: bool = False
    # HTML that is shown as it is, of this file alone.
    picture: str = ""


def sections_of(document: Mapping[str, Any], claim: Claim) -> tuple[Section, ...]:
    """Return the sections of the document of a report, in the order of a decision."""
    details, noise = document["details"], document["noise"]
    private = claim.reference_is_private
    inside = (("sensitivity and noise scale", INSIDE),) if private else ()
    reference = [("drawn", claim.evidence.reference)] if claim.evidence else []
    return (
        _decision(document, claim),
        Section(
            "What is released",
            rows=(
                *details["released"].items(),
                *_declared(document, "product", "use", "not_for"),
                *((f"SHA-256 of {x['name']}", x["sha256"]) for x in document["files"]),
            ),
        ),
        Section(
            "Whom it protects, and whom not",
            rows=(
                ("protected", words.protected(claim)),
                ("neighboring databases", words.neighbors_of(claim)),
                ("not protected", "see the list below"),
            ),
            items=_not_protected(claim),
        ),
        Section(
            "How sure that is",
            words.reasons_against(claim),
            tuple(words.audit_rows(claim)),
            words.rests_on(claim) or ("It rests on nothing but the software itself.",),
            alarm=not claim.private,
        ),
        _checks(document),
        Section(
            "What an attacker gains",
            (f"{words.gain(claim).capitalize()}.",),
            tuple(words.membership_rows(claim)),
            picture=_picture(claim),
        ),
        Section(
            "How good it is",
            rows=(
                *details["quality"].items(),
                *_scores(document),
                *_error(noise, claim),
            ),
        ),
        Section(
            "The reference",
            rows=(
                *details["reference"].items(),
                *((name, text) for name, text in reference if text),
                *_declared(document, "reference_source"),
            ),
        ),
        _budget(document["ledger"]),
        Section(
            "The certificate",
            (claim.guarantee,),
            (*words.level_rows(claim), *words.how_rows(claim), *inside),
        ),
        _about(document),
        Section("Glossary", rows=_GLOSSARY),
    )


_GLOSSARY = (
    ("privacy level epsilon", "how much likelier any output may become by one person"),
    ("risk gamma", "share of pairs of databases for which more than that may happen"),
    ("neighboring databases", "two that differ in what is protected, and nothing else"),
    ("reference", "public records, which pairs of such databases are drawn from"),
    ("noise", "random numbers that hide how a single person moves what is released"),
    ("audit", "a measurement with real records of whether the risk is that small"),
    ("ledger", "a file with the budget of all releases about the same people"),
)


def _decision(document: Mapping[str, Any], claim: Claim) -> Section:
    outside = min(1.0, add_up([claim.risk, claim.failure_prob]))
    ledger, checks = document["ledger"], document["checks"]
    kept = "none was given"
    if checks is not None:
        kept = "kept" if all(check["passed"] for check in checks) else "NOT kept"
    rows = [
        ("privacy level epsilon", ceil_text(claim.epsilon, 2)),
        ("risk gamma", "none holds" if claim.void else ceil_text(outside, 2)),
        *([("delta", ceil_text(claim.delta, 2))] if claim.delta else []),
        ("unit of protection", words.protected(claim)),
        ("budget left", ledger["rows"]["left"] if ledger else "no ledger was given"),
        ("policy", kept),
        *((name, text or _BLANK) for name, text in document["decision"].items()),
    ]
    if document["decides"] is not None:
        rows.append(("decided on the report with the id", document["decides"]))
    return Section("Decision", rows=tuple(rows))


def _about(document: Mapping[str, Any]) -> Section:
    versions = (f"{name} {number}" for name, number in document["versions"].items())
    return Section(
        "This document",
        rows=(
            *_declared(document, *_FORM),
            ("report", f"{document['schema']}, version {document['schema_version']}"),
            ("id", document["id"]),
            ("time (UTC)", document["created"]),
            ("versions", ", ".join(versions)),
        ),
    )


def _declared(document: Mapping[str, Any], *names: str) -> Rows:
    declared = document["declared"]
    return tuple(
        (f"{name.replace('_', ' ')} (declared)", declared[name] or _BLANK)
        for name in names
    )


def _picture(claim: Claim) -> str:
    """Return a bar of right guesses in 100, of which 50 are luck."""
    if claim.void:
        return ""
    gain = 100 * claim.advantage.mean
    return (
        "<svg viewBox='0 0 200 22' role='img' aria-label='Right guesses in 100'>"
        "<rect class='luck' x='0' y='2' width='100' height='8'/>"
        f"<rect class='gain' x='100' y='2' width='{gain:.1f}' height='8'/>"
        "<rect class='all' x='0' y='2' width='200' height='8'/>"
        "<text x='0' y='19'>0</text><text x='100' y='19'>50: luck</text>"
        "<text x='200' y='19' text-anchor='end'>100 right</text></svg>"
    )


def _scores(document: Mapping[str, Any]) -> Rows:
    inside = f" ({INSIDE})"
    return tuple(
        (one["name"], one["value"] if one["private"] else one["value"] + inside)
        for one in document["scores"]
    )


def _not_protected(claim: Claim) -> tuple[str, ...]:
    risky = claim.risk and claim.randomness != "explicit" and not claim.void
    unlike = Assumption.PUBLIC_REFERENCE in claim.assumptions and not claim.void
    return (
        *words.void_reasons(claim),
        *words.leaks(claim),
        *[_BEYOND_RISK] * bool(risky),
        *[_UNLIKE] * unlike,
        _NEVER,
        _TOGETHER if claim.unit == Unit.PERSON else _SEVERAL,
    )


def _budget(ledger: Mapping[str, Any] | None) -> Section:
    title = "The budget"
    if ledger is None:
        text = "No ledger was given: what else was released of these people is unknown."
        return Section(title, (text,))
    releases = ((f"release {row[0]}", ", ".join(row[1:])) for row in ledger["releases"])
    return Section(title, rows=(*ledger["rows"].items(), *releases))


def _error(noise: Mapping[str, Any] | None, claim: Claim) -> Rows:
    """Return how large the noise is."""
    name = "error by the noise"
    if claim.reference_is_private:
        return ((name, INSIDE),)
    if noise is None:
        return ()
    text = f"{noise['typical']:.2g} for each number"
    if noise["least"] < noise["most"]:
        text = (
            f"{noise['typical']:.2g} for a typical number, from {noise['least']:.2g} "
            f"to {noise['most']:.2g}"
        )
    return ((name, f"{text} (standard deviation, in the unit of that number)"),)


def _checks(document: Mapping[str, Any]) -> Section:
    title, checks = "Checks against a policy", document["checks"]
    if checks is None:
        return Section(title, ("No policy was given.",))
    kept = all(check["passed"] for check in checks)
    said = "Every rule is kept." if kept else "It does not keep the policy."
    told = tuple(str(Check(**check)) for check in checks)
    return Section(title, (said,), items=told, alarm=not kept)


# The document that a page is made of, in the page.
_DOCUMENT = re.compile("<template id='document'>(.*)</template>", re.DOTALL)
# No script, no network: the page says so itself.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def _text(text: str) -> str:
    return html.escape(printable(text))


def _section_in_html(section: Section) -> str:
    mark = " class='alarm'" if section.alarm else ""
    parts = [f"<h2>{_text(section.title)}</h2>"]
    parts += [f"<p{mark}>{_text(text)}</p>" for text in section.texts]
    parts.append(section.picture)
    caption = f"<caption>{_text(section.title)}</caption>"
    if section.rows:
        rows = "".join(
            f"<tr><th scope='row'>{_text(name)}</th><td>{_text(value)}</td></tr>"
            for name, value in section.rows
        )
        parts.append(f"<table class='pairs'>{caption}<tbody>{rows}</tbody></table>")
    if section.items:
        listed = "".join(f"<li>{_text(item)}</li>" for item in section.items)
        parts.append(f"<ul>{listed}</ul>")
    return f"<section>{''.join(parts)}</section>\n"


def _plain(text: str) -> str:
    """Return a text that Markdown, and HTML in it, show as it is."""
    escaped = re.sub(r"([\\`*_\[\]#|~$!])", r"\\\1", printable(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def noise_of(source: Any) -> dict[str, float] | None:
    """Return standard deviations of the noise of outputs; None if they are not known.

    A certificate alone does not know them.
    """
    sampler = getattr(source, "sampler_", source)
    noise = getattr(sampler, "mechanism_", getattr(source, "noise", None))
    if not isinstance(noise, AdditiveNoise):
        return None
    deviations = noise.deviations()
    # Of what is released: constants have none.
    deviations = deviations[deviations > 0] if noise.steps else deviations
    most = float(deviations.max())
    if not math.isfinite(most):
        return None
    # Of the largest, so that no square overflows.
    typical = most and most * float(np.sqrt(np.mean((deviations / most) ** 2)))
    least = float(deviations.min())
    return {"typical": typical, "least": least, "most": most}


SCHEMA = {"schema": "skparisk.report", "schema_version": 2}
# What forms ask for besides.
_FORM = (
    *("controller", "purpose", "legal_basis", "project", "data_set", "requester"),
    *("contact", "reviewer", "review_date"),
)
DECLARED = (*_FORM, "product", "use", "not_for", "reference_source")
_DETAILS = ("released", "reference", "quality")
_DECISION = ("checker", "date", "decision", "reason")
_PACKAGES = ("numpy", "scipy", "scikit-learn")


class Report:
    """Document of a release: its claim, assumptions and consequences.

    Parameters
    ----------
    source : fitted estimator, Certificate, FiledCertificate, mechanism or PrivacyLedger
        The release. Of a ledger, all its releases together.

    ledger : PrivacyLedger, default=None
        Ledger that the release was charged to. None: `source`, if it is one.

    policy : Policy, default=None
        Limits to check it against.

    files : list of path-like, default=()
        Released files; the report has their SHA-256.

    scores : mapping of str to PrivateScore, number or text, default=None
        By name. A :class:`~skparisk.metrics.PrivateScore` adds to the claim in the
        limits of the policy, also if `source` is a ledger that holds it. Any other is
        marked as "inside the environment only".

    about : mapping of str to str, default=None
        Declarations, taken over as they are: project, data_set, product, use, not_for,
        controller, purpose, legal_basis, requester, contact, reviewer, review_date,
        reference_source. Missing entries become empty lines.

    details : mapping of str to mapping of str to str, default=None
        Rows to add to the sections "released", "reference" and "quality": about public
        things and the release alone.

    Attributes
    ----------
    document : dict
        Contents, as plain numbers, strings and lists.

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
    `id` is the SHA-256 of the document: an edited report has another one. An id is no
    signature: file it, or the report, where nobody can replace it. The decision is left
    blank, and :meth:`decide` makes a new document of it. A page has its document in it,
    and its id on each sheet of paper.

    Examples
    --------
    >>> from skparisk.core import as_certificate
    >>> from skparisk.report import Report
    >>> report = Report(as_certificate(0.5), about={"project": "wages"})
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
        about: Mapping[str, str] | None = None,
        details: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        if isinstance(source, PrivacyLedger) and ledger is None:
            ledger = source
        claim = _claim_of(source)
        declared = dict.fromkeys(DECLARED, "") | dict(about or {})
        unknown = [name for name in declared if name not in DECLARED]
        if unknown:
            raise ValueError(
                f"about must have keys among {DECLARED}, got {unknown[0]!r}."
            )
        wrong = [name for name, text in declared.items() if not isinstance(text, str)]
        if wrong:
            raise ValueError(f"{wrong[0]} must be a text, got {declared[wrong[0]]!r}.")
        for value, name, kind in (
            (ledger, "ledger", PrivacyLedger),
            (policy, "policy", Policy),
        ):
            if value is not None and not isinstance(value, kind):
                raise ValueError(
                    f"{name} must be None or a {kind.__name__}, got {value!r}."
                )
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
            "details": _details(source, details or {}),
            "certificate": claim.to_dict(curve=True),
            "ledger": None if ledger is None else ledger._as_dict(),
            "noise": noise_of(source),
            "scores": [_score(*each) for each in (scores or {}).items()],
            "checks": None,
            "decision": dict.fromkeys(_DECISION, ""),
            "decides": None,
        }
        self.document, self.certificate = document, claim
        if policy is not None:
            document["checks"] = [dict(vars(each)) for each in self.check(policy)]
        document["id"] = _id_of(document)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], /) -> Self:
        """Return the report in a document, such as a saved JSON file.

        Raises
        ------
        ValueError
            If the document does not follow the schema, its id is not its hash, or its
            certificate contradicts itself.
        """
        schema = json.loads(_read("report.schema.json"))
        for error in _errors(document, schema, "the report"):
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
        """Return a report saved as JSON or HTML.

        Raises
        ------
        ValueError
            As for `from_dict`; or if a page differs from its document.
        """
        text = Path(path).read_text("utf-8", errors="replace")
        kept = _DOCUMENT.search(text)
        try:
            said = html.unescape(kept[1]) if kept else text
            document = json.loads(said, object_pairs_hook=_each_once)
        except ValueError:
            raise ValueError(
                f"'{path}' must be a report, as .json or .html, and holds neither."
            ) from None
        report = cls.from_dict(document)
        if kept and report.to_html() != text:
            raise ValueError(
                f"'{path}' is not the page that the document in it gives: it was "
                "edited since it was written, or this is another version than "
                f"skparisk {document['versions']['skparisk']}."
            )
        return report

    def check(self, policy: Policy) -> tuple[Check, ...]:
        """Check the claim and its private scores against a policy."""
        return policy.check(*self.claims)

    @property
    def claims(self) -> list[Claim]:
        """The claims of the release and of its private scores."""
        private = [one["certificate"] for one in self.document["scores"]]
        scores = [FiledCertificate.from_dict(each) for each in private if each]
        return [self.certificate, *scores]

    def decide(
        self, *, checker: str, decision: str, date: str = "", reason: str = ""
    ) -> Self:
        """Return a new report with a decision, which names the id of this one.

        Parameters
        ----------
        checker, decision : str
            Person who decides, and the decision.

        date, reason : str, default=""
            Day and grounds. An empty date is today.
        """
        if not (checker and decision):
            raise ValueError("checker and decision must be given, got an empty one.")
        date = date or datetime.date.today().isoformat()
        given = (checker, date, decision, reason)
        document = copy.deepcopy(self.document) | {
            "decision": dict(zip(_DECISION, given, strict=True)),
            "decides": self.id,
        }
        return self.from_dict(document | {"id": _id_of(document)})

    @property
    def id(self) -> str:
        """SHA-256 of the contents."""
        return str(self.document["id"])

    @property
    def title(self) -> str:
        """A heading, with the project if there is one."""
        declared, details = self.document["declared"], self.document["details"]
        about = declared["project"] or declared["product"]
        about = about or details["released"].get("model", "")
        return f"Privacy report: {about}" if about else "Privacy report"

    @property
    def verdict(self) -> str:
        """Verdict: the guarantee stands, and for whom, or why it does not."""
        return words.verdict(self.certificate)

    def to_json(self) -> str:
        """Return strict JSON."""
        return json.dumps(self.document, indent=1, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """Return an HTML page that needs no other file, no script and no network.

        On paper each page has the id and its number. The document is in it.
        """
        mark = "" if self.certificate.private else " alarm"
        title, verdict = _text(self.title), _text(self.verdict)
        foot = f"@page {{ @bottom-left {{ content: 'id {self.id}'; }} }}\n"
        # All that is in it is escaped, but for the pictures of this file.
        body = "".join(map(_section_in_html, self._sections))
        return (
            "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
            f"<title>{title}</title>\n<style>\n{_read('report.css')}{foot}</style>\n"
            f"</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
            f"<p class='verdict{mark}'>{verdict}</p>\n"
            f"<div class='sections'>\n{body}</div>\n</main>\n"
            f"<footer>id {self.id}</footer>\n"
            f"<template id='document'>{html.escape(self.to_json())}</template>\n"
            "</body>\n</html>\n"
        )

    def to_markdown(self) -> str:
        """Return Markdown with a YAML head, as in model cards."""
        claim = self.document["certificate"]
        names = ("epsilon", "delta", "risk", "relation", "private")
        head = {
            "title": printable(self.title),
            "library_name": "skparisk",
            **{name: self.document[name] for name in (*SCHEMA, "id", "created")},
            **{name: claim[name] for name in names},
            "files": self.document["files"],
        }
        # What JSON writes on one line is YAML as well.
        given = {name: json.dumps(head[name], ensure_ascii=False) for name in head}
        lines = ["---", *(f"{name}: {given[name]}" for name in given), "---", ""]
        lines += [f"# {_plain(self.title)}", "", f"**{_plain(self.verdict)}**"]
        for section in self._sections:
            lines += ["", f"## {_plain(section.title)}"]
            for text in section.texts:
                lines += ["", _plain(text)]
            if section.rows:
                rows = [tuple(map(_plain, row)) for row in section.rows]
                lines += ["", "| field | value |", "| --- | --- |"]
                lines += [f"| {name} | {value} |" for name, value in rows]
            lines += ["", *(f"- {_plain(item)}" for item in section.items)]
        return re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write or replace a file with the ending .html, .json or .md."""
        write_new(Path(path), self._content(path), force=True)

    def _content(self, path: str | os.PathLike[str]) -> bytes:
        """Return what is written to a file of that name."""
        writers = {
            ".html": self.to_html,
            ".json": self.to_json,
            ".md": self.to_markdown,
        }
        for ending, write in writers.items():
            if Path(path).suffix == ending:
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


def _details(
    source: Any, given: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Return what a fitted estimator tells of itself, and what was given."""
    if unknown := [name for name in given if name not in _DETAILS]:
        raise ValueError(
            f"details must have keys among {_DETAILS}, got {unknown[0]!r}."
        )
    found: dict[str, dict[str, Any]] = {name: {} for name in _DETAILS}
    if hasattr(source, "certificate_"):
        inside = getattr(source, "estimator", source)
        steps = getattr(inside, "steps", [("", inside)])
        found["released"]["model"] = type(steps[-1][1]).__name__
        names = getattr(source, "feature_names_in_", ())
        if len(names):
            found["released"]["columns"] = ", ".join(map(str, names))
        evidence = source.certificate_.evidence
        if evidence is not None:
            found["released"]["numbers with noise"] = evidence.n_outputs
    compared = getattr(source, "reference_comparison_", None)
    if compared is not None:
        found["quality"] = {
            "score of the private model": f"{compared.private:.2g} on public records",
            "score of public records alone": f"{compared.public_only:.2g}",
            "score without noise": "not told: it would be a release of its own",
        }
    for name in given:
        found[name] |= given[name]
    return {
        name: {str(row): str(text) for row, text in rows.items()}
        for name, rows in found.items()
    }


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that stands there twice: readers would see another value."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError
    return found


def _score(name: str, score: Any) -> dict[str, Any]:
    claim = score.certificate if isinstance(score, PrivateScore) else None
    return {
        "name": str(name),
        "value": str(score),
        "private": claim is not None and claim.private,
        "certificate": None if claim is None else claim.to_dict(),
    }


def _id_of(document: Mapping[str, Any]) -> str:
    """Return the hash of all that a document says."""
    said = {name: document[name] for name in document if name != "id"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
