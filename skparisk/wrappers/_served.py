"""Estimators that answer from what was released, and from nothing else."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
    clone,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from skparisk._classes import PublicClasses
from skparisk._private_data import validate_records
from skparisk.queries import PredictionReader, Reader
from skparisk.queries._state import Numbers
from skparisk.wrappers._template import Template


def _nearest_point() -> Any:
    """Return a regressor that answers with the value at the nearest point."""
    return make_pipeline(StandardScaler(), KNeighborsRegressor(n_neighbors=1))


class ReleasedRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Predicts from released predictions at public points.

    Parameters
    ----------
    surrogate : regressor, default=None
        Fitted on the points and what was released there. None: the value at the
        nearest point, in units of the points' standard deviations.
    """

    def __init__(self, surrogate: Any = None) -> None:
        self.surrogate = surrogate

    def fit(self, X: Any, y: NDArray[np.float64]) -> Self:
        """Fit the surrogate to released predictions at public points."""
        points = validate_records(self, X, allow_nan=True)
        model = _nearest_point() if self.surrogate is None else clone(self.surrogate)
        self.surrogate_ = model.fit(points, y)
        return self

    def predict(self, X: Any) -> Any:
        """Predict with the surrogate."""
        check_is_fitted(self)
        X = validate_records(self, X, allow_nan=True, reset=False)
        return self.surrogate_.predict(X)


class ReleasedClassifier(ClassifierMixin, BaseEstimator):
    """Predicts from released probabilities at public points.

    Parameters
    ----------
    surrogate : regressor, default=None
        Fitted to the probabilities. None: those at the nearest point, in units of the
        points' standard deviations.
    """

    def __init__(self, surrogate: Any = None) -> None:
        self.surrogate = surrogate

    def fit(self, X: Any, y: NDArray[np.float64], classes: NDArray[Any]) -> Self:
        """Fit the surrogate to released probabilities at public points."""
        points = validate_records(self, X, allow_nan=True)
        model = _nearest_point() if self.surrogate is None else clone(self.surrogate)
        self.classes_ = classes
        self.surrogate_ = model.fit(points, as_probabilities(y))
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class."""
        check_is_fitted(self)
        X = validate_records(self, X, allow_nan=True, reset=False)
        return as_probabilities(self.surrogate_.predict(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each class."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


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
    """Return an estimator that knows what was released, and what is public."""
    if template is not None:
        return template.serve(released)
    assert isinstance(reader, PredictionReader)
    (values,) = released.values()
    if labels is None:
        return ReleasedRegressor(model.surrogate).fit(reader.points, values)
    served = ReleasedClassifier(model.surrogate)
    return served.fit(reader.points, values, labels.labels)
