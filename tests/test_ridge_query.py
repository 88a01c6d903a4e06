"""The ridge query: its answer, and the fast differences held to the plain ones."""

import re
import warnings

import numpy as np
import pytest
from query_pairs import (
    N_PAIRS,
    RELATIONS,
    independent,
    pairs_from,
    plain_differences,
    records_of,
)
from scipy.linalg import LinAlgWarning, lstsq
from sklearn.linear_model import Ridge

from skparisk.neighbors import NeighborPairs
from skparisk.queries import PairDifferences, RidgeQuery, _products, _ridge, _together
from skparisk.reference import TableReference, _rows, as_reference
from skparisk.reference._base import RecordPool

# The contract of the batched differences, relative to the largest output: how far
# they may be from the plain ones, and how far below. Scikit-learn solves normal
# equations, and may itself lose more than that: then what it loses is measured by
# orthogonal factors, which the batched differences must be as close to.
CLOSE = 1e-9
BELOW = 1e-12

# Ridge: the contract


def plain_ridge(query, X, y):
    """Return coefficients and intercept of scikit-learn's Ridge."""
    alpha = np.array(query.alpha) if isinstance(query.alpha, tuple) else query.alpha
    ridge = Ridge(alpha=alpha, fit_intercept=query.fit_intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ridge.fit(X, y)
    intercept = np.ravel(ridge.intercept_) if query.fit_intercept else []
    return np.concatenate([ridge.coef_.ravel(), intercept])


def accurate_ridge(query, X, y):
    """Return the same by orthogonal factors, which lose the root of the digits."""
    y = y.reshape(len(y), -1)
    center, mean = X.mean(axis=0), y.mean(axis=0)
    if not query.fit_intercept:
        center, mean = 0 * center, 0 * mean
    alphas = np.broadcast_to(query.alpha, len(mean))
    coef = []
    for target, alpha in zip((y - mean).T, alphas, strict=True):
        design = np.vstack([X - center, np.sqrt(alpha) * np.eye(X.shape[1])])
        # Columns of one length: the features' scales are no loss of digits.
        lengths = np.linalg.norm(design, axis=0)
        lengths[lengths == 0] = 1.0
        padded = np.append(target, np.zeros(X.shape[1]))
        # Singular values would lose digits where rows are of very different sizes.
        solved, *_ = lstsq(design / lengths, padded, lapack_driver="gelsy")
        coef.append(solved / lengths)
    intercept = mean - np.array(coef) @ center if query.fit_intercept else []
    return np.concatenate([np.ravel(coef), intercept])


def contract_gaps(query, pairs):
    """Return how far batched differences are from, and below, the plain ones."""
    batched = query.differences(pairs)
    far = below = 0.0
    for i, difference in enumerate(batched):
        databases = tuple(pairs.databases(i))
        first, second = (plain_ridge(query, *database) for database in databases)
        plain = first - second
        assert difference.shape == plain.shape
        if np.array_equal(difference, plain):
            continue  # refitted
        size = max(abs(first).max(), abs(second).max())
        accurate = np.subtract(*(accurate_ridge(query, *d) for d in databases))
        lost = abs(plain - accurate).max()
        for oracle, allowed in ((plain, lost), (accurate, 0.0)):
            gap = abs(difference - oracle).max() - allowed
            shortfall = (abs(oracle) - abs(difference)).max() - allowed
            far, below = max(far, gap / size), max(below, shortfall / size)
    return far, below


def assert_contract(query, pairs):
    far, below = contract_gaps(query, pairs)
    assert far <= CLOSE, f"{query} is {far:.2g} away"
    assert below <= BELOW, f"{query} is {below:.2g} too small"


def far_from_zero(X, rng):
    return X + 1e4


def on_different_scales(X, rng):
    return X * [1e-4, 1.0, 1e5]


def nearly_collinear(X, rng):
    X[:, 2] = X[:, 0] + 1e-3 * X[:, 2]
    return X


def collinear(X, rng):
    X[:, 2] = X[:, 0]
    return X


def with_a_constant(X, rng):
    X[:, 1] = 3.0
    return X


def with_an_outlier(X, rng):
    X[0] *= 1e4
    return X


SHAPES = (
    independent,
    far_from_zero,
    on_different_scales,
    nearly_collinear,
    collinear,
    with_a_constant,
    with_an_outlier,
)


def reference_of(kind, X, y):
    """Return a small or a large table, or records that are used once each."""
    if kind == "once":
        rows = iter(np.arange(len(X)))

        def sample(n, rng):
            taken = [next(rows) for _ in range(n)]
            return X[taken], y[taken]

        return as_reference(sample)
    return TableReference(X, y)


def n_rows_of(kind, n_records):
    small = max(2, 2 * n_records)
    return {
        "small": small,
        "large": 4 * n_records + 5,
        "once": N_PAIRS * (n_records + 1) + 32,  # which are looked at
    }[kind]


def with_shape_of_targets(y, n_targets):
    return {"vector": y[:, 0], "column": y[:, :1], "three": y}[n_targets]


KINDS = ("small", "large", "once")  # tables, and records that are used once each
SIZES = (1, 2, 3, 11, 50, 1000)
CONFIGURATIONS = [
    (0.0, "vector"),
    (0.0, "three"),
    (1e-3, "column"),
    (1.0, "vector"),
    (1.0, "three"),
    (1e4, "three"),
    ((1e-2, 3.0, 1e3), "three"),
    ((2.0,), "column"),
]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_records", SIZES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_batched_ridge_differences_are_those_of_refitting(shape, n_records, kind):
    """Within 1e-9 of the largest coefficient, and never smaller."""
    rng = np.random.default_rng([n_records, len(shape.__name__)])
    X, targets = records_of(shape, n_rows_of(kind, n_records), rng)
    # Half of the configurations in each case, and all of them over the cases.
    shift = SHAPES.index(shape) + SIZES.index(n_records) + KINDS.index(kind)
    for i, (alpha, n_targets) in enumerate(CONFIGURATIONS[shift % 2 :: 2]):
        case = i + shift // 2
        fit_intercept, relation = bool(case % 2), RELATIONS[case // 2 % 2]
        if n_records == 1:
            relation = "replace-one"  # an empty database has no ridge solution
        y = with_shape_of_targets(targets, n_targets)
        pairs = pairs_from(
            reference_of(kind, X, y), n_records=n_records, relation=relation
        )
        assert_contract(RidgeQuery(alpha, fit_intercept), pairs)


@pytest.mark.parametrize("noise", [0.0, 1e-3])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_size_is_that_of_the_released_intercept(alpha, noise):
    """Means far from zero that cancel in the intercept do not loosen the contract."""
    rng = np.random.default_rng(3)
    X = 1e4 + rng.normal(size=(500, 3))
    y = X @ [1.0, 2.0, 3.0] + noise * rng.normal(size=500)
    pairs = pairs_from(
        TableReference(X, y), n_records=200, relation="replace-one", size=10
    )
    assert_contract(RidgeQuery(alpha), pairs)


@pytest.fixture
def refits(monkeypatch):
    """Record the databases that are fitted one by one."""
    fitted = []
    fit = RidgeQuery.fit

    def recorded(self, X, y):
        fitted.append(len(X))
        return fit(self, X, y)

    monkeypatch.setattr(RidgeQuery, "fit", recorded)
    return fitted


@pytest.mark.sampled(4)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 1e4, (1e-3, 1.0, 10.0)])
@pytest.mark.parametrize(("n_rows", "path"), [(300, "_counted"), (1300, "_gathered")])
def test_well_conditioned_pairs_are_not_refitted(
    n_rows, path, alpha, fit_intercept, relation, refits, monkeypatch
):
    """Both ways to form Gram matrices are taken, and keep the contract."""
    taken = []
    for name in ("_counted", "_gathered"):
        method = getattr(_ridge._RidgeOnPool, name)

        def recorded(self, *args, name=name, method=method):
            taken.append(name)
            return method(self, *args)

        monkeypatch.setattr(_ridge._RidgeOnPool, name, recorded)
    X, y = records_of(on_different_scales, n_rows, np.random.default_rng(1))
    query = RidgeQuery(alpha, fit_intercept)
    pairs = pairs_from(TableReference(X, y), n_records=300, relation=relation, size=20)
    assert query.differences(pairs).shape == (20, 9 + 3 * fit_intercept)
    assert refits == [300]  # the one that tells how exact `Ridge` is
    assert taken == ["_gathered", path]
    assert_contract(query, pairs)
    for database in (d for i in range(20) for d in pairs.databases(i)):
        plain, accurate = (f(query, *database) for f in (plain_ridge, accurate_ridge))
        assert plain == pytest.approx(accurate, rel=0, abs=BELOW * abs(plain).max())


