"""Private support vector machines, and proven bounds of how far these move."""

from __future__ import annotations

import math
from typing import Any

from skparisk._training_data import SensitivitySource
from skparisk.core.checks import check_at_least, check_positive
from skparisk.linear_model import PrivateLinearClassifier
from skparisk.queries import LinearSVCQuery
from skparisk.queries._bounds import linear_svc_sensitivity_bound

__all__ = ["PrivateLinearSVC", "linear_svc_sensitivity_bound", "svm_sensitivity_bound"]


class PrivateLinearSVC(PrivateLinearClassifier):
    """Linear support vector machine with private coefficients.

    Minimizes what scikit-learn's `LinearSVC` does, closely, and releases the
    coefficients and intercepts once, with noise. Everything else, predictions included,
    is computed from the released numbers.

    Parameters
    ----------
    C : float, "auto" or None, default=None
        Weight of the losses, > 0, as in `LinearSVC`; a larger weight means a smaller
        penalty. "auto": the best weight in simulated releases on the public reference,
        at no privacy cost (:ref:`choice-of-penalty`). None: "auto" if there is a public
        reference and `epsilon` is finite; else the weight of a fitted sampler; else
        1.0, as in `LinearSVC`.

    loss : {"hinge", "squared_hinge"}, default="squared_hinge"
        Loss of a record within the margin.

    epsilon, gamma : float, default=1.0 and 0.05
        Privacy level, in (0, inf], and risk, in (0, 1): :ref:`private-parameters`.

    fit_intercept : bool, default=True
        Whether to fit and release an intercept.

    intercept_scaling : float, default=1.0
        Value, > 0, of a constant column; the intercept is its coefficient times this
        value. The larger it is, the less the intercept is penalized.

    sensitivity : SensitivitySampler, float or None, default=None
        Source of the sensitivity: :ref:`private-parameters`. Not "bound", which
        :class:`~skparisk.PrivateLogisticRegression` has.

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

    released_, reference_comparison_ : objects
        The release, and public records beside it: :ref:`private-attributes`.

    epsilon_, gamma_, risk_, confidence_ : float
    sensitivity_, noise_scale_, noise_epsilon_, noise_to_spread_ : float
    certificate_, sampler_, n_features_in_, feature_names_in_ : objects
        The claim, the noise and the data: :ref:`private-attributes`.

    Notes
    -----
    **Guarantee**. As for all private estimators: :ref:`private-parameters`.

    Private data without a class are fitted silently, because an error would reveal it.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skparisk import PrivateLinearSVC
    >>> X, y = make_classification(2000, 5, random_state=0)
    >>> model = PrivateLinearSVC(C=0.01, epsilon=1.0, random_state=0)
    >>> public = {"X_reference": X[1000:], "y_reference": y[1000:]}
    >>> model = model.fit(X[:1000], y[:1000], **public)
    >>> model.coef_.shape, model.risk_ <= 0.05
    ((1, 5), True)
    """

    def __init__(
        self,
        C: float | str | None = None,
        *,
        loss: str = "squared_hinge",
        epsilon: float = 1.0,
        gamma: float = 0.05,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        sensitivity: Any = None,
        classes: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        noise_random_state: Any = None,
        verbose: int | None = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.gamma = gamma
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.sensitivity = sensitivity
        self.classes = classes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.noise_random_state = noise_random_state
        self.verbose = verbose

    def _make_query(self, classes: tuple[float, ...], C: Any) -> LinearSVCQuery:
        return LinearSVCQuery(
            classes,
            C=C,
            loss=self.loss,
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling,
        )

    def _check_source(self) -> SensitivitySource:
        if isinstance(self.sensitivity, str) and self.sensitivity == "bound":
            raise ValueError(
                "sensitivity must be None, a SensitivitySampler (also in a "
                "FrozenEstimator), a KnownSensitivity or a finite number above 0, got "
                "'bound': the solver of PrivateLinearSVC is not exact enough for a "
                "proven bound. PrivateLogisticRegression has one."
            )
        return self._check_privacy()


def svm_sensitivity_bound(n_records: int, C: float, *, n_features: int) -> float:
    r"""Return a proven bound of the l1 sensitivity of an SVM with a free intercept.

    Parameters
    ----------
    n_records : int
        Records of a database, n >= 1.

    C : float
        Weight of the losses, > 0, as in scikit-learn's `SVC`.

    n_features : int
        Features d >= 1.

    Returns
    -------
    bound : float
        Of :math:`\|(w, b) - (w', b')\|_1`.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee**. For the exact minimizer with hinge loss and a linear kernel, records
    in [0, 1]^d, an intercept without penalty, replace-one, and both classes in both
    databases: :math:`2 + \min(C_R d / 2, \sqrt{C_R d}) + 4 C_R d / n` with
    :math:`C_R = n C`. The last term is for w, the others are for the intercept.

    Examples
    --------
    >>> from skparisk.svm import svm_sensitivity_bound
    >>> round(svm_sensitivity_bound(1000, 0.003, n_features=12), 3)
    8.144
    """
    n, weight, d = check_box(n_records, C, n_features)
    return 2 + min(weight * d / 2, math.sqrt(weight * d)) + 4 * weight * d / n


def check_box(n_records: int, C: float, n_features: int) -> tuple[int, float, int]:
    """Return n, the paper's C, and d."""
    n = check_at_least(n_records, "n_records", 1)
    d = check_at_least(n_features, "n_features", 1)
    return n, check_positive(n * check_positive(C, "C"), "n_records * C"), d
