"""Theorem 4 of Dandekar et al. as printed, and its inverses: no guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc

from skparisk.core import checks
from skparisk.core.checks import CalibrationError
from skparisk.core.rounding import safe_root, unwrap


@dataclass(frozen=True)
class DandekarTheorem4:
    """Theorem 4 as the law that costs are counted with.

    For ``law=`` of :meth:`skparisk.cost.CostModel.budget_at_risk`.

    **Guarantee**: none, see `dandekar_confidence`.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.papers import DandekarTheorem4
    >>> DandekarTheorem4().risk(np.array([0.4]), 0.797, n_outputs=1).round(3)
    array([0.4])
    """

    def risk(
        self, epsilon: NDArray[np.float64], noise_epsilon: float, n_outputs: int
    ) -> NDArray[np.float64]:
        """Return the risk that the theorem claims at each level in [0, inf]."""
        above_0 = np.maximum(epsilon, math.ulp(0.0))
        return np.asarray(1 - dandekar_confidence(above_0, noise_epsilon, n_outputs))


def dandekar_cdf(x: ArrayLike, n_outputs: int = 1) -> Any:
    r"""Return the distribution function of Dandekar's variable T.

    Parameters
    ----------
    x : float or array
        Where to evaluate it, in [-inf, inf].
    n_outputs : int, default=1
        Length `k` of the query's answer, >= 1.

    Returns
    -------
    probability : float or array
        P(T <= x), in [0, 1]; 0 for x <= 0. A float for a scalar.

    Raises
    ------
    ValueError
        If `x` is NaN, or `n_outputs` is not a whole number >= 1.

    Notes
    -----
    T is the distance of two independent Gamma(k, 1) variables (Dandekar, Basu,
    Bressan 2021, *Differential Privacy at Risk*, Theorem 4), a mixture of gammas:

    .. math:: P(T \le x) = \sum_{j=0}^{k-1} \binom{k-1+j}{j} 2^{-(k-1+j)}
              P(\mathrm{Gamma}(k-j) \le x)

    All terms are positive: no cancellation. Memory: ``x.size * n_outputs`` floats.

    Examples
    --------
    >>> from skparisk.papers import dandekar_cdf
    >>> round(dandekar_cdf(1.0, n_outputs=2), 12)
    0.448180838243
    """
    at = checks.check_floats(x, "x", "[-inf, inf]")
    k = checks.check_at_least(n_outputs, "n_outputs", 1)
    s = np.arange(1.0, k + 1.0)  # shapes k - j; weights by their ratio, largest first
    weights = np.cumprod(np.append(1.0, 2 * (k - s[:-1]) / (2 * k - 1 - s[:-1])))
    parts = gammainc(s, np.maximum(at, 0.0)[..., np.newaxis])
    total = parts @ (weights / weights.sum())  # mixture form of the law of Theorem 4
    return unwrap(np.where(at >= _upper_end(k), 1.0, np.minimum(total, 1.0)))


def dandekar_confidence(
    epsilon: ArrayLike, noise_epsilon: ArrayLike, n_outputs: int = 1
) -> Any:
    r"""Return the confidence of Dandekar's Theorem 4: not a guarantee.

    Parameters
    ----------
    epsilon : float or array
        Privacy level, in (0, inf].
    noise_epsilon : float or array, broadcast against `epsilon`
        Privacy level of the noise: sensitivity over noise scale, in (0, inf].
    n_outputs : int, default=1
        Length of the query's answer, >= 1.

    Returns
    -------
    confidence : float or array
        In [0, 1]; 1 from `noise_epsilon` on. A float if all inputs are scalars.

    Raises
    ------
    ValueError
        If a level is outside (0, inf], or `n_outputs` no whole number >= 1.

    Notes
    -----
    :math:`P(T \le \epsilon)/P(T \le \epsilon_0)` (Dandekar, Basu, Bressan 2021,
    Theorem 4, Eq. 3), T the variable of `dandekar_cdf`.

    **Not a guarantee.** The proof takes the distances of an output from the two
    answers as independent, and they share the output. The true risk at a worst-case
    pair is `laplace_loss_exceedance`, 1/2 or more. As (epsilon, 1 - confidence)-privacy
    it holds for one output if and only if `noise_epsilon` is at most ln 3.

    Examples
    --------
    >>> from skparisk.papers import dandekar_confidence
    >>> round(dandekar_confidence(0.6, noise_epsilon=1.0), 4)
    0.7138
    """
    level = checks.check_floats(epsilon, "epsilon", "(0, inf]")
    noise = checks.check_floats(noise_epsilon, "noise_epsilon", "(0, inf]")
    ratio = dandekar_cdf(level, n_outputs) / dandekar_cdf(noise, n_outputs)  # Eq. 3
    return unwrap(np.where(level < noise, np.minimum(ratio, 1.0), 1.0))


def dandekar_epsilon(
    confidence: float, noise_epsilon: float, n_outputs: int = 1
) -> float:
    r"""Return the privacy level for a confidence in `dandekar_confidence`.

    Parameters
    ----------
    confidence : float
        One minus the risk that the paper states, in (0, 1).
    noise_epsilon, n_outputs
        As in `dandekar_confidence`, but a single level.

    Returns
    -------
    epsilon : float
        In (0, noise_epsilon]. Rounded up: its confidence is not below the target.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Dandekar, Basu, Bressan (2021), Eq. 4, in general the root of Eq. 3. No guarantee.

    Examples
    --------
    >>> from skparisk.papers import dandekar_epsilon
    >>> round(dandekar_epsilon(0.54, noise_epsilon=1.0), 2)
    0.42
    """
    target = checks.check_probability(confidence, "confidence")
    noise = checks.check_epsilon(noise_epsilon, "noise_epsilon")
    k = checks.check_at_least(n_outputs, "n_outputs", 1)
    return safe_root(
        lambda e: dandekar_confidence(e, noise, k) - target,
        unsafe=math.ulp(0.0),
        safe=min(noise, _upper_end(k)),
        root=-math.log1p(target * math.expm1(-noise)) if k == 1 else None,  # Eq. 4
    )


def dandekar_noise_epsilon(
    epsilon: float, confidence: float, n_outputs: int = 1
) -> float:
    r"""Return the noise level for a confidence in `dandekar_confidence`.

    Parameters
    ----------
    epsilon : float
        Privacy level, in (0, inf).
    confidence, n_outputs
        As in `dandekar_epsilon`.

    Returns
    -------
    noise_epsilon : float
        In [epsilon, inf]. Rounded down, to more noise: confidence not below target.

    Raises
    ------
    CalibrationError
        If even without noise the confidence is higher; ``best`` is the least one.
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Dandekar, Basu, Bressan (2021), the root of Eq. 3 in :math:`\epsilon_0`; without
    noise it gives :math:`P(T \le \epsilon)`. No guarantee.

    Examples
    --------
    >>> from skparisk.papers import dandekar_noise_epsilon
    >>> round(dandekar_noise_epsilon(0.4, confidence=0.6), 3)
    0.797
    """
    level = checks.check_positive(epsilon, "epsilon")
    target = checks.check_probability(confidence, "confidence")
    k = checks.check_at_least(n_outputs, "n_outputs", 1)
    least = dandekar_cdf(level, n_outputs=k)
    if least > target:
        message = (
            f"confidence must be at least {least!r}, which epsilon={level!r} has with "
            f"n_outputs={k} and no noise at all, got {target!r}."
        )
        raise CalibrationError(message, target, least)
    if least == target:
        return math.inf
    return safe_root(
        lambda e0: dandekar_confidence(level, e0, k) - target,
        unsafe=_upper_end(k),
        safe=level,
        root=-math.log1p(-least / target) if k == 1 else None,  # Eq. 3 for epsilon_0
    )


def _upper_end(k: int) -> float:
    """Return where P(T > x) <= 2 exp(-x/√2) 2**k (Chernoff) is below 1e-18."""
    return 2.0 * k + 60.0
