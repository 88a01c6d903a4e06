"""The risk over pair and noise together: each pair is tried with a draw of the noise.

Dandekar, Definition 5. The draws follow from the seed of the pairs, and are made when
they are used. Differences, and the errors that they may be off by, are in units of the
answer, and mapped to the coordinates of the shape of the noise block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skparisk.calibration._pairs import SampledPairs
from skparisk.core import rounding as grid
from skparisk.core.laws import Law
from skparisk.mechanisms import NoiseShape

_Floats = NDArray[np.float64]

# Shares of the level that may pay for differences that are off, where they are.
_ERRORS_SHARES = (2.0**-16, 2.0**-8, 2.0**-6, 2.0**-4)


def drawn_scales(
    pairs: SampledPairs, epsilon: float, law: Law, shape: NoiseShape
) -> _Floats:
    """Return the critical scale of each pair, at a draw of the noise.

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

    return _for_each_pair(scales, pairs, law, shape)


def drawn_levels(
    pairs: SampledPairs,
    scale: float,
    epsilon: float,
    law: Law,
    shape: NoiseShape,
) -> _Floats:
    """Return the least levels that each pair keeps from that scale on, rounded up.

    On the grid of noise that was calibrated to `epsilon`.
    """

    def losses(differences: _Floats, noise: _Floats, errors: _Floats | None) -> _Floats:
        loss = law.peak_losses(differences, noise, scale)
        if errors is None:
            return loss
        linear, square = law.off_by(errors, differences, noise)
        return np.asarray(loss + linear / scale + square / scale / scale)

    return grid.with_grid(_for_each_pair(losses, pairs, law, shape), epsilon)


def _for_each_pair(
    evaluate: Callable[[_Floats, _Floats, _Floats | None], _Floats],
    pairs: SampledPairs,
    law: Law,
    shape: NoiseShape,
) -> _Floats:
    """Return what a function of differences, noise and errors is for each pair.

    Infinite for pairs without an answer, whose differences are, and where the noise
    is too far out for the grid to be paid for.
    """
    rng = np.random.default_rng(pairs.draw_seed)
    found = np.full(len(pairs), np.inf)
    for rows in pairs.blocks():
        noise = law.standard_noise(rng, pairs.differences[rows].shape)
        near = np.abs(noise).max(axis=1) <= grid.FARTHEST_DRAW
        near &= np.isfinite(pairs.differences[rows, 0])
        some = np.flatnonzero(near) + rows.start
        errors = None
        if pairs.errors is not None:
            errors = shape.whiten_errors(pairs.errors[some])
        differences = shape.whiten(pairs.differences[some])
        found[some] = evaluate(differences, noise[near], errors)
    return found
