"""What all private estimators have in common: the claim, the sampler, the reference."""

import copy
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from unnoised import numbers_in

from skparisk import (
    CalibrationError,
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.density import PrivateKernelDensity
from skparisk.queries import (
    DensityQuery,
    LinearSVCQuery,
    LogisticRegressionQuery,
    MeanQuery,
    RidgeQuery,
)
from skparisk.reference import TableReference

FEW = SensitivitySampler(n_pairs=24)
USUAL = {"sensitivity": FEW, "gamma": 0.2, "random_state": 0}
SHELLS = {
    "ridge": PrivateRidge(1.0, **USUAL),
    "logistic": PrivateLogisticRegression(1.0, **USUAL),
    "squared hinge": PrivateLinearSVC(1.0, **USUAL),
    "hinge": PrivateLinearSVC(1.0, loss="hinge", **USUAL),
    "wrapped ridge": PrivateEstimator(Ridge(), **USUAL),
    "wrapped naive Bayes": PrivateEstimator(GaussianNB(), **USUAL),
    "density": PrivateKernelDensity(0.3, lattice_size=3, **USUAL),
}
OWN_QUERIES = {
    "ridge": RidgeQuery(),
    "logistic": LogisticRegressionQuery((0.0, 1.0)),
    "squared hinge": LinearSVCQuery((0.0, 1.0)),
    "hinge": LinearSVCQuery((0.0, 1.0), loss="hinge"),
    "density": DensityQuery([(0, 1)] * 3, 0.3, lattice_size=3),
}
BALL = {"sensitivity": "bound", "x_norm": 2.0}
BOUNDS = {
    "ridge": BALL | {"y_bounds": (-3.0, 5.0)},
    "logistic": BALL,
    "density": {"sensitivity": "bound"},
}
each_shell = pytest.mark.parametrize("name", SHELLS)
pytestmark = pytest.mark.sampled(3)


def make_data(n_records, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_records, 3))
    return X, X @ [3.0, -3.0, 1.0] + 0.5 * rng.normal(size=n_records)


(X, Y), (X_PUBLIC, Y_PUBLIC) = make_data(100, 0), make_data(300, 1)


def targets_of(model, y=Y):
    """Return the targets or labels of `fit`, if it takes any."""
    if isinstance(model, PrivateKernelDensity):
        return ()
    return ((y > 0.5) * 1 if is_classifier(model) else y,)


def data_for(model):
    return X, *targets_of(model)


def reference_for(model, X_public=X_PUBLIC, y_public=Y_PUBLIC):
    given = X_public, *targets_of(model, y_public)
    return dict(zip(("X_reference", "y_reference"), given, strict=False))


def make(name, **parameters):
    """Return a shell that releases itself, and no correction to a public fit."""
    model = clone(SHELLS[name])
    alone = {"combine": None} if "combine" in model.get_params() else {}
    return model.set_params(**alone | parameters)


def fit(model, reference=True):
    return model.fit(*data_for(model), **reference_for(model) if reference else {})


def released(model):
    """Return the numbers that noise was added to."""
    if isinstance(model, PrivateKernelDensity):
        return model.polynomial_.values.ravel()
    served = getattr(model, "estimator_", model)
    names = [n for n in ("coef_", "intercept_", "theta_") if hasattr(served, n)]
    return np.concatenate([np.ravel(getattr(served, n)) for n in names])


def ways(name):
    """Return parameters, and whether there are public records, for each way."""
    model = SHELLS[name]
    declared = {"classes": [0, 1]} if is_classifier(model) else {}
    table = TableReference(X_PUBLIC, *targets_of(model, Y_PUBLIC))
    found = {
        "sampled": ({}, True),
        "on the sampler": ({"sensitivity": clone(FEW).set_params(reference=table)}, 0),
        "declared": ({"sensitivity": 0.5, **declared}, False),
    }
    if name in BOUNDS:
        found["bound"] = (BOUNDS[name] | declared, False)
    return found


each_way = pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name in SHELLS for way in ways(name)]
)


# The claim


