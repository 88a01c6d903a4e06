"""Every release is charged to the open ledgers before its noise is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skparisk.certificate import Certificate
from skparisk.certificate._claim import SEEDED
from skparisk.ledger import spend
from skparisk.ledger._open import refuse_without_level


def charge(
    charges: Sequence[Certificate] | None,
    n_rows: int,
    what: str,
    note: str,
    noise_random_state: Any,
) -> None:
    """Charge releases, or refuse one of unknown level where a ledger is open.

    Noise from a seed is charged as such, whatever its certificate was made for.
    """
    if charges is None:
        refuse_without_level(what)
    elif n_rows and len(charges) not in (1, n_rows):
        raise ValueError(
            "charges must be one certificate for all rows, which must then be about "
            f"different people, or one for each of the {n_rows} rows; got "
            f"{len(charges)}."
        )
    else:
        if noise_random_state is not None:
            charges = [
                each if each.seeded else as_seeded(each, noise_random_state)
                for each in charges
            ]
        spend(*charges, note=note)


def as_seeded(certificate: Certificate, noise_random_state: Any) -> Certificate:
    """Return the certificate, void if the noise can be repeated."""
    if noise_random_state is None:
        return certificate
    return certificate.amended(void_reasons=[SEEDED])
