"""The choice by the exponential mechanism, on private records that are held out."""

import math
import pickle
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
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
from sklearn.ensemble import VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skparisk import (
    IncompatibleError,
    KnownSensitivity,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk._words import INFINITE, void_reasons
from skparisk.core.claim import mint
from skparisk.core.compose import compose_basic, compose_parallel
from skparisk.exceptions import BudgetExceededError
from skparisk.ledger import PrivacyLedger
from skparisk.model_selection import _exponential
from skparisk.model_selection._exponential import (
    find_record_score,
    score_hold_out,
    split_records,
)
from skparisk.model_selection._fits import Records
from skparisk.reference import TableReference


@pytest.fixture(autouse=True)
def nothing_seen():
    Constant.seen.clear()


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
