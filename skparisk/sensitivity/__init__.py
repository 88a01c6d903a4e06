"""Sampled sensitivity: how far a query moves between neighboring databases."""

from skparisk.sensitivity._known import KnownSensitivity
from skparisk.sensitivity._noise_shape import fit_noise_shape
from skparisk.sensitivity._parallel import sample_differences
from skparisk.sensitivity._sampler import SensitivitySampler
from skparisk.sensitivity._terms import calibrate

__all__ = [
    "KnownSensitivity",
    "SensitivitySampler",
    "calibrate",
    "fit_noise_shape",
    "sample_differences",
]
