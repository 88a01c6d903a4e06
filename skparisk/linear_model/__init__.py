"""Private linear models."""

from skparisk.linear_model._bounds import ridge_sensitivity_bound
from skparisk.linear_model._ridge import PrivateRidge

__all__ = ["PrivateRidge", "ridge_sensitivity_bound"]
