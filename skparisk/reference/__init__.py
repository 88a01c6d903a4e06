"""Where records come from: the public stand-ins for the private data.

A *reference* describes the population that neighboring databases are sampled
from. It must be public, simulated or already released: what is computed from it
is not protected by any noise.
"""

from __future__ import annotations

from typing import Any

from skparisk.reference._base import (
    DrawnRecords,
    RecordPool,
    RecordSource,
    Reference,
)
from skparisk.reference._made import BoxReference, CallableReference, DensityReference
from skparisk.reference._records import Schema
from skparisk.reference._table import TableReference

__all__ = [
    "BoxReference",
    "CallableReference",
    "DensityReference",
    "DrawnRecords",
    "RecordPool",
    "RecordSource",
    "Reference",
    "Schema",
    "TableReference",
]


def as_reference(reference: Any) -> Reference:
    """Return `reference` itself, or a plain callable as a `CallableReference`."""
    if not isinstance(reference, type):
        if isinstance(reference, Reference):
            return reference
        if callable(reference):
            return CallableReference(reference)
    raise ValueError(
        "reference must be a TableReference, DensityReference, BoxReference or a "
        "callable (n_records, rng) -> X or (X, y); got an object of type "
        f"{type(reference).__name__}."
    )
