"""What a private estimator asks of each database, and takes from a public one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, get_tags

from skparisk._classes import PublicClasses
from skparisk.exceptions import IncompatibleError
from skparisk.queries import AttributeReader, EstimatorQuery, PredictionReader, Reader
from skparisk.queries._estimator import describe_candidates
from skparisk.reference._sketch import RecordSketch
from skparisk.wrappers._first_fit import FirstFit
from skparisk.wrappers._methods import releases_predictions
from skparisk.wrappers._recipes import Recipe

__all__ = ["UNKNOWN", "make_query", "read_public"]

# For an estimator without a recipe: all that is released is named.
UNKNOWN = Recipe(lambda estimator: ())


def make_query(
    model: Any,
    estimator: Any,
    recipe: Recipe,
    first: FirstFit,
    labels: PublicClasses | None,
    features: NDArray[np.float64],
) -> EstimatorQuery:
    """Return what is asked of each database."""
    if releases_predictions(model):
        reader: Reader = PredictionReader(
            model.release, _check_points(model, estimator, features)
        )
        align = None
    else:
        if model.X_public is not None or model.surrogate is not None:
            raise ValueError(
                "X_public and surrogate must be None unless release is 'predict' "
                f"or 'predict_proba'; got release={model.release!r}."
            )
        reader = AttributeReader(_choose_names(model, recipe, first))
        align = recipe.align if model.align == "auto" else model.align
    if not (align is None or callable(align)):
        raise ValueError(
            "align must be 'auto', None or a callable (numbers, anchor) -> "
            f"numbers; got {model.align!r}."
        )
    numbers = reader(first.fitted)
    first.check_repeatable(reader)
    anchored = align is not None and math.isfinite(model.epsilon)
    return EstimatorQuery(
        estimator,
        reader,
        {name: values.shape for name, values in numbers.items()},
        classes=None if labels is None else labels.numbers,
        labels=None if labels is None else labels.labels,
        align=align,
        anchor=first.as_anchor(numbers) if anchored else None,
    )


def _choose_names(model: Any, recipe: Recipe, first: FirstFit) -> tuple[str, ...]:
    names = model.release
    if isinstance(names, str) and names == "auto":
        if recipe is UNKNOWN:
            raise ValueError(
                f"release='auto' does not know {type(model.estimator).__name__}: "
                "name the fitted attributes to release, from "
                f"{describe_candidates(first.fitted)}; or release predictions at "
                "public points, with release='predict' or 'predict_proba'."
            )
        names = recipe.names(first.fitted)
        if not names:
            raise ValueError(
                f"release='auto' finds nothing that {first.fitted} has learned."
            )
        return names
    return _check_names(names, "release", at_least=1)


def _check_points(
    model: Any, estimator: Any, features: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the public points of predictions, for an estimator that has them."""
    kind = get_tags(estimator).estimator_type
    wanted = {"predict": "regressor", "predict_proba": "classifier"}[model.release]
    if kind != wanted or not hasattr(estimator, model.release):
        raise ValueError(
            "release must be 'predict' for regressors and 'predict_proba' for "
            f"classifiers that have it; got {model.release!r} for the {kind} "
            f"{type(estimator).__name__}."
        )
    if model.X_public is None:
        raise ValueError(f"X_public must be given with release={model.release!r}.")
    points = check_array(model.X_public, dtype=np.float64, input_name="X_public")
    if points.shape[1] != model.n_features_in_:
        raise IncompatibleError(
            f"X_public has {points.shape[1]} features, but X has "
            f"{model.n_features_in_}: the numbers must be equal."
        )
    if RecordSketch.of(points).overlaps(RecordSketch.of(features)):
        raise ValueError(
            "X_public must be public and must not share records with the training "
            "data, because these would stay in the parameters and in what serves "
            "predictions."
        )
    names = getattr(model, "feature_names_in_", None)
    columns = getattr(model.X_public, "columns", None)
    if names is not None and columns is not None and list(columns) != list(names):
        raise IncompatibleError(
            f"X_public has the columns {list(columns)}, but X has {list(names)}: "
            "they must be the same, in the same order."
        )
    return points


def read_public(model: Any, first: FirstFit, query: EstimatorQuery) -> dict[str, Any]:
    """Return further attributes of the fit on public records."""
    names = _check_names(model.public_attributes, "public_attributes", at_least=0)
    if names and not first.is_public:
        raise ValueError(
            "public_attributes are taken from a fit on public records, but there "
            "is no reference: give X_reference, or a sampler with a reference."
        )
    twice = [name for name in names if name in query.shapes]
    if twice:
        raise ValueError(f"public_attributes are already released: {twice}.")
    missing = [name for name in names if not hasattr(first.fitted, name)]
    if missing:
        raise ValueError(
            "public_attributes are not attributes of a fitted "
            f"{type(first.fitted).__name__}: {missing}."
        )
    return {name: getattr(first.fitted, name) for name in names}


def _check_names(names: Any, parameter: str, at_least: int) -> tuple[str, ...]:
    """Return names of attributes."""
    several = isinstance(names, Sequence) and not isinstance(names, str)
    checked = tuple(names) if several else ()
    good = all(isinstance(name, str) and name for name in checked)
    if not several or not good or not at_least <= len(set(checked)) == len(checked):
        others = ", or 'auto', 'predict' or 'predict_proba'" if at_least else ""
        raise ValueError(
            f"{parameter} must be a sequence of distinct names of fitted "
            f"attributes{others}; got {names!r}."
        )
    return checked
