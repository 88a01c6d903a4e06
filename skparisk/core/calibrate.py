"""From sampled pairs to a noise scale, and what the scale then guarantees.

Every neighbor pair has a critical scale: the least noise at which its privacy loss
stays within the target. The noise scale is the K-th smallest of them, and the whole of
calibration is the choice of K; or it is the least at which the average of the pairs'
exact risks is controlled.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
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
    is_number,
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
    mint,
)
from skparisk.core.exact import ByteSource
from skparisk.core.laws import NORMS, Laplace, Law, as_law, is_ours
from skparisk.core.losses import critical_scales, peak_losses
from skparisk.core.noise import (
    ROUNDING_SLACK,
    AdditiveNoise,
    Constant,
    NoiseShape,
    check_shape,
    laplace_noise,
)
from skparisk.core.pairs import (
    SampledPairs,
    largest_loss,
    norms_of_pairs,
)
from skparisk.core.rounding import add_up, ceil_text, unwrap

_Floats = NDArray[np.float64]

# Of sums and roots, on the safe side.
_ROUNDING = 2.0**-40
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
# Above what rounding takes from a scale that is that of a pair.
_SLACK = 1 + 2.0**-20
# A noise scale that is too small for a fine grid.
_COARSE_SCALE = 2.0**-960
# Shares of the level that may pay for differences that are off, where they are.
_ERRORS_SHARES = (2.0**-16, 2.0**-8, 2.0**-6, 2.0**-4)
_LEAST_FAILURE = 1e-200
_BETA_ROUNDING = 1 + 1e-12  # of the inverse incomplete beta function, on the safe side


@dataclass(frozen=True)
class Target:
    """What is asked of the noise, checked where it is made and nowhere else.

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
        What the risk is over: the pair of databases, the pair and the noise together,
        or the noise alone, for every pair.

    advantage : float, default=None
        What an attacker may gain on average over pairs, in (0, 1), instead of a level:
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
        none = self.randomness == "explicit" and is_number(self.gamma)
        gamma = self.gamma
        if not (none and gamma == 0):
            gamma = check_probability(gamma, "gamma")
        delta = check_share(self.delta, "delta")
        # Plain numbers: those of NumPy may be short, and are rounded when calculated.
        if self.advantage is None:
            epsilon = check_epsilon(self.epsilon)
        else:
            epsilon = self._check_advantage(self.advantage)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "gamma", float(gamma))
        object.__setattr__(self, "delta", delta)

    @classmethod
    def of_advantage(cls, advantage: float, gamma: float = 0.05) -> Self:
        """Return what is asked of noise that leaves attackers so much to gain.

        Parameters
        ----------
        advantage : float
            Most that who knows all but which of two databases it was may gain, on
            average over pairs: the total variation of the two releases, in (0, 1).

        gamma : float, default=0.05
            Share of pairs, in (0, 1), that what is said of all others leaves out.

        Returns
        -------
        target : Target
            Of level 0, whose risk over pair and noise together is the advantage.

        Raises
        ------
        ValueError
            If a parameter is out of range.

        Examples
        --------
        >>> from skparisk.core import Target
        >>> Target.of_advantage(0.1).advantage
        0.1
        """
        return cls(0.0, gamma, randomness="both", advantage=advantage)

    def _check_advantage(self, advantage: Any) -> float:
        asked = check_probability(advantage, "advantage")
        if (self.epsilon, self.delta, self.randomness) != (0, 0, "both"):
            raise ValueError(
                "epsilon and delta must be 0, and randomness 'both', with an "
                f"advantage, which stands for them: see Target.of_advantage; got "
                f"{self.epsilon!r}, {self.delta!r} and {self.randomness!r}."
            )
        object.__setattr__(self, "advantage", asked)
        return 0.0

    def check_law(self, law: Law) -> None:
        """Raise ValueError if noise of a law cannot keep it."""
        name = f"law={law.name!r}"
        if self.advantage is not None:
            if law.chooses:
                raise ValueError(
                    f"advantage must be None with {name}: it is for noise that is "
                    f"added to numbers; got {self.advantage!r}."
                )
            return
        if self.randomness == "both":
            if law.bounded and type(law) is not Laplace:
                raise ValueError(
                    f"randomness must not be 'both' with {name}, of which no losses of "
                    "drawn noise are known."
                )
            return
        if self.delta and law.chooses:
            raise ValueError(f"delta must be 0 with {name}, got {self.delta!r}.")
        if math.isinf(self.epsilon):
            return
        at_risk = self.randomness == "explicit" and self.gamma > 0
        if not (law.bounded or self.delta or at_risk):
            raise ValueError(
                f"delta must be above 0 with {name} and randomness={self.randomness!r},"
                f" because the loss of {law.name} noise has no bound; got "
                f"{self.delta!r}."
            )


class Rule(ABC):
    """A rule for K, and the risk that the K-th smallest of m certifies.

    Of exchangeable numbers a fresh one is above the K-th smallest of m with probability
    `certify_risk` at most: on average over the m, or for all but a share `failure_prob`
    of them.
    """

    name: ClassVar[str]
    failure_prob: float = 0.0

    def order_index(self, n_pairs: int, gamma: float) -> int:
        """Return the least K that certifies `gamma`, or raise CalibrationError."""
        n_pairs = check_at_least(n_pairs, "n_pairs", 1)
        return self.choose(n_pairs, check_probability(gamma, "gamma"))

    @abstractmethod
    def choose(self, n_pairs: int, gamma: float) -> int:
        """Return what `order_index` does, of what has been checked."""

    @abstractmethod
    def certify_risk(self, n_pairs: int, order_index: ArrayLike) -> Any:
        """Return the risk that is certified at the K-th smallest, at most 1.

        An array of risks for an array of K, rounded up.
        """


def check_rank(
    n_pairs: int, order_index: ArrayLike, n_neighbors: int = 1
) -> tuple[int, NDArray[np.int64]]:
    """Return a number of pairs, and one or more K among their critical scales."""
    m = check_at_least(n_pairs, "n_pairs", 1)
    index = np.asarray(order_index)
    whole = index.dtype.kind in "iu" and index.size > 0
    if not whole or index.min() < 1:
        raise ValueError(
            f"order_index must be a whole number >= 1, got {order_index!r}."
        )
    if index.max() > m * n_neighbors:
        draws = "" if n_neighbors == 1 else f" times n_neighbors={n_neighbors}"
        raise ValueError(
            f"order_index must be at most n_pairs={m}{draws}, got {index.max()}."
        )
    return m, index.astype(np.int64)


