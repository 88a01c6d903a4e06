"""PrivateRidge: ridge regression whose coefficients are private."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin

from skparisk._checks import check_flag
from skparisk._fitted import whole_fit
from skparisk._linear_predictions import LinearPredictions
from skparisk._private import PrivateMixin
from skparisk._private_data import validate_private
from skparisk._training_data import (
    Groups,
    RowWeights,
    read_as_public,
    reference_table,
)
from skparisk.core.checks import check_positive
from skparisk.core.release import hide_values
from skparisk.linear_model._bounds import check_y_bounds
from skparisk.linear_model._correction import CorrectionMixin
from skparisk.linear_model._penalty import AskedPenalty
from skparisk.linear_model._penalty_choice import PenaltyChoice
from skparisk.moments import PrivateMoments, Units
from skparisk.queries import RidgeQuery
from skparisk.queries._base import Floats


class PrivateRidge(
    PrivateMixin, CorrectionMixin, MultiOutputMixin, LinearPredictions, BaseEstimator
):
    """Ridge regression with private coefficients.

    Fits scikit-learn's `Ridge` and releases its coefficients and intercept once,
    with noise; with a proven bound it releases moments, and computes them from these.
    Everything else, predictions included, is computed from the released numbers.

    Parameters
    ----------
    alpha : float, array-like of shape (n_targets,), "auto" or None, default=None
        Penalty, >= 0, as in `Ridge`. "auto": the best penalty in simulated releases on
        the public reference, at no privacy cost (:ref:`choice-of-penalty`). None:
        "auto" if there is a public reference and `epsilon` is finite; else the penalty
        of a fitted sampler; else 1.0, as in `Ridge`.

    epsilon, gamma : float, default=1.0 and 0.05
        Privacy level, in (0, inf], and risk, in (0, 1): :ref:`private-parameters`.

    fit_intercept : bool, default=True
        Whether to fit and release an intercept.

    sensitivity : SensitivitySampler, float, "bound" or None, default=None
        Source of the sensitivity: :ref:`private-parameters`. "bound": rows and targets
        are clipped to `x_norm` and `y_bounds`, and the sums of a
        :class:`~skparisk.PrivateMoments` are released. Ridge regression from them has
        an intercept, the penalty of :meth:`~skparisk.PrivateMoments.ridge` if `alpha`
        is None or "auto", and predictions within the bounds of the targets.

    x_norm : float, default=None
        For "bound": largest l2 norm of a row of features, > 0.

    y_bounds : tuple of float, default=None
        For "bound": (lowest, highest) target.

    combine : {"auto", "reference"} or None, default="auto"
        "reference" releases a correction to a ridge regression of the public records,
        and weighs both: :ref:`private-parameters`. "auto" does so if there are such
        records, and noise.

    n_jobs, random_state, noise_random_state, verbose
        For the sampling of pairs, and the noise: :ref:`private-parameters`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Released coefficients.

    intercept_ : float or ndarray of shape (n_targets,)
        Released intercept; 0.0 without one.

    alpha_ : float or tuple of float
        The penalty in use.

    moments_ : PrivateMoments or None
        The released moments, which serve other models at no further cost.

    penalty_choice_ : PenaltyChoice or None
        Comparison behind the choice, if there was one.

    released_, combine_, private_weight_ : objects
    reference_shift_, reference_comparison_ : objects
        The release, and public records beside it: :ref:`private-attributes`. With
        `combine`, `released_` is the correction to the public fit.

    epsilon_, gamma_, risk_, confidence_ : float
    sensitivity_, noise_scale_, noise_epsilon_, noise_to_spread_ : float
    certificate_, sampler_, n_features_in_, feature_names_in_ : objects
        The claim, the noise and the data: :ref:`private-attributes`.

    Notes
    -----
    **Guarantee**. As for all private estimators: :ref:`private-parameters`.

    Examples
    --------
    >>> from skparisk import PrivateRidge
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> model = PrivateRidge(epsilon=1.0, gamma=0.05, random_state=0)
    >>> public = {"X_reference": X[9000:], "y_reference": y[9000:]}
    >>> model = model.fit(X[:9000], y[:9000], **public)
    >>> model.coef_.shape, model.risk_ <= 0.05
    ((8,), True)
    >>> both = model.set_params(combine="reference").fit(X[:9000], y[:9000], **public)
    >>> 0 < both.private_weight_ <= 1
    True
    """

    _takes_parts = True

    def __init__(
        self,
        alpha: Any = None,
        *,
        epsilon: float = 1.0,
        gamma: float = 0.05,
        fit_intercept: bool = True,
        sensitivity: Any = None,
        x_norm: float | None = None,
        y_bounds: Sequence[float] | None = None,
        combine: str | None = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        noise_random_state: Any = None,
        verbose: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.epsilon = epsilon
        self.gamma = gamma
        self.fit_intercept = fit_intercept
        self.sensitivity = sensitivity
        self.x_norm = x_norm
        self.y_bounds = y_bounds
        self.combine = combine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.noise_random_state = noise_random_state
        self.verbose = verbose

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
        """Fit, and release coefficients and intercept with noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records. A Dask array or frame is read in parts: :doc:`/scale`.

        y : array-like of shape (n_records,) or (n_records, n_targets)
            Their targets.

        X_reference, y_reference : array-like, default=None
            Public records, and their targets: :ref:`private-fit`.

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
        source = self._check_privacy({"x_norm": self.x_norm, "y_bounds": self.y_bounds})
        fit_intercept = check_flag(self.fit_intercept, "fit_intercept")
        given = {
            "X_reference": X_reference,
            "y_reference": y_reference,
            "groups": groups,
            "groups_reference": groups_reference,
            "sample_weight": sample_weight,
            "sample_weight_reference": sample_weight_reference,
        }
        rows = RowWeights(sample_weight, sample_weight_reference)
        if source == "bound":
            return self._fit_moments(X, y, given)
        table = reference_table(X_reference, y_reference, groups_reference)
        table = rows.of_public(source, table)
        people = Groups(groups)
        people.check(source, table)
        self._check_combine(source, table)
        asked = AskedPenalty.of(self.alpha, "alpha", source, table, self.epsilon)
        query = RidgeQuery(asked.value, fit_intercept=fit_intercept)
        private = read_as_public(source, table, X, y)
        features, targets = validate_private(
            self, *private, dtype=np.float64, multi_output=True, y_numeric=True
        )
        targets = hide_values(np.asarray, targets, dtype=np.float64)
        query.check_targets(targets)
        shape = targets.shape[1:]
        own = rows.of_private(features)
        features, targets, own = people.of_private(features, targets, own)
        data = self._recognize(source, X, features, targets, table, people)
        query, data = data.weighted(query, source, own)
        self.moments_: PrivateMoments | None = None
        self.alpha_ = self._release_penalized(
            source, query, asked, data, lambda model, each: model._unpack(each, shape)
        )
        return self

    def _fit_moments(self, X: Any, y: Any, given: dict[str, Any]) -> Self:
        """Release moments, and serve ridge regression from them."""
        self._check_combine("bound", None)
        if not self.fit_intercept:
            raise ValueError(
                "fit_intercept must be True with sensitivity='bound', got False."
            )
        alpha = "auto" if self.alpha is None else self.alpha
        if np.ndim(alpha) or isinstance(alpha, PenaltyChoice):
            raise ValueError(
                "alpha must be None, 'auto' or one number with sensitivity='bound', "
                f"got {alpha!r}."
            )
        x_norm = check_positive(self.x_norm, "x_norm")
        features, _ = validate_private(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True
        )
        moments = PrivateMoments(  # a ball in the smallest box that has it
            bounds=(-x_norm, x_norm),
            y_bounds=check_y_bounds(self.y_bounds),
            reach=1 / math.sqrt(features.shape[1]),
            epsilon=self.epsilon,
            gamma=self.gamma,
            sensitivity=self.sensitivity,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            noise_random_state=self.noise_random_state,
            verbose=self.verbose,
        )
        moments.fit(X, y, **given)
        model = moments.ridge(alpha)
        self.coef_, self.intercept_ = model.coef_, model.intercept_
        self.alpha_, self.penalty_choice_ = model.penalty_, None
        self.moments_ = moments
        self.released_, self.private_weight_ = moments.sums_, 1.0
        self.reference_shift_ = self.reference_comparison_ = None
        self.combine_ = None
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(moments, name):
                setattr(self, name, getattr(moments, name))
        self._keep_claim(moments.certificate_, moments.sampler_)
        return self

    def _find_units(self) -> tuple[Units | None, Units | None]:
        if self.moments_ is None:
            return None, None
        features = np.arange(self.n_features_in_)
        return self.moments_._units.of(features), self.moments_._units_of_targets

    def _unpack(self, released: Floats, targets: tuple[int, ...]) -> None:
        """Set coefficients and intercept, in the shapes that `Ridge` has."""
        n_targets = math.prod(targets)
        n_coef = self.n_features_in_ * n_targets
        coef = released[:n_coef].reshape(n_targets, -1)
        self.coef_ = coef if n_targets > 1 else coef[0]
        self.intercept_: float | Floats = 0.0
        if self.fit_intercept:
            intercept = released[n_coef:]
            self.intercept_ = intercept if targets else float(intercept[0])
