"""The shell of private searches: parameters, data, what is kept, what it wraps."""

import math
import pickle
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from searches import (
    ALPHAS,
    CHEAP,
    PUBLIC,
    SELECTIONS,
    WITH_GAPS,
    X_PUBLIC,
    Y_PUBLIC,
    Constant,
    Fill,
    Label,
    X,
    Y,
    known,
    private_search,
)
from sklearn.base import clone
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
)
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skparisk import (
    IncompatibleError,
    KnownSensitivity,
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateKernelDensity,
    PrivateMoments,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk._words import INFINITE, void_reasons
from skparisk.core import Assumption, Leak
from skparisk.core.claim import mint
from skparisk.core.compose import compose_basic, compose_parallel
from skparisk.exceptions import BudgetExceededError
from skparisk.ledger import PrivacyLedger
from skparisk.model_selection import (
    ExponentialSelection,
    PrivateGridSearchCV,
    _exponential,
    simulate_scores,
)
from skparisk.model_selection._exponential import (
    find_record_score,
    score_hold_out,
    split_records,
)
from skparisk.model_selection._fits import Candidate, Records, declared_certificate
from skparisk.reference import TableReference


@pytest.fixture(autouse=True)
def nothing_seen():
    Constant.seen.clear()


def test_what_records_are_scored_by_must_be_given():
    for bounds in (None, (1.0, 1.0)):
        with pytest.raises(ValueError, match="y_bounds must be"):
            private_search(Constant(), {}, "exponential", y_bounds=bounds).fit(X, Y)
    with pytest.raises(ValueError, match="must be a classifier or a regressor"):
        private_search(PrivateKernelDensity(), {}, "exponential").fit(X)
    assert Constant.seen == []


def test_data_that_no_fit_would_take_are_refused_before_a_fit():
    for selection in SELECTIONS:
        search = private_search(Constant(), {"value": [0.0]}, selection)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            search.fit(X, Y[:-1])
        with pytest.raises(ValueError, match="given together"):
            search.fit(X, Y, X_reference=X_PUBLIC)
        with pytest.raises(ValueError, match="given together"):
            search.fit(X, Y, y_reference=Y_PUBLIC)
        with pytest.raises(ValueError, match="Input y contains infinity"):
            search.fit(X, np.r_[np.inf, Y[1:]])
        with pytest.raises(ValueError, match="the target y is None"):
            search.fit(X)
        with (
            PrivacyLedger(9.0) as ledger,
            pytest.raises(ValueError, match="X contains"),
        ):
            private_search(known(), ALPHAS, selection).fit(WITH_GAPS, Y, **PUBLIC)
        assert ledger.releases == ()
    assert Constant.seen == []


@pytest.mark.parametrize("selection", SELECTIONS)
def test_samplers_with_private_records_are_refused_before_a_split(selection):
    own = SensitivitySampler(n_pairs=40, reference=TableReference(X[::-1], Y[::-1]))
    search = private_search(PrivateRidge(sensitivity=own), ALPHAS, selection)
    with PrivacyLedger(9.0) as ledger, pytest.raises(ValueError, match="has them as"):
        search.fit(X, Y)
    assert ledger.releases == ()


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize(
    "estimator", [Constant(level=None), make_pipeline(Fill(), Constant(level=None))]
)
def test_estimators_that_release_without_a_charge_are_refused(selection, estimator):
    search = private_search(estimator, {}, selection)
    with pytest.raises(IncompatibleError, match="charged nothing"):
        search.fit(X, Y, **PUBLIC)
    assert not hasattr(search, "best_estimator_")


PARAMETERS = {
    *PrivateGridSearchCV(None, None).get_params(deep=False),
    *("cv", "error_score", "pre_dispatch", "refit", "return_train_score"),
}
FITTED = {
    "best_estimator_",
    "best_index_",
    "best_params_",
    "certificate_",
    "multimetric_",
    "scorer_",
}


@pytest.mark.parametrize("selection", SELECTIONS)
def test_nothing_else_is_kept(selection):
    frame = pd.DataFrame(X, columns=["a", "b"])
    public = PUBLIC | {"X_reference": pd.DataFrame(X_PUBLIC, columns=["a", "b"])}
    search = private_search(known(), ALPHAS, selection).fit(frame, Y, **public)
    shown = {"best_score_", "cv_results_"} if selection == "reference" else set()
    expected = PARAMETERS | FITTED | {"feature_names_in_"}
    assert set(vars(search)) == expected | shown
    assert list(search.feature_names_in_) == ["a", "b"]
    copied = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(copied.predict(frame), search.predict(frame))
    assert copied.certificate_ == search.certificate_


@pytest.mark.slow
@pytest.mark.parametrize("selection", SELECTIONS)
def test_seeded_searches_repeat(selection):
    search = private_search(
        PrivateRidge(sensitivity=CHEAP, random_state=0, noise_random_state=0),
        {"alpha": [0.1, 1.0, 10.0]},
        selection,
        noise_random_state=0,
    )
    fits = []
    for _ in range(2):
        with pytest.warns(PrivacyLeakWarning, match="noise_random_state=0"):
            fits.append(clone(search).fit(X, Y, **PUBLIC))
    one, other = fits
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert one.certificate_ == other.certificate_
    assert one.certificate_.leaks == {Leak.SEEDED_NOISE}


def test_search_is_part_of_a_pipeline_with_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        search = private_search(PrivateRidge(sensitivity=CHEAP), ALPHAS, "reference")
        search.set_fit_request(X_reference=True, y_reference=True)
        scaler = FrozenEstimator(StandardScaler().fit(X_PUBLIC))
        pipeline = make_pipeline(scaler, search, transform_input=["X_reference"])
        pipeline.fit(X, Y, **PUBLIC)
    assert pipeline[-1].certificate_.private
    assert pipeline.score(X, Y) > 0.5


@pytest.mark.parametrize("selection", SELECTIONS)
def test_pipelines_give_each_candidate_the_reference_in_its_units(selection):
    in_units = clone(CHEAP).set_params(noise_shape="isotropic")
    ridge = PrivateRidge(sensitivity=in_units)
    scaler = FrozenEstimator(StandardScaler().fit(1000 * X_PUBLIC))
    search = private_search(
        make_pipeline(scaler, ridge), {"privateridge__alpha": [1e-3, 1e6]}, selection
    )
    search.fit(1000 * X, Y, X_reference=1000 * X_PUBLIC, y_reference=Y_PUBLIC)
    assert search.certificate_.private
    assert search.best_estimator_[-1].noise_scale_ < 1


def test_samplers_that_sample_the_private_data_say_so_on_the_certificate():
    search = private_search(PrivateRidge(sensitivity=CHEAP), ALPHAS, "exponential")
    with pytest.warns(PrivacyLeakWarning, match="private data themselves"):
        search.fit(X, Y)
    assert search.certificate_.leaks == {Leak.PRIVATE_REFERENCE}


# Selections are parameters of a search: they store, and names are short for them


COMMON = [
    ("scoring", ["r2"]),
    ("n_jobs", 0),
    ("verbose", "much"),
    ("random_state", "seed"),
    ("noise_random_state", "seed"),
    ("param_grid", {"alphas": [1.0]}),
    ("param_grid", {"value": []}),
    ("selection", "best"),
    ("selection", None),
    ("selection", ExponentialSelection),
]
BAD = [
    *(("reference", "cv", value) for value in (0, 1, True, 2.5, "folds")),
    ("exponential", "selection__epsilon", 0),
    ("exponential", "selection__epsilon", math.nan),
    ("exponential", "selection__holdout", 1.0),
    ("exponential", "selection__y_bounds", (1, 0)),
]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("selection", "name", "value"),
    [(kind, *case) for kind in SELECTIONS for case in COMMON] + BAD,
)
@pytest.mark.parametrize("reference", [PUBLIC, {}])
def test_bad_parameters_are_refused_before_a_fit(selection, name, value, reference):
    """With the name, the value and what is allowed; nothing warns, nor is charged."""
    search = private_search(Constant(), {"value": [0.0]}, selection)
    search.set_params(**{name: value})
    named = name.removeprefix("selection__").replace("param_grid", "value|alphas")
    with PrivacyLedger(9.0) as ledger, pytest.raises(ValueError, match=named) as caught:
        search.fit(X, Y, **reference)
    if name != "param_grid":
        assert f"got {value!r}" in str(caught.value)
        assert "must be" in str(caught.value)
    assert ledger.releases == ()
    assert Constant.seen == []


