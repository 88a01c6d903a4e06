"""Exact confidence limits of a risk from a noisy count of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc

from skparisk.core.checks import check_positive, check_probability
from skparisk.core.claim import Certificate, Leak, Unit, mint
from skparisk.core.exact import ByteSource, sample_discrete_laplace

_NOISE_BITS = 40
# Noise beyond so many scales hardly occurs, and is counted all the same.
_FARTHEST = 60
# Of a probability: far more than the rounding of a sum of incomplete beta functions.
_SLACK = 2.0**-30
_DIGITS = 2.0**-40
# A true risk closer to the one asked for takes too many blocks.
LARGEST_SHARE = 0.9


class CountNoise(NamedTuple):
    """Discrete Laplace noise: z has a probability as exp(-|z| divisor / scale)."""

    divisor: int
    scale: int

    @classmethod
    def at(cls, epsilon: float) -> CountNoise:
        """Return noise of a level, rounded down to a multiple of 2**-40, <= 2**12."""
        scale = 2**_NOISE_BITS
        divisor = math.floor(Fraction(check_positive(epsilon, "epsilon")) * scale)
        if divisor < 2**20:
            raise ValueError(
                f"epsilon must be at least 2**-20 for the noise of a count, got "
                f"{epsilon!r}."
            )
        return cls(min(divisor, 2**52), scale)

    def prepare(self, values: int) -> Callable[[ByteSource], int]:
        """Return what adds the noise to a count."""

        def draw(source: ByteSource) -> int:
            noise = sample_discrete_laplace(self.scale, 1, source, divisor=self.divisor)
            return int(values) + int(noise[0])

        return draw

    @property
    def level(self) -> float:
        """Privacy level of the noise: the exact one, as a float."""
        return self.divisor / self.scale

    def cdf(self, z: int) -> float:
        """Return the probability of at most `z`."""
        beyond = math.exp(-self.level * (z + 1 if z >= 0 else -z))
        beyond /= 1 + math.exp(-self.level)
        return 1 - beyond if z >= 0 else beyond

    def pmf(self, z: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of each number."""
        decay = -self.level * np.abs(z)
        return np.asarray(np.exp(decay) * math.tanh(self.level / 2))


def cost_of_audit(epsilon: float, seeded: bool, unit: Unit | None) -> Certificate:
    """Return what is charged for an audit."""
    leaks = frozenset({Leak.SEEDED_NOISE} if seeded else ())
    return mint(epsilon=epsilon, relation="replace-one", leaks=leaks, unit=unit)


class RiskLimits(NamedTuple):
    """Limits of a risk, each of which holds with a confidence of its own."""

    lower: float
    upper: float


def risk_limits(
    noisy_count: int, n_blocks: int, *, noise: CountNoise, confidence: float
) -> RiskLimits:
    """Return the exact one-sided limits of a risk, rounded outwards (thm-audit).

    `noisy_count` is the number of blocks that exceed, of `n_blocks` independent ones
    that do so with that risk, plus the noise.
    """
    upper = partial(_upper_limit, n_blocks=n_blocks, noise=noise, confidence=confidence)
    # Blocks that do not exceed are a count with the same noise.
    lower = 1 - upper(n_blocks - noisy_count)
    return RiskLimits(
        max(0.0, math.nextafter(lower, -1.0)) if lower else 0.0, upper(noisy_count)
    )


def check_confidence(confidence: float) -> float:
    """Return a confidence in [1/2, 1), where limits are in order."""
    if check_probability(confidence, "confidence") < 0.5:
        raise ValueError(
            f"confidence must be a number in [0.5, 1), got {confidence!r}: a limit "
            "that rather fails than holds is none."
        )
    return float(confidence)


