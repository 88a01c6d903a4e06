"""The records of a repeat of utility.py: public, private, and for the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skparisk.datasets import load_census

Floats = NDArray[np.float64]

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
