"""Mechanisms: exact noise of a given scale, and what it costs in privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk._secure_noise import noise_source, sample_discrete_laplace
from skparisk._validate import check_at_least, check_epsilon

__all__ = ["LaplaceMechanism"]

# What is computed in floating point (norms, bounds) is enlarged by this share.
_ROUNDING_SLACK = Fraction(1, 2**30)
# Steps of the grid per sensitivity (or noise scale) and output, and at the most.
_GRID_BITS = 32
_MOST_STEPS = 2**52


@dataclass(frozen=True)
class LaplaceMechanism:
    """Laplace noise on a power-of-two grid, drawn exactly.

    Values are rounded to multiples of the grid, discrete Laplace noise is added
    in whole numbers, and the sum is converted back once: what is released is a
    function of the noisy whole numbers only.

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

    Raises
    ------
    ValueError
        If a parameter is out of range, or the noise scale is no finite number.

    Notes
    -----
    **Guarantee**. For databases whose values differ by at most `sensitivity` in
    the l1 norm, the release is epsilon-differentially private (Dwork et al. 2006).
    Discrete Laplace noise of scale t on the integers has privacy loss at most
    |d|/t for a shift by d; rounding to the grid g makes the shift at most
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
    _exponent: int = field(init=False, repr=False)
    _steps: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        epsilon = check_epsilon(self.epsilon)
        n_outputs = check_at_least(self.n_outputs, "n_outputs", 1)
        allowed = "at least" if math.isinf(epsilon) else "above"
        if not 0 <= self.sensitivity < math.inf or (
            self.sensitivity == 0 and math.isfinite(epsilon)
        ):
            raise ValueError(
                f"sensitivity must be a finite number {allowed} 0, got "
                f"{self.sensitivity!r}."
            )
        if n_outputs / epsilon > _MOST_STEPS / 2:
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
        object.__setattr__(self, "_exponent", exponent)
        object.__setattr__(self, "_steps", steps)
        if not math.isfinite(self.noise_scale):
            raise ValueError(
                f"sensitivity={self.sensitivity!r} and epsilon={epsilon!r} need a "
                "noise scale beyond the largest number."
            )

    @property
    def grid(self) -> float:
        return math.ldexp(1.0, self._exponent)

    @property
    def noise_scale(self) -> float:
        return _to_float(self._steps, self._exponent)

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
        if not self._steps:
            return np.full(distance.shape, np.inf)
        with np.errstate(over="ignore"):  # an infinite loss is a safe answer
            enlarged = distance * (1 + float(_ROUNDING_SLACK))
            loss = (enlarged + self.n_outputs * self.grid) / self.noise_scale
        # Up to the sensitivity the exact arithmetic of the grid says epsilon.
        most = np.where(distance <= self.sensitivity, self.epsilon, np.inf)
        return np.minimum(loss, most)

    def release(
        self, values: ArrayLike, *, noise_random_state: Any = None
    ) -> NDArray[np.float64]:
        """Return the values with fresh noise.

        Parameters
        ----------
        values : array-like, last axis of length `n_outputs`
            Finite numbers. Each row is a release of its own.

        noise_random_state : int, RandomState, Generator or None, default=None
            None: the operating system's cryptographic source. Anything else is
            for tests: a release whose noise can be repeated is not private.

        Returns
        -------
        released : ndarray of the shape of `values`

        Raises
        ------
        ValueError
            If a value is NaN or infinite, or the last axis has another length.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim == 0 or values.shape[-1] != self.n_outputs:
            raise ValueError(
                f"values must have {self.n_outputs} outputs (n_outputs) along the "
                f"last axis, got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ValueError("values must be finite numbers, got NaN or infinity.")
        if not self._steps:
            return values.copy()
        noise = sample_discrete_laplace(
            self._steps, values.size, noise_source(noise_random_state)
        )
        released = [
            _to_float(_to_grid(value, self._exponent) + draw, self._exponent)
            for value, draw in zip(values.ravel().tolist(), noise.tolist(), strict=True)
        ]
        return np.array(released).reshape(values.shape)


def _grid(sensitivity: Fraction, epsilon: Fraction, n_outputs: int) -> tuple[int, int]:
    """Return the grid's exponent and the noise scale in steps of the grid, exactly.

    The grid is fine against both the sensitivity, which pays for the rounding of
    each output, and the noise scale; at least as fine as 2**-32 of them.
    """
    exponent = _floor_log2(sensitivity / max(Fraction(n_outputs), epsilon))
    exponent = max(exponent - _GRID_BITS, -1074)
    while True:
        step = Fraction(2) ** exponent
        distance = sensitivity * (1 + _ROUNDING_SLACK) + n_outputs * step
        steps = math.ceil(distance / (epsilon * step))
        if steps <= _MOST_STEPS:
            return exponent, steps
        exponent += 1


def _floor_log2(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


def _to_grid(value: float, exponent: int) -> int:
    """Return value / 2**exponent, rounded half to even, exactly."""
    numerator, denominator = value.as_integer_ratio()
    shift = -exponent - (denominator.bit_length() - 1)
    if shift >= 0:
        return numerator << shift
    quotient, remainder = divmod(numerator, 1 << -shift)
    half = 1 << (-shift - 1)
    return quotient + (remainder > half or (remainder == half and quotient % 2 == 1))


def _to_float(steps: int, exponent: int) -> float:
    """Return steps * 2**exponent, rounded once; infinite beyond the largest number."""
    try:
        return float(steps << exponent) if exponent >= 0 else steps / (1 << -exponent)
    except OverflowError:
        return math.inf if steps > 0 else -math.inf
