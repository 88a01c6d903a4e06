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
from sklearn.linear_model import LinearRegression, Ridge

from skparisk import (
    KnownSensitivity,
    PrivacyLedger,
    PrivateEstimator,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    SchemaReference,
    SensitivitySampler,
)
from skparisk._public_fit import Alone, PublicFit
from skparisk._simulated import simulated
from skparisk.exceptions import IncompatibleError, PrivacyLeakWarning, ReferenceWarning
from skparisk.queries import FunctionQuery, LogisticRegressionQuery, RidgeQuery
from skparisk.reference import (
    LearnedReference,
    ReferenceComparison,
    SecretSample,
    TableReference,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
Y = X @ [1.0, -1.0, 0.5] + 0.3 * RNG.normal(size=160) + 1.0
LABELS = np.where(Y > 1.0, "yes", "no")
OURS, PUBLIC = slice(0, 80), slice(80, 160)
SCHEMA = SchemaReference([(-4.0, 4.0)] * 3, target=(-9.0, 9.0))

LEARNED = LearnedReference(SCHEMA, epsilon=0.5)


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
SHELLS = {
    "svc": (PrivateLinearSVC(1.0), LABELS),
    "wrapped": (PrivateEstimator(Ridge()), Y),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SHELLS)
def test_public_records_help_and_are_compared(name):
    """The same noise as without them; what is served is near what they say."""
    shell, y = SHELLS[name]
    plain, both = (
        fitted(shell, y, epsilon=0.05, combine=combine)
        for combine in (None, "reference")
    )
    np.testing.assert_array_equal(plain.released_, both.released_)
    assert plain.private_weight_ == 1.0
    assert plain.reference_shift_ is None
    assert 0.0 < both.private_weight_ < 0.2
    assert both.reference_shift_.shape == both.released_.shape
    comparison, bare = both.compare_with_reference(), plain.compare_with_reference()
    assert comparison.public_only == bare.public_only
    # What is served is compared, on folds of which the public fit has not seen any.
    known = plain.score(X[PUBLIC], y[PUBLIC])
    assert bare.private == pytest.approx(known, abs=0.05)
    assert bare.private < comparison.private < both.score(X[PUBLIC], y[PUBLIC]) + 0.01
    assert abs(comparison.private - comparison.public_only) < 0.1
    assert (comparison.n_reference, comparison.n_records) == (80, 80)
    assert both.certificate_ == plain.certificate_


@pytest.mark.parametrize("name", SHELLS)
def test_public_records_are_better_than_noise(name):
    """Whichever it is, on average; and what is served is as good as they are."""
    shell, y = SHELLS[name]
    scores = []
    for seed in range(16):
        plain, both = (
            fitted(shell, y, epsilon=0.05, combine=combine, noise_random_state=seed)
            for combine in (None, "reference")
        )
        compared = plain.compare_with_reference()
        alone, helped = (model.score(X[OURS], y[OURS]) for model in (plain, both))
        assert helped > max(0.9, alone)
        assert compared.public_only > 0.9
        scores.append([compared.private, alone])
    assert (np.mean(scores, axis=0) < 0.8).all()


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


@pytest.mark.parametrize("moved", [0.0, 30.0])
def test_what_the_penalty_took_is_that_of_the_same_people(moved):
    """Of others the release stands as it is."""
    y = np.where(np.arange(160) < 80, Y, Y + moved * X[:, 0])
    model = fitted(PrivateRidge(20.0, combine=None), y, epsilon=20.0)
    fit = PublicFit(RidgeQuery(20.0), X[PUBLIC], y[PUBLIC], 80, RidgeQuery(1e-3))
    usual = RidgeQuery(1e-3)(X[PUBLIC], y[PUBLIC])
    weighed = fit.weigh_with(model.released_, usual, model.sampler_)
    served = usual + weighed.correction
    taken = np.abs(usual - RidgeQuery(20.0)(X[PUBLIC], y[PUBLIC])).max()
    if moved:
        assert np.abs(served - model.released_).max() < 0.1 * taken
    else:
        assert np.abs(served - usual).max() < 0.5 * taken


def test_one_fit_of_all_where_there_is_no_noise():
    """Public and private records then count alike."""
    model = fitted(PrivateRidge(), epsilon=math.inf, combine="reference")
    both = Ridge(1.0).fit(X, Y)
    assert 0.5 < model.private_weight_ < 0.7  # as people may differ a little
    np.testing.assert_allclose(model.coef_, both.coef_, atol=0.03)


@pytest.mark.slow
def test_a_wrapped_estimator_without_targets():
    model = fitted(
        PrivateEstimator(KMeans(2, n_init=1)), None, combine="reference", epsilon=0.1
    )
    assert 0.0 < model.private_weight_ < 0.5
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
        (
            sampler(reference=LearnedReference(SCHEMA, epsilon=0.5)),
            "is a LearnedReference",
        ),
        (sampler(reference=SCHEMA.with_records(X)), "are made up"),
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
    """Neither compared, nor weighed."""
    model = PrivateRidge(gamma=0.2, sensitivity=sampler())
    given = {"X_reference": X[OURS], "y_reference": Y[OURS]}
    with pytest.warns(PrivacyLeakWarning):
        model.fit(X[OURS], Y[OURS], **given)
    assert model.reference_comparison_ is None
    model.set_params(combine="reference")
    with pytest.raises(ValueError, match="reference has records of the training"):
        model.fit(X[OURS], Y[OURS], **given)


def test_words_that_are_not_known():
    with pytest.raises(ValueError, match="combine must be one of 'auto', 'reference';"):
        PrivateRidge(combine=1).fit(X, Y)
    for shell in (PrivateLinearSVC(), PrivateEstimator(Ridge())):  # there is no such
        with pytest.raises(ValueError, match="combine must be one of 'reference'; got"):
            shell.set_params(combine="auto").fit(X, LABELS)


def half_table(X, y):
    """Return a mean of few records, and nothing of many."""
    return np.full(1, y.mean() if len(y) < 70 else np.nan)


def no_table(X, y):
    return np.full(1, np.nan)


def test_a_query_without_an_answer_on_all_public_records(monkeypatch):
    monkeypatch.setattr(PublicFit, "answer", lambda self, rows: None)
    assert fitted(PrivateRidge()).reference_comparison_ is None
    for shell, y in (
        (PrivateRidge(), Y),
        (PrivateLogisticRegression(1.0), LABELS),
        (PrivateLinearSVC(1.0), LABELS),  # which is weighed, and not corrected
    ):
        with pytest.raises(ValueError, match="no answer on all of them together"):
            fitted(shell, y, combine="reference")


def test_a_public_fit_that_fails_is_no_answer():
    """Nor is NaN."""
    query = FunctionQuery(half_table)
    fit = PublicFit(query, X[PUBLIC], Y[PUBLIC], 80)
    assert fit.whole is None
    none = replace(fit, query=FunctionQuery(no_table))
    assert none.variances(np.zeros(1)) is None
    few = np.arange(60)
    np.testing.assert_allclose(fit.answer(few), Y[PUBLIC][few].mean())

    def refuse(numbers, X, y):
        raise ValueError("of the release")

    assert fit.alone(refuse) == Alone(None, None)
    scores = iter([1.0] * 5 + [math.nan])
    alone = fit.alone(lambda *_: next(scores))
    assert alone.scores.tolist() == [1.0] * 5
    known = alone._replace(values=np.zeros(1))
    assert fit.compare(np.zeros(1), known, lambda *_: next(scores), 1.0) is None
    assert fit.compare(np.zeros(1), alone, lambda *_: 1.0, 1.0) is None
    assert fit.compare(np.zeros(1), Alone(None, None), refuse, 1.0) is None
    for unscored in (PublicFit(query, X[:9], Y[:9], 80), PublicFit(query, X, None, 80)):
        assert unscored.alone(lambda *_: 1.0).scores is None


def test_folds_have_all_classes_and_each_record_once():
    rare = np.zeros(50)
    rare[:5] = 1.0
    asked = []

    def note(X, y):
        asked.append(np.sort(X[:, 0]))
        assert set(y) == {0.0, 1.0}
        return np.zeros(1)

    records = np.arange(50.0)[:, None]
    fit = PublicFit(FunctionQuery(note), records, rare, 30)
    held = []

    def score(a, X, y):
        held.append(X)
        return float(a[0])

    alone = fit.alone(score)
    found = fit.compare(np.ones(1), alone, score, 1.0)
    assert found == ReferenceComparison(1.0, 0.0, n_reference=50, n_records=30)
    assert [len(each) for each in asked] == [50] + [40] * 5
    assert sorted(np.concatenate(held[:5])[:, 0]) == list(range(50))


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


@pytest.mark.slow
def test_the_jackknife_agrees_with_the_bootstrap():
    query = RidgeQuery(1e-9)
    fit = PublicFit(query, X, Y, 160)
    jackknife = fit.variances(fit.whole)
    rng = np.random.default_rng(0)
    rows = rng.integers(160, size=(400, 160))
    bootstrap = np.var([query(X[each], Y[each]) for each in rows], axis=0)
    np.testing.assert_allclose(jackknife, bootstrap, rtol=0.4)


@pytest.mark.slow
def test_the_jackknife_agrees_with_the_formula_of_least_squares():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(10):
        X = rng.normal(size=(300, 3))
        y = X @ [1.0, -1.0, 2.0] + rng.normal(size=300)
        fit = PublicFit(RidgeQuery(1e-9), X, y, 300)
        residual = y - LinearRegression().fit(X, y).predict(X)
        design = np.column_stack([X, np.ones(300)])
        known = np.diag(np.linalg.inv(design.T @ design)) * residual.var()
        ratios.append(fit.variances(fit.whole) / known)
    np.testing.assert_allclose(np.mean(ratios, axis=0), 1.0, rtol=0.25)


def median_of_one_feature(X):
    return np.median(X[:, 0])


def test_the_jackknife_is_right_where_the_answer_jumps():
    """One record less moves a median by none or all of the gap beside it."""
    rng = np.random.default_rng(1)
    samples = rng.integers(2, size=(40, 200, 1)) + rng.normal(0, 0.3, size=(40, 200, 1))
    query = FunctionQuery(median_of_one_feature)
    fits = [PublicFit(query, sample, None, 200) for sample in samples]
    found = np.median([fit.variances(fit.whole) for fit in fits])
    true = np.var([fit.whole for fit in fits])
    assert 0.5 * true < found < 2 * true


def test_a_fit_alike_has_the_penalty_of_the_release_for_each_record():
    """One that is not changed by that is the same fit."""
    fit = PublicFit(RidgeQuery(20.0), X[:40], Y[:40], 80)
    np.testing.assert_array_equal(fit.alike.whole, RidgeQuery(10.0)(X[:40], Y[:40]))
    mean = PublicFit(FunctionQuery(half_table), X[:40], Y[:40], 80)
    assert mean.alike is mean


def test_public_records_alone_have_the_usual_penalty_unless_another_is_better():
    """By more than a standard error of the gain over the folds."""
    query, usual = RidgeQuery(20.0), RidgeQuery(1.0)
    fit = PublicFit(query, X[:40], Y[:40], 80, usual)
    fits = {"usual": usual(X[:40], Y[:40]), "other": query.resized(0.5)(X[:40], Y[:40])}

    def best(*scores):
        told = iter(scores)
        return fit.alone(lambda *_: next(told)).values

    even, better = [0.5, 0.6, 0.7, 0.5, 0.6], [0.7, 0.8, 0.9, 0.7, 0.9]
    np.testing.assert_array_equal(best(*even, *better), fits["other"])
    np.testing.assert_array_equal(best(*better, *even), fits["usual"])
    np.testing.assert_array_equal(best(*even, *reversed(even)), fits["usual"])
    np.testing.assert_array_equal(best(*even, *[math.nan] * 5), fits["usual"])
    np.testing.assert_array_equal(fit.alone(None).values, fits["usual"])
    broken = PublicFit(query, X[:40], Y[:40], 80, FunctionQuery(lambda X, y: 1 / 0))
    np.testing.assert_array_equal(broken.alone(None).values, fits["other"])


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


def test_pairs_alone_tell_where_the_table_is_large(monkeypatch):
    """Without rows that repeat there is nothing to mend."""
    asked = []
    variances = PublicFit.variances
    monkeypatch.setattr(
        PublicFit, "variances", lambda *each: asked.append(1) or variances(*each)
    )
    shell = PrivateLinearSVC(1.0, combine="reference")
    fitted(shell, LABELS)
    assert asked == [1]
    model = shell.set_params(gamma=0.2, sensitivity=sampler())
    model.fit(X[:20], LABELS[:20], X_reference=X[20:], y_reference=LABELS[20:])
    assert asked == [1]
    assert 0.0 < model.private_weight_ < 1.0


def test_fits_that_are_simulated_are_compared_with_nothing():
    with simulated():
        model = fitted(PrivateRidge(), combine="reference")
    assert model.reference_comparison_ is None
    assert model.private_weight_ < 1.0


def test_the_table_of_a_sampler_serves_as_well():
    table = TableReference(X[PUBLIC], Y[PUBLIC])
    model = PrivateRidge(gamma=0.2, combine="reference", random_state=0)
    model.set_params(sensitivity=sampler(reference=table, n_records=80))
    model.fit(X[OURS], Y[OURS])
    assert model.compare_with_reference().n_reference == 80


def test_the_words_of_a_comparison():
    assert str(ReferenceComparison(0.25, 0.5, 30, 60, error=0.1)) == (
        "On the 30 public records, the private model (60 records) scores 0.25 and\n"
        "a fit to the public records alone 0.5 (cross-validated). The standard error "
        "of the difference is 0.1."
    )
