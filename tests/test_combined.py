"""Public records beside, and together with, what was released."""

import copy
import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.linear_model import Ridge

from skparisk import (
    KnownSensitivity,
    PrivacyLedger,
    PrivateEstimator,
    PrivateLogisticRegression,
    PrivateRidge,
    SchemaReference,
    SensitivitySampler,
)
from skparisk._public_fit import PublicFit
from skparisk.exceptions import IncompatibleError, PrivacyLeakWarning, ReferenceWarning
from skparisk.queries import FunctionQuery, LogisticRegressionQuery, RidgeQuery
from skparisk.reference import SecretSample, learn_reference
from skparisk.reference._base import RecordPool

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
Y = X @ [1.0, -1.0, 0.5] + 0.3 * RNG.normal(size=160) + 1.0
LABELS = np.where(Y > 1.0, "yes", "no")
OURS, PUBLIC = slice(0, 80), slice(80, 160)
SCHEMA = SchemaReference([(-4.0, 4.0)] * 3, target=(-9.0, 9.0))

LEARNED = learn_reference(SCHEMA, X, Y, epsilon=0.5).reference


def sampler(**parameters):
    return SensitivitySampler(n_pairs=60, random_state=0, **parameters)


def fitted(model, y=Y, **parameters):
    """Return a model that was fitted with public records."""
    given = {"gamma": 0.2, "noise_random_state": 0, **parameters}
    model = clone(model).set_params(**given)
    if model.sensitivity is None:
        model.set_params(sensitivity=sampler())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        warnings.simplefilter("ignore", ReferenceWarning)
        if y is None:
            return model.fit(X[OURS], X_reference=X[PUBLIC])
        return model.fit(X[OURS], y[OURS], X_reference=X[PUBLIC], y_reference=y[PUBLIC])


RIDGES = {
    "ridge": (PrivateRidge(1.0), Y),
    "two targets": (PrivateRidge(1.0), np.column_stack([Y, -Y])),
    "two classes": (PrivateLogisticRegression(1.0), LABELS),
    "three classes": (PrivateLogisticRegression(1.0), np.digitize(Y, [0.0, 2.0])),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", RIDGES)
def test_what_is_released_is_to_be_added(name):
    """And served, and compared, by as much as is likely."""
    shell, y = RIDGES[name]
    plain, both = (
        fitted(shell, y, epsilon=0.05, combine=combine)
        for combine in (None, "reference")
    )
    assert 0.0 < both.private_weight_ < 0.2
    assert both.reference_shift_.shape == both.released_.shape
    assert both.score(X[OURS], y[OURS]) > plain.score(X[OURS], y[OURS])
    query, targets, shape = RidgeQuery(1.0), y, [y.shape[1:]]
    if y is not Y and y.ndim == 1:
        targets, shape = np.searchsorted(both.classes_, y), []
        query = LogisticRegressionQuery(np.unique(targets))
    start = query(X[PUBLIC], targets[PUBLIC])
    np.testing.assert_array_equal(both.sampler_.query_.start, start)
    other = copy.copy(both)
    other._unpack(start + both.released_, *shape)
    comparison = both.compare_with_reference()
    whole = other.score(X[PUBLIC], y[PUBLIC])
    assert whole < comparison.private < both.score(X[PUBLIC], y[PUBLIC]) + 0.01
    assert abs(comparison.private - comparison.public_only) < 0.1
    assert comparison.public_only == plain.compare_with_reference().public_only
    assert (comparison.n_reference, comparison.n_records) == (80, 80)
    assert (
        "corrects a fit to public records"
        in both.certificate_.require_evidence().reference
    )
    assert "corrects" not in plain.certificate_.require_evidence().reference


@pytest.mark.slow
def test_labels_are_served_better_together():
    labels = fitted(PrivateLogisticRegression(), LABELS, combine="reference")
    assert labels.score(X[OURS], LABELS[OURS]) > 0.8


def test_one_fit_of_all_where_there_is_no_noise():
    """Public and private records then count alike."""
    model = fitted(PrivateRidge(), epsilon=math.inf, combine="reference")
    both = Ridge(1.0).fit(X, Y)
    assert 0.5 < model.private_weight_ < 0.7  # as people may differ a little
    np.testing.assert_allclose(model.coef_, both.coef_, atol=0.03)


@pytest.mark.slow
def test_a_wrapped_estimator_without_targets():
    model = fitted(PrivateEstimator(KMeans(2, n_init=1)), None, epsilon=0.1)
    assert model.reference_comparison_ is None
    with pytest.raises(IncompatibleError, match="at least 10 public records"):
        model.compare_with_reference()


def test_nothing_is_charged_and_no_record_is_kept():
    ledger = PrivacyLedger(9.0)
    with ledger:
        model = fitted(PrivateRidge(), combine="reference")
    assert len(ledger.releases) == 1
    kept = pickle.dumps(model)
    assert X[PUBLIC][0].tobytes() not in kept
    assert len(kept) < len(pickle.dumps(fitted(PrivateRidge()))) + 800


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (0.5, "a sensitivity that is known"),
        (KnownSensitivity(0.5), "a sensitivity that is known"),
        ("bound", "a sensitivity that is known"),
        (sampler(reference=SecretSample(0.5)), "a SecretSample draws"),
        (sampler(reference=SCHEMA), "is a SchemaReference"),
        (sampler(reference=LEARNED), "is a LearnedReference"),
        (sampler(), "there is no reference"),
        (sampler(query=RidgeQuery(1.0), n_records=80).fit(X, Y), "that is fitted"),
    ],
)
def test_what_has_no_public_records_is_refused(source, reason):
    """Before anything is drawn."""
    model = PrivateRidge(combine="reference", sensitivity=source)
    if source == "bound":
        model.set_params(x_norm=9.0, y_bounds=(-9, 9))
    ledger = PrivacyLedger(9.0)
    with ledger, pytest.raises(ValueError, match=f"combine must be None.*{reason}"):
        model.fit(X[OURS], Y[OURS])
    assert len(ledger.releases) == 0
    assert not hasattr(model, "certificate_")


