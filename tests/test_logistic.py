"""Logistic regression: its minimizers, their differences, and their bound."""

import inspect
import math
import pickle
import random
from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
import query_pairs
from query_pairs import RELATIONS, both_of, known_pairs, plain_differences
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression

from skparisk.linear_model import PrivateLogisticRegression, logistic_sensitivity_bound
from skparisk.queries import LogisticRegressionQuery, _newton
from skparisk.queries._bounds import solved_logistic_bound
from skparisk.reference import RecordPool, TableReference

# Of the largest output: how far the answer on a database may be from the exact
# minimizer, and how far that of a sampled one.
EXACT, CLOSE = 1e-12, 1e-9
two_or_three = pytest.mark.parametrize("n_classes", [2, 3])
with_or_without = pytest.mark.parametrize("fit_intercept", [True, False])
each_relation = pytest.mark.parametrize("relation", RELATIONS)


# Oracles


@np.errstate(under="ignore")
def point(design, codes, penalty, offsets, theta):
    """Return slope and curvature over scores of all classes but the first.

    In extended precision, each from how far the other classes are.
    """
    k, X = len(theta), design.astype(np.longdouble)
    scores = np.zeros((k + 1, len(X)), dtype=np.longdouble)
    scores[1:] = theta.astype(np.longdouble) @ X.T
    scores[1:] += 0.0 if offsets is None else offsets
    own = codes == np.arange(k + 1)[:, None]
    odds = np.exp(scores - (scores * own).sum(axis=0))
    others = (odds * ~own).sum(axis=0)
    p, rest = (part / (1 + others) for part in (odds, (1 - np.eye(k + 1)) @ odds))
    residuals = np.where(own, -others / (1 + others), p)[1:]
    shares = np.eye(k) - (k > 1) / (k + 1)
    slope = residuals @ X + shares @ theta * penalty
    p, rest, curvature = p[1:], rest[1:], np.kron(shares, np.diag(penalty))
    whole = curvature.reshape(k, len(penalty), k, -1)
    for a in range(k):
        for b in range(k):
            share = p[a] * (rest[a] if a == b else -p[b])
            whole[a, :, b] += ((X.T * share) @ X).astype(float)
    return slope, curvature


def missed(query, X, y, answer):
    """Return how far the minimizer is, by a Newton step in extended precision.

    Of features that are centered, where there is an intercept.
    """
    K, (n, d), design, center = len(query.classes), X.shape, X, np.zeros(X.shape[1])
    labels, offsets = (y, None) if y.ndim == 1 else (y[:, 0], y[:, 1:].T)
    n_rows, penalty = 1 if K == 2 else K, np.full(d, 1 / query.C)
    theta = answer[: n_rows * d].reshape(n_rows, d).astype(np.longdouble)
    if query.fit_intercept:
        center = X.mean(axis=0)
        theta = np.column_stack([theta, answer[n_rows * d :] + theta @ center])
        design = np.column_stack([X - center, np.ones(n)])
        penalty = np.append(penalty, 0.0)
    theta = theta if K == 2 else theta[1:] - theta[0]
    codes = np.searchsorted(query.classes, labels)
    slope, curvature = point(design, codes, penalty, offsets, theta)
    scale, flat = 1 / np.sqrt(curvature.diagonal()), slope.ravel().astype(float)
    system = curvature * scale * scale[:, None], flat * scale
    step = (np.linalg.lstsq(*system, rcond=1e-14)[0] * scale).reshape(slope.shape)
    if K > 2:
        step = np.vstack([np.zeros_like(step[:1]), step])
        step -= step.mean(axis=0)
    if query.fit_intercept:
        step[:, -1] -= step[:, :-1] @ center
    return step


def gap(query, X, y, answer):
    """Return how far the minimizer is, of the largest output."""
    return abs(missed(query, X, y, answer)).max() / abs(answer).max()


def scikit_learn(query, X, y):
    exact = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
    exact |= {"C": query.C, "fit_intercept": query.fit_intercept}
    model = LogisticRegression(**exact).fit(X, y)
    intercept = model.intercept_[: 9 * query.fit_intercept]
    shift = intercept.mean() if len(intercept) > 1 else 0.0  # which changes nothing
    return np.concatenate([model.coef_.ravel(), intercept - shift])