VALUES = {"value": [0.0, 1.0]}


class Cheaper(ExponentialSelection):
    """Claims less than it spends."""

    def _choose(self, task):
        raise AssertionError


class Stranger:
    """Has the methods of a selection."""

    def _check_parameters(self):
        raise AssertionError

    _choose = _check_parameters


@pytest.mark.parametrize("kind", [Cheaper, Stranger])
def test_a_selection_of_ones_own_could_claim_anything_and_is_refused(kind):
    search = PrivateGridSearchCV(Constant(), VALUES, selection=kind())
    with pytest.raises(
        ValueError, match=r"'exponential' or ExponentialSelection\(\.\.\."
    ):
        search.fit(X, Y, **PUBLIC)
    assert Constant.seen == []


# What estimators and searches spend, told from their parameters


def test_level_of_each_kind_of_estimator_is_read_off_its_parameters():
    def level(estimator):
        found = declared_certificate(estimator)
        return (
            found.epsilon,
            found.delta,
            found.risk,
            found.failure_prob,
            found.randomness if found.risk else None,
            found.relation,
        )

    def of(**parameters):
        return PrivateRidge(
            epsilon=0.5, gamma=0.1, sensitivity=SensitivitySampler(**parameters)
        )

    one = "replace-one"
    implicit = (0.5, 0.0, 0.1, 0.0, "implicit", one)
    assert level(PrivateRidge(epsilon=0.5, gamma=0.1)) == implicit
    assert level(of(epsilon=9.0)) == implicit
    assert level(of(calibration="pac")) == (0.5, 0.0, 0.1, 0.05, "implicit", one)
    assert level(of(randomness="both")) == (0.5, 0.0, 0.1, 0.0, "both", one)
    pure = (0.5, 0.0, 0.0, 0.0, None, one)
    assert level(of(randomness="both", delta=0.01))[1] == 0

    def of_known(gamma, **parameters):
        return PrivateRidge(
            epsilon=0.5, gamma=gamma, sensitivity=KnownSensitivity(1.0, **parameters)
        )

    for gamma, parameters in [(0.1, {}), (0.6, {}), (0.1, {"at_risk": True})]:
        assert level(of_known(gamma, **parameters)) == pure
    for gamma, parameters in [
        (0.6, {"at_risk": True}),
        (0.1, {"norm": "l2", "law": "gaussian", "at_risk": True}),
    ]:
        expected = (0.5, 0.0, gamma, 0.0, "explicit", one)
        assert level(of_known(gamma, **parameters)) == expected
    assert level(of_known(0.1, delta=0.01)) == (*(0.5, 0.01, 0.0, 0.0, None), one)
    assert level(of(relation="add-remove"))[-1] == "add-remove"
    assert level(known(epsilon=0.5)) == pure
    bound = PrivateRidge(epsilon=0.5, sensitivity="bound", x_norm=1, y_bounds=(0, 1))
    assert level(bound) == pure
    moments = PrivateMoments(epsilon=0.5, sensitivity="bound")
    assert level(moments) == pure
    for estimator, told in [
        (bound, Assumption.DECLARED_LEVEL),
        (PrivateRidge(gamma=0.1), Assumption.PUBLIC_REFERENCE),
        (known(), Assumption.DECLARED_SENSITIVITY),
    ]:
        assert declared_certificate(estimator).assumptions == {told}
    assert level(SensitivitySampler(epsilon=0.5, gamma=0.1)) == implicit
    frozen = FrozenEstimator(SensitivitySampler(randomness="both"))
    assert level(PrivateRidge(sensitivity=frozen))[4] == "both"
    wrapped = PrivateEstimator(known(), epsilon=0.5, gamma=0.1)  # what is inside is not
    assert level(wrapped) == implicit
    two = make_pipeline(known(epsilon=0.25), known(epsilon=0.25))
    assert level(two) == pure
    for seeded in (known(noise_random_state=0), of(noise_random_state=0)):
        assert declared_certificate(seeded).leaks == {Leak.SEEDED_NOISE}
    assert void_reasons(declared_certificate(known(epsilon=math.inf))) == (INFINITE,)
    for unclear in (
        Ridge(),
        BaggingRegressor(known()),
        make_pipeline(private_search(known(), ALPHAS, "reference")),
        make_pipeline(FrozenEstimator(known())),
    ):
        assert declared_certificate(unclear) is None


