"""Private searches: what they choose, what they count, and what they leave to see."""

import dataclasses
import gc
import itertools
import math
import pickle
import threading
import warnings
import weakref
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import sklearn
from laws import FALSE_ALARM
from scipy import sparse, stats
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    TransformerMixin,
    clone,
)
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
)
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    ShuffleSplit,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from skparisk import (
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateEstimator,
    PrivateKernelDensity,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.certificate import Certificate
from skparisk.certificate._claim import DECLARED, NO_NOISE, PRIVATE_REFERENCE, SEEDED
from skparisk.composition import compose_basic, compose_parallel
from skparisk.exceptions import BudgetExceededError
from skparisk.ledger import PrivacyLedger, spend
from skparisk.model_selection import (
    PrivateGridSearchCV,
    _recorded,
    search_certificate,
    simulate_scores,
)
from skparisk.model_selection._candidates import Records, as_indexable, take_rows
from skparisk.model_selection._hold_out import (
    default_record_score,
    score_hold_out,
    split_records,
)
from skparisk.model_selection._levels import (
    LEARNS_MORE,
    Candidate,
    declared_certificate,
)
from skparisk.model_selection._public import tabulate_scores
from skparisk.model_selection._search import (
    CHOSEN_ON_PRIVATE,
    DECLARED_SCORE,
    SELECTIONS,
)
from skparisk.papers import DandekarTheorem4, DandekarTheorem5
from skparisk.preprocessing import RandomizedResponseTransformer
from skparisk.reference import CallableReference, TableReference

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = X @ [1.0, -2.0] + 0.1 * RNG.normal(size=300)
WITH_GAPS = np.where(np.arange(300)[:, None] == 7, np.nan, X)
X_PUBLIC = RNG.normal(size=(120, 2))
Y_PUBLIC = X_PUBLIC @ [1.0, -2.0] + 0.1 * RNG.normal(size=120)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
BOUNDS = (-8.0, 8.0)
ALPHAS = {"alpha": [1e-3, 1e6]}  # the first is right, the second is far too large
CHEAP = SensitivitySampler(n_pairs=40)


class Constant(RegressorMixin, BaseEstimator):
    """Charges a level, looks at nothing and predicts one number.

    It is taken for a part of the library whose parameters do not tell its level.
    """

    __module__ = "skparisk.made_up"
    seen: list = []  # noqa: RUF012 - of all clones

    def __init__(self, value=0.0, *, level=0.25, random_state=None, verbose=3):
        self.value = value
        self.level = level
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, X_reference=None, y_reference=None):
        if self.level is not None:
            spend(self.level)
        self.n_features_in_ = X.shape[1]
        Constant.seen.append((self, X, y, X_reference, y_reference))
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.value)


class Label(ClassifierMixin, Constant):
    """Predicts one label."""

    __module__ = "skparisk.made_up"


@pytest.fixture(autouse=True)
def nothing_seen():
    Constant.seen.clear()


def private_search(estimator, grid, selection, **parameters):
    parameters = {"y_bounds": BOUNDS, "random_state": 0} | parameters
    return PrivateGridSearchCV(estimator, grid, selection=selection, **parameters)


def known(**parameters):
    return PrivateRidge(sensitivity=0.1, **parameters)


# ---------------------------------------------------------------- simulation


def test_without_noise_the_simulation_is_cross_validation():
    """All of the training part is drawn, in another order: what Ridge is fitted to."""
    ridges = [PrivateRidge(alpha, epsilon=math.inf) for alpha in (0.1, 100.0)]
    cv = KFold(4, shuffle=True, random_state=1)
    scores = simulate_scores(ridges, X_PUBLIC, Y_PUBLIC, n_records=90, cv=cv)
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


def test_scores_do_not_depend_on_the_workers():
    ridges = [PrivateRidge(sensitivity=CHEAP, epsilon=epsilon) for epsilon in (0.1, 10)]
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


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_fits_in_worker_processes_are_refused_with_advice():
    """Though no ledger was opened but by the search itself."""
    bagging = BaggingRegressor(known(), n_estimators=2, bootstrap=False, n_jobs=2)
    search = private_search(bagging, {}, "exponential")
    with pytest.raises(IncompatibleError, match=r"private search .* n_jobs=None in"):
        search.fit(X, Y)
    search.set_params(estimator__n_jobs=None).fit(X, Y)
    assert search.certificate_.epsilon == 2.0


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


def test_estimators_that_know_their_reference_keep_it():
    own = SensitivitySampler(n_pairs=40, reference=TableReference(X, Y))
    fitted = PrivateRidge(sensitivity=CHEAP).fit(X[:60], Y[:60], **PUBLIC).sampler_
    models = [
        PrivateRidge(sensitivity=own),
        make_pipeline("passthrough", PrivateRidge(sensitivity=own)),
        PrivateRidge(sensitivity=FrozenEstimator(fitted)),
    ]
    scores = simulate_scores(models, X_PUBLIC, Y_PUBLIC, n_records=60, cv=2)
    assert np.isfinite(scores).all()


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


def test_density_is_simulated_without_targets():
    density = PrivateKernelDensity(bounds=(-8, 8), sensitivity="bound")
    scores = simulate_scores([density], X_PUBLIC[:, :1], n_records=60, cv=3)
    assert scores.shape == (1, 3)


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


@pytest.mark.parametrize(
    "table",
    [X.tolist(), X, pd.DataFrame(X), sparse.coo_array(X)],
    ids=["list", "array", "frame", "sparse"],
)
def test_rows_are_taken_of_any_table(table):
    taken = take_rows(as_indexable(table), np.array([3, 1]))
    dense = taken.toarray() if sparse.issparse(taken) else np.asarray(taken)
    np.testing.assert_array_equal(dense, X[[3, 1]])
    assert type(taken) is type(table) or not isinstance(table, pd.DataFrame)
    assert take_rows(as_indexable(None), np.array([0])) is None


