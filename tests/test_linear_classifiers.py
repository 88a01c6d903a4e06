"""PrivateLogisticRegression and PrivateLinearSVC: what is released, and from what."""

import copy

import numpy as np
import pytest
from linear_classifiers import (
    BOUND,
    HINGE,
    LOGISTIC,
    SQUARED,
    X,
    Y,
    classes_2_3,
    exact,
    in_turn,
    make,
    make_data,
    optimality,
    scikit_learn,
    ways,
)

from skparisk import SensitivitySampler
from skparisk.reference import CallableReference


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shell", "parameters"),
    in_turn(
        [
            {"randomness": "both"},
            {"randomness": "both", "noise_shape": "whitened"},
            {"randomness": "both", "law": "gaussian", "noise_shape": "whitened"},
            {"law": "gaussian", "delta": 1e-5},
            {"calibration": "pac"},
            {"reference": CallableReference(lambda n, rng: make_data(n, 3, rng))},
        ]
    ),
)
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


BAD_PARAMETERS = [
    ({"C": 0.0}, r"C must be a finite number above 0, got 0\.0"),
    ({"C": np.inf}, "C must be a finite number above 0, got inf"),
    ({"C": "1"}, "C must be None, 'auto', a number or a PenaltyChoice, got '1'"),
    ({"fit_intercept": "yes"}, "fit_intercept must be True or False, got 'yes'"),
    ({"classes": [0, np.nan]}, "NaN"),
    ({"classes": [0.0, 0.5]}, "Unknown label type"),
]


def test_bad_parameters_are_refused():
    for shell, parameters, message in (
        (
            SQUARED,
            {"sensitivity": "bound"},
            "sensitivity must be None, .* got 'bound': .* PrivateLogisticRegression",
        ),
        (HINGE, {"sensitivity": "bound"}, "sensitivity must be .* got 'bound': the so"),
        (SQUARED, {"loss": "log"}, "loss must be one of 'hinge', .* got 'log'"),
        (SQUARED, {"intercept_scaling": 0.0}, r"intercept_scaling must be .* 0\.0"),
        (LOGISTIC, BOUND | {"x_norm": None}, "x_norm must be a finite .* got None"),
        (LOGISTIC, BOUND | {"x_norm": -1.0}, r"x_norm must be a finite .* got -1\.0"),
        (LOGISTIC, BOUND | {"C": 1e12}, r"C must be at most .* got 1000000000000\.0"),
        (LOGISTIC, {"x_norm": 1.0}, r"x_norm must be None unless .*; got 1\.0"),
        (LOGISTIC, {"sensitivity": "best"}, "above 0 or 'bound'; got 'best'"),
        *((shell, *case) for shell, case in in_turn(BAD_PARAMETERS)),
    ):
        with pytest.raises(ValueError, match=message):
            make(shell, **parameters).fit(X, Y)