@pytest.mark.sampled(20)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("alpha", [0.0, 1.0, (1e-3, 1.0, 10.0)])
@pytest.mark.parametrize("n_rows", [300, 1300])
@pytest.mark.parametrize("shape", [independent, far_from_zero, on_different_scales])
def test_batched_ridge_solutions_are_those_of_refitting(
    shape, n_rows, alpha, relation, refits, monkeypatch
):
    """Each coefficient within 1e-9 of the largest, each intercept of the answer."""
    solved = []
    answers = _ridge._RidgeOnPool._answers

    def recorded(self, solutions):
        solved.append(answers(self, solutions))
        return solved[-1].copy()

    monkeypatch.setattr(_ridge._RidgeOnPool, "_answers", recorded)
    X, y = records_of(shape, n_rows, np.random.default_rng(2))
    query = RidgeQuery(alpha)
    pairs = pairs_from(TableReference(X, y), n_records=300, relation=relation)
    query.differences(pairs)
    assert refits == [300]  # the one that tells how exact `Ridge` is
    firsts, seconds = solved[-2:]
    for i in range(len(pairs)):
        for solution, database in zip(
            (firsts[i], seconds[i]), pairs.databases(i), strict=True
        ):
            expected = plain_ridge(query, *database)
            coef, intercept = expected[:9], expected[9:]
            assert solution[:9] == pytest.approx(
                coef, rel=0, abs=CLOSE * max(abs(coef))
            )
            # They lack the mean of all targets, which cancels in differences.
            assert solution[9:] + y.mean(axis=0) == pytest.approx(
                intercept, rel=0, abs=CLOSE * max(abs(expected))
            )


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_targets_that_are_all_zero_are_no_trouble(fit_intercept):
    """The exactness of `Ridge` is told without a division by the size of an answer."""
    X, y = records_of(independent, 60, np.random.default_rng(1))
    pairs = pairs_from(TableReference(X, 0 * y), n_records=20, relation="replace-one")
    assert not RidgeQuery(1.0, fit_intercept).differences(pairs).any()


