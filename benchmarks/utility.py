"""Utility of private models with their defaults, beside the alternatives.

Claims: `claims` has each of them, with its limit. In short, at epsilon = 1: ridge and
logistic regression with their defaults are at most 0.01 below the public records
alone. With 40 public and 3 000 private records of ten columns they are within 0.02 of
no privacy, and with 20 000 within 0.01. With 100 and 3 000 they beat the public records
at epsilon = 0.1 already. Columns in any units do as well as standardized ones. Without
the public fit, the private records alone are of use from 60 to 200 on.

Each repeat shuffles the data and splits it in one of two ways. Few public records: 40,
100, or 300, with at most 4 000 test records, and 300, 3 000, or all others private.
Thirds: public, private and test. The public third is whole, cut to 30 rows, or, as
"shifted", lowest in a feature that matters; the other two are then drawn from the rest.
If a mechanism needs bounds, they are those of the public records, so they cost no
budget. Standardization uses the public records too. Scores are R2, the area under the
curve, or inertia over that of one center, on the test records. Each repeat counts with
the median of --draws fits, with fresh pairs and noise, so that chance matters less. The
figures are medians over repeats.

Splits are in `_splits.py`. Peers are in `_peers.py`, and are checked before anything
else. diffprivlib may need its own environment: --diffprivlib names its Python.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _peers import AdaSSP, ObjectivePerturbation, check_peers
from _splits import PROBLEMS, PUBLIC, Cell, Split, few_public, make_split
from joblib import Parallel, delayed
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score

from skparisk import (
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateRidge,
    ReferenceWarning,
    SensitivitySampler,
)

GAMMA = 0.05
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

PLAIN: dict[str, Any] = {
    "regressor": Ridge(),
    "classifier": LogisticRegression(max_iter=10000),
    "clusterer": KMeans(3, random_state=0),
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


def hint_followed(split: Split, epsilon: float, seed: int) -> Any:
    """Return what the hint of the default tells to use instead, if anything."""
    model = ours(split, epsilon, seed)
    compared = model.reference_comparison_
    if compared is not None and compared.public_is_better:
        return public_only(split, epsilon, seed)
    told = re.search(r"SensitivitySampler\(([^)]*)\)", model.hint_)
    if told is None:
        return None
    sampler = SensitivitySampler(**dict(re.findall(r'(\w+)="(\w+)"', told[1])))
    return ours(split, epsilon, seed, sensitivity=sampler)


def private_alone(split: Split, epsilon: float, seed: int) -> Any:
    return ours(split, epsilon, seed, combine=None)


def bound(split: Split, epsilon: float, seed: int) -> Any:
    """Return a model whose rows are clipped; a reference would have to be within."""
    declared = {"epsilon": epsilon, "sensitivity": "bound", "x_norm": split.x_norm}
    if split.kind == "regressor":
        model = PrivateRidge(y_bounds=split.y_bounds, **declared)
    else:
        model = PrivateLogisticRegression(classes=np.unique(split.y_public), **declared)
    return model.fit(split.X, split.y)


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
    "hint followed": Contestant(hint_followed, "as told", LINEAR),
    "private alone": Contestant(private_alone, RANDOM, LINEAR),
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
FEW_PUBLIC = ("without privacy", "public only", "default", "hint followed")
FEW_EPSILONS = (0.1, 1.0)
# Each of their fits is the same.
NOISELESS = ("without privacy", "public only")
SEEDS_APART = 1000


def takes_part(name: str, cell: Cell) -> bool:
    """Return whether a contestant is fitted here for a cell."""
    contestant = CONTESTANTS[name]
    if cell.public != PUBLIC[0] and name in THIRD_ONLY:
        return False
    if cell.private is not None and name not in FEW_PUBLIC:
        return False
    kind = PROBLEMS[cell.problem].kind
    return contestant.fit is not None and kind in contestant.kinds


class Outcome(NamedTuple):
    """Score of a model on the test records; why there is none; if it warned."""

    score: float
    refusal: str = ""
    warned: bool = False


Task = tuple[Cell, str, float]
Found = dict[Task, list[Outcome]]


def outcome(
    cell: Cell, name: str, epsilon: float, repeat: int, n_draws: int
) -> Outcome:
    """Return what a contestant is worth in a repeat: the median over fits."""
    split = make_split(cell, repeat)
    fit = CONTESTANTS[name].fit
    assert fit is not None
    if name in NOISELESS:
        n_draws = 1
    scores = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for draw in range(n_draws):
            # Other pairs, and of the peers, which are seeded, other noise.
            seed = repeat + SEEDS_APART * draw
            try:
                model = fit(split, epsilon, seed)
                scores.append(math.nan if model is None else score(model, split))
            except Exception as error:  # is printed, and no claim holds
                return Outcome(math.nan, f"{type(error).__name__}: {error}")
    warned = any(issubclass(each.category, ReferenceWarning) for each in caught)
    return Outcome(float(np.median(scores)), "", warned)


def score(model: Any, split: Split) -> float:
    """Return R2, area under the curve, or inertia over that of one center."""
    if split.kind == "regressor":
        return float(r2_score(split.y_test, model.predict(split.X_test)))
    if split.kind == "classifier":
        chances = model.predict_proba(split.X_test)
        chances = chances if chances.shape[1] > 2 else chances[:, 1]
        return float(roc_auc_score(split.y_test, chances, multi_class="ovr"))
    centers = getattr(model, "estimator_", model).cluster_centers_
    squares = ((split.X_test[:, None] - centers) ** 2).sum(axis=2).min(axis=1)
    one = (split.X_test - split.X_test.mean(axis=0)) ** 2
    return float(squares.sum() / one.sum())


def diffprivlib_scores(
    python: str, cells: list[Cell], epsilons: list[float], repeats: int
) -> Found:
    """Return what diffprivlib's models are worth, run by another Python."""
    with tempfile.TemporaryDirectory() as directory:
        for (place, cell), repeat in product(enumerate(cells), range(repeats)):
            path = Path(directory) / f"{place}-{repeat}.npz"
            np.savez(path, **make_split(cell, repeat)._asdict())
        child = Path(__file__).with_name("_diffprivlib.py")
        command = [python, str(child), directory, *map(str, epsilons)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    scores = json.loads(done.stdout)
    found: Found = {}
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
    ("diabetes", "private alone"): 0.3,
    ("breast cancer", "private alone"): 0.97,
    ("wine", "private alone"): 0.85,
    ("diabetes", "both, Gaussian"): 0.45,
    ("breast cancer", "both, Gaussian"): 0.99,
    ("wine", "both, Gaussian"): 0.99,
}
KMEANS_LIMIT = 1.75
# A default may be so far below the public records alone, at the usual level.
SLACK = 0.01
# Of the cells where advice is given, it helps in so many.
ADVICE, FEWEST_TOLD = 0.9, 5
# How far below no privacy with 40 public records of ten columns, by private ones.
NEAR = {"3000": 0.02, "all": 0.01}
TEN_COLUMNS = ("friedman", "survey")
# Errors on raw columns may be larger than those on standardized ones by this factor.
RAW_FACTOR = 1.1


