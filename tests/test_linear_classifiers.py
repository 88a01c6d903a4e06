"""PrivateLogisticRegression and PrivateLinearSVC: what is released, and from what."""

import copy
import pickle
import re

import numpy as np
import pytest
from linear_classifiers import (
    FEW,
    HINGE,
    LOGISTIC,
    PUBLIC,
    SHELLS,
    SQUARED,
    X,
    Y,
    alone,
    classes_2_3,
    each_shell,
    exact,
    in_turn,
    make,
    make_data,
    numbers_of,
    optimality,
    public_table,
    scikit_learn,
    ways,
)
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from unnoised import numbers_in

from skparisk import (
    CalibrationError,
    PrivacyLeakWarning,
    PrivateLogisticRegression,
    SensitivitySampler,
)
from skparisk.reference import TableReference

each_way = pytest.mark.parametrize(
    ("shell", "way"),
    [(s, way) for s in SHELLS.values() for way in ways(s)],
    ids=[f"{name}, {way}" for name, s in SHELLS.items() for way in ways(s)],
)

# What is released


def documented(shell):
    names = re.findall(r"^    (\w+_(?:, \w+_)*) :", type(shell).__doc__, re.M)
    return {name for line in names for name in line.split(", ")}


@pytest.mark.sampled(5)
@each_way
def test_fitted_attributes_are_the_documented_ones(shell, way):
    n_classes = 3 if way in ("sampled", "bound") else 2
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


@pytest.mark.sampled(1)
@classes_2_3
@each_shell
def test_the_sampled_sensitivity_is_that_of_the_sampler(shell, n_classes):
    X, y = make_data(100, n_classes)
    _, public = ways(shell, n_classes)["sampled"]
    model = make(alone(shell), epsilon=0.7, gamma=0.1, C=0.5).fit(X, y, **public)
    query = shell._make_query(tuple(range(n_classes)), shell.C)
    query = type(query)(**vars(query) | {"C": 0.5})
    sampler = SensitivitySampler(query, n_records=100, n_pairs=19, random_state=0)
    sampler.set_params(epsilon=0.7, gamma=0.1).fit(*public.values())
    assert model.certificate_ == sampler.certificate_
    assert model.sampler_.reference is None  # the table is not carried along
    np.testing.assert_array_equal(model.sampler_.differences_, sampler.differences_)


@pytest.mark.sampled(1)
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


@pytest.mark.parametrize(
    ("shell", "way"), in_turn(["sampled", "on the sampler", "declared"])
)
def test_infinite_epsilon_is_the_answer_of_the_query(shell, way):
    parameters, reference = ways(shell)[way]
    model = make(shell, epsilon=np.inf, **parameters).fit(X, Y, **reference)
    expected = shell._make_query((0, 1), shell.C)(X, Y)
    np.testing.assert_allclose(numbers_of(model), expected, rtol=1e-9)
    assert not model.certificate_.private


def test_without_noise_it_is_scikit_learns_logistic_regression():
    for C, n_classes, fit_intercept in [
        (0.01, 2, True),
        (0.01, 3, False),
        (1.0, 3, True),
        (100.0, 2, False),
    ]:
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
        np.testing.assert_allclose(
            chances, twin.predict_proba(fresh), rtol=0, atol=1e-12
        )


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"C": 0.01},
        {"C": 20.0, "intercept_scaling": 3.0},
        {"C": 0.1, "fit_intercept": False},
    ],
)
@pytest.mark.parametrize("shell", [SQUARED, HINGE], ids=["squared hinge", "hinge"])
def test_without_noise_it_is_scikit_learns_linear_svc(shell, changed):
    n_classes = 2 + ("C" in changed) * (changed != {"C": 0.01})
    X, y = make_data(80, n_classes)
    fresh = 3 * make_data(200, n_classes, seed=2)[0]
    model = exact(shell, **changed).fit(X, y)
    limit = 1e-6 if shell is HINGE else 1e-9
    for k in range(len(model.coef_)):
        signs = np.where(y == (1 if n_classes == 2 else k), 1.0, -1.0)
        assert optimality(model, X, signs, k) < limit
        moved = copy.deepcopy(model)
        moved.coef_ *= 1 + 1e3 * limit
        assert optimality(moved, X, signs, k) > limit
    twin = scikit_learn(shell, X, y, **changed)
    assert model.coef_.shape == twin.coef_.shape
    scores, known = model.decision_function(fresh), twin.decision_function(fresh)
    assert scores.shape == known.shape
    np.testing.assert_allclose(scores, known, rtol=0, atol=1e-6 * abs(known).max())
    np.testing.assert_array_equal(model.predict(fresh), twin.predict(fresh))


@pytest.mark.parametrize(
    ("shell", "given_"), in_turn([(2, True), (3, False), (3, True), (2, False)])
)
def test_scores_are_those_of_what_is_released(shell, given_):
    n_classes, fit_intercept = given_
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


def exact_statistics(shell):
    twin = scikit_learn(shell, X, Y)
    query = shell._make_query((0.0, 1.0), shell.C)
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


@pytest.mark.sampled(1)
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
    query = shell._make_query((0, 1), shell.C)
    sampler = clone(FEW).set_params(query=query, random_state=0).fit(X, Y)
    # The very same pairs.
    assert sampler.sensitivity_ == pytest.approx(model.sensitivity_, rel=1e-9)
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
        query = shell._make_query((0, 1), shell.C)
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
    assert not left
