"""From differences of a query on sampled pairs to noise, and what it guarantees."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk._validate import check_at_least, check_random_state, check_relation
from skparisk.calibration._drawn import drawn_levels, drawn_scales
from skparisk.calibration._order import (
    check_risk_control,
    control_risk,
    order_curve,
    order_statistic,
)
from skparisk.calibration._pairs import SampledPairs, norms_of_pairs
from skparisk.calibration._rules import Exchangeable, Rule, as_rule, rule_proviso
from skparisk.calibration._target import Target
from skparisk.certificate import Certificate, DominatingLoss, Evidence
from skparisk.certificate._claim import SEEDED
from skparisk.exceptions import CalibrationError
from skparisk.laws import Laplace, Law
from skparisk.laws._grid import GRID_SHARE
from skparisk.laws._names import NORMS, as_law, is_ours
from skparisk.mechanisms import (
    AdditiveNoise,
    ExponentialChoice,
    IsotropicShape,
    NoiseShape,
    fit_noise_shape,
)
from skparisk.mechanisms._shapes import as_shape

__all__ = [
    "calibrate",
    "check_pairs",
    "dominating_loss",
    "law_proviso",
]

Noise = AdditiveNoise | ExponentialChoice

_GIVEN = "differences that the caller supplied"
_GIVEN_DIFFERENCES = (
    "The differences were supplied by the caller, and it has not been checked that "
    "they are those of independent pairs of neighboring databases."
)
_GIVEN_LAW = (
    "The law of the noise ({}) was supplied by the caller, and what it says of its "
    "privacy loss has not been checked."
)
_GIVEN_SHAPE = (
    "The shape of the noise was supplied by the caller, who says that it does not "
    "depend on the private data."
)
# More do not make the shape better, and take memory.
_MOST_SHAPE_PAIRS = 2**16
# Outputs over the level, for which the grid is next to nothing.
_FINE_GRID = 2.0**30
# A noise scale that is too small for a fine grid.
_COARSE_SCALE = 2.0**-960


def calibrate(
    differences: ArrayLike | SampledPairs,
    target: Target,
    *,
    law: str | Law = "laplace",
    shape: str | NoiseShape = "isotropic",
    rule: str | Rule = "exchangeable",
    n_draws: int | None = None,
    n_records: int,
    relation: str = "replace-one",
    reference: str | None = _GIVEN,
    for_new_people: str | None = None,
    provisos: tuple[str, ...] = (_GIVEN_DIFFERENCES,),
    seeded: bool = False,
    random_state: Any = None,
) -> tuple[Noise, Certificate]:
    """Return noise that is calibrated to sampled differences, and its certificate.

    Parameters
    ----------
    differences : array-like of shape (n_pairs, n_outputs), or SampledPairs
        Answer on the first database minus answer on the second, for pairs that are
        independent and alike, or exchangeable. Infinite without an answer.

    target : Target
        What is asked for.

    law : {"laplace", "gaussian", "gaussian-classical", "exponential"} or Law, \
