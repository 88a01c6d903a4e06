"""By what queries and references are known again: all that they hold, or not at all."""

import datetime
import functools
import math
import subprocess
import sys
import types
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skparisk import SchemaReference, SecretSample
from skparisk.queries import (
    FunctionQuery,
    LogisticRegressionQuery,
    MeanQuery,
    RidgeQuery,
)
from skparisk.reference import CallableReference, DensityReference, TableReference
from skparisk.sensitivity import _digest
from skparisk.sensitivity._digest import NoDigestError, digest, digest_or_none

X = np.arange(12.0).reshape(4, 3)
POINTS = np.random.default_rng(0).normal(size=(50, 2))


def own(X):
    return X


class Own:
    """Anything."""

    def method(self):
        return self


def mixture(seed):
    return GaussianMixture(2, random_state=seed).fit(POINTS)


def structured(value):
    return np.array([(value, 2)], dtype=[("a", float), ("b", int)])


def different():
    """Values, no two of which may be known by the same."""
    yield from (
        None,
        ...,
        True,
        1,
        1.0,
        -0.0,
        0.0,
        math.nan,
        1j,
        "1",
        b"1",
        "",
        "\ud800",
    )
    yield from ((), [], {}, set(), frozenset(), (1,), [1], [[1]], [[], 1], {1}, {1: 1})
    yield from (["a", "b"], ["ab"], {"a": 1, "b": 2}, {"b": 2, "a": 1}, [1, 2], [12])
    yield from (range(3), range(4), slice(3), Decimal(1), Decimal("1.0"))
    yield from (datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1))
    yield from (np.float64(1), np.float32(1), np.int64(1), np.datetime64("2020"))
    yield from (
        X,
        X.T,
        X.astype(np.float32),
        X[:, ::2],
        X.ravel(),
        np.asfortranarray(X),
    )
    yield from (np.array(1.0), np.array([1.0]), np.array([]), np.empty((0, 2)))
    yield from (np.array(["a"]), np.array(["a"], dtype=object), np.array([b"a"]))
    yield from (np.array([1, None], dtype=object), np.array([[1, None]], dtype=object))
    yield from (structured(1.0), structured(2.0), np.dtype(float), np.dtype(np.int64))
    yield from (np.log1p, np.exp2, scipy.special.exp2, scipy.special.expit)
    yield from (np.mean, np.median, len, math.sin, float, np.ndarray, MeanQuery)
    yield from (MeanQuery(), RidgeQuery(1.0), RidgeQuery(2.0), FunctionQuery(np.mean))
    yield from (FunctionQuery(np.max), functools.partial(np.mean, axis=0))
    yield from (functools.partial(np.mean, axis=1), Ridge().fit, Ridge(2.0).fit)
    yield from (Ridge().predict, np.random.RandomState(3).normal)
    yield from (
        LogisticRegressionQuery((0.0, 1.0)),
        LogisticRegressionQuery((0.0, 2.0)),
    )
    yield from (StandardScaler(), StandardScaler(with_mean=False), Ridge(), Ridge(2.0))
    yield StandardScaler().fit(X)
    yield make_pipeline(StandardScaler(), LogisticRegression())
    yield make_pipeline(StandardScaler(with_std=False), LogisticRegression())
    yield FunctionTransformer(np.log1p)
    yield from (sparse.csr_array(X), sparse.csr_matrix(X), sparse.csc_array(X))
    yield from (TableReference(X), TableReference(X, X[:, 0]), TableReference(X[:3]))
    yield from (TableReference(X, sampling="split"), TableReference(X, clip=True))
    yield from (TableReference(pd.DataFrame(X)), TableReference(sparse.csr_array(X)))
    yield from (SchemaReference([(0, 1)]), SchemaReference([(0, 2)]))
    yield from (SchemaReference([["f", "m"]]), SchemaReference([["m", "f"]]))
    yield SchemaReference({"a": (0, 1)}, container="array")
    yield from (DensityReference(mixture(0)), DensityReference(mixture(1)))
    yield from (DensityReference(mixture(0), 1), CallableReference(np.ones, "ones"))
    yield from map(np.random.RandomState, (0, 1))
    yield from map(np.random.default_rng, (0, 1))
    for trees in (2, 3):
        forest = RandomForestClassifier(trees, random_state=0)
        yield forest.fit(POINTS, POINTS[:, 0] > 0)


def frames():
    """Data frames, no two of which may be known by the same."""
    yield pd.DataFrame({"a": [1, 2]})
    yield pd.DataFrame({"b": [1, 2]})
    yield pd.DataFrame({"a": [1.0, 2.0]})
    yield pd.DataFrame({"a": [1.0, np.nan]})
    yield pd.DataFrame({"a": [True, False]})
    yield pd.DataFrame({"a": pd.array([1, None], dtype="Int64")})
    yield pd.DataFrame({"a": pd.array([True, None], dtype="boolean")})
    yield pd.DataFrame({"a": ["1", "2"]}, dtype=object)
    yield pd.DataFrame({"a": ["1", None]}, dtype=object)
    yield pd.DataFrame({"a": pd.Categorical(["1", "2"])})
    yield pd.DataFrame({"a": pd.Categorical(["1", "2"], ["2", "1"])})
    yield pd.DataFrame({"a": pd.Categorical(["1", "2"], ordered=True)})
    yield pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    yield pd.DataFrame({"a": pd.to_datetime(["2020-01-01", None])})
    yield pl.DataFrame({"a": [1, 2]})
    yield pl.DataFrame({"a": [1, None]})
    yield pl.DataFrame({"a": ["1", "2"]})
    yield pl.DataFrame({"a": pl.Series(["1", "2"], dtype=pl.Enum(["1", "2"]))})
    yield pl.DataFrame({"a": pl.Series(["1", "2"], dtype=pl.Enum(["2", "1"]))})


