"""Hashes of rows: alike in any container, and by which private ones are known."""

import datetime
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from guises import GUISES, as_objects, as_records, people, sketch_of
from scipy import sparse

from skparisk.reference import _sketch


def hashes(records, y=None):
    """Return all that a sketch knows."""
    sketch = sketch_of(records, y)
    parts = [sketch.features] if y is None else [sketch.features, sketch.records]
    return sketch.ordered, *(part.tolist() for part in parts)


def test_rows_hash_alike_in_any_container():
    for guise in GUISES:
        assert hashes(GUISES[guise](people())) == hashes(people())


def test_other_values_hash_differently():
    for column in range(5):
        frame, other = people(2).astype(object), people(2).astype(object)
        other.iloc[1, column] = {2: "Linz", 4: pd.Timestamp("1999-09-09")}.get(
            column, 7.5
        )
        one, two = (sketch_of(as_objects(f)) for f in (frame, other))
        assert len(np.intersect1d(one.features, two.features)) == 1


def test_numbers_hash_alike_in_any_container():
    X = np.random.default_rng(0).integers(-2, 3, size=(50, 4)).astype(float)
    X[0, 0] = -0.0
    y = X[:, 0] + 1.0
    expected = hashes(X, y)
    for other in (
        X.astype(int),
        X.astype(object),
        X.tolist(),
        sparse.csr_array(X),
        sparse.coo_matrix(X),
        pd.DataFrame(X, columns=[*"abcd"]),
        pd.DataFrame(X.astype(int)),
        pl.DataFrame(X),
    ):
        assert hashes(other, y) == expected
    assert hashes(X, y.astype(int).astype(object)) == expected


def test_missing_values_of_all_kinds_hash_alike():
    kinds = [None, np.nan, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")]
    frames = [pd.DataFrame({"a": np.array(["x", v], dtype=object)}) for v in kinds]
    dates = pd.DataFrame({"a": [pd.Timestamp("2020"), pd.NaT]})
    assert len({str(hashes(frame)) for frame in frames}) == 1
    assert hashes(dates)[1] != hashes(frames[0])[1]
    common = np.intersect1d(hashes(dates)[1], hashes(frames[0])[1])
    assert len(common) == 1
    other_bits = np.array([0x7FF8000000000123], dtype=np.uint64).view(np.float64)
    assert hashes(other_bits[:, None].repeat(2, axis=0)) == hashes([[np.nan]] * 2)


def test_dates_hash_alike_in_any_resolution():
    stamps = pd.to_datetime(["2020-01-01", "1999-12-31"])
    there = datetime.timezone(datetime.timedelta(hours=2))
    aware = [stamp.tz_localize("UTC").astimezone(there) for stamp in stamps]
    told = {
        str(hashes(pd.DataFrame({"a": values})))
        for values in (stamps, stamps.as_unit("s"), stamps.tz_localize("UTC"))
    }
    told |= {
        str(hashes(np.array(values, dtype=object)[:, None]))
        for values in (
            [*stamps],
            [stamp.date() for stamp in stamps],
            [stamp.to_pydatetime() for stamp in stamps],
            aware,
            [stamp.to_datetime64() for stamp in stamps],
        )
    }
    told.add(str(hashes(pl.DataFrame({"a": [stamp.date() for stamp in stamps]}))))
    told.add(str(hashes(stamps.to_numpy().astype("M8[D]")[:, None])))
    assert len(told) == 1


def test_durations_hash_alike_and_times_by_what_they_say():
    spans = [datetime.timedelta(hours=3), datetime.timedelta(days=9)]
    told = {
        str(hashes(made))
        for made in (
            pd.DataFrame({"a": pd.to_timedelta(spans)}),
            np.array(spans, dtype=object)[:, None],
            np.array([[np.timedelta64(3, "h")], [np.timedelta64(9, "D")]]),
            np.array([[np.timedelta64(3, "h")], [np.timedelta64(9, "D")]], object),
            pl.DataFrame({"a": spans}),
        )
    }
    assert len(told) == 1
    times = [datetime.time(3), datetime.time(4)]
    assert hashes(pl.DataFrame({"a": times})) == hashes(pd.DataFrame({"a": times}))


@pytest.mark.slow
def test_hashes_are_the_same_in_all_processes():
    """Python's own hash of a text is not."""
    code = (
        "from skparisk.reference import TableReference\n"
        "print(TableReference(['Graz', 'Wien']).sketch.ordered)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) == hashes(["Graz", "Wien"])[0]


def test_labels_are_hashed_with_their_records():
    X, y = np.arange(20)[:, None] % 3.0, np.arange(20).astype(str).astype(object)
    own = sketch_of(X, y)
    assert own.overlaps(sketch_of(X[::-1], y[::-1]))
    assert not own.overlaps(sketch_of(X[::-1], y + "x"))


@pytest.mark.slow
def test_data_frames_need_not_be_installed():
    """scikit-learn imports pandas where it is there; the package never does."""
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name in ('pandas', 'polars'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing)\n"
        "import numpy as np\n"
        "from skparisk import SensitivitySampler\n"
        "from skparisk.reference import TableReference\n"
        "assert TableReference(np.array([['a', 1], ['b', 2]])).sketch.n_rows == 2\n"
        "X = np.random.default_rng(0).normal(size=(60, 1))\n"
        "SensitivitySampler(np.mean, gamma=0.1, n_pairs=20).fit(X)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_hashes_of_private_records_are_keyed(monkeypatch):
    """By a key of this process: with another one nothing is known again."""
    of = _sketch.RecordSketch.of
    one = of(as_records(people()), keyed=True)
    assert one.overlaps(of(as_records(people()), keyed=True))
    assert not np.isin(one.features, sketch_of(people()).features).any()
    monkeypatch.setattr("skparisk.reference._sketch._process_key", lambda: bytes(32))
    assert not one.overlaps(of(as_records(people()), keyed=True))
