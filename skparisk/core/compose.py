"""What several releases guarantee together, and one guarantee as another.

Each release is a :class:`~skparisk.Certificate`, a mechanism, or plain numbers
(epsilon, delta, risk); each rule returns a certificate, which may be composed again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any, NamedTuple, Self

from skparisk.core.checks import (
    CalibrationError,
    IncompatibleError,
    check_choice,
    check_share,
)
from skparisk.core.claim import (
    Certificate,
    Claim,
    Method,
    Scope,
    Unit,
    as_certificate,
    as_certificates,
    mint,
    remade,
)
from skparisk.core.laws import LAWS, Law
from skparisk.core.rounding import (
    ROUNDING,
    add_up,
    decimal,
    fields_of,
    round_up,
)

# A sum of squares that is less may be one of numbers whose squares are none.
_LEAST_SQUARES = 1e-300
_DELTA_ERROR = 2.0**-48  # what each release may be off: see thm-exact
_SUM_ERROR = 2.0**-30  # relative error of adding up probabilities, up to 2**22
_POINTS = 2**20  # of the grid of losses, about
_FINEST = 2.0**-22  # its step: differences of delta have to be larger than rounding
_STAGE = 256  # releases at once, for which the bound of the tails is tight
_SMALLEST_SHIFT = 1e-100  # of Gaussian noise; below it is the worst of its level
_LARGEST = 100.0  # level or shift; sums of larger ones are hardly less than levels

# How the fields of a claim compose, where they say more than the sum at its level.
_SUMS = ("epsilon", "delta", "risk", "failure_prob", "n_releases")
_UNIONS = ("leaks", "assumptions", "doubts")
_SAME = {
    "relation": "have the same relation of neighboring databases",
    "unit": "protect the same unit, records or people",
}


@dataclass(frozen=True)
class Totals:
    """What releases add up to, and all else that basic composition needs of them.

    Numbers, `squares` of the levels among them, are exact sums of the decimal numbers
    that floats are written as; infinite ones are floats. Codes are unions, and what
    must be the same is known from the first release that says it.
    """

    sums: Mapping[str, Any] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    codes: Mapping[str, frozenset[Any]] = field(
        default_factory=lambda: dict.fromkeys(_UNIONS, frozenset())
    )
    same: Mapping[str, Any] = field(default_factory=dict)
    squares: Any = 0
    # What risks over pair and noise may be more for one order of the two databases than
    # on average over both; 0 for noise of this package, whose loss has the same law.
    lopsided: Any = 0
    # A risk over pairs includes the share of samples that fail.
    folded: bool = False
    post_processed: bool = False
    scopes: frozenset[Scope] = frozenset()

    @classmethod
    def of(cls, releases: Iterable[Claim]) -> Self:
        """Return the sums of a list."""
        return reduce(cls.plus, releases, cls())

    def plus(self, release: Claim, times: int = 1) -> Self:
        """Add a release that is made so many times; refuse other neighbors."""
        own = {name: getattr(release, name) for name in _SAME}
        same = {**{n: x for n, x in own.items() if x is not None}, **self.same}
        for name, what in _SAME.items():
            if own[name] not in (None, same.get(name)):
                values = sorted(map(str, (own[name], same[name])))
                raise IncompatibleError(f"releases must all {what}, got {values}.")
        square = release.epsilon * release.epsilon
        risky = bool(release.risk or release.failure_prob)
        evidence = release.evidence
        known = evidence is not None and evidence.law in LAWS
        lopsided = release.randomness == Scope.PAIR_AND_NOISE and not known
        more = release.risk if lopsided else 0
        return type(self)(
            sums={
                n: _plus(x, _exact(getattr(release, n)), times)
                for n, x in self.sums.items()
            },
            codes={n: known | getattr(release, n) for n, known in self.codes.items()},
            same=same,
            squares=_plus(self.squares, _exact(square), times),
            lopsided=_plus(self.lopsided, _exact(more), times),
            folded=self.folded or (release.sampled and not release.failure_prob),
            post_processed=self.post_processed or release.post_processed,
            scopes=self.scopes | ({release.randomness} if risky else frozenset()),
        )

    def basic(self) -> Certificate:
        """Return what `compose_basic` does."""
        level, delta = round_up(self.sums["epsilon"]), round_up(self.sums["delta"])
        return self.combine(Method.BASIC, level, min(1.0, delta))

    def filter(self, delta: float, slack: float) -> Certificate:
        """Return the least limit that these fit into, levels chosen on the way.

        Their deltas, which may be chosen as well, are within `delta` less a slack above
        0 that was fixed before. With the limit fixed, too, and no release made that
        exceeds it, all together have the limit as their level (:ref:`thm-filter`;
        Whitehouse, Ramdas, Rogers, Wu 2023, Theorem 1): this level only if all of them
        were fixed before.
        """
        level = round_up(self.sums["epsilon"])
        squares = round_up(self.squares)  # V of thm-filter
        level = min(level, concentrated(squares, squares / 2, slack))
        return self.combine(Method.FILTER, level, delta)

    def combine(
        self, method: Method, epsilon: float, delta: float, risk: float | None = None
    ) -> Certificate:
        """Return a certificate at a level that was found, with all else that adds up.

        Risks do (union bound), unless one is given. So does the share of samples that
        fail; it becomes a part of the risk unless all risks that are over pairs come
        with such a share. Below the sum of the levels, a risk over pair and noise
        counts twice where one of the two databases may have all of it.
        """
        risks, failure_prob = self.sums["risk"], self.sums["failure_prob"]
        if method != Method.BASIC:
            risks += self.lopsided
        if self.folded:
            risks, failure_prob = risks + failure_prob, 0
        return mint(
            epsilon=epsilon,
            delta=delta,
            risk=min(1.0, round_up(risks)) if risk is None else risk,
            failure_prob=min(1.0, round_up(failure_prob)),
            randomness=min(self.scopes) if len(self.scopes) == 1 else "both",
            method=method,
            n_releases=int(self.sums["n_releases"]),
            post_processed=self.post_processed,
            **self.codes,
            **{"relation": None, "unit": None, **self.same},
        )


def concentrated(squares: float, mean: float, delta: float) -> float:
    """Return what a sum exceeds with probability delta at most (Hoeffding), rounded up.

    `squares` is the sum of the squares that the terms are within, `mean` their mean.
    """
    spread = math.sqrt(2 * -math.log(delta) * max(squares, _LEAST_SQUARES))
    return (spread + mean) * (1 + ROUNDING)


# What neighbors differ in, where a record's part follows from this.
_RELATIONS = {
    "position": (
        "replace-one",
        "removing a record moves those behind it into other parts.",
    ),
    "value": (
        "add-remove",
        "a record whose values are replaced may leave one part and enter another, so "
        "two parts differ. Calibrate for 'add-remove'.",
    ),
}


def compose_basic(releases: Iterable[Any]) -> Certificate:
    """Return the joint guarantee of releases: everything adds up.

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
        If the releases have different relations of neighboring databases, or units.
    ValueError
        If a release is none of these, or a number is out of range.

    Notes
    -----
    **Guarantee** (:ref:`thm-composition`). Earlier releases may decide queries, levels
    and deltas, if a limit of their sums was fixed. Risks over pairs add up only if
    earlier releases do not decide the queries with a risk; the caller must ensure it.
    Sums are of the floats' decimal numbers, rounded up: ten releases of 0.1 have the
    level 1.0. Source: Dwork and Roth (2014), Theorem 3.16.

    Examples
    --------
    >>> from skparisk.core import compose_basic
    >>> together = compose_basic([(0.1, 0.0, 0.05)] * 10)
    >>> together.epsilon, together.delta, together.risk
    (1.0, 0.0, 0.5)
    """
    return Totals.of(as_certificates(releases)).basic()


def compose_parallel(releases: Iterable[Any], *, partition: str) -> Certificate:
    """Return the joint guarantee of releases about disjoint parts of the records.

    Parameters
    ----------
    releases : iterable
        As for :func:`compose_basic`: one for each part, at most. A part with several
        releases is composed first.

    partition : {"owner", "position", "value"}
        Rule for the part of a record. "owner": its person, whatever the values.
        "position": its place, as with the folds of a cross-validation. "value": its
        values, as with one histogram bin or one model for each region.

    Returns
    -------
    guarantee : Certificate
        `epsilon`, `delta` and `risk` are maxima; the shares `failure_prob` of samples
        add up, as each part has its own sample.

    Raises
    ------
    IncompatibleError
        If a release is about neighbors for which parts overlap, see below, or about
        other neighbors than the rest.
    ValueError
        If `partition` is none of these, or a release is no release.

    Notes
    -----
    **Guarantee** (:ref:`thm-parallel`). Neighbors differ in one part only. The caller
    must ensure that the parts are disjoint, and fixed without a look at the records,
    like the folds of ``KFold`` and unlike stratified folds. For a risk over pairs, the
    pairs must be of the part, not of all records.

    By "value" a replaced record may leave one part and enter another; by "position" a
    removed record moves all records behind it. Such releases are refused; releases
    without a `relation` count as being about the other one. Source: McSherry (2009),
    *Privacy integrated queries*, Theorem 4.

    Examples
    --------
    >>> from skparisk.core import compose_parallel
    >>> compose_parallel([0.1, 0.5, 0.2], partition="position").epsilon
    0.5
    """
    check_choice(partition, "partition", ("owner", *_RELATIONS))
    parts = as_certificates(releases)
    if partition in _RELATIONS and any(g.unit == Unit.PERSON for g in parts):
        raise IncompatibleError(
            "partition must be 'owner' for claims about people, whose rows may be in "
            f"several parts by their position or value, got {partition!r}."
        )
    if partition in _RELATIONS:
        relation, reason = _RELATIONS[partition]
        others = {g.relation for g in parts} - {None, relation}
        if others:
            raise IncompatibleError(
                f"partition={partition!r} needs releases for relation={relation!r}, "
                f"got {sorted(map(str, others))}: {reason}"
            )
        parts = [g.weaken(relation=relation) for g in parts]
    totals = Totals.of(parts)
    # A share of samples that counts as risk is a part of each one's risk.
    shares = [g.failure_prob if totals.folded else 0.0 for g in parts]
    risks = [add_up([g.risk, share]) for g, share in zip(parts, shares, strict=True)]
    return totals.combine(
        Method.PARALLEL,
        epsilon=max((g.epsilon for g in parts), default=0.0),
        delta=max((g.delta for g in parts), default=0.0),
        risk=min(1.0, max(risks, default=0.0)),
    )


class _Loss(NamedTuple):
    """A law of the loss: a law of the noise at a shift, or "generic" at a level."""

    name: str
    scale: float
    delta: float = 0.0
    law: Law | None = None

    @property
    def width(self) -> float:
        known = self.law is None or self.law.bounded
        return (2 if known else 20) * self.scale


def compose_exact(releases: Iterable[Any], *, delta: float) -> Certificate:
    r"""Return the least joint level of releases at a delta.

    Parameters
    ----------
    releases : iterable
        As for :func:`compose_basic`.

    delta : float
        Delta of all together, in [0, 1).

    Returns
    -------
    guarantee : Certificate
        By the law of the loss where it is known, which takes neither their own delta
        nor a risk over the noise. Other releases count as the worst of their level and
        delta, and keep their risk. Never above the sum of the levels, if deltas fit.

    Raises
    ------
    CalibrationError
        If no level reaches `delta`; ``best`` is one that has a level.
    ImportError
        If dp-accounting is missing: ``pip install "skparisk[accounting]"``.
    IncompatibleError
        If the releases have different relations of neighboring databases.
    ValueError
        If `delta` is outside [0, 1), or a release is no release.

    Notes
    -----
    **Guarantee** (:ref:`thm-exact`). Queries may depend on earlier releases; how many
    there are, their levels and deltas may not. dp-accounting puts the losses on a grid,
    such that the level only grows, by less than 1e-7 of itself for hundreds of equal
    releases. The grid has some millions of points at most (1 GB). Rounding errors are
    not proven: delta is lowered by 4e-15 for each release, 25 times the largest error
    seen against closed forms. At a delta below that, or where a level or shift is above
    100, levels add up. Source: Meiser, Mohammadi (2018); Doroshenko, Ghazi, Kamath,
    Kumar, Manurangsi (2022); Zhu, Dong, Wang (2022) for queries that depend on earlier
    ones.

    Examples
    --------
    >>> from skparisk.core import compose_exact
    >>> from skparisk.mechanisms import LaplaceMechanism
    >>> release = LaplaceMechanism(sensitivity=1.0, epsilon=0.1)
    >>> round(compose_exact([release] * 100, delta=1e-5).epsilon, 4)
    4.2203
    >>> round(compose_exact([0.1] * 100, delta=1e-5).epsilon, 4)
    4.3068
    """
    total = check_share(delta, "delta")
    parts = [known_level(g) for g in as_certificates(releases)]
    totals = Totals.of(parts)
    basic = totals.basic()
    epsilon = basic.epsilon if basic.delta <= total else math.inf
    laws = Counter(_law(g) for g in parts)
    laws = Counter({law: m for law, m in laws.items() if law.scale or law.delta})
    if laws and not math.isinf(basic.epsilon):
        excess = [g.loss.excess for g in parts if g.loss is not None]
        epsilon = min(epsilon, add_up([_level_at(total, laws), *excess]))
        if math.isinf(epsilon):
            raise CalibrationError(
                f"no level achieves delta={total!r}; the sum of the levels achieves "
                f"{basic.delta!r}.",
                target=total,
                best=basic.delta,
            )
    return totals.combine(Method.EXACT, epsilon, total)


def _law(release: Claim) -> _Loss:
    loss = release.loss
    if loss is not None:
        law = loss.law
        if law.bounded or loss.shift >= _SMALLEST_SHIFT:
            return _Loss(law.name, loss.shift, law=law)
    return _Loss("generic", release.epsilon, release.delta)


def _level_at(delta: float, laws: Mapping[_Loss, int]) -> float:
    """Return the level of laws, each so many times; inf where it is out of reach."""
    reached = delta - _DELTA_ERROR * sum(laws.values())
    if reached <= 0 or max(law.scale for law in laws) > _LARGEST:
        return math.inf
    step = _grid_step(laws)
    in_order = sorted(laws, key=lambda law: law[:3])
    line = [_many(_distribution(law, step), laws[law]) for law in in_order]
    while len(line) > 1:  # neighbors are of one size
        unpaired = line[len(line) // 2 * 2 :]
        pairs = zip(line[::2], line[1::2], strict=False)
        line = [*(one.compose(other) for one, other in pairs), *unpaired]
    return float(line[0].get_epsilon_for_delta(reached)) * (1 + _SUM_ERROR)


def _many(distribution: Any, times: int) -> Any:
    """Return the law of the sum of so many losses of one law."""
    if times <= _STAGE:
        return distribution.self_compose(times)
    stages, rest = divmod(times, _STAGE)
    total = _many(distribution.self_compose(_STAGE), stages)
    return total.compose(distribution.self_compose(rest)) if rest else total


def _grid_step(laws: Mapping[_Loss, int]) -> float:
    """Return a power of two: fine for a typical release, few points for the sum."""
    spread = math.sqrt(math.fsum(m * law.scale**2 for law, m in laws.items()))
    step = max(
        spread / math.sqrt(sum(laws.values())) / 2**11,
        20 * spread / _POINTS,
        math.fsum(law.width for law in laws) / _POINTS,
        _FINEST,
    )
    return 2.0 ** (math.frexp(step)[1] - 1)


@lru_cache(maxsize=32)
def _distribution(law: _Loss, step: float) -> Any:
    """Return the law on the grid: no delta is below what it is off the grid."""
    try:
        from dp_accounting.pld import pld_pmf
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError as error:
        raise ImportError(
            'compose_exact needs dp-accounting: pip install "skparisk[accounting]".'
        ) from error
    if law.law is not None:
        return law.law.loss_distribution(law.scale, step)
    atoms = (-law.scale / step, law.scale / step)
    grid = sorted({*map(math.floor, atoms), *map(math.ceil, atoms)})
    deltas = [_generic_delta(i * step, law) for i in grid]
    return pld.PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, deltas)
    )


def _generic_delta(epsilon: float, law: _Loss) -> float:
    """Return the largest delta there is at a level, of all (scale, delta)-private."""
    if epsilon <= -law.scale:
        inside = -math.expm1(epsilon)
    else:
        gap = min(0.0, epsilon - law.scale)
        inside = -math.expm1(gap) / (1 + math.exp(-law.scale))
    return law.delta + (1 - law.delta) * inside


def post_process(release: Any) -> Certificate:
    r"""Return the guarantee of anything computed from a release.

    Parameters
    ----------
    release : Certificate, mechanism, float or tuple of float
        See :func:`compose_basic`.

    Returns
    -------
    guarantee : Certificate
        "explicit": `delta` has grown by the risk, now 0. "both": the numbers stay,
        because the sum of `delta` and `risk` holds only on average over pairs. It is
        `post_processed`, and its words are about events, not about the loss. A release
        without a risk over the noise: as it was.

    Raises
    ------
    ValueError
        If it is no release.

    Notes
    -----
    **Guarantee** (:ref:`thm-conversions`). The computation must not look at the private
    records again. A bound on the probability of a large loss does not survive, because
    a result of large loss may merge with a likely one. If the loss exceeds
    :math:`\epsilon` with probability at most :math:`\gamma`, any event is at most
    :math:`e^\epsilon` times as likely, plus :math:`\gamma`, for the neighbor. With a
    risk over the noise this is so for every pair; with one over pair and noise only on
    average over pairs. Source: Dandekar, Basu, Bressan (2021), Theorem 2 and Lemma 3.

    Examples
    --------
    >>> from skparisk import KnownSensitivity, PrivateRidge
    >>> from skparisk.core import post_process
    >>> from skparisk.datasets import load_census
    >>> known = KnownSensitivity(0.004, norm="l2", law="gaussian", at_risk=True)
    >>> ridge = PrivateRidge(epsilon=0.6, sensitivity=known)
    >>> claim = ridge.fit(*load_census(return_X_y=True)).certificate_
    >>> post_process(claim).delta, post_process(claim).risk
    (0.05, 0.0)
    """
    g = as_certificate(release)
    if g.randomness == Scope.PAIR or not (g.risk or g.failure_prob):
        return g
    if g.randomness == Scope.NOISE:
        delta = min(1.0, add_up([g.delta, g.risk, g.failure_prob]))
        return remade(
            g,
            method=Method.POST_PROCESS,
            evidence=None,
            delta=delta,
            risk=0.0,
            failure_prob=0.0,
        )
    return remade(g, method=Method.POST_PROCESS, evidence=None, post_processed=True)


def known_level(release: Claim) -> Claim:
    """Return a release without what the law of its loss makes needless.

    With Laplace noise there is a level for all outputs, and neither delta nor a risk
    over the noise. With Gaussian noise of a known sensitivity the risk becomes delta.
    A law that a share of samples fails for is not kept.
    """
    g, loss = release, release.loss
    explicit = g.randomness == Scope.NOISE
    if loss is None or (explicit and g.failure_prob):
        return _plain(g, loss=None)
    certain = not (g.delta or (explicit and g.risk))
    if explicit:
        g = _plain(g, delta=min(1.0, add_up([g.delta, g.risk])), risk=0.0)
    if loss.law.bounded:
        level = min(loss.largest, g.epsilon) if certain else loss.largest
        g = _plain(g, epsilon=level, delta=0.0)
    return g


def _plus(total: Any, value: Any, times: int) -> Any:
    """Return a sum that may be infinite, which no float is too small for."""
    infinite = math.inf in (total, value)
    return math.inf if infinite else total + times * value


def _exact(number: float) -> Any:
    """Return the decimal number that a float is written as, or infinity."""
    return number if number == math.inf else decimal(number)


def _plain(claim: Claim, **changes: Any) -> Claim:
    """Return a claim with other fields, which is nobody's word: for adding up."""
    return Claim(**(fields_of(claim) | changes))
