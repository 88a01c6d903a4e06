"""Linear models that are penalized toward a fit of public records."""

import math

import numpy as np
import pytest
from query_pairs import InBlocks
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_classification
from sklearn.linear_model import LogisticRegression, Ridge

from skparisk import (
    PrivateLogisticRegression,
    PrivateRidge,
    SensitivitySampler,
    audit_reference,
)
from skparisk._public_fit import PublicFit
from skparisk.audit._audit import Audited
from skparisk.exceptions import IncompatibleError
from skparisk.linear_model._correction import PublicStart
from skparisk.linear_model._cross_fitted import Told, cross_fitted
from skparisk.queries import (
    FunctionQuery,
    LogisticRegressionQuery,
    RidgeQuery,
    UnitsQuery,
)
from skparisk.queries._linear import (
    CorrectionQuery,
    linear_scores,
    predict_linear,
    targets_left,
)
from skparisk.reference import TableReference
from skparisk.sensitivity import sample_differences

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)) * [1.0, 8.0, 0.1] + [0.0, 100.0, 5.0]
Y = X @ [1.0, -0.2, 6.0] + RNG.normal(size=300)
TARGETS = np.column_stack([Y, 50.0 * X[:, 0] + 9.0 * RNG.normal(size=300)])
NOISY = (Y - Y.mean()) / Y.std() + RNG.logistic(size=300)
TWO, THREE = 1.0 * (NOISY > 0), np.digitize(NOISY, [-1, 1]) * 1.0
PUBLIC, OURS = slice(0, 100), slice(100, 300)
UNITS = (1.0, 8.0, 0.125)
QUERIES = {
    "ridge": (RidgeQuery(50.0), Y),
    "without intercept": (RidgeQuery(50.0, fit_intercept=False), Y),
    "units": (UnitsQuery(RidgeQuery(50.0), UNITS), Y),
    "penalties": (RidgeQuery((50.0, 5.0)), TARGETS),
    "two classes": (LogisticRegressionQuery((0, 1), 0.05), TWO),
    "no intercept": (LogisticRegressionQuery((0, 1), 0.05, False), TWO),
    "three classes": (LogisticRegressionQuery((0, 1, 2), 0.05), THREE),
    "classes, units": (UnitsQuery(LogisticRegressionQuery((0, 1, 2)), UNITS), THREE),
}
pytestmark = pytest.mark.filterwarnings("ignore::skparisk.ReferenceWarning")


def start_of(query, y=Y, **options):
    """Return a fit on the public rows, and the query of corrections to it."""
    usual = getattr(query, "query", query).with_penalty(1.0)
    table = TableReference(X[PUBLIC], y[PUBLIC], **options)
    start = PublicStart.of(table, usual, 200, chosen=False)
    return start, start.query(query)


def model_of(kind=PrivateRidge, **parameters):
    given = {"gamma": 0.2, "random_state": 0, "combine": "reference"} | parameters
    given.setdefault("sensitivity", SensitivitySampler(n_pairs=60))
    return kind(**given)


GIVEN = {"X_reference": X[PUBLIC], "y_reference": Y[PUBLIC]}