# -------------------------------------------------------------- by reference


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
    ours = PrivateGridSearchCV(PrivateRidge(epsilon=math.inf), grid, cv=cv)
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
    scores = np.array([[1.0, 1.0], [np.nan, 9.0], [1.0, 1.0], [-np.inf, 1.0]])
    results = tabulate_scores([{}] * 4, scores)
    assert results["rank_test_score"].tolist() == [1, 3, 1, 3]


def test_simulation_on_the_training_data_is_a_leak_that_is_told():
    search = private_search(known(), ALPHAS, "reference")
    with (
        PrivacyLedger(math.inf) as ledger,
        pytest.warns(PrivacyLeakWarning, match="chosen by its score on the private"),
    ):
        search.fit(X, Y)
    assert search.certificate_.leaks == (CHOSEN_ON_PRIVATE,)
    assert ledger.spent.leaks == (CHOSEN_ON_PRIVATE,)
    assert not search.certificate_.private
    assert search.certificate_.epsilon == 1.0
    # The scores are as private as the records.
    assert not hasattr(search, "cv_results_")
    assert not hasattr(search, "best_score_")


def test_sparse_training_data_are_noticed_if_they_are_one_object():
    table, public = sparse.csr_array(X), sparse.csr_array(X_PUBLIC)
    search = PrivateGridSearchCV(Constant(), {"value": [0.0]}, cv=2)
    with pytest.raises(ValueError, match="X_reference must be public"):
        search.fit(table, Y, X_reference=table, y_reference=Y)
    search.fit(table, Y, X_reference=public, y_reference=Y_PUBLIC)
    assert search.certificate_.private


def made(n_records, rng):
    rows = rng.normal(size=(n_records, 2))
    return rows, rows @ [1.0, -2.0]


@pytest.mark.parametrize(
    "reference", [TableReference(X_PUBLIC, Y_PUBLIC), CallableReference(made)]
)
def test_reference_of_the_sampler_is_simulated_with(reference):
    sampler = SensitivitySampler(n_pairs=40, reference=reference)
    search = private_search(PrivateRidge(sensitivity=sampler), ALPHAS, "reference")
    assert search.fit(X, Y).certificate_.private
    assert search.best_index_ == 0
    again = clone(search).fit(X, Y)
    np.testing.assert_array_equal(
        again.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    )


def test_choice_by_reference_does_not_look_at_pairs_that_calibrate():
    """The one with the luckiest pairs would be chosen."""
    fitted = PrivateRidge(sensitivity=CHEAP).fit(X[:60], Y[:60], **PUBLIC).sampler_
    rng = np.random.default_rng(9)
    table = rng.normal(size=(3000, X.shape[1]))
    used_once = [
        TableReference(table, table @ [1.0, -2.0], sampling=sampling)
        for sampling in ("disjoint", "split")
    ]
    for sampler in (
        FrozenEstimator(fitted),
        *(SensitivitySampler(n_pairs=40, reference=r) for r in used_once),
    ):
        ridge = PrivateRidge(sensitivity=sampler)
        search = private_search(ridge, {"gamma": [0.05, 0.1]}, "reference")
        with PrivacyLedger(9.0) as ledger, pytest.raises(IncompatibleError):
            search.fit(X[:60], Y[:60], **PUBLIC)
        assert ledger.releases == ()
    ridge.set_params(sensitivity=FrozenEstimator(fitted))
    search.set_params(estimator=ridge, param_grid={"gamma": [0.1]})
    assert search.fit(X[:60], Y[:60], **PUBLIC).certificate_.private


def test_seeds_of_the_last_fit_are_not_tried():
    search = private_search(
        PrivateRidge(sensitivity=CHEAP), {"random_state": [0, 0]}, "reference"
    )
    scores = search.fit(X, Y, **PUBLIC).cv_results_["mean_test_score"]
    assert scores[0] != scores[1]
    assert search.best_estimator_.random_state == 0


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


# --------------------------------------------------------------- exponential


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
    choice = Certificate(0.4, relation="replace-one")
    assert search.certificate_ == compose_parallel(
        [compose_basic(fits), choice], partition="position"
    )
    assert search.certificate_.epsilon == 0.5
    assert search.certificate_.private
    # One after the other they cost more.
    assert ledger.spent.epsilon == 0.9
    assert search.best_estimator_.certificate_.evidence.n_records == 240


@pytest.mark.parametrize("composition", ["basic", "exact"])
def test_fits_and_choice_that_do_not_fit_a_ledger_are_refused_before_a_fit(composition):
    if composition == "exact":
        pytest.importorskip("dp_accounting")
    ridge = PrivateRidge(sensitivity=CHEAP, epsilon=0.5)
    search = private_search(ridge, ALPHAS, "exponential")
    for limit, composed in [(1.99, "basic"), (2.0, composition)]:
        delta = 0.0 if composed == "basic" else 1e-9
        # Risks may turn out smaller than what is asked for, as here.
        with PrivacyLedger(limit, delta, 0.0999, composition=composed) as ledger:
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
    explicit = SensitivitySampler(
        randomness="explicit", sensitivity=0.1, mechanism="gaussian"
    )
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

    class Spy(_recorded.ExponentialMechanism):
        def choose(self, scores, *, noise_random_state=None):
            asked.append((self.sensitivity, self.epsilon, list(scores)))
            return super().choose(scores, noise_random_state=noise_random_state)

    with monkeypatch.context() as patch:
        patch.setattr(_recorded, "ExponentialMechanism", Spy)
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
    assert search.certificate_.void_reasons == (NO_NOISE,)


