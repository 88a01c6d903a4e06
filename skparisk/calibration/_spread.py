"""How much answers differ between samples of people, as sampled pairs tell it."""

from __future__ import annotations

import numpy as np

from skparisk.calibration._pairs import SampledPairs
from skparisk.mechanisms._moments import Moments, second_moments


def sampling_moments(pairs: SampledPairs, n_records: int, relation: str) -> Moments:
    """Return the covariance of an answer on `n_records` people drawn by chance.

    By the jackknife: one record that is replaced moves the answer by the difference of
    two influences, each the share 1/n of what makes up its error, and one that comes or
    goes by one of them. At the number of records that the pairs were sampled with.
    """
    answered = np.flatnonzero(pairs.answered)
    moments = second_moments(pairs.differences[answered], pairs.floor(answered))
    changed = 2 if relation == "replace-one" else 1
    return moments._replace(scales=moments.scales * np.sqrt(n_records / changed))