def test_coefficients_are_penalized_toward_those_of_the_public_fit():
    """As least squares with a row more for each coefficient."""
    _, query = start_of(RidgeQuery(50.0))
    served = query.start + query(X[OURS], Y[OURS])
    design = np.column_stack([X[OURS], np.ones(200)])
    rows = math.sqrt(50.0) * np.eye(3, 4)
    right = np.append(Y[OURS], rows[:, :3] @ query.start[:3])
    least = np.linalg.lstsq(np.vstack([design, rows]), right)[0]
    np.testing.assert_allclose(served, least, rtol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_logistic_regression_is_penalized_toward_the_public_fit(n_classes):
    """Where the loss of what is served falls, it is further from that fit."""
    y = {2: TWO, 3: THREE}[n_classes]
    _, query = start_of(LogisticRegressionQuery(tuple(range(n_classes)), 0.05), y)
    start, found = np.array(query.start), query(X[OURS], y[OURS])
    n_lines = 1 if n_classes == 2 else n_classes
    coef, levels = np.split(start + found, [3 * n_lines])
    scores = X[OURS] @ coef.reshape(n_lines, 3).T + levels
    if n_classes == 2:
        scores = np.column_stack([0 * scores, scores])
    off = softmax(scores, axis=1) - (y[OURS, None] == np.arange(n_classes))
    off = 0.05 * off[:, -n_lines:]
    np.testing.assert_allclose(off.sum(axis=0), 0.0, atol=1e-9)
    moved = found[: 3 * n_lines].reshape(n_lines, 3)
    np.testing.assert_allclose(off.T @ X[OURS], -moved, atol=1e-8)
    assert np.abs(moved).max() > 0.01


@pytest.mark.parametrize("name", QUERIES)
def test_pairs_are_answered_as_one_by_one(name):
    query, y = QUERIES[name]
    start, asked = start_of(query, y)
    found = sample_differences(
        asked, start.table, n_pairs=30, n_records=40, n_features=3, random_state=0
    )
    plain = sample_differences(
        InBlocks(lambda X, y: asked(X, y)),
        start.table,
        n_pairs=30,
        n_records=40,
        n_features=3,
        random_state=0,
    )
    assert np.abs(plain).max() > 0
    np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-5)


def test_corrections_near_zero_are_solved_together(monkeypatch):
    """A good public fit leaves little: its rounding is no share of a correction."""
    # Two of the columns are sums of others, so that rounding counts.
    wide, labels = make_classification(
        300, 10, n_informative=5, flip_y=0.1, class_sep=0.8, random_state=1
    )
    query = LogisticRegressionQuery((0.0, 1.0), 2.0)
    table = TableReference(wide, 1.0 * labels)
    asked = PublicStart.of(table, query, 3000, chosen=False).query(query)
    n_fits = []
    fit = LogisticRegressionQuery.__call__
    monkeypatch.setattr(
        LogisticRegressionQuery,
        "__call__",
        lambda self, *database: n_fits.append(1) or fit(self, *database),
    )
    how = {"n_pairs": 100, "n_records": 3000, "n_features": 10, "random_state": 0}
    found = sample_differences(asked, table, **how)
    assert len(n_fits) <= 10  # as those that are answered in the private form
    one_by_one = InBlocks(lambda X, y: asked(X, y))
    plain = sample_differences(one_by_one, table, **how)
    assert np.abs(found - plain).max() < 1e-3 * np.abs(plain).max()


def test_a_record_is_mapped_by_itself():
    """To the last bit: else all others would tell of one that is replaced."""
    _, query = start_of(RidgeQuery(50.0))
    _, whole = query.mapped(X, Y)
    for rows in (slice(5, 6), slice(3, 50), [7, 2, 290]):
        _, some = query.mapped(X[rows], Y[rows])
        np.testing.assert_array_equal(some, whole[rows])
    np.testing.assert_allclose(
        predict_linear(np.array(query.start), X, 1)[:, 0],
        X @ query.start[:3] + query.start[3],
    )


