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

from skparisk import (
    IncompatibleError,
    PrivacyLedger,
    SensitivitySampler,
)
from skparisk.queries import AttributeReader, EstimatorQuery, MeanQuery
from skparisk.reference import TableReference


class Untold(BaseEstimator):
    """Takes targets, and its tags do not say so; as `PLSSVD`."""

    def fit(self, X, y):
        return self


class Unclonable(RegressorMixin, BaseEstimator):
    def __init__(self, names):
        self.names = list(names)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("estimator", "parameters", "reference", "error", "message"),
    [
        (Ridge, {}, {}, ValueError, "estimator must be an instance of a scikit-learn"),
        (
            Unclonable(("a",)),
            DECLARED,
            {},
            ValueError,
            "one that can be cloned; cloning Unclonable failed",
        ),
        (
            Ridge(),
            {"release": ("coef_", "foo_")} | DECLARED,
            {},
            ValueError,
            r"Ridge has no attribute 'foo_' after fit that is an array of numbers of "
            r"one shape; it has coef_ \(4,\), intercept_ \(\)",
        ),
        (
            MLPRegressor(hidden_layer_sizes=(3,), max_iter=2),
            {"release": ("coefs_",)} | DECLARED,
            {},
            ValueError,
            "MLPRegressor has no attribute 'coefs_' after fit that is an array",
        ),
        (
            Odd("text"),
            {"release": ("value_",)} | DECLARED,
            {},
            ValueError,
            "Odd has no attribute 'value_' after fit that is an array of numbers",
        ),
        (
            GradientBoostingRegressor(n_estimators=2),
            DECLARED,
            {},
            IncompatibleError,
            "is no array of numbers of one shape, as in trees, .* predict cannot be "
            "served from a release: release its predictions at public points",
        ),
        (
            KNeighborsRegressor(),
            DECLARED,
            {},
            IncompatibleError,
            "What KNeighborsRegressor learned is no array .* or grows with the records",
        ),
        (
            StandardScaler(with_mean=False, with_std=False),
            DECLARED,
            {},
            IncompatibleError,
            "release='auto' finds nothing that StandardScaler has learned",
        ),
        (
            OneHotEncoder(),
            DECLARED,
            {},
            IncompatibleError,
            "What OneHotEncoder learns is no array of numbers, such as categories",
        ),
        (
            VarianceThreshold(),
            DECLARED,
            {},
            IncompatibleError,
            "VarianceThreshold chooses columns, .* Let it be a step of a Pipeline",
        ),
        (
            DBSCAN(),
            DECLARED,
            {},
            ValueError,
            "does not know what DBSCAN is for, .* but those that it is fitted to: take",
        ),
        (
            PCA(9),
            DECLARED,
            {},
            ValueError,
            "PCA cannot be fitted to made-up records, as there is no X_reference: n_c",
        ),
        (
            Odd(failure=RuntimeError("no idea")),
            DECLARED,
            {},
            ValueError,
            "predict of Odd fails on public records: no idea",
        ),
        (
            Odd(failure=RuntimeError("no idea")),
            {"release": "predict", "X_public": POINTS} | DECLARED,
            {},
            ValueError,
            "predict of Odd, fitted to public records, fails at X_public: no idea",
        ),
        (
            RadiusNeighborsRegressor(1e-9),
            {"release": "predict", "X_public": POINTS} | DECLARED,
            {},
            ValueError,
            "is not finite at some points of X_public. Leave these out",
        ),
        (
            SVC(),
            DECLARED,
            {},
            IncompatibleError,
            "cannot be served .*: wrap it in a CalibratedClassifierCV, and release its",
        ),
        (
            KernelRidge(kernel="precomputed"),
            DECLARED,
            {},
            IncompatibleError,
            "KernelRidge is fitted to labels, mappings, images or numbers of pairs",
        ),
        (
            LabelEncoder(),
            DECLARED,
            {},
            IncompatibleError,
            "LabelEncoder is fitted to labels, mappings",
        ),
        (
            MultiOutputClassifier(GaussianNB()),
            DECLARED,
            {},
            IncompatibleError,
            "MultiOutputClassifier is given several labels of each record",
        ),
        (
            DictVectorizer(),
            DECLARED,
            {},
            IncompatibleError,
            "DictVectorizer is fitted to labels, mappings",
        ),
        (
            Untold(),
            DECLARED,
            {},
            IncompatibleError,
            "Untold is fitted to targets, but does not say so in its tags",
        ),
        (
            SVC(kernel="linear"),
            {"release": ("coef_",)} | DECLARED,
            {},
            ValueError,
            "coef_ of SVC cannot be set",
        ),
        (Ridge(), {"release": ("coef_",) * 2}, {}, ValueError, "of distinct names"),
        (Ridge(), {"release": "coef_"}, {}, ValueError, "predict_proba'; got 'coef_'"),
        (
            Ridge(),
            {"release": "predict_proba", "X_public": POINTS},
            {},
            ValueError,
            "got 'predict_proba' for the regressor Ridge",
        ),
        (
            LinearSVC(),
            {"release": "predict_proba", "X_public": POINTS},
            {},
            ValueError,
            "'predict_proba' for classifiers that have it",
        ),
        (
            Ridge(),
            {"release": "predict"},
            {},
            ValueError,
            "X_public must be given",
        ),
        (
            Ridge(),
            {"release": "predict", "X_public": POINTS[:, :2]},
            {},
            IncompatibleError,
            "X has 4 features, but X_public has 2",
        ),
        (
            Ridge(),
            {"release": "predict", "X_public": [[np.nan] * 4]},
            {},
            ValueError,
            "X_public contains NaN",
        ),
        (
            GaussianNB(),
            {"release": "predict_proba", "X_public": POINTS, "surrogate": SVC()},
            {},
            ValueError,
            "surrogate must be a regressor, .* got SVC",
        ),
        (Ridge(), {"X_public": POINTS}, {}, ValueError, "X_public and surrogate must"),
        (
            Ridge(),
            {
                "sensitivity": SensitivitySampler(
                    reference=TableReference(X_PUBLIC, Y_PUBLIC)
                )
            },
            SECOND,
            ValueError,
            "there can be only one reference",
        ),
        (
            Ridge(),
            {"sensitivity": SensitivitySampler(reference=TableReference(X_PUBLIC))},
            {},
            ValueError,
            "Ridge takes targets, but the reference has none",
        ),
        (
            Ridge(),
            {},
            SECOND | {"X_reference": X_PUBLIC[:, :2]},
            IncompatibleError,
            "The reference has 2 features, but X has 4",
        ),
        (
            Ridge(),
            {},
            SECOND | {"y_reference": np.c_[Y_PUBLIC, Y_PUBLIC]},
            IncompatibleError,
            "The reference has 2 targets, but y has 1",
        ),
        (
            Ridge(),
            {"sensitivity": "bound"},
            {},
            ValueError,
            "sensitivity must be None, a SensitivitySampler .* or a finite number "
            "above 0; got 'bound'",
        ),
        (
            Ridge(),
            {"sensitivity": SensitivitySampler(law="exponential")},
            SECOND,
            ValueError,
            "law of the SensitivitySampler must be of noise that is added to numbers",
        ),
        (
            Ridge(),
            {"sensitivity": SensitivitySampler(n_records=0)},
            SECOND,
            ValueError,
            "n_records must be a whole number >= 1, got 0",
        ),
        (
            Ridge(),
            {"sensitivity": SensitivitySampler(n_records=79, n_pairs=4)},
            SECOND,
            IncompatibleError,
            "databases of 79 records, got 80",
        ),
        (
            Ridge(),
            {"sensitivity": SensitivitySampler(MeanQuery(), n_pairs=4)},
            SECOND,
            IncompatibleError,
            r"has the query MeanQuery\(\), but Ridge \(coef_, intercept_\) is to be",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_bad_input_is_refused(estimator, parameters, reference, error, message):
    model = private(estimator).set_params(**parameters)
    labels = isinstance(estimator, ClassifierMixin)
    data = (X, LABELS) if labels else (X, Y)
    with pytest.raises(error, match=message):
        model.fit(*data, **reference)
    assert not hasattr(model, "certificate_")


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
