"""Private scikit-learn estimators, with noise calibrated by sensitivity sampling."""

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from skparisk._version import __version__ as __version__
from skparisk.core import set_words

if TYPE_CHECKING:
    from skparisk._filed import FiledCertificate as FiledCertificate
    from skparisk.audit import ClaimAudit as ClaimAudit
    from skparisk.audit import ReferenceAudit as ReferenceAudit
    from skparisk.audit import audit_claim as audit_claim
    from skparisk.audit import audit_reference as audit_reference
    from skparisk.core.calibrate import required_pairs as required_pairs
    from skparisk.core.checks import CalibrationError as CalibrationError
    from skparisk.core.checks import IncompatibleError as IncompatibleError
    from skparisk.core.checks import PrivacyLeakWarning as PrivacyLeakWarning
    from skparisk.core.claim import Certificate as Certificate
    from skparisk.cost import CompensationModel as CompensationModel
    from skparisk.density import PrivateKernelDensity as PrivateKernelDensity
    from skparisk.displays import CostDisplay as CostDisplay
    from skparisk.displays import RiskCurveDisplay as RiskCurveDisplay
    from skparisk.displays import SensitivityDisplay as SensitivityDisplay
    from skparisk.exceptions import BudgetExceededError as BudgetExceededError
    from skparisk.exceptions import ReferenceWarning as ReferenceWarning
    from skparisk.exceptions import UtilityWarning as UtilityWarning
    from skparisk.ledger import PrivacyLedger as PrivacyLedger
    from skparisk.linear_model import (
        PrivateLogisticRegression as PrivateLogisticRegression,
    )
    from skparisk.linear_model import PrivateRidge as PrivateRidge
    from skparisk.metrics import private_score as private_score
    from skparisk.model_selection import PrivateGridSearchCV as PrivateGridSearchCV
    from skparisk.moments import PrivateMoments as PrivateMoments
    from skparisk.reference import SchemaReference as SchemaReference
    from skparisk.reference import SecretSample as SecretSample
    from skparisk.reference import TableReference as TableReference
    from skparisk.reference import learn_reference as learn_reference
    from skparisk.report import Policy as Policy
    from skparisk.report import Report as Report
    from skparisk.sensitivity import KnownSensitivity as KnownSensitivity
    from skparisk.sensitivity import SensitivitySampler as SensitivitySampler
    from skparisk.svm import PrivateLinearSVC as PrivateLinearSVC
    from skparisk.tables import PrivateTable as PrivateTable
    from skparisk.wrappers import PrivateEstimator as PrivateEstimator

# Where the names are: each is imported when it is first asked for.
_HOMES = {
    "audit": ("ClaimAudit", "ReferenceAudit", "audit_claim", "audit_reference"),
    "_filed": ("FiledCertificate",),
    "core": ("Certificate", "required_pairs"),
    "cost": ("CompensationModel",),
    "density": ("PrivateKernelDensity",),
    "displays": ("CostDisplay", "RiskCurveDisplay", "SensitivityDisplay"),
    "exceptions": (
        "BudgetExceededError",
        "CalibrationError",
        "IncompatibleError",
        "PrivacyLeakWarning",
        "ReferenceWarning",
        "UtilityWarning",
    ),
    "ledger": ("PrivacyLedger",),
    "linear_model": ("PrivateLogisticRegression", "PrivateRidge"),
    "metrics": ("private_score",),
    "model_selection": ("PrivateGridSearchCV",),
    "moments": ("PrivateMoments",),
    "reference": (
        "SchemaReference",
        "SecretSample",
        "TableReference",
        "learn_reference",
    ),
    "report": ("Policy", "Report"),
    "sensitivity": ("KnownSensitivity", "SensitivitySampler"),
    "svm": ("PrivateLinearSVC",),
    "tables": ("PrivateTable",),
    "wrappers": ("PrivateEstimator",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted([*_HOME_OF, "__version__"])
# Modules that are found as attributes, as in ``skparisk.reference.CallableReference``.
_MODULES = (
    *_HOMES,
    "datasets",
    "mechanisms",
    "neighbors",
    "papers",
    "queries",
)

set_words(lambda: import_module(f"{__name__}._words"))

# Threads that import parts of one package at once may see each other's halves.
_importing = RLock()


def __getattr__(name: str) -> Any:
    with _importing:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
