"""What a release means in numbers: the size of its noise, and what it costs."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from skparisk._text import strict
from skparisk.core.claim import Claim
from skparisk.core.laws import LAWS
from skparisk.core.noise import AdditiveNoise
from skparisk.cost import CostModel


def noise_of(source: Any, claim: Claim) -> dict[str, float] | None:
    """Return standard deviations of the noise of outputs; None if they are not known.

    A certificate alone has them if the noise has the same size for each output.
    """
    sampler, evidence = getattr(source, "sampler_", source), claim.evidence
    noise = getattr(sampler, "mechanism_", getattr(source, "noise", None))
    if isinstance(noise, AdditiveNoise):
        deviations = noise.deviations()
        # Of what is released: constants have none.
        deviations = deviations[deviations > 0] if noise.steps else deviations
    elif (
        evidence is not None
        and evidence.noise_shape == "isotropic"
        and evidence.law in LAWS
        and evidence.law != "exponential"
    ):
        deviations = np.array([LAWS[evidence.law]().deviation * evidence.noise_scale])
    else:
        return None
    most = float(deviations.max())
    if not math.isfinite(most):
        return None
    # Of the largest, so that no square overflows.
    typical = most and most * float(np.sqrt(np.mean((deviations / most) ** 2)))
    least = float(deviations.min())
    return {"typical": typical, "least": least, "most": most}


def cost_of(cost: CostModel, claim: Claim) -> dict[str, Any]:
    """Return what the release costs by numbers that were declared."""
    return {
        "model": type(cost).__name__,
        "declared": {
            name: float(value)
            for name, value in vars(cost).items()
            if isinstance(value, Real) and math.isfinite(value)
        },
        "total": strict(cost.budget_of(claim)),
    }
