"""The exact laws of the privacy loss of Laplace and Gaussian noise, with inverses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, erfinv, gammainc, ndtr, ndtri

from skparisk.core import checks
from skparisk.core.checks import check_floats
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
    >>> from skparisk.core import laplace_loss_exceedance
    >>> round(laplace_loss_exceedance(0.6, shift=1.0), 4)
    0.5906
    """
    c = checks.check_floats(epsilon, "epsilon", "[-inf, inf]")
    a = checks.check_floats(shift, "shift", "[0, inf)")
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
    >>> from skparisk.core import laplace_loss_mean
    >>> round(laplace_loss_mean(1.0), 5)
    0.36788
    """
    a = checks.check_floats(shift, "shift", "[0, inf)")
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
    >>> from skparisk.core import laplace_delta
    >>> round(laplace_delta(0.6, noise_epsilon=1.0), 4)
    0.1813
    """
    level = checks.check_floats(epsilon, "epsilon", "[0, inf]")
    noise = checks.check_floats(noise_epsilon, "noise_epsilon", "(0, inf]")
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
    >>> from skparisk.core import laplace_noise_epsilon
    >>> laplace_noise_epsilon(0.6, gamma=0.4)
    0.6
    >>> round(laplace_noise_epsilon(0.6, gamma=0.7), 4)
    1.6217
    """
    level = checks.check_epsilon(epsilon)
    risk = checks.check_probability(gamma, "gamma")
    k = checks.check_at_least(n_outputs, "n_outputs", 1)
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
    >>> from skparisk.core import laplace_delta_noise_epsilon
    >>> round(laplace_delta_noise_epsilon(0.6, delta=0.1813), 4)
    1.0001
    """
    level = checks.check_epsilon(epsilon)
    target = checks.check_share(delta, "delta")
    if level == math.inf:
        return level
    return safe_root(
        lambda e0: target - laplace_delta(level, e0),
        unsafe=math.inf,
        safe=level,
        root=level - 2 * math.log1p(-target),  # hockey stick, solved for the level
    )


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
    >>> from skparisk.core import gaussian_loss_exceedance
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
    >>> from skparisk.core import gaussian_risk
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
    >>> from skparisk.core import gaussian_shift
    >>> round(gaussian_shift(1.0, delta=1e-5), 4)
    0.2681
    """
    level = checks.check_epsilon(epsilon)
    target = checks.check_probability(delta, "delta")
    if level == math.inf:
        return level
    start = max(
        _explicit_root(level, target),  # δ <= P(C > ε)
        2 * math.sqrt(2) * float(erfinv(target)),  # δ at ε = 0
    )
    return _largest_shift(lambda a: gaussian_delta(level, a), target, start)


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
    >>> from skparisk.core import gaussian_explicit_shift
    >>> round(gaussian_explicit_shift(1.0, gamma=0.05), 4)
    0.5244
    """
    level = checks.check_epsilon(epsilon)
    risk = checks.check_probability(gamma, "gamma")
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
    >>> from skparisk.core import gaussian_risk_shift
    >>> round(gaussian_risk_shift(1.0, gamma=0.05), 4)
    0.4954
    """
    level = checks.check_epsilon(epsilon)
    risk = checks.check_probability(gamma, "gamma")
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
    >>> from skparisk.core import gaussian_delta_epsilon
    >>> round(gaussian_delta_epsilon(1e-5, shift=1.0), 4)
    4.3772
    """
    target = checks.check_floats(delta, "delta", "(0, 1)")
    a = checks.check_floats(shift, "shift", "[0, inf]")
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
