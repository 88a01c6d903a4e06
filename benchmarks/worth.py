"""What private people add to 40 public ones: the picture of the README.

Claim: of the logarithm of census wages, ridge regression with its defaults and
epsilon 1 is never more than 0.01 of R2 below the 40 public people alone, and within
0.01 of a fit without privacy from 10 000 private people on; with epsilon 0.1 it is
above the public people alone from 3 000 on. Medians over shuffles, of which each takes
other public, private and test people. Without privacy the penalty is scikit-learn's.

``python -m benchmarks.worth --output docs/_static/worth.svg`` draws it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk import PrivateRidge, ReferenceWarning
from skparisk.datasets import load_census

N_PUBLIC, N_TEST = 40, 4000
SIZES = (100, 300, 1000, 3000, 10_000, 25_000)
WAYS = ("public people alone", "private, ε = 0.1", "private, ε = 1", "no privacy")


def scores(repeat: int, sizes: Sequence[int] = SIZES) -> NDArray[np.float64]:
    """Return R2 of each way at each number of private people, for one shuffle."""
    X, wages = load_census(return_X_y=True)
    rows = np.random.default_rng(repeat).permutation(len(X))
    test, public, others = np.split(rows, [N_TEST, N_TEST + N_PUBLIC])
    # As someone would who has the public people: their means and sizes are public.
    X, y = StandardScaler().fit(X[public]).transform(X), np.log(wages)
    known = {"X_reference": X[public], "y_reference": y[public]}
    alone = Ridge().fit(X[public], y[public]).score(X[test], y[test])
    found = []
    for size in sizes:
        own = X[others[:size]], y[others[:size]]
        models = [
            PrivateRidge(epsilon=epsilon, random_state=repeat) for epsilon in (0.1, 1.0)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReferenceWarning)
            fitted = [model.fit(*own, **known) for model in models]
        fitted.append(make_pipeline(StandardScaler(), Ridge()).fit(*own))
        found.append([alone, *(m.score(X[test], y[test]) for m in fitted)])
    return np.array(found)


def draw(
    medians: NDArray[np.float64], file: Path, sizes: Sequence[int] = SIZES
) -> None:
    """Draw the medians, of shape (n_sizes, n_ways)."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "skparisk", "font.size": 11}):
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        ax = figure.subplots()
        for way, line, values in zip(
            WAYS, (":", "--", "-", "-."), medians.T, strict=True
        ):
            ax.plot(sizes, values, line, marker="" if line == ":" else "o", label=way)
        ax.set_xscale("log", base=10)
        ax.set_xlabel("private people")
        ax.set_ylabel("R² of log wages, of other people")
        ax.set_title("40 public people, and many private ones")
        ax.legend()
        figure.savefig(file, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    medians = np.median(
        Parallel(arguments.jobs)(
            delayed(scores)(repeat) for repeat in range(arguments.repeats)
        ),
        axis=0,
    )
    print(f"{'private people':>16} " + " ".join(f"{way:>20}" for way in WAYS))
    for size, row in zip(SIZES, medians, strict=True):
        print(f"{size:>16} " + " ".join(f"{value:>20.3f}" for value in row))
    if arguments.output is not None:
        draw(medians, arguments.output)
    alone, little, usual, best = medians.T
    sizes = np.array(SIZES)
    holds = [
        (usual > alone - 0.01).all(),
        (usual > best - 0.01)[sizes >= 10_000].all(),
        (little > alone)[sizes >= 3000].all(),
    ]
    print("holds" if all(holds) else f"FAILED: {holds}")
    return 0 if all(holds) else 1


if __name__ == "__main__":
    raise SystemExit(main())
