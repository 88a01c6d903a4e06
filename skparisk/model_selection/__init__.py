"""Choose hyper-parameters of private estimators, and account for the choice."""

from skparisk.model_selection._exponential import ExponentialSelection
from skparisk.model_selection._search import PrivateGridSearchCV
from skparisk.model_selection._simulation import simulate_scores

__all__ = [
    "ExponentialSelection",
    "PrivateGridSearchCV",
    "simulate_scores",
]
