"""How many pairs are drawn, and which shape their noise gets.

Nothing that is claimed rests on it: core calibrates to whatever pairs there are, and
any shape is right that is learned from other ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core import calibrate as core
from skparisk.core.calibrate import (
    CalibratedNoise,
    Noise,
    Rule,
    Target,
    Terms,
    as_rule,
)
from skparisk.core.checks import (
    CalibrationError,
    check_at_least,
    check_choice,
    check_random_state,
)
from skparisk.core.claim import Assumption, Certificate
from skparisk.core.laws import Law, as_law, row_norms
from skparisk.core.noise import (
    NoiseShape,
)
from skparisk.core.pairs import SampledPairs
from skparisk.sensitivity._noise_shape import NOISE_SHAPES, fit_noise_shape

# More do not make the shape better.
MOST_SHAPE_PAIRS = 2048
# From fewer nothing is learned that is worth them.
_FEWEST_SHAPE_PAIRS = 16
# Pairs that calibrate, at the usual targets; and for any, in times the fewest.
_USUAL_PAIRS, _TIMES_FEWEST = 500, 5
# Databases with several neighbors each.
_USUAL_DATABASES = 200
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
    """Return noise that is calibrated to given differences, and its certificate.

    Parameters
    ----------
    differences : array-like of shape (n_pairs, n_outputs), or SampledPairs
        Answer on the first database minus answer on the second, for pairs that are
        independent and alike, or exchangeable. Infinite without an answer.

    target : Target
        What is asked for.

    law : {"laplace", "gaussian", "exponential"} or Law, default="laplace"
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

    reference : str
        Where the databases come from, for the certificate.

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
    certificate says, on the caller's word that the differences are those of such pairs.

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
        n_records=n_records,
        relation=relation,
        reference=reference,
        assumptions=[Assumption.GIVEN_PAIRS],
    )
    return found.noise, certificate


def find_noise(
    pairs: SampledPairs,
    terms: Terms,
    name_of: Callable[[int], str] = "Output {} (counted from 0)".format,
) -> CalibratedNoise:
    """Calibrate noise to sampled pairs, of the shape that is asked for.

    `name_of` returns what errors call an output.
    """
    settled = settle(terms, pairs.n_outputs)
    return core.find_noise(pairs, settled, learn=_learn_shape, name_of=name_of)


def _learn_shape(pairs: SampledPairs, terms: Terms) -> NoiseShape:
    """Return the shape of the noise, from pairs that calibrate nothing."""
    answered = np.flatnonzero(pairs.answered)
    if answered.size < 2:  # more are missing than a risk allows, if that is not near 1
        return NoiseShape(np.ones(pairs.n_outputs))
    differences, floor = pairs.differences[answered], pairs.floor(answered)
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
    law, shape, rule = as_law(law), as_shape(shape), as_rule(rule)
    check_at_least(n_neighbors, "neighbors_per_database", 1)
    rule, averages = core.check_terms(target, law, shape, rule, n_neighbors)
    learned = isinstance(shape, str) and shape not in ("auto", "isotropic")
    learned &= not math.isinf(target.epsilon)
    learns = learned or (shape == "auto" and _may_learn(target, law))
    if isinstance(n_pairs, str):
        check_choice(n_pairs, "n_pairs", ("auto",))
        n = _enough_databases(target, rule, averages, n_neighbors, learns)
    else:
        least = (4 if n_neighbors == 1 else 2 * n_neighbors) if learned else n_neighbors
        n = check_at_least(n_pairs, "n_pairs", least) // n_neighbors
        if n * n_neighbors != n_pairs:
            raise ValueError(
                f"n_pairs must be a multiple of neighbors_per_database={n_neighbors}, "
                f"got {n_pairs!r}."
            )
    n_shape = _for_shape(n, n_neighbors) if learned else 0
    n_left = n - n_shape
    try:
        core.order_index(n_left, target, rule, averages)
    except CalibrationError as error:
        if not n_shape and n_neighbors == 1:
            raise
        fewest = _fewest_pairs(target, rule, averages)
        words, needed = f"{error}", fewest
        if n_neighbors > 1:
            words += f" Pairs of one database, {n_neighbors} here, count as one"
        if n_shape:
            needed = _with_shape(fewest, n_neighbors)
            words += (
                f" Of the n_pairs={n_pairs} pairs, noise_shape={shape!r} uses "
                f"{n_shape * n_neighbors}"
            )
        raise CalibrationError(
            f"{words}: it needs n_pairs >= {needed * n_neighbors} in all.",
            target=error.target,
            best=error.best,
        ) from error
    return Terms.of(
        target, law, shape, rule, n, n_shape=n_shape, n_neighbors=n_neighbors
    )