def test_default_score_of_labels_and_of_several_targets():
    agree = default_record_score(Label(), None)
    assert agree(["a", "b"], np.array(["a", "a"])).tolist() == [1.0, 0.0]
    assert agree(np.array([[0], [1]]), np.array([0, 0])).tolist() == [1.0, 0.0]
    close = default_record_score(Constant(), (0, 4))
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


def test_declared_record_score_is_used_and_told():
    search = private_search(
        known(),
        ALPHAS,
        "exponential",
        epsilon=50.0,
        y_bounds=None,
        record_score=lambda y_true, y_pred: np.abs(y_true - y_pred) > 1,
    )
    search.fit(X, Y)  # the worse fit has the larger score
    assert search.best_index_ == 1
    assert {DECLARED, DECLARED_SCORE} <= set(search.certificate_.provisos)
    assert search.certificate_.private


def fails(y_true, y_pred):
    warnings.warn(f"secret {y_true[0]}", stacklevel=1)
    raise KeyError(f"secret {y_true[0]}")


def test_failing_scores_of_private_records_tell_nothing():
    search = private_search(known(), ALPHAS, "exponential", record_score=fails)
    with pytest.raises(
        ValueError, match=r"held-out records failed\. The reason is not"
    ) as caught:
        search.fit(X, Y)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
    search.set_params(record_score=lambda y_true, y_pred: 1.0)
    with pytest.raises(ValueError, match=r"for each of the 60 records; .* shape \(\)"):
        search.fit(X, Y)


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
    for selection in ("exponential", "random-stopping"):
        with PrivacyLedger(9.0) as ledger, pytest.raises(IncompatibleError):
            private_search(ridge, ALPHAS, selection).fit(X, Y)
        assert ledger.releases == ()


# ----------------------------------------------------------- random stopping


def test_random_stopping_costs_three_times_one_run_charged_at_first():
    search = private_search(
        PrivateRidge(sensitivity=CHEAP, epsilon=0.1, gamma=0.04),
        {"alpha": [1e-3, 1.0, 1e6]},
        "random-stopping",
        epsilon=0.1,
        n_runs=4,
    )
    with PrivacyLedger(1.0) as ledger:
        search.fit(X, Y, **PUBLIC)
    certificate = search.certificate_
    assert (certificate.epsilon, certificate.risk, certificate.delta) == (0.3, 0.12, 0)
    assert (certificate.randomness, certificate.method) == (
        "implicit",
        "random-stopping",
    )
    assert (certificate.relation, certificate.n_releases) == ("replace-one", 1)
    assert certificate.private
    (entry,) = ledger.releases
    assert entry.certificate == dataclasses.replace(certificate, provisos=())
    assert "fewer" not in str(entry.certificate)
    assert all("table" in text for text in certificate.provisos)


def test_known_sensitivities_have_no_risk_to_add_up():
    search = private_search(known(), {"alpha": [1.0] * 30}, "random-stopping", n_runs=2)
    certificate = search.fit(X, Y, **PUBLIC).certificate_
    assert (certificate.epsilon, certificate.risk) == (3.0, 0.0)
    assert certificate.provisos == (DECLARED,)


def test_random_stopping_that_does_not_fit_makes_no_run():
    search = private_search(Constant(), {"value": [0.0]}, "random-stopping", gamma=0.0)
    with PrivacyLedger(2.9) as ledger, pytest.raises(BudgetExceededError):
        search.fit(X, Y)
    assert Constant.seen == []
    assert ledger.releases == ()
    assert not [name for name in vars(search) if name.endswith("_")]


@pytest.mark.parametrize(
    ("ridge", "error", "message"),
    [
        (known(epsilon=1.5), ValueError, "a candidate asks for 1.5"),
        (PrivateRidge(gamma=0.4), ValueError, "risks add up to 1.2"),
        (PrivateRidge(gamma=0.41), ValueError, "one asks for 0.41"),
        (
            PrivateRidge(
                gamma=0.1,
                sensitivity=SensitivitySampler(
                    randomness="explicit", sensitivity=1.0, mechanism="gaussian"
                ),
            ),
            IncompatibleError,
            "randomness='explicit'",
        ),
        (
            PrivateRidge(sensitivity=SensitivitySampler(randomness="both")),
            IncompatibleError,
            "a risk over the noise",
        ),
        (
            PrivateRidge(
                sensitivity=SensitivitySampler(mechanism="gaussian", delta=1e-5)
            ),
            IncompatibleError,
            "delta=1e-05",
        ),
    ],
)
def test_candidates_that_random_stopping_does_not_hold_for_are_refused(
    ridge, error, message
):
    search = private_search(
        ridge, {"alpha": [0.1, 1.0, 10.0]}, "random-stopping", gamma=0.4
    )
    with PrivacyLedger(9.0) as ledger, pytest.raises(error, match=message):
        search.fit(X, Y, **PUBLIC)
    assert ledger.releases == ()


BAD_RUNS = {
    "level": (0.6, BudgetExceededError, "0.6"),
    "delta": ((0.1, 1e-9), BudgetExceededError, "delta"),
    "risk": (
        Certificate(0.1, risk=0.01, randomness="implicit"),
        IncompatibleError,
        "a risk that does not follow from its parameters",
    ),
    "failure": (
        Certificate(0.1, failure_prob=0.01, randomness="implicit"),
        IncompatibleError,
        "a risk that does not follow from its parameters",
    ),
    "noise": (Certificate(0.1, risk=0.01), IncompatibleError, "over the noise"),
    "leak": (Certificate(0.1, leaks=("A leak.",)), IncompatibleError, "A leak."),
    "void": (
        Certificate(0.1, void_reasons=("Void.",)),
        IncompatibleError,
        "Void.",
    ),
    "relation": (
        Certificate(0.1, relation="add-remove"),
        IncompatibleError,
        "relation='add-remove' instead of 'replace-one'",
    ),
}


