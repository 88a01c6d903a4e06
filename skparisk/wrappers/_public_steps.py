"""Steps of a pipeline that learn structure: they are fitted on public records.

Categories, vocabularies and chosen columns are no numbers that noise could be added
to, and decide the shape of what comes after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import Tags, get_tags

from skparisk.core.checks import IncompatibleError
from skparisk.core.release import silenced
from skparisk.core.sealed import copy_records, take_rows
from skparisk.neighbors import Database
from skparisk.queries._base import same_but_for
from skparisk.queries._estimator import has_parts
from skparisk.queries._state import find_places
from skparisk.reference import TableReference
from skparisk.reference._records import n_rows
from skparisk.wrappers._finding import (
    answer_alike,
    depends_on_whole_numbers,
    find_needed,
    proven,
)
from skparisk.wrappers._public_records import MOST_POINTS, PublicRecords

_NAMES = ("feature_names_in_", "n_features_in_")
_PERMUTATIONS, _MOST_PERMUTED = 4, 2**11
# Rows transformed alone, and the share by which they may differ from those in company.
_ALONE, _SAME = 8, 2.0**-40
# Times as large, mean square in deviations of rows that were fitted.
_LARGER = 1.5
_IDLE = ("passthrough", None)


@dataclass(frozen=True)
class PublicSteps:
    """Names of steps, as parameters of an estimator, that were fitted on the reference.

    Those of `supervised` looked at targets of records that pairs are sampled from.
    """

    names: tuple[str, ...] = ()
    supervised: tuple[str, ...] = ()

    def with_others(self, others: PublicSteps) -> PublicSteps:
        """Return these and others."""
        return PublicSteps(
            self.names + others.names, self.supervised + others.supervised
        )


class Front(NamedTuple):
    """The steps of a pipeline before its last, fitted on public records."""

    # With these steps frozen; as it is where there are none.
    estimator: Any
    steps: Pipeline | None = None
    public_steps: PublicSteps = PublicSteps()
    # Rows that they were not fitted to, which pairs have to be of.
    table: TableReference | None = None


def freeze_front(
    estimator: Any, public: PublicRecords, released: Sequence[str], *, paired: bool
) -> Front:
    """Fit the steps of a pipeline before its last on public records, and freeze them.

    Not if the reference is no table, a step has numbers that are to be released, or
    they do not transform each record by itself, so that they could not transform
    sampled neighbors alike. If they fit rows that they have seen better than others, as
    those that look at targets, they are fitted to half of the table where it is
    `paired`: pairs are drawn from it.
    """
    nothing, table = Front(estimator), public.reference_table
    if not isinstance(estimator, Pipeline) or table is None:
        return nothing
    front, last = estimator[:-1], estimator.steps[-1][1]
    own = tuple(f"steps.{step}." for step in front.named_steps)
    if last in _IDLE or not own or any(name.startswith(own) for name in released):
        return nothing
    try:
        fitted = _fit_front(front, public.whole)
        if not _transforms_alone(fitted, public.points):
            return nothing
    except Exception:
        return nothing  # the reason is shown where the whole pipeline is fitted
    inside = _steps(estimator)
    names = [name for step in front.steps for name in _names_of(step, inside, fitted)]
    apart = None
    if names and paired and public.is_resampled and _knows_its_rows(front, public):
        classes = public.whole[1] if is_classifier(estimator) else None
        rows, apart = table._split_off(classes)
        half = (take_rows(part, rows) for part in public.whole)
        fitted = _fit_front(front, tuple(half))
    frozen = {
        name: step if step in _IDLE else FrozenEstimator(step)
        for name, step in fitted.steps
    }
    prepared = clone(estimator).set_params(**frozen)
    return Front(prepared, prepared[:-1], PublicSteps(tuple(names)), apart)


def _fit_front(front: Pipeline, database: Database) -> Pipeline:
    X, y = database
    with silenced():
        return clone(front).fit(copy_records(X), y)


def _names_of(
    step: tuple[str, Any], inside: Sequence[str], fitted: Pipeline
) -> list[str]:
    """Return what a step is called, or transformers inside, if it has learned."""
    name, part = step
    if part in _IDLE or isinstance(part, FrozenEstimator):
        return []
    own = [each for each in inside if each.startswith(f"{name}__")]
    return own or [name] * (has_parts(part) or _learned(fitted.named_steps[name]))


def _transformed(front: Any, records: Any) -> Any:
    found = front.transform(copy_records(records))
    return np.asarray(found.toarray() if issparse(found) else found)


def _transforms_alone(front: Any, points: Any) -> bool:
    """Tell if records are transformed alike by themselves and among others."""
    together, n = _transformed(front, points), n_rows(points)
    if together.dtype.kind not in "biuf" or len(together) != n:
        return False
    mixed = np.random.default_rng(0).permutation(n)
    few = [mixed[row : row + 1] for row in range(min(n, _ALONE))]
    return all(
        same_but_for(
            _SAME, _transformed(front, take_rows(points, rows)), together[rows]
        )
        for rows in (*few, mixed[: n // 2], mixed[n // 2 :])
        if len(rows)
    )


def _knows_its_rows(front: Pipeline, public: PublicRecords) -> bool:
    """Tell if steps would transform rows otherwise, had they not been fitted to these.

    If other targets would change them; or if what a fit to half of the rows makes of
    the others is larger, so that pairs of new people are further apart.
    """
    rng = np.random.default_rng(0)
    X, y = _some_rows(public, rng)
    one = _fit_front(front, (X, y))
    for _ in range(0 if y is None else _PERMUTATIONS):  # some choose alike by chance
        other = _fit_front(front, (X, rng.permutation(y)))
        if not answer_alike(one, other, public.points, ("transform",)):
            return True
    half = n_rows(X) // 2
    seen, others = take_rows(X, slice(half)), take_rows(X, slice(half, None))
    one = _fit_front(front, (seen, take_rows(y, slice(half))))
    own, new = (_transformed(one, each).astype(float) for each in (seen, others))
    with np.errstate(all="ignore"):
        center, deviation = own.mean(axis=0), own.std(axis=0)
        moves = deviation > 0
        size = np.square((new - center)[:, moves] / deviation[moves]).mean()
    return bool(moves.any() and not size < _LARGER)


def freeze_structure(estimator: Any, public: PublicRecords) -> tuple[Any, PublicSteps]:
    """Return an estimator whose steps that learn structure are fitted and frozen.

    A step is frozen if it learned words, or arrays of several shapes; if it chooses
    columns; or if numbers of one shape do not tell what it learned.
    """
    names: list[str] = []
    supervised: list[str] = []
    while structure := _find_structure(estimator, public):
        if public.reference is None:
            raise IncompatibleError(
                f"{' and '.join(structure)} learned what is no array of numbers, such "
                "as categories, or what made-up records do not show, such as how to "
                "fill in what is missing: give X_reference, to fit such steps on "
                "public records."
            )
        supervised += _look_at_targets(estimator, structure, public)
        frozen = {name: FrozenEstimator(step) for name, step in structure.items()}
        estimator = clone(estimator).set_params(**frozen)
        names += structure
    return estimator, PublicSteps(tuple(names), tuple(supervised))


def _some_rows(public: PublicRecords, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return public records in a random order, some of many."""
    rows = rng.permutation(n_rows(public.whole[0]))[:_MOST_PERMUTED]
    X, y = public.whole
    return take_rows(X, rows), take_rows(y, rows)


