"""PrivateEstimator: what is released, what serves it, and what stays on the model."""

import copy
import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    TransformerMixin,
    clone,
    is_classifier,
    is_clusterer,
    is_regressor,
)
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    HuberRegressor,
    Lars,
    LarsCV,
    Lasso,
    LassoCV,
    LassoLars,
    LassoLarsCV,
    LassoLarsIC,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    OrthogonalMatchingPursuit,
    OrthogonalMatchingPursuitCV,
    Perceptron,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TheilSenRegressor,
)
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import (
    GridSearchCV,
    ShuffleSplit,
    cross_val_score,
)
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC, LinearSVR
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from skparisk import (
    CalibrationError,
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateEstimator,
    SensitivitySampler,
)
from skparisk._classes import PublicClasses
from skparisk.neighbors import NeighborPairs, sample_database
from skparisk.queries import (
    AttributeReader,
    EstimatorQuery,
    MeanQuery,
    PairDifferences,
    PredictionReader,
)
from skparisk.queries._estimator import repeatable
from skparisk.queries._labels import check_classes, label_codes, where_classes_present
from skparisk.reference import CallableReference, TableReference
from skparisk.reference._base import RecordPool
from skparisk.wrappers import match_centers, match_components
from skparisk.wrappers._recipes import _RECIPES, find_recipe
from skparisk.wrappers._served import (
    ReleasedClassifier,
    ReleasedRegressor,
    as_probabilities,
)

RNG = np.random.default_rng(0)


def make_data(n_records):
    """Positive records in three groups: for targets, labels and clusters alike."""
    group = np.arange(n_records) * 7919 % 17 % 3
    X = RNG.gamma(4.0, 0.25, size=(n_records, 4)) + 0.8 * np.eye(3, 4)[group]
    y = X @ [2.0, -1.0, 0.5, 0.0] + 0.3 * RNG.normal(size=n_records)
    return X, y, np.array(["ash", "beech", "cedar"])[group]


X, Y, LABELS = make_data(80)
X_PUBLIC, Y_PUBLIC, LABELS_PUBLIC = make_data(160)
TABLE = TableReference(X_PUBLIC, Y_PUBLIC)
CHEAP = SensitivitySampler(n_pairs=4)
POINTS = X_PUBLIC[:12]
DECLARED = {"sensitivity": 1.0}
CLASSES = ["ash", "beech", "cedar"]


def private(estimator, release="auto", **parameters):
    cheap = {"gamma": 0.2, "sensitivity": CHEAP, "random_state": 0}
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


# What is served without noise is the estimator itself

RECIPES = [
    ARDRegression(),
    BayesianRidge(),
    ElasticNet(0.01),
    ElasticNetCV(alphas=[0.01, 0.1], cv=2),
    HuberRegressor(max_iter=20),
    Lars(),
    LarsCV(cv=2, max_n_alphas=10),
    Lasso(0.01),
    LassoCV(alphas=[0.01, 0.1], cv=2),
    LassoLars(0.01),
    LassoLarsCV(cv=2, max_n_alphas=10),
    LassoLarsIC(),
    LinearRegression(),
    LinearSVR(max_iter=50),
    OrthogonalMatchingPursuit(),
    OrthogonalMatchingPursuitCV(cv=2),
    Ridge(),
    RidgeCV(),
    SGDRegressor(max_iter=5),
    TheilSenRegressor(max_subpopulation=20, n_subsamples=20),
    LinearSVC(max_iter=100),
    LogisticRegression(max_iter=20),
    LogisticRegressionCV(Cs=2, cv=2, max_iter=10),
    Perceptron(max_iter=5),
    SGDClassifier(max_iter=5, loss="log_loss"),
    LinearDiscriminantAnalysis(),
    GaussianNB(),
    BernoulliNB(binarize=1.0),
    ComplementNB(),
    MultinomialNB(),
    PCA(2),
    TruncatedSVD(2),
    StandardScaler(),
    MinMaxScaler(),
    KMeans(3, n_init=1),
    MiniBatchKMeans(3, n_init=1, batch_size=32),
]
VARIANTS = [
    Ridge(fit_intercept=False),
    LinearSVR(fit_intercept=False, max_iter=50),
    Lasso(0.01, fit_intercept=False),
    LogisticRegression(fit_intercept=False, max_iter=20),
    LinearSVC(fit_intercept=False, max_iter=50),
    SGDClassifier(fit_intercept=False, max_iter=5),
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
    GaussianNB(priors=[0.2, 0.3, 0.5]),
    BernoulliNB(binarize=1.0, fit_prior=False),
    PCA(),
    PCA(3, whiten=True),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler(feature_range=(-2, 3), clip=True),
]
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
# They need what is not released, as nothing else needs it.
UNSERVED = {PCA: {"score", "score_samples"}, LinearDiscriminantAnalysis: {"transform"}}


def served_methods(estimator):
    return {method for method in METHODS if hasattr(estimator, method)}


def ask(fitted, method, data):
    if method == "get_feature_names_out":
        return fitted.get_feature_names_out()
    return getattr(fitted, method)(*(data if method == "score" else data[:1]))


def assert_same(answer, expected):
    if np.asarray(expected).dtype.kind in "USO":
        np.testing.assert_array_equal(answer, expected)
    else:
        np.testing.assert_allclose(answer, expected, rtol=1e-12, atol=1e-12)


def test_every_known_estimator_is_tried():
    assert all(find_recipe(estimator) in _RECIPES.values() for estimator in RECIPES)
    assert len({type(estimator) for estimator in RECIPES}) == len(_RECIPES)


def test_only_the_very_class_is_known():
    """Neither what is derived from it, nor what only has its name, is released so."""

    class Derived(Ridge):
        pass

    impostor = type("Ridge", (BaseEstimator,), {"__module__": Ridge.__module__})
    assert find_recipe(Ridge()) is not None
    assert find_recipe(Derived()) is None
    assert find_recipe(impostor()) is None


@pytest.mark.parametrize("estimator", RECIPES + VARIANTS, ids=repr)
def test_infinite_epsilon_is_the_estimator_itself(estimator):
    plain = fit_plain(estimator)
    model = fit_declared(private(estimator, epsilon=np.inf))
    expected = served_methods(plain) - UNSERVED.get(type(estimator), set())
    assert served_methods(model) == expected
    for method in expected:
        assert_same(
            ask(model, method, data_for(estimator)),
            ask(plain, method, data_for(estimator)),
        )
    if hasattr(plain, "inverse_transform"):
        reduced = plain.transform(X)
        assert_same(model.inverse_transform(reduced), plain.inverse_transform(reduced))


@pytest.mark.parametrize("estimator", RECIPES + VARIANTS, ids=repr)
def test_noise_leaves_no_number_that_cannot_be_served(estimator):
    """Noise far above the signal takes variances and probabilities out of range."""
    model = fit_declared(private(estimator, epsilon=0.01))
    for method in served_methods(model) - {"get_feature_names_out"}:
        with np.errstate(divide="ignore"):  # the logarithm of a probability of 0
            answer = ask(model, method, data_for(estimator))
        if method in ("predict_proba", "score") or answer.dtype.kind == "f":
            usable = ~np.isnan(answer) if "log" in method else np.isfinite(answer)
            assert usable.all(), method
        if method == "predict_proba":
            assert ((answer >= 0) & (answer <= 1)).all()
            np.testing.assert_allclose(answer.sum(axis=1), 1.0)


def test_numbers_out_of_their_range_are_mended_and_the_others_stay():
    def complete(estimator, released):
        return find_recipe(estimator).complete(estimator, released)

    naive = complete(
        GaussianNB(),
        {
            "var_": np.array([[2.0, -1.0], [0.0, 3.0]]),
            "class_prior_": np.array([0.6, 0.6, -0.1]),
        },
    )
    np.testing.assert_allclose(naive["var_"], [[2.0, 3e-9], [3e-9, 3.0]])
    np.testing.assert_allclose(naive["class_prior_"], [0.5, 0.5, 0.0], atol=1e-9)
    assert (naive["class_prior_"] > 0).all()
    scaler = complete(StandardScaler(), {"scale_": np.array([-1.0, 2])})
    np.testing.assert_allclose(scaler["scale_"], [2e-9, 2.0])
    nothing = complete(StandardScaler(), {"scale_": np.zeros(2)})
    assert nothing["scale_"].tolist() == [1.0, 1.0]
    limits = {"data_min_": np.array([0.0, 3.0]), "data_max_": np.array([2.0, 1.0])}
    ranges = complete(MinMaxScaler(), limits)
    assert ranges["data_range_"].tolist() == [2.0, 1.0]
    below = {"feature_log_prob_": np.array([-1.0, 0.5])}
    mended = complete(BernoulliNB(), below)["feature_log_prob_"]
    assert mended[0] == -1.0
    assert -1e-8 < mended[1] < 0.0


SAMPLED = [
    Ridge(),
    Lasso(0.01),
    LogisticRegression(max_iter=20),
    LinearSVC(max_iter=50),
    GaussianNB(),
    PCA(2),
    PCA(2, whiten=True),
    StandardScaler(),
    KMeans(3, n_init=1),
]


@pytest.mark.parametrize("estimator", SAMPLED, ids=repr)
def test_sampled_sensitivity_is_that_of_a_sampler_with_the_same_query(estimator):
    model = fit_public(private(estimator, epsilon=0.7))
    sampler = SensitivitySampler(
        model.sampler_.query_, epsilon=0.7, gamma=0.2, n_pairs=4, n_records=80
    )
    data = data_for(estimator, public=True)
    if is_classifier(estimator):
        data = (data[0], np.unique(data[1], return_inverse=True)[1])
    sampler.set_params(random_state=0).fit(*data)
    assert model.certificate_ == sampler.certificate_
    assert model.certificate_.private
    assert model.sampler_.reference is None  # the table is not carried along
    np.testing.assert_array_equal(model.sampler_.differences_, sampler.differences_)


@pytest.mark.parametrize("estimator", SAMPLED, ids=repr)
def test_hardly_any_noise_is_nearly_the_estimator_itself(estimator):
    """The noise of each number is that of the certificate: none besides, none less."""
    model = fit_public(private(estimator, epsilon=1e9, align=None))
    exact = fit_declared(private(estimator, epsilon=np.inf))
    names = model.sampler_.query_.shapes
    noise = np.concatenate(
        [
            np.ravel(getattr(model.estimator_, name) - getattr(exact.estimator_, name))
            for name in names
        ]
    )
    assert (noise != 0).all()
    assert np.abs(noise).max() < 40 * model.noise_scale_


