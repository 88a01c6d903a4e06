"""Detect callers of a fit that invalidate its guarantee, from the stack alone.

A claim is about the rows that `fit` was given: these are common ways to spoil them.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile
from types import FrameType
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from skparisk._words import LEAKS
from skparisk.core.checks import IncompatibleError, PrivacyLeakWarning, warn_caller
from skparisk.core.claim import Leak

# What fits its parts to all records that it is given, and learns no more from them than
# they do. Steps before a private one are looked at by themselves.
_HANDING_ON = {
    "Pipeline",
    "FeatureUnion",
    "ColumnTransformer",
    "VotingRegressor",
    "VotingClassifier",
    "MultiOutputRegressor",
    "MultiOutputClassifier",
    "RFE",
    "SelectFromModel",
    "FixedThresholdClassifier",
}
# With `cv` they learn from what parts predict for records.
_CHAINS = {"RegressorChain", "ClassifierChain"}


def refuse_resampling_ensembles() -> None:
    """Refuse bagging and boosting, which repeat and weigh records."""
    for frame in _frames("sklearn.ensemble."):
        for one in map(frame.f_locals.get, ("self", "ensemble")):
            if hasattr(one, "bootstrap") or hasattr(one, "learning_rate"):
                raise IncompatibleError(
                    f"A private estimator must not be fitted in {type(one).__name__}, "
                    "which repeats or weighs records, as its claim would be false. "
                    "Wrap the whole ensemble in a PrivateEstimator instead."
                )


def refuse_reference_in_other_units(
    name: str = "The reference of the SensitivitySampler",
) -> None:
    """Refuse a reference that steps which learn do not transform as they do X."""
    for pipeline, step, part in _steps_before():
        if _learns(part) and name not in (pipeline.transform_input or ()):
            raise IncompatibleError(
                f"{name} is not transformed by {step}, as X is before it gets here, "
                "so that neighbors would be sampled in other units. Wrap the whole "
                "Pipeline instead: PrivateEstimator(pipeline).fit(X, y, "
                "X_reference=..., y_reference=...)."
            )


def leaks_around(
    known: Collection[Leak] = (), *, warn: bool = True
) -> tuple[Leak, ...]:
    """Return, and warn of, what else was learned without noise around this fit."""
    before = [each for each in _steps_before() if not _is_ours(each[2])]
    parts = [step for _, step, part in before if _learns(part)]
    remedies: dict[Leak, str] = {}
    if parts:
        remedies[Leak.LEARNS_MORE] = (
            "Wrap the whole Pipeline in a PrivateEstimator, or fit "
            f"{' and '.join(parts)} to public data and wrap it in a FrozenEstimator."
        )
    for caller in _fitting_around():
        more = _learned_around(caller)
        if more is Leak.CHOSEN:
            remedies[more] = "Use PrivateGridSearchCV, or choose on public records."
        elif more is not None:
            name = type(caller).__name__
            remedies[more] = f"Wrap the whole {name} in a PrivateEstimator."
    found = tuple(leak for leak in remedies if leak not in known)
    for leak in found if warn else ():
        warn_caller(f"{LEAKS[leak]} {remedies[leak]}", PrivacyLeakWarning)
    return found


def _learned_around(caller: Any) -> Leak | None:
    """Return what a scikit-learn object learns besides the part that is fitted now."""
    name, cv = type(caller).__name__, getattr(caller, "cv", None)
    if hasattr(caller, "best_index_"):
        return Leak.CHOSEN
    searches = any(kind.__name__ == "BaseSearchCV" for kind in type(caller).__mro__)
    if searches or not type(caller).__module__.startswith("sklearn."):
        return None  # nothing is chosen yet
    if name in _HANDING_ON or (name in _CHAINS and cv is None):
        return None
    return Leak.LEARNS_MORE if cv is None else Leak.CHOSEN


def is_searched() -> bool:
    """Tell if a private search fits this, which has warned of what is around it."""
    return any(_frames("skparisk.model_selection."))


def frozen_around() -> bool:
    """Tell if steps before this fit came fitted, on whatever records."""
    return any(isinstance(part, FrozenEstimator) for *_, part in _steps_before())


def _steps_before() -> Iterator[tuple[Pipeline, str, Any]]:
    """Yield steps that each Pipeline around this fit has fitted before."""
    now = {id(frame.f_locals.get("self")) for frame in _frames()}
    for caller in _fitting_around():
        if isinstance(caller, Pipeline):
            # All steps, if it has a `memory`, with which it fits clones of them.
            before = takewhile(lambda step: id(step[1]) not in now, caller.steps)
            yield from ((caller, *leaf) for leaf in _leaves(before))


def _leaves(steps: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield steps, or those inside of what learns nothing but what these do."""
    for name, part, *_ in steps:
        if isinstance(part, Pipeline):
            yield from _leaves(part.steps)
        elif isinstance(part, FeatureUnion):
            yield from _leaves(part.transformer_list)
        elif isinstance(part, ColumnTransformer):
            yield from _leaves([*part.transformers, ("remainder", part.remainder)])
        else:
            yield name, part


def _learns(step: Any) -> bool:
    if isinstance(step, FrozenEstimator) or not hasattr(step, "fit"):
        return False
    return not hasattr(step, "__sklearn_tags__") or get_tags(step).requires_fit


def _is_ours(one: Any) -> bool:
    return any(kind.__module__.startswith("skparisk.") for kind in type(one).__mro__)


def _fitting_around() -> Iterator[Any]:
    """Yield the objects, not of this package, of whose `fit` this is a part."""
    for frame in _frames():
        caller = frame.f_locals.get("self")
        if frame.f_code.co_name.startswith(("fit", "partial_fit")):
            yield from () if _is_ours(caller) else (caller,)


def _frames(package: str = "") -> Iterator[FrameType]:
    """Yield what is on the stack in some package, from here to the first caller."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(package):
            yield frame
        frame = frame.f_back
