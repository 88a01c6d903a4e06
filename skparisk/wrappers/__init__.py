"""Make any scikit-learn estimator private."""

from skparisk.wrappers._estimator import PrivateEstimator

__all__ = ["PrivateEstimator"]