def test_targets_in_columns():
    targets = np.c_[Y, -Y]
    ridge = Ridge().fit(X, targets)
    model = private(Ridge(), epsilon=np.inf).fit(
        X, targets, X_reference=X_PUBLIC, y_reference=np.c_[Y_PUBLIC, Y_PUBLIC]
    )
    assert_same(model.predict(X), ridge.predict(X))
    assert model.score(X, targets) == pytest.approx(ridge.score(X, targets))
    weights = np.arange(80.0)
    assert model.score(X, targets, weights) == ridge.score(X, targets, weights)
    column = private(Ridge(), epsilon=np.inf, **DECLARED).fit(X, Y[:, None])
    assert column.predict(X).shape == Ridge().fit(X, Y[:, None]).predict(X).shape


# What stays on the model

PARAMETERS = set(PrivateEstimator(Ridge()).get_params(deep=False))
FITTED = {
    "estimator_",
    "n_features_in_",
    "epsilon_",
    "gamma_",
    "risk_",
    "confidence_",
    "sensitivity_",
    "noise_scale_",
    "noise_epsilon_",
    "certificate_",
    "sampler_",
}
KEPT = [
    (Ridge(), {"coef_", "intercept_"}),
    (Ridge(fit_intercept=False), {"coef_", "intercept_"}),
    (Lasso(0.01), {"coef_", "intercept_"}),
    (SGDRegressor(max_iter=5), {"coef_", "intercept_"}),
    (LogisticRegression(max_iter=20), {"coef_", "intercept_", "classes_"}),
    (LogisticRegression(fit_intercept=False), {"coef_", "intercept_", "classes_"}),
    (LinearSVC(max_iter=50), {"coef_", "intercept_", "classes_"}),
    (
        LinearDiscriminantAnalysis(),
        {"coef_", "intercept_", "_max_components", "_n_features_out"},
    ),
    (GaussianNB(), {"theta_", "var_", "class_prior_", "classes_"}),
    (GaussianNB(priors=[0.2] * 2 + [0.6]), {"theta_", "var_", "class_prior_"}),
    (BernoulliNB(binarize=1.0), {"feature_log_prob_", "class_log_prior_", "classes_"}),
    (MultinomialNB(), {"feature_log_prob_", "class_log_prior_", "classes_"}),
    (PCA(2), {"mean_", "components_", "n_components_", "explained_variance_"}),
    (
        PCA(2, whiten=True),
        {"mean_", "components_", "n_components_", "explained_variance_"},
    ),
    (TruncatedSVD(2), {"components_", "n_components_"}),
    (StandardScaler(), {"mean_", "scale_"}),
    (StandardScaler(with_mean=False), {"scale_"}),
    (StandardScaler(with_std=False), {"mean_", "scale_"}),
    (MinMaxScaler(), {"data_min_", "data_max_", "data_range_", "scale_", "min_"}),
    (KMeans(3, n_init=1), {"cluster_centers_", "_n_threads", "_n_features_out"}),
]


@pytest.mark.parametrize(("estimator", "kept"), KEPT, ids=[repr(e) for e, _ in KEPT])
def test_served_clone_has_only_what_was_released_and_follows_from_it(estimator, kept):
    model = fit_declared(private(estimator))
    assert type(model.estimator_) is type(estimator)
    gained = set(vars(model.estimator_)) - set(vars(clone(estimator)))
    classes = {"classes_"} if is_classifier(estimator) else set()
    assert gained == kept | classes | {"n_features_in_"}
    assert set(vars(model)) == PARAMETERS | FITTED | classes
    assert estimator.get_params() == model.estimator_.get_params()
    for name in kept & set(vars(fit_plain(estimator))):
        value = getattr(model.estimator_, name)
        assert np.shape(value) == np.shape(getattr(fit_plain(estimator), name)), name


