"""PrivateLogisticRegression and PrivateLinearSVC: what is released, and from what."""

import copy
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy.optimize import lsq_linear
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from skparisk import (
    CalibrationError,
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    SensitivitySampler,
)
from skparisk.linear_model import logistic_sensitivity_bound
from skparisk.queries import LinearSVCQuery, LogisticRegressionQuery, MeanQuery
from skparisk.reference import CallableReference, TableReference
from skparisk.svm import linear_svc_sensitivity_bound

SLOPES = np.array([[3.0, -1.0, 0.0], [0.0, 2.0, -1.0], [-1.0, 0.0, 2.0]])


def make_data(n_records, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_records, 3))
    scores = X @ SLOPES[:, :n_classes] + 2 * rng.normal(size=(n_records, n_classes))
    return X, scores.argmax(axis=1)


X, Y = make_data(100)
X_PUBLIC, Y_PUBLIC = make_data(150, seed=1)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}

FEW = SensitivitySampler(n_pairs=19)
LOGISTIC = PrivateLogisticRegression(sensitivity=FEW, random_state=0)
SQUARED = PrivateLinearSVC(sensitivity=FEW, random_state=0)
HINGE = PrivateLinearSVC(loss="hinge", sensitivity=FEW, random_state=0)
SHELLS = {"logistic": LOGISTIC, "squared hinge": SQUARED, "hinge": HINGE}
BOUNDED = {"logistic": LOGISTIC, "hinge": HINGE}
each_shell = pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS)
each_bounded = pytest.mark.parametrize("shell", BOUNDED.values(), ids=BOUNDED)
classes_2_3 = pytest.mark.parametrize("n_classes", [2, 3])
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])

BOUND = {"sensitivity": "bound", "x_norm": 2.0}


def public_table(n_classes=2):
    return TableReference(*make_data(150, n_classes, seed=1))


def ways(shell, n_classes=2):
    """Return parameters and the public records, for each way that there is."""
    public = dict(zip(PUBLIC, make_data(150, n_classes, seed=1), strict=True))
    on_sampler = SensitivitySampler(n_pairs=19, reference=public_table(n_classes))
    classes = list(range(n_classes))
    found = {
        "sampled": ({}, public),
        "on the sampler": ({"sensitivity": on_sampler}, {}),
        "declared": ({"sensitivity": 0.5, "classes": classes}, {}),
    }
    if shell is not SQUARED:
        found["bound"] = (BOUND | {"classes": classes}, {})
    return found


each_way = pytest.mark.parametrize(
    ("shell", "way"),
    [(s, way) for s in SHELLS.values() for way in ways(s)],
    ids=[f"{name}, {way}" for name, s in SHELLS.items() for way in ways(s)],
)


def make(shell, **parameters):
    return clone(shell).set_params(**parameters)


def exact(shell, **parameters):
    """Return a model without noise."""
    return make(shell, epsilon=np.inf, **{"sensitivity": 1.0} | parameters)


def numbers_of(model):
    return np.concatenate([model.coef_.ravel(), model.intercept_])


def scikit_learn(shell, X, y, **parameters):
    """Fit what scikit-learn has, as tight as it gets."""
    own = shell.get_params() | parameters
    if isinstance(shell, PrivateLogisticRegression):
        names = ("C", "fit_intercept")
        model = LogisticRegression(solver="newton-cholesky", tol=1e-15, max_iter=1000)
    else:
        names = ("C", "fit_intercept", "loss", "intercept_scaling")
        dual = own["loss"] == "hinge"
        model = LinearSVC(dual=dual, tol=1e-10, max_iter=10**5, random_state=0)
    model.set_params(**{name: own[name] for name in names})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


# What is released


def documented(shell):
    names = re.findall(r"^    (\w+_(?:, \w+_)*) :", type(shell).__doc__, re.M)
    return {name for line in names for name in line.split(", ")}


@classes_2_3
@each_way
def test_fitted_attributes_are_the_documented_ones(shell, way, n_classes):
    X, y = make_data(100, n_classes)
    parameters, reference = ways(shell, n_classes)[way]
    model = make(shell, **parameters).fit(X, y, **reference)
    own = documented(shell) - {"feature_names_in_"}
    assert set(vars(model)) == set(model.get_params(deep=False)) | own
    n_rows = 1 if n_classes == 2 else 3
    assert model.coef_.shape == (n_rows, 3)
    assert model.intercept_.shape == (n_rows,)
    np.testing.assert_array_equal(model.classes_, np.arange(n_classes))
    assert model.epsilon_ == 1.0
    assert model.risk_ <= model.gamma_
    assert model.gamma_ == (0.05 if "sampler" in way or way == "sampled" else 0.0)
    assert model.confidence_ == 1 - model.risk_
    assert model.noise_epsilon_ == model.sensitivity_ / model.noise_scale_ <= 1.0
    assert model.noise_epsilon_ == pytest.approx(1.0, rel=2e-6)
    assert model.certificate_.private
    assert model.certificate_.evidence.n_records == 100
    assert model.certificate_.evidence.n_outputs == 4 * n_rows
    assert (model.sampler_ is None) == (way in ("declared", "bound"))


