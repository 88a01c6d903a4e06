"""Advanced composition: levels grow with the square root of the number of releases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from skparisk.certificate import Certificate
from skparisk.certificate._certificate import as_certificates
from skparisk.composition._conversions import known_level
from skparisk.composition._totals import Totals, concentrated
from skparisk.core.checks import check_choice, check_probability
from skparisk.core.exceptions import CalibrationError, IncompatibleError
from skparisk.core.laws import Laplace
from skparisk.core.losses import laplace_loss_mean
from skparisk.core.rounding import add_up, decimal, exact_sum, round_up


def compose_advanced(
    releases: Iterable[Any], *, delta: float, form: str = "lecture"
) -> Certificate:
    r"""Return what releases guarantee together, at a delta (advanced composition).

    Parameters
    ----------
    releases : iterable of object with `as_certificate`, float or tuple of float
        Certificates, mechanisms, or plain numbers. May be empty.

    delta : float
        Delta of all together, in (0, 1), above the sum of those of the releases.

    form : {"lecture", "dwork-roth"}, default="lecture"
        Bound of the mean loss at a level: :math:`\epsilon \tanh(\epsilon / 2)`, which
        is attained, or :math:`\epsilon (e^\epsilon - 1)` as in the textbook.

    Returns
    -------
    guarantee : Certificate
        :math:`\epsilon = \sqrt{2 \ln(1/\delta') \sum \epsilon_i^2} + \sum \mu_i`, with
        :math:`\delta'` what is left of `delta`, and :math:`\mu_i` the mean. Not the
        smaller of this and `compose_basic`.

    Raises
    ------
    CalibrationError
        If the releases use up `delta`; ``best`` is the sum of theirs.
    IncompatibleError
        If the releases have different relations of neighboring databases.
    ValueError
        If `delta` or `form` is out of range, or a release is no release.

    Notes
    -----
    **Guarantee** (:ref:`thm-composition`). Queries may depend on earlier releases; how
    many there are, their levels and deltas may not, see :ref:`thm-filter`. Source:
    Dwork and Roth (2014), Theorem 3.20; Kairouz, Oh, Viswanath (2017) for the mean.

    Examples
    --------
    >>> from skparisk.composition import compose_advanced
    >>> round(compose_advanced([0.1] * 100, delta=1e-5).epsilon, 4)
    5.2981
    """
    check_choice(form, "form", ("lecture", "dwork-roth"))
    parts = as_certificates(releases)
    total = check_probability(delta, "delta")
    slack = _what_is_left(total, parts)
    levels = [g.epsilon for g in parts]
    method, means = "dwork-roth", [textbook_mean(e) for e in levels]
    if form == "lecture":
        method, means = "advanced", [e * math.tanh(e / 2) for e in levels]
    epsilon = bound_sum(levels, means, slack)
    return Totals.of(parts).combine(method, epsilon, total)


def compose_laplace(releases: Iterable[Any], *, delta: float) -> Certificate:
    r"""Return what releases with Laplace noise guarantee together, at a delta.

    Parameters
    ----------
    releases : iterable of object with `as_certificate`
        Certificates or mechanisms whose `loss` is a
        :class:`DominatingLoss` of law "laplace". May be empty.

    delta : float
        Delta of all together, in (0, 1). The releases' own are not needed.

    Returns
    -------
    guarantee : Certificate
        With :math:`a_i` the shifts, and all `excess` on top:
        :math:`\epsilon = \min(\sum a_i, \sqrt{2 \ln(1/\delta) \sum a_i^2} +
        \sum (a_i + e^{-a_i} - 1))`. Risks over the noise are gone.

    Raises
    ------
    IncompatibleError
        If the loss of a release is not known to be that of Laplace noise, or the
        releases have different relations of neighboring databases.
    ValueError
        If `delta` is outside (0, 1), or a release is no release.

    Notes
    -----
    **Guarantee** (:ref:`thm-laplace-composition`). Any number of outputs. Queries may
    depend on earlier releases; how many there are, and their levels, may not. This
    is what Theorem 3 of Dandekar et al. wants to be, with the true mean of the loss.
    `compose_exact` is smaller still. Source: Hoeffding (1963).

    Examples
    --------
    >>> from skparisk.certificate import Certificate, DominatingLoss
    >>> from skparisk.composition import compose_laplace
    >>> release = Certificate(0.1, loss=DominatingLoss("laplace", shift=0.1))
    >>> round(compose_laplace([release] * 100, delta=1e-5).epsilon, 4)
    5.2823
    """
    total = check_probability(delta, "delta")
    parts = [known_level(g) for g in as_certificates(releases)]
    for i, g in enumerate(parts):
        if g.loss is None or g.loss.law != Laplace():
            raise IncompatibleError(
                "releases must have a loss that is known to be that of Laplace noise; "
                f"release number {i} has loss={g.loss!r}. Use compose_exact or "
                "compose_advanced."
            )
    laws = [g.loss for g in parts if g.loss is not None]
    shifts = [law.shift for law in laws]
    epsilon = bound_sum(shifts, [laplace_loss_mean(a) for a in shifts], total)
    epsilon = add_up([epsilon, *(law.excess for law in laws)])
    certain = add_up(g.epsilon for g in parts)
    return Totals.of(parts).combine("laplace", min(certain, epsilon), total)


def bound_sum(levels: Sequence[float], means: Sequence[float], delta: float) -> float:
    """Return what a sum exceeds with probability delta at most, rounded up.

    `levels` bound the absolute values of the terms, `means` their means.
    """
    if not any(levels):
        return 0.0
    return concentrated(_total(e * e for e in levels), _total(means), delta)


def textbook_mean(epsilon: float) -> float:
    """Return epsilon (exp(epsilon) - 1), inf where that is too large for a float."""
    return epsilon * (math.expm1(epsilon) if epsilon < 700 else math.inf)


def _what_is_left(total: float, parts: Iterable[Certificate]) -> float:
    """Return delta less those of the releases, rounded down."""
    own = exact_sum(g.delta for g in parts)
    if not own:  # next to 1 the smallest change of delta matters
        return total
    left = math.nextafter(float(decimal(total) - own), 0.0)
    if left <= 0:
        raise CalibrationError(
            f"delta must be above the sum of the releases' deltas, {round_up(own)!r}, "
            f"got {total!r}.",
            target=total,
            best=round_up(own),
        )
    return left


def _total(numbers: Iterable[float]) -> float:
    """Return the sum in whichever order, inf where it is too large for a float."""
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf
