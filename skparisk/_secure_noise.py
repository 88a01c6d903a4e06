"""Exact discrete noise, from random bytes and integers only.

The algorithms are those of Canonne, Kamath and Steinke (2020), "The Discrete
Gaussian for Differential Privacy", here on whole arrays. No floating-point number
takes part, so the law of the noise is exact and no low bits can give a value away
(Mironov, 2012). The time a draw takes is not constant: it depends on the noise.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk._validate import check_random_state

__all__ = [
    "ByteSource",
    "noise_source",
    "sample_bernoulli_exp",
    "sample_discrete_laplace",
    "sample_uniform_integers",
]

ByteSource: TypeAlias = Callable[[int], bytes]

# U + scale V < 2**52 (V + 1) overflows an int64 only if V > 2047: never (e**-2048).
_LARGEST_SCALE_BITS = 52
_LARGEST_UPPER_BITS = 63


def noise_source(
    noise_random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> ByteSource:
    """Return where the noise takes its bytes: the operating system, unless seeded.

    Parameters
    ----------
    noise_random_state : int, RandomState, Generator or None, default=None
        None: the operating system's cryptographic source, the only one that gives
        privacy. Anything else is for tests, and the caller must warn.

    Returns
    -------
    source : callable
        ``source(n)`` returns `n` random bytes.
    """
    if noise_random_state is None:
        return os.urandom
    return check_random_state(noise_random_state, "noise_random_state").bytes


def sample_uniform_integers(
    upper: int, size: int, source: ByteSource
) -> NDArray[np.uint64]:
    """Return `size` exactly uniform draws from {0, ..., upper - 1}.

    As many low bits as `upper` - 1 has are taken from the shortest word that holds
    them; a value that is not below `upper` is drawn again. `upper` is at most 2**63.
    """
    largest = _check_integer(upper, "upper", _LARGEST_UPPER_BITS) - 1
    if largest == 0:
        return np.zeros(size, dtype=np.uint64)
    bits = largest.bit_length()
    width = next(width for width in (1, 2, 4, 8) if bits <= 8 * width)
    draws = np.empty(size, dtype=np.uint64)
    filled = 0
    while filled < size:
        words = np.frombuffer(source(width * (size - filled)), dtype=f"<u{width}")
        words = words & (2**bits - 1)
        accepted = words[words <= largest]
        draws[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return draws


def sample_bernoulli_exp(
    numerator: NDArray[np.uint64], denominator: int, source: ByteSource
) -> NDArray[np.bool_]:
    """Return draws that are True with probability exp(-numerator / denominator).

    Algorithm 1, case γ <= 1: with γ = numerator / denominator, draw Bernoulli(γ / k)
    for k = 1, 2, ... until the first 0; the answer is whether that k is odd.
    """
    if np.any(numerator > denominator):
        raise ValueError(
            "numerator must be in [0, denominator], "
            f"got {numerator.max()} for denominator {denominator}."
        )
    answer = np.empty(numerator.size, dtype=np.bool_)
    running = np.arange(numerator.size)
    k = 1
    while running.size:
        # Bernoulli(γ / k) is Bernoulli(1 / k) and Bernoulli(γ); the cheap one first.
        one = sample_uniform_integers(k, running.size, source) == 0
        left = running[one]
        one[one] = (
            sample_uniform_integers(denominator, left.size, source) < numerator[left]
        )
        answer[running[~one]] = k % 2 == 1
        running = running[one]
        k += 1
    return answer


def sample_discrete_laplace(
    scale: int, size: int, source: ByteSource
) -> NDArray[np.int64]:
    """Return integers z drawn with probability proportional to exp(-|z| / scale).

    Algorithm 2 with s = 1 and t = `scale`, for slots that are filled in the order in
    which draws are accepted.

    Parameters
    ----------
    scale : int
        Scale in units of the grid, from 1 to 2**52.

    size : int
        How many draws.

    source : callable
        Where the bytes come from, see :func:`noise_source`.

    Returns
    -------
    noise : ndarray of shape (size,), int64
        Independent draws.

    Raises
    ------
    ValueError
        If `scale` is not a whole number in [1, 2**52].
    """
    scale = _check_integer(scale, "scale", _LARGEST_SCALE_BITS)
    noise = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        # At least 1 - 1/e = 0.632 of the draws are accepted; 13/8 makes up for it.
        missing = size - filled
        accepted = _try_discrete_laplace(scale, missing * 13 // 8 + 8, source)[:missing]
        noise[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return noise


def _try_discrete_laplace(
    scale: int, size: int, source: ByteSource
) -> NDArray[np.int64]:
    """Return what one round of Algorithm 2 accepts from `size` attempts."""
    u = sample_uniform_integers(scale, size, source)
    u = u[sample_bernoulli_exp(u, scale, source)]
    v = _sample_geometric(u.size, source)
    magnitude = (u + v * scale).astype(np.int64)
    negative = sample_uniform_integers(2, u.size, source) == 1
    kept = ~(negative & (magnitude == 0))  # else zero would count twice
    accepted: NDArray[np.int64] = np.where(negative, -magnitude, magnitude)[kept]
    return accepted


def _sample_geometric(size: int, source: ByteSource) -> NDArray[np.uint64]:
    """Return how often Bernoulli(exp(-1)) gives 1 before its first 0."""
    count = np.zeros(size, dtype=np.uint64)
    running = np.arange(size)
    while running.size:
        ones = np.ones(running.size, dtype=np.uint64)
        running = running[sample_bernoulli_exp(ones, 1, source)]
        count[running] += 1
    return count


def _check_integer(value: Any, name: str, bits: int) -> int:
    """Return a whole number in [1, 2**bits] as a Python integer."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not 1 <= value <= 2**bits:
        raise ValueError(
            f"{name} must be a whole number in [1, 2**{bits}], got {value!r}."
        )
    return int(value)
