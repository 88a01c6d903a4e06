"""Counts of discrete draws, and what they take from the operating system."""

import numpy as np
import pytest
from laws import FALSE_ALARM, SEEDS
from scipy import stats

seeds = pytest.mark.parametrize("seed", SEEDS)


def rejects_counts(chosen, probabilities):
    """Tell if a chi-square test refuses the probabilities of some indices."""
    observed = np.bincount(np.ravel(chosen), minlength=len(probabilities))
    expected = observed.sum() * np.asarray(probabilities) / np.sum(probabilities)
    return stats.chisquare(observed, expected).pvalue < FALSE_ALARM