def _too_few_pairs(
    n_pairs: int, gamma: float, least: float, needed: int
) -> CalibrationError:
    return CalibrationError(
        f"n_pairs={n_pairs} pairs certify no risk below {least:.6g}, but "
        f"gamma={gamma!r} was requested; it needs n_pairs >= {needed}.",
        target=gamma,
        best=least,
    )


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

    def choose(self, n_pairs: int, gamma: float) -> int:
        n_above = math.floor(self.n_neighbors * (Fraction(gamma) * (n_pairs + 1) - 1))
        if n_above < 0:
            least = self.certify_risk(n_pairs, n_pairs * self.n_neighbors)
            raise _too_few_pairs(n_pairs, gamma, least, required_pairs(gamma))
        return n_pairs * self.n_neighbors - n_above

    def certify_risk(self, n_pairs: int, order_index: ArrayLike) -> Any:
        m, index = check_rank(n_pairs, order_index, self.n_neighbors)
        n_above = m * self.n_neighbors - index
        of = self.n_neighbors * (m + 1)
        if index.ndim:
            return np.nextafter((n_above + self.n_neighbors) / of, np.inf)
        return float_above(Fraction(int(n_above) + self.n_neighbors, of))


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

    def choose(self, n_pairs: int, gamma: float) -> int:
        least = self.certify_risk(n_pairs, n_pairs)
        if least > gamma:
            needed = required_pairs(gamma, failure_prob=self.failure_prob)
            raise _too_few_pairs(n_pairs, gamma, least, needed)
        # Bisection: the risk falls as K grows; K = low fails, K = high holds.
        low, high = 0, n_pairs
        while high - low > 1:
            middle = (low + high) // 2
            if self.certify_risk(n_pairs, middle) <= gamma:
                high = middle
            else:
                low = middle
        return high

    def certify_risk(self, n_pairs: int, order_index: ArrayLike) -> Any:
        m, index = check_rank(n_pairs, order_index)
        # P(Binomial(m, 1 - risk) >= K) = 1 - I_risk(m - K + 1, K)
        risk = betainccinv(m - index + 1, index, self.failure_prob)
        return unwrap(np.minimum(1.0, risk * _BETA_ROUNDING))


@dataclass(frozen=True)
class DKW(Rule):
    """Theorem 15 of Rubinstein and Aldà, at the rho of least K.

    **Guarantee** (:func:`dkw_least_noise`). As `Exchangeable`, on average over
    the sampled pairs, from the Dvoretzky-Kiefer-Wolfowitz inequality.
    """

    name: ClassVar[str] = "dkw"

    def choose(self, n_pairs: int, gamma: float) -> int:
        return least_index(n_pairs, gamma)

    def certify_risk(self, n_pairs: int, order_index: ArrayLike) -> Any:
        m, index = check_rank(n_pairs, order_index)
        slack = dkw_slack(m)
        if index.ndim:
            return np.minimum(1.0, np.nextafter((m - index) / m + slack, np.inf))
        return min(1.0, float_above(Fraction(m - int(index), m) + Fraction(slack)))


_FACTORIES: dict[str, Callable[[float], Rule]] = {
    "exchangeable": lambda failure_prob: Exchangeable(),
    "pac": PAC,
    "dkw": lambda failure_prob: DKW(),
}
CALIBRATIONS = tuple(_FACTORIES)


def as_rule(calibration: Any, failure_prob: float = 0.05) -> Rule:
    """Return the rule of a name, or the one that is given; "pac" has a failure_prob."""
    check_probability(failure_prob, "failure_prob")
    if type(calibration) in (Exchangeable, PAC, DKW):
        if getattr(calibration, "n_neighbors", 1) != 1:
            raise ValueError(
                "calibration must be Exchangeable() with neighbors_per_database given "
                f"to the sampler, got {calibration!r}."
            )
        return calibration
    name = check_choice(calibration, "calibration", CALIBRATIONS)
    return _FACTORIES[name](failure_prob)


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

    Raises
    ------
    ValueError
        If `gamma` or `failure_prob` is outside (0, 1).

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
    gamma = check_probability(gamma, "gamma")
    if failure_prob is None:
        return max(1, math.ceil(1 / Fraction(gamma)) - 1)
    calibration = PAC(failure_prob)
    n_pairs = max(1, math.floor(math.log(failure_prob) / math.log1p(-gamma)))
    step = 1
    while calibration.certify_risk(n_pairs, n_pairs) > gamma:
        n_pairs, step = n_pairs + step, 2 * step
    return n_pairs


