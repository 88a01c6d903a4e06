"""Noise of simulated releases: as large as that of releases, from few pairs."""

import numpy as np
import pytest

from skparisk import SensitivitySampler
from skparisk.core.pairs import SampledPairs
from skparisk.linear_model._penalty_choice import simulated_noise
from skparisk.sensitivity._terms import find_noise

K = 40
RNG = np.random.default_rng(0)
MIXED = RNG.normal(size=(K, K)) * np.geomspace(1, 0.1, K)
WEIGHTS = np.diag(np.geomspace(1, 3, K))


def draw(n_pairs, n_neighbors=1, n_outputs=K, seed=1, **known):
    values = np.random.default_rng(seed).normal(size=(n_pairs, n_outputs))
    values *= np.random.default_rng(seed).exponential(size=(n_pairs, 1))
    values = values @ MIXED[:n_outputs, :n_outputs]
    none = np.zeros(n_outputs)
    return SampledPairs(values, None, none, n_neighbors=n_neighbors, **known)


def terms_of(pairs, **keywords):
    keywords["neighbors_per_database"] = pairs.n_neighbors
    return SensitivitySampler(**keywords)._agree(2 * len(pairs))


def cost(noise):
    return np.sqrt(np.sum(noise.covariance() * WEIGHTS))


def sizes(way, **keywords):
    """Return logarithms of sizes for few pairs, against that of releases."""
    terms = SensitivitySampler(**keywords)._agree(1000)
    many = [draw(1000, seed=seed, weights=WEIGHTS) for seed in range(20, 26)]
    release = np.mean([cost(find_noise(pairs, terms).noise) for pairs in many])
    few = [draw(100, seed=seed, weights=WEIGHTS) for seed in range(2, 14)]
    found = [
        simulated_noise(pairs, terms_of(pairs, **keywords), **way) for pairs in few
    ]
    return np.log([cost(noise) / release for noise in found])


@pytest.mark.slow
def test_size_is_that_of_a_release():
    """With a shape that fits the same pairs too well it would be smaller."""
    small, large = sizes({"as_large": False}), sizes({"as_large": True})
    assert small.mean() < -0.25
    assert -0.05 < large.mean() < 0.2
    assert (small < large).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "keywords",
    [{"law": "gaussian", "randomness": "both"}, {"noise_shape": "diagonal"}],
    ids=str,
)
def test_size_is_hardly_changed_where_little_is_learned_of_the_largest(keywords):
    small, large = (sizes({"as_large": each}, **keywords) for each in (False, True))
    assert abs(large.mean()) < 0.15
    assert (small <= large).all()
    assert (small == large).all() == ("law" in keywords)


@pytest.mark.parametrize("n_neighbors", [1, 5])
def test_pairs_without_an_answer_are_the_largest(n_neighbors):
    """All of one database are in a fold."""
    pairs = draw(200, n_neighbors, weights=WEIGHTS)
    values = pairs.differences.copy()
    values[-5:] = np.inf
    some = SampledPairs(
        values, None, pairs.rounding, n_neighbors=n_neighbors, weights=WEIGHTS
    )
    less, more = (
        simulated_noise(each, terms_of(each), as_large=True) for each in (pairs, some)
    )
    assert cost(less) < cost(more) < 2 * cost(less)


def test_shape_is_not_learned_from_too_few():
    """From the others of a fold another kind would be learned than from all."""
    pairs = draw(24, n_outputs=20)
    terms = terms_of(pairs, gamma=0.2, noise_shape="whitened")
    small, large = (
        simulated_noise(pairs, terms, as_large=each).noise_scale
        for each in (False, True)
    )
    assert small == large
    isotropic = terms_of(pairs, gamma=0.2, noise_shape="isotropic")
    assert (
        simulated_noise(pairs, isotropic, as_large=True).noise_scale
        == simulated_noise(pairs, isotropic, as_large=False).noise_scale
    )
