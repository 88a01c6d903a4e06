"""Private support vector machines."""

from skparisk.queries._bounds import linear_svc_sensitivity_bound
from skparisk.svm._bounds import svm_sensitivity_bound
from skparisk.svm._linear_svc import PrivateLinearSVC

__all__ = ["PrivateLinearSVC", "linear_svc_sensitivity_bound", "svm_sensitivity_bound"]
