"""From sampled sensitivities to a mechanism and its certificate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.calibration import Calibration, RiskCertificate
from skparisk.exceptions import CalibrationError
from skparisk.mechanisms import LaplaceMechanism

__all__ = ["certify_sensitivities"]

# Points of the (epsilon, risk) curve that a certificate carries, at the most.
_CURVE_POINTS = 2048


def certify_sensitivities(
    sensitivities: NDArray[np.float64],
    rule: Calibration,
    *,
    epsilon: float,
    gamma: float,
    n_outputs: int,
    **claim: Any,
) -> tuple[LaplaceMechanism, RiskCertificate]:
    """Return noise for the K-th smallest sensitivity, and what it guarantees.

    `claim` is the rest of the certificate: what does not follow from the sample.
    """
    order = np.sort(sensitivities)
    index = rule.order_index(len(order), gamma)
    sensitivity = float(order[index - 1])
    if sensitivity == 0 and math.isfinite(epsilon):
        n_zero = int(np.searchsorted(order, 0, side="right"))
        best = rule.certify_risk(len(order), min(n_zero + 1, len(order)))
        raise CalibrationError(
            f"The sampled sensitivity at gamma={gamma!r} is 0, so no noise would be "
            "added: the query answers the same on most pairs of neighbors. Ask for a "
            "smaller gamma, or for a reference whose records differ more.",
            target=gamma,
            best=best if n_zero < len(order) else 0.0,
        )
    mechanism = LaplaceMechanism(sensitivity, epsilon, n_outputs)
    certificate = RiskCertificate(
        epsilon=epsilon,
        gamma=gamma,
        risk=rule.certify_risk(len(order), index),
        sensitivity=sensitivity,
        noise_scale=mechanism.noise_scale,
        n_outputs=n_outputs,
        n_pairs=len(order),
        order_index=index,
        failure_prob=rule.failure_prob,
        curve=_curve(rule, mechanism.privacy_loss(order)),
        **claim,
    )
    return mechanism, certificate


def _curve(
    rule: Calibration, losses: NDArray[np.float64]
) -> tuple[tuple[float, float], ...]:
    """Return (epsilon, certified risk) at each order statistic, or at some of many."""
    m = len(losses)
    indices = np.unique(np.linspace(m, 1, min(m, _CURVE_POINTS)).astype(int))
    points = [
        (float(losses[index - 1]), rule.certify_risk(m, int(index)))
        for index in indices
    ]
    return tuple((loss, risk) for loss, risk in points if risk < 1)
