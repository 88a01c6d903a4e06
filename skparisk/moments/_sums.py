"""What can be computed from released sums, with what the noise does to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skparisk.queries._moments import output_columns

Floats = NDArray[np.float64]
Columns = NDArray[np.intp]

# Draws of the noise whose size is looked at.
_N_DRAWS = 64
# Less of the largest eigenvalue is what rounding leaves.
_TINY = 2.0**-40
# Standard deviations of the noise that a variance is seen above.
_SEEN = 3.0


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """Noisy sums of columns and of products of columns, and the noise in them."""

    # Shape (d * (d + 3) / 2,). As :class:`~skparisk.queries.MomentsQuery` orders them.
    sums: Floats
    # Variances of their noise, (n_outputs,), where it is uncorrelated: there may be too
    # many for a matrix. Else its covariance.
    noise: Floats
    # Records that were summed.
    n_records: int
    # Shape (d,). What columns were moved and divided by.
    center: Floats
    scale: Floats

    @property
    def n_columns(self) -> int:
        return len(self.center)

    @cached_property
    def places(self) -> tuple[Columns, Columns]:
        """Row and column of each output in `matrix`, of which row 0 is a constant's."""
        i, j = output_columns(self.n_columns)
        return i + 1, j + 1

    def as_matrix(self, outputs: Floats, constant: float = 0.0) -> Floats:
        """Return sums of products of all columns, the first of which is constant."""
        matrix = np.empty((self.n_columns + 1, self.n_columns + 1))
        i, j = self.places
        matrix[0, 0], matrix[i, j], matrix[j, i] = constant, outputs, outputs
        return matrix

    @cached_property
    def matrix(self) -> Floats:
        return self.as_matrix(self.sums, self.n_records)

    @property
    def mean(self) -> Floats:
        """Mean of each column, in scales from the center."""
        return self.matrix[0, 1:] / self.n_records

    @cached_property
    def centered(self) -> Floats:
        """Sums of products of columns about their means, in scales."""
        mean = self.mean
        return self.matrix[1:, 1:] - self.n_records * np.outer(mean, mean)

    def noise_size(self, columns: Columns) -> float:
        """Return the spectral norm of the noise in products of columns, in the median.

        By draws of normal noise of the same covariance, with a fixed seed.
        """
        i, j = self.places
        among = np.flatnonzero(np.isin(i, columns + 1) & np.isin(j, columns + 1))
        rng, shape = np.random.default_rng(0), (_N_DRAWS, len(among))
        if not self.noise.any():
            return 0.0
        if self.noise.ndim == 1:
            draws = rng.standard_normal(shape) * np.sqrt(self.noise[among])
        else:
            covariance = self.noise[np.ix_(among, among)]
            draws = rng.multivariate_normal(
                np.zeros(len(among)), covariance, size=_N_DRAWS, method="eigh"
            )
        outputs = np.zeros(len(i))
        sizes = []
        for outputs[among] in draws:
            noise = self.as_matrix(outputs)
            sizes.append(np.linalg.norm(noise[1:, 1:], 2))
        return float(np.median(sizes))

    def noise_of_residuals(self, rows: Columns, weights: Floats) -> Floats:
        """Return the covariance of the noise in ``(matrix @ weights)[rows]``."""
        i, j = self.places
        effect = np.zeros((self.n_columns + 1, len(self.sums)))
        output = np.arange(len(self.sums))
        effect[i, output] = weights[j]
        effect[j, output] = weights[i]  # the same one on the diagonal
        effect = effect[rows]
        spread = effect * self.noise if self.noise.ndim == 1 else effect @ self.noise
        return np.asarray(spread @ effect.T)

    @property
    def vary(self) -> NDArray[np.bool_]:
        """Which columns vary by more than the noise, and by more than rounding."""
        variances = self.noise if self.noise.ndim == 1 else np.diag(self.noise)
        i, j = self.places
        of_sums, of_squares = variances[i == 0], variances[(i == j) & (i > 0)]
        squares = np.diag(self.matrix)[1:] / self.n_records
        noise = np.sqrt(of_squares + (2 * self.mean) ** 2 * of_sums) / self.n_records
        least = np.maximum(_SEEN * noise, _TINY * np.abs(squares))
        return np.asarray(np.diag(self.centered) / self.n_records > least)


def positive_part(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the nearest positive semidefinite matrix, as eigenvalues and vectors."""
    values, vectors = np.linalg.eigh(matrix)
    return values.clip(min=0.0), vectors


def damped_inverse(matrix: Floats, penalty: float) -> Floats:
    """Return the inverse of its positive part and a penalty, where that is above 0."""
    values, vectors = positive_part(matrix)
    damped, shares = values + penalty, np.zeros_like(values)
    np.divide(1.0, damped, out=shares, where=damped > _TINY * damped.max())
    return np.asarray((vectors * shares) @ vectors.T)
