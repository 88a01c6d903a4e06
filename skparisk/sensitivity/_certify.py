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
        curve=_curve(rule, mechanism, order, index),
        **claim,
    )
    return mechanism, certificate


def _curve(
    rule: Calibration,
    mechanism: LaplaceMechanism,
    order: NDArray[np.float64],
    index: int,
) -> tuple[tuple[float, float], ...]:
    """Return (epsilon', certified risk) at the released noise, for other levels.

    The noise scale is an order statistic of the same sample, so counting the pairs
    below epsilon' is right up to epsilon only. Above, with r = epsilon' / epsilon and
    T the m + 1 values with the fresh one: the fresh one exceeds r times the K-th
    smallest of the others iff it exceeds r T_(K), which M values do, whichever is the
    fresh one; and sampled values above r G_(K-1), plus one, are never fewer than M.
    """
    m = len(order)
    if rule.failure_prob is not None:  # "pac": certified for one level at a time
        return ()
    levels = mechanism.privacy_loss(order)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        above = mechanism.epsilon * (order[index:] / order[max(index - 2, 0)])
    known = index > 1 and order[index - 2] > 0
    levels[index:] = above * (1 + 2.0**-40) if known else np.inf
    indices = np.unique(np.linspace(m, 1, min(m, _CURVE_POINTS)).astype(int))
    points = [
        (float(levels[i - 1]), rule.certify_risk(m, int(i)))
        for i in indices
        if np.isfinite(levels[i - 1])
    ]
    return tuple((level, risk) for level, risk in points if risk < 1)