@pytest.mark.parametrize("n_rows", [6, 100])
def test_residuals_are_of_fits_to_other_rows(n_rows):
    """Each row is left out with a tenth of them, or alone where there are few."""
    rows = slice(0, n_rows)
    fitted = cross_fitted(TableReference(X[rows], Y[rows]), RidgeQuery(1.0))
    known = np.empty(n_rows)
    mixed = np.random.default_rng(n_rows).permutation(n_rows)
    for fold in range(min(10, n_rows)):
        held = mixed[fold::10]
        others = np.setdiff1d(np.arange(n_rows), held)
        fit = Ridge(1.0).fit(X[others], Y[others])
        known[held] = Y[held] - fit.predict(X[held])
    np.testing.assert_allclose(fitted.left, known, rtol=1e-6, atol=1e-9)
    own = Y[rows] - Ridge(1.0).fit(X[rows], Y[rows]).predict(X[rows])
    assert np.mean(known**2) > 1.05 * np.mean(own**2)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_of_fits_to_other_rows(n_classes):
    """With all classes in each; those of the fit itself are far surer."""
    y = {2: TWO, 3: THREE}[n_classes][:20]
    classes = tuple(range(n_classes))
    fitted = cross_fitted(TableReference(X[:20], y), LogisticRegressionQuery(classes))
    known = np.empty((20, n_classes - 1))
    mixed = np.random.default_rng(20).permutation(20)
    mixed = mixed[np.argsort(y[mixed], kind="stable")]
    for fold in range(10):
        held = mixed[fold::10]
        others = np.setdiff1d(np.arange(20), held)
        assert set(y[others]) == set(classes)
        model = LogisticRegression(tol=1e-10, max_iter=10**5).fit(X[others], y[others])
        scores = model.decision_function(X[held]).reshape(len(held), -1)
        known[held] = scores if n_classes == 2 else scores[:, 1:] - scores[:, :1]
    np.testing.assert_array_equal(fitted.left[:, 0], y)
    np.testing.assert_allclose(fitted.left[:, 1:], known, rtol=1e-3, atol=1e-3)
    _, query = start_of(LogisticRegressionQuery(classes), np.resize(y, 300))
    own = CorrectionQuery(query.query, tuple(fitted.numbers), query.usual)
    losses, in_sample = (
        Told.of(query.usual, left, y).losses.mean()
        for left in (fitted.left, own.mapped(X[:20], y)[1])
    )
    assert losses > 1.3 * in_sample


def test_of_a_split_table_only_the_shared_half_is_fitted():
    """Of rows that pairs differ in nothing is known before, as of new people."""
    table = TableReference(X[PUBLIC], Y[PUBLIC], sampling="split")
    own, shared = table._halves()
    fitted = cross_fitted(table, RidgeQuery(1.0))
    np.testing.assert_array_equal(fitted.records, shared)
    np.testing.assert_array_equal(fitted.table.targets[own], Y[PUBLIC][own])
    changed = Y[PUBLIC].copy()
    changed[own] += 7.0
    again = cross_fitted(
        TableReference(X[PUBLIC], changed, sampling="split"), RidgeQuery(1.0)
    )
    np.testing.assert_array_equal(again.numbers, fitted.numbers)
    np.testing.assert_array_equal(
        again.table.targets[shared], fitted.table.targets[shared]
    )
    np.testing.assert_array_equal(
        fitted.numbers, RidgeQuery(1.0)(X[PUBLIC][shared], Y[PUBLIC][shared])
    )


N_FEATURES = 15
MIX = np.random.default_rng(1).normal(size=N_FEATURES)
RIDGE, TWO_CLASSES, THREE_CLASSES = (
    RidgeQuery(1.0),
    LogisticRegressionQuery((0, 1)),
    LogisticRegressionQuery((0, 1, 2)),
)


def people(rng, n, query=RIDGE):
    features = rng.normal(size=(n, N_FEATURES))
    if query is RIDGE:
        return features, features @ MIX + rng.normal(size=n)
    scores = features @ MIX / 2 + rng.logistic(size=n)
    return features, 1.0 * np.digitize(scores, np.arange(len(query.classes) - 1))


