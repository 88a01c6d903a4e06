"""What rounding to the grid costs, and how fine a grid makes it next to nothing.

Every calibration but that of a known l1 sensitivity is for a loss in continuous
noise, at a level that is a share 2**-20 below the one that is promised. The share
pays for the grid if the noise scale has enough steps of it.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

# Steps of the grid in a noise scale: as a rule at least, and at the most.
USUAL_STEPS = 2**40
MOST_STEPS = 2**52

# Share of the privacy level that pays for the grid.
GRID_SHARE = 2.0**-20
# Gaussian draws beyond so many standard deviations count as exceeding any level.
FARTHEST_DRAW = 64.0


def below(epsilon: float) -> float:
    """Return the level to calibrate continuous noise at."""
    return epsilon * (1 - GRID_SHARE)


def with_grid(losses: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Return losses on a grid that is fine enough for `epsilon`, rounded up."""
    return losses + 2 * GRID_SHARE * np.maximum(losses, epsilon)


def laplace_steps(epsilon: float, n_outputs: int) -> int:
    """Return the steps at which the grid costs Laplace noise its share at the most.

    Discrete and continuous noise can be coupled within a step of the grid, and the
    shift of each output is rounded within a step: 3 steps of the loss's slope. A
    quarter of the share is left for the rounding of what is computed before.
    """
    return _checked(4 * n_outputs / GRID_SHARE / epsilon, epsilon)


def gaussian_steps(epsilon: float, n_outputs: int, shift: float) -> int:
    """Return the steps for the exact law of the loss of Gaussian noise.

    The loss at a whole shift of l2 norm a moves by at most sqrt(k) a / steps where
    the noise moves within a step; and rounding lengthens a by at most sqrt(k) / steps.
    """
    finest = max(shift / epsilon, 1 / shift)
    return _checked(math.sqrt(n_outputs) * finest / GRID_SHARE, epsilon)


def drawn_gaussian_steps(epsilon: float, n_outputs: int) -> int:
    """Return the steps for one draw of Gaussian noise, none beyond `FARTHEST_DRAW`.

    As the loss is within epsilon the shift is at most 128 sqrt(k) + sqrt(2 epsilon),
    and rounding of noise and shift moves the loss by 64 k + 2 sqrt(k) shift + 3 k / 2
    over the steps, at most (323 k + epsilon) over the steps.
    """
    return _checked((400 * n_outputs + 2 * epsilon) / GRID_SHARE / epsilon, epsilon)


def advantage_steps(advantage: float, n_outputs: int, n_pairs: int) -> int:
    """Return the steps for a mean advantage of at most this.

    The grid adds at most 9 outputs / steps to the advantage of a pair: that is a small
    share of what is asked for, and half of what is left to the sampled pairs.
    """
    left = Fraction(advantage) * (n_pairs + 1) - 1
    share = min(Fraction(advantage) / 2**18, left / (2 * n_pairs))
    steps = math.ceil(9 * n_outputs / share)
    if steps > MOST_STEPS / 2:
        raise ValueError(
            "advantage must be larger for this many outputs and pairs with noise on a "
            f"grid, or n_pairs larger, got {advantage!r} with {n_outputs} outputs and "
            f"n_pairs={n_pairs}."
        )
    return max(USUAL_STEPS, steps)


def _checked(steps: float, epsilon: float) -> int:
    if not steps <= MOST_STEPS / 2:
        least = epsilon * steps / (MOST_STEPS / 2)
        wanted = f"at least {least:.3g}" if math.isfinite(least) else "larger"
        raise ValueError(
            f"epsilon must be {wanted} for this many outputs with noise on a grid, "
            f"got {epsilon!r}."
        )
    return max(USUAL_STEPS, math.ceil(steps))
