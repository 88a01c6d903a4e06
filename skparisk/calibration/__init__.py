"""From sampled pairs to a noise scale, and what the scale then guarantees.

Every neighbor pair has a critical scale: the least noise at which its privacy loss
stays within the target. The noise scale is the K-th smallest of them, and the whole of
calibration is the choice of K. In one line: differences, a `Target`, a law, a shape
and a rule go into `calibrate`, and noise and its certificate come out.
"""

from skparisk.calibration._calibrate import calibrate
from skparisk.calibration._dkw import (
    DKWOperatingPoint,
    dkw_fewest_pairs,
    dkw_least_noise,
    dkw_least_risk,
)
from skparisk.calibration._known import calibrate_known
from skparisk.calibration._pairs import SampledPairs
from skparisk.calibration._rules import (
    DKW,
    PAC,
    Exchangeable,
    required_pairs,
)
from skparisk.calibration._target import Target

__all__ = [
    "DKW",
    "PAC",
    "DKWOperatingPoint",
    "Exchangeable",
    "SampledPairs",
    "Target",
    "calibrate",
    "calibrate_known",
    "dkw_fewest_pairs",
    "dkw_least_noise",
    "dkw_least_risk",
    "required_pairs",
]
