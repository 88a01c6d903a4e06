"""PrivateLogisticRegression and PrivateLinearSVC: what is released, and from what."""

import copy
import itertools
import warnings

import numpy as np
import pytest
from linear_classifiers import (
    BOUND,
    FEW,
    HINGE,
    LOGISTIC,
    PUBLIC,
    SHELLS,
    SQUARED,
    X_PUBLIC,
    Y_PUBLIC,
    X,
    Y,
    classes_2_3,
    exact,
    in_turn,
    make,
    make_data,
    numbers_of,
    optimality,
    scikit_learn,
    ways,
    with_and_without_intercept,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import Normalizer

from skparisk import (
    CalibrationError,
    KnownSensitivity,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
    TableReference,
)
from skparisk.exceptions import ReferenceWarning
from skparisk.linear_model import logistic_sensitivity_bound
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


# The proven bound of logistic regression holds, and rows are clipped to it


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


@pytest.mark.parametrize("factor", [1e6, 1e300])
def test_records_beyond_the_bound_are_clipped_without_a_word(factor):
    far = X.copy()
    far[0] *= factor
    model = make(LOGISTIC, classes=[0, 1], **BOUND).fit(far, Y)
    assert model.certificate_.private
    near = exact(LOGISTIC, **BOUND).fit(X[1:], Y[1:])
    moved = numbers_of(exact(LOGISTIC, **BOUND).fit(far, Y)) - numbers_of(near)
    assert abs(moved).sum() < model.sensitivity_


def test_a_reference_must_be_within_what_is_declared():
    model = make(LOGISTIC, **BOUND)
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


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("C", "attained", "n_classes", "fit_intercept"),
    [(0.05, 0.37, 2, True), (0.05, 0.37, 3, False), (3.0, 0.1, 3, True)],
)
def test_the_bound_holds_also_where_one_neighbor_lacks_a_class(
    fit_intercept, n_classes, C, attained
):
    model = exact(
        LOGISTIC, fit_intercept=fit_intercept, C=C, classes=range(n_classes)
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


# Labels of private classifiers: of any type, and classes that are missing


NAIVE = PrivateEstimator(GaussianNB(), sensitivity=FEW, combine=None, random_state=0)
ALL = {**SHELLS, "wrapped": NAIVE}
each_classifier = pytest.mark.parametrize("shell", ALL.values(), ids=ALL)


def each_in_turn(cases):
    """Return each case beside a classifier, all of which have their turn."""
    return [*zip(itertools.cycle([NAIVE, *SHELLS.values()]), cases, strict=False)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32, int])
def test_classes_have_the_type_of_public_labels(dtype):
    """One private label of another type would tell of itself by it."""
    table = TableReference(X_PUBLIC, Y_PUBLIC.astype(dtype))
    sampler = SensitivitySampler(n_pairs=19, reference=table)
    for private in (Y, Y.astype(str), Y.astype(bool), Y.astype(float)):
        model = make(LOGISTIC, sensitivity=sampler).fit(X, private)
        assert model.classes_.dtype == dtype


def fitted_sampler(shell):
    public = dict(zip(PUBLIC, make_data(150, 3, seed=1), strict=True))
    return make(shell).fit(*make_data(100, 3), **public).sampler_