default="laplace"
        Law of the noise, and so the norm in which answers are apart.

    shape : {"isotropic", "diagonal", "whitened"} or NoiseShape, default="isotropic"
        How much noise each direction of the answer gets. The last two names take half
        of the pairs to learn it (65 536 at the most).

    rule : {"exchangeable", "pac", "dkw"} or Rule, default="exchangeable"
        Which order statistic of the pairs is used.

    n_draws : int, default=None
        For "both": draws of the noise for each pair; 0 for the exact risk of each pair,
        where it is known. None: 0 where that is possible, else 1.

    n_records : int
        Records of a database, >= 1.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        How the databases of a pair differ.

    reference, for_new_people : str
        Where the databases come from, for the certificate; and what a risk over
        resamples of a table means for new people.

    provisos : tuple of str
        What the guarantee rests on besides.

    seeded : bool, default=False
        Whether the noise will be drawn from a seed: the certificate is then void.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the draws of the noise that pairs are tried with; not those of
        `SampledPairs`, which has its own.

    Returns
    -------
    noise : AdditiveNoise or ExponentialChoice
        To release an answer with.

    certificate : Certificate
        What that guarantees.

    Raises
    ------
    ValueError
        If law, shape, rule and target do not go together.

    CalibrationError
        If the pairs cannot certify the risk, or the sensitivity at it is 0.

    Notes
    -----
    **Guarantee** (:ref:`thm-order-statistic`, :ref:`thm-critical-scale`,
    :ref:`thm-gaussian`, :ref:`thm-noise-shape`). What the certificate says.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.calibration import Target, calibrate
    >>> differences = np.random.default_rng(0).laplace(scale=0.01, size=(999, 1))
    >>> noise, certificate = calibrate(differences, Target(0.5, 0.1), n_records=100)
    >>> round(noise.noise_scale, 4), round(certificate.risk, 4)
    (0.0431, 0.1)
    """
    pairs = _as_pairs(differences, random_state)
    law, rule = as_law(law), as_rule(rule)
    n_shape, draws = check_pairs(
        len(pairs), target, law=law, shape=shape, rule=rule, n_draws=n_draws
    )
    own_shape = isinstance(shape, str | IsotropicShape)
    given_shape = () if own_shape else (_GIVEN_SHAPE,)
    shape = _fit_shape(shape, target, pairs.take(slice(n_shape)))
    pairs = pairs.take(slice(n_shape, None))
    n_pairs, n_outputs = pairs.differences.shape
    distances = norms_of_pairs(pairs, shape, law)
    index = rule.order_index(n_pairs, target.gamma)
    sensitivity = float(np.partition(distances, index - 1)[index - 1])
    if draws is not None and draws > 1:
        rule = Exchangeable(draws)
        index = rule.order_index(n_pairs, target.gamma)
    try:
        if math.isinf(target.epsilon):
            found = _no_noise(target, rule, n_pairs, None if draws == 0 else index)
        elif draws is None:
            found = _for_all_outputs(pairs, distances, target, law, rule, index)
        elif draws == 0:
            found = _by_exact_risks(pairs, distances, target, law)
        else:
            found = _by_draws(pairs, target, law, shape, rule, index, draws)
    except CalibrationError as error:
        if pairs.failure is None:
            raise
        raise CalibrationError(
            f"{error} The reason for the missing answers: {pairs.failure}.",
            target=error.target,
            best=error.best,
        ) from error
    noise = _make_noise(law, found.scale, found.steps, n_outputs, shape)
    evidence = Evidence(
        gamma=target.gamma,
        sensitivity=sensitivity,
        noise_scale=noise.noise_scale,
        n_records=n_records,
        n_outputs=n_outputs,
        calibration=rule.name,
        law=law.name,
        norm=NORMS[law.norm],
        n_pairs=n_pairs,
        order_index=found.order_index,
        n_draws=draws,
        n_unanswered=int(np.count_nonzero(~pairs.answered)),
        noise_shape=shape.name,
        n_shape_pairs=None if shape.name == "isotropic" else n_shape or None,
        reference=reference,
        for_new_people=for_new_people,
        curve=found.curve,
    )
    reasons = (*([SEEDED] if seeded else []), *rule.void_reasons)
    certificate = Certificate(
        target.epsilon,
        0.0 if target.randomness == "both" else target.delta,
        found.risk,
        rule.failure_prob,
        randomness=target.randomness,
        relation=check_relation(relation),
        loss=None if reasons else dominating_loss(target, law, evidence),
        void_reasons=reasons,
        provisos=(*rule_proviso(rule), *law_proviso(law), *given_shape, *provisos),
        evidence=evidence,
    )
    return noise, certificate


def check_pairs(
    n_pairs: int,
    target: Target,
    *,
    law: Law,
    shape: str | NoiseShape,
    rule: Rule,
    n_draws: int | None,
) -> tuple[int, int | None]:
    """Check that all of these go together, before anything is drawn.

    Return how many of the pairs the shape is taken from, and how many draws of the
    noise each of the others is tried with: None where the risk is not over noise, 0
    where it is known.
    """
    shape = as_shape(shape)
    draws = _count_draws(target, law, rule, n_draws)
    target.check_law(law)
    if law.chooses and shape != "isotropic" and not isinstance(shape, IsotropicShape):
        raise ValueError(
            f"noise_shape must be 'isotropic' with law={law.name!r}, got {shape!r}."
        )
    plain = type(law) is Laplace and target.randomness != "both" and not target.delta
    if rule.void_reasons and not plain:
        raise ValueError(
            f"calibration={rule!r} reproduces a theorem on Laplace noise, delta=0 and "
            f"randomness 'implicit'; got law={law.name!r}, delta={target.delta!r} and "
            f"{target.randomness!r}."
        )
    learned = isinstance(shape, str) and shape != "isotropic"
    check_at_least(n_pairs, "n_pairs", 4 if learned else 1)
    n_shape = min(n_pairs // 2, _MOST_SHAPE_PAIRS) if learned else 0
    try:
        if draws == 0:
            check_risk_control(n_pairs - n_shape, target.gamma)
        else:
            index = rule.order_index(n_pairs - n_shape, target.gamma)
            if not 1 <= index <= n_pairs - n_shape:
                raise ValueError(
                    f"calibration must choose one of {n_pairs - n_shape} sampled pairs,"
                    f" and {rule.name!r} chose number {index!r}."
                )
    except CalibrationError as error:
        if not n_shape:
            raise
        raise CalibrationError(
            f"{error} Of the n_pairs={n_pairs} pairs, noise_shape={shape!r} uses "
            f"{n_shape}.",
            target=error.target,
            best=error.best,
        ) from error
    return n_shape, draws


def _make_noise(
    law: Law, scale: float, steps: int, n_outputs: int, shape: NoiseShape
) -> Noise:
    """Return noise of a scale that has so many steps of the grid; none for 0."""
    if law.chooses:
        if not scale:
            return ExponentialChoice(0, 0)
        return ExponentialChoice.at_least(scale, least_steps=steps)
    if not scale:
        return AdditiveNoise(law, 0, 0, n_outputs, shape)
    return AdditiveNoise.at_least(
        law, scale, n_outputs=n_outputs, shape=shape, least_steps=steps
    )


def dominating_loss(
    target: Target, law: Law, evidence: Evidence
) -> DominatingLoss | None:
    """Return the law that the loss of all pairs outside the risk stays below, if any.

    Where the noise has a fine grid, which then costs a share 2**-20 of the shift, and
    of the level.
    """
    fine = (
        evidence.n_outputs / target.epsilon <= _FINE_GRID
        and evidence.noise_scale >= _COARSE_SCALE
    )
    if not fine or target.randomness == "both" or not law.composes(evidence.n_outputs):
        return None
    shift = evidence.sensitivity / evidence.noise_scale
    if law.bounded:  # whose largest loss is the level, but for rounding
        shift = max(shift, target.epsilon)
    return DominatingLoss(
        law.name if is_ours(law) else law,  # however its scale was calibrated
        shift=shift * (1 + 2 * GRID_SHARE),
        excess=target.epsilon * 2 * GRID_SHARE,
    )


def law_proviso(law: Law) -> tuple[str, ...]:
    """Return what a guarantee rests on by a law of the caller's; nothing by ours."""
    return () if is_ours(law) else (_GIVEN_LAW.format(law.name),)