def float_above(value: Fraction) -> float:
    """Return the least float that is not below a number."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def _deviation(n_pairs: int, rho: float) -> float:
    return math.sqrt(math.log(1 / rho) / (2 * n_pairs))


def best_rho(n_pairs: int) -> float:
    """Return the rho of least rho + deviation (Table 1, rows 2 and 3)."""
    return math.exp(0.5 * float(lambertw(-1 / (4 * n_pairs), k=-1).real))


def dkw_slack(n_pairs: int) -> float:
    """Return rho + sqrt(ln(1/rho)/(2m)) at the best rho: what K/m must exceed by."""
    rho = best_rho(n_pairs)  # any rho is valid, so only the sum has to be safe
    return (rho + _deviation(n_pairs, rho)) * (1 + 1e-14)


def dkw_required_pairs(gamma: float) -> int:
    """Return the fewest pairs whose slack is at most gamma (Table 1, row 1)."""
    rho = math.exp(float(lambertw(-gamma / (2 * math.sqrt(math.e)), k=-1).real) + 0.5)
    n_pairs = math.ceil(math.log(1 / rho) / (2 * (gamma - rho) ** 2))
    step = 1
    while dkw_slack(n_pairs) > gamma:  # by the rounding of m
        n_pairs, step = n_pairs + step, 2 * step
    return n_pairs


def least_index(n_pairs: int, gamma: float) -> int:
    """Return the least K for a number of pairs and a risk, which have been checked."""
    slack = dkw_slack(n_pairs)
    index = math.ceil(n_pairs * (1 - Fraction(gamma) + Fraction(slack)))
    if index > n_pairs:
        least = min(1.0, slack)
        raise CalibrationError(
            f"n_pairs={n_pairs} pairs certify no risk below {least:.10g} by the "
            f"DKW inequality, but gamma={gamma!r} was requested; it needs n_pairs >= "
            f"{dkw_required_pairs(gamma)}.",
            target=gamma,
            best=least,
        )
    return index


def order_statistic(
    scales: _Floats,
    index: int,
    rule: Rule,
    *,
    n_databases: int,
    n_pairs: int,
    gamma: float,
    n_still: int,
) -> float:
    """Return the K-th smallest critical scale, finite and above 0.

    `scales` are in ascending order, one for each pair, and `index` is the K among them
    that `rule` chose for the risk `gamma`; of pairs, `n_still` do not differ by
    more than rounding. If noise for one of these is all that `gamma` asks for, it asks
    for none: a CalibrationError, as where the pairs cannot certify `gamma`.

    **Guarantee** (:ref:`thm-order-statistic`, :ref:`thm-groups`): as `rule` says.
    """
    scale = float(scales[index - 1])
    if math.isinf(scale):
        n_infinite = int(np.count_nonzero(np.isinf(scales)))
        least = max(1, len(scales) - n_infinite)
        best = (
            rule.certify_risk(n_databases, least) if n_infinite < len(scales) else 1.0
        )
        raise _no_answer(n_infinite, n_pairs, gamma, best)
    n_zero = int(np.searchsorted(scales, 0, side="right"))
    n_zero = max(n_zero, n_still)
    if n_zero >= index:
        certified = rule.certify_risk(n_databases, min(n_zero + 1, len(scales)))
        raise _no_noise(gamma, certified if n_zero < len(scales) else 0.0)
    return scale


def scale_below(scales: _Floats, index: int, n_databases: int) -> float:
    """Return the scale one database below the K-th: what else is read off the pairs.

    The K-th itself depends on the same sample (:ref:`thm-other-levels`). 0 if there is
    no such scale.
    """
    n_below = index - len(scales) // n_databases
    return float(scales[n_below - 1]) if n_below > 0 else 0.0


def order_curve(
    below: float,
    rule: Rule,
    *,
    n_databases: int,
    levels: Callable[[float], _Floats],
) -> _Floats | None:
    """Return other levels, and the risks certified for them at the K-th scale.

    They are read one database below. `levels` tells which level each pair keeps from a
    scale on.
    """
    # Proven for these rules; with a share of samples that fail, for one level only.
    if not isinstance(rule, Exchangeable | DKW) or not below > 0:
        return None
    kept = np.sort(levels(below))
    most = len(kept)
    counts = np.linspace(most, 1, min(most, _ORDER_POINTS))[::-1].astype(int)
    return as_curve(kept[counts - 1], rule.certify_risk(n_databases, counts))


def control_risk(
    risks: Callable[[float], _Floats],
    distances: _Floats,
    *,
    gamma: float,
    n_still: int = 0,
    n_neighbors: int = 1,
    name: str = "gamma",
    asked: float | None = None,
) -> tuple[float, float]:
    """Return the least scale at which the average risk of the pairs is controlled.

    And the scale that all pairs, and the fresh one, would allow: anything else is read
    there, as the scale itself depends on the same sample. 0 if that is none.

    `risks` tells what each pair counts at a scale: in [0, 1], and never more at a
    larger scale. Its average is kept at `gamma`, in (0, 1), which errors call `name`,
    and of which they say that `asked`, or more, was asked for. `distances` are infinite
    without an answer; `n_still` of these pairs do not differ by more than rounding. A
    database counts the mean of its `n_neighbors` pairs. A CalibrationError if the pairs
    cannot certify `gamma`, or it needs no noise at all.

    **Guarantee** (:ref:`thm-gaussian`, :ref:`thm-advantage`, :ref:`thm-groups`). The
    least scale with ``(sum of means + 1)/(n_databases + 1) <= gamma``: over a fresh
    pair, its noise and the sampled pairs, the risk is at most gamma. Conformal risk
    control (Angelopoulos, Bates, Fisch, Lei and Schuster 2024, Theorem 1).
    """
    n_pairs, n_databases = len(distances), len(distances) // n_neighbors
    check_risk_control(n_databases, gamma, name)
    asked = gamma if asked is None else asked
    allowed = float(_risk_allowed(n_databases, gamma))
    # All of these are in databases, of which each pair is a share.
    n_positive = int(np.count_nonzero(distances)) / n_neighbors
    n_infinite = int(np.count_nonzero(np.isinf(distances)))
    n_moving = min(n_positive, (n_pairs - n_still) / n_neighbors)
    if n_moving <= allowed:
        best = (n_moving + 1) / (n_databases + 1) if n_moving else 0.0
        raise _no_noise(asked, best, name)
    limit = allowed * (1 - _ROUNDING)
    if n_infinite / n_neighbors > limit:  # no scale is reached: others count as well
        best = (n_infinite / n_neighbors + 1) / (n_databases + 1)
        raise _no_answer(n_infinite, n_pairs, asked, best, name)

    def total(scale: float) -> float:
        together = float(risks(scale).sum()) / n_neighbors
        if math.isnan(together):
            raise ValueError("law must say the risk of each pair, got NaN.")
        return together

    start = float(np.median(distances[(distances > 0) & np.isfinite(distances)]))
    _, scale = _bracket(total, limit, start)
    if n_positive <= (allowed + 1) * (1 + 2 * _ROUNDING):
        return scale, 0.0
    below, _ = _bracket(total, (allowed + 1) * (1 + _ROUNDING), scale)
    return scale, below


def risk_curve(
    risks: Callable[[float, ArrayLike], _Floats],
    below: float,
    *,
    epsilon: float,
    n_pairs: int,
    n_neighbors: int = 1,
) -> _Floats | None:
    """Return other levels, and the risks certified for them by risk control.

    `risks` takes a scale and levels: for a column of levels, a row for each.
    """
    if not below:
        return None
    levels = epsilon * np.geomspace(2.0**-8, 2.0**8, _RISK_POINTS)
    blocks = np.array_split(levels, min(len(levels), 1 + n_pairs // _BLOCK))
    sums = [risks(below, block[:, None]).sum(axis=1) for block in blocks]
    return as_curve(levels, certified_mean(np.concatenate(sums), n_pairs, n_neighbors))


def certified_mean(sums: Any, n_pairs: int, n_neighbors: int = 1) -> Any:
    """Return the mean that is certified where the pairs add up to these sums.

    A fresh database counts as one more, at the most.
    """
    return (sums / n_neighbors + 1) * (1 + _ROUNDING) / (n_pairs // n_neighbors + 1)


def check_risk_control(n_pairs: int, gamma: float, name: str = "gamma") -> None:
    """Raise CalibrationError if so few pairs cannot control that average."""
    if _risk_allowed(n_pairs, gamma) < _LEAST_ALLOWED:
        what = "risk" if name == "gamma" else f"mean {name}"
        raise CalibrationError(
            f"n_pairs={n_pairs} pairs certify no {what} of {1 / (n_pairs + 1):.6g} or "
            f"below, but {name}={gamma!r} was requested; it needs n_pairs >= "
            f"{math.ceil((1 + _LEAST_ALLOWED) / Fraction(gamma)) - 1}.",
            target=gamma,
            best=1 / (n_pairs + 1),
        )


def _risk_allowed(n_pairs: int, gamma: float) -> Fraction:
    """Return the most that the risks of all pairs may add up to."""
    return Fraction(gamma) * (n_pairs + 1) - 1


def _bracket(
    total: Callable[[float], float], limit: float, start: float
) -> tuple[float, float]:
    """Return scales next to each other where a falling sum is above, and is not."""
    low = high = start
    while total(low) <= limit:
        low /= 2
    while total(high) > limit:
        high *= 2
    while high > low * (1 + _ROUNDING):
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
    own = as_curve(epsilon, risk)
    return own if curve is None or own is None else np.concatenate([curve, own])


def _no_answer(
    n_infinite: int, n_pairs: int, gamma: float, best: float, name: str = "gamma"
) -> CalibrationError:
    what = "risk" if name == "gamma" else f"mean {name}"
    return CalibrationError(
        f"{n_infinite} of {n_pairs} sampled pairs have a database without an answer, "
        f"so no noise keeps the {what} within {name}={gamma!r}; the lowest {what} that "
        f"any noise achieves is {best:.6g}.",
        target=gamma,
        best=best,
    )


def _no_noise(gamma: float, best: float, name: str = "gamma") -> CalibrationError:
    return CalibrationError(
        f"The sampled sensitivity at {name}={gamma!r} is 0, so no noise would be "
        "added: the query gives the same answer on both databases of most pairs. Use a "
        f"smaller {name}, or a reference whose records differ more.",
        target=gamma,
        best=best,
    )


def drawn_scales(pairs: SampledPairs, epsilon: float, shape: NoiseShape) -> _Floats:
    """Return the critical scale of each pair, at a draw of Laplace noise.

    Where differences may be off, a share of the level pays for it.
    """
    level = grid.below(epsilon)

    def scales(differences: _Floats, noise: _Floats, errors: _Floats | None) -> _Floats:
        if errors is None:
            return critical_scales(differences, noise, level)
        off = errors.sum(axis=1)  # over the scale: by how much losses may be off
        least = np.full(len(differences), np.inf)
        for share in _ERRORS_SHARES:  # each is safe, and so is the least of them
            enough = off / (share * level)
            kept = critical_scales(differences, noise, level * (1 - share))
            least = np.minimum(least, np.maximum(kept, enough))
            if (enough <= kept).all():
                break
        return least

    return _for_each_pair(scales, pairs, shape)


def drawn_levels(
    pairs: SampledPairs, scale: float, epsilon: float, shape: NoiseShape
) -> _Floats:
    """Return the least levels that each pair keeps from that scale on, rounded up.

    On the grid of noise that was calibrated to `epsilon`.
    """

    def losses(differences: _Floats, noise: _Floats, errors: _Floats | None) -> _Floats:
        loss = peak_losses(differences, noise, scale)
        return loss if errors is None else loss + errors.sum(axis=1) / scale

    return grid.with_grid(_for_each_pair(losses, pairs, shape), epsilon)


def _for_each_pair(
    evaluate: Callable[[_Floats, _Floats, _Floats | None], _Floats],
    pairs: SampledPairs,
    shape: NoiseShape,
) -> _Floats:
    """Return what a function of differences, noise and errors is for each pair.

    Infinite for pairs without an answer, whose differences are.
    """
    rng = np.random.default_rng(pairs.draw_seed)
    found = np.full(len(pairs), np.inf)
    for rows in pairs.blocks():
        noise = rng.laplace(size=pairs.differences[rows].shape)
        answered = np.isfinite(pairs.differences[rows, 0])
        some = np.flatnonzero(answered) + rows.start
        errors = None
        if pairs.errors is not None:
            errors = shape.whiten_errors(pairs.errors[some])
        differences = shape.whiten(pairs.differences[some])
        found[some] = evaluate(differences, noise[answered], errors)
    return found


class Terms(NamedTuple):
    """What is asked for, by which law, shape and rule, for so many databases.

    So many databases have as many neighbors each. With how many of these the shape is
    taken from, which calibrate nothing; whether the average of their risks is kept,
    which is then known for each pair, and no order statistic; the risk that they are
    calibrated to, which is that of the target or less; and which of their distances
    counts as the sensitivity.

    A shape that is named is learned from the first of the pairs, by whoever asks for
    noise: nothing rests on how.
    """

    target: Target
    law: Law
    shape: str | NoiseShape
    rule: Rule
    n_databases: int
    n_shape: int
    averages: bool
    risk: float
    order_index: int
    n_neighbors: int = 1

    @classmethod
    def of(
        cls,
        target: Target,
        law: Law,
        shape: str | NoiseShape,
        rule: Rule,
        n_databases: int,
        *,
        n_shape: int = 0,
        n_neighbors: int = 1,
    ) -> Self:
        """Check that all of these go together; a CalibrationError for too few pairs.

        What is exchangeable is a database with all of its neighbors.
        """
        rule, averages = check_terms(target, law, shape, rule, n_neighbors)
        index = order_index(n_databases - n_shape, target, rule, averages)
        return cls(
            target,
            law,
            shape,
            rule,
            n_databases,
            n_shape,
            averages,
            target.gamma,
            index,
            n_neighbors,
        )

    @property
    def n_pairs(self) -> int:
        """All pairs."""
        return self.n_databases * self.n_neighbors

    @property
    def n_shape_pairs(self) -> int:
        """Pairs that the shape is taken from: other databases than those calibrate."""
        return self.n_shape * self.n_neighbors

    @property
    def n_calibrating(self) -> int:
        """Databases that calibrate."""
        return self.n_databases - self.n_shape

    def for_rows(self, n_independent: int | None) -> Self:
        """Return the terms for pairs of a table with so many disjoint pairs of rows.

        They tell no more of new people than so many independent pairs: the fresh one
        counts as one more of these, and not of all that were drawn. Where that leaves
        nothing, or less than the pairs certify, it is the least that they do.
        """
        asked, m = self.target.gamma, self.n_calibrating
        largest = m * self.n_neighbors
        if self.target.advantage is not None:
            return self
        if n_independent is None or n_independent >= largest:
            return self
        wanted = asked - (1 - asked) / max(1, n_independent)
        for known in (wanted, 1 / m, None):
            risk = self.rule.certify_risk(m, largest) if known is None else known
            if 0 < risk < asked:
                try:
                    index = order_index(m, self.target, self.rule, self.averages, risk)
                except CalibrationError:
                    continue
                return self._replace(risk=float(risk), order_index=index)
        return self


def check_terms(
    target: Target,
    law: Law,
    shape: str | NoiseShape,
    rule: Rule,
    n_neighbors: int,
) -> tuple[Rule, bool]:
    """Check that all of these go together, for any number of pairs.

    Return the rule for so many neighbors of each database, and whether it is an average
    that is kept.
    """
    if target.randomness == Scope.NOISE:
        raise ValueError(
            "randomness must be 'implicit' or 'both' for sampled pairs, got "
            "'explicit': see calibrate_known."
        )
    target.check_law(law)
    if type(rule) not in (Exchangeable, PAC, DKW):
        raise ValueError(f"calibration must be a rule of core, got {rule!r}.")
    plain = shape in ("auto", "isotropic") or getattr(shape, "name", "") == "isotropic"
    if law.chooses and not plain:
        raise ValueError(
            f"noise_shape must be 'isotropic' with law={law.name!r}, got {shape!r}."
        )
    if n_neighbors > 1 and rule != Exchangeable(n_neighbors):
        if rule != Exchangeable():
            raise ValueError(
                "neighbors_per_database must be 1 unless calibration="
                "'exchangeable', because pairs of one database are not "
                f"independent; got {n_neighbors} with {rule.name!r}."
            )
        rule = Exchangeable(n_neighbors)
    return rule, _averages(target, law, rule)


def order_index(
    n_databases: int,
    target: Target,
    rule: Rule,
    averages: bool,
    risk: float | None = None,
) -> int:
    """Return which distance counts, or raise CalibrationError for too few pairs.

    For a smaller `risk` than that of the target, where it is given.
    """
    gamma = target.gamma if risk is None else risk
    if target.advantage is not None:
        check_risk_control(n_databases, target.advantage, "advantage")
    elif averages:
        check_risk_control(n_databases, gamma)
    return rule.choose(n_databases, gamma)


def _averages(target: Target, law: Law, rule: Rule) -> bool:
    """Tell if what is kept is the average of risks that are known for each pair.

    Over both sources of randomness, where it is no order statistic of losses of drawn
    noise.
    """
    if target.randomness != Scope.PAIR_AND_NOISE:
        return False
    plain = isinstance(rule, Exchangeable)
    if target.advantage is not None:
        if not plain:
            raise ValueError(
                "calibration must be 'exchangeable' with an advantage, which is a mean "
                f"over pairs and no order statistic; got {rule.name!r}."
            )
        return True
    if not law.bounded and plain:
        return True
    if type(law) is not Laplace:
        raise ValueError(
            f"calibration must be 'exchangeable' with law={law.name!r}, which no "
            f"losses of drawn noise are known of; got {rule.name!r}."
        )
    return False


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
    if math.isinf(terms.target.epsilon):
        if terms.averages:
            return Found(terms.risk, None)
        index = terms.order_index
        return Found(terms.rule.certify_risk(pairs.n_databases, index), index)
    if terms.target.advantage is not None:
        return _by_advantage(pairs, distances, terms, terms.target.advantage)
    if terms.target.randomness == "implicit":
        return _for_all_outputs(pairs, distances, terms)
    if terms.averages:
        return _by_exact_risks(pairs, distances, terms)
    return _by_draws(pairs, terms, shape)


def _for_all_outputs(pairs: SampledPairs, distances: _Floats, terms: Terms) -> Found:
    """Find the scale from which on all but a share of pairs keep the level."""
    target, law, n_outputs = terms.target, terms.law, pairs.n_outputs
    unit, steps = law.unit_noise(target.epsilon, target.delta, n_outputs)

    def levels(scale: float) -> _Floats:
        shifts = distances / scale
        return law.levels(shifts, target.delta, n_outputs=n_outputs, steps=steps)

    scales = np.sort(distances * unit)
    return _order(pairs, scales, terms, steps, levels)


def _by_draws(pairs: SampledPairs, terms: Terms, shape: NoiseShape) -> Found:
    """Find the scale from which on all but a share of the draws keep the level."""
    epsilon = terms.target.epsilon
    steps = terms.law.unit_noise(epsilon, 0.0, pairs.n_outputs).steps

    def levels(scale: float) -> _Floats:
        return drawn_levels(pairs, scale, epsilon, shape)

    scales = np.sort(drawn_scales(pairs, epsilon, shape))
    return _order(pairs, scales, terms, steps, levels)


def _order(
    pairs: SampledPairs,
    scales: _Floats,
    terms: Terms,
    steps: int,
    levels: Callable[[float], _Floats],
) -> Found:
    n_databases, rule, index = pairs.n_databases, terms.rule, terms.order_index
    scale = order_statistic(
        scales,
        index,
        rule,
        n_databases=n_databases,
        n_pairs=len(pairs),
        gamma=terms.target.gamma,
        n_still=pairs.count_still(),
    )
    below = scale_below(scales, index, n_databases)
    curve = order_curve(below, rule, n_databases=n_databases, levels=levels)
    risk = rule.certify_risk(n_databases, index)
    return Found(risk, index, scale, steps, curve, below)


def _by_exact_risks(pairs: SampledPairs, distances: _Floats, terms: Terms) -> Found:
    """Find the scale at which the risk over the noise, averaged over pairs, is met."""
    target, law, n_outputs = terms.target, terms.law, pairs.n_outputs
    steps = law.risk_steps(target.epsilon, terms.risk, n_outputs)

    def risks(scale: float, levels: ArrayLike) -> _Floats:
        return law.risks(distances / scale, levels, n_outputs=n_outputs, steps=steps)

    scale, below = control_risk(
        lambda scale: risks(scale, target.epsilon),
        distances,
        gamma=terms.risk,
        n_still=pairs.count_still(),
        n_neighbors=pairs.n_neighbors,
        asked=target.gamma,
    )
    curve = risk_curve(
        risks,
        below,
        epsilon=target.epsilon,
        n_pairs=len(pairs),
        n_neighbors=pairs.n_neighbors,
    )
    return Found(terms.risk, None, scale, steps, curve, below)


def _by_advantage(
    pairs: SampledPairs, distances: _Floats, terms: Terms, asked: float
) -> Found:
    """Find the scale at which attackers gain so much, on average over pairs."""
    law, n_outputs = terms.law, pairs.n_outputs
    steps = grid.advantage_steps(asked, n_outputs, pairs.n_databases)

    def gains(scale: float) -> _Floats:
        return law.advantage(distances / scale, n_outputs=n_outputs, steps=steps)

    scale, below = control_risk(
        gains,
        distances,
        gamma=asked,
        n_still=pairs.count_still(),
        n_neighbors=pairs.n_neighbors,
        name="advantage",
    )
    return Found(asked, None, scale, steps, below=below)


def measure_advantage(
    distances: _Floats,
    sensitivity: float,
    noise_scale: float,
    *,
    found: Found,
    terms: Terms,
    n_outputs: int,
) -> Advantage | None:
    """Return what an attacker gains, where that is known and proven; rounded up.

    On average it is read at the scale below the one that was found, which depends on
    the same pairs; for all but a share of pairs, at the sensitivity (thm-advantage).
    """
    law, n_pairs, r = terms.law, len(distances), terms.n_neighbors
    if not noise_scale:
        return None
    at = Advantage.false_positive_rate
    shifts = np.array([sensitivity / noise_scale])
    if found.below:
        with np.errstate(over="ignore"):
            shifts = np.append(shifts, distances / found.below)
    on_grid = {"n_outputs": n_outputs, "steps": found.steps}
    gained = law.advantage(shifts, **on_grid)
    detected = law.true_positive_rate(shifts, at, **on_grid)
    quantile, quantile_detected = _tidy(gained[0]), _tidy(detected[0])
    mean = mean_detected = 1.0
    if found.below:
        mean = _tidy(certified_mean(gained[1:].sum(), n_pairs, r))
        mean_detected = _tidy(certified_mean(detected[1:].sum(), n_pairs, r))
    if terms.target.advantage is not None:
        mean = terms.target.advantage
    return Advantage(
        mean,
        quantile,
        # On average over samples this is what any fixed K certifies.
        Exchangeable(r).certify_risk(n_pairs // r, terms.order_index),
        _least(mean_detected, [mean, at]),
        _least(quantile_detected, [quantile, at]),
    )


def _least(bound: float, parts: list[float]) -> float:
    """Return the bound, or a sum, rounded up: both hold, and mostly the first is less.

    To add up decimals takes longer than to see that.
    """
    return bound if bound < sum(parts) else min(bound, add_up(parts))


def _tidy(bound: float) -> float:
    """Return a probability rounded up to six digits."""
    return float(ceil_text(min(1.0, float(bound))))


class Noise(Protocol):
    """What is added to an answer, or what chooses by it: of this folder or a law's."""

    @property
    def noise_scale(self) -> float:
        """Scale of the noise."""
        ...

    @property
    def steps(self) -> int:
        """Scale in steps of the grid; 0 for no noise."""
        ...

    def prepare(self, values: ArrayLike) -> Callable[[ByteSource], Any]:
        """Return what draws the noise: what takes memory, or fails, comes before."""
        ...


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
    # All that was sampled, those that the shape is taken from as well.
    sampled: SampledPairs
    n_constant: int
    margin: float

    def certify(
        self,
        *,
        n_records: int,
        relation: str,
        reference: str | None,
        for_new_people: str | None = None,
        assumptions: Iterable[Assumption] = (),
        leaks: Iterable[Leak] = (),
        doubts: Iterable[Doubt] = (),
    ) -> Certificate:
        """Return what the noise guarantees about databases of so many records."""
        pairs, terms, found, shape = self.pairs, self.terms, self.found, self.shape
        target, law, rule = terms.target, terms.law, terms.rule
        noise_scale, curve = self.noise.noise_scale, found.curve
        if target.randomness == Scope.PAIR_AND_NOISE:
            curve = with_own_level(curve, target.epsilon, found.risk)
        population = self.sampled.population
        evidence = Evidence(
            gamma=target.gamma,
            sensitivity=self.sensitivity,
            noise_scale=noise_scale,
            n_records=check_at_least(n_records, "n_records", 1),
            n_outputs=pairs.n_outputs,
            margin=self.margin,
            population=population,
            n_constant=self.n_constant,
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
                self.distances,
                self.sensitivity * self.margin,
                noise_scale,
                found=found,
                terms=terms,
                n_outputs=pairs.n_outputs,
            ),
            worst_loss=largest_loss(
                self.sampled.largest_move, law, shape, noise_scale, target.epsilon
            ),
            curve=curve,
        )
        rests_on = {*assumptions, *self.sampled.assumptions}
        if not isinstance(terms.shape, str) and shape.name != "isotropic":
            rests_on.add(Assumption.GIVEN_SHAPE)
        if not is_ours(law):
            rests_on.add(Assumption.GIVEN_NOISE)
        found_doubts = {*doubts}
        if population == Population.DECLARED:
            found_doubts.add(Doubt.MADE_UP)
        if self.sampled.lacks_tail(target.gamma):
            found_doubts.add(Doubt.THIN)
        both = target.randomness == Scope.PAIR_AND_NOISE
        return mint(
            epsilon=target.epsilon,
            delta=0.0 if both else target.delta,
            risk=found.risk,
            failure_prob=rule.failure_prob,
            randomness=target.randomness,
            relation=check_relation(relation),
            loss=dominating_loss(target, law, evidence),
            post_processed=target.advantage is not None,  # nothing raises it any more
            leaks=frozenset(leaks),
            assumptions=frozenset(rests_on),
            doubts=frozenset(found_doubts),
            evidence=evidence,
        )


