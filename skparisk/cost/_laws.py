"""The law of the loss that a cost is counted with: the exact one, or a paper's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_at_least
from skparisk.core.losses import laplace_loss_exceedance

Floats: TypeAlias = NDArray[np.float64]


@runtime_checkable
class RiskLaw(Protocol):
    """Another law of the loss of Laplace noise: a paper's, as printed."""

    def risk(self, epsilon: Floats, noise_epsilon: float, n_outputs: int) -> Floats:
        """Return the probability that the loss exceeds each level in [0, inf]."""
        ...


def risk_function(
    noise_epsilon: float, n_outputs: int, law: Any
) -> Callable[[Floats], Floats]:
    """Return the probability that the loss exceeds a level, as a function of it."""
    k = check_at_least(n_outputs, "n_outputs", 1)
    if not isinstance(law, str) and isinstance(law, RiskLaw):
        other: RiskLaw = law
        return lambda levels: other.risk(levels, noise_epsilon, k)
    if law != "exact":
        raise ValueError(
            "law must be 'exact' or an object with a risk, such as "
            f"skparisk.papers.DandekarTheorem4(), got {law!r}."
        )
    if k > 1:
        raise ValueError(
            "n_outputs must be 1 with law='exact', because the worst case for several "
            f"outputs is not known, got {k}."
        )
    return lambda levels: np.asarray(laplace_loss_exceedance(levels, noise_epsilon))
