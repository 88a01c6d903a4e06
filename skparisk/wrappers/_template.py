"""Estimators that answer from the released numbers and public records alone."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk._classes import PublicClasses
from skparisk.core.checks import IncompatibleError
from skparisk.queries import PredictionReader, Reader
from skparisk.queries._state import Numbers, fill, find_numbers
from skparisk.wrappers._finding import (
    METHODS,
    check_answers,
    find_released,
    main_methods,
    proven,
    put,
)
from skparisk.wrappers._public_steps import learns_structure

_AT_POINTS = "release its {} at public points, with release={!r} and X_public=..."


@dataclass(frozen=True, eq=False)
class Template:
    """A fit to public or made-up records, into which released numbers are put."""

    # Without what has an entry for each record; made-up numbers are NaN.
    fitted: Any
    # Where the released numbers go.
    places: tuple[str, ...]
    # For methods that cannot be served: places of numbers that they would take.
    needs: Mapping[str, tuple[str, ...]]

    @classmethod
    def find(
        cls,
        fits: Sequence[Any],
        base: Any,
        points: Any,
        known: bool,
    ) -> Self:
        """Find the least that has to be released to serve what an estimator is for."""
        kind = type(fits[0]).__name__
        methods = main_methods(fits[0])
        if not methods:
            raise ValueError(
                f"release='auto' does not know what {kind} is for, as it has none of "
                f"{', '.join(METHODS)}, and answers about no records but those that "
                "it is fitted to: take an estimator that has one, or name the fitted "
                "attributes to release."
            )
        check_answers(fits[0], points, methods)
        if methods == ("transform",) and learns_structure(fits[0]):
            raise IncompatibleError(
                f"What {kind} learns is no array of numbers, such as categories or "
                "chosen columns, and noise cannot be added to that. Fit it on public "
                "records, or let it be a step of a Pipeline, where that is done."
            )
        places = find_released(fits, points, methods)
        if not places and proven(fits, points, (), methods) == methods:
            raise IncompatibleError(
                f"release='auto' finds nothing that {kind} has learned: fits to "
                "several databases answer alike. If it learns nothing, it can be used "
                "as it is, or be a step of a Pipeline. Else fit it on public records, "
                "or name what to release."
            )
        found = cls.of(fits, base, points, places, known)
        missing = [name for name in methods if name in found.needs]
        if missing:
            raise IncompatibleError(_say_why_not(fits[0], missing))
        return found

    @classmethod
    def of(
        cls,
        fits: Sequence[Any],
        base: Any,
        points: Any,
        places: tuple[str, ...],
        known: bool,
    ) -> Self:
        """Return one more fit, `base`, as a template for numbers at these places.

        `known` tells if its other numbers may be used, as public ones.
        """
        fitted = _without_records(base, fits)
        if not known:
            _blank(fitted, fits[1:], places)
        served = proven([fitted, *fits[1:]], points, places)
        main = main_methods(fitted)
        needs = {
            # A method that returns labels hardly shows what they are from.
            name: find_released(fits, points, main if name in main else (name,))
            for name in METHODS
            if hasattr(fitted, name) and name not in served
        }
        return cls(fitted, places, needs)

    def serve(self, numbers: Numbers) -> Any:
        """Return a copy that answers from numbers in the place of its own."""
        served = copy.deepcopy(self.fitted)
        try:
            put(served, numbers)
        except AttributeError as error:
            raise ValueError(
                f"{' or '.join(numbers)} of {type(served).__name__} cannot be set, so "
                "it cannot serve the released numbers."
            ) from error
        return served

    def say_needs(self, method: str) -> str:
        """Say why a method is not served."""
        what = f"{method} of {type(self.fitted).__name__} needs"
        missing = [name for name in self.needs[method] if name not in self.places]
        if not missing:
            return f"{what} more than released numbers."
        release = (*self.places, *missing)
        return f"{what} {' and '.join(missing)} as well: give release={release!r}."


def _without_records(base: Any, fits: Sequence[Any]) -> Any:
    """Return a fit without attributes that have an entry for each record."""
    fitted = copy.deepcopy(base)
    for name in list(vars(fitted)):
        sizes = [_length(vars(fit).get(name)) for fit in fits]
        if name.endswith("_") and None not in sizes and sizes[0] != sizes[1]:
            delattr(fitted, name)
    return fitted


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, np.ndarray) and value.ndim else None


def _blank(fitted: Any, others: Sequence[Any], places: tuple[str, ...]) -> None:
    """Make numbers that were learned from made-up records NaN."""
    found = [find_numbers(other) for other in others]
    for place, values in find_numbers(fitted).items():
        learned = any(
            place in of and not np.array_equal(of[place], values, equal_nan=True)
            for of in found
        )
        if learned and place not in places:
            fill(fitted, {place: np.full_like(values, np.nan)})


def _say_why_not(fitted: Any, missing: Sequence[str]) -> str:
    remedy = "fit it on public records, and use it in a FrozenEstimator"
    if is_regressor(fitted):
        remedy = _AT_POINTS.format("predictions", "predict")
    elif is_classifier(fitted):
        remedy = _AT_POINTS.format("probabilities", "predict_proba")
        if not hasattr(fitted, "predict_proba"):
            remedy = f"wrap it in a CalibratedClassifierCV, and {remedy}"
    return (
        f"What {type(fitted).__name__} learned is no array of numbers of one shape, as "
        "in trees, or grows with the records, so that numbers cannot tell it, and "
        f"{' and '.join(missing)} cannot be served from a release: {remedy}."
    )


class ReleasedClassifier(ClassifierMixin, BaseEstimator):
    """Predicts with a surrogate that was fitted to released probabilities."""

    def __init__(self, surrogate: Any, classes: NDArray[Any]) -> None:
        self.surrogate = surrogate
        self.classes = classes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class."""
        return as_probabilities(self.surrogate.predict(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each class."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class."""
        return self.classes[self.predict_proba(X).argmax(axis=1)]


def as_probabilities(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers in [0, 1] that sum to 1 in each row; probabilities as they are."""
    clipped = np.clip(numbers, 0.0, 1.0)
    total = clipped.sum(axis=1, keepdims=True)
    uniform = np.full_like(clipped, 1 / clipped.shape[1])
    shares = np.divide(clipped, total, out=uniform, where=total > 0)
    exact = np.abs(total - 1) < 2.0**-40
    return np.where(exact & (clipped == numbers), numbers, shares)


def serve(
    model: Any,
    reader: Reader,
    released: Numbers,
    template: Template | None,
    labels: PublicClasses | None,
) -> Any:
    """Return an estimator that knows the released numbers, and public ones.

    Predictions at public points are served by a surrogate that is fitted to them.
    """
    if template is not None:
        return template.serve(released)
    assert isinstance(reader, PredictionReader)
    (values,) = released.values()
    surrogate = make_pipeline(StandardScaler(), KNeighborsRegressor(n_neighbors=1))
    if model.surrogate is not None:
        surrogate = clone(model.surrogate)
    if labels is None:
        return surrogate.fit(reader.points, values)
    surrogate.fit(reader.points, as_probabilities(values))
    return ReleasedClassifier(surrogate, labels.labels)
