"""What once gave too little noise, none, or no answer: none of it may come back."""

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from noise_plans import find_by_risks
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, LassoCV, LogisticRegression, Ridge
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import validate_data

from skparisk import (
    CalibrationError,
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateKernelDensity,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.core import Leak
from skparisk.core.calibrate import PAC
from skparisk.core.exact import noise_source
from skparisk.core.noise import AdditiveNoise
from skparisk.ledger import PrivacyLedger
from skparisk.linear_model._bounds import clip_rows
from skparisk.mechanisms import LaplaceMechanism
from skparisk.queries import (
    DensityQuery,
    FunctionQuery,
    LinearSVCQuery,
    LogisticRegressionQuery,
    MeanQuery,
    RidgeQuery,
)
from skparisk.reference import CallableReference, TableReference


def test_pairs_that_differ_by_rounding_alone_are_no_reason_for_noise():
    """A mean that hardly ever moves is refused, also where many pairs are batched."""
    for randomness in ["implicit", "both"]:
        for law in ["laplace", "gaussian"]:
            rare = (np.random.default_rng(0).random((1000, 1)) < 0.01).astype(float)
            sampler = SensitivitySampler(
                MeanQuery(), law=law, randomness=randomness, delta=1e-5, random_state=0
            )
            with pytest.raises(
                CalibrationError, match=r"at gamma=0\.05 is 0"
            ) as caught:
                sampler.fit(rare)
            assert 0 < caught.value.best < 0.05
            sampler.set_params(gamma=caught.value.best / 4).fit(rare)
            assert sampler.noise_scale_ > 1e-4


def test_columns_of_very_different_size_keep_the_claim():
    """Rounding of a large constant column must not shorten what a small one moves."""
    rng = np.random.default_rng(0)
    table = np.column_stack([(rng.random(1000) < 0.3) * 1.0, np.full(1000, 1e6)])
    sampler = SensitivitySampler(
        MeanQuery(), randomness="both", gamma=0.2, n_pairs=4000, random_state=0
    ).fit(table)
    moved = 1e-3  # a pair that differs at all; 42 in 100 do
    draws = sampler.mechanism_.prepare(np.zeros((20_000, 2)))(noise_source(0))
    loss = (np.abs(draws[:, 0] + moved) - np.abs(draws[:, 0])) / sampler.noise_scale_
    assert 0.42 * np.mean(np.abs(loss) > 1) <= sampler.risk_


@pytest.mark.parametrize("n_pairs", [199, 999])
def test_risk_control_ends_where_the_risk_has_a_plateau(n_pairs):
    """As many pairs are far out as gamma allows: the sum of risks is flat there."""
    n_far = round(0.05 * (n_pairs + 1))
    distances = np.r_[np.ones(n_pairs - n_far), np.full(n_far, 1e3)]
    for far in (n_far, n_far - 1):
        distances[: n_pairs - far] = 1.0
        level = find_by_risks(distances, 1, 1.0, 0.05)
        assert level.scale > 0.5
    almost = np.nextafter(0.75, 0)
    level = find_by_risks(np.arange(1.0, 4), 1, 1.0, almost)
    assert level.scale > 0
    least = np.full(99, 5e-324)  # no number between two scales
    level = find_by_risks(least, 1, 1.0, 0.05)
    assert 0 < level.scale < 1e-320
    zeros = np.r_[np.ones(29), np.zeros(70)]
    level = find_by_risks(zeros, 1, 1.0, 0.29)
    assert level.scale > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("units", [1e-162, 1e-200, 1e200])
def test_norms_neither_vanish_nor_overflow(units):
    X = np.random.default_rng(0).normal(size=(50, 40))
    parameters = {"law": "gaussian", "delta": 1e-5, "random_state": 0}
    parameters["noise_shape"] = "isotropic"
    plain = SensitivitySampler(lambda X: X.mean(axis=0), **parameters).fit(X)
    small = SensitivitySampler(lambda X: X.mean(axis=0), **parameters).fit(X * units)
    assert small.noise_scale_ / units == pytest.approx(plain.noise_scale_, rel=1e-9)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [np.float16, np.float32, np.float64])
