"""Trees and forests have public splits, and leaf values from noisy sums."""

import copy
import io
import math
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from query_pairs import RELATIONS, known_pairs
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_friedman1
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    StandardScaler,
    scale,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from sklearn.tree._tree import Tree
from wrapped import CLASSES, LABELS, LABELS_PUBLIC, X_PUBLIC, Y_PUBLIC, X, Y, private

from skparisk import (
    IncompatibleError,
    KnownSensitivity,
    SchemaReference,
    SensitivitySampler,
)
from skparisk.core.noise import NoiseShape
from skparisk.exceptions import ReferenceWarning
from skparisk.queries import ClassAddend, LeafQuery, Leaves, TargetAddend
from skparisk.queries._leaves import (
    MarginAddend,
    ResidualAddend,
    ResidualsQuery,
    is_row_wise,
)
from skparisk.queries._state import read
from skparisk.reference import RecordPool, SecretSample, TableReference
from skparisk.wrappers._forests import (
    below,
    class_shares,
    find_trees,
    target_means,
    votes,
)

N = len(X)
CLASSIFIERS = (
    DecisionTreeClassifier(max_depth=3),
    ExtraTreeClassifier(max_depth=3),
    RandomForestClassifier(4, max_depth=3, oob_score=True),
    ExtraTreesClassifier(4, max_depth=3),
)
REGRESSORS = (
    DecisionTreeRegressor(max_depth=3),
    ExtraTreeRegressor(max_depth=3),
    RandomForestRegressor(4, max_depth=3),
    ExtraTreesRegressor(4, max_depth=3),
)
FEW = SensitivitySampler(n_pairs=9)
# Declared about as wide as the records are.
SCHEMA_OF_CLASSES = SchemaReference([(0.0, 4.0)] * 4, target=CLASSES)
SCHEMA_OF_TARGETS = SchemaReference([(0.0, 4.0)] * 4, target=(-5.0, 10.0))


def named(estimators):
    return pytest.mark.parametrize("estimator", estimators, ids=lambda e: str(e)[:16])


def fit(estimator, y=LABELS, y_reference=LABELS_PUBLIC, **parameters):
    model = private(estimator, **({"sensitivity": "bound"} | parameters))
    return model.fit(X, y, X_reference=X_PUBLIC, y_reference=y_reference)


def fit_targets(estimator, **parameters):
    return fit(estimator, Y, Y_PUBLIC, **parameters)


def targets_of(estimator):
    """Return private and public labels, or targets."""
    classify = "Cl" in str(estimator)
    return (LABELS, LABELS_PUBLIC) if classify else (Y, Y_PUBLIC)


def trees_of(fitted):
    return [fitted] if hasattr(fitted, "tree_") else fitted.estimators_


def query_of(estimator, y=Y, y_reference=Y_PUBLIC, **parameters):
    sampler = SensitivitySampler(n_pairs=4, **parameters)
    return fit(estimator, y, y_reference, sensitivity=sampler).sampler_.query_


@named(CLASSIFIERS)
def test_without_noise_leaves_have_the_shares_of_private_records(estimator):
    model = fit(estimator, epsilon=math.inf)
    for tree, cells in zip(
        trees_of(model.estimator_), model.template_.leaves.cells, strict=True
    ):
        mine = cells[tree.apply(X)]
        for node in np.unique(tree.apply(X)):
            inside = LABELS[mine == cells[node]]
            expected = [(inside == label).mean() for label in CLASSES]
            assert_allclose(tree.tree_.value[node, 0], expected, atol=1e-15)
    probabilities = model.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert_array_equal(model.classes_, CLASSES)
    assert model.estimator_.get_params() == model.template_.fitted.get_params()


@named(REGRESSORS)
def test_without_noise_leaves_have_the_means_of_private_records(estimator):
    model = fit_targets(estimator, epsilon=math.inf)
    clipped = np.clip(Y, Y_PUBLIC.min(), Y_PUBLIC.max())
    for tree, cells in zip(
        trees_of(model.estimator_), model.template_.leaves.cells, strict=True
    ):
        mine = cells[tree.apply(X)]
        for node in np.unique(tree.apply(X)):
            expected = clipped[mine == cells[node]].mean()
            assert_allclose(tree.tree_.value[node, 0, 0], expected, rtol=1e-12)


def test_cells_are_leaves_where_these_are_large():
    model = fit(DecisionTreeClassifier(min_samples_leaf=20), epsilon=math.inf)
    tree = model.estimator_.tree_
    (cells,) = model.template_.leaves.cells
    assert ((cells >= 0) == (tree.children_left < 0)).all()


def test_cells_have_some_records_and_are_not_too_many(monkeypatch):
    grown = ExtraTreesClassifier(5)
    template = fit(grown).template_
    counts = template.in_cells.sum(axis=1) * N / len(X_PUBLIC)
    assert counts.min() >= 5
    largest = template.leaves.n_cells
    assert largest > 20
    monkeypatch.setattr("skparisk.wrappers._forests._MOST_OUTPUTS", 3 * 20)
    assert 15 <= fit(grown).template_.leaves.n_cells <= 20
    monkeypatch.setattr("skparisk.wrappers._forests._MOST_OUTPUTS", 1)
    assert fit(grown).template_.leaves.n_cells == 5  # one for each tree


@pytest.mark.parametrize("relation", RELATIONS)
@named([RandomForestClassifier(3), DecisionTreeRegressor(max_depth=3)])
def test_batched_differences_are_those_of_answers(estimator, relation):
    query, y = query_of(estimator, *targets_of(estimator)), targets_of(estimator)[0]
    y = np.searchsorted(CLASSES, LABELS) if y is LABELS else Y
    pool = RecordPool(X, y.astype(float))
    rng = np.random.default_rng(0)
    records = rng.integers(N, size=(20, 30))
    replacement = rng.integers(N, size=20) if relation == "replace-one" else None
    pairs = known_pairs(pool, records, rng.integers(30, size=20), replacement)
    plain = query._plain_differences(pairs).values
    assert_array_equal(query.differences(pairs), plain)
    for norm, order in (("l1", 1), ("l2", 2)):
        sizes = np.linalg.norm(plain, order, axis=1)
        assert sizes.max() <= query.bound(norm, relation) * (1 + 1e-12)
    with pytest.raises(ValueError, match="reference has none"):
        query.on_pool(RecordPool(X), 3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_bound_for_classes_is_attained(relation, norm):
    query = query_of(RandomForestClassifier(6, max_depth=2), LABELS, LABELS_PUBLIC)
    y = np.zeros(N)
    other = y.copy()
    other[0] = 1.0
    one, two = query(X, y), query(X, other)
    if relation == "add-remove":
        two = query(X[1:], y[1:])
    far = np.linalg.norm(one - two, 1 if norm == "l1" else 2)
    assert_allclose(far, query.bound(norm, relation), rtol=1e-15)
    moved = 12 if relation == "replace-one" else 6
    assert_allclose(far, moved if norm == "l1" else math.sqrt(moved))


@pytest.mark.parametrize("relation", RELATIONS)
def test_bound_for_residuals_is_attained(relation):
    ends = np.array([-1.0]), np.array([1.0])
    addend = ResidualAddend(*ends, np.zeros(1), np.array([0.5]), 3)
    tree = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [0.0, 5.0])
    query = ResidualsQuery(Leaves(tree, (np.array([-1, 0, 1]),), 2), addend, tree)
    rows = [([[x]], [5 * x + left]) for x in (0, 1) for left in (-1, 1, 9, -9)]
    answers = [query(np.array(x), np.array(y)) for x, y in rows]
    moves = [one - two for one in answers for two in answers]
    if relation == "add-remove":
        moves = answers
    for norm, order in (("l1", 1), ("l2", 2)):
        largest = max(np.linalg.norm(move, order) for move in moves)
        assert query.bound(norm, relation) == pytest.approx(largest)


def test_residuals_are_of_each_record_by_itself():
    pipe = make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0))
    query = fit_targets(pipe, sensitivity=FEW).sampler_.query_
    each = sum(query(X[row : row + 1], Y[row : row + 1]) for row in range(N))
    assert_array_equal(query(X, Y), each)


def test_residuals_are_added_to_public_leaves():
    """With next to no noise by as much as there are private records for public ones."""
    tree = DecisionTreeRegressor(min_samples_leaf=20, random_state=0)
    model = fit_targets(tree, epsilon=1e6)
    public = model.template_.fitted
    plain, expected = clone(tree).fit(X_PUBLIC, Y_PUBLIC), public.predict(X)
    # As far from the mean as trees of other rows bear out.
    center = Y_PUBLIC.mean()
    slopes = (expected - center) / (plain.predict(X) - center)
    assert 0.5 < slopes.min() <= slopes.max() * (1 + 1e-9) < 1.0
    for leaf in np.unique(public.apply(X)):
        own, known = (public.apply(each) == leaf for each in (X, X_PUBLIC))
        left = (Y[own] - expected[own]).sum()
        expected[own] += left / known.sum() / (1 + len(X) / len(X_PUBLIC))
    assert_allclose(model.predict(X), expected, atol=1e-3)
    assert model.private_weight_ == pytest.approx(1 / 3, rel=1e-3)


def test_with_split_no_pair_is_of_rows_that_trees_have_seen():
    table = TableReference(X_PUBLIC, Y_PUBLIC, sampling="split")
    model = private(RandomForestRegressor(3), sensitivity=FEW)
    model.fit(X, Y, X_reference=table)
    assert not model.sampler_.query_.is_correction
    assert "residuals in leaves" in str(model.sampler_.query_)
    assert model.private_weight_ > 0.0


