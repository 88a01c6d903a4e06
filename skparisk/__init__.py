"""Private scikit-learn estimators, with noise calibrated by sensitivity sampling."""

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from skparisk._version import __version__

if TYPE_CHECKING:
    from skparisk.audit import (
        ClaimAudit,
        ReferenceAudit,
        audit_claim,
        audit_reference,
    )
    from skparisk.calibration import required_pairs
    from skparisk.certificate import Certificate
    from skparisk.cost import CompensationModel
    from skparisk.density import PrivateKernelDensity
    from skparisk.displays import (
        AttackDisplay,
        AuditDisplay,
        CostDisplay,
        RiskCurveDisplay,
        SensitivityDisplay,
    )
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
    from skparisk.metrics import private_score
    from skparisk.model_selection import PrivateGridSearchCV, search_certificate
    from skparisk.moments import PrivateMoments
    from skparisk.reference import (
        LearnedReference,
        SchemaReference,
        SecretSample,
        TableReference,
    )
    from skparisk.report import Policy, Report
    from skparisk.sensitivity import KnownSensitivity, SensitivitySampler
    from skparisk.svm import PrivateLinearSVC
    from skparisk.tables import PrivateTable
    from skparisk.wrappers import PrivateEstimator

__all__ = [
    "AttackDisplay",
    "AuditDisplay",
    "BudgetExceededError",
    "CalibrationError",
    "Certificate",
    "ClaimAudit",
    "CompensationModel",
    "CostDisplay",
    "HeuristicGuaranteeWarning",
    "IncompatibleError",
    "KnownSensitivity",
    "LearnedReference",
    "Policy",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "PrivateEstimator",
    "PrivateGridSearchCV",
    "PrivateKernelDensity",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateMoments",
    "PrivateRidge",
    "PrivateTable",
    "ReferenceAudit",
    "ReferenceWarning",
    "Report",
    "RiskCurveDisplay",
    "SchemaReference",
    "SecretSample",
    "SensitivityDisplay",
    "SensitivitySampler",
    "TableReference",
    "__version__",
    "audit_claim",
    "audit_reference",
    "private_score",
    "required_pairs",
    "search_certificate",
]

# Where the names are: each is imported when it is first asked for.
_HOMES = {
    "audit": ("ClaimAudit", "ReferenceAudit", "audit_claim", "audit_reference"),
    "calibration": ("required_pairs",),
    "certificate": ("Certificate",),
    "cost": ("CompensationModel",),
    "density": ("PrivateKernelDensity",),
    "displays": (
        "AttackDisplay",
        "AuditDisplay",
        "CostDisplay",
        "RiskCurveDisplay",
        "SensitivityDisplay",
    ),
    "exceptions": (
        "BudgetExceededError",
        "CalibrationError",
        "HeuristicGuaranteeWarning",
        "IncompatibleError",
        "PrivacyLeakWarning",
        "ReferenceWarning",
    ),
    "ledger": ("PrivacyLedger",),
    "linear_model": ("PrivateLogisticRegression", "PrivateRidge"),
    "metrics": ("private_score",),
    "model_selection": ("PrivateGridSearchCV", "search_certificate"),
    "moments": ("PrivateMoments",),
    "reference": (
        "LearnedReference",
        "SchemaReference",
        "SecretSample",
        "TableReference",
    ),
    "report": ("Policy", "Report"),
    "sensitivity": ("KnownSensitivity", "SensitivitySampler"),
    "svm": ("PrivateLinearSVC",),
    "tables": ("PrivateTable",),
    "wrappers": ("PrivateEstimator",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# Modules that are found as attributes, as in ``skparisk.reference.DensityReference``.
_MODULES = (
    *_HOMES,
    "composition",
    "datasets",
    "laws",
    "mechanisms",
    "neighbors",
    "papers",
    "preprocessing",
    "privacy_loss",
    "queries",
)


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
