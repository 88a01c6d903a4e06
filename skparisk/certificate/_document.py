"""Certificates as documents: strict JSON, text and HTML, and how they are read back."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from skparisk._version import __version__
from skparisk.certificate import _words as words
from skparisk.certificate._advantage import Advantage
from skparisk.certificate._audit import MeasuredRisk
from skparisk.certificate._carried import point_of_level
from skparisk.certificate._claim import SENTENCES, Claim, Evidence
from skparisk.certificate._loss import DominatingLoss
from skparisk.core.laws import Law, as_law
from skparisk.core.rounding import fields_of, from_strict, strict

ClaimT = TypeVar("ClaimT", bound=Claim)

# Parts of the evidence that are documents of their own.
_MEASURED: Mapping[str, type] = {"advantage": Advantage, "audit": MeasuredRisk}
_SCHEMA = {"schema": "skparisk.certificate", "schema_version": 1}


def write(claim: Claim, *, curve: bool = False) -> dict[str, Any]:
    """Return a document that `read` understands, with what follows from the claim."""
    document = fields_of(claim)
    if claim.loss is not None:
        document["loss"] = fields_of(claim.loss) | {"law": claim.loss.law_name}
    if claim.evidence is not None:
        document["evidence"] = evidence = fields_of(claim.evidence)
        points = evidence.pop("curve")
        if not curve and points is not None and claim.randomness == "both":
            # Nothing else that is written says what level the noise was made for.
            points = point_of_level(points, claim.epsilon)
            curve = len(points) > 0
        if curve and points is not None:
            evidence["curve"] = points.tolist()
    return {
        **_SCHEMA,
        "version": __version__,
        "guarantee": words.in_words(claim),
        "conditions": list(words.conditions(claim)),
        "private": claim.private,
        **strict(document),
    }


def read(document: Any, kind: type[ClaimT], laws: Iterable[Law] = ()) -> ClaimT:
    """Return the claim that a document is of, if all that it says follows from it.

    A law of the loss is a name there: `laws` are those that are not skparisk's.
    Words are those of the version that wrote them: of another one, they are not
    compared but written anew.
    """
    if not isinstance(document, Mapping):
        raise ValueError(f"document must be a mapping, got {document!r}.")
    schema = {name: document.get(name) for name in _SCHEMA}
    if schema != _SCHEMA:
        raise ValueError(
            f"document must be a certificate with {_SCHEMA}, got {schema}: it is "
            "something else, or was written by a version of skparisk with another "
            "schema."
        )
    named = {law.name: law for law in map(as_law, laws)}
    derived = ("version", "guarantee", "conditions", "private")
    entries = _entries(document, kind, *_SCHEMA, *derived)
    evidence, loss = document["evidence"], document["loss"]
    try:
        if loss is not None:
            parts = _entries(loss, DominatingLoss)
            parts["law"] = named.get(parts["law"], parts["law"])
            entries["loss"] = DominatingLoss(**parts)
        if evidence is not None:
            parts = _entries(evidence, Evidence, optional="curve")
            for name, kind_ in _MEASURED.items():
                if parts[name] is not None:
                    parts[name] = kind_(**_entries(parts[name], kind_))
            entries["evidence"] = Evidence(**parts)
        claim = kind(**entries)
    except (TypeError, ValueError) as error:
        raise ValueError(f"document is not a certificate: {error}") from error
    has_curve = evidence is not None and "curve" in evidence
    expected = write(claim, curve=has_curve)
    if document["version"] != __version__:
        expected |= {name: document[name] for name in derived[:3]}
        # What it said stays; what follows may be said once more, in today's words.
        said = {name: document[name] for name in SENTENCES}
        expected |= {n: v for n, v in said.items() if {*v} <= {*expected[n]}}
    wrong = [name for name, value in expected.items() if document[name] != value]
    if wrong:
        raise ValueError(
            f"document has entries that do not follow from the rest: {wrong}."
        )
    return claim


def _entries(
    document: Any, kind: type, *others: str, optional: str | None = None
) -> dict[str, Any]:
    """Return the parameters of a part, which has no other entries, as they were."""
    if not isinstance(document, Mapping):
        raise ValueError(f"document must hold a mapping, got {document!r}.")
    names = [field.name for field in fields(kind)]
    wanted = (*others, *names)
    missing = [name for name in wanted if name not in (*document, optional)]
    unknown = [name for name in document if name not in wanted]
    if missing or unknown:
        raise ValueError(
            f"document must have the entries of a certificate; missing: {missing}, "
            f"unknown: {unknown}."
        )
    return from_strict({name: document[name] for name in names if name in document})


def as_text(claim: Claim) -> str:
    """Return the guarantee, a table and the caveats."""
    table = "\n".join(f"  {name}: {value}" for name, value in words.rows(claim))
    notes = "".join(f"\nCaveat: {text}" for text in claim.caveats)
    return f"{words.in_words(claim)}\n{table}{notes}"


def as_html(claim: Claim) -> str:
    """Return the guarantee, the caveats and a table."""
    table = "".join(html_row(*row) for row in words.rows(claim))
    notes = "".join(
        f"<p><strong>Caveat.</strong> {html.escape(text)}</p>" for text in claim.caveats
    )
    guarantee = html.escape(words.in_words(claim))
    return f"<div><p>{guarantee}</p>{notes}<table>{table}</table></div>"


def html_row(*cells: str, n_heads: int = 1) -> str:
    """Return a row of a table, whose first cells say what the others are."""
    tags = ["th"] * n_heads + ["td"] * (len(cells) - n_heads)
    inner = "".join(
        f"<{tag} style='text-align:left'>{html.escape(cell)}</{tag}>"
        for tag, cell in zip(tags, cells, strict=True)
    )
    return f"<tr>{inner}</tr>"
