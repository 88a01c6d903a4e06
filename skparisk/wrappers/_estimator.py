"""PrivateEstimator: any scikit-learn estimator, released once with noise.

A third of it is docstrings; methods are in the order in which a fit takes them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags

from skparisk._checks import check_max_rows
from skparisk._classes import PublicClasses, tell_classes
from skparisk._fitted import whole_fit
from skparisk._fitted_parts import (
    find_fitted_parts,
    refuse_frozen_on,
    warn_fitted_parts,
)
from skparisk._private import PrivateMixin
from skparisk._private_data import validate_private_records
from skparisk._public_fit import NoiseCost
from skparisk._simulated import is_simulated
from skparisk._threads import one_thread
from skparisk._training_data import (
    Groups,
    RowWeights,
    SensitivitySource,
    TrainingData,
    public_table,
    read_as_public,
    reference_table,
)
from skparisk._words import PROVISOS
from skparisk.core.checks import (
    IncompatibleError,
    check_at_least,
    check_random_state,
    is_number,
    warn_caller,
)
from skparisk.core.claim import Assumption, Leak
from skparisk.core.exact import noise_source
from skparisk.core.release import hide_values, silenced, without_values
from skparisk.core.sealed import Records, rows_of
from skparisk.exceptions import ReferenceWarning
from skparisk.linear_model._correction import CorrectionMixin, PublicStart
from skparisk.queries import AttributeReader, EstimatorQuery, PredictionReader, Reader
from skparisk.queries._estimator import (
    has_parts,
    repeatable,
    takes_targets,
    weight_parameter,
)
from skparisk.queries._leaves import ClassAddend, LeafQuery
from skparisk.queries._state import Numbers, Unpadded, blank_padding
from skparisk.reference import TableReference, as_reference
from skparisk.reference._records import Schema, as_numbers, as_records
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity import KnownSensitivity, SensitivitySampler
from skparisk.wrappers._forests import (
    LeafTemplate,
    find_centers,
    find_trees,
    make_centers_query,
    make_leaf_query,
)
from skparisk.wrappers._linear_steps import LinearStepQuery, linear_step
from skparisk.wrappers._methods import ServedMethods, releases_predictions
from skparisk.wrappers._public import Prepared, PublicRecords, PublicSteps, freeze_steps
from skparisk.wrappers._template import Template, find_align, serve


def make_query(
    model: Any,
    estimator: Any,
    public: PublicRecords,
    labels: PublicClasses | None,
    features: Records,
    steps: Prepared,
) -> tuple[EstimatorQuery, Any]:
    """Return the query, found on public records alone, and a fit to these."""
    align, prepared = find_align(estimator), steps.estimator
    if releases_predictions(model):
        align = None
        points, template = _check_points(model, estimator, features), None
        fits, base = public.fits_and_base(prepared)
        reader: Reader = PredictionReader(model.release, points)
    else:
        if model.X_public is not None or model.surrogate is not None:
            raise ValueError(
                "X_public and surrogate must be None unless release is 'predict' "
                f"or 'predict_proba'; got release={model.release!r}."
            )
        names = released_names(model)
        fits, base = public.fits_and_base(prepared)
        known = public.reference is not None
        if names is not None:
            AttributeReader(names)(base)  # says what is no number
        template = Template.of(fits, base, public.points, names, known)
        reader = AttributeReader(template.places)
    numbers = _read_public(reader, base)
    public.check_repeatable(prepared, fits[0], reader)
    # Whether it can be served is found out before anything is released.
    serve(model, reader, numbers, template, labels)
    # Made-up numbers mean nothing, and without noise nothing is aligned.
    anchored = public.reference is not None and math.isfinite(model.epsilon)
    query = EstimatorQuery(
        prepared,
        reader,
        {name: values.shape for name, values in numbers.items()},
        classes=None if labels is None else labels.numbers,
        labels=None if labels is None else labels.labels,
        align=align,
        anchor=numbers if anchored else None,
        asked=estimator,
        template=template,
        front=steps.front,
        public_steps=steps.public_steps,
    )
    return query, base


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
    elif (names := released_names(model)) is not None:
        reader = AttributeReader(names)
    classes = None if labels is None else labels.numbers
    return replace(
        known, asked=estimator, reader=reader, classes=classes, sample_weights=None
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
    if model.surrogate is not None and is_classifier(model.surrogate):
        raise ValueError(
            "surrogate must be a regressor, which learns probabilities as well; got "
            f"{model.surrogate!r}."
        )
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


def released_names(model: Any) -> tuple[str, ...] | None:
    """Return the attributes that are released, if they are given by their names."""
    names = model.release
    if names == "auto" or releases_predictions(model):
        return None
    several = isinstance(names, Sequence) and not isinstance(names, str)
    checked = tuple(names) if several else ()
    good = all(isinstance(name, str) and name for name in checked)
    if not several or not good or not 1 <= len(set(checked)) == len(checked):
        raise ValueError(
            "release must be a sequence of distinct names of fitted attributes, or "
            f"'auto', 'predict' or 'predict_proba'; got {names!r}."
        )
    return checked


SEVERAL_LABELS = (
    "{} is given several labels of each record, but a private classifier has one. "
    "Fit a PrivateEstimator to each of the labels: each is a release of its own."
)


def check_estimator(estimator: Any) -> Any:
    """Return a clone of an estimator whose fits can be repeated."""
    if isinstance(estimator, type) or not hasattr(estimator, "__sklearn_tags__"):
        raise ValueError(
            f"estimator must be an instance of a scikit-learn estimator, got "
            f"{estimator!r}."
        )
    if isinstance(estimator, FrozenEstimator):
        raise ValueError(
            "estimator must be one that `fit` can fit, but a FrozenEstimator learns "
            "nothing, so there is nothing to release. Wrap the estimator inside it, or "
            "use it as it is if it was fitted on public records."
        )
    if hasattr(estimator, "get_support"):
        raise IncompatibleError(
            f"{type(estimator).__name__} chooses columns, and noise cannot be added to "
            "a choice. Let it be a step of a Pipeline before a model: there it is "
            "fitted on public records."
        )
    try:
        cloned = repeatable(estimator)
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"estimator must be one that can be cloned; cloning "
            f"{type(estimator).__name__} failed: {error}"
        ) from error
    # It must be fitted to the rows of a table.
    kind, tags = type(cloned).__name__, get_tags(cloned)
    inputs, targets = tags.input_tags, tags.target_tags
    labels = targets.one_d_labels or targets.two_d_labels
    others = labels or inputs.dict or inputs.three_d_array
    # Some say what their targets are like, beside rows of a table.
    if inputs.pairwise or (others and not inputs.two_d_array):
        raise IncompatibleError(
            f"{kind} is fitted to labels, mappings, images or numbers of pairs, such "
            "as distances, but private records are the rows of a table. Make one of "
            "them beforehand, in a way that is fixed or was learned from public "
            "records. What depends on classes alone is public: use it as it is."
        )
    if tags.estimator_type == "classifier" and not targets.single_output:
        raise IncompatibleError(SEVERAL_LABELS.format(kind))
    target = inspect.signature(cloned.fit).parameters.get("y")
    needed = target is not None and target.default is target.empty
    if needed and not takes_targets(cloned):
        raise IncompatibleError(
            f"{kind} is fitted to targets, but does not say so in its tags. Set "
            "target_tags.required in __sklearn_tags__ of a subclass."
        )
    return cloned


class PrivateEstimator(
    ServedMethods, Unpadded, PrivateMixin, CorrectionMixin, BaseEstimator
):
    """Make any scikit-learn estimator private.

    Fits the estimator, and releases its fitted numbers once, with noise. Predictions,
    transformations and scores are computed from the released numbers, by a fit on
    public records that uses nothing else of the private ones.

    Parameters
    ----------
    estimator : estimator
        Regressor, classifier, transformer, clusterer, density estimator, or a Pipeline
        of such, for any table that it takes: see :doc:`/estimators`. A `random_state`
        of None is 0 in its fits, which must be a function of the data, `verbose` is 0,
        and callbacks are not called. Steps of a pipeline before its last are
        fitted on the reference and stay as they are.

    release : "auto", tuple of str, "predict" or "predict_proba", default="auto"
        The released numbers.

        * "auto": the learned numbers behind its methods, found by comparing fits on
          public records (:ref:`thm-fitted-attributes`). Of trees and forests, also at
          the end of a Pipeline: sums over the records in their leaves, whose splits are
          grown on the reference (:ref:`thm-leaves`). Of `KMeans`: sums over the records
          nearest to centers of the reference, one step of Lloyd's algorithm
          (:ref:`thm-centers`).
        * Names of them: ``("coef_", "intercept_")``, or ``("steps.ridge.coef_",)``
          inside a Pipeline.
        * "predict" (regressors) or "predict_proba" (classifiers): predictions at
          `X_public`, for models without a vector of numbers, such as boosting.

    sensitivity : SensitivitySampler, float, "bound" or None, default=None
        Source of the sensitivity: :ref:`private-parameters`. "bound", for trees,
        forests and `KMeans`, is proven: pure epsilon-differential privacy. It is the
        default of `KMeans` and of trees and forests that classify. Forests get much
        less noise from a sampler with ``randomness="both"`` and ``law="gaussian"``; for
        them a noise shape of "auto" is "isotropic".

    X_public : array-like of shape (n_points, n_features), default=None
        For "predict" and "predict_proba": public points of the released predictions.

    surrogate : regressor, default=None
        For "predict" and "predict_proba": model that serves predictions elsewhere,
        fitted to the released predictions or probabilities. None: the nearest point
        answers, where there are only numbers.

    combine : {"auto", "reference"} or None, default="auto"
        "auto": a `LinearRegression`, `Ridge` or `LogisticRegression`, alone or at the
        end of a Pipeline, corrects the fit to a table of public records, as in
        :class:`~skparisk.PrivateRidge`. Another model is refused, before anything is
        charged, if noise would make it score less than one of the table alone
        (cross-validated), by more than its last half of rows adds. If a draw of noise
        turns out so, the fit to the table is served in place of the release.
        "reference": it is an error if there is no such model or table. None: the fit to
        the private records is released, and served.

    max_rows : int, default=None
        With `groups` and a proven bound: the most rows of a person to use, drawn at
        random, >= 1. The bound is for so many.

    epsilon, gamma, classes, n_jobs, random_state, noise_random_state, verbose
        Privacy level, risk, public classes, sampling of pairs and noise:
        :ref:`private-parameters`.

    Attributes
    ----------
    estimator_ : estimator
        Serves predictions: a fit on public records with the released numbers in the
        places of its own; made-up ones are NaN. Or a surrogate.

    template_ : Template, LeafTemplate or None
        That fit; ``template_.places`` names the released numbers.

    public_steps_ : tuple of str
        Names of the inner steps fitted on the reference.

    released_, combine_, private_weight_ : objects
    reference_shift_, reference_comparison_ : objects
    epsilon_, gamma_, risk_, confidence_ : float
    sensitivity_, noise_scale_, noise_epsilon_, noise_to_spread_ : float
    certificate_, sampler_, schema_, classes_ : objects
    n_features_in_, feature_names_in_ : objects
        The release, the claim, the noise and the data: :ref:`private-attributes`.

    Notes
    -----
    **Guarantee**. As for all private estimators: :ref:`private-parameters`.

    Methods that need more numbers than the release raise an error. If the private
    database lacks a class, the answer is zeros. An error while fitting the private data
    hides its message. Both would otherwise reveal something about the data.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skparisk import PrivateEstimator
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> public = dict(X_reference=X[:900], y_reference=y[:900])
    >>> pipeline = make_pipeline(StandardScaler(), Ridge())
    >>> model = PrivateEstimator(pipeline, epsilon=1.0, random_state=0)
    >>> model = model.fit(X[900:], y[900:], **public)
    >>> model.public_steps_, model.estimator_[-1].coef_.shape, model.risk_ <= 0.05
    (('standardscaler',), (8,), True)
    """

    _takes_any_table = True

    def __init__(
        self,
        estimator: Any,
        release: str | Sequence[str] = "auto",
        *,
        epsilon: float = 1.0,
        gamma: float = 0.05,
        sensitivity: Any = None,
        X_public: Any = None,
        surrogate: Any = None,
        combine: str | None = "auto",
        classes: Any = None,
        max_rows: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        noise_random_state: Any = None,
        verbose: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.release = release
        self.epsilon = epsilon
        self.gamma = gamma
        self.sensitivity = sensitivity
        self.X_public = X_public
        self.surrogate = surrogate
        self.combine = combine
        self.classes = classes
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.noise_random_state = noise_random_state
        self.verbose = verbose

    @whole_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        X_reference: Any = None,
        y_reference: Any = None,
        groups_reference: Any = None,
        sample_weight_reference: Any = None,
    ) -> Self:
        """Fit the estimator, and release its numbers with noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records: an array, a data frame of pandas or polars, a sparse
            matrix, or a list of texts.

        y : array-like of shape (n_records,) or (n_records, n_targets), default=None
            Their targets or labels, where the estimator takes them.

        X_reference, y_reference : array-like, default=None
        groups, groups_reference, sample_weight, sample_weight_reference : array-like
            Public records with the same columns, and their targets or labels; whose
            each row is, and how much it counts. These, errors and warnings are in
            :ref:`private-fit`.
        """
        source = self._check_privacy({} if self._sums_leaves else None)
        # A person with several rows moves more than what is proven of one.
        several = groups is not None or getattr(X_reference, "of_people", False)
        bounded = not several or self.max_rows is not None
        if self._proven_by_default and bounded:
            source = "bound"
        estimator = check_estimator(self.estimator)
        warn_fitted_parts(self)
        tags = get_tags(estimator)
        supervised = takes_targets(estimator)
        table = reference_table(
            X_reference,
            y_reference if supervised else None,
            groups_reference,
            needs_y=supervised,
            any_table=True,
        )
        rows = RowWeights(sample_weight, sample_weight_reference)
        table = rows.of_public(source, table)
        if rows.private is not None:
            if self._sums_leaves:
                raise IncompatibleError(
                    "sample_weight must be None for what is released as sums, of rows "
                    "that count alike: name what is to be released instead."
                )
            weight_parameter(estimator)
        people = Groups(groups)
        if source == "bound":
            most = check_max_rows(self.max_rows, groups)
            drawn_by = noise_source(self.noise_random_state) if most else None
            people = people._replace(max_rows=most, source=drawn_by)
        elif self.max_rows is not None:
            raise ValueError(
                "max_rows must be None unless sensitivity='bound', because sampled "
                f"people have all of their rows; got {self.max_rows!r}."
            )
        people.check(source, table)
        classifies = supervised and tags.estimator_type == "classifier"
        self._check_combine(source, table)
        private = read_as_public(source, table, X, y, classifies=classifies)
        features, targets = self._check_data(*private, estimator=estimator)
        labels = None
        if targets is not None and tags.estimator_type == "classifier":
            labels = PublicClasses.find(
                self.classes, table, y_reference, source, targets
            )
            targets = labels.encode_private(targets)
            if table is not None:
                table = labels.encode_reference(table, y_reference)
            labels.encode_sampler(source)
        own = rows.of_private(features)
        features, targets, own = people.of_private(features, targets, own)
        data = self._recognize(source, X, features, targets, table, people)
        if labels is not None:
            labels = labels.of_reference(data.reference_is_private)
        wrapped = [part for part in (estimator, self.surrogate) if part is not None]
        parts = find_fitted_parts(self)
        refuse_frozen_on(parts.frozen, wrapped, rows_of(features), rows_of(targets))
        self.schema_, query, apart, base = self._find_query(
            source, estimator, data, labels
        )
        # Before rows for pairs have what other trees leave of their targets.
        sums = isinstance(query, LeafQuery)
        public = self._find_public_fit(source, query, data) if sums else None
        data = data.of_rows(apart, source)
        query, data = data.weighted(query, source, own)
        start, query, alone = self._find_correction(source, query, data)
        if not sums:
            public = self._find_public_fit(source, alone, data)
        if start is not None:
            data = data.of_rows(start.table, source)
        if labels is not None:
            self.classes_ = labels.labels
        decode = np.asarray if labels is None else labels.decode
        cost: NoiseCost | None = None

        def unpack(model: Any, answer: NDArray[np.float64]) -> None:
            model.template_ = query.template
            if isinstance(query, LeafQuery):
                served = query.template.serve(answer, self._noise_deviations())
            else:
                numbers = query.split(answer)
                served = serve(model, query.reader, numbers, query.template, labels)
            model.estimator_ = served

        if public is not None and (sums or releases_predictions(self)):
            fresh = clone(getattr(query, "estimator", estimator))

            def score_fit(X: Any, y: Any, X_held: Any, y_held: Any) -> float:
                y, own = query.targets_of(y)
                weighted = {} if own is None else {weight_parameter(fresh): own}
                fitted = clone(fresh).fit(X, decode(y), **weighted)
                y_held, own = query.targets_of(y_held)
                weighted = {} if own is None else {"sample_weight": own}
                return float(fitted.score(X_held, decode(y_held), **weighted))

            public = replace(public, score_fit=score_fit)

        def check(sampler: SensitivitySampler) -> None:
            nonlocal cost
            if public is None or not hasattr(self, "score") or is_simulated():
                return
            with one_thread():
                score = self._scorer(unpack, decode, public.query)
                cost = public.cost_of(score, sampler)
            if cost is not None:
                kind = type(self.estimator).__name__
                cost.refuse(kind, float(self.epsilon), public.n_records)

        def serve_public() -> None:
            self.estimator_ = base
            self.combine_, self.private_weight_ = "reference", 0.0

        if source == "bound":
            assert isinstance(query, LeafQuery)
            known = KnownSensitivity(query.bound() * max(people.max_rows, 1))
            moved = data.in_domain()
            released = self._release_known(query, *moved, known, proven=True)
        else:
            plain = start is None and self.combine == "auto" and base is not None
            released = self._release(source, query, data, check if plain else None)
        # A fitted sampler has a query of its own, with its shapes and its anchor.
        query = query if self.sampler_ is None else cast(Any, self.sampler_.query_)
        self._serve_with(start, released, public, unpack, decode, cost, serve_public)
        if isinstance(query.template, LeafTemplate):
            weight = query.template.private_weight(self._noise_deviations())
            self.private_weight_ = weight
            told = self.reference_comparison_
            if told is not None and not told.public_is_better:
                # Splits have seen these records, so the score is too high to be shown.
                self.reference_comparison_ = None
        self._tell_public_steps(query.public_steps or PublicSteps())
        if labels is not None:
            tell_classes(self, labels)
        leaks = [Leak.FITTED_PARTS] * bool(parts.bare)
        assumptions = [Assumption.FROZEN_PARTS] * bool(parts.frozen)
        if leaks or assumptions:  # of what came fitted with the estimator
            note = "parts fitted before"
            self._add_to_claim(leaks=leaks, assumptions=assumptions, note=note)
        blank_padding(self)
        return self

    @property
    def _sums_leaves(self) -> bool:
        trees = self.release == "auto" and find_trees(self.estimator) is not None
        return trees or self._moves_centers

    @property
    def _moves_centers(self) -> bool:
        declared = is_number(self.sensitivity) or isinstance(
            self.sensitivity, KnownSensitivity
        )
        found = self.release == "auto" and not declared
        return found and find_centers(self.estimator) is not None

    @property
    def _proven_by_default(self) -> bool:
        """Whether "bound" is the default: nearly all pairs differ by as much."""
        counts = self._sums_leaves and is_classifier(self.estimator)
        return self.sensitivity is None and (counts or self._moves_centers)

    def _prepare(self, source: SensitivitySampler) -> SensitivitySampler:
        fitted = hasattr(source, "certificate_")
        if self._sums_leaves and not fitted and source.noise_shape == "auto":
            # A record moves as many sums by as much, whatever leaves it is in.
            source = clone(source).set_params(noise_shape="isotropic")
        return super()._prepare(source)

    def _check_data(
        self, X: Any, y: Any, *, estimator: Any
    ) -> tuple[Records, NDArray[Any] | None]:
        """Return private records, and targets or labels where they are taken."""
        tags = get_tags(estimator)
        # What is inside a pipeline may fill in what is missing.
        allow_nan = tags.input_tags.allow_nan or has_parts(estimator)
        if not takes_targets(estimator):
            return validate_private_records(self, X, allow_nan=allow_nan), None
        classifies, several = is_classifier(estimator), tags.target_tags.multi_output
        if classifies and getattr(y, "shape", ())[1:] > (1,):
            raise IncompatibleError(SEVERAL_LABELS.format(type(estimator).__name__))
        numbers = {} if classifies else {"multi_output": several, "y_numeric": True}
        features, targets = validate_private_records(
            self, X, y, allow_nan=allow_nan, **numbers
        )
        if not classifies:
            targets = hide_values(np.asarray, targets, dtype=np.float64)
        return features, targets

    def _find_query(
        self,
        source: SensitivitySource,
        estimator: Any,
        data: TrainingData,
        labels: PublicClasses | None,
    ) -> tuple[Schema, EstimatorQuery | LeafQuery, TableReference | None, Any]:
        """Return columns, query, rows of pairs, and the public fit if there is one."""
        sampler = source if isinstance(source, SensitivitySampler) else None
        known = getattr(sampler, "query_", None)
        if isinstance(known, EstimatorQuery | LeafQuery):
            assert sampler is not None
            schema = sampler.pairs_.schema
            assert schema is not None  # that of the reference, never of `X`
            again = ask_again(self, estimator, known, labels, data.features)
            return schema, again, None, None
        with one_thread():
            public = self._find_public(sampler, estimator, data, labels)
            paired = sampler is not None and data.draw is None
            if self._sums_leaves:  # with steps of their own
                sums: LeafQuery
                if self._moves_centers:
                    sums, apart = make_centers_query(estimator, public, paired=paired)
                else:
                    sums, apart = make_leaf_query(
                        estimator,
                        public,
                        labels,
                        float(self.epsilon),
                        bounded=source == "bound",
                        paired=paired,
                    )
                return public.schema, sums, apart if paired else None, None
            steps = freeze_steps(
                estimator,
                public,
                released_names(self) or (),
                paired=paired,
                noisy=math.isfinite(self.epsilon),
            )
            query, base = make_query(
                self, estimator, public, labels, data.features, steps
            )
        return public.schema, query, steps.table, base if public.table else None

    def _find_correction(
        self,
        source: SensitivitySource,
        query: EstimatorQuery | LeafQuery,
        data: TrainingData,
    ) -> tuple[
        PublicStart | None, EstimatorQuery | LeafQuery, EstimatorQuery | LeafQuery
    ]:
        """Return the public fit that is corrected, if any, and the query of both."""
        known = getattr(source, "query_", None)
        if isinstance(known, LinearStepQuery):
            if self.combine is None:
                raise IncompatibleError(
                    f"The SensitivitySampler was fitted for {known}, which corrects a "
                    "fit to public records; got combine=None."
                )
            return known.correction.public, query, query
        plain, start = linear_step(query), None
        table = public_table(source, data.table)
        if plain is None:
            self._refuse_combine(
                "what is released is not of a linear model that it could correct, "
                "behind steps that do not know the rows that pairs are of"
            )
        elif isinstance(table, TableReference) and self.combine is not None:
            if not data.reference_is_private:
                data = replace(data, table=plain.prepared_table(table))
            start = self._find_start(source, plain.linear, None, data)
        if plain is None or start is None:
            return None, query, query
        assert isinstance(table, TableReference)
        assert start.table is not None
        released = replace(plain, linear=start.query(plain.linear))
        start = replace(start, table=table._cross_fitted(start.table.pool.y))
        return start, released, replace(plain, linear=start.usual)

    def _find_public(
        self,
        sampler: SensitivitySampler | None,
        estimator: Any,
        data: TrainingData,
        labels: PublicClasses | None,
    ) -> PublicRecords:
        """Draw records of the reference, or make some up where there is none."""
        X, y = data.features, data.targets
        reference: Any = data.table
        from_private = data.reference_is_private or data.draw is not None
        if reference is None and sampler is not None and not from_private:
            reference = sampler.reference
        if reference is None or data.reference_is_private:
            return PublicRecords.make_up(X, y, labels, n_records=data.n_records)
        reference = as_reference(reference)
        names = getattr(self, "feature_names_in_", None)
        reference.check_schema(Schema.of(X, names))
        seed = (sampler or self).random_state  # which the sampler has been given
        entropy = check_random_state(seed, "random_state").bytes(16)
        n_records = getattr(sampler, "n_records", None)
        n_records = data.n_records if n_records is None else n_records
        check_at_least(n_records, "n_records", 1)
        # Not one of the seeds that the pairs have.
        root = np.random.SeedSequence(int.from_bytes(entropy, "little"), spawn_key=(2,))
        return PublicRecords.draw(
            estimator,
            reference,
            n_records,
            root,
            labels,
            max_rows=self.max_rows,
            whole_alone=self._sums_leaves,
        )

    def _tell_public_steps(self, steps: PublicSteps) -> None:
        """Say which steps were fitted on public records, and so are not private."""
        self.public_steps_ = steps.names
        found = [Assumption.PUBLIC_STEPS] * bool(steps.names)
        proven = self.certificate_.require_evidence().calibration == "bound"
        # Pairs of a secret sample are of other records than steps were fitted on.
        apart = self.certificate_.protects_membership or proven
        if steps.supervised and not apart:
            said = PROVISOS[Assumption.SUPERVISED_STEPS]
            warn_caller(
                f"{said} The steps: {', '.join(steps.supervised)}.", ReferenceWarning
            )
            found.append(Assumption.SUPERVISED_STEPS)
        if found:
            self._add_to_claim(assumptions=found, note="steps fitted on public records")
            self._say_of_new_people(  # pairs are of the same rows
                "not known: they may have what steps that were fitted on this table do "
                "not know"
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, type) or not hasattr(
            self.estimator, "__sklearn_tags__"
        ):
            return tags  # `fit` says what is wrong with it
        theirs = get_tags(self.estimator)
        kinds = ("target", "transformer", "regressor", "classifier")
        for name in ("estimator_type", *(f"{kind}_tags" for kind in kinds)):
            setattr(tags, name, getattr(theirs, name))
        tags.target_tags.required = takes_targets(self.estimator)
        tags.input_tags.positive_only = theirs.input_tags.positive_only
        tags.input_tags.allow_nan = theirs.input_tags.allow_nan
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64"]
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
            tags.target_tags.multi_output = False
        return self._as_noisy(tags)