def test_pairs_of_a_secret_sample_have_residuals_of_public_trees():
    sampler = SensitivitySampler(reference=SecretSample(0.5), n_pairs=9)
    model = fit_targets(DecisionTreeRegressor(max_depth=3), sensitivity=sampler)
    assert "residuals in leaves" in str(model.sampler_.query_)
    assert not model.sampler_.query_.is_correction
    assert model.certificate_.protects_membership
    assert 0.0 < model.private_weight_ < 1.0


def test_residuals_are_of_trees_that_have_seen_nothing_of_a_person():
    """Whose rows are alike."""
    rng = np.random.default_rng(0)
    people, y = np.repeat(rng.normal(size=(30, 2)), 4, axis=0), rng.normal(size=30)
    y, groups = np.repeat(y, 4), np.repeat(np.arange(30), 4)
    few = SensitivitySampler(n_pairs=9)
    model = private(RandomForestRegressor(5, random_state=0), sensitivity=few)
    others = rng.normal(size=(50, 2)), rng.normal(size=50)
    public = {"X_reference": people, "y_reference": y, "groups_reference": groups}
    model.fit(*others, groups=np.arange(100, 150), **public)
    assert model.sampler_.query_.addend.unit > 0.7


def test_many_private_records_are_better_than_few_public_ones():
    numbers, y = make_friedman1(4000, random_state=0)
    forest = RandomForestRegressor(20, random_state=0)
    model = private(forest, sensitivity=SensitivitySampler(n_pairs=60))
    public, others = (numbers[:100], y[:100]), (numbers[3100:], y[3100:])
    names = ("X_reference", "y_reference")
    model.fit(numbers[100:3100], y[100:3100], **dict(zip(names, public, strict=True)))
    assert model.sampler_.query_.is_correction
    alone = clone(forest).fit(*public)
    assert model.score(*others) - alone.score(*others) > 0.04


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "ends", [(-1.0, 1.0), (-0.2, 0.3), (-1.0, 3.0)], ids=["even", "narrow", "wide"]
)
def test_bound_for_targets_is_attained(relation, ends):
    low, high = np.array([ends[0]]), np.array([ends[1]])
    addend = TargetAddend(low, high, np.zeros(1), np.array([0.5]), 3)
    tree = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [0.0, 1.0])
    query = LeafQuery(Leaves(tree, (np.array([-1, 0, 1]),), 2), addend, tree)
    rest = (np.array([[0.0], [1.0]]), np.zeros(2))

    def answer(*records):
        X = np.vstack([rest[0], *([[x]] for x, _ in records)])
        return query(X, np.append(rest[1], [y for _, y in records]))

    records = [(x, y) for x in (0.0, 1.0) for y in (*ends, 9.0, -9.0)]
    moves = [answer(one) - answer(two) for one in records for two in records]
    if relation == "add-remove":
        moves = [answer(one) - answer() for one in records]
    for norm, order in (("l1", 1), ("l2", 2)):
        largest = max(np.linalg.norm(move, order) for move in moves)
        bound = query.bound(norm, relation)
        assert largest <= bound * (1 + 1e-12)
        # Two targets at the same end, in two leaves, are as far as the bound says
        # where that end is farther than the other.
        assert bound == pytest.approx(largest)


@named([RandomForestClassifier(5, max_depth=3), RandomForestRegressor(5, max_depth=3)])
def test_bound_is_a_pure_guarantee(estimator):
    model = fit(estimator, *targets_of(estimator), epsilon=2.0)
    assert model.sampler_ is None
    assert model.risk_ == 0
    assert model.certificate_.private
    assert model.noise_scale_ == pytest.approx(model.sensitivity_ / 2)
    assert "proven bound" in str(model.certificate_)
    assert model.public_steps_ == ("splits",)
    if "Cl" in str(estimator):
        assert model.sensitivity_ == 10
        l2 = {"norm": "l2", "law": "gaussian", "delta": 1e-6}
        declared = KnownSensitivity(math.sqrt(10), **l2)
        gaussian = fit(estimator, sensitivity=declared)
        assert gaussian.certificate_.delta == 1e-6


def test_classes_are_counted_at_the_bound_by_default_and_targets_by_pairs():
    """Pairs of classes are as far apart as the bound: it promises more for nothing."""
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    pairs = SensitivitySampler(n_pairs=99)
    proven = fit(forest, sensitivity=None)
    sampled = fit(forest, sensitivity=pairs, gamma=0.2)
    assert (proven.sampler_, proven.risk_) == (None, 0.0)
    assert proven.sensitivity_ == sampled.sensitivity_ == 10
    forest = RandomForestRegressor(5, max_depth=3, random_state=0)
    by_pairs = fit(forest, Y, Y_PUBLIC, sensitivity=None)
    assert by_pairs.sampler_ is not None
    grid = clone(proven).set_params(sensitivity__n_pairs=99, gamma=0.2)
    assert grid.fit(X, LABELS, X_reference=X_PUBLIC, y_reference=LABELS_PUBLIC).sampler_