class _Found(NamedTuple):
    """A noise scale, the steps of the grid that it must have, and what it certifies."""

    scale: float
    steps: int
    risk: float
    order_index: int | None
    curve: NDArray[np.float64] | None = None


def _no_noise(target: Target, rule: Rule, n_pairs: int, index: int | None) -> _Found:
    """Return what is recorded where nothing is guaranteed."""
    risk = target.gamma if index is None else rule.certify_risk(n_pairs, index)
    return _Found(0.0, 1, risk, index)


def _for_all_outputs(
    pairs: SampledPairs,
    distances: NDArray[np.float64],
    target: Target,
    law: Law,
    rule: Rule,
    index: int,
) -> _Found:
    """Find the scale from which on all but a share of pairs keep the level."""
    epsilon, delta, n_outputs = target.epsilon, target.delta, pairs.n_outputs
    unit, steps = law.unit_noise(epsilon, delta, n_outputs)

    def levels(scale: float) -> NDArray[np.float64]:
        shifts = distances / scale
        return law.levels(shifts, epsilon, delta, n_outputs=n_outputs)

    scales = np.sort(distances * unit)
    return _order(pairs, scales, target, rule, index, steps, levels)


def _by_draws(
    pairs: SampledPairs,
    target: Target,
    law: Law,
    shape: NoiseShape,
    rule: Rule,
    index: int,
    n_draws: int,
) -> _Found:
    """Find the scale from which on all but a share of the draws keep the level."""
    epsilon, drawn = target.epsilon, (law, shape, n_draws)
    steps = law.drawn_steps(epsilon, pairs.n_outputs)

    def levels(scale: float) -> NDArray[np.float64]:
        return drawn_levels(pairs, scale, epsilon, *drawn)

    scales = np.sort(drawn_scales(pairs, epsilon, *drawn))
    return _order(pairs, scales, target, rule, index, steps, levels)