Learn = Callable[[SampledPairs, Terms], NoiseShape]


def find_noise(
    pairs: SampledPairs,
    terms: Terms,
    *,
    learn: Learn | None = None,
    name_of: Callable[[int], str] = "Output {} (counted from 0)".format,
) -> CalibratedNoise:
    """Calibrate noise to sampled pairs.

    Parameters
    ----------
    pairs : SampledPairs
        Of databases that are independent and alike, or exchangeable.

    terms : Terms
        What is asked for.

    learn : callable, default=None
        ``learn(some, terms)`` returns the shape of the noise, of the first pairs, which
        then calibrate nothing, by its name in the terms. Whatever it returns is right
        for privacy. None: the same noise for all outputs, where no shape is given.

    name_of : callable
        Returns what errors call an output.

    Raises
    ------
    CalibrationError
        If the pairs cannot certify the risk, or the sensitivity at it is 0.

    Notes
    -----
    **Guarantee** (:ref:`thm-order-statistic`, :ref:`thm-critical-scale`,
    :ref:`thm-gaussian`, :ref:`thm-noise-shape`, :ref:`thm-advantage`). What
    `certify` says.
    """
    terms = Terms.of(
        terms.target,
        terms.law,
        terms.shape,
        terms.rule,
        pairs.n_databases,
        n_shape=terms.n_shape,
        n_neighbors=pairs.n_neighbors,
    ).for_rows(pairs.n_independent)
    shape: NoiseShape = NoiseShape()
    if not isinstance(terms.shape, str):
        shape = terms.shape
    elif learn is not None and terms.n_shape:
        shape = learn(pairs.before(terms.n_shape), terms)
    check_shape(shape, pairs.n_outputs)
    sampled, pairs = pairs, pairs.after(terms.n_shape)
    distances = norms_of_pairs(pairs, shape, terms.law)
    sensitivity = float(np.sort(distances)[terms.order_index - 1])
    try:
        with np.errstate(over="ignore"):  # pairs may be infinitely far apart in scales
            found = find_scale(pairs, distances, terms, shape)
    except CalibrationError as error:
        if pairs.failure is None:
            raise
        raise CalibrationError(
            f"{error} The reason for the missing answers: {pairs.failure}.",
            target=error.target,
            best=error.best,
        ) from error
    margin, gamma = 1.0, terms.target.gamma
    asked = terms.target.randomness == Scope.PAIR and sampled.margin is not None
    if asked and min(sensitivity, found.scale) > 0:
        assert sampled.margin is not None
        more = sampled.margin(distances, shape, terms.law, terms.order_index, gamma)
        margin = max(1.0, float(more))
    constant = sampled.constant
    if terms.law.chooses or not found.scale:  # or nothing is to be protected
        constant = None
    scale = found.scale * margin
    noise = _make_noise(terms.law, scale, found.steps, shape, constant, pairs.n_outputs)
    if isinstance(noise, AdditiveNoise) and noise.steps:
        level = sensitivity / noise.noise_scale
        if terms.target.randomness == Scope.PAIR_AND_NOISE and terms.target.epsilon:
            level = min(level, terms.target.epsilon)
        limits = level * _SLACK * noise.deviations() / terms.law.deviation
        _refuse_bare(sampled, limits, name_of, gamma)
    return CalibratedNoise(
        noise,
        terms,
        pairs,
        distances,
        sensitivity,
        shape,
        found,
        sampled,
        0 if constant is None else len(constant.outputs),
        margin,
    )


