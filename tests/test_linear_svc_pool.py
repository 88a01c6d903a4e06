"""Linear SVMs of many pairs: which are trusted, which stay, and the largest move."""

import math

import numpy as np
import pytest
from test_linear_svc_query import (
    LOSSES,
    RELATIONS,
    Counter,
    assert_block_is_right,
    classification,
    pairs_from,
)
from test_neighbor_groups import groups_from

from skparisk.neighbors import NeighborPairs
from skparisk.queries import LinearSVCQuery, _linear_svc_hinge, _together
from skparisk.queries import _linear_svc as module
from skparisk.queries._linear_svc_solver import Rows
from skparisk.reference import CallableReference, Domain, Interval, TableReference
from skparisk.svm import linear_svc_sensitivity_bound


def drawn(n, rng):
    y = rng.integers(2, size=n)
    return rng.normal(size=(n, 3)) + y[:, None], y


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
def test_blocks_of_databases_with_several_neighbors_are_right(
    monkeypatch, shared, loss, relation
):
    """Whether databases share the records of a pool, solved in parts, or have own."""
    monkeypatch.setattr(module, "_CHUNK", 500)
    table = TableReference(*classification(60, 3))
    reference = table if shared else CallableReference(drawn, "drawn")
    pairs = groups_from(reference, relation=relation, n_records=60, size=4, r=3)
    query = LinearSVCQuery((0, 1), C=0.2, loss=loss, intercept_scaling=2.0)
    assert_block_is_right(query, pairs)
    counter = Counter(monkeypatch)
    query.differences(pairs)
    assert counter.n_answers <= len(pairs)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("scaling", [0.25, 1.0, 4.0])
def test_pairs_are_trusted_up_to_a_quarter_of_what_they_are_moved(
    monkeypatch, scaling, relation
):
    """Two answers, each here and where it is released, in units of the intercept."""
    pairs = pairs_from(TableReference(*classification(60, 3)), 60, relation, size=8)
    query = LinearSVCQuery((0, 1), intercept_scaling=scaling)
    solve = module.solve_squared_hinge

    def off_by(factor, *, one=None):
        def solved(*args):
            found = solve(*args)
            largest = np.abs(found.W * [1, 1, 1, scaling]).max(axis=1)
            errors = factor * 2.0**-31 * largest / max(1.0, scaling)
            if one is not None and len(errors) == 8:
                errors[one] = math.inf
            return found._replace(errors=errors)

        monkeypatch.setattr(module, "solve_squared_hinge", solved)
        counter = Counter(monkeypatch)
        query.on_pool(pairs.pool, 60)(pairs)
        return counter.n_answers

    assert off_by(1.0) == 0
    assert off_by(1 + 2.0**-20) == 16
    assert off_by(1.0, one=3) == 2


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [0.125, 1.0, 16.0])
@pytest.mark.parametrize("within", [True, False])
def test_a_record_stays_only_if_beyond_the_margin_wherever_the_minimizer_is(
    monkeypatch, within, scale, loss
):
    n, C = 40, 0.2 / scale**2
    X, y = classification(n, 3)
    query = LinearSVCQuery((0, 1), C=C, loss=loss, fit_intercept=False)
    w = query(scale * X, y)
    size = np.linalg.norm(w)
    radius = 2.0**-24 * size
    if loss == "hinge":
        rows = Rows(scale * X)
        floor = _linear_svc_hinge._gap_floor(rows, np.ones(n), w, C)
        radius = 2 * math.sqrt(2 * floor)
    beyond = (0.5 if within else 2.0) * radius / size
    records = np.vstack([scale * X, (1 + beyond) * w / size**2])
    pool = TableReference(records, np.append(y, 1.0))
    pool = pairs_from(pool, n, "replace-one", size=1).pool
    margins = 1 - (scale * X @ w) * np.where(y, 1, -1)
    pairs = NeighborPairs.of(
        pool,
        np.arange(n)[None],
        np.array([np.argmin(margins)]),  # no doubt that this one is
        np.array([n]),
    )
    evaluate = query.on_pool(pool, n)
    counter = Counter(monkeypatch)
    found = evaluate(pairs)
    # That it costs nothing is not certain: the pair is solved by itself.
    assert counter.n_answers == (2 if within else 0)
    assert not found.values.any()
    assert not found.errors.any()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("q", "corners"), [(1, True), (6, True), (6, False)])
def test_pairs_are_solved_together_up_to_a_weight_of_the_longest_record(
    monkeypatch, q, corners, fit_intercept
):
    """Exactly: the weight is that of all records, its square that of the longest."""
    rng = np.random.default_rng(0)
    X = rng.choice([-3.0, 3.0], size=(40, q))
    X[20:] = rng.integers(-3, 4, size=(20, q))
    if not corners:  # no record is as long as one may be
        X = 3 * np.eye(q)[np.arange(40) % q]
    pairs = pairs_from(TableReference(X, np.arange(40) % 2), 40, "replace-one", size=4)
    query = LinearSVCQuery(
        (0, 1), C=0.25, fit_intercept=fit_intercept, intercept_scaling=3.0
    )
    largest = 0.25 * 40 * 9 * ((q if corners else 1) + fit_intercept)
    counter = Counter(monkeypatch)
    monkeypatch.setattr(module, "_LARGEST", largest)
    query.on_pool(pairs.pool, 40)(pairs)
    assert counter.n_answers == 0
    monkeypatch.setattr(module, "_LARGEST", np.nextafter(largest, 0))
    query.on_pool(pairs.pool, 40)(pairs)
    assert counter.n_answers == 8