def share_beyond(
    n_rows, usual=RIDGE, *, sampling="leave-out", in_sample=False, noise=1.0, times=40
):
    """Return the mean share of real pairs beyond a sensitivity for a risk of 0.2.

    With the penalty that much noise asks for.
    """
    shares, n_records = [], 50
    strength = 100.0 if usual is RIDGE else 1.0
    query = usual.with_penalty((strength * n_records) ** (1 if usual is RIDGE else -1))
    for repeat in range(times):
        rng = np.random.default_rng([repeat, n_rows])
        table = TableReference(*people(rng, n_rows, usual), sampling)
        fitted = cross_fitted(table, usual)
        query = CorrectionQuery(
            getattr(query, "query", query), tuple(fitted.numbers), usual
        )
        # As another query, for which the sampler would refuse nothing.
        asked = FunctionQuery(query) if in_sample else query
        sampler = SensitivitySampler(
            asked,
            gamma=0.2,
            n_records=n_records,
            n_pairs=n_rows // 4 if sampling == "split" else 200,
            noise_shape="isotropic",
            reference=table if in_sample else fitted.table,
            random_state=repeat,
        )
        sampler.fit(table.pool.X, table.pool.y)
        real = sample_differences(
            query,
            TableReference(*people(rng, 2000, usual)),
            n_pairs=200,
            n_records=n_records,
            n_features=N_FEATURES,
            random_state=repeat,
        )
        lengths = np.abs(real).sum(axis=1)
        shares.append(np.mean(lengths > noise * sampler.sensitivity_))
    error = np.std(shares, ddof=1) / math.sqrt(len(shares))
    return np.mean(shares), error


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [30, 60])
def test_noise_is_enough_for_new_people(n_rows):
    """And that of residuals of the public fit itself is not."""
    share, error = share_beyond(n_rows)
    assert share < 0.2 + 3 * error
    share, error = share_beyond(n_rows, in_sample=True)
    assert share > 0.2 + 5 * error


@pytest.mark.slow
@pytest.mark.parametrize("usual", [TWO_CLASSES, THREE_CLASSES], ids=["two", "three"])
def test_noise_is_enough_for_the_classes_of_new_people(usual):
    """That of scores of the public fit itself is not, nor is clearly less noise."""
    share, error = share_beyond(30, usual, times=12)
    assert share < 0.2 + 3 * error
    share, error = share_beyond(30, usual, noise=0.6, times=12)
    assert share > 0.2 + 3 * error
    share, error = share_beyond(30, usual, in_sample=True, times=12)
    assert share > 0.2 + 5 * error


@pytest.mark.slow
@pytest.mark.parametrize("usual", [RIDGE, TWO_CLASSES], ids=["ridge", "classes"])
def test_noise_of_a_split_table_is_exact(usual):
    share, error = share_beyond(120, usual, sampling="split")
    assert share < 0.2 + 3 * error
    # No more than it must be: the risk of 30 pairs is 6/31.
    assert share > 0.15 - 3 * error