@pytest.mark.sampled(14)
@each_way
def test_fitted_attributes_are_the_documented_ones(name, way):
    parameters, reference = ways(name)[way]
    model = fit(make(name, **parameters), reference)
    names = re.findall(r"^    (\w+_(?:, \w+_)*) :", type(model).__doc__, re.M)
    documented = {one for line in names for one in line.split(", ")}
    own = set(vars(model)) - set(model.get_params(deep=False))
    unknown = {"feature_names_in_"} | ({"classes_"} - own)
    assert own == documented - unknown
    assert is_classifier(model) <= ("classes_" in own)
    assert model.epsilon_ == 1.0
    assert model.risk_ <= model.gamma_
    assert model.gamma_ == (0.2 if "sample" in way else 0.0)
    assert model.confidence_ == 1 - model.risk_
    assert model.noise_epsilon_ == model.sensitivity_ / model.noise_scale_ <= 1.0
    # Of a density, what its answers are off by is paid for.
    assert model.noise_epsilon_ > (0.9 if name == "density" else 1 - 2e-6)
    assert model.certificate_.private
    evidence = model.certificate_.evidence
    assert (evidence.n_records, evidence.n_outputs > 3) == (100, True)
    assert (model.sampler_ is None) == (way in ("declared", "bound"))


@each_shell
def test_the_sampled_sensitivity_is_that_of_the_sampler(name):
    model = fit(make(name, epsilon=0.7))
    query = OWN_QUERIES.get(name, model.sampler_.query_)
    sampler = clone(FEW).set_params(query=query, n_records=100, random_state=0)
    sampler.set_params(epsilon=0.7, gamma=0.2).fit(*reference_for(model).values())
    assert model.certificate_ == sampler.certificate_
    assert model.sampler_.reference is None  # the table is not carried along
    np.testing.assert_array_equal(model.sampler_.differences_, sampler.differences_)


@pytest.mark.sampled(8)
@each_way
def test_noise_differs_each_time_and_repeats_only_with_a_warning(name, way):
    parameters, reference = ways(name)[way]
    model = make(name, **parameters)
    first, second = (released(fit(model, reference)).copy() for _ in range(2))
    assert (first != second).all()
    model.set_params(noise_random_state=1)
    seeded = []
    for _ in range(2):
        with pytest.warns(PrivacyLeakWarning, match="not private"):
            seeded.append(released(fit(model, reference)).copy())
    np.testing.assert_array_equal(*seeded)
    assert not model.certificate_.private


@each_shell
def test_a_fit_that_fails_leaves_no_release_of_another_fit(name):
    model = fit(make(name, **ways(name)["declared"][0]), False)
    with pytest.raises(CalibrationError, match="n_pairs"):
        fit(model.set_params(sensitivity=None, gamma=1e-9))
    assert set(vars(model)) == set(model.get_params(deep=False))


@each_shell
def test_before_a_fit_nothing_is_served(name):
    model = make(name)
    for method in ("predict", "decision_function", "predict_proba", "pdf"):
        if hasattr(model, method):
            with pytest.raises(NotFittedError):
                getattr(model, method)(X)
    assert type(model).__name__ in model._repr_html_()


# The sampler


@each_shell
def test_fit_never_touches_parameters(name):
    model = make(name, **ways(name)["on the sampler"][0])
    own = [model.sensitivity, getattr(model, "estimator", None)]
    before = copy.deepcopy([vars(each) for each in own if each is not None])
    given = model.get_params(deep=False)
    fit(model, False)
    assert model.get_params(deep=False) == given  # the same objects
    assert [{*vars(each)} for each in own if each is not None] == [*map(set, before)]
    assert not hasattr(model.sensitivity, "certificate_")
    assert model.sensitivity.query is None


@each_shell
def test_parameters_of_the_sampler_stand_unless_the_model_has_its_own(name):
    sampler = SensitivitySampler(n_pairs=24, random_state=5, n_jobs=1, gamma=0.5)
    model = fit(make(name, sensitivity=sampler, random_state=None))
    fitted = model.sampler_
    assert (fitted.n_pairs, fitted.random_state, fitted.n_jobs) == (24, 5, 1)
    assert (fitted.gamma, fitted.epsilon) == (0.2, 1.0)
    assert fit(model.set_params(random_state=6)).sampler_.random_state == 6


