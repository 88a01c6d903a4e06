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
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import check_estimator

from skparisk.exceptions import PrivacyLeakWarning
from skparisk.preprocessing import RandomizedResponseTransformer

seeds = pytest.mark.parametrize("seed", SEEDS)
ignore_leaks = pytest.mark.filterwarnings(
    "ignore::skparisk.exceptions.PrivacyLeakWarning"
)

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


def test_infinite_epsilon_keeps_the_values():
    transformer = RandomizedResponseTransformer(math.inf, categories=CATEGORIES)
    released = transformer.fit(PUBLIC).transform(PUBLIC)
    assert released.tolist() == PUBLIC
    assert transformer.epsilon_ == math.inf


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


def test_found_categories_warn_where_their_records_are_released():
    X = np.array(PUBLIC, dtype=object)
    transformer = RandomizedResponseTransformer(1.0).fit(X)
    with pytest.warns(PrivacyLeakWarning, match="very records") as caught:
        transformer.transform(X)
    assert caught[0].filename == __file__
    for same in (X.astype(str), pd.DataFrame(X), X.tolist(), X.copy()):
        with pytest.warns(PrivacyLeakWarning, match="very records"):
            transformer.transform(same)
    with pytest.warns(PrivacyLeakWarning, match="very records"):
        RandomizedResponseTransformer(1.0).fit_transform(X)
    transformer.transform(X[::-1])  # so few rows may be the same by chance
    transformer.transform(X[:2])


def test_numbers_are_noticed_as_well_whatever_their_type():
    X = np.array([[1, 20], [3, 20], [1, 40]])
    transformer = RandomizedResponseTransformer(1.0).fit(X)
    for same in (X, X.astype(float), X.astype(object), X.tolist()):
        with pytest.warns(PrivacyLeakWarning, match="very records"):
            transformer.transform(same)


def test_given_categories_use_nothing_of_the_data():
    one = RandomizedResponseTransformer(1.0, categories=CATEGORIES).fit(PUBLIC)
    other = clone(one).fit([["x", "y"]])
    assert pickle.dumps(vars(one)) == pickle.dumps(vars(other))
    one.transform(PUBLIC)
    clone(one).fit_transform(PUBLIC)


@pytest.mark.parametrize("categories", ["auto", CATEGORIES])
def test_nothing_undocumented_is_kept(categories):
    transformer = RandomizedResponseTransformer(1.0, categories=categories)
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


@ignore_leaks
def test_the_type_of_values_is_kept():
    for X in [
        np.array(PUBLIC),
        np.array(PUBLIC, dtype=object),
        np.array([[1, 2], [3, 4]]),
        np.array([[0.5, 2], [3, 4]], dtype=np.float32),
        np.array([[True, False], [False, False]]),
    ]:
        released = RandomizedResponseTransformer(math.inf).fit_transform(X)
        assert type(released) is np.ndarray
        assert released.dtype == X.dtype
        np.testing.assert_array_equal(released, X)


@ignore_leaks
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_of_several_types(make):
    X = make({"city": ["Rome", "Oslo"], "age": [20, 30], "left": [True, False]})
    transformer = RandomizedResponseTransformer(math.inf).fit(X)
    assert [values.tolist() for values in transformer.categories_] == [
        ["Oslo", "Rome"],
        [20, 30],
        [False, True],
    ]
    released = transformer.transform(X)
    assert released.dtype == object
    assert released.tolist() == [["Rome", 20, True], ["Oslo", 30, False]]
    assert [type(value) for value in released[0].tolist()] == [str, int, bool]
    if make is pd.DataFrame:  # not every version of scikit-learn knows the others'
        assert list(transformer.feature_names_in_) == ["city", "age", "left"]
        assert list(transformer.get_feature_names_out()) == ["city", "age", "left"]
    estimates = transformer.estimate_proportions(X)  # equal to what is released
    np.testing.assert_array_equal(estimates, np.full((3, 2), 0.5))


@ignore_leaks
def test_lists_of_several_types():
    X = [["Rome", 20], ["Oslo", 30]]
    transformer = RandomizedResponseTransformer(math.inf).fit(X)
    assert transformer.transform(X).tolist() == X


def test_given_categories_of_several_types_keep_their_order():
    transformer = RandomizedResponseTransformer(
        math.inf, categories=(["b", 1], np.array([3, 2]), ["long one", "c"])
    )
    X = [["b", 2, "c"], [1, 3, "long one"]]
    assert transformer.fit(X).transform(X).tolist() == X
    assert [v.tolist() for v in transformer.categories_] == [
        ["b", 1],
        [3, 2],
        ["long one", "c"],
    ]


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


def test_set_output_gives_frames():
    X = pd.DataFrame(PUBLIC, columns=["vote", "block"], index=[5, 6, 9])
    transformer = RandomizedResponseTransformer(math.inf, categories=CATEGORIES)
    released = transformer.set_output(transform="pandas").fit(X).transform(X)
    pd.testing.assert_frame_equal(released, X, check_dtype=False)


