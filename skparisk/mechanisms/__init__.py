"""Mechanisms: exact noise for a known sensitivity, and what it costs in privacy."""

from skparisk.mechanisms._bernstein import (
    BernsteinMechanism,
    BernsteinPolynomial,
    bernstein_lattice,
)
from skparisk.mechanisms._discrete import DiscreteMechanism
from skparisk.mechanisms._exponential import (
    Exponential,
    ExponentialChoice,
    ExponentialMechanism,
)
from skparisk.mechanisms._gaussian import GaussianMechanism
from skparisk.mechanisms._laplace import LaplaceMechanism
from skparisk.mechanisms._randomized_response import RandomizedResponse

__all__ = [
    "BernsteinMechanism",
    "BernsteinPolynomial",
    "DiscreteMechanism",
    "Exponential",
    "ExponentialChoice",
    "ExponentialMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "RandomizedResponse",
    "bernstein_lattice",
]