def test_short_numbers_are_as_good_as_plain_ones(number):
    """A share of 2**-20 is not rounded away."""
    public = np.random.default_rng(0).normal(size=(100, 2))
    for parameters in (
        {"law": "gaussian", "delta": number(0.25)},
        {"law": "gaussian", "randomness": "both"},
        {"randomness": "both"},
        {},
    ):
        plain = {k: v.item() for k, v in parameters.items() if hasattr(v, "item")}
        short, long = (
            SensitivitySampler(
                MeanQuery(),
                epsilon=one,
                gamma=0.25,
                n_pairs=50,
                random_state=0,
                **given,
            ).fit(public)
            for one, given in ((number(1), parameters), (1.0, parameters | plain))
        )
        assert short.noise_scale_ == long.noise_scale_
    mechanism = LaplaceMechanism(np.int64(1000), number(1))
    assert mechanism == LaplaceMechanism(1000.0, 1.0)


def test_noise_of_a_wrong_grid_is_refused():
    with pytest.raises(ValueError, match="exponent must be a whole number >= -1074"):
        AdditiveNoise("laplace", 2**40, -1080)
    with pytest.raises(ValueError, match="exponent must be a whole number >= -1074"):
        AdditiveNoise("laplace", 2**40, -40.0)


def test_failure_probabilities_that_cannot_be_computed_are_refused():
    with pytest.raises(ValueError, match="failure_prob must be at least 1e-200"):
        PAC(1e-290)


# What is fitted in place


FEW = SensitivitySampler(n_pairs=40)


def make_data(n_records=50, seed=0):
    rng = np.random.default_rng(seed)
    X = np.asfortranarray(rng.normal(size=(n_records, 3)) + 5.0)
    return X, X @ [1.0, 2.0, 3.0] + rng.normal(size=n_records)


IN_PLACE = {
    "Ridge": (Ridge(copy_X=False), Ridge()),
    "Lasso": (Lasso(0.1, copy_X=False), Lasso(0.1)),
    "PCA": (PCA(2, copy=False, svd_solver="full"), PCA(2, svd_solver="full")),
    "StandardScaler": (StandardScaler(copy=False), StandardScaler()),
    "predictions": (
        make_pipeline(StandardScaler(copy=False), Ridge()),
        make_pipeline(StandardScaler(), Ridge()),
    ),
}
in_place = pytest.mark.parametrize(
    ("estimator", "copying"), IN_PLACE.values(), ids=IN_PLACE
)


def wrapped(estimator, **parameters):
    model = PrivateEstimator(estimator, sensitivity=FEW, combine=None, random_state=0)
    if hasattr(estimator, "steps"):
        model.set_params(release="predict", X_public=make_data(4, seed=9)[0])
    return model.set_params(**parameters)


@pytest.mark.sampled(2)
@in_place
def test_fits_in_place_are_noticed_as_their_own_reference(estimator, copying):
    """And what the caller gave stays as it was."""
    for names in ({}, {"X_reference": 0, "y_reference": 1}):
        X, y = data = make_data()
        before = X.copy(), y.copy()
        reference = {name: before[index].copy() for name, index in names.items()}
        model = wrapped(estimator)
        with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
            model.fit(X, y, **reference)
        for array, kept in zip(data, before, strict=True):
            np.testing.assert_array_equal(array, kept)
        assert model.certificate_.reference_is_private
        assert not model.certificate_.private
        assert not hasattr(model.sampler_, "differences_")


