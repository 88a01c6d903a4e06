"""Scores of private records: right on average, bounded, charged, and silent."""

import math
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from laws import FALSE_ALARM, assert_binomial_at_most
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    confusion_matrix,
    mean_absolute_error,
    mean_squared_error,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skparisk import PrivacyLedger
from skparisk import metrics as module
from skparisk.core import Assumption
from skparisk.exceptions import BudgetExceededError, PrivacyLeakWarning
from skparisk.metrics import private_score
from skparisk.report import Policy, Report

N = 400
BOUNDS = (-3.0, 3.0)
ERRORS = ("mean_absolute_error", "mean_squared_error")


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, X[:, 0] + 0.5 * rng.normal(size=N)


@pytest.fixture(scope="module")
def models(records):
    X, y = records
    classes = np.where(y > 0, "high", "low")
    return LinearRegression().fit(X, y), LogisticRegression().fit(X, classes), classes


def given(scoring, records, models):
    """Return what `private_score` takes for a scoring."""
    (X, y), (line, classifier, classes) = records, models
    if scoring in ERRORS:
        return (line, X, y), {"scoring": scoring, "y_bounds": BOUNDS}
    return (classifier, X, classes), {"scoring": scoring}


def oracle(scoring, model, X, y):
    """Return scikit-learn's score."""
    if scoring in ERRORS:
        score = {ERRORS[0]: mean_absolute_error, ERRORS[1]: mean_squared_error}
        return score[scoring](np.clip(y, *BOUNDS), np.clip(model.predict(X), *BOUNDS))
    if scoring == "brier_score":
        return brier_score_loss(y, model.predict_proba(X)[:, 1], pos_label="low")
    score = {"accuracy": accuracy_score, "confusion_matrix": confusion_matrix}
    return score[scoring](y, model.predict(X))


@pytest.mark.parametrize("scoring", module._SCORINGS)
def test_without_noise_it_is_the_score_of_scikit_learn(scoring, records, models):
    data, options = given(scoring, records, models)
    score = private_score(*data, epsilon=math.inf, **options)
    expected = oracle(scoring, *data)
    np.testing.assert_allclose(score.value, expected, atol=2e-5)
    low, high = score.interval
    assert np.all((low <= expected) & (expected <= high))
    assert score.certificate.void


@pytest.mark.parametrize("scoring", module._SCORINGS)
def test_one_record_moves_the_sums_by_the_sensitivity_at_most(scoring, records, models):
    """And the worst record by just that."""
    (model, X, y), options = given(scoring, records, models)
    rule, bounds = module._SCORINGS[scoring], options.get("y_bounds")
    n_sums = 4 if scoring == "confusion_matrix" else 1
    sums = module._sums(rule, n_sums, model, X, y, bounds)
    if scoring in ERRORS:
        X_right, y_right, y_wrong = [[0.0, 0.0, 0.0]], model.intercept_, 1e9
    else:
        X_right, y_right, y_wrong = [[1e3, 0.0, 0.0]], "high", "low"
    moved = []
    for target in (y_right, y_wrong, "other" if scoring not in ERRORS else math.nan):
        X_other, y_other = X.copy(), y.astype(object)
        X_other[0], y_other[0] = X_right[0], target
        y_other = y_other.astype(y.dtype)
        other = module._sums(rule, n_sums, model, X_other, y_other, bounds)
        moved.append(other)
        assert np.abs(other - sums).sum() <= rule.sensitivity * rule.parts
    most = np.abs(moved[1] - moved[0]).sum() / (rule.sensitivity * rule.parts)
    half = {"mean_absolute_error": 0.4, "mean_squared_error": 0.2}
    assert most >= half.get(scoring, 1 - 1e-6)


class Echo(BaseEstimator):
    """Predicts its column, whose values are its classes."""

    classes_ = np.arange(6)

    def predict(self, X):
        return X[:, 0]

    def predict_proba(self, X):
        return np.where(X == 0, 0.5, 0.1)[:, :1] * np.ones(6)


CELLS = np.repeat(np.arange(36), 6)  # 6 records of each pair of classes
N_LAW = 8100


