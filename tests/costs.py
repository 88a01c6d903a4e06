"""A compensation model, a frontier and errors that tests of costs share."""

import math

import pytest

from skparisk.cost import CompensationModel, Frontier
from skparisk.papers import DandekarTheorem4

STAFF = CompensationModel(5500.0, n_people=100)
THEOREM_4 = DandekarTheorem4()


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