@pytest.mark.sampled(2)
@in_place
def test_fits_in_place_are_those_of_a_copy(estimator, copying):
    (X, y), (public, targets) = make_data(), make_data(60, seed=1)
    before = public.copy()
    sensitivities = []
    for kind in (estimator, copying):
        model = wrapped(kind).fit(X, y, X_reference=public, y_reference=targets)
        assert model.certificate_.private
        sensitivities.append(model.sensitivity_)
    assert sensitivities[0] == pytest.approx(sensitivities[1], rel=1e-9)
    np.testing.assert_array_equal(public, before)
    X_public = None if model.X_public is None else model.X_public.copy()
    exact = wrapped(estimator, epsilon=np.inf, sensitivity=1.0).fit(X, y)
    plain = wrapped(copying, epsilon=np.inf, sensitivity=1.0).fit(X, y)
    method = "predict" if hasattr(plain, "predict") else "transform"
    answers = [getattr(model, method)(before.copy()) for model in (exact, plain)]
    np.testing.assert_allclose(*answers, rtol=1e-9)
    if X_public is not None:
        np.testing.assert_array_equal(exact.X_public, X_public)


def sorting_median(X):
    X.sort(axis=0)
    return X[len(X) // 2]


def test_queries_in_place_are_noticed_and_change_nothing():
    X, _ = make_data()
    before = X.copy()
    sampler = SensitivitySampler(sorting_median, n_pairs=40, random_state=0).fit(X)
    plain = SensitivitySampler(
        lambda X: sorting_median(X.copy()), n_pairs=40, random_state=0
    ).fit(before.copy())
    np.testing.assert_array_equal(X, before)
    assert sampler.sensitivity_ == plain.sensitivity_
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        sampler.release(X)
    np.testing.assert_array_equal(X, before)
    assert not sampler.certificate_.private
    assert not hasattr(sampler, "differences_")


# Which classes there are


def labeled(n_records, rng):
    X = np.random.default_rng(rng).normal(size=(n_records, 2))
    return X, (X[:, 0] > 0).astype(float)


CLASSIFIERS = {
    "logistic": PrivateLogisticRegression(),
    "squared hinge": PrivateLinearSVC(),
    "hinge": PrivateLinearSVC(loss="hinge"),
    "wrapped": PrivateEstimator(LogisticRegression()),
}
BOUND = {"sensitivity": "bound", "x_norm": 3.0}
SIMULATED = SensitivitySampler(n_pairs=40, reference=CallableReference(labeled))
UNKNOWN_CLASSES = [
    (BOUND, "logistic"),
    *(({"sensitivity": 1.0}, kind) for kind in CLASSIFIERS),
    *(({"sensitivity": SIMULATED, "random_state": 0}, kind) for kind in CLASSIFIERS),
]


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("parameters", "kind"), UNKNOWN_CLASSES)
def test_classes_of_private_labels_are_a_release_that_is_told(parameters, kind):
    X, y = labeled(60, 1)
    model = clone(CLASSIFIERS[kind]).set_params(**parameters)
    with pytest.warns(PrivacyLeakWarning, match="classes are those of the private lab"):
        model.fit(X, y)
    certificate = model.certificate_
    assert certificate.leaks == {Leak.PRIVATE_CLASSES}
    assert not certificate.private
    assert not certificate.void
    assert "and have the same classes" in certificate.guarantee
    assert "read off the private labels" in certificate.caveats[0]
    model.set_params(classes=[0.0, 1.0]).fit(X, y)  # no warning
    assert model.certificate_.private
    assert "classes" not in str(model.certificate_)


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classes_of_anything_public_are_no_release(kind):
    (X, y), public = labeled(60, 1), labeled(80, 2)
    model = clone(CLASSIFIERS[kind]).set_params(sensitivity=FEW, random_state=0)
    names = {"X_reference": public[0], "y_reference": public[1]}
    first = clone(model).fit(X, y, **names)
    table = clone(FEW).set_params(reference=TableReference(*public))
    for sensitivity in (first.sampler_, FrozenEstimator(first.sampler_), table):
        again = clone(model).set_params(sensitivity=sensitivity).fit(X, y)
        assert again.certificate_.private
    known = clone(model).set_params(sensitivity=1.0).fit(X, y, **names)
    for one in (first, known):
        assert one.certificate_.private


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_one_warning_is_enough_where_nothing_was_private_before(kind):
    """But the certificate always says it."""
    X, y = labeled(60, 1)
    model = clone(CLASSIFIERS[kind]).set_params(sensitivity=FEW, random_state=0)
    with pytest.warns(PrivacyLeakWarning) as shown:
        model.fit(X, y)
    assert len(shown) == 1
    assert "from the private data themselves" in str(shown[0].message)
    assert Leak.PRIVATE_CLASSES in model.certificate_.leaks
    model.set_params(sensitivity=1.0, epsilon=np.inf).fit(X, y)  # no warning
    assert Leak.PRIVATE_CLASSES in model.certificate_.leaks


