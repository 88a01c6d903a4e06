"""Totals that were false, leaks, and what users met: each failed once."""

import os
import pickle
import re
import threading
import time
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_backend, parallel_config
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.preprocessing import QuantileTransformer
from sklearn.utils.validation import validate_data

from skparisk import (
    CalibrationError,
    IncompatibleError,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateEstimator,
    PrivateGridSearchCV,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.core.claim import as_certificate
from skparisk.core.compose import compose_basic
from skparisk.core.release import silenced
from skparisk.core.rounding import ceil_text

RNG = np.random.default_rng(8)
X = RNG.normal(size=(80, 2))
Y = X @ [1.0, -1.0] + RNG.normal(size=80)
LABELS = (Y > 0) * 1
X_PUBLIC = RNG.normal(size=(100, 2))
Y_PUBLIC = X_PUBLIC @ [1.0, -1.0] + RNG.normal(size=100)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
KNOWN = {"sensitivity": 1.0}


# Totals


@pytest.mark.filterwarnings("ignore:The classes were not declared but read off")
@pytest.mark.parametrize("backend", ["sequential", "threading"])
def test_bags_are_refused(backend):
    """Ten bags under a ledger of 10 had an exact loss of 19."""
    ridge = PrivateRidge(**KNOWN)
    with parallel_backend(backend, n_jobs=2):
        for kind, model, y in [
            (BaggingRegressor, ridge, Y),
            (
                BaggingClassifier,
                PrivateLogisticRegression(classes=[0, 1], **KNOWN),
                LABELS,
            ),
        ]:
            for bootstrap in (True, False):
                bagging = kind(model, n_estimators=4, n_jobs=2, bootstrap=bootstrap)
                with (
                    PrivacyLedger(10.0) as book,
                    pytest.raises(IncompatibleError, match="repeats or weighs records"),
                ):
                    bagging.fit(X, y)
                assert book.releases == ()


def test_boosting_ensembles_are_refused():
    classifier = PrivateLogisticRegression(classes=[0, 1], **KNOWN)
    for boosting, y in (
        (AdaBoostRegressor(PrivateRidge(**KNOWN)), Y),
        (AdaBoostClassifier(classifier), LABELS),
    ):
        with pytest.raises((IncompatibleError, ValueError), match=r"AdaB|sample_weig"):
            boosting.fit(X, y)


def test_ensembles_that_do_not_resample_are_not_refused():
    PrivateEstimator(
        RandomForestRegressor(3), "predict", X_public=X_PUBLIC[:5], **KNOWN
    ).fit(X, Y)
    ridges = [("one", PrivateRidge(**KNOWN)), ("two", PrivateRidge(**KNOWN))]
    with PrivacyLedger(10.0) as ledger:
        VotingRegressor(ridges).fit(X, Y)
    assert ledger.spent.epsilon == 2.0


def test_totals_say_that_each_release_sees_a_record_once():
    conditions = compose_basic([0.5, 0.5]).conditions
    assert any("sees a person's record once" in text for text in conditions)
    assert any("stratified" in text for text in conditions)
    one = PrivateRidge(**KNOWN).fit(X, Y).certificate_
    assert one.conditions == ()
    with PrivacyLedger(10.0) as ledger:
        cross_val_score(PrivateRidge(**KNOWN), X, Y, cv=KFold(3))
    assert "stratified" in str(ledger)


# Warnings of one thread


class Chatty(RegressorMixin, BaseEstimator):
    """Warns of a private number, also from within scikit-learn's own Parallel."""

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        warnings.warn(f"secret {y[0]}", UserWarning, stacklevel=1)
        self.coef_ = X.mean(axis=0)
        return self

    def predict(self, X):
        return X @ self.coef_


def test_threads_neither_show_private_warnings_nor_lose_public_ones():
    """Both happened, in 4 of 4 runs: catch_warnings is not for threads."""
    wait = threading.Barrier(2, timeout=600)

    class Slow(Chatty):
        def fit(self, X, y):
            if len(threading.enumerate()) > 1:
                wait.wait()
            return super().fit(X, y)

    def work():
        for _ in range(20):
            model = PrivateEstimator(Slow(), ("coef_",), sensitivity=1.0)
            model.fit(X, Y)

    with warnings.catch_warnings(record=True) as shown:
        warnings.resetwarnings()
        warnings.simplefilter("always")
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        PrivateRidge(sensitivity=SensitivitySampler(n_pairs=20)).fit(X, Y)
        warnings.warn("public", UserWarning, stacklevel=1)
    assert [w.category for w in shown] == [PrivacyLeakWarning, UserWarning]
    assert not re.search(r"secret -?\d", "".join(str(w.message) for w in shown))


def test_only_the_silenced_thread_is_silent():
    def warn_elsewhere():
        warnings.warn("elsewhere", UserWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with silenced():
            warnings.warn("here", UserWarning, stacklevel=1)
            with silenced():
                warnings.simplefilter("always")
            thread = threading.Thread(target=warn_elsewhere)
            thread.start()
            thread.join()
        warnings.warn("after", UserWarning, stacklevel=1)
    assert [str(w.message) for w in shown] == ["elsewhere", "after"]


def test_fits_that_copy_the_filters_are_silent_as_well():
    """scikit-learn sets them anew in each task of its Parallel."""
    forest = RandomForestRegressor(2, n_jobs=1)
    voting = VotingRegressor([("forest", forest), ("chatty", Chatty())])
    model = PrivateEstimator(voting, "predict", X_public=X_PUBLIC[:5], **KNOWN)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        model.fit(X, Y)
        cross_val_score(Chatty(), X, Y, cv=2)  # not private: as ever
    assert [str(w.message)[:6] for w in shown] == ["secret"] * 2


@pytest.mark.slow
def test_filters_can_be_sent_to_worker_processes():
    """They are as silent there as where they were sent."""
    with silenced():  # from now on its filter is there, as pytest has put it away
        inside = pickle.loads(pickle.dumps(warnings.filters))
    outside = pickle.loads(pickle.dumps(warnings.filters))
    assert inside[0][1].match("anything")
    assert not outside[0][1].match("anything")
    assert inside[1:] == outside[1:] == list(warnings.filters)[1:]
    scores = cross_val_score(Lasso(), X, Y, cv=2, n_jobs=2)
    assert np.isfinite(scores).all()


def whereabouts():
    time.sleep(0.01)  # long enough for other workers to take a task
    return os.getpid(), threading.get_ident()


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_what_is_silenced_does_not_share_its_work(backend):
    """Other threads and processes would show their warnings."""
    tasks = [delayed(whereabouts)() for _ in range(4)]
    with parallel_config(backend=backend, n_jobs=2):
        with silenced():
            for hints in ({}, {"n_jobs": 2}, {"n_jobs": 2, "prefer": "threads"}):
                assert set(Parallel(**hints)(tasks)) == {whereabouts()}
        assert whereabouts() not in Parallel()(tasks)  # as ever


def test_private_fits_that_joblib_is_told_to_spread_are_silent():
    voting = VotingRegressor([("one", Chatty()), ("other", Chatty())])
    model = PrivateEstimator(voting, "predict", X_public=X_PUBLIC[:5], **KNOWN)
    with (
        warnings.catch_warnings(record=True) as shown,
        parallel_config(backend="threading", n_jobs=2),
    ):
        warnings.simplefilter("always")
        model.fit(X, Y)
    assert shown == []


# Messages


class Failing(RegressorMixin, BaseEstimator):
    def __init__(self, often=False, above=0.0):
        self.often = often
        self.above = above

    def fit(self, X, y):
        if self.often or y[0] > self.above:
            raise RuntimeError(f"secret {y[0]}")
        self.coef_ = X.mean(axis=0)
        return self

    def predict(self, X):
        return X @ self.coef_


def assert_no_secret(error):
    while error is not None:
        assert "secret" not in str(error)
        error = error.__cause__ or error.__context__


def test_without_a_reference_an_error_shows_nothing_and_comes_after_the_warning():
    """Of made-up records the reason is shown; of pairs, where some fail, it is not."""
    model = PrivateEstimator(Failing(often=True), ("coef_",), gamma=0.1, random_state=0)
    with (
        pytest.warns(PrivacyLeakWarning, match="private data themselves"),
        pytest.raises(ValueError, match="cannot be fitted to made-up records"),
    ):
        model.fit(X, Y)
    model = PrivateEstimator(Failing(above=2.0), ("coef_",), gamma=0.1, random_state=0)
    with (
        pytest.warns(PrivacyLeakWarning, match="private data themselves"),
        pytest.raises(ValueError, match="not shown") as caught,
    ):
        model.fit(X, 3.0 + Y - Y.min())
    assert_no_secret(caught.value)


def test_databases_that_fail_are_counted_and_the_reason_is_said():
    """Half of the public databases fail: no noise is enough. One in fifty: some is."""
    model = PrivateEstimator(Failing(), ("coef_",), gamma=0.1, random_state=0)
    with pytest.raises(CalibrationError, match="RuntimeError: secret") as caught:
        model.fit(X, Y - 9, **PUBLIC)
    assert 0.5 < caught.value.best <= 1
    rare = Y_PUBLIC - np.sort(Y_PUBLIC)[-1] - 1
    rare[Y_PUBLIC.max() == Y_PUBLIC] = 1.0
    sampler = SensitivitySampler(noise_shape="isotropic", n_pairs=400, random_state=0)
    model.set_params(sensitivity=sampler)
    model.fit(X, Y - 9, X_reference=X_PUBLIC, y_reference=rare)
    n_infinite = int(np.isinf(model.sampler_.differences_[:, 0]).sum())
    assert 0 < n_infinite < 40
    assert model.certificate_.evidence.n_unanswered == n_infinite
    assert f"{n_infinite} without an answer" in str(model.certificate_)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"randomness": "both"},
        {"randomness": "both", "law": "gaussian"},
        {"noise_shape": "whitened"},
        {"law": "gaussian", "delta": 1e-5},
        {"calibration": "pac"},
    ],
)
def test_pairs_without_an_answer_count_as_infinite_in_every_plan(plan):
    """A few are an order statistic less to spare; too many leave no noise."""

    def fails_for_some(share):
        def query(X):
            if X[0, 0] > np.quantile(X_PUBLIC[:, 0], 1 - share):
                return [np.nan, 1.0]
            return X.mean(axis=0)

        return query

    usual = {"n_pairs": 2000, "gamma": 0.1, "random_state": 0}
    few = SensitivitySampler(fails_for_some(0.03), **usual | plan).fit(X_PUBLIC)
    none = SensitivitySampler(fails_for_some(0.0), **usual | plan).fit(X_PUBLIC)
    assert few.noise_scale_ > none.noise_scale_
    assert (
        few.certificate_.evidence.n_unanswered
        > 0
        == none.certificate_.evidence.n_unanswered
    )
    assert few.risk_ <= 0.1
    many = SensitivitySampler(fails_for_some(0.3), **usual | plan)
    with pytest.raises(CalibrationError, match="returned NaN or infinity") as caught:
        many.fit(X_PUBLIC)
    assert 0.1 < caught.value.best <= 1


