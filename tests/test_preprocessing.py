"""RandomizedResponseTransformer: the level of a record, values of any type, leaks."""

import math
import os
import pickle
import warnings

import mpmath
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import FALSE_ALARM, SEEDS
from scipy import stats
from sklearn.base import clone

from skparisk.exceptions import PrivacyLeakWarning
from skparisk.preprocessing import RandomizedResponseTransformer

seeds = pytest.mark.parametrize("seed", SEEDS)

CATEGORIES = [["yes", "no"], ["A", "B", "C"]]
PUBLIC = [["yes", "C"], ["no", "A"], ["no", "B"]]


def rejects_counts(values, categories, probabilities):
    """Tell if a chi-square test refuses the probabilities of the categories."""
    observed = np.array([np.count_nonzero(values == value) for value in categories])
    expected = len(values) * np.asarray(probabilities) / np.sum(probabilities)
    return stats.chisquare(observed, expected).pvalue < FALSE_ALARM


def transform_seeded(transformer, X, seed=0):
    """Return records with repeatable noise, without the warning."""
    transformer.set_params(noise_random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return transformer.transform(X)


def exact_level(transformer):
    """Return the level that the exact weights of all columns have."""
    return mpmath.fsum(
        mpmath.log(mpmath.mpf(mechanism.weights[0]) / mechanism.weights[1])
        for mechanism in transformer.mechanisms_
        if mechanism.n_answers > 1
    )


# The level


@settings(deadline=None, max_examples=100)
@given(
    epsilon=st.floats(1e-12, 100),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12),
)
def test_the_level_of_a_record_is_split_over_columns_that_tell_something(
    epsilon, sizes
):
    categories = [np.arange(size) for size in sizes]
    transformer = RandomizedResponseTransformer(epsilon, categories=categories)
    transformer.fit(np.zeros((1, len(sizes))))
    with mpmath.workdps(50):
        exact = exact_level(transformer)
        assert exact <= transformer.epsilon_ <= epsilon
        noisy = sum(size > 1 for size in sizes)
        if noisy and epsilon / noisy < 20:  # whole numbers do not reach beyond 43
            assert exact >= epsilon * (1 - 1e-5)
    if not noisy:
        assert transformer.epsilon_ == 0
    for size, mechanism in zip(sizes, transformer.mechanisms_, strict=True):
        assert mechanism.n_answers == size
        assert mechanism.epsilon <= epsilon / max(noisy, 1)


@seeds
def test_values_follow_the_law_and_no_other_level(seed):
    transformer = RandomizedResponseTransformer(2.0, categories=CATEGORIES).fit(PUBLIC)
    assert transformer.epsilon_ == pytest.approx(2.0, rel=1e-12)
    X = np.array([["no", "C"]] * 50_000, dtype=object)
    released = transform_seeded(transformer, X, seed)
    for column, truth in enumerate(X[0]):
        categories = CATEGORIES[column]
        for level in (0.85, 1.0, 1.15):  # for each of two columns
            law = [math.exp(level * (value == truth)) for value in categories]
            refused = rejects_counts(released[:, column], categories, law)
            assert refused == (level != 1.0)


@seeds
@pytest.mark.parametrize("epsilon", [3.0, math.inf])
def test_what_is_no_category_becomes_any_of_them(epsilon, seed):
    """Also None, another type, and what looks alike: nothing is raised or warned."""
    transformer = RandomizedResponseTransformer(epsilon, categories=CATEGORIES)
    transformer.fit(PUBLIC)
    for value in ("maybe", None, 7, ("yes",), "Yes", ""):
        X = np.empty((10_000, 2), dtype=object)
        X[:] = "B"
        X[:, 0] = [value] * len(X)
        released = transform_seeded(transformer, X, seed)
        assert not rejects_counts(released[:, 0], CATEGORIES[0], [1, 1])
        law = [math.exp(min(epsilon, 100) / 2 * (value == "B")) for value in "ABC"]
        if math.isinf(epsilon):
            assert (released[:, 1] == "B").all()
        else:
            assert not rejects_counts(released[:, 1], CATEGORIES[1], law)


def test_the_uniform_law_keeps_the_level_to_all_others():
    transformer = RandomizedResponseTransformer(2.0, categories=CATEGORIES).fit(PUBLIC)
    for mechanism in transformer.mechanisms_:
        uniform = mechanism.matrix.mean(axis=0)
        np.testing.assert_allclose(uniform, 1 / mechanism.n_answers)
        ratios = np.abs(np.log(mechanism.matrix / uniform))
        assert ratios.max() < mechanism.epsilon


# Noise


