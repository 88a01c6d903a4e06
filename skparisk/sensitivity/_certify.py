"""From sampled differences to noise and its certificate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.calibration import (
    CHUNK,
    ConditionalRisk,
    Criterion,
    DrawnLoss,
    NoiseLevel,
    RiskCertificate,
    WorstOutputGaussian,
    WorstOutputLaplace,
    as_calibration,
    calibrate_known,
    calibrate_order_statistic,
    calibrate_risk_control,
    row_norms,
)
from skparisk.mechanisms import (
    AdditiveNoise,
    ExponentialChoice,
    IsotropicShape,
    NoiseShape,
    fit_noise_shape,
)
from skparisk.sensitivity._plan import NoisePlan

__all__ = ["CertifiedNoise", "certify_known", "certify_sampled"]

_NORMS = {"laplace": 1, "gaussian": 2, "exponential": math.inf}


@dataclass(frozen=True, eq=False)
class CertifiedNoise:
    """Noise, what it guarantees, and the sensitivities it is calibrated to."""

    noise: AdditiveNoise | ExponentialChoice
    certificate: RiskCertificate
    sensitivities: NDArray[np.float64] | None = None


def certify_sampled(
    plan: NoisePlan,
    differences: NDArray[np.float64],
    errors: NDArray[np.float64] | None = None,
    *,
    draw_seed: int,
    **claim: Any,
) -> CertifiedNoise:
    """Return noise that is calibrated to sampled pairs, and its certificate.

    `claim` is the rest of the certificate: what does not follow from the plan and the
    differences, of shape (n_pairs, n_outputs), and the most that they may be off.
    """
    n_shape = plan.n_shape_pairs(len(differences))
    no_noise = math.isinf(plan.epsilon)
    shape = fit_noise_shape(
        "isotropic" if no_noise else plan.noise_shape,
        differences[:n_shape],
        None if errors is None else errors[:n_shape],
    )
    differences = differences[n_shape:]
    errors = None if errors is None else errors[n_shape:]
    n_pairs, n_outputs = differences.shape
    sensitivities = _sensitivities(differences, errors, shape, _NORMS[plan.law])
    order = as_calibration(plan.calibration, plan.failure_prob)
    index = order.order_index(n_pairs, plan.gamma)
    sensitivity = float(np.partition(sensitivities, index - 1)[index - 1])
    n_still = 0 if errors is None else _count_still(differences, errors)
    if no_noise:
        level = _no_noise(plan, n_pairs)
    elif plan.draws == 0:
        level = calibrate_risk_control(
            ConditionalRisk(sensitivities, n_outputs, plan.epsilon, plan.gamma),
            n_still=n_still,
        )
    else:
        criterion = (
            DrawnLoss(
                plan.law,
                differences,
                plan.epsilon,
                draw_seed,
                plan.draws,
                shape,
                errors,
            )
            if plan.draws
            else _worst_output(plan, sensitivities, n_outputs)
        )
        level = calibrate_order_statistic(
            criterion, plan.rule, n_pairs=n_pairs, gamma=plan.gamma, n_still=n_still
        )
    noise = _noise(plan, level, n_outputs, shape)
    certificate = _certificate(
        plan,
        level,
        noise,
        gamma=plan.gamma,
        delta=0.0 if plan.randomness == "both" else plan.delta,
        n_outputs=n_outputs,
        sensitivity=sensitivity,
        calibration=plan.calibration,
        n_pairs=n_pairs,
        order_index=level.order_index,
        n_draws=plan.draws,
        noise_shape=shape.name,
        n_shape_pairs=None if shape.name == "isotropic" else n_shape,
        failure_prob=order.failure_prob,
        **claim,
    )
    return CertifiedNoise(noise, certificate, sensitivities)


def certify_known(plan: NoisePlan, *, n_outputs: int, **claim: Any) -> CertifiedNoise:
    """Return noise for the declared sensitivity of the plan, and its certificate."""
    sensitivity = float(plan.sensitivity or 0.0)
    heuristic = plan.calibration == "bessel"
    level = NoiseLevel(0.0, 1, 0.0)
    if math.isfinite(plan.epsilon):
        level = calibrate_known(
            sensitivity,
            mechanism=plan.mechanism,
            n_outputs=n_outputs,
            epsilon=plan.epsilon,
            gamma=plan.gamma,
            delta=plan.delta,
            heuristic=heuristic,
        )
    noise = _noise(plan, level, n_outputs, IsotropicShape())
    certificate = _certificate(
        plan,
        level,
        noise,
        gamma=0.0 if plan.delta else plan.gamma,
        delta=plan.delta,
        n_outputs=n_outputs,
        sensitivity=sensitivity,
        calibration="bessel" if heuristic else "declared",
        **claim,
    )
    return CertifiedNoise(noise, certificate)


def _sensitivities(
    differences: NDArray[np.float64],
    errors: NDArray[np.float64] | None,
    shape: NoiseShape,
    norm: float,
) -> NDArray[np.float64]:
    """Return norms in the coordinates of the noise, without a copy of all pairs."""
    norms = np.empty(len(differences))
    for rows in _blocks(differences):
        norms[rows] = row_norms(shape.whiten(differences[rows]), norm)
        # In units of the answer, what they are off by has been added to each already.
        if errors is not None and not isinstance(shape, IsotropicShape):
            off = shape.whiten_errors(errors[rows])
            norms[rows] += row_norms(off, norm)
    return norms


def _count_still(differences: NDArray[np.float64], errors: NDArray[np.float64]) -> int:
    """Return how many pairs do not differ by more than rounding."""
    still = [
        (np.abs(differences[rows]) <= errors[rows]).all(axis=1).sum()
        for rows in _blocks(differences)
    ]
    return int(sum(still))


def _blocks(pairs: NDArray[np.float64]) -> Iterator[slice]:
    """Yield the rows of pairs that are worked on together."""
    step = max(1, CHUNK // pairs.shape[1])
    for start in range(0, len(pairs), step):
        yield slice(start, start + step)


def _worst_output(
    plan: NoisePlan, sensitivities: NDArray[np.float64], n_outputs: int
) -> Criterion:
    if plan.law == "laplace":
        return WorstOutputLaplace(sensitivities, n_outputs, plan.epsilon, plan.delta)
    if plan.law == "exponential":
        # The same law of one output: scores move by their largest difference, and by
        # one step of the grid at the most.
        return WorstOutputLaplace(sensitivities, 1, plan.epsilon)
    return WorstOutputGaussian(
        sensitivities,
        n_outputs,
        plan.epsilon,
        plan.delta,
        "classical" if plan.mechanism.endswith("classical") else "analytic",
    )


def _no_noise(plan: NoisePlan, n_pairs: int) -> NoiseLevel:
    """Return what is recorded where nothing is guaranteed."""
    if plan.draws == 0:
        return NoiseLevel(0.0, 1, plan.gamma)
    index = plan.rule.order_index(n_pairs, plan.gamma)
    return NoiseLevel(0.0, 1, plan.rule.certify_risk(n_pairs, index), index)


def _noise(
    plan: NoisePlan, level: NoiseLevel, n_outputs: int, shape: NoiseShape
) -> AdditiveNoise | ExponentialChoice:
    if plan.law == "exponential":
        if not level.scale:
            return ExponentialChoice(0, 0)
        return ExponentialChoice.at_least(level.scale, least_steps=level.least_steps)
    if not level.scale:
        return AdditiveNoise(plan.law, 0, 0, n_outputs, shape)
    return AdditiveNoise.at_least(
        plan.law,
        level.scale,
        n_outputs=n_outputs,
        shape=shape,
        least_steps=level.least_steps,
    )


def _certificate(
    plan: NoisePlan,
    level: NoiseLevel,
    noise: AdditiveNoise | ExponentialChoice,
    **claim: Any,
) -> RiskCertificate:
    return RiskCertificate(
        epsilon=float(plan.epsilon),
        risk=level.risk,
        noise_scale=noise.noise_scale,
        mechanism=plan.law,
        randomness=plan.randomness,
        curve=level.curve,
        **claim,
    )