@pytest.mark.slow
@pytest.mark.parametrize(
    "usual", [RIDGE, TWO_CLASSES, THREE_CLASSES], ids=["ridge", "two", "three"]
)
def test_a_tenth_less_noise_or_more_is_noticed(usual):
    """Where pairs are those of the population, and the fit is one of other people.

    Then a real pair is one more of the same, and nothing is on the safe side. Real ones
    are answered one by one, and calibrating ones together.
    """
    rng, n_pairs, n_real = np.random.default_rng(5), 8000, 2500
    how = {"n_records": 50, "random_state": 5}
    strength = 5000.0 if usual is RIDGE else 1 / 50
    start = tuple(usual(*people(rng, 120, usual)))
    query = CorrectionQuery(usual.with_penalty(strength), start, usual)
    population, others = (people(rng, 20_000, usual) for _ in range(2))
    n_scores = len(query.classes or (0, 1)) - 1
    left = targets_left(usual, population[1], np.zeros((20_000, n_scores)))
    table = TableReference(*population)._cross_fitted(left)
    calibrated = {"gamma": 0.2, "n_pairs": n_pairs, "noise_shape": "isotropic"}
    sampler = SensitivitySampler(query, reference=table, **calibrated, **how)
    sampler.fit(table.pool.X, table.targets)
    real = sample_differences(
        FunctionQuery(query),
        TableReference(*others),
        n_pairs=n_real,
        n_features=N_FEATURES,
        **how,
    )
    less, same, more = np.mean(
        np.abs(real).sum(axis=1)
        > np.array([[0.9], [1.0], [1.1]]) * sampler.sensitivity_,
        axis=1,
    )
    error = math.sqrt(0.2 * 0.8 * (1 / n_pairs + 1 / n_real))
    assert abs(same - 0.2) < 3 * error
    assert less > 0.2 + 3 * error
    assert more < 0.2 - 3 * error


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_errors_are_those_of_fits_to_other_people(name):
    """What a penalty leaves of a shift, and both covariances, against simulations."""
    query, y = QUERIES[name]
    rng = np.random.default_rng(2)
    start, asked = start_of(query, y)
    base = cross_fitted(TableReference(X[PUBLIC], y[PUBLIC]), start.usual)
    pool_X, pool_y = X[PUBLIC], base.table.targets
    response, private = start._of_release(asked)
    rows = rng.integers(100, size=(600, 200))
    found = np.array([asked(pool_X[each], pool_y[each]) for each in rows])
    simulated = np.cov(start.from_outputs @ found.T)
    # In the noise's own coordinates, as units differ.
    root = np.linalg.inv(np.linalg.cholesky(private))
    ratios = np.linalg.eigvalsh(root @ simulated @ root.T)
    assert 0.5 < ratios.min() < ratios.max() < 3.0
    assert 0.7 < ratios.mean() < 1.5
    sized = asked.resized(100 / 200)  # as strong for each record
    small = 0.2  # as the loss bends
    for own in small * np.eye(len(response)):
        shift = start.to_outputs @ own
        moved = linear_scores(query, shift, pool_X, y[PUBLIC])
        # Of scores that people have less of, and targets that they have more of.
        others = targets_left(query, pool_y, -moved)
        seen = start.from_outputs @ (sized(pool_X, others) - sized(pool_X, pool_y))
        off = start.to_outputs @ (seen - response @ own)
        off, size = (
            np.square(linear_scores(query, each, pool_X, y[PUBLIC])).sum()
            for each in (off, shift)
        )
        assert off < 0.25**2 * size


def test_fits_that_fail_are_no_start(monkeypatch):
    """One on all rows, one on some of them, and another penalty."""
    table = TableReference(X[PUBLIC], Y[PUBLIC])
    answer = PublicFit.answer
    fails = {"whole": lambda fit, rows: len(rows) == 100}
    fails["fold"] = lambda fit, rows: len(rows) < 100
    for failing in fails.values():

        def refuse(fit, rows, failing=failing):
            return None if failing(fit, rows) else answer(fit, rows)

        monkeypatch.setattr(PublicFit, "answer", refuse)
        assert PublicStart.of(table, RidgeQuery(1.0), 9, chosen=True) is None
    monkeypatch.setattr(
        PublicFit,
        "answer",
        lambda fit, rows: answer(fit, rows) if fit.query == RidgeQuery(1.0) else None,
    )
    start = PublicStart.of(table, RidgeQuery(1.0), 9, chosen=True)
    assert start.usual == RidgeQuery(1.0)


def test_squares_that_overflow_are_no_start():
    table = TableReference(1e200 * X[PUBLIC], Y[PUBLIC])
    assert PublicStart.of(table, RidgeQuery(1.0), 9, chosen=False) is None
    table = TableReference(X[PUBLIC], 1e200 * Y[PUBLIC])
    assert PublicStart.of(table, RidgeQuery(1.0), 9, chosen=False) is None
    with pytest.raises(ValueError, match="no answer on all of them together"):
        model_of(alpha=1.0).fit(
            X[OURS], Y[OURS], X_reference=1e200 * X[PUBLIC], y_reference=Y[PUBLIC]
        )


