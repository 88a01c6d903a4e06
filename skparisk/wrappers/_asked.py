"""What a private estimator asks of each database."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from skparisk._classes import PublicClasses
from skparisk.core.checks import IncompatibleError
from skparisk.core.release import silenced, without_values
from skparisk.core.sealed import Records
from skparisk.queries import AttributeReader, EstimatorQuery, PredictionReader, Reader
from skparisk.queries._addends import ClassAddend
from skparisk.queries._estimator import Align
from skparisk.queries._leaves import LeafQuery
from skparisk.queries._state import Numbers
from skparisk.reference import TableReference
from skparisk.reference._records import (
    Schema,
    as_numbers,
    as_records,
)
from skparisk.reference._sketch import RecordSketch
from skparisk.wrappers._forests import find_trees, make_leaf_query
from skparisk.wrappers._isotonic import make_isotonic_query
from skparisk.wrappers._methods import releases_predictions
from skparisk.wrappers._naive_bayes import make_bayes_query
from skparisk.wrappers._public_records import PublicRecords
from skparisk.wrappers._public_steps import freeze_structure
from skparisk.wrappers._ranges import find_ranges
from skparisk.wrappers._recipes import find_recipe
from skparisk.wrappers._served import serve
from skparisk.wrappers._template import Template


def make_query(
    model: Any,
    estimator: Any,
    public: PublicRecords,
    labels: PublicClasses | None,
    features: Records,
) -> EstimatorQuery | LeafQuery:
    """Return what is asked of each database; it is found on records that are public."""
    align = _check_align(model, estimator)
    if releases_predictions(model):
        points = _check_points(model, estimator, features)
        prepared, template = estimator, None
        fits = list(public.fits(prepared))
        reader: Reader = PredictionReader(model.release, points)
    else:
        if model.X_public is not None or model.surrogate is not None:
            raise ValueError(
                "X_public and surrogate must be None unless release is 'predict' "
                f"or 'predict_proba'; got release={model.release!r}."
            )
        names = None if model.release == "auto" else _check_names(model.release)
        if names is None and find_trees(estimator) is not None:
            proven = isinstance(model.sensitivity, str)
            level = float(model.epsilon) if proven else math.inf
            return make_leaf_query(estimator, public, labels, level)
        if isinstance(model.sensitivity, str):  # "bound", which others do not have
            if labels is None:
                return make_isotonic_query(estimator, public, float(model.epsilon))
            return make_bayes_query(estimator, public, labels)
        prepared, public_steps = freeze_structure(estimator, public)
        fits = list(public.fits(prepared))
        known = public.reference is not None
        if names is None:
            template = Template.find(fits, public.points, public_steps, known)
        else:
            AttributeReader(names)(fits[0])  # says what is no number
            template = Template.of(fits, public.points, names, public_steps, known)
        reader = AttributeReader(template.places)
    numbers = _read_public(reader, fits[0])
    public.check_repeatable(prepared, fits[0], reader)
    # Whether it can be served is found out before anything is released.
    serve(model, reader, numbers, template, labels)
    return EstimatorQuery(
        prepared,
        reader,
        {name: values.shape for name, values in numbers.items()},
        classes=None if labels is None else labels.numbers,
        labels=None if labels is None else labels.labels,
        align=align,
        anchor=_as_anchor(numbers, public) if _anchored(model, align) else None,
        asked=estimator,
        template=template,
        ranges=find_ranges(prepared, public, reader, fits),
    )


def ask_again(
    model: Any,
    estimator: Any,
    known: EstimatorQuery | LeafQuery,
    labels: PublicClasses | None,
    features: Records,
) -> EstimatorQuery | LeafQuery:
    """Return what a model asks, with places and shapes of a query that is sampled."""
    reader = None if isinstance(known, LeafQuery) else known.reader
    if known.template is None and not isinstance(reader, PredictionReader):
        raise IncompatibleError(
            f"The SensitivitySampler was fitted for {known} by itself, so that it has "
            "no fit to public records that the released numbers could be put into: "
            "give it before it is fitted, or as it was fitted by a PrivateEstimator."
        )
    if isinstance(known, LeafQuery):
        if model.release != "auto":
            raise IncompatibleError(
                f"The SensitivitySampler was fitted for {known}, with release='auto'; "
                f"got {model.release!r}."
            )
        addend = known.addend if labels is None else ClassAddend(labels.numbers)
        return replace(known, asked=estimator, addend=addend)
    assert reader is not None
    if releases_predictions(model):
        points = _check_points(model, estimator, features)
        reader = PredictionReader(model.release, points)
    elif model.release != "auto":
        reader = AttributeReader(_check_names(model.release))
    return EstimatorQuery(
        known.estimator,
        reader,
        known.shapes,
        classes=None if labels is None else labels.numbers,
        align=_check_align(model, estimator),
        asked=estimator,
    )


def _read_public(reader: Reader, fitted: Any) -> Numbers:
    """Return what is read from a fit to public records, if it can be released."""
    kind = type(fitted).__name__
    if not isinstance(reader, PredictionReader):
        return reader(fitted)
    try:
        with silenced():
            numbers = reader(fitted)
    except Exception as error:
        raise ValueError(
            f"{reader.method} of {kind}, fitted to public records, fails at X_public: "
            f"{without_values(str(error))}"
        ) from None
    if not np.isfinite(numbers[reader.method]).all():
        raise ValueError(
            f"{reader.method} of {kind}, fitted to public records, is not finite at "
            "some points of X_public. Leave these out, or set a parameter of it that "
            "says what is far from all records."
        )
    return numbers


def _check_align(model: Any, estimator: Any) -> Align | None:
    """Return what aligns fits: of predictions nothing has to be."""
    align = model.align
    if align == "auto":
        recipe = find_recipe(estimator)
        align = None if recipe is None else recipe.align
    if not (align is None or callable(align)):
        raise ValueError(
            "align must be 'auto', None or a callable (numbers, anchor) -> "
            f"numbers; got {model.align!r}."
        )
    return None if releases_predictions(model) else align


def _anchored(model: Any, align: Align | None) -> bool:
    return align is not None and math.isfinite(model.epsilon)


def _as_anchor(numbers: Numbers, public: PublicRecords) -> Numbers | None:
    """Return numbers to align others to; None where they mean nothing."""
    reference = public.reference
    if isinstance(reference, TableReference) and reference.sampling == "disjoint":
        raise ValueError(
            "align must be None if the reference has sampling='disjoint', because "
            "the records that others are aligned to would be used twice."
        )
    return None if reference is None else numbers


def _check_points(model: Any, estimator: Any, features: Records) -> Records:
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
    points = as_records(model.X_public, "X_public")
    shown = Schema.of(points)
    Schema.of(features).check_same(shown, "X_public", "X")
    if model.surrogate is None:
        if {*shown.kinds} - {"number", "boolean"}:
            raise ValueError(
                "surrogate must be given where X_public holds anything but numbers, "
                "because there is no nearest point then: such as a pipeline that "
                "encodes it. Got None."
            )
        as_numbers(points, "X_public")
    if RecordSketch.of(features).overlaps(RecordSketch.of(points)):
        raise ValueError(
            "X_public must be public and must not share records with the training "
            "data, because these would stay in the parameters and in what serves "
            "predictions."
        )
    return points


def _check_names(names: Any) -> tuple[str, ...]:
    """Return names of attributes."""
    several = isinstance(names, Sequence) and not isinstance(names, str)
    checked = tuple(names) if several else ()
    good = all(isinstance(name, str) and name for name in checked)
    if not several or not good or not 1 <= len(set(checked)) == len(checked):
        raise ValueError(
            "release must be a sequence of distinct names of fitted attributes, or "
            f"'auto', 'predict' or 'predict_proba'; got {names!r}."
        )
    return checked
