"""What private linear classifiers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from skparisk._classes import PublicClasses, tell_classes
from skparisk._fitted import whole_fit
from skparisk._private import PrivateMixin
from skparisk._private_data import validate_private
from skparisk._training_data import (
    Groups,
    RowWeights,
    SensitivitySource,
    read_as_public,
    reference_table,
)
from skparisk.linear_model._correction import CorrectionMixin
from skparisk.linear_model._penalty import AskedPenalty
from skparisk.queries import Query
from skparisk.queries._base import Floats


class PrivateLinearClassifier(
    PrivateMixin, CorrectionMixin, ClassifierMixin, BaseEstimator, ABC
):
    """Base of classifiers with private coefficients and intercepts."""

    C: Any
    fit_intercept: Any
    classes: Any

    @abstractmethod
    def _make_query(self, classes: tuple[float, ...], C: Any) -> Query:
        """Return the query with a penalty, and its parameters checked."""

    @abstractmethod
    def _check_source(self) -> SensitivitySource:
        """Return where the sensitivity comes from, with all parameters checked."""

    @whole_fit
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        X_reference: Any = None,
        y_reference: Any = None,
        groups_reference: Any = None,
        sample_weight_reference: Any = None,
    ) -> Self:
        """Fit, and release coefficients and intercepts with noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records.

        y : array-like of shape (n_records,)
            Their labels.

        X_reference, y_reference : array-like, default=None
            Public records, and their labels: :ref:`private-fit`.

        groups, groups_reference : array-like, default=None
            Whose each private and each public row is, if people have several:
            :ref:`private-fit`.

        sample_weight, sample_weight_reference : array-like, default=None
            How much each private and each public row counts: :ref:`private-fit`.

        Raises
        ------
        ValueError, CalibrationError, IncompatibleError
            These and the warnings are in :ref:`private-fit`.
        """
        source = self._check_source()
        table = reference_table(
            X_reference, y_reference, groups_reference, any_table=True
        )
        rows = RowWeights(sample_weight, sample_weight_reference)
        table = rows.of_public(source, table)
        people = Groups(groups)
        people.check(source, table)
        private = read_as_public(source, table, X, y, classifies=True)
        features, given = validate_private(self, *private, dtype=np.float64)
        self._check_combine(source, table)
        labels = PublicClasses.find(self.classes, table, y_reference, source, given)
        asked = AskedPenalty.of(self.C, "C", source, table, self.epsilon)
        query: Any = self._make_query(labels.numbers, asked.value)
        targets = labels.encode_private(given)
        if table is not None:
            table = labels.encode_reference(table, y_reference).numbers
        labels.encode_sampler(source)
        own = rows.of_private(features)
        features, targets, own = people.of_private(features, targets, own)
        data = self._recognize(source, X, features, targets, table, people)
        query, data = data.weighted(query, source, own)
        labels = labels.of_reference(data.reference_is_private)
        self.classes_ = labels.labels
        self.C_ = self._release_penalized(
            source,
            query,
            asked,
            data,
            lambda model, each: model._unpack(each),
            labels.decode,
        )
        tell_classes(self, labels)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return linear scores of records, by the released coefficients.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Records.

        Returns
        -------
        scores : ndarray of shape (n_rows,) or (n_rows, n_classes)
            One number for two classes: the second class is predicted above 0.
        """
        check_is_fitted(self, "certificate_")
        X = validate_private(self, X, dtype=np.float64, reset=False)
        scores = X @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the released coefficients.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Records.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def _unpack(self, released: Floats) -> None:
        """Set coefficients and intercepts, in the shapes that scikit-learn has."""
        n_classes = len(self.classes_)
        n_problems = 1 if n_classes == 2 else n_classes
        coef = released[: n_problems * self.n_features_in_]
        self.coef_ = coef.reshape(n_problems, -1)
        self.intercept_ = np.zeros(n_problems)
        if self.fit_intercept:
            self.intercept_ = released[coef.size :]
