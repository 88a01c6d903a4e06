"""Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core import rounding as grid
from skparisk.core.checks import check_positive
from skparisk.core.exact import ByteSource, sample_discrete_laplace
from skparisk.laws._base import Curve, Law, UnitNoise
from skparisk.laws._rows import check_pairs, rescale, row_sums
from skparisk.privacy_loss import (
    laplace_delta,
    laplace_delta_noise_epsilon,
    laplace_loss_exceedance,
    laplace_noise_epsilon,
)

_Floats = NDArray[np.float64]
_CURVE_POINTS = 256


@dataclass(frozen=True)
class Laplace(Law):
    r"""Laplace noise, of density ``exp(-\|z\|/b)/(2 b)`` at scale b.

    A pair with difference v and noise E of scale 1 has at noise scale b = 1/s the loss
    :math:`C(s) = \sum_j |E_j - s v_j| - |E_j|`, which is convex, straight between
    kinks, and 0 at 0. It may fall below -epsilon before it rises above epsilon. The
    critical scale is 1/s at the first of the two, the root of one equation: nothing is
    searched.

    Notes
    -----
    **Guarantee** (:ref:`thm-critical-scale`). At every scale :math:`b \ge b^*` the loss
    of a pair is within :math:`\pm\varepsilon`, and just below :math:`b^*` it is not.
    This holds up to rounding, by about :math:`k \, 2^{-52} \, \|v\|_1 / b^*` of the
    loss for k outputs, to either side. One sort and two cumulative sums, whose
    temporaries take the memory of about ten arrays like the differences.

    Examples
    --------
    >>> from skparisk.laws import Laplace
    >>> Laplace().critical_scales([[1.0], [1.0]], [[0.25], [-0.25]], epsilon=0.5)
    array([1., 2.])
    >>> Laplace().peak_losses([[1.0], [1.0]], [[0.25], [-0.25]], scale=2.0)
    array([0.25, 0.5 ])
    """

    name: ClassVar[str] = "laplace"
    deviation: ClassVar[float] = math.sqrt(2.0)
    takes_delta: ClassVar[bool] = True
    draws: ClassVar[bool] = True

    def sample(self, scale: int, size: int, source: ByteSource) -> NDArray[np.int64]:
        return sample_discrete_laplace(scale, size, source)

    def unit_noise(self, epsilon: float, delta: float, n_outputs: int) -> UnitNoise:
        if not delta:
            return super().unit_noise(epsilon, delta, n_outputs)
        shift = laplace_delta_noise_epsilon(grid.below(epsilon), delta)
        return UnitNoise(1 / shift, grid.laplace_steps(epsilon, n_outputs))

    def levels(
        self, shifts: _Floats, epsilon: float, delta: float, *, n_outputs: int
    ) -> _Floats:
        # Outside events of probability delta it is smaller by 2 ln(1/(1 - delta)).
        losses = np.maximum(shifts + 2 * math.log1p(-delta), 0.0)
        return grid.with_grid(losses, epsilon)

    def composes(self, n_outputs: int) -> bool:
        return True

    def profile(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        return laplace_delta(epsilon, shift)

    def trade_off(self, false_positive_rate: ArrayLike, shift: ArrayLike) -> Any:
        alpha, a = np.broadcast_arrays(false_positive_rate, shift)
        # F(a - F^-1(1 - alpha)), F of the standard Laplace law, tail by tail.
        low = alpha < 0.5
        tail = np.where(low, alpha, 1 - alpha)
        with np.errstate(divide="ignore"):
            end = np.log(2 * tail)  # the quantile: -end where low, end elsewhere
        beyond = a + np.where(low, end, -end)
        return np.where(
            beyond < 0,
            np.exp(np.minimum(beyond, 0.0)) / 2,
            1 - np.exp(-np.maximum(beyond, 0.0)) / 2,
        )

    def on_grid(
        self, shifts: _Floats, n_outputs: int, steps: int
    ) -> tuple[_Floats, _Floats]:
        # An odd distance d in steps has 1 - exp(-d / 2t) / cosh(1 / 2t): thm-advantage.
        longest = shifts * (1 + 2.0**-40) + n_outputs / steps + 0.25 / steps**2
        return longest, np.zeros_like(longest)

    def loss_distribution(self, shift: float, step: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.from_laplace_mechanism(1 / shift, value_discretization_interval=step)

    def noise_at_risk(
        self, epsilon: float, gamma: float, n_outputs: int
    ) -> tuple[UnitNoise, float, Curve]:
        level = grid.below(epsilon)
        shift = laplace_noise_epsilon(level, gamma, n_outputs)
        curve: Curve = None
        if n_outputs == 1:  # the exact law of the loss of one output
            levels = shift * np.linspace(0, 1, _CURVE_POINTS)
            risks = laplace_loss_exceedance(levels, shift)
            curve = levels + epsilon * grid.GRID_SHARE, risks
        unit = UnitNoise(1 / shift, grid.laplace_steps(epsilon, n_outputs))
        return unit, gamma if shift > level else 0.0, curve

    def standard_noise(
        self, rng: np.random.Generator, size: tuple[int, ...]
    ) -> _Floats:
        return rng.laplace(size=size)

    def critical_scales(
        self, differences: ArrayLike, noise: ArrayLike, epsilon: float
    ) -> _Floats:
        epsilon = check_positive(epsilon, "epsilon")
        loss = _piecewise_loss(differences, noise)
        # C at each kink times u > 0. No division: exact for small whole numbers, and so
        # are the ties, where C touches -epsilon without going below.
        at_kinks = (
            loss.slopes[:, :-1] * loss.sizes + loss.intercepts[:, :-1] * loss.shifts
        )
        real = loss.edges[:, 1:-1] < np.inf
        with np.errstate(over="ignore"):
            beyond = (np.abs(at_kinks) > epsilon * loss.shifts) & real
        piece = np.where(beyond.any(axis=1), beyond.argmax(axis=1), real.sum(axis=1))

        # slope s - sum 2 E = epsilon or -epsilon, whichever has the sign of the slope
        slope, passed = loss.line(piece)
        doubled = np.copysign(2, slope)[:, np.newaxis] * loss.sizes
        rise = row_sums(np.where(passed, doubled, 0), start=epsilon)
        left = np.take_along_axis(loss.edges, piece[:, np.newaxis], axis=1)[:, 0]
        right = np.take_along_axis(loss.edges, piece[:, np.newaxis] + 1, axis=1)[:, 0]
        with np.errstate(divide="ignore", over="ignore"):
            scales = np.clip(np.abs(slope) / rise, 1 / right, 1 / left)
            return np.ldexp(scales, loss.exponents)

    def peak_losses(
        self, differences: ArrayLike, noise: ArrayLike, scale: float
    ) -> _Floats:
        mantissa, exponent = math.frexp(check_positive(scale, "scale"))
        loss = _piecewise_loss(differences, noise)
        kinks = loss.edges[:, 1:-1]
        with np.errstate(over="ignore", invalid="ignore"):
            end = np.ldexp(1 / mantissa, loss.exponents - exponent)
            before = kinks < end[:, np.newaxis]
            slope, passed = loss.line(before.sum(axis=1))
            rise = np.ldexp(slope / mantissa, loss.exponents - exponent)
            at_end = row_sums(np.where(passed, -2 * loss.sizes, 0), start=rise)
            at_kinks = loss.slopes[:, :-1] * kinks + loss.intercepts[:, :-1]
        # C is convex and C(0) = 0: |C| is largest at the end, or at a kink of a dip.
        dips = np.max(-at_kinks, axis=1, where=before, initial=0)
        return np.maximum(np.abs(at_end), dips)

    def off_by(
        self, errors: _Floats, differences: _Floats, noise: _Floats
    ) -> tuple[_Floats, _Floats]:
        return errors.sum(axis=1), np.zeros(len(errors))

    def drawn_steps(self, epsilon: float, n_outputs: int) -> int:
        return grid.laplace_steps(epsilon, n_outputs)


class _PiecewiseLoss(NamedTuple):
    """The straight pieces of C of each pair; piece i is between edges i and i + 1.

    Signs are flipped so that E >= 0, with u for v: term j is ``-s u``, and turns at
    ``E / u`` into ``s u - 2 E`` if u > 0. All in the order of the kinks, those at
    infinity last, and with s in units of ``2**-exponents``.
    """

    shifts: _Floats  # u, the largest of a row in [1, 2)
    sizes: _Floats  # E
    edges: _Floats  # 0, the n_outputs kinks, infinity
    slopes: _Floats  # C(s) = slope s + intercept on each of n_outputs + 1 pieces
    intercepts: _Floats
    exponents: NDArray[np.int32]

    def line(self, piece: NDArray[np.intp]) -> tuple[_Floats, NDArray[np.bool_]]:
        """Return the accurate slope on one piece per pair, and what turned before."""
        passed = np.arange(self.shifts.shape[1]) < piece[:, np.newaxis]
        return row_sums(np.where(passed, self.shifts, -self.shifts)), passed


def _piecewise_loss(differences: ArrayLike, noise: ArrayLike) -> _PiecewiseLoss:
    v, noise = check_pairs(differences, noise)
    v, exponents = rescale(v)
    u, sizes = v * np.copysign(1, noise), np.abs(noise)
    edges = np.zeros((len(u), u.shape[1] + 2))
    edges[:, -1] = np.inf
    with np.errstate(over="ignore"):
        np.divide(np.where(u > 0, sizes, np.inf), np.abs(u), out=edges[:, 1:-1])
    order = np.argsort(edges[:, 1:-1], axis=1)
    edges[:, 1:-1] = np.take_along_axis(edges[:, 1:-1], order, axis=1)
    u = np.take_along_axis(u, order, axis=1)
    sizes = np.take_along_axis(sizes, order, axis=1)

    slopes, intercepts = np.zeros((2, len(u), u.shape[1] + 1))
    np.cumsum(np.maximum(u, 0), axis=1, out=slopes[:, 1:])
    np.cumsum(np.where(u > 0, sizes, 0), axis=1, out=intercepts[:, 1:])
    slopes *= 2
    slopes -= u.sum(axis=1, keepdims=True)
    intercepts *= -2
    return _PiecewiseLoss(u, sizes, edges, slopes, intercepts, exponents)