def test_no_answer_on_resamples_of_private_data_is_an_error_without_its_reason():
    def never(X):
        raise RuntimeError(f"secret {X[0, 0]}")

    sampler = SensitivitySampler(never)
    with pytest.raises(CalibrationError, match="The reason is not shown") as caught:
        sampler._fit(X, None, private=True)  # as estimators do without a reference
    assert_no_secret(caught.value)


# Rounding


def test_answers_that_differ_by_rounding_are_no_reason_for_tiny_noise():
    """Quantiles of two values gave a scale of 2e-13, and a private certificate."""
    rng = np.random.default_rng(1)
    table, private = (rng.choice([0.1, 0.7], size=(300, 1)) for _ in range(2))
    model = PrivateEstimator(
        QuantileTransformer(n_quantiles=100),
        ("quantiles_",),
        sensitivity=SensitivitySampler(n_pairs=100),
        random_state=0,
    )
    try:
        model.fit(private, X_reference=table)
    except CalibrationError as error:
        assert "is 0" in str(error)  # noqa: PT017
    else:
        assert model.noise_scale_ > 1e-6


@pytest.mark.parametrize("random", [np.random.normal, np.random.default_rng().normal])
def test_functions_that_answer_differently_when_asked_twice_are_refused(random):
    with pytest.raises(ValueError, match="different answers on the same database"):
        SensitivitySampler(lambda X: X.mean() + random()).fit(X_PUBLIC)


