"""The lines of a ledger: its budget, then one line for each charge.

A line is a JSON document and a hash, which is that of the hash before it and of the
text of the document. So the last hash, the head, stands for all that is before it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

from skparisk._filed import FiledCertificate
from skparisk._text import from_strict, strict
from skparisk.ledger._budget import Budget
from skparisk.ledger._history import LedgerEntry

_SCHEMA = {"schema": "skparisk.ledger", "schema_version": 1}
_BUDGET = [field.name for field in dataclasses.fields(Budget)]
_CHARGE = ["index", "note", "releases", "time"]


class LedgerError(ValueError):
    """The file of a ledger, or its export, is not as the library wrote it."""


class Line(NamedTuple):
    """A document, as canonical JSON, and the hash of all lines up to this one."""

    text: str
    sha256: str


def now() -> str:
    """Return the time as it is written down."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def budget_line(budget: Budget) -> Line:
    """Return the first line of a new ledger."""
    # The number tells ledgers apart that have the same budget.
    return _seal(_budget_document(budget, uuid4().hex, now()), "")


def charge_line(index: int, previous: str, entries: Sequence[LedgerEntry]) -> Line:
    """Return the line of a charge: entries with one note and one time."""
    charge = {
        "index": index,
        "note": entries[0].note,
        "releases": [entry.certificate.to_dict() for entry in entries],
        "time": entries[0].time,
    }
    return _seal(charge, previous)


def open_line(line: Line, previous: str, where: str) -> dict[str, Any]:
    """Return the document of a line that follows a hash, if it is as it was written."""
    document = _parse(line.text, where)
    if _hash(line.text, previous) != line.sha256:
        raise LedgerError(
            f"{where} was changed, or does not follow the line before: its hash is not "
            "that of its text."
        )
    return document


def as_budget(document: dict[str, Any], where: str) -> Budget:
    """Return the budget that the first line holds."""
    found = {name: document.get(name) for name in _SCHEMA}
    if found != _SCHEMA:
        raise LedgerError(f"{where} must have the schema {_SCHEMA}, got {found}.")
    limits = from_strict({name: document.get(name) for name in _BUDGET})
    try:
        budget = Budget(**limits)
    except (TypeError, ValueError) as error:
        raise LedgerError(f"{where} has no valid budget: {error}") from error
    texts = document.get("id"), document.get("created")
    rebuilt = _budget_document(budget, *map(str, texts))
    if _as_text(rebuilt) != _as_text(document):
        raise LedgerError(f"{where} must be {rebuilt}, got {document}.")
    return budget


def as_entries(document: dict[str, Any], index: int, where: str) -> list[LedgerEntry]:
    """Return the releases that a charge is for."""
    if sorted(document) != _CHARGE:
        raise LedgerError(f"{where} must have the entries {_CHARGE}.")
    _, note, releases, time = (document[name] for name in _CHARGE)
    if _as_text(document["index"]) != str(index):
        raise LedgerError(f"{where} must have the index {index}.")
    if not (isinstance(note, str) and isinstance(time, str) and releases):
        raise LedgerError(f"{where} must have a note, a time and releases.")
    try:
        certificates = map(FiledCertificate.from_dict, releases)
        return [LedgerEntry(certificate, note, time) for certificate in certificates]
    except (TypeError, ValueError) as error:
        raise LedgerError(f"{where} holds no releases: {error}") from error


def to_jsonl(lines: Iterable[Line]) -> str:
    """Write lines, each with its hash; at last how many there are, and the head."""
    documents = [json.loads(line.text) | {"sha256": line.sha256} for line in lines]
    documents.append(_checkpoint(documents))
    return "".join(f"{_as_text(document)}\n" for document in documents)


def from_jsonl(text: str, source: str) -> list[Line]:
    """Return the lines that `to_jsonl` wrote; their hashes are not checked here."""
    documents = [
        _parse(line, f"line {number} of {source}")
        for number, line in enumerate(text.splitlines(), 1)
    ]
    if len(documents) < 2 or documents.pop() != _checkpoint(documents):
        raise LedgerError(
            f"{source} must end with the number of its lines and the last hash: lines "
            "were removed or added."
        )
    hashes = [document.pop("sha256", None) for document in documents]
    return [Line(*pair) for pair in zip(map(_as_text, documents), hashes, strict=True)]


def _checkpoint(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return {"lines": len(documents), "sha256": documents[-1].get("sha256")}


def _budget_document(budget: Budget, number: str, created: str) -> dict[str, Any]:
    limits = strict(budget)
    return {**_SCHEMA, **limits, "id": number, "created": created}


def _seal(document: dict[str, Any], previous: str) -> Line:
    text = _as_text(document)
    return Line(text, _hash(text, previous))


def _hash(text: str, previous: str) -> str:
    return hashlib.sha256((previous + text).encode()).hexdigest()


def _as_text(document: Any) -> str:
    """Write canonical JSON, of which there is one for each document."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _parse(text: str, where: str) -> dict[str, Any]:
    """Read canonical JSON."""
    try:
        document = json.loads(text)
        canonical = _as_text(document)
    except (RecursionError, TypeError, ValueError) as error:
        raise LedgerError(f"{where} is not JSON: {error}.") from error
    if canonical != text or not isinstance(document, dict):
        raise LedgerError(f"{where} is not an object as the library writes it.")
    return document