def assert_differences(query, pairs, share=CLOSE):
    """Those of the answers to both databases, which are the exact minimizers."""
    block = query.on_pool(pairs.pool, pairs.n_records)(pairs)
    assert block.failure is None
    off, largest = abs(block.values - plain_differences(query, pairs)), 0.0
    for i in range(len(pairs)):
        databases = list(both_of(pairs, i))
        sizes = abs(np.array([query(*database) for database in databases]))
        assert off[i].max() <= share * sizes.max()
        assert gap(query, *databases[0], query(*databases[0])) <= share
        largest = np.maximum(largest, sizes.max(axis=0))
    # What is paid for rounding is rounding.
    assert block.errors.max() <= 16 * share * largest.max()
    np.testing.assert_allclose(block.sizes, largest, atol=share * largest.max())


# Data

ALIKE = np.eye(4)
ALIKE[:2, 1] = 1.0, 1e-6
SHAPES = {
    "overlapping": lambda X: X,
    "separated": lambda X: X,
    "on different scales": lambda X: X * [1e-3, 1e3, 1.0, 30.0],
    "far from zero": lambda X: X - [-1e4, 0.0, 0.0, 10.0],
    "with a constant": lambda X: X * [0, 1, 1, 1] + [3, 0, 0, 0],
    "with a far record": lambda X: np.vstack([1e6 * X[:1], X[1:]]),
    "nearly collinear": lambda X: X @ ALIKE,
}


def make_data(n_classes, n=200, shape="overlapping", seed=0):
    """Return features and labels 0, 2, 4, ..."""
    rng = np.random.default_rng([seed, n_classes])
    X = rng.normal(size=(n, 4))
    scores = X @ rng.normal(size=(4, n_classes))
    scores += 1.5 * (shape != "separated") * rng.normal(size=scores.shape)
    return SHAPES[shape](X), 2.0 * scores.argmax(axis=1)


def beside(y, n_classes, size=2.0):
    """Return labels with scores beside them."""
    scores = np.random.default_rng(0).normal(size=(len(y), n_classes - 1))
    return np.column_stack([y, size * scores])


def make_query(n_classes, C=1.0, fit_intercept=True):
    return LogisticRegressionQuery(2.0 * np.arange(n_classes), C, fit_intercept)


def pairs_from(X, y, *, n_records, relation="replace-one", size=6, r=1, **table):
    """Return pairs of so many databases with r neighbors each."""
    reference = TableReference(X, y, **table)
    return query_pairs.pairs_from(reference, n_records, relation, size, n_neighbors=r)


def swapped(X, y, row, other):
    """Return a pair of the whole table, and without one row or with another instead."""
    other = None if other is None else np.array([other])
    every = RecordPool(X, y), np.arange(len(X))[None]
    return known_pairs(*every, np.array([row]), other)


# The minimizer


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES)
def test_answers_are_the_exact_minimizers(shape, C):
    """In extended precision, and as scikit-learn has them, as far as it gets."""
    turn = [*SHAPES].index(shape) + int(math.log10(C))
    n_classes, fit_intercept = 2 + turn % 3, turn % 2 == 0
    X, y = make_data(n_classes, shape=shape)
    query = make_query(n_classes, C, fit_intercept).placed(X[::2], y[::2], len(X))
    answer = query(X, y)
    assert answer.shape == ((4 + fit_intercept) * (1 if n_classes == 2 else n_classes),)
    assert gap(query, X, y, answer) < (1e-9 if shape == "nearly collinear" else EXACT)
    if shape in ("far from zero", "with a far record"):  # beyond scikit-learn
        return
    expected = scikit_learn(query, X, y)
    allowed = 1e-9 + 2 * gap(query, X, y, expected)
    assert allowed < 1e-6
    assert abs(answer - expected).max() <= allowed * abs(expected).max()


RAW = [(load_breast_cancer, 1.0), (load_wine, 1e3), (load_digits, 1e-2)]


@pytest.mark.slow
@pytest.mark.parametrize(("load", "C"), RAW)
def test_raw_records_are_answered_as_by_scikit_learn(load, C):
    """Lengths beside areas, columns that are constant, and 260 outputs."""
    X, y = load(return_X_y=True)
    X, y = X[y < 4][-300:], y[y < 4][-300:]
    query = LogisticRegressionQuery(np.unique(y), C)
    expected = scikit_learn(query, X, y)
    assert abs(query(X, y) - expected).max() <= 1e-7 * abs(expected).max()
    pairs = pairs_from(X, 1.0 * y, n_records=200, size=1, r=2)
    assert_differences(query.placed(X, y, 200), pairs, 1e-6)


