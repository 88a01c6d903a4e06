"""Private linear models."""

from skparisk.linear_model._linear_classifier import PrivateLinearClassifier
from skparisk.linear_model._logistic import PrivateLogisticRegression
from skparisk.linear_model._penalty_choice import PenaltyChoice
from skparisk.linear_model._ridge import PrivateRidge
from skparisk.queries._bounds import (
    logistic_sensitivity_bound,
    ridge_sensitivity_bound,
)

__all__ = [
    "PenaltyChoice",
    "PrivateLinearClassifier",
    "PrivateLogisticRegression",
    "PrivateRidge",
    "logistic_sensitivity_bound",
    "ridge_sensitivity_bound",
]
