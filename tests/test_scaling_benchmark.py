"""The benchmark of how time and memory grow, at the smallest sizes."""

import pytest

from benchmarks.scaling import Curve, Measured


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
