"""Inverses of laws of the privacy loss, and critical scales of drawn noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skparisk.core.rounding import safe_root, unwrap

_Floats = NDArray[np.float64]


def largest_shift(curve: Callable[[Any], Any], target: float) -> float:
    """Return the largest distance at which what rises with it is at most a target.

    Rounded down; 0 if there is none.
    """
    safe = 1.0
    while safe and not curve(safe) <= target:
        safe /= 2
    while safe and 2 * safe < math.inf and curve(2 * safe) <= target:
        safe *= 2
    if not safe or 2 * safe == math.inf:
        return safe
    return safe_root(lambda a: float(target - curve(a)), 2 * safe, safe, root=None)


def least_levels(
    profile: Callable[[Any, Any], Any], delta: float, shift: _Floats, *, bounded: bool
) -> Any:
    """Return the least levels at which a profile is at most delta, rounded up.

    Those of a loss with a bound are at most the distances.
    """
    a = np.where(np.isinf(shift), 1.0, shift)
    low, high = np.zeros_like(a), a.copy()
    with np.errstate(over="ignore"):
        while not bounded and np.any(short := profile(high, a) > delta):
            high = np.where(short, 2 * high, high)
    for _ in range(70):  # bisection; `high` stays on the safe side
        middle = low / 2 + high / 2
        safe = profile(middle, a) <= delta
        low, high = np.where(safe, low, middle), np.where(safe, middle, high)
    level = np.where(profile(0.0, a) <= delta, 0.0, high)
    return unwrap(np.where(np.isinf(shift), np.inf, level))


def critical_scales(differences: _Floats, noise: _Floats, epsilon: float) -> _Floats:
    """Return the least scales from which on the loss of each pair is in bounds.

    For finite differences, and one vector of Laplace noise of scale 1 for each pair,
    both of shape (n_pairs, n_outputs); 0 where both databases answer the same.

    A pair with difference v and noise E has at noise scale 1/s the loss C(s) = sum_j
    (abs(E_j - s v_j) - abs(E_j)), which is convex, straight between kinks, and 0 at 0.
    It may fall below -epsilon before it rises above epsilon. The critical scale is 1/s
    at the first of the two, the root of one equation: nothing is searched.

    **Guarantee** (:ref:`thm-critical-scale`). From this scale on the loss of a pair is
    within epsilon, and just below it is not: up to rounding, by a share k 2**-52 of
    the l1 norm of v over the scale, for k outputs, to either side.

    Examples
    --------
    >>> from skparisk.core.losses import critical_scales
    >>> critical_scales(np.ones((2, 1)), np.array([[0.25], [-0.25]]), epsilon=0.5)
    array([1., 2.])
    """
    loss = _PiecewiseLoss.of(differences, noise)
    # C at each kink times u > 0. No division: exact for small whole numbers, and so
    # are the ties, where C touches -epsilon without going below.
    at_kinks = loss.slopes[:, :-1] * loss.sizes + loss.intercepts[:, :-1] * loss.shifts
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


def peak_losses(differences: _Floats, noise: _Floats, scale: float) -> _Floats:
    """Return the largest loss of each pair, at any scale from `scale` on.

    The inverse of `critical_scales`: the least level whose critical scale is at most
    `scale`, which is above 0. It never rises as `scale` grows, as the loss there may.

    Examples
    --------
    >>> from skparisk.core.losses import peak_losses
    >>> peak_losses(np.ones((2, 1)), np.array([[0.25], [-0.25]]), scale=2.0)
    array([0.25, 0.5 ])
    """
    mantissa, exponent = math.frexp(scale)
    loss = _PiecewiseLoss.of(differences, noise)
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

    @classmethod
    def of(cls, differences: _Floats, noise: _Floats) -> Self:
        v, exponents = rescale(differences)
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
        return cls(u, sizes, edges, slopes, intercepts, exponents)


def rescale(v: _Floats) -> tuple[_Floats, NDArray[np.int32]]:
    """Divide each row by a power of two: its largest size is then in [1, 2), or 0."""
    exponents = np.frexp(np.abs(v).max(axis=1))[1] - 1
    return v / np.ldexp(1.0, exponents)[:, np.newaxis], exponents


def row_sums(terms: _Floats, start: _Floats | float = 0) -> _Floats:
    """Return start plus the sum of each row, accurate also where terms cancel.

    The leading digits are split off on a grid so coarse that sums on it are exact
    (Rump, Ogita and Oishi 2008).
    """
    exponents = np.frexp(np.abs(terms).max(axis=1, keepdims=True))[1]
    grid = np.ldexp(1.0, exponents + terms.shape[1].bit_length())
    leading = (grid + terms) - grid
    return (start + leading.sum(axis=1)) + (terms - leading).sum(axis=1)
