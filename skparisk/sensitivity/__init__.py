"""Sampled sensitivity: how far a query moves between neighboring databases."""

from skparisk.sensitivity._parallel import sample_differences
from skparisk.sensitivity._sampler import SensitivitySampler

__all__ = ["SensitivitySampler", "sample_differences"]
