"""What calls a fit, where that alone makes its claim about people false."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from itertools import takewhile
from types import FrameType
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

from skparisk._words import LEAKS
from skparisk.core.checks import IncompatibleError, PrivacyLeakWarning, warn_caller
from skparisk.core.claim import Leak

_OURS = "skparisk."
# Of scikit-learn: they learn nothing but what their parts do,
_PUT_TOGETHER = ("ColumnTransformer", "FeatureUnion", "Pipeline")
# or nothing but which labels there are,
_ENCODERS = ("LabelBinarizer", "LabelEncoder")
_HARMLESS = ("FrozenEstimator", *_ENCODERS)
# and choose by scores as searches do,
_CHOOSE = ("RFECV",)
# or choose records.
_PICK = ("RANSACRegressor", "SelfTrainingClassifier")


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
    for caller in filter(_is_pipeline, _fitting_around()):
        parts = _learned_around([caller], units=True)
        if parts and name not in (getattr(caller, "transform_input", None) or ()):
            raise IncompatibleError(
                f"{name} is not transformed by {parts}, as X is before it gets here, "
                "so that neighbors would be sampled in other units. Wrap the whole "
                "Pipeline instead: PrivateEstimator(pipeline).fit(X, y, "
                "X_reference=..., y_reference=...)."
            )


def leaks_around() -> dict[Leak, str]:
    """Return what was learned without noise around this fit, and what to do about it.

    Of what estimators hold that fit this and are on the stack. One record moves what
    their parts make of all others, which no claim about records that come out of them
    is about.
    """
    callers = list(_fitting_around())
    leaks: dict[Leak, str] = {}
    if parts := _learned_around(callers):
        leaks[Leak.LEARNS_MORE] = (
            f"Wrap the whole Pipeline in a PrivateEstimator, or fit {parts} to public "
            "data and wrap it in a FrozenEstimator."
        )
    if any("best_index_" in vars(one) or _is_a(one, _CHOOSE) for one in callers):
        leaks[Leak.CHOSEN] = "Use PrivateGridSearchCV, or choose on public records."
    if any(_is_a(one, _PICK) for one in callers):
        leaks[Leak.PICKED] = (
            "Fit to all records, or choose some without a look at them."
        )
    encoding = [type(one).__name__ for one in callers if _reads_classes(one)]
    if encoding:
        leaks[Leak.PRIVATE_CLASSES] = (
            f"Do not fit a private classifier in a {encoding[0]}, but by itself, with "
            "its classes declared."
        )
    return leaks


def frozen_around() -> bool:
    """Tell if a Pipeline around this fit has frozen steps before it, maybe inside."""
    pipelines = filter(_is_pipeline, _fitting_around())
    steps = [step for each in pipelines for _, step in _parts_before(each)]
    return any(_holds_frozen(step) for step in steps if not _is_ours(step))


def tell_leaks_around() -> tuple[Leak, ...]:
    """Return what was learned without noise around this fit, with a warning of each."""
    leaks = leaks_around()
    for leak, remedy in leaks.items():
        warn_caller(f"{LEAKS[leak]} {remedy}", PrivacyLeakWarning)
    return tuple(leaks)


def refuse_learned_around() -> None:
    """Refuse a sampler with pairs of other records behind what learns from these."""
    if parts := _learned_around(_fitting_around(), units=True):
        raise IncompatibleError(
            "A SensitivitySampler must not be fitted before, nor have a reference, "
            f"behind {parts}, which is fitted to other records on the way: neighbors "
            "would be sampled in other units, and one record moves what it makes of "
            "all others. Fit the whole to public records, or wrap "
            f"{parts} in a FrozenEstimator."
        )


def is_searched() -> bool:
    """Tell if a private search fits this, which has told what such steps are."""
    modules = (frame.f_globals.get("__name__", "") for frame in _frames())
    return any(name.startswith("skparisk.model_selection.") for name in modules)


def _fitting_around() -> Iterator[Any]:
    """Yield the objects, not of this package, of whose `fit` this is a part."""
    for frame in _frames():
        if frame.f_code.co_name.startswith(("fit", "partial_fit")):
            caller = frame.f_locals.get("self")
            ours = type(caller).__module__.startswith(_OURS)
            if hasattr(caller, "__dict__") and not ours:
                yield caller


def _learned_around(callers: Iterable[Any], *, units: bool = False) -> str:
    """Return the names of what they hold that has learned by now; "" for none.

    For `units`, private steps of a Pipeline as well, which are no leak.
    """
    names: list[str] = []
    for one in callers:
        names += _learned(_parts_before(one), private=units and _is_pipeline(one))
    return " and ".join(dict.fromkeys(names))


def _parts_before(caller: Any) -> list[tuple[Any, Any]]:
    """Return what a caller holds; of a Pipeline, steps before the one being fitted.

    Of clones, as where it has a `memory`, it is not known which one that is.
    """
    if not _is_pipeline(caller):
        return [*vars(caller).items()]
    now = {id(frame.f_locals.get("self")) for frame in _frames()}
    return [*takewhile(lambda step: id(step[1]) not in now, caller.steps)]


def _holds_frozen(step: Any) -> bool:
    inside = step.get_params().values() if hasattr(step, "get_params") else ()
    return any(isinstance(part, FrozenEstimator) for part in (step, *inside))


def _is_pipeline(caller: Any) -> bool:
    pipelines: Any = sys.modules.get("sklearn.pipeline")
    return pipelines is not None and isinstance(caller, pipelines.Pipeline)


def _learned(
    parts: Iterable[tuple[Any, Any]], *, private: bool = False
) -> Iterator[str]:
    """Yield the names of parts that have learned from records, maybe of `private` ones.

    Nothing that was frozen, or has nothing to learn.
    """
    for name, part in parts:
        if isinstance(part, list | tuple):
            # As steps are: (name, estimator).
            named = (one[:2] if _is_named(one) else (name, one) for one in part)
            yield from _learned(named, private=private)
        elif hasattr(part, "fit") and not _is_harmless(part, private):
            if _is_a(part, _PUT_TOGETHER):
                inside = ((name, one) for one in vars(part).values())
                yield from _learned(inside, private=private)
            elif _is_fitted(part):
                yield name


def _is_named(part: Any) -> bool:
    return isinstance(part, tuple) and len(part) > 1 and isinstance(part[0], str)


def _is_harmless(part: Any, private: bool) -> bool:
    """Tell if it learns nothing, or with noise unless `private` ones count as well.

    Of labels it is said elsewhere.
    """
    harmless = isinstance(part, type) or _is_a(part, _HARMLESS)
    return harmless or (_is_ours(part) and not private)


def _is_ours(part: Any) -> bool:
    return any(kind.__module__.startswith(_OURS) for kind in type(part).__mro__)


def _is_a(one: Any, names: tuple[str, ...]) -> bool:
    return any(kind.__name__ in names for kind in type(one).__mro__)


def _is_fitted(part: Any) -> bool:
    """Tell if there is something that it has learned."""
    if hasattr(part, "__sklearn_tags__") and not get_tags(part).requires_fit:
        return False
    if hasattr(part, "__sklearn_is_fitted__"):
        return bool(part.__sklearn_is_fitted__())
    names = getattr(part, "__dict__", ())
    return any(name.endswith("_") and name[0] != "_" for name in names)


def _reads_classes(caller: Any) -> bool:
    """Tell if it is of scikit-learn, and encodes labels as it finds them."""
    held = vars(caller)
    reads = "classes_" in held or any(_is_a(one, _ENCODERS) for one in held.values())
    return reads and type(caller).__module__.startswith("sklearn.")


def _frames() -> Iterator[FrameType]:
    """Yield what is on the stack, from here to the first caller."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