def _refuse_bare(
    pairs: SampledPairs,
    limits: NDArray[np.float64],
    name_of: Callable[[int], str],
    gamma: float,
) -> None:
    """Refuse outputs that are hidden only from those who do not move them.

    They seldom move, and then most of the pairs are beyond the level by them alone:
    for those whom they are about, the noise is next to none.
    """
    n_moved, n_beyond = np.zeros((2, pairs.n_outputs), dtype=int)
    answered = pairs.answered
    for rows in pairs.blocks():
        some = np.flatnonzero(answered[rows]) + rows.start
        sizes = np.abs(pairs.differences[some])
        moved = sizes > pairs.floor(some)
        n_moved += moved.sum(axis=0)
        n_beyond += (moved & (sizes > limits)).sum(axis=0)
    seldom = 2 * n_moved < np.count_nonzero(answered)
    bare = np.flatnonzero(seldom & (2 * n_beyond > n_moved) & (limits > 0))
    if not bare.size:
        return
    first = bare[0]
    others = f", as do {bare.size - 1} other outputs" if bare.size > 1 else ""
    raise CalibrationError(
        f"{name_of(first)} differs in {n_moved[first]} of {len(pairs)} sampled pairs, "
        f"and in most of these by more than its noise hides{others}. Like a maximum, "
        "it depends on a few people, whom the noise would not protect: leave it out, "
        "or ask for a number that many people have a part in, such as the 95th "
        "percentile.",
        target=gamma,
        best=1.0,
    )