def test_noise_is_from_the_operating_system(monkeypatch):
    transformer = RandomizedResponseTransformer(1.0, categories=CATEGORIES).fit(PUBLIC)
    calls = []

    def urandom(count, real=os.urandom):
        calls.append(count)
        return real(count)

    monkeypatch.setattr(os, "urandom", urandom)
    before = np.random.get_state()[1].copy()
    X = PUBLIC * 100
    assert (transformer.transform(X) != transformer.transform(X)).any()
    assert sum(calls) >= 600
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    released = []
    for _ in range(2):
        monkeypatch.setattr(os, "urandom", np.random.RandomState(3).bytes)
        released.append(transformer.transform(X))
    np.testing.assert_array_equal(*released)


def test_seeded_noise_repeats_and_warns():
    transformer = RandomizedResponseTransformer(
        1.0, categories=CATEGORIES, noise_random_state=5
    )
    transformer.fit(PUBLIC)
    released = []
    for _ in range(2):
        with pytest.warns(PrivacyLeakWarning, match="repeatable") as caught:
            released.append(transformer.transform(PUBLIC * 20))
        assert caught[0].filename == __file__
    np.testing.assert_array_equal(*released)


@pytest.mark.parametrize("seed", [0, np.random.RandomState(0)])
def test_columns_have_noise_of_their_own_also_with_a_seed(seed):
    transformer = RandomizedResponseTransformer(1.0, categories=[[0, 1], [0, 1]])
    transformer.fit(np.zeros((1, 2)))
    released = transform_seeded(transformer, np.zeros((2000, 2), int), seed)
    table = np.histogram2d(*released.T, bins=2)[0]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
    # Equal noise, and so equal columns, would be noticed.
    table = np.histogram2d(released[:, 0], released[:, 0], bins=2)[0]
    assert stats.chi2_contingency(table).pvalue < FALSE_ALARM


# What is public


def test_given_categories_use_nothing_of_the_data():
    one = RandomizedResponseTransformer(1.0, categories=CATEGORIES).fit(PUBLIC)
    other = clone(one).fit([["x", "y"]])
    assert pickle.dumps(vars(one)) == pickle.dumps(vars(other))
    one.transform(PUBLIC)
    clone(one).fit_transform(PUBLIC)


def test_nothing_undocumented_is_kept():
    transformer = RandomizedResponseTransformer(1.0, categories=CATEGORIES)
    transformer.fit(pd.DataFrame(PUBLIC, columns=["vote", "block"]))
    documented = {
        *transformer.get_params(),
        "categories_",
        "mechanisms_",
        "epsilon_",
        "n_features_in_",
        "feature_names_in_",
    }
    assert set(vars(transformer)) == documented


# Values of any type


@pytest.mark.parametrize(
    "X",
    [
        np.array(PUBLIC),
        np.array(PUBLIC, dtype=object),
        np.array([[1, 2], [3, 4]]),
        np.array([[0.5, 2], [3, 4]], dtype=np.float32),
        np.array([[True, False], [False, False]]),
    ],
    ids=["str", "object", "int", "float32", "bool"],
)
def test_the_type_of_values_is_kept(X):
    categories = [*map(np.unique, X.T)]
    transformer = RandomizedResponseTransformer(math.inf, categories=categories)
    released = transformer.fit_transform(X)
    assert type(released) is np.ndarray
    assert released.dtype == X.dtype
    np.testing.assert_array_equal(released, X)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_of_several_types(make):
    X = make({"city": ["Rome", "Oslo"], "age": [20, 30], "left": [True, False]})
    categories = [["Oslo", "Rome"], [20, 30], [False, True]]
    transformer = RandomizedResponseTransformer(math.inf, categories=categories).fit(X)
    released = transformer.transform(X)
    assert released.dtype == object
    assert released.tolist() == [["Rome", 20, True], ["Oslo", 30, False]]
    assert [type(value) for value in released[0].tolist()] == [str, int, bool]
    if make is pd.DataFrame:  # not every version of scikit-learn knows the others'
        assert list(transformer.feature_names_in_) == ["city", "age", "left"]
        assert list(transformer.get_feature_names_out()) == ["city", "age", "left"]
    estimates = transformer.estimate_proportions(X)  # equal to what is released
    np.testing.assert_array_equal(estimates, np.full((3, 2), 0.5))


@pytest.mark.parametrize(
    "categories",
    [
        [np.array(["a", "b"]), np.array([1, 2])],
        [np.array([True, False]), np.array([1, 2])],
        [np.array([1, 2**62 + 1]), np.array([0.5, 2.5])],
    ],
)
def test_values_of_several_kinds_are_not_converted(categories):
    transformer = RandomizedResponseTransformer(math.inf, categories=categories)
    X = np.column_stack([values.astype(object) for values in categories])
    released = transformer.fit(X).transform(X)
    assert released.tolist() == X.tolist()
    assert released.dtype == object