def test_an_audit_is_of_corrections():
    """At another size too, where pairs are drawn again."""
    model = model_of(alpha=5.0, gamma=0.2).fit(X[OURS], Y[OURS], **GIVEN)
    found = Audited.of(model, *GIVEN.values()).calibrate(
        20, None, np.random.SeedSequence(0)
    )
    query = found.sampler.query_
    assert query.query == RidgeQuery((0.5,))
    assert query.start == model.sampler_.query_.start
    words = found.sampler.certificate_.require_evidence().reference
    assert "under fits to its other rows" in words
    rng = np.random.default_rng(5)
    new = rng.normal(size=(1100, 3)) * [1.0, 8.0, 0.1] + [0.0, 100.0, 5.0]
    targets = new @ [1.0, -0.2, 6.0] + rng.normal(size=1100)
    asked = {"epsilon": 4.0, "n_blocks": 50, "random_state": 0}
    report = audit_reference(model, new, targets, **asked, **GIVEN)
    assert report.n_records == 21
    assert report.upper < 0.5


DIABETES = load_diabetes(return_X_y=True)


def scores(public, ours, *, moved=0.0, epsilon=0.3):
    """Return R2 of public records alone, of the release alone, and of both."""
    features, targets = DIABETES[0] * 20, (DIABETES[1] - 150) / 77
    given = {"X_reference": features[public], "y_reference": targets[public]}
    models = [
        model_of(epsilon=epsilon, combine=combine, sensitivity=None).fit(
            features[ours], targets[ours] + moved, **given
        )
        for combine in (None, "reference")
    ]
    alone = Ridge(1.0).fit(features[public], targets[public])
    test = np.setdiff1d(np.arange(442), np.concatenate([public, ours]))
    return [m.score(features[test], targets[test] + moved) for m in (alone, *models)]


@pytest.mark.slow
def test_other_features_are_told_from_other_targets():
    """Public records of low body mass are right; people with other targets are not."""
    order = np.argsort(DIABETES[0][:, 2], kind="stable")
    shifted, moved = [], []
    for repeat in range(6):
        rng = np.random.default_rng(repeat)
        shifted.append(scores(order[:147], rng.permutation(order[147:])[:147]))
        rows = rng.permutation(442)
        moved.append(scores(rows[:147], rows[147:294], moved=2.0))
    alone, _, both = np.median(shifted, axis=0)
    assert both > alone - 0.02
    alone, release, both = np.median(moved, axis=0)
    assert both > 0.4 > max(alone, release)


def test_a_table_that_a_sampler_was_given_has_the_targets_of_the_records():
    """As X_reference has: the public fit would not be for such targets."""

    def fit(y_reference, y):
        table = TableReference(X[PUBLIC], y_reference)
        own = SensitivitySampler(n_pairs=60, reference=table)
        model_of(alpha=5.0, sensitivity=own).fit(X[OURS], y)

    with pytest.raises(IncompatibleError, match="has 2 targets, but y has 1:"):
        fit(TARGETS[PUBLIC], Y[OURS])
    with pytest.raises(IncompatibleError, match="has 1 targets, but y has 2:"):
        fit(Y[PUBLIC], TARGETS[OURS])
    for none in (None, np.where(Y[PUBLIC] > 0, "high", "low")):
        with pytest.raises(ValueError, match="no targets that are numbers: give"):
            fit(none, Y[OURS])


@pytest.mark.parametrize("combine", ["reference", None])
def test_what_it_means_for_new_people_is_not_known(combine):
    """As the rows that pairs are drawn from gave the fit: a theorem is about others."""
    model = model_of(alpha=5.0, combine=combine).fit(X[OURS], Y[OURS], **GIVEN)
    words = model.certificate_.require_evidence().for_new_people
    known = "not known: the fit that is corrected is of this table as well"
    assert (words == known) == (combine is not None)
    table = TableReference(X, Y, "split")  # as of all queries
    assert cross_fitted(table, RidgeQuery(1.0)).table.for_new_people is None