def test_private_records_are_no_public_ones():
    """Neither compared, nor corrected."""
    model = PrivateRidge(gamma=0.2, sensitivity=sampler())
    given = {"X_reference": X[OURS], "y_reference": Y[OURS]}
    with pytest.warns(PrivacyLeakWarning):
        model.fit(X[OURS], Y[OURS], **given)
    assert model.reference_comparison_ is None
    model.set_params(combine="reference")
    with (
        pytest.warns(PrivacyLeakWarning),
        pytest.raises(ValueError, match="reference has records of the training"),
    ):
        model.fit(X[OURS], Y[OURS], **given)


def test_words_that_are_not_known():
    with pytest.raises(ValueError, match="combine must be one of 'auto', 'reference';"):
        PrivateRidge(combine=1).fit(X, Y)


def test_a_query_without_an_answer_on_all_public_records(monkeypatch):
    monkeypatch.setattr(PublicFit, "answer", lambda self, rows: None)
    assert fitted(PrivateRidge()).reference_comparison_ is None
    for shell, y in ((PrivateRidge(), Y), (PrivateLogisticRegression(1.0), LABELS)):
        with pytest.raises(ValueError, match="no answer on all of them together"):
            fitted(shell, y, combine="reference")


def test_the_cross_validated_score_is_that_of_scikit_learn():
    """Of its fits on the same folds."""
    model = fitted(PrivateRidge(alpha=8.0))
    scores = []
    X_public, y_public = X[PUBLIC], Y[PUBLIC]
    mixed = np.random.default_rng(80).permutation(80)
    order = mixed[np.argsort(y_public[mixed], kind="stable")]
    for fold in range(5):
        held = np.isin(np.arange(80), order[fold::5])
        fit = Ridge(8.0).fit(X_public[~held], y_public[~held])
        scores.append(fit.score(X_public[held], y_public[held]))
    assert model.compare_with_reference().public_only == pytest.approx(np.mean(scores))


def test_with_much_noise_the_public_records_are_fitted_as_usual():
    """Whatever penalty the noise asks for; that which is given is that of both."""
    model = fitted(PrivateRidge(), epsilon=1e-4, combine="reference")
    usual = Ridge(1.0).fit(X[PUBLIC], Y[PUBLIC])
    # As far as people are alike, of which nothing is seen: a little less.
    np.testing.assert_allclose(model.coef_, usual.coef_, rtol=0.03)
    again = fitted(
        PrivateRidge(model.penalty_choice_), epsilon=1e-4, combine="reference"
    )
    np.testing.assert_allclose(again.coef_, usual.coef_, rtol=0.03)
    given = fitted(PrivateRidge(50.0), epsilon=1e-4, combine="reference")
    strong = Ridge(50.0).fit(X[PUBLIC], Y[PUBLIC])
    np.testing.assert_allclose(given.coef_, strong.coef_, atol=0.01)


def half_table(X, y):
    """Return a mean of few records, and nothing of many."""
    return np.full(1, y.mean() if len(y) < 70 else np.nan)


def test_a_public_fit_that_fails_is_no_answer():
    """Nor is NaN."""
    query = FunctionQuery(half_table)
    fit = PublicFit(query, RecordPool(X[PUBLIC], Y[PUBLIC]), 80)
    assert fit.answer(np.arange(80)) is None
    few = np.arange(60)
    np.testing.assert_allclose(fit.answer(few), Y[PUBLIC][few].mean())

    def refuse(numbers, X, y):
        raise ValueError("of the release")

    assert fit.compare(np.zeros(1), lambda *_: 1.0) is None
    known = replace(fit, pool=RecordPool(X[:60], Y[:60]))
    assert known.compare(np.zeros(1), refuse) is None
    scores = iter([1.0] * 9 + [math.nan])
    assert known.compare(np.zeros(1), lambda *_: next(scores)) is None
    assert known.compare(np.zeros(1), lambda *_: 1.0).private == 1.0
    for records in (RecordPool(X[:9], Y[:9]), RecordPool(X)):
        unscored = PublicFit(query, records, 80)
        assert unscored.compare(np.zeros(1), lambda *_: 1.0) is None