# Scores from public records alone: no ledger learns of them, no seed is looked at


def test_without_noise_the_simulation_is_cross_validation():
    """All of the training part is drawn, in another order: what Ridge is fitted to."""
    ridges = [PrivateRidge(alpha, epsilon=math.inf) for alpha in (0.1, 100.0)]
    cv = KFold(4, shuffle=True, random_state=1)
    scores = simulate_scores(iter(ridges), X_PUBLIC, Y_PUBLIC, n_records=90, cv=cv)
    expected = [
        cross_val_score(Ridge(alpha), X_PUBLIC, Y_PUBLIC, cv=cv)
        for alpha in (0.1, 100.0)
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-9)


@pytest.mark.parametrize("n_records", [50, 80, 500])
def test_databases_come_from_the_training_part_alone(n_records):
    cv = KFold(3)
    simulate_scores(
        [Constant(), Constant(1.0)],
        X_PUBLIC,
        Y_PUBLIC,
        n_records=n_records,
        cv=cv,
        random_state=0,
    )
    assert len(Constant.seen) == 6
    splits = list(cv.split(X_PUBLIC))
    for (_, rows, targets, X_ref, y_ref), (train, _) in zip(
        Constant.seen, splits * 2, strict=True
    ):
        np.testing.assert_array_equal(X_ref, X_PUBLIC[train])
        np.testing.assert_array_equal(y_ref, Y_PUBLIC[train])
        places = [int(np.flatnonzero(target == Y_PUBLIC)[0]) for target in targets]
        assert len(places) == n_records
        assert set(places) <= set(train)
        np.testing.assert_array_equal(rows, X_PUBLIC[places])
        if n_records <= len(train):
            assert len(set(places)) == n_records
    first, second = Constant.seen[:3], Constant.seen[3:]
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.slow
def test_scores_do_not_depend_on_the_workers():
    plain = PrivateRidge(sensitivity=CHEAP, combine=None)
    ridges = [clone(plain).set_params(epsilon=epsilon) for epsilon in (0.1, 10)]
    parameters = {"n_records": 60, "cv": 3, "random_state": 0}
    with PrivacyLedger(1e-6) as ledger:
        scores = simulate_scores(ridges, X_PUBLIC, Y_PUBLIC, n_jobs=2, **parameters)
    assert ledger.releases == ()
    again = simulate_scores(ridges, X_PUBLIC, Y_PUBLIC, **parameters)
    np.testing.assert_array_equal(scores, again)
    assert (scores[0] < scores[1]).all()
    other = simulate_scores(
        ridges[:1], X_PUBLIC, Y_PUBLIC, **parameters | {"random_state": 1}
    )
    assert (other != scores[:1]).all()


