"""What leave-out costs in time, against the plain bootstrap, on the fast paths.

Claim: with shared records drawn with replacement (a database of more than half of the
table) leave-out takes at most 1.1 times the plain bootstrap, and without replacement at
most 1.5 times, for every query that answers many pairs together. Rounds of the two
alternate, and the ratio is the median over rounds, so that the speed of the machine
cancels. On one core.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from skparisk.queries import (
    DensityQuery,
    LinearSVCQuery,
    LogisticRegressionQuery,
    MeanQuery,
    Query,
    RidgeQuery,
)
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences

QUERIES: dict[str, Query] = {
    "means": MeanQuery(),
    "ridge": RidgeQuery(),
    "logistic": LogisticRegressionQuery((0, 1)),
    "svm": LinearSVCQuery((0, 1), C=0.01),
    "density": DensityQuery([(-9, 9)] * 2, 0.5),
}
# Records of a database, rows of the table, whether rows are drawn with replacement.
SIZES = (
    (1000, 1000, True),
    (300, 1000, False),
    (1000, 2500, False),
    (1000, 20000, False),
)
CLAIMS = {True: 1.1, False: 1.5}
N_FEATURES = 10
ROUNDS = 9


def seconds(query: Query, reference: TableReference, n_records: int, n: int) -> float:
    start = time.perf_counter()
    sample_differences(
        query,
        reference,
        n_pairs=n,
        n_records=n_records,
        n_features=reference.pool.X.shape[1],
        random_state=0,
    )
    return time.perf_counter() - start


def ratio(query: Query, n_records: int, n_rows: int, n_pairs: int) -> float:
    rng = np.random.default_rng(0)
    n_features = 2 if isinstance(query, DensityQuery) else N_FEATURES
    X = rng.normal(size=(n_rows, n_features))
    y = X @ np.ones(n_features) + 3 * rng.normal(size=n_rows)
    if not isinstance(query, RidgeQuery):
        y = (y > 0) * 1.0
    tables = [TableReference(X, y, sampling=s) for s in ("leave-out", "bootstrap")]
    ratios = []
    for _ in range(ROUNDS):
        one, other = (seconds(query, table, n_records, n_pairs) for table in tables)
        ratios.append(one / other)
    return float(np.median(ratios))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=1024)
    arguments = parser.parse_args()
    print(f"{'query':>10} {'n':>6} {'rows':>6} {'replacement':>12} {'ratio':>6} claim")
    held = True
    for n_records, n_rows, replacement in SIZES:
        for name, query in QUERIES.items():
            found = ratio(query, n_records, n_rows, arguments.pairs)
            held &= found <= CLAIMS[replacement]
            print(
                f"{name:>10} {n_records:>6} {n_rows:>6} {replacement!s:>12} "
                f"{found:>6.2f} {CLAIMS[replacement]}",
                flush=True,
            )
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