def _order(
    pairs: SampledPairs,
    scales: NDArray[np.float64],
    target: Target,
    rule: Rule,
    index: int,
    steps: int,
    levels: Callable[[float], NDArray[np.float64]],
) -> _Found:
    scale = order_statistic(
        scales,
        index,
        rule,
        n_pairs=len(pairs),
        gamma=target.gamma,
        n_still=pairs.count_still(),
    )
    curve = order_curve(scales, index, rule, n_pairs=len(pairs), levels=levels)
    return _Found(scale, steps, rule.certify_risk(len(pairs), index), index, curve)


def _by_exact_risks(
    pairs: SampledPairs, distances: NDArray[np.float64], target: Target, law: Law
) -> _Found:
    """Find the scale at which the risk over the noise, averaged over pairs, is met."""
    n_outputs = pairs.n_outputs
    steps = law.risk_steps(target.epsilon, target.gamma, n_outputs)

    def risks(scale: float, levels: ArrayLike) -> NDArray[np.float64]:
        return law.pair_risks(
            distances, scale, levels, n_outputs=n_outputs, steps=steps
        )

    scale, curve = control_risk(
        risks,
        distances,
        epsilon=target.epsilon,
        gamma=target.gamma,
        n_still=pairs.count_still(),
    )
    return _Found(scale, steps, target.gamma, None, curve)


def _count_draws(
    target: Target, law: Law, rule: Rule, n_draws: int | None
) -> int | None:
    if n_draws is not None:
        check_at_least(n_draws, "n_draws", 0)
    if target.randomness != "both":
        return None
    plain = type(rule) is Exchangeable
    known = law.knows_risk and plain
    draws = (0 if known else 1) if n_draws is None else int(n_draws)
    if draws == 0 and not known:
        raise ValueError(
            "n_draws must be at least 1 unless law='gaussian' and "
            "calibration='exchangeable', where the risk of a pair is known; got 0."
        )
    if draws > 1 and not plain:
        raise ValueError(
            "n_draws must be None or 1 unless calibration='exchangeable', got "
            f"{draws!r} with {rule.name!r}."
        )
    return draws


def _as_pairs(differences: Any, random_state: Any) -> SampledPairs:
    rng = check_random_state(random_state, "random_state")
    if isinstance(differences, SampledPairs):
        return differences
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 2 or not values.size or np.isnan(values).any():
        raise ValueError(
            "differences must be a table of shape (n_pairs, n_outputs) without NaN, "
            f"got shape {values.shape}."
        )
    # A pair without an answer has none for any output.
    values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, np.inf)
    return SampledPairs(
        values,
        None,
        np.zeros(values.shape[1]),
        draw_seed=int.from_bytes(rng.bytes(16), "little"),
    )


def _fit_shape(
    shape: str | NoiseShape, target: Target, pairs: SampledPairs
) -> NoiseShape:
    """Return the shape of the noise, from pairs that calibrate nothing."""
    if not isinstance(shape, str):
        return shape
    if shape == "isotropic" or math.isinf(target.epsilon):
        return IsotropicShape()
    answered = np.flatnonzero(pairs.answered)
    if not answered.size:
        raise CalibrationError(
            "None of the sampled pairs that the shape of the noise is taken from could "
            f"be answered: {pairs.failure}.",
            target=target.gamma,
            best=1.0,
        )
    if answered.size < len(pairs):
        errors = None if pairs.errors is None else pairs.errors[answered]
        pairs = SampledPairs(pairs.differences[answered], errors, pairs.rounding)
    return fit_noise_shape(shape, pairs.differences, pairs.floor(slice(None)))