@classes_2_3
@each_shell
def test_the_sampled_sensitivity_is_that_of_the_sampler(shell, n_classes):
    X, y = make_data(100, n_classes)
    _, public = ways(shell, n_classes)["sampled"]
    model = make(shell, epsilon=0.7, gamma=0.1, C=0.5).fit(X, y, **public)
    query = shell._make_query(tuple(range(n_classes)))
    query = type(query)(**vars(query) | {"C": 0.5})
    sampler = SensitivitySampler(query, n_records=100, n_pairs=19, random_state=0)
    sampler.set_params(epsilon=0.7, gamma=0.1).fit(*public.values())
    assert model.certificate_ == sampler.certificate_
    assert model.sampler_.reference is None  # the table is not carried along
    np.testing.assert_array_equal(model.sampler_.differences_, sampler.differences_)


@each_way
def test_noise_differs_each_time_and_repeats_only_with_a_warning(shell, way):
    parameters, reference = ways(shell)[way]
    model = make(shell, **parameters)
    first, second = (model.fit(X, Y, **reference).coef_ for _ in range(2))
    assert (first != second).all()
    model.set_params(noise_random_state=1)
    seeded = []
    for _ in range(2):
        with pytest.warns(PrivacyLeakWarning, match="not private"):
            seeded.append(numbers_of(model.fit(X, Y, **reference)))
    np.testing.assert_array_equal(*seeded)
    assert not model.certificate_.private


@pytest.mark.parametrize("way", ["sampled", "on the sampler", "declared"])
@each_shell
def test_infinite_epsilon_is_the_answer_of_the_query(shell, way):
    parameters, reference = ways(shell)[way]
    model = make(shell, epsilon=np.inf, **parameters).fit(X, Y, **reference)
    np.testing.assert_array_equal(numbers_of(model), shell._make_query((0, 1))(X, Y))
    assert not model.certificate_.private


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@with_and_without_intercept
@classes_2_3
def test_without_noise_it_is_scikit_learns_logistic_regression(
    n_classes, fit_intercept, C
):
    X, y = make_data(80, n_classes)
    fresh = 3 * make_data(200, n_classes, seed=2)[0]
    changed = {"C": C, "fit_intercept": fit_intercept}
    model = exact(LOGISTIC, **changed).fit(X, y)
    twin = scikit_learn(LOGISTIC, X, y, **changed)
    assert model.coef_.shape == twin.coef_.shape
    assert model.intercept_.shape == (len(model.coef_),)
    scores, known = model.decision_function(fresh), twin.decision_function(fresh)
    assert scores.shape == known.shape
    np.testing.assert_allclose(scores, known, rtol=0, atol=1e-12 * abs(known).max())
    np.testing.assert_array_equal(model.predict(fresh), twin.predict(fresh))
    chances = model.predict_proba(fresh)
    np.testing.assert_allclose(chances, twin.predict_proba(fresh), rtol=0, atol=1e-12)


def optimality(model, X, signs, k):
    """Return how far the subgradient of a support vector machine stays from 0.

    Relative to the coefficients, which it would be where there were no records.
    """
    s = model.intercept_scaling
    w = model.coef_[k]
    if model.fit_intercept:
        X, w = np.column_stack([X, np.full(len(X), s)]), [*w, model.intercept_[k] / s]
    Z, w = signs[:, None] * X, np.asarray(w)
    short = 1 - Z @ w
    if model.loss == "squared_hinge":
        rest = w - 2 * model.C * short.clip(min=0) @ Z
    else:
        on, charged = abs(short) < 1e-9, short >= 1e-9
        rest = w - model.C * Z[charged].sum(axis=0)
        # Any share of a record's loss counts where it is on the margin.
        if on.any():
            shares = lsq_linear(Z[on].T, rest, (0, model.C), tol=1e-14).x
            rest = rest - shares @ Z[on]
    return np.linalg.norm(rest) / np.linalg.norm(w)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"C": 0.01},
        {"C": 20.0, "intercept_scaling": 3.0},
        {"C": 0.1, "fit_intercept": False},
    ],
)
@classes_2_3
@pytest.mark.parametrize("shell", [SQUARED, HINGE], ids=["squared hinge", "hinge"])
def test_without_noise_it_is_scikit_learns_linear_svc(shell, n_classes, changed):
    X, y = make_data(80, n_classes)
    fresh = 3 * make_data(200, n_classes, seed=2)[0]
    model = exact(shell, **changed).fit(X, y)
    for k in range(len(model.coef_)):
        signs = np.where(y == (1 if n_classes == 2 else k), 1.0, -1.0)
        assert optimality(model, X, signs, k) < 1e-9
        moved = copy.deepcopy(model)
        moved.coef_ *= 1 + 1e-6
        assert optimality(moved, X, signs, k) > 1e-9
    twin = scikit_learn(shell, X, y, **changed)
    assert model.coef_.shape == twin.coef_.shape
    scores, known = model.decision_function(fresh), twin.decision_function(fresh)
    assert scores.shape == known.shape
    np.testing.assert_allclose(scores, known, rtol=0, atol=1e-6 * abs(known).max())
    np.testing.assert_array_equal(model.predict(fresh), twin.predict(fresh))


