"""A reference of 100 million rows in blocks: time, and the most memory that is taken.

Claim: with a table of 100 million rows of 10 columns that come in blocks (9 features
and a target), pairs for means, moments and ridge regression, and fits of `PrivateRidge`
and `PrivateMoments`, each take at most 1 GiB of memory: the most that is resident,
Python and its packages included.

Each is a process of its own. `--rows` for fewer.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from skparisk import PrivateMoments, PrivateRidge, ReferenceWarning, SensitivitySampler
from skparisk.queries import MeanQuery, MomentsQuery, RidgeQuery
from skparisk.reference import TableReference

MOST_BYTES = 2**30
N_COLUMNS = 10
N_RECORDS = 1000
N_PAIRS = 1000
ROWS_AT_ONCE = 2**18


def blocks(n_rows: int) -> Iterator[Any]:
    """Yield rows of normal features, and a target that is linear in them."""
    for start in range(0, n_rows, ROWS_AT_ONCE):
        rng = np.random.default_rng(start)
        size = min(ROWS_AT_ONCE, n_rows - start)
        rows = rng.standard_normal((size, N_COLUMNS), dtype=np.float32)
        rows[:, -1] += rows[:, :3].sum(axis=1)
        yield rows


def private() -> tuple[Any, Any]:
    rows = next(blocks(2 * N_RECORDS))[:N_RECORDS].astype(float) + 1e-3
    return rows[:, :-1], rows[:, -1]


def table(n_rows: int) -> TableReference:
    parts = ((rows[:, :-1], rows[:, -1]) for rows in blocks(n_rows))
    return TableReference.of_blocks(parts)


def sampler(query: Any) -> SensitivitySampler:
    return SensitivitySampler(
        query, n_pairs=N_PAIRS, n_records=N_RECORDS, random_state=0
    )


def moments() -> MomentsQuery:
    return MomentsQuery(
        [0.0] * N_COLUMNS, [1.0] * N_COLUMNS, n_records=N_RECORDS, n_targets=1
    )


def pairs_of(query: Any) -> Callable[[int], Any]:
    def run(n_rows: int) -> Any:
        return sampler(query).set_params(reference=table(n_rows)).fit(*private())

    return run


def fit_of(model: Any) -> Callable[[int], Any]:
    return lambda n_rows: model.fit(*private(), X_reference=table(n_rows))


RUNS: dict[str, Callable[[int], Any]] = {
    "means": pairs_of(MeanQuery()),
    "moments": pairs_of(moments()),
    "ridge": pairs_of(RidgeQuery(1.0)),
    "PrivateRidge": fit_of(PrivateRidge(random_state=0)),
    "PrivateMoments": fit_of(PrivateMoments(random_state=0)),
}


def child(name: str, n_rows: int, found: Any) -> None:
    """Run one of them, and tell how much memory it took at the most."""
    warnings.simplefilter("ignore", ReferenceWarning)
    RUNS[name](n_rows)
    unit = 1 if sys.platform == "darwin" else 1024
    found.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def measure(name: str, n_rows: int) -> int:
    """Print a row, and return the most memory that was taken, in bytes."""
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    process = context.Process(target=child, args=(name, n_rows, found))
    start = time.perf_counter()
    process.start()
    process.join()
    peak = int(found.get(timeout=1)) if process.exitcode == 0 else sys.maxsize
    taken = time.perf_counter() - start
    print(f"{name:>18} {taken:>8.1f} s {peak / 2**20:>10.0f} MiB", flush=True)
    return peak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--only", choices=RUNS)
    arguments = parser.parse_args()
    names = [arguments.only] if arguments.only else [*RUNS]
    peaks = [measure(name, arguments.rows) for name in names]
    return 0 if max(peaks) <= MOST_BYTES else 1


if __name__ == "__main__":
    raise SystemExit(main())
