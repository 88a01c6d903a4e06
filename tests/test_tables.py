"""Any table that scikit-learn can index by rows: drawn, recognized and answered."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from guises import GUISES, N_ROWS, as_objects, as_polars, people, sparse_table
from query_pairs import pairs_from
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skparisk import (
    KnownSensitivity,
    PrivacyLeakWarning,
    PrivateRidge,
    SensitivitySampler,
)
from skparisk._private_data import validate_private_records, validate_records
from skparisk.core.release import answered
from skparisk.exceptions import IncompatibleError
from skparisk.model_selection import PrivateGridSearchCV
from skparisk.neighbors import sample_database
from skparisk.queries import FunctionQuery, MeanQuery
from skparisk.reference import SchemaReference, TableReference, as_reference
from skparisk.reference._records import Schema, as_records
from skparisk.sensitivity import sample_differences

SEED = np.random.SeedSequence(0)


def median_age(X):
    return X["age"].median()


def share_of_graz(X):
    return (X["city"] == "Graz").mean()


def text_length(X):
    return np.mean([len(text) for text in X])


def graz_of_labels(X, y):
    return (y == "Graz").mean()


def sampler_of(query=median_age, **parameters):
    defaults = {"gamma": 0.1, "n_pairs": 40, "random_state": 0, "n_records": 50}
    return SensitivitySampler(query, **defaults | parameters)


# References and pools


def mixed_sample(n_records, rng):
    return people(n_records, rng.integers(2**32))


@pytest.mark.parametrize(
    "made",
    [
        lambda X: X,
        as_polars,
        as_objects,
        lambda X: X["city"].tolist(),
        lambda X: sparse.csr_array(X[["children"]].to_numpy()),
        lambda X: X[["children"]].to_numpy().tolist(),
    ],
)
def test_functions_make_records_of_any_kind(made):
    reference = as_reference(lambda n, rng: made(mixed_sample(n, rng)))
    pairs = pairs_from(reference, 5, "replace-one", size=3)
    expected = as_records(made(people(3)))
    assert type(pairs.pool.X) is type(expected)
    Schema.of(expected).check_same(Schema.of(pairs.pool.X))
    assert pairs.pool.n_records == 3 * 6


# Recognition


@pytest.mark.parametrize("guise", ["polars", "categories"])
def test_a_release_of_the_reference_itself_is_told(guise):
    sampler = sampler_of().fit(people())
    with pytest.warns(PrivacyLeakWarning, match="public"):
        sampler.release(GUISES[guise](people().iloc[7:57]))
    assert sampler.certificate_.reference_is_private
    assert sampler.pairs_.withheld


# Queries on any table


@pytest.mark.sampled(2)
@pytest.mark.parametrize("query", [median_age, share_of_graz])
@pytest.mark.parametrize("make", [lambda frame: frame, as_polars])
def test_a_function_of_frames_from_end_to_end(query, make):
    sampler = sampler_of(query, epsilon=np.inf).fit(make(people()))
    assert sampler.n_features_in_ == 5
    assert sampler.feature_names_in_.tolist() == list(people().columns)
    private = people(50, seed=1)
    released = sampler.release(make(private))
    assert released == pytest.approx([query(private)])
    again = sampler_of(query, n_jobs=2).fit(make(people()))
    assert (again.differences_ == sampler.differences_).all()
    loaded = pickle.loads(pickle.dumps(sampler))
    assert loaded.release(make(private)) == pytest.approx(released)


def test_a_function_of_texts_and_labels():
    texts = people()["city"].tolist()
    sampler = sampler_of(text_length, epsilon=np.inf).fit(texts)
    assert not hasattr(sampler, "n_features_in_")
    assert sampler.release(["abc"] * 50) == pytest.approx([3.0])
    labels = sampler_of(graz_of_labels, epsilon=np.inf).fit(people(), texts)
    assert labels.release(people(50), ["Graz"] * 50) == pytest.approx([1.0])
    for X in (np.ones((50, 1)), people(50)):
        with pytest.raises(IncompatibleError, match="is a list of texts, but X is a"):
            sampler.release(X)
    with pytest.raises(IncompatibleError, match="a data frame, but X is a list of te"):
        sampler_of().fit(people()).release(["a"] * 50)


def test_arrays_beside_frames_are_refused():
    """Columns are known by name in one of them, and by place in the other."""
    frame = people()[["children", "age"]].fillna(0.0)
    array = frame.to_numpy()
    schema = SchemaReference([(0, 1), (0, 9)])
    for reference, X in ((frame, array), (array, frame), (schema, frame)):
        table = reference if reference is schema else TableReference(reference)
        for query in (MeanQuery(), lambda X: np.asarray(X)[:, 0].mean()):
            sampler = sampler_of(query, reference=table)
            with pytest.raises(IncompatibleError, match="give both in the same form"):
                sampler.fit(X)
    sampler = sampler_of(MeanQuery()).fit(frame)
    with pytest.raises(IncompatibleError, match="give both in the same form"):
        sampler.release(array)


@pytest.mark.parametrize(
    ("reference", "error", "message"),
    [
        ([[np.nan, 1.0]] * 30, ValueError, "Input X of the reference contains NaN"),
        ([["a", 1.0]] * 30, ValueError, "alone, but column number 0 holds text"),
        (sparse.csr_array((30, 2)), IncompatibleError, "is a sparse matrix, but X"),
    ],
)
def test_queries_of_numbers_refuse_other_tables(reference, error, message):
    sampler = sampler_of(MeanQuery(), reference=TableReference(reference))
    with pytest.raises(error, match=message):
        sampler.fit(np.ones((50, 2)))


def test_differences_of_any_table():
    differences = sample_differences(
        FunctionQuery(share_of_graz),
        TableReference(people()),
        n_pairs=5,
        n_records=20,
        n_features=5,
    )
    assert differences.shape == (5, 1)
    with pytest.raises(IncompatibleError, match="has 5 features, but X has 4"):
        sample_differences(
            FunctionQuery(share_of_graz),
            TableReference(people()),
            n_pairs=5,
            n_records=20,
            n_features=4,
        )
    boxes = SchemaReference([(0, 1)])
    sizes = {"n_pairs": 3, "n_records": 4, "n_features": 1}
    assert sample_differences(MeanQuery(), boxes, **sizes).shape == (3, 1)


SECRET = "91234.25"


@pytest.mark.parametrize(
    "wrong",
    [
        {"city": [{SECRET: 1}] * 50},
        {"age": [np.inf, *[1.0] * 49]},
        {"age": [SECRET] * 50},
        {"born": pd.period_range("1912-03-04", periods=50)},
    ],
)
def test_no_private_value_is_an_error(wrong):
    """What the public type cannot hold is missing, each by itself."""
    sampler = sampler_of().fit(people())
    assert sampler.release(people(50, seed=1).assign(**wrong)).shape == (1,)


def test_a_query_cannot_change_private_records():
    def spoil(X):
        X["age"] = 0.0
        return 1.0

    frame = people(5)
    answered(FunctionQuery(spoil), frame, None)
    assert frame.equals(people(5))


# For estimators


def test_private_records_are_validated():
    model = BaseEstimator()
    frame = people(30)
    assert validate_private_records(model, frame, allow_nan=False) is frame
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.n_features_in_ == 5
    with pytest.raises(ValueError, match="feature names should match"):
        validate_private_records(model, frame[["age"]], reset=False, allow_nan=True)
    X, y = validate_private_records(
        BaseEstimator(), [[np.nan]], [[1, 2]], allow_nan=True, multi_output=True
    )
    assert (X.shape, y.tolist()) == ((1, 1), [[1, 2]])
    labels = validate_private_records(model, frame, ["a"] * 30, allow_nan=True)[1]
    assert labels.tolist() == ["a"] * 30
    numbers = np.array([1, 2.5], dtype=object)
    _, y = validate_private_records(
        BaseEstimator(), ["a", "b"], numbers, allow_nan=True, y_numeric=True
    )
    assert y.dtype == np.float64
    texts = BaseEstimator()
    assert validate_private_records(texts, ["a"], allow_nan=False).shape == (1,)
    assert not hasattr(texts, "n_features_in_")
    for X in ([[np.nan]], sparse.csr_array([[np.nan]])):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            validate_private_records(model, X, allow_nan=False)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        validate_private_records(model, [[1.0]], [np.nan], allow_nan=True)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        validate_records(model, [[1.0]], [1.0, 2.0], allow_nan=True)
    with pytest.raises(ValueError, match="requires y to be passed"):
        validate_private_records(LogisticRegression(), [[1.0]], None, allow_nan=True)


# Searches


class Median(BaseEstimator):
    """Not private: for records that go through a search as they are given."""

    def fit(self, X, y=None):
        self.median_ = X["age"].median()
        return self


def ridge():
    return PrivateRidge(sensitivity=KnownSensitivity(0.5), random_state=0)


@pytest.mark.parametrize("guise", GUISES)
def test_a_search_recognizes_private_records_of_frames(guise):
    search = PrivateGridSearchCV(make_pipeline(Median(), ridge()), {})
    public = GUISES[guise](people().sample(frac=0.5, random_state=0))
    message = "X_reference must be public and must not share records"
    y = np.arange(N_ROWS)
    with pytest.raises(ValueError, match=message):
        search.fit(people(), y, X_reference=public, y_reference=y[:200])
    same = np.ones((N_ROWS, 1))
    with pytest.raises(ValueError, match=message):
        search.fit(same, y, X_reference=same, y_reference=y)


def test_a_search_takes_sparse_matrices_apart():
    """They are recognized by their rows, and not only as one object."""
    X = sparse_table(N_ROWS, 6)
    y = np.arange(N_ROWS)
    search = PrivateGridSearchCV(make_pipeline(Median(), ridge()), {})
    with pytest.raises(ValueError, match="must not share records"):
        search.fit(X, y, X_reference=X[::2], y_reference=y[::2])


def test_a_search_over_estimators_of_any_table_lets_them_see_it(monkeypatch):
    X, y = people().drop(columns="born"), np.arange(N_ROWS) % 2
    search = PrivateGridSearchCV(ridge(), {})
    public = people(seed=1).drop(columns="born")
    with pytest.raises(ValueError, match="could not convert string to float"):
        search.fit(X, y, X_reference=public, y_reference=y)
    seen = []

    def fit(self, X, y, **reference):
        seen.append(type(X))
        raise ValueError("seen")

    monkeypatch.setattr(PrivateRidge, "_takes_any_table", True)
    monkeypatch.setattr(PrivateRidge, "fit", fit)
    with pytest.raises(ValueError, match="seen"):
        search.fit(X, y, X_reference=public, y_reference=y)
    assert seen == [pd.DataFrame]


# Memory


@pytest.mark.slow
def test_a_large_frame_is_not_copied():
    """Sketch and database of a frame take less than twice its size in numbers."""
    n_rows, n_columns = 100_000, 20
    rng = np.random.default_rng(0)
    columns = {}
    for i in range(n_columns):
        kinds = (
            rng.normal(size=n_rows),
            rng.integers(1000, size=n_rows),
            rng.choice(["a", "b", "c"], n_rows),
            np.datetime64("2020-01-01", "us") + rng.integers(9, size=n_rows),
            pd.Categorical.from_codes(rng.integers(3, size=n_rows), [*"xyz"]),
        )
        columns[f"c{i}"] = kinds[i % len(kinds)]
    frame = pd.DataFrame(columns)
    tracemalloc.start()
    try:
        reference = TableReference(frame)
        assert reference.sketch.n_rows == n_rows
        X, _ = sample_database(reference, 1000, SEED)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert X.shape == (1000, n_columns)
    assert peak <= 2 * n_rows * n_columns * 8
