"""What estimators and searches spend, told from their parameters."""

import math

import pytest
import sklearn
from searches import ALPHAS, PUBLIC, X_PUBLIC, Y_PUBLIC, X, Y, known, private_search
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skparisk import (
    IncompatibleError,
    KnownSensitivity,
    PrivateEstimator,
    PrivateMoments,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.core import Assumption, Leak, words
from skparisk.ledger import PrivacyLedger
from skparisk.model_selection import search_certificate
from skparisk.model_selection._levels import declared_certificate
from skparisk.preprocessing import RandomizedResponseTransformer
from skparisk.reference import TableReference

INFINITE, void_reasons = words().INFINITE, words().void_reasons


def around(search):
    """Return what a ledger counts of a search, and what its certificate says."""
    with PrivacyLedger(math.inf) as ledger:
        search.fit(X, Y)
    return ledger.spent, search_certificate(search)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_count_of_a_search_is_what_a_ledger_counts():
    grid = {"alpha": [0.1, 1.0], "epsilon": [0.1, 0.3]}
    pipeline = make_pipeline(StandardScaler(), known())
    own = SensitivitySampler(n_pairs=40, reference=TableReference(X_PUBLIC, Y_PUBLIC))
    explicit = KnownSensitivity(0.1)
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
        learns_more = {Leak.LEARNS_MORE} if search is searches[1] else set()
        assert counted.leaks == {Leak.NOISELESS_CHOICE} | learns_more
        assert counted.void
        assert "without noise" in counted.guarantee
    assert spent.risk > 0.5
    assert counted.risk in (0.7, 0.8)  # 2 folds of 0.1 and 0.2, and the best


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
    assert level(bound.set_params(solver="coefficients")) == pure
    moments = PrivateMoments(epsilon=0.5, sensitivity="bound")
    assert level(moments) == pure
    for estimator, told in [
        (bound, Assumption.DECLARED_LEVEL),
        (PrivateRidge(gamma=0.1), Assumption.PUBLIC_REFERENCE),
        (known(), Assumption.DECLARED_SENSITIVITY),
    ]:
        assert declared_certificate(estimator).assumptions == {told}
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
        assert declared_certificate(seeded).leaks == {Leak.SEEDED_NOISE}
    assert void_reasons(declared_certificate(known(epsilon=math.inf))) == (INFINITE,)
    for unclear in (
        Ridge(),
        BaggingRegressor(known()),
        make_pipeline(private_search(known(), ALPHAS, "reference")),
        make_pipeline(FrozenEstimator(known())),
    ):
        assert declared_certificate(unclear) is None


@pytest.mark.filterwarnings("ignore:The parameters were chosen by scores")
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
