"""What privacy costs: budgets for compensation, and the levels that are best."""

from skparisk.cost._base import CostModel, EpsilonRange
from skparisk.cost._frontier import Frontier, FrontierPoint, frontier
from skparisk.cost._laws import RiskLaw
from skparisk.cost._models import CompensationModel, CustomCost

__all__ = [
    "CompensationModel",
    "CostModel",
    "CustomCost",
    "EpsilonRange",
    "Frontier",
    "FrontierPoint",
    "RiskLaw",
    "frontier",
]
