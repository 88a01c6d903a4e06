"""Sums of records and of their products, which one record moves by itself alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core.checks import check_at_least, check_positive
from skparisk.queries._base import SampleWeights
from skparisk.queries._sums import SumQuery

# Whole numbers up to this are floats, and so is each sum of them that stays below.
_LARGEST_SUM = 2**53


def _check_n_targets(n_targets: Any, n_columns: int) -> int:
    """Return how many of the columns are targets: not all of them."""
    found = check_at_least(n_targets, "n_targets", 0)
    if found >= n_columns:
        raise ValueError(
            f"n_targets must be less than the {n_columns} columns, got {found}."
        )
    return found


def output_columns(n_columns: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the two columns whose product each output sums; -1 is a constant."""
    i, j = np.triu_indices(n_columns)
    line = np.arange(n_columns)
    return np.concatenate([np.full_like(line, -1), i]), np.concatenate([line, j])


@dataclass(frozen=True)
class MomentsQuery(SumQuery):
    """Sums of all columns, and of the products of all pairs of columns.

    Of features and targets together, each moved by `center` and divided by `scale`,
    which must be public. The number of records is part of the answer only if it is not
    public, as for people with several rows.

    Parameters
    ----------
    center, scale : sequence of float
        For each column of the features, and then of the targets; scales > 0.

    n_records : int
        The most records of a database, >= 1.

    n_targets : int, default=0
        How many of the columns are targets.

    limit : float, default=32.0
        Records are moved to within so many scales of the center, in each column. > 0.

    radius : float, default=None
        Longer features, in scales, are shortened to that l2 norm. > 0.

    counts_rows : bool, default=False
        Whether the number of records, or the sum of their weights, is the last output.

    sample_weights : SampleWeights, default=None
        Of weights in the last column of targets.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee** (:ref:`thm-moments`). Records are rounded to the finest grid for which
    `n_records` and `limit` keep sums exact. So two answers differ by exactly what two
    records differ by, whatever the others are and in whatever order they are summed.

    Outputs are the sums of the columns, in order, and then of the products of columns i
    and j, i <= j, row by row of the upper triangle.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import MomentsQuery
    >>> query = MomentsQuery(center=[0.0, 1.0], scale=[1.0, 2.0], n_records=2)
    >>> query(np.array([[1.0, 3.0], [2.0, 1.0]]))
    array([3., 1., 5., 1., 1.])
    """

    center: Sequence[float]
    scale: Sequence[float]
    # What a sampler releases is its own query, so that an equal one may be finer.
    n_records: int = field(compare=False)
    n_targets: int = 0
    limit: float = 32.0
    radius: float | None = None
    counts_rows: bool = False
    sample_weights: SampleWeights | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, least, allowed in (
            ("center", -math.inf, "finite numbers"),
            ("scale", 0.0, "finite numbers above 0"),
        ):
            given = getattr(self, name)
            values = np.asarray(given, dtype=np.float64)
            fine = np.isfinite(values) & (values > least)
            if values.ndim != 1 or not values.size or not fine.all():
                raise ValueError(
                    f"{name} must be {allowed}, one for each column, got {given!r}."
                )
            object.__setattr__(self, name, tuple(values.tolist()))
        if len(self.center) != len(self.scale):
            raise ValueError(
                "center and scale must have a number for each column, got "
                f"{len(self.center)} and {len(self.scale)}."
            )
        n_records = check_at_least(self.n_records, "n_records", 1)
        _check_n_targets(self.n_targets, self.n_columns)
        check_positive(self.limit, "limit")
        if self.radius is not None:
            check_positive(self.radius, "radius")
        if n_records > _LARGEST_SUM:
            raise ValueError(f"n_records must be at most 2**53, got {n_records!r}.")

    is_repeatable = True
    is_sum = True
    products = True

    @property
    def needs_y(self) -> bool:
        """Whether it has targets or weights."""
        return self.n_targets > 0 or self.sample_weights is not None

    @property
    def n_columns(self) -> int:
        """Columns of the features and of the targets."""
        return len(self.center)

    @property
    def n_outputs(self) -> int:
        """Number of outputs: d (d + 3) / 2 for d columns, one more with a count."""
        return self.n_columns * (self.n_columns + 3) // 2 + self.counts_rows

    @property
    def grid(self) -> float:
        """Rounding step of records, in scales: a power of two."""
        most = math.isqrt(_LARGEST_SUM // self.n_records)
        known, longest = self.sample_weights, self.limit
        if known is not None:
            longest = max(longest, 1.0) * math.sqrt(known.most / known.mean)
        return math.ldexp(1.0, -math.floor(math.log2(most / longest)))

    def _check_n_records(self, n_records: int) -> None:
        if n_records > self.n_records:
            raise ValueError(
                f"n_records={self.n_records} of the query must be at least that of a "
                "database, but there are more records."
            )

    def rows(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Return records in whole grid steps, with exact sums, and 1.

        By the root of its weight, if it has one: products are then weighted.
        """
        targets, weights = self.targets_of(y)
        if weights is None:
            return np.column_stack([self._whole(X, targets), np.ones(len(X))])
        roots = np.sqrt(weights)
        whole = self._whole(X, targets, roots[:, None])
        return np.column_stack([whole, np.rint(roots / self.grid)])

    def finish(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sums of the columns, and then of the products."""
        last = np.triu_indices(self.n_columns + 1)[1]
        alone = last == self.n_columns
        linear, count = np.split(sums[:, alone], [-1], axis=1)
        parts = [linear, sums[:, ~alone], *([count] if self.counts_rows else [])]
        return np.concatenate(parts, axis=1) * self._steps

    @property
    def _steps(self) -> NDArray[np.float64]:
        """What whole numbers stand for in each output: powers of two, so exactly."""
        steps = np.full(self.n_outputs, self.grid**2)
        if self.sample_weights is None:  # a one is a one, and no number of steps
            steps[: self.n_columns] = self.grid
            if self.counts_rows:
                steps[-1] = 1.0
        return steps

    def _whole(
        self, X: ArrayLike, y: ArrayLike | None, roots: Any = 1.0
    ) -> NDArray[np.float64]:
        """Return records, times the roots of weights, in whole steps of the grid."""
        columns = [np.asarray(X, dtype=np.float64)]
        if y is not None and self.n_targets:
            columns.append(np.asarray(y, dtype=np.float64).reshape(len(columns[0]), -1))
        z = np.concatenate(columns, axis=1)
        if z.shape[1] != self.n_columns:
            raise ValueError(
                f"The query has {self.n_columns} columns with targets, got "
                f"{z.shape[1]}."
            )
        features = slice(self.n_columns - self.n_targets)
        with np.errstate(over="ignore"):
            z = (z - np.array(self.center)) / np.array(self.scale)
        z = z.clip(-self.limit, self.limit)
        if self.radius is None:
            return np.rint(z * roots / self.grid)
        z[:, features] = shorten(z[:, features], self.radius)
        return np.trunc(z * roots / self.grid)  # towards 0, so that none gets longer


def shorten(z: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """Return rows that are no longer than a radius, whatever rounding does."""
    radius *= 1 - 2.0**-40
    lengths = np.linalg.norm(z, axis=1, keepdims=True)
    ones = np.ones_like(lengths)
    return z * np.divide(radius, lengths, out=ones, where=lengths > radius)
