"""What released sums serve: models and summaries, for nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skparisk.core.checks import check_at_least, check_choice, check_positive
from skparisk.core.claim import Certificate
from skparisk.moments._discriminant import MomentsLDA, fit_lda
from skparisk.moments._models import (
    FromMoments,
    MomentsOLS,
    MomentsPCA,
    MomentsRidge,
    fit_damped,
    fit_ols,
    fit_pca,
    fit_ridge,
)
from skparisk.moments._sums import Columns, Floats, ReleasedSums, positive_part
from skparisk.moments._units import Units

Model = TypeVar("Model", bound=FromMoments)


class ServedSums:
    """Sums that were released, and all that is computed from them."""

    sums_: Floats
    noise_covariance_: Floats
    center_: Floats
    scale_: Floats
    n_records_: int
    n_targets_: int
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    certificate_: Certificate
    _units: Units

    def ridge(
        self, alpha: float | str = "auto", *, features: Sequence[Any] | None = None
    ) -> MomentsRidge:
        """Return ridge regression of the targets, for nothing more.

        Parameters
        ----------
        alpha : float or "auto", default="auto"
            Penalty, >= 0, as in scikit-learn's `Ridge`. "auto": the spectral norm
            of the noise in the products of the features, in the median; of coefficients
            in units of `scale_`, and of the intercept as well.

        features : sequence of int or str, default=None
            Columns to use, by position or name. None: all.

        Returns
        -------
        model : MomentsRidge
            Predicts from these features.

        Raises
        ------
        ValueError
            If there are no targets, or a parameter is out of range.
        """
        columns = self._columns(features)
        if isinstance(alpha, str):
            check_choice(alpha, "alpha", ("auto",))
            model = fit_damped(self._sums, columns, self._targets())
        else:
            if alpha != 0:
                check_positive(alpha, "alpha")
            model = fit_ridge(self._sums, float(alpha), columns, self._targets())
            model.penalty_ = float(alpha)
        if self.n_targets_ == 1:
            model.coef_, model.intercept_ = model.coef_[0], float(model.intercept_[0])
        model._target_units = self._units_of_targets
        return self._derived(model, columns)

    def ols(
        self, *, features: Sequence[Any] | None = None, target: int = 0
    ) -> MomentsOLS:
        """Return least squares with standard errors, for nothing more.

        The standard errors are those of least squares (residuals of one variance), with
        what the noise adds, to first order: good where the noise is small against the
        sums of squares of the features.

        Parameters
        ----------
        features : sequence of int or str, default=None
            Columns to use, by position or name. None: all.

        target : int, default=0
            Which of several targets.

        Raises
        ------
        ValueError
            If there are no targets, or the noise hides some direction of the features.
        """
        columns, targets = self._columns(features), self._targets()
        index = check_at_least(target, "target", 0)
        if index >= len(targets):
            raise ValueError(
                f"target must be below the number of targets, {len(targets)}; got "
                f"{target!r}."
            )
        model = fit_ols(self._sums, columns, int(targets[index]))
        model._target_units = self._units.box.of(targets[[index]])
        return self._derived(model, columns)

    def pca(
        self, n_components: int, *, features: Sequence[Any] | None = None
    ) -> MomentsPCA:
        """Return principal components of the features, for nothing more.

        Parameters
        ----------
        n_components : int
            Directions, from 1 to the number of features.

        features : sequence of int or str, default=None
            Columns to use, by position or name. None: all.

        Returns
        -------
        model : MomentsPCA
            Transforms these features.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        columns = self._columns(features)
        model = fit_pca(self.covariance(), self.mean(), n_components, columns)
        return self._derived(model, columns)

    def lda(
        self, classes: Sequence[Any] | None = None, *, features: Any = None
    ) -> MomentsLDA:
        """Return linear discriminants of classes, for nothing more.

        The targets that were summed must tell classes: a column for each, with 1 for
        its records and 0 for all others, or one column for two classes.

        Parameters
        ----------
        classes : sequence, default=None
            Labels, in the order of the columns; of a single column the one for 0 first.
            None: 0, 1, ...

        features : sequence of int or str, default=None
            Columns to use, by position or name. None: all.

        Returns
        -------
        model : MomentsLDA
            Predicts the classes.

        Raises
        ------
        ValueError
            If there are no targets, or not as many classes as they tell.
        """
        columns, targets = self._columns(features), self._targets()
        n_classes = max(2, len(targets))
        labels = np.arange(n_classes) if classes is None else np.asarray(classes)
        if labels.shape != (n_classes,) or len(np.unique(labels)) < n_classes:
            raise ValueError(
                f"classes must be {n_classes} different labels, one for each that the "
                f"targets tell, got {classes!r}."
            )
        model = fit_lda(self._sums, labels, columns, targets, self._units)
        return self._derived(model, columns)

    def mean(self) -> Floats:
        """Return the mean of each column, targets last.

        Returns
        -------
        mean : ndarray of shape (n_columns,)
            Within the bounds, if there are any.
        """
        return np.asarray(
            self._units.box.move(self.center_ + self.scale_ * self._sums.mean)
        )

    def covariance(self) -> Floats:
        """Return the covariance of all columns, targets last.

        Returns
        -------
        covariance : ndarray of shape (n_columns, n_columns)
            The nearest that is positive semidefinite, in units of `scale_`.
        """
        values, vectors = positive_part(
            self._sums.centered / max(self.n_records_ - 1, 1)
        )
        matrix = (vectors * values) @ vectors.T
        return np.asarray(self.scale_[:, None] * matrix * self.scale_)

    def correlation(self) -> Floats:
        """Return the correlation of all columns, targets last.

        Returns
        -------
        correlation : ndarray of shape (n_columns, n_columns)
            In [-1, 1]; 0 with a column that does not vary by more than three standard
            deviations of the noise, as a ratio of noise would be any number.
        """
        covariance = self.covariance()
        deviations = np.sqrt(np.diag(covariance))
        seen = self._sums.vary & (deviations > 0)
        units = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=seen)
        correlation = (units[:, None] * covariance * units).clip(-1, 1)
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation)

    @property
    def _sums(self) -> ReleasedSums:
        check_is_fitted(self, "certificate_")
        return ReleasedSums(
            self.sums_,
            self.noise_covariance_,
            self.n_records_,
            self.center_,
            self.scale_,
        )

    @property
    def _units_of_targets(self) -> Units:
        """Where targets may be."""
        return self._units.box.of(self._targets())

    def _targets(self) -> Columns:
        """Return the columns of the targets."""
        if not self.n_targets_:
            raise ValueError("y must be given to fit, for regressions: there was none.")
        return np.arange(self.n_targets_) + self.n_features_in_

    def _columns(self, features: Sequence[Any] | None) -> Columns:
        """Return positions of features that are named or numbered."""
        check_is_fitted(self, "certificate_")
        known = list(range(self.n_features_in_))
        if features is None:
            return np.array(known)
        if self._units.radius is not None:
            raise ValueError(
                "features must be None with a reach below 1, because records were "
                f"shortened by all of their features; got {features!r}."
            )
        names = list(getattr(self, "feature_names_in_", ()))
        found = []
        for feature in features:
            if isinstance(feature, str) and feature in names:
                found.append(names.index(feature))
            elif type(feature) is not bool and feature in known:
                found.append(int(feature))
            else:
                raise ValueError(
                    f"features must be names or positions of the "
                    f"{self.n_features_in_} features, got {feature!r}."
                )
        if not found or len(set(found)) < len(found):
            raise ValueError(
                f"features must be at least one, each once, got {features!r}."
            )
        return np.array(found)

    def _derived(self, model: Model, columns: Columns) -> Model:
        """Return a model that knows its features and the claim."""
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else names[columns]
        model.know(self.certificate_, names, self._units.of(columns))
        return model
