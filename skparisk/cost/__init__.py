"""What privacy costs: budgets for compensation, and the levels that are best."""

from skparisk.cost._frontier import Frontier, frontier
from skparisk.cost._models import CompensationModel, CostModel, RiskLaw

__all__ = ["CompensationModel", "CostModel", "Frontier", "RiskLaw", "frontier"]
