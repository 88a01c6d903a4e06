"""From sampled pairs to a noise scale, and what the scale then guarantees.

Every neighbor pair has a critical scale: the least noise at which its privacy
loss stays within the target. The noise scale is the K-th smallest of them, and
the whole of calibration is the choice of K.
"""

from skparisk.calibration._critical_scales import (
    gaussian_critical_scales,
    gaussian_peak_losses,
    laplace_critical_scales,
    laplace_peak_losses,
)
from skparisk.calibration._dkw import (
    DKWOperatingPoint,
    dkw_fewest_pairs,
    dkw_least_noise,
    dkw_least_risk,
)
from skparisk.calibration._known import KnownRule
from skparisk.calibration._rules import (
    DKW,
    PAC,
    Exchangeable,
    Rule,
    required_pairs,
)

__all__ = [
    "DKW",
    "PAC",
    "DKWOperatingPoint",
    "Exchangeable",
    "KnownRule",
    "Rule",
    "dkw_fewest_pairs",
    "dkw_least_noise",
    "dkw_least_risk",
    "gaussian_critical_scales",
    "gaussian_peak_losses",
    "laplace_critical_scales",
    "laplace_peak_losses",
    "required_pairs",
]
