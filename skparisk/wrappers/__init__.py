"""Any scikit-learn estimator, made private."""

from skparisk.wrappers._estimator import PrivateEstimator
from skparisk.wrappers._recipes import match_components

__all__ = ["PrivateEstimator", "match_components"]
