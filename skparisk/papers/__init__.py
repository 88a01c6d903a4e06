"""What the papers print, for whoever reproduces it; much of it does not hold.

Nothing in the rest of the package rests on this module: its functions are formulas of
numbers, and no certificate comes of them. What takes their place, and a counterexample
for each, is in the theory pages.
"""

from skparisk.papers._composition import compose_privacy_at_risk
from skparisk.papers._dkw import (
    DKWOperatingPoint,
    dkw_fewest_pairs,
    dkw_least_noise,
    dkw_least_risk,
)
from skparisk.papers._empirical_risk import (
    bessel_joint_confidence,
    bessel_joint_noise_epsilon,
    dandekar_empirical_risk,
    sample_confidence,
)
from skparisk.papers._privacy_at_risk import (
    DandekarTheorem4,
    dandekar_cdf,
    dandekar_confidence,
    dandekar_epsilon,
    dandekar_noise_epsilon,
)
from skparisk.papers._svm import rubinstein_svm_sensitivity_bound
from skparisk.papers._transfer import rubinstein_transferred_risk

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