def amounts(scoring):
    """Return sizes of noise in units of what it should be on average."""
    X, y = CELLS[:, np.newaxis] % 6, CELLS // 6
    options = {"scoring": scoring} | ({"y_bounds": (0, 5)} if scoring in ERRORS else {})
    unit = {"accuracy": 1, ERRORS[0]: 5, ERRORS[1]: 25}.get(scoring, 2)
    unit /= 1 if scoring == "confusion_matrix" else len(y)
    exact = private_score(Echo(), X, y, epsilon=math.inf, **options).value
    drawn = [
        private_score(Echo(), X, y, epsilon=1.0, **options).value - exact
        for _ in range(N_LAW // np.size(exact))
    ]
    return np.abs(np.ravel(drawn)) / unit


def is_laplace(sizes):
    """Tell if sizes may be exponential of mean 1: their sum is a gamma variable."""
    law = stats.gamma(len(sizes))
    return FALSE_ALARM / 2 <= law.cdf(sizes.sum()) <= 1 - FALSE_ALARM / 2


@pytest.mark.parametrize(
    "scoring",
    [
        "confusion_matrix",
        *(
            pytest.param(scoring, marks=pytest.mark.slow)
            for scoring in ("accuracy", "brier_score", *ERRORS)
        ),
    ],
)
def test_the_noise_has_the_law_that_the_level_asks_for(scoring):
    """And not one of nine tenths of it, nor of eleven."""
    sizes = amounts(scoring)
    assert is_laplace(sizes)
    assert not is_laplace(0.9 * sizes)
    assert not is_laplace(1.1 * sizes)


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("scoring", module._SCORINGS)
def test_the_interval_knows_the_noise(scoring, records, models):
    """It misses at most as often as it says, and far more often with half the reach."""
    data, options = given(scoring, records, models)
    expected = np.ravel(oracle(scoring, *data))[0]
    missed = narrow = 0
    n = 300
    for _ in range(n):
        score = private_score(*data, epsilon=2.0, confidence=0.8, **options)
        low, high = (np.ravel(end)[0] for end in score.interval)
        missed += not low <= expected <= high
        quarter = (high - low) / 4
        narrow += not low + quarter <= expected <= high - quarter
    assert_binomial_at_most(missed, n, 0.2)
    with pytest.raises(AssertionError):
        assert_binomial_at_most(narrow, n, 0.2)


def test_the_population_is_in_its_interval(models):
    """Of fresh records, with noise that matters."""
    _, classifier, _ = models
    rng = np.random.default_rng(1)

    def draw(n):
        X = rng.normal(size=(n, 3))
        return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, "high", "low")

    truth = classifier.score(*draw(10**5))
    missed = 0
    for _ in range(200):
        score = private_score(
            classifier, *draw(100), scoring="accuracy", epsilon=0.5, confidence=0.8
        )
        low, high = score.population_interval
        missed += not low <= truth <= high
        assert low <= score.interval[0] <= score.interval[1] <= high
    assert_binomial_at_most(missed, 200, 0.2)
    assert FALSE_ALARM <= 1e-6


def test_a_score_is_charged_and_refused(records, models):
    data, options = given("accuracy", records, models)
    ledger = PrivacyLedger(1.0)
    with ledger:
        score = private_score(*data, epsilon=0.75, **options)
        with pytest.raises(BudgetExceededError):
            private_score(*data, epsilon=0.5, **options)
    (entry,) = ledger.releases
    assert entry.certificate == score.as_certificate()
    assert entry.note == f"accuracy of {N} records"
    assert entry.certificate.relation == "replace-one"
    assert entry.certificate.assumptions == {Assumption.ROW_WISE_SCORE}


def test_noise_from_a_seed_is_repeated_and_void(records, models):
    data, options = given("accuracy", records, models)
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state=0 makes"):
        one, two = (
            private_score(*data, epsilon=0.5, noise_random_state=0, **options)
            for _ in range(2)
        )
    assert one.value == two.value
    assert one.certificate.seeded


