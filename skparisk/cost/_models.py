"""The costs of Dandekar, Basu and Bressan."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skparisk.core.checks import check_at_least, check_number, check_positive
from skparisk.cost._base import CostModel
from skparisk.cost._laws import Floats

# The most that a float counts.
_MOST_PEOPLE = 2**53


@dataclass(frozen=True)
class CompensationModel(CostModel):
    r"""Compensation that grows with the privacy level, up to a full one.

    Parameters
    ----------
    compensation : float
        What one person is to be paid if there is no privacy, above `minimum`, finite,
        > 0, in units of money.

    n_people : int, default=1
        People who are to be paid, in [1, 2**53]. Budgets are totals over them.

    minimum : float, default=0.0
        What one person is to be paid in any case, finite, >= 0, in units of money.

    rate : float, default=1.0
        How fast the compensation grows, finite, > 0, in units of the privacy level: at
        the level `rate` it is 1/e, 37 %, of the full one.

    Raises
    ------
    ValueError
        If a parameter is out of range, or all that is to be paid is not finite.

    See Also
    --------
    CostModel : Any other function.

    Notes
    -----
    :math:`E_{dp}(\epsilon) = E_{min} + E e^{-c/\epsilon}` per person (Dandekar, Basu,
    Bressan 2021, Eq. 8): `minimum`, `compensation` and `rate` are :math:`E_{min}`, E
    and c. `minimum` at level 0, ``minimum + compensation`` without noise. See
    :ref:`thm-cost`.

    Examples
    --------
    Health statistics of 100 people, released with Laplace noise of level 0.5:

    >>> from skparisk.cost import CompensationModel
    >>> model = CompensationModel(5500.0, n_people=100)
    >>> round(model.budget(0.5), 2)
    74434.41
    >>> best = model.optimal_epsilon(0.5)
    >>> round(best, 4), round(model.budget_at_risk(best, 0.5), 2)
    (0.1556, 43479.06)
    """

    compensation: float
    n_people: int = 1
    minimum: float = 0.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "compensation": check_positive(self.compensation, "compensation"),
            "n_people": check_at_least(self.n_people, "n_people", 1),
            "minimum": check_number(self.minimum, "minimum", "[0, inf)"),
            "rate": check_positive(self.rate, "rate"),
        }
        if plain["n_people"] > _MOST_PEOPLE:  # it may have thousands of digits
            raise ValueError(f"n_people must be at most 2**53, {_MOST_PEOPLE}.")
        vars(self).update(plain)  # frozen for all others
        if math.isinf(self.n_people * (self.minimum + self.compensation)):
            raise ValueError(
                "n_people times minimum and compensation, what is to be paid in all, "
                f"must be finite; got {self.n_people} times {self.minimum!r} and "
                f"{self.compensation!r}."
            )

    def per_person(self, epsilon: Floats) -> Floats:
        """Return what one person is to be paid at each privacy level."""
        with np.errstate(divide="ignore", over="ignore"):  # level 0, or as good as 0
            return self.minimum + self.compensation * np.exp(-self.rate / epsilon)
