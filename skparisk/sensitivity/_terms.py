"""How many pairs are drawn, and which shape their noise gets.

Nothing that is claimed rests on it: core calibrates to whatever pairs there are, and
any shape is right that is learned from other ones.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core import calibrate as core
from skparisk.core.calibrate import (
    CALIBRATIONS,
    CalibratedNoise,
    Exchangeable,
    Noise,
    Rule,
    Target,
    Terms,
)
from skparisk.core.checks import (
    CalibrationError,
    check_at_least,
    check_choice,
    check_random_state,
)
from skparisk.core.claim import Assumption, Certificate, Scope
from skparisk.core.laws import Law, as_law, row_norms
from skparisk.core.noise import AdditiveNoise, NoiseShape
from skparisk.core.pairs import SampledPairs
from skparisk.neighbors import count_databases
from skparisk.queries import Query
from skparisk.sensitivity._noise_shape import NOISE_SHAPES, fit_noise_shape

# More do not make the shape better.
MOST_SHAPE_PAIRS = 2048
# From fewer nothing is learned that is worth them.
_FEWEST_SHAPE_PAIRS = 16
# Pairs that calibrate, at the usual targets; and for any, in times the fewest.
_USUAL_PAIRS, _TIMES_FEWEST = 500, 5
# Databases with several neighbors each.
_USUAL_DATABASES = 200
# Above what rounding takes from a scale that is that of a pair.
_SLACK = 1 + 2.0**-20
# It is not tried whether more would do.
_MOST_FEWEST = 2**22

_GIVEN = "differences that the caller supplied"


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
    random_state: Any = None,
) -> tuple[Noise, Certificate]:
    """Return noise calibrated to given differences, and its certificate.

    Parameters
    ----------
    differences : array-like of shape (n_pairs, n_outputs), or SampledPairs
        Answer on the first database minus answer on the second, for independent,
        identically distributed or exchangeable pairs. Infinite without an answer.

    target : Target
        The request.

    law, shape, rule, relation
        As `law`, `noise_shape`, `calibration` and `relation` of
        :class:`~skparisk.SensitivitySampler`, but for the default "isotropic".

    n_records : int
        Records of a database, >= 1.

    reference : str
        Where the databases come from, for the certificate.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the draws of the noise that pairs are tried with, except for
        `SampledPairs`, which has its own seed.

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
    :ref:`thm-gaussian`, :ref:`thm-noise-shape`, :ref:`thm-advantage`). As on the
    certificate, on the caller's word that the differences come from such pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.core import Target
    >>> from skparisk.sensitivity import calibrate
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
    certificate = found.certify(
        n_records=n_records, relation=relation, reference=reference
    )
    return found.noise, certificate


def find_noise(
    pairs: SampledPairs, terms: Terms, query: Query | None = None
) -> CalibratedNoise:
    """Calibrate noise to sampled pairs, of the shape that is asked for.

    Errors name outputs as `query` does.
    """
    found = core.find_noise(pairs, settle(terms, pairs.n_outputs), _learn_shape)
    if isinstance(found.noise, AdditiveNoise) and found.noise.steps:
        _refuse_bare(found, pairs, query or Query())
    return found


def _refuse_bare(found: CalibratedNoise, pairs: SampledPairs, query: Query) -> None:
    """Refuse outputs that are hidden only from those who do not move them.

    They seldom move, and then most of the pairs are beyond the level by them alone:
    for those whom they are about, the noise is next to none.
    """
    noise, target = found.noise, found.terms.target
    assert isinstance(noise, AdditiveNoise)
    level = found.sensitivity / noise.noise_scale
    if target.randomness == Scope.PAIR_AND_NOISE and target.epsilon:
        level = min(level, target.epsilon)
    limits = level * _SLACK * noise.deviations() / noise.law.deviation
    n_moved, n_beyond = np.zeros((2, pairs.n_outputs), dtype=int)
    for sizes, moved in pairs.moves():
        n_moved += moved.sum(axis=0)
        n_beyond += (moved & (sizes > limits)).sum(axis=0)
    seldom = 2 * n_moved < np.count_nonzero(pairs.answered)
    bare = np.flatnonzero(seldom & (2 * n_beyond > n_moved) & (limits > 0))
    if not bare.size:
        return
    first = bare[0]
    others = f", as do {bare.size - 1} other outputs" if bare.size > 1 else ""
    raise CalibrationError(
        f"{query.output_name(first)} differs in {n_moved[first]} of {len(pairs)} "
        f"sampled pairs, and in most of these by more than its noise hides{others}. "
        "Like a maximum, it depends on a few people, whom the noise would not protect: "
        f"{query.if_bare}.",
        target=target.gamma,
        best=1.0,
    )


def _learn_shape(pairs: SampledPairs, terms: Terms) -> NoiseShape:
    """Return the shape of the noise, from pairs that calibrate nothing."""
    answered = np.flatnonzero(pairs.answered)
    if answered.size < 2:  # more are missing than a risk allows, if that is not near 1
        return NoiseShape(np.ones(pairs.n_outputs))
    differences, floor = pairs.differences[answered], pairs.floor
    name = str(terms.shape)
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
            costs[name] = np.quantile(lengths, 1 - terms.target.gamma) ** 2
            # Else errors count in the outputs' own scales, to which both add the same.
            if pairs.weights is not None:
                factor = shape.color(np.eye(pairs.n_outputs)) / largest
                costs[name] *= np.sum((factor @ pairs.weights) * factor)
    return min(costs, key=costs.__getitem__)


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
        known = differences.assumptions | {Assumption.GIVEN_PAIRS}
        return replace(differences, assumptions=known)
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


