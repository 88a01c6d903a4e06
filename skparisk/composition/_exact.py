"""Exact composition: the laws of the privacy losses are convolved."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from skparisk.certificate import Certificate
from skparisk.certificate._certificate import as_certificates
from skparisk.composition._conversions import known_level
from skparisk.composition._totals import Totals
from skparisk.core.checks import check_share
from skparisk.core.exceptions import CalibrationError
from skparisk.core.laws import Law
from skparisk.core.rounding import add_up

_DELTA_ERROR = 2.0**-48  # what each release may be off: see thm-exact
_SUM_ERROR = 2.0**-30  # relative error of adding up probabilities, up to 2**22
_POINTS = 2**20  # of the grid of losses, about
_FINEST = 2.0**-22  # its step: differences of delta have to be larger than rounding
_STAGE = 256  # releases at once, for which the bound of the tails is tight
_SMALLEST_SHIFT = 1e-100  # of Gaussian noise; below it is the worst of its level
_LARGEST = 100.0  # level or shift; sums of larger ones are hardly less than levels


class _Loss(NamedTuple):
    """A law of the loss: a law of the noise at a shift, or "generic" at a level."""

    name: str
    scale: float
    delta: float = 0.0
    law: Law | None = None

    @property
    def width(self) -> float:
        return 2 * self.scale if self.law is None else self.law.width(self.scale)


def compose_exact(releases: Iterable[Any], *, delta: float) -> Certificate:
    r"""Return the least level that releases guarantee together, at a delta.

    Parameters
    ----------
    releases : iterable of object with `as_certificate`, float or tuple of float
        Certificates, mechanisms, or plain numbers. May be empty.

    delta : float
        Delta of all together, in [0, 1).

    Returns
    -------
    guarantee : Certificate
        With the law of the loss where it is known (Laplace and Gaussian noise, with
        `excess` on top), which takes neither their own delta nor a risk over the noise.
        Other releases count as the worst that has their level and delta, and keep
        their risk. Never above the sum of the levels, if their deltas fit.

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
    there are, their levels and deltas may not. The losses are put on a grid by
    dp-accounting such that the level only grows, by less than 1e-7 of itself for
    hundreds of equal releases. It has some millions of points at most (1 GB), and is
    coarser where that is too few, so more releases may seem to need less by the same
    share. Rounding errors are not proven: delta is lowered by 4e-15 for each release,
    25 times the largest error seen against closed forms. At a delta below that, or
    where a level or shift is above 100, levels add up. Source: Meiser, Mohammadi
    (2018); Doroshenko, Ghazi, Kamath, Kumar, Manurangsi (2022); Zhu, Dong, Wang (2022)
    for queries that depend on earlier ones.

    Examples
    --------
    >>> from skparisk.certificate import Certificate, DominatingLoss
    >>> from skparisk.composition import compose_exact
    >>> release = Certificate(0.1, loss=DominatingLoss("laplace", shift=0.1))
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
    return totals.combine("exact", epsilon, total)


def _law(release: Certificate) -> _Loss:
    loss = release.loss
    if loss is not None:
        law = loss.known_law
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
