"""Theorems 5 and 6 of Dandekar et al. as printed; they guarantee nothing.

In these formulas a *confidence* is one minus a risk.
"""

from __future__ import annotations

import math

from skparisk.core.checks import (
    CalibrationError,
    check_at_least,
    check_epsilon,
    check_number,
    check_positive,
    check_probability,
)
from skparisk.papers._privacy_at_risk import dandekar_cdf, dandekar_epsilon


def dandekar_empirical_risk(
    n_pairs: int, order_index: int, sample_failure_prob: float = 0.05
) -> float:
    """Return the risk that Theorem 5 claims at a sampled sensitivity.

    Parameters
    ----------
    n_pairs : int
        Sampled pairs, m >= 1.

    order_index : int
        Number K of the sampled sensitivity in use, in ascending order, in 1, ..., m.

    sample_failure_prob : float, default=0.05
        One minus `sample_confidence`, in (0, 1).

    Returns
    -------
    risk : float
        One minus the theorem's empirical confidence.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Dandekar, Theorem 5, Eq. 5: the share K/m of the sampled sensitivities at or below
    it, times `sample_confidence`. **It does not hold**: of the share of the true
    distribution below only that share less rho is known.

    Examples
    --------
    >>> from skparisk.papers import dandekar_empirical_risk
    >>> round(dandekar_empirical_risk(1500, 1425), 4)
    0.0975
    """
    m = check_at_least(n_pairs, "n_pairs", 1)
    index = check_at_least(order_index, "order_index", 1)
    failure = check_probability(sample_failure_prob, "sample_failure_prob")
    if index > m:
        raise ValueError(f"order_index must be at most n_pairs={m}, got {index}.")
    return 1 - index / m * (1 - failure)


def sample_confidence(n_pairs: int, rho: float) -> float:
    """Return the confidence in an empirical distribution, 1 - 2 exp(-2 rho^2 m).

    Parameters
    ----------
    n_pairs : int
        Sampled pairs, m >= 1.

    rho : float
        Largest error of the empirical distribution function, > 0.

    Returns
    -------
    confidence : float
        May be negative, which says nothing.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Dandekar, Eq. 13, the Dvoretzky-Kiefer-Wolfowitz inequality.

    Examples
    --------
    >>> from skparisk.papers import sample_confidence
    >>> round(sample_confidence(15_000, 0.01), 4)
    0.9004
    """
    n_pairs = check_at_least(n_pairs, "n_pairs", 1)
    rho = check_positive(rho, "rho")
    return 1 - 2 * math.exp(-2 * rho**2 * n_pairs)


def bessel_joint_confidence(
    epsilon: float,
    noise_epsilon: float,
    confidence: float,
    *,
    n_outputs: int = 1,
    eta: float = 1.0,
) -> float:
    """Return Theorem 6's confidence over both sources of randomness.

    Parameters
    ----------
    epsilon : float
        Privacy level whose confidence is claimed, > 0.

    noise_epsilon : float
        Privacy level of the noise at the sampled sensitivity, > 0.

    confidence : float
        Share of the sampled sensitivities at or below the one in use, in (0, 1).

    n_outputs : int, default=1
        Outputs of the query, >= 1.

    eta : float, default=1.0
        True over sampled sensitivity; Lemma 12 has 1 + rho / sensitivity.

    Returns
    -------
    confidence : float
        ``confidence * P(T <= epsilon) / P(T <= eta * noise_epsilon)``. To be
        multiplied with `sample_confidence` for the theorem's empirical one. As
        printed, so above `confidence` where `epsilon` is above the other level.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Dandekar, Theorem 6, Eq. 7. **It does not hold**, for the reasons of
    :func:`~skparisk.papers.dandekar_confidence`, and since `eta` is a guess.

    Examples
    --------
    >>> from skparisk.papers import bessel_joint_confidence
    >>> round(bessel_joint_confidence(0.4, 0.797, 0.9), 3)
    0.54
    """
    epsilon = check_epsilon(epsilon)
    noise_epsilon = check_epsilon(noise_epsilon, "noise_epsilon")
    confidence = check_probability(confidence, "confidence")
    eta = check_positive(eta, "eta")
    ratio = dandekar_cdf(epsilon, n_outputs) / dandekar_cdf(
        eta * noise_epsilon, n_outputs
    )
    return float(confidence * ratio)


def bessel_joint_noise_epsilon(
    epsilon: float,
    target: float,
    confidence: float,
    *,
    n_outputs: int = 1,
    eta: float = 1.0,
    sample_confidence: float = 1.0,
) -> float:
    """Return the noise level at which Theorem 6 claims a confidence.

    Parameters
    ----------
    epsilon, confidence, n_outputs, eta
        As in `bessel_joint_confidence`; the level is finite.

    target : float
        Empirical confidence to be claimed, in (0, 1).

    sample_confidence : float, default=1.0
        Confidence in the empirical distribution, in (0, 1].

    Returns
    -------
    noise_epsilon : float
        Solution of ``target * P(T <= eta * noise_epsilon) = sample_confidence *
        confidence * P(T <= epsilon)``.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    CalibrationError
        If even without noise the formula claims more than the target.

    Notes
    -----
    Dandekar, section 4.3. **It does not hold**, see `bessel_joint_confidence`.

    Examples
    --------
    >>> from skparisk.papers import bessel_joint_noise_epsilon
    >>> round(bessel_joint_noise_epsilon(0.4, 0.54, 0.9), 3)
    0.797
    """
    epsilon = check_positive(epsilon, "epsilon")
    target = check_probability(target, "target")
    confidence = check_probability(confidence, "confidence")
    eta = check_positive(eta, "eta")
    sample_confidence = check_number(sample_confidence, "sample_confidence", "(0, 1]")
    claimed = sample_confidence * confidence * float(dandekar_cdf(epsilon, n_outputs))
    if claimed >= target:
        raise CalibrationError(
            f"target={target!r} is exceeded at every noise level: the least "
            f"confidence that the formula can claim is {claimed:.6g}.",
            target=target,
            best=claimed,
        )
    # Without noise, the quantile of T.
    return dandekar_epsilon(claimed / target, math.inf, n_outputs) / eta
