"""Noise for symmetric matrices of sums of products: a difference of Wishart matrices.

Noise of its own for each output pays for as many outputs as there are, though a record
moves all of them together, by a matrix of rank one. This noise pays for that alone: its
loss is at most the trace norm of the difference of two such matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core.claim import Certificate, Evidence, Scope, mint
from skparisk.core.exact import (
    ByteSource,
    mix_uniform,
    sample_discrete_gaussian,
    sample_uniform_integers,
)
from skparisk.core.noise import floor_log2, round_to_grid, to_float
from skparisk.queries._moments import output_columns

Floats = NDArray[np.float64]
Columns = NDArray[np.intp]

# Squared length of the constant, and of a target, over that of the features. Near the
# best on uniform, normal, shifted, correlated and binary stand-ins in the bounds, with
# 5 to 20 features and 300 to 5 000 records.
_OF_CONSTANT, _OF_TARGET = 1 / 16, 1 / 2
# The grid of each output is finer than the noise by this, at least.
_GRID_BITS = 30
# A standard normal number is a whole number of these steps.
_COARSE_BITS, _FINE_BITS = 48, 60
# For more than this the noise is that for this: tails are paid for up to here.
_MOST_EPSILON = 64.0
# More than what floats take from a bound.
_SLACK = 1 + 2.0**-30


@dataclass(frozen=True)
class MatrixNoise:
    """Noise for the sums of records in a box, or in a ball, and of their products.

    Notes
    -----
    **Guarantee** (:ref:`thm-matrix-noise`). epsilon-differential privacy, where one
    record is replaced.
    """

    # Columns, each in [-1, 1].
    n_features: int
    n_targets: int
    # Largest squared l2 norm of the features of a record, > 0.
    squared_radius: float
    # Privacy level, > 0. Infinite: no noise.
    epsilon: float

    @property
    def n_rows(self) -> int:
        """Rows of the matrix, of which the first is a constant's."""
        return 1 + self.n_features + self.n_targets

    @cached_property
    def stretches(self) -> Floats:
        """What rows are multiplied by, so that the noise is where it harms least."""
        r2 = self.squared_radius
        squares = [_OF_CONSTANT * r2, *[1.0] * self.n_features]
        return np.sqrt([*squares, *[_OF_TARGET * r2] * self.n_targets])

    @property
    def sensitivity(self) -> float:
        """Largest trace norm of what two records differ by, with stretched rows."""
        squares = self.stretches**2
        longest = squares[0] + squares[1 + self.n_features :].sum()
        return float(2 * (longest + self.squared_radius)) * _SLACK

    @cached_property
    def noise_scale(self) -> float:
        """Scale of the exponential decay in the trace norm; 0 for no noise."""
        if math.isinf(self.epsilon):
            return 0.0
        level = min(self.epsilon, _MOST_EPSILON)
        left = level - self._rounding
        if left < level / 2:
            raise ValueError(
                f"epsilon must be above {2 * (level - left):.3g} for "
                f"{self.n_rows - 1} columns with sensitivity='bound', for the grid of "
                f"the noise to be fine against it; got {self.epsilon!r}."
            )
        return self.sensitivity / left * _SLACK

    @property
    def _rounding(self) -> float:
        """What it takes of the level to draw and to add noise in whole numbers."""
        n = self.n_rows
        of_grid = n**1.5 * 2.0 ** (1 - _GRID_BITS)
        of_normal = 4 * n * (n + 1) * self._farthest * 2.0**-_COARSE_BITS
        return float(of_grid + of_normal)

    @property
    def _farthest(self) -> int:
        """Beyond this, normal numbers are so rare that mixing pays for them."""
        return 10 * (self.n_rows + 2)

    def variances(self) -> Floats:
        """Return the variances of the noise of all outputs, which are uncorrelated."""
        i, j = self._places
        variances = self.noise_scale**2 / 2 * (self.n_rows + 1) * (1.0 + (i == j))
        return np.asarray(variances / (self.stretches[i] * self.stretches[j]) ** 2)

    def certificate(self, n_records: int) -> Certificate:
        """Return what a release of the sums of so many records guarantees."""
        evidence = Evidence(
            gamma=0.0,
            sensitivity=self.sensitivity,
            noise_scale=self.noise_scale,
            n_records=n_records,
            n_outputs=len(self._places[0]),
            calibration="bound",
            law="wishart",
            norm="trace",
            noise_shape="matrix",
        )
        return mint(
            epsilon=self.epsilon,
            randomness=Scope.NOISE,
            relation="replace-one",
            evidence=evidence,
        )

    def prepare(self, values: ArrayLike) -> Callable[[ByteSource], Floats]:
        """Return what adds the noise to an answer, all in whole numbers of a grid."""
        exact = np.array(values, dtype=np.float64)
        on_grid = []
        for value, exponent in zip(
            exact.tolist() if self.noise_scale else [], self._exponents, strict=False
        ):
            numerator, denominator = value.as_integer_ratio()
            shift = 1 - denominator.bit_length() - exponent  # a power of two
            number = np.array([numerator], dtype=object)
            on_grid.append(int(round_to_grid(number, shift)[0]))
        return partial(self._draw, exact, on_grid)

    def _draw(self, values: Floats, on_grid: list[int], source: ByteSource) -> Floats:
        if not self.noise_scale:
            return values.copy()
        steps = self.sample(1, source)[0] + np.array(on_grid, dtype=object)
        mixed = mix_uniform(steps.tolist(), source)
        return np.array([*map(to_float, mixed, self._exponents)])

    def sample(self, size: int, source: ByteSource) -> NDArray[np.object_]:
        """Return draws of the noise, in steps of the grid of each output."""
        i, j = self._places
        products = self._wishart(size, source) - self._wishart(size, source)
        steps = products[:, i, j]
        for output, share in enumerate(self._shares):
            top, bottom = share.numerator, share.denominator
            steps[:, output] = (2 * top * steps[:, output] + bottom) // (2 * bottom)
        return steps

    @property
    def _places(self) -> tuple[Columns, Columns]:
        i, j = output_columns(self.n_rows - 1)
        return i + 1, j + 1

    @cached_property
    def _units(self) -> list[Fraction]:
        """What the product of two standard normal numbers is, in each output."""
        half = Fraction(self.noise_scale) / 2
        i, j = self._places
        s = [Fraction(stretch) for stretch in self.stretches.tolist()]
        return [half / (s[a] * s[b]) for a, b in zip(i, j, strict=True)]

    @cached_property
    def _exponents(self) -> list[int]:
        """The grid of each output, as a power of two."""
        return [floor_log2(unit) - _GRID_BITS for unit in self._units]

    @cached_property
    def _shares(self) -> list[Fraction]:
        """Steps of the grid in a product of two steps of normal numbers."""
        down = 2 * (_COARSE_BITS + _FINE_BITS)
        return [
            unit / Fraction(2) ** (exponent + down)
            for unit, exponent in zip(self._units, self._exponents, strict=True)
        ]

    def _wishart(self, size: int, source: ByteSource) -> NDArray[np.object_]:
        """Return matrices of exponential density on the cone, in whole numbers."""
        shape = (size, self.n_rows, self.n_rows + 1)
        count = math.prod(shape)
        coarse = sample_discrete_gaussian(2**_COARSE_BITS, count, source)
        fine = sample_uniform_integers(2**_FINE_BITS, count, source)
        normal = (coarse.astype(object) << _FINE_BITS) + fine.astype(object)
        # From the middle of a coarse step.
        normal = (normal - 2 ** (_FINE_BITS - 1)).reshape(shape)
        return np.asarray(normal @ normal.transpose(0, 2, 1))
