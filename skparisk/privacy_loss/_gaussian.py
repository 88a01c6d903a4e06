"""The exact law of the privacy loss of Gaussian noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, ndtr

from skparisk.core.checks import check_floats
from skparisk.core.rounding import unwrap

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
    with mean :math:`a^2/2` and standard deviation a, or 0 without a shift. For a level
    >= 0 it increases in the shift, so the worst pair is the one at the sensitivity.

    Examples
    --------
    >>> from skparisk.privacy_loss import gaussian_loss_exceedance
    >>> round(gaussian_loss_exceedance(0.6, shift=1.0), 4)
    0.4602
    """
    c = check_floats(epsilon, "epsilon", "[-inf, inf]")
    low, _ = _standardize(c, check_floats(shift, "shift", "[0, inf]"))
    return unwrap(ndtr(-low))  # exact law, Φ(a/2 - ε/a)


def gaussian_risk(epsilon: ArrayLike, shift: ArrayLike) -> Any:
    r"""Return the exact probability that the Gaussian loss leaves [-epsilon, epsilon].

    Parameters
    ----------
    epsilon : float or array
        Privacy level, in [0, inf].
    shift : float or array, broadcast against `epsilon`
        L2 distance of the two answers over the noise scale, `a`, in [0, inf]. Unitless.

    Returns
    -------
    risk : float or array
        P(\|C\| > epsilon), in [0, 1]; 0 without a shift or for epsilon = inf. A float
        if all inputs are scalars.

    Raises
    ------
    ValueError
        If `epsilon` or `shift` is outside [0, inf].

    Notes
    -----
    Exact law, :math:`\Phi(a/2 - \epsilon/a) + \Phi(-a/2 - \epsilon/a)`: increasing in
    the shift. The conditional risk of one pair in Definition 5 of Dandekar, Basu,
    Bressan (2021), *Differential Privacy at Risk*.

    Examples
    --------
    >>> from skparisk.privacy_loss import gaussian_risk
    >>> round(gaussian_risk(0.6, shift=1.0), 4)
    0.5958
    """
    level = check_floats(epsilon, "epsilon", "[0, inf]")
    low, high = _standardize(level, check_floats(shift, "shift", "[0, inf]"))
    return unwrap(np.minimum(ndtr(-low) + ndtr(-high), 1.0))  # exact law, both sides


def gaussian_delta(epsilon: ArrayLike, shift: ArrayLike) -> Any:
    r"""Return the least delta with which Gaussian noise is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float or array
        Privacy level, in [0, inf].
    shift : float or array, broadcast against `epsilon`
        L2 sensitivity over noise scale, `a`, in [0, inf]. Unitless.

    Returns
    -------
    delta : float or array
        Hockey-stick divergence, in [0, 1]; 0 without a shift or for epsilon = inf. A
        float if all inputs are scalars.

    Raises
    ------
    ValueError
        If `epsilon` or `shift` is outside [0, inf].

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
    >>> from skparisk.privacy_loss import gaussian_delta
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
