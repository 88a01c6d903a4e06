"""Mechanisms: exact noise for a known sensitivity, and its privacy level."""

from skparisk.mechanisms._additive import GaussianMechanism, LaplaceMechanism
from skparisk.mechanisms._bernstein import (
    BernsteinMechanism,
    BernsteinPolynomial,
    bernstein_lattice,
)
from skparisk.mechanisms._discrete import DiscreteMechanism, RandomizedResponse
from skparisk.mechanisms._exponential import (
    Exponential,
    ExponentialChoice,
    ExponentialMechanism,
)

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
