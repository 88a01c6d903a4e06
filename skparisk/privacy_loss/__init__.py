"""Laws of the privacy loss: exact for Laplace and Gaussian noise.

A *shift* is the difference of a query between two databases over the noise scale.
The laws tell how likely a loss is at a shift; their inverses tell how large a shift
may be, and so the noise scale, when the sensitivity is known.
"""

from skparisk.privacy_loss._gaussian import (
    gaussian_delta,
    gaussian_loss_exceedance,
    gaussian_risk,
)
from skparisk.privacy_loss._gaussian_inverses import (
    gaussian_classical_shift,
    gaussian_delta_epsilon,
    gaussian_explicit_shift,
    gaussian_risk_shift,
    gaussian_shift,
)
from skparisk.privacy_loss._laplace import (
    laplace_delta,
    laplace_delta_noise_epsilon,
    laplace_loss_exceedance,
    laplace_loss_mean,
    laplace_noise_epsilon,
)

__all__ = [
    "gaussian_classical_shift",
    "gaussian_delta",
    "gaussian_delta_epsilon",
    "gaussian_explicit_shift",
    "gaussian_loss_exceedance",
    "gaussian_risk",
    "gaussian_risk_shift",
    "gaussian_shift",
    "laplace_delta",
    "laplace_delta_noise_epsilon",
    "laplace_loss_exceedance",
    "laplace_loss_mean",
    "laplace_noise_epsilon",
]