@each_shell
def test_add_remove_needs_a_public_number_of_records(name):
    model = make(name, sensitivity=clone(FEW).set_params(relation="add-remove"))
    with pytest.raises(ValueError, match="n_records must be given"):
        fit(model)
    fit(model.set_params(sensitivity__n_records=101))
    assert model.certificate_.evidence.n_records == 101
    assert "one added or removed record" in model.certificate_.guarantee
    with pytest.raises(IncompatibleError, match="of 98 or 99 records;"):
        fit(model.set_params(sensitivity__n_records=99))


@each_shell
def test_fitted_pairs_serve_every_target_of_the_same_question(name):
    first = fit(make(name))
    sampler = first.sampler_
    with pytest.raises(ValueError, match="there can be only one reference"):
        fit(make(name, sensitivity=sampler))
    again = fit(make(name, epsilon=0.2, gamma=0.3, sensitivity=sampler), False)
    assert again.sampler_.differences_ is sampler.differences_
    assert again.sensitivity_ == sampler.calibrate(gamma=0.3).sensitivity_
    assert (again.epsilon_, again.gamma_) == (0.2, 0.3)
    assert sampler.epsilon == 1.0
    assert again.certificate_.private
    with pytest.raises(IncompatibleError, match="databases of 100 records, got 99"):
        again.fit(*(part[1:] for part in data_for(again)))
    others = {"alpha", "C", "bandwidth"} & {*again.get_params()}
    other = {others.pop(): 0.25} if others else {"estimator__var_smoothing": 0.1}
    if name == "wrapped ridge":
        other = {"estimator__alpha": 2.0}
    with pytest.raises(IncompatibleError, match="was fitted for"):
        fit(again.set_params(**other), False)


