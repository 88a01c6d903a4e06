"""The shell of private searches: parameters, data, what is kept, what it wraps."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
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
    X,
    Y,
    known,
    private_search,
)
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk import (
    IncompatibleError,
    PrivacyLeakWarning,
    PrivateKernelDensity,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.core import Leak
from skparisk.ledger import PrivacyLedger
from skparisk.model_selection import PrivateGridSearchCV
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
