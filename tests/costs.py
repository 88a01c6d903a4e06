"""Costs, a frontier and errors that tests of costs share."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from skparisk.cost import CompensationModel, CostModel, Frontier
from skparisk.papers import DandekarTheorem4

STAFF = CompensationModel(5500.0, n_people=100)
THEOREM_4 = DandekarTheorem4()


@dataclass(frozen=True)
class CustomCost(CostModel):
    """A cost that is any function of one level."""

    cost: Callable
    n_people: int = 1

    def per_person(self, epsilon):
        return [self.cost(level) for level in epsilon.tolist()]


def refuses(make, expected):
    with pytest.raises(ValueError, match=r".") as error:
        make()
    assert str(error.value) == expected


POINTS = Frontier(
    epsilon=[1.0, 2.0, 1.0, 2.0, math.inf],
    gamma=[0.1, 0.1, 0.2, 0.2, 0.2],
    cost=[10.0, 20.0, 10.0, 30.0, 40.0],
    error=[5.0, 3.0, 4.0, 3.0, 2.0],
    error_std=[0.1] * 5,
)
