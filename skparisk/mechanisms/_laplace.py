"""The Laplace mechanism for a known sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.certificate import Certificate, DominatingLoss
from skparisk.core.rounding import MOST_STEPS
from skparisk.mechanisms._noise import (
    ROUNDING_SLACK,
    AdditiveNoise,
    KnownMechanism,
    floor_log2,
)

# Steps of the grid per sensitivity (or noise scale) and output, as a rule at least.
_GRID_BITS = 32


@dataclass(frozen=True)
class LaplaceMechanism(KnownMechanism):
    """Laplace noise for a known l1 sensitivity, drawn exactly on a grid.

    Parameters
    ----------
    sensitivity : float
        Largest l1 distance of the values of neighboring databases; finite, > 0,
        or >= 0 with ``epsilon=inf``. In units of the values.

    epsilon : float
        Privacy level, in (0, inf]. Infinite: values are released as they are.

    n_outputs : int, default=1
        Number of values that are released together, >= 1.

    Attributes
    ----------
    noise_scale : float
        Scale b of the noise of each value, slightly above sensitivity / epsilon:
        the rounding of the values, at most one step of the grid each, and of the
        sensitivity itself are paid for.

    grid : float
        Distance of neighboring releasable values.

    noise : AdditiveNoise
        The noise itself.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the noise scale is no finite number.

    Notes
    -----
    **Guarantee**. For databases whose values differ by at most `sensitivity` in
    the l1 norm, the release is epsilon-differentially private (Dwork et al. 2006).
    Discrete Laplace noise of scale t on the integers has privacy loss at most
    ``|d|/t`` for a shift by d; rounding to the grid g makes the shift at most
    (sensitivity + n_outputs g)/g in the l1 norm. Sampling is exact: Canonne,
    Kamath and Steinke 2020, Algorithm 2. Floating-point noise instead would
    give the values away by its low bits (Mironov 2012).

    Examples
    --------
    >>> from skparisk.mechanisms import LaplaceMechanism
    >>> mechanism = LaplaceMechanism(sensitivity=1.0, epsilon=0.5)
    >>> round(mechanism.noise_scale, 6)
    2.0
    >>> mechanism.release([3.0]).shape
    (1,)
    """

    sensitivity: float
    epsilon: float
    n_outputs: int = 1
    noise: AdditiveNoise = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._check()
        epsilon, n_outputs = self.epsilon, self.n_outputs
        if n_outputs / epsilon > MOST_STEPS / 2:
            least = f"n_outputs * 2**-51 = {n_outputs * 2.0**-51:g}"
            raise ValueError(
                f"epsilon must be at least {least} for noise on a grid, got "
                f"{epsilon!r}."
            )
        exponent, steps = (
            (0, 0)
            if math.isinf(epsilon)
            else _grid(Fraction(self.sensitivity), Fraction(epsilon), n_outputs)
        )
        noise = AdditiveNoise("laplace", steps, exponent, n_outputs)
        object.__setattr__(self, "noise", noise)
        if not math.isfinite(self.noise_scale):
            raise ValueError(
                f"sensitivity={self.sensitivity!r} and epsilon={epsilon!r} need a "
                "noise scale beyond the largest float."
            )

    def as_certificate(self) -> Certificate:
        loss = None
        if self.noise.steps:
            # Continuous noise within a step of the discrete, at both ends.
            excess = 2 * self.n_outputs / self.noise.steps
            loss = DominatingLoss("laplace", self.epsilon, excess)
        return Certificate(self.epsilon, loss=loss)

    def privacy_loss(self, distance: ArrayLike) -> NDArray[np.float64]:
        """Return the largest privacy loss of values that far apart, rounded up.

        Parameters
        ----------
        distance : array-like
            l1 distances of the values, >= 0, in units of the values.

        Returns
        -------
        loss : ndarray of the shape of `distance`
            (distance + n_outputs grid) / noise_scale; infinite without noise.
        """
        distance = np.asarray(distance, dtype=np.float64)
        if not self.noise.steps:
            return np.full(distance.shape, np.inf)
        with np.errstate(over="ignore"):  # an infinite loss is a safe answer
            enlarged = distance * (1 + float(ROUNDING_SLACK))
            loss = (enlarged + self.n_outputs * self.grid) / self.noise_scale
        # Up to the sensitivity the exact arithmetic of the grid says epsilon.
        most = np.where(distance <= self.sensitivity, self.epsilon, np.inf)
        return np.minimum(loss, most)


def _grid(sensitivity: Fraction, epsilon: Fraction, n_outputs: int) -> tuple[int, int]:
    """Return the grid's exponent and the noise scale in steps of the grid, exactly.

    The grid is fine against both the sensitivity, which pays for the rounding of
    each output, and the noise scale; at least as fine as 2**-32 of them.
    """
    exponent = floor_log2(sensitivity / max(Fraction(n_outputs), epsilon))
    exponent = max(exponent - _GRID_BITS, -1074)
    while True:
        step = Fraction(2) ** exponent
        distance = sensitivity * (1 + ROUNDING_SLACK) + n_outputs * step
        steps = math.ceil(distance / (epsilon * step))
        if steps <= MOST_STEPS:
            return exponent, steps
        exponent += 1
