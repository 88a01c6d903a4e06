"""Declared schemas: what is drawn, what is clipped, and every way to give them."""

import math
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from laws import assert_law, rejects_law
from query_pairs import counts_of, pairs_from
from scipy import stats
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skparisk import (
    IncompatibleError,
    KnownSensitivity,
    PrivateEstimator,
    PrivateGridSearchCV,
    PrivateKernelDensity,
    PrivateLogisticRegression,
    PrivateRidge,
    SchemaReference,
    SensitivitySampler,
)
from skparisk.reference import Categories, Domain, Interval

COLUMNS = {
    "age": (18, 90),
    "sex": ["f", "m"],
    "children": range(4),
    "owner": {True: 1, False: 3},
    "income": (0, 2),
    "wage": (0.0, 5e5),
}
SCHEMA = SchemaReference(COLUMNS, target="wage", missing={"income": 0.25})
FLAT = SchemaReference([(0, 1), (0, 2)], target=(0, 5))
CLASSES = SchemaReference([(0, 1), (0, 2)], target=["no", "yes"])
N = 60


def rng_of(seed=0):
    return np.random.default_rng(seed)


def numbers(n=N, seed=0):
    """Records of which many are outside."""
    return rng_of(seed).normal(0.5, 2, size=(n, 2))


def few(**parameters):
    return SensitivitySampler(n_pairs=39, random_state=0, **parameters)


# What is drawn


def test_columns_have_the_declared_laws():
    X, y = SCHEMA.sample(50_000, rng_of())
    assert list(X.columns) == list(COLUMNS)[:-1]
    for sample, low, width in ((X["age"], 18, 72), (y, 0, 5e5)):
        assert_law(sample, stats.uniform(low, width).cdf)
        for wrong in (0.9, 1.1):
            assert rejects_law(sample, stats.uniform(low, wrong * width).cdf)
    shares = {"sex": {"f": 0.5, "m": 0.5}, "children": dict.fromkeys(range(4), 0.25)}
    shares["owner"] = {True: 0.25, False: 0.75}
    for name, expected in shares.items():
        counts = X[name].value_counts()
        assert {*counts.index} == {*expected}
        found = [counts[value] for value in expected]
        law = [50_000 * share for share in expected.values()]
        assert stats.chisquare(found, law).pvalue > 1e-6
        assert stats.chisquare(found, np.roll(law, 1) * 1.0).pvalue > 1e-6 or (
            name == "owner"
        )
    missing = X["income"].isna()
    assert stats.binomtest(int(missing.sum()), 50_000, 0.25).pvalue > 1e-6
    assert_law(X["income"][~missing], stats.uniform(0, 2).cdf)


def test_the_domain_is_what_is_declared():
    assert SCHEMA.domain == Domain(
        [
            Interval(18, 90),
            Categories(["f", "m"]),
            Interval(0, 3),
            Categories([True, False]),
            Interval(0, 2, missing=True),
        ],
        [Interval(0, 5e5)],
    )
    X, y = SCHEMA.sample(500, rng_of())
    clipped, targets = SCHEMA.domain.clip(X, y)
    pd.testing.assert_frame_equal(SCHEMA.form.read_features(clipped), X)
    assert (targets == y).all()
    mixed = SchemaReference({"a": ["x", 1], "b": ["x", "y"]}, missing={"b": 0.5})
    assert mixed.schema.kinds == ("number and text", "text")
    assert mixed.domain.columns[1] == Categories(["x", "y", None])


def test_all_that_is_declared_is_in_the_whole():
    """Also what is too rare to be drawn."""
    shares = {**{f"rare{i}": 0.0 for i in range(50)}, "usual": 1.0}
    schema = SchemaReference({"a": shares, "b": (0, 1)}, target={"no": 1, "yes": 0})
    whole = schema.whole
    assert {*whole.X["a"]} == {*shares}
    assert {*whole.y} == {"no", "yes"}


@pytest.mark.parametrize("n_records", [1, 2, 40])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_own_records_are_fresh_and_shared_ones_are_not_own(n_records, relation):
    if (n_records, relation) == (1, "add-remove"):
        n_records = 3
    pairs = pairs_from(SchemaReference([(0, 1)]), n_records, relation, size=64)
    own = pairs.removed
    if relation == "replace-one":
        own = np.concatenate([own, pairs.replacement])
    assert len(np.unique(own)) == len(own)
    shared = pairs.members[:, :-1]
    assert not np.isin(shared, own).any()
    assert all(len(np.unique(line)) == len(line) for line in shared)
    # Values, not only numbers of rows.
    assert len(np.unique(pairs.pool.X)) == pairs.pool.n_records
    np.testing.assert_array_equal(
        counts_of(pairs).sum(axis=1), np.full(len(pairs), n_records)
    )


