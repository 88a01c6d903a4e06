"""Data, references and fits that the tests of wrapped estimators share."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted, validate_data
from unnoised import places_of_numbers

from skparisk import PrivateEstimator, SensitivitySampler
from skparisk.queries._estimator import repeatable

RNG = np.random.default_rng(0)


def make_data(n_records):
    """Positive records in three groups: for targets, labels and clusters alike."""
    group = np.arange(n_records) * 7919 % 17 % 3
    X = RNG.gamma(4.0, 0.25, size=(n_records, 4)) + 0.8 * np.eye(3, 4)[group]
    y = X @ [2.0, -1.0, 0.5, 0.0] + 0.3 * RNG.normal(size=n_records)
    return X, y, np.array(["ash", "beech", "cedar"])[group]


X, Y, LABELS = make_data(80)
X_PUBLIC, Y_PUBLIC, LABELS_PUBLIC = make_data(160)
CHEAP = SensitivitySampler(n_pairs=4)
POINTS = X_PUBLIC[:12]
DECLARED = {"sensitivity": 1.0}
CLASSES = ["ash", "beech", "cedar"]


def private(estimator, release="auto", **parameters):
    cheap = {"gamma": 0.2, "sensitivity": CHEAP, "random_state": 1, "combine": None}
    return PrivateEstimator(estimator, release, **(cheap | parameters))


def data_for(estimator, public=False):
    """Return the arguments of fit, the private ones or the reference."""
    X_, y, labels = (X_PUBLIC, Y_PUBLIC, LABELS_PUBLIC) if public else (X, Y, LABELS)
    if is_classifier(estimator):
        return X_, labels
    return (X_, y) if is_regressor(estimator) else (X_,)


def reference_for(estimator):
    names = ("X_reference", "y_reference")
    return dict(zip(names, data_for(estimator, public=True), strict=False))


def fit_public(model):
    """Fit to the private data, with the public ones as the reference."""
    return model.fit(*data_for(model.estimator), **reference_for(model.estimator))


def fit_declared(model):
    return declare_classes(model).set_params(**DECLARED).fit(*data_for(model.estimator))


def declare_classes(model):
    """Make the classes public, where there are any."""
    return model.set_params(classes=CLASSES if is_classifier(model) else None)


def fit_plain(estimator):
    """Return scikit-learn's own fit to the private data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return repeatable(estimator).fit(*data_for(estimator))


METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
    "score_samples",
    "score",
    "get_feature_names_out",
)


def served_methods(estimator):
    return {method for method in METHODS if hasattr(estimator, method)}


def assert_same(answer, expected):
    if np.asarray(expected).dtype.kind in "USO":
        np.testing.assert_array_equal(answer, expected)
    else:
        np.testing.assert_allclose(answer, expected, rtol=1e-12, atol=1e-12)


def numbers_reached(thing):
    """Return all floats that can be reached from an object, but plain fractions."""
    return set(places_of_numbers(thing))


class Odd(RegressorMixin, BaseEstimator):
    """Its attributes and its failures are parameters."""

    def __init__(self, value=0.0, failure=None):
        self.value = value
        self.failure = failure

    def fit(self, X, y):
        validate_data(self, X, y)
        self.value_ = self.value
        self.mean_ = float(np.mean(y))
        self.n_iter_ = 3
        return self

    def predict(self, X):
        if self.failure is not None:
            raise self.failure
        check_is_fitted(self, "value_")
        return np.full(len(X), self.mean_)


SECOND = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
