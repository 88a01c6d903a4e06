"""The largest shift, or the least level, at which Gaussian noise keeps a promise.

The noise scale is the L2 sensitivity over the shift.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfinv, ndtri

from skparisk.core import checks as _validate
from skparisk.core.rounding import safe_root, unwrap
from skparisk.privacy_loss._gaussian import (
    gaussian_delta,
    gaussian_loss_exceedance,
    gaussian_risk,
)


def gaussian_shift(epsilon: float, delta: float) -> float:
    r"""Return the largest shift that is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        Privacy level, in (0, inf].
    delta : float
        Second privacy parameter, in (0, 1).

    Returns
    -------
    shift : float
        L2 sensitivity over noise scale, in [0, inf]. Rounded down, to more noise.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    The root of `gaussian_delta` in the shift: the analytic Gaussian mechanism of
    Balle, Wang (2018), *Improving the Gaussian Mechanism for Differential Privacy*,
    Theorem 8. Any level, not only up to one.

    **Guarantee.** (epsilon, delta)-differential privacy of Gaussian noise with scale
    sensitivity / shift, for any number of outputs; `gaussian_delta` of the result is
    at most `delta`. The caller must ensure that the sensitivity holds.

    Examples
    --------
    >>> from skparisk.privacy_loss import gaussian_shift
    >>> round(gaussian_shift(1.0, delta=1e-5), 4)
    0.2681
    """
    level = _validate.check_epsilon(epsilon)
    target = _validate.check_probability(delta, "delta")
    if level == math.inf:
        return level
    start = max(
        _explicit_root(level, target),  # δ <= P(C > ε)
        2 * math.sqrt(2) * float(erfinv(target)),  # δ at ε = 0
    )
    return _largest_shift(lambda a: gaussian_delta(level, a), target, start)


def gaussian_classical_shift(epsilon: float, delta: float) -> float:
    r"""Return the shift of the classical Gaussian mechanism, for epsilon up to one.

    Parameters
    ----------
    epsilon : float
        Privacy level, in (0, 1].
    delta : float
        Second privacy parameter, in (0, 1).

    Returns
    -------
    shift : float
        L2 sensitivity over noise scale, above 0. Rounded down, to more noise.

    Raises
    ------
    ValueError
        If `epsilon` is outside (0, 1], or `delta` outside (0, 1).

    Notes
    -----
    :math:`\epsilon / \sqrt{2 \ln(1.25 / \delta)}` (Dwork, Roth 2014, *The Algorithmic
    Foundations of Differential Privacy*, Theorem A.1). It is below `gaussian_shift`,
    which needs less noise.

    **Guarantee.** (epsilon, delta)-differential privacy of Gaussian noise with scale
    sensitivity / shift, for any number of outputs. The caller must ensure that the
    sensitivity holds.

    Examples
    --------
    >>> from skparisk.privacy_loss import gaussian_classical_shift
    >>> round(gaussian_classical_shift(1.0, delta=1e-5), 4)
    0.2064
    """
    level = _validate.check_number(epsilon, "epsilon", "(0, 1]")
    target = _validate.check_probability(delta, "delta")
    shift = level / math.sqrt(2 * (math.log(1.25) - math.log(target)))  # Theorem A.1
    return shift * (1 - 1e-15)  # more than what rounding can have added


def gaussian_explicit_shift(epsilon: float, gamma: float) -> float:
    r"""Return the largest shift with P(loss > epsilon) within a risk.

    Parameters
    ----------
    epsilon : float
        Privacy level, in (0, inf].
    gamma : float
        Risk: probability, over the noise, that the loss exceeds it, in (0, 1).

    Returns
    -------
    shift : float
        L2 sensitivity over noise scale, in [0, inf]. Rounded down, to more noise.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    :math:`z + \sqrt{z^2 + 2 \epsilon}`, :math:`z = \Phi^{-1}(\gamma)`, the inverse of
    `gaussian_loss_exceedance`.

    **Guarantee.** :math:`P(C > \epsilon) \le \gamma` at every shift up to the result
    (exact law, increasing in the shift). The caller must ensure that the sensitivity
    holds.

    Examples
    --------
    >>> from skparisk.privacy_loss import gaussian_explicit_shift
    >>> round(gaussian_explicit_shift(1.0, gamma=0.05), 4)
    0.5244
    """
    level = _validate.check_epsilon(epsilon)
    risk = _validate.check_probability(gamma, "gamma")
    if level == math.inf:
        return level
    return safe_root(
        lambda a: risk - gaussian_loss_exceedance(level, a),
        unsafe=math.inf,
        safe=0.0,
        root=_explicit_root(level, risk),
    )


def gaussian_risk_shift(epsilon: float, gamma: float) -> float:
    r"""Return the largest shift with at most a risk of ``|loss| > epsilon``.

    Parameters
    ----------
    epsilon, gamma : float
        As in `gaussian_explicit_shift`, of \|loss\|.

    Returns
    -------
    shift : float
        L2 distance of two answers over noise scale, in [0, inf]. Rounded down.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    The root of `gaussian_risk` in the shift.

    **Guarantee.** :math:`P(|C| > \epsilon) \le \gamma` at every shift up to the result
    (exact law, increasing in the shift). The caller must ensure that the sensitivity
    holds.

    Examples
    --------
    >>> from skparisk.privacy_loss import gaussian_risk_shift
    >>> round(gaussian_risk_shift(1.0, gamma=0.05), 4)
    0.4954
    """
    level = _validate.check_epsilon(epsilon)
    risk = _validate.check_probability(gamma, "gamma")
    if level == math.inf:
        return level
    start = _explicit_root(level, risk / 2)  # P(|C| > ε) <= 2 P(C > ε)
    return _largest_shift(lambda a: gaussian_risk(level, a), risk, start)


def gaussian_delta_epsilon(delta: ArrayLike, shift: ArrayLike) -> Any:
    r"""Return the least epsilon with which Gaussian noise is (epsilon, delta)-private.

    Parameters
    ----------
    delta : float or array
        Second privacy parameter, in (0, 1).
    shift : float or array, broadcast against `delta`
        L2 sensitivity over noise scale, in [0, inf]. Unitless.

    Returns
    -------
    epsilon : float or array
        Privacy level, in [0, inf]; 0 where `delta` is enough by itself. Rounded up. A
        float if all inputs are scalars.

    Raises
    ------
    ValueError
        If `delta` is outside (0, 1), or `shift` outside [0, inf].

    Notes
    -----
    The root of `gaussian_delta` in epsilon, for all shifts at once.

    **Guarantee.** (epsilon, delta)-differential privacy, for any number of outputs;
    `gaussian_delta` of the result is at most `delta`. The caller must ensure that the
    sensitivity holds.

    Examples
    --------
    >>> from skparisk.privacy_loss import gaussian_delta_epsilon
    >>> round(gaussian_delta_epsilon(1e-5, shift=1.0), 4)
    4.3772
    """
    target = _validate.check_floats(delta, "delta", "(0, 1)")
    a = _validate.check_floats(shift, "shift", "[0, inf]")
    with np.errstate(over="ignore"):  # here even P(C > ε), with room, is below δ
        high = np.maximum(a * (a + 1.0 - ndtri(target)), 0.0)
    low = np.zeros_like(high)
    for _ in range(70):  # bisection; `high` stays on the safe side
        middle = low / 2 + high / 2
        safe = gaussian_delta(middle, a) <= target
        low, high = np.where(safe, low, middle), np.where(safe, middle, high)
    return unwrap(np.where(gaussian_delta(0.0, a) <= target, 0.0, high))


def _explicit_root(epsilon: float, gamma: float) -> float:
    """Return where P(C > epsilon) is gamma, up to rounding."""
    z, root = float(ndtri(gamma)), math.sqrt(2) * math.sqrt(epsilon)
    norm = math.hypot(z, root)  # a = z + √(z² + 2ε), from Φ(a/2 - ε/a) = γ
    return z + norm if z > 0 else root * (root / (norm - z))


def _largest_shift(law: Callable[[float], float], target: float, start: float) -> float:
    """Return the largest shift at which a law is at most the target, above start."""
    unsafe = max(start, math.ulp(0.0))
    while law(unsafe) <= target:
        unsafe *= 2
    return safe_root(lambda a: target - law(a), unsafe, safe=0.0, root=None)
