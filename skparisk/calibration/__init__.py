"""From sampled pairs to a noise scale, and what the scale then guarantees.

Every neighbor pair has a critical scale: the least noise at which its privacy
loss stays within the target. The noise scale is the K-th smallest of them, and
the whole of calibration is the choice of K.
"""

from skparisk.calibration._certificate import HEURISTIC_CLAIM, RiskCertificate
from skparisk.calibration._dkw import (
    DKWOperatingPoint,
    dkw_fewest_pairs,
    dkw_least_noise,
    dkw_least_risk,
)
from skparisk.calibration._heuristics import (
    bessel_empirical_confidence,
    bessel_joint_confidence,
    bessel_joint_noise_epsilon,
    sample_confidence,
    sample_error,
)
from skparisk.calibration._order_statistics import (
    CALIBRATIONS,
    DKW,
    PAC,
    Bessel,
    Calibration,
    Exchangeable,
    as_calibration,
    required_pairs,
)

__all__ = [
    "CALIBRATIONS",
    "DKW",
    "HEURISTIC_CLAIM",
    "PAC",
    "Bessel",
    "Calibration",
    "DKWOperatingPoint",
    "Exchangeable",
    "RiskCertificate",
    "as_calibration",
    "bessel_empirical_confidence",
    "bessel_joint_confidence",
    "bessel_joint_noise_epsilon",
    "dkw_fewest_pairs",
    "dkw_least_noise",
    "dkw_least_risk",
    "required_pairs",
    "sample_confidence",
    "sample_error",
]
