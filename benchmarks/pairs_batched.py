"""Pairs per second: all models of a block together, against one by one.

Claim: on one core, pairs of neighbors are answered and drawn so many times as fast as
by scikit-learn's fits to both databases of each pair (`CLAIMS`). A cell is a model and
how many records a database has; tables of made-up data have as many rows, and 10
features where nothing else is said. Answers are checked against fits of scikit-learn at
a tight tolerance.

Claim: pairs of ridge regression take at most 3 times as long as the one product of
weights and rows that their sums are, once they are drawn, and to draw them takes at
most twice as long as as many random integers.

Rounds of the two alternate, and a ratio is the median over rounds, so that the speed of
the machine cancels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_classification, make_regression
from sklearn.linear_model import LogisticRegression, Ridge

from skparisk.neighbors import bind_pairs, draw_pairs
from skparisk.queries import FunctionQuery, LogisticRegressionQuery, Query, RidgeQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences

ROUNDS = 5
MOST_PRODUCTS, MOST_INTEGERS = 3.0, 2.0
SIZES = (1_000, 5_000, 20_000)


def regression(n_records: int) -> tuple[Any, Any]:
    X, y = make_regression(n_records, 10, noise=10.0, random_state=0)
    return X, y / 100


def classes(n_records: int, n_classes: int, n_features: int) -> tuple[Any, Any]:
    """Return classes that overlap: 72 to 75 % of two are predicted."""
    return make_classification(
        n_records,
        n_features,
        n_informative=n_features // 2,
        n_redundant=0,
        n_classes=n_classes,
        class_sep=0.5,
        flip_y=0.05,
        random_state=0,
    )


def digits() -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    return X / 16, y


# Data, how many pairs are fitted to one by one, and times as fast.
CLAIMS: dict[str, tuple[Callable[[], tuple[Any, Any]], int, float]] = {
    "ridge, 23 600": (partial(regression, 23_600), 128, 12.0),
    "ridge, 1 000": (partial(regression, 1_000), 128, 40.0),
    "2 classes, 1 000": (partial(classes, 1_000, 2, 10), 128, 15.0),
    "2 classes, 10 000": (partial(classes, 10_000, 2, 10), 64, 15.0),
    "3 classes, 1 000": (partial(classes, 1_000, 3, 10), 64, 4.0),
    "7 classes of 41, 1 000": (partial(classes, 1_000, 7, 41), 16, 1.0),
    "10 digits, 1 797": (digits, 8, 1.0),
}


class InBlocks(FunctionQuery):
    """Fits one by one, to the databases of a query that answers many at once."""

    is_plain = False


def fitted(model: Any, X: Any, y: Any) -> np.ndarray:
    model.fit(X, y)
    return np.append(model.coef_, model.intercept_)


def sample(query: Query, data: tuple[Any, Any], n_pairs: int, seed: int) -> np.ndarray:
    X, y = data
    return sample_differences(
        query,
        TableReference(X, y),
        n_pairs=n_pairs,
        n_records=len(X),
        n_features=X.shape[1],
        random_state=seed,
    )


def compare(name: str) -> bool:
    """Print a row for a cell, and tell whether the claim holds."""
    make, n_pairs, claim = CLAIMS[name]
    data = make()
    if name.startswith("ridge"):
        usual = exact = Ridge()
        together: Query = RidgeQuery()
    else:
        usual = LogisticRegression(max_iter=1000)
        exact = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000)
        together = LogisticRegressionQuery(np.unique(data[1]).tolist())
    together = together.placed(*data, len(data[0]))  # as samplers do
    one_by_one = FunctionQuery(partial(fitted, usual))
    tight = InBlocks(partial(fitted, exact))
    found, expected = (sample(query, data, 4, seed=0) for query in (together, tight))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    rounds = []
    for seed in range(ROUNDS):
        seconds = []
        for query, size in ((one_by_one, n_pairs), (together, 8 * n_pairs)):
            start = time.perf_counter()
            sample(query, data, size, seed)
            seconds.append((time.perf_counter() - start) / size)
        rounds.append((*np.reciprocal(seconds), seconds[0] / seconds[1]))
    slow, fast, ratio = np.median(rounds, axis=0)
    print(f"{name:>24} {slow:>10.0f} {fast:>10.0f} {ratio:>8.1f} {claim:>8.0f}")
    return bool(ratio >= claim)


def compare_to_limit(n_records: int) -> bool:
    """Print how far drawing and answering are from the least that they may take."""
    X, y = regression(n_records)
    reference, size, rng = TableReference(X, y), 200, np.random.default_rng(0)
    evaluate = None
    rounds = []
    for seed in range(2 * ROUNDS):
        sequence = np.random.SeedSequence(seed)
        source = bind_pairs(
            reference,
            n_pairs=size,
            n_records=n_records,
            relation="replace-one",
            seed=sequence,
        )
        times = [time.perf_counter()]
        pairs = draw_pairs(
            source,
            n_records=n_records,
            start=0,
            size=size,
            seed=sequence,
            form="numbers",
        )
        weights = pairs.shared_counts
        times.append(time.perf_counter())
        rng.integers(n_records, size=(size, n_records))
        times.append(time.perf_counter())
        if evaluate is None:
            evaluate = (
                RidgeQuery().placed(X, y, n_records).on_pool(pairs.pool, n_records)
            )
            evaluate(pairs)  # what is summed of each row is found once
            rows = rng.normal(size=(n_records, 78))  # as many products as there are
            continue
        evaluate(pairs)
        times.append(time.perf_counter())
        weights @ rows
        times.append(time.perf_counter())
        drawn, integers, answered, product = np.diff(times)
        rounds.append((drawn / integers, answered / product))
    drawing, answering = np.median(rounds, axis=0)
    print(f"{n_records:>24} {drawing:>10.1f} {answering:>10.1f}")
    return bool(drawing <= MOST_INTEGERS and answering <= MOST_PRODUCTS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", choices=CLAIMS, default=list(CLAIMS))
    names = parser.parse_args().only
    print(f"{'':>24} {'refits/s':>10} {'pairs/s':>10} {'ratio':>8} {'claim':>8}")
    held = [compare(name) for name in names]
    print(f"{'n':>24} {'drawing':>10} {'answering':>10}: times the least")
    held += [compare_to_limit(n_records) for n_records in SIZES]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