@with_and_without_intercept
@classes_2_3
@each_shell
def test_scores_are_those_of_what_is_released(shell, n_classes, fit_intercept):
    X, y = make_data(40, n_classes)
    classes = list(range(n_classes))
    model = make(shell, sensitivity=0.1, fit_intercept=fit_intercept, classes=classes)
    model.fit(X, y)
    assert model.intercept_.any() == fit_intercept
    scores = model.decision_function(X)
    expected = X @ model.coef_.T + model.intercept_
    assert scores.shape == ((40,) if n_classes == 2 else (40, 3))
    np.testing.assert_array_equal(scores, expected.reshape(scores.shape))
    best = expected[:, 0] > 0 if n_classes == 2 else expected.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), best)
    assert model.score(X, y) == np.mean(best == y)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@classes_2_3
def test_probabilities_sum_to_1_and_have_logarithms(n_classes, scale):
    X, y = make_data(60, n_classes)
    model = make(LOGISTIC, sensitivity=0.1, classes=list(range(n_classes))).fit(X, y)
    chances = model.predict_proba(scale * X)
    logarithms = model.predict_log_proba(scale * X)
    assert chances.shape == logarithms.shape == (60, n_classes)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    assert ((chances >= 0) & (chances <= 1)).all()
    # Finite also where the probability is too small for a float.
    assert np.isfinite(logarithms).all()
    assert (chances == 0).any() == (scale > 1)
    np.testing.assert_allclose(np.exp(logarithms), chances, rtol=1e-9, atol=1e-300)
    if n_classes == 3:
        best = model.predict(scale * X)
        np.testing.assert_array_equal(chances.argmax(axis=1), best)


def test_support_vector_machines_have_no_probabilities():
    assert not hasattr(SQUARED, "predict_proba")


# What stays on the model


def numbers_in(document):
    """All aligned and unaligned doubles of a byte string."""
    return {
        value
        for offset in range(8)
        for order in "<>"
        for value in np.frombuffer(
            document[offset : offset + (len(document) - offset) // 8 * 8], f"{order}f8"
        ).tolist()
    }


def exact_statistics(shell):
    twin = scikit_learn(shell, X, Y)
    query = shell._make_query((0.0, 1.0))
    scores = exact(shell).fit(X, Y).decision_function(X)
    fitted = {name: value for name, value in vars(twin).items() if name[-1] == "_"}
    floats = {k: v for k, v in fitted.items() if np.asarray(v).dtype.kind == "f"}
    assert {"coef_", "intercept_"} <= set(floats)
    return floats | {
        "answer": query(X, Y),
        "scores": scores[abs(scores) != 1.0],  # which records on the margin have
        "records": X,
        "means": X.mean(axis=0),
        "means of classes": [X[k == Y].mean(axis=0) for k in (0, 1)],
    }


@each_way
def test_the_pickle_holds_no_exact_statistic_of_the_private_data(shell, way):
    parameters, reference = ways(shell)[way]
    model = make(shell, **parameters).fit(X, Y, **reference)
    numbers = numbers_in(pickle.dumps(model))
    for name, values in exact_statistics(shell).items():
        assert not numbers.intersection(np.ravel(values).tolist()), name
    assert numbers.issuperset(numbers_of(model).tolist())  # it does find numbers


def test_the_search_for_exact_statistics_finds_them_where_there_is_no_noise():
    numbers = numbers_in(pickle.dumps(exact(LOGISTIC).fit(X, Y)))
    assert numbers.issuperset(exact_statistics(LOGISTIC)["answer"].tolist())


@each_shell
def test_without_a_reference_it_warns_and_keeps_no_sampled_difference(shell):
    model = make(shell)
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        model.fit(X, Y)
    numbers = numbers_in(pickle.dumps(model))
    query = shell._make_query((0, 1))
    sampler = clone(FEW).set_params(query=query, random_state=0).fit(X, Y)
    assert sampler.sensitivity_ == model.sensitivity_  # the very same pairs
    assert not numbers & set(sampler.differences_.ravel().tolist()) - {0.0}
    assert not numbers & set(sampler.sensitivities_.tolist()) - {model.sensitivity_, 0}
    for name, values in exact_statistics(shell).items():
        assert not numbers.intersection(np.ravel(values).tolist()), name
    assert not hasattr(model.sampler_, "differences_")
    assert model.certificate_.reference_is_private
    assert not model.certificate_.private


@pytest.mark.parametrize("where", ["fit", "fitted sampler", "sampler"])
@each_shell
def test_training_data_given_as_the_reference_are_noticed(shell, where):
    model, reference = make(shell), {"X_reference": X.tolist(), "y_reference": Y}
    if where == "fitted sampler":
        query = shell._make_query((0, 1))
        sampler = clone(FEW).set_params(query=query).fit(X.copy(), Y)
        for given in (sampler, FrozenEstimator(sampler)):
            with pytest.raises(ValueError, match="whose reference shares records"):
                make(shell, sensitivity=given).fit(X, Y)
        return
    if where == "sampler":
        table = TableReference(X.copy(), Y)
        model.set_params(sensitivity__reference=table)
        with pytest.raises(ValueError, match="whose reference shares records"):
            model.fit(X, Y)
        return
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        model.fit(X, Y, **reference)
    assert not model.certificate_.private
    assert not hasattr(model.sampler_, "differences_")
    assert not numbers_in(pickle.dumps(model.sampler_)) & set(X.ravel().tolist())


def test_fit_never_touches_parameters():
    model = PrivateLogisticRegression(
        sensitivity=SensitivitySampler(n_pairs=19, reference=public_table())
    )
    before = copy.deepcopy(model.get_params())
    sampler = model.sensitivity
    model.fit(X, Y)
    after = model.get_params()
    assert after.pop("sensitivity") is sampler
    assert after.pop("sensitivity__reference") is sampler.reference
    for name in ("sensitivity", "sensitivity__reference"):
        before.pop(name)
    assert after == before


@each_shell
def test_a_fit_that_fails_leaves_no_release_of_another_fit(shell):
    model = make(shell, sensitivity=1.0, classes=[0, 1]).fit(X, Y)
    with pytest.raises(CalibrationError, match="n_pairs"):
        model.set_params(sensitivity=None, gamma=1e-9).fit(X, Y, **PUBLIC)
    with pytest.raises(NotFittedError):
        model.predict(X)
    left = set(vars(model)) - set(model.get_params(deep=False))
    assert left == {"n_features_in_"}


# Labels


LABELS = {
    "strings": ["no", "yes", "zoo"],
    "objects": np.array(["no", "yes", "zoo"], dtype=object),
    "whole numbers": [3, 7, 90],
    "below zero": [-1, 1, 2],
    "floats": [0.0, 1.0, 5.0],
    "bytes": np.array([0, 1, 200], dtype=np.uint8),
    "large numbers": [2**60, 2**60 + 1, 2**60 + 2],
    "booleans": [False, True],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@each_shell
def test_labels_of_any_type_are_predicted(shell, labels):
    labels = np.asarray(labels)
    X, y = make_data(90, len(labels))
    public_X, public_y = make_data(150, len(labels), seed=1)
    twin = scikit_learn(shell, X, labels[y])
    reference = {"X_reference": public_X, "y_reference": labels[public_y]}
    for parameters, given in ({}, reference), ({"sensitivity": 1.0}, {}):
        model = make(shell, epsilon=np.inf, **parameters).fit(X, labels[y], **given)
        np.testing.assert_array_equal(model.classes_, twin.classes_)
        assert model.classes_.dtype == twin.classes_.dtype
        np.testing.assert_array_equal(model.predict(X), twin.predict(X))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32, int])
