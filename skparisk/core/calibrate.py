"""From sampled pairs to a noise scale, and what the scale then guarantees.

Every neighbor pair has a critical scale: the least noise at which its privacy loss
stays within the target. The noise scale is the K-th smallest of them, and the whole of
calibration is the choice of K; or it is the least at which the average of the pairs'
exact risks is controlled.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, lambertw

from skparisk.core import rounding as grid
from skparisk.core.checks import (
    CalibrationError,
    check_at_least,
    check_choice,
    check_epsilon,
    check_positive,
    check_probability,
    check_relation,
    check_share,
)
from skparisk.core.claim import (
    Advantage,
    Assumption,
    Certificate,
    DominatingLoss,
    Doubt,
    Evidence,
    Leak,
    Population,
    Scope,
    Unit,
    mint,
)
from skparisk.core.exact import ByteSource
from skparisk.core.laws import NORMS, Laplace, Law, as_law, is_ours, row_norms
from skparisk.core.losses import critical_scales, peak_losses
from skparisk.core.noise import (
    ROUNDING_SLACK,
    AdditiveNoise,
    NoiseShape,
    check_shape,
    laplace_noise,
)
from skparisk.core.pairs import SampledPairs, norms_of_pairs
from skparisk.core.rounding import ROUNDING, ceil_text

_Floats = NDArray[np.float64]

# Risks of all pairs together that some noise can bring them to.
_LEAST_ALLOWED = Fraction(1, 2**20)
# Points of the (epsilon, risk) curve that a certificate carries, at the most.
_ORDER_POINTS = 2048
_RISK_POINTS = 256
# Pairs for which all of these points are worked on together.
_BLOCK = 2**12
# A point of the curve that tells of a level: errors and grid are paid for with less.
_NEAR = 1 - 2.0**-3
# Outputs over the level, for which the grid is next to nothing.
_FINE_GRID = 2.0**30
# A noise scale that is too small for a fine grid.
_COARSE_SCALE = 2.0**-960
# Shares of the level that may pay for differences that are off, where they are.
_ERRORS_SHARES = (2.0**-16, 2.0**-8, 2.0**-6, 2.0**-4)
_LEAST_FAILURE = 1e-200
_BETA_ROUNDING = 1 + 1e-12  # of the inverse incomplete beta function, on the safe side


@dataclass(frozen=True)
class Target:
    """Requested guarantee of the noise, checked on construction.

    Parameters
    ----------
    epsilon : float
        Privacy level, in (0, inf]. Unitless. Infinite: no noise. With an `advantage` it
        is 0: see `of_advantage`.

    gamma : float, default=0.05
        Risk, in (0, 1): probability that the privacy loss exceeds `epsilon`. With
        "explicit" it may be 0: every pair keeps the level.

    delta : float, default=0.0
        Additive relaxation of differential privacy, in [0, 1). Not used with "both".

    randomness : {"implicit", "both", "explicit"}, default="implicit"
        Source of the risk: the pair of databases, the pair and the noise together, or
        the noise alone, for every pair.

    advantage : float, default=None
        Limit of an attacker's average gain over pairs, in (0, 1), instead of a level:
        see `of_advantage`.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skparisk.core import Target
    >>> Target(0.5, delta=1e-6)
    Target(epsilon=0.5, gamma=0.05, delta=1e-06, randomness='implicit', advantage=None)
    """

    epsilon: float
    gamma: float = 0.05
    delta: float = 0.0
    randomness: str = "implicit"
    advantage: float | None = None

    def __post_init__(self) -> None:
        check_choice(self.randomness, "randomness", Scope)
        share = check_share if self.randomness == Scope.NOISE else check_probability
        checked = {
            "gamma": share(self.gamma, "gamma"),
            "delta": check_share(self.delta, "delta"),
        }
        if self.advantage is None:
            checked["epsilon"] = check_epsilon(self.epsilon)
        else:
            checked["advantage"] = check_probability(self.advantage, "advantage")
            if (self.epsilon, self.delta, self.randomness) != (0, 0, "both"):
                raise ValueError(
                    "epsilon and delta must be 0, and randomness 'both', with an "
                    "advantage, which stands for them: see Target.of_advantage; got "
                    f"{self.epsilon!r}, {self.delta!r} and {self.randomness!r}."
                )
            checked["epsilon"] = 0.0
        # Plain numbers: those of NumPy may be short, and are rounded when calculated.
        vars(self).update(checked)

    @classmethod
    def of_advantage(cls, advantage: float, gamma: float = 0.05) -> Self:
        """Return the target that limits the average gain over pairs of an attacker.

        It has level 0, and the advantage in (0, 1), the total variation of the two
        releases, as its risk over pair and noise. `gamma` is the share of pairs left
        out of the statement about all others.

        Examples
        --------
        >>> from skparisk.core import Target
        >>> Target.of_advantage(0.1).advantage
        0.1
        """
        return cls(0.0, gamma, randomness="both", advantage=advantage)

    @property
    def risk(self) -> float:
        """Largest risk to claim, or the advantage if that is the target."""
        return self.gamma if self.advantage is None else self.advantage

    def check_law(self, law: Law, *, sampled: bool) -> None:
        """Raise ValueError if noise of this law cannot reach the target."""
        name = f"law={law.name!r}"
        if (self.randomness == Scope.NOISE) == sampled:
            raise ValueError(
                "randomness must be 'implicit' or 'both' for sampled pairs, and "
                "'explicit' for a known sensitivity (see KnownSensitivity), got "
                f"{self.randomness!r}."
            )
        if self.advantage is not None:
            if law.chooses:
                raise ValueError(
                    f"advantage must be None with {name}: it is for noise that is "
                    f"added to numbers; got {self.advantage!r}."
                )
        elif self.randomness == Scope.PAIR_AND_NOISE:
            if law.bounded and type(law) is not Laplace:
                raise ValueError(
                    f"randomness must not be 'both' with {name}, of which no losses of "
                    "drawn noise are known."
                )
        elif self.delta:
            if law.chooses:
                raise ValueError(f"delta must be 0 with {name}, got {self.delta!r}.")
        elif self.gamma and not sampled:
            return  # noise of any law is at a risk
        elif not law.bounded and math.isfinite(self.epsilon):
            raise ValueError(
                f"delta must be above 0 with {name} and randomness={self.randomness!r},"
                f" because the loss of {law.name} noise has no bound; got "
                f"{self.delta!r}."
            )


class Rule(ABC):
    """A rule for K, from the risk certified by the K-th smallest of m.

    Of exchangeable numbers a fresh one is above the K-th smallest of m with probability
    `certify_risk` at most: on average over the m, or for all but a share `failure_prob`
    of them.
    """

    name: ClassVar[str]
    failure_prob: float = 0.0
    n_neighbors: int = 1

    @abstractmethod
    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        """Return the certified risk at the K-th smallest, at most 1.

        Rounded up. It falls as K grows, and at the largest as there are more pairs.
        """

    def order_index(self, n_pairs: int, gamma: float) -> int:
        """Return the least K that certifies `gamma`, or raise CalibrationError."""
        m = check_at_least(n_pairs, "n_pairs", 1)
        gamma = check_probability(gamma, "gamma")
        most = m * self.n_neighbors
        least = self.certify_risk(m, most)
        if least > gamma:
            raise CalibrationError(
                f"n_pairs={m} pairs certify no risk below {least:.6g}, but "
                f"gamma={gamma!r} was requested; it needs n_pairs >= "
                f"{self.fewest_pairs(gamma)}.",
                target=gamma,
                best=least,
            )
        return _first(lambda index: self.certify_risk(m, index) <= gamma, most)

    def fewest_pairs(self, gamma: float) -> int:
        """Return the fewest pairs whose largest critical scale certifies `gamma`."""

        def enough(n_pairs: int) -> bool:
            return self.certify_risk(n_pairs, n_pairs * self.n_neighbors) <= gamma

        most = 1
        while not enough(most):
            most *= 2
        return _first(enough, most)

    def _count_above(self, n_pairs: int, order_index: int) -> tuple[int, int]:
        """Return how many pairs there are, and critical scales above the K-th."""
        m = check_at_least(n_pairs, "n_pairs", 1)
        n_above = m * self.n_neighbors - check_at_least(order_index, "order_index", 1)
        if n_above < 0:
            r = self.n_neighbors
            draws = "" if r == 1 else f" times n_neighbors={r}"
            raise ValueError(
                f"order_index must be at most n_pairs={m}{draws}, got {order_index}."
            )
        return m, n_above


def _first(holds: Callable[[int], bool], high: int) -> int:
    """Return the least number from which on something holds, as it does at `high`."""
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _ratio_above(numerator: int, denominator: int) -> float:
    """Return the least float that is not below a ratio."""
    nearest = numerator / denominator
    top, bottom = nearest.as_integer_ratio()
    safe = top * denominator >= numerator * bottom
    return nearest if safe else math.nextafter(nearest, math.inf)


@dataclass(frozen=True)
class Exchangeable(Rule):
    """K = ceil((1 - gamma)(m + 1)): the fresh pair is one more of the same.

    Parameters
    ----------
    n_neighbors : int, default=1
        Neighbors of each sampled database, each with a critical scale. K is taken among
        all of them, so that at most ``n_neighbors ((m + 1) gamma - 1)`` are above
        (conformal risk control of each database's share).

    Notes
    -----
    **Guarantee** (method of split conformal prediction). The critical scales of
    the m sampled pairs and of a fresh one are exchangeable, so the fresh one is
    above the K-th smallest with probability at most 1 - K/(m + 1), over the
    fresh pair and the sample together. No assumption on the query, the
    distribution or ties. The caller must ensure that the reference describes the
    population.

    Examples
    --------
    >>> from skparisk.core import Exchangeable
    >>> Exchangeable().order_index(1500, 0.05)
    1426
    >>> Exchangeable(n_neighbors=10).order_index(1500, 0.05)
    14260
    """

    n_neighbors: int = 1
    name: ClassVar[str] = "exchangeable"

    def __post_init__(self) -> None:
        check_at_least(self.n_neighbors, "n_neighbors", 1)

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        (m, n_above), r = self._count_above(n_pairs, order_index), self.n_neighbors
        return _ratio_above(n_above + r, r * (m + 1))


@dataclass(frozen=True)
class PAC(Rule):
    """The exact binomial tolerance limit (Wilks 1941).

    **Guarantee**. With probability at least ``1 - failure_prob`` over the sampled
    pairs, the risk over a fresh pair is at most gamma: K is the least with
    ``P(Binomial(m, 1 - gamma) >= K) <= failure_prob``. The caller must ensure
    that the reference describes the population.

    Examples
    --------
    >>> from skparisk.core import PAC
    >>> PAC(0.05).order_index(1500, 0.05)
    1440
    """

    failure_prob: float = 0.05
    name: ClassVar[str] = "pac"

    def __post_init__(self) -> None:
        if check_probability(self.failure_prob, "failure_prob") < _LEAST_FAILURE:
            raise ValueError(
                f"failure_prob must be at least {_LEAST_FAILURE:g}, below which the "
                f"incomplete beta function is not exact, got {self.failure_prob!r}."
            )

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        m, n_above = self._count_above(n_pairs, order_index)
        # P(Binomial(m, 1 - risk) >= K) = 1 - I_risk(m - K + 1, K)
        ends = float(n_above + 1), float(m - n_above)
        return min(1.0, float(betainccinv(*ends, self.failure_prob)) * _BETA_ROUNDING)


@dataclass(frozen=True)
class DKW(Rule):
    """Theorem 15 of Rubinstein and Aldà, at the rho of least K.

    **Guarantee** (:func:`dkw_least_noise`). As `Exchangeable`, on average over
    the sampled pairs, from the Dvoretzky-Kiefer-Wolfowitz inequality.
    """

    name: ClassVar[str] = "dkw"

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        m, n_above = self._count_above(n_pairs, order_index)
        risk = Fraction(n_above, m) + Fraction(dkw_slack(m))
        return min(1.0, _ratio_above(*risk.as_integer_ratio()))


def best_rho(n_pairs: int) -> float:
    """Return the rho of least rho + deviation (Table 1, rows 2 and 3)."""
    return math.exp(0.5 * float(lambertw(-1 / (4 * n_pairs), k=-1).real))


def dkw_slack(n_pairs: int) -> float:
    """Return rho + sqrt(ln(1/rho)/(2m)) at the best rho: what K/m must exceed by."""
    rho = best_rho(n_pairs)  # any rho is valid, so only the sum has to be safe
    return (rho + math.sqrt(math.log(1 / rho) / (2 * n_pairs))) * (1 + 1e-14)


CALIBRATIONS: dict[str, type[Rule]] = {
    rule.name: rule for rule in (Exchangeable, PAC, DKW)
}


def required_pairs(gamma: float, *, failure_prob: float | None = None) -> int:
    r"""Return the fewest neighbor pairs that can certify a risk.

    Parameters
    ----------
    gamma : float
        Risk: probability that the privacy loss of a fresh pair exceeds the
        target, in (0, 1). Unitless.

    failure_prob : float or None, default=None
        None: the guarantee holds on average over the drawn pairs
        (``calibration="exchangeable"``). A float in (0, 1): it holds with
        probability ``1 - failure_prob`` over them (``calibration="pac"``).

    Returns
    -------
    n_pairs : int
        Rounded up, so never optimistic. At this number the noise is calibrated
        to the largest sampled sensitivity; more pairs mean less noise.

    Notes
    -----
    **Guarantee**. :math:`\lceil 1/\gamma \rceil - 1` pairs, and the least m with
    :math:`(1 - \gamma)^m \le \beta`; equality counts as above, for rounding.
    The caller must ensure that the reference describes the population.
    For ``calibration="dkw"`` see :func:`dkw_fewest_pairs`.

    Examples
    --------
    >>> from skparisk.core import required_pairs
    >>> required_pairs(0.05), required_pairs(0.05, failure_prob=0.01)
    (19, 90)
    """
    rule = Exchangeable() if failure_prob is None else PAC(failure_prob)
    return rule.fewest_pairs(check_probability(gamma, "gamma"))


def control_risk(
    risks: Callable[[float], _Floats],
    distances: _Floats,
    pairs: SampledPairs,
    terms: Terms,
) -> tuple[float, float]:
    """Return the least scale at which the average risk of the pairs is controlled.

    And the scale that all pairs, and the fresh one, would allow: anything else is read
    there, as the scale itself depends on the same sample. 0 if that is none.

    `risks` tells what each pair counts at a scale: in [0, 1], and never more at a
    larger scale. A database counts the mean of its pairs.

    **Guarantee** (:ref:`thm-gaussian`, :ref:`thm-advantage`, :ref:`thm-groups`). The
    least scale with ``(sum of means + 1)/(n_databases + 1) <= gamma``: over a fresh
    pair, its noise and the sampled pairs, the risk is at most gamma. Conformal risk
    control (Angelopoulos, Bates, Fisch, Lei and Schuster 2024, Theorem 1).
    """
    (gamma, name), asked = terms.controlled, terms.target.risk
    n_databases, n_neighbors = pairs.n_databases, pairs.n_neighbors
    allowed = float(Fraction(gamma) * (n_databases + 1) - 1)
    # All of these are in databases, of which each pair is a share.
    n_positive = int(np.count_nonzero(distances)) / n_neighbors
    n_infinite = int(np.count_nonzero(np.isinf(distances)))
    n_moving = min(n_positive, (len(pairs) - pairs.count_still()) / n_neighbors)
    if n_moving <= allowed:
        best = (n_moving + 1) / (n_databases + 1) if n_moving else 0.0
        raise _no_noise(asked, best, name)
    limit = allowed * (1 - ROUNDING)
    if n_infinite / n_neighbors > limit:  # no scale is reached: others count as well
        best = (n_infinite / n_neighbors + 1) / (n_databases + 1)
        raise _no_answer(n_infinite, pairs, asked, best, name)

    def total(scale: float) -> float:
        together = float(risks(scale).sum()) / n_neighbors
        if math.isnan(together):
            raise ValueError("law must say the risk of each pair, got NaN.")
        return together

    start = float(np.median(distances[(distances > 0) & np.isfinite(distances)]))
    _, scale = _bracket(total, limit, start)
    if n_positive <= (allowed + 1) * (1 + 2 * ROUNDING):
        return scale, 0.0
    below, _ = _bracket(total, (allowed + 1) * (1 + ROUNDING), scale)
    return scale, below


def certified_mean(sums: Any, n_pairs: int, n_neighbors: int = 1) -> Any:
    """Return the mean that is certified where the pairs add up to these sums.

    A fresh database counts as one more, at the most.
    """
    return (sums / n_neighbors + 1) * (1 + ROUNDING) / (n_pairs // n_neighbors + 1)


def _bracket(
    total: Callable[[float], float], limit: float, start: float
) -> tuple[float, float]:
    """Return scales next to each other where a falling sum is above, and is not."""
    low = high = start
    while total(low) <= limit:
        low /= 2
    while total(high) > limit:
        high *= 2
    while high > low * (1 + ROUNDING):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:  # numbers so small that there is none between
            break
        if total(middle) > limit:
            low = middle
        else:
            high = middle
    return low, high


def as_curve(levels: ArrayLike, risks: ArrayLike) -> _Floats | None:
    """Return the points of a curve that say anything; None if none does."""
    points = np.column_stack([levels, risks])
    said = points[np.isfinite(points[:, 0]) & (points[:, 1] < 1)]
    return said if len(said) else None


def point_of_level(curve: _Floats, epsilon: float) -> _Floats:
    """Return the point of a curve that tells most of a level, or no point."""
    near = curve[curve[:, 0] * _NEAR <= epsilon]
    return near[np.argsort(near[:, 1], kind="stable")[:1]]


def with_own_level(
    curve: _Floats | None, epsilon: float, risk: float
) -> _Floats | None:
    """Return a curve that tells of the level of the claim, which evidence is to do."""
    if curve is not None and len(point_of_level(curve, epsilon)):
        return curve
    return as_curve(epsilon, risk)


def _called(name: str) -> str:
    return "risk" if name == "gamma" else f"mean {name}"


def _no_answer(
    n_infinite: int, pairs: SampledPairs, gamma: float, best: float, name: str = "gamma"
) -> CalibrationError:
    what, why = _called(name), ""
    if pairs.failure is not None:
        why = f" The reason for the missing answers: {pairs.failure}."
    return CalibrationError(
        f"{n_infinite} of {len(pairs)} sampled pairs have a database without an answer,"
        f" so no noise keeps the {what} within {name}={gamma!r}; the lowest {what} that"
        f" any noise achieves is {best:.6g}.{why}",
        target=gamma,
        best=best,
    )


# Of how far a record moves them: answers that are off by more are refused.
_MOST_OFF = 0.1


def _no_noise(gamma: float, best: float, name: str = "gamma") -> CalibrationError:
    return CalibrationError(
        f"The sampled sensitivity at {name}={gamma!r} is 0, so no noise would be "
        "added: the query gives the same answer on both databases of most pairs. Use a "
        f"smaller {name}, or a reference whose records differ more; and new pairs, of "
        "another random_state.",
        target=gamma,
        best=best,
    )


def drawn_scales(pairs: SampledPairs, epsilon: float, shape: NoiseShape) -> _Floats:
    """Return the critical scale of each pair, at a draw of Laplace noise.

    Infinite for pairs without an answer. Where differences may be off, a share of the
    level pays for it.
    """
    level, found = grid.below(epsilon), np.full(len(pairs), np.inf)
    off = _off(pairs, shape)  # over the scale: by how much losses may be off
    for some, differences, noise in _draws(pairs, shape):
        if not off:
            found[some] = critical_scales(differences, noise, level)
            continue
        for share in _ERRORS_SHARES:  # each is safe, and so is the least of them
            enough = off / (share * level)
            kept = critical_scales(differences, noise, level * (1 - share))
            found[some] = np.minimum(found[some], np.maximum(kept, enough))
            if (enough <= kept).all():
                break
    return found


def drawn_levels(
    pairs: SampledPairs, scale: float, epsilon: float, shape: NoiseShape
) -> _Floats:
    """Return the least levels that each pair keeps from that scale on, rounded up.

    On the grid of noise that was calibrated to `epsilon`, at the same draws.
    """
    found = np.full(len(pairs), np.inf)
    off = _off(pairs, shape)
    for some, differences, noise in _draws(pairs, shape):
        found[some] = peak_losses(differences, noise, scale) + off / scale
    return grid.with_grid(found, epsilon)


def _draws(
    pairs: SampledPairs, shape: NoiseShape
) -> Iterator[tuple[NDArray[np.intp], _Floats, _Floats]]:
    """Yield answered pairs, block by block: which, differences, and noise."""
    rng = np.random.default_rng(pairs.draw_seed)
    for rows in pairs.blocks():
        noise = rng.laplace(size=pairs.differences[rows].shape)
        answered = np.isfinite(pairs.differences[rows, 0])
        some = np.flatnonzero(answered) + rows.start
        yield some, shape.whiten(pairs.differences[some]), noise[answered]


def _off(pairs: SampledPairs, shape: NoiseShape) -> float:
    """Return by how much the l1 norm of a difference may be off, in a shape."""
    if pairs.errors is None:
        return 0.0
    return float(shape.whiten_errors(pairs.errors).sum())


def _check_target(target: Target, law: Law, *, sampled: bool) -> None:
    """Refuse a target that a law cannot keep, or of a class that may say two levels."""
    if type(target) is not Target:
        raise TypeError(f"target must be a Target itself, got {target!r}.")
    target.check_law(law, sampled=sampled)


@dataclass(frozen=True)
class Terms:
    """Target, law, shape and rule of a calibration, for so many databases.

    Checked where it is made, but for how many databases it takes: `order_index` raises
    an error for too few.

    Parameters
    ----------
    target, law, rule : Target, Law, Rule
        The rule is that for as many neighbors as each database has.

    shape : str or NoiseShape
        A named shape is learned from the first of the pairs, by the caller; no
        guarantee depends on how.

    n_databases : int
        Databases, each with all of its neighbors, are exchangeable.

    n_shape : int, default=0
        With how many of these the shape is taken from, which calibrate nothing.

    stricter : float or None, default=None
        Risk of the calibration, if less than the risk of the target.
    """

    target: Target
    law: Law
    shape: str | NoiseShape
    rule: Rule
    n_databases: int
    n_shape: int = 0
    stricter: float | None = None

    def __post_init__(self) -> None:
        target, law, rule, shape = self.target, self.law, self.rule, self.shape
        _check_target(target, law, sampled=True)
        if type(rule) not in CALIBRATIONS.values():
            raise ValueError(f"calibration must be a rule of core, got {rule!r}.")
        plain = getattr(shape, "name", shape) in ("auto", "isotropic")
        if law.chooses and not plain:
            raise ValueError(
                f"noise_shape must be 'isotropic' with law={law.name!r}, got {shape!r}."
            )
        both = target.randomness == Scope.PAIR_AND_NOISE and not self.averages
        if both and (target.advantage is not None or type(law) is not Laplace):
            raise ValueError(
                "calibration must be 'exchangeable' with an advantage, or with "
                f"randomness='both' and law={law.name!r}: what is kept is a mean over "
                f"pairs, and no order statistic; got {rule.name!r}."
            )

    @property
    def averages(self) -> bool:
        """Whether the rule averages risks known for each pair.

        Over both sources of randomness, where it is no order statistic of losses of
        drawn noise.
        """
        known = not self.law.bounded or self.target.advantage is not None
        both = self.target.randomness == Scope.PAIR_AND_NOISE
        return both and known and type(self.rule) is Exchangeable

    @property
    def risk(self) -> float:
        """Risk of the calibration: the target's, or less."""
        return self.target.gamma if self.stricter is None else self.stricter

    @property
    def n_neighbors(self) -> int:
        """Neighbors of each database."""
        return self.rule.n_neighbors

    @property
    def n_pairs(self) -> int:
        """All pairs."""
        return self.n_databases * self.n_neighbors

    @property
    def n_shape_pairs(self) -> int:
        """Number of pairs that shape the noise, apart from the calibrating ones."""
        return self.n_shape * self.n_neighbors

    @property
    def n_calibrating(self) -> int:
        """Number of calibrating databases."""
        return self.n_databases - self.n_shape

    @property
    def controlled(self) -> tuple[float, str]:
        """Limit of the average, and its name in errors."""
        if self.target.advantage is not None:
            return self.target.advantage, "advantage"
        return self.risk, "gamma"

    @property
    def _fewest_averaged(self) -> int:
        """The fewest databases over which an average can be kept, if one is."""
        least = (1 + _LEAST_ALLOWED) / Fraction(self.controlled[0])
        return math.ceil(least) - 1 if self.averages else 1

    @property
    def fewest(self) -> int:
        """Fewest databases that suffice to calibrate."""
        return max(self.rule.fewest_pairs(self.risk), self._fewest_averaged)

    @cached_property
    def order_index(self) -> int:
        """Rank of the distance that counts as the sensitivity.

        A CalibrationError if the databases are too few.
        """
        m, (asked, name) = self.n_calibrating, self.controlled
        if m < self._fewest_averaged:
            raise CalibrationError(
                f"n_pairs={m} pairs certify no {_called(name)} of {1 / (m + 1):.6g} or "
                f"below, but {name}={asked!r} was requested; it needs n_pairs >= "
                f"{self._fewest_averaged}.",
                target=asked,
                best=1 / (m + 1),
            )
        return self.rule.order_index(m, self.risk)

    def for_rows(self, n_independent: int | None) -> Self:
        """Return the terms for pairs of a table with so many disjoint pairs of rows.

        They say no more about new people than so many independent pairs: the fresh pair
        counts as one more of these, not of all drawn pairs. Where that leaves nothing,
        or less than the pairs certify, it is the least that they do. Not for an
        advantage: a mean over pairs held among real people as it is.
        """
        asked, m = self.target.gamma, self.n_calibrating
        largest, mean = m * self.n_neighbors, self.target.advantage is not None
        if n_independent is None or n_independent >= largest or mean:
            return self
        wanted = asked - (1 - asked) / max(1, n_independent)
        for risk in (wanted, 1 / m, self.rule.certify_risk(m, largest)):
            stricter = replace(self, stricter=risk)
            if 0 < risk < asked and m >= stricter.fewest:
                return stricter
        return self


class Found(NamedTuple):
    """What is certified, by a noise scale that must have so many steps of the grid.

    At the scale `below` all else is read off the pairs; 0 where there is none.
    """

    risk: float
    order_index: int | None
    scale: float = 0.0
    steps: int = 0
    curve: NDArray[np.float64] | None = None
    below: float = 0.0


def find_scale(
    pairs: SampledPairs, distances: _Floats, terms: Terms, shape: NoiseShape
) -> Found:
    """Return the least noise scale that keeps the target, for pairs of such distances.

    0 where an infinite level asks for none.
    """
    target, law, n_outputs = terms.target, terms.law, pairs.n_outputs
    epsilon, delta, index = target.epsilon, target.delta, terms.order_index
    certified = terms.rule.certify_risk(pairs.n_databases, index)
    if math.isinf(epsilon):
        if terms.averages:
            return Found(terms.risk, None)
        return Found(certified, index)
    if terms.averages:
        return _by_average(pairs, distances, terms)
    if target.randomness == Scope.PAIR_AND_NOISE:
        steps = law.unit_noise(epsilon, 0.0, n_outputs).steps
        scales = drawn_scales(pairs, epsilon, shape)
    else:
        unit, steps = law.unit_noise(epsilon, delta, n_outputs)
        scales = distances * unit
    scales.sort()
    scale = _order_statistic(scales, pairs, terms)
    # What else is read off the same sample is read one database below
    # (thm-other-levels).
    n_below = index - terms.n_neighbors
    below = float(scales[n_below - 1]) if n_below > 0 else 0.0
    curve = None
    # Proven for other rules; with a share of samples that fail, for one level only.
    if below > 0 and type(terms.rule) is not PAC:
        if target.randomness == Scope.PAIR_AND_NOISE:
            levels = drawn_levels(pairs, below, epsilon, shape)
        else:
            shifts = distances / below
            levels = law.levels(shifts, delta, n_outputs=n_outputs, steps=steps)
        most = len(levels)
        counts = np.linspace(most, 1, min(most, _ORDER_POINTS))[::-1].astype(int)
        m, certify = pairs.n_databases, terms.rule.certify_risk
        risks = [certify(m, count) for count in counts.tolist()]
        curve = as_curve(np.sort(levels)[counts - 1], risks)
    return Found(certified, index, scale, steps, curve, below)


def _order_statistic(scales: _Floats, pairs: SampledPairs, terms: Terms) -> float:
    """Return the K-th smallest of critical scales, finite and above 0.

    If noise for one that is 0, or for a pair that does not differ by more than
    rounding, is all that is asked for, it is for none: a CalibrationError, as where
    pairs without an answer leave no noise that is enough.

    **Guarantee** (:ref:`thm-order-statistic`, :ref:`thm-groups`): as the rule says.
    """
    gamma, certify, n_all = terms.target.gamma, terms.rule.certify_risk, len(scales)
    scale = float(scales[terms.order_index - 1])
    if math.isinf(scale):
        n_infinite = int(np.count_nonzero(np.isinf(scales)))
        best = 1.0
        if n_infinite < n_all:
            best = certify(pairs.n_databases, n_all - n_infinite)
        raise _no_answer(n_infinite, pairs, gamma, best)
    n_zero = max(int(np.searchsorted(scales, 0, side="right")), pairs.count_still())
    if n_zero >= terms.order_index:
        best = certify(pairs.n_databases, n_zero + 1) if n_zero < n_all else 0.0
        raise _no_noise(gamma, best)
    return scale


def _by_average(pairs: SampledPairs, distances: _Floats, terms: Terms) -> Found:
    """Find the scale at which the average is met.

    Of risks over the noise that pairs exceed the level, or of what attackers gain.
    """
    target, law, n_outputs = terms.target, terms.law, pairs.n_outputs
    epsilon, r = target.epsilon, pairs.n_neighbors
    asked, gains = terms.controlled[0], target.advantage is not None
    if gains:
        steps = grid.advantage_steps(asked, n_outputs, pairs.n_databases)
    else:
        steps = law.risk_steps(epsilon, asked, n_outputs)
    known = {"n_outputs": n_outputs, "steps": steps}

    def risks(scale: float, levels: ArrayLike = epsilon) -> _Floats:
        if gains:
            return law.advantage(distances / scale, **known)
        return law.risks(distances / scale, levels, **known)

    scale, below = control_risk(risks, distances, pairs, terms)
    curve = None
    if below and not gains:
        levels = epsilon * np.geomspace(2.0**-8, 2.0**8, _RISK_POINTS)
        blocks = np.array_split(levels, min(len(levels), 1 + len(pairs) // _BLOCK))
        sums = [risks(below, block[:, None]).sum(axis=1) for block in blocks]
        curve = as_curve(levels, certified_mean(np.concatenate(sums), len(pairs), r))
    return Found(asked, None, scale, steps, curve, below)


def measure_advantage(
    distances: _Floats, shift: float, found: Found, terms: Terms, n_outputs: int
) -> Advantage | None:
    """Return what an attacker gains, where that is known and proven; rounded up.

    `shift` is the sensitivity over the noise scale, 0 without noise. On average it is
    read at the scale below the one that was found, which depends on the same pairs;
    for all but a share of pairs, at the sensitivity (:ref:`thm-advantage`).
    """
    law, n_pairs, r = terms.law, len(distances), terms.n_neighbors
    if not shift:
        return None
    known = {"n_outputs": n_outputs, "steps": found.steps}
    (quantile,) = law.advantage([shift], **known)
    mean = terms.target.advantage or 1.0
    if found.below and terms.target.advantage is None:
        with np.errstate(over="ignore"):
            total = law.advantage(distances / found.below, **known).sum()
        certified = float(certified_mean(total, n_pairs, r))
        mean = float(ceil_text(min(1.0, certified)))
    return Advantage(
        mean,
        float(ceil_text(float(quantile))),
        # On average over samples this is what any fixed K certifies.
        Exchangeable(r).certify_risk(n_pairs // r, terms.order_index),
    )


class Mechanism(Protocol):
    """What makes a noisy result of exact values."""

    def prepare(self, values: Any) -> Callable[[ByteSource], Any]:
        """Return what draws the result: what takes memory, or fails, comes before."""


class Noise(Mechanism, Protocol):
    """What is added to an answer, or what chooses by it: of this folder or a law's."""

    @property
    def noise_scale(self) -> float:
        """Scale of the noise."""


class CalibratedNoise(NamedTuple):
    """Noise for sampled pairs, and what its certificate is read off."""

    noise: Noise
    terms: Terms
    # Those that calibrate, and how far apart they are in the coordinates of the noise.
    pairs: SampledPairs
    distances: _Floats
    sensitivity: float
    shape: NoiseShape
    found: Found
    margin: float

    def certify(
        self,
        *,
        n_records: int,
        relation: str,
        reference: str | None,
        for_new_people: str | None = None,
        leaks: Iterable[Leak] = (),
    ) -> Certificate:
        """Return what the noise guarantees about databases of so many records."""
        pairs, terms, found, shape = self.pairs, self.terms, self.found, self.shape
        target, law, rule = terms.target, terms.law, terms.rule
        noise_scale, curve = self.noise.noise_scale, found.curve
        if target.randomness == Scope.PAIR_AND_NOISE:
            curve = with_own_level(curve, target.epsilon, found.risk)
        shift = self.sensitivity * self.margin / noise_scale if noise_scale else 0.0
        constant = getattr(self.noise, "constant", None)
        evidence = Evidence(
            gamma=target.gamma,
            sensitivity=self.sensitivity,
            noise_scale=noise_scale,
            n_records=check_at_least(n_records, "n_records", 1),
            n_outputs=pairs.n_outputs,
            margin=self.margin,
            population=pairs.population,
            n_constant=0 if constant is None else len(constant.outputs),
            calibration=rule.name,
            law=law.name,
            norm=NORMS[law.norm],
            n_pairs=len(pairs),
            order_index=found.order_index,
            n_neighbors=pairs.n_neighbors,
            n_unanswered=int(np.count_nonzero(~pairs.answered)),
            noise_shape=shape.name,
            n_shape_pairs=terms.n_shape_pairs or None,
            reference=reference,
            for_new_people=for_new_people,
            advantage=measure_advantage(
                self.distances, shift, found, terms, pairs.n_outputs
            ),
            rows_per_person=pairs.rows_per_person,
            curve=curve,
        )
        rests_on, doubts = {*pairs.assumptions}, set()
        if not isinstance(terms.shape, str) and shape.name != "isotropic":
            rests_on.add(Assumption.GIVEN_SHAPE)
        if pairs.population == Population.DECLARED:
            doubts.add(Doubt.MADE_UP)
        if pairs.lacks_tail(target.gamma):
            doubts.add(Doubt.THIN)
        return _claim(
            target,
            law,
            risk=found.risk,
            failure_prob=rule.failure_prob,
            relation=relation,
            rests_on=rests_on,
            leaks=frozenset(leaks),
            doubts=frozenset(doubts),
            evidence=evidence,
            unit=pairs.unit,
        )


def _claim(
    target: Target,
    law: Law,
    *,
    risk: float,
    relation: str,
    rests_on: Iterable[Assumption] = (),
    loss: DominatingLoss | None = None,
    evidence: Evidence | None = None,
    **parts: Any,
) -> Certificate:
    """Return what noise of a law guarantees that was calibrated to a target."""
    both = target.randomness == Scope.PAIR_AND_NOISE
    if evidence is not None and loss is None and not both:
        loss = _dominating_loss(target.epsilon, law, evidence)
    given = () if is_ours(law) else (Assumption.GIVEN_NOISE,)
    return mint(
        epsilon=target.epsilon,
        delta=0.0 if both else target.delta,
        risk=risk,
        randomness=target.randomness,
        relation=check_relation(relation),
        loss=loss,
        # An advantage does not grow any more. To leave out outputs may raise how
        # likely a large loss is, where that is over the noise as well.
        post_processed=target.advantage is not None
        or (both and evidence is not None and evidence.n_constant > 0),
        assumptions=frozenset({*rests_on, *given}),
        evidence=evidence,
        **parts,
    )


def _dominating_loss(
    epsilon: float, law: Law, evidence: Evidence
) -> DominatingLoss | None:
    """Return the law that the loss of all pairs outside the risk stays below, if any.

    Where the noise has a fine grid.
    """
    fine = evidence.n_outputs / epsilon <= _FINE_GRID
    fine &= evidence.noise_scale >= _COARSE_SCALE
    if not fine or not law.composes:
        return None
    # What the margin pays for is not counted as less loss.
    shift = evidence.sensitivity * evidence.margin / evidence.noise_scale
    if law.bounded:  # whose largest loss is the level, but for rounding
        shift = max(shift, epsilon)
    more = 2 * grid.GRID_SHARE  # of the shift, and of the level
    return DominatingLoss(law, shift * (1 + more), epsilon * more)


def _refuse_inexact(
    pairs: SampledPairs, shape: NoiseShape, law: Law, sensitivity: float
) -> None:
    """Refuse a query whose answers are not known well, beside how far they move.

    By how much they are off was seen on a few databases: on others it may be more.
    """
    if pairs.errors is None:
        return
    off = float(row_norms(shape.whiten_errors(pairs.errors)[None], law.norm)[0])
    if 0 < sensitivity < min(off / _MOST_OFF, math.inf):
        raise CalibrationError(
            "The answers of the query are off, by rounding or as its solver stops "
            f"early, by {off / sensitivity:.0%} of how far a record moves them: bring "
            "features to similar scales, or take a stronger penalty.",
            target=math.nan,
            best=1.0,
        )


def find_noise(
    pairs: SampledPairs,
    terms: Terms,
    learn: Callable[[SampledPairs, Terms], NoiseShape] | None = None,
) -> CalibratedNoise:
    """Calibrate noise to sampled pairs.

    A CalibrationError if they cannot certify the risk, or the sensitivity at it is 0.

    Parameters
    ----------
    pairs : SampledPairs
        Pairs of independent, identically drawn databases, or exchangeable ones.

    terms : Terms
        The request.

    learn : callable, default=None
        ``learn(some, terms)`` returns the shape of the noise, of the first pairs, which
        then calibrate nothing, by its name in the terms. No guarantee depends on what
        it returns. None: the same noise for all outputs, where no shape is given.

    Notes
    -----
    **Guarantee** (:ref:`thm-order-statistic`, :ref:`thm-critical-scale`,
    :ref:`thm-gaussian`, :ref:`thm-noise-shape`, :ref:`thm-advantage`). What
    `certify` says.
    """
    if pairs.n_neighbors != terms.n_neighbors:
        raise ValueError(
            f"terms must be for {pairs.n_neighbors} neighbors of each database, as the "
            f"pairs have, got {terms.n_neighbors}."
        )
    terms = replace(terms, n_databases=pairs.n_databases).for_rows(pairs.n_independent)
    target, law, shape = terms.target, terms.law, terms.shape
    if isinstance(shape, str):
        shape = NoiseShape()
        if learn is not None and terms.n_shape:
            shape = learn(pairs.take(slice(terms.n_shape_pairs)), terms)
    check_shape(shape, pairs.n_outputs)
    pairs = pairs.take(slice(terms.n_shape_pairs, None))
    distances = norms_of_pairs(pairs, shape, law)
    sensitivity = float(np.sort(distances)[terms.order_index - 1])
    _refuse_inexact(pairs, shape, law, sensitivity)
    with np.errstate(over="ignore"):  # pairs may be infinitely far apart in scales
        found = find_scale(pairs, distances, terms, shape)
    margin, scale = 1.0, found.scale
    asked = target.randomness == Scope.PAIR and min(sensitivity, scale) > 0
    if pairs.margin is not None and asked:
        more = pairs.margin(distances, shape, law, terms.order_index, target.gamma)
        margin = max(1.0, float(more))
    noise: Noise
    if law.chooses:
        noise = law.chooses(scale * margin, found.steps)
    elif not scale:  # nothing is to be protected
        noise = AdditiveNoise(law, 0, 0, pairs.n_outputs, shape)
    else:
        noise = AdditiveNoise.at_least(
            law,
            scale * margin,
            n_outputs=pairs.n_outputs,
            shape=shape,
            constant=pairs.constant,
            least_steps=found.steps,
        )
    return CalibratedNoise(
        noise, terms, pairs, distances, sensitivity, shape, found, margin
    )


def find_known(
    sensitivity: float,
    target: Target,
    *,
    law: str | Law = "laplace",
    n_outputs: int = 1,
    n_records: int = 1,
    relation: str = "replace-one",
    unit: Unit = Unit.RECORD,
    proven: bool = False,
) -> tuple[AdditiveNoise, Certificate]:
    """Return noise for a sensitivity that is known, or proven, and its certificate.

    The target has the randomness "explicit", and a delta, or a risk over the noise, or
    a gamma of 0: every pair and output then keeps the level. With `proven` no word of
    the caller's is in it: whoever says so must have proven it.

    **Guarantee** (:ref:`thm-explicit`). For every pair of neighbors, the privacy loss
    exceeds the level with probability at most the risk over the noise.
    """
    sensitivity = check_positive(sensitivity, "sensitivity")
    k = check_at_least(n_outputs, "n_outputs", 1)
    law = as_law(law)
    _check_target(target, law, sampled=False)
    epsilon, gamma, delta = target.epsilon, target.gamma, target.delta
    risk, curve, loss = 0.0, None, None
    if math.isinf(epsilon):
        noise = AdditiveNoise(law, 0, 0, k)
    elif type(law) is Laplace and not (delta or gamma):
        # Its grid is paid for exactly, with less noise than a share of the level.
        noise = laplace_noise(sensitivity, epsilon, k)
        # Continuous noise within a step of the discrete, at both ends.
        loss = DominatingLoss("laplace", epsilon, 2 * k / noise.steps)
    else:
        if gamma and not delta:
            (least, steps), risk, curve = law.noise_at_risk(epsilon, gamma, k)
        else:
            least, steps = law.unit_noise(epsilon, delta, k)
        scale = sensitivity * (1 + float(ROUNDING_SLACK)) * least
        if not 0 < scale < math.inf:
            raise ValueError(
                f"sensitivity={sensitivity!r} and epsilon={epsilon!r} need a noise "
                f"scale that is too large or too small for a float, {scale!r}."
            )
        noise = AdditiveNoise.at_least(law, scale, n_outputs=k, least_steps=steps)
    evidence = Evidence(
        gamma=0.0 if delta else gamma,
        sensitivity=sensitivity,
        noise_scale=noise.noise_scale,
        n_records=n_records,
        n_outputs=k,
        calibration="bound" if proven else "declared",
        law=law.name,
        norm=NORMS[law.norm],
        curve=None if curve is None else as_curve(*curve),
    )
    return noise, _claim(
        target,
        law,
        risk=risk,
        relation=relation,
        unit=unit,
        loss=loss,
        evidence=evidence,
    )


def claim_at_most(
    target: Target, law: Law, rule: Rule, *, relation: str
) -> Certificate:
    """Return what a release over sampled pairs will claim at most.

    By what is asked for alone, to see if it fits a budget before anything is sampled.
    """
    failure_prob = rule.failure_prob
    return _claim(
        target, law, risk=target.risk, relation=relation, failure_prob=failure_prob
    )
