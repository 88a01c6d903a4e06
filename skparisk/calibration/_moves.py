"""How far answers can move within a domain, and the largest loss that follows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skparisk.core.laws import Law
from skparisk.core.rounding import with_grid
from skparisk.mechanisms import IsotropicShape, NoiseShape

# More outputs have a map that is too large to look at.
_MOST_OUTPUTS = 2048
# More than what rounding takes from sums and products.
_SLACK = 1 + 2.0**-30


@dataclass(frozen=True, eq=False)
class LargestMove:
    """The most that two answers on neighboring databases of a domain are apart.

    For each output by itself, and for the norms of all; an l1 that is infinite is not
    known.
    """

    outputs: NDArray[np.float64]
    l2: float
    l1: float = math.inf

    def norm(self, shape: NoiseShape, order: float) -> float:
        """Return the most in the coordinates of the noise, in a norm."""
        outputs, l2, n_outputs = self.outputs, self.l2, len(self.outputs)
        l1 = self.l1
        if type(shape) is not IsotropicShape:
            if n_outputs > _MOST_OUTPUTS:
                return math.inf
            # Row i of the map says where output i of the noise comes from.
            rows = shape.whiten(np.eye(n_outputs)).T
            lengths = np.linalg.norm(rows, axis=1)
            outputs = np.minimum(np.abs(rows) @ outputs, lengths * l2)
            l2, l1 = float(np.linalg.norm(rows, 2)) * l2, math.inf
        l2 = min(l2, float(np.linalg.norm(outputs)))
        if order == 1:
            l2 = min(math.sqrt(n_outputs) * l2, float(outputs.sum()), l1)
        elif order == math.inf:
            l2 = min(l2, float(outputs.max()))
        return l2 * _SLACK


def largest_loss(
    move: LargestMove | None, law: Law, shape: NoiseShape, scale: float, epsilon: float
) -> float | None:
    """Return the largest loss of any pair, whatever is released, if it is known."""
    if move is None or not law.bounded or not scale:
        return None
    shift = move.norm(shape, law.norm) / scale
    loss = with_grid(np.array([law.largest_loss(shift)]), epsilon)[0]
    return float(loss) if math.isfinite(loss) else None
