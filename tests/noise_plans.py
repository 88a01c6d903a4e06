"""All that a sampler can be set to for its noise, and samplers that tests share."""

import pickle
from functools import cache

import numpy as np
import pytest

from skparisk import SensitivitySampler
from skparisk.core.calibrate import Exchangeable, Target, Terms, find_scale
from skparisk.core.laws import Gaussian
from skparisk.core.noise import NoiseShape
from skparisk.core.pairs import SampledPairs
from skparisk.queries import MeanQuery
from skparisk.sensitivity import calibrate

RNG = np.random.default_rng(0)
MIXING = np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [5.0, 4.0, 2.0]])
PUBLIC = RNG.normal(size=(300, 3)) @ MIXING.T
PRIVATE = RNG.normal(size=(300, 3)) @ MIXING.T
TARGETS = PUBLIC @ [1.0, -2.0, 0.5] + RNG.normal(size=300)
PRIVATE_TARGETS = PRIVATE @ [1.0, -2.0, 0.5] + RNG.normal(size=300)
REFERENCE = {"X_reference": PUBLIC, "y_reference": TARGETS}

EPSILON, GAMMA, DELTA = 0.8, 0.2, 1e-3
N_PAIRS, N_SHAPE = 251, 125
GRID = 1e-5  # what the grid and rounding may cost

NOISE_SHAPES = ("isotropic", "diagonal", "whitened")
SHAPED = {"randomness": "both", "law": "gaussian", "noise_shape": "whitened"}


def valid_plans():
    """Each two of all that can be combined, but for numbers."""
    rules = [{"calibration": name} for name in ("exchangeable", "pac", "dkw")]
    for turn, shape in enumerate(NOISE_SHAPES):
        noise = [
            {"law": "laplace"},
            {"law": "laplace", "delta": DELTA},
            {"law": "gaussian", "delta": DELTA},
        ]
        for i, law in enumerate(noise):
            rule = rules[(turn + i) % 3]
            yield {"randomness": "implicit", "noise_shape": shape} | law | rule
        both = {"randomness": "both", "noise_shape": shape}
        yield both | {"law": "laplace"} | rules[turn % 3]
        yield both | {"law": "gaussian", "calibration": "exchangeable"}


PLANS = {" ".join(str(v) for v in plan.values()): plan for plan in valid_plans()}
every_plan = pytest.mark.parametrize("name", PLANS)
DEFAULTS = SensitivitySampler().get_params(deep=False)
OF_THE_PLAN = ("randomness", "law", "noise_shape", "calibration", "delta")
DEFAULT_PLAN = {name: DEFAULTS[name] for name in OF_THE_PLAN}


def make_sampler(**parameters):
    usual = {"epsilon": EPSILON, "gamma": GAMMA, "n_pairs": N_PAIRS, "random_state": 0}
    return SensitivitySampler(**({"query": MeanQuery()} | usual | parameters))


@cache
def fitted(name):
    """Return a sampler for a plan, which tests share and leave as it is."""
    return make_sampler(**PLANS[name]).fit(PUBLIC)


@cache
def isotropic():
    return make_sampler().fit(PUBLIC)


def switch(sampler, **plan):
    """Return a copy with another plan and the same pairs, not yet calibrated."""
    other = pickle.loads(pickle.dumps(sampler))
    return other.set_params(**(DEFAULT_PLAN | plan))


def norms(differences, law):
    return np.linalg.norm(differences, 1 if law == "laplace" else 2, axis=1)


def shaped_norms(sampler, shape, n_shape):
    """Return norms in the coordinates of a shape, with what they may be off."""
    differences = shape.whiten(sampler.differences_[n_shape:])
    errors = shape.whiten_errors(sampler.pairs_.errors)[None]
    return norms(differences, sampler.law) + norms(errors, sampler.law)


def learned_shape(name, differences, **known):
    """Return the shape of that name which pairs teach: half of those that are given."""
    if name == "isotropic":
        return NoiseShape()
    twice = np.concatenate([differences, differences])
    pairs = SampledPairs(twice, None, np.zeros(differences.shape[1]), **known)
    noise, _ = calibrate(pairs, Target(1.0, 0.5), shape=name, n_records=10)
    return noise.shape


def losses(differences, noise, law):
    """Return the privacy loss of each difference with its draw of standard noise."""
    if law == "laplace":
        return (np.abs(noise + differences) - np.abs(noise)).sum(axis=1)
    return (differences * noise).sum(axis=1) + (differences**2).sum(axis=1) / 2


@cache
def many_pairs(seed):
    return make_sampler(n_pairs=16_000, random_state=seed).fit(PUBLIC)


def find_by_risks(distances, n_outputs, epsilon, gamma, n_neighbors=1):
    """Return the scale at which the average risk over Gaussian noise is gamma."""
    differences = distances[:, None] * np.eye(1, n_outputs)
    known = {"n_neighbors": n_neighbors}
    pairs = SampledPairs(differences, None, np.zeros(n_outputs), **known)
    target, rule = Target(epsilon, gamma, randomness="both"), Exchangeable(n_neighbors)
    terms = Terms(target, Gaussian(), "isotropic", rule, pairs.n_databases)
    return find_scale(pairs, distances, terms, NoiseShape())
