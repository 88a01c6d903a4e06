"""Public records, samplers of them, and what is the same of two samples of pairs."""

import numpy as np

from skparisk import (
    SensitivitySampler,
)
from skparisk.queries import MeanQuery

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(300, 2))
TARGETS = PUBLIC @ [1.0, -2.0] + RNG.normal(size=300)
PRIVATE = RNG.normal(size=(300, 2))


def own_mean(X):
    return X.mean(axis=0)


def sampler_of(memory=None, query=None, **parameters):
    given = {"n_pairs": 100, "random_state": 0, **parameters}
    return SensitivitySampler(query or MeanQuery(), memory=memory, **given)


def files_in(folder):
    return sorted(folder.rglob("*.npz"))


def assert_same_pairs(one, other):
    """All that noise is calibrated from is the same, bit by bit."""
    for name in ("differences", "errors", "rounding", "answer", "weights"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("failure", "draw_seed", "schema", "n_neighbors", "n_independent"):
        assert getattr(one, name) == getattr(other, name)
    assert one.domain == other.domain


def changed_table():
    X = PUBLIC.copy()
    X[299, 1] = np.nextafter(X[299, 1], np.inf)
    return X
