"""Theorem 3 of Dandekar et al. and its Corollary 1, as printed: they guarantee nothing.

In these formulas a *confidence* is one minus a risk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from skparisk.core.checks import check_choice, check_probability, is_number
from skparisk.core.compose import bound_sum


def textbook_mean(epsilon: float) -> float:
    """Return epsilon (exp(epsilon) - 1), inf where that is too large for a float."""
    return epsilon * (math.expm1(epsilon) if epsilon < 700 else math.inf)


# The mean loss at a level, of Theorem 3 and Corollary 1.
_VERSIONS: Mapping[str, Callable[[float], float]] = {
    "journal": lambda e: e * e / 2,
    "preprint": textbook_mean,
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

    **Not a guarantee** (:ref:`thm-laplace-composition`). The mean is that of a mixture
    of two mechanisms, which the Laplace mechanism is not: its true mean is larger. For
    300 releases of level 0.5 the journal's level at delta 1e-5 is 63.07407, and the
    exact one is 63.98180. No violation
    of the preprint's is known at the confidence of `dandekar_confidence`. Use
    `compose_exact` or `compose_advanced`.

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
    return bound_sum(levels, means, total)


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