@pytest.mark.parametrize("name", BAD_RUNS)
def test_runs_are_held_to_what_one_run_may_spend(name):
    """Also those of estimators whose parameters do not tell."""
    level, error, message = BAD_RUNS[name]
    search = private_search(
        Constant(), {"level": [level]}, "random-stopping", epsilon=0.5, gamma=0.1
    )
    with pytest.raises(error, match=message):
        search.fit(X, Y)
    assert not [name for name in vars(search) if name.endswith("_")]


def test_relation_that_parameters_do_not_tell_is_replace_one():
    """The total says so, and a run with another relation is refused."""
    level = Certificate(0.1, relation="add-remove")
    search = private_search(Constant(), {"level": [level]}, "random-stopping")
    with pytest.raises(IncompatibleError, match="instead of 'replace-one'"):
        search.fit(X, Y, **PUBLIC)
    search.set_params(param_grid={"level": [0.1]}).fit(X, Y, **PUBLIC)
    assert search.certificate_.relation == "replace-one"


def test_candidates_with_a_risk_have_one_private_part():
    """Another one draws new noise in each run, to which pairs are sampled anew."""
    response = RandomizedResponseTransformer(0.5, categories=[[0.0, 1.0]] * 2)
    search = private_search(
        make_pipeline(response, PrivateRidge(sensitivity=CHEAP, epsilon=0.5)),
        {},
        "random-stopping",
        n_runs=2,
    )
    records = (X > 0) * 1.0, Y
    public = {"X_reference": (X_PUBLIC > 0) * 1.0, "y_reference": Y_PUBLIC}
    with PrivacyLedger(9.0) as ledger:
        with pytest.raises(IncompatibleError, match="2 private parts"):
            search.fit(*records, **public)
        assert ledger.releases == ()
    search.set_params(estimator__privateridge__sensitivity=0.1)
    assert search.fit(*records).certificate_.risk == 0


class Restless(PrivateRidge):
    """Samples other pairs in each run, whatever it is told."""

    seeds = itertools.count()

    def fit(self, X, y, *, X_reference=None, y_reference=None):
        self.random_state = next(Restless.seeds)
        public = {"X_reference": X_reference, "y_reference": y_reference}
        return super().fit(X, y, **public)


def test_runs_of_a_candidate_with_a_risk_are_calibrated_alike():
    search = private_search(
        Restless(sensitivity=CHEAP), {}, "random-stopping", n_runs=10**6
    )
    with pytest.raises(IncompatibleError, match="not calibrated alike"):
        search.fit(X, Y, **PUBLIC)
    search.set_params(estimator=PrivateRidge(sensitivity=CHEAP), n_runs=20)
    assert search.fit(X, Y, **PUBLIC).certificate_.risk == 0.05


class Threaded(Constant):
    """Releases in a thread, where outer ledgers are not suspended."""

    __module__ = "skparisk.made_up"

    def fit(self, X, y):
        thread = threading.Thread(target=super().fit, args=(X, y))
        thread.start()
        thread.join()
        return self


def test_open_ledgers_do_not_learn_how_many_runs_there_were():
    search = private_search(Threaded(), {}, "random-stopping", n_runs=10**6)
    for _ in range(3):
        Constant.seen.clear()
        with PrivacyLedger(math.inf) as ledger:
            with pytest.raises(IncompatibleError, match="tell how many there were"):
                search.fit(X, Y)
            assert len(ledger.releases) == 2  # the total, and the first run
        assert len(Constant.seen) == 1
    search.set_params(n_runs=3).fit(X, Y)  # counted without a ledger that would tell
    assert search.certificate_.epsilon == 3.0


class Failing(Constant):
    """Fails in the third run."""

    __module__ = "skparisk.made_up"
    error = None

    def fit(self, X, y, X_reference=None, y_reference=None):
        super().fit(X, y)
        kept.append(weakref.ref(self))
        if len(kept) == 3:
            raise Failing.error()
        return self


kept: list = []


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (lambda: ValueError("few records"), ValueError, "few records"),
        (lambda: IncompatibleError("other"), IncompatibleError, "other"),
        (lambda: KeyError("column"), ValueError, "failed with KeyError: 'column'"),
        (lambda: AttributeError(obj=kept[0]()), ValueError, "with AttributeError"),
        (KeyboardInterrupt, KeyboardInterrupt, "^$"),
        (
            lambda: BudgetExceededError("none left", (1, 0, 0), (1, 0, 0), 0.0),
            BudgetExceededError,
            "none left",
        ),
    ],
)
def test_errors_of_later_runs_hold_nothing_of_earlier_ones(error, kind, message):
    kept.clear()
    Failing.error = error
    search = private_search(Failing(), {}, "random-stopping", n_runs=10**6)
    with pytest.raises(kind, match=message) as caught:
        search.fit(X, Y, **PUBLIC)
    assert type(caught.value) is kind
    assert caught.value.__context__ is None
    Constant.seen.clear()
    gc.collect()
    assert [model() for model in kept] == [None] * 3


def test_without_noise_deltas_are_refused_all_the_same():
    search = private_search(
        Constant(), {"level": [(1.0, 0.1)]}, "random-stopping", epsilon=math.inf
    )
    with pytest.raises(IncompatibleError, match="a delta"):
        search.fit(X, Y)


def test_all_runs_of_a_candidate_sample_the_same_pairs():
    search = private_search(
        Constant(), {"value": [0.0, 1.0]}, "random-stopping", n_runs=40, gamma=0.0
    )
    seeds = {}
    while set(seeds) != {0.0, 1.0}:  # one search in twenty tries one of them only
        Constant.seen.clear()
        search.fit(X, Y, **PUBLIC)
        seeds = {model.value: set() for model, *_ in Constant.seen}
        for model, *_ in Constant.seen:
            seeds[model.value].add(model.random_state)
    assert [len(numbers) for numbers in seeds.values()] == [1, 1]
    assert None not in set.union(*seeds.values())
    assert all(model.verbose == 0 for model, *_ in Constant.seen)


