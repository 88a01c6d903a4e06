"""The risk over pair and noise together: each pair is tried with draws of the noise.

Dandekar, Definition 5. The draws follow from the seed of the pairs, and are made when
they are used. Differences, and the errors that they may be off by, are in units of the
answer, and mapped to the coordinates of the shape of the noise block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skparisk.calibration._pairs import CHUNK, SampledPairs
from skparisk.laws import Law
from skparisk.laws import _grid as grid
from skparisk.mechanisms import NoiseShape

_Floats = NDArray[np.float64]

# Shares of the level that may pay for differences that are off, where they are.
_ERRORS_SHARES = (2.0**-16, 2.0**-8, 2.0**-6, 2.0**-4)


def drawn_scales(
    pairs: SampledPairs, epsilon: float, law: Law, shape: NoiseShape, n_draws: int
) -> _Floats:
    """Return the critical scale of each draw of the noise, for each pair.

    Where differences may be off, a share of the level pays for it.
    """
    level = grid.below(epsilon)

    def scales(differences: _Floats, noise: _Floats, errors: _Floats | None) -> _Floats:
        if errors is None:
            return law.critical_scales(differences, noise, level)
        linear, square = law.off_by(errors, differences, noise)
        least = np.full(len(differences), np.inf)
        for share in _ERRORS_SHARES:  # each is safe, and so is the least of them
            paid = share * level
            # Where square s**2 + linear s, of s = 1 / scale, is what is paid.
            root = np.hypot(linear, 2 * np.sqrt(square) * math.sqrt(paid))
            enough = (linear + root) / (2 * paid)
            kept = law.critical_scales(differences, noise, level * (1 - share))
            least = np.minimum(least, np.maximum(kept, enough))
            if (enough <= kept).all():
                break
        return least

    return _for_each_draw(scales, pairs, law, shape, n_draws)


def drawn_levels(
    pairs: SampledPairs,
    scale: float,
    epsilon: float,
    law: Law,
    shape: NoiseShape,
    n_draws: int,
) -> _Floats:
    """Return the least levels that each draw keeps from that scale on, rounded up.

    On the grid of noise that was calibrated to `epsilon`.
    """

    def losses(differences: _Floats, noise: _Floats, errors: _Floats | None) -> _Floats:
        loss = law.peak_losses(differences, noise, scale)
        if errors is None:
            return loss
        linear, square = law.off_by(errors, differences, noise)
        return np.asarray(loss + linear / scale + square / scale / scale)

    return grid.with_grid(_for_each_draw(losses, pairs, law, shape, n_draws), epsilon)


def _for_each_draw(
    evaluate: Callable[[_Floats, _Floats, _Floats | None], _Floats],
    pairs: SampledPairs,
    law: Law,
    shape: NoiseShape,
    n_draws: int,
) -> _Floats:
    """Return what a function of differences, noise and errors is for each draw.

    Infinite for pairs without an answer, whose differences are, and where the noise
    is too far out for the grid to be paid for.
    """
    rng = np.random.default_rng(pairs.draw_seed)
    n_pairs, n_outputs = pairs.differences.shape
    step = max(1, CHUNK // (n_outputs * n_draws))
    found = np.full((n_pairs, n_draws), np.inf)
    for start in range(0, n_pairs, step):
        rows = np.arange(start, min(start + step, n_pairs))
        noise = law.standard_noise(rng, (len(rows), n_draws, n_outputs))
        near = np.abs(noise).max(axis=2) <= grid.FARTHEST_DRAW
        near &= np.isfinite(pairs.differences[rows, :1])
        some, draws = np.nonzero(near)
        block = shape.whiten(pairs.differences[rows[some]])
        errors = None
        if pairs.errors is not None:
            errors = shape.whiten_errors(pairs.errors[rows[some]])
        found[rows[some], draws] = evaluate(block, noise[near], errors)
    return found.ravel()