# What users met


@pytest.mark.filterwarnings("ignore:The parameters were chosen by scores")
def test_parameters_of_the_sampler_in_a_search_where_there_is_none():
    ridge = PrivateRidge()
    other = clone(ridge).set_params(sensitivity__n_pairs=30, alpha=2.0)
    assert (other.sensitivity.n_pairs, other.alpha) == (30, 2.0)
    assert ridge.sensitivity is None
    grid = {"sensitivity__n_pairs": [30, 40], "sensitivity__randomness": ["both"]}
    search = GridSearchCV(PrivateRidge(gamma=0.2), grid, cv=2)
    search.fit(X, Y, X_reference=X_PUBLIC[:, :], y_reference=Y_PUBLIC)
    assert search.best_params_["sensitivity__n_pairs"] in (30, 40)
    assert search.best_estimator_.certificate_.randomness == "both"


def test_nothing_is_taken_for_a_reference_by_position():
    weights = np.ones(80)
    for model, y in [
        (PrivateRidge(**KNOWN), Y),
        (PrivateLogisticRegression(**KNOWN), LABELS),
        (PrivateEstimator(LogisticRegression(), **KNOWN), LABELS),
        (PrivateGridSearchCV(PrivateRidge(**KNOWN), {}), Y),
    ]:
        with pytest.raises(TypeError, match="positional"):
            model.fit(X, y, weights)


