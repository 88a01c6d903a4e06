"""Which numbers of a fitted estimator are released: they are found, not listed.

Fits to several public databases tell what was learned. What answers depend on is found
by changing it, and that it is enough is shown by putting it into another fit, which
then has to answer as the one that it was taken from.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from skparisk.core.release import silenced
from skparisk.queries._base import same_but_for
from skparisk.queries._state import (
    Numbers,
    fill,
    find_numbers,
    parent_of,
    read,
)
from skparisk.wrappers._recipes import complete, find_recipe

Answer: TypeAlias = NDArray[Any] | Exception

# What answers about records, and so can be compared.
METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
    "score_samples",
    "score",
    "inverse_transform",
    "sample",
)
_SAMPLED = 5
# Of the largest number: what sums in another order, and a mended number, may differ.
_SAME = 1e-9
_TRIES = 5
_SUPERVISED = ("classifier", "regressor")
# What a linear model learns, also where it is zero for all databases that were seen.
_ALWAYS = ("coef_", "intercept_")


def main_methods(fitted: Any) -> tuple[str, ...]:
    """Return the methods of a fitted estimator that a release has to serve."""
    kind = get_tags(fitted).estimator_type
    wanted: tuple[str, ...] = ("predict", "predict_proba", "score_samples")
    if kind in _SUPERVISED:
        wanted = ("predict", "predict_proba", "decision_function")
    elif kind == "outlier_detector":
        wanted = ("predict", "decision_function", "score_samples")
    elif kind == "clusterer" and hasattr(fitted, "predict"):
        wanted = ("predict",)
    elif hasattr(fitted, "transform"):
        wanted = ("transform",)
    found = tuple(name for name in wanted if hasattr(fitted, name))
    return found or (("score",) if hasattr(fitted, "score") else ())


def check_answers(fitted: Any, points: Any, methods: tuple[str, ...]) -> None:
    """Raise ValueError if a method does not answer about public records."""
    for name, answer in zip(methods, _answers(fitted, points, methods), strict=True):
        if isinstance(answer, Exception):
            raise ValueError(
                f"{name} of {type(fitted).__name__} fails on public records: {answer}"
            ) from answer


def find_released(
    fits: Sequence[Any], points: Any, methods: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the places of the numbers that methods need of a fit to other records.

    None, where they depend on nothing that differs among the fits. Whether they are
    enough is told by `proven`.
    """
    found = find_needed(fits, points, methods)
    places: list[str] = []
    for place in found:
        parent = parent_of(place)
        recipe = find_recipe(_at(fits[0], parent))
        if recipe is None or recipe.names is None:
            wanted: Iterable[str] = (place,)
        else:  # in the place of those that were found
            names = recipe.names
            wanted = (f"{parent}.{name}" if parent else name for name in names)
        places += [name for name in wanted if name not in places]
    return tuple(places)


