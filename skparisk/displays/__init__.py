"""Pictures of what is certified, and of what was sampled; they need matplotlib."""

from skparisk.displays._risk_curve import RiskCurveDisplay
from skparisk.displays._sensitivity import SensitivityDisplay

__all__ = ["RiskCurveDisplay", "SensitivityDisplay"]
