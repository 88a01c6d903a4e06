"""Gaussian noise."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from skparisk.core import rounding as grid
from skparisk.core.checks import check_choice, check_positive
from skparisk.core.exact import ByteSource, sample_discrete_gaussian
from skparisk.laws._base import Curve, Law, UnitNoise
from skparisk.laws._rows import check_pairs, rescale, row_norms
from skparisk.privacy_loss import (
    gaussian_classical_shift,
    gaussian_delta,
    gaussian_delta_epsilon,
    gaussian_explicit_shift,
    gaussian_loss_exceedance,
    gaussian_risk,
    gaussian_risk_shift,
    gaussian_shift,
)

_Floats = NDArray[np.float64]
_CURVE_POINTS = 256
_SHIFTS = {"analytic": gaussian_shift, "classical": gaussian_classical_shift}


@dataclass(frozen=True)
class Gaussian(Law):
    r"""Gaussian noise; its scale is its standard deviation.

    A pair with difference v and noise E of scale 1 has at noise scale
    :math:`\sigma = 1/s` the loss :math:`s^2 \|v\|^2/2 - s (v \cdot E)`, a parabola.

    Parameters
    ----------
    calibration : {"analytic", "classical"}, default="analytic"
        The scale for a delta: the least there is (Balle and Wang 2018, Theorem 8), or
        the textbook's for epsilon up to 1 (Dwork and Roth 2014, Theorem A.1).

    Notes
    -----
    **Guarantee** (:ref:`thm-gaussian`, :ref:`thm-critical-scale`). At every scale
    :math:`\sigma \ge \sigma^*` the loss of a pair is within :math:`\pm\varepsilon`, and
    just below :math:`\sigma^*` it is not. This holds up to rounding, to either side, by
    about :math:`k \, 2^{-52} \, \|v\| \, (\|v\|/\sigma^* + \|E\|) / \sigma^*` of the
    loss for k outputs.

    Examples
    --------
    >>> from skparisk.laws import Gaussian
    >>> Gaussian().critical_scales([[1.0], [1.0]], [[1.0], [-0.75]], epsilon=0.5)
    array([0.41421356, 2.        ])
    >>> Gaussian().peak_losses([[1.0], [1.0]], [[1.0], [-0.75]], scale=2.0)
    array([0.375, 0.5  ])
    """

    calibration: str = "analytic"
    name: ClassVar[str] = "gaussian"
    norm: ClassVar[float] = 2
    deviation: ClassVar[float] = 1.0
    bounded: ClassVar[bool] = False
    takes_delta: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice(self.calibration, "calibration", _SHIFTS)

    @property
    def draws(self) -> bool:  # type: ignore[override]
        """Whether pairs can be tried with draws; the textbook's scale is for delta."""
        return self.calibration == "analytic"

    @property
    def most_epsilon(self) -> float:  # type: ignore[override]
        """Where the scale for a delta is proven."""
        return 1.0 if self.calibration == "classical" else math.inf

    @property
    def knows_risk(self) -> bool:  # type: ignore[override]
        """Whether the risk of a pair is known."""
        return self.draws

    def sample(self, scale: int, size: int, source: ByteSource) -> NDArray[np.int64]:
        return sample_discrete_gaussian(scale, size, source)

    def unit_noise(self, epsilon: float, delta: float, n_outputs: int) -> UnitNoise:
        if epsilon > self.most_epsilon:
            raise ValueError(
                "epsilon must be at most 1 with the classical calibration of Gaussian "
                f"noise, which is proven only there; got {epsilon!r}."
            )
        shift = _SHIFTS[self.calibration](grid.below(epsilon), delta)
        steps = grid.gaussian_steps(epsilon, n_outputs, shift)
        # Rounding to the grid lengthens the distance by at most sqrt(k) steps.
        return UnitNoise(1 / (shift - math.sqrt(n_outputs) / steps), steps)

    def levels(
        self, shifts: _Floats, epsilon: float, delta: float, *, n_outputs: int
    ) -> _Floats:
        steps = self.unit_noise(epsilon, delta, n_outputs).steps
        longest, spent = self.on_grid(shifts, n_outputs, steps)
        return np.asarray(gaussian_delta_epsilon(delta, longest) + spent)

    def composes(self, n_outputs: int) -> bool:
        return True

    def profile(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        return gaussian_delta(epsilon, shift)

    def trade_off(self, false_positive_rate: ArrayLike, shift: ArrayLike) -> Any:
        # Guessing has its own rate; for tiny rates ndtri may be infinite.
        known = ndtr(ndtri(false_positive_rate) + shift)
        return np.maximum(known, false_positive_rate)

    def on_grid(
        self, shifts: _Floats, n_outputs: int, steps: int
    ) -> tuple[_Floats, _Floats]:
        rounding = math.sqrt(n_outputs) / steps
        longest = shifts * (1 + 2.0**-40) + rounding
        return longest, longest * rounding

    def loss_distribution(self, shift: float, step: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.from_gaussian_mechanism(
            1 / shift, value_discretization_interval=step
        )

    def noise_at_risk(
        self, epsilon: float, gamma: float, n_outputs: int
    ) -> tuple[UnitNoise, float, Curve]:
        if self.calibration == "classical":
            raise ValueError(
                "the classical calibration of Gaussian noise is for a delta, not for a "
                "risk over the noise."
            )
        shift = gaussian_explicit_shift(grid.below(epsilon), gamma)
        steps = grid.gaussian_steps(epsilon, n_outputs, shift)
        rounding = math.sqrt(n_outputs) / steps
        levels = epsilon * np.geomspace(2.0**-8, 2.0**8, _CURVE_POINTS)
        left = np.maximum(levels - rounding * shift, 0.0)
        curve = levels, gaussian_loss_exceedance(left, shift)
        return UnitNoise(1 / (shift - rounding), steps), gamma, curve

    def standard_noise(
        self, rng: np.random.Generator, size: tuple[int, ...]
    ) -> _Floats:
        return rng.normal(size=size)

    def critical_scales(
        self, differences: ArrayLike, noise: ArrayLike, epsilon: float
    ) -> _Floats:
        epsilon = check_positive(epsilon, "epsilon")
        norms, z, exponents = _projected(differences, noise)
        # With t = s |v|: C = t**2 / 2 - t z, which dips below -epsilon iff z > bound.
        bound = math.sqrt(min(2 * epsilon, sys.float_info.max))
        dips = z > bound
        dip = np.sqrt(np.maximum(z - bound, 0)) * np.sqrt(np.maximum(z + bound, 0))
        total = np.abs(z) + np.where(dips, dip, np.hypot(z, bound))
        # The roots of t**2 / 2 - t z = ±epsilon, without cancellation: total is
        # 2 epsilon / t where C dips and where z < 0, and t elsewhere.
        with np.errstate(divide="ignore", over="ignore"):
            scales = norms * np.where(dips | (z < 0), total / 2 / epsilon, 1 / total)
            return np.ldexp(scales, exponents)

    def peak_losses(
        self, differences: ArrayLike, noise: ArrayLike, scale: float
    ) -> _Floats:
        mantissa, exponent = math.frexp(check_positive(scale, "scale"))
        norms, z, exponents = _projected(differences, noise)
        with np.errstate(over="ignore"):
            end = np.ldexp(norms / mantissa, exponents - exponent)
            least = np.minimum(end, np.maximum(z, 0))  # where t**2 / 2 - t z is least
            return np.maximum(end * (end / 2 - z), least * (z - least / 2))

    def off_by(
        self, errors: _Floats, differences: _Floats, noise: _Floats
    ) -> tuple[_Floats, _Floats]:
        off = row_norms(errors, 2)
        linear = off * row_norms(noise, 2)
        return linear, off * (row_norms(differences, 2) + off / 2)

    def drawn_steps(self, epsilon: float, n_outputs: int) -> int:
        return grid.drawn_gaussian_steps(epsilon, n_outputs)

    def pair_risks(
        self,
        distances: _Floats,
        scale: float,
        levels: ArrayLike,
        *,
        n_outputs: int,
        steps: int,
    ) -> _Floats:
        longest, spent = self.on_grid(distances / scale, n_outputs, steps)
        left = np.maximum(np.subtract(levels, spent), 0.0)
        return np.asarray(gaussian_risk(left, longest))

    def risk_steps(self, epsilon: float, gamma: float, n_outputs: int) -> int:
        shift = gaussian_risk_shift(epsilon, gamma)
        return grid.gaussian_steps(epsilon, n_outputs, shift)


def _projected(
    differences: ArrayLike, noise: ArrayLike
) -> tuple[_Floats, _Floats, NDArray[np.int32]]:
    """Return the norms (times 2**exponents) and the noise along each difference."""
    v, noise = check_pairs(differences, noise)
    v, exponents = rescale(v)
    norms = np.sqrt(np.einsum("ij,ij->i", v, v))
    z = np.einsum("ij,ij->i", v, noise) / np.where(norms > 0, norms, 1)
    return norms, z, exponents