WAYS = {
    "sampled": ({}, True),
    "on the sampler": (
        {"sensitivity": clone(CHEAP).set_params(reference=TABLE)},
        False,
    ),
    "declared": (DECLARED, False),
    "explicit": (
        {"sensitivity": SensitivitySampler(randomness="explicit", sensitivity=1.0)},
        False,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_fitted_attributes_are_the_documented_ones(way):
    parameters, public = WAYS[way]
    frame = pd.DataFrame(X, columns=list("abcd"))
    reference = reference_for(Ridge()) if public else {}
    model = private(Ridge(), **parameters).fit(frame, Y, **reference)
    assert set(vars(model)) == PARAMETERS | FITTED | {"feature_names_in_"}
    assert model.epsilon_ == 1.0
    assert model.risk_ <= model.gamma_ <= 0.2
    assert model.confidence_ == 1 - model.risk_
    assert model.noise_epsilon_ == model.sensitivity_ / model.noise_scale_ <= 1.0
    assert model.certificate_.private
    assert (
        model.certificate_.evidence.n_records,
        model.certificate_.evidence.n_outputs,
    ) == (80, 5)
    assert (model.sampler_ is None) == (way == "declared")
    assert list(model.estimator_.feature_names_in_) == list("abcd")
    shown = str(model.certificate_)
    assert str(float(model.estimator_.coef_[0])) not in shown


def numbers_reached(thing, seen=None):
    """Return all floats that can be reached from an object, whole ones left out."""
    seen = {} if seen is None else seen
    if id(thing) in seen or isinstance(thing, str | bytes | type):
        return set()
    seen[id(thing)] = thing
    if isinstance(thing, bool | int | float | np.generic | np.ndarray):
        values = np.asarray(thing)
        if values.dtype.kind == "O":
            return numbers_reached(values.tolist(), seen)
        return _fractions(values) if values.dtype.kind in "iufb" else set()
    if isinstance(thing, dict):
        thing = [*thing.keys(), *thing.values()]
    if isinstance(thing, list | tuple | set | frozenset):
        return set().union(*(numbers_reached(part, seen) for part in thing))
    parts = dict(getattr(thing, "__dict__", {}))
    for kind in type(thing).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            parts[name] = getattr(thing, name, None)
    return numbers_reached(parts, seen)


def numbers_in(document):
    """Return all doubles of a byte string, wherever they begin."""
    found = set()
    for offset in range(8):
        whole = document[offset : offset + (len(document) - offset) // 8 * 8]
        for order in "<>":
            found |= _fractions(np.frombuffer(whole, f"{order}f8"))
    return found


def _fractions(values):
    numbers = np.asarray(values, dtype=np.float64).ravel()
    numbers = numbers[np.isfinite(numbers)]
    return set(numbers[numbers != np.round(numbers)].tolist())


def numbers_of_fit(fitted):
    """Return every number that scikit-learn's own fit has, by its name."""
    found = {
        name: numbers_reached(value)
        for name, value in vars(fitted).items()
        if name not in fitted.get_params()
    }
    for method in ("predict", "transform", "decision_function", "predict_proba"):
        if hasattr(fitted, method):
            found[method] = _fractions(
                getattr(fitted, method)(X)
                if np.asarray(getattr(fitted, method)(X[:1])).dtype.kind == "f"
                else []
            )
    return found | {"records": _fractions(X), "targets": _fractions(Y)}


def assert_nothing_kept(model, secrets, released):
    """Assert that a pickle has none of the numbers, and all of the released ones."""
    document = pickle.dumps(model)
    params = numbers_reached(model.get_params(deep=False)) | {model.risk_}
    params |= _fractions(POINTS)
    for kept in (numbers_reached(model), numbers_in(document)):
        for name, values in secrets.items():
            assert not (kept - params) & values, name
        assert kept >= released  # the search does find numbers


HIDDEN = [
    (Ridge(), "auto"),
    (Lasso(0.01), "auto"),
    (LogisticRegression(max_iter=20), "auto"),
    (LinearSVC(max_iter=50), "auto"),
    (GaussianNB(), "auto"),
    (LinearDiscriminantAnalysis(), "auto"),
    (PCA(2), "auto"),
    (PCA(2, whiten=True), ("mean_", "components_", "explained_variance_")),
    (StandardScaler(), "auto"),
    (KMeans(3, n_init=1), "auto"),
    (RandomForestRegressor(3), "predict"),
    (GaussianNB(var_smoothing=0.1), "predict_proba"),
]


@pytest.mark.parametrize("way", ["sampled", "declared", "explicit", "no reference"])
@pytest.mark.parametrize(("estimator", "release"), HIDDEN, ids=repr)
def test_nothing_without_noise_is_kept(estimator, release, way, monkeypatch):
    points = None if isinstance(release, tuple) or release == "auto" else POINTS
    model = private(estimator, release, X_public=points)
    read = []
    for reader in (AttributeReader, PredictionReader):
        plain_read = reader.__call__

        def record(self, fitted, plain_read=plain_read):
            numbers = plain_read(self, fitted)
            read.append(numbers)
            return numbers

        monkeypatch.setattr(reader, "__call__", record)
    if way == "sampled":
        fit_public(model)
    elif way == "no reference":
        with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
            model.fit(*data_for(estimator))
        assert not hasattr(model.sampler_, "differences_")
        assert model.sampler_.query_.anchor is None
        assert model.certificate_.reference_is_private
        assert not model.certificate_.private
    else:
        declare_classes(model).set_params(**WAYS[way][0]).fit(*data_for(estimator))
        assert model.certificate_.private
    if way == "no reference":
        # Whatever was read is of fits on the private records or on resamples of them.
        secrets = {"read": set().union(*map(numbers_reached, read))}
    else:
        secrets = {"read": numbers_reached(read[-1])}
    plain = fit_plain(estimator)
    secrets |= numbers_of_fit(plain)
    served = model.estimator_
    if points is None:
        names = ("coef_", "theta_", "components_", "mean_", "cluster_centers_")
        released = [getattr(served, n) for n in names if hasattr(served, n)]
    else:
        released = [served.surrogate_[-1]._y]
    assert released
    assert_nothing_kept(model, secrets, _fractions(released[0]))
    document = pickle.dumps(model)
    public = set(vars(served)) | {"classes_", "n_features_in_"}
    if points is not None:  # the nearest point, in units of deviations
        public |= set(vars(served.surrogate_[0]))
    own = {name for name in vars(plain) if name.endswith("_")}
    for name in own - public - FITTED - {"n_outputs_"}:
        short = name.encode() + b"\x94"  # as pickle writes a whole string
        assert short not in document, name


def test_a_fit_on_the_private_data_is_found_by_the_search():
    """The other side: a model that keeps the private fit is noticed."""
    model = fit_public(private(KMeans(3, n_init=1)))
    released = _fractions(model.estimator_.cluster_centers_)
    secrets = numbers_of_fit(fit_plain(KMeans(3, n_init=1)))
    assert_nothing_kept(model, secrets, released)
    model.estimator_.inertia_ = fit_plain(KMeans(3, n_init=1)).inertia_
    with pytest.raises(AssertionError, match="inertia_"):
        assert_nothing_kept(model, secrets, released)


def test_training_data_given_as_reference_are_no_public_reference():
    model = private(PCA(2))
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        model.fit(X, X_reference=X.tolist())
    assert model.sampler_.query_.anchor is None
    assert not model.certificate_.private
    with (
        pytest.warns(PrivacyLeakWarning),
        pytest.raises(ValueError, match="there is no reference"),
    ):
        private(Ridge(), public_attributes=("n_iter_",)).fit(
            X, Y, X_reference=X.copy(), y_reference=Y
        )


def test_labels_of_records_are_known_only_without_noise():
    assert not hasattr(fit_public(private(KMeans(3, n_init=1))), "labels_")
    frame = pd.DataFrame(X, columns=list("abcd"))
    for data in (X, frame):
        model = private(KMeans(3, n_init=1), epsilon=np.inf, **DECLARED).fit(data)
        plain = KMeans(3, n_init=1, random_state=0).fit(X)
        np.testing.assert_array_equal(model.labels_, plain.labels_)
    for names in (("cluster_centers_",), ("inertia_",)):
        named = private(KMeans(3, n_init=1), names, epsilon=np.inf, **DECLARED)
        assert not hasattr(named.fit(X), "labels_")


# Methods: what can be served is there, and the rest says what it needs


def test_unfitted_models_say_so():
    model = private(KMeans(3))
    for method in ("predict", "transform", "score"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(X)
    with pytest.raises(NotFittedError):
        private(PCA(2)).inverse_transform(X[:, :2])
    with pytest.raises(NotFittedError):
        model.get_feature_names_out()
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.parametrize(
    ("estimator", "release", "method", "missing"),
    [
        (Ridge(), ("coef_",), "predict", "intercept_"),
        (Ridge(), ["intercept_"], "predict", "coef_"),
        (GaussianNB(), ("theta_",), "predict_proba", "class_prior_"),
        (GaussianNB(), ("theta_", "class_prior_"), "predict", "var_"),
        (BernoulliNB(), ("class_log_prior_",), "predict", "feature_log_prob_"),
        (StandardScaler(), ("scale_",), "transform", "mean_"),
        (PCA(2), ("components_",), "transform", "mean_"),
        (PCA(2), ("mean_",), "transform", "components_"),
        (TruncatedSVD(2), ("singular_values_",), "transform", "components_"),
        (MinMaxScaler(), ("data_min_",), "transform", "scale_"),
        (KMeans(3), ("inertia_",), "predict", "cluster_centers_"),
        (LogisticRegression(), ("intercept_",), "predict_proba", "coef_"),
        (LogisticRegression(fit_intercept=False), ("n_iter_",), "predict", "coef_"),
        (LinearDiscriminantAnalysis(), ("intercept_",), "predict", "coef_"),
        (
            LinearDiscriminantAnalysis(),
            ("coef_", "intercept_", "scalings_"),
            "transform",
            "xbar_",
        ),
    ],
    ids=repr,
)
def test_what_was_not_released_is_named_by_who_needs_it(
    estimator, release, method, missing
):
    model = fit_declared(private(estimator, release))
    with pytest.raises(AttributeError, match=rf"^{method} of .* needs '{missing}'"):
        getattr(model, method)(X)


@pytest.mark.parametrize(
    ("release", "extra", "served"),
    [
        ("auto", (), False),
        (("mean_", "components_"), (), False),
        (("mean_", "components_", "explained_variance_", "noise_variance_"), (), True),
        (("mean_", "components_", "explained_variance_"), ("noise_variance_",), True),
        ("auto", ("explained_variance_", "noise_variance_"), True),
    ],
)
def test_methods_with_needs_of_their_own_are_offered_if_these_are_met(
    release, extra, served
):
    model = private(PCA(2), release, public_attributes=extra, epsilon=np.inf)
    fit_public(model)
    assert hasattr(model, "score") == hasattr(model, "score_samples") == served
    if not served:
        with pytest.raises(AttributeError) as refused:
            _ = model.score_samples
        assert "'noise_variance_'], which release=" in str(refused.value.__cause__)
    elif not extra:
        assert_same(model.score_samples(X), PCA(2).fit(X).score_samples(X))
    else:
        assert np.isfinite(model.score(X))


@pytest.mark.parametrize("solver", ["svd", "eigen"])
@pytest.mark.parametrize("n_components", [None, 1])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_discriminants_transform_with_what_they_need(n_classes, n_components, solver):
    lda = LinearDiscriminantAnalysis(solver=solver, n_components=min(n_classes - 1, 1))
    lda.set_params(n_components=n_components)
    rows = ("cedar" if n_classes == 2 else "") != LABELS
    names = ("coef_", "intercept_", "scalings_") + ("xbar_",) * (solver == "svd")
    model = private(lda, names, epsilon=np.inf, **DECLARED).fit(X[rows], LABELS[rows])
    plain = clone(lda).fit(X[rows], LABELS[rows])
    assert_same(model.transform(X), plain.transform(X))
    assert model.transform(X).shape[1] == (n_components or n_classes - 1)
    names_out = plain.get_feature_names_out()
    np.testing.assert_array_equal(model.get_feature_names_out(), names_out)


def test_densities_are_sampled_and_scored_from_what_was_released():
    names = ("weights_", "means_", "covariances_", "precisions_cholesky_")
    mixture = GaussianMixture(2, random_state=0)
    model = private(mixture, names, epsilon=np.inf, **DECLARED).fit(X)
    plain = clone(mixture).fit(X)
    for answer, expected in zip(model.sample(5), plain.sample(5), strict=True):
        assert_same(answer, expected)
    assert_same(model.score_samples(X), plain.score_samples(X))
    np.testing.assert_array_equal(
        clone(model).fit_predict(X), clone(mixture).fit_predict(X)
    )


def test_fit_transform_and_fit_predict_use_what_was_released():
    scaled = private(StandardScaler(), noise_random_state=0)
    with pytest.warns(PrivacyLeakWarning):
        first = scaled.fit_transform(X, X_reference=X_PUBLIC)
    np.testing.assert_array_equal(first, scaled.transform(X))
    assert np.abs(first - StandardScaler().fit_transform(X)).min() > 1e-6
    clustered = private(KMeans(3, n_init=1))
    labels = clustered.fit_predict(X, X_reference=X_PUBLIC)
    np.testing.assert_array_equal(labels, clustered.predict(X))


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


def test_missing_attributes_that_scikit_learn_does_not_name():
    model = fit_declared(private(Odd(), ("mean_",)))
    with pytest.raises(AttributeError, match="predict of Odd needs attributes that"):
        model.predict(X)


@pytest.mark.parametrize("failure", [AttributeError("no"), RuntimeError("other")])
def test_other_errors_of_a_served_method_are_its_own(failure):
    model = fit_declared(private(Odd(failure=failure), ("mean_",)))
    with pytest.raises(type(failure), match=str(failure)):
        model.predict(X)


def test_methods_that_the_estimator_lacks_are_lacking():
    for estimator in (LinearSVC(), SGDClassifier(), SVC()):
        assert not hasattr(private(estimator), "predict_proba")
    assert hasattr(private(SGDClassifier(loss="log_loss")), "predict_proba")
    assert not hasattr(private(StandardScaler()), "predict")
    assert not hasattr(private(StandardScaler()), "fit_predict")
    assert not hasattr(private(Ridge()), "transform")
    assert not hasattr(private(Ridge()), "sample")
    assert not hasattr(private(Ridge()), "set_output")


def test_type_and_tags_are_those_of_the_estimator():
    checks = (is_regressor, is_classifier, is_clusterer)
    for estimator in (Ridge(), GaussianNB(), KMeans(), PCA(), MultinomialNB()):
        model = private(estimator)
        assert [f(model) for f in checks] == [f(estimator) for f in checks]
        ours, theirs = get_tags(model), get_tags(estimator)
        assert ours.estimator_type == theirs.estimator_type
        assert ours.target_tags.required == theirs.target_tags.required
        assert ours.input_tags.positive_only == theirs.input_tags.positive_only
        assert (ours.transformer_tags is None) == (theirs.transformer_tags is None)
        assert ours.non_deterministic
        assert not get_tags(model.set_params(epsilon=np.inf)).non_deterministic
    assert get_tags(private(PCA())).transformer_tags.preserves_dtype == ["float64"]
    assert get_tags(private(Ridge())).target_tags.multi_output
    assert not get_tags(private(HuberRegressor())).target_tags.multi_output
    forest = RandomForestClassifier()
    assert get_tags(forest).target_tags.multi_output
    assert not get_tags(private(forest)).target_tags.multi_output
    assert not get_tags(private(forest)).classifier_tags.multi_label
    pipeline = make_pipeline(StandardScaler(), Ridge())
    assert get_tags(private(pipeline)).target_tags.required
    assert get_tags(private(Ridge)).estimator_type is None


# Alignment


@st.composite
def components(draw):
    k, p = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    numbers = np.random.default_rng(draw(st.integers(0, 2**31)))
    fit = {
        "components_": numbers.normal(size=(k, p)),
        "explained_variance_": numbers.exponential(size=k),
        "mean_": numbers.normal(size=p),
    }
    order = draw(st.permutations(range(k)))
    signs = np.array(draw(st.lists(st.sampled_from([-1, 1]), min_size=k, max_size=k)))
    return fit, {"components_": numbers.normal(size=(k, p))}, list(order), signs


@settings(deadline=None, max_examples=60)
@given(components())
def test_components_are_the_same_for_any_signs_and_order(drawn):
    fit, anchor, order, signs = drawn
    other = {
        "components_": (fit["components_"] * signs[:, None])[order],
        "explained_variance_": fit["explained_variance_"][order],
        "mean_": fit["mean_"],
    }
    aligned = match_components(fit, anchor)
    again = match_components(other, anchor)
    assert aligned.keys() == fit.keys()
    for name, values in aligned.items():
        np.testing.assert_array_equal(again[name], values)
    np.testing.assert_array_equal(aligned["mean_"], fit["mean_"])
    # The best of all orders, by brute force, and no component points away.
    like = np.abs(anchor["components_"] @ fit["components_"].T)
    rows = np.arange(len(order))
    best = max(like[rows, list(p)].sum() for p in itertools.permutations(rows))
    chosen = (aligned["components_"] * anchor["components_"]).sum(axis=1)
    assert (chosen >= -1e-12).all()
    assert chosen.sum() == pytest.approx(best)
    for row, value in zip(
        aligned["components_"], aligned["explained_variance_"], strict=True
    ):
        (own,) = fit["components_"][fit["explained_variance_"] == value]
        assert np.array_equal(row, own) or np.array_equal(row, -own)


@settings(deadline=None, max_examples=60)
@given(components())
def test_centers_are_the_same_in_any_order(drawn):
    fit, anchor, order, _ = drawn
    centers, wanted = fit["components_"], anchor["components_"]
    aligned = match_centers(
        {"cluster_centers_": centers, "inertia_": 1.0}, {"cluster_centers_": wanted}
    )
    again = match_centers(
        {"cluster_centers_": centers[order]}, {"cluster_centers_": wanted}
    )
    np.testing.assert_array_equal(
        again["cluster_centers_"], aligned["cluster_centers_"]
    )
    assert aligned["inertia_"] == 1.0
    best = min(
        ((centers[list(p)] - wanted) ** 2).sum()
        for p in itertools.permutations(range(len(centers)))
    )
    distance = ((aligned["cluster_centers_"] - wanted) ** 2).sum()
    assert distance == pytest.approx(best)


def test_numbers_without_components_or_centers_stay():
    numbers = {"mean_": np.ones(2)}
    assert match_components(numbers, numbers) is numbers
    assert match_centers(numbers, numbers) is numbers


ROUND, ROUND_PUBLIC = np.split(np.random.default_rng(1).normal(size=(240, 3)), [80])


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (PCA(1), "components_"),
        (TruncatedSVD(1), "components_"),
        (KMeans(3, n_init=1), "cluster_centers_"),
    ],
)
def test_without_alignment_the_sensitivity_is_larger(estimator, name):
    t, noise = np.split(np.random.default_rng(1).normal(size=(240, 3)), [1], axis=1)
    records = t * [1, -1] + 0.3 * noise
    found = {}
    for align in ("auto", None):
        model = private(estimator, (name,), align=align, gamma=0.05)
        model.set_params(sensitivity=SensitivitySampler(n_pairs=49))
        model.fit(records[:20], X_reference=records[20:])
        found[align] = model.sensitivity_
    assert found["auto"] < 0.8 * found[None]


@pytest.mark.parametrize("estimator", [PCA(3), KMeans(3, n_init=1)])
def test_released_fit_has_the_order_and_the_signs_of_the_anchor(estimator):
    model = private(estimator, epsilon=1e8).fit(ROUND, X_reference=ROUND_PUBLIC)
    query = model.sampler_.query_
    (name,) = {"components_", "cluster_centers_"} & set(query.anchor)
    released = getattr(model.estimator_, name)
    plain = getattr(repeatable(estimator).fit(ROUND), name)
    expected = query.align({name: plain}, query.anchor)[name]
    np.testing.assert_allclose(released, expected, atol=1e-5)
    flipped = {n: v[::-1] * -1.0 for n, v in query.anchor.items()}
    other = query.align({name: plain}, flipped)[name]
    assert np.abs(other - expected).max() > 0.1  # so it is the anchor that decides


class Extremes(TransformerMixin, BaseEstimator):
    """Two of the records themselves, so that it shows whose they are."""

    def fit(self, X, y=None):
        X = validate_data(self, X)
        self.rows_ = X[[X[:, 0].argmin(), X[:, 0].argmax()]]
        self.index_ = float(X[:, 0].argmin())
        return self

    def transform(self, X):
        return X - self.rows_[0]


def closer(numbers, anchor):
    """Align by rows in the anchor's order; stands for what a caller may write."""
    CALLS.append((numbers, anchor))
    orders = [numbers["rows_"], numbers["rows_"][::-1]]
    distances = [np.abs(rows - anchor["rows_"]).sum() for rows in orders]
    return numbers | {"rows_": orders[np.argmin(distances)]}


CALLS: list = []


@pytest.mark.parametrize("where", ["fit", "sampler"])
def test_callable_alignment_is_given_an_anchor_of_public_records(where):
    CALLS.clear()
    # The extremes of 80 records change in one of 40 pairs or so.
    often = SensitivitySampler(n_pairs=199)
    model = private(
        Extremes(), ("rows_",), align=closer, gamma=0.006, sensitivity=often
    )
    if where == "fit":
        model.fit(X, X_reference=X_PUBLIC)
    else:
        table = TableReference(X_PUBLIC, sampling="subsample")
        model.set_params(sensitivity=often.set_params(reference=table)).fit(X)
    assert len(CALLS) == 2 * 199 + 2 + 1  # asked twice of one, and of the private data
    public = {tuple(row) for row in X_PUBLIC.tolist()}
    for numbers, anchor in CALLS:
        assert set(numbers) == set(anchor) == {"rows_"}
        assert {tuple(row) for row in anchor["rows_"].tolist()} <= public
    private_rows = {tuple(row) for row in CALLS[-1][0]["rows_"].tolist()}
    assert not private_rows & public


def test_nothing_is_aligned_without_a_reference_or_without_noise():
    CALLS.clear()
    model = private(Extremes(), ("rows_",), align=closer)
    with pytest.warns(PrivacyLeakWarning):
        model.fit(X[:6])
    fit_declared(clone(model))
    clone(model).set_params(epsilon=np.inf).fit(X[:6], X_reference=X_PUBLIC)
    assert CALLS == []
    exact = private(PCA(3), epsilon=np.inf).fit(ROUND, X_reference=-ROUND_PUBLIC[::-1])
    np.testing.assert_array_equal(
        exact.estimator_.components_, PCA(3).fit(ROUND).components_
    )


def test_records_of_a_disjoint_reference_are_no_anchor():
    table = TableReference(np.tile(ROUND_PUBLIC, (4, 1)), sampling="disjoint")
    sampler = SensitivitySampler(n_pairs=4, reference=table)
    with pytest.raises(
        ValueError, match="align must be None if the reference has samp"
    ):
        private(PCA(2), sensitivity=sampler).fit(ROUND)
    private(PCA(2), sensitivity=sampler, align=None).fit(ROUND)
    private(StandardScaler(), sensitivity=sampler).fit(ROUND)


def test_alignment_must_be_callable():
    with pytest.raises(ValueError, match="align must be 'auto', None or a callable"):
        fit_declared(private(PCA(2), align="signs"))


# Labels

KINDS = {
    "strings": np.array(["ash", "beech", "cedar"]),
    "objects": np.array(["ash", "beech", "cedar"], dtype=object),
    "bools": np.array([False, True]),
    "ints": np.array([1, 5, 7]),
    "floats": np.array([-1.0, 1.0]),
    "large ints": np.array([2**60, 2**60 + 1]),
}


@pytest.mark.parametrize("where", ["fit", "declared", "declared classes"])
@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_any_kind(kind, where):
    known = KINDS[kind]
    group = np.unique(LABELS, return_inverse=True)[1] % len(known)
    group_public = np.unique(LABELS_PUBLIC, return_inverse=True)[1] % len(known)
    model, reference = private(GaussianNB(), epsilon=np.inf), {}
    if where == "fit":
        reference = {"X_reference": X_PUBLIC, "y_reference": known[group_public]}
    else:
        model.set_params(**DECLARED)
    if where == "declared classes":
        model.set_params(classes=known[::-1].tolist())
    model.fit(X, known[group], **reference)
    plain = GaussianNB().fit(X, known[group])
    np.testing.assert_array_equal(model.classes_, known)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert model.classes_.dtype == known.dtype or kind == "objects"
    assert_same(model.predict_proba(X), plain.predict_proba(X))
    assert model.score(X, known[group]) == plain.score(X, known[group])


@pytest.mark.parametrize("kind", ["bools", "ints", "floats"])
def test_classes_of_a_reference_on_the_sampler(kind):
    known = KINDS[kind]
    labels = known[np.unique(LABELS_PUBLIC, return_inverse=True)[1] % len(known)]
    table = TableReference(X_PUBLIC, labels.astype(float))
    sampler = clone(CHEAP).set_params(reference=table)
    some = known[np.arange(80) % (len(known) - 1)]  # one class is missing
    model = private(GaussianNB(), sensitivity=sampler, epsilon=np.inf)
    model.fit(X, some)
    np.testing.assert_array_equal(model.classes_, known)
    assert model.classes_.dtype == known.dtype
    assert (model.estimator_.theta_ == 0).all()
    clone(model).set_params(sensitivity=model.sampler_).fit(X, some)


def test_classes_of_a_reference_that_are_no_labels_of_this_type():
    table = TableReference(X_PUBLIC, np.arange(160) % 2 / 2)
    sampler = clone(CHEAP).set_params(reference=table)
    with pytest.raises(ValueError, match="Unknown label type"):
        private(GaussianNB(), sensitivity=sampler).fit(X, np.arange(80) % 2)
    table = TableReference(X_PUBLIC, np.arange(160) % 2 * 300)
    sampler = clone(CHEAP).set_params(reference=table)
    with pytest.raises(
        ValueError, match=r"y has labels that are not among .*\[0.0, 300.0"
    ):
        private(GaussianNB(), sensitivity=sampler).fit(
            X, (np.arange(80) % 2 * 30).astype(np.int8)
        )


def test_strings_for_the_numbers_of_a_reference_on_the_sampler_are_declared():
    """Else the private labels would say which classes there are."""
    codes = np.unique(LABELS_PUBLIC, return_inverse=True)[1]
    sampler = clone(CHEAP).set_params(reference=TableReference(X_PUBLIC, codes))
    model = private(GaussianNB(), sensitivity=sampler)
    with pytest.raises(
        ValueError, match=r"classes must be given because .*\[0\. 1\. 2\.\]"
    ):
        model.fit(X, LABELS)
    model.set_params(classes=CLASSES).fit(X, LABELS)
    assert list(model.classes_) == CLASSES


def test_strings_for_the_numbers_that_a_function_makes():
    sampler = clone(CHEAP).set_params(
        reference=CallableReference(
            lambda n, rng: (rng.gamma(4.0, size=(n, 4)), rng.integers(3, size=n))
        )
    )
    model = private(GaussianNB(), sensitivity=sampler, classes=CLASSES).fit(X, LABELS)
    assert list(model.classes_) == CLASSES
    assert model.certificate_.private


def test_classes_of_the_reference_win_and_a_missing_one_is_answered_with_zeros():
    two = LABELS != "cedar"
    for parameters in ({}, {"classes": ["cedar", "ash", "beech"]}):
        exact = private(LogisticRegression(), epsilon=np.inf, **parameters)
        reference = reference_for(LogisticRegression())
        exact.fit(X[two], LABELS[two], **reference)
        assert list(exact.classes_) == ["ash", "beech", "cedar"]
        assert (exact.estimator_.coef_ == 0).all()
        assert (exact.estimator_.intercept_ == 0).all()
        noisy = clone(exact).set_params(epsilon=1.0)
        noisy.fit(X[two], LABELS[two], **reference)
        assert (noisy.estimator_.coef_ != 0).all()
        assert noisy.certificate_.private


def test_declared_classes_win_over_those_of_the_reference():
    two = LABELS_PUBLIC != "cedar"
    model = private(GaussianNB(), classes=["ash", "beech"])
    reference = {"X_reference": X_PUBLIC, "y_reference": LABELS_PUBLIC}
    with pytest.raises(ValueError, match="y has labels that are not among the classes"):
        model.fit(X, LABELS, **reference)
    some = LABELS != "cedar"
    with pytest.raises(ValueError, match="y_reference has labels that are not among"):
        model.fit(X[some], LABELS[some], **reference)
    reference = {k: v[two] for k, v in reference.items()}
    assert len(model.fit(X[some], LABELS[some], **reference).classes_) == 2


@pytest.mark.parametrize(
    "labels",
    [
        np.where(np.arange(80) == 3, "secret", LABELS),
        np.where(np.arange(80) == 3, 654321, 1),
        np.where(np.arange(80) == 3, -654321, 1),
    ],
)
def test_labels_that_are_no_class_are_not_told(labels):
    model = private(GaussianNB())
    with pytest.raises(
        ValueError, match="y has labels that are not among the"
    ) as error:
        model.fit(X, labels, **reference_for(GaussianNB()))
    shown = "".join(map(repr, (error.value, error.value.__context__)))
    assert "secret" not in shown
    assert "654321" not in shown


def test_fitted_sampler_knows_its_classes():
    first = fit_public(private(GaussianNB()))
    two = np.where(LABELS == "cedar", "ash", LABELS)
    again = private(GaussianNB(), sensitivity=first.sampler_, epsilon=np.inf)
    again.fit(X, two)
    assert list(again.classes_) == ["ash", "beech", "cedar"]
    assert (again.estimator_.theta_ == 0).all()


def test_fitted_sampler_of_a_query_without_classes_is_refused():
    sampler = SensitivitySampler(MeanQuery(), gamma=0.2, n_pairs=4).fit(X_PUBLIC)
    with pytest.raises(IncompatibleError, match="was fitted for MeanQuery"):
        private(GaussianNB(), sensitivity=sampler).fit(X, LABELS)


@pytest.mark.parametrize("classes", [["ash"], ["ash", "ash"], [1]])
def test_one_class_is_none(classes):
    with pytest.raises(ValueError, match="classes must have at least 2 classes"):
        private(GaussianNB(), classes=classes, **DECLARED).fit(X, LABELS)


def test_many_classes_for_few_records_are_no_warning():
    model = private(GaussianNB(), classes=range(80), **DECLARED)
    assert model.fit(X, np.arange(80)).certificate_.private


def test_column_of_labels_warns_as_scikit_learn_does():
    with pytest.warns(sklearn.exceptions.DataConversionWarning, match="column-vector"):
        private(GaussianNB(), classes=CLASSES, **DECLARED).fit(X, LABELS[:, None])


def test_class_missing_in_the_first_sampled_database_is_named():
    labels = np.where(np.arange(160) == 0, "yew", LABELS_PUBLIC)
    model = private(GaussianNB(), sensitivity=SensitivitySampler(n_records=20))
    with pytest.raises(ValueError, match="class yew is missing from the first sampl"):
        model.fit(X[:20], LABELS[:20], X_reference=X_PUBLIC, y_reference=labels)


def test_class_missing_in_a_resample_of_private_data_is_not_named():
    model = private(GaussianNB(), classes=[*CLASSES, "yew"])
    with (
        pytest.warns(PrivacyLeakWarning, match="private data themselves"),
        pytest.raises(ValueError, match=r"^A class is missing from the first") as error,
    ):
        model.fit(X, LABELS)
    assert "yew" not in str(error.value)


def test_class_missing_in_a_sampled_pair_is_named():
    labels = np.where(np.arange(160) < 2, 3.0, np.arange(160) % 2)
    model = private(GaussianNB(), sensitivity=SensitivitySampler(n_pairs=40))
    with pytest.raises(CalibrationError, match=r"class 3 \(number 2 of 3\) is missing"):
        model.fit(X, labels[:80], X_reference=X_PUBLIC, y_reference=labels)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31), st.booleans())
