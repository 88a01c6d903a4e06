"""The same numbers on a Dask cluster, also one that loses a worker, as on one machine.

Claim: with joblib's Dask backend, on two worker processes, all differences are those
of loky and of one process, to the last bit, for refits and for pairs that are answered
together; also if a worker is killed (SIGKILL) in the midst of it. The
reference is sent once to each worker: a task takes at most 1/100 of its bytes.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import cloudpickle
import joblib
import numpy as np
from distributed import Client, LocalCluster
from sklearn.linear_model import LogisticRegression

from skparisk.queries import FunctionQuery, LogisticRegressionQuery, Query, RidgeQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import _parallel, sample_differences

N_RECORDS = 1_000
N_ROWS = 100_000
N_FEATURES = 10


class Refit:
    """Fits scikit-learn's own; the first workers that do are killed."""

    def __init__(self, n_killed: int) -> None:
        self.folder = tempfile.mkdtemp()
        self.n_killed, self.parent = n_killed, os.getpid()

    def was_killed(self) -> bool:
        """Remove the traces, and tell if there were so many."""
        n_traces = len(list(Path(self.folder).iterdir()))
        shutil.rmtree(self.folder)
        return n_traces == self.n_killed

    def __call__(self, X: Any, y: Any) -> Any:
        if os.getpid() != self.parent:
            for number in range(self.n_killed):
                try:
                    Path(self.folder, str(number)).touch(exist_ok=False)
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)
        return LogisticRegression().fit(X, y).coef_


def sample(query: Query, reference: TableReference, n_pairs: int, n_jobs: int) -> Any:
    """Return the differences, and the time that they took."""
    start = time.perf_counter()
    found = sample_differences(
        query,
        reference,
        n_pairs=n_pairs,
        n_records=N_RECORDS,
        n_features=N_FEATURES,
        n_jobs=n_jobs,
        random_state=0,
    )
    return found, time.perf_counter() - start


def compare(name: str, query: Query, reference: TableReference, n_pairs: int) -> bool:
    """Print a row, and tell if all numbers are the same."""
    alone, one = sample(query, reference, n_pairs, 1)
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
        joblib.parallel_config(backend="dask", client=client),
    ):
        dask, there = sample(query, reference, n_pairs, -1)
    loky, two = sample(query, reference, n_pairs, 2)
    same = np.array_equal(alone, loky) and np.array_equal(alone, dask)
    print(
        f"{name:>24} {n_pairs:>8} {one:>8.1f} {two:>8.1f} {there:>8.1f} "
        f"{'yes' if same else 'no':>6}",
        flush=True,
    )
    return same


def share_of_a_task(query: Query, reference: TableReference) -> float:
    """Return the bytes of the largest task, as a share of those of the reference."""
    sizes: list[int] = []
    parallel = _parallel.Parallel

    class Weighed(parallel):  # type: ignore[misc]
        def __call__(self, tasks: Any) -> Any:
            tasks = list(tasks)
            sizes.extend(len(cloudpickle.dumps(task)) for task in tasks)
            return super().__call__(tasks)

    _parallel.Parallel = Weighed
    try:
        with (
            LocalCluster(2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
            joblib.parallel_config(backend="dask", client=client),
        ):
            sample(query, reference, 2_000, -1)
    finally:
        _parallel.Parallel = parallel
    assert sizes, "nothing was given to workers"
    bytes_ = reference.pool.X.nbytes + reference.pool.y.nbytes
    print(f"largest of {len(sizes)} tasks: {max(sizes)} of {bytes_} bytes", flush=True)
    return max(sizes) / bytes_


def main() -> int:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    # Everything that is not answered in two parts is given to workers.
    _parallel._START_UP = -1.0
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    scores = X @ rng.normal(size=N_FEATURES) + rng.normal(size=N_ROWS)
    numbers, labels = (TableReference(X, y) for y in (scores, (scores > 0) * 1.0))
    print(
        f"{'':>24} {'pairs':>8} {'one, s':>8} {'loky, s':>8} {'dask, s':>8} {'same':>6}"
    )
    held = [
        compare("ridge", RidgeQuery(), numbers, 1_000),
        compare("logistic", LogisticRegressionQuery((0, 1)), labels, 500),
    ]
    for n_killed in (0, 1):
        refit = Refit(n_killed)
        query = FunctionQuery(refit)
        name = f"refits, {n_killed} killed"
        held += [compare(name, query, labels, 100), refit.was_killed()]
    held.append(share_of_a_task(RidgeQuery(), numbers) <= 1 / 100)
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