def _look_at_targets(
    estimator: Any, structure: dict[str, Any], public: PublicRecords
) -> list[str]:
    """Return the steps that other targets of the table would change."""
    if public.whole[1] is None or not public.is_resampled:
        return []
    rng = np.random.default_rng(0)
    X, y = _some_rows(public, rng)
    steps = _steps(estimator)
    own = _watch(estimator, steps, public, (X, y))
    found: list[str] = []
    for _ in range(_PERMUTATIONS):  # by chance they choose the same columns
        other = _watch(estimator, steps, public, (X, rng.permutation(y)))
        found += [
            name
            for name in structure
            if name not in found
            and not answer_alike(
                own[name].step_,
                other[name].step_,
                own[name].records_,
                ("transform",),
            )
        ]
    return found


def learns_structure(fitted: Any) -> bool:
    """Tell if words, arrays of several shapes, or chosen columns or rows were learned.

    By the estimator itself, not by steps inside it.
    """
    if hasattr(fitted, "get_support") or hasattr(fitted, "component_indices_"):
        return True
    if has_parts(fitted):
        return False
    return any(map(_is_structure, _state(fitted).values()))


def _state(fitted: Any) -> dict[str, Any]:
    """Return what a fit has besides parameters and the names of its columns."""
    others = {*_NAMES, *fitted.get_params(deep=False)}
    return {
        name: value
        for name, value in vars(fitted).items()
        if name.endswith("_") and name not in others
    }