def test_missing_classes_are_found_in_either_database(seed, add_remove):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=12).astype(float)
    records = rng.integers(12, size=(5, 7))
    replacement = None if add_remove else rng.integers(12, size=5)
    pool = RecordPool(np.zeros((12, 1)), y)
    pairs = NeighborPairs.of(pool, records, rng.integers(7, size=5), replacement)
    missing = [
        any(len(np.unique(labels)) < 3 for _, labels in pairs.databases(i))
        for i in range(5)
    ]
    codes = label_codes(y, (0.0, 1.0, 2.0))

    def evaluate(some):
        """Return which pairs were asked about, by what differs in each."""
        return PairDifferences(some.removed[:, None] * 1.0)

    whole = where_classes_present(evaluate, codes, (0.0, 1.0, 2.0), 1)(pairs)
    assert (np.isinf(whole.values[:, 0]) == missing).all()
    answered = ~np.array(missing)
    np.testing.assert_array_equal(whole.values[answered, 0], pairs.removed[answered])
    assert (whole.failure is None) == (not any(missing))


def test_label_codes():
    assert check_classes([3, 1.0]) == (1.0, 3.0)
    for bad in ([1], [1, 1], [1, np.inf], [np.nan, 1]):
        with pytest.raises(ValueError, match="at least two different finite numbers"):
            check_classes(bad)
    assert label_codes([3, 1, 1], (1.0, 3.0)).tolist() == [1, 0, 0]
    for label in (0, 2, 4):
        with pytest.raises(ValueError, match=r"not among the classes \(1.0, 3.0\)"):
            label_codes([1, label], (1.0, 3.0))
    with pytest.raises(ValueError, match=r"one dimension, got shape \(1, 2\)"):
        label_codes([[1, 3]], (1.0, 3.0))


