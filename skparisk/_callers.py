"""What calls a fit, where that alone makes its claim about people false."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

from skparisk.exceptions import IncompatibleError


def refuse_resampling_ensembles() -> None:
    """Refuse to be fitted inside of a bootstrap or boosting ensemble of scikit-learn.

    Told from the ensemble's own parameters, which are on the stack; never from records.
    A record that a bag holds c times costs c times the level, and boosting weighs
    records by what earlier fits made of them, without noise.
    """
    ensembles: Any = sys.modules.get("sklearn.ensemble")
    if ensembles is None:
        return
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn.ensemble."):
            for name in ("self", "ensemble"):
                _refuse(frame.f_locals.get(name), ensembles)
        frame = frame.f_back


def _refuse(ensemble: Any, ensembles: Any) -> None:
    bagging = (ensembles.BaggingClassifier, ensembles.BaggingRegressor)
    boosting = (ensembles.AdaBoostClassifier, ensembles.AdaBoostRegressor)
    kind = type(ensemble).__name__
    if isinstance(ensemble, bagging) and ensemble.bootstrap:
        raise IncompatibleError(
            f"A private estimator must not be fitted in a {kind} with bootstrap=True: "
            "a record drawn twice for a bag is protected only half as well as claimed. "
            "Use bootstrap=False."
        )
    if isinstance(ensemble, boosting):
        raise IncompatibleError(
            f"A private estimator must not be fitted in a {kind}: the weights of the "
            "records are computed from earlier fits without noise, so the claim of "
            "each fit is false. Use an ensemble that does not look at the records, "
            "such as bagging with bootstrap=False."
        )


def refuse_reference_in_other_units(name: str = "X_reference") -> None:
    """Refuse a reference that the steps of a Pipeline do not transform as they do X.

    Steps that are fitted on the way could not have transformed it beforehand. `name` is
    what it was given as.
    """
    pipelines: Any = sys.modules.get("sklearn.pipeline")
    frame = inspect.currentframe()
    while frame is not None and pipelines is not None:
        pipeline = frame.f_locals.get("self")
        fitting = frame.f_code.co_name == "fit"
        if fitting and isinstance(pipeline, pipelines.Pipeline):
            steps = pipeline.steps[:-1]
            fitted = [called for called, step in steps if _is_fitted_now(step)]
            routed = getattr(pipeline, "transform_input", None) or ()
            if fitted and name not in routed:
                raise IncompatibleError(
                    f"{name} is not transformed by {' and '.join(fitted)}, as X "
                    "is before it gets here, so that neighbors would be sampled in "
                    "other units. Wrap the whole Pipeline instead: "
                    "PrivateEstimator(pipeline).fit(X, y, X_reference=..., "
                    "y_reference=...)."
                )
        frame = frame.f_back


def _is_fitted_now(step: Any) -> bool:
    """Tell if a step of a pipeline learns from the records that pass through it."""
    if not hasattr(step, "fit") or isinstance(step, FrozenEstimator):
        return False
    return bool(get_tags(step).requires_fit)
