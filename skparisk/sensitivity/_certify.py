"""From sampled differences to noise and its certificate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.calibration._criteria import (
    CHUNK,
    ConditionalRisk,
    Criterion,
    DrawnLoss,
    WorstOutputGaussian,
    WorstOutputLaplace,
)
from skparisk.calibration._critical_scales import row_norms
from skparisk.calibration._known import calibrate_known
from skparisk.calibration._noise_level import (
    NoiseLevel,
    calibrate_order_statistic,
    calibrate_risk_control,
)
from skparisk.calibration._rules import as_rule
from skparisk.certificate import Certificate, DominatingLoss, Evidence
from skparisk.certificate._claim import PRIVATE_REFERENCE, SEEDED
from skparisk.exceptions import CalibrationError
from skparisk.mechanisms import (
    AdditiveNoise,
    ExponentialChoice,
    IsotropicShape,
    NoiseShape,
    fit_noise_shape,
)
from skparisk.mechanisms import _grid_cost as grid_cost
from skparisk.mechanisms._noise import LAWS
from skparisk.sensitivity._pairs import SampledPairs
from skparisk.sensitivity._plan import NoisePlan

__all__ = ["CertifiedNoise", "certify_known", "certify_sampled", "norms_of_pairs"]

_ISOTROPIC = IsotropicShape()
# Outputs over the level, for which the grid is next to nothing.
_FINE_GRID = 2.0**30
# A noise scale that is too small for a fine grid.
_COARSE_SCALE = 2.0**-960
_NORMS = {"laplace": 1, "gaussian": 2, "exponential": math.inf}


class CertifiedNoise:
    """Noise, what it guarantees, and the pairs that say so, if any.

    If the pairs are withheld, as they came from private data, so is what the
    certificate has of them besides the noise.
    """

    def __init__(
        self,
        noise: AdditiveNoise | ExponentialChoice,
        certificate: Certificate,
        shape: NoiseShape = _ISOTROPIC,
        pairs: SampledPairs | None = None,
    ) -> None:
        self.noise = noise
        self.shape = shape
        self.pairs = pairs
        self._certificate = certificate

    @property
    def certificate(self) -> Certificate:
        """The whole claim."""
        withheld = self.pairs is not None and self.pairs.withheld
        if withheld and not self._certificate.reference_is_private:
            self._certificate = _over_private_data(self._certificate)
        return self._certificate

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_certificate": self.certificate}


def _over_private_data(certificate: Certificate) -> Certificate:
    evidence = replace(
        certificate.require_evidence(),
        reference="resampled from private records",
        for_new_people=None,
        n_unanswered=None,
        curve=None,
    )
    return replace(certificate, evidence=evidence).amended(leaks=[PRIVATE_REFERENCE])


def certify_sampled(
    plan: NoisePlan,
    pairs: SampledPairs,
    *,
    n_records: int,
    relation: str,
    reference: str | None,
    for_new_people: str | None = None,
    provisos: tuple[str, ...] = (),
    seeded: bool = False,
) -> CertifiedNoise:
    """Return noise that is calibrated to sampled pairs, and its certificate."""
    n_shape = plan.n_shape_pairs(len(pairs))
    shape = _fit_shape(plan, pairs.take(slice(n_shape)))
    sampled, pairs = pairs, pairs.take(slice(n_shape, None))
    n_pairs, n_outputs = pairs.differences.shape
    sensitivities = norms_of_pairs(pairs, shape, plan.law)
    index = as_rule(plan.calibration, plan.failure_prob).order_index(
        n_pairs, plan.gamma
    )
    sensitivity = float(np.partition(sensitivities, index - 1)[index - 1])
    try:
        level = _calibrate(plan, pairs, sensitivities, shape)
    except CalibrationError as error:
        if pairs.failure is None:
            raise
        raise CalibrationError(
            f"{error} The reason for the missing answers: {pairs.failure}.",
            target=error.target,
            best=error.best,
        ) from error
    noise = _noise(plan, level, n_outputs, shape)
    evidence = Evidence(
        gamma=plan.gamma,
        sensitivity=sensitivity,
        noise_scale=noise.noise_scale,
        n_records=n_records,
        n_outputs=n_outputs,
        calibration=plan.rule.name,
        mechanism=plan.law,
        n_pairs=n_pairs,
        order_index=level.order_index,
        n_draws=plan.draws,
        n_unanswered=int(np.count_nonzero(~pairs.answered)),
        noise_shape=shape.name,
        n_shape_pairs=None if shape.name == "isotropic" else n_shape,
        reference=reference,
        for_new_people=for_new_people,
        curve=level.curve,
    )
    delta = 0.0 if plan.randomness == "both" else plan.delta
    certificate = _certificate(plan, level, evidence, delta, relation, provisos, seeded)
    return CertifiedNoise(noise, certificate, shape, sampled)


def _calibrate(
    plan: NoisePlan,
    pairs: SampledPairs,
    sensitivities: NDArray[np.float64],
    shape: NoiseShape,
) -> NoiseLevel:
    n_pairs, n_outputs = pairs.differences.shape
    if math.isinf(plan.epsilon):
        return _no_noise(plan, n_pairs)
    n_still = _count_still(pairs)
    if plan.draws == 0:
        return calibrate_risk_control(
            ConditionalRisk(sensitivities, n_outputs, plan.epsilon, plan.gamma),
            n_still=n_still,
        )
    criterion: Criterion = _worst_output(plan, sensitivities, n_outputs)
    if plan.draws:
        criterion = DrawnLoss(
            plan.law,
            pairs.differences,
            plan.epsilon,
            pairs.draw_seed,
            plan.draws,
            shape,
            pairs.errors,
        )
    return calibrate_order_statistic(
        criterion, plan.rule, n_pairs=n_pairs, gamma=plan.gamma, n_still=n_still
    )


def certify_known(
    plan: NoisePlan, *, n_outputs: int, n_records: int, relation: str, seeded: bool
) -> CertifiedNoise:
    """Return noise for the declared sensitivity of the plan, and its certificate."""
    sensitivity = float(plan.sensitivity or 0.0)
    level = NoiseLevel(0.0, 1, 0.0)
    if math.isfinite(plan.epsilon):
        level = calibrate_known(
            sensitivity,
            mechanism=plan.mechanism,
            n_outputs=n_outputs,
            epsilon=plan.epsilon,
            gamma=plan.gamma,
            delta=plan.delta,
            rule=plan.known_rule,
        )
    noise = _noise(plan, level, n_outputs, IsotropicShape())
    rule = plan.known_rule
    evidence = Evidence(
        gamma=0.0 if plan.delta else plan.gamma,
        sensitivity=sensitivity,
        noise_scale=noise.noise_scale,
        n_records=n_records,
        n_outputs=n_outputs,
        calibration=rule.name if rule and rule.void_reasons else "declared",
        mechanism=plan.law,
        curve=level.curve,
    )
    certificate = _certificate(plan, level, evidence, plan.delta, relation, (), seeded)
    return CertifiedNoise(noise, certificate)


def norms_of_pairs(
    pairs: SampledPairs, shape: NoiseShape, law: str
) -> NDArray[np.float64]:
    """Return norms in the coordinates of the noise, without a copy of all pairs.

    Infinite for pairs without an answer.
    """
    norm = _NORMS[law]
    norms = np.full(len(pairs), np.inf)
    answered = pairs.answered
    for rows in _blocks(pairs.differences):
        some = np.flatnonzero(answered[rows]) + rows.start
        norms[some] = row_norms(shape.whiten(pairs.differences[some]), norm)
        # In units of the answer, what they are off by has been added to each already.
        if pairs.errors is not None and not isinstance(shape, IsotropicShape):
            off = shape.whiten_errors(pairs.errors[some])
            norms[some] += row_norms(off, norm)
    return norms


def _fit_shape(plan: NoisePlan, pairs: SampledPairs) -> NoiseShape:
    """Return the shape of the noise, from pairs that calibrate nothing."""
    if plan.noise_shape == "isotropic" or math.isinf(plan.epsilon):
        return IsotropicShape()
    answered = np.flatnonzero(pairs.answered)
    if not answered.size:
        raise CalibrationError(
            "None of the sampled pairs that the shape of the noise is taken from could "
            f"be answered: {pairs.failure}.",
            target=plan.gamma,
            best=1.0,
        )
    if answered.size < len(pairs):
        errors = None if pairs.errors is None else pairs.errors[answered]
        pairs = SampledPairs(pairs.differences[answered], errors, pairs.rounding)
    return fit_noise_shape(
        plan.noise_shape, pairs.differences, pairs.floor(slice(None))
    )


def _count_still(pairs: SampledPairs) -> int:
    """Return how many pairs do not differ by more than rounding."""
    still = [
        (np.abs(pairs.differences[rows]) <= pairs.floor(rows)).all(axis=1).sum()
        for rows in _blocks(pairs.differences)
    ]
    return int(sum(still))


def _blocks(pairs: NDArray[np.float64]) -> Iterator[slice]:
    """Yield the rows of pairs that are worked on together."""
    step = max(1, CHUNK // pairs.shape[1])
    for start in range(0, len(pairs), step):
        yield slice(start, min(start + step, len(pairs)))


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
    evidence: Evidence,
    delta: float,
    relation: str,
    provisos: tuple[str, ...],
    seeded: bool,
) -> Certificate:
    """Return the claim that the evidence carries."""
    reasons = (*([SEEDED] if seeded else []), *plan.void_reasons)
    known = evidence.n_pairs is None
    return Certificate(
        float(plan.epsilon),
        delta,
        level.risk,
        0.0 if known else plan.rule.failure_prob,
        randomness=plan.randomness,
        relation=relation,
        loss=None if reasons else _dominating_loss(plan, evidence),
        void_reasons=reasons,
        provisos=(*plan.provisos, *provisos),
        evidence=evidence,
    )


def _dominating_loss(plan: NoisePlan, evidence: Evidence) -> DominatingLoss | None:
    """Return the law that the loss of all pairs outside the risk stays below, if any.

    Where the noise has a fine grid, which then costs a share 2**-20 of the shift, and
    of the level.
    """
    fine = (
        evidence.n_outputs / plan.epsilon <= _FINE_GRID
        and evidence.noise_scale >= _COARSE_SCALE
    )
    if not fine or plan.randomness == "both" or plan.law not in LAWS:
        return None
    shift = evidence.sensitivity / evidence.noise_scale
    if plan.law == "laplace":  # whose largest loss is the level, but for rounding
        shift = max(shift, plan.epsilon)
    return DominatingLoss(
        plan.law,
        shift=shift * (1 + 2 * grid_cost.GRID_SHARE),
        excess=plan.epsilon * 2 * grid_cost.GRID_SHARE,
    )