def test_runs_do_not_warn_and_seeds_are_told_once():
    search = private_search(
        known(noise_random_state=1), ALPHAS, "random-stopping", n_runs=9
    )
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state=1") as caught:
        search.fit(X, Y)
    assert len(caught) == 1
    assert search.certificate_.void_reasons == (SEEDED,)
    for parameters in ({"noise_random_state": 2}, {"epsilon": math.inf}):
        search = private_search(known(), ALPHAS, "random-stopping", n_runs=9)
        search.set_params(**parameters)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(X, Y)
        assert len(caught) == (parameters.get("noise_random_state") is not None)
        assert search.certificate_.void


def test_the_best_run_by_public_scores_is_kept():
    """Of equals the first: nothing else tells them apart."""

    def score(model, X, y):
        return {0: math.nan, 1: 1.0, 2: 1.0, 3: -math.inf}[model.value]

    search = private_search(
        Constant(), {"value": [0, 1, 2, 3]}, "random-stopping", scoring=score, gamma=0.0
    )
    for _ in range(20):
        Constant.seen.clear()
        search.fit(X, Y, **PUBLIC)
        runs = [model.value for model, *_ in Constant.seen]
        best = [value for value in runs if value in (1, 2)] or runs
        assert search.best_index_ == search.best_estimator_.value == best[0]


def rejects(count, trials, probability):
    return stats.binomtest(count, trials, probability).pvalue < FALSE_ALARM


def test_number_of_runs_is_geometric_and_candidates_are_uniform():
    search = private_search(
        Constant(), {"value": [0, 1, 2, 3]}, "random-stopping", n_runs=4, gamma=0.0
    )
    tried, runs = [], []
    for _ in range(200):
        Constant.seen.clear()
        search.fit(X[:10], Y[:10], **PUBLIC)
        tried += [model.value for model, *_ in Constant.seen]
        runs.append(len(Constant.seen))
    for k in (1, 2, 3):  # it stops after each run with a probability of 1/4
        reached = sum(number >= k for number in runs)
        assert not rejects(runs.count(k), reached, 1 / 4)
    for count in (len(runs), tried.count(0)):
        assert not rejects(count, len(tried), 1 / 4)
        assert rejects(count, len(tried), 0.12)
        assert rejects(count, len(tried), 0.42)
    Constant.seen.clear()
    search.set_params(n_runs=1).fit(X, Y, **PUBLIC)
    assert len(Constant.seen) == 1


def test_default_runs_try_a_candidate_with_the_probability_that_is_told():
    """n candidates, a mean of 10 n runs: missed with (n - 1) / (10 n + n - 1)."""
    for n in (1, 2, 20):
        stop = 1 / (10 * n)
        k = np.arange(1, 5000 * n)
        missed = (stop * (1 - stop) ** (k - 1) * (1 - 1 / n) ** k).sum()
        assert missed == pytest.approx((n - 1) / (11 * n - 1), abs=1e-9)
        assert missed < 1 / 11
    search = private_search(
        Constant(), {"value": [0, 1]}, "random-stopping", gamma=0, noise_random_state=0
    )
    runs = []
    for seed in range(40):
        Constant.seen.clear()
        with pytest.warns(PrivacyLeakWarning):
            search.set_params(noise_random_state=seed).fit(X[:10], Y[:10], **PUBLIC)
        runs.append(len(Constant.seen))
    assert 12 < np.mean(runs) < 32  # of mean 20 and standard deviation 19.5


def best_of_runs(law, stop):
    """Law of the best of a geometric number of runs; results in the order of scores."""
    at_most = law.cumsum()
    below = at_most - law
    return law * stop / ((1 - (1 - stop) * at_most) * (1 - (1 - stop) * below))


def largest_loss(laws):
    return max(np.abs(np.log(p / q)).max() for p, q in itertools.combinations(laws, 2))


@pytest.mark.parametrize("stop", [0.01, 0.2, 1.0])
def test_law_of_the_best_run_is_the_one_of_the_proof(stop):
    """Against the sum over the number of runs; no loss is above three levels."""
    up = np.exp(0.4 * np.random.default_rng(0).random((300, 6)))
    laws = up / up.sum(axis=1, keepdims=True)
    k = np.arange(1, 4000)
    at_most = laws[0].cumsum()
    powers = at_most[:, None] ** k - (at_most - laws[0])[:, None] ** k
    expected = powers @ (stop * (1 - stop) ** (k - 1))
    np.testing.assert_allclose(best_of_runs(laws[0], stop), expected, atol=1e-9)
    results = [best_of_runs(law, stop) for law in laws]
    assert largest_loss(results) <= 3 * largest_loss(laws) + 1e-12


def test_three_levels_are_nearly_lost():
    """A result that is rare among good ones, which are rare among all but not runs."""
    level = 0.5
    rare, good = 1e-8, 1e-4
    one = np.array([1 - rare - good, rare, good])
    moved = np.array([rare * math.exp(level), good * math.exp(-level)])
    other = np.array([1 - moved.sum(), *moved])
    assert largest_loss([one, other]) == pytest.approx(level)
    results = [best_of_runs(law, 1e-8) for law in (one, other)]
    assert 2.99 * level < largest_loss(results) <= 3 * level