def test_records_whose_squares_overflow_are_measured_without_a_warning():
    X, y = classification(40, 3)
    pairs = pairs_from(TableReference(1e200 * X, y), 40, "replace-one", size=4)
    query = LinearSVCQuery((0, 1), fit_intercept=False)
    assert not query._is_far_from_largest(pairs.pool, 40.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_records_of_a_problem_have_the_sign_of_their_side(n_classes):
    X, y = classification(20, 2, n_classes=n_classes)
    query = LinearSVCQuery(range(n_classes))
    found = query.problems(X, y.astype(int))
    positive = [1] if n_classes == 2 else [0, 1, 2]
    assert len(found) == len(positive)
    for Z, label in zip(found, positive, strict=True):
        expected = [x if c == label else -x for x, c in zip(X, y, strict=True)]
        np.testing.assert_array_equal(Z, expected)


@pytest.mark.parametrize("q", [1, 4])
def test_what_is_prepared_of_a_pool_takes_as_much_memory_as_allowed(monkeypatch, q):
    X, y = np.random.default_rng(0).normal(size=(60, q)), np.arange(60) % 2
    pool = pairs_from(TableReference(X, y), 60, "replace-one", size=1).pool
    query = LinearSVCQuery((0, 1), fit_intercept=False)
    n_bytes = Rows.products(X).nbytes
    for most, fits in ((n_bytes, True), (n_bytes - 1, False)):
        monkeypatch.setattr(_together, "_MOST_BYTES", most)
        shared = module._LinearSVCOnPool(query, pool, y, 60)._shared
        assert (shared is not None) == fits
    # Where a database has few of the pool's records, counts are mostly zeros.
    monkeypatch.setattr(_together, "_MOST_BYTES", n_bytes)
    assert module._LinearSVCOnPool(query, pool, y, 15)._shared is not None
    assert module._LinearSVCOnPool(query, pool, y, 14)._shared is None


@pytest.mark.parametrize(("n_records", "step"), [(60, 1), (15, 1), (7, 2), (5, 3)])
def test_all_start_from_the_minimizer_for_a_few_times_their_records(n_records, step):
    X, y = classification(60, 2)
    X = X.round(1)
    pool = pairs_from(TableReference(X, y), 60, "replace-one", size=1).pool
    query = LinearSVCQuery((0, 1), C=0.5)
    evaluate = module._LinearSVCOnPool(query, pool, y.astype(int), n_records)
    some = X[::step], y[::step]
    share = n_records / len(some[1])
    expected = LinearSVCQuery((0, 1), C=0.5 * share)(*some)
    np.testing.assert_allclose(evaluate._starts[0].w, expected, rtol=1e-9)


def test_squares_up_to_a_limit_have_an_answer():
    query = LinearSVCQuery((0, 1), loss="hinge", fit_intercept=False)
    y = np.array([0, 1])
    for exponent, answered in ((249, True), (250, False)):
        X = np.array([[0.0], [2.0**exponent]])
        assert np.isfinite(query(X, y)).all() == answered


def test_numbers_of_any_type_are_the_same_records():
    X, y = classification(30, 2)
    X = X.round(2)
    query = LinearSVCQuery((0, 1), fit_intercept=False)
    np.testing.assert_array_equal(query(X.astype(object), y), query(X, y))
    whole = np.rint(10 * X)
    np.testing.assert_array_equal(query(whole.astype(int), y), query(whole, y))


def test_parameters_are_floats_and_named_in_errors():
    query = LinearSVCQuery((0, 1), C=2, intercept_scaling=3)
    assert isinstance(query.C, float)
    assert isinstance(query.intercept_scaling, float)
    wrong = {"C": 0, "loss": "", "fit_intercept": 1, "intercept_scaling": 0}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=f"^{name} must be"):
            LinearSVCQuery((0, 1), **{name: value})


# The largest move

BOX = [Interval(-3, 3), Interval(-4, 2)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("fit_intercept", "scaling"), [(True, 0.25), (True, 6.0), (False, 6.0)]
)
def test_largest_move_is_that_of_each_problem(
    fit_intercept, scaling, n_classes, relation
):
    query = LinearSVCQuery(
        range(n_classes),
        C=0.01,
        loss="hinge",
        fit_intercept=fit_intercept,
        intercept_scaling=scaling,
    )
    move = query.largest_move(Domain(BOX), 50, relation)
    k, unit = (1 if n_classes == 2 else n_classes), max(1, fit_intercept * scaling)
    bound = linear_svc_sensitivity_bound(
        0.01, x_norm=5.0, intercept_scaling=fit_intercept * scaling, relation=relation
    )
    expected = [bound] * (2 * k) + [scaling * bound] * (k * fit_intercept)
    # Rounding of the solver is paid for, and is little.
    np.testing.assert_allclose(move.outputs, expected, rtol=1e-4)
    assert (move.outputs > expected).all()
    assert move.l2 == pytest.approx(math.sqrt(k) * unit * bound, rel=1e-4)
    assert move.l2 >= math.sqrt(k) * unit * bound


def test_without_a_box_or_with_one_of_zeros_there_is_no_largest_move():
    query = LinearSVCQuery((0, 1), loss="hinge")
    for columns in ([None, *BOX], [Interval(0, 0)] * 2):
        assert query.largest_move(Domain(columns), 50, "replace-one") is None
