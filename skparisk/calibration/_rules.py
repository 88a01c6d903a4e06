"""The choice of K: which order statistic of the sampled pairs is safe enough."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv

from skparisk.calibration._dkw import dkw_slack, least_index, round_up
from skparisk.core.checks import check_at_least, check_choice, check_probability
from skparisk.core.exceptions import CalibrationError
from skparisk.core.rounding import unwrap


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
    >>> from skparisk.calibration import Exchangeable
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
        return round_up(Fraction(int(n_above) + self.n_neighbors, of))


@dataclass(frozen=True)
class PAC(Rule):
    """The exact binomial tolerance limit (Wilks 1941).

    **Guarantee**. With probability at least ``1 - failure_prob`` over the sampled
    pairs, the risk over a fresh pair is at most gamma: K is the least with
    ``P(Binomial(m, 1 - gamma) >= K) <= failure_prob``. The caller must ensure
    that the reference describes the population.

    Examples
    --------
    >>> from skparisk.calibration import PAC
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
        return unwrap(np.minimum(1.0, risk * _ROUNDING))


_LEAST_FAILURE = 1e-200
_ROUNDING = 1 + 1e-12  # of the inverse incomplete beta function, on the safe side


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
        return min(1.0, round_up(Fraction(m - int(index), m) + Fraction(slack)))


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
    >>> from skparisk.calibration import required_pairs
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
