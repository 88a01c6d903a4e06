"""Every release is charged to the open ledgers before its noise is drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from skparisk._text import SEEDED
from skparisk.composition import PrivacyGuarantee
from skparisk.ledger import refuse_without_level, spend

__all__ = ["as_seeded", "charge"]


def charge(
    charges: Sequence[PrivacyGuarantee] | None, n_rows: int, what: str, note: str
) -> None:
    """Charge releases, or refuse one of unknown level where a ledger is open."""
    if charges is None:
        refuse_without_level(what)
    elif n_rows and len(charges) not in (1, n_rows):
        raise ValueError(
            f"charges must be one guarantee for all rows, which must then be about "
            f"different people, or one for each of {n_rows}; got {len(charges)}."
        )
    else:
        spend(*charges, note=note)


def as_seeded(guarantee: PrivacyGuarantee, noise_random_state: Any) -> PrivacyGuarantee:
    """Return the guarantee, voided if the noise can be repeated."""
    if noise_random_state is None:
        return guarantee
    reasons = (SEEDED, *guarantee.void_reasons)
    return dataclasses.replace(guarantee, void_reasons=reasons)
