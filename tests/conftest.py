"""What makes each run of the tests the same."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# No limits of time, which a busy machine exceeds.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


def pytest_configure(config):
    """What a small table cannot carry is tested where it is meant."""
    # Not in pyproject.toml: it would be imported there before coverage is measured.
    ignored = "ignore::skparisk.exceptions.ReferenceWarning"
    config.addinivalue_line("filterwarnings", ignored)


def pytest_runtest_setup(item):
    """Some of scikit-learn's checks draw from the global generator, unseeded."""
    if not isinstance(item, pytest.Function):
        return
    if "check" in item.fixturenames or "check_estimator" in item.obj.__code__.co_names:
        np.random.seed(0)
