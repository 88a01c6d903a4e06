"""What makes each run of the tests the same, and which tests are slow."""

import os
import random
from contextlib import contextmanager
from zlib import crc32

if "PYTEST_XDIST_WORKER" in os.environ:
    # Each worker has a core: more threads are in each other's way.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Figures without windows, for which there may be no display. Of the examples as well,
# that leave some open: to change it later, while one is, is an error of matplotlib 3.9.
os.environ["MPLBACKEND"] = "Agg"

# No limits of time, which a busy machine exceeds.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture
def at_once(monkeypatch):
    """Give workers what is left after two parts, however soon it would be done here.

    In many tasks.
    """
    monkeypatch.setattr("skparisk.sensitivity._parallel._START_UP", -np.inf)
    monkeypatch.setattr("skparisk.sensitivity._parallel._TASK", 1e-3)


@pytest.fixture
def in_order(monkeypatch):
    """Let private records stay in their order, which is a secret else.

    A query sees it, and clusters begin with it.
    """
    as_given = lambda size, source: np.arange(size)  # noqa: E731
    monkeypatch.setattr("skparisk.core.release.random_order", as_given)


def pytest_addoption(parser):
    parser.addoption(
        "--fresh-noise",
        action="store_true",
        help="Draw noise from the operating system, as users do: each run is another.",
    )


class RepeatedNoise:
    """Noise without a seed that is the same in each run, and another in each test.

    Only in this process: what it starts draws from the operating system.
    """

    def __init__(self):
        self._pid, self._fresh = os.getpid(), os.urandom
        self._drawn = self._fresh

    def __call__(self, count):
        return (self._drawn if os.getpid() == self._pid else self._fresh)(count)

    @contextmanager
    def of(self, name):
        """Draw the noise of a test or fixture of that name."""
        before = self._drawn
        self._drawn = np.random.RandomState(crc32(name.encode())).bytes
        try:
            yield
        finally:
            self._drawn = before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        with self.of(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        """What several tests share does not depend on which is the first."""
        if fixturedef.scope == "function":
            return (yield)
        case = getattr(request, "param_index", 0)
        with self.of(f"{fixturedef.baseid}::{fixturedef.argname}[{case}]"):
            return (yield)


def pytest_configure(config):
    """Repeat noise; what a small table cannot carry is tested where it is meant."""
    if not config.getoption("--fresh-noise"):
        noise = RepeatedNoise()
        config.pluginmanager.register(noise)
        os.urandom = noise
        random._urandom = noise  # seeds generators without a seed, NumPy's as well
    # Not in pyproject.toml: it would be imported there before coverage is measured.
    ignored = "ignore::skparisk.exceptions.ReferenceWarning"
    config.addinivalue_line("filterwarnings", ignored)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test that is marked as sampled, all cases but a few, any ones, are slow."""
    sampled = {}
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            test = (item.nodeid.partition("[")[0], *mark.args)
            sampled.setdefault(test, []).append(item)
    for (_, n), cases in sampled.items():
        in_any_order = sorted(cases, key=lambda item: crc32(item.nodeid.encode()))
        for item in in_any_order[n:]:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item):
    """Some of scikit-learn's checks draw from the global generator, unseeded."""
    if not isinstance(item, pytest.Function):
        return
    if "check" in item.fixturenames or "check_estimator" in item.obj.__code__.co_names:
        np.random.seed(0)