def _make_noise(
    law: Law,
    scale: float,
    steps: int,
    shape: NoiseShape,
    constant: Constant | None,
    n_outputs: int,
) -> Noise:
    """Return noise of a scale that has so many steps of the grid; none for 0."""
    if law.chooses:
        choice: Noise = law.chooses(scale, steps)
        return choice
    if not scale:
        return AdditiveNoise(law, 0, 0, n_outputs, shape)
    return AdditiveNoise.at_least(
        law,
        scale,
        n_outputs=n_outputs,
        shape=shape,
        constant=constant,
        least_steps=steps,
    )


def dominating_loss(
    target: Target, law: Law, evidence: Evidence
) -> DominatingLoss | None:
    """Return the law that the loss of all pairs outside the risk stays below, if any.

    Where the noise has a fine grid.
    """
    if target.randomness == Scope.PAIR_AND_NOISE or not law.composes:
        return None
    fine = evidence.n_outputs / target.epsilon <= _FINE_GRID
    if not fine or evidence.noise_scale < _COARSE_SCALE:
        return None
    # What the margin pays for is not counted as less loss.
    shift = evidence.sensitivity * evidence.margin / evidence.noise_scale
    if law.bounded:  # whose largest loss is the level, but for rounding
        shift = max(shift, target.epsilon)
    return DominatingLoss.on_grid(law, shift, target.epsilon)


