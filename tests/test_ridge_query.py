"""The ridge query: it answers as scikit-learn does, and so do its differences."""

import re
from itertools import islice

import numpy as np
import pytest
from query_pairs import (
    N_PAIRS,
    RELATIONS,
    both_of,
    independent,
    pairs_from,
    plain_differences,
    records_of,
)
from sklearn.linear_model import Ridge

from skparisk import SensitivitySampler
from skparisk.exceptions import PrivacyLeakWarning
from skparisk.queries import RidgeQuery, UnitsQuery, _sums
from skparisk.queries._linear import CorrectionQuery
from skparisk.reference import RecordPool, TableReference, as_reference

# How far differences may be from those of scikit-learn, and of answers one by one, in
# units of the largest, where normal equations are well conditioned.
CLOSE, SAME = 1e-9, 1e-11


def plain_ridge(query, X, y):
    """Return coefficients and intercept of scikit-learn's Ridge."""
    alpha = np.array(query.alpha) if isinstance(query.alpha, tuple) else query.alpha
    ridge = Ridge(alpha=alpha, fit_intercept=query.fit_intercept).fit(X, y)
    return np.append(ridge.coef_, ridge.intercept_ if query.fit_intercept else [])


def shortest(query, X, y):
    """Return the same by singular values: of all solutions the shortest."""
    center, mean = (query.fit_intercept * part.mean(axis=0) for part in (X, y))
    coef = np.linalg.lstsq(X - center, y - mean, rcond=1e-10)[0].T
    return np.append(coef, mean - coef @ center if query.fit_intercept else [])


def gaps(query, pairs, oracle=plain_ridge):
    """Return how far differences are from an oracle's, and from answers one by one."""
    n_coefs = pairs.pool.X.shape[1] * np.size(pairs.pool.y[0])
    found = []
    for i, difference in enumerate(query.differences(pairs)):
        for answer in (oracle, type(query).__call__):
            first, second = (answer(query, *d) for d in both_of(pairs, i))
            assert difference.shape == first.shape
            gap = abs(difference - (first - second))
            sizes = np.maximum(abs(first), abs(second)).clip(1e-300)
            coefs = gap[:n_coefs].max() / sizes[:n_coefs].max()
            found.append([coefs, gap.max() / sizes.max()])  # intercepts may be larger
    return np.reshape(found, (-1, 2, 2)).max(axis=(0, 2))


def assert_contract(query, pairs, same=SAME, oracle=plain_ridge):
    assert (gaps(query, pairs, oracle) <= [CLOSE, same]).all()


def table_of(X, y, n_records, relation="replace-one", size=N_PAIRS):
    return pairs_from(TableReference(X, y), n_records, relation, size)


def once(X, y):
    """Return a reference whose records are used once each."""
    rows = iter(range(len(X)))
    return as_reference(lambda n, rng: (X[some := [*islice(rows, n)]], y[some]))


