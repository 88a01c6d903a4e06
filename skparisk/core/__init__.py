"""The core: everything behind a certificate except the reference.

It imports nothing else of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

# What there is for others, by the module that it is in.
_PUBLIC = {
    "calibrate": """DKW PAC Exchangeable Rule Target Terms find_noise
        required_pairs""",
    "claim": """Advantage Assumption Certificate DominatingLoss Doubt Evidence Leak
        MeasuredRisk Method Population Scope as_certificate""",
    "compose": "compose_basic compose_exact compose_parallel post_process",
    "laws": "Gaussian Laplace Law",
    "noise": "AdditiveNoise NoiseShape to_dyadic",
    "pairs": "SampledPairs",
    "release": "Plan",
    "sealed": "Sealed seal",
}
_HOMES = {name: home for home, names in _PUBLIC.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:  # each is imported when it is first asked for
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


# Who puts claims into words: the package around, and nothing here rests on it.
_load: list[Callable[[], Any]] = []


def set_words(load: Callable[[], Any]) -> None:
    """Say what returns the module that puts claims into words."""
    _load[:] = [load]


def words() -> Any:
    """Return the module that puts claims into words."""
    return _load[0]()