# How it is written down


LAYOUT = """
target = "wage"
container = "polars"

[columns.age]
range = [18, 90]
missing = 0.05

[columns.children]
whole = [0, 3]

[columns.sex]
categories = ["f", "m"]
weights = [3, 1]

[columns.region]
categories = ["north", "south"]

[columns.wage]
range = [0, 5000]
"""


def test_a_schema_from_a_file(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(LAYOUT)
    schema = SchemaReference.from_toml(path)
    assert schema.domain == Domain(
        [
            Interval(18, 90, missing=True),
            Interval(0, 3),
            Categories(["f", "m"]),
            Categories(["north", "south"]),
        ],
        [Interval(0, 5000)],
    )
    X, y = schema.sample(20_000, rng_of())
    assert isinstance(X, pl.DataFrame)
    assert stats.binomtest(int((X["sex"] == "f").sum()), 20_000, 0.75).pvalue > 1e-6
    assert stats.binomtest(int((y < 1000).sum()), 20_000, 0.2).pvalue > 1e-6
    path.write_text(
        'target = ["a", "b"]\n[columns]\na.range=[0,1]\nb.range=[0,1]\nc.whole=[1,2]'
    )
    assert len(SchemaReference.from_toml(path).domain.targets) == 2
    path.write_text('[columns.a]\nrange = [0, 1]\n[target]\ncategories = ["x", "y"]')
    assert SchemaReference.from_toml(path).targets.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colums.a.range = [0, 1]", "the schema has the key 'colums', which must be"),
        ("columns.a = 1", "the column 'a' must be a table of TOML, got 1"),
        ("columns = 1", "columns must be tables"),
        ("columns.a.kind = 2", "the column 'a' must have one of range, whole"),
        ("columns.a.range = [0, 1]\ncolumns.a.low = 2", "has the key 'low'"),
        ("columns.a.range = 1", "range of the column 'a' must be a list, got 1"),
        ("columns.a.range = [1]", "range of the column 'a' is wrong: not enough"),
        ("columns.a.range = [2, 1]", r"The column 'a' of the schema: A range must"),
        ("columns.a.whole = ['x', 'y']", "whole of the column 'a' is wrong"),
        (
            "columns.a.categories = ['x']\ncolumns.a.weights = [1, 2]",
            "weights must be a list of 1 numbers",
        ),
        ("columns.a.range=[0,1]\n[target]\nrange=[0,1]\nmissing=0.1", "key 'missing'"),
    ],
)
def test_bad_files_are_refused(tmp_path, text, message):
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        SchemaReference.from_toml(path)