SHAPES = {
    "independent": independent,
    "far from zero": lambda X, rng: X + 1e4,
    "on different scales": lambda X, rng: X * [1e-4, 1.0, 1e5],
    "nearly collinear": lambda X, rng: X @ [[1, 0, 1], [0, 1, 0], [0, 0, 0.1]],
    "collinear": lambda X, rng: X[:, [0, 1, 0]],
    "with a constant": lambda X, rng: X * [1, 0, 1] + [0, 3, 0],
    "with an outlier": lambda X, rng: np.vstack([X[:1] * [1e6, 1, 1], X[1:]]),
}
KINDS = {
    "small": (TableReference, lambda n: 2 * n),
    "large": (TableReference, lambda n: 4 * n + 5),
    "once": (once, lambda n: N_PAIRS * (n + 1) + 32),  # which are looked at
}
SOME = np.r_[1, 1, 1, 0, 0, 0, np.ones(22)]  # of products, not of a feature and targets
SIZES = (4, 11, 50, 400)
PENALTIES = (0.0, 0.0, 1e-2, 1.0, 1.0, 1e4, (1e-2, 3.0, 1e3), (2.0,))
VECTOR, COLUMN, THREE = TARGETS = (0, slice(1), slice(3))
EACH = ((1.0, 2.0, 3.0), [1, 2, np.longdouble(3)], np.array([1.0, 2.0, 3.0]))
CONFIGURATIONS = [*zip(PENALTIES, (*TARGETS, *TARGETS, THREE, COLUMN), strict=True)]


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_differences_are_those_of_refitting(shape, kind):
    n_records = SIZES[([*SHAPES].index(shape) + [*KINDS].index(kind)) % len(SIZES)]
    rng, (reference, n_rows) = np.random.default_rng(n_records), KINDS[kind]
    X, targets = records_of(SHAPES[shape], n_rows(n_records), rng)
    shift = SIZES.index(n_records) + [*KINDS].index(kind)
    far = shape in ("far from zero", "with a constant")  # targets are, of the latter
    for case, (alpha, which) in enumerate(CONFIGURATIONS, start=shift):
        if not alpha and (n_records == 4 or shape == "collinear"):
            continue
        y = targets[:, which]
        query = RidgeQuery(alpha, fit_intercept=far or bool(case % 2))
        query = query.placed(X, y, len(y)) if far or case % 4 < 2 else query
        relation, table = RELATIONS[case // 2 % 2], reference(X, y)
        pairs = pairs_from(table, n_records=n_records, relation=relation)
        assert_contract(query, pairs, CLOSE if "collinear" in shape else SAME)


@pytest.mark.parametrize(("alpha", "noise"), [(0.0, 0.0), (0.0, 1e-3), (1.0, 1e-3)])
def test_means_far_from_zero_may_cancel_in_the_intercept(alpha, noise):
    rng = np.random.default_rng(3)
    X = 1e4 + rng.normal(size=(500, 3))
    y = X @ [1.0, 2.0, 3.0] + noise * rng.normal(size=500)
    assert_contract(RidgeQuery(alpha).placed(X, y, len(y)), table_of(X, y, 200), CLOSE)


def test_one_record_of_far_larger_numbers_may_leave():
    """And would take the digits of the others with it, were it taken off a sum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(190, 1))
    X[60:66] *= 1e8
    pairs = table_of(X, 2 * X[:, 0] + rng.normal(size=190), 5, size=100)
    assert (abs(X[pairs.removed]) > 1e6).any()
    assert_contract(RidgeQuery(1.0, fit_intercept=False), pairs)


def test_singular_equations_have_the_shortest_solution():
    for relation in RELATIONS:
        for fit_intercept in [True, False]:
            for shape in ["collinear", "with a constant"]:
                X, y = records_of(SHAPES[shape], 60, np.random.default_rng(1))
                X[:, 2] = X[:, 1 if shape == "with a constant" else 0]
                query = RidgeQuery(0.0, fit_intercept).placed(X, y, len(y))
                assert_contract(query, table_of(X, y, 50, relation), CLOSE, shortest)


@pytest.mark.parametrize("alpha", [0.0, (0.0, 1.0)])
def test_some_databases_may_be_singular_and_others_not(alpha):
    """By a record that alone makes the rank full, and for one of the penalties."""
    X, y = np.random.default_rng(1).normal(size=(2, 40, 2))
    X[1:, 1] = X[1:, 0]
    pairs = table_of(X, y, 40, size=64)
    assert 0 < (pairs.records == 0).any(axis=1).sum() < 64
    oracle = RidgeQuery.__call__ if alpha else shortest
    assert_contract(RidgeQuery(alpha), pairs, CLOSE, oracle)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_rows", [50, 400])
@pytest.mark.parametrize("share", [0, -1, SOME, 1 - 1e-6, 1 - 5e-9], ids=np.mean)
def test_the_contract_notices_a_wrong_change(share, n_rows, relation, monkeypatch):
    """Control: none, of the other sign, not of all products, or hardly less."""
    X, y = records_of(independent, n_rows, np.random.default_rng(4))
    pairs, right = table_of(X, y, 50, relation), _sums.sums_of_pairs
    assert_contract(RidgeQuery(), pairs)

    def wrong(*parts):
        first, second = right(*parts)
        return first, first[:, None] + share * (second - first[:, None])

    monkeypatch.setattr("skparisk.queries._sums.sums_of_pairs", wrong)
    much = np.mean(share) < 1 - 1e-8
    assert (gaps(RidgeQuery(), pairs) > [CLOSE, SAME]).tolist() == [much, True]


def test_the_ridge_query_is_ridge():
    """A sequence of penalties is kept as a tuple, so that queries can be compared."""
    for which in TARGETS:
        for fit_intercept in [True, False]:
            for alpha in [0.0, np.float64(2.0), 3, *EACH]:
                X, y = records_of(independent, 30, np.random.default_rng(0))
                query, several = RidgeQuery(alpha, fit_intercept), np.ndim(alpha) > 0
                y = y[:, THREE if several else which]
                assert query.alpha == (tuple(alpha) if several else alpha)
                assert {*map(type, query.alpha if several else [query.alpha])} == {
                    float
                }
                assert query(X, y) == pytest.approx(
                    plain_ridge(query, X, y), rel=1e-12, abs=1e-14
                )


@pytest.mark.parametrize("code", [0.0, 1e10])
def test_a_center_is_public_and_saves_digits_only(code):
    """Also where some numbers are codes. Control: far from zero, few are left."""
    X, y = records_of(independent, 300, np.random.default_rng(0), n_targets=1)
    raw, far, y = RidgeQuery(), X + 1e6, y[:, 0]
    public = np.vstack([far[:6] + code, far[6:]])
    fitted = SensitivitySampler(raw, n_pairs=100, random_state=0).fit(public, y)
    query, expected = fitted.query_, plain_ridge(raw, X, y)[:3]
    assert (query, repr(query)) == (raw, repr(raw))
    assert query(far, y)[:3] == pytest.approx(expected, abs=1e-9)
    assert raw(far, y)[:3] != pytest.approx(expected, abs=1e-9)
    assert RidgeQuery(fit_intercept=False).placed(X, y, len(y)).center is None


def test_targets_that_do_not_fit_are_refused_before_any_pair_is_answered():
    X, y = records_of(independent, 30, np.random.default_rng(0))
    for n_targets in (1, 3):
        message = f"one number, or one for each of the {n_targets} targets, got 2."
        with pytest.raises(ValueError, match=re.escape(message)):
            RidgeQuery((1.0, 2.0)).on_pool(RecordPool(X, y[:, :n_targets]), 30)
    with pytest.raises(ValueError, match=r"takes targets, but the reference has none"):
        RidgeQuery().on_pool(RecordPool(X), 3)


def test_no_warning_tells_of_private_data():
    """It would be a release of its own, as of what is singular or overflows."""
    X, y = np.random.default_rng(0).normal(size=(2, 30, 2)) * [1.0, 1e10]
    query = RidgeQuery(1e-20)
    assert query(X, y) == pytest.approx(shortest(RidgeQuery(0.0), X, y), rel=1e-6)
    assert np.isfinite(query.differences(table_of(X, y, 20, "add-remove"))).all()
    few = RidgeQuery(0.0)(np.ones((2, 3)), np.array([1.0, 2.0]))
    assert few == pytest.approx([0, 0, 0, 1.5], abs=1e-12)
    X[:10] *= 1e200  # of which each database has some
    assert np.isnan(query(X, y)).any()
    assert np.isnan(query.differences(table_of(X, y, 20))).any()


@pytest.mark.parametrize("units", [None, (0.5, 2.0)])
def test_no_center_stays_if_public_records_turn_out_to_be_private(units):
    """Nor on a sampler that was calibrated to other targets from the same pairs."""
    X, y = np.random.default_rng(0).normal(size=(2, 60, 2))
    query = RidgeQuery() if units is None else UnitsQuery(RidgeQuery(), units)
    sampler = SensitivitySampler(query, gamma=0.2, n_pairs=60, random_state=0)
    others = [sampler.fit(X, y[:, 0]), sampler.calibrate(epsilon=2.0)]
    innermost = [getattr(s.query_, "query", s.query_) for s in others]
    assert all(inner.center is not None for inner in innermost)
    with pytest.warns(PrivacyLeakWarning):
        sampler.release(X, y[:, 0])
    assert all(inner.center is None for inner in innermost)


class Clipped(RidgeQuery):
    """A class of one's own, whose pairs are answered one by one."""

    def __call__(self, X, y=None):
        return super().__call__(X, y).clip(-0.3, 0.3)


@pytest.mark.parametrize(
    "query",
    [
        UnitsQuery(Clipped(), (0.5, 4.0)),
        CorrectionQuery(Clipped(), (0.2, 0.0, 1.0), RidgeQuery()),
    ],
    ids=["units", "correction"],
)
def test_what_is_built_on_a_class_of_ones_own_is_answered_by_it(query):
    X, y = np.random.default_rng(0).normal(size=(2, 40, 2))
    pairs = table_of(X, y[:, 0], 20)
    np.testing.assert_array_equal(
        query.differences(pairs), plain_differences(query, pairs)
    )