@pytest.mark.parametrize("made", [different, frames])
def test_no_two_things_are_known_by_the_same(made):
    """And each is known again when it is made anew."""
    once, again = [*map(digest, made())], [*map(digest, made())]
    assert once == again
    seen = {}
    for value, name in zip(made(), once, strict=True):
        assert name not in seen, (value, seen[name])
        seen[name] = value


def test_order_and_labels_of_rows_that_mean_nothing_change_nothing():
    frame = pd.DataFrame({"a": [1, 2]})
    assert digest(frame) == digest(frame.set_axis([7, 8]))
    assert digest({1, 2, 3}) == digest({3, 2, 1})
    table = TableReference(X)
    before = digest(table)
    assert table.sketch is not None  # kept for later
    assert digest(table) == before
    schema = SchemaReference([(0, 1)])
    before = digest(schema)
    assert schema.schema is not None
    assert digest(schema) == before
    query = FunctionQuery(np.mean)
    before = digest(query)
    assert not query.needs_y
    assert digest(query) == before


def test_bytes_between_fields_are_no_part_of_an_array():
    """A copy has there what was in memory."""
    kind = np.dtype([("a", "i1"), ("b", float)], align=True)
    one, other = (np.full(kind.itemsize, fill, np.uint8).view(kind) for fill in (1, 2))
    one[:] = other[:] = (3, 4.0)
    assert one.tobytes() != other.tobytes()
    assert digest(one) == digest(other)


def test_an_array_on_the_disk_is_known_by_its_numbers(tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert digest(mapped) == digest(X)
    assert digest(np.broadcast_to(1.0, (2, 2))) != digest(np.ones((2, 2)))


def closure(factor):
    return lambda X: X * factor


def looped():
    holder = []
    holder.append(holder)
    return holder


def renamed():
    """A function that says that it is another one."""

    def mean(X):
        return X

    mean.__module__, mean.__qualname__ = "numpy", "mean"
    return mean


@pytest.mark.parametrize(
    "make",
    [
        lambda: own,
        lambda: closure(1),
        renamed,
        Own,
        lambda: Own,
        lambda: Own().method,
        lambda: FunctionQuery(own),
        lambda: functools.partial(own),
        lambda: CallableReference(own),
        lambda: SchemaReference([lambda n, rng: rng.random(n)]),
        lambda: make_pipeline(FunctionTransformer(own)),
        lambda: [{"a": (Own(),)}],
        lambda: np.array([Own()], dtype=object),
        looped,
        lambda: types.MethodType(own, X),
        lambda: np.frompyfunc(own, 1, 1),
        lambda: (i for i in range(3)),
        lambda: SecretSample(0.5).draw(POINTS),
        lambda: type("Frame", (pd.DataFrame,), {})({"a": [1]}),
    ],
)
def test_what_may_change_without_a_trace_is_not_known(make):
    """Functions and classes of one's own, wherever they are."""
    with pytest.raises(NoDigestError):
        digest(make())
    assert digest_or_none(make()) is None


def test_a_name_alone_is_not_enough(monkeypatch):
    """Which some objects have in the place of a pickle: others may have the same."""

    class Named:
        __slots__ = ()

        def __reduce__(self):
            return "expit"

    Named.__module__, Named.__qualname__ = _digest.__name__, "Named"
    monkeypatch.setattr(_digest, "Named", Named, raising=False)
    with pytest.raises(NoDigestError, match="the Named expit"):
        digest(Named())


def test_another_process_knows_the_same_things():
    """Whatever it hashes texts with."""
    code = (
        "import numpy as np; from skparisk.sensitivity._digest import digest;"
        "from skparisk.queries import RidgeQuery;"
        "print(digest([{'a', 'b', 'c'}, RidgeQuery(1.0), np.mean, np.eye(2)]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    here = digest([{"a", "b", "c"}, RidgeQuery(1.0), np.mean, np.eye(2)])
    assert run.stdout.strip() == here


def test_sources_that_are_worked_on_are_another_build(tmp_path, monkeypatch):
    """Their version says nothing of it."""
    assert len(_digest.build()) == 64
    package = tmp_path / "skparisk"
    (package / "part").mkdir(parents=True)
    monkeypatch.setattr(_digest, "__file__", str(package / "part" / "module.py"))
    built = []
    for text in ("x = 1", "x = 1", "x = 2"):
        (package / "__init__.py").write_text(text)
        built.append(_digest.build.__wrapped__())
    assert built[0] == built[1] != built[2]


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
NESTED = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.tuples(inner) | st.tuples(inner, inner)
)


@given(NESTED, NESTED)
def test_nested_values_are_the_same_if_they_are_written_the_same(one, other):
    """`repr` tells all of these apart."""
    assert (digest(one) == digest(other)) == (repr(one) == repr(other))


def test_what_fails_when_it_is_looked_at_is_not_known_again(monkeypatch):
    """As comparing methods of arrays did with an older NumPy."""

    def fail(value):
        raise OverflowError("not now")

    monkeypatch.setattr(_digest, "_parts", fail)
    with pytest.raises(OverflowError, match="not now"):
        digest([1])
    assert digest_or_none([1]) is None