class Claim(NamedTuple):
    """A figure, and what it should at least be, or at most."""

    text: str
    figure: float
    limit: float
    most: bool = False

    @property
    def holds(self) -> bool:
        return self.figure <= self.limit if self.most else self.figure >= self.limit


def claims(medians: dict[Task, float]) -> Iterator[Claim]:
    """Return what is claimed of the figures that there are, each with its limit."""
    for (cell, name, epsilon), figure in medians.items():
        text = f"{cell}, epsilon {epsilon:g}: {name}"
        clusters = PROBLEMS[cell.problem].kind == "clusterer"
        usual = cell.public == PUBLIC[0] and epsilon == 1.0
        if usual and clusters and name == "default":
            yield Claim(text, figure, KMEANS_LIMIT, most=True)
        if usual and not cell.raw and (cell.problem, name) in FLOORS:
            yield Claim(text, figure, FLOORS[cell.problem, name])
        standardized = (cell._replace(raw=False), name, epsilon)
        if cell.raw and not clusters and name == "default" and standardized in medians:
            limit = RAW_FACTOR * (1 - medians[standardized])
            text += ", error against standardized"
            yield Claim(text, 1 - figure, limit, most=True)
        public, bare = (
            medians.get((cell, other, epsilon))
            for other in ("public only", "without privacy")
        )
        if public is not None and not clusters and name == "default":
            if epsilon == 1.0:
                yield Claim(f"{text}, public only", figure, public - SLACK)
            if (cell.public, cell.private, epsilon) == (100, 3000, 0.1):
                yield Claim(f"{text}, public only", figure, public)
        ten = cell.problem in TEN_COLUMNS and (cell.public, epsilon) == (40, 1.0)
        if bare is not None and name == "default" and ten and cell.private >= 3000:
            near = NEAR["3000" if cell.private == 3000 else "all"]
            yield Claim(f"{text}, without privacy", figure, bare - near)