def test_no_other_shape_is_advised():
    few = SensitivitySampler(n_pairs=60)
    model = fit(RandomForestClassifier(4, max_depth=3), sensitivity=few, epsilon=0.1)
    assert 'noise_shape="auto"' not in model.hint_


def test_records_are_transformed_each_by_itself():
    pipeline = make_pipeline(PCA(2), DecisionTreeClassifier(max_depth=3))
    leaves = fit(pipeline).template_.leaves
    counting = replace(leaves, before=_Counting())
    narrow = X[:, :2] - X[:, :2].mean(axis=0)
    for each, records in ((leaves, X), (counting, narrow)):
        alone = [each.of(records[[row]])[0] for row in range(N)]
        assert_array_equal(each.of(records), alone)
        assert_array_equal(each.of(records[::-1]), alone[::-1])
    assert leaves.keeps_apart(X)
    assert not counting.keeps_apart(narrow)


def test_steps_that_look_at_other_records_are_refused():
    pipeline = make_pipeline(FunctionTransformer(scale), DecisionTreeRegressor())
    with pytest.raises(IncompatibleError, match="each record by itself"):
        fit(pipeline, Y, Y_PUBLIC)


@pytest.mark.parametrize(
    ("step", "apart"),
    [
        (StandardScaler(), True),
        (FrozenEstimator(StandardScaler()), True),
        (FunctionTransformer(), True),
        (FunctionTransformer(scale), False),
        (PCA(), False),
        (make_pipeline(StandardScaler(), "passthrough"), True),
        (make_pipeline(StandardScaler(), PCA()), False),
        (FeatureUnion([("one", StandardScaler()), ("other", "drop")]), True),
        (ColumnTransformer([("one", PCA(), [0, 1])]).fit(X), False),
        (ColumnTransformer([("one", StandardScaler(), [0, 1])]).fit(X), True),
    ],
)
def test_steps_that_are_known_to_look_at_one_record(step, apart):
    assert is_row_wise(step) is apart


class _Counting:
    """Adds how many records it has seen."""

    n_seen = 0

    def transform(self, X):
        self.n_seen += len(X)
        return X + self.n_seen - 1


@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_noise_of_the_bound_is_what_answers_get():
    """A tenth more, or less, would show."""
    query = query_of(ExtraTreesClassifier(40, random_state=0), LABELS, LABELS_PUBLIC)
    codes = np.searchsorted(CLASSES, LABELS).astype(float)
    exact, known = query(X, codes), KnownSensitivity(query.bound())
    noise = []
    for seed in range(6):
        model = private(query.asked, noise_random_state=seed)
        noise.append(model._release_known(query, X, codes, known, proven=True) - exact)
    assert np.size(noise) > 3000
    assert np.abs(noise).mean() == pytest.approx(2 * 40, rel=0.05)  # 2 T / epsilon


def test_pairs_that_splits_have_seen_are_told():
    estimator = RandomForestClassifier(5, max_depth=3, random_state=0)
    model = fit(estimator)
    assert "looked at the targets" not in str(model.certificate_)
    sampler = SensitivitySampler(n_pairs=40, randomness="both", law="gaussian")
    with pytest.warns(
        ReferenceWarning, match=r"Public steps looked at .* The steps: splits\."
    ):
        less = fit(estimator, sensitivity=sampler)
    assert "looked at the targets" in str(less.certificate_)
    assert less.noise_scale_ < model.noise_scale_


@named([RandomForestClassifier(3), ExtraTreeRegressor(), DecisionTreeClassifier()])
def test_nothing_but_leaf_values_is_private(estimator):
    model = fit(estimator, *targets_of(estimator))
    served, template = model.estimator_, model.template_.fitted
    for one, two in zip(trees_of(served), trees_of(template), strict=True):
        for name in ("children_left", "feature", "threshold", "n_node_samples"):
            assert_array_equal(getattr(one.tree_, name), getattr(two.tree_, name))
        assert not np.array_equal(one.tree_.value, two.tree_.value)
    assert_array_equal(served.feature_importances_, template.feature_importances_)
    assert set(vars(served)) == set(vars(template))
    for place in model.template_.places:
        assert read(served, place).shape
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X_PUBLIC), model.predict(X_PUBLIC))
    assert clone(model).get_params(deep=False)["epsilon"] == model.epsilon
    assert model.template_.needs == {}
    if "Reg" in str(estimator):
        values = model.predict(X)
        assert values.min() >= Y_PUBLIC.min()
        assert values.max() <= Y_PUBLIC.max()


def test_pipelines_are_public_but_for_leaves():
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3, max_depth=3))
    model = fit(pipeline, epsilon=math.inf)
    assert model.public_steps_ == ("standardscaler", "splits")
    scaler = model.estimator_[0]
    assert_allclose(scaler.mean_, X_PUBLIC.mean(axis=0))
    bare = fit(pipeline[-1], epsilon=math.inf)
    assert_allclose(bare.predict_proba(X), model.predict_proba(X))
    for place in model.template_.places:
        assert read(model.estimator_, place).ndim == 3


