"""The law of a choice among candidates by their scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skparisk.core.exact import ByteSource
from skparisk.laws._base import Law, UnitNoise


@dataclass(frozen=True)
class Exponential(Law):
    """The exponential mechanism: a candidate, with probability as exp(score / (2 b)).

    Scores of neighbors differ in the sup norm, and by one step of the grid at the most,
    as one output with Laplace noise does: its loss is in the same bounds.

    Examples
    --------
    >>> from skparisk.laws import Exponential
    >>> Exponential().unit_noise(0.5, 0.0, n_outputs=100).scale
    2.000001907350452
    """

    name: ClassVar[str] = "exponential"
    norm: ClassVar[float] = math.inf
    deviation: ClassVar[float] = math.nan
    chooses: ClassVar[bool] = True

    def sample(self, scale: int, size: int, source: ByteSource) -> NDArray[np.int64]:
        raise TypeError(
            "Exponential chooses a candidate: skparisk.mechanisms.ExponentialChoice "
            "does, by scores."
        )

    def unit_noise(self, epsilon: float, delta: float, n_outputs: int) -> UnitNoise:
        return super().unit_noise(epsilon, delta, 1)
