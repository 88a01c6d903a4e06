"""Claims as documents: how they are laid out, and how they are read back."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["as_html", "as_text", "read_document"]


class Claim(Protocol):
    """A sentence that is claimed, and what it rests on."""

    @property
    def guarantee(self) -> str: ...

    @property
    def caveats(self) -> tuple[str, ...]: ...

    def to_dict(self) -> dict[str, Any]: ...


ClaimT = TypeVar("ClaimT", bound=Claim)


def as_text(claim: Claim, rows: Iterable[tuple[str, str]]) -> str:
    """Return the guarantee, a table and the caveats."""
    table = "\n".join(f"  {name}: {value}" for name, value in rows)
    notes = "".join(f"\nCaveat: {text}" for text in claim.caveats)
    return f"{claim.guarantee}\n{table}{notes}"


def as_html(claim: Claim, rows: Iterable[tuple[str, str]]) -> str:
    """Return the guarantee, the caveats and a table."""
    table = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    notes = "".join(
        f"<p><strong>Caveat.</strong> {html.escape(text)}</p>" for text in claim.caveats
    )
    return (
        f"<div><p>{html.escape(claim.guarantee)}</p>{notes}<table>{table}</table></div>"
    )


def read_document(
    document: Any,
    what: str,
    make: Callable[[dict[str, Any]], ClaimT],
    *,
    names: Sequence[str],
    derived: Sequence[str],
) -> ClaimT:
    """Return the claim that a document is of, if all that it says follows from it.

    `names` are the entries that `make` needs, `derived` those that follow.
    """
    if not isinstance(document, Mapping):
        raise ValueError(f"document must be a mapping, got {document!r}.")
    known = (*derived, *names)
    missing = [name for name in known if name not in document]
    unknown = [name for name in document if name not in known]
    if missing or unknown:
        raise ValueError(
            f"document must have the entries of a {what}; missing are {missing}, "
            f"unknown are {unknown}."
        )
    try:
        claim = make({name: document[name] for name in names})
    except (TypeError, ValueError) as error:
        raise ValueError(f"document is not a {what}: {error}") from error
    expected = claim.to_dict()
    wrong = [name for name, value in expected.items() if document[name] != value]
    if wrong:
        raise ValueError(
            f"document has entries that do not follow from the rest: {wrong}."
        )
    return claim