def test_several_targets():
    both, public = np.column_stack([Y, -2 * Y]), np.column_stack([Y_PUBLIC, -Y_PUBLIC])
    model = fit(RandomForestRegressor(3, max_depth=3), both, public, epsilon=math.inf)
    assert model.predict(X).shape == (N, 2)
    single = fit_targets(RandomForestRegressor(3, max_depth=3), epsilon=math.inf)
    assert_allclose(
        model.template_.in_cells[:, 0].sum(), single.template_.in_cells[:, 0].sum()
    )
    query = model.template_
    with pytest.raises(ValueError, match=r"in 2 column\(s\)"):
        query.addend(Y)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sensitivity", ["bound", None])
@named([DecisionTreeClassifier(), ExtraTreeClassifier(), RandomForestClassifier(3)])
def test_a_schema_has_splits_at_random(estimator, sensitivity):
    model = private(estimator, sensitivity=sensitivity, epsilon=1e6)
    model.fit(X, LABELS, X_reference=SCHEMA_OF_CLASSES)
    assert model.score(X, LABELS) > 0.4  # of three classes
    assert type(model.estimator_) is type(estimator)
    assert model.template_.share == 0
    assert model.public_steps_ == ("splits",)
    asked = model.estimator_.get_params()
    assert asked["max_features"] == estimator.max_features
    tree = trees_of(model.estimator_)[0].tree_
    thresholds = tree.threshold[tree.children_left >= 0]
    assert thresholds.min() > 0
    assert thresholds.max() < 4
    assert model.predict_proba(X).min() >= 0


TWO = np.where(CLASSES[0] == LABELS, "ash", "other")
SCHEMA_OF_TWO = SchemaReference([(0.0, 4.0)] * 4, target=["ash", "other"])


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_bound_for_margins_is_attained(relation):
    tree = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [0.0, 1.0])
    addend = MarginAddend((0.0, 1.0))
    query = LeafQuery(Leaves(tree, (np.array([-1, 0, 1]),), 2), addend, tree)
    assert query.n_outputs == 2

    def answer(*records):
        X = np.array([x for x, _ in records]).reshape(-1, 1)
        return query(X, np.array([y for _, y in records]))

    records = [(x, y) for x in (0.0, 1.0) for y in (0.0, 1.0)]
    others = [[each] for each in records] if relation == "replace-one" else [[]]
    moves = [answer(one) - answer(*two) for one in records for two in others]
    for norm, order in (("l1", 1), ("l2", 2)):
        largest = np.linalg.norm(moves, order, axis=1).max()
        assert largest == query.bound(norm, relation)


def test_leaves_vote_where_noise_is_large():
    """Of two classes, of which a schema tells nothing: each leaf has one number."""
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)

    def model(epsilon, labels=TWO, reference=SCHEMA_OF_TWO):
        bounded = private(forest, sensitivity="bound", epsilon=epsilon)
        return bounded.fit(X, labels, X_reference=reference)

    loud = model(1.0)
    assert isinstance(loud.template_.addend, MarginAddend)
    assert loud.sensitivity_ == 10
    for tree in trees_of(loud.estimator_):
        leaves = tree.tree_.value[tree.tree_.children_left < 0, 0]
        assert_array_equal(np.sort(leaves, axis=1), [[0.0, 1.0]] * len(leaves))
    assert_array_equal(loud.classes_, ["ash", "other"])
    # 2 * 5 / epsilon of noise, against a 50th of 80 records.
    for epsilon, voting in ((6.2, True), (6.3, False), (math.inf, False)):
        assert isinstance(model(epsilon).template_.addend, MarginAddend) is voting
    three = model(1.0, LABELS, SCHEMA_OF_CLASSES)
    assert not isinstance(three.template_.addend, MarginAddend)
    table = TableReference(X_PUBLIC, np.where(X_PUBLIC[:, 0] > 1, "ash", "other"))
    assert not isinstance(model(1.0, TWO, table).template_.addend, MarginAddend)


def test_votes_are_for_the_class_with_more_records():
    assert_array_equal(votes(np.array([-3.0, 0.5, 0.0])), [[1, 0], [0, 1], [0.5, 0.5]])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning")
def test_noise_of_margins_is_what_answers_get():
    """A tenth more, or less, would show."""
    forest = ExtraTreesClassifier(40, random_state=0)
    model = private(forest, sensitivity="bound")
    model.fit(X, TWO, X_reference=SCHEMA_OF_TWO)
    template, codes = model.template_, (TWO == "other").astype(float)
    query = LeafQuery(template.leaves, template.addend, forest)
    exact, known = query(X, codes), KnownSensitivity(query.bound())
    noise = []
    for seed in range(8):
        seeded = private(forest, noise_random_state=seed)
        released = seeded._release_known(query, X, codes, known, proven=True)
        noise.append(released - exact)
    assert np.size(noise) > 3000
    assert np.abs(noise).mean() == pytest.approx(2 * 40, rel=0.05)  # 2 T / epsilon