@each_shell
def test_fitted_pairs_in_a_search_are_frozen(name):
    model = make(name)
    half = [part[:50] for part in data_for(model)]
    sampler = clone(model).fit(*half, **reference_for(model)).sampler_
    model.set_params(sensitivity=FrozenEstimator(sampler))
    if name != "density":
        grid = {"epsilon": [0.1, 1.0], "gamma": [0.2, 0.4]}
        search = GridSearchCV(model, grid, cv=2, refit=False).fit(*data_for(model))
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    seeded = clone(model).set_params(noise_random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state=0"):
        seeded.fit(*half)
    assert not seeded.certificate_.private
    assert sampler.noise_random_state is None


# The reference


@each_shell
def test_training_data_given_as_the_reference_are_noticed(name):
    model = make(name)
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        model.fit(*data_for(model), **reference_for(model, X.tolist(), Y))
    assert model.certificate_.reference_is_private
    assert not model.certificate_.private
    assert not hasattr(model.sampler_, "differences_")
    assert model.sampler_.reference is None
    assert not numbers_in(pickle.dumps(model.sampler_)) & set(X.ravel().tolist())
    with pytest.raises(IncompatibleError, match="came from private data"):
        fit(make(name, sensitivity=model.sampler_), False)


@each_shell
def test_data_frames(name):
    for frame in (pd.DataFrame, pl.DataFrame):
        model = make(name)
        targets = targets_of(model)
        columns, public, swapped = (
            frame(dict(zip(names, rows.T, strict=True)))
            for names, rows in (("abc", X), ("abc", X_PUBLIC), ("bac", X_PUBLIC))
        )
        model.fit(columns, *targets, **reference_for(model, public))
        assert list(model.feature_names_in_) == ["a", "b", "c"]
        ask = model.pdf if name == "density" else model.predict
        assert ask(columns).shape == (100,)
        with pytest.raises(ValueError, match="feature names should match"):
            ask(swapped)
        with pytest.raises(IncompatibleError, match="has the same columns in another"):
            model.fit(columns, *targets, **reference_for(model, swapped))


# As part of scikit-learn


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The parameters were chosen by scores")
@pytest.mark.parametrize("name", [name for name in SHELLS if name != "density"])
def test_a_search_reaches_the_model_and_the_sampler(name):
    model = make(name)
    names = {"alpha", "C", "estimator__alpha", "estimator__var_smoothing"}
    (own,) = names & {*model.get_params()}
    grid = {own: [0.1, 1.0], "epsilon": [1.0, 9.0], "sensitivity__n_pairs": [24, 39]}
    search = GridSearchCV(model, grid, cv=2)
    search.fit(*data_for(model), **reference_for(model))
    best = search.best_estimator_
    assert best.sampler_.n_pairs == search.best_params_["sensitivity__n_pairs"]
    assert best.get_params()[own] == search.best_params_[own]
    assert len(search.cv_results_["params"]) == 8
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@each_shell
def test_pickling_and_cloning(name):
    fitted = fit(make(name))
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(released(copied), released(fitted))
    assert copied.certificate_ == fitted.certificate_
    assert copied.sampler_.query_ == fitted.sampler_.query_
    again = clone(copied)
    assert set(vars(again)) == set(again.get_params(deep=False))
    assert repr(again) == repr(make(name))
    again.set_params(sensitivity=copied.sampler_)
    assert fit(again, False).sensitivity_ == fitted.sensitivity_


BAD = [
    ({"epsilon": 0.0}, r"epsilon must be a number in \(0, inf\], got 0\.0"),
    ({"epsilon": np.timedelta64(1, "D")}, "epsilon must be .*, got .*timedelta64"),
    ({"gamma": 1.0}, r"gamma must be a number in \(0, 1\), got 1\.0"),
    ({"noise_random_state": "x"}, "noise_random_state must be .* got 'x'"),
    ({"random_state": "x"}, "random_state must be .* got 'x'"),
    ({"n_jobs": 1.5}, "n_jobs must be None or a whole number .* got 1.5"),
    ({"verbose": -1}, "verbose must be a whole number >= 0, got -1"),
    ({"sensitivity": 0.0}, r"sensitivity must be .*finite number .* got 0\.0"),
    ({"sensitivity": np.timedelta64(1, "D")}, "sensitivity must .*timedelta64"),
    *(
        ({"sensitivity": value}, "sensitivity must be None, a Sensitiv")
        for value in (True, "best", b"bound", [1.0], X)
    ),
    ({"sensitivity": SensitivitySampler(law="exponential")}, "added to numbers, got"),
    ({"sensitivity": SensitivitySampler(MeanQuery())}, r"has the query MeanQuery\(\),"),
    ({"sensitivity__n_records": 0}, "n_records must be a whole number >= 1, got 0"),
    ({"sensitivity__n_records": 99}, "databases of 99 records, got 100"),
    (
        {"sensitivity": SensitivitySampler(reference=TableReference(X_PUBLIC[:60]))},
        "there can be only one reference",
    ),
]


@each_shell
def test_bad_parameters_are_refused(name):
    """And nothing is left of an earlier fit."""
    model = fit(make(name, **ways(name)["declared"][0]), False)
    for parameters, message in BAD:
        model.set_params(**USUAL | {"sensitivity": clone(FEW), "verbose": 0})
        model.set_params(epsilon=1.0, n_jobs=None, noise_random_state=None)
        model.set_params(**parameters)
        with pytest.raises((ValueError, IncompatibleError), match=message):
            fit(model)
        assert not hasattr(model, "certificate_")


@each_shell
def test_a_reference_of_another_form_is_refused(name):
    model, missing = make(name), np.where(X_PUBLIC > 0.99, np.nan, X_PUBLIC)
    for X_public, message in (
        (X_PUBLIC[:, :2], "reference has 2 features, but X has 3"),
        (missing, "the reference(: Input X)? contains NaN"),
    ):
        with pytest.raises((ValueError, IncompatibleError), match=message):
            model.fit(*data_for(model), **reference_for(model, X_public))
    if name == "density":
        return
    for without in ("X_reference", "y_reference"):
        with pytest.raises(ValueError, match="must be given together"):
            model.fit(*data_for(model), **reference_for(model) | {without: None})
    table = TableReference(X_PUBLIC)
    model.set_params(sensitivity=clone(FEW).set_params(reference=table))
    with pytest.raises(ValueError, match="takes targets, but the reference has none"):
        fit(model, False)
