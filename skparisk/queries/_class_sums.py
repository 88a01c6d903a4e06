"""Sums over the records of each class, as a query: what naive Bayes follows from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from skparisk.queries._addends import exact_steps
from skparisk.queries._base import Floats
from skparisk.queries._labels import label_codes
from skparisk.queries._leaves import LeafQuery
from skparisk.queries._row_wise import answer_each, is_row_wise, transform_each


@dataclass(frozen=True)
class ClassCells:
    """One cell for each class.

    Parameters
    ----------
    classes : tuple of float
        The numbers that stand for the classes, sorted.
    """

    classes: tuple[float, ...]

    @property
    def n_cells(self) -> int:
        return len(self.classes)

    n_trees = 1

    def of(self, y: Any) -> NDArray[np.intp]:
        """Return the cell of each record, by its label, (n_records, 1)."""
        return label_codes(y, self.classes)[:, None]


@dataclass(frozen=True, eq=False)
class FeatureAddend:
    """The features: clipped, each in [-1, 1], and maybe their squares as well.

    First of all comes a count, in a weight of its own, as all means are divided by it.
    """

    # Shape (n_features,). What features are clipped to, after the steps before.
    low: Floats
    high: Floats
    # Of a database: its sums are exact, whatever the order.
    n_records: int
    # Whether 2 z² - 1 is added as well, for each feature z in [-1, 1].
    squared: bool = False
    # What all features of a record add at most, in absolute values, where only a few of
    # them are not 0. None: 1 for each number.
    most: float | None = None
    # The fitted steps that records go through before, each by itself. One that these
    # refuse adds 1 to its class, and nothing else.
    before: Any = None
    # What numbers go through then; `low` and `high` are of what comes out.
    recode: Any = None

    @property
    def n_columns(self) -> int:
        return 1 + len(self.low) * (1 + self.squared)

    @property
    def weight(self) -> float:
        """What a record adds to the count: near half the root of what others are."""
        return 2.0 ** max(0, round(math.log2(max(self._most, 1.0)) / 2 - 1))

    def __call__(self, X: Any) -> Floats:
        nothing = np.zeros((1, self.n_columns - 1))
        added = answer_each(self._add, X, lambda: nothing)
        return np.column_stack([np.full(len(added), self.weight), added])

    def keeps_apart(self, X: Any) -> bool:
        """Tell if steps make the same of records that they see all at once.

        Of public records, whose errors are shown.
        """
        if self.before is None or is_row_wise(self.before):
            return True
        apart = as_numbers(transform_each(self.before, X))
        together = as_numbers(self.before.transform(X))
        return np.allclose(together, apart, rtol=2.0**-20, equal_nan=True)

    @property
    def typical(self) -> Floats:
        """What numbers are on average, for features that are uniform."""
        of_squares = np.full(len(self.low) if self.squared else 0, -1 / 3)
        return np.append(np.zeros(len(self.low)), of_squares)

    def in_records(self, sums: Floats) -> Floats:
        """Return sums with counts of records in the first column."""
        weights = np.ones(self.n_columns)
        weights[0] = self.weight
        return np.asarray(sums / weights)

    def as_features(self, values: Floats) -> Floats:
        """Return numbers in [-1, 1] in the units of the features."""
        return self._middle + self._half * values

    def as_squares(self, values: Floats) -> Floats:
        """Return squares of numbers in [-1, 1] in the units of the features."""
        return self._half**2 * values

    def largest(self, relation: str) -> tuple[Floats, float, float]:
        """Return the most that the sums of all classes move between neighbors."""
        each, most, weight = np.ones(self.n_columns - 1), self._most, self.weight
        l1, squared = weight + most, weight**2 + most
        if relation != "replace-one":
            return np.append(weight, each), l1, math.sqrt(squared)
        # In two classes; or in the same one, where no number moves by more than 2.
        l2 = math.sqrt(max(2 * squared, 4 * most))
        return np.append(weight, 2 * each), 2 * l1, l2

    @property
    def _most(self) -> float:
        return float(self.n_columns - 1) if self.most is None else self.most

    @property
    def _middle(self) -> Floats:
        return np.asarray(self.low / 2 + self.high / 2)

    @property
    def _half(self) -> Floats:
        half = self.high / 2 - self.low / 2
        return np.where(half > 0, half, 1.0)

    def _add(self, X: Any) -> Floats:
        """Return what features add, where no record is refused."""
        return self._scaled(
            X if self.before is None else transform_each(self.before, X)
        )

    def _scaled(self, records: Any) -> Floats:
        numbers = as_numbers(records)
        if self.recode is not None:
            numbers = self.recode.transform(numbers)
        scaled = (numbers.clip(self.low, self.high) - self._middle) / self._half
        scaled = self._on_grid(np.nan_to_num(scaled).clip(-1.0, 1.0))
        if not self.squared:
            return scaled
        return np.column_stack([scaled, self._on_grid(2 * scaled**2 - 1)])

    def _on_grid(self, numbers: Floats) -> Floats:
        steps = exact_steps(self.n_records, 1.0)
        return np.asarray(np.round(numbers * steps) / steps)


@dataclass(frozen=True, eq=False)
class ClassSumsQuery(LeafQuery):
    """Sums over the records of each class.

    As `LeafQuery`, with labels that say which cell a record is in, and features that
    say what it adds there: `leaves` are classes, and the addend is of features.

    Notes
    -----
    **Guarantee** (:ref:`thm-class-sums`). As for leaves: the largest difference of any
    neighbors is known, and sums are exact.
    """

    @property
    def classes(self) -> tuple[float, ...] | None:
        """The numbers that stand for the classes in a database."""
        assert isinstance(self.leaves, ClassCells)
        return self.leaves.classes

    def _place(self, X: Any, y: Any) -> tuple[NDArray[np.intp], Floats]:
        return self.leaves.of(y), self.addend(X)

    def __str__(self) -> str:
        return f"{type(self.asked).__name__} (sums of classes)"


def as_numbers(records: Any) -> Floats:
    """Return a table of numbers, such as a sparse matrix or a frame, as an array."""
    dense = records.toarray() if issparse(records) else records
    return np.asarray(dense, dtype=np.float64)
