"""Mechanisms: exact noise of a given scale, and what it costs in privacy."""

from skparisk.mechanisms._bernstein import (
    BernsteinMechanism,
    BernsteinPolynomial,
    bernstein_lattice,
)
from skparisk.mechanisms._discrete import DiscreteMechanism
from skparisk.mechanisms._exponential import (
    ExponentialChoice,
    ExponentialMechanism,
)
from skparisk.mechanisms._gaussian import GaussianMechanism
from skparisk.mechanisms._laplace import LaplaceMechanism
from skparisk.mechanisms._noise import AdditiveNoise
from skparisk.mechanisms._randomized_response import RandomizedResponse
from skparisk.mechanisms._shapes import (
    DiagonalShape,
    IsotropicShape,
    NoiseShape,
    WhitenedShape,
    fit_noise_shape,
    to_dyadic,
)

__all__ = [
    "AdditiveNoise",
    "BernsteinMechanism",
    "BernsteinPolynomial",
    "DiagonalShape",
    "DiscreteMechanism",
    "ExponentialChoice",
    "ExponentialMechanism",
    "GaussianMechanism",
    "IsotropicShape",
    "LaplaceMechanism",
    "NoiseShape",
    "RandomizedResponse",
    "WhitenedShape",
    "bernstein_lattice",
    "fit_noise_shape",
    "to_dyadic",
]
