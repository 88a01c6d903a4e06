"""Whether a reference describes the people that it stands for: a private audit.

A certificate is about pairs of a reference. :func:`audit_reference` measures on private
records, which are used for nothing else, how often real pairs exceed the level.
"""

from skparisk.audit._audit import audit_reference
from skparisk.audit._limits import required_blocks
from skparisk.audit._reference_audit import ReferenceAudit

__all__ = ["ReferenceAudit", "audit_reference", "required_blocks"]
