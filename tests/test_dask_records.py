"""Private records in a Dask array or frame: the numbers of those in memory."""

import pickle
import weakref

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from skparisk import (
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    SchemaReference,
    SecretSample,
    SensitivitySampler,
)
from skparisk.exceptions import IncompatibleError
from skparisk.ledger import PrivacyLedger
from skparisk.tables import PrivateTable

RNG = np.random.default_rng(0)
N, NAMES = 20_000, ["a", "b", "c"]


def people(n):
    X = RNG.normal(size=(n, 3))
    return X, X @ [1.0, 2.0, 3.0] + RNG.normal(size=n)


X, Y = people(N)
X_PUBLIC, Y_PUBLIC = people(200)
PUBLIC = {"X_reference": X_PUBLIC, "y_reference": Y_PUBLIC}
SCHEMA = SchemaReference([(-3, 3)] * 3, target=(-9, 9))
SEEDS = {"random_state": 0, "noise_random_state": 0}
FRAME = pd.DataFrame(X, columns=NAMES)

pytestmark = [
    pytest.mark.filterwarnings("ignore::skparisk.exceptions.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore::skparisk.exceptions.ReferenceWarning"),
]


def chunked(array=X, rows=3000):
    return da.from_array(array, chunks=(rows, 2)[: array.ndim])


MODELS = {
    "corrections": (PrivateRidge(**SEEDS), PUBLIC),
    "alone": (PrivateRidge(combine=None, **SEEDS), PUBLIC),
    "of a schema": (PrivateRidge(combine=None, **SEEDS), {"X_reference": SCHEMA}),
    "bound": (
        PrivateRidge(sensitivity="bound", x_norm=4.0, y_bounds=(-9, 9), **SEEDS),
        {},
    ),
    "moments": (PrivateMoments(**SEEDS), PUBLIC),
    "moments, bound": (
        PrivateMoments(
            sensitivity="bound", bounds=(-3, 3), y_bounds=(-9, 9), noise_random_state=0
        ),
        {},
    ),
    "loaded": (PrivateLogisticRegression(**SEEDS), PUBLIC),
}


