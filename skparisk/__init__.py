"""Private scikit-learn estimators, with noise calibrated by sensitivity sampling."""

from skparisk.calibration import RiskCertificate, required_pairs
from skparisk.density import PrivateKernelDensity
from skparisk.displays import RiskCurveDisplay, SensitivityDisplay
from skparisk.exceptions import (
    CalibrationError,
    HeuristicGuaranteeWarning,
    IncompatibleError,
    PrivacyLeakWarning,
)
from skparisk.linear_model import PrivateLogisticRegression, PrivateRidge
from skparisk.sensitivity import SensitivitySampler
from skparisk.svm import PrivateLinearSVC
from skparisk.wrappers import PrivateEstimator

__all__ = [
    "CalibrationError",
    "HeuristicGuaranteeWarning",
    "IncompatibleError",
    "PrivacyLeakWarning",
    "PrivateEstimator",
    "PrivateKernelDensity",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateRidge",
    "RiskCertificate",
    "RiskCurveDisplay",
    "SensitivityDisplay",
    "SensitivitySampler",
    "__version__",
    "required_pairs",
]

__version__ = "0.1.0.dev0"
