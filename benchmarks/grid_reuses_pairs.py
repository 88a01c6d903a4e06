"""Time of a grid over targets with a memory, against one setting without.

Claim, on one core: a search over 25 pairs of epsilon and gamma and 5 folds that keeps
its pairs takes at most 1.3 times the processor time of one setting and 5 folds that
draws them, where pairs take refits: `PrivateEstimator(LogisticRegression())` and
`PrivateRidge` with columns in units of their own. Also shown, without a claim: models
whose pairs are answered together, where a draw is not much slower than the rest of a
fit; one setting that finds its pairs, which is what the rest takes; and as many fits
and scores of scikit-learn's own model, without privacy, below which no search can be.
Linear algebra has one thread, and figures are medians of rounds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import StandardScaler

from skparisk import (
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.datasets import load_census
from skparisk.reference import TableReference
from skparisk.sensitivity._workers import one_thread

EPSILONS, GAMMAS = (0.3, 0.5, 1.0, 2.0, 4.0), (0.02, 0.05, 0.1, 0.15, 0.2)
N_FOLDS, N_ROUNDS = 5, 3
MOST = 1.3


class Case(NamedTuple):
    """A model, that of scikit-learn, records, and whether it is claimed of."""

    name: str
    model: Any
    plain: Any
    X: Any
    y: Any
    claimed: bool


def cases() -> Iterator[Case]:
    """Yield what is measured."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    refits = PrivateEstimator(LogisticRegression())
    plain: Any = LogisticRegression()
    yield Case("breast cancer, refits", refits, plain, X, y, True)
    together = PrivateLogisticRegression(C=1.0)
    yield Case("breast cancer, together", together, plain, X, y, False)
    X, y = load_census(return_X_y=True)
    plain = Ridge()
    yield Case("census, refits", PrivateRidge(alpha=1.0), plain, X, y, True)
    X = StandardScaler().fit_transform(X)
    yield Case("census, together", PrivateRidge(alpha=1.0), plain, X, y, False)


def search(
    case: Case, grid: dict[str, Any], memory: str | None, *, private: bool = True
) -> float:
    """Return the processor time of a search, whose pairs are of a fifth of the rows."""
    rows = np.random.default_rng(0).permutation(len(case.X))
    public, own = np.split(rows, [len(rows) // 5])
    # Folds of one size: databases of another size have other pairs.
    own = own[: len(own) // N_FOLDS * N_FOLDS]
    reference = TableReference(case.X[public], case.y[public])
    sampler = SensitivitySampler(reference=reference, n_pairs=1000, memory=memory)
    model = case.plain
    if private:
        model = case.model.set_params(sensitivity=sampler, random_state=0)
    folds = KFold(N_FOLDS, shuffle=True, random_state=0)
    with one_thread():
        start = time.process_time()
        GridSearchCV(model, grid, cv=folds, refit=False).fit(case.X[own], case.y[own])
        return time.process_time() - start


def compare(case: Case) -> bool:
    """Print a row, and tell if what is claimed of it holds."""
    one, all_of_them = {"epsilon": (1.0,)}, {"epsilon": EPSILONS, "gamma": GAMMAS}
    alike = {"fit_intercept": [True] * len(EPSILONS) * len(GAMMAS)}
    rounds = []
    for _ in range(N_ROUNDS):
        drawn = search(case, one, None)
        with tempfile.TemporaryDirectory() as folder:
            many = search(case, all_of_them, folder)
            found = search(case, one, folder)
        plain = search(case, alike, None, private=False)
        rounds.append((drawn, many, found, plain, many / drawn))
    figures = np.median(rounds, axis=0)
    print(f"{case.name:>24}", *(f"{figure:>8.2f}" for figure in figures), flush=True)
    return not case.claimed or bool(figures[-1] <= MOST)


def main() -> int:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    warnings.simplefilter("ignore")  # noise that is far from what it is added to
    titles = ("", "1, drawn", "25, kept", "1, found", "25 plain", "ratio")
    print("{:>24} {:>8} {:>8} {:>8} {:>8} {:>8}".format(*titles))
    held = [compare(case) for case in cases()]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