def test_simulation_neither_charges_a_ledger_nor_warns():
    with PrivacyLedger(1e-6) as ledger:
        simulate_scores([known()], X_PUBLIC, Y_PUBLIC, n_records=60, cv=2)
    assert ledger.releases == ()


def test_reference_in_a_pipeline_is_transformed_as_the_records_are():
    pipeline = make_pipeline(StandardScaler(), Constant())
    simulate_scores([pipeline], X_PUBLIC, Y_PUBLIC, n_records=60, cv=2, random_state=0)
    for (_, rows, targets, X_ref, y_ref), (train, _) in zip(
        Constant.seen, KFold(2).split(X_PUBLIC), strict=True
    ):
        drawn = X_PUBLIC[[int(np.flatnonzero(t == Y_PUBLIC)[0]) for t in targets]]
        scaler = StandardScaler().fit(drawn)
        np.testing.assert_allclose(rows, scaler.transform(drawn))
        np.testing.assert_allclose(X_ref, scaler.transform(X_PUBLIC[train]))
        np.testing.assert_array_equal(y_ref, Y_PUBLIC[train])
    assert pipeline.transform_input is None


@pytest.mark.parametrize("routed", [True, False])
def test_reference_is_routed_where_that_is_asked_for(routed):
    with sklearn.config_context(enable_metadata_routing=routed):
        inner = Constant()
        if routed:
            inner.set_fit_request(X_reference=True, y_reference=True)
        model = TransformedTargetRegressor(inner)
        if not routed:
            model = make_pipeline(model)
        simulate_scores([model], X_PUBLIC, Y_PUBLIC, n_records=60, cv=2)
    assert [seen[3] is not None for seen in Constant.seen] == [routed] * 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_records", 0),
        ("scoring", ["r2", "max_error"]),
        ("scoring", {"r2": "r2"}),
        ("n_jobs", 0),
        ("verbose", -1),
        ("random_state", "seed"),
    ],
)
def test_bad_parameters_of_a_simulation_are_refused(name, value):
    parameters = {"n_records": 60} | {name: value}
    with pytest.raises(ValueError, match=name):
        simulate_scores([Constant()], X_PUBLIC, Y_PUBLIC, **parameters)
    assert Constant.seen == []


# The choice by simulation: it is free, and looks at no pair that calibrates


@pytest.mark.slow
@pytest.mark.parametrize("right", [0, 1])
def test_reference_tells_which_candidate_is_right(right):
    """Small alpha where targets follow from the records, large alpha where not."""
    rng = np.random.default_rng(right)
    targets = Y_PUBLIC if right == 0 else rng.normal(size=len(Y_PUBLIC))
    search = private_search(
        PrivateRidge(epsilon=math.inf), ALPHAS, "reference", cv=3, scoring="r2"
    )
    if right == 1:  # few noisy records: alpha = 1e-3 fits the noise
        search.set_params(cv=ShuffleSplit(9, train_size=9, random_state=0))
    n = 100 if right == 0 else 9
    search.fit(X[:n], Y[:n], X_reference=X_PUBLIC, y_reference=targets)
    assert search.best_index_ == right
    assert search.best_params_ == {"alpha": ALPHAS["alpha"][right]}
    assert search.best_estimator_.alpha == ALPHAS["alpha"][right]


@pytest.mark.slow
def test_choice_by_reference_costs_one_fit_and_a_ledger_is_charged_for_it():
    search = private_search(PrivateRidge(sensitivity=CHEAP), ALPHAS, "reference")
    with PrivacyLedger(1.0) as ledger:
        search.fit(X, Y, **PUBLIC)
    (entry,) = ledger.releases
    fitted = search.best_estimator_.certificate_.as_certificate()
    assert entry.certificate == fitted
    assert search.certificate_ == compose_basic([fitted])
    assert search.certificate_.private
    assert search.certificate_.risk == search.best_estimator_.risk_ > 0
    with PrivacyLedger(0.5), pytest.raises(BudgetExceededError):
        search.fit(X, Y, **PUBLIC)
    assert not [name for name in vars(search) if name.endswith("_")]


