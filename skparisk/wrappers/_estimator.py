"""PrivateEstimator: any scikit-learn estimator, released once with noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags

from skparisk._classes import PublicClasses, tell_classes
from skparisk._fitted import forget_fit
from skparisk._fitted_parts import (
    FITTED_PARTS,
    FROZEN_PARTS,
    find_fitted_parts,
    refuse_frozen_on,
    warn_fitted_parts,
)
from skparisk._private import (
    PrivateMixin,
    SensitivitySource,
    TrainingData,
    reference_table,
)
from skparisk._private_data import hide_values, validate_private
from skparisk._validate import check_at_least, check_random_state
from skparisk.exceptions import IncompatibleError
from skparisk.neighbors import sample_database
from skparisk.queries._estimator import repeatable, takes_targets
from skparisk.reference import Reference, TableReference, as_reference
from skparisk.reference._records import Schema
from skparisk.sensitivity import SensitivitySampler
from skparisk.sensitivity._parallel import MOST_ASKED
from skparisk.wrappers._asked import UNKNOWN, make_query, read_public
from skparisk.wrappers._first_fit import FirstFit
from skparisk.wrappers._methods import ServedMethods
from skparisk.wrappers._recipes import find_recipe
from skparisk.wrappers._served import serve

__all__ = ["PrivateEstimator"]


class PrivateEstimator(ServedMethods, PrivateMixin, BaseEstimator):
    """Any scikit-learn estimator, made private.

    Fits the estimator, and releases what it learned once, with noise. Predictions,
    transformations and scores are computed from the released numbers, by a fresh
    clone that holds nothing else.

    Parameters
    ----------
    estimator : estimator
        Regressor, classifier, transformer, clusterer or density estimator. A
        `random_state` of None is 0 in its fits, which must be a function of the data,
        and `verbose` is 0.

    release : "auto", tuple of str, "predict" or "predict_proba", default="auto"
        What is released.

        * Names of fitted attributes: numbers, or arrays of one shape.
        * "auto": those that scikit-learn's linear models, naive Bayes, `PCA`,
          `TruncatedSVD`, `StandardScaler`, `MinMaxScaler`, `KMeans` and
          `LinearDiscriminantAnalysis` predict or transform with.
        * "predict" (regressors) or "predict_proba" (classifiers): predictions at
          `X_public`, for models that are no vector, such as forests.

    epsilon, gamma : float, default=1.0 and 0.05
        Privacy level, in (0, inf], and risk, in (0, 1): :ref:`private-parameters`.

    sensitivity : SensitivitySampler, float or None, default=None
        Where the sensitivity comes from: :ref:`private-parameters`. Numbers of
        different sizes are released with less noise by a sampler with
        ``noise_shape="whitened"``.

    public_attributes : tuple of str, default=()
        Further attributes that the served methods need. They are those of a fit on
        records of the reference, which must be given, and never of the private data.

    align : callable, "auto" or None, default="auto"
        For fits that are defined up to sign or order: ``align(numbers, anchor)`` is
        given what was read from a fit, and from a fit on public records, each a
        mapping of names to arrays, and returns the first in the signs and the order of
        the second. "auto": components and cluster centers of estimators that "auto"
        knows. Needs a reference; nothing is aligned without one, or without noise.

    X_public : array-like of shape (n_points, n_features), default=None
        For "predict" and "predict_proba": where predictions are released. Public.

    surrogate : estimator, default=None
        For "predict" and "predict_proba": what serves predictions elsewhere, fitted on
        what was released. None: the nearest point answers.

    classes, n_jobs, random_state, noise_random_state, verbose
        The public classes, the sampling of pairs, the noise: :ref:`private-parameters`.

    Attributes
    ----------
    estimator_ : estimator
        Serves predictions; a clone with the released attributes, or a surrogate.

    classes_ : ndarray of shape (n_classes,)
        Of classifiers.

    epsilon_, gamma_, risk_, confidence_ : float
    sensitivity_, noise_scale_, noise_epsilon_ : float
    certificate_, sampler_, n_features_in_, feature_names_in_ : objects
        The claim, the noise and the data: :ref:`private-attributes`.

    Notes
    -----
    **Guarantee**. That of all private estimators: :ref:`private-parameters`.

    Methods that need an attribute which was not released say so. A private database
    without one of the classes is answered with zeros, and an error while fitting the
    private data does not show its message: both would tell about the data.

    There is no `labels_` after a clusterer was fitted, as it would tell the cluster of
    each private record; with an infinite `epsilon` and ``release="auto"`` there is.

    Examples
    --------
    >>> from sklearn.linear_model import Lasso
    >>> from skparisk import PrivateEstimator, SensitivitySampler
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> model = PrivateEstimator(Lasso(0.1), epsilon=1.0, gamma=0.2, random_state=0)
    >>> model = model.set_params(sensitivity=SensitivitySampler(n_pairs=9))
    >>> model = model.fit(X[:900], y[:900], X_reference=X[900:], y_reference=y[900:])
    >>> model.estimator_.coef_.shape, model.risk_ <= 0.2
    ((8,), True)
    """

    def __init__(
        self,
        estimator: Any,
        release: str | Sequence[str] = "auto",
        *,
        epsilon: float = 1.0,
        gamma: float = 0.05,
        sensitivity: Any = None,
        public_attributes: Sequence[str] = (),
        align: Any = "auto",
        X_public: Any = None,
        surrogate: Any = None,
        classes: Any = None,
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
        self.public_attributes = public_attributes
        self.align = align
        self.X_public = X_public
        self.surrogate = surrogate
        self.classes = classes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.noise_random_state = noise_random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, X_reference: Any = None, y_reference: Any = None
    ) -> Self:
        """Fit, and release what was learned with noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records.

        y : array-like of shape (n_records,) or (n_records, n_targets), default=None
            Their targets or labels, where the estimator takes them.

        X_reference, y_reference : array-like, default=None
            Public records, and their targets or labels: :ref:`private-fit`.

        Returns
        -------
        self : PrivateEstimator

        Raises
        ------
        ValueError, CalibrationError, IncompatibleError
            For these, and what it warns of, see :ref:`private-fit`.
        """
        forget_fit(self)
        source = self._check_privacy()
        estimator = _check_estimator(self.estimator)
        warn_fitted_parts(self)
        tags = get_tags(estimator)
        features, targets = self._check_data(X, y, tags)
        labels = None
        if targets is not None and tags.estimator_type == "classifier":
            labels = PublicClasses.find(self.classes, y_reference, source, targets)
            targets = labels.encode(targets, "y")
            if y_reference is not None:
                y_reference = labels.encode(y_reference, "y_reference")
        if targets is not None:
            table = reference_table(X_reference, y_reference)
        else:
            table = None if X_reference is None else TableReference(X_reference)
        data = self._recognize(source, X, features, targets, table)
        if labels is not None:
            labels = labels.of_reference(data.reference_is_private)
        wrapped = [part for part in (estimator, self.surrogate) if part is not None]
        frozen = find_fitted_parts(self).frozen
        refuse_frozen_on(frozen, wrapped, features, targets)
        first = self._fit_first(estimator, source, data, labels)
        recipe = find_recipe(estimator) or UNKNOWN
        query = make_query(self, estimator, recipe, first, labels, features)
        extra = read_public(self, first, query)
        # Whether it can be served is found out before anything is released.
        serve(self, query.reader(first.fitted), recipe, extra, labels)
        released = self._release(source, query, data)
        # A fitted sampler has a query of its own, with its shapes and its anchor.
        asked: Any = query if self.sampler_ is None else self.sampler_.query_
        self.estimator_ = serve(self, asked.split(released), recipe, extra, labels)
        if labels is not None:
            self.classes_ = labels.labels
            tell_classes(self, labels)
        self._tell_fitted_parts()
        clusters = tags.estimator_type == "clusterer" and self.release == "auto"
        if clusters and math.isinf(self.epsilon):
            self.labels_ = self.predict(X)
        return self

    def _check_data(
        self, X: Any, y: Any, tags: Tags
    ) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
        """Return private records, and targets or labels where they are taken."""
        if not takes_targets(self.estimator):
            return validate_private(self, X, dtype=np.float64), None
        if tags.estimator_type == "classifier":
            features, labels = validate_private(self, X, y, dtype=np.float64)
            return features, labels
        features, targets = validate_private(
            self,
            X,
            y,
            dtype=np.float64,
            multi_output=tags.target_tags.multi_output,
            y_numeric=True,
        )
        return features, hide_values(np.asarray, targets, dtype=np.float64)

    def _fit_first(
        self,
        estimator: Any,
        source: SensitivitySource,
        data: TrainingData,
        labels: PublicClasses | None,
    ) -> FirstFit:
        """Fit on records of the reference, or on made-up ones where there is none."""
        X, y, private = data.features, data.targets, data.reference_is_private
        sampler = source if isinstance(source, SensitivitySampler) else None
        reference: Reference | None = data.table
        if reference is None and sampler is not None:
            if private:
                reference = TableReference(X, y)  # as the sampler will do
            elif sampler.reference is not None:
                reference = as_reference(sampler.reference)
        if reference is None:
            return FirstFit.on_made_up(estimator, X.shape, y, labels)
        names = getattr(self, "feature_names_in_", None)
        reference.check_schema(Schema.of(X, names))
        seeds = (self.random_state, None if sampler is None else sampler.random_state)
        seed = next((seed for seed in seeds if seed is not None), None)
        entropy = check_random_state(seed, "random_state").bytes(16)
        known = None if sampler is None else sampler.n_records
        n_records = len(X) if known is None else check_at_least(known, "n_records", 1)
        # Not one of the seeds that the pairs have.
        root = np.random.SeedSequence(int.from_bytes(entropy, "little"), spawn_key=(2,))
        failure: Exception | None = None
        for seed in root.spawn(MOST_ASKED):
            database = sample_database(reference, n_records, seed)
            _check_same_columns(y, database[1])
            try:
                return FirstFit.on(
                    estimator,
                    database,
                    labels,
                    None if private else reference,
                    private=private,
                )
            except Exception as error:  # raised below, if it is not by chance
                failure = error
        assert failure is not None
        raise failure

    def _tell_fitted_parts(self) -> None:
        """Say what was learned before, by parts of the estimator that came fitted."""
        parts = find_fitted_parts(self)
        if parts.bare:
            self._add_to_claim(leaks=(FITTED_PARTS,), note="parts fitted before")
        if parts.frozen:
            self._add_to_claim(provisos=(FROZEN_PARTS,), note="parts fitted before")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, type) or not hasattr(
            self.estimator, "__sklearn_tags__"
        ):
            return tags  # `fit` says what is wrong with it
        theirs = get_tags(self.estimator)
        tags.estimator_type = theirs.estimator_type
        tags.target_tags = theirs.target_tags
        tags.target_tags.required = takes_targets(self.estimator)
        tags.transformer_tags = theirs.transformer_tags
        tags.regressor_tags = theirs.regressor_tags
        tags.classifier_tags = theirs.classifier_tags
        tags.input_tags.positive_only = theirs.input_tags.positive_only
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64"]
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
            tags.target_tags.multi_output = False
        return self._as_noisy(tags)


def _check_same_columns(y: NDArray[Any] | None, targets: NDArray[Any] | None) -> None:
    if y is not None and targets is not None and targets.shape[1:] != y.shape[1:]:
        raise IncompatibleError(
            f"y has {_columns(y)}, but the targets of the reference have "
            f"{_columns(targets)}: they must be the same."
        )


def _columns(y: NDArray[Any]) -> str:
    return "one dimension" if y.ndim == 1 else f"{y.shape[1]} column(s)"


def _check_estimator(estimator: Any) -> Any:
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
    try:
        return repeatable(estimator)
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"estimator must be one that can be cloned; cloning "
            f"{type(estimator).__name__} failed: {error}"
        ) from error