def test_public_constants_change_nothing_but_rounding():
    """But far from zero a center saves digits. The start is a fit of public records."""
    for n_classes in [2, 3]:
        for fit_intercept in [True, False]:
            X, y = make_data(n_classes)
            query = make_query(n_classes, 0.5, fit_intercept)
            placed, answer = query.placed(X[:60] + 3.0, y[:60], 500), query(X, y)
            assert placed == query
            assert 0 < abs(placed(X, y) - answer).max() <= CLOSE * abs(answer).max()
            assert query.placed(X[y == 0], y[y == 0], 500) is query  # which has none
            if n_classes == 2:
                start, expected = (
                    query.placed(X, y, 400).start,
                    query.resized(0.5)(X, y),
                )
                np.testing.assert_allclose(start[:4], expected[:4], rtol=1e-9)
            if fit_intercept:
                X += 1e6
                assert gap(query, X, y, query.placed(X, y, 200)(X, y)) < EXACT
                assert gap(query, X, y, query(X, y)) > 10 * EXACT


def test_extreme_penalties_are_solved_too():
    for n_classes in [2, 3]:
        for C, shape in product([1e-12, 1e8, 1e12], ["overlapping", "separated"]):
            X, y = make_data(n_classes, 60, shape)
            query = make_query(n_classes, C)
            assert gap(query, X, y, query(X, y)) < EXACT


HARD = [(2, 40), (2, 170), (3, 34), (3, 53), (3, 98), (3, 161), (4, 15), (4, 65)]


def test_whole_steps_lead_astray_and_shorter_ones_do_not():
    astray = 0
    for n_classes, seed in HARD:
        rng = np.random.default_rng([seed, 8, n_classes, 3])
        X, codes = rng.standard_cauchy(size=(8, 3)), rng.integers(n_classes, size=8)
        X = np.column_stack([X, np.ones(8)])
        X /= np.linalg.norm(X, axis=0)
        query = make_query(n_classes, 1e6, fit_intercept=False)
        if len(np.unique(codes)) < n_classes:
            continue
        assert gap(query, X, 2.0 * codes, query(X, 2.0 * codes)) < 1e-9
        theta, penalty = np.zeros((n_classes - 1, 4)), np.full(4, 1e-6)
        with np.errstate(all="ignore"):
            for _ in range(60):
                slope, curvature = point(X, codes, penalty, None, theta)
                if not np.isfinite(curvature).all():
                    break
                flat = slope.ravel().astype(float)
                step = np.linalg.lstsq(curvature, flat, rcond=1e-14)[0]
                theta = theta - step.reshape(theta.shape)
        astray += not abs(slope).max() < 1e-6
    assert astray > 2