def test_pools_whose_first_records_are_singular_are_refitted(refits):
    """Where the exactness of `Ridge` cannot be told, it is what is sampled."""
    X, y = records_of(independent, 60, np.random.default_rng(1))
    X[:20] = X[0]
    query = RidgeQuery(0.0)
    pairs = pairs_from(TableReference(X, y), n_records=20, relation="replace-one")
    query.differences(pairs)
    assert refits[1:] == [20] * (2 * N_PAIRS)


@pytest.mark.parametrize("shape", [collinear, with_a_constant])
def test_singular_pools_are_refitted(shape, refits):
    """Without a penalty and without full rank, every pair is fitted by itself."""
    X, y = records_of(shape, 60, np.random.default_rng(1))
    query = RidgeQuery(0.0)
    pairs = pairs_from(TableReference(X, y), n_records=50, relation="replace-one")
    differences = query.differences(pairs)
    assert refits == [50] * (2 * N_PAIRS)
    assert (differences == plain_differences(query, pairs)).all()


def test_only_the_singular_pairs_of_a_pool_are_refitted(refits):
    """A record that alone makes the rank full, missing from some databases."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    X[1:, 1] = X[1:, 0]
    query = RidgeQuery(0.0)
    pairs = pairs_from(
        TableReference(X, y), n_records=40, relation="replace-one", size=64
    )
    query.differences(pairs)
    other = pairs.records.copy()
    other[np.arange(64), pairs.changed] = pairs.replacement
    singular = ~(pairs.records == 0).any(axis=1) | ~(other == 0).any(axis=1)
    assert 0 < singular.sum() < 64
    assert 2 * singular.sum() <= len(refits) < 2 * 64


def test_a_pair_is_trusted_only_if_all_penalties_are():
    """Of two targets the first has no penalty, which some databases need."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    X[1:, 1] = X[1:, 0]
    query = RidgeQuery((0.0, 1.0))
    pairs = pairs_from(
        TableReference(X, y), n_records=40, relation="replace-one", size=64
    )
    found = query.on_pool(pairs.pool, 40)(pairs)
    without = ~(pairs.records == 0).any(axis=1)
    assert 0 < without.sum() < 64
    assert (found.errors[without] == 0).all()


