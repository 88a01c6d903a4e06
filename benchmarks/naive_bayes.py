"""Gaussian naive Bayes from sums of declared bounds, beside diffprivlib's.

Claim: at epsilon = 1, 3 and 10, medians over 15 splits, with the proven bound and
ranges of a schema alone, GaussianNB is right for at least as many of the last third of
breast cancer as that of diffprivlib 0.6.6, which is given the same ranges, and on
`fair` (of statsmodels) for at most 0.01 fewer. The neighbors of diffprivlib have one
record more or less; ours have another one, for which its level is up to twice the
epsilon it is given.

Ranges are those of all records: in earnest they would be declared without a look at
these.
"""

from __future__ import annotations

import sys

import numpy as np
from forests import schema_of, splits
from sklearn.naive_bayes import GaussianNB

from skparisk import PrivateEstimator

# Medians of diffprivlib's, in its own environment, on the same splits.
THEIRS = {
    "breast cancer": {1.0: 0.624, 3.0: 0.672, 10.0: 0.873},
    "fair": {1.0: 0.691, 3.0: 0.698, 10.0: 0.701},
}
LOSS = {"breast cancer": 0.0, "fair": 0.01}


def scores(name, epsilons):
    """Return medians of accuracies over the splits, and without noise."""
    found = {}
    for seed, X, y, (_, private, test) in splits(name):
        for epsilon in (*epsilons, np.inf):
            model = PrivateEstimator(
                GaussianNB(), epsilon=epsilon, sensitivity="bound", random_state=seed
            )
            model.fit(X[private], y[private], X_reference=schema_of(X))
            found.setdefault(epsilon, []).append(model.score(X[test], y[test]))
    return {epsilon: float(np.median(values)) for epsilon, values in found.items()}


def main():
    holds = True
    for name, theirs in THEIRS.items():
        found = scores(name, theirs)
        print(name, {epsilon: round(value, 3) for epsilon, value in found.items()})
        holds &= all(found[each] >= theirs[each] - LOSS[name] for each in theirs)
    print("holds" if holds else "does not hold")
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
