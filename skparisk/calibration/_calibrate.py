"""From differences of a query on sampled pairs to noise, and what it guarantees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.calibration._attackers import measure_advantage
from skparisk.calibration._margin import margin_of
from skparisk.calibration._moves import LargestMove, largest_loss
from skparisk.calibration._order import with_own_level
from skparisk.calibration._pairs import SampledPairs, norms_of_pairs
from skparisk.calibration._rules import Rule
from skparisk.calibration._scale import Found, find_scale
from skparisk.calibration._target import Target
from skparisk.calibration._terms import Terms, agree
from skparisk.certificate import Certificate, DominatingLoss, Evidence
from skparisk.certificate._claim import THIN
from skparisk.core.checks import check_random_state, check_relation
from skparisk.core.exceptions import CalibrationError
from skparisk.core.laws import NORMS, Law, is_ours, row_norms
from skparisk.mechanisms import (
    AdditiveNoise,
    DiagonalShape,
    ExponentialChoice,
    IsotropicShape,
    NoiseShape,
    fit_noise_shape,
)
from skparisk.mechanisms._shapes import Constant, PartialShape, check_n_outputs

Noise = AdditiveNoise | ExponentialChoice

_GIVEN = "differences that the caller supplied"
_GIVEN_DIFFERENCES = (
    "The differences were supplied by the caller, and it has not been checked that "
    "they are those of independent pairs of neighboring databases."
)
_GIVEN_SHAPE = (
    "The shape of the noise was supplied by the caller, who says that it does not "
    "depend on the private data."
)
# Outputs over the level, for which the grid is next to nothing.
_FINE_GRID = 2.0**30
# Above what rounding takes from a scale that is that of a pair.
_SLACK = 1 + 2.0**-20
# A noise scale that is too small for a fine grid.
_COARSE_SCALE = 2.0**-960


def calibrate(
    differences: ArrayLike | SampledPairs,
    target: Target,
    *,
    law: str | Law = "laplace",
    shape: str | NoiseShape = "isotropic",
    rule: str | Rule = "exchangeable",
    n_records: int,
    relation: str = "replace-one",
    reference: str | None = _GIVEN,
    for_new_people: str | None = None,
    provisos: tuple[str, ...] = (),
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

    shape : {"isotropic", "diagonal", "whitened", "auto"} or NoiseShape, \
default="isotropic"
        How much noise each direction of the answer gets. "diagonal" and "whitened" take
        half of the pairs to learn it (2048 at the most); "auto" is as for
        :class:`~skparisk.SensitivitySampler`.

    rule : {"exchangeable", "pac", "dkw"} or Rule, default="exchangeable"
        Which order statistic of the pairs is used.

    n_records : int
        Records of a database, >= 1.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        How the databases of a pair differ.

    reference, for_new_people : str
        Where the databases come from, for the certificate; and what a risk over
        resamples of a table means for new people.

    provisos : tuple of str
        What the guarantee rests on besides, and besides the differences.

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
    :ref:`thm-gaussian`, :ref:`thm-noise-shape`, :ref:`thm-advantage`). What the
    certificate says.

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
    terms = agree(
        len(pairs),
        target,
        law=law,
        shape=shape,
        rule=rule,
        n_neighbors=pairs.n_neighbors,
    )
    found = find_noise(pairs, terms)
    thin = (THIN,) if pairs.lacks_tail(terms.target.gamma) else ()
    certificate = found.certify(
        n_records=n_records,
        relation=check_relation(relation),
        reference=reference,
        for_new_people=for_new_people,
        provisos=(_GIVEN_DIFFERENCES, *pairs.provisos, *thin, *provisos),
        made_up=pairs.made_up,
    )
    return found.noise, certificate


class CalibratedNoise(NamedTuple):
    """Noise for sampled pairs, and what its certificate is read off."""

    noise: Noise
    terms: Terms
    # Those that calibrate, and how far apart they are in the coordinates of the noise.
    pairs: SampledPairs
    distances: NDArray[np.float64]
    sensitivity: float
    shape: NoiseShape
    found: Found
    move: LargestMove | None
    constant: Constant | None
    margin: float

    def certify(
        self,
        *,
        n_records: int,
        relation: str,
        reference: str | None,
        for_new_people: str | None,
        provisos: tuple[str, ...],
        leaks: Sequence[str] = (),
        made_up: bool = False,
    ) -> Certificate:
        """Return what the noise guarantees; the parameters are those of `calibrate`."""
        pairs, terms, found, shape = self.pairs, self.terms, self.found, self.shape
        target, law, rule = terms.target, terms.law, terms.rule
        noise_scale, curve = self.noise.noise_scale, found.curve
        if target.randomness == "both":
            curve = with_own_level(curve, target.epsilon, found.risk)
        evidence = Evidence(
            gamma=target.gamma,
            sensitivity=self.sensitivity,
            noise_scale=noise_scale,
            n_records=n_records,
            n_outputs=pairs.n_outputs,
            margin=self.margin,
            made_up=made_up,
            n_constant=0 if self.constant is None else len(self.constant.outputs),
            calibration=rule.name,
            law=law.name,
            norm=NORMS[law.norm],
            n_pairs=len(pairs),
            order_index=found.order_index,
            n_neighbors=pairs.n_neighbors,
            n_unanswered=int(np.count_nonzero(~pairs.answered)),
            noise_shape=shape.name,
            n_shape_pairs=terms.n_shape_pairs or None,
            reference=reference,
            for_new_people=for_new_people,
            advantage=measure_advantage(
                self.distances,
                self.sensitivity,
                noise_scale,
                found=found,
                terms=terms,
                n_outputs=pairs.n_outputs,
            ),
            worst_loss=largest_loss(self.move, law, shape, noise_scale, target.epsilon),
            curve=curve,
        )
        ours = isinstance(terms.shape, str) or type(shape) is IsotropicShape
        given_shape = () if ours else (_GIVEN_SHAPE,)
        return Certificate(
            target.epsilon,
            0.0 if target.randomness == "both" else target.delta,
            found.risk,
            rule.failure_prob,
            randomness=target.randomness,
            relation=relation,
            loss=dominating_loss(target, law, evidence),
            post_processed=target.advantage is not None,  # nothing raises it any more
            leaks=tuple(leaks),
            provisos=(*given_shape, *provisos),
            evidence=evidence,
        )


def find_noise(
    pairs: SampledPairs,
    terms: Terms,
    name_of: Callable[[int], str] = "Output {} (counted from 0)".format,
) -> CalibratedNoise:
    """Calibrate noise to sampled pairs, on terms that have been agreed.

    `name_of` returns what errors call an output.
    """
    terms = terms.settled(pairs.n_outputs).for_rows(pairs.n_independent)
    if not isinstance(terms.shape, str):
        check_n_outputs(terms.shape, pairs.n_outputs)
    shape = _fit_shape(terms, pairs)
    move, constant, sampled = pairs.largest_move, pairs.constant, pairs
    pairs = pairs.after(terms.n_shape)
    distances = norms_of_pairs(pairs, shape, terms.law)
    sensitivity = float(np.sort(distances)[terms.order_index - 1])
    try:
        with np.errstate(over="ignore"):  # pairs may be infinitely far apart in scales
            found = find_scale(pairs, distances, terms, shape)
    except CalibrationError as error:
        if pairs.failure is None:
            raise
        raise CalibrationError(
            f"{error} The reason for the missing answers: {pairs.failure}.",
            target=error.target,
            best=error.best,
        ) from error
    margin = 1.0
    asked = terms.target.randomness == "implicit"
    if asked and sampled.halves and min(sensitivity, found.scale) > 0:
        halves = [norms_of_pairs(half, shape, terms.law) for half in sampled.halves]
        margin = margin_of(distances, halves, terms.order_index, terms.target.gamma)
    if terms.law.chooses or not found.scale:  # or nothing is to be protected
        constant = None
    given = shape if constant is None else PartialShape(shape, constant)
    scale = found.scale * margin
    noise = _make_noise(terms.law, scale, found.steps, pairs.n_outputs, given)
    if isinstance(noise, AdditiveNoise) and noise.steps:
        level = sensitivity / noise.noise_scale
        if terms.target.randomness == "both" and terms.target.epsilon:
            level = min(level, terms.target.epsilon)
        limits = level * _SLACK * noise.deviations() / terms.law.deviation
        _refuse_bare(sampled, limits, name_of, terms.target.gamma)
    return CalibratedNoise(
        noise,
        terms,
        pairs,
        distances,
        sensitivity,
        shape,
        found,
        move,
        constant,
        margin,
    )


def _refuse_bare(
    pairs: SampledPairs,
    limits: NDArray[np.float64],
    name_of: Callable[[int], str],
    gamma: float,
) -> None:
    """Refuse outputs that are hidden only from those who do not move them.

    They seldom move, and then most of the pairs are beyond the level by them alone:
    for those whom they are about, the noise is next to none.
    """
    n_moved, n_beyond = np.zeros((2, pairs.n_outputs), dtype=int)
    answered = pairs.answered
    for rows in pairs.blocks():
        some = np.flatnonzero(answered[rows]) + rows.start
        sizes = np.abs(pairs.differences[some])
        moved = sizes > pairs.floor(some)
        n_moved += moved.sum(axis=0)
        n_beyond += (moved & (sizes > limits)).sum(axis=0)
    seldom = 2 * n_moved < np.count_nonzero(answered)
    bare = np.flatnonzero(seldom & (2 * n_beyond > n_moved) & (limits > 0))
    if not bare.size:
        return
    first = bare[0]
    others = f", as do {bare.size - 1} other outputs" if bare.size > 1 else ""
    raise CalibrationError(
        f"{name_of(first)} differs in {n_moved[first]} of {len(pairs)} sampled pairs, "
        f"and in most of these by more than its noise hides{others}. Like a maximum, "
        "it depends on a few people, whom the noise would not protect: leave it out, "
        "or ask for a number that many people have a part in, such as the 95th "
        "percentile.",
        target=gamma,
        best=1.0,
    )


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

    Where the noise has a fine grid.
    """
    if target.randomness == "both" or not law.composes(evidence.n_outputs):
        return None
    fine = evidence.n_outputs / target.epsilon <= _FINE_GRID
    if not fine or evidence.noise_scale < _COARSE_SCALE:
        return None
    shift = evidence.sensitivity / evidence.noise_scale
    if law.bounded:  # whose largest loss is the level, but for rounding
        shift = max(shift, target.epsilon)
    known = law.name if is_ours(law) else law  # however its scale was calibrated
    return DominatingLoss.on_grid(known, shift, target.epsilon)


