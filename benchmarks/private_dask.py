"""Private records of 20 million rows in Dask: the numbers of memory, in little of it.

Claim: private records in a Dask array or frame of 20 million rows and 10 columns, made
by the workers of a local cluster, are answered about by `PrivateRidge`,
`PrivateMoments` and `PrivateTable` with the numbers of records in memory, but for 1e-9,
and take at most 1 GiB in any process: the most that is resident, Python included.

The fits to Dask, and then those to memory, are processes of their own. `--rows` for
fewer.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from skparisk import PrivateMoments, PrivateRidge, SchemaReference
from skparisk.tables import PrivateTable

MOST_BYTES, MOST_APART = 2**30, 1e-9
N_COLUMNS, N_PUBLIC, ROWS_AT_ONCE = 10, 1000, 250_000
SEED = {"noise_random_state": 0}
NAMES = [f"x{i}" for i in range(N_COLUMNS)]


def part(seed: int) -> Any:
    """Return normal features, and a target that is linear in them."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(ROWS_AT_ONCE, N_COLUMNS + 1))
    rows[:, -1] += rows[:, :3].sum(axis=1)
    return rows


def of_memory(n_parts: int) -> tuple[Any, Any, Any]:
    import pandas as pd

    rows = np.concatenate([part(seed) for seed in range(n_parts)])
    X = np.ascontiguousarray(rows[:, :-1])
    return X, rows[:, -1].copy(), pd.DataFrame(X, columns=NAMES, copy=False)


def of_dask(n_parts: int) -> tuple[Any, Any, Any]:
    import dask
    import dask.array as da
    import dask.dataframe as dd

    shape = (ROWS_AT_ONCE, N_COLUMNS + 1)
    made = [dask.delayed(part)(seed) for seed in range(n_parts)]
    rows = da.concatenate([da.from_delayed(each, shape, float) for each in made])
    frame = dd.from_dask_array(rows[:, :-1], columns=NAMES)
    return rows[:, :-1], rows[:, -1], frame


def fits() -> dict[str, Callable[[Any, Any, Any], Any]]:
    public = part(10**6)[:N_PUBLIC]
    given = {"X_reference": public[:, :-1], "y_reference": public[:, -1]}
    seeds = {"random_state": 0, **SEED}
    schema = SchemaReference(dict.fromkeys(NAMES[:2], (-3, 3)))
    table = PrivateTable(schema, counts=[NAMES[0], (NAMES[0], NAMES[1])], **SEED)
    return {
        "PrivateRidge": lambda X, y, _: PrivateRidge(**seeds).fit(X, y, **given).coef_,
        "PrivateRidge, combine=None": lambda X, y, _: (
            PrivateRidge(combine=None, **seeds).fit(X, y, **given).coef_
        ),
        "PrivateMoments": lambda X, y, _: (
            PrivateMoments(**seeds).fit(X, y, **given).sums_
        ),
        "PrivateTable": lambda _, __, frame: table.fit(frame).released_,
    }


def most() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def child(in_dask: bool, n_parts: int, found: Any) -> None:
    """Fit all, and tell what was released, how long it took, and the most memory."""
    warnings.simplefilter("ignore")
    released, seconds, peaks = {}, {}, {}

    def run(data: tuple[Any, Any, Any], workers: Callable[[], Any]) -> None:
        for name, fit in fits().items():
            start = time.perf_counter()
            released[name] = fit(*data)
            seconds[name] = time.perf_counter() - start
            peaks[name] = most(), max(workers(), default=0)

    if in_dask:
        from distributed import Client

        with Client(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as client:
            run(of_dask(n_parts), lambda: client.run(most).values())
    else:
        run(of_memory(n_parts), list)
    found.put((released, seconds, peaks))


def results(*arguments: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    process = context.Process(target=child, args=(*arguments, found))
    process.start()
    taken = found.get()
    process.join()
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    n_parts = -(-parser.parse_args().rows // ROWS_AT_ONCE)
    (of_parts, times, peaks), (of_whole, usual, _) = (
        results(in_dask, n_parts) for in_dask in (True, False)
    )
    print(f"{n_parts * ROWS_AT_ONCE} rows; MiB at the most here and in a worker")
    failed = False
    for name, numbers in of_whole.items():
        here, there = peaks[name]
        apart = np.max(
            np.abs(of_parts[name] - numbers) / np.maximum(1, np.abs(numbers))
        )
        failed |= max(here, there) > MOST_BYTES or apart > MOST_APART
        print(
            f"{name:>27} {times[name]:>6.0f} s ({usual[name]:.0f} s in memory) "
            f"{here / 2**20:>6.0f} {there / 2**20:>6.0f}  {apart:.1e} apart"
        )
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
