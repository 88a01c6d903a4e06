"""Linear discriminants that are computed from released sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin

from skparisk.moments._models import FromMoments
from skparisk.moments._sums import Columns, Floats, ReleasedSums, damped_inverse
from skparisk.moments._units import Units


class MomentsLDA(ClassifierMixin, FromMoments):
    """Linear discriminants from released sums; made by :meth:`PrivateMoments.lda`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes, in the order of the columns of the targets.

    priors_ : ndarray of shape (n_classes,)
        Shares of the classes.

    means_ : ndarray of shape (n_classes, n_features)
        Mean of each feature in each class, within the bounds.

    coef_ : ndarray of shape (n_classes, n_features)
        Coefficients of the score of each class.

    intercept_ : ndarray of shape (n_classes,)
        Intercept of each score.

    certificate_, n_features_in_, feature_names_in_ : objects
        The claim of the release, and the features: :ref:`private-attributes`.
    """

    classes_: NDArray[Any]
    priors_: Floats
    means_: Floats
    coef_: Floats
    intercept_: Floats

    def decision_function(self, X: Any) -> Floats:
        """Return the score of each class, or of two classes that of the second.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Records.

        Returns
        -------
        scores : ndarray of shape (n_rows, n_classes) or (n_rows,)
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Records.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
        """
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Records.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """
        return np.asarray(self.classes_[self._scores(X).argmax(axis=1)])

    def _scores(self, X: Any) -> Floats:
        return np.asarray(self._check(X) @ self.coef_.T + self.intercept_)


def fit_lda(
    sums: ReleasedSums,
    classes: NDArray[Any],
    features: Columns,
    targets: Columns,
    units: Units,
) -> MomentsLDA:
    """Return discriminants with a covariance that all classes share.

    Targets tell classes, 1 or 0 each; of a single one the first class is what is left.
    """
    n, rows = sums.n_records, np.concatenate([[0], features + 1])
    # Sums of a constant and of features, times what tells each class.
    totals = sums.matrix[rows, 0]
    center, scale = sums.center[targets], sums.scale[targets]
    told = sums.matrix[np.ix_(rows, targets + 1)]
    told = totals[:, None] * center + told * scale
    if len(targets) == 1:
        told = np.column_stack([totals - told[:, 0], told[:, 0]])
    counts = told[0].clip(min=1.0)
    means = (told[1:] / counts).T.clip(-units.limit, units.limit)
    products = sums.matrix[np.ix_(features + 1, features + 1)]
    about = products - (means.T * counts) @ means
    coef = n * means @ damped_inverse(about, sums.noise_size(features))
    model = MomentsLDA()
    model.classes_, model.priors_ = classes, counts / counts.sum()
    intercept = np.log(model.priors_) - 0.5 * np.sum(coef * means, axis=1)
    # Back to the units of the data.
    model.means_ = sums.center[features] + sums.scale[features] * means
    model.coef_ = coef / sums.scale[features]
    model.intercept_ = intercept - model.coef_ @ sums.center[features]
    return model