@pytest.mark.parametrize("shape", [independent, far_from_zero, on_different_scales])
@pytest.mark.parametrize("alpha", [0.0, 1.0, (1e-3, 1.0, 10.0)])
def test_errors_are_twice_what_differences_are_moved_by(shape, alpha):
    """By a share of the largest number that is released, the intercept included."""
    X, y = records_of(shape, 300, np.random.default_rng(2))
    query = RidgeQuery(alpha)
    pairs = pairs_from(TableReference(X, y), n_records=300, relation="add-remove")
    found = query.on_pool(pairs.pool, 300)(pairs)
    for i, errors in enumerate(found.errors):
        answers = [query(*database) for database in pairs.databases(i)]
        outward = 2.0**-32 * np.abs(answers).max()
        np.testing.assert_allclose(errors, 2 * outward, rtol=1e-6)
        apart = np.abs(found.values[i]) - np.abs(answers[0] - answers[1])
        np.testing.assert_allclose(apart, outward, rtol=0.1)


@pytest.mark.parametrize("n_rows", [300, 2000])
@pytest.mark.parametrize("shape", [independent, on_different_scales, nearly_collinear])
def test_the_pool_is_transformed_so_that_systems_are_near_the_identity(
    shape, n_rows, monkeypatch
):
    """No eigenvalues are needed to see that they are well conditioned."""
    X, y = records_of(shape, n_rows, np.random.default_rng(1))
    pairs = pairs_from(
        TableReference(X, y), n_records=300, relation="replace-one", size=20
    )
    monkeypatch.delattr(np.linalg, "eigvalsh")
    for alpha in (0.0, 1.0, (1.0, 1.0, 1.0)):
        assert_contract(RidgeQuery(alpha), pairs)


@pytest.mark.parametrize(("n_records", "together"), [(3, False), (4, True)])
def test_no_more_records_than_features_are_refitted(n_records, together, refits):
    """Only the penalty makes their normal equations regular."""
    X, y = records_of(independent, 60, np.random.default_rng(1))
    pairs = pairs_from(TableReference(X, y), n_records=n_records, relation="add-remove")
    RidgeQuery(100.0).differences(pairs)
    assert (len(refits) == 1) is together


