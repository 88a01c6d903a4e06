"""Time to a calibrated scale: several neighbors of a database, against single pairs.

Claim, on one core, against 1 000 pairs of their own databases each, with ridge
regression on 10 features, and with no more spread of the noise over seeds: 200
databases with 8 neighbors each take at most half the time, with at most 2 % more noise;
100 with 16 take at most 1/2.5 of it, or 1/4 at n = 23 600, with at most 5 % more. The
kinds alternate, and the ratio is the median over seeds, so that the speed of the
machine cancels; the noise is a mean over seeds.

With ``--before PATH`` single pairs are those of another checkout of the package, in a
process of its own, and the claims are about both changes together. For the last commit
without neighbors, ``git worktree add PATH 596a4bb~1``: at most a third of the time at
both sizes with 200 databases; with 100, 1/3.5 at n = 1 000 and a seventh at 23 600. The
noise is compared with that of single pairs today: noise from tables is larger by now,
for a reason that has nothing to do with neighbors.

Also shown: logistic regressions of real tables, against as many fits of scikit-learn's
`LogisticRegression` with its defaults.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_regression,
)
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skparisk import SensitivitySampler
from skparisk.queries import LogisticRegressionQuery, RidgeQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences

N_FEATURES = 10
SEEDS = {1_000: 60, 23_600: 40}
SINGLE = (1_000, 1)
# Databases and neighbors of each: the most noise, and the least speed-up at each size,
# against single pairs of the same package, and of the one before.
GROUPS = {
    (200, 8): (1.02, {1_000: (2.0, 3.0), 23_600: (2.0, 3.0)}),
    (100, 16): (1.05, {1_000: (2.5, 3.5), 23_600: (4.0, 7.0)}),
}
N_PAIRS = 64


@cache
def reference_of(n_records: int) -> TableReference:
    """Return a table of as many records as a database has."""
    X, y = make_regression(n_records, N_FEATURES, noise=10.0, random_state=0)
    return TableReference(X, y)


def calibrate(
    n_records: int, n_databases: int, n_neighbors: int, seed: int
) -> tuple[float, float]:
    """Return the time that it takes, and the scale of the noise."""
    reference = reference_of(n_records)
    X, y = reference.pool.X, reference.pool.y
    groups = {} if n_neighbors == 1 else {"neighbors_per_database": n_neighbors}
    start = time.process_time()
    sampler = SensitivitySampler(
        RidgeQuery(),
        reference=reference,
        n_pairs=n_databases * n_neighbors,
        noise_shape="isotropic",
        random_state=seed,
        **groups,
    ).fit(X, y)
    return time.process_time() - start, sampler.noise_scale_


def answer_times() -> None:
    """Time single pairs for another process: a size and a seed a line."""
    for line in sys.stdin:
        n_records, seed = map(int, line.split())
        print(calibrate(n_records, *SINGLE, seed)[0], flush=True)


class Before:
    """Single pairs of another checkout, in a process that waits for work."""

    def __init__(self, path: Path) -> None:
        # Those of `one_blas_thread` cost nothing there, which need not have it.
        alone = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--answer"],
            env={**os.environ, **alone, "PYTHONPATH": str(path.resolve())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def time(self, n_records: int, seed: int) -> float:
        """Return how long single pairs take there."""
        wanted, found = self._process.stdin, self._process.stdout
        assert wanted is not None
        assert found is not None
        wanted.write(f"{n_records} {seed}\n")
        wanted.flush()
        return float(found.readline())


def compare_ridge(n_records: int, before: Before | None) -> list[bool]:
    """Print a row for each number of neighbors, and tell which claims hold."""
    plans = [SINGLE, *GROUPS]
    for plan in plans:  # what is done once is done
        calibrate(n_records, *plan, 0)
    if before is not None:
        before.time(n_records, 0)
    rounds, singles = [], []
    for seed in range(SEEDS[n_records]):
        rounds.append([calibrate(n_records, *plan, seed) for plan in plans])
        own = rounds[-1][0][0]
        singles.append(own if before is None else before.time(n_records, seed))
    times, scales = np.moveaxis(np.array(rounds), 2, 0)
    noise = scales.mean(axis=0) / scales[:, 0].mean()
    spread = scales.std(axis=0) / scales.mean(axis=0)
    held = []
    for i, plan in enumerate(plans):
        faster = np.median(np.array(singles) / times[:, i])
        print(
            f"{n_records:>8} {plan[0]:>10} {plan[1]:>10} {faster:>8.1f} "
            f"{noise[i]:>8.3f} {spread[i]:>8.4f}",
            flush=True,
        )
        if i:
            most, least = GROUPS[plan]
            fast = faster >= least[n_records][before is not None]
            held.append(fast and noise[i] <= most and spread[i] <= spread[0])
    return held


def compare_logistic(name: str, load: Any) -> None:
    """Print how many times faster than fits both kinds of pairs are."""
    # Not above: packages before need not have it.
    from skparisk.sensitivity._workers import one_blas_thread

    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X[:, X.std(axis=0) > 0])
    classes = tuple(float(c) for c in np.unique(y))
    with one_blas_thread():
        start = time.process_time()
        for _ in range(4):
            LogisticRegression().fit(X, y)
        pair_of_fits = (time.process_time() - start) / 2
    for n_neighbors in (1, 16):
        start = time.process_time()
        sample_differences(
            LogisticRegressionQuery(classes),
            TableReference(X, y.astype(float)),
            n_pairs=N_PAIRS * n_neighbors,
            n_records=len(X),
            n_features=X.shape[1],
            neighbors_per_database=n_neighbors,
            random_state=0,
        )
        pair = (time.process_time() - start) / (N_PAIRS * n_neighbors)
        print(
            f"{name:>14} {n_neighbors:>10} {1e3 * pair_of_fits:>12.2f} "
            f"{1e3 * pair:>12.2f} {pair_of_fits / pair:>8.1f}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, help="another checkout of the package")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        answer_times()
        return 0
    before = None if arguments.before is None else Before(arguments.before)
    titles = ("n", "databases", "neighbors", "faster", "noise", "spread")
    print("{:>8} {:>10} {:>10} {:>8} {:>8} {:>8}".format(*titles))
    held = [ok for n in SEEDS for ok in compare_ridge(n, before)]
    titles = ("table", "neighbors", "two fits, ms", "a pair, ms", "ratio")
    print("{:>14} {:>10} {:>12} {:>12} {:>8}".format(*titles))
    compare_logistic("breast cancer", load_breast_cancer)
    compare_logistic("wine", load_wine)
    compare_logistic("digits", load_digits)
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