def test_text_and_numbers_are_no_classes_of_each_other():
    text, numbers = PublicClasses.of(["a", "b"], "y"), PublicClasses.of([1, 2], "y")
    for classes, labels in ((text, [1, 2]), (numbers, ["1", "b"])):
        with pytest.raises(
            ValueError, match="y has labels that are not among the class"
        ):
            classes.encode(labels, "y")
    mixed = PublicClasses.of(np.array(["a", "b"], dtype=object), "y")
    with pytest.raises(ValueError, match="y has labels that are not among the classes"):
        mixed.encode(np.array([1, 2]), "y")


# Predictions at public points

PREDICTORS = [
    (RandomForestRegressor(5), "predict"),
    (GradientBoostingRegressor(n_estimators=3), "predict"),
    (KNeighborsRegressor(3), "predict"),
    (make_pipeline(StandardScaler(), Ridge()), "predict"),
    (GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=2), "predict"),
    (RandomForestClassifier(5), "predict_proba"),
    (GradientBoostingClassifier(n_estimators=2), "predict_proba"),
    (KNeighborsClassifier(3), "predict_proba"),
    (make_pipeline(StandardScaler(), LogisticRegression()), "predict_proba"),
]


@pytest.mark.parametrize(("estimator", "release"), PREDICTORS, ids=repr)
def test_predictions_at_public_points(estimator, release):
    plain = fit_plain(estimator)
    exact = private(estimator, release, X_public=POINTS, epsilon=np.inf)
    fit_declared(exact)
    assert_same(getattr(exact, release)(POINTS), getattr(plain, release)(POINTS))
    if release == "predict_proba":
        np.testing.assert_array_equal(exact.predict(POINTS), plain.predict(POINTS))
        with np.errstate(divide="ignore"):
            logarithms = np.log(plain.predict_proba(POINTS))
        assert_same(exact.predict_log_proba(POINTS), logarithms)
    noisy = fit_public(private(estimator, release, X_public=POINTS))
    assert noisy.certificate_.private
    assert noisy.certificate_.evidence.n_outputs == plain_outputs(plain, release)
    assert np.isfinite(noisy.score(*data_for(estimator)))
    if release == "predict_proba":
        answer = noisy.predict_proba(X)
        assert ((answer >= 0) & (answer <= 1)).all()
        np.testing.assert_allclose(answer.sum(axis=1), 1.0, rtol=1e-12)
        assert set(noisy.predict(X)) <= set(noisy.classes_)
    offered = {"predict", "score"}
    if release == "predict_proba":
        offered |= {"predict_proba", "predict_log_proba"}
    assert served_methods(noisy) == offered
    assert not hasattr(noisy, "fit_predict")


def plain_outputs(plain, release):
    return getattr(plain, release)(POINTS).size


def test_elsewhere_the_nearest_point_answers_in_units_of_deviations():
    points = np.array([[0.0, 0.0], [1.0, 1000.0]])
    served = ReleasedRegressor().fit(points, np.array([5.0, 7.0]))
    assert served.predict([[0.9, 0.0], [0.9, 200.0]]).tolist() == [5.0, 7.0]
    served.fit(points, np.array([[5.0, 1.0], [7.0, 2.0]]))
    assert served.predict([[0.1, 0.0]]).tolist() == [[5.0, 1.0]]


def test_targets_in_columns_are_predicted_too():
    targets = np.c_[Y, -Y]
    model = private(RandomForestRegressor(3), "predict", X_public=POINTS)
    model.set_params(epsilon=np.inf, **DECLARED).fit(X, targets)
    plain = RandomForestRegressor(3, random_state=0).fit(X, targets)
    assert_same(model.predict(POINTS), plain.predict(POINTS))