@pytest.mark.parametrize("value", [1 - 1e-9, 0.9999999, 1 - 2.0**-53])
def test_probabilities_below_one_are_never_printed_as_one(value):
    assert float(ceil_text(value)) < 1
    assert float(ceil_text(value)) >= value
    text = str(as_certificate((1.0, value)))
    assert "(1, 1)" not in text
    assert ceil_text(1.0) == "1"


@pytest.mark.filterwarnings("ignore::skparisk.PrivacyLeakWarning")
def test_counts_of_private_pairs_are_in_no_error():
    """How many of them have no answer, or do not differ, is theirs."""

    class Picky(LinearRegression):
        most = X.mean() + 1e-9

        def fit(self, X, y):
            if self.most < X.mean() < 0.4:  # made-up records have 0.5
                raise ValueError("too tall")
            return super().fit(X, y)

    sampler = SensitivitySampler(n_pairs=200, random_state=0)
    model = PrivateEstimator(Picky(), ("coef_",), gamma=0.05, sensitivity=sampler)
    with pytest.raises(CalibrationError) as private:
        model.fit(X, Y)
    assert "The reason is not shown" in str(private.value)
    assert (private.value.target, private.value.best) == (0.05, 1.0)
    assert private.value.__context__ is None
    # Of public records it is shown.
    with pytest.raises(ValueError, match="too tall"):
        model.fit(X, Y, **PUBLIC)


def test_certificates_of_private_pairs_do_not_call_the_reference_public():
    with pytest.warns(PrivacyLeakWarning):
        model = PrivateRidge(sensitivity=SensitivitySampler(n_pairs=20)).fit(X, Y)
    assert "were sampled from is public" not in str(model.certificate_)
    assert "were sampled from is public" not in model.certificate_._repr_html_()
    model.fit(X, Y, **PUBLIC)
    assert "were sampled from is public" in str(model.certificate_)
