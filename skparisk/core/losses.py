"""The exact laws of the privacy loss of Laplace and Gaussian noise, and inverses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, ndtr

from skparisk.core.checks import check_floats
from skparisk.core.rounding import safe_root, unwrap

_Floats = NDArray[np.float64]


def laplace_loss_exceedance(epsilon: ArrayLike, shift: ArrayLike) -> Any:
    r"""Return the exact probability that the Laplace privacy loss exceeds epsilon.

    Parameters
    ----------
    epsilon : float or array
        Privacy level; any loss, in [-inf, inf]. Natural logarithm units.
    shift : float or array, broadcast against `epsilon`
        Difference of the query over the noise scale, `a`, in [0, inf). Unitless.

    Returns
    -------
    risk : float or array
        P(C > epsilon): in [1/2, 1] for epsilon < shift, else 0. Float for scalars.

    Raises
    ------
    ValueError
        If `epsilon` is NaN, or `shift` is outside [0, inf).

    Notes
    -----
    Exact law of one coordinate: :math:`C = |E - a| - |E|`, E standard Laplace, has
    atoms 1/2 at a and :math:`e^{-a}/2` at -a, so that this is
    :math:`1 - e^{(\epsilon - a)/2}/2` from -a to a: at a known pair the noise alone
    cannot bring the risk under one half.

    Examples
    --------
    >>> from skparisk.core import laplace_loss_exceedance
    >>> round(laplace_loss_exceedance(0.6, shift=1.0), 4)
    0.5906
    """
    c = check_floats(epsilon, "epsilon", "[-inf, inf]")
    a = check_floats(shift, "shift", "[0, inf)")
    between = 0.5 - 0.5 * np.expm1(np.minimum(c - a, 0.0) / 2)  # exact law, -a <= c < a
    return unwrap(np.where(c < -a, 1.0, np.where(c < a, between, 0.0)))


def laplace_delta(epsilon: ArrayLike, noise_epsilon: ArrayLike) -> Any:
    r"""Return the least delta with which Laplace noise is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float or array
        Privacy level, in [0, inf].
    noise_epsilon : float or array, broadcast against `epsilon`
        Privacy level of the noise: L1 sensitivity over noise scale, in (0, inf].

    Returns
    -------
    delta : float or array
        Hockey-stick divergence, in [0, 1]. A float if all inputs are scalars.

    Notes
    -----
    :math:`1 - e^{(\epsilon - \epsilon_0)/2}` for :math:`\epsilon < \epsilon_0`, else 0.

    **Guarantee.** Exact for one coordinate, and the worst case over all shifts of the
    same L1 norm (log-concave location family, group privacy: Dong, Roth, Su 2022,
    *Gaussian differential privacy*). The caller must ensure that the sensitivity holds.

    Examples
    --------
    >>> from skparisk.core import laplace_delta
    >>> round(laplace_delta(0.6, noise_epsilon=1.0), 4)
    0.1813
    """
    level = check_floats(epsilon, "epsilon", "[0, inf]")
    noise = check_floats(noise_epsilon, "noise_epsilon", "(0, inf]")
    noise = np.minimum(noise, np.finfo(np.float64).max)  # no inf - inf
    gap = np.maximum(noise - level, 0.0)
    return unwrap(np.abs(np.expm1(-gap / 2)))  # hockey stick of one coordinate


_CLOSE = 0.5  # below this shift a difference of Mills ratios is an integral
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(7)  # exact to 1e-16 over _CLOSE


def gaussian_loss_exceedance(epsilon: ArrayLike, shift: ArrayLike) -> Any:
    r"""Return the exact probability that the Gaussian privacy loss exceeds epsilon.

    Parameters
    ----------
    epsilon : float or array
        Privacy level; any loss, in [-inf, inf]. Natural logarithm units.
    shift : float or array, broadcast against `epsilon`
        L2 distance of the two answers over the noise scale, `a`, in [0, inf]. Unitless.

    Returns
    -------
    risk : float or array
        P(C > epsilon), in [0, 1]; 0 for epsilon = inf. A float if all inputs are
        scalars.

    Raises
    ------
    ValueError
        If `epsilon` is NaN, or `shift` is outside [0, inf].

    Notes
    -----
    Exact law for any number of outputs, :math:`\Phi(a/2 - \epsilon/a)`: C is normal
    with mean :math:`a^2/2` and standard deviation a, or 0 without a shift.

    Examples
    --------
    >>> from skparisk.core import gaussian_loss_exceedance
    >>> round(gaussian_loss_exceedance(0.6, shift=1.0), 4)
    0.4602
    """
    c = check_floats(epsilon, "epsilon", "[-inf, inf]")
    low, _ = _standardize(c, check_floats(shift, "shift", "[0, inf]"))
    return unwrap(ndtr(-low))  # exact law, Φ(a/2 - ε/a)


def gaussian_delta(epsilon: ArrayLike, shift: ArrayLike) -> Any:
    r"""Return the least delta with which Gaussian noise is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon, shift : float or array
        As for :func:`gaussian_loss_exceedance`, the level in [0, inf].

    Returns
    -------
    delta : float or array
        Hockey-stick divergence, in [0, 1]; 0 without a shift or for epsilon = inf. A
        float if all inputs are scalars.

    Notes
    -----
    :math:`\Phi(-x) - e^\epsilon \Phi(-y)`, :math:`x = \epsilon/a - a/2`,
    :math:`y = \epsilon/a + a/2` (Balle, Wang 2018, *Improving the Gaussian Mechanism
    for Differential Privacy*, Theorem 8). With Mills' ratio :math:`M = \Phi(-\cdot)/
    \varphi` it is :math:`\varphi(x) (M(x) - M(y))`, and for a small shift

    .. math:: \varphi(x) \int_x^y (1 - t M(t))\, dt,

    so that nothing overflows, and tiny values keep their digits.

    **Guarantee.** Exact for two answers at this distance, and increasing in it, so the
    worst case over all pairs within the sensitivity, for any number of outputs. The
    caller must ensure that the sensitivity holds.

    Examples
    --------
    >>> from skparisk.core import gaussian_delta
    >>> round(gaussian_delta(0.6, shift=1.0), 4)
    0.213
    """
    level = check_floats(epsilon, "epsilon", "[0, inf]")
    a = check_floats(shift, "shift", "[0, inf]")
    low, high = _standardize(level, a)
    density = np.exp(-0.5 * np.clip(low, -40.0, 40.0) ** 2) / math.sqrt(2 * math.pi)
    upper = np.where(low > 0, density * _mills(np.maximum(low, 0.0)), ndtr(-low))
    far = upper - density * _mills(high)  # Theorem 8, with e^ε φ(y) = φ(x)
    near = density * _mills_fall(np.clip(low, -1.0, 40.0), np.minimum(a, _CLOSE))
    return unwrap(np.where(a < _CLOSE, near, far))


def _standardize(
    loss: NDArray[np.float64], shift: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return c/a - a/2 and c/a + a/2, infinite where there is no doubt about C <= c."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        middle = loss / shift
    certain = (shift == 0) | np.isinf(loss)
    middle = np.where(certain, np.where(loss >= 0, np.inf, -np.inf), middle)
    half = np.where(certain, 0.0, shift / 2)
    return middle - half, middle + half


def _mills(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Mills' ratio of the normal law, P(Z > t) over the density at t."""
    return math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2))


def _mills_fall(
    start: NDArray[np.float64], length: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return by how much Mills' ratio falls on an interval, as an integral."""
    total = np.zeros_like(start)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        t = start + length * (1 + node) / 2
        total += weight * (1 - t * _mills(t))  # M' = t M - 1
    return length / 2 * total


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
    r"""Return the least scales from which on the loss of each pair is in bounds.

    Parameters
    ----------
    differences : ndarray of shape (n_pairs, n_outputs)
        For each pair of databases, what one answers minus what the other does. Finite.

    noise : ndarray of shape (n_pairs, n_outputs)
        For each pair, one vector of Laplace noise of scale 1.

    epsilon : float
        Target privacy level, > 0.

    Returns
    -------
    critical_scales : ndarray of shape (n_pairs,)
        :math:`b^* \ge 0`, in the unit of `differences`; 0 where both answer the same.

    Notes
    -----
    A pair with difference v and noise E has at noise scale b = 1/s the loss
    :math:`C(s) = \sum_j |E_j - s v_j| - |E_j|`, which is convex, straight between
    kinks, and 0 at 0. It may fall below -epsilon before it rises above epsilon. The
    critical scale is 1/s at the first of the two, the root of one equation: nothing is
    searched.

    **Guarantee** (:ref:`thm-critical-scale`). At every scale :math:`b \ge b^*` the loss
    of a pair is within :math:`\pm\varepsilon`, and just below :math:`b^*` it is not.
    This holds up to rounding, by about :math:`k \, 2^{-52} \, \|v\|_1 / b^*` of the
    loss for k outputs, to either side. One sort and two cumulative sums, whose
    temporaries take the memory of about ten arrays like the differences.

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
