"""Bad input of wrapped estimators is refused; a fit that fails leaves no release."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.cluster import DBSCAN
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    RadiusNeighborsRegressor,
)
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from wrapped import (
    CLASSES,
    DECLARED,
    LABELS,
    POINTS,
    SECOND,
    X_PUBLIC,
    Y_PUBLIC,
    Odd,
    X,
    Y,
    fit_declared,
    fit_public,
    private,
)

from skparisk import IncompatibleError, PrivacyLedger, SensitivitySampler
from skparisk.queries import AttributeReader, EstimatorQuery


class Untold(BaseEstimator):
    """Takes targets, and its tags do not say so; as `PLSSVD`."""

    def fit(self, X, y):
        return self


NO_IDEA = Odd(failure=RuntimeError("no idea"))


class Unclonable(RegressorMixin, BaseEstimator):
    def __init__(self, names):
        self.names = list(names)


def at_points(release, points=POINTS, **parameters):
    return {"release": release, "X_public": points, **parameters}


TREES = "is no array of numbers of one shape, as in trees, .* predict cannot be served "
TREES += "from a release: release its predictions at public points"
FOO = r"Ridge has no attribute 'foo_' after fit that is an array of numbers of "
FOO += r"one shape; it has coef_ \(4,\), intercept_ \(\)"
MADE_UP = "PCA cannot be fitted to made-up records, as there is no X_reference: n_c"
OF_NUMBERS = "after fit that is an array"
# What is refused, whatever is declared.
INCOMPATIBLE = [
    (GradientBoostingRegressor(n_estimators=2), TREES),
    (KNeighborsRegressor(), "What KNeighborsRegressor learned is no .* or grows with"),
    (StandardScaler(with_mean=False, with_std=False), "finds nothing that StandardSca"),
    (OneHotEncoder(), "What OneHotEncoder learns is no array of numbers, such as cate"),
    (VarianceThreshold(), "VarianceThreshold chooses columns, .* Let it be a step of"),
    (SVC(), "cannot be served .*: wrap it in a CalibratedClassifierCV, and release"),
    (KernelRidge(kernel="precomputed"), "fitted to labels, mappings, images or number"),
    (LabelEncoder(), "LabelEncoder is fitted to labels, mappings"),
    (MultiOutputClassifier(GaussianNB()), "is given several labels of each record"),
    (DictVectorizer(), "DictVectorizer is fitted to labels, mappings"),
    (Untold(), "Untold is fitted to targets, but does not say so in its tags"),
]
WRONG = [
    (Unclonable(("a",)), {}, "one that can be cloned; cloning Unclonable failed"),
    (Ridge(), {"release": ("coef_", "foo_")}, FOO),
    (
        MLPRegressor(hidden_layer_sizes=(3,), max_iter=2),
        {"release": ("coefs_",)},
        f"MLPRegressor has no attribute 'coefs_' {OF_NUMBERS}",
    ),
    (Odd("text"), {"release": ("value_",)}, f"no attribute 'value_' {OF_NUMBERS} of"),
    (DBSCAN(), {}, "does not know what DBSCAN is for, .* that it is fitted to: take"),
    (PCA(9), {}, MADE_UP),
    (NO_IDEA, {}, "predict of Odd fails on public records: no idea"),
    (NO_IDEA, at_points("predict"), "fitted to public records, fails at X_public: no"),
    (
        RadiusNeighborsRegressor(1e-9),
        at_points("predict"),
        "is not finite at some points of X_public. Leave these out",
    ),
    (SVC(kernel="linear"), {"release": ("coef_",)}, "coef_ of SVC cannot be set"),
    (Ridge, {}, "estimator must be an instance of a scikit-learn"),
    (Ridge(), {"release": ("coef_",) * 2}, "of distinct names"),
    (Ridge(), {"release": "coef_"}, "predict_proba'; got 'coef_'"),
    (Ridge(), at_points("predict_proba"), "got 'predict_proba' for the regressor Rid"),
    (LinearSVC(), at_points("predict_proba"), "'predict_proba' for classifiers that"),
    (Ridge(), {"release": "predict"}, "X_public must be given"),
    (Ridge(), at_points("predict", [[np.nan] * 4]), "X_public contains NaN"),
    (
        GaussianNB(),
        at_points("predict_proba", surrogate=SVC()),
        "surrogate must be a regressor, .* got SVC",
    ),
    (Ridge(), {"X_public": POINTS}, "X_public and surrogate must"),
    (Ridge(), {"sensitivity": "bound"}, "or a finite number above 0; got 'bound'"),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("estimator", "parameters", "error", "message"),
    [
        *((e, {}, IncompatibleError, message) for e, message in INCOMPATIBLE),
        *((e, given, ValueError, message) for e, given, message in WRONG),
        (
            Ridge(),
            at_points("predict", POINTS[:, :2]),
            IncompatibleError,
            "X has 4 features, but X_public has 2",
        ),
    ],
)
def test_bad_input_is_refused(estimator, parameters, error, message):
    model = private(estimator).set_params(**DECLARED | parameters)
    labels = isinstance(estimator, ClassifierMixin)
    if labels:
        model.set_params(classes=CLASSES)
    with pytest.raises(error, match=message):
        model.fit(X, LABELS if labels else Y)
    assert not hasattr(model, "certificate_")


def test_the_reference_has_as_many_targets():
    with pytest.raises(IncompatibleError, match="reference has 2 targets, but y has 1"):
        private(Ridge()).fit(
            X, Y, **SECOND | {"y_reference": np.c_[Y_PUBLIC, Y_PUBLIC]}
        )


class Keeps(RegressorMixin, BaseEstimator):
    """Predicts the mean, which it keeps in a way of its own."""

    def __init__(self, how):
        self.how = how

    def fit(self, X, y):
        self.kept_ = WAYS_TO_KEEP[self.how](np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), np.ravel(_innermost(self.kept_))[0])


WAYS_TO_KEEP = {
    "named": lambda mean: [("mean", float(mean))],
    "0-d": lambda mean: (np.array(mean),),
    "truth": lambda mean: {True: {"mean": np.array([mean])}},
}


def _innermost(value):
    while isinstance(value, dict | list | tuple):
        value = list(value.values() if isinstance(value, dict) else value)[-1]
    return value


@pytest.mark.parametrize("how", WAYS_TO_KEEP)
def test_numbers_that_cannot_be_named_or_set_are_refused_with_a_way_out(how):
    with pytest.raises(IncompatibleError, match="release its predictions at public"):
        fit_public(private(Keeps(how)))


def test_sampler_without_a_public_fit_is_refused_before_anything_is_released():
    names = ("coef_", "intercept_")
    query = EstimatorQuery(
        Ridge(random_state=0), AttributeReader(names), {"coef_": (4,), "intercept_": ()}
    )
    sampler = SensitivitySampler(query, gamma=0.2, n_pairs=9, n_records=len(X))
    sampler.fit(X_PUBLIC, Y_PUBLIC)
    for release in ("auto", names):
        model = private(Ridge(), release, sensitivity=sampler)
        with (
            PrivacyLedger(epsilon=10) as ledger,
            pytest.raises(IncompatibleError, match="for Ridge"),
        ):
            model.fit(X, Y)
        assert not ledger.releases


def test_several_labels_of_a_record_are_refused():
    with pytest.raises(IncompatibleError, match="Fit a PrivateEstimator to each"):
        private(KNeighborsClassifier()).fit(X, np.c_[LABELS, LABELS])


def test_shape_that_changes_between_databases_is_refused():
    """Where it does so often, which databases it is seen on is chance."""
    records = np.random.default_rng(0).normal(size=(112, 4))
    model = private(PCA(0.72), sensitivity=SensitivitySampler(n_pairs=30))
    messages = []
    for seed in range(8):
        with pytest.raises((IncompatibleError, ValueError)) as refused:
            model.set_params(random_state=seed).fit(
                records[:12], X_reference=records[12:]
            )
        messages.append(str(refused.value))
    assert any("What PCA learned is no array" in text for text in messages)


class Fails(RegressorMixin, BaseEstimator):
    """A surrogate that fails where predictions are small."""

    def fit(self, X, y):
        if np.abs(y).max() > 1e6:
            raise ValueError("numbers too large")
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_surrogate_that_fails_on_what_was_released_leaves_an_unfitted_model():
    model = private(Ridge(), "predict", X_public=POINTS, surrogate=Fails())
    with pytest.raises(ValueError, match="too large"):
        fit_declared(model.set_params(epsilon=1e-12))
    with pytest.raises(NotFittedError):
        model.predict(X)
    fit_declared(model.set_params(epsilon=1.0)).predict(X)