def settle(terms: Terms, n_outputs: int) -> Terms:
    """Return the terms for so many outputs, with pairs for "auto" to learn from.

    Until it is known how many there are, "auto" takes the shape from none.
    """
    if terms.shape != "auto" or terms.n_shape:
        return terms
    if n_outputs > 1 and _may_learn(terms.target, terms.law):
        for learned in _learned(terms):
            return learned
    return terms._replace(shape="isotropic")


def _learned(terms: Terms) -> Iterator[Terms]:
    """Yield terms with pairs for a shape, as many as the target leaves, if any."""
    r = terms.n_neighbors
    n_shape = _for_shape(terms.n_databases, r)
    while n_shape * r >= _FEWEST_SHAPE_PAIRS and n_shape:
        n_left = terms.n_databases - n_shape
        asked = terms.target, terms.rule, terms.averages
        index = _index_if_any(n_left, *asked)
        if index is not None:
            yield terms._replace(n_shape=n_shape, order_index=index)
            return
        n_shape //= 2


def as_shape(shape: Any) -> str | NoiseShape:
    """Return the name of a shape that is learned from pairs, or one that is given."""
    if isinstance(shape, NoiseShape):
        return shape
    return check_choice(shape, "noise_shape", (*NOISE_SHAPES, "auto"))


def _for_shape(n_databases: int, n_neighbors: int) -> int:
    """Return how many databases the shape is learned from."""
    if n_neighbors == 1:
        return min(n_databases // 2, MOST_SHAPE_PAIRS)
    # Neighbors tell of it as well, and few databases are few to calibrate with.
    most = max(1, MOST_SHAPE_PAIRS // n_neighbors)
    return min(max(n_databases // 5, 1), most)


def _with_shape(n_calibrating: int, n_neighbors: int) -> int:
    """Return how many databases leave so many to calibrate with."""
    if n_neighbors == 1:
        return n_calibrating + min(n_calibrating, MOST_SHAPE_PAIRS)
    n = n_calibrating + -(-n_calibrating // 4)
    return min(n, n_calibrating + max(1, MOST_SHAPE_PAIRS // n_neighbors))


def _may_learn(target: Target, law: Law) -> bool:
    """Tell if there is noise that a shape could be learned for."""
    return not (law.chooses or math.isinf(target.epsilon))


def _index_if_any(n_pairs: int, *asked: Any) -> int | None:
    """Return which distance counts, or None if so many pairs are not enough."""
    try:
        return core.order_index(n_pairs, *asked)
    except CalibrationError:
        return None


def _enough_databases(
    target: Target, rule: Rule, averages: bool, n_neighbors: int, learns: bool
) -> int:
    """Return how many databases calibrate without much more noise than is needed.

    And those that a shape is learned from.
    """
    usual = _USUAL_PAIRS if n_neighbors == 1 else _USUAL_DATABASES
    n = usual
    if _index_if_any(usual // _TIMES_FEWEST, target, rule, averages) is None:
        n = max(usual, _TIMES_FEWEST * _fewest_pairs(target, rule, averages))
    if learns:
        return _with_shape(n, n_neighbors)
    return max(n, 2 * _USUAL_PAIRS) if n_neighbors == 1 else n


def _fewest_pairs(target: Target, rule: Rule, averages: bool) -> int:
    """Return the fewest pairs that are enough for the target."""
    low, high = 0, 1
    while _index_if_any(high, target, rule, averages) is None:
        low, high = high, 2 * high
        if high > _MOST_FEWEST:
            raise CalibrationError(
                f"n_pairs='auto' tried {low} pairs, and calibration={rule.name!r} "
                f"certifies no gamma={target.gamma!r} with these: choose a larger "
                "gamma, or give n_pairs.",
                target=target.gamma,
                best=1.0,
            )
    while high - low > 1:
        middle = (low + high) // 2
        if _index_if_any(middle, target, rule, averages) is None:
            low = middle
        else:
            high = middle
    return high
