"""The exact law of the privacy loss of Laplace noise, and its inverses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc

from skparisk.core import checks as _validate
from skparisk.core.rounding import safe_root, unwrap


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
    >>> from skparisk.privacy_loss import laplace_loss_exceedance
    >>> round(laplace_loss_exceedance(0.6, shift=1.0), 4)
    0.5906
    """
    c = _validate.check_floats(epsilon, "epsilon", "[-inf, inf]")
    a = _validate.check_floats(shift, "shift", "[0, inf)")
    between = 0.5 - 0.5 * np.expm1(np.minimum(c - a, 0.0) / 2)  # exact law, -a <= c < a
    return unwrap(np.where(c < -a, 1.0, np.where(c < a, between, 0.0)))


def laplace_loss_mean(shift: ArrayLike) -> Any:
    r"""Return the exact mean of the Laplace privacy loss.

    Parameters
    ----------
    shift : float or array
        Difference of the query over the noise scale, `a`, in [0, inf). Unitless.

    Returns
    -------
    mean : float or array
        E[C], in [0, shift]. A float for a scalar.

    Raises
    ------
    ValueError
        If `shift` is outside [0, inf).

    Notes
    -----
    Exact law of one coordinate, :math:`a + e^{-a} - 1`, written as
    :math:`a (1 - e^{-a}) - P(\mathrm{Gamma}(2) \le a)`, where small a cost no digits.

    Examples
    --------
    >>> from skparisk.privacy_loss import laplace_loss_mean
    >>> round(laplace_loss_mean(1.0), 5)
    0.36788
    """
    a = _validate.check_floats(shift, "shift", "[0, inf)")
    return unwrap(-a * np.expm1(-a) - gammainc(2.0, a))  # exact law, mean


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

    Raises
    ------
    ValueError
        If `epsilon` is outside [0, inf], or `noise_epsilon` outside (0, inf].

    Notes
    -----
    :math:`1 - e^{(\epsilon - \epsilon_0)/2}` for :math:`\epsilon < \epsilon_0`, else 0.

    **Guarantee.** Exact for one coordinate, and the worst case over all shifts of the
    same L1 norm (log-concave location family, group privacy: Dong, Roth, Su 2022,
    *Gaussian differential privacy*). The caller must ensure that the sensitivity holds.

    Examples
    --------
    >>> from skparisk.privacy_loss import laplace_delta
    >>> round(laplace_delta(0.6, noise_epsilon=1.0), 4)
    0.1813
    """
    level = _validate.check_floats(epsilon, "epsilon", "[0, inf]")
    noise = _validate.check_floats(noise_epsilon, "noise_epsilon", "(0, inf]")
    noise = np.minimum(noise, np.finfo(np.float64).max)  # no inf - inf
    gap = np.maximum(noise - level, 0.0)
    return unwrap(np.abs(np.expm1(-gap / 2)))  # hockey stick of one coordinate


def laplace_noise_epsilon(epsilon: float, gamma: float, n_outputs: int = 1) -> float:
    r"""Return the largest noise level with P(loss > epsilon) within a risk.

    Parameters
    ----------
    epsilon : float
        Privacy level, in (0, inf].
    gamma : float
        Risk: probability, over the noise, that the loss exceeds it, in (0, 1).
    n_outputs : int, default=1
        Length of the query's answer, >= 1.

    Returns
    -------
    noise_epsilon : float
        L1 sensitivity over noise scale, in [epsilon, inf]. Rounded down.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    :math:`\epsilon - 2 \ln(2 (1 - \gamma))` for one output and a risk of one half or
    more, the inverse of `laplace_loss_exceedance`; else `epsilon`.

    **Guarantee.** :math:`P(C > \epsilon) \le \gamma` at every shift whose L1 norm is at
    most the result (exact law, increasing in the shift). Below one half no level above
    epsilon has it: the upper atom is 1/2. For several outputs the worst shift is not
    proved, so `epsilon` is kept. The caller must ensure that the sensitivity holds.

    Examples
    --------
    >>> from skparisk.privacy_loss import laplace_noise_epsilon
    >>> laplace_noise_epsilon(0.6, gamma=0.4)
    0.6
    >>> round(laplace_noise_epsilon(0.6, gamma=0.7), 4)
    1.6217
    """
    level = _validate.check_epsilon(epsilon)
    risk = _validate.check_probability(gamma, "gamma")
    k = _validate.check_at_least(n_outputs, "n_outputs", 1)
    if risk < 0.5 or k > 1 or level == math.inf:
        return level
    return safe_root(
        lambda a: risk - laplace_loss_exceedance(level, a),
        unsafe=math.inf,
        safe=level,
        root=level - 2 * math.log(2 * (1 - risk)),  # exact law, solved for the shift
    )


def laplace_delta_noise_epsilon(epsilon: float, delta: float) -> float:
    r"""Return the largest noise level that is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        Privacy level, in (0, inf].
    delta : float
        Second privacy parameter, in [0, 1).

    Returns
    -------
    noise_epsilon : float
        L1 sensitivity over noise scale, in [epsilon, inf]. Rounded down.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    :math:`\epsilon - 2 \ln(1 - \delta)`, the inverse of `laplace_delta`.

    **Guarantee.** (epsilon, delta)-differential privacy, for any number of outputs:
    one coordinate is the worst shift of its L1 norm (see `laplace_delta`). The caller
    must ensure that the sensitivity holds.

    Examples
    --------
    >>> from skparisk.privacy_loss import laplace_delta_noise_epsilon
    >>> round(laplace_delta_noise_epsilon(0.6, delta=0.1813), 4)
    1.0001
    """
    level = _validate.check_epsilon(epsilon)
    target = _validate.check_share(delta, "delta")
    if level == math.inf:
        return level
    return safe_root(
        lambda e0: target - laplace_delta(level, e0),
        unsafe=math.inf,
        safe=level,
        root=level - 2 * math.log1p(-target),  # hockey stick, solved for the level
    )