def check_known(target: Target, law: Law) -> None:
    """Check that all of these go together, before anything is answered."""
    if target.randomness != Scope.NOISE:
        raise ValueError(
            "randomness must be 'explicit' for a known sensitivity, got "
            f"{target.randomness!r}."
        )
    target.check_law(law)


def calibrate_known(
    sensitivity: float,
    target: Target,
    *,
    law: str | Law = "laplace",
    n_outputs: int = 1,
    n_records: int = 1,
    relation: str = "replace-one",
) -> tuple[AdditiveNoise, Certificate]:
    """Return noise for a known sensitivity, and its certificate.

    Parameters
    ----------
    sensitivity : float
        Largest distance of the answers on neighboring databases, > 0, in the norm of
        the law.

    target : Target
        What is asked for, with randomness "explicit": a delta, or a risk over the
        noise, or with a gamma of 0 that every pair and output keeps the level.

    law : {"laplace", "gaussian"} or Law, default="laplace"
        Law of the noise.

    n_outputs : int, default=1
        Outputs of the query, >= 1.

    n_records : int, default=1
        Records of a database, for the certificate.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        How neighbors differ.

    Returns
    -------
    noise : AdditiveNoise
        To release an answer with.

    certificate : Certificate
        What that guarantees: a risk of 0 where every pair and output keeps the level.

    Raises
    ------
    ValueError
        If a parameter is out of range, or they do not go together.

    Notes
    -----
    **Guarantee** (:ref:`thm-explicit`). For every pair of neighbors, the privacy loss
    exceeds `epsilon` with probability at most the risk over the noise. With Laplace
    noise that is worth something for one output and a risk of 1/2 or more only.

    Examples
    --------
    >>> from skparisk.core import Target, calibrate_known
    >>> target = Target(0.5, gamma=0.0, delta=1e-6, randomness="explicit")
    >>> noise, certificate = calibrate_known(0.004, target, law="gaussian")
    >>> round(noise.noise_scale, 4), certificate.risk
    (0.0322, 0.0)
    """
    return find_known(
        sensitivity,
        target,
        law=law,
        n_outputs=n_outputs,
        n_records=n_records,
        relation=relation,
    )


