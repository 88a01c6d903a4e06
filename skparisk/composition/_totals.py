"""What adds up, and what is a maximum; sums that each release is added to once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any, Self

from skparisk.certificate import Certificate
from skparisk.certificate._certificate import as_certificates
from skparisk.core.checks import check_choice
from skparisk.core.exceptions import IncompatibleError
from skparisk.core.rounding import ROUNDING, add_up, decimal, round_up

# A sum of squares that is less may be one of numbers whose squares are none.
_LEAST_SQUARES = 1e-300

_NONE: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class Totals:
    """What releases add up to, and all else that basic composition needs of them.

    Numbers are exact sums of the decimal numbers that floats are written as, but for
    `squares`, those of the levels as floats.
    """

    n_releases: int = 0
    levels: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)
    deltas: Fraction = Fraction(0)
    risks: Fraction = Fraction(0)
    failure_probs: Fraction = Fraction(0)
    infinite: bool = False
    # A risk over pairs includes the share of samples that fail.
    folded: bool = False
    post_processed: bool = False
    kinds: frozenset[str] = _NONE
    relations: frozenset[str] = _NONE
    group_sizes: frozenset[int] = _NONE
    void_reasons: frozenset[str] = _NONE
    leaks: frozenset[str] = _NONE
    provisos: frozenset[str] = _NONE
    conditions: frozenset[str] = _NONE

    @classmethod
    def of(cls, releases: Iterable[Certificate]) -> Self:
        """Return the sums of a list."""
        return reduce(cls.plus, releases, cls())

    def plus(self, release: Certificate, times: int = 1) -> Self:
        """Add a release that is made so many times; refuse other neighbors."""
        infinite = math.isinf(release.epsilon)
        level = 0.0 if infinite else release.epsilon
        risky = bool(release.risk or release.failure_prob)
        sampled = release.failure_prob == 0 and release.randomness != "explicit"
        relation = {release.relation} - {None}
        return type(self)(
            n_releases=self.n_releases + times * release.n_releases,
            levels=self.levels + times * decimal(level),
            squares=self.squares + times * _square(level),
            deltas=self.deltas + times * decimal(release.delta),
            risks=self.risks + times * decimal(release.risk),
            failure_probs=self.failure_probs + times * decimal(release.failure_prob),
            infinite=self.infinite or infinite,
            folded=self.folded or (risky and sampled),
            post_processed=self.post_processed or release.post_processed,
            kinds=self.kinds | ({release.randomness} if risky else _NONE),
            relations=_only(
                self.relations | relation,
                "releases must all have the same relation of neighboring databases",
            ),
            group_sizes=_only(
                self.group_sizes | {release.group_size},
                "releases must all be about groups of the same size",
            ),
            void_reasons=self.void_reasons.union(release.void_reasons),
            leaks=self.leaks.union(release.leaks),
            provisos=self.provisos.union(release.provisos),
            conditions=self.conditions.union(release.conditions),
        )

    def basic(self) -> Certificate:
        """Return what `compose_basic` does."""
        return self.combine("basic", self._level(), min(1.0, round_up(self.deltas)))

    def filter(self, delta: float, slack: float) -> Certificate:
        """Return the least limit that these fit into, levels chosen on the way.

        Their deltas, which may be chosen as well, are within `delta` less a slack above
        0 that was fixed before. With the limit fixed, too, and no release made that
        exceeds it, all together have the limit as their level (:ref:`thm-filter`;
        Whitehouse, Ramdas, Rogers, Wu 2023, Theorem 1): this level only if all of them
        were fixed before.
        """
        level = self._level()
        if not self.infinite:
            squares = _nearest(self.squares)  # V of thm-filter
            level = min(level, concentrated(squares, squares / 2, slack))
        return self.combine("filter", level, delta)

    def _level(self) -> float:
        return math.inf if self.infinite else round_up(self.levels)

    def combine(
        self, method: str, epsilon: float, delta: float, risk: float | None = None
    ) -> Certificate:
        """Return a certificate at a level that was found, with all else that adds up.

        Risks do (union bound), unless one is given. So does the share of samples that
        fail; it becomes a part of the risk unless all risks that are over pairs come
        with such a share.
        """
        risks, failure_prob = self.risks, self.failure_probs
        if self.folded:
            risks, failure_prob = risks + failure_prob, Fraction(0)
        together = Certificate(
            epsilon,
            delta,
            risk=min(1.0, round_up(risks)) if risk is None else risk,
            failure_prob=min(1.0, round_up(failure_prob)),
            randomness=min(self.kinds) if len(self.kinds) == 1 else "both",
            relation=min(self.relations, default=None),
            method=method,
            n_releases=self.n_releases,
            group_size=min(self.group_sizes, default=1),
            post_processed=self.post_processed,
            void_reasons=tuple(sorted(self.void_reasons)),
            leaks=tuple(sorted(self.leaks)),
            provisos=tuple(sorted(self.provisos)),
        )
        return together.amended(conditions=self.conditions)


def concentrated(squares: float, mean: float, delta: float) -> float:
    """Return what a sum exceeds with probability delta at most (Hoeffding), rounded up.

    `squares` is the sum of the squares that the terms are within, `mean` their mean.
    """
    spread = math.sqrt(2 * -math.log(delta) * max(squares, _LEAST_SQUARES))
    return (spread + mean) * (1 + ROUNDING)


def _square(level: float) -> Fraction:
    square = level * level
    return Fraction(level) ** 2 if math.isinf(square) else Fraction(square)


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _only(values: frozenset[Any], rule: str) -> frozenset[Any]:
    """Return values that must be one at most."""
    if len(values) > 1:
        raise IncompatibleError(f"{rule}, got {sorted(values)}.")
    return values


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
        Certificates, mechanisms, or plain numbers: epsilon, (epsilon,
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