@pytest.mark.parametrize(("far", "together"), [(1e5, True), (1e6, False)])
def test_pools_too_far_from_zero_are_refitted(far, together, refits):
    """`Ridge` subtracts means, which loses more digits there than are allowed for."""
    X, y = records_of(independent, 300, np.random.default_rng(1))
    X[:, 0] += far
    pairs = pairs_from(TableReference(X, y), n_records=300, relation="replace-one")
    RidgeQuery(1.0).differences(pairs)
    assert refits == [300] * (1 if together else 2 * N_PAIRS)


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("units", [1e-3, 1e3])
@pytest.mark.parametrize(("share", "together"), [(0.7, True), (1.4, False)])
def test_centering_loses_what_distance_and_condition_say(
    share, together, units, side, refits
):
    """The product of both in rounding errors may be an eighth of the move outward."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2)) * units
    X[:, 1] = X[:, 0] + 0.02 * X[:, 1]
    y = X @ [1.0, -1.0]
    factor = np.linalg.cholesky(np.cov(X.T))
    condition = np.linalg.cond(factor / np.linalg.norm(factor, axis=1, keepdims=True))
    assert 10 < condition < 1000
    distance = share * 2.0 ** (52 - 35) / condition
    deviation = X - X.mean(axis=0)
    X = deviation + side * distance * np.abs(deviation).max(axis=0)
    pairs = pairs_from(TableReference(X, y), n_records=300, relation="replace-one")
    RidgeQuery(0.0).differences(pairs)
    assert refits == [300] * (1 if together else 2 * N_PAIRS)


def test_features_that_are_all_constant_do_not_move(refits):
    """However far they are from zero: they are centered to nothing."""
    X, y = np.full((60, 2), 1e9), np.random.default_rng(1).normal(size=60)
    query = RidgeQuery(1.0)
    pairs = pairs_from(TableReference(X, y), n_records=50, relation="replace-one")
    found = query.differences(pairs)
    assert refits == [50]
    plain = plain_differences(query, pairs)
    np.testing.assert_allclose(found, plain, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("off", "together"), [(2.0**-37, True), (2.0**-34, False)])
def test_pairs_are_solved_together_only_if_ridge_is_as_exact(
    off, together, refits, monkeypatch
):
    """It may be off by an eighth of what differences are moved by."""
    fit = RidgeQuery.fit

    def rounded(self, X, y):
        coef, intercept = fit(self, X, y)
        return coef * (1 + off), intercept * (1 + off)

    monkeypatch.setattr(RidgeQuery, "fit", rounded)
    X, y = records_of(independent, 60, np.random.default_rng(1))
    pairs = pairs_from(TableReference(X, y), n_records=50, relation="replace-one")
    RidgeQuery().differences(pairs)
    assert len(refits) == 1 + (0 if together else 2 * N_PAIRS)


def differences_and_plain_ones(query, pairs):
    return query.differences(pairs), plain_differences(query, pairs)


def test_little_that_is_left_of_a_database_is_not_trusted():
    """One record of far larger numbers leaves, and with it the digits of the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(190, 1))
    X[60:66] *= 1e8
    y = 2 * X[:, 0] + rng.normal(size=190)
    pairs = pairs_from(
        TableReference(X, y), n_records=5, relation="replace-one", size=1000
    )
    given, plain = differences_and_plain_ones(RidgeQuery(1.0, False), pairs)
    assert (abs(given) >= abs(plain)).all()


def test_pairs_are_worse_conditioned_than_what_ridge_solves_where_columns_are_alike():
    """What may be lost is a product of both: rounding is all that answers differ by."""
    rng = np.random.default_rng(4)
    X = 0.01 * rng.normal(size=(200, 5)) + rng.normal(size=(200, 1))
    table = TableReference(X, X.sum(axis=1))
    pairs = pairs_from(table, n_records=8, relation="replace-one", size=300)
    given, plain = differences_and_plain_ones(RidgeQuery(0.0), pairs)
    below = (abs(given) < abs(plain)).any(axis=1)
    assert below.mean() < 0.03


@pytest.mark.parametrize("far", [np.nan, np.inf, 1e200])
def test_what_is_not_finite_is_not_well_conditioned(far):
    """Nor does it keep others from being told."""
    system = np.array([np.eye(4), np.diag([9.0, 1.0, 1.0, 1.0]), np.zeros((4, 4))])
    others = np.full((2, 4, 4), far)
    good = _ridge._well_conditioned(np.concatenate([others, system]))
    assert good.tolist() == [False] * 2 + [True, True, False]
    assert _ridge._well_conditioned(others).tolist() == [False] * 2


