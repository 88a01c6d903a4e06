"""Pictures of what was sampled, what is certified, and what it costs."""

from skparisk.displays._cost import CostCurve, CostDisplay
from skparisk.displays._risk_curve import RiskCurveDisplay
from skparisk.displays._sensitivity import SensitivityDisplay

__all__ = ["CostCurve", "CostDisplay", "RiskCurveDisplay", "SensitivityDisplay"]