def _as_pairs(differences: Any, random_state: Any) -> SampledPairs:
    rng = check_random_state(random_state, "random_state")
    if isinstance(differences, SampledPairs):
        finite = np.isfinite(differences.differences)
        if (
            not (np.isinf(differences.differences) | finite).all()
            or not (finite.all(axis=1) == finite.any(axis=1)).all()
        ):
            raise ValueError(
                "differences of SampledPairs must be without NaN, and all of a pair "
                "finite, or all infinite."
            )
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


def _fit_shape(terms: Terms, pairs: SampledPairs) -> NoiseShape:
    """Return the shape of the noise, from pairs that calibrate nothing."""
    if not isinstance(terms.shape, str):
        return terms.shape
    if not terms.n_shape_pairs:
        return IsotropicShape()
    answered = np.flatnonzero(pairs.answered[: terms.n_shape_pairs])
    if answered.size < 2:  # more are missing than a risk allows, if that is not near 1
        return DiagonalShape(np.ones(pairs.n_outputs))
    differences, floor = pairs.differences[answered], pairs.floor(answered)
    name = terms.shape
    if name == "auto":
        name = _cheapest(terms, differences, pairs)
    return fit_noise_shape(name, differences, floor, pairs.weights, pairs.n_independent)


def _cheapest(
    terms: Terms,
    differences: NDArray[np.float64],
    pairs: SampledPairs,
) -> str:
    """Return the shape with which noise costs least, learned from half of these pairs.

    It is tried on the other half: moves of few outputs at a time, as those of counts,
    are longer in coordinates that mix them.
    """
    half = len(differences) // 2
    largest = np.abs(differences).max()
    costs = {}
    with np.errstate(all="ignore"):
        for name in ("whitened", "diagonal"):
            shape = fit_noise_shape(
                name,
                differences[:half],
                weights=pairs.weights,
                n_independent=pairs.n_independent,
            )
            lengths = row_norms(shape.whiten(differences[half:]), terms.law.norm)
            longest = np.quantile(lengths, 1 - terms.target.gamma)
            costs[name] = longest**2 * noise_cost(shape, pairs.weights, largest)
    return min(costs, key=costs.__getitem__)


def noise_cost(
    shape: NoiseShape, weights: NDArray[np.float64] | None, unit: float
) -> float:
    """Return what noise of this shape costs in what outputs are for, in a unit of them.

    1 where that is not known: errors then count in the outputs' own scales, to which
    all learned shapes add the same.
    """
    if weights is None:
        return 1.0
    factor = shape.color(np.eye(len(weights))) / unit
    return float(np.sum((factor @ weights) * factor))
