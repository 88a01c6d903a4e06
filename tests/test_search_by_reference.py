"""The choice by simulation: it is free, and looks at no pair that calibrates."""

import math

import numpy as np
import pytest
from scipy import sparse
from searches import (
    ALPHAS,
    CHEAP,
    PUBLIC,
    X_PUBLIC,
    Y_PUBLIC,
    Constant,
    X,
    Y,
    known,
    private_search,
)
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit

from skparisk import IncompatibleError, PrivateRidge, SensitivitySampler
from skparisk.core.compose import compose_basic
from skparisk.exceptions import BudgetExceededError
from skparisk.ledger import PrivacyLedger
from skparisk.reference import TableReference


@pytest.fixture(autouse=True)
def nothing_seen():
    Constant.seen.clear()


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
