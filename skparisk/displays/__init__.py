"""Pictures of sampled pairs, certificates and costs.

They need matplotlib: where it is missing, an ImportError says how to install it.
"""

from skparisk.displays._cost import CostDisplay
from skparisk.displays._curves import RiskCurveDisplay, SensitivityDisplay

__all__ = [
    "CostDisplay",
    "RiskCurveDisplay",
    "SensitivityDisplay",
]
