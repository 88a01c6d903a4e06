"""Labels of private classifiers: of any type, and classes that are missing."""

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
    make,
    make_data,
    numbers_of,
    optimality,
    ways,
    with_and_without_intercept,
)
from sklearn.naive_bayes import GaussianNB

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

NAIVE = PrivateEstimator(GaussianNB(), sensitivity=FEW, combine=None, random_state=0)
ALL = {**SHELLS, "wrapped": NAIVE}
each_shell = pytest.mark.parametrize("shell", ALL.values(), ids=ALL)


def in_turn(cases):
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
@each_shell
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
    for shell, given_ in in_turn(
        [
            ([0, 1], [0, 7777], "7777"),
            ([0, 1], ["0", "zebra"], "zebra"),
            (["a", "b"], ["a", "zebra"], "zebra"),
            (["a", "b"], [0, 7777], "7777"),
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


@each_shell
def test_a_label_that_is_missing_is_refused_by_name(shell):
    """With what to do about it; no label is told."""
    y = np.array(["zebra", "yak", "auk"], dtype=object)[Y]
    y[3] = None
    with pytest.raises(ValueError, match="label of their own") as e:
        make(shell, sensitivity=1.0, classes=["auk", "yak", "zebra"]).fit(X, y)
    assert "None" not in str(e.value)


@each_shell
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


@each_shell
def test_a_class_that_is_missing_in_a_resample_is_told(shell):
    y = np.where(np.arange(150) == 3, 2, Y_PUBLIC)
    with pytest.raises(CalibrationError, match=r"the class 2 .* is missing in a"):
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
