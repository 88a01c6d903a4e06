"""Pictures of sampled pairs, certificates, audits, costs and utility.

They need matplotlib: where it is missing, an ImportError says how to install it.
"""

from skparisk.displays._attack import AttackDisplay
from skparisk.displays._audit import AuditDisplay
from skparisk.displays._cost import CostDisplay
from skparisk.displays._risk_curve import RiskCurveDisplay
from skparisk.displays._sensitivity import SensitivityDisplay
from skparisk.displays._worth import WorthDisplay

__all__ = [
    "AttackDisplay",
    "AuditDisplay",
    "CostDisplay",
    "RiskCurveDisplay",
    "SensitivityDisplay",
    "WorthDisplay",
]
