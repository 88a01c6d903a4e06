"""What several releases guarantee together.

Each release is a :class:`~skparisk.RiskCertificate`, a mechanism, or plain numbers
(epsilon, delta, risk); each rule returns a :class:`PrivacyGuarantee`, which may be
composed again.
"""

from skparisk.composition._guarantee import (
    METHODS,
    DominatingLoss,
    PrivacyGuarantee,
    as_guarantee,
    as_guarantees,
)

__all__ = [
    "METHODS",
    "DominatingLoss",
    "PrivacyGuarantee",
    "as_guarantee",
    "as_guarantees",
]
