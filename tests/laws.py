"""Statistical assertions: a sample has a law, a rate is not above what was claimed.

Each has a boolean twin, so that a test can also show that the wrong law is refused.
"""

import os
from collections.abc import Callable

import numpy as np
from scipy import stats

# How often an assertion may fail although what it asserts is true. So small that
# thousands of runs stay silent; 50 000 Laplace draws still show a scale 10 % off.
FALSE_ALARM = 1e-6

# One seed by default; SKPARISK_TEST_SEEDS=20 repeats every seeded test 20 times.
SEEDS = range(int(os.environ.get("SKPARISK_TEST_SEEDS", "1")))


def rejects_law(sample: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Tell if a Kolmogorov-Smirnov test refuses a continuous distribution function."""
    return bool(stats.kstest(sample, cdf).pvalue < FALSE_ALARM)


def assert_law(sample: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> None:
    """Assert that a sample may come from a continuous distribution function."""
    test = stats.kstest(sample, cdf)
    assert test.pvalue >= FALSE_ALARM, (
        f"{len(sample)} draws are {test.statistic:.4f} away from the law "
        f"at {test.statistic_location:.6g} (p-value {test.pvalue:.2g})"
    )


def exceeds(violations: int, trials: int, probability: float) -> bool:
    """Tell if an exact binomial test refuses "each trial fails at most so often"."""
    test = stats.binomtest(violations, trials, probability, alternative="greater")
    return bool(test.pvalue < FALSE_ALARM)


def violates(losses, risk: float, noise: float = 1.0) -> bool:
    """Tell if losses at `noise` times the calibrated scale refute a risk."""
    return exceeds(np.count_nonzero(losses > noise), len(losses), risk)


def assert_binomial_at_most(violations: int, trials: int, probability: float) -> None:
    """Assert that the failures of independent trials fit the claimed probability."""
    assert not exceeds(violations, trials, probability), (
        f"{violations} of {trials} trials failed, which is more than "
        f"a probability of {probability:.6g} explains"
    )
