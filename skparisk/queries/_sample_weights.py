"""How much records count, as the weights of a survey say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]

# Of the mean: what a weight of 0 counts as, so that every database has an answer.
_LEAST = 2.0**-40


@dataclass(frozen=True)
class SampleWeights:
    """Weights in the last column of targets, as shares of the mean public one.

    They are part of a record, so that neighbors differ in them as well.

    Parameters
    ----------
    mean, most : float
        Mean and largest public weight, > 0: a larger one counts as `most`.
    """

    mean: float
    most: float

    @classmethod
    def of(cls, public: _Floats) -> Self:
        """Return what is public of weights."""
        return cls(float(public.mean()), float(public.max()))

    def split(self, y: Any) -> tuple[Any, _Floats]:
        """Return targets, or None if there are none; and weights, of mean 1."""
        columns = np.asarray(y)
        weights = columns[:, -1].astype(np.float64) / self.mean
        targets: Any = columns[:, :-1]
        if targets.shape[1] < 2:
            targets = targets[:, 0] if targets.shape[1] else None
        return targets, weights.clip(_LEAST, self.most / self.mean)