def test_surrogate_regressor_is_fitted_to_what_was_released():
    model = private(RandomForestRegressor(3), "predict", X_public=X_PUBLIC)
    model.set_params(epsilon=np.inf, surrogate=Ridge(2.0), **DECLARED).fit(X, Y)
    forest = RandomForestRegressor(3, random_state=0).fit(X, Y)
    ridge = Ridge(2.0).fit(X_PUBLIC, forest.predict(X_PUBLIC))
    assert_same(model.predict(X), ridge.predict(X))
    assert not hasattr(model.surrogate, "coef_")


@pytest.mark.parametrize(
    "surrogate",
    [
        DecisionTreeClassifier(max_depth=2, random_state=0),
        RidgeClassifier(),
        KNeighborsRegressor(3),
        Ridge(),
    ],
)
def test_surrogates_of_classifiers(surrogate):
    model = private(GaussianNB(), "predict_proba", X_public=X_PUBLIC)
    model.set_params(epsilon=np.inf, surrogate=surrogate, **DECLARED).fit(X, LABELS)
    naive = GaussianNB().fit(X, LABELS)
    answer = model.predict_proba(X)
    assert ((answer >= 0) & (answer <= 1)).all()
    np.testing.assert_allclose(answer.sum(axis=1), 1.0, rtol=1e-12)
    if is_classifier(surrogate):
        likeliest = clone(surrogate).fit(X_PUBLIC, naive.predict(X_PUBLIC))
        np.testing.assert_array_equal(model.predict(X), likeliest.predict(X))
        if hasattr(surrogate, "predict_proba"):
            assert_same(answer, likeliest.predict_proba(X))
        else:
            assert set(answer.ravel()) == {0.0, 1.0}
    else:
        shares = clone(surrogate).fit(X_PUBLIC, naive.predict_proba(X_PUBLIC))
        expected = np.clip(shares.predict(X), 0, 1)
        assert_same(answer, expected / expected.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("surrogate", [DecisionTreeClassifier(), RidgeClassifier()])
def test_classes_that_are_nowhere_the_likeliest_get_no_probability(surrogate):
    probabilities = np.array([[0.5, 0.2, 0.3], [0.1, 0.3, 0.6]])
    served = ReleasedClassifier(surrogate)
    served.fit([[0.0], [1.0]], probabilities, np.array(["a", "b", "c"]))
    answer = served.predict_proba([[-1.0], [2.0]])
    np.testing.assert_array_equal(answer, [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert served.predict([[-1.0], [2.0]]).tolist() == ["a", "c"]
    assert served.predict_log_proba([[-1.0]]).tolist() == [[0.0, -np.inf, -np.inf]]


@pytest.mark.parametrize(
    "surrogate", [LogisticRegression(), SVC(), DecisionTreeClassifier()]
)
def test_one_likeliest_class_is_served_by_the_nearest_point(surrogate):
    """No classifier needs to learn it, and some cannot."""
    probabilities = np.array([[0.6, 0.1, 0.3], [0.9, 0.1, 0.0]])
    served = ReleasedClassifier(surrogate)
    served.fit([[0.0], [1.0]], probabilities, np.array(["a", "b", "c"]))
    answer = served.predict_proba([[-1.0], [2.0]])
    np.testing.assert_array_equal(answer, probabilities)
    assert served.predict([[-1.0], [2.0]]).tolist() == ["a", "a"]
    model = private(GaussianNB(), "predict_proba", X_public=X_PUBLIC[:2])
    model.set_params(surrogate=surrogate, epsilon=0.01)
    for _ in range(8):  # with this noise one class is often the likeliest of both
        assert fit_public(model).predict(X).shape == (80,)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1, max_size=5)
)
def test_probabilities_are_mended_where_they_must_be(rows):
    mended = as_probabilities(np.array(rows))
    assert ((mended >= 0) & (mended <= 1)).all()
    np.testing.assert_allclose(mended.sum(axis=1), 1.0)
    np.testing.assert_allclose(as_probabilities(mended), mended, rtol=1e-12)


def test_probabilities_that_need_no_mending_stay_exactly():
    exact = GaussianNB().fit(X, LABELS).predict_proba(X)
    np.testing.assert_array_equal(as_probabilities(exact), exact)
    nothing = as_probabilities(np.array([[-1.0, 0.0]]))
    assert nothing.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    ("estimator", "release"),
    [
        (RandomForestRegressor(3), "predict"),
        (KNeighborsClassifier(), "predict_proba"),
        (Ridge(), "auto"),
        (StandardScaler(), "auto"),
        (KMeans(3, n_init=1), "auto"),
    ],
)
def test_data_frames(estimator, release, library):
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]

    def columns(values, names="abcd"):
        return frame(dict(zip(names, values.T, strict=True)))

    points = None if release == "auto" else columns(POINTS)
    model = private(estimator, release, X_public=points)
    _, *y = data_for(estimator)
    reference = reference_for(estimator) | {"X_reference": columns(X_PUBLIC)}
    model.fit(columns(X), *y, **reference)
    assert list(model.feature_names_in_) == list("abcd")
    method = "transform" if hasattr(model, "transform") else "predict"
    answer = np.asarray(getattr(model, method)(columns(X)))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert_same(answer, getattr(model, method)(X))
    with pytest.raises(ValueError, match="feature names should match"):
        getattr(model, method)(columns(X, "dcba"))
    reference["X_reference"] = columns(X_PUBLIC, "dcba")
    with pytest.raises(IncompatibleError, match=r"columns \['d', 'c', 'b', 'a'\]"):
        model.fit(columns(X), *y, **reference)
    if points is not None:
        declare_classes(model)
        model.set_params(X_public=columns(POINTS, "dcba"), **DECLARED)
        with pytest.raises(IncompatibleError, match="X_public has the columns"):
            model.fit(columns(X), *y)
        model.set_params(X_public=POINTS).fit(columns(X), *y)


# Bad input


class Unclonable(RegressorMixin, BaseEstimator):
    def __init__(self, names):
        self.names = list(names)


SECOND = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}


