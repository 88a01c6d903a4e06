"""Theorem 3 of Dandekar et al. and its Corollary 1, as printed: they guarantee nothing.

In these formulas a *confidence* is one minus a risk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from skparisk._validate import check_choice, check_probability, is_number
from skparisk.certificate import Certificate, as_certificate
from skparisk.composition._advanced import bound_sum, textbook_mean
from skparisk.composition._totals import Totals
from skparisk.exceptions import HeuristicGuaranteeWarning, warn_caller

_COUNTEREXAMPLE = (
    "Theorem 3 of Dandekar et al. is false: for 300 Laplace releases of level 0.5 it "
    "claims 63.07407 at delta=1e-05, where the exact level is 63.98180."
)
_UNPROVEN = (
    "Theorem 3 in the preprint of Dandekar et al. has no valid proof, and is false "
    "where the confidence may be chosen freely."
)
# With the mean loss at a level, of Theorem 3 and Corollary 1.
_VERSIONS: Mapping[str, tuple[str, str, Callable[[float], float]]] = {
    "journal": (
        "Dandekar et al. 2021, Theorem 3",
        _COUNTEREXAMPLE,
        lambda e: e * e / 2,
    ),
    "preprint": ("Dandekar et al. (preprint), Theorem 3", _UNPROVEN, textbook_mean),
}


def compose_privacy_at_risk(
    releases: Iterable[Any], *, delta: float, version: str = "journal"
) -> Certificate:
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
    certificate : Certificate
        Void, whatever the releases are.

    Raises
    ------
    IncompatibleError
        If the releases have different relations of neighboring databases.
    ValueError
        If `delta` or `version` is out of range, or a release is none of these.

    Warns
    -----
    HeuristicGuaranteeWarning
        Always.

    Notes
    -----
    :math:`\sqrt{2 \ln(1/\delta) \sum \epsilon_{0,i}^2} + \sum \mu_i` with
    :math:`\epsilon_0` the `noise_epsilon` and c the confidence: in the journal
    :math:`\mu = \frac12 (c \epsilon^2 + (1 - c) \epsilon_0^2)`, in the preprint
    :math:`\mu = c \epsilon (e^\epsilon - 1) + (1 - c) \epsilon_0 (e^{\epsilon_0} - 1)`.
    Source: Dandekar, Basu, Bressan (2021), Theorem 3 and Corollary 1.

    **Not a guarantee** (:ref:`thm-laplace-composition`). The mean is that of a mixture
    of two mechanisms, which the Laplace mechanism is not: its true mean is larger. For
    300 releases of level 0.5 the journal's level is below the exact one. No violation
    of the preprint's is known at the confidence of `dandekar_confidence`. Use
    `compose_exact` or `compose_laplace`.

    Examples
    --------
    >>> import warnings
    >>> from skparisk.papers import compose_privacy_at_risk
    >>> with warnings.catch_warnings(action="ignore"):
    ...     claim = compose_privacy_at_risk([(0.08, 0.2, 0.1)] * 100, delta=1e-5)
    >>> round(claim.epsilon, 3), claim.private
    (5.155, False)
    """
    check_choice(version, "version", tuple(_VERSIONS))
    total = check_probability(delta, "delta")
    if isinstance(releases, str | Mapping) or not isinstance(releases, Iterable):
        raise ValueError(f"releases must be a list of releases, got {releases!r}.")
    listed = list(releases)
    triples = [_as_triple(release) for release in listed]
    method, reason, mean = _VERSIONS[version]
    warn_caller(f"{reason} Use compose_exact.", HeuristicGuaranteeWarning)
    levels = [e0 for _, _, e0 in triples]
    epsilon = bound_sum(levels, [_mixed(mean, *each) for each in triples], total)
    # What certificates bring besides; plain numbers bring nothing.
    behind = [
        as_certificate(release if hasattr(release, "as_certificate") else level)
        for release, level in zip(listed, levels, strict=True)
    ]
    claim = Totals.of(behind).combine(method, epsilon, total)
    return replace(claim, void_reasons=(reason, *claim.void_reasons))


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
