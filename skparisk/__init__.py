"""Private scikit-learn estimators, with noise calibrated by sensitivity sampling."""

from skparisk.calibration import required_pairs
from skparisk.certificate import Certificate
from skparisk.cost import CompensationModel
from skparisk.density import PrivateKernelDensity
from skparisk.displays import CostDisplay, RiskCurveDisplay, SensitivityDisplay
from skparisk.exceptions import (
    BudgetExceededError,
    CalibrationError,
    HeuristicGuaranteeWarning,
    IncompatibleError,
    PrivacyLeakWarning,
    ReferenceWarning,
)
from skparisk.ledger import PrivacyLedger
from skparisk.linear_model import PrivateLogisticRegression, PrivateRidge
from skparisk.model_selection import PrivateGridSearchCV, search_certificate
from skparisk.sensitivity import SensitivitySampler
from skparisk.svm import PrivateLinearSVC
from skparisk.wrappers import PrivateEstimator

__all__ = [
    "BudgetExceededError",
    "CalibrationError",
    "Certificate",
    "CompensationModel",
    "CostDisplay",
    "HeuristicGuaranteeWarning",
    "IncompatibleError",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "PrivateEstimator",
    "PrivateGridSearchCV",
    "PrivateKernelDensity",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateRidge",
    "ReferenceWarning",
    "RiskCurveDisplay",
    "SensitivityDisplay",
    "SensitivitySampler",
    "__version__",
    "required_pairs",
    "search_certificate",
]

__version__ = "0.1.0.dev0"
