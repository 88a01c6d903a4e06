"""Queries of means, records and functions: what they answer, and their differences."""

import copy
import functools
import pickle
import re
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from query_pairs import (
    RELATIONS,
    both_of,
    independent,
    pairs_from,
    plain_differences,
    records_of,
)

from skparisk import SensitivitySampler
from skparisk.core.release import answered
from skparisk.queries import (
    FunctionQuery,
    MeanQuery,
    MomentsQuery,
    Query,
    RecordQuery,
    RidgeQuery,
)
from skparisk.queries._base import same_but_for
from skparisk.reference import TableReference

# Means and records


def test_differences_of_means_are_those_of_the_plain_loop():
    """But for what means that are so large may be off, which errors cover."""
    for relation in RELATIONS:
        for n_records in [2, 3, 50]:
            for mean in [0.0, 1e4, 1e12]:
                X = np.random.default_rng(0).normal(size=(80, 3)) * [1e-3, 1.0, 1e3]
                X += mean
                pairs = pairs_from(TableReference(X), n_records, relation, size=20)
                query = MeanQuery()
                assert not query.needs_y
                found = query.on_pool(pairs.pool, n_records)(pairs)
                plain = plain_differences(FunctionQuery(lambda X: X.mean(0)), pairs)
                rounding = n_records * 2.0**-52 * np.abs(X).max(axis=0)
                outward = np.copysign(found.errors / 2, found.values)
                assert (np.abs(found.values - outward - plain) <= 2 * rounding).all()
                assert (found.errors <= 64 * rounding).all()


# Functions


def mean_of_targets(X, y):
    return np.mean(y)


def optional_targets(X, y=None):
    return 0.0 if y is None else np.sum(y)


def quantile(X, level=0.25):
    return np.quantile(X, level)


