"""Models that are computed from released sums: they are not fitted to records."""

from __future__ import annotations

import math
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import softmax
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)

from skparisk._linear_predictions import LinearPredictions
from skparisk._private_data import validate_private
from skparisk.core.checks import IncompatibleError, check_at_least, check_probability
from skparisk.core.claim import Certificate
from skparisk.moments._sums import (
    Columns,
    Floats,
    ReleasedSums,
    Units,
    damped_inverse,
    positive_part,
)

# A constant against a usual feature, which is near the best on the stand-ins of the
# noise; a penalty of the size of the noise is as well.
_CONSTANT = 0.6


class FromMoments(BaseEstimator):
    """A model of released sums."""

    certificate_: Certificate
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    _units: Units

    def fit(self, X: Any, y: Any = None) -> NoReturn:
        """Raise IncompatibleError: a fit to records would release without noise."""
        raise IncompatibleError(
            f"{type(self).__name__} is computed from released sums and cannot be "
            "fitted to records: make it from a PrivateMoments, as with moments.ridge()."
        )

    def __sklearn_clone__(self) -> NoReturn:
        raise IncompatibleError(
            f"{type(self).__name__} is computed from released sums and cannot be "
            "cloned, as there is nothing to fit: use it as it is, copy it with "
            "copy.deepcopy, or freeze it with sklearn.frozen.FrozenEstimator."
        )

    def of(self, moments: Any, columns: Columns) -> Self:
        """Take over the claim, and the names and units of the features."""
        self.certificate_ = moments.certificate_
        self.n_features_in_ = len(columns)
        self._units = moments._units.of(columns)
        if hasattr(moments, "feature_names_in_"):
            self.feature_names_in_ = moments.feature_names_in_[columns]
        return self

    def _check(self, X: Any) -> Floats:
        """Return records that are moved to where those that were summed are."""
        X = validate_private(self, X, dtype=np.float64, reset=False)
        return self._units.move(X)


class _Linear(LinearPredictions, FromMoments):
    """A linear function of the features, within the bounds of the targets."""

    _target_units: Units

    def _find_units(self) -> tuple[Units, Units]:
        return self._units, self._target_units


class MomentsRidge(_Linear):
    """Ridge regression from released sums; made by :meth:`PrivateMoments.ridge`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients.

    intercept_ : float or ndarray of shape (n_targets,)
        Intercept, not penalized but with "auto".

    penalty_ : float
        Penalty: of coefficients in the units of the data; with "auto" in units of
        `scale_`, and of the intercept as well.

    certificate_, n_features_in_, feature_names_in_ : objects
        The claim of the release, and the features: :ref:`private-attributes`.
    """

    penalty_: float


class MomentsOLS(_Linear):
    """Least squares from released sums; made by :meth:`PrivateMoments.ols`.

    Attributes
    ----------
    coef_, stderr_ : ndarray of shape (n_features,)
        Coefficients, and their standard errors: by the draw of records, and the noise.

    intercept_, intercept_stderr_ : float
        The same of the intercept.

    covariance_, noise_covariance_ : ndarray of shape (n_features + 1, n_features + 1)
        Covariance of the intercept and the coefficients, and the part of the noise.

    residual_variance_ : float
        Of the targets about their predictions, without the noise.

    dof_ : int
        Records less parameters.

    certificate_, n_features_in_, feature_names_in_ : objects
        The claim of the release, and the features: :ref:`private-attributes`.
    """

    stderr_: Floats
    intercept_stderr_: float
    covariance_: Floats
    noise_covariance_: Floats
    residual_variance_: float
    dof_: float

    def confint(self, level: float = 0.95) -> Floats:
        """Return confidence intervals that know the noise.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval holds the coefficient, in (0, 1).

        Returns
        -------
        intervals : ndarray of shape (n_features + 1, 2)
            Of the intercept and of each coefficient.
        """
        level = check_probability(level, "level")
        center = np.concatenate([[self.intercept_], self.coef_])
        stderr = np.concatenate([[self.intercept_stderr_], self.stderr_])
        reach = stats.t.ppf(0.5 + level / 2, self.dof_) * stderr
        return np.column_stack([center - reach, center + reach])


class MomentsPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FromMoments):
    """Principal components from released sums; made by :meth:`PrivateMoments.pca`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions, those of most variance first.

    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Variance along each, and its share of all.

    mean_ : ndarray of shape (n_features,)
        Mean of each feature.

    certificate_, n_features_in_, feature_names_in_ : objects
        The claim of the release, and the features: :ref:`private-attributes`.
    """

    components_: Floats
    explained_variance_: Floats
    explained_variance_ratio_: Floats
    mean_: Floats

    def transform(self, X: Any) -> Floats:
        """Return the coordinates of records along the components.

        Of shape (n_rows, n_components), for `X` of shape (n_rows, n_features).
        """
        return np.asarray((self._check(X) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:
        """Return the records with given coordinates: the inverse of `transform`."""
        return np.asarray(np.asarray(X) @ self.components_ + self.mean_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


class MomentsLDA(ClassifierMixin, FromMoments):
    """Linear discriminants from released sums; made by :meth:`PrivateMoments.lda`.

    Attributes
    ----------
    classes_, priors_ : ndarray of shape (n_classes,)
        Classes, in the order of the columns of the targets, and their shares.

    means_ : ndarray of shape (n_classes, n_features)
        Mean of each feature in each class, within the bounds.

    coef_, intercept_ : ndarray of shape (n_classes, n_features), (n_classes,)
        Coefficients and intercept of the score of each class.

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

        Of shape (n_rows, n_classes) or (n_rows,), for `X` with a row for each record.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, of shape (n_rows, n_classes)."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, of shape (n_rows,)."""
        return np.asarray(self.classes_[self._scores(X).argmax(axis=1)])

    def _scores(self, X: Any) -> Floats:
        return np.asarray(self._check(X) @ self.coef_.T + self.intercept_)


def fit_ridge(
    sums: ReleasedSums, alpha: float, features: Columns, targets: Columns
) -> MomentsRidge:
    """Return ridge regression as scikit-learn's, with an intercept of no penalty."""
    about, scale = sums.centered, sums.scale[features]
    values, vectors = positive_part(about[np.ix_(features, features)])
    # The penalty is of coefficients in units of the data.
    matrix = (vectors * values) @ vectors.T + np.diag(alpha / scale**2)
    theta = np.linalg.pinv(matrix, hermitian=True) @ about[np.ix_(features, targets)]
    mean = sums.mean
    constant = mean[targets] - mean[features] @ theta
    return _in_units(sums, constant, theta, features, targets)


def fit_damped(sums: ReleasedSums, features: Columns, targets: Columns) -> MomentsRidge:
    """Return ridge regression with a penalty as large as the noise wants it.

    In scales, and of the intercept as well, as the coefficient of a constant column:
    the means are noisy, too.
    """
    rows = np.concatenate([[0], features + 1])
    matrix = sums.matrix[np.ix_(rows, rows)]
    penalty = sums.noise_size(features)
    usual = np.trace(matrix[1:, 1:]) / len(features) / sums.n_records
    units = np.ones(len(rows))
    units[0] = _CONSTANT * math.sqrt(max(usual, 2.0**-10))
    inverse = damped_inverse(units[:, None] * matrix * units, penalty)
    products = units[:, None] * sums.matrix[np.ix_(rows, targets + 1)]
    theta = units[:, None] * (inverse @ products)
    model = _in_units(sums, theta[0], theta[1:], features, targets)
    model.penalty_ = penalty
    return model


def _in_units(
    sums: ReleasedSums,
    constant: Floats,
    theta: Floats,
    features: Columns,
    targets: Columns,
) -> MomentsRidge:
    """Return a model of data in their own units."""
    model = MomentsRidge()
    units = sums.scale[targets]
    coef = (theta / sums.scale[features][:, None] * units).T
    base = sums.center[targets] + units * constant
    model.coef_, model.intercept_ = coef, base - coef @ sums.center[features]
    return model


def fit_ols(sums: ReleasedSums, features: Columns, target: int) -> MomentsOLS:
    """Return least squares with standard errors, by the delta method."""
    rows = np.concatenate([[0], features + 1])
    matrix = sums.matrix[np.ix_(rows, rows)]
    dof = sums.n_records - len(rows)
    if dof < 1 or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError(
            f"features must be fewer for least squares: of {len(features)} features "
            "and an intercept the released sums do not tell all directions from noise. "
            "Name some of them, or use ridge."
        )
    inverse = np.linalg.inv(matrix)
    theta = inverse @ sums.matrix[rows, target + 1]
    weights = np.zeros(sums.n_columns + 1)
    weights[rows], weights[target + 1] = -theta, 1.0
    noise = sums.noise_of_residuals(rows, weights)
    # The noise that least squares has followed makes residuals look smaller.
    squares = weights @ sums.matrix @ weights + np.sum(inverse * noise)
    variance = max(float(squares), 0.0) / dof
    # Back to the units of the data, in which the intercept depends on all.
    unit = sums.scale[target]
    back = np.diag(np.concatenate([[unit], unit / sums.scale[features]]))
    back[0, 1:] = -np.diag(back)[1:] * sums.center[features]
    of_noise = back @ inverse @ noise @ inverse @ back.T
    model = MomentsOLS()
    found = back @ theta
    model.intercept_ = float(found[0] + sums.center[target])
    model.coef_ = found[1:]
    model.covariance_ = variance * back @ inverse @ back.T + of_noise
    model.noise_covariance_ = of_noise
    errors = np.sqrt(np.diag(model.covariance_))
    model.intercept_stderr_, model.stderr_ = float(errors[0]), errors[1:]
    model.residual_variance_ = variance * float(unit) ** 2
    model.dof_ = dof
    return model


def fit_pca(
    covariance: Floats, mean: Floats, n_components: int, features: Columns
) -> MomentsPCA:
    """Return the directions of most variance."""
    k = check_at_least(n_components, "n_components", 1)
    if k > len(features):
        raise ValueError(
            f"n_components must be at most the {len(features)} features, got {k}."
        )
    values, vectors = positive_part(covariance[np.ix_(features, features)])
    order = np.argsort(-values)[:k]
    components = vectors[:, order].T
    largest = np.argmax(np.abs(components), axis=1)
    components *= np.sign(components[np.arange(k), largest])[:, None]
    model = MomentsPCA()
    model.components_, model.mean_ = components, mean[features]
    model.explained_variance_ = values[order]
    total = values.sum()
    shares = np.divide(values[order], total, out=np.zeros(k), where=total > 0)
    model.explained_variance_ratio_ = shares
    return model


def fit_lda(
    sums: ReleasedSums,
    classes: NDArray[Any],
    features: Columns,
    targets: Columns,
    units: Units,
) -> MomentsLDA:
    """Return discriminants with a covariance that all classes share.

    Targets are 1 or 0 for each class; a single one is 1 for the second of two.
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
