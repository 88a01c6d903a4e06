"""What noisy counts and sums say, and how far the noise may have moved it.

Pure functions of the release (:ref:`thm-tables`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.isotonic import isotonic_regression

from skparisk.queries._together import Floats
from skparisk.reference._synthesis import nearest_counts


def deviations(confidence: float) -> float:
    """Return how many standard deviations noise is within, with a probability.

    Of one Laplace noise, or of a sum of some: this is between it and a normal law.
    """
    laplace = -math.log1p(-confidence) / math.sqrt(2.0)
    return max(laplace, float(norm.ppf((1 + confidence) / 2)))


def as_counts(noisy: Floats, total: int | None) -> Floats:
    """Return the nearest counts that are not negative, and add up to a known total."""
    if total is None:
        return np.asarray(noisy.clip(min=0.0))
    return nearest_counts(noisy, total)


def means(
    sums: Floats, present: Floats, variance: float, n_noises: int, quantile: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return means, their standard errors, and the ends of intervals (Fieller 1954).

    `sums` are noisy sums of values in [-1, 1], and `present` how many there are, each
    computed from `n_noises` counts; the noise in a sum, and in a count, has a
    `variance`. An interval ends `quantile` standard deviations off. Where there may be
    nothing, these are NaN, NaN, -1 and 1.
    """
    spread = quantile**2 * variance
    leading = present**2 - n_noises * spread
    known = (present > 0) & (leading > 0)
    leading = np.where(known, leading, 1.0)
    number = np.where(known, present, 1.0)
    mean = np.where(known, sums / number, np.nan).clip(-1, 1)
    error = np.sqrt(variance * (1 + n_noises * mean**2)) / number
    # Where (sums - r present)**2 is within the noise of that, as a quadratic in r.
    root = np.sqrt(
        np.where(known, spread * (leading + n_noises * sums**2), 0.0).clip(min=0.0)
    )
    low = np.where(known, (sums * present - root) / leading, -1.0)
    high = np.where(known, (sums * present + root) / leading, 1.0)
    return mean, error, low.clip(-1, 1), high.clip(-1, 1)


def quantile(
    counts: Floats, edges: Floats, share: float, variance: float, quantile: float
) -> tuple[float, float, float]:
    """Return the value below which a share is, and the ends of its interval.

    Of bins with noisy counts, whose noise has a `variance`, and one more edges. The
    interval ends `quantile` standard deviations off.
    """
    total = float(counts.sum())
    below = np.concatenate([[0.0], np.cumsum(counts)])
    n_below = np.arange(len(edges))
    n_above = len(counts) - n_below
    # How many more than the share are below each edge, and the noise of that.
    more = below - share * total
    noise = quantile * np.sqrt(
        variance * ((1 - share) ** 2 * n_below + share**2 * n_above)
    )
    low = _last(more[1:-1] < -noise[1:-1])
    high = _last(more[1:-1][::-1] > noise[1:-1][::-1])
    ends = float(edges[low]), float(edges[len(edges) - 1 - high])
    rising = isotonic_regression(below).clip(min=0.0)
    if total <= 0 or rising[-1] <= rising[0]:
        return math.nan, *ends
    found = np.interp(share * rising[-1], rising, edges)
    return float(np.clip(found, *ends)), *ends


def _last(true: NDArray[np.bool_]) -> int:
    """Return how many are true before the first that is not."""
    return int(true.size if true.all() else true.argmin())
