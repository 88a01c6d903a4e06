"""Ridge regression from moments, and where they are the better of two releases."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skparisk.moments._noise import MatrixNoise
from skparisk.queries._bounds import solved_ridge_bounds

# A target with a standard deviation of a third of the half width of its bounds, half of
# which the features explain.
_VARIANCE = 1 / 9
_EXPLAINED = _VARIANCE / 2


@dataclass(frozen=True)
class BoundedRidge:
    """What is public of a ridge regression of rows and targets in declared bounds.

    Both errors are those on a made-up population: features uniform in the ball, and
    targets of which they explain a half. Nothing private is looked at, so that which of
    the two is released tells nothing.
    """

    # Of the data.
    n_records: int
    n_features: int
    n_targets: int
    # Penalty; None: 1.0 for coefficients, and that of the noise for moments.
    alpha: float | None
    # Privacy level.
    epsilon: float
    # Largest l2 norm of a row.
    x_norm: float
    # Lowest and highest target.
    y_bounds: tuple[float, float]

    @property
    def moments_are_better(self) -> bool:
        """Whether the error of moments is smaller; not without any noise."""
        if math.isinf(self.epsilon) or not self.y_bounds[0] < self.y_bounds[1]:
            return False
        return self.error_of_moments < self.error_of_coefficients

    @property
    def error_of_coefficients(self) -> float:
        """Mean squared error, in half widths of the targets; infinite if unknown."""
        d, q, square = self.n_features, self.n_targets, self.x_norm**2
        alpha = 1.0 if self.alpha is None else self.alpha
        low, high = self.y_bounds
        bounds = solved_ridge_bounds(
            [alpha] * q,
            (self.n_records, d + 1),
            x_norm=math.hypot(self.x_norm, 1.0),
            y_bound=max(abs(low), abs(high)),
        )
        if bounds is None:  # refused with the coefficients, which says why
            return -math.inf
        scale = math.sqrt(d + 1) * math.fsum(bounds) / self.epsilon
        noise = 2 * scale**2 * (square * d / (d + 2) + 1)
        squares = self.n_records * square / (d + 2)
        return noise / ((high - low) / 2) ** 2 + self._bias(squares, alpha)

    @property
    def error_of_moments(self) -> float:
        """Mean squared error, in half widths of the targets."""
        d = self.n_features
        noise = MatrixNoise(d, self.n_targets, 1.0, self.epsilon)
        # Features are in units of x_norm, and noise has one size beside the diagonal.
        unit = noise.noise_scale * math.sqrt((d + self.n_targets + 2) / 2)
        of_target, of_constant = 1 / noise.stretches[-1], 1 / noise.stretches[0]
        norm = 2 * math.sqrt(d) * unit
        penalty = norm if self.alpha is None else self.alpha / self.x_norm**2
        squares = self.n_records / (d + 2)
        if squares + penalty <= norm:  # the noise hides some direction
            return math.inf
        kept = squares / (squares + penalty)
        length = _EXPLAINED * (d + 2) * kept**2
        error = unit**2 * (of_target**2 + length) / (squares + penalty) ** 2
        of_mean = (unit * of_target * of_constant / self.n_records) ** 2
        return float(error * d / (d + 2) + of_mean) + self._bias(squares, penalty)

    @staticmethod
    def _bias(squares: float, penalty: float) -> float:
        return _EXPLAINED * (penalty / (squares + penalty)) ** 2