# Private data as a parameter


@pytest.mark.parametrize("kind", [np.array, np.ndarray.tolist])
def test_private_records_are_no_public_points(kind):
    X, y = make_data()
    model = wrapped(Ridge(), release="predict", X_public=kind(X), sensitivity=1.0)
    with pytest.raises(ValueError, match="X_public must be public and must not share"):
        model.fit(X, y)
    assert not hasattr(model, "certificate_")
    with pytest.raises(ValueError, match="X_public must be public and must not share"):
        model.set_params(X_public=X[7::-1]).fit(X, y)
    model.set_params(X_public=X[:4]).fit(X, y)  # what cannot be noticed


def test_estimators_that_are_fitted_already_are_told():
    """What they have learned, maybe from private data, would stay with the model."""
    X, y = make_data()
    model = wrapped(Ridge().fit(X, y), sensitivity=1.0)
    with pytest.warns(PrivacyLeakWarning, match="The Ridge has already been fitted"):
        model.fit(X, y)
    wrapped(Ridge(), sensitivity=1.0).fit(X, y)  # no warning


OWN_SAMPLERS = {
    "ridge": (PrivateRidge(), RidgeQuery()),
    "logistic": (PrivateLogisticRegression(), LogisticRegressionQuery((0.0, 1.0))),
    "hinge": (PrivateLinearSVC(loss="hinge"), LinearSVCQuery((0.0, 1.0), loss="hinge")),
    "density": (PrivateKernelDensity(), DensityQuery([(0.0, 1.0)] * 2, 0.1)),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(("model", "query"), OWN_SAMPLERS.values(), ids=OWN_SAMPLERS)
def test_samplers_that_were_fitted_on_the_training_data_are_refused(
    model, query, frozen
):
    """Their pairs would stay in the parameters, where pickle finds them."""
    X, y = labeled(60, 1)
    reference = X
    if isinstance(query, DensityQuery):  # clipped, also where the records are not
        model = clone(model).set_params(bandwidth=0.1, lattice_size=query.lattice_size)
        reference = X.clip(0, 1)
    sampler = clone(FEW).set_params(query=query, random_state=0).fit(reference, y)
    source = FrozenEstimator(sampler) if frozen else sampler
    model = clone(model).set_params(sensitivity=source)
    with pytest.raises(ValueError, match="whose reference shares records"):
        model.fit(X, y)
    assert not hasattr(model, "certificate_")


def test_wrapped_estimators_refuse_a_sampler_that_was_fitted_on_the_training_data():
    X, y = make_data()
    public, targets = make_data(seed=1)
    first = wrapped(Ridge()).fit(X, y, X_reference=public, y_reference=targets)
    model = wrapped(Ridge(), sensitivity=first.sampler_)
    with pytest.raises(ValueError, match="whose reference shares records"):
        model.fit(public, targets)


def test_a_table_of_the_clipped_records_is_no_public_reference():
    """Also where the records themselves are beyond the bounds."""
    X = 3 * np.random.default_rng(0).random((60, 1)) - 1
    model = PrivateKernelDensity(0.3, sensitivity=FEW, random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="from the private data themselves"):
        model.fit(X, X_reference=X.clip(0, 1))
    assert not model.certificate_.private
    assert not hasattr(model.sampler_, "differences_")
    table = TableReference(X.clip(0, 1))
    model.set_params(sensitivity=clone(FEW).set_params(reference=table))
    with pytest.raises(ValueError, match="whose reference shares records"):
        model.fit(X)


# Values in messages


SECRET = "91234.25"


def with_secret(kind):
    """Return records and targets that no check lets through."""
    X, y = labeled(30, 0)
    if kind == "text in X":
        X = X.astype(object)
        X[3, 1] = f"owes: {SECRET} to"
    elif kind == "text in a frame":
        X = pd.DataFrame(X).astype(object)
        X.iloc[3, 1] = f"owes {SECRET}\n{SECRET}"
    elif kind == "text in y":
        y = y.astype(object)
        y[3] = f"owes {SECRET}"
    elif kind == "text as y":
        y = np.full(30, f"owes {SECRET}")
    elif kind == "complex X":
        X = X + 1j * float(SECRET)
    elif kind == "complex y":
        y = y + 1j * float(SECRET)
    elif kind == "column":
        X = np.full(30, float(SECRET))
    elif kind == "cube":
        X = np.full((30, 2, 2), float(SECRET))
    elif kind == "ragged":
        X = [[float(SECRET), 1.0], [float(SECRET)]] * 15
    elif kind == "infinite":
        X = np.where(np.arange(60).reshape(30, 2) == 7, np.inf, float(SECRET))
    return X, y


KINDS_OF_X = ["text in X", "text in a frame", "complex X", "column", "cube", "ragged"]
KINDS_OF_X += ["infinite"]
KINDS = [*KINDS_OF_X, "text in y", "text as y", "complex y"]


def fit_wrapped(estimator):
    return lambda X, y: wrapped(estimator, sensitivity=1.0).fit(X, y)


def released_by(query):
    return clone(FEW).set_params(query=query, n_records=30).fit(*labeled(80, 1)).release


ASKED = {
    "ridge": (lambda X, y: PrivateRidge(sensitivity=1.0).fit(X, y), KINDS),
    "logistic": (
        lambda X, y: PrivateLogisticRegression(classes=[0, 1], **BOUND).fit(X, y),
        KINDS,
    ),
    "logistic, unknown classes": (
        lambda X, y: PrivateLogisticRegression(**BOUND).fit(X, y),
        KINDS,
    ),
    "squared hinge": (
        lambda X, y: PrivateLinearSVC(classes=[0, 1], sensitivity=1.0).fit(X, y),
        KINDS,
    ),
    "wrapped regression": (fit_wrapped(Lasso()), KINDS),
    "wrapped classifier": (fit_wrapped(LogisticRegression()), KINDS),
    "wrapped transformer": (fit_wrapped(StandardScaler()), KINDS_OF_X),
    "density": (lambda X, y: PrivateKernelDensity().fit(X), KINDS_OF_X),
    "mean": (lambda X, y: released_by(MeanQuery())(X), KINDS_OF_X),
    "regression": (lambda X, y: released_by(RidgeQuery())(X, y), KINDS),
    "record": (lambda X, y: clone(FEW).fit(labeled(80, 1)[0]).transform(X), KINDS_OF_X),
}


def said(error):
    """Return all that an error shows, with those that it came from."""
    shown = []
    while error is not None:
        shown.append(repr(error))
        error = error.__cause__ or error.__context__
    return " ".join(shown)


def test_no_error_shows_a_value_of_private_data():
    for who, kind in [
        (who, kind) for who, (_, kinds) in ASKED.items() for kind in kinds
    ]:
        X, y = with_secret(kind)
        with pytest.raises((TypeError, ValueError)) as caught:
            ASKED[who][0](X, y)
        shown = said(caught.value)
        assert "91234" not in shown
        assert "owes" not in shown


def test_scikit_learn_does_show_values():
    """The other side: the checks above would see them."""
    for kind in ("text in X", "complex X", "column"):
        with pytest.raises(ValueError, match="91234"):
            Ridge().fit(*with_secret(kind))


def test_how_many_numbers_private_data_answer_with_is_not_told():
    """It may be how many values there are of something."""

    def answer(X):
        return np.r_[X.mean(), np.unique(X)]

    public = np.repeat([[0.0], [1.0], [2.0]], 40, axis=0)
    sampler = SensitivitySampler(answer, n_pairs=40, random_state=0).fit(public)
    private = np.r_[public[:-3], [[3.0], [4.0], [5.0]]]
    with (
        PrivacyLedger(2.0) as ledger,
        pytest.raises(ValueError, match="or another number of outputs than before"),
    ):
        sampler.release(private)
    assert ledger.spent.n_releases == 1


def test_a_query_keeps_nothing_of_what_it_was_asked_about():
    """Nor does what it is called in an error tell."""

    class Curious:
        kept = None

        def __call__(self, X):
            self.kept = X.max()
            return X.mean() if self.kept < 50 else X

        def __repr__(self):
            return f"Curious({self.kept})"

    public = np.linspace(0, 1, 60)[:, None]
    sampler = SensitivitySampler(Curious(), n_pairs=40, random_state=0).fit(public)
    before = sampler.query_.function.kept
    sampler.release(public / 3 + 0.001)
    with pytest.raises(ValueError, match="has no answer") as caught:
        sampler.release(public + 77)
    assert re.search("7[78]", str(caught.value)) is None
    assert sampler.query_.function.kept == before


def test_a_query_that_exits_says_nothing_and_is_charged():
    def leaves(X):
        raise SystemExit(f"record {X.max()}")

    sampler = SensitivitySampler(np.mean, n_pairs=40, random_state=0)
    sampler.fit(np.linspace(0, 1, 60)[:, None])
    sampler.query_ = FunctionQuery(leaves)
    with PrivacyLedger(2.0) as ledger, pytest.raises(ValueError, match="has no answer"):
        sampler.release(np.full((60, 1), 77.0))
    assert ledger.spent.n_releases == 1


# Traces, and fits that do not repeat


@pytest.mark.slow
def test_a_cache_on_the_disk_is_not_used(tmp_path):
    X, y = make_data()
    public, targets = make_data(60, seed=1)
    pipeline = make_pipeline(StandardScaler(), Ridge(), memory=str(tmp_path))
    model = wrapped(pipeline)
    model.fit(X, y, X_reference=public, y_reference=targets)
    model.set_params(sensitivity=1.0).fit(X, y)
    model.predict(X)
    assert not list(tmp_path.iterdir())
    assert pipeline.memory == str(tmp_path)
    pipeline.fit(X, y)
    assert list(tmp_path.rglob("*.pkl"))  # which is what it would do


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "splitter",
    [KFold(3, shuffle=True), ShuffleSplit(3), RepeatedKFold(n_splits=2, n_repeats=2)],
)
def test_splitters_without_a_seed_repeat(splitter):
    X, y = np.random.default_rng(0).normal(size=(80, 5)), None
    y = X[:, 0] + np.random.default_rng(1).normal(size=80)
    estimator = LassoCV(alphas=[0.01, 0.1], cv=splitter)
    first, second = (
        wrapped(estimator).fit(X[:40], y[:40], X_reference=X[40:], y_reference=y[40:])
        for _ in range(2)
    )
    assert first.sensitivity_ == second.sensitivity_
    query = first.sampler_.query_
    for _ in range(5):
        np.testing.assert_array_equal(query(X[:40], y[:40]), query(X[:40], y[:40]))
    assert splitter.random_state is None


