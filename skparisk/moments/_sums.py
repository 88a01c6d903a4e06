"""Sums: their public units, and the effect of the noise on models of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.core.calibrate import Terms
from skparisk.core.checks import IncompatibleError, check_positive
from skparisk.queries import MomentsQuery
from skparisk.queries._moments import output_columns, shorten
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import RecordPool
from skparisk.sensitivity import SensitivitySampler

Floats = NDArray[np.float64]
Columns = NDArray[np.intp]

# Draws of the noise whose size is looked at.
_N_DRAWS = 64
# Less of the largest eigenvalue is what rounding leaves.
_TINY = 2.0**-40
# Standard deviations of the noise that a variance is seen above.
_SEEN = 3.0
# One row in so many gives units, and is in no pair.
_ROWS_PER_UNIT_ROW = 5


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """Noisy sums of columns and of products of columns, and the noise in them."""

    # Shape (d * (d + 3) / 2,). As :class:`~skparisk.queries.MomentsQuery` orders them.
    sums: Floats
    # Variances of their noise, (n_outputs,), where it is uncorrelated: there may be too
    # many for a matrix. Else its covariance.
    noise: Floats
    # Rows that were summed; with noise where that is not public.
    n_records: float
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


@dataclass(frozen=True, eq=False)
class Units:
    """Where columns are measured from, in what, and how far records may be."""

    center: Floats
    scale: Floats
    limit: float = 32.0
    radius: float | None = None

    def query(
        self, n_records: int, n_targets: int, *, counts_rows: bool = False
    ) -> MomentsQuery:
        """Return the sums in these units."""
        return MomentsQuery(
            self.center.tolist(),
            self.scale.tolist(),
            n_records,
            n_targets,
            self.limit,
            self.radius,
            counts_rows,
        )

    def of(self, columns: Columns) -> Units:
        """Return the units of some features."""
        return replace(self, center=self.center[columns], scale=self.scale[columns])

    @property
    def box(self) -> Units:
        """Where single columns may be, targets as well: that has no radius."""
        return replace(self, radius=None)

    def move(self, X: Floats) -> Floats:
        """Return features that are moved as those of records that are summed."""
        with np.errstate(over="ignore"):
            z = ((X - self.center) / self.scale).clip(-self.limit, self.limit)
        z = z if self.radius is None else shorten(z, self.radius)
        return np.asarray(self.center + self.scale * z)


def declared_units(
    bounds: Any,
    y_bounds: Any,
    reference: Reference | None,
    widths: tuple[int, int],
    reach: Any,
) -> Units | None:
    """Return units in which declared bounds are [-1, 1]; None without any."""
    share = check_positive(reach, "reach")
    if share > 1:
        raise ValueError(f"reach must be at most 1, got {reach!r}.")
    names = ("bounds", "y_bounds")
    boxes: list[Any] = [bounds, y_bounds]
    if bounds is None:
        if y_bounds is not None:
            raise ValueError(
                f"y_bounds must be None without bounds, got {y_bounds!r}: give both."
            )
        domain = None if reference is None else reference.domain
        if domain is not None:
            boxes = [domain.box, domain.target_box]
        if boxes[0] is None or (widths[1] and boxes[1] is None):
            if share < 1:
                raise ValueError(f"reach must be 1.0 without bounds, got {reach!r}.")
            return None
        boxes = [None if box is None else box.T for box in boxes]
    elif widths[1] and y_bounds is None:
        raise ValueError("y_bounds must be given with bounds, for the targets.")
    ends = [
        _check_bounds(box, name, width)
        for box, name, width in zip(boxes, names, widths, strict=True)
        if width
    ]
    low, high = np.concatenate(ends).T
    radius = share * math.sqrt(widths[0]) if share < 1 else None
    return Units(low / 2 + high / 2, high / 2 - low / 2, 1.0, radius)


def units_of_rows(pool: RecordPool, widths: tuple[int, int]) -> Units:
    """Return means and standard deviations of public rows."""
    parts = [pool.X, *([pool.y] if widths[1] else [])]
    columns = [np.asarray(part, np.float64).reshape(len(part), -1) for part in parts]
    found = tuple(part.shape[1] for part in columns)
    if found != widths[: len(found)]:
        raise IncompatibleError(
            f"The reference has {found} columns of features and targets, but the "
            f"data have {widths[: len(found)]}: the numbers must be equal."
        )
    rows = np.concatenate(columns, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = rows.std(axis=0)
    if not np.isfinite(scale).all():
        raise ValueError(
            "X_reference and y_reference must have numbers whose squares are finite, "
            "up to about 1e150: give all in other units."
        )
    # A column that does not vary there may do so elsewhere.
    scale[scale <= 2.0**-30 * np.abs(rows).max(axis=0)] = 1.0
    return Units(rows.mean(axis=0), scale)


def pair_rows(
    table: TableReference,
    sampler: SensitivitySampler,
    n_outputs: int,
    *,
    with_units: bool,
) -> tuple[RecordPool, TableReference]:
    """Return rows for units, and a table each row of which is used in one pair.

    All of both where the rows are too few for the risk, or for the shape of the noise
    to be learned from as many pairs as there are outputs. The sampler is given the
    number of pairs there are.
    """
    n_apart = max(2, table.n_records // _ROWS_PER_UNIT_ROW) if with_units else 0
    asked: Terms = sampler._terms
    n_pairs = min(asked.n_pairs, (table.n_records - n_apart) // 2)
    try:
        terms = sampler._agree(n_pairs)
    except ValueError:  # too few, also to learn a shape from
        return table.pool, table
    if asked.n_shape_pairs and terms.n_shape_pairs < n_outputs:
        return table.pool, table
    # The same for each seed, as units are used with the pairs of any.
    rows = np.random.default_rng(table.n_records).permutation(table.n_records)
    paired = table._with(table.pool.part(rows[n_apart:]))
    paired._sketch = table.sketch  # of all rows, by which to know them again
    paired.sampling = "used-once"
    sampler.set_params(n_pairs=n_pairs)
    sampler._terms = terms
    return table.pool.part(rows[:n_apart]), paired


def _check_bounds(bounds: Any, name: str, width: int) -> Floats:
    """Return lowest and highest value of each column."""
    try:
        ends = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        ends = np.empty(0)
    if ends.shape == (2,):
        ends = np.tile(ends, (width, 1))
    with np.errstate(over="ignore"):
        right = ends.shape == (width, 2) and np.isfinite(ends).all()
        if not right or not (ends[:, 0] < ends[:, 1]).all():
            raise ValueError(
                f"{name} must be a pair (lowest, highest) of finite numbers, or one "
                f"for each of the {width} columns, with lowest < highest; got "
                f"{bounds!r}."
            )
    return ends