# Estimates


@seeds
def test_proportions_are_estimated_within_their_variance(seed):
    rng = np.random.default_rng(seed)
    truth = [[0.3, 0.7], [0.5, 0.1, 0.4], [1.0]]
    categories = [*CATEGORIES, ["same"]]
    n = 60_000
    X = np.column_stack(
        [
            rng.choice(np.array(values, dtype=object), size=n, p=shares)
            for values, shares in zip(categories, truth, strict=True)
        ]
    )
    transformer = RandomizedResponseTransformer(2.0, categories=categories).fit(X)
    released = transform_seeded(transformer, X, rng)
    estimates = transformer.estimate_proportions(released)
    for shares, estimate, mechanism in zip(
        truth, estimates, transformer.mechanisms_, strict=True
    ):
        assert estimate.sum() == pytest.approx(1)
        deviation = np.sqrt(mechanism.variance(shares, n))
        assert (np.abs(estimate - shares) <= 6 * deviation).all()
    raw = np.mean(released[:, 0] == "yes")
    deviation = np.sqrt(transformer.mechanisms_[0].variance(truth[0], n))[0]
    assert abs(raw - 0.3) > 6 * deviation


def test_estimates_are_of_released_records_only():
    transformer = RandomizedResponseTransformer(1.0, categories=CATEGORIES).fit(PUBLIC)
    with pytest.raises(ValueError, match="X must be an output of transform"):
        transformer.estimate_proportions([["yes", "A"], ["no", "secret"]])


# Refusals


@pytest.mark.parametrize("fit", [True, False])
@pytest.mark.parametrize(
    "X",
    [
        [[1.0, math.nan], [1.0, 2.0]],
        np.array([["a", math.nan], ["b", "c"]], dtype=object),
        pd.DataFrame({"a": ["x", "y"], "b": ["x", math.nan]}),
        pd.DataFrame({"a": [1.0, math.inf], "b": [1, 2]}),
    ],
)
def test_nan_and_infinity_are_refused(X, fit):
    transformer = RandomizedResponseTransformer(1.0, categories=[[1, 2], [1, 2]])
    if not fit:
        transformer.fit(np.ones((1, 2)))
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        (transformer.fit if fit else transformer.transform)(X)
    assert hasattr(transformer, "categories_") == (not fit)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((0, 2)),
        np.zeros((2, 0)),
        pd.DataFrame({"a": []}),
        pd.Series([1, 2]),
        np.array([[1 + 1j]]),
    ],
)
def test_data_without_columns_are_refused(X):
    with pytest.raises(ValueError, match=r"."):
        RandomizedResponseTransformer(1.0, categories=CATEGORIES).fit(X)


@pytest.mark.parametrize("X", [[["yes"]], [["yes", "A", "A"]]])
def test_other_columns_are_refused(X):
    transformer = RandomizedResponseTransformer(1.0, categories=CATEGORIES).fit(PUBLIC)
    for method in (transformer.transform, transformer.estimate_proportions):
        with pytest.raises(ValueError, match="features"):
            method(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": None}, "epsilon must be"),
        ({"noise_random_state": "seed"}, "noise_random_state must be"),
        ({"categories": "auto"}, "categories must be a list"),
        ({"categories": [["yes", "no"]]}, "each of the 2 columns, got 1"),
        ({"categories": [["yes"], [["A", "B"]]]}, r"categories\[1\] must be"),
        ({"categories": [["yes"], []]}, "0 sample"),
        ({"categories": [["yes"], [1.0, math.nan]]}, r"categories\[1\] contains NaN"),
        ({"categories": [["yes"], "AB"]}, r"categories\[1\] must be a list"),
        ({"categories": [["a", "a"], ["A"]]}, r"categories\[0\] must be .*distinct"),
    ],
)
def test_bad_parameters(parameters, message):
    transformer = RandomizedResponseTransformer(
        **{"categories": CATEGORIES} | parameters
    )
    with pytest.raises((ValueError, TypeError), match=message):
        transformer.fit(PUBLIC)
    assert not hasattr(transformer, "categories_")


def test_a_failed_fit_forgets_the_last_one():
    transformer = RandomizedResponseTransformer(1.0, categories=CATEGORIES).fit(PUBLIC)
    with pytest.raises(ValueError, match="epsilon"):
        transformer.set_params(epsilon=-1).fit(PUBLIC)
    with pytest.raises(ValueError, match="not fitted"):
        transformer.transform(PUBLIC)