def advice(found: Found) -> Iterator[Claim]:
    """Return the share of cells at the usual level where it helps to follow hints.

    By the repeats in which there is advice, if there are some: without, there is no
    score.
    """
    gains = []
    for (cell, name, epsilon), row in found.items():
        defaults = found.get((cell, "default", epsilon))
        if name != "hint followed" or epsilon != 1.0 or defaults is None:
            continue
        followed, before = np.array(
            [[each.score for each in r] for r in (row, defaults)]
        )
        told = ~np.isnan(followed)
        if told.sum() >= FEWEST_TOLD:
            gains.append(np.median(followed[told]) - np.median(before[told]))
    if gains:
        share = float(np.mean(np.array(gains) > 0))
        yield Claim(f"share of {len(gains)} cells in which a hint helps", share, ADVICE)


def print_cell(cell: Cell, found: Found, epsilons: list[float]) -> None:
    """Print the medians of a cell, and how many fits warned or were refused."""
    print(f"\n{cell}")
    print(f"{'':18}", *(f"{epsilon:>8g}" for epsilon in epsilons), " promise")
    for name in dict.fromkeys(name for where, name, _ in found if where == cell):
        rows = [found.get((cell, name, epsilon), []) for epsilon in epsilons]
        figures = [shown(median(row)) if row else f"{'':8}" for row in rows]
        warned = sum(each.warned for row in rows for each in row)
        note = f"; {warned} warned of the reference" if warned else ""
        print(f"{name:18}", *figures, f" {CONTESTANTS[name].promise}{note}")
        # The same refusal has other numbers in each repeat.
        texts = (re.sub(r"[0-9.]+", "#", each.refusal) for row in rows for each in row)
        refusals = Counter(texts)
        for text, n in refusals.items():
            if text:
                print(f"{'':18} {n} refused: {text[:150]}")
    sys.stdout.flush()


def shown(figure: float) -> str:
    """Return a figure in eight places; what is worse than useless is not told apart."""
    if math.isnan(figure):
        return f"{'-':>8}"
    if abs(figure) < 100:
        return f"{figure:8.3f}"
    return "   < -99" if figure < 0 else "    > 99"


def median(row: list[Outcome]) -> float:
    """Return the median score; NaN, with which no claim holds, if any was refused."""
    scores = [each.score for each in row if each.refusal or not math.isnan(each.score)]
    return float(np.median(scores)) if scores else math.nan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument(
        "--draws",
        type=int,
        default=5,
        help="fits of each repeat, with noise of their own",
    )
    parser.add_argument("--n-jobs", type=int, default=-1)
    parser.add_argument("--problem", choices=PROBLEMS, nargs="*", default=[*PROBLEMS])
    parser.add_argument(
        "--public", choices=[*PUBLIC, "few"], nargs="*", default=["few", *PUBLIC]
    )
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
        repeats, epsilons, publics = 3, [1.0], [PUBLIC[0]]
        problems = [name for name in problems if name in ("diabetes", "wine", "census")]
    thirds = [name for name in PUBLIC if name in publics]
    cells = [Cell(*each) for each in product(problems, thirds)]
    few = [
        cell
        for name in problems
        for cell in few_public(name)
        if "few" in publics and PROBLEMS[name].kind != "clusterer"
    ]
    # Units matter to the shape of the noise, which no other public records tell of.
    raw = [Cell(name, PUBLIC[0], True) for name in problems if PUBLIC[0] in publics]
    found: Found = {}
    if "diffprivlib" in arguments.contestant:
        if arguments.diffprivlib is None:
            print("diffprivlib is skipped: no --diffprivlib PYTHON is given")
        else:
            python = arguments.diffprivlib
            found = diffprivlib_scores(python, cells, epsilons, repeats)
    print(
        f"medians over {repeats} repeats, each the median of {arguments.draws} draws "
        "(diffprivlib: of 1); columns are epsilon"
    )
    for cell in [*few, *cells, *raw]:
        allowed = FEW_EPSILONS if cell.private else (1.0,) if cell.raw else epsilons
        levels = [epsilon for epsilon in epsilons if epsilon in allowed]
        names = [name for name in arguments.contestant if takes_part(name, cell)]
        tasks = [(cell, *each) for each in product(names, levels)]
        outcomes = Parallel(n_jobs=arguments.n_jobs)(
            delayed(outcome)(*task, repeat, arguments.draws)
            for task in tasks
            for repeat in range(repeats)
        )
        for place, task in enumerate(tasks):
            found[task] = outcomes[place * repeats : (place + 1) * repeats]
        print_cell(cell, found, levels)
    held = True
    print(f"\n{'claim':84} {'found':>8}")
    medians = {task: median(row) for task, row in found.items()}
    for claim in [*claims(medians), *advice(found)]:
        held &= claim.holds
        side = "at most " if claim.most else "at least"
        words = "" if claim.holds else "  DOES NOT HOLD"
        print(f"{claim.text:84} {shown(claim.figure)} {side} {claim.limit:.3f}{words}")
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
