"""Noise of one law on a power-of-two grid, drawn exactly, of a shape.

A shape is an invertible linear map, chosen from public pairs. The answer is mapped to
coordinates in which the noise is the same for all, and what is released is mapped back:
the second map is post-processing, so only the first matters for privacy, and it is
computed in whole numbers, without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core.checks import check_at_least, check_positive
from skparisk.core.exact import ByteSource
from skparisk.core.laws import Law, as_law
from skparisk.core.rounding import MOST_STEPS, USUAL_STEPS

_Floats = NDArray[np.float64]
# Python's whole numbers in an array, and the exponent: numbers * 2**exponent.
Dyadic: TypeAlias = tuple[NDArray[np.object_], int]

# What is computed in floating point (norms, bounds) is enlarged by this share.
ROUNDING_SLACK = Fraction(1, 2**30)
# Condition number from which on rounding of what is mapped would cost more than is set
# aside for it; less for more than 64 outputs.
_SINGULAR = 2.0**20
# For answers so many noise scales away the way back from the shape is refined; each
# time the rounding error shrinks by ten digits or so.
_FAR = 2**20
_REFINEMENTS = 2
# Steps of the grid per sensitivity (or noise scale) and output, as a rule at least.
_GRID_BITS = 32


@dataclass(frozen=True, eq=False)
class NoiseShape:
    """Noise per direction: an invertible linear map.

    Parameters
    ----------
    factor : array-like, default=1.0
        The same noise for each output (1, "isotropic"); noise of each output in
        proportion to a scale of its own, of shape (n_outputs,) ("diagonal"); or L, of
        shape (n_outputs, n_outputs), for noise of covariance L L' times a number
        ("whitened"). Invertible, in units of the outputs.
    """

    factor: NDArray[np.float64] = field(default_factory=lambda: np.array(1.0))
    # What it is rounded to is the map: one and the same wherever it is used.
    _inverse: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # A copy that nobody changes after the noise was calibrated for it.
        factor = np.array(self.factor, dtype=np.float64)
        inverse = _inverse(factor)
        for name, values in (("factor", factor), ("_inverse", inverse)):
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    @property
    def name(self) -> str:
        """Its name on certificates."""
        return ("isotropic", "diagonal", "whitened")[self.factor.ndim]

    def __eq__(self, other: object) -> bool:
        return type(other) is NoiseShape and np.array_equal(self.factor, other.factor)

    def __hash__(self) -> int:
        return hash(self.factor.tobytes())

    def whiten(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows of answers in coordinates with equal noise."""
        return np.asarray(_mapped(values, self._inverse))

    def whiten_errors(self, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound the error of whitened coordinates by the error of rows."""
        return np.asarray(_mapped(errors, np.abs(self._inverse)))

    def whiten_exactly(self, values: NDArray[np.float64]) -> Dyadic:
        """Whiten rows without rounding."""
        numbers, exponent = to_dyadic(values)
        weights, weights_exponent = to_dyadic(self._inverse)
        return _mapped(numbers, weights), exponent + weights_exponent

    def color(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows of answers from whitened coordinates."""
        return np.asarray(_mapped(values, self.factor))


@dataclass(frozen=True, eq=False)
class Constant:
    """Outputs that are not released, and what stands in their place.

    Parameters
    ----------
    outputs : ndarray of int of shape (n_constant,)
        Which they are.

    values : ndarray of shape (n_constant,)
        What they are on public records.
    """

    outputs: NDArray[np.intp]
    values: NDArray[np.float64]


def check_shape(shape: NoiseShape, n_outputs: int) -> None:
    """Refuse what is no shape of these, or one for another number of outputs.

    Of another one it is not known that its map is what it says.
    """
    if type(shape) is not NoiseShape:
        raise ValueError(f"noise_shape must be a NoiseShape, got {shape!r}.")
    if shape.factor.ndim and len(shape.factor) != n_outputs:
        raise ValueError(
            f"noise_shape must be for {n_outputs} outputs, as the query has, got one "
            f"for {len(shape.factor)}."
        )


def _mapped(rows: Any, weights: Any) -> Any:
    return rows @ weights.T if np.ndim(weights) == 2 else rows * weights


def _inverse(factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverse of a map whose outputs may be in far units."""
    inverse = np.array(np.nan)
    with np.errstate(all="ignore"):
        if factor.ndim == 2 and len(factor) == factor.shape[1]:
            units = np.abs(factor).max(axis=1, initial=0.0)
            unitless = factor / units[:, None]  # no overflow between far units
            most = min(_SINGULAR, 2.0**32 / factor.shape[1] ** 2)
            if np.isfinite(unitless).all() and np.linalg.cond(unitless) < most:
                inverse = np.linalg.inv(unitless) / units
        elif factor.ndim == 1 and (np.isfinite(factor) & (factor > 0)).all():
            inverse = 1 / factor
        elif factor.ndim == 0 and factor == 1:
            inverse = factor.copy()
    if np.isfinite(inverse).all():
        return inverse
    raise ValueError(
        "factor must be 1, of shape (n_outputs,) with numbers above 0, or of shape "
        "(n_outputs, n_outputs) and invertible, all finite as are those of the inverse;"
        f" got another one, of shape {factor.shape}."
    )


def to_dyadic(values: Any) -> Dyadic:
    """Return finite numbers as whole numbers of Python times one power of two, exactly.

    Examples
    --------
    >>> from skparisk.core import to_dyadic
    >>> to_dyadic([0.75, 2.0])
    (array([6755399441055744, 18014398509481984], dtype=object), -53)
    """
    mantissas, exponents = np.frexp(np.asarray(values, dtype=np.float64))
    exponents = np.where(mantissas == 0, 0, exponents - 53)
    whole = np.ldexp(mantissas, 53).astype(np.int64).astype(object)
    least = int(exponents.min(initial=0))
    return whole << (exponents - least).astype(object), least


_ISOTROPIC = NoiseShape()


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
    """Exact noise with a law, a scale and a shape, on a power-of-two grid.

    Values are mapped to the coordinates of the shape and rounded to multiples of the
    grid. Noise is added in whole numbers, and the sum is converted back. So the release
    is a function of the noisy whole numbers only.

    Parameters
    ----------
    law : {"laplace", "gaussian"} or Law
        Discrete Laplace or discrete Gaussian noise, or a law of one's own.

    steps : int
        Noise scale in steps of the grid, in [0, 2**52]; 0 for no noise at all.

    exponent : int
        The grid is 2**exponent, in the coordinates of the shape.

    n_outputs : int, default=1
        Number of values released together, >= 1.

    shape : NoiseShape, default=NoiseShape()
        How much noise each direction gets.

    constant : Constant, default=None
        Outputs in whose place something public is put when the noise has been added.

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
    **Guarantee**. None by itself: the guarantee of a scale follows from its
    calibration. Sampling is exact (Canonne, Kamath and Steinke 2020). Floating-point
    noise instead would give the values away by its low bits (Mironov 2012).

    Examples
    --------
    >>> from skparisk.core import AdditiveNoise
    >>> noise = AdditiveNoise.at_least("gaussian", 2.5, n_outputs=2)
    >>> round(noise.noise_scale, 6)
    2.5
    >>> noise.deviations().round(6)
    array([2.5, 2.5])
    """

    law: Any
    steps: int
    exponent: int
    n_outputs: int = 1
    shape: NoiseShape = _ISOTROPIC
    constant: Constant | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "law", as_law(self.law))
        if self.law.chooses:
            raise ValueError(f"law must be of noise to add to numbers, got {self.law}.")
        check_at_least(self.n_outputs, "n_outputs", 1)
        check_at_least(self.exponent, "exponent", -1074)
        if check_at_least(self.steps, "steps", 0) > MOST_STEPS:
            raise ValueError(f"steps must be at most 2**52, got {self.steps!r}.")
        check_shape(self.shape, self.n_outputs)
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
        constant: Constant | None = None,
        least_steps: int = 1,
    ) -> Self:
        """Return noise of a scale, rounded up.

        By a share 2**-40 at most, unless it is next to the smallest numbers there are.
        The scale is finite, > 0, in the coordinates of the shape, and has `least_steps`
        steps of the grid at least, up to 2**51, for the rounding of values to be small
        against the noise.
        """
        scale = Fraction(check_positive(noise_scale, "noise_scale"))
        bits = (max(USUAL_STEPS, least_steps) - 1).bit_length()
        if bits >= MOST_STEPS.bit_length() - 1:
            raise ValueError(f"least_steps must be at most 2**51, got {least_steps!r}.")
        exponent = max(floor_log2(scale) - bits, -1074)
        steps = max(math.ceil(scale / Fraction(2) ** exponent), least_steps)
        noise = cls(law, steps, exponent, n_outputs, shape, constant)
        if not math.isfinite(noise.noise_scale):
            raise ValueError(
                f"noise_scale={noise_scale!r} is too close to the largest float."
            )
        return noise

    def deviations(self) -> NDArray[np.float64]:
        """Return the standard deviation of the noise of each output, (n_outputs,)."""
        factor = self.shape.factor
        with np.errstate(over="ignore"):
            if factor.ndim == 2:
                factor = np.sqrt((factor**2).sum(axis=1))
            found = self.noise_scale * self.law.deviation * factor
        found = np.broadcast_to(found, self.n_outputs).copy()
        if self.constant is not None:
            found[self.constant.outputs] = 0.0
        return found

    def covariance(self) -> NDArray[np.float64]:
        """Return the covariance of the noise, of shape (n_outputs, n_outputs).

        For standard errors of the release.
        """
        units = self.noise_scale * self.law.deviation
        with np.errstate(over="ignore"):
            factor = self.shape.color(units * np.eye(self.n_outputs))
            if self.constant is not None:
                factor[:, self.constant.outputs] = 0.0
            return np.asarray(factor.T @ factor)

    def prepare(self, values: ArrayLike) -> Callable[[ByteSource], _Floats]:
        """Return a function that adds the noise; it checks and allocates first.

        Finite numbers. Each row, of `n_outputs` numbers, is a release of its own.
        ``draw(source)`` returns them with fresh noise, made of random bytes.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim == 0 or values.shape[-1] != self.n_outputs:
            raise ValueError(
                f"values must have {self.n_outputs} outputs (n_outputs) along the "
                f"last axis, got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ValueError("values must be finite numbers, got NaN or infinity.")
        shape, rows = values.shape, values.reshape(-1, self.n_outputs)
        if self.steps:
            numbers, exponent = self.shape.whiten_exactly(rows)
            on_grid = round_to_grid(numbers, exponent - self.exponent)

        def draw(source: ByteSource) -> _Floats:
            released = rows.copy()
            if self.steps:
                noise = np.asarray(self.law.sample(self.steps, rows.size, source))
                whole = (isinstance(z, int | np.integer) for z in noise.ravel())
                if noise.dtype.kind not in "iu" and not all(whole):
                    raise TypeError(f"law must draw whole numbers, unlike {self.law}.")
                noisy = on_grid + noise.astype(object).reshape(on_grid.shape)
                released = self._from_grid(noisy)
            if self.constant is not None:
                released[:, self.constant.outputs] = self.constant.values
            return released.reshape(shape)

        return draw

    def _from_grid(self, noisy: NDArray[np.object_]) -> NDArray[np.float64]:
        """Return the outputs that whole numbers of the grid stand for.

        The shape's way back is rounded, and answers may be far larger than the noise:
        what is left, found exactly, is mapped back as well. All of it is a function of
        the noisy whole numbers, which are what is released.
        """
        with np.errstate(all="ignore"):  # a warning would depend on the answer
            released = self.shape.color(self._to_floats(noisy, self.exponent))
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


def laplace_noise(sensitivity: float, epsilon: float, n_outputs: int) -> AdditiveNoise:
    """Return Laplace noise that keeps a level at an l1 sensitivity, with its grid.

    Discrete Laplace noise of scale t on the integers has privacy loss at most
    ``|d|/t`` for a shift by d; rounding to the grid g makes the shift at most
    (sensitivity + n_outputs g)/g in the l1 norm.
    """
    if n_outputs / epsilon > MOST_STEPS / 2:
        least = f"n_outputs * 2**-51 = {n_outputs * 2.0**-51:g}"
        raise ValueError(
            f"epsilon must be at least {least} for noise on a grid, got {epsilon!r}."
        )
    exponent, steps = _grid(Fraction(sensitivity), Fraction(epsilon), n_outputs)
    noise = AdditiveNoise("laplace", steps, exponent, n_outputs)
    if not math.isfinite(noise.noise_scale):
        raise ValueError(
            f"sensitivity={sensitivity!r} and epsilon={epsilon!r} need a noise scale "
            "beyond the largest float."
        )
    return noise


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