def test_residuals_of_fitted_rows_calibrate_nothing():
    """Nor do targets that are made for corrections calibrate another query."""
    model = model_of(random_state=0).fit(X[OURS], Y[OURS], **GIVEN)
    sampler = clone(model.sampler_)
    sampler.set_params(reference=None)
    with pytest.raises(ValueError, match="residuals under fits to other rows"):
        sampler.fit(X[PUBLIC], Y[PUBLIC])
    table, query = start_of(RidgeQuery(50.0))[0].table, RidgeQuery(50.0)
    sampler.set_params(query=query, reference=table)
    with pytest.raises(ValueError, match="give the table itself"):
        sampler.fit(X[OURS], Y[OURS])
    model.set_params(sensitivity=SensitivitySampler(n_pairs=60, reference=table))
    with pytest.raises(ValueError, match="of an earlier correction"):
        model.fit(X[OURS], Y[OURS])


WORDS = np.array(["no", "yes"])[TWO.astype(int)]
LABELS = {"numbers": TWO, "words": WORDS, "three": THREE}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sampling", ["leave-out", "split"])
@pytest.mark.parametrize("labels", LABELS)
def test_classes_of_tables_that_are_sampled_in_any_way(sampling, labels):
    """The start is a fit to all rows, or with "split" to those of shared records."""
    y = LABELS[labels]
    table = TableReference(X[:200], y[:200], sampling)
    given = {"n_pairs": 40, "n_records": 40}
    model = model_of(PrivateLogisticRegression, C=0.01, epsilon=math.inf)
    model.set_params(sensitivity=SensitivitySampler(**given))
    model.fit(X[200:240], y[200:240], X_reference=table)
    codes = np.searchsorted(model.classes_, y)
    rows = np.arange(200) if sampling != "split" else table._halves()[1]
    usual = LogisticRegressionQuery(range(len(model.classes_)), 0.01)
    start = usual(X[rows], codes[rows])
    np.testing.assert_array_equal(model.sampler_.query_.start, start)
    asked = model.sampler_.query_(X[200:240], codes[200:240])
    np.testing.assert_allclose(model.released_, asked, rtol=1e-9)
    words = model.certificate_.require_evidence().reference
    assert "residuals of the table are under fits to its other rows" in words


def test_a_table_of_labels_that_a_sampler_was_given():
    """Which has classes; others are as they were refused before."""
    table = TableReference(X[PUBLIC], WORDS[PUBLIC])
    own = SensitivitySampler(n_pairs=60, reference=table)
    model = model_of(PrivateLogisticRegression, C=0.01, sensitivity=own)
    model.fit(X[OURS], WORDS[OURS])
    assert own.reference is table
    found = model.sampler_.reference
    assert found.is_cross_fitted
    assert found.targets.shape == (100, 2)
    given = model_of(PrivateLogisticRegression, C=0.01)
    given.fit(X[OURS], WORDS[OURS], X_reference=table)
    np.testing.assert_array_equal(
        given.sampler_.differences_, model.sampler_.differences_
    )
    for kind in (PrivateRidge, PrivateLogisticRegression):
        for combine in (None, "reference"):
            again = model_of(kind, combine=combine)
            with pytest.raises(ValueError, match="targets of an earlier correction"):
                again.fit(X[OURS], TWO[OURS], X_reference=found)
    none = SensitivitySampler(n_pairs=60, reference=TableReference(X[PUBLIC]))
    with pytest.raises(ValueError, match="no targets that are numbers: give"):
        model.set_params(sensitivity=none, classes=["no", "yes"]).fit(
            X[OURS], WORDS[OURS]
        )