def test_a_report_files_it_and_marks_other_scores(records, models):
    scores = {}
    for scoring in ("accuracy", "confusion_matrix"):
        data, options = given(scoring, records, models)
        scores[scoring] = private_score(*data, epsilon=1.0, **options)
    with pytest.warns(PrivacyLeakWarning):
        seeded = private_score(*data, epsilon=1.0, noise_random_state=0, **options)
    scores |= {"seeded": seeded, "plain": 0.5}
    report = Report(scores["accuracy"], scores=scores, policy=Policy(epsilon=2.5))
    filed = report.document["scores"]
    checks = report.document["checks"]
    assert checks == [vars(each) for each in report.check(Policy(epsilon=2.5))]
    assert not any(check["passed"] for check in checks)  # one is seeded, all cost 4
    assert [score["private"] for score in filed] == [True, True, False, False]
    assert "of people like them; confidence 0.95 each; 400 records" in filed[0]["value"]
    assert "each count within" in filed[1]["value"]


class Failing(BaseEstimator):
    """Says what it has seen."""

    def predict(self, X):
        warnings.warn(f"secret {X[0, 0]}", stacklevel=1)
        raise ValueError(f"secret {X[0, 0]}")


def test_no_target_fails_or_changes_the_others():
    X = np.arange(10.0)[:, np.newaxis] % 2
    known = X[:, 0].astype(int)
    model = LogisticRegression().fit(X, known)
    for scoring in module._SCORINGS:
        options = {"y_bounds": (0, 1)} if scoring in ERRORS else {}
        options |= {"scoring": scoring, "epsilon": math.inf}
        right = private_score(model, X, known, **options)
        for value in ["x", None, math.nan, pd.NA, pd.NaT, 10**400, 3j]:
            y = [*known.tolist()[:-1], value]
            # Of whole numbers that are too large pandas 2.2 makes no column by itself.
            kind = object if isinstance(value, int) else None
            for targets in (y, pd.Series(y, dtype=kind)):
                score = private_score(model, X, targets, **options)
                most = 1 if scoring == "confusion_matrix" else 0.1
                assert np.abs(score.value - right.value).sum() <= most + 1e-9


@pytest.mark.parametrize("scoring", module._SCORINGS)
def test_records_that_a_model_fails_on_have_the_worst_score(scoring, records, models):
    """And no other record is scored otherwise."""
    (model, X, y), options = given(scoring, records, models)
    options["epsilon"] = math.inf
    alone = private_score(model, X[3:], y[3:], **options).value * (N - 3)
    gaps = X.copy()
    gaps[:3] = math.nan  # of which scikit-learn says that it takes no NaN
    score = private_score(model, gaps, y, **options)
    if scoring == "confusion_matrix":
        assert score.value.sum() == N - 3
        return
    unit = {"mean_absolute_error": 6, "mean_squared_error": 36}.get(scoring, 1)
    worst = 0 if scoring == "accuracy" else 3 * unit
    assert score.value * N == pytest.approx(alone + worst, abs=0.01)


class Together(BaseEstimator):
    """Is right where it sees all records: as last bits of a product, but more."""

    def predict(self, X):
        if np.isnan(X).any():
            raise ValueError("NaN")
        return X[:, 0] if len(X) == N else X[:, 0] + 1