def _upper_limit(
    noisy_count: int, n_blocks: int, noise: CountNoise, confidence: float
) -> float:
    """Return the largest risk at which a count as low is not too improbable."""
    # Below 0 all risks, also 0, would be too large for it.
    count, tail = max(noisy_count, 0), 1 - confidence
    if _at_most(count, n_blocks, 1.0, noise) > tail:
        return 1.0
    low, high = 0.0, 1.0
    while high - low > _DIGITS * high:
        middle = (low + high) / 2
        if _at_most(count, n_blocks, middle, noise) > tail:
            low = middle
        else:
            high = middle
    return high


def _at_most(count: int, n_blocks: int, risk: float, noise: CountNoise) -> float:
    """Return the probability that the noisy count is at most `count`, rounded up.

    The sum over the noise z of P(z) P(C <= count - z); that of the count is 1 where
    z <= count - n_blocks, and what is too far away is taken to be 1 on that side too.
    """
    reach = math.ceil(_FARTHEST / noise.level)
    least = max(count - n_blocks + 1, -reach)
    z = np.arange(least, min(count, reach) + 1)
    below = count - z
    # P(C <= k) = 1 - I_risk(k + 1, n - k).
    total = float(noise.pmf(z) @ betaincc(below + 1, n_blocks - below, risk))
    total += noise.cdf(least - 1) + (1 - noise.cdf(reach))
    return total * (1 + _SLACK)


def required_blocks(
    gamma: float, *, epsilon: float, confidence: float = 0.95, risk: float | None = None
) -> int:
    """Return the fewest blocks with which an audit is likely to support a risk.

    Parameters
    ----------
    gamma : float
        Risk that the noise was calibrated to, in (0, 1).

    epsilon : float
        Privacy level of the audit, >= 2**-20 and finite. Unitless.

    confidence : float, default=0.95
        Confidence of each limit of the true risk, in [0.5, 1).

    risk : float, default=None
        True risk to plan for, in [0, 0.9 gamma]. None: gamma / 2.

    Returns
    -------
    n_blocks : int
        Blocks T, each one pair. If the true risk is `risk`, the verdict is "supported"
        with probability at least 1/2, over blocks and noise; with fewer blocks, less
        often. A few more may have a little less again, as counts are whole numbers.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee** (:ref:`thm-audit`). Whatever the number of blocks, the verdict
    "supported" is wrong with probability at most 1 - `confidence`. The caller must
    ensure that blocks are independent draws from the population of the release.

    Examples
    --------
    >>> from skparisk.audit import required_blocks
    >>> required_blocks(0.05, epsilon=1.0), required_blocks(0.2, epsilon=1.0)
    (220, 53)
    """
    gamma = check_probability(gamma, "gamma")
    noise = CountNoise.at(epsilon)
    confidence = check_confidence(confidence)
    most = LARGEST_SHARE * gamma
    if risk is None:
        risk = gamma / 2
    elif isinstance(risk, bool) or not (isinstance(risk, Real) and 0 <= risk <= most):
        raise ValueError(
            f"risk must be a number in [0, {most:g}], 0.9 gamma, got {risk!r}: closer "
            "to gamma it takes very many blocks."
        )
    # Of all numbers of blocks for which a count still supports it, the least is best.
    count, n_blocks = 0, 1
    while True:
        n_blocks = _fewest_supporting(count, n_blocks, gamma, noise, confidence)
        if _at_most(count, n_blocks, risk, noise) >= 0.5 * (1 + 2 * _SLACK):
            return n_blocks
        count += 1


def _fewest_supporting(
    count: int, n_least: int, gamma: float, noise: CountNoise, confidence: float
) -> int:
    """Return the fewest blocks, from `n_least` on, for which a count is low enough."""
    tail, below_gamma = 1 - confidence, gamma * (1 - 4 * _DIGITS)

    def supports(n_blocks: int) -> bool:
        return _at_most(count, n_blocks, below_gamma, noise) <= tail

    step = 1
    while not supports(n_least + step):
        step *= 2
    low, high = n_least - 1, n_least + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if supports(middle) else (middle, high)
    return high
