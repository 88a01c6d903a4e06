"""Audits: attack a claim, and compare a reference with real people.

:func:`audit_claim` attacks releases to find evidence against a certificate.
:func:`audit_reference` measures, on otherwise unused private records, how often real
pairs exceed the level. The first needs no private data and looks at answers without
noise; the second is a release of its own.
"""

from skparisk.audit._audit import ReferenceAudit, audit_reference
from skparisk.audit._claim_audit import (
    ClaimAudit,
    PairAttack,
    ShareBeyond,
    audit_claim,
)
from skparisk.audit._limits import required_blocks

__all__ = [
    "ClaimAudit",
    "PairAttack",
    "ReferenceAudit",
    "ShareBeyond",
    "audit_claim",
    "audit_reference",
    "required_blocks",
]
