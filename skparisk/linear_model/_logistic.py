"""PrivateLogisticRegression: logistic regression whose coefficients are private."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax

from skparisk._training_data import SensitivitySource, TrainingData
from skparisk.core.checks import check_positive
from skparisk.linear_model._bounds import bounded_logistic_problem, split_intercepts
from skparisk.linear_model._linear_classifier import PrivateLinearClassifier
from skparisk.queries import LogisticRegressionQuery
from skparisk.queries._base import Floats
from skparisk.reference import Reference, TableReference
from skparisk.sensitivity import KnownSensitivity

# Rows that were scaled to a norm are off by this much at most.
_NORM_ROUNDING = 2.0**-40


class PrivateLogisticRegression(PrivateLinearClassifier):
    """Logistic regression with private coefficients.

    Minimizes what scikit-learn's `LogisticRegression` does, to the last digits, and
    releases its coefficients and intercepts once, with noise. Everything else,
    probabilities included, is computed from the released numbers.

    Parameters
    ----------
    C : float, "auto" or None, default=None
        Weight of the losses, > 0, as in `LogisticRegression`; a larger weight means a
        smaller penalty. "auto": the best weight in simulated releases on the public
        reference, at no privacy cost (:ref:`choice-of-penalty`). None: "auto" if there
        is a public reference and `epsilon` is finite; else the weight of a fitted
        sampler; else 1.0, as in `LogisticRegression`.

    epsilon, gamma : float, default=1.0 and 0.05
        Privacy level, in (0, inf], and risk, in (0, 1): :ref:`private-parameters`.

    fit_intercept : bool, default=True
        Whether to fit and release an intercept.

    sensitivity : SensitivitySampler, float, "bound" or None, default=None
        Source of the sensitivity: :ref:`private-parameters`. "bound" is
        :func:`logistic_sensitivity_bound`: rows are clipped to `x_norm`. The intercept
        is the coefficient of a constant column, hence penalized, unlike in
        `LogisticRegression`.

    x_norm : float, default=None
        For "bound": largest l2 norm of a row of features, > 0.

    combine : {"auto", "reference"} or None, default="auto"
        "reference" releases a correction to a logistic regression of the public
        records, and weighs both: :ref:`private-parameters`. "auto" does so if there are
        such records, and noise.

    classes, n_jobs, random_state, noise_random_state, verbose
        The public classes, the sampling of pairs, the noise: :ref:`private-parameters`.

    Attributes
    ----------
    coef_, intercept_, classes_ : ndarray
        Released coefficients, of shape (n_rows, n_features), released intercepts, zeros
        without one, and the classes; n_rows is 1 for two classes, else n_classes.

    C_ : float
        The weight in use.

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

    Private data without a class are fitted silently, because an error would reveal it;
    with zeros (and noise) where the intercept is not penalized.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skparisk import PrivateLogisticRegression
    >>> X, y = make_classification(2000, 5, random_state=0)
    >>> model = PrivateLogisticRegression(epsilon=1.0, gamma=0.05, random_state=0)
    >>> public = {"X_reference": X[1000:], "y_reference": y[1000:]}
    >>> model = model.fit(X[:1000], y[:1000], **public)
    >>> model.coef_.shape, model.risk_ <= 0.05
    ((1, 5), True)
    >>> both = model.set_params(combine="reference").fit(X[:1000], y[:1000], **public)
    >>> both.released_.shape, 0 < both.private_weight_ <= 1
    ((6,), True)
    """

    def __init__(
        self,
        C: float | str | None = None,
        *,
        epsilon: float = 1.0,
        gamma: float = 0.05,
        fit_intercept: bool = True,
        sensitivity: Any = None,
        x_norm: float | None = None,
        classes: Any = None,
        combine: str | None = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        noise_random_state: Any = None,
        verbose: int | None = None,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.gamma = gamma
        self.fit_intercept = fit_intercept
        self.sensitivity = sensitivity
        self.x_norm = x_norm
        self.classes = classes
        self.combine = combine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.noise_random_state = noise_random_state
        self.verbose = verbose

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, by the released coefficients.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Records.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Records.

        Returns
        -------
        logarithms : ndarray of shape (n_rows, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return log_softmax(scores, axis=1)

    def _make_query(
        self, classes: tuple[float, ...], C: Any
    ) -> LogisticRegressionQuery:
        return LogisticRegressionQuery(classes, C, self.fit_intercept)

    def _check_source(self) -> SensitivitySource:
        return self._check_privacy({"x_norm": self.x_norm})

    def _release(
        self,
        source: SensitivitySource,
        query: Any,
        data: TrainingData,
        check: Any = None,
    ) -> Floats:
        if not isinstance(source, str):
            return super()._release(source, query, data, check)
        self._check_within(data.table)
        X, query, sensitivity = bounded_logistic_problem(
            query, data.features, self.x_norm
        )
        released = self._release_known(
            query, X, data.targets, KnownSensitivity(sensitivity), proven=True
        )
        return split_intercepts(released, self.n_features_in_, self.fit_intercept)

    def _check_within(self, table: Reference | None) -> None:
        """Check what is declared for "bound", also against public records."""
        radius = check_positive(self.x_norm, "x_norm")
        if not isinstance(table, TableReference):
            return
        norm = float(np.linalg.norm(table.pool.X, axis=1).max())
        if norm > radius * (1 + _NORM_ROUNDING):
            raise ValueError(
                f"x_norm={self.x_norm!r} was declared, but a record of the reference "
                "has a larger norm: declare a larger x_norm, or scale the records."
            )