def test_numbers_of_the_reference_are_taken_as_the_labels_are(dtype):
    sampler = SensitivitySampler(n_pairs=19, reference=public_table())
    model = make(LOGISTIC, sensitivity=sampler).fit(X, Y.astype(dtype))
    assert model.classes_.dtype == dtype


def test_booleans_stand_for_two_of_three_declared_numbers():
    sampler = SensitivitySampler(n_pairs=19, reference=public_table(3))
    model = make(LOGISTIC, sensitivity=sampler).fit(X, Y.astype(bool))
    assert model.classes_.tolist() == [0.0, 1.0, 2.0]


def fitted_sampler(shell, n_classes):
    query = shell._make_query(tuple(range(n_classes)))
    sampler = clone(FEW).set_params(query=query, n_records=100, random_state=0)
    return sampler.fit(*make_data(150, n_classes, seed=1))


WHO_TELLS = {
    "declared": lambda shell: ({"classes": [2, 0, 1, 1], "sensitivity": 1.0}, {}),
    "reference": lambda shell: ways(shell, 3)["sampled"],
    "sampler": lambda shell: ways(shell, 3)["on the sampler"],
    "fitted": lambda shell: ({"sensitivity": fitted_sampler(shell, 3)}, {}),
    "reference, not used": lambda shell: (
        {"sensitivity": 1.0},
        ways(shell, 3)["sampled"][1],
    ),
}


@pytest.mark.parametrize("tells", WHO_TELLS.values(), ids=WHO_TELLS)
@each_shell
def test_private_data_that_lack_a_class_are_fitted_without_a_word(shell, tells):
    parameters, reference = tells(shell)
    for y in (Y, np.full(100, 2)):  # of 3 classes
        model = make(shell, **parameters).fit(X, y, **reference)
        assert model.classes_.tolist() == [0, 1, 2]
        assert model.coef_.shape == (3, 3)
        assert model.certificate_.private
        assert model.predict(X).shape == (100,)


@classes_2_3
@with_and_without_intercept
def test_logistic_regression_answers_zeros_where_there_is_no_minimizer(
    n_classes, fit_intercept
):
    y = np.ones(100, dtype=int)
    classes = list(range(n_classes))
    changed = {"fit_intercept": fit_intercept, "classes": classes}
    for parameters in ({"sensitivity": 1.0}, BOUND):
        model = exact(LOGISTIC, **changed, **parameters).fit(X, y)
        free = fit_intercept and parameters is not BOUND
        assert (numbers_of(model)[:3] == 0).all() == free
        assert (model.predict(X) == 1).all() == (not free and fit_intercept)


@pytest.mark.parametrize("shell", [SQUARED, HINGE], ids=["squared hinge", "hinge"])
def test_support_vector_machines_have_a_minimizer_without_a_class(shell):
    model = exact(shell, classes=[0, 1]).fit(X, np.ones(100, dtype=int))
    assert optimality(model, X, np.ones(100), 0) < 1e-9
    assert (model.predict(X) == 1).all()


