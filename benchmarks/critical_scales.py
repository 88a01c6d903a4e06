"""Critical scales of many pairs: one sort of the kinks, against bisection.

Claim: on one core, `critical_scales` takes less than 5 s for 100 000 pairs with
64 outputs each, in blocks of about 2**20 numbers, and is at least 2 times as fast as
bisection (60 steps) of all pairs of a block together. Bisection is not even right for
all pairs: it overlooks some that fall below -epsilon and come back. Rounds of the two
alternate, and the numbers are medians over rounds, so that the speed of the machine
cancels from the ratio.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np

from skparisk.core.losses import critical_scales, peak_losses

CLAIM_SECONDS = 5.0
CLAIM_RATIO = 2.0
N_PAIRS = 100_000
N_OUTPUTS = 64
BLOCK = 2**20 // N_OUTPUTS
EPSILON = 0.5
STEPS = 60
ROUNDS = 5


def bisect(v: np.ndarray, noise: np.ndarray, epsilon: float) -> np.ndarray:
    """Return 1/s for some crossing of ±epsilon, not always the first."""
    low = np.zeros(len(v))
    high = (epsilon + 2 * np.abs(noise).sum(axis=1)) / np.abs(v).sum(axis=1)
    for _ in range(STEPS):
        middle = (low + high) / 2
        shifted = np.abs(noise - middle[:, np.newaxis] * v)
        beyond = np.abs((shifted - np.abs(noise)).sum(axis=1)) > epsilon
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return 1 / high


def seconds(function, v: np.ndarray, noise: np.ndarray) -> float:
    start = time.perf_counter()
    for i in range(0, len(v), BLOCK):
        function(v[i : i + BLOCK], noise[i : i + BLOCK], EPSILON)
    return time.perf_counter() - start


def peak_memory(function, v: np.ndarray, noise: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the most memory that is taken, in MB, and the scales."""
    tracemalloc.start()
    scales = function(v, noise, EPSILON)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak, scales


def share_right(v: np.ndarray, noise: np.ndarray, scales) -> float:
    """Return for how many pairs the peak loss at the scale is epsilon."""
    peaks = peak_losses(v / scales[:, np.newaxis], noise, 1.0)
    return float(np.isclose(peaks, EPSILON, rtol=1e-9, atol=0).mean())


def main() -> int:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    rng = np.random.default_rng(0)
    v = rng.normal(size=(N_PAIRS, N_OUTPUTS))
    noise = rng.laplace(size=v.shape)
    rows = ((critical_scales, N_PAIRS), (bisect, BLOCK))
    rounds = [
        [seconds(function, v[:n], noise[:n]) * N_PAIRS / n for function, n in rows]
        for _ in range(ROUNDS)
    ]
    print(f"{N_PAIRS} pairs x {N_OUTPUTS} outputs, in blocks of {BLOCK} pairs")
    print(f"{'':<24} {'seconds':>8} {'MB':>6} {'right':>7}")
    exact, slow = np.median(rounds, axis=0)
    held = exact < CLAIM_SECONDS
    for (function, _), took in zip(rows, (exact, slow), strict=True):
        block = v[:BLOCK], noise[:BLOCK]
        memory, scales = peak_memory(function, *block)
        right = share_right(*block, scales)
        print(f"{function.__name__:<24} {took:>8.2f} {memory:>6.0f} {right:>7.1%}")
        held &= function is bisect or right == 1
    ratio = float(np.median([row[1] / row[0] for row in rounds]))
    print(f"bisection takes {ratio:.1f} times as long (claim {CLAIM_RATIO:.0f})")
    return 0 if held and ratio >= CLAIM_RATIO else 1


if __name__ == "__main__":
    raise SystemExit(main())