@named([REGRESSORS[0], REGRESSORS[2], REGRESSORS[3]])
def test_a_schema_of_targets(estimator):
    model = private(estimator, sensitivity="bound", epsilon=1e6)
    model.fit(X, Y, X_reference=SCHEMA_OF_TARGETS)
    exact = private(estimator, sensitivity="bound", epsilon=math.inf)
    exact.fit(X, Y, X_reference=SCHEMA_OF_TARGETS)
    assert exact.score(X, Y) > 0.2
    assert model.score(X, Y) > 0.2
    noisy = private(estimator, sensitivity="bound", epsilon=1e-6)
    noisy.fit(X, Y, X_reference=SCHEMA_OF_TARGETS)
    assert np.isfinite(noisy.predict(X)).all()


def test_pipeline_before_splits_at_random():
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3))
    model = private(pipeline, sensitivity="bound", epsilon=1e6)
    model.fit(X, LABELS, X_reference=SCHEMA_OF_CLASSES)
    assert model.score(X, LABELS) > 0.6


def test_public_targets_that_are_all_the_same():
    """Private ones move what is predicted."""
    ones = np.ones(len(X_PUBLIC))
    model = fit(DecisionTreeRegressor(), np.full(len(Y), 3.0), ones, epsilon=1e6)
    expected = 1 + 2 / (1 + len(X_PUBLIC) / len(X))
    assert_allclose(model.predict(X), expected, rtol=1e-3)


@pytest.mark.parametrize("estimator", CLASSIFIERS[:1])
def test_what_cannot_be_is_refused(estimator):
    with pytest.raises(ValueError, match=r"class_weight of .* must be None"):
        fit(clone(estimator).set_params(class_weight="balanced"))
    with pytest.raises(IncompatibleError, match=r"splits of .* X_reference, public"):
        private(estimator, sensitivity="bound", classes=CLASSES).fit(X, LABELS)


def test_a_fitted_sampler_serves_equal_forests():
    estimator = RandomForestClassifier(3, max_depth=3, random_state=0)
    first = fit(estimator, sensitivity=FEW)
    sampler = first.sampler_
    again = private(clone(estimator), sensitivity=sampler, epsilon=math.inf)
    again.fit(X, LABELS)
    exact = fit(estimator, epsilon=math.inf)
    assert_allclose(again.predict_proba(X), exact.predict_proba(X))
    assert str(sampler.query_) == "RandomForestClassifier (leaves)"
    other = private(RandomForestClassifier(4), sensitivity=sampler)
    with pytest.raises(IncompatibleError, match="was fitted for RandomForest"):
        other.fit(X, LABELS)
    names = private(estimator, "predict_proba", sensitivity=sampler, X_public=X_PUBLIC)
    with pytest.raises(IncompatibleError, match="with release='auto'"):
        names.fit(X, LABELS)
    targets = fit_targets(REGRESSORS[2], sensitivity=FEW)
    same = private(REGRESSORS[2], sensitivity=targets.sampler_).fit(X, Y)
    assert same.template_ is targets.template_
    assert targets.sampler_.query_ != sampler.query_
    silent = fit_targets(REGRESSORS[2], sensitivity=FEW, epsilon=math.inf)
    noisy = private(REGRESSORS[2], sensitivity=silent.sampler_).fit(X, Y)
    assert (noisy.predict(X) != silent.predict(X)).any()
    assert np.isfinite(noisy.predict(X)).all()
    assert sampler.query_ != "another query"


def test_noise_of_other_shapes_is_weighed():
    """What gets little noise decides, and what gets much hardly matters."""
    estimator = DecisionTreeClassifier(min_samples_leaf=20)
    query = query_of(estimator, LABELS, LABELS_PUBLIC)
    n_outputs = query.n_outputs
    shape = NoiseShape(np.geomspace(1e-6, 1e6, n_outputs))
    shaped = SensitivitySampler(n_pairs=9, noise_shape=shape)
    model = fit(estimator, sensitivity=shaped)
    exact, public = fit(estimator, epsilon=math.inf), model.template_.in_cells
    shares = model.predict_proba(X)
    last = model.template_.leaves.of(X)[:, 0] == len(public) - 1
    expected = np.tile(public[-1] / public[-1].sum(), (last.sum(), 1))
    assert_allclose(shares[last], expected, atol=0.02)
    assert (shares != exact.predict_proba(X)).any()


def test_splits_are_the_steps_that_only_known_classes_have():
    class Odd(RandomForestClassifier):
        pass

    assert find_trees(Odd()) is None
    forest = RandomForestClassifier()
    assert find_trees(make_pipeline(StandardScaler(), forest)) is forest
    assert find_trees(RandomForestClassifier) is None


# How released sums are weighed