@pytest.mark.parametrize(
    ("classes", "labels", "secret"),
    [
        ([0, 1], [0, 7777], "7777"),
        ([0, 1], ["0", "zebra"], "zebra"),
        (["a", "b"], ["a", "zebra"], "zebra"),
        (["a", "b"], [0, 7777], "7777"),
        ([7, 9], [True, False], "True"),
    ],
)
@each_shell
def test_labels_that_are_no_class_are_refused_but_not_told(
    shell, classes, labels, secret
):
    model = make(shell, sensitivity=1.0, classes=classes)
    with pytest.raises(ValueError, match="y has labels that are not among") as error:
        model.fit(X, np.asarray(labels)[Y])
    assert secret not in str(error.value)
    assert error.value.__context__ is None or secret not in str(error.value.__context__)
    reference = {"X_reference": X_PUBLIC, "y_reference": np.asarray(labels)[Y_PUBLIC]}
    with pytest.raises(ValueError, match="y_reference has labels that are not among"):
        model.fit(X, np.asarray(classes)[Y], **reference)


@each_shell
def test_a_class_that_is_missing_in_a_resample_is_told(shell):
    y = np.where(np.arange(150) == 3, 2, Y_PUBLIC)
    with pytest.raises(CalibrationError, match=r"the class 2 .* is missing; n_rec"):
        make(shell).fit(X, Y, X_reference=X_PUBLIC, y_reference=y)


@each_shell
def test_one_class_is_refused(shell):
    with pytest.raises(ValueError, match="classes must have at least 2 classes"):
        make(shell, classes=[1]).fit(X, Y, **PUBLIC)
    with pytest.raises(ValueError, match="y_reference must have at least 2 classes"):
        make(shell).fit(X, Y, X_reference=X_PUBLIC, y_reference=np.ones(150))


# The proven bound


def clipped(X, x_norm):
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True) / x_norm, 1.0)


@with_and_without_intercept
@classes_2_3
def test_bounded_logistic_regression_penalizes_the_intercept(n_classes, fit_intercept):
    X, y = make_data(80, n_classes)
    model = exact(LOGISTIC, fit_intercept=fit_intercept, C=0.5, **BOUND).fit(X, y)
    rows = clipped(X, 2.0)
    assert (rows != X).any()
    if fit_intercept:
        rows = np.column_stack([rows, np.ones(80)])
    twin = scikit_learn(LOGISTIC, rows, y, fit_intercept=False, C=0.5)
    np.testing.assert_allclose(model.coef_, twin.coef_[:, :3], rtol=1e-10)
    constants = twin.coef_[:, 3] if fit_intercept else np.zeros(len(twin.coef_))
    np.testing.assert_allclose(model.intercept_, constants, rtol=1e-10)
    l2 = logistic_sensitivity_bound(
        0.5, x_norm=np.sqrt(4.0 + fit_intercept), n_classes=n_classes
    )
    expected = np.sqrt(twin.coef_.size) * l2
    assert expected < model.sensitivity_ < expected * (1 + 1e-8)
    assert (model.risk_, model.gamma_, model.sampler_) == (0.0, 0.0, None)


@pytest.mark.parametrize("scaling", [None, 1.0, 3.0])
@classes_2_3
def test_bounded_linear_svc_clips_rows(n_classes, scaling):
    X, y = make_data(80, n_classes)
    changed = {"fit_intercept": scaling is not None, "intercept_scaling": scaling or 1}
    model = exact(HINGE, C=0.5, **changed, **BOUND).fit(X, y)
    twin = scikit_learn(HINGE, clipped(X, 2.0), y, C=0.5, **changed)
    np.testing.assert_allclose(model.coef_, twin.coef_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, twin.intercept_, rtol=1e-6, atol=1e-7)
    scaling = scaling or 0.0
    l2 = linear_svc_sensitivity_bound(0.5, x_norm=2.0, intercept_scaling=scaling)
    expected = len(model.coef_) * np.sqrt(3 + scaling**2) * l2
    assert expected < model.sensitivity_ < expected * (1 + 1e-3)
    assert (model.risk_, model.gamma_, model.sampler_) == (0.0, 0.0, None)


@pytest.mark.parametrize("factor", [1e6, 1e300])
@each_bounded
def test_records_beyond_the_bound_are_clipped_without_a_word(shell, factor):
    far = X.copy()
    far[0] *= factor
    model = make(shell, classes=[0, 1], **BOUND).fit(far, Y)
    assert model.certificate_.private
    near = exact(shell, **BOUND).fit(X[1:], Y[1:])
    moved = numbers_of(exact(shell, **BOUND).fit(far, Y)) - numbers_of(near)
    assert abs(moved).sum() < model.sensitivity_


@each_bounded
def test_a_reference_must_be_within_what_is_declared(shell):
    model = make(shell, **BOUND)
    with pytest.raises(ValueError, match=r"x_norm=2.0 was declared, but a record of"):
        model.fit(X, Y, **PUBLIC)
    unit = Normalizer().fit_transform(X_PUBLIC)
    assert np.linalg.norm(unit, axis=1).max() > 1.0  # by rounding
    model.set_params(x_norm=1.0).fit(X, Y, X_reference=unit, y_reference=Y_PUBLIC)
    with pytest.raises(ValueError, match=r"x_norm=1.0 was declared"):
        model.fit(X, Y, X_reference=unit * (1 + 1e-6), y_reference=Y_PUBLIC)