def test_bad_schemas_are_refused():
    for columns, parameters, message in [
        ({}, {}, "columns must be a mapping of names to columns, or a list"),
        ((0, 1), {}, "columns must be a mapping of names to columns, or a list"),
        ({1: (0, 1)}, {}, "columns must have texts as names, got [1]."),
        ({"a": []}, {}, "The column 'a' of the schema: categories must be at least"),
        ({"a": ["x", "x"]}, {}, "each only once, got ['x', 'x']"),
        ({"a": (2, 1)}, {}, "with low <= high, got (2, 1)"),
        ({"a": (0, math.inf)}, {}, "two finite ends (low, high)"),
        ({"a": (0, math.nan)}, {}, "two finite ends (low, high)"),
        (
            {"a": (np.datetime64("2020"), np.datetime64("2021"))},
            {},
            "two finite ends (low, high)",
        ),
        ({"a": range(3, 0)}, {}, "a range must not be empty, got range(3, 0)"),
        ({"a": {"x": 1, "y": -1}}, {}, "weights must be finite numbers >= 0"),
        ({"a": {"x": 0}}, {}, "weights must be finite numbers >= 0, not all 0"),
        ({"a": {"x": "y"}}, {}, "weights must be finite numbers >= 0"),
        ({"a": 5}, {}, "it must be a tuple (low, high), a range of whole numbers"),
        ({"a": float}, {}, "it must be a tuple (low, high)"),
        ({"a": (0, 1, 2)}, {}, "it must be a tuple (low, high)"),
        ({"a": (0, 1)}, {"target": "b"}, "target must be a column of the schema"),
        ({"a": (0, 1)}, {"target": "a"}, "columns must have more than the target."),
        ({"a": (0, 1)}, {"target": ()}, "The target of the schema: it must be"),
        (
            {"a": (0, 1)},
            {"target": ["x", None]},
            "A target must not be missing in any record.",
        ),
        ({"a": (0, 1)}, {"missing": {"b": 0.1}}, "missing must name columns"),
        ({"a": (0, 1)}, {"missing": {"a": 1.0}}, "missing['a'] must be a number in"),
        ({"a": (0, 1)}, {"missing": {"a": True}}, "missing['a'] must be a number in"),
        ({"a": ["x", None]}, {"missing": {"a": 0.1}}, "None is one of the declared"),
        ({"a": (0, 1)}, {"container": "dask"}, "container must be one of"),
        ([(0, 1)], {"container": "pandas"}, "container must be"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            SchemaReference(columns, **parameters)


# Private records are clipped


def mean_of(X, y):
    return np.append(np.mean(X, axis=0), np.mean(y))


def test_a_release_is_of_clipped_records():
    X, y = numbers(), 9 * rng_of(1).random(N)
    before = X.copy()
    sampler = few(query=mean_of, reference=FLAT, epsilon=math.inf).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        released = sampler.release(X, y)
    expected = mean_of(X.clip(0, [1, 2]), y.clip(0, 5))
    np.testing.assert_allclose(released, expected, rtol=1e-12)
    assert (before == X).all()
    assert "to which private records are clipped" in str(sampler.certificate_)


def test_pairs_keep_the_domain_also_through_calibrate_and_pickle():
    X, y = numbers(), np.full(N, 7.0)
    sampler = few(query=mean_of, reference=FLAT).fit(X, y).calibrate(epsilon=math.inf)
    sampler = pickle.loads(pickle.dumps(sampler)).set_params(reference=None)
    assert sampler.release(X, y)[-1] == 5.0


def test_single_records_are_clipped():
    schema = SchemaReference([(0, 1), (0, 2)])
    sampler = few(reference=schema, epsilon=math.inf).fit(numbers())
    moved = sampler.transform(numbers())
    np.testing.assert_allclose(moved, numbers().clip(0, [1, 2]))


@pytest.mark.parametrize("given", ["fit", "sampler", "declared"])
def test_ridge_without_noise_is_that_of_scikit_learn_on_clipped_records(given):
    X, y = numbers(), 3 * numbers(seed=1)[:, 0]
    model = PrivateRidge(epsilon=math.inf, random_state=0)
    reference = {} if given == "sampler" else {"X_reference": FLAT}
    known = {"fit": few(), "declared": KnownSensitivity(0.5)}
    sampler = known.get(given, few(reference=FLAT))
    model = model.set_params(sensitivity=sampler).fit(X, y, **reference)
    expected = Ridge().fit(X.clip(0, [1, 2]), y.clip(0, 5))
    np.testing.assert_allclose(model.coef_, expected.coef_)
    inside, targets = FLAT.sample(N, rng_of())
    model.fit(inside, targets, **reference)
    expected = Ridge().fit(inside, targets)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-11)
    if given != "declared":
        assert model.sampler_.pairs_.domain == FLAT.domain
        return
    with pytest.raises(IncompatibleError, match="has 2 features, but X has 1"):
        model.fit(X[:, :1], y, **reference)
    np.testing.assert_allclose(model.fit(X, y).coef_, Ridge().fit(X, y).coef_)


def test_a_declared_sensitivity_is_of_frames_in_the_schema():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(-1, 3, N), "b": rng.choice([*"xyz"], N)})
    y = rng.uniform(0, 9, N)
    inside = frame.assign(a=frame["a"].clip(0, 1), b=frame["b"].replace("z", "x"))
    words = make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough")
    schema = SchemaReference({"a": (0, 1), "b": ["x", "y"], "t": (0, 5)}, target="t")
    model = PrivateEstimator(
        make_pipeline(words, Ridge()), epsilon=math.inf, sensitivity=1.0
    )
    model.set_params(random_state=0)
    moved = clone(model).fit(frame, y, X_reference=schema).predict(inside)
    plain = clone(model).fit(inside, y.clip(0, 5), X_reference=schema).predict(inside)
    np.testing.assert_array_equal(moved, plain)


