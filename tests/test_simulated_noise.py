"""Noise of simulated releases: about as large as that of releases, from few pairs."""

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


@pytest.mark.slow
@pytest.mark.parametrize(
    "keywords",
    [{}, {"law": "gaussian", "randomness": "both"}, {"noise_shape": "diagonal"}],
    ids=str,
)
def test_size_is_about_that_of_a_release(keywords):
    """Smaller, as the shape is learned from the same pairs: here of 40 outputs."""
    terms = SensitivitySampler(**keywords)._agree(1000)
    many = [draw(1000, seed=seed, weights=WEIGHTS) for seed in range(20, 26)]
    release = np.mean([cost(find_noise(pairs, terms).noise) for pairs in many])
    few = [draw(100, seed=seed, weights=WEIGHTS) for seed in range(2, 14)]
    found = [simulated_noise(pairs, terms_of(pairs, **keywords)) for pairs in few]
    size = np.log([cost(noise) / release for noise in found]).mean()
    assert -0.5 < size < 0.15
    assert (size < -0.25) == (not keywords)


@pytest.mark.parametrize("n_neighbors", [1, 5])
def test_pairs_without_an_answer_are_the_largest(n_neighbors):
    pairs = draw(200, n_neighbors, weights=WEIGHTS)
    values = pairs.differences.copy()
    values[-5:] = np.inf
    some = SampledPairs(
        values, None, pairs.rounding, n_neighbors=n_neighbors, weights=WEIGHTS
    )
    less, more = (simulated_noise(each, terms_of(each)) for each in (pairs, some))
    assert cost(less) < cost(more) < 2 * cost(less)
