"""The Gaussian mechanism for a known sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from skparisk.core.checks import check_probability
from skparisk.core.claim import Certificate, DominatingLoss, mint
from skparisk.core.laws import Gaussian
from skparisk.core.noise import ROUNDING_SLACK, AdditiveNoise
from skparisk.mechanisms._known import DECLARED, KnownMechanism


@dataclass(frozen=True)
class GaussianMechanism(KnownMechanism):
    """Gaussian noise for a known l2 sensitivity, drawn exactly on a grid.

    Parameters
    ----------
    sensitivity : float
        Largest l2 distance of the values of neighboring databases; finite, > 0,
        or >= 0 with ``epsilon=inf``. In units of the values.

    epsilon, n_outputs
        As in :class:`LaplaceMechanism`.

    delta : float
        Additive relaxation of differential privacy, in (0, 1).

    Attributes
    ----------
    noise_scale : float
        Standard deviation of the noise of each value.

    grid, noise : float, AdditiveNoise
        As in :class:`LaplaceMechanism`.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the noise scale is no finite number.

    Notes
    -----
    **Guarantee** (:ref:`thm-gaussian`). For databases whose values differ by at most
    `sensitivity` in the l2 norm, the release is (epsilon, delta)-differentially
    private: Balle and Wang 2018, Theorem 8. A share 2**-20 of `epsilon` pays for the
    grid. The noise is the discrete Gaussian of Canonne, Kamath and Steinke 2020.

    Examples
    --------
    >>> from skparisk.mechanisms import GaussianMechanism
    >>> mechanism = GaussianMechanism(sensitivity=1.0, epsilon=0.5, delta=1e-5)
    >>> round(mechanism.noise_scale, 3)
    7.032
    >>> mechanism.release([3.0]).shape
    (1,)
    """

    sensitivity: float
    epsilon: float
    delta: float
    n_outputs: int = 1
    noise: AdditiveNoise = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "delta", check_probability(self.delta, "delta"))
        epsilon, k, law = self.epsilon, self.n_outputs, Gaussian()
        if math.isinf(epsilon):
            noise = AdditiveNoise(law, 0, 0, k)
        else:
            factor, least_steps = law.unit_noise(epsilon, self.delta, k)
            scale = self.sensitivity * (1 + float(ROUNDING_SLACK)) * factor
            if not 0 < scale < math.inf:
                raise ValueError(
                    f"sensitivity={self.sensitivity!r} and epsilon={epsilon!r} need a "
                    "noise scale that is too large or too small for a float, "
                    f"{scale!r}."
                )
            noise = AdditiveNoise.at_least(
                law, scale, n_outputs=k, least_steps=least_steps
            )
        object.__setattr__(self, "noise", noise)

    def as_certificate(self) -> Certificate:
        loss = None
        if self.noise.steps:
            shift = self.sensitivity / self.noise_scale
            loss = DominatingLoss.on_grid("gaussian", shift, self.epsilon)
        return mint(
            epsilon=self.epsilon,
            delta=self.delta,
            loss=loss,
            assumptions=DECLARED,
        )
