"""The choice of K: which order statistic of the sampled pairs is safe enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from scipy.special import betainccinv

from skparisk._validate import check_at_least, check_choice, check_probability
from skparisk.calibration._dkw import dkw_least_noise, dkw_slack, round_up
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


def _check_target(n_pairs: int, gamma: float) -> tuple[int, float]:
    return check_at_least(n_pairs, "n_pairs", 1), check_probability(gamma, "gamma")


def _check_rank(n_pairs: int, order_index: int, n_draws: int = 1) -> tuple[int, int]:
    m = check_at_least(n_pairs, "n_pairs", 1)
    index = check_at_least(order_index, "order_index", 1)
    if index > m * n_draws:
        draws = "" if n_draws == 1 else f" times n_draws={n_draws}"
        raise ValueError(
            f"order_index must be at most n_pairs={m}{draws}, got {index}."
        )
    return m, index


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

    Parameters
    ----------
    n_draws : int, default=1
        Critical scales of each pair, one for each draw of the noise. With more than
        one, K is taken among all of them, so that at most
        ``n_draws ((m + 1) gamma - 1)`` are above (conformal risk control of each
        pair's share).

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
    >>> Exchangeable(n_draws=10).order_index(1500, 0.05)
    14260
    """

    n_draws: int = 1
    failure_prob: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_at_least(self.n_draws, "n_draws", 1)

    def order_index(self, n_pairs: int, gamma: float) -> int:
        m, gamma = _check_target(n_pairs, gamma)
        n_above = math.floor(self.n_draws * (Fraction(gamma) * (m + 1) - 1))
        if n_above < 0:
            least = self.certify_risk(m, m * self.n_draws)
            raise _too_few_pairs(m, gamma, least, required_pairs(gamma))
        return m * self.n_draws - n_above

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        m, index = _check_rank(n_pairs, order_index, self.n_draws)
        above = Fraction(m * self.n_draws - index, self.n_draws)
        return round_up((above + 1) / (m + 1))


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

    def __post_init__(self) -> None:
        if check_probability(self.failure_prob, "failure_prob") < _LEAST_FAILURE:
            raise ValueError(
                f"failure_prob must be at least {_LEAST_FAILURE:g}, below which the "
                f"incomplete beta function is not exact, got {self.failure_prob!r}."
            )

    def order_index(self, n_pairs: int, gamma: float) -> int:
        m, gamma = _check_target(n_pairs, gamma)
        least = self.certify_risk(m, m)
        if least > gamma:
            needed = required_pairs(gamma, failure_prob=self.failure_prob)
            raise _too_few_pairs(m, gamma, least, needed)
        # Bisection: the risk falls as K grows; K = low fails, K = high holds.
        low, high = 0, m
        while high - low > 1:
            middle = (low + high) // 2
            if self.certify_risk(m, middle) <= gamma:
                high = middle
            else:
                low = middle
        return high

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        m, index = _check_rank(n_pairs, order_index)
        # P(Binomial(m, 1 - risk) >= K) = 1 - I_risk(m - K + 1, K)
        risk = float(betainccinv(m - index + 1, index, self.failure_prob))
        return min(1.0, risk * _ROUNDING)


_LEAST_FAILURE = 1e-200
_ROUNDING = 1 + 1e-12  # of the inverse incomplete beta function, on the safe side


@dataclass(frozen=True)
class DKW:
    """Theorem 15 of Rubinstein and Aldà, at the rho of least K.

    **Guarantee** (:func:`dkw_least_noise`). As `Exchangeable`, on average over
    the sampled pairs, from the Dvoretzky-Kiefer-Wolfowitz inequality.
    """

    failure_prob: float | None = field(default=None, init=False)

    def order_index(self, n_pairs: int, gamma: float) -> int:
        return dkw_least_noise(n_pairs, gamma).order_index

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        m, index = _check_rank(n_pairs, order_index)
        slack = Fraction(dkw_slack(m))
        return min(1.0, round_up(1 - Fraction(index, m) + slack))


@dataclass(frozen=True)
class Bessel:
    """Theorem 5 of Dandekar et al. as it is printed.

    **Guarantee**: none. The sampled sensitivity is the empirical (1 - gamma)
    quantile, the claimed risk is one minus the theorem's empirical confidence,
    and the theorem's proof loses a term. For reproducing the paper.
    """

    failure_prob: float = 0.05

    def __post_init__(self) -> None:
        check_probability(self.failure_prob, "failure_prob")

    def order_index(self, n_pairs: int, gamma: float) -> int:
        m, gamma = _check_target(n_pairs, gamma)
        return math.ceil((1 - Fraction(gamma)) * m)

    def certify_risk(self, n_pairs: int, order_index: int) -> float:
        m, index = _check_rank(n_pairs, order_index)
        rho = sample_error(m, self.failure_prob)
        return 1 - bessel_empirical_confidence(index / m, m, rho)


_FACTORIES: dict[str, Callable[[float], Calibration]] = {
    "exchangeable": lambda failure_prob: Exchangeable(),
    "pac": PAC,
    "dkw": lambda failure_prob: DKW(),
    "bessel": Bessel,
}
CALIBRATIONS = tuple(_FACTORIES)


def as_calibration(name: str, failure_prob: float, n_draws: int = 1) -> Calibration:
    """Return the calibration of a name; `failure_prob` is used by "pac", "bessel"."""
    check_choice(name, "calibration", CALIBRATIONS)
    check_probability(failure_prob, "failure_prob")
    if n_draws == 1:
        return _FACTORIES[name](failure_prob)
    if name != "exchangeable":
        raise ValueError(
            "n_draws must be None or 1 unless calibration='exchangeable', got "
            f"{n_draws!r} with {name!r}."
        )
    return Exchangeable(n_draws)


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