def find_known(
    sensitivity: float,
    target: Target,
    *,
    law: str | Law,
    n_outputs: int,
    n_records: int,
    relation: str,
    proven: bool = False,
) -> tuple[AdditiveNoise, Certificate]:
    """Do what `calibrate_known` does; a sensitivity may also be proven."""
    sensitivity = check_positive(sensitivity, "sensitivity")
    k = check_at_least(n_outputs, "n_outputs", 1)
    law = as_law(law)
    check_known(target, law)
    epsilon, gamma, delta = target.epsilon, target.gamma, target.delta
    enlarged = sensitivity * (1 + float(ROUNDING_SLACK))
    risk, curve, loss = 0.0, None, None
    if math.isinf(epsilon):
        noise = AdditiveNoise(law, 0, 0, k)
    elif type(law) is Laplace and not (delta or gamma):
        # Its grid is paid for exactly, with less noise than a share of the level.
        noise = laplace_noise(sensitivity, epsilon, k)
        loss = laplace_loss(noise, epsilon)
    else:
        if gamma and not delta:
            (unit, steps), risk, curve = law.noise_at_risk(epsilon, gamma, k)
        else:
            unit, steps = law.unit_noise(epsilon, delta, k)
        scale = enlarged * unit
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
    if loss is None:
        loss = dominating_loss(target, law, evidence)
    given = () if is_ours(law) else (Assumption.GIVEN_NOISE,)
    certificate = mint(
        epsilon=epsilon,
        delta=delta,
        risk=risk,
        randomness=Scope.NOISE,
        relation=check_relation(relation),
        loss=loss,
        assumptions=frozenset(given),
        evidence=evidence,
    )
    return noise, certificate


def laplace_loss(noise: AdditiveNoise, epsilon: float) -> DominatingLoss | None:
    """Return the law of the loss of `laplace_noise`; None without noise."""
    if not noise.steps:
        return None
    # Continuous noise within a step of the discrete, at both ends.
    return DominatingLoss("laplace", epsilon, 2 * noise.n_outputs / noise.steps)


def claim_at_most(
    target: Target, law: Law, rule: Rule, *, relation: str
) -> Certificate:
    """Return what a release will claim at most, by what is asked for alone.

    To see if it fits a budget, before anything is sampled. Laplace noise of a known
    sensitivity spends a risk of 1/2 or more only.
    """
    epsilon, risk = target.epsilon, target.gamma
    if target.advantage is not None:
        epsilon, risk = 0.0, target.advantage
    known = target.randomness == Scope.NOISE
    if known and (target.delta or (type(law) is Laplace and risk < 0.5)):
        risk = 0.0
    given = set() if is_ours(law) else {Assumption.GIVEN_NOISE}
    if known:
        given.add(Assumption.DECLARED_SENSITIVITY)
    return mint(
        epsilon=epsilon,
        delta=0.0 if target.randomness == Scope.PAIR_AND_NOISE else target.delta,
        risk=float(risk),
        failure_prob=0.0 if known else rule.failure_prob,
        randomness=target.randomness,
        relation=check_relation(relation),
        post_processed=target.advantage is not None,
        assumptions=frozenset(given),
    )