def test_three_levels_is_what_google_accounts_for():
    event = pytest.importorskip("dp_accounting.dp_event")
    rdp = pytest.importorskip("dp_accounting.rdp")
    for epsilon, mean in itertools.product((0.1, 1.0), (4, 100)):
        accountant = rdp.RdpAccountant(orders=[1e6, 1e9])
        run = event.LaplaceDpEvent(1 / epsilon)
        accountant.compose(event.RepeatAndSelectDpEvent(run, mean=mean, shape=1))
        theirs = accountant.get_epsilon(1e-12)
        search = private_search(
            Constant(level=epsilon), {"value": [0]}, "random-stopping", epsilon=epsilon
        )
        ours = search.set_params(gamma=0.0, n_runs=2).fit(X, Y).certificate_.epsilon
        assert ours == pytest.approx(theirs, rel=1e-3)


def test_what_a_fit_would_take_from_private_data_is_refused_by_random_stopping():
    """Its calibration is to be one thing, for neighbors as well."""
    own = SensitivitySampler(
        reference=TableReference(X_PUBLIC, Y_PUBLIC > 0), n_pairs=40
    )
    labels = Y > 0
    cases = [
        (PrivateRidge(), Y, True),
        (PrivateRidge(sensitivity=SensitivitySampler()), Y, True),
        (SensitivitySampler(), Y, True),
        (PrivateLogisticRegression(sensitivity=1.0), labels, True),
        (PrivateLogisticRegression(sensitivity=1.0, classes=[0, 1]), labels, False),
        (PrivateLogisticRegression(sensitivity=own, gamma=0.05), labels, False),
    ]
    for estimator, targets, refused in cases:
        search = PrivateGridSearchCV(
            estimator,
            {"epsilon": [1.0]},
            selection="random-stopping",
            n_runs=2,
            y_bounds=BOUNDS,
            record_score=lambda y_true, y_pred: y_true == y_pred,
        )
        if refused:
            with pytest.raises(ValueError, match="X_reference must be given"):
                search.fit(X, targets)
        else:
            assert search.fit(X, targets).certificate_.private
    with pytest.raises(ValueError, match="X_reference must be public"):
        private_search(known(), ALPHAS, "random-stopping").fit(
            X, Y, X_reference=X.copy(), y_reference=Y
        )


@pytest.mark.parametrize(
    ("epsilon", "n_runs", "least", "most"), [(50.0, 40, 14, 20), (1e-6, 4, 1, 19)]
)
def test_noisy_scores_tell_candidates_apart_as_far_as_the_level_allows(
    epsilon, n_runs, least, most
):
    search = private_search(
        Label(level=1e-6),
        {"value": [0, 1]},
        "random-stopping",
        epsilon=epsilon,
        gamma=0.0,
        n_runs=n_runs,
    )
    right = [search.fit(X[:20], np.zeros(20)).best_index_ == 0 for _ in range(20)]
    assert least <= sum(right) <= most


# ---------------------------------------------------------------- the shell


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("selection", "best"),
        ("epsilon", 0),
        ("gamma", 1.0),
        ("gamma", True),
        ("scoring", ["r2"]),
        ("record_score", "accuracy"),
        ("y_bounds", (1, 0)),
        ("holdout", 1.0),
        ("n_runs", 0),
        ("n_jobs", 0),
        ("verbose", "much"),
        ("random_state", "seed"),
        ("noise_random_state", "seed"),
        ("param_grid", {"alphas": [1.0]}),
        ("param_grid", {"value": []}),
    ],
)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_bad_parameters_are_refused_before_a_fit(name, value, selection):
    search = private_search(Constant(), {"value": [0.0]}, selection)
    search.set_params(**{name: value})
    with pytest.raises(ValueError, match=name.replace("param_grid", "value|alphas")):
        search.fit(X, Y, **PUBLIC)
    assert Constant.seen == []


def test_what_records_are_scored_by_must_be_given():
    for selection in ("exponential", "random-stopping"):
        for bounds in (None, (1.0, 1.0)):
            with pytest.raises(ValueError, match="y_bounds must be"):
                private_search(Constant(), {}, selection, y_bounds=bounds).fit(X, Y)
        with pytest.raises(ValueError, match="record_score must be given"):
            private_search(PrivateKernelDensity(), {}, selection).fit(X)
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