WHO_TELLS = {
    "declared": lambda shell: ({"classes": [2, 0, 1, 1], "sensitivity": 1.0}, {}),
    "reference": lambda shell: ways(shell, 3)["sampled"],
    "sampler": lambda shell: ways(shell, 3)["on the sampler"],
    "fitted": lambda shell: ({"sensitivity": fitted_sampler(shell)}, {}),
    "reference, not used": lambda shell: (
        {"sensitivity": 1.0},
        ways(shell, 3)["sampled"][1],
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("tells", WHO_TELLS.values(), ids=WHO_TELLS)
@each_classifier
def test_private_data_that_lack_a_class_are_fitted_without_a_word(shell, tells):
    parameters, reference = tells(shell)
    for y in (Y, np.full(100, 2)):  # of 3 classes
        model = make(shell, **parameters).fit(X, y, **reference)
        assert model.classes_.tolist() == [0, 1, 2]
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


def test_labels_that_are_no_class_are_refused_but_not_told():
    for shell, given_ in each_in_turn(
        [
            ([0, 1], [0, 7777], "7777"),
            ([0, 1], ["0", "zebra"], "zebra"),
            (["a", "b"], ["a", "zebra"], "zebra"),
            (["a", "b"], [0, 7777], "7777"),
            (np.array(["a", "b"], dtype=object), [0, 7777], "7777"),
            ([7, 9], [True, False], "True"),
        ]
    ):
        classes, labels, secret = given_
        model = make(shell, sensitivity=1.0, classes=classes)
        with pytest.raises(
            ValueError, match="y has labels that are not among"
        ) as error:
            model.fit(X, np.asarray(labels)[Y])
        assert secret not in str(error.value)
        assert error.value.__context__ is None or secret not in str(
            error.value.__context__
        )
        reference = {
            "X_reference": X_PUBLIC,
            "y_reference": np.asarray(labels)[Y_PUBLIC],
        }
        with pytest.raises(
            ValueError, match="y_reference has labels that are not among"
        ):
            model.fit(X, np.asarray(classes)[Y], **reference)


@each_classifier
def test_a_label_that_is_missing_is_refused_by_name(shell):
    """With what to do about it; no label is told."""
    y = np.array(["zebra", "yak", "auk"], dtype=object)[Y]
    y[3] = None
    with pytest.raises(ValueError, match="label of their own") as e:
        make(shell, sensitivity=1.0, classes=["auk", "yak", "zebra"]).fit(X, y)
    assert "None" not in str(e.value)


@each_classifier
def test_a_label_that_can_be_no_class_is_refused_alike(shell):
    """Here one that has no hash; no label is told."""
    y = Y.astype(object)
    y[3] = ["zebra"]
    with pytest.raises(ValueError, match="labels that are not among") as error:
        make(shell).fit(X, y, **PUBLIC)
    assert "zebra" not in str(error.value)


def test_public_labels_of_two_kinds_are_refused():
    y = np.array(["auk", "yak", "zebra"], dtype=object)[Y_PUBLIC]
    y[3] = 1.5
    with pytest.raises(ValueError, match="y_reference must hold labels of one kind"):
        make(LOGISTIC).fit(X, Y, X_reference=X_PUBLIC, y_reference=y)


@each_classifier
def test_a_class_that_is_missing_in_a_resample_is_told(shell):
    y = np.where(np.arange(150) == 3, 2, Y_PUBLIC)
    with pytest.raises(CalibrationError, match=r"class 2 \(number 2 of 3\) is miss"):
        make(shell).fit(X, Y, X_reference=X_PUBLIC, y_reference=y)


@pytest.mark.parametrize("error", [PrivacyLeakWarning, ReferenceWarning])
def test_a_fit_that_ends_with_a_warning_as_an_error_is_none(error):
    """Its certificate would not say what it was about to: it looked private."""
    model = PrivateLogisticRegression(sensitivity=KnownSensitivity(0.1))
    data, public = (X, Y), {}
    if error is ReferenceWarning:  # far from the reference
        model = PrivateRidge(random_state=0)
        X_other, y_other = make_data(150, 2, seed=1)
        public = {"X_reference": X_other, "y_reference": y_other}
        data = X, 1e6 * Y
    with warnings.catch_warnings():
        warnings.simplefilter("error", error)
        with PrivacyLedger(9.0) as ledger, pytest.raises(error):
            model.fit(*data, **public)
    assert ledger.releases
    assert not [name for name in vars(model) if name.endswith("_")]


def test_classes_that_no_float_tells_apart_stay_two():
    classes = [2**53, 2**53 + 1]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = np.where(X[:, 0] > 0, *reversed(classes))
    model = PrivateLogisticRegression(
        1.0, classes=classes, epsilon=np.inf, sensitivity=1.0
    ).fit(X, y)
    assert model.classes_.tolist() == classes
    assert model.score(X, y) > 0.95
