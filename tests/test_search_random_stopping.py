"""The best of a random number of runs: its law, its cost, and what stays secret."""

import dataclasses
import gc
import itertools
import math
import threading
import warnings
import weakref

import numpy as np
import pytest
from laws import FALSE_ALARM
from scipy import stats
from searches import (
    ALPHAS,
    CHEAP,
    PUBLIC,
    X_PUBLIC,
    Y_PUBLIC,
    Constant,
    Label,
    X,
    Y,
    known,
    private_search,
)
from sklearn.pipeline import make_pipeline
from tblib import pickling_support

from skparisk import (
    IncompatibleError,
    KnownSensitivity,
    PrivacyLeakWarning,
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk.certificate import Certificate
from skparisk.certificate._claim import DECLARED, SEEDED
from skparisk.exceptions import BudgetExceededError
from skparisk.ledger import PrivacyLedger
from skparisk.preprocessing import RandomizedResponseTransformer
from skparisk.reference import TableReference


@pytest.fixture(autouse=True)
def nothing_seen():
    Constant.seen.clear()


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
                sensitivity=KnownSensitivity(
                    1.0, norm="l2", law="gaussian", at_risk=True
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
            PrivateRidge(sensitivity=SensitivitySampler(law="gaussian", delta=1e-5)),
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


@pytest.mark.slow
def test_runs_of_a_candidate_with_a_risk_are_calibrated_alike():
    search = private_search(
        Restless(sensitivity=CHEAP), {}, "random-stopping", n_runs=10**6
    )
    with pytest.raises(IncompatibleError, match="not calibrated alike"):
        search.fit(X, Y, **PUBLIC)
    search.set_params(estimator=PrivateRidge(sensitivity=CHEAP), selection__n_runs=20)
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
    search.set_params(selection__n_runs=3).fit(X, Y)  # no ledger would tell
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
    """Nor where what comes with Dask lets copies of errors have their frames."""
    pickling_support.install()
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
    for parameters in ({"noise_random_state": 2}, {"selection__epsilon": math.inf}):
        search = private_search(known(), ALPHAS, "random-stopping", n_runs=9)
        search.set_params(**parameters)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(X, Y)
        assert len(caught) == (parameters.get("noise_random_state") is not None)
        assert search.certificate_.void


@pytest.mark.slow
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


@pytest.mark.slow
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
    search.set_params(selection__n_runs=1).fit(X, Y, **PUBLIC)
    assert len(Constant.seen) == 1


@pytest.mark.slow
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
        ours = search.set_params(selection__n_runs=2).fit(X, Y).certificate_.epsilon
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
        search = private_search(
            estimator,
            {"epsilon": [1.0]},
            "random-stopping",
            n_runs=2,
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


@pytest.mark.slow
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
