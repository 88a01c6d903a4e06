"""Noise for a sensitivity that is known: the risk is over the noise alone."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np

from skparisk._validate import check_at_least, check_positive
from skparisk.calibration._noise_level import Curve, NoiseLevel, as_curve
from skparisk.mechanisms import _grid_cost as grid_cost
from skparisk.mechanisms import gaussian_scale
from skparisk.mechanisms._noise import ROUNDING_SLACK
from skparisk.privacy_loss import (
    gaussian_explicit_shift,
    gaussian_loss_exceedance,
    laplace_delta_noise_epsilon,
    laplace_loss_exceedance,
    laplace_noise_epsilon,
)

__all__ = ["KnownRule", "calibrate_known"]

_CURVE_POINTS = 256


@runtime_checkable
class KnownRule(Protocol):
    """Another rule for Laplace noise and a known sensitivity: a paper's, as printed."""

    @property
    def name(self) -> str:
        """What a certificate calls it."""
        ...

    @property
    def void_reasons(self) -> tuple[str, ...]:
        """Sentences: why what it claims is no guarantee."""
        ...

    def noise_epsilon(self, epsilon: float, gamma: float, n_outputs: int) -> float:
        """Return sensitivity over noise scale, or raise CalibrationError."""
        ...


def calibrate_known(
    sensitivity: float,
    *,
    mechanism: str = "laplace",
    n_outputs: int = 1,
    epsilon: float,
    gamma: float,
    delta: float = 0.0,
    rule: KnownRule | None = None,
) -> NoiseLevel:
    """Return noise for a known sensitivity, and the risk over the noise.

    Parameters
    ----------
    sensitivity : float
        Largest distance of the answers on neighboring databases, > 0: l1 for
        "laplace", sup norm for "exponential", l2 for the others.

    mechanism : str, default="laplace"
        One of "laplace", "gaussian", "gaussian-classical", "exponential".
        Law of the noise and, for `delta` above 0, how it is calibrated.

    n_outputs : int, default=1
        Outputs of the query, >= 1.

    epsilon : float
        Privacy level, in (0, inf).

    gamma : float
        Risk, in (0, 1), that the loss of a pair exceeds `epsilon`; not used where
        `delta` is above 0.

    delta : float, default=0.0
        Above 0: (epsilon, delta)-differential privacy instead, in [0, 1).

    rule : KnownRule, default=None
        Another rule for Laplace noise, such as one of :mod:`skparisk.papers`.

    Returns
    -------
    level : NoiseLevel
        Its risk is 0 where every output of every pair keeps the level.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    CalibrationError
        If the `rule` needs no noise for it.

    Notes
    -----
    **Guarantee** (:ref:`thm-explicit`). For every pair of neighbors, the privacy loss
    exceeds `epsilon` with probability at most the risk over the noise. With Laplace
    noise that is worth something for one output and a risk of 1/2 or more only.
    """
    sensitivity = check_positive(sensitivity, "sensitivity")
    sensitivity *= 1 + float(ROUNDING_SLACK)
    k = check_at_least(n_outputs, "n_outputs", 1)
    level = grid_cost.below(epsilon)
    if mechanism == "exponential":
        steps = grid_cost.laplace_steps(epsilon, 1)
        return NoiseLevel(sensitivity / level, steps, 0.0)
    if mechanism == "laplace":
        steps = grid_cost.laplace_steps(epsilon, k)
        if rule is not None:
            shift = rule.noise_epsilon(epsilon, gamma, k)
            return NoiseLevel(sensitivity / shift, steps, gamma)
        if delta:
            shift = laplace_delta_noise_epsilon(level, delta)
            return NoiseLevel(sensitivity / shift, steps, 0.0)
        shift = laplace_noise_epsilon(level, gamma, k)
        curve = _laplace_curve(shift, epsilon) if k == 1 else None
        risk = gamma if shift > level else 0.0
        return NoiseLevel(sensitivity / shift, steps, risk, curve=curve)
    if delta:
        calibration = "classical" if mechanism.endswith("classical") else "analytic"
        factor, steps = gaussian_scale(
            epsilon, delta, n_outputs=k, calibration=calibration
        )
        return NoiseLevel(sensitivity * factor, steps, 0.0)
    shift = gaussian_explicit_shift(level, gamma)
    steps = grid_cost.gaussian_steps(epsilon, k, shift)
    scale = sensitivity / (shift - math.sqrt(k) / steps)
    spent = math.sqrt(k) * shift / steps
    return NoiseLevel(scale, steps, gamma, curve=_gaussian_curve(shift, epsilon, spent))


def _laplace_curve(shift: float, epsilon: float) -> Curve:
    """Return the exact law of the loss of one output, as far as it says anything."""
    levels = shift * np.linspace(0, 1, _CURVE_POINTS)
    risks = laplace_loss_exceedance(levels, shift)
    spent = epsilon * grid_cost.GRID_SHARE
    return as_curve(levels + spent, risks)


def _gaussian_curve(shift: float, epsilon: float, spent: float) -> Curve:
    levels = epsilon * np.geomspace(2.0**-8, 2.0**8, _CURVE_POINTS)
    risks = gaussian_loss_exceedance(np.maximum(levels - spent, 0.0), shift)
    return as_curve(levels, risks)