def test_units_of_columns_change_units_of_answers():
    """Units that are powers of 2, up to where squares end; and the order of records."""
    for fit_intercept in [True, False]:
        for n_classes in [2, 3]:
            X, y = make_data(n_classes, 60)
            n_coefs = 4 * (1 if n_classes == 2 else n_classes)
            answer = make_query(n_classes, 0.7, fit_intercept)(X, y)
            for power in (-490, -30, 0, 3, 490):
                query = make_query(n_classes, 0.7 * 4.0**-power, fit_intercept)
                scaled = query(X[::-1] * 2.0**power, y[::-1])
                scaled[:n_coefs] *= 2.0**power
                np.testing.assert_allclose(scaled, answer, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
@two_or_three
def test_what_overflows_has_an_answer_or_none_and_no_word_of_it(n_classes):
    """A warning, or an error, would tell of private records; as would public ones."""
    X, y = make_data(n_classes, 60, "separated")
    query, last = make_query(n_classes), X.copy()
    last[:2, 0] = 1.7e308, -1.7e308
    scales = [1e150, 1e-150, 1, 1], [1e300, 1e-300, 1e-310, 1], [1e200] * 4
    for far in (*(X * each for each in scales[: 5 - n_classes]), last):
        placed, pairs = query.placed(far, y, 60), pairs_from(far, y, n_records=50)
        assert np.isfinite(placed.start).all()
        with np.errstate(all="raise"):
            for each in (query, placed, query.placed(X, y, 60)):
                answer = each(far, beside(y, n_classes))
                assert np.isfinite(answer).all() or np.isnan(answer).all()
            if n_classes == 2:  # more take many steps
                block = placed.on_pool(pairs.pool, 50)(pairs)
                assert (block.failure is None) == np.isfinite(block.values).all()
    # Where rounding makes the curvature singular, and of a start that is far.
    far = np.array([[2.27973742e36, -8.42163583e-255, -8.79869468e39]])
    make_query(3, fit_intercept=False)(far, np.array([4.0]))
    make_query(n_classes, 1e12).placed(X, y, 60)(last, y)


@two_or_three
@with_or_without
def test_answers_are_added_to_the_scores(n_classes, fit_intercept):
    """They minimize the loss; without the scores they would not."""
    X, y = make_data(n_classes, 120)
    size = 40.0 if fit_intercept == (n_classes == 2) else 1.0
    query, both = make_query(n_classes, 0.3, fit_intercept), beside(y, n_classes, size)
    for each in (query, query.placed(X, both, 120)):
        assert gap(query, X, both, each(X, both)) < EXACT
    assert gap(query, X, both, query(X, y)) > 0.05
    if n_classes > 2:  # and have no common shift
        coef, intercept = np.split(query(X, both), [12])
        assert abs(coef.reshape(3, 4).sum(axis=0)).max() < 1e-13
        assert abs(intercept.sum()) < 1e-13
    # Zeros say nothing, and other columns are no scores.
    plain = query(X, beside(y, n_classes, 0.0))
    np.testing.assert_array_equal(plain, query(X, y))
    for other in (np.zeros((120, 5)), np.zeros((120, 1)), np.zeros((120, 2, 1))):
        with pytest.raises(ValueError, match="Labels must have one dimension"):
            query(X, other)


def test_a_database_without_a_class_answers_zeros():
    """Where intercepts are free there is no minimizer, and an error would say so."""
    X, y = make_data(3)
    for K, rows in ((3, y < 4), (3, y < 0), (2, y == 0), (2, y < 0)):
        for labels in (y, beside(y, K)):
            database = X[rows], labels[rows]
            assert make_query(K)(*database).tolist() == [0.0] * (5 if K == 2 else 15)
            # Else there is one, and a bound holds for all databases.
            query = make_query(K, fit_intercept=False)
            answer = query(*database)
            assert abs(missed(query, *database, answer)).max() < EXACT
            assert answer.any() == rows.any()


# Classes that are missing, and parameters


def test_sampled_databases_need_all_classes():
    """Also those of a pool that lacks one, or where the neighbor alone does."""
    X, y = make_data(2)
    y[:] = 0.0
    pairs = pairs_from(X, y, n_records=50)
    found = make_query(2).on_pool(pairs.pool, 50)(pairs)
    assert np.isinf(found.values).all()
    assert found.failure.startswith("the class 2 (number 1 of 2) is missing")
    y[0] = 2.0
    lacking, whole = (swapped(X, y, row, row + 1) for row in (0, 1))
    assert np.isinf(make_query(2).differences(lacking)).all()
    assert_differences(make_query(2), whole)


def test_what_is_out_of_range_is_refused():
    """Labels that are no class without saying which."""
    for wrong, name in (
        ({"classes": (1.0,)}, "classes"),
        ({"classes": (1.0, np.nan)}, "classes"),
        *(({"C": C}, "C must") for C in (0.0, np.inf, "1")),
        ({"fit_intercept": 1}, "^fit_intercept"),
    ):
        with pytest.raises(ValueError, match=name):
            LogisticRegressionQuery(**{"classes": (0.0, 1.0), **wrong})
    X, y = make_data(2)
    pairs = pairs_from(X, y + 0.123, n_records=10)
    with pytest.raises(ValueError, match="not among the classes") as error:
        make_query(2)(X, y + 0.123)
    assert "123" not in str(error.value)
    with pytest.raises(ValueError, match="not among the classes"):
        make_query(2).differences(pairs)
    with pytest.raises(ValueError, match=r"the reference has none \(y\)"):
        make_query(2).on_pool(RecordPool(X), 10)


def test_queries_are_values():
    query = LogisticRegressionQuery((3, 1, 2.0), C=2)
    assert query == LogisticRegressionQuery(np.array([1.0, 2.0, 3.0]), C=2.0)
    assert (query.classes, type(query.C)) == ((1.0, 2.0, 3.0), float)
    assert query != LogisticRegressionQuery((1, 2), C=2.0)
    assert query.resized(0.5) == LogisticRegressionQuery((1, 2, 3), C=4.0)
    assert pickle.loads(pickle.dumps(query)) == query
    assert len({query, LogisticRegressionQuery((1, 2, 3), C=2.0)}) == 1
    with pytest.raises(NotImplementedError):
        super(LogisticRegressionQuery, query).answering(np.ones((1, 1)), [0], None)


@pytest.mark.parametrize("small", [0, 24])
def test_a_system_without_an_inverse_holds_no_other_up(small, monkeypatch):
    """One by one, or together; what rounding hides is not known."""
    monkeypatch.setattr("skparisk.queries._newton._SMALL_SYSTEM", small)
    systems = [np.eye(2), np.full((2, 2), np.nan), np.ones((2, 2)), [[1, 2], [2, 1.0]]]
    found = _newton._inverse(np.stack(systems))
    np.testing.assert_allclose(found[0], np.eye(2), rtol=1e-12)
    assert np.isnan(found[1:3]).all()
    assert np.isnan(_newton._inverted(np.zeros((2, 3, 3)))).all()


# Differences of pairs

# Fewer records than a database has, as many, more (each is drawn once), and many more.
TABLES = [(n_rows, "leave-out") for n_rows in (25, 60, 200, 700)] + [(200, "split")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(80))
def test_differences_are_those_of_answers_one_by_one(seed):
    draw = random.Random(seed).choice
    (n_rows, sampling), shape, scores = draw(TABLES), draw([*SHAPES]), draw([0, 2.0])
    n_classes, r = draw([2, 3, 4]), draw([1, 3])
    X, y = make_data(n_classes, n_rows, shape, seed)
    y[:20] = 2.0 * (np.arange(20) % n_classes)
    y = beside(y, n_classes, scores) if scores else y
    query = make_query(n_classes, draw([1e-3, 0.1, 1e2, 1e4]), draw([True, False]))
    query = query.placed(X, y, 60) if draw([True, False]) else query
    table = {"relation": draw(RELATIONS), "r": r, "sampling": sampling}
    pairs = pairs_from(X, y, n_records=60, size=4, **table)
    assert_differences(query, pairs, 1e-8 if shape == "nearly collinear" else CLOSE)


def test_a_neighbor_without_the_only_record_that_tells_of_a_feature():
    for scale, placed, n_classes, fit_intercept in [
        (0.0, False, 2, True),
        (0.0, True, 3, False),
        (1e-3, False, 3, True),
        (1e-3, True, 2, False),
        (1e-3, True, 3, True),
    ]:
        X, y = make_data(n_classes, 300)
        X[:, 3] *= scale
        X[0], y[0] = [0.0, 0.0, 0.0, 3.0], 2.0
        query = make_query(n_classes, 1.0, fit_intercept)
        query = query.placed(X, y, 300) if placed else query
        for other in (None, 1):
            assert_differences(query, swapped(X, y, 0, other))


@pytest.mark.parametrize("n_rows", [50, 300])
def test_what_does_not_converge_is_not_answered(n_rows, monkeypatch):
    X, y = make_data(2, n_rows)
    pairs = pairs_from(X, y, n_records=50, size=2)
    monkeypatch.setattr("skparisk.queries._newton._MOST_STEPS", 2)
    assert np.isnan(make_query(2)(X, y)).all()
    block = make_query(2).on_pool(pairs.pool, 50)(pairs)
    assert np.isinf(block.values).all()
    assert (block.sizes == 0).all()
    assert block.failure.startswith("the solver did not converge: bring features to")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_rare", "C", "unit", "relation"),
    [
        (8, 1e4, 1.0, "add-remove"),
        (8, 1.0, 1e8, "replace-one"),
        (50, 1.0, 1e8, "add-remove"),
    ],
)
def test_features_that_a_single_record_tells_of_move_as_far(n_rare, C, unit, relation):
    """No score moves with such a coefficient once that record is gone."""
    rng, n = np.random.default_rng(4), 4 * n_rare
    category = rng.integers(n_rare // 4, size=n + 20)
    category[:n_rare] = n_rare + np.arange(n_rare)
    known = np.unique(category)
    units = np.where(known < n_rare, 1.0, unit)
    X = units * (category[:, None] == known)
    y = 2.0 * rng.integers(2, size=len(X))
    query = make_query(2, C=C, fit_intercept=False)
    pairs = pairs_from(X, y, n_records=n, relation=relation, size=16)
    assert (pairs.removed < n_rare).sum() >= 2
    found, plain = query.differences(pairs), plain_differences(query, pairs)
    assert (abs(found - plain) * units).max() < 1e-9
    assert (abs(plain) * units).max() > 7


@each_relation
def test_what_rounding_hides_is_not_answered(relation):
    """Two columns that a single record tells apart, and next to no penalty."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), 2.0 * rng.integers(2, size=60)
    X[:, 1] = X[:, 0]
    X[0, 1] += 1.0
    pairs = pairs_from(X, y, n_records=30, relation=relation, size=60)
    told = make_query(2, C=1e3).on_pool(pairs.pool, 30)(pairs)
    assert np.isfinite(told.values).all()
    hidden = make_query(2, C=1e16).on_pool(pairs.pool, 30)(pairs)
    without = ~(pairs.members == 0).any(axis=1)[pairs.database]
    assert np.isinf(hidden.values[without]).all()
    assert without.any()


# Controls: what is wrong is noticed


def test_what_differs_from_the_private_answer_is_paid_for(monkeypatch):
    pairs = pairs_from(*make_data(2), n_records=200)
    answer = LogisticRegressionQuery.__call__
    off = lambda self, X, y: answer(self, X, y) * (1 + 1e-7)  # noqa: E731
    monkeypatch.setattr(LogisticRegressionQuery, "__call__", off)
    errors = make_query(2).on_pool(pairs.pool, 200)(pairs).errors
    answers = [make_query(2)(*database) for database in both_of(pairs, 0)]
    expected = 16e-7 * np.abs(answers).max(axis=0)
    np.testing.assert_allclose(errors, expected, rtol=1e-4)
    with pytest.raises(AssertionError):
        assert_differences(make_query(2), pairs)


@each_relation
@pytest.mark.parametrize("n_rows", [60, 700])
def test_a_neighbor_that_is_not_changed_is_noticed(n_rows, relation, monkeypatch):
    pairs = pairs_from(*make_data(2, n_rows), n_records=60, relation=relation)
    module = inspect.getmodule(type(make_query(2)).__mro__[1])
    plain = module._with_neighbors
    monkeypatch.setattr(module, "_with_neighbors", lambda *a: plain(*a)[:1] * 2)
    with pytest.raises(AssertionError):
        assert_differences(make_query(2), pairs)


@pytest.mark.parametrize(("factor", "noticed"), [(1 + 1e-7, True), (1.0, False)])
@two_or_three
def test_a_wrong_slope_is_noticed(n_classes, factor, noticed, monkeypatch):
    """Also if it is for all databases; wrong curvature costs steps, and no digit."""
    pairs = pairs_from(*make_data(n_classes), n_records=60)
    loss = inspect.getmodule(LogisticRegressionQuery).LogLoss
    residuals, curvature = loss._residuals, loss._curvature
    monkeypatch.setattr(loss, "_residuals", lambda *a: factor * residuals(*a))
    monkeypatch.setattr(loss, "_curvature", lambda *a: 1.05 * curvature(*a))
    with pytest.raises(AssertionError) if noticed else nullcontext():
        assert_differences(make_query(n_classes), pairs)


# The bound


def test_the_bound_is_not_exceeded():
    for scale in range(3):
        for seed in range(scale, 40, 3):
            check_bound(np.random.default_rng(seed), 10.0**scale)


def check_bound(rng, x_norm):
    n_classes, n = rng.integers(2, 5), rng.integers(1, 13)
    query = make_query(n_classes, 10.0 ** rng.uniform(-3, 3), fit_intercept=False)
    X = rng.normal(size=(n + 1, 2)) * rng.choice([0.1, 10.0], size=(n + 1, 1))
    X *= x_norm / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), x_norm)
    y = rng.choice(query.classes, size=n + 1)
    for relation, one, other in (
        ("replace-one", slice(n), slice(1, n + 1)),  # as sets, one record differs
        ("add-remove", slice(n + 1), slice(n)),
    ):
        limits = {"x_norm": x_norm, "relation": relation, "n_classes": n_classes}
        bound = logistic_sensitivity_bound(query.C, **limits)
        moved = query(X[one], y[one]) - query(X[other], y[other])
        assert np.linalg.norm(moved) <= bound


def test_the_bound_is_nearly_attained():
    """By a record that a majority contradicts, across where the majority bends."""
    for relation in RELATIONS:
        for n_classes in [2, 3]:
            query = make_query(n_classes, 0.1 / 4.0, fit_intercept=False)
            X, y = np.tile([2.0, 0.0], (40_000, 1)), np.zeros(40_000)
            X[0], y[0] = np.array([0.4, math.sqrt(1 - 0.4**2)]) * 2.0, 2.0
            neighbor = X[1:], y[1:]
            if relation == "replace-one":
                neighbor = np.vstack([X[:1] * [1, -1], X[1:]]), y
            limits = {"x_norm": 2.0, "n_classes": n_classes, "relation": relation}
            bound = logistic_sensitivity_bound(query.C, **limits)
            moved = np.linalg.norm(query(X, y) - query(*neighbor))
            assert 0.8 * bound < moved <= bound


def test_bounds_of_known_cases():
    assert logistic_sensitivity_bound(0.5) == 1.0
    assert logistic_sensitivity_bound(0.5, relation="add-remove") == 0.5
    assert logistic_sensitivity_bound(3.0, x_norm=2.0) == 12.0
    bounds = [logistic_sensitivity_bound(3.0, x_norm=2.0, n_classes=k) for k in (3, 5)]
    assert bounds == pytest.approx([12.0 * math.sqrt(2)] * 2)
    for wrong, name in (
        ({"C": 0.0}, "^C must"),
        ({"x_norm": -1.0}, "^x_norm must"),
        ({"C": 1e200, "x_norm": 1e200}, r"^C \* x_norm must"),
        ({"n_classes": 1}, "^n_classes must"),
        ({"relation": "both"}, "relation"),
    ):
        with pytest.raises(ValueError, match=name):
            logistic_sensitivity_bound(**{"C": 1.0, **wrong})


@two_or_three
def test_the_bound_pays_for_the_rounding_of_the_solver(n_classes):
    """What is paid for is more than how far the answers are from the minimizers."""
    how = {"classes": 2.0 * np.arange(n_classes), "x_norm": 1.0, "epsilon": math.inf}
    for C, shape in product([1e-6, 1e-2, 1e2, 1e6], ["overlapping", "separated"]):
        X, y = make_data(n_classes, 1000, shape)
        X /= np.linalg.norm(X, axis=1, keepdims=True).clip(1)
        model = PrivateLogisticRegression(C, sensitivity="bound", **how).fit(X, y)
        bounded = make_query(n_classes, C, fit_intercept=False)
        answer = np.column_stack([model.coef_, model.intercept_]).ravel()
        limits = {"x_norm": math.sqrt(2), "n_classes": n_classes}
        root = math.sqrt(answer.size)
        paid = model.sensitivity_ - root * logistic_sensitivity_bound(C, **limits)
        rows = np.column_stack([X, np.ones(1000)])
        off = np.linalg.norm(missed(bounded, rows, y, answer))
        assert 0 < 2 * root * off < paid


# What the solver is off by


N, D, RADIUS = 5000, 7, 3.0


def test_logistic_regression_pays_for_its_gradient():
    """Each of two gradients is a sum of n terms, at coefficients that are so large."""
    for n_classes, n_outputs in [(2, D), (3, 3 * D), (10, 10 * D)]:
        for C in [1e-6, 100.0]:
            limits = {"x_norm": RADIUS, "n_classes": n_classes}
            exact = logistic_sensitivity_bound(C, **limits)
            solved = solved_logistic_bound(C, (N, D), **limits)
            # At 0 no loss is above the log of n_classes, and the penalty is 0.
            largest = min(
                2 * C * N * RADIUS, math.sqrt(2 * C * N * math.log(n_classes))
            )
            gradient = C * N * RADIUS * (1 + RADIUS * largest) + largest
            paid = 2 * n_outputs * gradient * 2.0**-50
            paid += 2.0**-33 * C * RADIUS  # as Newton's method stops
            off = {"rel": 1e-5, "abs": exact * 2.0**-52}
            assert solved - exact == pytest.approx(paid, **off)
            assert (largest < 1) == (C < 1)


def test_logistic_regression_has_no_bound_beyond_the_digits_of_its_solver():
    logistic = {"x_norm": 4.0, "n_classes": 2}
    assert solved_logistic_bound(2.0**35, (2, 1), **logistic) is not None
    assert solved_logistic_bound(2.0**35, (3, 1), **logistic) is None
    assert solved_logistic_bound(1.01 * 2.0**36, (1, 1), **logistic) is None