def test_results_are_those_of_scikit_learn():
    grid = [{"alpha": [0.1, 10.0]}, {"fit_intercept": [False]}]
    cv = KFold(3)
    ours = private_search(PrivateRidge(epsilon=math.inf), grid, "reference", cv=cv)
    ours.fit(X[:80], Y[:80], **PUBLIC)  # as many as a training part has
    theirs = GridSearchCV(Ridge(), grid, cv=cv).fit(X_PUBLIC, Y_PUBLIC)
    times = {name for name in theirs.cv_results_ if name.endswith("_time")}
    assert set(ours.cv_results_) == set(theirs.cv_results_) - times
    for name, column in ours.cv_results_.items():
        expected = theirs.cv_results_[name]
        if name == "params":
            assert column == expected
        elif name.startswith("param_"):
            np.testing.assert_array_equal(column.mask, expected.mask)
            assert column.compressed().tolist() == expected.compressed().tolist()
        else:
            np.testing.assert_allclose(column, expected, rtol=1e-9)
    assert ours.best_score_ == ours.cv_results_["mean_test_score"].max()
    assert ours.best_index_ == theirs.best_index_


def test_a_score_that_is_no_number_is_the_worst():
    """Models that predict 0, 1, 2 and 3."""
    scores = {0: [1.0, 1.0], 1: [np.nan, 9.0], 2: [1.0, 1.0], 3: [-np.inf, 1.0]}

    def score(model, X, y):
        return scores[int(model.predict(X)[0])].pop()

    grid = {"value": list(scores)}
    search = private_search(Constant(), grid, "reference", cv=2, scoring=score)
    results = search.fit(X, Y, **PUBLIC).cv_results_
    assert results["rank_test_score"].tolist() == [1, 3, 1, 3]


def test_without_public_records_nothing_is_chosen():
    search = private_search(known(), ALPHAS, "reference")
    refused = pytest.raises(ValueError, match="X_reference must be public records")
    with PrivacyLedger(math.inf) as ledger, refused:
        search.fit(X, Y)
    assert not ledger.releases


def test_sparse_training_data_are_noticed_if_they_are_one_object():
    table, public = sparse.csr_array(X), sparse.csr_array(X_PUBLIC)
    search = private_search(Constant(), {"value": [0.0]}, "reference", cv=2)
    with pytest.raises(ValueError, match="X_reference must be public"):
        search.fit(table, Y, X_reference=table, y_reference=Y)
    search.fit(table, Y, X_reference=public, y_reference=Y_PUBLIC)
    assert search.certificate_.private


def test_choice_by_reference_does_not_look_at_pairs_that_calibrate():
    """The one with the luckiest pairs would be chosen."""
    fitted = PrivateRidge(sensitivity=CHEAP).fit(X[:60], Y[:60], **PUBLIC).sampler_
    rng = np.random.default_rng(9)
    table = rng.normal(size=(3000, X.shape[1]))
    used_once = TableReference(table, table @ [1.0, -2.0], sampling="split")
    for sampler in (
        FrozenEstimator(fitted),
        SensitivitySampler(n_pairs=40, reference=used_once),
    ):
        ridge = PrivateRidge(sensitivity=sampler)
        search = private_search(ridge, {"gamma": [0.05, 0.1]}, "reference")
        with PrivacyLedger(9.0) as ledger, pytest.raises(IncompatibleError):
            search.fit(X[:60], Y[:60], **PUBLIC)
        assert ledger.releases == ()
    ridge.set_params(sensitivity=FrozenEstimator(fitted))
    search.set_params(estimator=ridge, param_grid={"gamma": [0.1]})
    assert search.fit(X[:60], Y[:60], **PUBLIC).certificate_.private


@pytest.mark.slow
def test_seeds_of_the_last_fit_are_not_tried():
    search = private_search(
        PrivateRidge(sensitivity=CHEAP), {"random_state": [0, 0]}, "reference"
    )
    scores = search.fit(X, Y, **PUBLIC).cv_results_["mean_test_score"]
    assert scores[0] != scores[1]
    assert search.best_estimator_.random_state == 0


@pytest.mark.slow
def test_number_of_records_that_may_be_one_less_is_that_of_the_sampler():
    sampler = SensitivitySampler(n_pairs=40, relation="add-remove", n_records=301)
    search = private_search(PrivateRidge(sensitivity=sampler), ALPHAS, "reference")
    scores = [
        clone(search).fit(X, Y, **PUBLIC).cv_results_["mean_test_score"],
        clone(search)
        .fit(np.r_[X, X[:1]], np.r_[Y, Y[:1]], **PUBLIC)
        .cv_results_["mean_test_score"],
    ]
    np.testing.assert_array_equal(*scores)


# The choice by the exponential mechanism, on private records that are held out


