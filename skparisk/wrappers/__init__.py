"""Any scikit-learn estimator, made private."""

from skparisk.wrappers._alignment import match_centers, match_components
from skparisk.wrappers._estimator import PrivateEstimator

__all__ = ["PrivateEstimator", "match_centers", "match_components"]
