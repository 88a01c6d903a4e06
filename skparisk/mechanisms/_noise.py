"""Noise of one law on a power-of-two grid, drawn exactly."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.certificate import Certificate
from skparisk.core.checks import as_float, check_at_least, check_epsilon, check_positive
from skparisk.core.exact import noise_source
from skparisk.core.laws import Law, as_law
from skparisk.core.rounding import MOST_STEPS, USUAL_STEPS
from skparisk.mechanisms._charge import charge
from skparisk.mechanisms._shapes import (
    DiagonalShape,
    IsotropicShape,
    NoiseShape,
    PartialShape,
    check_n_outputs,
    whole_shape,
)

# What is computed in floating point (norms, bounds) is enlarged by this share.
ROUNDING_SLACK = Fraction(1, 2**30)

_ISOTROPIC = IsotropicShape()
# For answers so many noise scales away the way back from the shape is refined; each
# time the rounding error shrinks by ten digits or so.
_FAR = 2**20
_REFINEMENTS = 2
# Rows of the identity that are mapped together.
_BLOCK = 256


class OnGrid:
    """A noise scale in steps of a grid, which is a power of two."""

    steps: int
    exponent: int

    @property
    def grid(self) -> float:
        return math.ldexp(1.0, self.exponent)

    @property
    def noise_scale(self) -> float:
        return to_float(self.steps, self.exponent)


@dataclass(frozen=True)
class AdditiveNoise(OnGrid):
    """Noise of a law, a scale and a shape, on a power-of-two grid, drawn exactly.

    Values are mapped to the coordinates of the shape and rounded to multiples of the
    grid, noise is added in whole numbers, and the sum is converted back: what is
    released is a function of the noisy whole numbers only.

    Parameters
    ----------
    law : {"laplace", "gaussian"} or Law
        Discrete Laplace or discrete Gaussian noise, or a law of one's own.

    steps : int
        Noise scale in steps of the grid, in [0, 2**52]; 0 for no noise at all.

    exponent : int
        The grid is 2**exponent, in the coordinates of the shape.

    n_outputs : int, default=1
        Number of values that are released together, >= 1.

    shape : NoiseShape, default=IsotropicShape()
        How much noise each direction gets.

    Attributes
    ----------
    noise_scale : float
        Scale of the noise of each coordinate of the shape: b for Laplace noise, of
        density exp(-\\|z\\|/b)/(2b); the standard deviation for Gaussian noise.

    grid : float
        Distance of neighboring releasable values, in the coordinates of the shape.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee**. None by itself: what a scale guarantees follows from how it was
    calibrated. Sampling is exact (Canonne, Kamath and Steinke 2020). Floating-point
    noise instead would give the values away by its low bits (Mironov 2012).

    Examples
    --------
    >>> from skparisk.mechanisms import AdditiveNoise
    >>> noise = AdditiveNoise.at_least("gaussian", 2.5, n_outputs=2)
    >>> round(noise.noise_scale, 6)
    2.5
    >>> noise.release([3.0, 4.0]).shape
    (2,)
    """

    law: Any
    steps: int
    exponent: int
    n_outputs: int = 1
    shape: NoiseShape = _ISOTROPIC

    def __post_init__(self) -> None:
        object.__setattr__(self, "law", as_law(self.law))
        if self.law.chooses:
            raise ValueError(f"law must be of noise to add to numbers, got {self.law}.")
        check_at_least(self.n_outputs, "n_outputs", 1)
        check_at_least(self.exponent, "exponent", -1074)
        if check_at_least(self.steps, "steps", 0) > MOST_STEPS:
            raise ValueError(f"steps must be at most 2**52, got {self.steps!r}.")
        check_n_outputs(whole_shape(self.shape), self.n_outputs)
        for name in ("steps", "exponent", "n_outputs"):  # no short integers
            object.__setattr__(self, name, int(getattr(self, name)))

    @classmethod
    def at_least(
        cls,
        law: str | Law,
        noise_scale: float,
        *,
        n_outputs: int = 1,
        shape: NoiseShape = _ISOTROPIC,
        least_steps: int = 1,
    ) -> Self:
        """Return noise of a scale, rounded up.

        Parameters
        ----------
        law, n_outputs, shape
            As in the class.

        noise_scale : float
            Finite, > 0, in the coordinates of the shape.

        least_steps : int, default=1
            Steps of the grid that the scale must have at least, up to 2**51, for the
            rounding of values to be small against the noise.

        Returns
        -------
        noise : AdditiveNoise
            Its scale is at most a share 2**-40 above the one that was asked for,
            unless that is next to the smallest numbers there are.

        Raises
        ------
        ValueError
            If a parameter is out of range, or the scale is beyond what a number holds.
        """
        scale = Fraction(check_positive(noise_scale, "noise_scale"))
        bits = (max(USUAL_STEPS, least_steps) - 1).bit_length()
        if bits >= MOST_STEPS.bit_length() - 1:
            raise ValueError(f"least_steps must be at most 2**51, got {least_steps!r}.")
        exponent = max(floor_log2(scale) - bits, -1074)
        steps = max(math.ceil(scale / Fraction(2) ** exponent), least_steps)
        noise = cls(law, steps, exponent, n_outputs, shape)
        if not math.isfinite(noise.noise_scale):
            raise ValueError(
                f"noise_scale={noise_scale!r} is too close to the largest float."
            )
        return noise

    @property
    def is_uncorrelated(self) -> bool:
        """Whether the noise of each output is drawn by itself."""
        return isinstance(whole_shape(self.shape), IsotropicShape | DiagonalShape)

    def deviations(self) -> NDArray[np.float64]:
        """Return the standard deviation of the noise of each output.

        Returns
        -------
        deviations : ndarray of shape (n_outputs,)
            In units of the outputs.
        """
        size, shape = self.n_outputs, self.shape
        unit = self.noise_scale * self.law.deviation
        with np.errstate(over="ignore"):
            if self.is_uncorrelated:
                return np.asarray(shape.color(np.full((1, size), unit)))[0]
            squares = np.zeros(size)
            for start in range(0, size, _BLOCK):
                rows = np.eye(min(_BLOCK, size - start), size, start)
                squares += (shape.color(rows) ** 2).sum(axis=0)
            return np.asarray(unit * np.sqrt(squares))

    def covariance(self) -> NDArray[np.float64]:
        """Return the covariance of the noise of all outputs.

        Returns
        -------
        covariance : ndarray of shape (n_outputs, n_outputs)
            In units of the outputs squared. For standard errors of what is released.
        """
        units = self.noise_scale * self.law.deviation
        with np.errstate(over="ignore"):
            factor = self.shape.color(units * np.eye(self.n_outputs))
            return np.asarray(factor.T @ factor)

    def release(
        self,
        values: ArrayLike,
        *,
        charges: Sequence[Certificate] | None = None,
        note: str = "",
        noise_random_state: Any = None,
    ) -> NDArray[np.float64]:
        """Return the values with fresh noise.

        Parameters
        ----------
        values : array-like, last axis of length `n_outputs`
            Finite numbers. Each row is a release of its own.

        charges : sequence of Certificate, default=None
            What open ledgers are charged: one for each row, or one for all rows, which
            must then be about different people. None: it is not known, and refused
            where a ledger is open.

        note : str, default=""
            What is released, for the ledgers: nothing private.

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

        BudgetExceededError, IncompatibleError
            If a ledger is open and refuses.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim == 0 or values.shape[-1] != self.n_outputs:
            raise ValueError(
                f"values must have {self.n_outputs} outputs (n_outputs) along the "
                f"last axis, got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ValueError("values must be finite numbers, got NaN or infinity.")
        source = noise_source(noise_random_state)
        rows = values.reshape(-1, self.n_outputs)
        if self.steps:  # what takes memory comes before the charge
            numbers, exponent = self.shape.whiten_exactly(rows)
            on_grid = round_to_grid(numbers, exponent - self.exponent)
        charge(charges, len(rows), "AdditiveNoise", note, noise_random_state)
        if self.steps:
            noise = self.law.sample(self.steps, values.size, source)
            noisy = on_grid + noise.astype(object).reshape(on_grid.shape)
            rows = self._from_grid(noisy)
        else:
            rows = rows.copy()
        if isinstance(self.shape, PartialShape):
            constant = self.shape.constant
            rows[:, constant.outputs] = constant.values
        return rows.reshape(values.shape)

    def _from_grid(self, noisy: NDArray[np.object_]) -> NDArray[np.float64]:
        """Return the outputs that whole numbers of the grid stand for.

        The shape's way back is rounded, and answers may be far larger than the noise:
        what is left, found exactly, is mapped back as well. All of it is a function of
        the noisy whole numbers, which are what is released.
        """
        with np.errstate(all="ignore"):  # a warning would depend on the answer
            released = self.shape.color(self._to_floats(noisy, self.exponent))
            if isinstance(whole_shape(self.shape), IsotropicShape):
                return released
            far = (np.abs(noisy) > _FAR * self.steps).any(axis=1)
            rows = np.flatnonzero(far & np.isfinite(released).all(axis=1))
            for _ in range(_REFINEMENTS if rows.size else 0):
                numbers, exponent = self.shape.whiten_exactly(released[rows])
                least = min(exponent, self.exponent)
                left = (noisy[rows] << (self.exponent - least)) - (
                    numbers << (exponent - least)
                )
                released[rows] += self.shape.color(self._to_floats(left, least))
        return released

    @staticmethod
    def _to_floats(steps: NDArray[np.object_], exponent: int) -> NDArray[np.float64]:
        floats = [to_float(step, exponent) for step in steps.ravel()]
        return np.array(floats, dtype=np.float64).reshape(steps.shape)


class KnownMechanism(ABC):
    """A mechanism that knows its sensitivity, and so its noise."""

    sensitivity: float
    epsilon: float
    n_outputs: int
    noise: AdditiveNoise

    def _check(self) -> None:
        """Make plain numbers of the parameters, or refuse them."""
        epsilon = check_epsilon(self.epsilon)
        n_outputs = check_at_least(self.n_outputs, "n_outputs", 1)
        check_sensitivity(self.sensitivity, epsilon)
        object.__setattr__(self, "sensitivity", float(self.sensitivity))
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "n_outputs", n_outputs)

    @abstractmethod
    def as_certificate(self) -> Certificate:
        """Return the claim that composition and budgets count for one release."""

    @property
    def grid(self) -> float:
        return self.noise.grid

    @property
    def noise_scale(self) -> float:
        return self.noise.noise_scale

    def release(
        self, values: ArrayLike, *, noise_random_state: Any = None
    ) -> NDArray[np.float64]:
        """Return the values with fresh noise.

        Parameters
        ----------
        values, noise_random_state
            As in :meth:`AdditiveNoise.release`.

        Returns
        -------
        released : ndarray of the shape of `values`

        Raises
        ------
        ValueError, BudgetExceededError
            As there; each row is charged.
        """
        # What counts are numbers: a `size` of the caller's may be anything.
        values = np.asarray(values, dtype=np.float64)
        n_rows = values.size // self.noise.n_outputs
        return self.noise.release(
            values,
            charges=[self.as_certificate()] * n_rows,
            note=str(self),
            noise_random_state=noise_random_state,
        )


def check_sensitivity(sensitivity: float, epsilon: float) -> None:
    """Refuse a sensitivity that gives no noise, or no finite one."""
    allowed = "at least" if math.isinf(epsilon) else "above"
    value = as_float(sensitivity)
    if not 0 <= value < math.inf or (value == 0 and math.isfinite(epsilon)):
        raise ValueError(
            f"sensitivity must be a finite number {allowed} 0, got {sensitivity!r}."
        )


def floor_log2(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


def round_to_grid(numbers: NDArray[np.object_], shift: int) -> NDArray[np.object_]:
    """Return whole numbers times 2**shift, rounded to whole numbers, half up."""
    if shift >= 0:
        return numbers << shift
    return (numbers + (1 << (-shift - 1))) >> -shift


def to_float(steps: int, exponent: int) -> float:
    """Return steps * 2**exponent, rounded once; infinite beyond the largest number."""
    try:
        return float(steps << exponent) if exponent >= 0 else steps / (1 << -exponent)
    except OverflowError:
        return math.inf if steps > 0 else -math.inf
