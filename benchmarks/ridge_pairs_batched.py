"""Pairs per second: all ridge problems of a block together, against one by one.

Claim: on one core, `RidgeQuery` answers at least 12 times as many neighbor pairs
per second at n = 23 600 records, and 40 times as many at n = 1 000, as fitting
scikit-learn's `Ridge` on both databases of each pair (10 features). Both include
drawing the pairs. Rounds of the two alternate, and the ratio is the median over
rounds, so that the speed of the machine cancels.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.datasets import make_regression
from sklearn.linear_model import Ridge

from skparisk.queries import FunctionQuery, Query, RidgeQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences

CLAIMS = {23_600: 12.0, 1_000: 40.0}
N_FEATURES = 10
ROUNDS = 5


def refit(X, y):
    ridge = Ridge().fit(X, y)
    return np.append(ridge.coef_, ridge.intercept_)


class InBlocks(FunctionQuery):
    """Refits, for the pairs of a query that answers many at once."""

    is_plain = False


def pairs_per_second(
    query: Query, reference: TableReference, n_records: int, n_pairs: int, seed: int
) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    differences = sample_differences(
        query,
        reference,
        n_pairs=n_pairs,
        n_records=n_records,
        n_features=N_FEATURES,
        random_state=seed,
    )
    return n_pairs / (time.perf_counter() - start), differences


def compare(n_records: int) -> float:
    """Print a row for one size, and return the median ratio."""
    X, y = make_regression(n_records, N_FEATURES, noise=10.0, random_state=0)
    reference = TableReference(X, y)
    rounds = []
    for seed in range(ROUNDS):
        slow, plain = pairs_per_second(InBlocks(refit), reference, n_records, 128, seed)
        fast, batched = pairs_per_second(RidgeQuery(), reference, n_records, 1024, seed)
        size = 1e3  # coefficients of this data set are below that
        np.testing.assert_allclose(batched[:64], plain[:64], rtol=0, atol=1e-9 * size)
        rounds.append((slow, fast, fast / slow))
    slow, fast, ratio = np.median(rounds, axis=0)
    print(
        f"{n_records:>8} {slow:>14.0f} {fast:>14.0f} {ratio:>8.1f} "
        f"{CLAIMS[n_records]:>8.0f}",
        flush=True,
    )
    return float(ratio)


def main() -> int:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    print(f"{'n':>8} {'Ridge pairs/s':>14} {'batched':>14} {'ratio':>8} {'claim':>8}")
    held = [compare(n_records) >= claim for n_records, claim in CLAIMS.items()]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