def test_shares_are_weighed_by_what_noise_left_of_them():
    sums, public = np.array([[30.0, 10.0]]), np.array([[10.0, 30.0]])
    expected, quiet, loud = (
        np.array([40.0]),
        np.full((1, 2), 1e-6),
        np.full((1, 2), 1e6),
    )
    alone = class_shares(sums, 0 * quiet, public, expected, 1)
    assert_allclose(alone, [[0.75, 0.25]])
    assert_allclose(class_shares(sums, quiet, public, expected, 1), [[0.5, 0.5]])
    assert_allclose(class_shares(sums, loud, public, expected, 1), [[0.25, 0.75]])
    nothing = np.zeros((1, 2))
    assert_allclose(class_shares(nothing, nothing, public, expected, 1), [[0.25, 0.75]])
    assert_allclose(class_shares(nothing, nothing, nothing, expected, 1), 0.5)
    # Noise below zero is cut off, and what is left is never nothing.
    below_zero = np.array([[-99.0, -99.0]])
    assert_allclose(
        class_shares(below_zero, quiet + 1, public, expected, 1), [[0.25, 0.75]]
    )
    assert_allclose(class_shares(below_zero, quiet, nothing, expected, 1), 0.5)


def test_means_are_weighed_by_what_noise_left_of_them():
    sums, public = np.array([[40.0, 40.0]]), np.array([[40.0, 0.0]])
    about = {"variance": np.ones(1), "n_records": 40}

    def mean(deviation, public=public, sums=sums):
        each = np.full((1, 2), deviation)
        return target_means(sums, each, public, np.array([40.0]), 1, **about).item()

    assert mean(0.0) == 1.0
    assert mean(1e-6) == pytest.approx(0.5)
    assert mean(1e6) == pytest.approx(0.0, abs=1e-9)
    nothing = np.zeros((1, 2))
    assert mean(1e-6, nothing) == pytest.approx(1.0)
    assert mean(0.0, public, nothing) == 0.0
    assert mean(0.0, nothing, np.array([[0.0, 20.0]])) == 0.5  # that of all records
    constant = {"variance": np.zeros(1), "n_records": 40}
    none = np.zeros((1, 2))
    assert not target_means(sums, none + 1, public, np.array([0.0]), 1, **constant)[0]


def test_leaves_below_a_cell_keep_some_of_what_is_public():
    mixed = below(np.array([[1.0, 0.0]] * 2), np.array([[0.0, 1.0], [0.0, 99.0]]))
    assert_allclose(mixed, [[0.5, 0.5], [0.01, 0.99]])


def test_addends_are_exact_sums():
    rng = np.random.default_rng(0)
    y = rng.normal(size=1000)
    addend = TargetAddend(*np.array([[-1.0], [1.0], [0.1], [0.3]]), 1000)
    added = addend(y)[:, 1]
    assert sum(added) == sum(added[::-1]) == math.fsum(added)
    assert_allclose(added, (y.clip(-1, 1) - 0.1) / 0.3, atol=1e-12)
    assert_allclose(addend.as_targets(added), y.clip(-1, 1), atol=1e-12)
    with pytest.raises(ValueError, match=r"Targets must be numbers in 1 column\(s\)"):
        addend(np.array([np.nan]))
    assert ClassAddend((0.0, 1.0)).n_columns == 2


def test_numbers_that_trees_do_not_take_tell_nothing():
    """They are refused by trees, as no float32, so they become the largest of these."""
    huge = X.copy()
    huge[:3, 0] = 1e39, -1e300, np.finfo(np.float64).max
    model = private(CLASSIFIERS[0], sensitivity="bound")
    model.fit(huge, LABELS, X_reference=X_PUBLIC, y_reference=LABELS_PUBLIC)
    assert model.predict(X).shape == (N,)
    for to_table in (csr_array, pd.DataFrame):
        pipeline = make_pipeline(FunctionTransformer(to_table), CLASSIFIERS[2])
        leaves = fit(pipeline).template_.leaves
        assert_array_equal(leaves.of(huge), leaves.of(np.clip(huge, -3e38, 3e38)))
        assert_array_equal(leaves.of(X), fit(CLASSIFIERS[2]).template_.leaves.of(X))


@pytest.mark.parametrize("place", [0, N - 1])
@pytest.mark.parametrize("value", ["elsewhere", "0.5"])
def test_a_record_that_steps_refuse_is_in_the_first_cells(value, place):
    """An error would tell of it; others stay where they are."""
    codes = ColumnTransformer([("one", OneHotEncoder(), [0])], remainder="passthrough")
    pipeline = make_pipeline(codes, RandomForestClassifier(3, max_depth=3))
    groups = pd.DataFrame(X).round().clip(0, 1).astype({0: str})
    public = pd.DataFrame(X_PUBLIC).round().clip(0, 1).astype({0: str})
    groups.columns = public.columns = list("abcd")
    model = private(pipeline, sensitivity="bound")
    model.fit(groups, LABELS, X_reference=public, y_reference=LABELS_PUBLIC)
    leaves = model.template_.leaves
    before = leaves.of(groups)
    groups.loc[place, "a"] = value
    model.fit(groups, LABELS, X_reference=public, y_reference=LABELS_PUBLIC)
    assert model.certificate_.private
    moved = leaves.of(groups)
    others = np.arange(N) != place
    assert_array_equal(moved[others], before[others])
    assert_array_equal(
        moved[place], [cells[cells >= 0].min() for cells in leaves.cells]
    )
    with pytest.raises(ValueError, match="unknown categories"):  # of public records
        leaves.keeps_apart(groups)