def _is_structure(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "OUS"
    if isinstance(value, dict):
        return any(isinstance(key, str) for key in value)
    ragged = isinstance(value, list | tuple)
    return ragged and any(isinstance(part, np.ndarray | list) for part in value)


def _find_structure(estimator: Any, public: PublicRecords) -> dict[str, Any]:
    """Return steps to freeze, as they are fitted on public records; or none."""
    steps = _steps(estimator)
    if not steps:
        return {}
    whole = _watch(estimator, steps, public, public.whole)
    fitted = {
        name: seen.step_
        for name, seen in whole.items()
        if name in steps
        and _learned(seen.step_)
        and (seen.transforms_ or not _predicts(seen.step_))
    }
    found = {name: step for name, step in fitted.items() if learns_structure(step)}
    if found:
        return found
    watched = [_watch(estimator, steps, public, drawn) for drawn in public.databases]
    for name, step in fitted.items():
        # One at a time: the next may be numbers once this one is frozen.
        if not _is_numbers([seen[name] for seen in watched]):
            return {name: step}
    return {}


def _is_numbers(seen: Sequence[_Watched]) -> bool:
    """Tell if numbers of one shape are all that a step learned from databases."""
    fits = [one.step_ for one in seen]
    points = seen[0].records_
    methods = ("transform",)
    needed = find_needed(fits, points, methods)
    return (
        bool(needed)
        and bool(proven(fits, points, needed, methods))
        and not depends_on_whole_numbers(fits[0], points, methods)
    )


def _predicts(step: Any) -> bool:
    """Tell if it may be a model as well, such as one that eliminates features."""
    return get_tags(step).estimator_type is not None and hasattr(step, "predict")


def _learned(step: Any) -> bool:
    """Tell if a fit has more than counts, such as that of columns."""
    return any(
        name[0] != "_" and not isinstance(value, int | str | None)
        for name, value in _state(step).items()
    )


def _steps(estimator: Any) -> list[str]:
    """Return the transformers inside an estimator, as names of parameters."""
    params = estimator.get_params(deep=True)
    parts = {
        name: part
        for name, part in params.items()
        if hasattr(part, "get_params") and not isinstance(part, type)
    }
    # What chooses columns does so as a whole, by whatever is inside; and what is not of
    # scikit-learn may do with a part what a frozen one refuses.
    whole = {
        name
        for name, part in parts.items()
        if hasattr(part, "get_support") or _holds(name, parts)
    }
    closed = tuple(
        f"{name}__"
        for name, part in parts.items()
        if name in whole or isinstance(part, FrozenEstimator)
    )
    return [
        name
        for name, part in parts.items()
        if not isinstance(part, FrozenEstimator)
        and not name.startswith(closed)
        and (name in whole or _only_transforms(name, parts))
    ]


def _holds(name: str, parts: Mapping[str, Any]) -> bool:
    """Tell if a transformer has others inside, which it uses in a way of its own."""
    part = parts[name]
    inside = any(
        other.startswith(f"{name}__") and hasattr(parts[other], "transform")
        for other in parts
    )
    known = isinstance(part, Pipeline | ColumnTransformer | FeatureUnion)
    return inside and hasattr(part, "transform") and not (known or _predicts(part))


def _only_transforms(name: str, parts: Mapping[str, Any]) -> bool:
    """Tell if a part is a transformer, and has none inside."""
    part = parts[name]
    inside = [parts[other] for other in parts if other.startswith(f"{name}__")]
    return (
        not any(hasattr(other, "transform") for other in inside)
        and hasattr(part, "transform")
        and not _predicts(part)
    )


def _watch(
    estimator: Any, steps: Sequence[str], public: PublicRecords, database: Database
) -> dict[str, _Watched]:
    """Return the steps of a fit, with the records that each was fitted to."""
    params = estimator.get_params(deep=True)
    spied = {name: _Watched(params[name], name) for name in steps}
    fitted = public.fit(clone(estimator).set_params(**spied), database)
    found: dict[str, _Watched] = {}
    for _, value in find_places(fitted):
        if isinstance(value, _Watched) and hasattr(value, "step_"):
            found.setdefault(value.name, value)
    return found


def _first_of(X: Any) -> Any:
    """Return some records that do not keep all the others in memory."""
    return copy_records(take_rows(X, slice(MOST_POINTS)))


_OWN = ("step", "step_", "name", "records_", "transforms_")


class _Watched(BaseEstimator):
    """A step that is fitted as without this, and shows what it was fitted to."""

    def __init__(self, step: Any, name: str) -> None:
        self.step = step
        self.name = name

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        self.records_, self.transforms_ = _first_of(X), False
        self.step_ = clone(self.step).fit(X, y, **params)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        self.records_, self.transforms_ = _first_of(X), True
        self.step_ = clone(self.step)
        if not hasattr(self.step_, "fit_transform"):
            return self.step_.fit(X, y, **params).transform(X)
        return self.step_.fit_transform(X, y, **params)

    def __getattr__(self, name: str) -> Any:
        if name in _OWN or name.startswith("__"):
            raise AttributeError(name)
        return getattr(vars(self).get("step_", self.step), name)

    def __sklearn_tags__(self) -> Tags:
        return get_tags(self.step)
