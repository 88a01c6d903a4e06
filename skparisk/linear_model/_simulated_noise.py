"""Noise of simulated releases, whose shape and size are from the same few pairs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.core.calibrate import Terms
from skparisk.core.noise import AdditiveNoise, NoiseShape
from skparisk.core.pairs import SampledPairs, norms_of_pairs
from skparisk.sensitivity._noise_shape import fit_noise_shape
from skparisk.sensitivity._terms import find_noise, noise_cost

Floats = NDArray[np.float64]

_FOLDS = 5


def simulated_noise(
    pairs: SampledPairs, terms: Terms, *, as_large: bool
) -> AdditiveNoise:
    """Return noise whose shape and size are those that the same pairs ask for.

    It must not be released: the terms are for twice as many. A shape that is learned
    from half of few pairs would be far from that of all. It is learned from all, in
    which they are closer than others are; the size is corrected for that if the noise
    is to be `as_large` as that of a release. Not where it is a mean over all pairs that
    counts, as with "both", and not the few that are furthest apart.
    """
    twice = _some(pairs, np.tile(np.arange(len(pairs)), 2))
    # By the terms neighbors of a database count as if they were on their own.
    found = find_noise(replace(twice, n_neighbors=terms.n_neighbors), terms)
    noise = found.noise
    assert isinstance(noise, AdditiveNoise)
    terms = found.terms
    if not as_large or not terms.n_shape_pairs or terms.target.randomness == "both":
        return noise
    factor = _understated(pairs, found.shape, terms)
    return AdditiveNoise.at_least(
        noise.law,
        noise.noise_scale * factor,
        n_outputs=noise.n_outputs,
        shape=noise.shape,
    )


def _understated(pairs: SampledPairs, shape: NoiseShape, terms: Terms) -> float:
    """Return by how much pairs that a shape is not learned from are further apart.

    As noise that costs the same in what outputs are for: each fold of the pairs in the
    shape that is learned from the others, against all in the shape of all. 1 where the
    others are too few to learn one like it.
    """
    answered = pairs.answered
    n_learned = (
        answered.sum() - math.ceil(pairs.n_databases / _FOLDS) * pairs.n_neighbors
    )
    if n_learned < (pairs.n_outputs if shape.name == "whitened" else 2):
        return 1.0
    unit = np.abs(pairs.differences[answered]).max()

    def sizes(part: SampledPairs, shape: NoiseShape) -> Floats:
        cost = noise_cost(shape, pairs.weights, unit)
        return norms_of_pairs(part, shape, terms.law) * math.sqrt(cost)

    folds = np.arange(len(pairs)) // pairs.n_neighbors % _FOLDS
    apart = np.empty(len(pairs))
    for fold in range(_FOLDS):
        tried, learned = folds == fold, np.flatnonzero((folds != fold) & answered)
        others = fit_noise_shape(
            shape.name,
            pairs.differences[learned],
            pairs.floor(learned),
            pairs.weights,
            pairs.n_independent,
        )
        apart[tried] = sizes(_some(pairs, tried), others)
    share = terms.order_index / (terms.n_calibrating * terms.n_neighbors)
    place = min(math.ceil(share * len(pairs)), int(answered.sum())) - 1
    own, other = np.sort(sizes(pairs, shape))[place], np.sort(apart)[place]
    return float(max(other, own) / own)


def _some(pairs: SampledPairs, rows: NDArray[Any]) -> SampledPairs:
    errors = None if pairs.errors is None else pairs.errors[rows]
    return replace(pairs, differences=pairs.differences[rows], errors=errors)
