"""References: public stand-ins for the private data.

A *reference* describes the population that neighboring databases are sampled from. It
must be public, simulated or already released: no noise protects computations from it.
"""

from __future__ import annotations

from typing import Any

from skparisk.reference._base import (
    DrawnRecords,
    RecordPool,
    RecordSource,
    Reference,
    is_reference,
)
from skparisk.reference._comparison import ReferenceComparison
from skparisk.reference._domain import Categories, Domain, Interval
from skparisk.reference._learned import (
    LearnedReference,
    LearnedSplit,
    learn_reference,
)
from skparisk.reference._made import CallableReference
from skparisk.reference._records import Schema
from skparisk.reference._schema import SchemaReference
from skparisk.reference._secret import SecretDraw, SecretSample
from skparisk.reference._table import TableReference

__all__ = [
    "CallableReference",
    "Categories",
    "Domain",
    "DrawnRecords",
    "Interval",
    "LearnedReference",
    "LearnedSplit",
    "RecordPool",
    "RecordSource",
    "Reference",
    "ReferenceComparison",
    "Schema",
    "SchemaReference",
    "SecretSample",
    "TableReference",
    "learn_reference",
]


def as_reference(reference: Any, X: Any = None, y: Any = None) -> Reference:
    """Return `reference` itself, or a plain callable as a `CallableReference`.

    Members that were drawn from (X, y) have these as their reference.
    """
    if isinstance(reference, SecretSample):
        raise ValueError(
            "reference must know who is used, which a SecretSample by itself does not: "
            f"draw from the records first, half = {reference!r}.draw(X, y), and give "
            "reference=half. Private estimators do that in fit."
        )
    if isinstance(reference, SecretDraw):
        reference.check(X)
        return reference.reference(X, y)
    if not isinstance(reference, type) and is_reference(reference):
        known: Reference = reference
        return known
    if not isinstance(reference, type) and callable(reference):
        return CallableReference(reference)
    raise ValueError(
        "reference must be a TableReference, SchemaReference, SecretSample or a "
        "callable (n_records, rng) -> X or (X, y); got an object of "
        f"type {type(reference).__name__}."
    )
