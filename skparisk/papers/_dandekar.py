"""Formulas of Dandekar, Basu and Bressan as printed: they guarantee nothing.

In these formulas a *confidence* is one minus a risk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc

from skparisk.core.checks import (
    CalibrationError,
    check_at_least,
    check_choice,
    check_epsilon,
    check_floats,
    check_number,
    check_positive,
    check_probability,
    is_number,
)
from skparisk.core.compose import concentrated
from skparisk.core.rounding import safe_root, unwrap


@dataclass(frozen=True)
class DandekarTheorem4:
    """Theorem 4 as a law for the cost model.

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
        """Return the risk claimed by the theorem at each level in [0, inf]."""
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
    at = check_floats(x, "x", "[-inf, inf]")
    k = check_at_least(n_outputs, "n_outputs", 1)
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
    pair is `Laplace.exceedance`, 1/2 or more. As (epsilon, 1 - confidence)-privacy
    it holds for one output if and only if `noise_epsilon` is at most ln 3.

    Examples
    --------
    >>> from skparisk.papers import dandekar_confidence
    >>> round(dandekar_confidence(0.6, noise_epsilon=1.0), 4)
    0.7138
    """
    level = check_floats(epsilon, "epsilon", "(0, inf]")
    noise = check_floats(noise_epsilon, "noise_epsilon", "(0, inf]")
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
    target = check_probability(confidence, "confidence")
    noise = check_epsilon(noise_epsilon, "noise_epsilon")
    k = check_at_least(n_outputs, "n_outputs", 1)
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
    level = check_positive(epsilon, "epsilon")
    target = check_probability(confidence, "confidence")
    k = check_at_least(n_outputs, "n_outputs", 1)
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


def laplace_loss_mean(shift: ArrayLike) -> Any:
    r"""Return the true mean of the Laplace privacy loss, beside that of Theorem 3.

    Parameters
    ----------
    shift : float or array
        Distance of the two answers over the noise scale, `a`, in [0, inf).

    Returns
    -------
    mean : float or array
        E[C], in [0, shift]. A float for a scalar.

    Notes
    -----
    Exact law of one coordinate, :math:`a + e^{-a} - 1`, written as
    :math:`a (1 - e^{-a}) - P(\mathrm{Gamma}(2) \le a)`, where small a cost no digits.

    Examples
    --------
    >>> from skparisk.papers import laplace_loss_mean
    >>> round(laplace_loss_mean(1.0), 5)
    0.36788
    """
    a = check_floats(shift, "shift", "[0, inf)")
    return unwrap(-a * np.expm1(-a) - gammainc(2.0, a))  # exact law, mean


# The mean loss at a level, of Theorem 3 and Corollary 1.
_VERSIONS: Mapping[str, Callable[[float], float]] = {
    "journal": lambda e: e * e / 2,
    "preprint": lambda e: e * (math.expm1(e) if e < 700 else math.inf),
}


def compose_privacy_at_risk(
    releases: Iterable[Any], *, delta: float, version: str = "journal"
) -> float:
    r"""Return the level of Dandekar's composition theorem: not a guarantee.

    Parameters
    ----------
    releases : iterable of Certificate or tuple of float
        Certificates, or anything with their `epsilon`, `confidence` and
        `noise_epsilon`; or plain numbers (epsilon, risk, noise_epsilon), with a risk,
        not a confidence, in [0, 1]. May be empty.

    delta : float
        Delta of all together, in (0, 1).

    version : {"journal", "preprint"}, default="journal"
        Which mean of the loss: see Notes.

    Returns
    -------
    epsilon : float
        Level that the theorem claims of all together, unitless.

    Raises
    ------
    ValueError
        If `delta` or `version` is out of range, or a release is none of these.

    Notes
    -----
    :math:`\sqrt{2 \ln(1/\delta) \sum \epsilon_{0,i}^2} + \sum \mu_i` with
    :math:`\epsilon_0` the `noise_epsilon` and c the confidence: in the journal
    :math:`\mu = \frac12 (c \epsilon^2 + (1 - c) \epsilon_0^2)`, in the preprint
    :math:`\mu = c \epsilon (e^\epsilon - 1) + (1 - c) \epsilon_0 (e^{\epsilon_0} - 1)`.
    Source: Dandekar, Basu, Bressan (2021), Theorem 3 and Corollary 1.

    **Not a guarantee** (:ref:`thm-laplace-composition`). The mean belongs to a mixture
    of two mechanisms. The Laplace mechanism is none, and its true mean is larger. For
    300 releases of level 0.5 the journal's level at delta 1e-5 is 63.07407, and the
    exact one is 63.98180. No violation of the preprint's is known at the confidence of
    `dandekar_confidence`. Use `compose_exact`.

    Examples
    --------
    >>> from skparisk.papers import compose_privacy_at_risk
    >>> round(compose_privacy_at_risk([(0.08, 0.2, 0.1)] * 100, delta=1e-5), 3)
    5.155
    """
    check_choice(version, "version", tuple(_VERSIONS))
    total = check_probability(delta, "delta")
    if isinstance(releases, str | Mapping) or not isinstance(releases, Iterable):
        raise ValueError(f"releases must be a list of releases, got {releases!r}.")
    triples = [_as_triple(release) for release in releases]
    levels = [e0 for _, _, e0 in triples]
    means = [_mixed(_VERSIONS[version], *each) for each in triples]
    if not any(levels):
        return 0.0
    try:
        squares, mean = math.fsum(e * e for e in levels), math.fsum(means)
    except OverflowError:
        return math.inf
    return concentrated(squares, mean, total)


def _as_triple(release: Any) -> tuple[float, float, float]:
    """Return epsilon, confidence and noise_epsilon."""
    if hasattr(release, "noise_epsilon") and hasattr(release, "confidence"):
        return release.epsilon, release.confidence, release.noise_epsilon
    numbers = tuple(release) if isinstance(release, tuple | list) else ()
    plain = all(map(is_number, numbers))
    if len(numbers) != 3 or not plain:
        raise ValueError(
            "a release must be a certificate or three numbers (epsilon, risk, "
            f"noise_epsilon), got {release!r}."
        )
    epsilon, risk, noise_epsilon = map(float, numbers)
    if not (epsilon >= 0 and 0 <= risk <= 1 and noise_epsilon >= 0):
        raise ValueError(
            "a release must have epsilon and noise_epsilon in [0, inf] and a risk in "
            f"[0, 1], got {release!r}."
        )
    return epsilon, 1 - risk, noise_epsilon


def _mixed(
    mean: Callable[[float], float], epsilon: float, confidence: float, noise: float
) -> float:
    """Return the mean loss of a mixture; a level without weight may be infinite."""
    parts = ((confidence, epsilon), (1 - confidence, noise))
    return sum(weight * mean(level) for weight, level in parts if weight)


def dandekar_empirical_risk(
    n_pairs: int, order_index: int, sample_failure_prob: float = 0.05
) -> float:
    """Return the risk claimed by Theorem 5 at a sampled sensitivity.

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