def test_numbers_are_classes_as_they_are():
    schema = SchemaReference([(0, 1), (0, 2)], target=[3, 5, 7])
    X, y = numbers(90), rng_of().choice([3, 5, 7, 11], 90)
    model = PrivateLogisticRegression(epsilon=math.inf, sensitivity=few())
    model.fit(X, y, X_reference=schema)
    assert model.classes_.tolist() == [3, 5, 7]
    expected = model.coef_
    model.fit(X, np.where(y == 11, 3, y), X_reference=schema)
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9)
    # A range of whole numbers: what is none of them is the first one.
    whole = SchemaReference([(0, 1), (0, 2)], target=range(3, 9, 2))
    model.fit(X, y, X_reference=whole)
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9)
    assert not model.certificate_.leaks


def pipeline():
    encode = make_column_transformer(
        (OneHotEncoder(drop="first"), ["sex", "owner"]), remainder=StandardScaler()
    )
    return make_pipeline(encode, LogisticRegression())


def people(n, seed=0):
    rng = rng_of(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 40, n),
            "sex": rng.choice(["f", "m", "x"], n),
            "children": rng.integers(0, 9, n),
            "owner": rng.random(n) < 0.5,
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_pipelines_on_frames(container):
    """Categories are all that is declared, and private ones are clipped to it."""
    columns = {name: COLUMNS[name] for name in ("age", "sex", "children", "owner")}
    schema = SchemaReference(columns, target=["no", "yes"], container=container)
    X, y = people(150), rng_of(1).choice(["no", "yes", "secret"], 150)
    if container == "polars":
        X = pl.DataFrame(X.to_dict("list"))
    model = PrivateEstimator(pipeline(), random_state=0, sensitivity=few())
    model.fit(X, y, X_reference=schema)
    encoder = model.estimator_.named_steps["columntransformer"].named_transformers_
    found = encoder["onehotencoder"].categories_
    assert [list(known) for known in found] == [["f", "m"], [False, True]]
    assert model.classes_.tolist() == ["no", "yes"]
    by_sampler = PrivateEstimator(
        pipeline(), random_state=0, sensitivity=few(reference=schema)
    ).fit(X, y)
    assert by_sampler.noise_scale_ == model.noise_scale_
    assert model.predict(schema.domain.clip(X)[0]).shape == (150,)
    assert "sampling='split'" not in str(model.certificate_)


def test_a_density_of_clipped_records():
    schema = SchemaReference([(0, 1)])
    model = PrivateKernelDensity(
        bounds=(0, 2), bandwidth=0.3, epsilon=math.inf, sensitivity=few()
    )
    X = rng_of().normal(size=(N, 1))
    density = model.fit(X, X_reference=schema).pdf([[0.5]])
    assert density == model.fit(X.clip(0, 1), X_reference=schema).pdf([[0.5]])


def test_searches_take_a_schema_from_the_sampler():
    X, y = FLAT.sample(N, rng_of())
    ridge = PrivateRidge(sensitivity=few(reference=FLAT))
    search = PrivateGridSearchCV(ridge, {"alpha": [1.0, 9.0]}, selection="reference")
    made = dict(
        zip(("X_reference", "y_reference"), FLAT.sample(N, rng_of(1)), strict=True)
    )
    search.set_params(random_state=0).fit(X, y, **made)
    assert search.best_estimator_.sampler_.pairs_.domain == FLAT.domain
    with pytest.raises(ValueError, match="in a search, got a SchemaReference"):
        search.fit(X, y, X_reference=FLAT)


def test_references_that_lack_targets_are_refused():
    X, y = numbers(), np.zeros(N)
    with pytest.raises(ValueError, match="SchemaReference must have targets, but it"):
        PrivateRidge().fit(X, y, X_reference=SchemaReference([(0, 1)] * 2))
    with pytest.raises(ValueError, match="must be None if X_reference is a SchemaRef"):
        PrivateRidge().fit(X, y, X_reference=FLAT, y_reference=y)
    with pytest.raises(IncompatibleError, match="reference has 1 targets, but y has 2"):
        PrivateRidge().fit(X, np.zeros((N, 2)), X_reference=FLAT)
    with pytest.raises(ValueError, match="y_reference must be numbers"):
        PrivateRidge().fit(X, y, X_reference=CLASSES)
    bound = PrivateLogisticRegression(sensitivity="bound", x_norm=1.0)
    labels = np.where(X[:, 0] > 0, "no", "yes")
    assert bound.fit(X, labels, X_reference=CLASSES).classes_.tolist() == ["no", "yes"]