class Random(RegressorMixin, BaseEstimator):
    """Its fit draws from the global generator."""

    def __init__(self, shape=False, noise=1.0):
        self.shape = shape
        self.noise = noise

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        next_number = next(NUMBERS)
        self.coef_ = np.full(1 + self.shape * next_number, y.mean())
        self.coef_ += self.noise * np.random.normal()
        return self

    def predict(self, X):
        return np.full(len(X), self.coef_[0])


NUMBERS = itertools.count(1)


def test_fits_that_are_random_anyway_are_refused():
    for release in [("coef_",), "predict"]:
        for estimator in [Random(), Random(shape=True)]:
            for sensitivity in [FEW, 1.0]:
                X, y = make_data()
                model = wrapped(estimator, release=release, sensitivity=sensitivity)
                if release == "predict":
                    model.set_params(X_public=X[:3])
                with pytest.raises(
                    ValueError, match="Two fits of Random to the same records dif"
                ):
                    model.fit(X, y, X_reference=X + 0.5, y_reference=y)
                assert not hasattr(model, "certificate_")


def test_rounding_is_no_randomness():
    X, y = make_data()
    model = wrapped(Random(noise=1e-9), release=("coef_",), sensitivity=1.0)
    assert model.fit(X, y).certificate_.private


# Rows of any size


