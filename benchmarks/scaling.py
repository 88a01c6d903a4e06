"""Time and memory against pairs, records, neighbors, features and workers.

Claim: for ridge and logistic regression, whose pairs are answered together, and for
refits of scikit-learn's `Ridge`, time grows no faster than in proportion to the pairs
m, the records n of a database and the neighbors k of each database, and than the square
of the features d; and so does the most memory that is taken. Exponents are fitted to
the larger half of the sizes, and may be off by a tenth.

Each measurement is a process of its own: the processor time of the work, imports
excepted, and the most memory that is resident, Python and its packages included. For
workers, which are started anew, it is the time on the clock of eight times as many
pairs, so that the machine must be idle. The picture is written to
`docs/_static/scaling.svg` with `--write`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib.externals.loky import get_reusable_executor

from skparisk import ReferenceWarning
from skparisk._threads import one_thread
from skparisk.queries import FunctionQuery, LogisticRegressionQuery, Query, RidgeQuery
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences

PICTURE = Path(__file__).parents[1] / "docs" / "_static" / "scaling.svg"
OFF = 0.1


class Size(NamedTuple):
    """Pairs, records, neighbors of a database, features and workers."""

    m: int = 1_000
    n: int = 1_000
    k: int = 1
    d: int = 10
    workers: int = 1


class Measured(NamedTuple):
    """Seconds, and bytes that were resident at the most."""

    seconds: float
    peak: int


NAMES = {
    "m": "pairs m",
    "n": "records n",
    "k": "neighbors k",
    "d": "features d",
    "workers": "workers",
}
# With k the databases are the same, so that there are as many more pairs.
GRID = {
    "m": [500, 2_000, 8_000],
    "n": [500, 2_000, 8_000],
    "k": [1, 4, 16],
    "d": [5, 15, 45],
    "workers": [1, 2],
}
FAST = {"m": [64, 256], "n": [100, 400], "k": [1, 4], "d": [4, 8], "workers": [1]}
# The largest exponents, of time and of memory.
MOST = {"m": (1.0, 1.0), "n": (1.0, 1.0), "k": (1.0, 1.0), "d": (2.0, 2.0)}


def refits() -> FunctionQuery:
    """Return scikit-learn's own, as any function would be answered.

    It is made here, so that workers of a process that was started are sent all of it.
    """

    def coefficients(X: Any, y: Any) -> Any:
        from sklearn.linear_model import Ridge

        return Ridge().fit(X, y).coef_

    return FunctionQuery(coefficients)


QUERIES: dict[str, Query] = {
    "ridge": RidgeQuery(),
    "logistic": LogisticRegressionQuery((0, 1)),
    "refits": refits(),
}


def sizes(grid: dict[str, list[int]]) -> list[tuple[str, Size]]:
    """Return what varies, and each size; others are in the middle."""
    base = Size() if grid is GRID else Size(m=64, n=100, d=4)
    found = []
    for name, values in grid.items():
        for value in values:
            size = base._replace(**{name: value})
            if name == "k":  # 64 databases, or a few
                size = size._replace(m=min(64, base.m) * value)
            if name == "workers":  # long enough for them
                size = size._replace(m=8 * base.m)
            found.append((name, size))
    return found


def sample(query: Query, size: Size) -> None:
    """Draw pairs of one size from a table of twice as many records."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * size.n, size.d))
    y = X @ rng.normal(size=size.d) + rng.normal(size=len(X))
    if isinstance(query, LogisticRegressionQuery):
        y = (y > 0) * 1.0
    sample_differences(
        query,
        TableReference(X, y),
        n_pairs=size.m,
        n_records=size.n,
        n_features=size.d,
        neighbors_per_database=size.k,
        n_jobs=size.workers,
        random_state=0,
    )


def measure(name: str, size: Size, *, elapsed: bool = False) -> Measured:
    """Return what one size takes here, once all is imported.

    Processor time, or what elapsed on the clock.
    """
    warnings.simplefilter("ignore", ReferenceWarning)
    query = QUERIES[name]
    clock = time.perf_counter if elapsed else time.process_time
    with one_thread():
        sample(query, Size(m=size.k * 2, n=100, k=size.k, d=4))
        start = clock()
        sample(query, size)
        taken = clock() - start
    unit = 1 if sys.platform == "darwin" else 1024
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = max(resource.getrusage(who).ru_maxrss for who in whose)
    return Measured(taken, peak * unit)


