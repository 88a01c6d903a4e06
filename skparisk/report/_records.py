"""A report as the records that others keep: output checkers, and a public registry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skparisk import _words as words
from skparisk._text import printable
from skparisk.core.claim import Claim
from skparisk.core.rounding import add_up, ceil_text

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
    known = claim.randomness == "explicit" and claim.method != "transferred"
    sure = known or not (claim.risk or claim.failure_prob)
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