def test_exponential_choice_is_composed_as_by_hand():
    search = private_search(
        PrivateRidge(epsilon=0.25, sensitivity=CHEAP),
        ALPHAS,
        "exponential",
        epsilon=0.4,
    )
    with PrivacyLedger(10.0) as ledger:
        search.fit(X, Y, **PUBLIC)
    fits = [entry.certificate for entry in ledger.releases[:2]]
    assert [fit.epsilon for fit in fits] == [0.25, 0.25]
    assert all(0 < fit.risk <= 0.05 for fit in fits)
    choice = mint(epsilon=0.4, relation="replace-one")
    assert search.certificate_ == compose_parallel(
        [compose_basic(fits), choice], partition="position"
    )
    assert search.certificate_.epsilon == 0.5
    assert search.certificate_.private
    # One after the other they cost more.
    assert ledger.spent.epsilon == 0.9
    assert search.best_estimator_.certificate_.evidence.n_records == 240


def test_fits_and_choice_that_do_not_fit_a_ledger_are_refused_before_a_fit():
    ridge = PrivateRidge(sensitivity=CHEAP, epsilon=0.5)
    search = private_search(ridge, ALPHAS, "exponential")
    for limit in (1.99, 2.0):
        # Risks may turn out smaller than what is asked for, as here.
        with PrivacyLedger(limit, gamma=0.0999) as ledger:
            if limit < 2:
                with pytest.raises(BudgetExceededError):
                    search.fit(X, Y, **PUBLIC)
                assert ledger.releases == ()
            else:
                search.fit(X, Y, **PUBLIC)
    noiseless = private_search(known(epsilon=math.inf), ALPHAS, "exponential")
    with PrivacyLedger(9.0) as ledger, pytest.raises(BudgetExceededError):
        noiseless.fit(X, Y)
    assert ledger.releases == ()
    unknown = private_search(Constant(), {"value": [0.0, 1.0]}, "exponential")
    with PrivacyLedger(1.0) as ledger, pytest.raises(BudgetExceededError):
        unknown.fit(X, Y)
    assert len(ledger.releases) == 2


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_level_is_the_larger_of_the_choice_and_all_fits(epsilon):
    search = private_search(
        Constant(), {"value": [1.0, 2.0, 3.0]}, "exponential", epsilon=epsilon
    )
    certificate = search.fit(X, Y).certificate_
    assert certificate.epsilon == max(0.75, epsilon)
    assert certificate.private
    assert certificate.relation == "replace-one"


def test_risk_over_the_noise_of_a_fit_is_turned_into_delta():
    """The choice is computed from the fits, which such a risk does not survive."""
    explicit = KnownSensitivity(0.1, norm="l2", law="gaussian", at_risk=True)
    search = private_search(
        PrivateRidge(sensitivity=explicit, gamma=0.01), ALPHAS, "exponential"
    )
    certificate = search.fit(X, Y).certificate_
    assert certificate.risk == 0
    assert 0.019 < certificate.delta <= 0.02


@contextmanager
def captured_scores(monkeypatch):
    """Yield a list that gets the scores that the mechanism is asked about."""
    asked = []

    class Spy(_exponential.ExponentialMechanism):
        def prepare(self, values):
            asked.append((self.sensitivity, self.epsilon, list(values)))
            return super().prepare(values)

    with monkeypatch.context() as patch:
        patch.setattr(_exponential, "ExponentialMechanism", Spy)
        yield asked


def test_scores_are_sums_over_the_records_that_are_held_out(monkeypatch):
    values = [-1.0, 0.0, 5.0]
    search = private_search(
        Constant(), {"value": values}, "exponential", epsilon=0.3, holdout=0.07
    )
    with captured_scores(monkeypatch) as asked:
        search.fit(X, Y)
    ((sensitivity, epsilon, scores),) = asked
    assert (sensitivity, epsilon) == (1.0, 0.3)
    trained = Constant.seen[0][2]
    held_out = Y[~np.isin(Y, trained)]
    assert len(held_out) == 21  # 300 * 0.07 exactly, which floats make more of
    expected = [(1 - np.minimum(np.abs(held_out - v), 16) / 16).sum() for v in values]
    np.testing.assert_allclose(scores, expected, atol=21 * 2.0**-20)
    assert (np.array(scores) * 2**20 % 1 == 0).all()
    assert len(np.unique(trained)) == 279


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "least", "most"), [(1e-9, 20, 80), (50, 100, 100)])
def test_choice_follows_the_scores_as_far_as_its_level_allows(epsilon, least, most):
    search = private_search(
        Label(), {"value": [0, 1]}, "exponential", epsilon=epsilon, y_bounds=None
    )
    right = [search.fit(X[:20], np.zeros(20)).best_index_ == 0 for _ in range(100)]
    assert least <= sum(right) <= most


def test_no_noise_is_the_best_on_the_records_held_out_and_no_guarantee():
    search = private_search(known(), ALPHAS, "exponential", epsilon=math.inf)
    search.fit(X, Y)
    assert search.best_index_ == 0
    assert void_reasons(search.certificate_) == (INFINITE,)


