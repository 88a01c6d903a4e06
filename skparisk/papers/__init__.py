"""Formulas of the papers as printed, to reproduce them; some do not hold.

They are functions of numbers, and make no certificate. The theory pages have valid
ones, and a counterexample for each that does not hold (:ref:`errata <errata>`).
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
    laplace_loss_mean,
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
    "laplace_loss_mean",
    "rubinstein_svm_sensitivity_bound",
    "rubinstein_transferred_risk",
    "sample_confidence",
]
