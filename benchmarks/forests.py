"""Private forests: what they are worth beside public ones, and how fast pairs are.

Claim: at epsilon = 1, with a third of the records as the public ones and a third as the
private ones, medians over 15 splits, forests of 10 trees whose noise is calibrated over
pairs and noise together (gamma = 0.05, Gaussian)

* are right for >= 0.91 (breast cancer) and >= 0.70 (`fair` of statsmodels) of the last
  third, and not below the public forest by more than 0.02, also with the proven bound;
* without any public records, with splits at random in declared ranges, for >= 0.819
  and >= 0.686, also with the proven bound, on average over six draws of trees and noise
  for each split: the means of diffprivlib 0.6.6's forest, which is given the same
  ranges and the same epsilon. Neighbors of diffprivlib have one record more or less. If
  one is replaced, as for ours, two of its leaves change, so that its level is twice the
  epsilon it is given.

Differences of 1000 pairs of databases of 5000 records, for 100 trees, take <= 1/1000
of the time that fits to both databases of each pair would.

Ranges are those of all records: in earnest they would be declared without a look at
these.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.ensemble import RandomForestClassifier

from skparisk import (
    PrivateEstimator,
    ReferenceWarning,
    SchemaReference,
    SensitivitySampler,
)
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences

N_SPLITS, N_DRAWS, N_PAIRS, N_FITS = 15, 6, 200, 3
FOREST = RandomForestClassifier(10, max_depth=8)
BOTH = SensitivitySampler(n_pairs=N_PAIRS, randomness="both", law="gaussian")
WANTED = {"breast cancer": (0.91, 0.819), "fair": (0.70, 0.686)}
LOSS, SPEEDUP = 0.02, 1000


def load(name):
    if name == "breast cancer":
        return load_breast_cancer(return_X_y=True)
    from statsmodels.datasets import fair

    data = fair.load_pandas().data
    return data.drop(columns="affairs").to_numpy(), (data.affairs > 0).to_numpy(int)


def scores(name):
    """Return medians of accuracies over the splits, with public records."""
    found = {}
    for seed, X, y, (public, private, test) in splits(name):
        forest = clone(FOREST).set_params(random_state=seed)
        table = {"X_reference": X[public], "y_reference": y[public]}
        models = {
            "pairs": BOTH,
            "bound": "bound",
        }
        for kind, sensitivity in models.items():
            model = PrivateEstimator(forest, sensitivity=sensitivity, random_state=seed)
            model.fit(X[private], y[private], **table)
            found.setdefault(kind, []).append(model.score(X[test], y[test]))
        for kind, own in (("public", public), ("private, no noise", private)):
            plain = clone(forest).fit(X[own], y[own])
            found.setdefault(kind, []).append(plain.score(X[test], y[test]))
    return {kind: float(np.median(values)) for kind, values in found.items()}


def splits(name):
    """Yield a seed, records and labels, and which are public, private and for tests."""
    X, y = load(name)
    for seed in range(N_SPLITS):
        rows = np.random.default_rng(seed).permutation(len(y))
        yield seed, X, y, np.array_split(rows, 3)


def schema_of(X):
    """Return the ranges of all records, and nothing else of them."""
    return SchemaReference(
        list(zip(X.min(axis=0), X.max(axis=0), strict=True)), target=[0, 1]
    )


def scores_of_schema(name):
    """Return means of accuracies over the splits, and draws, without public records."""
    found = {}
    for seed, X, y, (_, private, test) in splits(name):
        for draw in range(N_DRAWS):
            forest = clone(FOREST).set_params(random_state=100 * draw + seed)
            for kind, sensitivity in (("pairs", BOTH), ("bound", "bound")):
                model = PrivateEstimator(forest, sensitivity=sensitivity)
                model.fit(X[private], y[private], X_reference=schema_of(X))
                found.setdefault(kind, []).append(model.score(X[test], y[test]))
    return {kind: float(np.mean(values)) for kind, values in found.items()}


def speedup():
    """Return how many times faster differences are than fits."""
    n_records = 5000
    X, y = make_classification(2 * n_records, n_informative=6, random_state=0)
    table, private = (
        TableReference(X[:n_records], y[:n_records]),
        slice(n_records, None),
    )
    model = PrivateEstimator(
        RandomForestClassifier(100),
        gamma=0.2,
        sensitivity=SensitivitySampler(n_pairs=9),
    ).fit(X[private], y[private], X_reference=table)
    start = time.perf_counter()
    sample_differences(
        model.sampler_.query_,
        table,
        n_pairs=1000,
        n_records=n_records,
        n_features=X.shape[1],
    )
    ours = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(N_FITS):
        RandomForestClassifier(100).fit(X[private], y[private])
    return 2000 * (time.perf_counter() - start) / N_FITS / ours


def main():
    warnings.simplefilter("ignore", ReferenceWarning)
    holds = True
    for name, (wanted, without_public) in WANTED.items():
        found = scores(name)
        print(name, {kind: round(value, 3) for kind, value in found.items()})
        alone = scores_of_schema(name)
        print("schema alone", {kind: round(value, 3) for kind, value in alone.items()})
        least = min(found["pairs"], found["bound"])
        holds &= found["pairs"] >= wanted and least >= found["public"] - LOSS
        holds &= min(alone.values()) >= without_public
    factor = speedup()
    print(f"differences of 1000 pairs: {factor:.0f} times faster than fits")
    holds &= factor >= SPEEDUP
    print("holds" if holds else "does not hold")
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