@pytest.mark.parametrize(
    ("estimator", "parameters", "reference", "error", "message"),
    [
        (Ridge, {}, {}, ValueError, "estimator must be an instance of a scikit-learn"),
        (3, {}, {}, ValueError, "estimator must be an instance .* got 3"),
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
            r"Ridge has no attribute 'foo_' after fit; its numeric ones are "
            r"coef_ \(4,\), intercept_ \(\)",
        ),
        (
            MLPRegressor(hidden_layer_sizes=(3,), max_iter=2),
            {"release": ("coefs_",)} | DECLARED,
            {},
            ValueError,
            r"coefs_ of MLPRegressor is ragged, with arrays of shapes \[\(4, 3\)",
        ),
        (
            Odd("text"),
            {"release": ("value_",)} | DECLARED,
            {},
            ValueError,
            "value_ of Odd is not numeric, but str of <U4",
        ),
        (
            Odd(1j),
            {"release": ("value_",)} | DECLARED,
            {},
            ValueError,
            "value_ of Odd is not numeric, but complex of complex128",
        ),
        (
            RandomForestRegressor(2),
            DECLARED,
            {},
            ValueError,
            r"does not know RandomForestRegressor: name the fitted attributes to "
            r"release, from feature_importances_ \(4,\); or release predictions",
        ),
        (
            KNeighborsRegressor(),
            DECLARED,
            {},
            ValueError,
            "does not know KNeighborsRegressor: .* from none; or release predictions",
        ),
        (
            StandardScaler(with_mean=False, with_std=False),
            DECLARED,
            {},
            ValueError,
            "release='auto' finds nothing that StandardScaler",
        ),
        (
            SVC(kernel="linear"),
            {"release": ("coef_",)} | DECLARED,
            {},
            ValueError,
            "coef_ of SVC cannot be set",
        ),
        (
            Ridge(),
            {"release": ()},
            {},
            ValueError,
            r"release must be .*\(\)",
        ),
        (Ridge(), {"release": ("coef_",) * 2}, {}, ValueError, "of distinct names"),
        (Ridge(), {"release": ("coef_", 3)}, {}, ValueError, "release must be a sequ"),
        (Ridge(), {"release": "coef_"}, {}, ValueError, "predict_proba'; got 'coef_'"),
        (Ridge(), {"release": None}, {}, ValueError, "release must be .* got None"),
        (
            Ridge(),
            {"release": np.array(["coef_"])},
            {},
            ValueError,
            "release must be a sequence",
        ),
        (
            Ridge(),
            {"release": "predict_proba", "X_public": POINTS},
            {},
            ValueError,
            "got 'predict_proba' for the regressor Ridge",
        ),
        (
            GaussianNB(),
            {"release": "predict", "X_public": POINTS},
            {},
            ValueError,
            "got 'predict' for the classifier GaussianNB",
        ),
        (
            LinearSVC(),
            {"release": "predict_proba", "X_public": POINTS},
            {},
            ValueError,
            "'predict_proba' for classifiers that have it",
        ),
        (
            KMeans(2),
            {"release": "predict", "X_public": POINTS},
            {},
            ValueError,
            "got 'predict' for the clusterer KMeans",
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
            "X_public has 2 features, but X has 4",
        ),
        (
            Ridge(),
            {"release": "predict", "X_public": [[np.nan] * 4]},
            {},
            ValueError,
            "X_public contains NaN",
        ),
        (Ridge(), {"X_public": POINTS}, {}, ValueError, "X_public and surrogate must"),
        (Ridge(), {"surrogate": Ridge()}, {}, ValueError, "X_public and surrogate mus"),
        (
            Ridge(),
            {"public_attributes": ("n_iter_",)} | DECLARED,
            {},
            ValueError,
            "from a fit on public records, but there is no reference",
        ),
        (
            Ridge(),
            {"public_attributes": ("coef_",)},
            SECOND,
            ValueError,
            r"public_attributes are already released: \['coef_'\]",
        ),
        (
            Ridge(),
            {"public_attributes": ("foo_",)},
            SECOND,
            ValueError,
            r"are not attributes of a fitted Ridge: \['foo_'\]",
        ),
        (
            Ridge(),
            {"public_attributes": "n_iter_"},
            SECOND,
            ValueError,
            "public_attributes must be a sequence of distinct names of fitted "
            "attributes; got 'n_iter_'",
        ),
        (
            Ridge(),
            {"sensitivity": SensitivitySampler(reference=TableReference(X_PUBLIC))},
            SECOND,
            ValueError,
            "Ridge takes targets|there can be only one reference",
        ),
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
            KNeighborsRegressor(),
            {"release": "predict", "X_public": POINTS},
            SECOND | {"X_reference": X_PUBLIC[:, :2]},
            IncompatibleError,
            "The reference has 2 features, but X has 4",
        ),
        (
            Ridge(),
            {},
            SECOND | {"y_reference": np.c_[Y_PUBLIC, Y_PUBLIC]},
            IncompatibleError,
            "y has one dimension, but the targets of the reference have 2 column",
        ),
        (Ridge(), {}, {"X_reference": X_PUBLIC}, ValueError, "must be given together"),
        (Ridge(), {"epsilon": 0}, {}, ValueError, r"epsilon must be .* \(0, inf\]"),
        (Ridge(), {"gamma": 1.0}, {}, ValueError, r"gamma must be a number in \(0, 1"),
        (Ridge(), {"sensitivity": 0.0}, {}, ValueError, "sensitivity must be a finite"),
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
            {"sensitivity": SensitivitySampler(mechanism="exponential")},
            SECOND,
            ValueError,
            "mechanism of the SensitivitySampler must add noise to numbers",
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
        (
            Ridge(),
            {
                "sensitivity": SensitivitySampler(
                    reference=TableReference(X.copy(), Y), n_pairs=4
                )
            },
            {},
            ValueError,
            "whose reference shares records with the training data",
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


def test_shape_that_changes_between_databases_is_refused():
    records = np.random.default_rng(0).normal(size=(112, 4))
    model = private(PCA(0.8), sensitivity=SensitivitySampler(n_pairs=30))
    with pytest.raises(
        ValueError, match=r"components_ of PCA .* must have the same sh"
    ):
        model.fit(records[:12], X_reference=records[12:])


def test_fit_that_fails_leaves_no_release_of_another_fit():
    model = fit_declared(private(Ridge()))
    with pytest.raises(CalibrationError, match="n_pairs"):
        fit_public(model.set_params(sensitivity=None, gamma=1e-9))
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert not hasattr(model, "certificate_")


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


# Nothing but the release tells about the private data

SECRET = 60.0


class Fussy(RegressorMixin, BaseEstimator):
    """Fails, or warns, about what only the private data have."""

    def __init__(self, how="raise", verbose=0):
        self.how = how
        self.verbose = verbose

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        if self.verbose:
            print("the largest is", X.max())
        self.coef_ = np.array([X.mean(), y.mean()])
        if X.max() >= SECRET:
            if self.how == "raise":
                raise RuntimeError(f"too large: {X.max()}")
            if self.how == "warn":
                warnings.warn(f"too large: {X.max()}", stacklevel=2)
                np.log(X - X)
            elif self.how == "shape":
                self.coef_ = np.zeros(int(X.max()))
            elif self.how == "attribute":
                del self.coef_
            elif self.how == "infinite":
                self.coef_ = self.coef_ / 0.0
        return self

    def predict(self, X):
        return np.full(len(X), self.coef_[0])


FAR = np.where(X.max() == X, SECRET, X)


@pytest.mark.parametrize("way", ["sampled", "declared", "explicit"])
@pytest.mark.parametrize("how", ["raise", "shape", "attribute"])
def test_failure_on_private_data_shows_nothing_of_them(how, way):
    model = private(Fussy(how), ("coef_",), **WAYS[way][0])
    reference = SECOND if WAYS[way][1] else {}
    with pytest.raises(ValueError, match="has no answer on the private data") as error:
        model.fit(FAR, Y, **reference)
    assert "60" not in str(error.value)
    assert error.value.__context__ is None
    assert error.value.__cause__ is None
    assert not hasattr(model, "estimator_")


@pytest.mark.parametrize("way", ["sampled", "declared", "explicit"])
def test_numbers_that_are_not_finite_are_not_told(way):
    model = private(Fussy("infinite"), ("coef_",), **WAYS[way][0])
    with pytest.raises(ValueError, match="has no answer on the private data") as e:
        model.fit(FAR, Y, **(SECOND if WAYS[way][1] else {}))
    assert e.value.__context__ is None


@pytest.mark.parametrize("way", ["sampled", "declared", "explicit"])
def test_warnings_of_private_fits_are_not_shown(way):
    model = private(Fussy("warn"), ("coef_",), **WAYS[way][0])
    with np.errstate(all="raise"), warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        model.fit(FAR, Y, **(SECOND if WAYS[way][1] else {}))
        hard = private(Lasso(1e-9, max_iter=1), **WAYS[way][0])
        hard.fit(FAR, Y, **(SECOND if WAYS[way][1] else {}))
    assert not shown
    with pytest.warns(sklearn.exceptions.ConvergenceWarning):
        Lasso(1e-9, max_iter=1).fit(FAR, Y)


@pytest.mark.parametrize(
    ("estimator", "release"),
    [
        (Fussy("fine", verbose=1), ("coef_",)),
        (Fussy("fine", verbose=True), ("coef_",)),
        (LinearSVC(verbose=1, max_iter=20), "auto"),
        (KMeans(2, verbose=1, n_init=1), "auto"),
        (SGDRegressor(verbose=1, max_iter=2), "auto"),
        (GradientBoostingRegressor(n_estimators=2, verbose=2), "predict"),
        (make_pipeline(StandardScaler(), Fussy(verbose=1), verbose=True), "predict"),
    ],
    ids=repr,
)
def test_nothing_is_printed(estimator, release, capfd):
    points = POINTS if release == "predict" else None
    model = private(estimator, release, X_public=points)
    fit_public(model)
    fit_declared(model)
    assert capfd.readouterr() == ("", "")
    params = model.estimator.get_params()
    assert any(v for n, v in params.items() if n.endswith("verbose"))  # as it was


def test_random_state_of_none_is_fixed_and_fits_are_functions_of_the_data():
    model = private(KMeans(3, n_init=1), epsilon=np.inf, **DECLARED)
    centers = [clone(model).fit(X).estimator_.cluster_centers_ for _ in range(2)]
    np.testing.assert_array_equal(*centers)
    plain = KMeans(3, n_init=1, random_state=0).fit(X)
    np.testing.assert_array_equal(centers[0], plain.cluster_centers_)
    assert model.estimator.random_state is None
    pipeline = make_pipeline(StandardScaler(), RandomForestRegressor(2, verbose=1))
    fixed = repeatable(pipeline).get_params()
    assert fixed["randomforestregressor__random_state"] == 0
    assert fixed["randomforestregressor__verbose"] == 0
    assert repeatable(KMeans(random_state=7)).random_state == 7


def test_splitters_caches_and_workers_leave_nothing_to_chance_and_no_trace():
    splitter = ShuffleSplit(2)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SVC(), memory="somewhere"),
        {"svc__C": [1.0, 2.0]},
        cv=splitter,
        n_jobs=2,
    )
    fixed = repeatable(search).get_params()
    assert fixed["cv"].random_state == 0
    assert fixed["n_jobs"] is None
    assert fixed["estimator__memory"] is None
    assert fixed["estimator__svc__random_state"] == 0
    assert splitter.random_state is None
    assert (search.n_jobs, search.estimator.memory) == (2, "somewhere")
    seeded = ShuffleSplit(2, random_state=7)
    assert repeatable(search.set_params(cv=seeded)).cv.random_state == 7
    assert repeatable(search.set_params(cv=3)).cv == 3


def test_query_is_a_function_also_where_a_generator_is_given():
    state = np.random.RandomState(3)
    query = EstimatorQuery(
        KMeans(3, n_init=1, random_state=state),
        AttributeReader(("cluster_centers_",)),
        {"cluster_centers_": (3, 4)},
    )
    np.testing.assert_array_equal(query(X), query(X))


def test_noise_differs_each_time_also_with_random_state():
    model = private(Ridge())
    first, second = (fit_public(model).estimator_.coef_ for _ in range(2))
    assert (first != second).all()
    seeded = private(Ridge(), noise_random_state=1)
    coefs = []
    for _ in range(2):
        with pytest.warns(PrivacyLeakWarning, match="not private"):
            coefs.append(fit_public(seeded).estimator_.coef_)
    np.testing.assert_array_equal(*coefs)
    assert not seeded.certificate_.private


# Queries


def test_query_splits_an_answer_into_what_was_read():
    ridge = Ridge()
    shapes = {"coef_": (2, 4), "intercept_": (2,), "alpha_": ()}
    query = EstimatorQuery(ridge, AttributeReader(tuple(shapes)), shapes)
    assert query.n_outputs == 11
    parts = query.split(np.arange(11.0))
    assert {name: part.shape for name, part in parts.items()} == shapes
    joined = np.concatenate([part.ravel() for part in parts.values()])
    np.testing.assert_array_equal(joined, np.arange(11.0))
    assert str(query) == "Ridge (coef_, intercept_, alpha_)"


def test_queries_are_equal_if_they_ask_the_same():
    def query(estimator=None, names=("coef_",), shapes=None, **parameters):
        estimator = Ridge() if estimator is None else estimator
        shapes = {"coef_": (4,)} if shapes is None else shapes
        return EstimatorQuery(estimator, AttributeReader(names), shapes, **parameters)

    assert query() == query(Ridge(), shapes={"coef_": (5,)}, anchor={"coef_": X[0]})
    others = [
        query(Ridge(2.0)),
        query(Lasso()),
        query(names=("intercept_",)),
        query(classes=(0.0, 1.0)),
        query(align=match_components),
        EstimatorQuery(Ridge(), PredictionReader("predict", POINTS), {}),
        MeanQuery(),
    ]
    for other in others:
        assert query() != other
    points = [PredictionReader("predict", p) for p in (POINTS, POINTS.copy(), X[:3])]
    same, equal, moved = (EstimatorQuery(Ridge(), reader, {}) for reader in points)
    assert same == equal != moved
    forests = [RandomForestRegressor(n) for n in (2, 2, 3)]
    nested = [query(make_pipeline(PCA(), forest)) for forest in forests]
    assert nested[0] == nested[1] != nested[2]
    with pytest.raises(TypeError, match="unhashable"):
        hash(query())


