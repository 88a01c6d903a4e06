"""The report of a certificate or a ledger, and the file that it is kept in.

Nearly half of it is docstrings: what a report has, and who says it.
"""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from skparisk._filed import FiledCertificate
from skparisk._text import printable
from skparisk._version import __version__
from skparisk.audit import ClaimAudit
from skparisk.core.checks import check_flag
from skparisk.core.claim import Claim, as_certificate
from skparisk.cost import CostModel
from skparisk.ledger import PrivacyLedger
from skparisk.metrics import PrivateScore
from skparisk.report._meaning import cost_of, noise_of
from skparisk.report._policy import Check, Policy
from skparisk.report._records import acro_record, registry_record
from skparisk.report._render import as_markdown, as_page
from skparisk.report._schema import check_document
from skparisk.report._sections import sections_of

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
            "ledger": None if ledger is None else ledger._statement().as_dict(),
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