class Fill(TransformerMixin, BaseEstimator):
    """Looks at each value by itself, and has nothing to learn."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.nan_to_num(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        return tags


def test_missing_values_are_left_to_estimators_that_take_them():
    for selection in SELECTIONS:
        search = private_search(
            make_pipeline(Fill(), known()), {"privateridge__alpha": [1.0]}, selection
        )
        certificate = search.fit(WITH_GAPS, Y, **PUBLIC).certificate_
        assert certificate.provisos == (DECLARED,)
        assert certificate.private  # nothing else learned anything


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_reference_of_text_is_compared_as_a_whole(selection):
    """There are no hashes of records that are not numbers."""
    search = private_search(Constant(), {"value": [0.0]}, selection)
    words = np.array(["ash", "beech", "cedar"])[np.arange(600).reshape(300, 2) % 3]
    with pytest.raises(
        ValueError, match="must not share records with the training data"
    ):
        search.fit(words, Y, X_reference=words.copy(), y_reference=Y)
    assert Constant.seen == []
    search.fit(words, Y, X_reference=words[::2], y_reference=Y[::2])
    assert search.certificate_.private


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
    *("error_score", "pre_dispatch", "refit", "return_train_score"),
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
@pytest.mark.parametrize("reference", [PUBLIC, {}])
@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_nothing_else_is_kept(selection, reference):
    frame = pd.DataFrame(X, columns=["a", "b"])
    if reference:
        reference = reference | {
            "X_reference": pd.DataFrame(X_PUBLIC, columns=["a", "b"])
        }
    search = private_search(known(), ALPHAS, selection).fit(frame, Y, **reference)
    shown = {"best_score_", "cv_results_"} if selection == "reference" else set()
    expected = PARAMETERS | FITTED | {"feature_names_in_"}
    assert set(vars(search)) == expected | (shown if reference else set())
    assert list(search.feature_names_in_) == ["a", "b"]
    copied = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(copied.predict(frame), search.predict(frame))
    assert copied.certificate_ == search.certificate_


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


@pytest.mark.parametrize("selection", SELECTIONS)
def test_seeded_searches_repeat(selection):
    search = private_search(
        PrivateRidge(sensitivity=CHEAP, random_state=0, noise_random_state=0),
        {"alpha": [0.1, 1.0, 10.0]},
        selection,
        noise_random_state=0,
        gamma=0.06,
        n_runs=3,
    )
    fits = []
    for _ in range(2):
        with pytest.warns(PrivacyLeakWarning, match="noise_random_state=0"):
            fits.append(clone(search).fit(X, Y, **PUBLIC))
    one, other = fits
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert one.certificate_ == other.certificate_
    assert one.certificate_.void_reasons == (SEEDED,)


def test_a_search_is_what_its_estimator_is():
    labels = np.where(Y > 0, "above", "below")
    model = PrivateLogisticRegression(sensitivity=0.1, classes=["above", "below"])
    for selection in SELECTIONS:
        search = private_search(model, {"C": [0.1, 1.0]}, selection, scoring="accuracy")
        search.fit(
            X, labels, X_reference=X_PUBLIC, y_reference=np.where(Y_PUBLIC > 0, *KINDS)
        )
        assert isinstance(search, GridSearchCV)
        assert search.classes_.tolist() == ["above", "below"]
        assert search.n_features_in_ == 2
        assert search.predict_proba(X).shape == (300, 2)
        assert search.score(X, labels) == (search.predict(X) == labels).mean()
        assert search.get_params()["estimator__C"] == 1.0
        assert "PrivateLogisticRegression" in search._repr_html_()
        assert sklearn.base.is_classifier(search)


KINDS = ("above", "below")


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
    ridge = PrivateRidge(sensitivity=CHEAP)
    scaler = FrozenEstimator(StandardScaler().fit(1000 * X_PUBLIC))
    search = private_search(
        make_pipeline(scaler, ridge),
        {"privateridge__alpha": [1e-3, 1e6]},
        selection,
        epsilon=3.0,
        gamma=0.05,
        n_runs=6,
    )
    search.fit(1000 * X, Y, X_reference=1000 * X_PUBLIC, y_reference=Y_PUBLIC)
    assert search.certificate_.private
    assert search.best_estimator_[-1].noise_scale_ < 1


class Duck:
    """Of no base class, so that nothing is known of it."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


RESPONSE = RandomizedResponseTransformer(categories=[[0, 1]] * 2)

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


@pytest.mark.parametrize("name", LEARNING)
def test_parts_that_may_hold_what_they_learned_are_noticed(name):
    assert Candidate({}, LEARNING[name]).learns_more


@pytest.mark.parametrize("name", HARMLESS)
def test_parts_that_have_nothing_to_learn_are_no_leak(name):
    assert not Candidate({}, HARMLESS[name]).learns_more


@pytest.mark.parametrize("name", ["scaler", "ensemble", "targets", "function"])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_parts_without_noise_are_a_leak_that_is_told(selection, name):
    records = (X > 0).astype(float) if name == "targets" else X
    search = private_search(LEARNING[name], {}, selection)
    with PrivacyLedger(math.inf) as ledger:
        if selection == "random-stopping":
            with pytest.raises(IncompatibleError, match="a leak"):
                search.fit(records, Y, **PUBLIC)
            assert ledger.releases == ()
            return
        public = {"X_reference": (X_PUBLIC > 0) * 1.0, "y_reference": Y_PUBLIC}
        with pytest.warns(PrivacyLeakWarning, match="not from skparisk") as caught:
            search.fit(records, Y, **(public if name == "targets" else PUBLIC))
    assert len(caught) == 1
    assert not search.certificate_.private
    assert search.certificate_.leaks == ledger.spent.leaks == (LEARNS_MORE,)
    assert search.certificate_.epsilon == 1.0
    # The scores are public all the same.
    assert hasattr(search, "cv_results_") == (selection == "reference")


def test_only_the_candidate_that_is_fitted_may_leak_by_reference():
    grid = {"standardscaler": ["passthrough"]}
    search = private_search(LEARNING["scaler"], grid, "reference")
    assert search.fit(X, Y, **PUBLIC).certificate_.private


def test_samplers_that_sample_the_private_data_say_so_on_the_certificate():
    search = private_search(PrivateRidge(sensitivity=CHEAP), ALPHAS, "exponential")
    with pytest.warns(PrivacyLeakWarning, match="private data themselves"):
        search.fit(X, Y)
    assert search.certificate_.leaks == (PRIVATE_REFERENCE,)


def test_tags_tell_of_noise():
    def tag(search):
        return sklearn.utils.get_tags(search).non_deterministic

    seeded = known(noise_random_state=0)
    assert tag(private_search(known(), ALPHAS, "reference"))
    assert not tag(private_search(seeded, ALPHAS, "reference"))
    assert tag(private_search(seeded, ALPHAS, "exponential"))
    assert not tag(private_search(seeded, ALPHAS, "exponential", noise_random_state=0))


# ------------------------------------------------------- what a search spent


