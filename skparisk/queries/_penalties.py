"""Penalties of scikit-learn's estimators that are weighed against sums over records."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

# What multiplies the penalty, or the sum of the losses. Others, such as `Lasso`, weigh
# a penalty against a mean, which is the same for any number of records.
_OF_THE_PENALTY = {
    "HuberRegressor": "alpha",
    "KernelRidge": "alpha",
    "Ridge": "alpha",
    "RidgeClassifier": "alpha",
}
_OF_THE_LOSSES = {
    "LinearSVC": "C",
    "LinearSVR": "C",
    "LogisticRegression": "C",
    "SVC": "C",
    "SVR": "C",
}


def resize_penalties(estimator: Any, share: float) -> Any:
    """Return a clone that does the same to `share` times as many records.

    What is inside of it as well, where that is scikit-learn's own.
    """
    params = estimator.get_params(deep=True)
    parts = {f"{n}__": part for n, part in params.items() if hasattr(part, "fit")}
    changed: dict[str, Any] = {}
    for prefix, part in {"": estimator, **parts}.items():
        if not type(part).__module__.startswith("sklearn."):
            continue
        kind = type(part).__name__
        for table, factor in ((_OF_THE_PENALTY, share), (_OF_THE_LOSSES, 1 / share)):
            name = prefix + table.get(kind, "")
            if name in params and name != prefix:
                changed[name] = params[name] * factor
    return clone(estimator).set_params(**changed) if changed else estimator