@pytest.mark.parametrize("y", [LABELS, Y], ids=["classes", "targets"])
def test_one_private_record_is_enough(y):
    """Splits are of the reference, which has all classes."""
    classes = y is LABELS
    tree = DecisionTreeClassifier() if classes else DecisionTreeRegressor()
    public = {"X_reference": X_PUBLIC, "y_reference": targets_of(tree)[1]}
    model = private(tree, sensitivity="bound").fit(X[:1], y[:1], **public)
    assert model.template_.n_records == 1
    assert model.predict(X).shape == (N,)


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_targets_of_any_size(size):
    """In their own units, however large these are; constant ones are as well."""
    forest = RandomForestRegressor(3, max_depth=3)
    plain = fit_targets(forest, epsilon=math.inf)
    sized = fit(forest, Y * size, Y_PUBLIC * size, epsilon=math.inf)
    # Trees split by squares of targets, which have bounds of their own.
    assert np.isfinite(sized.predict(X)).all()
    assert sized.predict(X).max() <= Y_PUBLIC.max() * size
    assert sized.sensitivity_ == pytest.approx(plain.sensitivity_, rel=1e-6)
    constant = fit(forest, Y, np.full(len(Y_PUBLIC), size))
    assert (np.abs(constant.predict(X)) <= 99 * size).all()


def test_splits_of_private_records_are_refused():
    model = private(DecisionTreeClassifier(), sensitivity="bound")
    with pytest.raises(ValueError, match="what classes and splits there are"):
        model.fit(X, LABELS, X_reference=X, y_reference=LABELS)


def nodes_of(model):
    """Return the nodes of each tree that a pickle of a model has."""
    found = []

    class Finder(pickle.Pickler):
        def persistent_id(self, value):
            if isinstance(value, Tree):
                found.append(value.__getstate__()["nodes"])

    Finder(io.BytesIO()).dump(model)
    return found


def padding_of(model):
    """Return the bytes between the fields of all nodes that a model holds."""
    padding = []
    for nodes in nodes_of(model):
        last, start, *_ = nodes.dtype.fields["missing_go_to_left"]
        raw = nodes.view(np.uint8).reshape(len(nodes), -1)
        padding.append(raw[:, start + last.itemsize :])
    return padding


def soil(model):
    """Put something between the fields of all nodes, as copies may have it."""
    for padding in padding_of(model):
        padding[:] = 7
    return model


EMBEDDING = RandomTreesEmbedding(5, max_depth=3, random_state=0)
WITH_TREES = [
    DecisionTreeRegressor(random_state=0),
    RandomForestRegressor(random_state=0),
    make_pipeline(EMBEDDING, Ridge()),
    make_pipeline(FrozenEstimator(clone(EMBEDDING).fit(X_PUBLIC)), Ridge()),
]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", WITH_TREES, ids=range(len(WITH_TREES)))
def test_nothing_stands_between_the_fields_of_nodes(estimator):
    """Copies of scikit-learn have there what was in memory: private records, too."""
    left_over = [np.full(size, np.pi) for size in (64 * 1000, 120) for _ in range(500)]
    del left_over
    few = {"sensitivity": SensitivitySampler(n_pairs=9)}
    combined = fit_targets(soil(estimator), **few)
    model = fit_targets(soil(estimator), combine=None, **few)
    copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for one in (model, *copies, combined, copy.deepcopy(combined)):
        padding = np.concatenate(padding_of(one))
        assert padding.shape[1] == 7
        assert not padding.any()
    sampler = model.sampler_
    if not sampler.query_.is_correction:
        sampler = SensitivitySampler(sampler.query_, n_pairs=19)
        sampler.fit(X_PUBLIC, Y_PUBLIC)
    for one in (sampler, copy.deepcopy(sampler)):
        assert not np.concatenate(padding_of(one.query_)).any()
    assert copy.deepcopy(model).certificate_ == model.certificate_


def test_a_fitted_sampler_knows_frozen_trees_again():
    """Whatever stands between the fields of their nodes."""
    estimator = WITH_TREES[-1]
    model = fit_targets(soil(estimator), sensitivity=FEW)
    again = private(soil(estimator), sensitivity=copy.deepcopy(model.sampler_))
    assert again.fit(X, Y).certificate_.risk == model.certificate_.risk
