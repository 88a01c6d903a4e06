"""What private models are worth by default, beside what one would take instead.

Claims: see `claims`, which says each with its limit. In short: the defaults of
skparisk are of use at epsilon = 1 with as few as 60 to 200 records; noise of Gaussian
law for the pair and the noise together is close to no noise; a release that is combined
with the public records is never much below the better of the two, and above the public
records where these are few or of other people; columns in any units do as well as
standardized ones; and k-means is no worse than diffprivlib's.

Each repeat shuffles the data into thirds: private, test, and the rest, of which the
public records are all, 30, or, as "shifted", those lowest in a feature that matters,
while the private and the test records are drawn from the others. Bounds, where a
mechanism needs them, are those of the public records, so that nothing is spent on them.
Standardized columns are so by the public records. The figures are medians over repeats
of R2, accuracy, or inertia over that of one center, on the test records.

Peers are in `_peers.py`, and are checked before anything else. diffprivlib may need an
environment of its own; its Python is given as --diffprivlib.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _peers import AdaSSP, ObjectivePerturbation, check_peers
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skparisk import (
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateRidge,
    ReferenceWarning,
    SensitivitySampler,
)
from skparisk.datasets import load_census

Floats = NDArray[np.float64]

GAMMA = 0.05
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
PUBLIC = ("a third", "30 rows", "shifted")
N_FEW = 30
# Rows are clipped to this quantile of the public norms, where a mechanism needs one.
NORM_QUANTILE = 0.75


class Problem(NamedTuple):
    """Data, what is learned, the feature that shifts, and records for a repeat."""

    load: Callable[[], tuple[Floats, NDArray[Any]]]
    kind: str
    shift: int
    n_records: int | None = None


def diabetes() -> tuple[Floats, Floats]:
    return load_diabetes(return_X_y=True, scaled=False)


def wine() -> tuple[Floats, NDArray[Any]]:
    return load_wine(return_X_y=True)


def breast_cancer() -> tuple[Floats, NDArray[Any]]:
    return load_breast_cancer(return_X_y=True)


def digits() -> tuple[Floats, NDArray[Any]]:
    """Return pixels, some of which are always empty, and whether a digit is odd."""
    X, y = load_digits(return_X_y=True)
    return X, y % 2


def census() -> tuple[Floats, Floats]:
    """Return collinear columns, and the logarithm of the weekly income."""
    X, y = load_census(return_X_y=True)
    return X, np.log(y)


PROBLEMS = {
    "diabetes": Problem(diabetes, "regressor", 2),  # body mass index
    "breast cancer": Problem(breast_cancer, "classifier", 1),  # texture
    "wine": Problem(wine, "classifier", 2),  # ash
    "digits": Problem(digits, "classifier", 36, n_records=600),  # a middle pixel
    "census": Problem(census, "regressor", 0, n_records=3000),  # age
    "k-means, wine": Problem(wine, "clusterer", 2),
}


class Cell(NamedTuple):
    """What is learned, and beside which public records."""

    problem: str
    public: str
    raw: bool


class Split(NamedTuple):
    """Public, private and test records of a repeat, and their public norm."""

    kind: str
    X_public: Floats
    y_public: NDArray[Any]
    X: Floats
    y: NDArray[Any]
    X_test: Floats
    y_test: NDArray[Any]
    x_norm: float

    @property
    def reference(self) -> dict[str, Any]:
        if self.kind == "clusterer":
            return {"X_reference": self.X_public}
        return {"X_reference": self.X_public, "y_reference": self.y_public}

    @property
    def y_bounds(self) -> tuple[float, float]:
        return float(self.y_public.min()), float(self.y_public.max())


def make_split(cell: Cell, repeat: int) -> Split:
    """Return the records of a repeat; each class is among them all."""
    problem = PROBLEMS[cell.problem]
    X, y = problem.load()
    strata = None if problem.kind == "regressor" else y
    rows = np.arange(len(X))

    def cut(rows: NDArray[np.intp], size: int) -> list[NDArray[np.intp]]:
        among = None if strata is None else strata[rows]
        return train_test_split(
            rows, train_size=size, stratify=among, random_state=repeat
        )

    if problem.n_records is not None:
        rows = cut(rows, problem.n_records)[0]
    third = len(rows) // 3
    if cell.public == "shifted":
        # Ties are broken by chance.
        rows = np.random.default_rng(repeat).permutation(rows)
        rows = rows[np.argsort(X[rows, problem.shift], kind="stable")]
        public, others = rows[:third], rows[third:]
    else:
        public, others = cut(rows, third)
    if cell.public == "30 rows":
        public = cut(public, N_FEW)[0]
    private, test = cut(others, third)
    if not cell.raw:
        X = StandardScaler().fit(X[public]).transform(X)
        if problem.kind == "regressor":
            y = (y - y[public].mean()) / y[public].std()
    x_norm = float(np.quantile(np.linalg.norm(X[public], axis=1), NORM_QUANTILE))
    parts = [values[part] for part in (public, private, test) for values in (X, y)]
    return Split(problem.kind, *parts, x_norm)


PLAIN: dict[str, Any] = {
    "regressor": Ridge(),
    "classifier": LogisticRegression(max_iter=10000),
    "clusterer": KMeans(3, n_init=10, random_state=0),
}


def without_privacy(split: Split, epsilon: float, seed: int) -> Any:
    return PLAIN[split.kind].fit(split.X, split.y)


def public_only(split: Split, epsilon: float, seed: int) -> Any:
    return PLAIN[split.kind].fit(split.X_public, split.y_public)


def ours(split: Split, epsilon: float, seed: int, **keywords: Any) -> Any:
    """Return a private model with its defaults, but for keywords."""
    keywords |= {"epsilon": epsilon, "gamma": GAMMA, "random_state": seed}
    if split.kind == "clusterer":
        model = PrivateEstimator(PLAIN[split.kind], **keywords)
        return model.fit(split.X, **split.reference)
    private = {"regressor": PrivateRidge, "classifier": PrivateLogisticRegression}
    return private[split.kind](**keywords).fit(split.X, split.y, **split.reference)


def both(split: Split, epsilon: float, seed: int) -> Any:
    return ours(split, epsilon, seed, sensitivity=SensitivitySampler(randomness="both"))


def both_gaussian(split: Split, epsilon: float, seed: int) -> Any:
    sampler = SensitivitySampler(randomness="both", law="gaussian")
    return ours(split, epsilon, seed, sensitivity=sampler)


def combined(split: Split, epsilon: float, seed: int) -> Any:
    return ours(split, epsilon, seed, combine="reference")


def bound(split: Split, epsilon: float, seed: int) -> Any:
    declared: dict[str, Any] = {"sensitivity": "bound", "x_norm": split.x_norm}
    if split.kind == "regressor":
        declared["y_bounds"] = split.y_bounds
    return ours(split, epsilon, seed, **declared)


def adassp(split: Split, epsilon: float, seed: int) -> Any:
    model = AdaSSP(
        epsilon, x_norm=split.x_norm, y_bounds=split.y_bounds, random_state=seed
    )
    return model.fit(split.X, split.y)


def objective(split: Split, epsilon: float, seed: int, C: float = 1.0) -> Any:
    classes = np.unique(split.y_public)
    model = ObjectivePerturbation(
        epsilon, x_norm=split.x_norm, classes=classes, C=C, random_state=seed
    )
    return model.fit(split.X, split.y)


def strong_penalty(split: Split, epsilon: float, seed: int) -> Any:
    return objective(split, epsilon, seed, C=0.01)


class Contestant(NamedTuple):
    """How it is fitted, what it promises, and what it learns."""

    fit: Callable[[Split, float, int], Any] | None
    promise: str
    kinds: tuple[str, ...] = ("regressor", "classifier", "clusterer")


LINEAR = ("regressor", "classifier")
RANDOM = f"epsilon but for {GAMMA:.0%} of pairs of people"
TOGETHER = f"epsilon but for {GAMMA:.0%} of pairs and noise together"
PURE = "epsilon for all, one record replaced"
CONTESTANTS = {
    "without privacy": Contestant(without_privacy, "nothing"),
    "public only": Contestant(public_only, "all: no private record is used"),
    "default": Contestant(ours, RANDOM),
    "both": Contestant(both, TOGETHER),
    "both, Gaussian": Contestant(both_gaussian, TOGETHER),
    "combined": Contestant(combined, RANDOM),
    "bound": Contestant(bound, PURE, LINEAR),
    "AdaSSP": Contestant(
        adassp, "(epsilon, 1e-6) for all, one record more or less", ("regressor",)
    ),
    "objective": Contestant(objective, PURE, ("classifier",)),
    "objective, C=0.01": Contestant(strong_penalty, PURE, ("classifier",)),
    "diffprivlib": Contestant(None, "epsilon for all, as it documents"),
}
# Of these the public records hardly matter, or their figures elsewhere tell no more.
THIRD_ONLY = ("both", "both, Gaussian")


class Outcome(NamedTuple):
    """Score of a model on the test records; why there is none; if it warned."""

    score: float
    refusal: str = ""
    warned: bool = False


def outcome(cell: Cell, name: str, epsilon: float, repeat: int) -> Outcome:
    """Return what a contestant is worth in a repeat."""
    split = make_split(cell, repeat)
    fit = CONTESTANTS[name].fit
    assert fit is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = fit(split, epsilon, repeat)
        except Exception as error:  # is printed, and no claim holds
            return Outcome(math.nan, f"{type(error).__name__}: {error}")
    warned = any(issubclass(each.category, ReferenceWarning) for each in caught)
    return Outcome(score(model, split), "", warned)


def score(model: Any, split: Split) -> float:
    """Return R2, accuracy, or inertia over that of one center."""
    if split.kind != "clusterer":
        return float(model.score(split.X_test, split.y_test))
    centers = getattr(model, "estimator_", model).cluster_centers_
    squares = ((split.X_test[:, None] - centers) ** 2).sum(axis=2).min(axis=1)
    one = (split.X_test - split.X_test.mean(axis=0)) ** 2
    return float(squares.sum() / one.sum())


def diffprivlib_scores(
    python: str, cells: list[Cell], epsilons: list[float], repeats: int
) -> dict[tuple[Cell, str, float], list[Outcome]]:
    """Return what diffprivlib's models are worth, run by another Python."""
    with tempfile.TemporaryDirectory() as directory:
        for (place, cell), repeat in product(enumerate(cells), range(repeats)):
            path = Path(directory) / f"{place}-{repeat}.npz"
            np.savez(path, **make_split(cell, repeat)._asdict())
        child = Path(__file__).with_name("_diffprivlib.py")
        command = [python, str(child), directory, *map(str, epsilons)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    scores = json.loads(done.stdout)
    found = {}
    for (place, cell), (column, epsilon) in product(
        enumerate(cells), enumerate(epsilons)
    ):
        values = [scores[f"{place}-{repeat}"][column] for repeat in range(repeats)]
        found[cell, "diffprivlib", epsilon] = [
            Outcome(math.nan, "refused") if value is None else Outcome(value)
            for value in values
        ]
    return found


# Least medians at epsilon = 1, a third public, standardized columns.
FLOORS = {
    ("diabetes", "default"): 0.3,
    ("breast cancer", "default"): 0.93,
    ("wine", "default"): 0.65,
    ("diabetes", "both, Gaussian"): 0.45,
    ("breast cancer", "both, Gaussian"): 0.95,
    ("wine", "both, Gaussian"): 0.85,
}
KMEANS_LIMIT = 1.75
# A combined release may be so far below the better of its two parts.
COMBINED_SLACK = 0.02
# It is above the public records from this level on, where these are few or shifted.
COMBINED_FROM = 1.0
# Errors on raw columns may be larger than those on standardized ones by this factor.
RAW_FACTOR = 1.1

Medians = dict[tuple[Cell, str, float], float]


class Claim(NamedTuple):
    """A figure and the least that it should be."""

    text: str
    figure: float
    least: float


def claims(medians: Medians) -> Iterator[Claim]:
    """Return what is claimed of the figures that there are, each with its limit."""
    for (cell, name, epsilon), figure in medians.items():
        where = f"{cell.problem}, {cell.public}, epsilon = {epsilon:g}: {name}"
        usual = cell.public == PUBLIC[0] and epsilon == 1.0
        floor = FLOORS.get((cell.problem, name))
        if usual and not cell.raw and floor is not None:
            yield Claim(where, figure, floor)
        clusters = PROBLEMS[cell.problem].kind == "clusterer"
        if usual and clusters and name == "default":
            columns = "raw" if cell.raw else "standardized"
            yield Claim(f"{where}, {columns}: -inertia", -figure, -KMEANS_LIMIT)
        if usual and cell.raw and not clusters and name == "default":
            other = medians.get((cell._replace(raw=False), name, epsilon))
            if other is not None:
                least = 1 - RAW_FACTOR * (1 - other)
                yield Claim(f"{where}, raw columns", figure, least)
        if name == "combined" and not clusters and not cell.raw:
            parts = [medians.get((cell, part, epsilon)) for part in PARTS]
            if None in parts:
                continue
            least = max(parts) - COMBINED_SLACK
            yield Claim(f"{where}, against the better part", figure, least)
            if cell.public != PUBLIC[0] and epsilon >= COMBINED_FROM:
                yield Claim(f"{where}, against public only", figure, parts[1])


PARTS = ("default", "public only")


def print_table(
    found: dict[tuple[Cell, str, float], list[Outcome]], epsilons: list[float]
) -> None:
    """Print medians by cell, and how many of the fits warned or were refused."""
    for cell in dict.fromkeys(cell for cell, _, _ in found):
        columns = "raw" if cell.raw else "standardized"
        print(f"\n{cell.problem}, public: {cell.public}, {columns} columns")
        print(f"{'':18}", *(f"{epsilon:>8g}" for epsilon in epsilons), " promise")
        for name in dict.fromkeys(name for where, name, _ in found if where == cell):
            print(f"{name:18}", end="")
            rows = [found.get((cell, name, epsilon), []) for epsilon in epsilons]
            for row in rows:
                text = f"{median(row):8.3f}" if row else f"{'':8}"
                print("", text, end="")
            print("  " + CONTESTANTS[name].promise, end="")
            warned = sum(each.warned for row in rows for each in row)
            print(f"; {warned} warned of the reference" if warned else "")
            for text, n in Counter(
                each.refusal for row in rows for each in row
            ).items():
                if text:
                    print(f"{'':18} {n} refused: {text[:150]}")


def median(row: list[Outcome]) -> float:
    """Return the median score; refusals are below all."""
    scores = [-math.inf if math.isnan(each.score) else each.score for each in row]
    return float(np.median(scores))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--n-jobs", type=int, default=-1)
    parser.add_argument("--problem", choices=PROBLEMS, nargs="*", default=[*PROBLEMS])
    parser.add_argument("--public", choices=PUBLIC, nargs="*", default=[*PUBLIC])
    parser.add_argument(
        "--contestant", choices=CONTESTANTS, nargs="*", default=[*CONTESTANTS]
    )
    parser.add_argument("--epsilon", type=float, nargs="*", default=[*EPSILONS])
    parser.add_argument("--diffprivlib", help="a Python where diffprivlib is installed")
    parser.add_argument(
        "--fast", action="store_true", help="3 repeats of the small cells at epsilon 1"
    )
    arguments = parser.parse_args()
    check_peers()
    repeats, epsilons = arguments.repeats, arguments.epsilon
    problems, publics = arguments.problem, arguments.public
    if arguments.fast:
        repeats, epsilons, publics = 3, [1.0], publics[:1]
        problems = [name for name in problems if name in ("diabetes", "wine", "census")]
    cells = [Cell(*each, False) for each in product(problems, publics)]
    # Units matter to the shape of the noise, which no other public records tell of.
    raw = [Cell(name, PUBLIC[0], True) for name in problems if PUBLIC[0] in publics]
    tasks = [
        (cell, name, epsilon)
        for cell, name, epsilon in product(
            [*cells, *raw], arguments.contestant, epsilons
        )
        if CONTESTANTS[name].fit is not None
        and PROBLEMS[cell.problem].kind in CONTESTANTS[name].kinds
        and not (cell.public != PUBLIC[0] and name in THIRD_ONLY)
        and not (cell.raw and epsilon != 1.0)
    ]
    outcomes = Parallel(n_jobs=arguments.n_jobs)(
        delayed(outcome)(*task, repeat) for task in tasks for repeat in range(repeats)
    )
    found = {
        task: outcomes[place * repeats : (place + 1) * repeats]
        for place, task in enumerate(tasks)
    }
    if "diffprivlib" in arguments.contestant:
        if arguments.diffprivlib is None:
            print("diffprivlib is skipped: no --diffprivlib PYTHON is given")
        else:
            python = arguments.diffprivlib
            found |= diffprivlib_scores(python, cells, epsilons, repeats)
    print(f"medians over {repeats} repeats; columns are epsilon")
    print_table(found, epsilons)
    held = True
    print(f"\n{'claim':72} {'found':>8} {'least':>8}")
    for claim in claims({task: median(row) for task, row in found.items()}):
        holds = claim.figure >= claim.least
        held &= holds
        words = "" if holds else "  DOES NOT HOLD"
        print(f"{claim.text:72} {claim.figure:8.3f} {claim.least:8.3f}{words}")
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
