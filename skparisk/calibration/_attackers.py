"""What an attacker gains at the noise that was calibrated, measured on the pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skparisk.calibration._order import certified_mean
from skparisk.calibration._rules import Exchangeable
from skparisk.calibration._scale import Found
from skparisk.calibration._terms import Terms
from skparisk.certificate import Advantage
from skparisk.core.rounding import add_up, ceil_text

_Floats = NDArray[np.float64]


def measure_advantage(
    distances: _Floats,
    sensitivity: float,
    noise_scale: float,
    *,
    found: Found,
    terms: Terms,
    n_outputs: int,
) -> Advantage | None:
    """Return what an attacker gains, where that is known and proven; rounded up.

    On average it is read at the scale below the one that was found, which depends on
    the same pairs; for all but a share of pairs, at the sensitivity (thm-advantage).
    """
    law, n_pairs, r = terms.law, len(distances), terms.n_neighbors
    if not (noise_scale and law.knows_advantage(n_outputs)):
        return None
    at = Advantage.false_positive_rate
    shifts = np.array([sensitivity / noise_scale])
    if found.below:
        with np.errstate(over="ignore"):
            shifts = np.append(shifts, distances / found.below)
    on_grid = {"n_outputs": n_outputs, "steps": found.steps}
    gained = law.advantage(shifts, **on_grid)
    detected = law.true_positive_rate(shifts, at, **on_grid)
    quantile, quantile_detected = _tidy(gained[0]), _tidy(detected[0])
    mean = mean_detected = 1.0
    if found.below:
        mean = _tidy(certified_mean(gained[1:].sum(), n_pairs, r))
        mean_detected = _tidy(certified_mean(detected[1:].sum(), n_pairs, r))
    if terms.target.advantage is not None:
        mean = terms.target.advantage
    return Advantage(
        mean,
        quantile,
        # On average over samples this is what any fixed K certifies.
        Exchangeable(r).certify_risk(n_pairs // r, terms.order_index),
        _least(mean_detected, [mean, at]),
        _least(quantile_detected, [quantile, at]),
    )


def _least(bound: float, parts: list[float]) -> float:
    """Return the bound, or a sum, rounded up: both hold, and mostly the first is less.

    To add up decimals takes longer than to see that.
    """
    return bound if bound < sum(parts) else min(bound, add_up(parts))


def _tidy(bound: float) -> float:
    """Return a probability rounded up to six digits."""
    return float(ceil_text(min(1.0, float(bound))))
