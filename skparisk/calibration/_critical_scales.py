r"""The least noise scale from which on the loss of a pair, at its noise, is in bounds.

A pair with difference v and standard noise E has, at noise scale b = 1/s, the privacy
loss C(s), with C(0) = 0:

* Laplace, ``sum_j |E_j - s v_j| - |E_j|``: convex, straight between kinks;
* Gaussian, ``s**2 |v|**2 / 2 - s (v . E)``: a parabola.

Either may fall below -epsilon before it rises above +epsilon. The critical scale is
1/s at the first of the two, which is the root of one equation: nothing is searched.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk._validate import check_positive

__all__ = [
    "gaussian_critical_scales",
    "gaussian_peak_losses",
    "laplace_critical_scales",
    "laplace_peak_losses",
    "row_norms",
]

_Floats = NDArray[np.float64]

# No standard noise comes near; products with it stay within the range of floats.
_LARGEST_NOISE = 1e150


def laplace_critical_scales(
    differences: ArrayLike, noise: ArrayLike, epsilon: float
) -> _Floats:
    r"""Return the least Laplace scale that keeps the loss of each pair in `epsilon`.

    Parameters
    ----------
    differences : array-like of shape (n_pairs, n_outputs)
        For each pair of neighboring databases, what one answers minus what the other
        does. Finite.

    noise : array-like of shape (n_pairs, n_outputs)
        For each pair, one vector of standard Laplace noise.

    epsilon : float
        Target privacy level, > 0.

    Returns
    -------
    critical_scales : ndarray of shape (n_pairs,)
        :math:`b^* \ge 0`, in the unit of `differences`; 0 where both answer the same.

    Raises
    ------
    ValueError
        If the arrays are not two tables of one shape with finite numbers, `noise` is
        beyond 1e150, or `epsilon` is not finite and above 0.

    Notes
    -----
    **Guarantee** (:ref:`thm-critical-scale`). At every scale :math:`b \ge b^*` the loss
    :math:`\sum_j |E_j - v_j/b| - |E_j|` of a pair is within :math:`\pm\varepsilon`, and
    just below :math:`b^*` it is not. This holds up to rounding, by about
    :math:`k \, 2^{-52} \, \|v\|_1 / b^*` of the loss for k outputs, to either side. The
    caller must ensure that the noise of each pair is a fresh draw.

    Exact: one sort and two cumulative sums, whose temporaries take the memory of about
    ten arrays like `differences`. Pass many pairs in blocks.

    Examples
    --------
    >>> from skparisk.calibration import laplace_critical_scales
    >>> laplace_critical_scales([[1.0], [1.0]], [[0.25], [-0.25]], epsilon=0.5)
    array([1., 2.])
    """
    epsilon = check_positive(epsilon, "epsilon")
    loss = _piecewise_loss(differences, noise)
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
    rise = _row_sums(np.where(passed, doubled, 0), start=epsilon)
    left = np.take_along_axis(loss.edges, piece[:, np.newaxis], axis=1)[:, 0]
    right = np.take_along_axis(loss.edges, piece[:, np.newaxis] + 1, axis=1)[:, 0]
    with np.errstate(divide="ignore", over="ignore"):
        scales = np.clip(np.abs(slope) / rise, 1 / right, 1 / left)
        return np.ldexp(scales, loss.exponents)


def laplace_peak_losses(
    differences: ArrayLike, noise: ArrayLike, scale: float
) -> _Floats:
    r"""Return the largest loss of each pair at any Laplace scale from `scale` on.

    Parameters
    ----------
    differences : array-like of shape (n_pairs, n_outputs)
        For each pair of neighboring databases, what one answers minus what the other
        does. Finite.

    noise : array-like of shape (n_pairs, n_outputs)
        For each pair, one vector of standard Laplace noise.

    scale : float
        Noise scale, > 0, in the unit of `differences`.

    Returns
    -------
    peak_losses : ndarray of shape (n_pairs,)
        The largest :math:`|C(s)|` over :math:`0 \le s \le 1/b`.

    Raises
    ------
    ValueError
        If the arrays are not two tables of one shape with finite numbers, `noise` is
        beyond 1e150, or `scale` is not finite and above 0.

    Notes
    -----
    **Guarantee** (:ref:`thm-critical-scale`). The inverse of
    :func:`laplace_critical_scales`: the least :math:`\varepsilon` whose critical scale
    is at most `scale`, up to rounding. It never rises as `scale` grows, as the loss at
    `scale` itself may.

    Examples
    --------
    >>> from skparisk.calibration import laplace_peak_losses
    >>> laplace_peak_losses([[1.0], [1.0]], [[0.25], [-0.25]], scale=2.0)
    array([0.25, 0.5 ])
    """
    mantissa, exponent = math.frexp(check_positive(scale, "scale"))
    loss = _piecewise_loss(differences, noise)
    kinks = loss.edges[:, 1:-1]
    with np.errstate(over="ignore", invalid="ignore"):
        end = np.ldexp(1 / mantissa, loss.exponents - exponent)
        before = kinks < end[:, np.newaxis]
        slope, passed = loss.line(before.sum(axis=1))
        rise = np.ldexp(slope / mantissa, loss.exponents - exponent)
        at_end = _row_sums(np.where(passed, -2 * loss.sizes, 0), start=rise)
        at_kinks = loss.slopes[:, :-1] * kinks + loss.intercepts[:, :-1]
    # C is convex and C(0) = 0: |C| is largest at the end, or at a kink where C dips.
    dips = np.max(-at_kinks, axis=1, where=before, initial=0)
    return np.maximum(np.abs(at_end), dips)


def gaussian_critical_scales(
    differences: ArrayLike, noise: ArrayLike, epsilon: float
) -> _Floats:
    r"""Return the least Gaussian scale that keeps the loss of each pair in `epsilon`.

    Parameters
    ----------
    differences : array-like of shape (n_pairs, n_outputs)
        For each pair of neighboring databases, what one answers minus what the other
        does. Finite.

    noise : array-like of shape (n_pairs, n_outputs)
        For each pair, one vector of standard normal noise.

    epsilon : float
        Target privacy level, > 0.

    Returns
    -------
    critical_scales : ndarray of shape (n_pairs,)
        :math:`\sigma^* \ge 0`, in the unit of `differences`; 0 where both answer the
        same.

    Raises
    ------
    ValueError
        If the arrays are not two tables of one shape with finite numbers, `noise` is
        beyond 1e150, or `epsilon` is not finite and above 0.

    Notes
    -----
    **Guarantee** (:ref:`thm-critical-scale`). At every scale
    :math:`\sigma \ge \sigma^*` the loss :math:`\|v\|^2/2\sigma^2 - (v \cdot E)/\sigma`
    of a pair is within :math:`\pm\varepsilon`, and just below :math:`\sigma^*` it is
    not. This holds up to rounding, to either side, by about
    :math:`k \, 2^{-52} \, \|v\| \, (\|v\|/\sigma^* + \|E\|) / \sigma^*` of the loss for
    k outputs. The caller must ensure that the noise of each pair is a fresh draw.

    Examples
    --------
    >>> from skparisk.calibration import gaussian_critical_scales
    >>> gaussian_critical_scales([[1.0], [1.0]], [[1.0], [-0.75]], epsilon=0.5)
    array([0.41421356, 2.        ])
    """
    epsilon = check_positive(epsilon, "epsilon")
    norms, z, exponents = _projected(differences, noise)
    # With t = s |v|: C = t**2 / 2 - t z, which dips below -epsilon iff z > bound.
    bound = math.sqrt(min(2 * epsilon, sys.float_info.max))
    dips = z > bound
    dip = np.sqrt(np.maximum(z - bound, 0)) * np.sqrt(np.maximum(z + bound, 0))
    total = np.abs(z) + np.where(dips, dip, np.hypot(z, bound))
    # The roots of t**2 / 2 - t z = ±epsilon, without cancellation: total is 2 epsilon/t
    # where C dips and where z < 0, and t elsewhere.
    with np.errstate(divide="ignore", over="ignore"):
        scales = norms * np.where(dips | (z < 0), total / 2 / epsilon, 1 / total)
        return np.ldexp(scales, exponents)


def gaussian_peak_losses(
    differences: ArrayLike, noise: ArrayLike, scale: float
) -> _Floats:
    r"""Return the largest loss of each pair at any Gaussian scale from `scale` on.

    Parameters
    ----------
    differences : array-like of shape (n_pairs, n_outputs)
        For each pair of neighboring databases, what one answers minus what the other
        does. Finite.

    noise : array-like of shape (n_pairs, n_outputs)
        For each pair, one vector of standard normal noise.

    scale : float
        Noise scale, > 0, in the unit of `differences`.

    Returns
    -------
    peak_losses : ndarray of shape (n_pairs,)
        The largest :math:`|C(s)|` over :math:`0 \le s \le 1/\sigma`.

    Raises
    ------
    ValueError
        If the arrays are not two tables of one shape with finite numbers, `noise` is
        beyond 1e150, or `scale` is not finite and above 0.

    Notes
    -----
    **Guarantee** (:ref:`thm-critical-scale`). The inverse of
    :func:`gaussian_critical_scales`: the least :math:`\varepsilon` whose critical scale
    is at most `scale`, up to rounding. It never rises as `scale` grows, as the loss at
    `scale` itself may.

    Examples
    --------
    >>> from skparisk.calibration import gaussian_peak_losses
    >>> gaussian_peak_losses([[1.0], [1.0]], [[1.0], [-0.75]], scale=2.0)
    array([0.375, 0.5  ])
    """
    mantissa, exponent = math.frexp(check_positive(scale, "scale"))
    norms, z, exponents = _projected(differences, noise)
    with np.errstate(over="ignore"):
        end = np.ldexp(norms / mantissa, exponents - exponent)
        least = np.minimum(end, np.maximum(z, 0))  # where t**2 / 2 - t z is least
        return np.maximum(end * (end / 2 - z), least * (z - least / 2))


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
        return _row_sums(np.where(passed, self.shifts, -self.shifts)), passed


def _piecewise_loss(differences: ArrayLike, noise: ArrayLike) -> _PiecewiseLoss:
    v, noise = _check_pairs(differences, noise)
    v, exponents = _rescale(v)
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


def _projected(
    differences: ArrayLike, noise: ArrayLike
) -> tuple[_Floats, _Floats, NDArray[np.int32]]:
    """Return the norms (times 2**exponents) and the noise along each difference."""
    v, noise = _check_pairs(differences, noise)
    v, exponents = _rescale(v)
    norms = np.sqrt(np.einsum("ij,ij->i", v, v))
    z = np.einsum("ij,ij->i", v, noise) / np.where(norms > 0, norms, 1)
    return norms, z, exponents


def row_norms(values: _Floats, order: float) -> _Floats:
    """Return the l1, l2 or sup norm of each row; squares do not vanish or overflow."""
    if order == math.inf:
        return np.asarray(np.abs(values).max(axis=1))
    if order == 1:
        return np.asarray(np.abs(values).sum(axis=1))
    scaled, exponents = _rescale(values)
    return np.ldexp(np.sqrt(np.einsum("ij,ij->i", scaled, scaled)), exponents)


def _rescale(v: _Floats) -> tuple[_Floats, NDArray[np.int32]]:
    """Divide each row by a power of two: its largest size is then in [1, 2), or 0."""
    exponents = np.frexp(np.abs(v).max(axis=1))[1] - 1
    return v / np.ldexp(1.0, exponents)[:, np.newaxis], exponents


def _row_sums(terms: _Floats, start: _Floats | float = 0) -> _Floats:
    """Return start plus the sum of each row, accurate also where terms cancel.

    The leading digits are split off on a grid so coarse that sums on it are exact
    (Rump, Ogita and Oishi 2008).
    """
    exponents = np.frexp(np.abs(terms).max(axis=1, keepdims=True))[1]
    grid = np.ldexp(1.0, exponents + terms.shape[1].bit_length())
    leading = (grid + terms) - grid
    return (start + leading.sum(axis=1)) + (terms - leading).sum(axis=1)


def _check_pairs(differences: ArrayLike, noise: ArrayLike) -> tuple[_Floats, _Floats]:
    v = np.asarray(differences, dtype=np.float64)
    draws = np.asarray(noise, dtype=np.float64)
    if v.ndim != 2 or v.shape[1] == 0:
        raise ValueError(
            "differences must be of shape (n_pairs, n_outputs) with n_outputs >= 1, "
            f"got shape {v.shape}."
        )
    if draws.shape != v.shape:
        raise ValueError(
            f"noise must be of the shape of differences, {v.shape}, got {draws.shape}."
        )
    if not np.isfinite(v).all():
        raise ValueError("differences must be finite, got NaN or infinity.")
    if not np.abs(draws).max(initial=0) <= _LARGEST_NOISE:
        raise ValueError(
            f"noise must be standard noise, of size at most {_LARGEST_NOISE:g}, got "
            f"{np.abs(draws).max()}."
        )
    return v, draws
