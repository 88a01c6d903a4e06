"""Exact discrete noise, from random bytes and integers only.

Algorithms 1 and 2 are those of Canonne, Kamath and Steinke (2020), "The Discrete
Gaussian for Differential Privacy"; the Gaussian is that of Karney (2016), "Sampling
Exactly from the Normal Distribution", on their integers. All work on whole arrays.
No floating-point number takes part, so the law of the noise is exact and no low bits
can give a value away (Mironov, 2012). The time a draw takes depends on the noise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_random_state, is_whole

ByteSource: TypeAlias = Callable[[int], bytes]

# U + scale V < 2**52 (V + 1) overflows an int64 only if V > 2047: never (e**-2048).
_LARGEST_SCALE_BITS = 52
_LARGEST_UPPER_BITS = 63


def noise_source(
    noise_random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> ByteSource:
    """Return where the noise takes its bytes: the operating system, unless seeded.

    Its cryptographic source is the only one that gives privacy. A seed is for tests,
    and the caller must warn.
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


def random_order(size: int, source: ByteSource) -> NDArray[np.intp]:
    """Return 0, ..., `size` - 1 in a random order, each as likely.

    Unless two of the numbers of 64 bits are the same by chance.
    """
    return np.argsort(np.frombuffer(source(8 * size), dtype=np.uint64), kind="stable")


