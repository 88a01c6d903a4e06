"""Time of a fit whose penalty is chosen, against one whose penalty is given.

Claim: on one core, fits of `PrivateRidge` and `PrivateLogisticRegression` that choose
their penalty take at most 3 times the processor time of those that are given the
chosen one, with 150 and 1 000 records (8 features, 1 000 pairs). Rounds of the two
alternate, and the ratio is the median over rounds, so that the speed of the machine
cancels.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression

from skparisk import PrivateLogisticRegression, PrivateRidge

MOST = 3.0
SIZES = (150, 1000)
MODELS = {"alpha": PrivateRidge(), "C": PrivateLogisticRegression()}
N_FEATURES = 8


def seconds(model: Any, data: tuple[Any, Any, Any, Any]) -> tuple[float, Any]:
    """Return the processor time of a fit, and the fitted model."""
    X, y, X_public, y_public = data
    start = time.process_time()
    model.fit(X, y, X_reference=X_public, y_reference=y_public)
    return time.process_time() - start, model


def ratio(name: str, n_records: int, rounds: int) -> float:
    """Print a row for one model and size, and return the median ratio."""
    make = make_regression if name == "alpha" else make_classification
    noise = {"noise": 50.0} if name == "alpha" else {"flip_y": 0.1}
    X, y = make(2 * n_records, N_FEATURES, random_state=0, **noise)
    data = X[:n_records], y[:n_records], X[n_records:], y[n_records:]
    times = []
    for seed in range(rounds):
        model = clone(MODELS[name]).set_params(random_state=seed, **{name: "auto"})
        chosen, fitted = seconds(model, data)
        given = getattr(fitted, f"{name}_")
        fixed, _ = seconds(clone(model).set_params(**{name: given}), data)
        times.append((chosen, fixed, chosen / fixed))
    chosen, fixed, median = np.median(times, axis=0)
    n_tried = len(fitted.penalty_choice_.candidates)
    print(
        f"{name:>5} n={n_records:<5} given {1e3 * fixed:7.0f} ms, chosen "
        f"{1e3 * chosen:7.0f} ms ({n_tried} candidates): {median:.2f} times",
        flush=True,
    )
    return float(median)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    ratios = [ratio(name, size, rounds) for name in MODELS for size in SIZES]
    return 0 if max(ratios) <= MOST else 1


if __name__ == "__main__":
    raise SystemExit(main())