def test_an_encoder_may_follow():
    """Whatever is computed from released records is as private as they are."""
    pipeline = make_pipeline(
        RandomizedResponseTransformer(1.0, categories=CATEGORIES),
        OneHotEncoder(categories=CATEGORIES, sparse_output=False),
    )
    assert pipeline.fit_transform(PUBLIC).shape == (3, 5)


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
    variances = transformer.estimate_variances(released)
    for shares, estimate, variance, mechanism in zip(
        truth, estimates, variances, transformer.mechanisms_, strict=True
    ):
        assert estimate.sum() == pytest.approx(1)
        assert (np.abs(estimate - shares) <= 6 * np.sqrt(variance)).all()
        if mechanism.n_answers > 1:
            exact = mechanism.variance(shares, n)
            np.testing.assert_allclose(variance, exact, rtol=0.05)
    raw = np.mean(released[:, 0] == "yes")
    assert abs(raw - 0.3) > 6 * math.sqrt(variances[0][0])


def test_estimates_are_of_released_records_only():
    transformer = RandomizedResponseTransformer(1.0, categories=CATEGORIES).fit(PUBLIC)
    for estimate in (transformer.estimate_proportions, transformer.estimate_variances):
        with pytest.raises(ValueError, match="X must be an output of transform"):
            estimate([["yes", "A"], ["no", "secret"]])
    with pytest.raises(ValueError, match="responses must have a size of at least 2"):
        transformer.estimate_variances([["yes", "A"]])


# Refusals


def test_nan_and_infinity_are_refused():
    for fit in [True, False]:
        for X in [
            [[1.0, math.nan], [1.0, 2.0]],
            np.array([["a", math.nan], ["b", "c"]], dtype=object),
            pd.DataFrame({"a": ["x", "y"], "b": ["x", math.nan]}),
            pd.DataFrame({"a": [1.0, math.inf], "b": [1, 2]}),
        ]:
            transformer = RandomizedResponseTransformer(1.0)
            if not fit:
                transformer.set_params(categories=[[1, 2], [1, 2]]).fit(np.ones((1, 2)))
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                (transformer.fit if fit else transformer.transform)(X)
            assert hasattr(transformer, "categories_") == (not fit)


def test_data_without_categories_are_refused():
    for X, error in [
        (np.array([["a"], [1]], dtype=object), TypeError),
        (np.array([["a"], [None]], dtype=object), TypeError),
        (np.zeros((0, 2)), ValueError),
        (np.zeros((2, 0)), ValueError),
        (pd.DataFrame(index=[0, 1]), ValueError),
        (pd.DataFrame({"a": []}), ValueError),
        (pd.Series([1, 2]), ValueError),
        ([1, 2], ValueError),
        (np.array([[1 + 1j]]), ValueError),
    ]:
        with pytest.raises(error):
            RandomizedResponseTransformer(1.0).fit(X)


@pytest.mark.parametrize("X", [[["yes"]], [["yes", "A", "A"]]])
def test_other_columns_are_refused(X):
    transformer = RandomizedResponseTransformer(1.0, categories=CATEGORIES).fit(PUBLIC)
    for method in (transformer.transform, transformer.estimate_proportions):
        with pytest.raises(ValueError, match="features"):
            method(X)


def test_bad_parameters():
    for parameters, message in [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": None}, "epsilon must be"),
        ({"noise_random_state": "seed"}, "noise_random_state must be"),
        ({"categories": "all"}, "categories must be one of 'auto'"),
        ({"categories": None}, "categories must be 'auto' or a list"),
        ({"categories": [["yes", "no"]]}, "each of the 2 columns, got 1"),
        ({"categories": [["yes"], [["A", "B"]]]}, r"categories\[1\] must be"),
        ({"categories": [["yes"], []]}, "0 sample"),
        ({"categories": [["yes"], [1.0, math.nan]]}, r"categories\[1\] contains NaN"),
        ({"categories": [["yes"], "AB"]}, r"categories\[1\] must be a list"),
        ({"categories": [["a", "a"], ["A"]]}, r"categories\[0\] must be .*distinct"),
    ]:
        transformer = RandomizedResponseTransformer(**parameters)
        with pytest.raises((ValueError, TypeError), match=message):
            transformer.fit(PUBLIC)
        assert not hasattr(transformer, "categories_")


def test_a_failed_fit_forgets_the_last_one():
    transformer = RandomizedResponseTransformer(1.0).fit(PUBLIC)
    with pytest.raises(ValueError, match="epsilon"):
        transformer.set_params(epsilon=-1).fit(PUBLIC)
    with pytest.raises(ValueError, match="not fitted"):
        transformer.transform(PUBLIC)


# scikit-learn


class Repeatable(RandomizedResponseTransformer):
    """Without the tag that skips checks of transformers."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


# scikit-learn 1.6 subtracts a float from integers where only categories are taken.
BROKEN_CHECK = "check_positive_only_tag_during_fit"
# The n-th row gets the n-th noise, so the order of rows does matter.
BY_POSITION = {
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
}


@ignore_leaks
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    ("transformer", "expected"),
    [
        (RandomizedResponseTransformer(noise_random_state=0), set()),
        (RandomizedResponseTransformer(math.inf), set()),
        (Repeatable(0.5, noise_random_state=0), BY_POSITION),
    ],
)
def test_checks_of_scikit_learn(transformer, expected):
    results = check_estimator(transformer, on_fail=None, on_skip=None)
    failed = {r["check_name"] for r in results if r["status"] == "failed"}
    assert failed - {BROKEN_CHECK} == expected
    assert len(results) > 30
