"""Predictions with released coefficients, whatever they were computed from."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skparisk._private_data import validate_private

Floats = NDArray[np.float64]


class LinearPredictions(RegressorMixin):
    """A linear function of the features, with released coefficients."""

    coef_: Floats
    intercept_: Any

    def predict(self, X: Any) -> Floats:
        """Predict with the released coefficients.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Records. A model from moments clips them like the summed records, and
            predictions to the bounds of the targets.

        Returns
        -------
        y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        """
        check_is_fitted(self, "certificate_")
        X = validate_private(self, X, dtype=np.float64, reset=False)
        features, targets = self._find_units()
        X = X if features is None else features.move(X)
        y = X @ self.coef_.T + self.intercept_
        return np.asarray(y if targets is None else targets.move(y))

    @abstractmethod
    def _find_units(self) -> tuple[Any, Any]:
        """Return units to move features and predictions in, or None for either."""