def hard_records(rng, n_records, n_classes):
    """Return records along one direction, some too long, and their labels."""
    direction = rng.choice([np.ones(2), rng.normal(size=2), np.array([0.0, 1.0])])
    sizes = rng.choice([-1, 1, -1, 1, 0, 0.5, 50, rng.normal()], size=n_records)
    rows = sizes[:, None] * direction / np.linalg.norm(direction)
    labels = rng.integers(n_classes, size=n_records)
    if rng.uniform() < 0.6:
        labels[:-2] = labels[0]  # the last two are where the neighbors differ
    return rows, labels


def worst_neighbors(model, n_classes, seed, n_trials=40):
    """Return the largest share of the sensitivity, and where one lacks a class."""
    rng = np.random.default_rng(seed)
    worst = worst_lacking = 0.0
    for _ in range(n_trials):
        n_records = int(rng.integers(1, 6))
        rows, labels = hard_records(rng, n_records + 1, n_classes)
        first, second = np.arange(n_records), [*range(n_records - 1), n_records]
        answers = [numbers_of(model.fit(rows[d], labels[d])) for d in (first, second)]
        share = np.abs(np.subtract(*answers)).sum() / model.sensitivity_
        found = [len(np.unique(labels[d])) for d in (first, second)]
        worst = max(worst, share)
        if min(found) < n_classes and found[0] != found[1]:
            worst_lacking = max(worst_lacking, share)
    return worst, worst_lacking


@pytest.mark.parametrize(
    ("shell", "C", "attained"),
    [
        (LOGISTIC, 0.05, 0.37),
        (LOGISTIC, 3.0, 0.1),
        (HINGE, 0.05, 0.64),
        (HINGE, 3, 0.1),
    ],
)
@classes_2_3
@with_and_without_intercept
def test_the_bound_holds_also_where_one_neighbor_lacks_a_class(
    shell, fit_intercept, n_classes, C, attained
):
    model = exact(
        shell, fit_intercept=fit_intercept, C=C, classes=range(n_classes)
    ).set_params(sensitivity="bound", x_norm=1.0)
    worst, worst_lacking = worst_neighbors(model, n_classes, seed=0)
    assert attained < worst_lacking <= worst <= 1.0


def test_the_search_for_neighbors_notices_answers_of_zero_without_a_class():
    """Which logistic regression has, where its intercept is free."""
    model = exact(LOGISTIC, C=0.05, classes=[0, 1])
    bound = make(model, **BOUND | {"x_norm": 1.0}).fit(
        *hard_records(np.random.default_rng(0), 5, 2)
    )
    model.set_params(sensitivity=bound.sensitivity_)
    assert worst_neighbors(model, 2, seed=0)[0] > 1.0


# Samplers


@each_shell
def test_add_remove_needs_a_public_number_of_records(shell):
    sampler = SensitivitySampler(relation="add-remove", n_pairs=19)
    model = make(shell, sensitivity=sampler)
    with pytest.raises(ValueError, match="n_records must be given"):
        model.fit(X, Y, **PUBLIC)
    model.set_params(sensitivity__n_records=101).fit(X, Y, **PUBLIC)
    assert model.certificate_.evidence.n_records == 101
    assert "one added or removed record" in model.certificate_.guarantee
    with pytest.raises(IncompatibleError, match="of 98 or 99 records;"):
        model.set_params(sensitivity__n_records=99).fit(X, Y, **PUBLIC)


@each_shell
def test_fitted_pairs_serve_every_target(shell):
    first = make(shell, gamma=0.1).fit(X, Y, **PUBLIC)
    again = make(shell, epsilon=0.2, gamma=0.3, sensitivity=first.sampler_).fit(X, Y)
    assert again.sampler_.differences_ is first.sampler_.differences_
    assert again.sensitivity_ == first.sampler_.sensitivity_at(0.3)
    assert (again.epsilon_, again.gamma_) == (0.2, 0.3)
    assert first.sampler_.epsilon == 1.0
    with pytest.raises(IncompatibleError, match=r"was fitted for .*C=1\.0, .*C=2\.0"):
        again.set_params(C=2.0).fit(X, Y)
    with pytest.raises(IncompatibleError, match="databases of 100 records, got 99"):
        make(again, C=1.0, sensitivity=first.sampler_).fit(X[1:], Y[1:])


@each_shell
def test_fitted_pairs_in_a_search_are_frozen(shell):
    query = shell._make_query((0, 1))
    sampler = clone(FEW).set_params(query=query, n_records=50, random_state=0)
    sampler.fit(X_PUBLIC, Y_PUBLIC)
    model = make(shell, sensitivity=FrozenEstimator(sampler))
    grid = {"epsilon": [0.1, 1.0], "gamma": [0.05, 0.2]}
    search = GridSearchCV(model, grid, cv=2, refit=False).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state=0"):
        seeded = make(model, noise_random_state=0).fit(X[:50], Y[:50])
    assert not seeded.certificate_.private
    assert sampler.noise_random_state is None


