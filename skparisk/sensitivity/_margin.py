"""What noise pays for what a table as a whole is off by.

Where nearly all pairs of a table have one of few losses, as where the class of one
person decides, the order statistic lies inside such a cluster: another table has it
slightly higher, and all of the cluster is beyond the level at once. Halves of the table
tell by how much: their quantiles differ from its own as that from the population's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skparisk.core.laws import Law
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs, norms_of_pairs

# Risks at which it is looked for clusters.
_RISKS = (0.05, 0.1, 0.2)
# There is one if twice as many pairs as the risk are above so much of the quantile; or
# if that of a risk so much smaller is so much larger.
_BELOW, _SMALLER, _JUMP = 0.93, 0.6, 2.0
# Smaller risks that are tried, one after the other.
_STEP, _LEAST = 0.05, 0.2
# Of another cluster, so far above, halves have as many pairs on average as the table.
_MOST = 1.5


@dataclass(frozen=True, eq=False)
class HalvesMargin:
    """What halves of a table say that noise is to be multiplied by."""

    halves: tuple[SampledPairs, ...]

    def __call__(
        self,
        distances: NDArray[np.float64],
        shape: NoiseShape,
        law: Law,
        index: int,
        gamma: float,
    ) -> float:
        """Return the factor, at least 1, for the distance with this number."""
        halves = [norms_of_pairs(half, shape, law) for half in self.halves]
        return margin_of(distances, halves, index, gamma)


def has_clusters(distances: NDArray[np.float64]) -> bool:
    """Tell if an order statistic of distances may lie in a cluster, or below one."""
    ordered = np.sort(distances)
    for risk in _RISKS:
        quantile = _quantile(ordered, risk)
        many = np.mean(ordered > _BELOW * quantile) > 2 * risk
        jump = _quantile(ordered, _SMALLER * risk) > _JUMP * quantile
        if quantile > 0 and (many or jump):
            return True
    return False


def margin_of(
    distances: NDArray[np.float64],
    halves: Sequence[NDArray[np.float64]],
    index: int,
    gamma: float,
) -> float:
    """Return by what to multiply noise for the distance with this number, >= 1.

    For the quantile of the largest risk at which, on average over halves of the table,
    no more than a share `gamma` of its pairs are beyond theirs. These are compared as
    if their median were its own: few rows, which repeat, are farther apart.
    """
    ordered = np.sort(distances)
    base = ordered[index - 1]
    asked = 1 - index / (len(ordered) + 1)
    halves = [*map(np.sort, halves)]
    found = base
    for share in np.arange(1.0, _LEAST, -_STEP):
        at = _quantile(ordered, share * asked)
        beyond_gap = at > _MOST * base
        found = float(ordered[ordered <= _MOST * base][-1]) if beyond_gap else at
        found = max(base, found)
        if beyond_gap:
            break
        theirs = np.array([_quantile(half, share * asked) for half in halves])
        usual = np.median(theirs)
        if 0 < usual < math.inf:
            theirs *= found / usual
        beyond = 1 - np.searchsorted(ordered, theirs, side="right") / len(ordered)
        if beyond.mean() <= gamma:
            break
    return float(found / base)


def _quantile(ordered: NDArray[np.float64], risk: float) -> float:
    """Return the order statistic that a fresh one exceeds with a risk, or the last."""
    n = len(ordered)
    index = math.ceil((n + 1) * (1 - risk) * (1 - 2.0**-40))
    return float(ordered[min(max(index, 1), n) - 1])