@pytest.mark.parametrize("where", [0, N // 2, N - 1])
def test_a_record_that_fails_does_not_change_how_others_are_scored(where):
    X = np.arange(float(N))[:, np.newaxis]
    gap = X.copy()
    gap[where] = math.nan
    options = {"scoring": "accuracy", "epsilon": math.inf}
    assert private_score(Together(), X, X[:, 0], **options).value == 1
    score = private_score(Together(), gap, X[:, 0], **options)
    assert score.value * N == pytest.approx(N - 1)


def test_predictions_that_are_missing_are_the_worst():
    for scoring in module._SCORINGS:
        X = np.array([0.0, 1.0, math.nan, 3.0])[:, np.newaxis]
        options = {"y_bounds": (0, 5)} if scoring in ERRORS else {}
        options |= {"scoring": scoring, "epsilon": math.inf}
        score = private_score(Missing(), X, [0, 1, 2, 3], **options)
        assert (
            np.sum(score.value)
            == {
                "accuracy": 0.75,
                "confusion_matrix": 3,
                "brier_score": pytest.approx(0.5, abs=1e-6),  # of four classes
                "mean_absolute_error": 1.25,
                "mean_squared_error": 6.25,
            }[scoring]
        )


class Missing(Echo):
    """Has no prediction for what is missing."""

    def predict_proba(self, X):
        return np.where(np.isnan(X), math.nan, self.classes_ == X)


def test_what_a_model_says_of_records_is_not_shown(records, capsys):
    X, y = records
    score = private_score(Failing(), X, y, scoring="accuracy", epsilon=math.inf)
    assert score.value == 0
    assert "secret" not in capsys.readouterr().err


def test_what_is_public_of_a_model_is_checked(records, models):
    (X, y), (line, *_) = records, models
    with pytest.raises(ValueError, match=r"have predict_proba and classes_ .*got Lin"):
        private_score(line, X, y, scoring="brier_score", epsilon=1.0)
    with pytest.raises(ValueError, match=r"X must have 3 columns, .* got 2"):
        private_score(line, X[:, :2], y, scoring="accuracy", epsilon=1.0)


BAD = [
    ({"scoring": "r2"}, "scoring must be one of"),
    ({"y_bounds": (0, 1)}, "y_bounds must be None with scoring='accuracy'"),
    ({"scoring": ERRORS[0]}, r"y_bounds must be two finite .* got None"),
    ({"scoring": ERRORS[0], "y_bounds": (1, 1)}, "low below high"),
    ({"scoring": ERRORS[0], "y_bounds": (0, 1e151)}, "between 1e-150 and 1e.150 apart"),
    ({"scoring": ERRORS[1], "y_bounds": (0, 1e76)}, "between 1e-75 and 1e.75 apart"),
    ({"scoring": ERRORS[1], "y_bounds": (0, 1e-76)}, "between 1e-75 and 1e.75 apart"),
    ({"scoring": ERRORS[0], "y_bounds": (-1e308, 1e308)}, "two finite numbers"),
    ({"scoring": ERRORS[0], "y_bounds": (0, math.inf)}, "two finite numbers"),
    ({"scoring": ERRORS[0], "y_bounds": ("0", "1")}, "two finite numbers"),
    ({"confidence": 1.0}, "confidence must be"),
    ({"epsilon": 0.0}, "epsilon must be"),
    ({"y": ["high"]}, r"one target for each record of X, at least one"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_parameters_are_refused(changes, message, records, models):
    (model, X, y), options = given("accuracy", records, models)
    options = {"X": X, "y": y, "epsilon": 1.0} | options | changes
    with pytest.raises(ValueError, match=message):
        private_score(model, **options)


def test_brier_score_of_several_classes_is_that_of_scikit_learn(records):
    X, y = records
    classes = np.digitize(y, [-0.5, 0.5])
    model = LogisticRegression().fit(X, classes)
    probabilities = model.predict_proba(X)
    expected = np.mean(((probabilities - np.eye(3)[classes]) ** 2).sum(axis=1))
    score = private_score(model, X, classes, scoring="brier_score", epsilon=math.inf)
    assert score.value == pytest.approx(expected, abs=4e-5)
    low, high = score.interval
    assert low <= expected <= high


@pytest.mark.parametrize("form", ["list", "array", "frame"])
def test_a_text_among_numbers_moves_the_score_of_its_record_alone(form):
    """Though all numbers of its column, or of an array, are then objects."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 9, (200, 2))
    y = np.log1p(rows[:, 0])
    model = make_pipeline(FunctionTransformer(np.log1p), LinearRegression())
    model.fit(rows, y)
    odd = rows.tolist()
    odd[5][1] = "?"
    makes = {
        "list": list,
        "array": lambda cells: np.array(cells, dtype=object),
        "frame": lambda cells: pd.DataFrame(cells, columns=["a", "b"]),
    }
    score = partial(private_score, model, y=y, scoring="mean_absolute_error")
    plain, moved = (
        score(makes[form](cells), y_bounds=(0, 3), epsilon=math.inf).value
        for cells in (rows.tolist(), odd)
    )
    assert plain < 1e-6
    assert moved == pytest.approx(3 / 200, abs=1e-6)