def test_which_systems_are_well_conditioned():
    """All eigenvalues are near 1, or their ratio is below a million."""
    least = [1.0, 0.2, 0.05, 1e-5, 1e-7, 0.0]
    systems = np.array([np.diag([1.0, value, 1.0]) for value in least])
    near = _ridge._near_identity(systems)
    assert near.tolist() == [True, True, False, False, False, False]
    close = np.array([np.diag([1.0, value, 1.0]) for value in (0.12, 0.09, 1.88)])
    assert _ridge._near_identity(close).tolist() == [True, False, True]
    good = _ridge._well_conditioned(systems)
    assert good.tolist() == [True, True, True, True, False, False]
    assert not _ridge._near_identity(2 * systems[:1]).any()
    # The largest and the least count, whatever is between them.
    apart = np.array([np.diag([4.0, 1.0, 2e-6]), np.diag([4.0, 5e-6, 4.5e-6])])
    assert _ridge._well_conditioned(apart).tolist() == [False, True]
    assert _ridge._well_conditioned(1e9 * systems).tolist() == good.tolist()


@pytest.mark.parametrize("condition", [2.0**6, 1e6])
@pytest.mark.parametrize("off", [0.99, 1.01])
def test_conditions_are_told_as_eigenvalues_tell_them(off, condition):
    """Just below the limit and above it, in any direction and with any neighbors."""
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(40, 6, 6)))[0]
    eigenvalues = rng.uniform(1.5, 3.0, size=(40, 6))
    eigenvalues[:, 0] = eigenvalues[:, 1:].max(axis=1) * off / condition
    systems = (turned * eigenvalues[:, None]) @ turned.swapaxes(1, 2)
    good = _ridge._well_conditioned(systems, condition)
    assert good.tolist() == [off > 1] * 40
    safe = _ridge._well_conditioned(np.tile(3.0 * np.eye(6), (3, 1, 1)), condition)
    assert safe.tolist() == [True] * 3
    mixed = _ridge._well_conditioned(
        np.concatenate([systems[:3], 3.0 * np.eye(6)[None]]), condition
    )
    assert mixed.tolist() == [off > 1] * 3 + [True]


@pytest.mark.parametrize(("least", "near"), [(0.15, True), (0.09, False)])
def test_many_eigenvalues_are_near_one_where_each_of_them_is(least, near):
    """The sum of their squares would tell that of few only."""
    values = np.full((2, 20), 0.75)
    values[:, 3] = least
    systems = values[:, :, None] * np.eye(20)
    assert np.sum((1 - values[0]) ** 2) > 0.9**2
    assert _ridge._near_identity(systems).tolist() == [near] * 2


def test_ridge_of_a_record_replaced_by_itself_is_not_negative_zero():
    """Where nothing changes, the difference is the allowance for rounding."""
    X, y = records_of(independent, 50, np.random.default_rng(0), n_targets=1)
    records = np.arange(50)[None]
    pairs = NeighborPairs.of(
        RecordPool(X, y[:, 0]), records, np.array([3]), np.array([3])
    )
    difference = RidgeQuery().differences(pairs)
    assert (difference >= 0).all()
    assert_contract(RidgeQuery(), pairs)


def drop_the_change(swap):
    return lambda self, gram, moment, *rows: (gram, moment)


def turn_the_sign(swap):
    def turned(self, gram, moment, *rows):
        other_gram, other_moment = swap(self, gram, moment, *rows)
        return 2 * gram - other_gram, 2 * moment - other_moment

    return turned


def miss_the_moment(swap):
    return lambda self, gram, moment, *rows: (
        swap(self, gram, moment, *rows)[0],
        moment,
    )


def scale_the_change(swap):
    def scaled(self, gram, moment, *rows):
        other_gram, other_moment = swap(self, gram, moment, *rows)
        share = 1 - 1e-6
        return (
            gram + share * (other_gram - gram),
            moment + share * (other_moment - moment),
        )

    return scaled


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_rows", [50, 400])
@pytest.mark.parametrize(
    "mutation", [drop_the_change, turn_the_sign, miss_the_moment, scale_the_change]
)
def test_the_contract_notices_a_wrong_change(mutation, n_rows, relation, monkeypatch):
    """Control: without the right change of rank two the contract is broken."""
    X, y = records_of(independent, n_rows, np.random.default_rng(4))
    pairs = pairs_from(TableReference(X, y), n_records=50, relation=relation)
    assert_contract(RidgeQuery(), pairs)
    swap = _ridge._RidgeOnPool._swap
    monkeypatch.setattr(_ridge._RidgeOnPool, "_swap", mutation(swap))
    assert contract_gaps(RidgeQuery(), pairs)[0] > CLOSE


