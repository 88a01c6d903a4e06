"""Steps of pipelines, fitted on public records and frozen.

Noise on the numbers of a scaler or an imputer would cost accuracy. Categories,
vocabularies and chosen columns are no numbers, and decide the shape of later steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from skparisk.core.checks import IncompatibleError
from skparisk.core.release import silenced
from skparisk.core.sealed import copy_records, take_rows
from skparisk.neighbors import Database
from skparisk.queries._base import same_but_for
from skparisk.queries._estimator import has_parts
from skparisk.queries._state import find_places
from skparisk.reference import TableReference
from skparisk.reference._base import RecordPool
from skparisk.reference._records import n_rows
from skparisk.wrappers._finding import answer_alike
from skparisk.wrappers._public_records import PublicRecords, spread_rows

_NAMES = ("feature_names_in_", "n_features_in_")
_PERMUTATIONS, _MOST_PERMUTED = 4, 2**11
# Rows transformed alone, and the share by which they may differ from those in company.
_ALONE, _SAME = 8, 2.0**-40
# Times as large, mean square in deviations of rows that were fitted.
_LARGER = 1.5
# Share of new rows that are rare, such as those of a category.
_RARE = 0.1
_IDLE = ("passthrough", None)
# Parts fitted to predictions of others.
_NOT_OF_RECORDS = ("final_estimator",)


@dataclass(frozen=True)
class PublicSteps:
    """Names of steps, as parameters of an estimator, that were fitted on the reference.

    Those of `supervised` fit the records for pairs better than new ones.
    """

    names: tuple[str, ...] = ()
    supervised: tuple[str, ...] = ()


class Prepared(NamedTuple):
    """An estimator with public steps."""

    # With these steps frozen; as it is where there are none.
    estimator: Any
    # All steps but the last, where they transform each record by itself.
    front: Pipeline | None = None
    public_steps: PublicSteps = PublicSteps()
    # Rows for pairs: the steps were not fitted to them.
    table: TableReference | None = None


class _Fitted(NamedTuple):
    """Steps that are fitted together, by the names of parameters."""

    steps: dict[str, Any]
    # The steps of a pipeline before its last, not fitted, and what they are fitted to.
    front: tuple[Pipeline, Database] | None = None


def freeze_steps(
    estimator: Any,
    public: PublicRecords,
    released: Sequence[str],
    *,
    paired: bool,
    noisy: bool,
) -> Prepared:
    """Fit the steps of pipelines before their last on public records, and freeze them.

    Also of pipelines inside a model, if it can be fitted with such steps. Without
    noise, or if numbers of a step are `released`, only learned structure is frozen: a
    step, or members of a ColumnTransformer or FeatureUnion. Members of one at the end
    are frozen as well.

    If steps fit rows that they have seen better than others, as those that look at
    targets do, they are fitted to half of the table where pairs are drawn from it
    (`paired`): these are drawn from the other half.

    Raises
    ------
    IncompatibleError
        If a step learns structure, and there is no reference.
    """
    found = list(_fit_fronts(estimator, public.whole))
    if public.reference is None:
        fitted = [step for each in found for step in each.steps.items()]
        if learned := [name for name, step in fitted if _has_structure(step)]:
            raise IncompatibleError(
                f"{' and '.join(learned)} learned what is no array of numbers, such as "
                "categories: give X_reference, to fit such steps on public records."
            )
        return Prepared(estimator)

    def chosen(found: Sequence[_Fitted]) -> dict[str, Any]:
        frozen: dict[str, Any] = {}
        for name, step in (item for each in found for item in each.steps.items()):
            asked = any(place.startswith(f"steps.{name}.") for place in released)
            whole = noisy and not asked
            frozen |= {name: step} if whole else _find_structure(name, step)
        return frozen

    steps, apart, known = chosen(found), None, False
    pool, table = public.pool, public.table if paired else None
    if steps and table and any(_knows_its_rows(each, pool) for each in found):
        classes = pool.y if is_classifier(estimator) else None
        half, others = table._split_off(classes)
        try:
            steps = chosen(list(_fit_fronts(estimator, pool.take(half))))
            apart = others
        except Exception:  # half is too little: what they know is said
            known = True
    prepared = _with_frozen(estimator, steps)
    if any("__" in name for name in steps):
        try:  # some models refuse what is frozen inside of them
            public.fit(prepared, public.first)
        except ValueError:
            steps = {name: step for name, step in steps.items() if "__" not in name}
            prepared = _with_frozen(estimator, steps)
    names = tuple(name for name, step in steps.items() if _learned(step))
    told = PublicSteps(names, names if known else ())
    return Prepared(prepared, _front_of(prepared, public), told, apart)


def _with_frozen(estimator: Any, steps: dict[str, Any]) -> Any:
    frozen = {name: FrozenEstimator(step) for name, step in steps.items()}
    return clone(estimator).set_params(**frozen) if frozen else estimator


def _fit_fronts(
    estimator: Any, database: Database, prefix: str = ""
) -> Iterator[_Fitted]:
    """Fit steps of pipelines to public records, and members that learn structure."""
    X, y = database
    if isinstance(estimator, Pipeline):
        places = [
            at for at, (_, step) in enumerate(estimator.steps) if step not in _IDLE
        ]
        at = max(places, default=0)  # of the last step that does anything
        front, last, steps = estimator[:at], estimator.steps[at], {}
        with silenced():
            prepared = copy_records(X)
            for name, step in front.steps:
                if step in _IDLE:
                    continue
                fitted = step if isinstance(step, FrozenEstimator) else clone(step)
                if hasattr(fitted, "fit_transform"):
                    prepared = fitted.fit_transform(prepared, y)
                else:
                    prepared = fitted.fit(prepared, y).transform(prepared)
                if fitted is not step:
                    steps[prefix + name] = fitted
        if steps:
            yield _Fitted(steps, (front, database))
        yield from _fit_fronts(last[1], (prepared, y), f"{prefix}{last[0]}__")
    elif isinstance(estimator, ColumnTransformer | FeatureUnion):
        with silenced():
            whole = clone(estimator).fit(copy_records(X), y)
        yield _Fitted(_find_structure(prefix.removesuffix("__"), whole))
    elif _passes_records_on(estimator):
        for name, part in estimator.get_params().items():
            if "__" in name or not hasattr(part, "predict") or name in _NOT_OF_RECORDS:
                continue
            with suppress(Exception):  # its model may fit it to something else
                yield from list(_fit_fronts(part, database, f"{prefix}{name}__"))


def _passes_records_on(estimator: Any) -> bool:
    """Tell if models inside a model are fitted to its records, of the same columns."""
    chooses = getattr(estimator, "bootstrap_features", False)
    chooses |= hasattr(estimator, "get_support")
    ours = type(estimator).__module__.startswith("sklearn.")
    return ours and hasattr(estimator, "predict") and not chooses


def _find_structure(name: str, step: Any) -> dict[str, Any]:
    """Return a fitted step if it learned structure, or the members of it that did."""
    if isinstance(step, FrozenEstimator) or not hasattr(step, "get_params"):
        return {}
    if not isinstance(step, ColumnTransformer | FeatureUnion):
        return {name: step} if _has_structure(step) else {}
    union = isinstance(step, FeatureUnion)
    members = step.named_transformers if union else step.named_transformers_
    found: dict[str, Any] = {}
    for inside, member in members.items():
        found |= _find_structure(f"{name}__{inside}".removeprefix("__"), member)
    return found


def _front_of(prepared: Any, public: PublicRecords) -> Pipeline | None:
    """Return the steps before the last, if records are transformed by themselves.

    Also those of a pipeline that is the last step, by the names of parameters.
    """
    steps: list[tuple[str, Any]] = []
    last, prefix = prepared, ""
    while isinstance(last, Pipeline):
        steps += [(prefix + name, step) for name, step in last.steps[:-1]]
        name, last = last.steps[-1]
        prefix += f"{name}__"
    frozen = all(
        step in _IDLE or isinstance(step, FrozenEstimator) for _, step in steps
    )
    if not (steps and frozen):
        return None
    front = Pipeline(steps)
    try:  # all records, and a database of them
        alone = _transforms_alone(front, public.whole[0])
        if alone and public.first is not public.whole:
            alone = _transforms_alone(front, public.first[0])
        return front if alone else None
    except Exception:  # some refuse a single record, or return other than numbers
        return None


def _transformed(front: Any, records: Any) -> Any:
    found = front.transform(copy_records(records))
    return np.asarray(found.toarray() if issparse(found) else found)


def _transforms_alone(front: Any, points: Any) -> bool:
    """Tell if records are transformed alike by themselves and among others."""
    together, n = _transformed(front, points), n_rows(points)
    mixed = np.random.default_rng(0).permutation(n)
    few = [mixed[row : row + 1] for row in range(min(n, _ALONE))]
    return all(
        _are_alike(_transformed(front, take_rows(points, rows)), together[rows])
        for rows in (*few, mixed[: n // 2], mixed[n // 2 :])
        if len(rows)
    )


def _are_alike(one: Any, other: Any) -> bool:
    """Tell if numbers are the same but for rounding, column by column."""
    columns = zip(one.T, other.T, strict=True)
    return all(same_but_for(_SAME, *column) for column in columns)


def _knows_its_rows(found: _Fitted, whole: RecordPool) -> bool:
    """Tell if steps would transform rows otherwise, had they not been fitted to these.

    If other targets would change them; or if what a fit to half of the rows makes of
    the others is larger, so that pairs of new people are further apart. Or if that
    cannot be told, of other than numbers, or as they cannot be fitted to half.
    """
    if found.front is None or not any(map(_learned, found.steps.values())):
        return False
    try:
        front, database = found.front
        return _differs_on_others(front, whole.like(*database))
    except Exception:
        return True


def _differs_on_others(front: Pipeline, pool: RecordPool) -> bool:
    def fitted(X: Any, y: Any) -> Pipeline:
        with silenced():
            return clone(front).fit(copy_records(X), y)

    rng = np.random.default_rng(0)
    points = spread_rows(pool.X)
    pool = pool.part(rng.permutation(pool.n_records)[:_MOST_PERMUTED])
    X: Any = pool.X
    y: Any = pool.y
    one = fitted(X, y)
    for _ in range(0 if y is None else _PERMUTATIONS):  # some choose alike by chance
        other = fitted(X, rng.permutation(y))
        if not answer_alike(one, other, points, ("transform",)):
            return True
    # By people, whose rows may be alike.
    half = pool.n_records // 2
    seen, targets = pool.take(slice(half))
    others, _ = pool.take(slice(half, None))
    one = fitted(seen, targets)
    own = _transformed(one, seen)
    try:
        new = _transformed(one, others)
    except ValueError:  # such as of a category: it does so of private records, too
        return False
    if own.dtype.kind not in "biuf":
        return True
    with np.errstate(all="ignore"):
        center, deviation = own.mean(axis=0), own.std(axis=0)
        moves = deviation > 0
        size = np.square((new - center)[:, moves] / deviation[moves]).mean()
        apart = (new != center)[:, ~moves].mean(axis=0)
    larger = bool(moves.any() and not size < _LARGER)
    return larger or bool((apart > _RARE).any())


def _has_structure(fitted: Any) -> bool:
    """Tell if a step learned structure, or a part of it did."""
    inside = [part for _, part in find_places(fitted) if hasattr(part, "get_params")]
    return any(map(learns_structure, (fitted, *inside)))


def learns_structure(fitted: Any) -> bool:
    """Tell if words, arrays of several shapes, or chosen columns or rows were learned.

    By the estimator itself, not by steps inside it.
    """
    if hasattr(fitted, "get_support") or hasattr(fitted, "component_indices_"):
        return True
    if getattr(fitted, "indicator_", None) is not None:
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


def _learned(step: Any) -> bool:
    """Tell if a fit has more than counts, such as that of columns."""
    return has_parts(step) or any(
        name[0] != "_" and not isinstance(value, int | str | None)
        for name, value in _state(step).items()
    )
