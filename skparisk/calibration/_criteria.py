"""What counts as a violation: the critical scale of each sampled pair.

A criterion knows the sampled differences and the target level, and says which noise
scale each pair needs (its critical scale), and for a given scale, which other levels
would be kept. Scales and sensitivities are in the coordinates of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.calibration._critical_scales import (
    gaussian_critical_scales,
    gaussian_peak_losses,
    laplace_critical_scales,
    laplace_peak_losses,
    row_norms,
)
from skparisk.mechanisms import IsotropicShape, NoiseShape, gaussian_scale
from skparisk.mechanisms import _grid_cost as grid_cost
from skparisk.privacy_loss import (
    gaussian_delta_epsilon,
    gaussian_risk,
    gaussian_risk_shift,
    laplace_delta_noise_epsilon,
)

__all__ = [
    "CHUNK",
    "ConditionalRisk",
    "Criterion",
    "DrawnLoss",
    "WorstOutputGaussian",
    "WorstOutputLaplace",
]

# Numbers that are worked on together: pairs times outputs.
CHUNK = 2**19
_ISOTROPIC = IsotropicShape()
# Shares of the level that may pay for differences that are off, where they are.
_ERRORS_SHARES = (2.0**-16, 2.0**-8, 2.0**-6, 2.0**-4)


class Criterion(Protocol):
    """The critical scales of sampled pairs, one or more for each."""

    @property
    def least_steps(self) -> int:
        """Steps of the grid that the noise scale must have."""
        ...

    def critical_scales(self) -> NDArray[np.float64]:
        """Return the least scales from which on each pair keeps the target level."""
        ...

    def levels(self, scale: float) -> NDArray[np.float64]:
        """Return the least levels that are kept from that scale on, rounded up."""
        ...


@dataclass(frozen=True, eq=False)
class WorstOutputLaplace:
    """Randomness "implicit": the level holds whatever is released, but for delta."""

    sensitivities: NDArray[np.float64]
    n_outputs: int
    epsilon: float
    delta: float = 0.0

    @property
    def least_steps(self) -> int:
        return grid_cost.laplace_steps(self.epsilon, self.n_outputs)

    def critical_scales(self) -> NDArray[np.float64]:
        level = grid_cost.below(self.epsilon)
        return self.sensitivities / laplace_delta_noise_epsilon(level, self.delta)

    def levels(self, scale: float) -> NDArray[np.float64]:
        losses = self.sensitivities / scale + 2 * math.log1p(-self.delta)
        return _with_grid(np.maximum(losses, 0.0), self.epsilon)


@dataclass(frozen=True, eq=False)
class WorstOutputGaussian:
    """Randomness "implicit": the level holds whatever is released, but for delta."""

    sensitivities: NDArray[np.float64]
    n_outputs: int
    epsilon: float
    delta: float
    calibration: str = "analytic"

    @property
    def least_steps(self) -> int:
        return self._unit_scale[1]

    def critical_scales(self) -> NDArray[np.float64]:
        return self.sensitivities * self._unit_scale[0]

    def levels(self, scale: float) -> NDArray[np.float64]:
        shifts, spent = _shifts_on_grid(self, scale)
        return np.asarray(gaussian_delta_epsilon(self.delta, shifts) + spent)

    @cached_property
    def _unit_scale(self) -> tuple[float, int]:
        return gaussian_scale(
            self.epsilon,
            self.delta,
            n_outputs=self.n_outputs,
            calibration=self.calibration,
        )


@dataclass(frozen=True, eq=False)
class DrawnLoss:
    """Randomness "both": the level holds for the noise that is drawn with the pair.

    Dandekar, Definition 5, with `n_draws` vectors of noise for each pair. The draws
    follow from `seed`, and are made when they are used. `differences`, and the `errors`
    that they may be off by, are in units of the answer, and mapped to the coordinates
    of `shape` block by block.
    """

    law: str
    differences: NDArray[np.float64]
    epsilon: float
    seed: int
    n_draws: int = 1
    shape: NoiseShape = _ISOTROPIC
    errors: NDArray[np.float64] | None = None

    @property
    def least_steps(self) -> int:
        n_outputs = self.differences.shape[1]
        if self.law == "laplace":
            return grid_cost.laplace_steps(self.epsilon, n_outputs)
        return grid_cost.drawn_gaussian_steps(self.epsilon, n_outputs)

    def critical_scales(self) -> NDArray[np.float64]:
        return self._for_each_draw(self._scales)

    def _scales(
        self,
        differences: NDArray[np.float64],
        noise: NDArray[np.float64],
        errors: NDArray[np.float64] | None,
    ) -> NDArray[np.float64]:
        """Return critical scales of a block; a share of the level pays for errors."""
        function = _CRITICAL_SCALES[self.law]
        level = grid_cost.below(self.epsilon)
        if errors is None:
            return function(differences, noise, level)
        linear, square = self._off_by(differences, noise, errors)
        least = np.full(len(differences), np.inf)
        for share in _ERRORS_SHARES:  # each is safe, and so is the least of them
            paid = share * level
            # Where square s**2 + linear s, of s = 1 / scale, is what is paid.
            root = np.hypot(linear, 2 * np.sqrt(square) * math.sqrt(paid))
            enough = (linear + root) / (2 * paid)
            kept = function(differences, noise, level * (1 - share))
            least = np.minimum(least, np.maximum(kept, enough))
            if (enough <= kept).all():
                break
        return least

    def levels(self, scale: float) -> NDArray[np.float64]:
        function = _PEAK_LOSSES[self.law]

        def losses(
            differences: NDArray[np.float64],
            noise: NDArray[np.float64],
            errors: NDArray[np.float64] | None,
        ) -> NDArray[np.float64]:
            loss = function(differences, noise, scale)
            if errors is None:
                return loss
            linear, square = self._off_by(differences, noise, errors)
            return np.asarray(loss + linear / scale + square / scale / scale)

        return _with_grid(self._for_each_draw(losses), self.epsilon)

    def _off_by(
        self,
        differences: NDArray[np.float64],
        noise: NDArray[np.float64],
        errors: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how far losses are off at s = 1 / scale: linear s + square s**2."""
        if self.law == "laplace":
            return errors.sum(axis=1), np.zeros(len(errors))
        off = row_norms(errors, 2)
        linear = off * row_norms(noise, 2)
        return linear, off * (row_norms(differences, 2) + off / 2)

    def _for_each_draw(
        self, evaluate: Callable[..., NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return what a function of differences, noise and errors is for each draw.

        Infinite for pairs without an answer, whose differences are, and where the noise
        is too far out for the grid to be paid for.
        """
        rng = np.random.default_rng(self.seed)
        draw = rng.laplace if self.law == "laplace" else rng.normal
        n_pairs, n_outputs = self.differences.shape
        step = max(1, CHUNK // (n_outputs * self.n_draws))
        found = np.full((n_pairs, self.n_draws), np.inf)
        for start in range(0, n_pairs, step):
            rows = np.arange(start, min(start + step, n_pairs))
            noise = draw(size=(len(rows), self.n_draws, n_outputs))
            near = np.abs(noise).max(axis=2) <= grid_cost.FARTHEST_DRAW
            near &= np.isfinite(self.differences[rows, :1])
            pairs, draws = np.nonzero(near)
            block = self.shape.whiten(self.differences[rows[pairs]])
            errors = None
            if self.errors is not None:
                errors = self.shape.whiten_errors(self.errors[rows[pairs]])
            found[rows[pairs], draws] = evaluate(block, noise[near], errors)
        return found.ravel()


@dataclass(frozen=True, eq=False)
class ConditionalRisk:
    """Randomness "both" for Gaussian noise: each pair's risk over the noise, exactly.

    Nothing is drawn: given its distance, a pair exceeds the level with a probability
    that is known, and falls as the scale grows.
    """

    sensitivities: NDArray[np.float64]
    n_outputs: int
    epsilon: float
    gamma: float

    @cached_property
    def least_steps(self) -> int:
        return grid_cost.gaussian_steps(
            self.epsilon, self.n_outputs, gaussian_risk_shift(self.epsilon, self.gamma)
        )

    def risks(self, scale: float, epsilon: ArrayLike) -> NDArray[np.float64]:
        """Return the risk of each pair that `epsilon` is exceeded, rounded up.

        Of shape (n_pairs,), or (n_levels, n_pairs) for a column of levels.
        """
        shifts, spent = _shifts_on_grid(self, scale)
        return np.asarray(
            gaussian_risk(np.maximum(np.subtract(epsilon, spent), 0.0), shifts)
        )


_CRITICAL_SCALES = {
    "laplace": laplace_critical_scales,
    "gaussian": gaussian_critical_scales,
}
_PEAK_LOSSES = {"laplace": laplace_peak_losses, "gaussian": gaussian_peak_losses}


def _with_grid(losses: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Add what the grid costs at other levels than the target."""
    return losses + 2 * grid_cost.GRID_SHARE * np.maximum(losses, epsilon)


def _shifts_on_grid(
    criterion: WorstOutputGaussian | ConditionalRisk, scale: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return distances over the scale, as long as rounding can make them, and what
    the noise within a step of the grid takes of the level there.
    """
    rounding = math.sqrt(criterion.n_outputs) / criterion.least_steps
    shifts = criterion.sensitivities / scale * (1 + 2.0**-40) + rounding
    return shifts, shifts * rounding
