"""Sampled sensitivity: how far a query moves between neighboring databases."""

from skparisk.sensitivity._parallel import MOST_ASKED, sample_differences
from skparisk.sensitivity._sampler import SensitivitySampler

__all__ = ["MOST_ASKED", "SensitivitySampler", "sample_differences"]
