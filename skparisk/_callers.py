"""What calls a fit, where that alone makes its claim about people false."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import FrameType
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
    for frame in _frames():
        if frame.f_globals.get("__name__", "").startswith("sklearn.ensemble."):
            for name in ("self", "ensemble"):
                _refuse(frame.f_locals.get(name), ensembles)


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
    for pipeline, fitted in _pipelines_around():
        routed = getattr(pipeline, "transform_input", None) or ()
        if fitted and name not in routed:
            raise IncompatibleError(
                f"{name} is not transformed by {' and '.join(fitted)}, as X "
                "is before it gets here, so that neighbors would be sampled in "
                "other units. Wrap the whole Pipeline instead: "
                "PrivateEstimator(pipeline).fit(X, y, X_reference=..., "
                "y_reference=...)."
            )


def steps_without_noise() -> list[str]:
    """Return the steps of Pipelines around this fit that learned without noise.

    One record moves what they make of all others, which no claim about the records that
    come out of them is about.
    """
    return [
        name
        for _, fitted in _pipelines_around()
        for name, step in fitted.items()
        if not type(step).__module__.startswith("skparisk.")
    ]


def is_searched() -> bool:
    """Tell if a private search fits this, which has told what such steps are."""
    modules = (frame.f_globals.get("__name__", "") for frame in _frames())
    return any(name.startswith("skparisk.model_selection.") for name in modules)


def _frames() -> Iterator[FrameType]:
    """Yield what is on the stack, from here to the first caller."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _pipelines_around() -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the Pipelines that fit this, and their steps that are fitted on the way."""
    pipelines: Any = sys.modules.get("sklearn.pipeline")
    for frame in [] if pipelines is None else _frames():
        pipeline = frame.f_locals.get("self")
        fitting = frame.f_code.co_name == "fit"
        if fitting and isinstance(pipeline, pipelines.Pipeline):
            steps = pipeline.steps[:-1]
            yield pipeline, {name: one for name, one in steps if _is_fitted_now(one)}


def _is_fitted_now(step: Any) -> bool:
    """Tell if a step of a pipeline learns from the records that pass through it."""
    if not hasattr(step, "fit") or isinstance(step, FrozenEstimator):
        return False
    return bool(get_tags(step).requires_fit)