def released(model):
    return model.sums_ if hasattr(model, "sums_") else np.append(model.coef_, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_those_in_memory(name):
    model, public = MODELS[name]
    y = Y
    if name == "loaded":
        y = (Y > 0).astype(int)
        public = public | {"y_reference": (Y_PUBLIC > 0).astype(int)}
    expected = released(model.fit(X, y, **public))
    found = released(model.fit(chunked(), chunked(y, 7777), **public))
    np.testing.assert_array_equal(found, expected)


def test_frames_are_read_as_the_public_ones():
    public = PUBLIC | {"X_reference": pd.DataFrame(X_PUBLIC, columns=NAMES)}
    ridge = PrivateRidge(**SEEDS)
    expected = ridge.fit(FRAME, Y, **public).coef_
    frame, y = dd.from_pandas(FRAME, npartitions=5), dd.from_pandas(pd.Series(Y), 3)
    ridge.fit(frame, y, **public)
    np.testing.assert_array_equal(ridge.coef_, expected)
    assert ridge.feature_names_in_.tolist() == NAMES
    with pytest.raises(IncompatibleError, match="in another order"):
        ridge.fit(frame[NAMES[::-1]], y, **public)


def test_columns_of_other_sizes_are_penalized_in_units_of_their_own():
    """The chosen penalty is for columns of size 1."""
    scales = np.array([1.0, 1000.0, 0.001])
    public = PUBLIC | {"X_reference": X_PUBLIC * scales}
    ridge = PrivateRidge("auto", **SEEDS)
    expected = ridge.fit(X * scales, Y, **public).coef_
    found = ridge.fit(chunked(X * scales), Y, **public).coef_
    np.testing.assert_array_equal(found, expected)


def test_members_of_a_secret_sample_are_looked_up():
    half = SensitivitySampler(reference=SecretSample(0.5), random_state=0)
    ridge = PrivateRidge(1.0, combine=None, sensitivity=half)
    ridge.fit(chunked(X[:2000]), Y[:2000])
    assert np.abs(ridge.coef_ - [1.0, 2.0, 3.0]).max() < 0.5


def test_a_fitted_sampler_reads_them_as_well():
    sampler = SensitivitySampler(random_state=0)
    first = PrivateRidge(alpha=1.0, combine=None, sensitivity=sampler)
    known = first.fit(X, Y, **PUBLIC).sampler_
    again = PrivateRidge(alpha=1.0, combine=None, sensitivity=known, **SEEDS)
    expected = again.fit(X, Y).coef_
    np.testing.assert_array_equal(again.fit(chunked(), Y).coef_, expected)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_tables_are_those_in_memory(relation):
    frame = FRAME.assign(k=RNG.choice(["x", "y"], N), unused="?")
    schema = SchemaReference({"k": ["x", "y"], "a": (-3, 3)})
    table = PrivateTable(
        schema,
        counts=["k", ("k", "a")],
        means={"a": "k"},
        relation=relation,
        noise_random_state=0,
    )
    expected = table.fit(frame).released_
    parts = dd.from_pandas(frame, npartitions=5)
    np.testing.assert_array_equal(table.fit(parts).released_, expected)
    total = PrivateTable(schema, counts=(), relation="add-remove")
    assert abs(total.fit(parts).count()["count"][0] - N) < 100
    nobody = dd.from_pandas(frame[:0], npartitions=1)
    assert abs(total.fit(nobody).count()["count"][0]) < 100


def test_parts_of_a_frame_may_have_types_of_their_own():
    """As files have that were written one by one."""
    first = pd.DataFrame({"k": pd.Categorical(["x", "y"] * 500), "a": [1, 2] * 500})
    second = pd.DataFrame({"k": ["y", None, "z"] * 300, "a": [0.5, None, 1.0] * 300})
    parts = dd.from_map(
        lambda part: part,
        [first, second, first[:0], first] * 3,
        meta=second[:0],
        enforce_metadata=False,
    )
    whole = pd.concat([first, second, first] * 3)
    schema = SchemaReference({"k": ["x", "y"], "a": (0, 2)})
    table = PrivateTable(schema, counts=["k"], means={"a": "k"}, noise_random_state=0)
    expected = table.fit(whole).released_
    np.testing.assert_array_equal(table.fit(parts).released_, expected)


class Made:
    """Counts how often parts are made, and how many of them are there at once."""

    def __init__(self):
        self.times, self.now, self.most = 0, 0, 0

    def __call__(self, block):
        part = block + 0.0
        self.times, self.now = self.times + 1, self.now + 1
        self.most = max(self.most, self.now)
        weakref.finalize(part, self.end)
        return part

    def end(self):
        self.now -= 1


@pytest.mark.parametrize(
    ("name", "times"), [("corrections", 4), ("alone", 3), ("moments", 3)]
)
def test_few_parts_are_in_memory_at_once(name, times):
    model, public = MODELS[name]
    made = Made()
    parts = da.from_array(X, chunks=(500, 3)).map_blocks(made, dtype=float, meta=X[:0])
    model.fit(parts, Y, **public)
    assert made.times <= 40 * times
    assert made.most <= 8
    assert len(pickle.dumps(model)) < X.nbytes / 2


def broken(kind):
    """Return a Dask array whose values are wrong in one part."""
    secret = X.copy()
    secret[7000, 1] = 4.256e200 if kind == "fails" else np.nan

    def fail(block):
        if (block > 1e100).any():
            raise KeyError(str(block[block > 1e100]))
        return block

    return chunked(secret).map_blocks(fail, dtype=float, meta=X[:0])


@pytest.mark.parametrize("kind", ["missing", "fails", "too many targets", "one column"])
def test_bad_records_are_refused_before_anything_is_charged(kind):
    parts, y = (X, Y) if kind == "one column" else (broken(kind), Y)
    says = {
        "missing": "contains NaN",
        "fails": "that failed .KeyError.",
        "too many targets": "inconsistent numbers",
        "one column": "Expected 2D array",
    }[kind]
    if kind == "too many targets":
        parts, y = chunked(), Y[:-1]
    if kind == "one column":
        parts = chunked(Y)
    with PrivacyLedger(epsilon=5.0) as ledger:
        with pytest.raises(ValueError, match=says) as error:
            PrivateRidge(random_state=0).fit(parts, y, **PUBLIC)
        assert not ledger.releases
    assert "4.256" not in str(error.value)
    assert error.value.__context__ is None
    assert error.value.__cause__ is None


def test_no_records_are_refused():
    with pytest.raises(ValueError, match="at least one record"):
        PrivateMoments(sensitivity="bound", bounds=(-3, 3)).fit(chunked(X[:0]))


def test_records_that_change_while_they_are_read_have_no_answer():
    calls = []

    def shrinking(block):
        calls.append(len(block))
        return block[: len(block) - (len(calls) > 20)]

    parts = da.from_array(X, chunks=(2000, 3)).map_blocks(
        shrinking, dtype=float, meta=X[:0]
    )
    with pytest.raises(ValueError, match="no answer"):
        PrivateRidge(combine=None, random_state=0).fit(parts, Y, **PUBLIC)