def test_queries_of_differently_fitted_frozen_estimators_are_others():
    final = [Ridge().fit(Y[:, None], slope * Y) for slope in (1.0, 1.0, -1.0)]
    stacks = [
        StackingRegressor([("ridge", Ridge())], FrozenEstimator(last), cv=2)
        for last in final
    ]
    models = [private(stack, "predict", X_public=POINTS) for stack in stacks]
    same, equal, other = (fit_public(model).sampler_.query_ for model in models)
    assert same == equal != other
    sampler = models[0].sampler_
    again = models[1].set_params(sensitivity=sampler).fit(X, Y)
    assert again.sensitivity_ == sampler.sensitivity_
    with pytest.raises(IncompatibleError, match="was fitted for StackingRegressor"):
        models[2].set_params(sensitivity=sampler).fit(X, Y)


def test_queries_with_what_has_no_pickle_are_like_nothing():
    """Not even like themselves: nobody can tell what a function does."""
    pipeline = make_pipeline(FunctionTransformer(lambda X: 2 * X), Ridge())
    model = private(pipeline, "predict", X_public=POINTS)
    query = fit_public(model).sampler_.query_
    assert query != query
    assert query != MeanQuery()
    again = clone(model).set_params(sensitivity=model.sampler_)
    with pytest.raises(IncompatibleError, match="was fitted for Pipeline"):
        again.fit(X, Y)


def test_first_database_is_drawn_from_the_reference():
    table = TableReference(X_PUBLIC, Y_PUBLIC, sampling="subsample")
    seed = np.random.SeedSequence(1)
    drawn, targets = sample_database(table, 50, seed)
    rows = [X_PUBLIC.tolist().index(row) for row in drawn.tolist()]
    assert len(set(rows)) == 50
    np.testing.assert_array_equal(Y_PUBLIC[rows], targets)
    again, _ = sample_database(table, 50, seed)
    np.testing.assert_array_equal(drawn, again)
    assert sample_database(TableReference(X_PUBLIC), 3, seed)[1] is None
    other, _ = sample_database(table, 50, np.random.SeedSequence(2))
    assert (drawn != other).any()


# Samplers that are used again


@pytest.mark.parametrize("estimator", [Ridge(), GaussianNB(), PCA(2)])
def test_fitted_pairs_serve_every_target(estimator):
    first = fit_public(private(estimator))
    again = private(estimator, sensitivity=first.sampler_, epsilon=0.2, gamma=0.3)
    again.fit(*data_for(estimator))
    assert again.sampler_.differences_ is first.sampler_.differences_
    assert again.sampler_.query_.anchor is first.sampler_.query_.anchor
    assert again.sensitivity_ == first.sampler_.sensitivity_at(0.3)
    assert (again.epsilon_, again.gamma_) == (0.2, 0.3)
    assert again.certificate_.private
    assert first.sampler_.epsilon == 1.0


def test_fitted_pairs_of_predictions_serve_again():
    model = private(RandomForestRegressor(2), "predict", X_public=POINTS)
    fit_public(model)
    again = clone(model).set_params(sensitivity=model.sampler_).fit(X, Y)
    assert again.sensitivity_ == model.sensitivity_
    again.set_params(X_public=POINTS + 1.0)
    with pytest.raises(IncompatibleError, match="was fitted for RandomForestRegressor"):
        again.fit(X, Y)


@pytest.mark.parametrize(
    "other",
    [
        private(Ridge(2.0)),
        private(Lasso()),
        private(Ridge(), ("coef_",)),
        private(Ridge(), align=match_components),
    ],
)
def test_fitted_pairs_of_another_question_are_refused(other):
    sampler = fit_public(private(Ridge())).sampler_
    with pytest.raises(IncompatibleError, match=r"was fitted for Ridge \(coef_, inte"):
        other.set_params(sensitivity=sampler).fit(X, Y)


def test_fitted_sampler_and_a_reference_are_two_references():
    sampler = fit_public(private(Ridge())).sampler_
    with pytest.raises(ValueError, match="there can be only one reference"):
        fit_public(private(Ridge(), sensitivity=sampler))


def test_withheld_pairs_are_not_used_again():
    with pytest.warns(PrivacyLeakWarning):
        model = private(Ridge()).fit(X, Y)
    with pytest.raises(IncompatibleError, match="came from private data"):
        private(Ridge(), sensitivity=model.sampler_).fit(X, Y)


def test_fitted_pairs_in_a_search_are_frozen():
    half = private(Ridge()).fit(X[:40], Y[:40], **SECOND)
    model = private(Ridge(), sensitivity=FrozenEstimator(half.sampler_))
    grid = {"epsilon": [0.1, 1.0], "gamma": [0.2, 0.4]}
    search = GridSearchCV(model, grid, cv=2, refit=False).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state=0"):
        seeded = clone(model).set_params(noise_random_state=0).fit(X[:40], Y[:40])
    assert not seeded.certificate_.private


def test_sampler_parameters_stand_unless_the_model_has_its_own():
    sampler = SensitivitySampler(n_pairs=9, random_state=5, n_jobs=2, gamma=0.5)
    model = private(Ridge(), sensitivity=sampler, random_state=None)
    fit_public(model)
    fitted = model.sampler_
    assert (fitted.n_pairs, fitted.random_state, fitted.n_jobs) == (9, 5, 2)
    assert (fitted.gamma, fitted.epsilon) == (0.2, 1.0)
    again = fit_public(model.set_params(n_jobs=1))
    assert again.sensitivity_ == fitted.sensitivity_
    np.testing.assert_array_equal(again.sampler_.differences_, fitted.differences_)
    assert sampler.get_params()["query"] is None
    assert not hasattr(sampler, "certificate_")


def test_add_remove_needs_a_public_number_of_records():
    sampler = SensitivitySampler(relation="add-remove", n_pairs=4)
    model = private(GaussianNB(), sensitivity=sampler)
    with pytest.raises(ValueError, match="n_records must be given"):
        fit_public(model)
    fit_public(model.set_params(sensitivity__n_records=81))
    assert model.certificate_.evidence.n_records == 81


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_shaped_noise(mechanism):
    sampler = SensitivitySampler(
        n_pairs=60, randomness="both", mechanism=mechanism, noise_shape="whitened"
    )
    model = fit_public(private(PCA(2), sensitivity=sampler))
    assert model.certificate_.private
    assert model.transform(X).shape == (80, 2)


# As part of scikit-learn

WITH_TABLE = clone(CHEAP).set_params(reference=TABLE)


def test_search_reaches_the_estimator_and_the_sampler():
    model = private(Ridge(), sensitivity=WITH_TABLE)
    grid = {
        "estimator__alpha": [0.5, 1.0],
        "epsilon": [1.0, 2.0],
        "sensitivity__n_pairs": [5],
    }
    search = GridSearchCV(model, grid, cv=2).fit(X, Y)
    assert search.best_estimator_.sampler_.n_pairs == 5
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_cross_validation_pickling_and_cloning():
    model = private(Ridge(), sensitivity=WITH_TABLE, epsilon=1e6)
    assert (cross_val_score(model, X, Y, cv=3) > 0.5).all()
    for estimator in (Ridge(), GaussianNB(), KMeans(3, n_init=1), PCA(2)):
        fitted = fit_public(private(estimator))
        copied = pickle.loads(pickle.dumps(fitted))
        method = "predict" if hasattr(fitted, "predict") else "transform"
        np.testing.assert_array_equal(
            getattr(copied, method)(X), getattr(fitted, method)(X)
        )
        assert copied.certificate_ == fitted.certificate_
        assert copied.sampler_.query_ == fitted.sampler_.query_
        assert not hasattr(clone(fitted), "estimator_")
        again = clone(copied).set_params(sensitivity=copied.sampler_)
        assert again.fit(*data_for(estimator)).sensitivity_ == fitted.sensitivity_


def test_fit_never_touches_parameters():
    estimator, sampler = KMeans(3, n_init=1, verbose=0), clone(WITH_TABLE)
    model = private(estimator, sensitivity=sampler)
    before = copy.deepcopy(model.get_params())
    model.fit(X)
    after = model.get_params()
    assert after.pop("sensitivity") is sampler
    assert after.pop("estimator") is estimator
    assert set(vars(estimator)) == set(estimator.get_params())
    for name in ("sensitivity", "estimator"):
        before.pop(name)
    assert {k: repr(v) for k, v in after.items()} == {
        k: repr(v) for k, v in before.items()
    }


def test_set_output():
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(80) + 5)
    public = pd.DataFrame(X_PUBLIC, columns=list("abcd"))
    for estimator, names in ((PCA(2), ["pca0", "pca1"]), (StandardScaler(), "abcd")):
        model = private(estimator)
        assert model.set_output(transform="pandas") is model
        transformed = model.fit_transform(frame, X_reference=public)
        assert list(transformed.columns) == list(names)
        assert list(transformed.index) == list(frame.index)
        assert list(model.get_feature_names_out()) == list(names)
        model.set_output(transform="default")
        assert isinstance(model.transform(frame), np.ndarray)
        model.set_output()
        assert isinstance(model.transform(frame), np.ndarray)


def test_names_of_columns_may_be_given():
    model = fit_public(private(StandardScaler()))
    assert list(model.get_feature_names_out(list("wxyz"))) == list("wxyz")


def test_reference_is_routed_through_a_pipeline():
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = private(StandardScaler(), epsilon=1e9)
        scaler.set_fit_request(X_reference=True, y_reference=False)
        ridge = private(Ridge()).set_fit_request(X_reference=True, y_reference=True)
        pipeline = make_pipeline(scaler, ridge, transform_input=["X_reference"])
        pipeline.fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
        first, last = pipeline[0], pipeline[-1]
        assert first.certificate_.private
        assert last.certificate_.private
        direct = private(Ridge()).fit(
            first.transform(X),
            Y,
            X_reference=X_PUBLIC,
            y_reference=Y_PUBLIC,
        )
        assert (
            last.certificate_.evidence.n_records
            == direct.certificate_.evidence.n_records
        )
        plain = make_pipeline(
            StandardScaler(), ridge, transform_input=["X_reference"]
        ).fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
        scaler = StandardScaler().fit(X)
        direct = private(Ridge()).fit(
            scaler.transform(X),
            Y,
            X_reference=scaler.transform(X_PUBLIC),
            y_reference=Y_PUBLIC,
        )
        assert plain[-1].certificate_ == direct.certificate_
        search = GridSearchCV(plain, {"privateestimator__epsilon": [1.0, 2.0]}, cv=2)
        search.fit(X, Y, X_reference=X_PUBLIC, y_reference=Y_PUBLIC)
        assert search.best_estimator_[-1].certificate_.private


def test_shows_as_html():
    assert "PrivateEstimator" in private(Ridge())._repr_html_()
