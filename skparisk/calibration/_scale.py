"""The noise scale, and what it certifies, for each thing that a risk may be over."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.calibration._drawn import drawn_levels, drawn_scales
from skparisk.calibration._order import (
    control_risk,
    order_curve,
    order_statistic,
    risk_curve,
    scale_below,
)
from skparisk.calibration._pairs import SampledPairs
from skparisk.calibration._terms import Terms
from skparisk.core import rounding as grid
from skparisk.mechanisms import NoiseShape

_Floats = NDArray[np.float64]


class Found(NamedTuple):
    """What is certified, by a noise scale that must have so many steps of the grid.

    At the scale `below` all else is read off the pairs; 0 where there is none.
    """

    risk: float
    order_index: int | None
    scale: float = 0.0
    steps: int = 0
    curve: NDArray[np.float64] | None = None
    below: float = 0.0


def find_scale(
    pairs: SampledPairs, distances: _Floats, terms: Terms, shape: NoiseShape
) -> Found:
    """Return the least noise scale that keeps the target, for pairs of such distances.

    0 where an infinite level asks for none.
    """
    if math.isinf(terms.target.epsilon):
        if terms.averages:
            return Found(terms.risk, None)
        index = terms.order_index
        return Found(terms.rule.certify_risk(pairs.n_databases, index), index)
    if terms.target.advantage is not None:
        return _by_advantage(pairs, distances, terms, terms.target.advantage)
    if terms.target.randomness == "implicit":
        return _for_all_outputs(pairs, distances, terms)
    if terms.averages:
        return _by_exact_risks(pairs, distances, terms)
    return _by_draws(pairs, terms, shape)


def _for_all_outputs(pairs: SampledPairs, distances: _Floats, terms: Terms) -> Found:
    """Find the scale from which on all but a share of pairs keep the level."""
    target, law, n_outputs = terms.target, terms.law, pairs.n_outputs
    unit, steps = law.unit_noise(target.epsilon, target.delta, n_outputs)

    def levels(scale: float) -> _Floats:
        shifts = distances / scale
        return law.levels(shifts, target.epsilon, target.delta, n_outputs=n_outputs)

    scales = np.sort(distances * unit)
    return _order(pairs, scales, terms, steps, levels)


def _by_draws(pairs: SampledPairs, terms: Terms, shape: NoiseShape) -> Found:
    """Find the scale from which on all but a share of the draws keep the level."""
    epsilon, law = terms.target.epsilon, terms.law
    steps = law.drawn_steps(epsilon, pairs.n_outputs)

    def levels(scale: float) -> _Floats:
        return drawn_levels(pairs, scale, epsilon, law, shape)

    scales = np.sort(drawn_scales(pairs, epsilon, law, shape))
    return _order(pairs, scales, terms, steps, levels)


def _order(
    pairs: SampledPairs,
    scales: _Floats,
    terms: Terms,
    steps: int,
    levels: Callable[[float], _Floats],
) -> Found:
    n_databases, rule, index = pairs.n_databases, terms.rule, terms.order_index
    scale = order_statistic(
        scales,
        index,
        rule,
        n_databases=n_databases,
        n_pairs=len(pairs),
        gamma=terms.target.gamma,
        n_still=pairs.count_still(),
    )
    below = scale_below(scales, index, n_databases)
    curve = order_curve(below, rule, n_databases=n_databases, levels=levels)
    risk = rule.certify_risk(n_databases, index)
    return Found(risk, index, scale, steps, curve, below)


def _by_exact_risks(pairs: SampledPairs, distances: _Floats, terms: Terms) -> Found:
    """Find the scale at which the risk over the noise, averaged over pairs, is met."""
    target, law, n_outputs = terms.target, terms.law, pairs.n_outputs
    steps = law.risk_steps(target.epsilon, terms.risk, n_outputs)

    def risks(scale: float, levels: ArrayLike) -> _Floats:
        return law.pair_risks(
            distances, scale, levels, n_outputs=n_outputs, steps=steps
        )

    scale, below = control_risk(
        lambda scale: risks(scale, target.epsilon),
        distances,
        gamma=terms.risk,
        n_still=pairs.count_still(),
        n_neighbors=pairs.n_neighbors,
        asked=target.gamma,
    )
    curve = risk_curve(
        risks,
        below,
        epsilon=target.epsilon,
        n_pairs=len(pairs),
        n_neighbors=pairs.n_neighbors,
    )
    return Found(terms.risk, None, scale, steps, curve, below)


def _by_advantage(
    pairs: SampledPairs, distances: _Floats, terms: Terms, asked: float
) -> Found:
    """Find the scale at which attackers gain so much, on average over pairs."""
    law, n_outputs = terms.law, pairs.n_outputs
    if not law.knows_advantage(n_outputs):
        raise ValueError(
            f"advantage must be None with law={law.name!r} and {n_outputs} outputs, "
            f"for which its loss is not bounded and does not compose; got {asked!r}."
        )
    steps = grid.advantage_steps(asked, n_outputs, pairs.n_databases)

    def gains(scale: float) -> _Floats:
        return law.advantage(distances / scale, n_outputs=n_outputs, steps=steps)

    scale, below = control_risk(
        gains,
        distances,
        gamma=asked,
        n_still=pairs.count_still(),
        n_neighbors=pairs.n_neighbors,
        name="advantage",
    )
    return Found(asked, None, scale, steps, below=below)
