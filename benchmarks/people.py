"""Time to a calibrated scale for people with several rows, against as many single rows.

Claim, in the median over repetitions that alternate, with 2 and with 10 rows a person:
at most 1.3 times the time of as many rows without groups, for ridge and for logistic
regression.

    python benchmarks/people.py
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np

from skparisk import SensitivitySampler
from skparisk.queries import LogisticRegressionQuery, RidgeQuery

MOST = 1.3
RIDGE, LOGISTIC = RidgeQuery(1.0), LogisticRegressionQuery((0.0, 1.0), 1.0)
# Query, rows of the table, rows of a database, features, pairs.
CASES: list[tuple[Any, int, int, int, int]] = [
    (RIDGE, 3_000, 3_000, 8, 1_000),
    (RIDGE, 5_000, 20_000, 8, 1_000),
    (RIDGE, 10_000, 1_000, 8, 1_000),
    (RIDGE, 5_000, 5_000, 30, 1_000),
    (LOGISTIC, 2_000, 2_000, 8, 300),
    (LOGISTIC, 1_000, 9_000, 8, 300),
    (LOGISTIC, 5_000, 5_000, 10, 300),
]
N_REPEATS = 7


def ratio(case: tuple[Any, int, int, int, int], each: int) -> float:
    """Return how long people with so many rows each take, against rows."""
    query, size, n_records, d, n_pairs = case
    rng = np.random.default_rng(0)
    X, people = rng.normal(size=(size, d)), np.arange(size) // each
    y = X.sum(axis=1) + rng.normal(size=size)
    y = 1.0 * (y > 0) if query is LOGISTIC else y
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(N_REPEATS + 1):
        for grouped, known in times.items():
            sampler = SensitivitySampler(
                query,
                n_pairs=n_pairs,
                n_records=n_records // each if grouped else n_records,
                random_state=0,
            )
            start = time.perf_counter()
            sampler.fit(X, y, groups=people if grouped else None)
            known.append(time.perf_counter() - start)
    alone, together = (np.median(known[1:]) for known in times.values())
    return float(together / alone)


def main() -> int:
    """Print all ratios, and return 1 if one is too large."""
    warnings.simplefilter("ignore")
    held = True
    for case in CASES:
        found = [ratio(case, each) for each in (2, 10)]
        held &= max(found) <= MOST
        query, size, n_records, d, _ = case
        print(
            f"{type(query).__name__}, table of {size} rows, {n_records} in a database, "
            f"{d} columns: {found[0]:.2f} and {found[1]:.2f} (at most {MOST})",
            flush=True,
        )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