@pytest.mark.parametrize("labels", LABELS)
def test_an_audit_of_classes_is_of_corrections(labels):
    """At another size too; of a fitted sampler, whose table has other targets."""
    y = LABELS[labels]
    table = TableReference(X[PUBLIC], y[PUBLIC])
    own = SensitivitySampler(n_pairs=60, reference=table)
    model = model_of(PrivateLogisticRegression, C=0.01, sensitivity=own)
    model.fit(X[OURS], y[OURS])
    found = [
        Audited.of(each, None, None)
        .calibrate(40, None, np.random.SeedSequence(0))
        .sampler
        for each in (model, model.sampler_)
    ]
    for each in found:
        assert pytest.approx(0.05) == each.query_.query.C
        assert each.query_.start == model.sampler_.query_.start
        np.testing.assert_array_equal(
            each.reference.targets, model.sampler_.reference.targets
        )


def test_a_chosen_penalty_is_one_of_corrections():
    """Scores are what is left of the loss; the usual fit is that of scikit-learn."""
    model = model_of(PrivateLogisticRegression, sensitivity=None)
    model.fit(X[OURS], TWO[OURS], X_reference=X[PUBLIC], y_reference=TWO[PUBLIC])
    choice = model.penalty_choice_
    assert choice.chosen == model.C_
    assert isinstance(model.sampler_.query_.query, UnitsQuery)
    start = PublicStart.of(
        TableReference(X[PUBLIC], TWO[PUBLIC]),
        LogisticRegressionQuery((0, 1)),
        200,
        chosen=True,
    )
    assert choice.scores.max() < 1 - start.loss
    asked = start.query(model.sampler_.query_.query)
    weak, strong = (
        start.score(replace_C(asked, C), 0 * np.eye(4)) for C in (choice.chosen, 1e-9)
    )
    assert weak > strong
    again = model_of(PrivateLogisticRegression, C=choice)
    again.fit(X[OURS], TWO[OURS], X_reference=X[PUBLIC], y_reference=TWO[PUBLIC])
    assert again.sampler_.query_ == model.sampler_.query_


def replace_C(query, C):
    return CorrectionQuery(query.query.with_penalty(C), query.start, query.usual)


def test_few_rows_of_any_weight_tell_of_curvature_what_all_do():
    """Where the classes are apart, most are sure of theirs."""
    rows, y = X[:40].copy(), np.arange(40) % 2
    rows[:, 0] += 40.0 * y
    table = TableReference(rows, y)
    start = PublicStart.of(table, LogisticRegressionQuery((0, 1)), 200, chosen=False)
    assert np.linalg.cond(start.weights) < 100
    assert np.isfinite(start.public).all()
    model = model_of(PrivateLogisticRegression, epsilon=0.1)
    ours, codes = X[OURS].copy(), np.arange(200) % 2
    ours[:, 0] += 40.0 * codes
    model.fit(ours, codes, X_reference=rows, y_reference=y)
    assert model.score(ours, codes) > 0.98


def test_a_sampler_of_corrections_knows_the_classes():
    """But is none for a logistic regression alone."""
    model = model_of(PrivateLogisticRegression, C=0.01)
    model.fit(X[OURS], TWO[OURS], X_reference=X[PUBLIC], y_reference=TWO[PUBLIC])
    assert model.sampler_.query_.classes == (0.0, 1.0)
    with pytest.raises(IncompatibleError, match="has 1 targets, but y has 2"):
        model.sampler_.release(X[OURS], np.column_stack([TWO, TWO])[OURS])
    again = PrivateLogisticRegression(0.01, gamma=0.2, sensitivity=model.sampler_)
    again.fit(X[OURS], TWO[OURS])
    assert again.sampler_.query_ == model.sampler_.query_
    assert again.certificate_ == model.certificate_
    with pytest.raises(IncompatibleError, match="of residuals under a public fit"):
        again.set_params(combine=None).fit(X[OURS], TWO[OURS])
