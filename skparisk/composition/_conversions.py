"""One guarantee as another: after post-processing, for groups, for other records."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from skparisk.certificate import Certificate, as_certificate
from skparisk.core.checks import check_at_least, check_number
from skparisk.core.exceptions import IncompatibleError
from skparisk.core.rounding import ROUNDING, add_up, decimal, round_up


def post_process(release: Any) -> Certificate:
    r"""Return what is guaranteed of anything that is computed from a release.

    Parameters
    ----------
    release : object with `as_certificate`, float or tuple of float
        A certificate, a mechanism, or plain numbers.

    Returns
    -------
    guarantee : Certificate
        "explicit": `delta` has grown by the risk, which is 0 now. "both": the numbers
        stay, as the sum of `delta` and `risk` holds on average over pairs only; it is
        `post_processed`, so that the words are about events, not about the loss. A
        release without a risk over the noise: as it was.

    Raises
    ------
    ValueError
        If it is no release.

    Notes
    -----
    **Guarantee** (:ref:`thm-conversions`). What is computed, such as predictions from
    a released model, must not look at the private records again. A release that is
    private for the pair at hand, whatever is released, stays so. A bound of how likely
    a large loss is does not survive, since a result of large loss may be merged with a
    likely one: if the loss exceeds :math:`\epsilon` with probability at most
    :math:`\gamma`, any event is at most :math:`e^\epsilon` times as likely, plus
    :math:`\gamma`, for the neighbor. With a risk over the noise this is so for every
    pair; with one over pair and noise on average over pairs, and never for every pair.
    Source: Dandekar, Basu, Bressan (2021), Theorem 2 and Lemma 3.

    Examples
    --------
    >>> from skparisk.certificate import Certificate
    >>> from skparisk.composition import post_process
    >>> release = Certificate(0.6, risk=0.05, randomness="explicit")
    >>> post_process(release).delta, post_process(release).risk
    (0.05, 0.0)
    """
    g = as_certificate(release)
    if g.randomness == "implicit" or not (g.risk or g.failure_prob):
        return g
    if g.randomness == "explicit":
        delta = min(1.0, add_up([g.delta, g.risk, g.failure_prob]))
        return _convert(g, "post-process", delta=delta, risk=0.0, failure_prob=0.0)
    return _convert(g, "post-process", post_processed=True)


def group_privacy(release: Any, size: int) -> Certificate:
    r"""Return what is guaranteed of databases that are several steps apart.

    Parameters
    ----------
    release : object with `as_certificate`, float or tuple of float
        A certificate, a mechanism, or plain numbers.

    size : int
        Steps `k` from one neighbor to the next, such as records of one person, >= 1.

    Returns
    -------
    guarantee : Certificate
        Level :math:`k\epsilon`; delta, and a risk that is a part of it, times
        :math:`\sum_{j<k} e^{j\epsilon}`; a risk over pairs alone times k. Its
        `group_size` is k times what it was. The law of the loss is not kept.

    Raises
    ------
    IncompatibleError
        If the risk is over the noise: see `post_process`.
    ValueError
        If it is not a release, or `size` is not a whole number >= 1.

    Notes
    -----
    **Guarantee** (:ref:`thm-conversions`). Without risk: for all databases that are k
    steps apart. With a risk over pairs: if each of the k steps is distributed as a
    fresh pair, the steps need not be independent. Two steps of relation "add-remove"
    are one replaced record. Source: Dwork and Roth (2014), Theorem 2.2; Vadhan (2017),
    *The complexity of differential privacy*, Lemma 2.2.

    Examples
    --------
    >>> from skparisk.composition import group_privacy
    >>> group_privacy(0.1, size=3).epsilon
    0.3
    """
    g = as_certificate(release)
    k = check_at_least(size, "size", 1)
    about_events = g.randomness == "implicit" or (
        g.randomness == "both" and (g.delta > 0 or g.post_processed)
    )
    if (g.risk or g.failure_prob) and not about_events:
        raise IncompatibleError(
            f"release has a risk over the noise (randomness={g.randomness!r}), which "
            "says nothing about groups: pass post_process(release) instead."
        )
    if g.randomness == "both":
        risk = _group_delta(g.epsilon, g.risk, k)
    else:
        risk = min(1.0, _times(g.risk, k))
    return _convert(
        g,
        "group",
        epsilon=_times(g.epsilon, k),
        delta=_group_delta(g.epsilon, g.delta, k),
        risk=risk,
        loss=None,
        group_size=k * g.group_size,
    )


def transfer(release: Any, kl_divergence: float, n_records: int) -> Certificate:
    r"""Return what is guaranteed of records from another population.

    Parameters
    ----------
    release : object with `as_certificate`, float or tuple of float
        A certificate, a mechanism, or plain numbers, with a risk over pairs
        of a population P.

    kl_divergence : float
        A bound :math:`\tau` of the Kullback-Leibler divergence of one record of P from
        one of the other population Q, in nats, in [0, inf].

    n_records : int
        Records of a database, >= 1.

    Returns
    -------
    guarantee : Certificate
        The risk over pairs of Q, at most 1. A release whose guarantee is for every
        pair as it was.

    Raises
    ------
    ValueError
        If it is no release, or a number is out of range.

    IncompatibleError
        If it is about a secret sample, whose pairs are of no population.

    Notes
    -----
    **Guarantee** (:ref:`thm-conversions`). The records of a pair are independent, so
    the laws of its n + 1 records (n + k for groups of k) are at most
    :math:`\sqrt{(n + 1) \tau / 2}` apart in total variation, which the risk grows by.
    The caller must ensure the bound, which has to be tiny: 0.05 more at 1000 records
    takes 5e-6 nats. Source: Rubinstein and
    Aldà (2017), Proposition 8; Pinsker's inequality.

    Examples
    --------
    >>> from skparisk.certificate import Certificate
    >>> from skparisk.composition import transfer
    >>> release = Certificate(0.5, risk=0.05, randomness="implicit")
    >>> round(transfer(release, kl_divergence=5e-6, n_records=999).risk, 6)
    0.1
    """
    g = as_certificate(release)
    divergence = check_number(kl_divergence, "kl_divergence", "[0, inf]")
    n = check_at_least(n_records, "n_records", 1)
    if g.protects_membership:
        raise IncompatibleError(
            "release must be about pairs of a population, but a secret sample is drawn "
            "from these records: its guarantee is about these records, and no others."
        )
    if g.randomness == "explicit" or not (g.risk or g.failure_prob):
        return g
    n_drawn = n + g.group_size
    apart = math.sqrt(n_drawn * divergence / 2) * (1 + ROUNDING)  # Prop. 8
    return _convert(g, "transferred", risk=min(1.0, add_up([g.risk, min(1.0, apart)])))


def known_level(release: Certificate) -> Certificate:
    """Return a release without what the law of its loss makes needless.

    With Laplace noise there is a level for all outputs, and neither delta nor a risk
    over the noise. With Gaussian noise of a known sensitivity the risk becomes delta.
    A law that a share of samples fails for is not kept.
    """
    g, loss = release, release.loss
    explicit = g.randomness == "explicit"
    if loss is None or (explicit and g.failure_prob):
        return replace(g, loss=None)
    certain = not (g.delta or (explicit and g.risk))
    if explicit:
        g = post_process(g)
    if loss.known_law.bounded:
        level = add_up([loss.known_law.largest_loss(loss.shift), loss.excess])
        g = replace(g, epsilon=min(level, g.epsilon) if certain else level, delta=0.0)
    return g


def _convert(release: Certificate, method: str, **changes: Any) -> Certificate:
    converted = replace(release, method=method, evidence=None, **changes)
    return converted.amended(conditions=release.conditions)


def _times(number: float, k: int) -> float:
    """Return k times a number, rounded up as sums are."""
    if math.isinf(number):
        return number
    return round_up(k * decimal(number))


def _group_delta(epsilon: float, delta: float, k: int) -> float:
    r"""Return delta times the sum of exp(j epsilon) over j < k, rounded up."""
    if not delta or k == 1:
        return delta
    largest = (k - 1) * epsilon
    if largest > 700:
        return 1.0
    terms = math.expm1(-k * epsilon) / math.expm1(-epsilon) if epsilon else float(k)
    return min(1.0, delta * math.exp(largest) * terms * (1 + ROUNDING))