def exact_square(row):
    return sum(Fraction(value) ** 2 for value in row.tolist())


SIZES = st.sampled_from([0.0, 5e-324, 1e-310, 1e-170, 1e-5, 1.0, 3.0, 1e160, 1e300])
NUMBERS_OF_ANY_SIZE = st.builds(np.multiply, SIZES, st.floats(-1, 1))


@settings(deadline=None, max_examples=200)
@given(
    rows=arrays(np.float64, (3, 4), elements=NUMBERS_OF_ANY_SIZE),
    radius=st.sampled_from([1e-300, 1e-170, 1e-165, 0.1, 1.0, 7.5, 1e170, 1e300]),
)
def test_clipped_rows_are_no_longer_than_the_radius(rows, radius):
    before = rows.copy()
    clipped = clip_rows(rows, radius)
    limit = Fraction(radius) ** 2
    for row, short in zip(before, clipped, strict=True):
        assert exact_square(short) <= limit * Fraction(1 + 2.0**-48)
        if exact_square(row) <= limit * Fraction(1 - 2.0**-48):
            np.testing.assert_array_equal(short, row)
        elif exact_square(row) > limit:
            assert exact_square(short) >= limit * Fraction(1 - 2.0**-48)
    np.testing.assert_array_equal(rows, before)