def sample_bernoulli_exp(
    numerator: NDArray[np.uint64], denominator: int, source: ByteSource
) -> NDArray[np.bool_]:
    """Return draws that are True with probability exp(-numerator / denominator).

    Algorithm 1 with γ = numerator / denominator.
    """

    def draw(numerator: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return sample_uniform_integers(denominator, numerator.size, source) < numerator

    return _sample_alternating(numerator, denominator, draw, source)


def sample_bernoulli_decay(
    numerator: NDArray[np.uint64], denominator: int, source: ByteSource
) -> NDArray[np.bool_]:
    """Return draws that are True with probability exp(-numerator / denominator).

    For any numerators: one draw for what exceeds whole denominators, and then
    Bernoulli(exp(-1)) for each of these, until the first 0.
    """
    whole, rest = np.divmod(numerator, np.uint64(denominator))
    answer = sample_bernoulli_exp(rest, denominator, source)
    running = np.flatnonzero(answer & (whole > 0))
    times = 0
    while running.size:
        ones = np.ones(running.size, dtype=np.uint64)
        answer[running] = sample_bernoulli_exp(ones, 1, source)
        times += 1
        running = running[answer[running] & (whole[running] > times)]
    return answer


def sample_bernoulli_gaussian(
    numerator: NDArray[np.uint64], denominator: int, source: ByteSource
) -> NDArray[np.bool_]:
    """Return draws, True with probability exp(-(numerator / denominator)² / 2).

    Algorithm 1 with γ = (numerator / denominator)² / 2: Bernoulli(γ) is one
    Bernoulli(1 / 2) and two Bernoulli(numerator / denominator), so nothing is squared.
    """

    def draw(numerator: NDArray[np.uint64]) -> NDArray[np.bool_]:
        one = sample_uniform_integers(2, numerator.size, source) == 0
        for _ in range(2):
            left = numerator[one]
            one[one] = sample_uniform_integers(denominator, left.size, source) < left
        return one

    return _sample_alternating(numerator, denominator, draw, source)


def _sample_alternating(
    numerator: NDArray[np.uint64],
    denominator: int,
    draw: Callable[[NDArray[np.uint64]], NDArray[np.bool_]],
    source: ByteSource,
) -> NDArray[np.bool_]:
    """Return Bernoulli(exp(-γ)) for each numerator, if `draw` returns Bernoulli(γ).

    Algorithm 1, case γ <= 1: draw Bernoulli(γ / k) for k = 1, 2, ... until the first
    0; the answer is whether that k is odd.
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
        one[one] = draw(numerator[running[one]])
        answer[running[~one]] = k % 2 == 1
        running = running[one]
        k += 1
    return answer


def sample_discrete_laplace(
    scale: int, size: int, source: ByteSource, *, divisor: int = 1
) -> NDArray[np.int64]:
    """Return `size` independent z, with probability as ``exp(-|z| divisor / scale)``.

    Algorithm 2 with s = `divisor` and t = `scale`, whole numbers in [1, 2**52], for
    slots that are filled in the order in which draws are accepted.
    """
    scale = _check_integer(scale, "scale", _LARGEST_SCALE_BITS)
    divisor = _check_integer(divisor, "divisor", _LARGEST_SCALE_BITS)

    def attempt(tries: int) -> NDArray[np.int64]:
        u = sample_uniform_integers(scale, tries, source)
        u = u[sample_bernoulli_exp(u, scale, source)]
        v = _sample_geometric(1, u.size, source)
        return _sample_signs((u + v * scale) // divisor, source)

    # At least 1 - exp(-1) = 0.632 of the tries are accepted; 13/8 makes up for it. With
    # a divisor it is half of that, and there are more rounds.
    return _fill_slots(size, attempt, 13)


def sample_discrete_gaussian(
    scale: int, size: int, source: ByteSource
) -> NDArray[np.int64]:
    """Return `size` independent z, with probability as exp(-z² / (2 scale²)).

    `scale` is a whole number in [1, 2**52]. With ``|z| = U + scale V`` and X = U /
    scale, the exponent z² / (2 scale²) is V² / 2 + V X + X² / 2: one step for each
    term, as in Karney's algorithm.
    """
    scale = _check_integer(scale, "scale", _LARGEST_SCALE_BITS)

    def attempt(tries: int) -> NDArray[np.int64]:
        # exp(-V² / 2): V has exp(-V / 2), and a second one is at least V (V - 1).
        v = _sample_geometric(2, tries, source)
        v = v[_sample_geometric(2, tries, source) >= v * v - v]
        u = sample_uniform_integers(scale, v.size, source)
        kept = np.ones(v.size, dtype=np.bool_)
        # exp(-V X): Bernoulli(exp(-X)), V times.
        for times in range(int(v.max(initial=0))):
            running = np.flatnonzero(kept & (v > times))
            kept[running] = sample_bernoulli_exp(u[running], scale, source)
        # exp(-X² / 2).
        kept[kept] = sample_bernoulli_gaussian(u[kept], scale, source)
        return _sample_signs(u[kept] + v[kept] * scale, source)

    # At least (1 - exp(-1/2)) sqrt(π/2) = 0.493 are accepted; 17/8 makes up for it.
    return _fill_slots(size, attempt, 17)


def mix_uniform(
    values: Sequence[int], source: ByteSource, *, bits: int = 120, rarely: int = 60
) -> list[int]:
    """Return whole numbers, with probability 2**-rarely uniform ones in their place.

    All of them have the given even number of bits, a sign among them: larger ones are
    moved to the ends. So each answer has a probability above 0, whatever the values
    are. If, without this, the release has a level with a delta small enough against
    the uniform share, it has the level alone.
    """
    end, half = 2 ** (bits - 1), bits // 2
    if sample_uniform_integers(2**rarely, 1, source)[0]:
        return [min(max(value, -end), end - 1) for value in values]
    words = sample_uniform_integers(2**half, 2 * len(values), source).tolist()
    pairs = zip(words[::2], words[1::2], strict=True)
    return [(high << half) + low - end for high, low in pairs]


def _fill_slots(
    size: int, attempt: Callable[[int], NDArray[np.int64]], eighths: int
) -> NDArray[np.int64]:
    """Return `size` draws, from eighths / 8 as many tries (and a few) per round."""
    noise = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        missing = size - filled
        accepted = attempt(missing * eighths // 8 + 8)[:missing]
        noise[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return noise


def _sample_signs(
    magnitude: NDArray[np.uint64], source: ByteSource
) -> NDArray[np.int64]:
    """Return the magnitudes with random signs, without those that became -0."""
    negative = sample_uniform_integers(2, magnitude.size, source) == 1
    kept = ~(negative & (magnitude == 0))  # else zero would count twice
    signed = magnitude.astype(np.int64)
    noise: NDArray[np.int64] = np.where(negative, -signed, signed)[kept]
    return noise


def _sample_geometric(
    denominator: int, size: int, source: ByteSource
) -> NDArray[np.uint64]:
    """Return how often Bernoulli(exp(-1 / denominator)) gives 1 before its first 0."""
    count = np.zeros(size, dtype=np.uint64)
    running = np.arange(size)
    while running.size:
        ones = np.ones(running.size, dtype=np.uint64)
        running = running[sample_bernoulli_exp(ones, denominator, source)]
        count[running] += 1
    return count


def _check_integer(value: Any, name: str, bits: int) -> int:
    """Return a whole number in [1, 2**bits] as a Python integer."""
    if not is_whole(value) or not 1 <= value <= 2**bits:
        raise ValueError(
            f"{name} must be a whole number in [1, 2**{bits}], got {value!r}."
        )
    return int(value)
