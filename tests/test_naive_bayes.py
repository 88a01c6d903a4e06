"""Naive Bayes classifiers with a proven bound follow from noisy sums over classes."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from laws import assert_law, rejects_law
from numpy.testing import assert_allclose, assert_array_equal
from query_pairs import known_pairs
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from wrapped import private

from skparisk import (
    IncompatibleError,
    KnownSensitivity,
    PrivateEstimator,
    SchemaReference,
    SensitivitySampler,
)
from skparisk.queries._leaves import ClassCells, ClassSumsQuery, FeatureAddend
from skparisk.queries._state import read
from skparisk.reference import Domain, RecordPool
from skparisk.wrappers._naive_bayes import find_naive_bayes, shrunk_means

N, D = 240, 4
KINDS = ["ash", "beech", "cedar"]
GROUP = np.random.default_rng(0).integers(3, size=N)
LABELS = np.array(KINDS)[GROUP]
# Whole numbers from 0 to 4, a few of which are above what is declared.
X = np.random.default_rng(1).binomial(4, 0.2 + 0.25 * GROUP[:, None], size=(N, D)) * 1.0
SCHEMA = SchemaReference([(0.0, 3.0)] * D, target=KINDS)
INSIDE = X.clip(0.0, 3.0)
CLASSIFIERS = (
    GaussianNB(),
    GaussianNB(priors=[0.2, 0.3, 0.5], var_smoothing=1e-3),
    BernoulliNB(binarize=1.5, alpha=0.5),
    MultinomialNB(fit_prior=False),
    ComplementNB(norm=True),
    CategoricalNB(alpha=2.0),
    CategoricalNB(min_categories=6),
)
EXACT = {"epsilon": math.inf}
RELATIONS = ("replace-one", "add-remove")


def named(*estimators):
    return pytest.mark.parametrize("estimator", estimators, ids=lambda e: str(e)[:22])


def bounded(estimator, **parameters):
    return private(estimator, **({"sensitivity": "bound"} | parameters))


def fit(estimator, records=X, labels=LABELS, reference=SCHEMA, **parameters):
    return bounded(estimator, **parameters).fit(records, labels, X_reference=reference)


def query_of(addend, n_classes=2):
    cells = ClassCells(tuple(map(float, range(n_classes))))
    return ClassSumsQuery(cells, addend, GaussianNB())


def box(n_features, n_records=8, **parameters):
    ends = np.zeros(n_features), np.full(n_features, 2.0)
    return FeatureAddend(*ends, n_records, **parameters)


@named(*CLASSIFIERS)
def test_without_noise_it_is_the_fit_of_scikit_learn(estimator):
    model, plain = fit(estimator, **EXACT), clone(estimator).fit(INSIDE, LABELS)
    assert_allclose(
        model.predict_proba(INSIDE), plain.predict_proba(INSIDE), atol=1e-10
    )
    assert_array_equal(model.classes_, KINDS)
    assert type(model.estimator_) is type(estimator)
    assert model.estimator_.get_params() == estimator.get_params()
    for place in model.template_.places:
        value, expected = read(model.estimator_, place), getattr(plain, place)
        for one, two in zip(value, expected, strict=True):
            assert_allclose(one, two, rtol=1e-9)


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_public_records_have_bounds_as_well(kind):
    """And steps before are fitted on them."""
    public, mine = INSIDE[:80], INSIDE[80:]
    if kind == "frame":
        public, mine = (pd.DataFrame(part).add_prefix("x") for part in (public, mine))
    reference = {"X_reference": public, "y_reference": LABELS[:80]}
    plain = GaussianNB().fit(np.asarray(mine), LABELS[80:])
    for estimator in (GaussianNB(), make_pipeline(StandardScaler(), GaussianNB())):
        model = bounded(estimator, **EXACT).fit(mine, LABELS[80:], **reference)
        expected = plain.predict_proba(np.asarray(mine))
        assert_allclose(model.predict_proba(mine), expected, atol=1e-6)
    assert model.public_steps_ == ("standardscaler",)
    assert model.template_.places[0] == "steps.gaussiannb.theta_"
    assert_allclose(model.estimator_[0].mean_, np.asarray(public).mean(axis=0))


def test_steps_may_make_frames():
    """The classifier has the names of their columns."""
    scaled = make_pipeline(StandardScaler(), GaussianNB()).set_output(
        transform="pandas"
    )
    frame = pd.DataFrame(INSIDE, columns=list("abcd"))
    model = fit(scaled, frame, reference=frame_schema(), **EXACT)
    assert list(model.estimator_[-1].feature_names_in_) == list("abcd")
    assert model.score(frame, LABELS) > 0.6


def frame_schema():
    return SchemaReference(dict.fromkeys("abcd", (0.0, 3.0)), target=KINDS)


def test_texts_are_counted():
    """Words of public texts, in a sparse matrix."""
    words = np.array([f"{'ab' * (k + 1)}" for k in range(D)])
    texts = [" ".join(np.repeat(words, row.astype(int))) or "none" for row in INSIDE]
    pipeline = make_pipeline(CountVectorizer(), MultinomialNB())
    public = {"X_reference": texts[:80], "y_reference": LABELS[:80]}
    model = bounded(pipeline, **EXACT).fit(texts[80:], LABELS[80:], **public)
    plain = clone(pipeline).fit(texts[80:], LABELS[80:])
    assert_allclose(model.predict_proba(texts), plain.predict_proba(texts), atol=1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("addend", "ends"),
    [
        (box(3), ([2.0] * 3, [0.0] * 3)),
        (box(3, squared=True), ([2.0] * 3, [0.0] * 3)),
        (box(4, most=2.0), ([2.0, 1.0, 0.0, 1.0], [1.0, 2.0, 1.0, 0.0])),
        (box(20), ([2.0] * 20, [0.0] * 20)),
    ],
    ids=["plain", "squared", "few", "weighted"],
)
def test_the_bound_is_attained_and_not_exceeded(addend, ends, relation):
    query, rng = query_of(addend), np.random.default_rng(0)

    def answer(*records):
        rows = np.array([row for row, _ in records]).reshape(-1, len(addend.low))
        return query(rows, np.array([label for _, label in records], dtype=float))

    n_features = len(addend.low)
    records = [(end, label) for end in ends for label in (0, 1)]
    if addend.most is None:
        records += [(row, 0) for row in rng.uniform(-1, 3, size=(60, n_features))]
        records += [(row, 1) for row in rng.uniform(-1, 3, size=(60, n_features))]
    answers = np.array([answer(record) for record in records])
    others = answers if relation == "replace-one" else answer()[None]
    moves = np.concatenate([answers - other for other in others])
    largest = np.linalg.norm(moves, 1, axis=1).max()
    assert largest == pytest.approx(query.bound("l1", relation))
    assert np.linalg.norm(moves, 2, axis=1).max() <= query.bound("l2", relation)
    move = query.largest_move(Domain([None] * n_features), 8, relation)
    assert (np.abs(moves).max(axis=0) <= move.outputs).all()


@pytest.mark.parametrize("relation", RELATIONS)
@named(*CLASSIFIERS[2:6], CLASSIFIERS[0])
def test_batched_differences_are_those_of_answers(estimator, relation):
    query = replace(template_query(estimator), leaves=ClassCells((0.0, 1.0, 2.0)))
    pool, rng = RecordPool(X, GROUP.astype(float)), np.random.default_rng(0)
    records = rng.integers(N, size=(20, 30))
    replacement = rng.integers(N, size=20) if relation == "replace-one" else None
    pairs = known_pairs(pool, records, rng.integers(30, size=20), replacement)
    plain = query._plain_differences(pairs).values
    assert_array_equal(query.differences(pairs), plain)
    sizes = np.linalg.norm(plain, 1, axis=1)
    assert sizes.max() <= query.bound("l1", relation)


def template_query(estimator):
    template = fit(estimator).template_
    return ClassSumsQuery(ClassCells((0.0, 1.0, 2.0)), template.addend, estimator)


def test_sums_are_exact_in_any_order():
    addend = box(3, 1000, squared=True)
    rows = np.random.default_rng(0).uniform(-1, 3, size=(1000, 3))
    added = addend(rows)
    assert_array_equal(sum(added), sum(added[::-1]))
    assert_array_equal(added[:, 0], 1.0)
    z = rows.clip(0, 2) - 1
    assert_allclose(added[:, 1:], np.column_stack([z, 2 * z**2 - 1]), atol=1e-12)
    assert_allclose(addend.as_features(added[:, 1:4]), rows.clip(0, 2), atol=1e-12)


@pytest.mark.parametrize("estimator", [GaussianNB(), BernoulliNB(binarize=1.5)])
def test_the_guarantee_is_pure(estimator):
    model = fit(estimator, epsilon=2.0)
    certificate = model.certificate_
    assert (certificate.delta, certificate.risk, model.sampler_) == (0.0, 0.0, None)
    assert certificate.private
    n_numbers = 2 * D if isinstance(estimator, GaussianNB) else D
    assert model.sensitivity_ == 2 * (1 + n_numbers)  # the count has a weight of 1
    assert model.noise_scale_ == pytest.approx(model.sensitivity_ / 2)
    assert "proven bound" in str(certificate)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_the_noise_is_that_of_the_bound():
    """A tenth more, or less, would show."""
    query = template_query(GaussianNB())
    exact, known = query(X, GROUP.astype(float)), KnownSensitivity(query.bound())
    noise = []
    for seed in range(1900):
        model = private(GaussianNB(), noise_random_state=seed)
        answer = model._release_known(query, X, GROUP.astype(float), known, proven=True)
        noise.append(answer - exact)
    law = stats.laplace(scale=query.bound()).cdf
    draws = np.concatenate(noise)
    assert_law(draws, law)
    assert rejects_law(0.9 * draws, law)
    assert rejects_law(1.1 * draws, law)


@named(*CLASSIFIERS)
def test_any_noise_gives_a_classifier(estimator):
    for epsilon in (1e-6, 1.0, 1e6):
        model = fit(estimator, epsilon=epsilon)
        shares = model.predict_proba(INSIDE)
        assert_allclose(shares.sum(axis=1), 1.0)
        assert np.isfinite(shares).all()
    exact = fit(estimator, **EXACT)
    assert (model.predict(INSIDE) == exact.predict(INSIDE)).mean() > 0.9
    assert str(template_query(estimator)).endswith("NB (sums of classes)")


def test_nothing_but_the_sums_is_private():
    """With the same sums, the same is served, whatever the records were."""
    template = fit(GaussianNB()).template_
    sums = {"sums": np.random.default_rng(0).normal(40, 9, size=(3, 1 + 2 * D))}
    noise = {"sums": np.full((3, 1 + 2 * D), 9.0)}
    other = fit(GaussianNB(), X[::-1] + 1, LABELS).template_
    one, two = template.serve(sums, noise), other.serve(sums, noise)
    assert vars(one).keys() == vars(GaussianNB().fit(X, LABELS)).keys()
    for name in ("theta_", "var_", "class_prior_", "class_count_", "epsilon_"):
        assert_array_equal(getattr(one, name), getattr(two, name))
    assert template.needs == {}


def test_means_are_weighed_by_what_noise_left_of_them():
    sums = np.array([[30.0, 15.0], [10.0, -5.0]])
    quiet, loud = np.full((2, 2), 1e-9), np.full((2, 2), 1e9)
    counts, means, errors = shrunk_means(sums, quiet, 40, np.zeros(1))
    assert_allclose(counts, [30.0, 10.0])
    assert_allclose(means, [[0.5], [-0.5]])
    assert_allclose(errors, 0.0, atol=1e-9)
    some = np.array([[0.0, 20.0], [0.0, 20.0]])
    _, means, _ = shrunk_means(sums, some, 40, np.zeros(1))
    assert_allclose(means, 0.16, atol=0.08)  # nearly that of all records, 0.25
    assert means[0] > means[1]
    _, means, errors = shrunk_means(sums, loud, 40, np.full(1, 0.7))
    assert_allclose(means, 0.7, atol=1e-6)
    assert (errors < 1e-6).all()
    below = np.array([[-9.0, 0.0], [60.0, 0.0]])
    counts, _, _ = shrunk_means(below, quiet, 40, np.zeros(1))
    assert_allclose(counts, [1.0, 40.0], rtol=0.05)
    counts, _, _ = shrunk_means(below, loud, 40, np.zeros(1))
    assert_allclose(counts, 20.0)


def test_a_record_that_steps_refuse_adds_to_its_class_alone():
    """An error would tell of it."""
    codes = ColumnTransformer(
        [("one", OneHotEncoder(), ["a"])], remainder="passthrough"
    )
    pipeline = make_pipeline(codes, MultinomialNB())
    frame = pd.DataFrame(INSIDE, columns=list("abcd")).astype({"a": str})
    public = {"X_reference": frame[:80], "y_reference": LABELS[:80]}
    mine = frame[80:].copy()
    model = bounded(pipeline).fit(mine, LABELS[80:], **public)
    before = model.template_.addend(mine)
    mine.iloc[7, 0] = "elsewhere"
    added = model.template_.addend(mine)
    others = np.arange(len(mine)) != 7
    assert_array_equal(added[others], before[others])
    assert_array_equal(added[7], [1.0] + [0.0] * (added.shape[1] - 1))
    assert bounded(pipeline).fit(mine, LABELS[80:], **public).certificate_.private


def test_numbers_that_are_missing_or_huge_are_somewhere():
    addend = box(3)
    assert_array_equal(addend(np.array([[np.nan, np.inf, -1e308]])), [[1, 0, 1, -1]])
    constant = FeatureAddend(np.ones(1), np.ones(1), 4)
    assert_array_equal(constant(np.array([[7.0]])), [[1.0, 0.0]])


def test_what_cannot_be_is_refused():
    with pytest.raises(IncompatibleError, match="GaussianNB must have bounds"):
        bounded(GaussianNB(), classes=KINDS).fit(X, LABELS)
    alone = make_pipeline(FunctionTransformer(_less_mean), GaussianNB())
    with pytest.raises(IncompatibleError, match="each record by itself"):
        fit(alone)
    with pytest.raises(ValueError, match="sensitivity must be None"):
        private(GaussianNB(), ("theta_",), sensitivity="bound").fit(
            X, LABELS, X_reference=SCHEMA
        )
    assert box(2, before=FunctionTransformer(np.sqrt).fit([[1.0, 1.0]])).keeps_apart(
        np.ones((3, 2))
    )


def _less_mean(records):
    return records - records.mean(axis=0)


def test_other_sensitivities_release_what_is_fitted():
    """As for other estimators: only with a bound are sums released."""
    sampler = SensitivitySampler(n_pairs=4)
    model = fit(GaussianNB(), sensitivity=sampler)
    assert isinstance(model, PrivateEstimator)
    assert not isinstance(model.sampler_.query_, ClassSumsQuery)


def test_features_that_are_0_or_1():
    """Without a threshold they are as they come."""
    ones, schema = (X > 1) * 1.0, SchemaReference([(0.0, 1.0)] * D, target=KINDS)
    model = fit(BernoulliNB(binarize=None), ones, reference=schema, **EXACT)
    plain = BernoulliNB(binarize=None).fit(ones, LABELS)
    assert_allclose(model.predict_proba(ones), plain.predict_proba(ones), atol=1e-12)


def test_queries_are_equal_if_they_are_for_equal_classifiers():
    one, two = (template_query(GaussianNB()) for _ in range(2))
    assert one == two
    assert one != template_query(BernoulliNB())
    assert one.classes == (0.0, 1.0, 2.0)


def test_only_known_classes_are_naive_bayes():
    class Odd(GaussianNB):
        pass

    assert find_naive_bayes(Odd()) is None
    assert find_naive_bayes(StandardScaler()) is None
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    assert find_naive_bayes(pipeline) is pipeline[-1]
