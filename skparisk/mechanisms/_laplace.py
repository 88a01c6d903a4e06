"""The Laplace mechanism for a known sensitivity."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core.calibrate import laplace_loss
from skparisk.core.claim import Certificate, mint
from skparisk.core.noise import ROUNDING_SLACK, AdditiveNoise, laplace_noise
from skparisk.mechanisms._known import DECLARED, KnownMechanism


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
        noise = laplace_noise(self.sensitivity, self.epsilon, self.n_outputs)
        object.__setattr__(self, "noise", noise)

    def as_certificate(self) -> Certificate:
        return mint(
            epsilon=self.epsilon,
            loss=laplace_loss(self.noise, self.epsilon),
            assumptions=DECLARED,
        )

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
