"""Sampled sensitivity: how far a query moves between neighboring databases."""

from skparisk.sensitivity._known import KnownSensitivity
from skparisk.sensitivity._parallel import sample_differences
from skparisk.sensitivity._sampler import SensitivitySampler

__all__ = ["KnownSensitivity", "SensitivitySampler", "sample_differences"]
