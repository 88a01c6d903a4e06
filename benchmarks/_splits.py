"""The records of a repeat of utility.py: public, private, and for the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_classification,
    make_friedman1,
)
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skparisk.datasets import load_census

Floats = NDArray[np.float64]

PUBLIC = ("a third", "30 rows", "shifted")
N_FEW = 30
# Few public people and many private ones; None is all that there are.
N_PUBLIC = (40, 100, 300)
N_PRIVATE = (300, 3000, None)
N_TEST = 4000
N_SIMULATED = 24_500
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


def high_wages() -> tuple[Floats, NDArray[Any]]:
    """Return whether an income is among the highest quarter."""
    X, y = load_census(return_X_y=True)
    return X, (y > np.quantile(y, 0.75)).astype(int)


def friedman() -> tuple[Floats, Floats]:
    return make_friedman1(N_SIMULATED, n_features=10, noise=3.0, random_state=0)


def survey() -> tuple[Floats, NDArray[Any]]:
    return make_classification(
        N_SIMULATED, 10, n_informative=5, flip_y=0.1, class_sep=0.8, random_state=1
    )


PROBLEMS = {
    "diabetes": Problem(diabetes, "regressor", 2),  # body mass index
    "breast cancer": Problem(breast_cancer, "classifier", 1),  # texture
    "wine": Problem(wine, "classifier", 2),  # ash
    "digits": Problem(digits, "classifier", 36, n_records=600),  # a middle pixel
    "census": Problem(census, "regressor", 0, n_records=3000),  # age
    "high wages": Problem(high_wages, "classifier", 0, n_records=3000),
    "friedman": Problem(friedman, "regressor", 3, n_records=3000),
    "survey": Problem(survey, "classifier", 1, n_records=3000),
    "k-means, wine": Problem(wine, "clusterer", 2),
}


class Cell(NamedTuple):
    """What is learned, and beside which public records."""

    problem: str
    public: str | int
    raw: bool = False
    private: int | None = None

    def __str__(self) -> str:
        if isinstance(self.public, int):
            return f"{self.problem}, {self.public} public, {self.private} private"
        return f"{self.problem}, {self.public}{', raw columns' * self.raw}"


def few_public(problem: str) -> list[Cell]:
    """Return cells of few public records and many private ones."""
    n_rows = len(PROBLEMS[problem].load()[0])
    cells = []
    for n_public in N_PUBLIC:
        rest = n_rows - n_public - n_tested(n_rows)
        sizes = {min(each or rest, rest) for each in N_PRIVATE}
        cells += [Cell(problem, n_public, False, size) for size in sorted(sizes)]
    return [cell for cell in cells if cell.private >= N_PUBLIC[0]]


def n_tested(n_rows: int) -> int:
    return min(N_TEST, n_rows // 4)


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

    few = isinstance(cell.public, int)
    if problem.n_records is not None and not few:
        rows = cut(rows, problem.n_records)[0]
    third = len(rows) // 3
    if few:
        public, others = cut(rows, cell.public)
    elif cell.public == "shifted":
        # Ties are broken by chance.
        rows = np.random.default_rng(repeat).permutation(rows)
        rows = rows[np.argsort(X[rows, problem.shift], kind="stable")]
        public, others = rows[:third], rows[third:]
    else:
        public, others = cut(rows, third)
    if cell.public == "30 rows":
        public = cut(public, N_FEW)[0]
    if few:
        test, others = cut(others, n_tested(len(rows)))
        # All that there are need no cut, which demands two of each class beside it.
        private = (
            others if cell.private == len(others) else cut(others, cell.private)[0]
        )
    else:
        private, test = cut(others, third)
    if not cell.raw:
        X = StandardScaler().fit(X[public]).transform(X)
        if problem.kind == "regressor":
            y = (y - y[public].mean()) / y[public].std()
    x_norm = float(np.quantile(np.linalg.norm(X[public], axis=1), NORM_QUANTILE))
    parts = [values[part] for part in (public, private, test) for values in (X, y)]
    return Split(problem.kind, *parts, x_norm)
