"""What the papers print, for whoever reproduces it; much of it does not hold.

Nothing in the rest of the package rests on this module: its functions are formulas of
numbers, and no certificate comes of them. What takes their place, and a counterexample
for each, is in the theory pages.
"""

from skparisk.papers._dandekar import (
    DandekarTheorem4,
    bessel_joint_confidence,
    bessel_joint_noise_epsilon,
    compose_privacy_at_risk,
    dandekar_cdf,
    dandekar_confidence,
    dandekar_empirical_risk,
    dandekar_epsilon,
    dandekar_noise_epsilon,
    sample_confidence,
)
from skparisk.papers._rubinstein import (
    DKWOperatingPoint,
    dkw_fewest_pairs,
    dkw_least_noise,
    dkw_least_risk,
    rubinstein_svm_sensitivity_bound,
    rubinstein_transferred_risk,
)

__all__ = [
    "DKWOperatingPoint",
    "DandekarTheorem4",
    "bessel_joint_confidence",
    "bessel_joint_noise_epsilon",
    "compose_privacy_at_risk",
    "dandekar_cdf",
    "dandekar_confidence",
    "dandekar_empirical_risk",
    "dandekar_epsilon",
    "dandekar_noise_epsilon",
    "dkw_fewest_pairs",
    "dkw_least_noise",
    "dkw_least_risk",
    "rubinstein_svm_sensitivity_bound",
    "rubinstein_transferred_risk",
    "sample_confidence",
]
