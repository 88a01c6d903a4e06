"""What a second worker saves, from half a second of refits to a few seconds of pairs.

Claim, on two cores: two workers take at most 1/1.7 of the time of one for refits that
take over 2 s, at most 1/1.5 for pairs that are answered together and take as long, and
at most 1/0.95 for what is shorter, also where no workers are there yet. One and two
take turns, and the ratio is the median over rounds, so that the speed of the machine
cancels; but who else is busy on it does not.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib.externals.loky import get_reusable_executor
from sklearn.linear_model import LogisticRegression

from skparisk.queries import LogisticRegressionQuery, MeanQuery, RidgeQuery
from skparisk.queries._given import as_query
from skparisk.reference import TableReference
from skparisk.sensitivity import _parallel, sample_differences

N_FEATURES = 10


@dataclass(frozen=True)
class Case:
    """Pairs of databases of `n_records`, and the least ratio that is claimed."""

    query: Any
    n_records: int
    n_pairs: int
    least: float


def refit(X: Any, y: Any) -> Any:
    """Fit scikit-learn's own, as any function would be answered."""
    return LogisticRegression().fit(X, y).coef_


CASES = {
    "refits, seconds": Case(refit, 1_000, 800, 1.7),
    "refits, short": Case(refit, 200, 100, 0.95),
    "ridge, seconds": Case(RidgeQuery(), 23_600, 12_000, 1.5),
    "ridge, short": Case(RidgeQuery(), 1_000, 1_000, 0.95),
    "logistic, seconds": Case(LogisticRegressionQuery((0, 1)), 2_000, 30_000, 1.5),
    "logistic, short": Case(LogisticRegressionQuery((0, 1)), 200, 200, 0.95),
    "means, short": Case(MeanQuery(), 1_000, 1_000, 0.95),
}


def sampling(case: Case) -> Callable[[int], tuple[float, Any]]:
    """Return what samples with some workers, and measures the time."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(case.n_records, N_FEATURES))
    y = X @ rng.normal(size=N_FEATURES) + rng.normal(size=len(X))
    if not isinstance(case.query, RidgeQuery):
        y = (y > 0).astype(float)

    def sample(n_jobs: int) -> tuple[float, Any]:
        start = time.perf_counter()
        found = sample_differences(
            as_query(case.query),
            TableReference(X, y),
            n_pairs=case.n_pairs,
            n_records=case.n_records,
            n_features=N_FEATURES,
            n_jobs=n_jobs,
            random_state=0,
        )
        return time.perf_counter() - start, found

    return sample


def forget_workers() -> None:
    """End the workers, as if none had been started."""
    get_reusable_executor().shutdown(wait=True, kill_workers=True)


def start_workers(sample: Callable[[int], tuple[float, Any]]) -> None:
    """Have workers that wait for work, also where new ones are not worth it."""
    usual, _parallel._START_UP = _parallel._START_UP, -np.inf
    sample(2)
    _parallel._START_UP = usual
    time.sleep(0.5)  # they tidy up


def compare(name: str, case: Case, rounds: int) -> bool:
    """Print a row, and tell if the claim holds."""
    sample = sampling(case)
    _, expected = sample(1)
    times = []
    short = case.least < 1
    for _ in range(3 * rounds if short else rounds):
        forget_workers()
        one, _ = sample(1)
        first, found = sample(2)
        same = np.array_equal(found, expected)
        if not short:
            start_workers(sample)
        two, found = sample(2)
        assert same
        assert np.array_equal(found, expected)
        times.append((one, first, two))
    one, first, two = np.array(times).T
    cold, warm = float(np.median(one / first)), float(np.median(one / two))
    held = warm >= case.least and (not short or cold >= case.least)
    print(
        f"{name:>20} {np.median(one):>10.2f} {cold:>12.2f} {warm:>12.2f} "
        f"{case.least:>8} {'yes' if held else 'no':>6}",
        flush=True,
    )
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=CASES, default=None)
    arguments = parser.parse_args()
    titles = ("", "one, s", "new workers", "waiting", "asked", "holds")
    print("{:>20} {:>10} {:>12} {:>12} {:>8} {:>6}".format(*titles))
    names = [arguments.only] if arguments.only else list(CASES)
    held = [compare(name, CASES[name], arguments.rounds) for name in names]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
