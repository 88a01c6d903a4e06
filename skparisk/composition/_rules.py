"""What adds up, and what is a maximum: basic and parallel composition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from skparisk._validate import check_choice
from skparisk.certificate import Certificate
from skparisk.certificate._certificate import as_certificates
from skparisk.certificate._rounding import add_up
from skparisk.composition._totals import Totals
from skparisk.exceptions import IncompatibleError

# What neighbors differ in, where a record's part follows from this.
_RELATIONS = {
    "position": (
        "replace-one",
        "removing a record moves those behind it into other parts.",
    ),
    "value": (
        "add-remove",
        "a record whose values are replaced may leave one part and enter another, so "
        "two parts differ. Calibrate for 'add-remove'; group_privacy(..., size=2) of "
        "the result covers replaced records.",
    ),
}


def compose_basic(releases: Iterable[Any]) -> Certificate:
    """Return what releases guarantee together: everything adds up.

    Parameters
    ----------
    releases : iterable of object with `as_certificate`, float or tuple of float
        Certificates, guarantees, mechanisms, or plain numbers: epsilon, (epsilon,
        delta) or (epsilon, delta, risk). May be empty.

    Returns
    -------
    guarantee : Certificate
        `epsilon`, `delta` and `risk` are sums, at most 1 for the last two.

    Raises
    ------
    IncompatibleError
        If the releases have different relations of neighboring databases.
    ValueError
        If a release is none of these, or a number is out of range.

    Notes
    -----
    **Guarantee** (:ref:`thm-composition`). Queries, levels and deltas may be chosen by
    what was released before, if a limit of their sums was fixed. Risks over pairs add
    up only if what is asked with a risk is not chosen so; the caller must ensure it.
    Sums are those of the decimal numbers that the floats are written as, rounded up:
    ten releases of 0.1 have the level 1.0. Source: Dwork and Roth (2014), Theorem 3.16.

    Examples
    --------
    >>> from skparisk.composition import compose_basic
    >>> together = compose_basic([(0.1, 0.0, 0.05)] * 10)
    >>> together.epsilon, together.delta, together.risk
    (1.0, 0.0, 0.5)
    """
    return Totals.of(as_certificates(releases)).basic()


def compose_parallel(releases: Iterable[Any], *, partition: str) -> Certificate:
    """Return what releases guarantee together, each about its own part of the records.

    Parameters
    ----------
    releases : iterable of object with `as_certificate`, float or tuple of float
        One for each part, at most: a part with several releases is composed first.
        Otherwise as for `compose_basic`.

    partition : {"owner", "position", "value"}
        What a record's part follows from. "owner": who it is about, whatever its
        values. "position": where it stands, as with the folds of a cross-validation.
        "value": its values, as with one histogram bin or one model for each region.

    Returns
    -------
    guarantee : Certificate
        `epsilon`, `delta` and `risk` are maxima; the shares `failure_prob` of samples
        add up, as each part has its own sample.

    Raises
    ------
    IncompatibleError
        If the parts follow from values and a release is about replaced records; if
        they follow from positions and a release is about added or removed ones; or if
        the releases have different relations of neighboring databases.
    ValueError
        If `partition` is none of these, or a release is no release.

    Notes
    -----
    **Guarantee** (:ref:`thm-parallel`). Neighbors differ in one part only. The caller
    must ensure that the parts are disjoint, and fixed without a look at the records, as
    those of ``KFold`` are and those of stratified folds are not; for a risk over pairs,
    that the pairs were those of the part, not of all records.

    With "value" a record that is replaced may leave one part and enter another, so two
    parts differ and a maximum is false; with "position" a record that is removed moves
    all that stand behind it. Such releases are refused. Those without a `relation` are
    taken to be about the other one, and so is the result; a replacement is two steps of
    "add-remove", see `group_privacy`. Source: McSherry (2009), *Privacy integrated
    queries*, Theorem 4.

    Examples
    --------
    >>> from skparisk.composition import compose_parallel
    >>> compose_parallel([0.1, 0.5, 0.2], partition="position").epsilon
    0.5
    """
    check_choice(partition, "partition", ("owner", *_RELATIONS))
    parts = as_certificates(releases)
    if partition in _RELATIONS:
        relation, reason = _RELATIONS[partition]
        others = {g.relation for g in parts} - {None, relation}
        if others:
            raise IncompatibleError(
                f"partition={partition!r} needs releases for relation={relation!r}, "
                f"got {sorted(map(str, others))}: {reason}"
            )
        parts = [replace(g, relation=relation) for g in parts]
    totals = Totals.of(parts)
    # A share of samples that counts as risk is a part of each one's risk.
    shares = [g.failure_prob if totals.folded else 0.0 for g in parts]
    risks = [add_up([g.risk, share]) for g, share in zip(parts, shares, strict=True)]
    return totals.combine(
        "parallel",
        epsilon=max((g.epsilon for g in parts), default=0.0),
        delta=max((g.delta for g in parts), default=0.0),
        risk=min(1.0, max(risks, default=0.0)),
    )