class ScaledSum:
    """A callable object."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, X, y):
        return self.scale * np.sum(y)

    def of_features(self, X):
        return np.sum(X)


FUNCTIONS = [
    (np.median, False, 3.0),
    (np.ptp, False, 4.0),
    (len, False, 4.0),
    (max, False, 5.0),  # a builtin without a signature
    (quantile, False, 1.75),
    (lambda X: X[0], False, 1.0),
    (lambda X, y: X[0] + y[0], True, 11.0),
    (lambda data, targets: targets[1], True, 20.0),
    (lambda X, y, /: y[2], True, 30.0),
    (lambda X, *rest: len(rest), False, 0.0),
    (lambda *args: len(args), False, 1.0),
    (lambda X, **options: len(options), False, 0.0),
    (mean_of_targets, True, 25.0),
    (optional_targets, True, 100.0),
    (functools.partial(np.quantile, q=0.5), False, 3.0),
    (functools.partial(mean_of_targets), True, 25.0),
    (functools.partial(quantile, level=1.0), False, 5.0),
    (ScaledSum(2), True, 200.0),
    (ScaledSum(2).of_features, False, 12.0),
]


def test_targets_are_passed_to_functions_that_take_them():
    """If a second positional argument is required or is named y."""
    for function, needs_y, expected in FUNCTIONS:
        X, y = np.array([1.0, 2.0, 4.0, 5.0]), np.array([10.0, 20.0, 30.0, 40.0])
        query = FunctionQuery(function)
        assert query.needs_y is needs_y
        answer = query(X, y)
        assert answer.dtype == np.float64
        assert answer.tolist() == [expected]


def test_what_is_no_number_is_no_answer():
    for answer in [1j, [1 + 0j], [], {}, None, "1 2", [[1], [2, 3]]]:
        message = (
            r"^The query <lambda> must return a number or an array of at least one"
        )
        with pytest.raises(ValueError, match=message):
            FunctionQuery(lambda X, answer=answer: answer)(np.ones((2, 1)))


def test_why_a_database_has_no_answer_is_told():
    """By the first of the errors; and of no error where there was none."""
    table = TableReference(np.arange(1.0, 81.0)[:, None])
    pairs = pairs_from(table, n_records=5, relation="replace-one", size=9)

    def fails(X):
        raise KeyError(f"number {next(calls)}")

    calls = iter(range(99))
    found = FunctionQuery(fails).on_pool(pairs.pool, 5)(pairs)
    assert (found.failure, found.values.shape) == ("KeyError: 'number 0'", (9, 0))
    found = FunctionQuery(np.mean).on_pool(pairs.pool, 5)(pairs)
    assert (found.failure, found.values.shape) == (None, (9, 1))

    def of_even(X):
        if X.sum() % 2:
            raise ArithmeticError(f"{X.sum():.0f} is odd")
        return X.mean()

    found = FunctionQuery(of_even).on_pool(pairs.pool, 5)(pairs)
    sums = [[X.sum() for X, _ in both_of(pairs, i)] for i in range(9)]
    missing = [any(number % 2 for number in pair) for pair in sums]
    assert np.isinf(found.values[:, 0]).tolist() == missing
    assert 1 < sum(missing) < 9
    odd = [number for pair in sums for number in pair if number % 2]
    assert found.failure == f"ArithmeticError: {odd[0]:.0f} is odd"


@pytest.mark.parametrize("relation", RELATIONS)
def test_differences_of_functions_are_those_of_the_plain_loop(relation):
    """First database minus second."""
    X, y = records_of(independent, 40, np.random.default_rng(0))
    pairs = pairs_from(TableReference(X, y), n_records=9, relation=relation)
    for function in (np.median, lambda X, y: y.max(axis=0) - X.min()):
        query = FunctionQuery(function)
        assert np.array_equal(query.differences(pairs), plain_differences(query, pairs))


@pytest.mark.parametrize("changes", ["within a pair", "between pairs"])
def test_a_query_that_changes_its_length_is_refused(changes):
    """The lengths are told."""
    table = TableReference(np.arange(10.0)[:, None])
    pairs = pairs_from(table, n_records=4, relation="replace-one", size=4)
    calls = []

    def query(X):
        calls.append(1)
        late = len(calls) > (1 if changes == "within a pair" else 2)
        return np.ones(3 if late else 2)

    message = (
        "The query must return the same number of outputs for every database, "
        "got [2, 3]."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        FunctionQuery(query).differences(pairs)


# All queries


def test_queries_are_values():
    """Equal copies have equal hashes, before and after use."""
    for query in [
        FunctionQuery(np.median),
        FunctionQuery(mean_of_targets),
        MeanQuery(),
        RecordQuery(),
        RidgeQuery(2.0, False),
        RidgeQuery([1.0, 2.0]),
    ]:
        for copied in (copy.deepcopy(query), pickle.loads(pickle.dumps(query))):
            assert query.needs_y == copied.needs_y
            assert copied == query
            assert hash(copied) == hash(query)
        with pytest.raises(AttributeError):
            query.alpha = 5.0


def test_a_query_without_an_answer_says_so():
    """The base class computes nothing."""
    assert not Query().needs_y
    with pytest.raises(TypeError, match="Query does not say what it computes"):
        Query()(np.ones((2, 1)))


# Classes of one's own


class Louder(MeanQuery):
    """Another function than the one that it inherits from."""

    def __call__(self, X, y=None):
        return 1000.0 * super().__call__(X, y)


class LouderRidge(RidgeQuery):
    """Another one by a method that the answer rests on."""

    def finish(self, sums):
        return 1000.0 * super().finish(sums)


class LouderSums(MomentsQuery):
    """Not a sum of what records add."""

    def __call__(self, X, y=None):
        return super().__call__(X, y) ** 2


@pytest.mark.parametrize(
    "query",
    [
        Louder(),
        LouderRidge(),
        LouderSums([0.0] * 4, [1.0] * 4, n_records=20, n_targets=1),
    ],
    ids=lambda query: type(query).__name__,
)
def test_a_class_of_ones_own_inherits_no_claim_about_answers(query):
    """Its noise would be that of what it inherits from."""
    assert not query.is_repeatable
    assert not query.is_sum
    X = np.random.default_rng(0).uniform(size=(40, 3))
    reference = TableReference(X, X.sum(axis=1))
    pairs = pairs_from(reference, n_records=20, relation="replace-one", size=5)
    expected = plain_differences(query, pairs)
    np.testing.assert_allclose(query.differences(pairs), expected, rtol=1e-9)


def test_a_class_of_ones_own_may_make_claims_and_hand_them_on():
    class Claiming(RidgeQuery):
        @property
        def is_repeatable(self):
            return True

    class Heir(Claiming):
        pass

    class Other(RidgeQuery):
        def __call__(self, X, y=None):
            return 2 * super().__call__(X, y)

    assert Heir().is_repeatable
    assert "on_pool" not in vars(Claiming)
    assert vars(Other)["on_pool"] is vars(Query)["on_pool"]


def test_numbers_are_the_same_but_for_a_share_of_the_largest():
    """Of the second, also where some of its numbers are missing or infinite."""
    other = np.array([1.0, -100.0, 1e-3])
    for change, same in ((0.9, True), (1.1, False), (-0.9, True), (-1.1, False)):
        one = other + np.array([0.0, 0.0, change])
        assert same_but_for(0.01, one, other) == same
    assert same_but_for(0.0, other, other)
    assert not same_but_for(0.0, other, other + np.array([0.0, 0.0, 1e-15]))
    assert not same_but_for(0.5, other[:2], other)
    assert not same_but_for(0.5, other[:1], other)
    odd = np.array([np.nan, np.inf, 1.0])
    assert same_but_for(0.1, odd + np.array([0.0, 0.0, 0.09]), odd)
    assert not same_but_for(0.1, odd + np.array([0.0, 0.0, 0.11]), odd)
    assert not same_but_for(0.1, np.array([0.0, np.inf, 1.0]), odd)
    assert not same_but_for(0.5, np.array([2e-9]), np.array([1e-9]))


def test_nothing_but_the_answer_tells_of_private_data():
    """Neither what went wrong nor what a query warns of; it may not answer either."""
    X = np.ones((4, 2))

    def warns(X):
        warnings.warn("secret", stacklevel=1)
        return X.sum(axis=0) + 0 * float(np.float64(1e308) * 10 < np.inf)

    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answered(FunctionQuery(warns), X, None).tolist() == [4.0, 4.0]
    for nothing in (
        lambda X: [np.nan, 1.0],
        lambda X: [np.inf, 1.0],
        lambda X: {}["secret"],
        lambda X: None,
        lambda X: "secret",
        lambda X: {"secret": X},
    ):
        own = type("Own", (Query,), {"__call__": lambda self, X, y, f=nothing: f(X)})
        for query in (FunctionQuery(nothing), own()):
            with pytest.raises(ValueError, match="has no answer on the private") as e:
                answered(query, X, None)
            assert "secret" not in str(e.value)
            assert e.value.__context__ is None


def test_rounding_of_a_function_is_that_of_its_largest_finite_answer():
    """In units of each output, however small, and where some have no answer."""
    table = TableReference(np.arange(1.0, 81.0)[:, None])
    pairs = pairs_from(table, n_records=5, relation="replace-one", size=20)

    def tiny(X):
        missing = np.nan if X[0, 0] % 2 else 0.0
        return np.array([1e-6 * X.max(), 1e-6 * X.max() + missing, 1e6 * X.sum()])

    found = FunctionQuery(tiny).on_pool(pairs.pool, 5)(pairs)
    largest = np.max([tiny(X) for i in range(20) for X, _ in both_of(pairs, i)], axis=0)
    rounding = FunctionQuery(tiny).rounding(found.sizes)
    share = rounding[0] / largest[0]
    assert 0 < share < 2.0**-30
    assert np.isfinite(rounding).all()
    assert rounding[2] == pytest.approx(share * largest[2])
    assert 0 < rounding[1] <= rounding[0] * (1 + 1e-12)


def test_random_answers_of_an_heir_are_noticed():
    class Random(RidgeQuery):
        def __call__(self, X, y=None):
            return super().__call__(X, y) + np.random.default_rng().normal(size=3)

    X = np.random.default_rng(0).uniform(size=(60, 2))
    with pytest.raises(ValueError, match="different answers on the same database"):
        SensitivitySampler(Random(), n_pairs=100).fit(X, X.sum(axis=1))


# Queries that someone else may change


class OwnQuantile(FunctionQuery):
    def __init__(self, shares):
        super().__init__(functools.partial(own_quantile, shares=shares))


def own_quantile(X, shares):
    return np.quantile(X, shares)


def quantile_of_cell(X, cells):
    return np.quantile(X, np.ravel(cells)[0 if cells.ndim == 1 else 1])


CHANGED = {
    "argument": lambda shares: functools.partial(own_quantile, shares=shares),
    "query": OwnQuantile,
    "cell of a column": lambda shares: functools.partial(
        quantile_of_cell, cells=pd.Series([shares, "more"], dtype=object)
    ),
    "cell of a table": lambda shares: functools.partial(
        quantile_of_cell, cells=pd.DataFrame({"rank": [1.0], "shares": [shares]})
    ),
}


def test_a_query_that_is_changed_in_place_stays_what_was_sampled():
    """Pairs of the median say nothing of the maximum, that has far more to hide."""
    for kind in CHANGED:
        shares, rng = [0.5], np.random.default_rng(0)
        private = rng.normal(size=(100, 1))
        sampler = SensitivitySampler(
            CHANGED[kind](shares),
            epsilon=1e6,
            n_pairs=100,
            n_records=100,
            random_state=0,
        ).fit(rng.normal(size=(300, 1)))
        shares[0] = 1.0
        for fitted in (sampler, sampler.calibrate()):
            assert abs(fitted.release(private)[0] - np.median(private)) < 1e-3


def test_a_query_that_cannot_be_copied_is_refused():
    """Someone else might change it."""
    query = functools.partial(own_quantile, shares=threading.Lock())
    with pytest.raises(ValueError, match=r"can be copied.*cannot pickle.*Give a fun"):
        SensitivitySampler(query).fit(np.zeros((300, 1)))
