"""The core: all that a certificate rests on, besides the reference that was used.

It imports nothing else of the package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skparisk.core.calibrate import DKW as DKW
    from skparisk.core.calibrate import PAC as PAC
    from skparisk.core.calibrate import Exchangeable as Exchangeable
    from skparisk.core.calibrate import Rule as Rule
    from skparisk.core.calibrate import Target as Target
    from skparisk.core.calibrate import Terms as Terms
    from skparisk.core.calibrate import calibrate_known as calibrate_known
    from skparisk.core.calibrate import find_noise as find_noise
    from skparisk.core.calibrate import required_pairs as required_pairs
    from skparisk.core.claim import Advantage as Advantage
    from skparisk.core.claim import Assumption as Assumption
    from skparisk.core.claim import Certificate as Certificate
    from skparisk.core.claim import DominatingLoss as DominatingLoss
    from skparisk.core.claim import Doubt as Doubt
    from skparisk.core.claim import Evidence as Evidence
    from skparisk.core.claim import Leak as Leak
    from skparisk.core.claim import MeasuredRisk as MeasuredRisk
    from skparisk.core.claim import Method as Method
    from skparisk.core.claim import Population as Population
    from skparisk.core.claim import Scope as Scope
    from skparisk.core.claim import Success as Success
    from skparisk.core.claim import as_certificate as as_certificate
    from skparisk.core.compose import compose_advanced as compose_advanced
    from skparisk.core.compose import compose_basic as compose_basic
    from skparisk.core.compose import compose_exact as compose_exact
    from skparisk.core.compose import compose_laplace as compose_laplace
    from skparisk.core.compose import compose_parallel as compose_parallel
    from skparisk.core.compose import group_privacy as group_privacy
    from skparisk.core.compose import post_process as post_process
    from skparisk.core.compose import transfer as transfer
    from skparisk.core.laws import Gaussian as Gaussian
    from skparisk.core.laws import Laplace as Laplace
    from skparisk.core.laws import Law as Law
    from skparisk.core.losses import gaussian_delta as gaussian_delta
    from skparisk.core.losses import (
        gaussian_loss_exceedance as gaussian_loss_exceedance,
    )
    from skparisk.core.losses import laplace_delta as laplace_delta
    from skparisk.core.losses import laplace_loss_exceedance as laplace_loss_exceedance
    from skparisk.core.losses import laplace_loss_mean as laplace_loss_mean
    from skparisk.core.noise import AdditiveNoise as AdditiveNoise
    from skparisk.core.noise import NoiseShape as NoiseShape
    from skparisk.core.noise import to_dyadic as to_dyadic
    from skparisk.core.pairs import SampledPairs as SampledPairs
    from skparisk.core.release import Plan as Plan
    from skparisk.core.sealed import Sealed as Sealed
    from skparisk.core.sealed import seal as seal

_HOMES = {
    "calibrate": (
        "DKW",
        "PAC",
        "Exchangeable",
        "Rule",
        "Target",
        "Terms",
        "calibrate_known",
        "find_noise",
        "required_pairs",
    ),
    "claim": (
        "Advantage",
        "Assumption",
        "Certificate",
        "DominatingLoss",
        "Doubt",
        "Evidence",
        "Leak",
        "MeasuredRisk",
        "Method",
        "Population",
        "Scope",
        "Success",
        "as_certificate",
    ),
    "compose": (
        "compose_advanced",
        "compose_basic",
        "compose_exact",
        "compose_laplace",
        "compose_parallel",
        "group_privacy",
        "post_process",
        "transfer",
    ),
    "laws": ("Gaussian", "Laplace", "Law"),
    "losses": (
        "gaussian_delta",
        "gaussian_loss_exceedance",
        "laplace_delta",
        "laplace_loss_exceedance",
        "laplace_loss_mean",
    ),
    "noise": (
        "AdditiveNoise",
        "NoiseShape",
        "to_dyadic",
    ),
    "pairs": ("SampledPairs",),
    "release": ("Plan",),
    "sealed": ("Sealed", "seal"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