def test_the_contract_notices_a_difference_rounded_inward(monkeypatch):
    """Control: a shrunken difference breaks the safe side of the contract."""
    X, y = records_of(independent, 50, np.random.default_rng(4))
    pairs = pairs_from(TableReference(X, y), n_records=50, relation="replace-one")

    def inward(query, pairs, first, second, outward, trusted):
        difference = (1 - 5e-9) * (first - second)
        return PairDifferences(difference, np.zeros_like(difference))

    monkeypatch.setattr(_ridge, "outward_differences", inward)
    far, below = contract_gaps(RidgeQuery(), pairs)
    assert far <= CLOSE
    assert below > BELOW


def test_blocks_are_formed_in_parts(monkeypatch):
    """However small the parts are that fit into memory, the answer is the same."""
    for n_rows in (60, 400):
        X, y = records_of(independent, n_rows, np.random.default_rng(1))
        pairs = pairs_from(
            TableReference(X, y), n_records=50, relation="replace-one", size=10
        )
        whole = RidgeQuery().differences(pairs)
        with monkeypatch.context() as patch:
            patch.setattr(_ridge, "_CHUNK", 1)
            patch.setattr(_rows, "_COUNTED", 1)
            parts = RidgeQuery().differences(pairs)
        assert parts == pytest.approx(whole, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("size", [5, 20])
def test_products_that_do_not_fit_are_made_in_parts(size, monkeypatch):
    """Memory is bounded: a pool with too many products is never multiplied out."""
    X, y = records_of(independent, 60, np.random.default_rng(1))
    pairs = pairs_from(
        TableReference(X, y), n_records=50, relation="replace-one", size=size
    )
    kept = RidgeQuery().differences(pairs)
    monkeypatch.setattr(_together, "_MOST_BYTES", 480)
    monkeypatch.setattr(_products, "_IN_CACHE", 2000)
    monkeypatch.delattr(_products.Products, "_kept")
    assert RidgeQuery().differences(pairs) == pytest.approx(kept, rel=1e-12, abs=1e-14)


def test_differences_called_twice_are_the_same():
    """One function of a pool serves many blocks and keeps nothing."""
    X, y = records_of(independent, 60, np.random.default_rng(1))
    table = TableReference(X, y)
    first, second = (
        pairs_from(table, n_records=50, relation="replace-one", seed=s) for s in (1, 2)
    )
    query = RidgeQuery()
    evaluate = query.on_pool(first.pool, 50)
    before = evaluate(first)
    evaluate(second)
    again = evaluate(first)
    assert (again.values == before.values).all()
    assert (again.errors == before.errors).all()
    assert (query.differences(first) == before.values).all()


# Ridge: the answer


@pytest.mark.sampled(20)
@pytest.mark.parametrize("n_targets", ["vector", "column", "three"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1.0, np.float64(2.0), 3])
def test_the_ridge_query_is_ridge(alpha, fit_intercept, n_targets):
    """Coefficients and intercept are exactly scikit-learn's."""
    X, y = records_of(independent, 30, np.random.default_rng(0))
    y = with_shape_of_targets(y, n_targets)
    ridge = Ridge(alpha=alpha, fit_intercept=fit_intercept).fit(X, y)
    query = RidgeQuery(alpha, fit_intercept)
    coef, intercept = query.fit(X, y)
    assert np.array_equal(coef, ridge.coef_)
    assert np.array_equal(intercept, ridge.intercept_)
    expected = [*np.ravel(ridge.coef_)]
    if fit_intercept:
        expected += [*np.ravel(ridge.intercept_)]
    assert query(X, y).tolist() == expected
    assert query.needs_y


@pytest.mark.parametrize(
    "alpha", [(1.0, 2.0, 3.0), [1, 2, 3], np.array([1.0, 2.0, 3.0])]
)
def test_each_target_may_have_its_penalty(alpha):
    """A sequence is kept as a tuple, so that queries can be compared."""
    X, y = records_of(independent, 30, np.random.default_rng(0))
    ridge = Ridge(alpha=np.array([1.0, 2.0, 3.0])).fit(X, y)
    query = RidgeQuery(alpha)
    assert query.alpha == (1.0, 2.0, 3.0)
    assert np.array_equal(query.fit(X, y)[0], ridge.coef_)


@pytest.mark.parametrize(
    "alpha",
    [
        *(-1, -1e-300, np.nan, np.inf, None, "1", "12", b"1", 1j, True, {}),
        *((), (1.0, -1.0), (1.0, np.nan), [np.inf], ["1"], [[1.0, 2.0]]),
        np.array(1.0),
    ],
    ids=repr,
)
def test_a_bad_penalty_is_refused(alpha):
    """The message has the name, the range and the value."""
    with pytest.raises(ValueError, match=r"^alpha must be .*finite number"):
        RidgeQuery(alpha)


def test_the_message_names_the_bad_penalty():
    """As it was given."""
    message = "alpha must be a finite number >= 0, got -1."
    with pytest.raises(ValueError, match=re.escape(message)):
        RidgeQuery(-1)


def test_penalties_are_floats():
    """Also those that have more digits, which no solver takes, or none at all."""
    assert type(RidgeQuery(np.longdouble(2)).alpha) is float
    query = RidgeQuery((np.longdouble(2), 1))
    assert [type(alpha) for alpha in query.alpha] == [float, float]
    with pytest.raises(ValueError, match="a finite number >= 0, got 1000"):
        RidgeQuery(10**400)


def test_penalties_of_another_number_than_targets_are_refused():
    """Before any pair is answered."""
    X, y = records_of(independent, 30, np.random.default_rng(0))
    message = "alpha must be one number, or one for each of the 3 targets, got 2."
    with pytest.raises(ValueError, match=re.escape(message)):
        RidgeQuery((1.0, 2.0)).on_pool(RecordPool(X, y), 30)
    message = "alpha must be one number, or one for each of the 1 targets, got 2."
    with pytest.raises(ValueError, match=re.escape(message)):
        RidgeQuery((1.0, 2.0)).check_targets(y[:, 0])
    RidgeQuery((1.0, 2.0, 3.0)).check_targets(y)
    RidgeQuery((1.0,)).check_targets(y)
    RidgeQuery(1.0).check_targets(y)


def test_a_reference_without_targets_is_refused():
    """Ridge needs y."""
    message = "The ridge query needs targets, but the reference has none (y)."
    with pytest.raises(ValueError, match=re.escape(message)):
        RidgeQuery().on_pool(RecordPool(np.ones((3, 1))), 3)


def test_no_warning_tells_that_private_data_are_ill_conditioned():
    """It would be a release of its own; scikit-learn does warn."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)) * [1.0, 1e10], rng.normal(size=30)
    with pytest.warns(LinAlgWarning, match=r"[Ii]ll-conditioned"):
        ridge = Ridge(alpha=1e-20).fit(X, y)
    assert np.array_equal(RidgeQuery(1e-20)(X, y)[:2], ridge.coef_)
    pairs = pairs_from(TableReference(X, y), n_records=20, relation="add-remove")
    assert np.isfinite(RidgeQuery(1e-20).differences(pairs)).all()


def test_no_warning_tells_that_private_data_are_singular():
    """Nor that there are fewer records than features, and no penalty."""
    X, y = np.ones((2, 3)), np.array([1.0, 2.0])
    with pytest.warns(UserWarning, match="Singular matrix in solving dual problem"):
        ridge = Ridge(alpha=0.0).fit(X, y)
    assert np.array_equal(RidgeQuery(0.0)(X, y)[:3], ridge.coef_)