def around(search):
    """Return what a ledger counts of a search, and what its certificate says."""
    with PrivacyLedger(math.inf) as ledger:
        search.fit(X, Y)
    return ledger.spent, search_certificate(search)


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_count_of_a_search_is_what_a_ledger_counts():
    grid = {"alpha": [0.1, 1.0], "epsilon": [0.1, 0.3]}
    pipeline = make_pipeline(StandardScaler(), known())
    own = SensitivitySampler(n_pairs=40, reference=TableReference(X_PUBLIC, Y_PUBLIC))
    explicit = SensitivitySampler(randomness="explicit", sensitivity=0.1)
    searches = [
        GridSearchCV(known(), grid, cv=3, refit=False),
        GridSearchCV(pipeline, {"privateridge__epsilon": [0.1, 0.3]}, cv=3),
        RandomizedSearchCV(known(), grid, n_iter=2, cv=2, random_state=0),
        GridSearchCV(PrivateRidge(sensitivity=explicit), {"gamma": [0.1, 0.2]}, cv=2),
        GridSearchCV(PrivateRidge(sensitivity=own), {"gamma": [0.1, 0.2]}, cv=2),
    ]
    for search in searches:
        spent, counted = around(search)
        assert counted.epsilon == spent.epsilon
        assert counted.n_releases == spent.n_releases
        assert spent.risk <= counted.risk
        assert (spent.risk > 0) == (counted.risk > 0)
        assert counted.delta == spent.delta
        assert counted.leaks == ((LEARNS_MORE,) if search is searches[1] else ())
        assert counted.void
        assert "without noise" in counted.guarantee
    assert spent.risk > 0.5
    assert counted.risk in (0.7, 0.8)  # 2 folds of 0.1 and 0.2, and the best


class Half:
    """A rule of one's own, of which half of all pairs may exceed the level."""

    name = "half"
    failure_prob = 0.0
    void_reasons = ()

    def order_index(self, n_pairs, gamma):
        return n_pairs // 2

    def certify_risk(self, n_pairs, order_index):
        return 0.5


def test_a_rule_of_ones_own_counts_with_the_risk_that_it_certifies():
    sampler = SensitivitySampler(n_pairs=40, calibration=Half())
    found = declared_certificate(PrivateRidge(gamma=0.1, sensitivity=sampler))
    assert found.risk == 0.5
    assert "(half)" in found.provisos[0]
    assert declared_certificate(PrivateRidge(gamma=0.1)).provisos == ()


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
        return of(randomness="explicit", sensitivity=1.0, **parameters).set_params(
            gamma=gamma
        )

    for gamma, parameters in [
        (0.1, {}),
        (0.1, {"calibration": "pac"}),
        (0.6, {"mechanism": "exponential"}),
    ]:
        assert level(of_known(gamma, **parameters)) == pure
    for gamma, parameters in [
        (0.6, {}),
        (0.1, {"mechanism": "gaussian"}),
        (0.1, {"calibration": DandekarTheorem4()}),
    ]:
        expected = (0.5, 0.0, gamma, 0.0, "explicit", one)
        assert level(of_known(gamma, **parameters)) == expected
    assert level(of_known(0.1, delta=0.01)) == (
        *(0.5, 0.01, 0.0, 0.0, None),
        one,
    )
    assert level(of(relation="add-remove"))[-1] == "add-remove"
    assert level(known(epsilon=0.5)) == pure
    bound = PrivateRidge(epsilon=0.5, sensitivity="bound", x_norm=1, y_bounds=(0, 1))
    assert level(bound) == pure
    assert declared_certificate(bound).provisos == ()
    assert level(RandomizedResponseTransformer(0.5)) == pure
    assert level(SensitivitySampler(epsilon=0.5, gamma=0.1)) == implicit
    frozen = FrozenEstimator(SensitivitySampler(randomness="both"))
    assert level(PrivateRidge(sensitivity=frozen))[4] == "both"
    wrapped = PrivateEstimator(known(), epsilon=0.5, gamma=0.1)  # what is inside is not
    assert level(wrapped) == implicit
    two = make_pipeline(RandomizedResponseTransformer(0.25), known(epsilon=0.25))
    assert level(two) == pure
    for seeded in (
        known(noise_random_state=0),
        of(noise_random_state=0),
        RandomizedResponseTransformer(noise_random_state=0),
    ):
        assert declared_certificate(seeded).void_reasons == (SEEDED,)
    assert declared_certificate(of(calibration=DandekarTheorem5())).void
    assert declared_certificate(known(epsilon=math.inf)).void_reasons == (NO_NOISE,)
    for unclear in (
        Ridge(),
        BaggingRegressor(known()),
        make_pipeline(private_search(known(), ALPHAS, "reference")),
        make_pipeline(FrozenEstimator(known())),
    ):
        assert declared_certificate(unclear) is None


def test_searches_that_cannot_be_counted_are_refused():
    with pytest.raises(IncompatibleError, match="search must wrap a private estimator"):
        search_certificate(GridSearchCV(Ridge(), {}, cv=2).fit(X, Y))
    private = private_search(known(), ALPHAS, "reference").fit(X, Y, **PUBLIC)
    with pytest.raises(ValueError, match="has its own certificate_"):
        search_certificate(private)
    with pytest.raises(ValueError, match="must be a fitted search"):
        search_certificate(Ridge().fit(X, Y))
    with pytest.raises(sklearn.exceptions.NotFittedError):
        search_certificate(GridSearchCV(known(), {}))
    search = GridSearchCV(known(), {"alpha": [0.1, 1.0]}, cv=2).fit(X, Y)
    search.set_params(estimator__alpha=2.0)  # which is no part of the count
    assert search_certificate(search).epsilon == 5.0
    search.estimator.set_params(epsilon=1e-6)
    with pytest.raises(ValueError, match="the estimator that it was fitted with"):
        search_certificate(search)


# ------------------------------------------------------ scikit-learn's checks


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        private_search(
            known(noise_random_state=0),
            {"alpha": [0.1, 1.0]},
            selection,
            cv=2,
            noise_random_state=0,
        )
        for selection in SELECTIONS
    ]
    + [
        PrivateGridSearchCV(
            PrivateLogisticRegression(sensitivity=1.0, noise_random_state=0),
            {"C": [0.1, 1.0]},
            selection=selection,
            cv=2,
            random_state=0,
            noise_random_state=0,
        )
        for selection in ("reference", "exponential")
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