@pytest.mark.parametrize(
    "parameters",
    [
        {"randomness": "both"},
        {"randomness": "both", "noise_shape": "whitened"},
        {"randomness": "both", "mechanism": "gaussian", "noise_shape": "whitened"},
        {"mechanism": "gaussian", "delta": 1e-5},
        {"calibration": "pac"},
        {"randomness": "explicit", "sensitivity": 2.0},
        {"reference": CallableReference(lambda n, rng: make_data(n, 3, rng))},
    ],
    ids=str,
)
@each_shell
def test_any_sampler_will_do(shell, parameters):
    X, y = make_data(60, 3)
    sampler = SensitivitySampler(n_pairs=40, **parameters)
    _, public = ways(shell, 3)["sampled"]
    if "reference" in parameters:
        public = {}
    model = make(shell, gamma=0.2, sensitivity=sampler, classes=[0, 1, 2])
    model.fit(X, y, **public)
    certificate = model.certificate_
    assert certificate.private
    for name in {"randomness", "delta"} & set(parameters):
        assert getattr(certificate, name) == parameters[name]
    if "noise_shape" in parameters:
        assert certificate.evidence.noise_shape == parameters["noise_shape"]
    assert certificate.evidence.n_outputs == 12
    assert model.coef_.shape == (3, 3)


def test_parameters_of_the_sampler_stand_unless_the_model_has_its_own():
    sampler = SensitivitySampler(n_pairs=19, random_state=5, n_jobs=1, gamma=0.5)
    model = PrivateLogisticRegression(sensitivity=sampler).fit(X, Y, **PUBLIC)
    fitted = model.sampler_
    assert (fitted.n_pairs, fitted.random_state, fitted.n_jobs) == (19, 5, 1)
    assert (fitted.gamma, fitted.epsilon) == (0.05, 1.0)
    model.set_params(random_state=6).fit(X, Y, **PUBLIC)
    assert model.sampler_.random_state == 6
    assert sampler.get_params()["query"] is None
    assert not hasattr(sampler, "certificate_")


# As part of scikit-learn


@pytest.mark.parametrize("library", ["pandas", "polars"])
@each_shell
def test_data_frames(shell, library):
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    columns = frame(dict(zip("abc", X.T, strict=True)))
    public = frame(dict(zip("abc", X_PUBLIC.T, strict=True)))
    model = make(shell).fit(columns, Y, X_reference=public, y_reference=Y_PUBLIC)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    scores = X @ model.coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(columns), scores, atol=1e-12)
    swapped = frame(dict(zip("bac", X_PUBLIC.T, strict=True)))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(swapped)
    with pytest.raises(IncompatibleError, match=r"columns \['b', 'a', 'c'\], but X"):
        model.fit(columns, Y, X_reference=swapped, y_reference=Y_PUBLIC)


@each_shell
def test_the_reference_is_routed_through_a_pipeline_and_transformed(shell):
    shifted, public = X * 100 + 7, X_PUBLIC * 100 + 7
    with sklearn.config_context(enable_metadata_routing=True):
        model = make(shell).set_fit_request(X_reference=True, y_reference=True)
        pipeline = make_pipeline(
            StandardScaler(), model, transform_input=["X_reference"]
        )
        pipeline.fit(shifted, Y, X_reference=public, y_reference=Y_PUBLIC)
        scaler = StandardScaler().fit(shifted)
        direct = make(shell).fit(
            scaler.transform(shifted),
            Y,
            X_reference=scaler.transform(public),
            y_reference=Y_PUBLIC,
        )
    assert pipeline[-1].certificate_ == direct.certificate_
    assert pipeline.predict(shifted).shape == (100,)


@each_shell
def test_a_search_reaches_the_penalty_and_the_sampler(shell):
    grid = {
        "C": [0.1, 1.0],
        "epsilon": [1.0, 100.0],
        "sensitivity__n_pairs": [19, 39],
    }
    search = GridSearchCV(make(shell), grid, cv=2).fit(X, Y, **PUBLIC)
    best = search.best_estimator_
    assert best.sampler_.n_pairs == search.best_params_["sensitivity__n_pairs"]
    assert search.best_params_["C"] == best.sampler_.query_.C
    assert len(search.cv_results_["params"]) == 8
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@each_shell
def test_cross_validation_pickling_and_cloning(shell):
    model = make(shell, epsilon=1e4)
    scores = cross_validate(model, X, Y, params=PUBLIC, cv=3)["test_score"]
    assert scores.mean() > 0.7
    fitted = model.fit(X, Y, **PUBLIC)
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.predict(X), fitted.predict(X))
    assert copied.certificate_ == fitted.certificate_
    again = clone(fitted)
    assert set(vars(again)) == set(model.get_params(deep=False))
    assert repr(again) == repr(model)


@each_shell
def test_before_a_fit_nothing_is_predicted(shell):
    for method in ("predict", "decision_function", "predict_proba"):
        if hasattr(shell, method):
            with pytest.raises(NotFittedError):
                getattr(make(shell), method)(X)
    assert type(shell).__name__ in make(shell)._repr_html_()