def test_rows_of_one_size_are_clipped_to_the_radius():
    for size in [0.0, 1e-170, 1e-163, 1e-150, 1.0, 1e154, 1e300]:
        for radius in [1e-290, 1e-170, 1.0, 1e170]:
            clipped = clip_rows(
                np.full((2, 2), size) * [[1.0, -1.0], [1.0, 0.0]], radius
            )
            lengths = [math.hypot(*row) for row in clipped]
            expected = [min(math.sqrt(2) * size, radius), min(size, radius)]
            np.testing.assert_allclose(lengths, expected, rtol=1e-14)


def test_a_radius_that_rounding_would_exceed_is_refused():
    X, y = labeled(20, 0)
    for radius in (5e-324, 1e-310):
        model = clone(CLASSIFIERS["logistic"]).set_params(**BOUND, classes=[0, 1])
        with pytest.raises(ValueError, match=r"x_norm must be at least 2\*\*-1000"):
            model.set_params(x_norm=radius).fit(X, y)


@pytest.mark.parametrize(("C", "radius"), [(1e300, 1e-170), (1e200, 1e-200)])
def test_the_bound_holds_for_rows_whose_squares_vanish(C, radius):
    """They are longer than the radius, and so have to be clipped."""
    X, y = np.full((5, 1), 1e-163), np.array([0, 1, 0, 1, 1])
    other = X.copy()
    other[0] *= -1.0
    model = PrivateLogisticRegression(
        C, fit_intercept=False, classes=[0, 1], sensitivity="bound", x_norm=radius
    ).set_params(epsilon=np.inf)
    first, second = (clone(model).fit(rows, y) for rows in (X, other))
    moved = np.abs(first.coef_ - second.coef_).sum()
    assert 0 < moved <= first.sensitivity_
