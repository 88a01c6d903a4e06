"""Pictures of sampled pairs, certificates, costs and utility.

They need matplotlib: where it is missing, an ImportError says how to install it.
"""

from skparisk.displays._cost import CostDisplay
from skparisk.displays._curves import RiskCurveDisplay, SensitivityDisplay
from skparisk.displays._worth import WorthDisplay

__all__ = [
    "CostDisplay",
    "RiskCurveDisplay",
    "SensitivityDisplay",
    "WorthDisplay",
]