def child(name: str, size: Size, elapsed: bool, found: Any) -> None:
    """Measure, and end the workers: a process that was started waits for them."""
    try:
        found.put(measure(name, size, elapsed=elapsed))
    finally:
        get_reusable_executor().shutdown(wait=True)


def measure_apart(name: str, size: Size, elapsed: bool) -> Measured:
    """Return what one size takes, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    process = context.Process(target=child, args=(name, size, elapsed, found))
    process.start()
    process.join()
    return Measured(*found.get(timeout=1))


def exponent(values: list[int], measured: list[float]) -> float:
    """Return the slope of logarithms over the larger half, at least two sizes."""
    n_some = max(2, (len(values) + 1) // 2)
    x, y = np.log(values[-n_some:]), np.log(measured[-n_some:])
    return float(np.polyfit(x, y, 1)[0])


class Curve(NamedTuple):
    """What one query takes as one number varies."""

    query: str
    varied: str
    values: list[int]
    measured: list[Measured]

    @property
    def exponents(self) -> tuple[float, float] | None:
        """Of time and of memory; None of one size."""
        if len(self.values) < 2:
            return None
        return (
            exponent(self.values, [each.seconds for each in self.measured]),
            exponent(self.values, [float(each.peak) for each in self.measured]),
        )

    @property
    def holds(self) -> bool:
        """Whether neither grows faster than is claimed."""
        if self.varied not in MOST or self.exponents is None:
            return True
        pairs = zip(self.exponents, MOST[self.varied], strict=True)
        return all(found <= most + OFF for found, most in pairs)


def curves(grid: dict[str, list[int]]) -> list[Curve]:
    """Measure all sizes, and print a row for each number that varies."""
    print(f"{'query':>10} {'varied':>12} {'sizes':>22} {'time':>6} {'memory':>7}")
    found = []
    for query in QUERIES:
        for name, values in grid.items():
            some = [size for varied, size in sizes(grid) if varied == name]
            measured = [measure_apart(query, size, name == "workers") for size in some]
            curve = Curve(query, name, values, measured)
            found.append(curve)
            slopes = curve.exponents or (np.nan, np.nan)
            ends = [
                f"{each.seconds:.3g} s"
                for each in curve.measured[:: len(some) - 1 or 1]
            ]
            most = max(each.peak for each in curve.measured) / 2**20
            print(
                f"{query:>10} {NAMES[name]:>12} {values[0]:>10} .. {values[-1]:<8} "
                f"{slopes[0]:>6.2f} {slopes[1]:>7.2f}   {' .. '.join(ends)}, "
                f"{most:.0f} MiB",
                flush=True,
            )
    return found


def draw(found: list[Curve], file: Path) -> None:
    """Draw time above memory, a column for each number that varies."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    file.parent.mkdir(parents=True, exist_ok=True)
    settings = {"svg.hashsalt": "scaling", "svg.fonttype": "none", "font.size": 9}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(14, 6), layout="constrained")
        axes = figure.subplots(2, len(NAMES), sharey="row", sharex="col")
        for curve in found:
            column = list(NAMES).index(curve.varied)
            rows = (
                [each.seconds for each in curve.measured],
                [each.peak / 2**20 for each in curve.measured],
            )
            slopes = curve.exponents or (None, None)
            for axis, numbers, slope in zip(axes[:, column], rows, slopes, strict=True):
                label = curve.query if slope is None else f"{curve.query}: {slope:.2f}"
                axis.loglog(curve.values, numbers, marker="o", label=label)
                axis.legend(title="exponent", fontsize=7)
            axes[1, column].set_xlabel(NAMES[curve.varied])
            axes[1, column].set_xticks(curve.values, [f"{v:,}" for v in curve.values])
            axes[1, column].minorticks_off()
        peaks = [each.peak / 2**20 for curve in found for each in curve.measured]
        axes[1, 0].set_ylim(min(peaks) / 2, max(peaks) * 2)
        axes[0, 0].set_ylabel("seconds")
        axes[1, 0].set_ylabel("most memory, MiB")
        metadata = {"Date": None} if file.suffix == ".svg" else None
        figure.savefig(file, metadata=metadata, dpi=120)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fast", action="store_true", help="two small sizes each")
    parser.add_argument("--write", action="store_true", help="write the picture")
    parser.add_argument("--to", type=Path, default=PICTURE, help="where it is written")
    chosen = parser.parse_args(arguments)
    found = curves(FAST if chosen.fast else GRID)
    if chosen.write:
        draw(found, chosen.to)
    # Small sizes tell of what is prepared, and not of how it grows.
    return 0 if chosen.fast or all(curve.holds for curve in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
