"""The core: all that a certificate rests on, besides the reference that was used.

It imports nothing else of the package. Words are made outside of it: `set_words` says
by whom, and no claim rests on them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skparisk.core.calibrate import DKW as DKW
    from skparisk.core.calibrate import PAC as PAC
    from skparisk.core.calibrate import Exchangeable as Exchangeable
    from skparisk.core.calibrate import Target as Target
    from skparisk.core.calibrate import calibrate_known as calibrate_known
    from skparisk.core.calibrate import required_pairs as required_pairs

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
    ),
    "noise": (
        "AdditiveNoise",
        "DiagonalShape",
        "IsotropicShape",
        "NoiseShape",
        "WhitenedShape",
        "to_dyadic",
    ),
    "pairs": ("SampledPairs",),
    "release": ("Plan", "release"),
    "sealed": ("Sealed", "seal"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)

_load: list[Callable[[], Any]] = []


def set_words(load: Callable[[], Any]) -> None:
    """Say what returns the module that puts claims into words."""
    _load[:] = [load]


def words() -> Any:
    """Return the module that puts claims into words."""
    return _load[0]()


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
