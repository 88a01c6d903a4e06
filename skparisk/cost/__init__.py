"""What privacy costs: budgets for compensation, and the levels that are best."""

from skparisk.cost._base import CostModel
from skparisk.cost._frontier import Frontier, frontier
from skparisk.cost._laws import RiskLaw
from skparisk.cost._models import CompensationModel

__all__ = ["CompensationModel", "CostModel", "Frontier", "RiskLaw", "frontier"]
