"""The benchmark of how time and memory grow, at the smallest sizes."""

import pytest

from benchmarks import scaling
from benchmarks.scaling import GRID, Curve, Measured, Size


def curve(varied, values, power, of_memory=0.0):
    """What grows by that power of what varies, from a second and a MiB."""
    measured = [
        Measured((v / values[0]) ** power, int(2**20 * (v / values[0]) ** of_memory))
        for v in values
    ]
    return Curve("ridge", varied, values, measured)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_an_exponent_is_that_of_the_growth(power):
    time, memory = curve("m", [10, 100, 1000, 10_000], power, power).exponents
    assert time == pytest.approx(power)
    assert memory == pytest.approx(power, abs=1e-5)


def test_small_sizes_do_not_count():
    found = curve("m", [10, 100, 1000, 10_000], 1.0)
    found.measured[0] = Measured(100.0, 2**30)
    assert found.exponents[0] == pytest.approx(1.0)


def test_what_grows_faster_than_is_claimed_is_noticed():
    for varied, power, of_memory, holds in [
        ("m", 1.05, 0.0, True),
        ("m", 1.15, 0.0, False),
        ("n", 1.0, 1.15, False),
        ("d", 2.05, 1.0, True),
        ("d", 2.15, 1.0, False),
        ("workers", 3.0, 3.0, True),  # nothing is claimed
    ]:
        assert curve(varied, [1, 4, 16, 64], power, of_memory).holds == holds


def test_one_number_varies_at_a_time():
    for name, size in scaling.sizes(GRID):
        differ = {
            field
            for field, usual, value in zip(Size._fields, Size(), size, strict=True)
            if usual != value
        }
        assert differ <= {name, "m"}
        assert size.m % size.k == 0
    assert {name for name, _ in scaling.sizes(GRID)} == set(Size._fields)


@pytest.mark.parametrize("query", scaling.QUERIES)
def test_a_size_is_measured(query):
    found = scaling.measure(query, Size(m=4, n=60, k=2, d=3))
    assert found.seconds > 0
    assert found.peak > 2**24


@pytest.mark.slow
def test_the_rows_and_the_picture(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(
        scaling, "measure_apart", lambda query, size, _: Measured(1e-3 * size.m, 2**27)
    )
    file = tmp_path / "scaling.svg"
    assert scaling.main(["--fast", "--write", "--to", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(scaling.QUERIES) * len(Size._fields)
    assert "ridge" in lines[1]
    assert "1.00" in lines[1]
    drawn = file.read_text()
    assert all(name in drawn for name in scaling.NAMES.values())
    assert "ridge: 1.00" in drawn


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "size"),
    [
        ("ridge", Size(m=4, n=60, d=3)),
        # So many that they reach workers, which must not outlive the process.
        ("refits", Size(m=600, workers=2)),
    ],
)
def test_a_process_of_its_own_tells_what_it_took(query, size):
    found = scaling.measure_apart(query, size, elapsed=size.workers > 1)
    assert found.seconds > 0
    assert found.peak > 2**24