def as_rule(calibration: Any, n_neighbors: int = 1) -> Rule:
    """Return the rule of a name, or a given one, for several neighbors as well."""
    rule: Rule = calibration
    if type(rule) not in CALIBRATIONS.values():
        rule = CALIBRATIONS[check_choice(calibration, "calibration", CALIBRATIONS)]()
    if rule == Exchangeable():
        return Exchangeable(n_neighbors)
    if rule.n_neighbors != n_neighbors:
        raise ValueError(
            f"neighbors_per_database must be {rule.n_neighbors} with calibration="
            f"{rule!r}, because pairs of one database are not independent; got "
            f"{n_neighbors}."
        )
    return rule


def agree(
    n_pairs: int | str,
    target: Target,
    *,
    law: Any,
    shape: Any,
    rule: Any,
    n_neighbors: Any = 1,
) -> Terms:
    """Check that all of these go together, before anything is drawn.

    With "auto" for `n_pairs`, as many as they need. Of databases with several neighbors
    each, what is exchangeable is a database with all of them.
    """
    law = as_law(law)
    if not isinstance(shape, NoiseShape):
        check_choice(shape, "noise_shape", (*NOISE_SHAPES, "auto"))
    r = check_at_least(n_neighbors, "neighbors_per_database", 1)
    terms = Terms(target, law, shape, as_rule(rule, r), 1)
    learned = shape in NOISE_SHAPES[1:] and not math.isinf(target.epsilon)
    if isinstance(n_pairs, str):
        check_choice(n_pairs, "n_pairs", ("auto",))
        n = _enough_databases(terms, learned or (shape == "auto" and _may_learn(terms)))
    else:
        least = (4 if r == 1 else 2 * r) if learned else r
        n = count_databases(n_pairs, r, least)
    n_shape = _for_shape(n, r) if learned else 0
    terms = replace(terms, n_databases=n, n_shape=n_shape)
    try:
        terms.order_index  # noqa: B018  raises an error for too few
    except CalibrationError as error:
        if not n_shape and r == 1:
            raise
        words, needed = f"{error}", terms.fewest
        if r > 1:
            words += f" Pairs of one database, {r} here, count as one"
        if n_shape:
            needed = _with_shape(needed, r)
            words += (
                f" Of the n_pairs={n_pairs} pairs, noise_shape={shape!r} uses "
                f"{n_shape * r}"
            )
        raise CalibrationError(
            f"{words}: it needs n_pairs >= {needed * r} in all.",
            target=error.target,
            best=error.best,
        ) from error
    return terms


def settle(terms: Terms, n_outputs: int) -> Terms:
    """Return the terms for so many outputs, with pairs for "auto" to learn from.

    Until it is known how many there are, "auto" takes the shape from none. It takes as
    many as the target leaves, if these are not too few.
    """
    if terms.shape != "auto" or terms.n_shape:
        return terms
    n, r = terms.n_databases, terms.n_neighbors
    if n_outputs > 1 and _may_learn(terms):
        n_shape, fewest = _for_shape(n, r), terms.fewest
        while n - n_shape < fewest and n_shape:
            n_shape //= 2
        if n_shape * r >= _FEWEST_SHAPE_PAIRS:
            return replace(terms, n_shape=n_shape)
    return replace(terms, shape="isotropic")


def _for_shape(n_databases: int, n_neighbors: int) -> int:
    """Return how many databases the shape is learned from."""
    part, most = _shape_takes(n_neighbors)
    return min(max(n_databases // part, 1), most)


def _with_shape(n_calibrating: int, n_neighbors: int) -> int:
    """Return how many databases leave so many to calibrate with."""
    part, most = _shape_takes(n_neighbors)
    return n_calibrating + min(-(-n_calibrating // (part - 1)), most)


def _shape_takes(n_neighbors: int) -> tuple[int, int]:
    """Return one of how many databases tells the shape, and how many do at most."""
    return 2 if n_neighbors == 1 else 5, max(1, MOST_SHAPE_PAIRS // n_neighbors)


def _may_learn(terms: Terms) -> bool:
    """Tell if there is noise that a shape could be learned for."""
    return not (terms.law.chooses or math.isinf(terms.target.epsilon))


def _enough_databases(terms: Terms, learns: bool) -> int:
    """Return how many databases calibrate without much more noise than is needed.

    And those that a shape is learned from.
    """
    r, fewest = terms.n_neighbors, terms.fewest
    if fewest > _MOST_FEWEST:
        raise CalibrationError(
            f"n_pairs='auto' takes {_MOST_FEWEST} pairs at the most to be enough, and "
            f"calibration={terms.rule.name!r} needs {fewest} for "
            f"gamma={terms.target.gamma!r}: choose a larger gamma, or give n_pairs.",
            target=terms.target.gamma,
            best=1.0,
        )
    usual = _USUAL_PAIRS if r == 1 else _USUAL_DATABASES
    n = max(usual, _TIMES_FEWEST * fewest)
    if learns:
        return _with_shape(n, r)
    return max(n, 2 * _USUAL_PAIRS) if r == 1 else n
