"""Child of utility.py: the scores of diffprivlib's models, in its own environment.

It is given a directory of splits, one .npz file each, and levels, and prints one JSON
object of file names and lists of scores, None where a model refuses. It needs
diffprivlib (0.6.6 with scikit-learn 1.5) and nothing of this repository.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import KMeans, LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score


def score(split, epsilon, seed):
    """Return R2, area under the curve, or inertia over that of one center."""
    X, y, X_test, y_test = (split[name] for name in ("X", "y", "X_test", "y_test"))
    kind = str(split["kind"])
    common = {"epsilon": epsilon, "random_state": seed}
    if kind == "classifier":
        model = LogisticRegression(data_norm=float(split["x_norm"]), **common)
        chances = model.fit(X, y).predict_proba(X_test)
        chances = chances if chances.shape[1] > 2 else chances[:, 1]
        return float(roc_auc_score(y_test, chances, multi_class="ovr"))
    bounds = (split["X_public"].min(axis=0), split["X_public"].max(axis=0))
    # A column that is constant over the public records has no range.
    bounds = (bounds[0], np.maximum(bounds[1], bounds[0] + 1e-5))
    if kind == "clusterer":
        centers = KMeans(3, bounds=bounds, **common).fit(X).cluster_centers_
        squares = ((X_test[:, None] - centers) ** 2).sum(axis=2)
        center = X_test.mean(axis=0)
        return float(squares.min(axis=1).sum() / ((X_test - center) ** 2).sum())
    targets = (float(split["y_public"].min()), float(split["y_public"].max()))
    model = LinearRegression(bounds_X=bounds, bounds_y=targets, **common)
    return model.fit(X, y).score(X_test, y_test)


def main():
    directory, *epsilons = sys.argv[1:]
    found = {}
    warnings.simplefilter("ignore")
    for seed, path in enumerate(sorted(Path(directory).glob("*.npz"))):
        with np.load(path) as split:
            found[path.stem] = scores = []
            for epsilon in map(float, epsilons):
                try:
                    scores.append(score(split, epsilon, seed))
                except (ValueError, np.linalg.LinAlgError) as error:
                    print(f"{path.stem}: {error}", file=sys.stderr)
                    scores.append(None)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
