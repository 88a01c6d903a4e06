"""What makes each run of the tests the same."""

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_runtest_setup(item):
    """Some of scikit-learn's checks draw from the global generator, unseeded."""
    if not isinstance(item, pytest.Function):
        return
    if "check" in item.fixturenames or "check_estimator" in item.obj.__code__.co_names:
        np.random.seed(0)
