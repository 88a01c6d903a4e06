"""The choice of K: which order statistic of the sampled pairs is safe enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from scipy.special import betainc, betaincinv

from skparisk._validate import check_choice, check_probability
from skparisk.calibration._dkw import (
    dkw_least_noise,
    dkw_slack,
)
from skparisk.calibration._heuristics import bessel_empirical_confidence, sample_error
from skparisk.exceptions import CalibrationError

__all__ = [
    "CALIBRATIONS",
    "DKW",
    "PAC",
    "Bessel",
    "Calibration",
    "Exchangeable",
    "as_calibration",
    "required_pairs",
]


class Calibration(Protocol):
    """A rule for K, and the risk that the K-th smallest of m certifies."""

    @property
    def failure_prob(self) -> float | None:
        """Share of samples for which the risk may be larger than claimed."""
        ...

    def order_index(self, n_pairs: int, gamma: float) -> int:
        """Return the least K that certifies `gamma`, or raise CalibrationError."""
        ...

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        """Return the risk that is certified at the K-th smallest, at most 1."""
        ...


def _too_few_pairs(
    n_pairs: int, gamma: float, least: float, needed: int
) -> CalibrationError:
    return CalibrationError(
        f"n_pairs={n_pairs} pairs certify no risk below {least:.6g}, and "
        f"gamma={gamma!r} was asked for; it needs n_pairs >= {needed}.",
        target=gamma,
        best=least,
    )


@dataclass(frozen=True)
class Exchangeable:
    """K = ceil((1 - gamma)(m + 1)): the fresh pair is one more of the same.

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
    """

    failure_prob: float | None = None

    def order_index(self, n_pairs: int, gamma: float) -> int:
        index = math.ceil((1 - Fraction(gamma)) * (n_pairs + 1))
        if index > n_pairs:
            least = float(Fraction(1, n_pairs + 1))
            raise _too_few_pairs(n_pairs, gamma, least, required_pairs(gamma))
        return index

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        return float(1 - Fraction(order_index, n_pairs + 1))


@dataclass(frozen=True)
class PAC:
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

    def order_index(self, n_pairs: int, gamma: float) -> int:
        # Bisection: the probability falls as K grows; K = low fails, K = high holds.
        low, high = 0, n_pairs
        if not self._holds(n_pairs, n_pairs, gamma):
            raise _too_few_pairs(
                n_pairs,
                gamma,
                self.certify_risk(n_pairs, n_pairs),
                required_pairs(gamma, failure_prob=self.failure_prob),
            )
        while high - low > 1:
            middle = (low + high) // 2
            if self._holds(n_pairs, middle, gamma):
                high = middle
            else:
                low = middle
        return high

    def _holds(self, n_pairs: int, order_index: int, gamma: float) -> bool:
        tail = betainc(order_index, n_pairs - order_index + 1, 1 - gamma)
        return bool(tail * _ROUNDING <= self.failure_prob)

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        quantile = betaincinv(order_index, n_pairs - order_index + 1, self.failure_prob)
        return float(1 - quantile / _ROUNDING)


_ROUNDING = 1 + 1e-12  # of the incomplete beta function, on the safe side


@dataclass(frozen=True)
class DKW:
    """Theorem 15 of Rubinstein and Aldà, at the rho of least K.

    **Guarantee** (:func:`dkw_least_noise`). As `Exchangeable`, on average over
    the sampled pairs, from the Dvoretzky-Kiefer-Wolfowitz inequality.
    """

    failure_prob: float | None = None

    def order_index(self, n_pairs: int, gamma: float) -> int:
        return dkw_least_noise(n_pairs, gamma).order_index

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        return min(1.0, 1 - order_index / n_pairs + dkw_slack(n_pairs))


@dataclass(frozen=True)
class Bessel:
    """Theorem 5 of Dandekar et al. as it is printed.

    **Guarantee**: none. The sampled sensitivity is the empirical (1 - gamma)
    quantile, the claimed risk is one minus the theorem's empirical confidence,
    and the theorem's proof loses a term. For reproducing the paper.
    """

    failure_prob: float = 0.05

    def order_index(self, n_pairs: int, gamma: float) -> int:
        return max(1, math.ceil((1 - Fraction(gamma)) * n_pairs))

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        rho = sample_error(n_pairs, self.failure_prob)
        return 1 - bessel_empirical_confidence(order_index / n_pairs, n_pairs, rho)


_FACTORIES: dict[str, Callable[[float], Calibration]] = {
    "exchangeable": lambda failure_prob: Exchangeable(),
    "pac": PAC,
    "dkw": lambda failure_prob: DKW(),
    "bessel": Bessel,
}
CALIBRATIONS = tuple(_FACTORIES)


def as_calibration(name: str, failure_prob: float) -> Calibration:
    """Return the calibration of a name; `failure_prob` is used by "pac", "bessel"."""
    check_choice(name, "calibration", CALIBRATIONS)
    check_probability(failure_prob, "failure_prob")
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
    :math:`(1 - \gamma)^m \le \beta`. The caller must ensure that the reference
    describes the population. For ``calibration="dkw"`` see
    :func:`dkw_fewest_pairs`.

    Examples
    --------
    >>> from skparisk.calibration import required_pairs
    >>> required_pairs(0.05), required_pairs(0.05, failure_prob=0.01)
    (19, 90)
    """
    gamma = check_probability(gamma, "gamma")
    if failure_prob is None:
        return max(1, math.ceil(1 / Fraction(gamma) - 1))
    beta = check_probability(failure_prob, "failure_prob")
    n_pairs = max(1, math.floor(math.log(beta) / math.log1p(-gamma)))
    while (1 - Fraction(gamma)) ** n_pairs > Fraction(beta):
        n_pairs += 1
    return n_pairs