BAD_PARAMETERS = [
    ({"C": 0.0}, {}, r"C must be a finite number above 0, got 0\.0"),
    ({"C": np.inf}, {}, "C must be a finite number above 0, got inf"),
    ({"C": "1"}, {}, "C must be a finite number above 0, got '1'"),
    ({"epsilon": 0.0}, {}, r"epsilon must be a number in \(0, inf\], got 0\.0"),
    ({"gamma": 1.0}, {}, r"gamma must be a number in \(0, 1\), got 1\.0"),
    ({"fit_intercept": "yes"}, {}, "fit_intercept must be True or False, got 'yes'"),
    ({"noise_random_state": "x"}, {}, "noise_random_state must be .* got 'x'"),
    ({"random_state": "x"}, {}, "random_state must be .* got 'x'"),
    ({"n_jobs": 1.5}, {}, "n_jobs must be None or a whole number .* got 1.5"),
    ({"verbose": -1}, {}, "verbose must be a whole number >= 0, got -1"),
    ({"sensitivity": 0.0}, {}, r"sensitivity must be a finite number .* got 0\.0"),
    ({"sensitivity": True}, {}, "sensitivity must be None, a Sens.* got True"),
    ({"sensitivity": "best"}, {}, "above 0 or 'bound'; got 'best'"),
    ({"x_norm": 1.0}, {}, r"x_norm must be None unless .*; got 1\.0"),
    ({}, {"y_reference": None}, "X_reference and y_reference must be given together"),
    ({}, {"X_reference": None}, "X_reference and y_reference must be given together"),
    (
        {"sensitivity": SensitivitySampler(reference=public_table())},
        {},
        "there can be only one reference",
    ),
    (
        {"sensitivity": SensitivitySampler(mechanism="exponential")},
        {},
        "must add noise to numbers, got 'exponential'",
    ),
    (
        {"sensitivity": SensitivitySampler(MeanQuery())},
        {},
        r"has the query MeanQuery\(\), but .* leave its query None",
    ),
    ({}, {"X_reference": X_PUBLIC[:, :2]}, "reference has 2 features, but X has 3"),
    ({"classes": [0, np.nan]}, {}, "NaN"),
    ({"classes": [0.0, 0.5]}, {}, "Unknown label type"),
]


@pytest.mark.parametrize(("parameters", "given", "message"), BAD_PARAMETERS)
@each_shell
def test_bad_configurations_are_refused(shell, parameters, given, message):
    with pytest.raises((ValueError, IncompatibleError), match=message):
        make(shell, **parameters).fit(X, Y, **PUBLIC | given)


@pytest.mark.parametrize(
    ("shell", "parameters", "message"),
    [
        (SQUARED, BOUND, "loss must be 'hinge' with .* got 'squared_hinge'"),
        (SQUARED, {"loss": "log"}, "loss must be one of 'hinge', .* got 'log'"),
        (SQUARED, {"intercept_scaling": 0.0}, r"intercept_scaling must be .* 0\.0"),
        (HINGE, BOUND | {"x_norm": None}, "x_norm must be a finite .* got None"),
        (LOGISTIC, BOUND | {"x_norm": -1.0}, r"x_norm must be a finite .* got -1\.0"),
        (LOGISTIC, BOUND | {"C": 1e12}, r"C must be at most .* got 1000000000000\.0"),
        (HINGE, BOUND | {"C": 1e12}, r"C must be at most .* got 1000000000000\.0"),
    ],
)
def test_bad_parameters_of_one_shell_are_refused(shell, parameters, message):
    with pytest.raises(ValueError, match=message):
        make(shell, **parameters).fit(X, Y)


@pytest.mark.parametrize(
    ("classifier", "query"),
    [
        (LOGISTIC, LinearSVCQuery((0, 1))),
        (SQUARED, LogisticRegressionQuery((0, 1))),
        (HINGE, LinearSVCQuery((0, 1))),
    ],
)
def test_a_sampler_for_another_query_is_refused(classifier, query):
    sampler = clone(FEW).set_params(query=query, n_records=100)
    with pytest.raises(IncompatibleError, match="has the query"):
        make(classifier, sensitivity=sampler).fit(X, Y, **PUBLIC)
    sampler.fit(X_PUBLIC, Y_PUBLIC)
    with pytest.raises(IncompatibleError, match="was fitted for"):
        make(classifier, sensitivity=sampler).fit(X, Y)


# scikit-learn's own checks


leaks = pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
skips = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
CHEAP = {"sensitivity": SensitivitySampler(n_pairs=4), "gamma": 0.2}
UNIT = {"sensitivity": "bound", "x_norm": 1.0}


@leaks
@skips
@parametrize_with_checks(
    [
        PrivateLogisticRegression(noise_random_state=0, **CHEAP),
        PrivateLogisticRegression(epsilon=np.inf, **CHEAP),
        PrivateLogisticRegression(noise_random_state=0, sensitivity=1.0),
        PrivateLogisticRegression(noise_random_state=0, **UNIT),
        PrivateLinearSVC(noise_random_state=0, **CHEAP),
        PrivateLinearSVC(epsilon=np.inf, **CHEAP),
        PrivateLinearSVC(noise_random_state=0, sensitivity=1.0),
        PrivateLinearSVC(loss="hinge", noise_random_state=0, **UNIT),
    ]
)
def test_seeded(estimator, check):
    check(estimator)


# They compare two fits, whose noise differs.
TWO_NOISY_FITS = {
    "check_classifier_data_not_an_array",
    "check_fit_idempotent",
    "check_supervised_y_2d",
}


@leaks
@skips
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
def test_defaults_fail_only_where_two_noisy_fits_are_compared(kind):
    results = check_estimator(kind(**CHEAP), on_fail=None, on_skip=None)
    failed = {r["check_name"] for r in results if r["status"] == "failed"}
    assert {"check_fit_idempotent"} <= failed <= TWO_NOISY_FITS
