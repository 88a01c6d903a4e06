"""How much noise each plan takes; records by themselves; searches; private pairs."""

import math
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from laws import FALSE_ALARM, assert_law, rejects_law
from noise_plans import (
    NOISE_SHAPES,
    PRIVATE,
    PUBLIC,
    SHAPED,
    isotropic,
    make_sampler,
    switch,
)
from scipy import stats

from skparisk import (
    PrivacyLeakWarning,
)

# How much noise


def size_of_noise(**plan):
    """Return the mean square of the noise, added up over outputs."""
    sampler = switch(many_outputs(), **plan).calibrate(epsilon=1.0, gamma=0.05)
    return np.trace(sampler.mechanism_.covariance())


@cache
def many_outputs():
    """Twenty outputs that hardly move but along one direction."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(500, 1))
    X = common * rng.uniform(1, 10, size=20) + 0.3 * rng.normal(size=(500, 20))
    return make_sampler(n_pairs=4000).fit(X)


@pytest.mark.slow
def test_noise_and_pairs_together_need_less_for_many_outputs():
    ratio = size_of_noise(randomness="both") / size_of_noise()
    assert ratio < 0.5
    gaussian = {"law": "gaussian", "randomness": "both"}
    over_pairs = {"law": "gaussian", "delta": 1e-6}
    assert size_of_noise(**gaussian) < 0.5 * size_of_noise(**over_pairs)


def test_whitened_noise_is_less_where_outputs_move_together():
    for plan in [{}, {"randomness": "both", "law": "gaussian"}]:
        sizes = [size_of_noise(noise_shape=shape, **plan) for shape in NOISE_SHAPES]
        assert sizes[2] < 0.8 * sizes[0]
        assert sizes[2] < sizes[1]


def test_delta_is_not_used_for_noise_and_pairs_together():
    for law in ("laplace", "gaussian"):
        plain, other = (
            switch(isotropic(), randomness="both", law=law, delta=delta)
            for delta in (0.0, 0.1)
        )
        assert plain.calibrate().certificate_ == other.calibrate().certificate_


# The local model


def test_records_get_noise_of_the_shape_each_by_itself():
    sampler = make_sampler(query=None, noise_random_state=0, **SHAPED).fit(PUBLIC)
    assert (sampler.n_records_, sampler.n_outputs_) == (1, 3)
    X = np.tile(PRIVATE[:1], (17_000, 1))
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state=0"):
        noise = sampler.transform(X) - X
    coordinates = sampler.mechanism_.shape.whiten(noise)
    scale = sampler.noise_scale_
    assert_law(coordinates.ravel(), stats.norm(scale=scale).cdf)
    for wrong in (0.9 * scale, 1.1 * scale):
        assert rejects_law(coordinates.ravel(), stats.norm(scale=wrong).cdf)
    covariance = sampler.mechanism_.covariance()
    size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    np.testing.assert_allclose(np.cov(noise.T) / size, covariance / size, atol=0.05)
    assert covariance[0, 1] > 0.5 * size[0, 1]
    for column in coordinates.T:
        next_row = stats.pearsonr(column[:-1], column[1:])
        assert next_row.pvalue > FALSE_ALARM
    assert len(np.unique(noise)) == noise.size


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_of_records(library):
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    X = frame({name: PUBLIC[:, i] for i, name in enumerate("abc")})
    sampler = make_sampler(query=None, **SHAPED).set_output(transform=library)
    released = sampler.fit(X).transform(2 * X)
    assert isinstance(released, frame)
    assert list(released.columns) == ["a", "b", "c"]
    assert released.shape == (300, 3)
    again = sampler.calibrate(epsilon=math.inf).transform(2 * X)
    np.testing.assert_array_equal(again.to_numpy(), 2 * PUBLIC)


# Searches, and a reference that is private