def find_needed(
    fits: Sequence[Any], points: Any, methods: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the places of learned numbers that the answers of methods depend on."""
    first, *others = [find_numbers(fitted) for fitted in fits]
    learned = [
        place
        for place, values in first.items()
        if all(place in of and of[place].shape == values.shape for of in others)
        and _is_learned(fits[0], place, [values, *(of[place] for of in others)])
    ]
    changed = copy.deepcopy(fits[-1])
    expected = _answers(changed, points, methods)
    rng = np.random.default_rng(0)

    def matter(places: list[str]) -> list[str]:
        """Return those of some places that change an answer, by halves."""
        for attempt in range(_TRIES):
            far = 4.0**attempt  # labels change only at some distance
            moved = {name: _moved(others[-1][name], far, rng) for name in places}
            fill(changed, moved)
            same = _agree(_answers(changed, points, methods), expected)
            fill(changed, {name: others[-1][name] for name in places})
            if not same:
                break
        else:
            return []
        if len(places) == 1:
            return places
        half = len(places) // 2
        return matter(places[:half]) + matter(places[half:])

    return tuple(matter(learned)) if learned else ()


def proven(
    fits: Sequence[Any],
    points: Any,
    places: Sequence[str],
    methods: Iterable[str] = METHODS,
) -> tuple[str, ...]:
    """Return the methods that need nothing but the numbers at these places.

    The first fit, with the numbers of each other one, answers as that other one.
    """
    found = [name for name in methods if hasattr(fits[0], name)]
    for fitted in fits[1:]:
        numbers = find_numbers(fitted)
        moved = copy.deepcopy(fits[0])
        if not all(place in numbers for place in places):
            return ()
        put(moved, {place: numbers[place] for place in places})
        found = [
            name
            for name in found
            if _agree(
                _answers(moved, points, (name,)), _answers(fitted, points, (name,))
            )
        ]
    return tuple(found)


def answer_alike(one: Any, other: Any, points: Any, methods: tuple[str, ...]) -> bool:
    """Tell if two fits answer alike about the same records."""
    return _agree(_answers(one, points, methods), _answers(other, points, methods))


def put(fitted: Any, numbers: Numbers) -> None:
    """Put numbers into a fitted estimator, with what follows from them."""
    fill(fitted, numbers)
    for parent in dict.fromkeys(map(parent_of, numbers)):
        holder = _at(fitted, parent)
        own = {
            place.rpartition(".")[2]: values
            for place, values in numbers.items()
            if parent_of(place) == parent
        }
        for name, value in complete(holder, own).items():
            setattr(holder, name, value)


def _at(fitted: Any, place: str) -> Any:
    return read(fitted, place) if place else fitted


def _is_learned(fitted: Any, place: str, values: Sequence[NDArray[np.float64]]) -> bool:
    if any(not np.array_equal(values[0], v, equal_nan=True) for v in values[1:]):
        return True
    name = place.rpartition(".")[2]
    if name not in _ALWAYS or not values[0].ndim:
        return False
    holder = _at(fitted, parent_of(place))
    return name == "coef_" or bool(getattr(holder, "fit_intercept", True))


def _moved(
    values: NDArray[np.float64], far: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return other numbers, of about the same size unless they are moved far."""
    size = np.abs(values).max(initial=0.0, where=np.isfinite(values)) or 1.0
    factors = 1 + 0.5 * rng.uniform(-1, 1, values.shape)
    further = 0.5 * far * size * rng.uniform(-1, 1, values.shape)
    return np.asarray(values * factors + further)


def _answers(fitted: Any, points: Any, methods: Iterable[str]) -> list[Answer]:
    found: list[Answer] = []
    for name in methods:
        try:
            with np.errstate(all="ignore"), silenced():
                found.append(_as_array(_ask(fitted, name, copy.deepcopy(points))))
        except Exception as error:  # numbers that were moved may make no sense to it
            found.append(error)
    return found


def _ask(fitted: Any, method: str, points: Any) -> Any:
    if method == "sample":
        return fitted.sample(_SAMPLED)
    if method == "score" and get_tags(fitted).estimator_type in _SUPERVISED:
        return fitted.predict(points)  # is all that it depends on
    if method == "inverse_transform":
        points = fitted.transform(points)
    return getattr(fitted, method)(points)


def _as_array(answer: Any) -> NDArray[Any]:
    if hasattr(answer, "tocsr"):  # of as many columns as there are hashes, maybe
        rows = answer.tocsr()
        rows.sort_indices()
        return np.concatenate([rows.shape, rows.indptr, rows.indices, rows.data])
    if isinstance(answer, list | tuple):  # an array for each target
        return np.concatenate([np.ravel(_as_array(part)) for part in answer])
    return np.asarray(answer)


def _agree(answers: Sequence[Answer], expected: Sequence[Answer]) -> bool:
    return all(_are_same(*pair) for pair in zip(answers, expected, strict=True))


def _are_same(one: Answer, other: Answer) -> bool:
    if isinstance(one, Exception) or isinstance(other, Exception):
        return False
    if one.dtype.kind not in "fc" or other.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    return same_but_for(_SAME, one, other)