def test_default_score_of_labels_and_of_several_targets():
    agree = find_record_score(Label(), None)
    assert agree(["a", "b"], np.array(["a", "a"])).tolist() == [1.0, 0.0]
    assert agree(np.array([[0], [1]]), np.array([0, 0])).tolist() == [1.0, 0.0]
    close = find_record_score(Constant(), (0, 4))
    assert close([1.0, 2.0], [1.0, 9.0]).tolist() == [1.0, 0.0]
    two = close(np.array([[0.0, 0.0], [1.0, 3.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]))
    assert two.tolist() == [0.875, 0.75]


@pytest.mark.parametrize(
    ("returned", "total"),
    [([0.5, 2.0, -1.0], 1.5), ([np.nan, np.inf, 0.25], 1.25), ([2.0**-21, 1, 0], 1.0)],
)
def test_record_scores_are_clipped_and_rounded_down(returned, total):
    held_out = Records(np.zeros((3, 1)), np.zeros(3))
    model = Constant()
    assert score_hold_out(model, held_out, lambda y_true, y_pred: returned) == total


class Fails(Constant):
    __module__ = Constant.__module__

    def predict(self, X):
        warnings.warn(f"secret {X[0]}", stacklevel=1)
        raise KeyError(f"secret {X[0]}")


class TooMany(Constant):
    __module__ = Constant.__module__

    def predict(self, X):
        return np.zeros(len(X) + 1)


@pytest.mark.parametrize("kind", [Fails, TooMany])
def test_failing_scores_of_private_records_tell_nothing(kind):
    search = private_search(kind(), {"value": [0.0]}, "exponential")
    with (
        PrivacyLedger(9.0) as ledger,
        pytest.raises(
            ValueError, match=r"held-out records failed\. The reason is not"
        ) as caught,
    ):
        search.fit(X, Y)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
    # That there is no score is a release.
    assert [entry.certificate.epsilon for entry in ledger.releases] == [0.25, 1.0]
    assert ledger.releases[1].note.endswith(": no answer")


def test_one_label_that_is_a_text_does_not_move_the_scores_of_others(monkeypatch):
    labels = (Y > 0).astype(int).tolist()
    odd = [*labels[:5], str(labels[5]), *labels[6:]]
    search = private_search(Label(), {"value": [0, 1]}, "exponential", holdout=0.9)
    with captured_scores(monkeypatch) as asked:
        search.fit(X, labels)
        search.fit(X, odd)
    (*_, scores), (*_, moved) = asked
    assert np.abs(np.subtract(scores, moved)).max() <= 1
    assert min(scores) > 50


@pytest.mark.parametrize("selection", ["reference", "exponential"])
def test_what_steps_of_others_say_of_records_is_not_shown(selection):
    def code(X):
        if (X == "secret").any():
            raise ValueError(f"no code for {X[X == 'secret']}")
        return X.astype(float)

    step = FrozenEstimator(FunctionTransformer(code).fit(X_PUBLIC))
    search = private_search(
        make_pipeline(step, known()), {"privateridge__alpha": [1.0, 2.0]}, selection
    )
    records = X.astype(object)
    records[:20, 0] = "secret"
    with pytest.raises(
        ValueError, match=r"outside of skparisk \(ValueError\)"
    ) as caught:
        search.fit(records, Y, **(PUBLIC if selection == "reference" else {}))
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_hold_out_is_told_by_the_seed_and_covers_all_records():
    records = Records(X, Y)
    seeds = [np.random.SeedSequence(seed) for seed in (0, 0, 1)]
    parts = [split_records(records, 0.2, seed) for seed in seeds]
    for training, held_out in parts:
        assert (len(training), len(held_out)) == (240, 60)
        np.testing.assert_array_equal(
            np.sort(np.r_[training.y, held_out.y]), np.sort(Y)
        )
    np.testing.assert_array_equal(parts[0][1].y, parts[1][1].y)
    assert (parts[0][1].y != parts[2][1].y).any()
    with pytest.raises(ValueError, match=r"holdout=0\.9 leaves no record"):
        split_records(Records(X[:5], Y[:5]), 0.9, seeds[0])


def test_other_relations_are_refused_before_a_fit():
    sampler = SensitivitySampler(
        n_pairs=40, relation="add-remove", reference=TableReference(X_PUBLIC, Y_PUBLIC)
    )
    ridge = PrivateRidge(sensitivity=sampler)
    with PrivacyLedger(9.0) as ledger, pytest.raises(IncompatibleError):
        private_search(ridge, ALPHAS, "exponential").fit(X, Y)
    assert ledger.releases == ()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_fits_in_worker_processes_are_refused_with_advice():
    """Though no ledger was opened but by the search itself."""
    voting = VotingRegressor([("a", known()), ("b", known())], n_jobs=2)
    search = private_search(voting, {}, "exponential")
    with pytest.raises(IncompatibleError, match=r"private search .* n_jobs=None in"):
        search.fit(X, Y)
    search.set_params(estimator__n_jobs=None).fit(X, Y)
    assert search.certificate_.epsilon == 2.0


def test_private_scores_and_losing_models_are_in_no_pickle(monkeypatch):
    search = private_search(known(), ALPHAS, "exponential", epsilon=50.0)
    with captured_scores(monkeypatch) as asked:
        search.fit(X, Y)
    stored = pickle.dumps(search)
    (_, _, scores), (right, wrong) = asked[0], ALPHAS["alpha"]
    for score in scores:
        for number in (score, score / 60):
            assert np.float64(number).tobytes() not in stored
            assert np.float64(number).tobytes()[::-1] not in stored
    assert np.float64(search.best_estimator_.coef_[0]).tobytes() in stored
    assert search.best_params_ == {"alpha": right} != {"alpha": wrong}


# Parts of an estimator that are not from skparisk, and may learn without noise


class Duck:
    """Of no base class, so that nothing is known of it."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


RESPONSE = PrivateEstimator(StandardScaler(), sensitivity=1.0)

LEARNING = {
    "scaler": make_pipeline(StandardScaler(), known()),
    "duck": make_pipeline(Duck(), known()),
    "ensemble": VotingRegressor([("private", known()), ("plain", Ridge())]),
    "ensemble of private parts": BaggingRegressor(known()),
    "targets": make_pipeline(RESPONSE, Ridge()),
    "records kept": make_pipeline(RESPONSE, GaussianProcessRegressor()),
    "default": make_pipeline(RESPONSE, TransformedTargetRegressor()),
    "function": make_pipeline(FunctionTransformer(lambda X: X - X.mean(0)), known()),
    "function of targets": TransformedTargetRegressor(
        known(), func=lambda y: y - y.mean(), inverse_func=np.positive
    ),
    "scaled targets": TransformedTargetRegressor(known(), transformer=StandardScaler()),
    "columns": make_pipeline(
        ColumnTransformer([("scaler", StandardScaler(), [0])]), known()
    ),
    "chosen columns": make_pipeline(
        ColumnTransformer([("same", "passthrough", lambda X: X.std(0) > 1)]), known()
    ),
    "union": make_pipeline(make_union(StandardScaler(), "passthrough"), known()),
    "disk": make_pipeline(Normalizer(), known(), memory="cache"),
    "search": GridSearchCV(known(), {}),
    "inside": private_search(make_pipeline(StandardScaler(), known()), {}, "reference"),
}
HARMLESS = {
    "alone": known(),
    "one record": make_pipeline(Normalizer(), "passthrough", known()),
    "own": make_pipeline(Fill(), known()),
    "frozen": make_pipeline(FrozenEstimator(StandardScaler().fit(X_PUBLIC)), known()),
    "private": make_pipeline(PrivateEstimator(StandardScaler()), known()),
    "elementwise": make_pipeline(FunctionTransformer(np.arcsinh), known()),
    "identity": make_pipeline(FunctionTransformer(), known()),
    "function of a target": TransformedTargetRegressor(
        known(), func=np.arcsinh, inverse_func=np.sinh
    ),
    "columns": make_pipeline(
        ColumnTransformer([("one", Normalizer(), [0]), ("same", "passthrough", [1])]),
        known(),
    ),
    "kinds of columns": make_pipeline(
        ColumnTransformer([("n", "passthrough", make_column_selector("x"))]), known()
    ),
    "union": make_pipeline(make_union(Normalizer(), "passthrough"), known()),
    "nested": private_search(known(), {}, "reference"),
}


def test_parts_that_may_hold_what_they_learned_are_noticed():
    for name in LEARNING:
        assert Candidate({}, LEARNING[name]).learns_more


def test_parts_that_have_nothing_to_learn_are_no_leak():
    for name in HARMLESS:
        assert not Candidate({}, HARMLESS[name]).learns_more


# Of a plain ridge regression of encoded targets, with some draws of the noise.
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
def test_parts_without_noise_are_a_leak_that_is_told():
    for name in ["scaler", "ensemble", "targets", "function"]:
        for selection in SELECTIONS:
            records = (X > 0).astype(float) if name == "targets" else X
            search = private_search(LEARNING[name], {}, selection)
            with PrivacyLedger(math.inf) as ledger:
                public = {"X_reference": (X_PUBLIC > 0) * 1.0, "y_reference": Y_PUBLIC}
                with pytest.warns(
                    PrivacyLeakWarning, match="not from skparisk"
                ) as caught:
                    search.fit(records, Y, **(public if name == "targets" else PUBLIC))
            assert [one.category for one in caught].count(PrivacyLeakWarning) == 1
            assert not search.certificate_.private
            assert search.certificate_.leaks == ledger.spent.leaks == {Leak.LEARNS_MORE}
            assert search.certificate_.epsilon == 1.0
            told = [entry.certificate for entry in ledger.releases]
            assert {one.n_releases for one in told if one.leaks} == {0}
            # The scores are public all the same.
            assert hasattr(search, "cv_results_") == (selection == "reference")


def test_only_the_candidate_that_is_fitted_may_leak_by_reference():
    grid = {"standardscaler": ["passthrough"]}
    search = private_search(LEARNING["scaler"], grid, "reference")
    assert search.fit(X, Y, **PUBLIC).certificate_.private
