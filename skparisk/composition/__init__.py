"""What several releases guarantee together.

Each release is a :class:`~skparisk.RiskCertificate`, a mechanism, or plain numbers
(epsilon, delta, risk); each rule returns a :class:`PrivacyGuarantee`, which may be
composed again.
"""

from skparisk.composition._advanced import (
    compose_advanced,
    compose_filter,
    compose_laplace,
)
from skparisk.composition._at_risk import compose_privacy_at_risk
from skparisk.composition._conversions import (
    approximate,
    group_privacy,
    post_process,
    transfer,
)
from skparisk.composition._exact import compose_exact
from skparisk.composition._guarantee import (
    DominatingLoss,
    PrivacyGuarantee,
    as_guarantee,
    as_guarantees,
)
from skparisk.composition._rules import compose_basic, compose_parallel
from skparisk.composition._wording import METHODS

__all__ = [
    "METHODS",
    "DominatingLoss",
    "PrivacyGuarantee",
    "approximate",
    "as_guarantee",
    "as_guarantees",
    "compose_advanced",
    "compose_basic",
    "compose_exact",
    "compose_filter",
    "compose_laplace",
    "compose_parallel",
    "compose_privacy_at_risk",
    "group_privacy",
    "post_process",
    "transfer",
]
