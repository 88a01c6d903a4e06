"""Any scikit-learn estimator, made private."""

from skparisk.wrappers._estimator import PrivateEstimator

__all__ = ["PrivateEstimator"]
