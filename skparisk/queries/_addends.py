"""What a record adds to sums over the cell that it is in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skparisk.queries._base import Floats
from skparisk.queries._labels import label_codes

# Doubles hold whole numbers to 2**53: sums of so many bits less are exact.
_BITS = 51


def exact_steps(n_records: int, largest: float) -> float:
    """Return steps of 1 that sums of such numbers are exact on, a power of two."""
    return math.ldexp(1.0, _BITS - math.ceil(math.log2(n_records * largest)))


class Addend(Protocol):
    """What a record adds to the sums of its cell, in each tree."""

    @property
    def n_columns(self) -> int:
        """Sums of a cell."""
        ...

    def __call__(self, y: Any, /) -> Floats:
        """Return it for records with these targets, (n_records, n_columns)."""
        ...

    def largest(self, relation: str) -> tuple[Floats, float, float]:
        """Return the most that one tree's sums move between neighbors.

        For each column by itself, in the l1 norm, and in the l2 norm.
        """
        ...


@dataclass(frozen=True)
class ClassAddend:
    """One, for the class of the record."""

    classes: tuple[float, ...]

    @property
    def n_columns(self) -> int:
        return len(self.classes)

    def __call__(self, y: Any) -> Floats:
        return np.eye(self.n_columns)[label_codes(y, self.classes)]

    def largest(self, relation: str) -> tuple[Floats, float, float]:
        moved = 2 if relation == "replace-one" else 1
        return np.ones(self.n_columns), float(moved), math.sqrt(moved)


@dataclass(frozen=True)
class MarginAddend:
    """One for the second of two classes, and minus one for the first.

    A count of each class would have the same sensitivity, and noise twice: in the
    difference, which is all that decides, it is larger by a factor of the root of 2.
    """

    classes: tuple[float, ...]

    n_columns = 1

    def __call__(self, y: Any) -> Floats:
        return np.asarray(2.0 * label_codes(y, self.classes)[:, None] - 1.0)

    def largest(self, relation: str) -> tuple[Floats, float, float]:
        # In two cells of a tree, or in one, where labels differ.
        moved = 2.0 if relation == "replace-one" else 1.0
        return np.array([moved]), moved, moved


@dataclass(frozen=True, eq=False)
class TargetAddend:
    """One, and the targets: clipped, centered and in units that are public.

    Parameters
    ----------
    low, high : ndarray of shape (n_targets,)
        What targets are clipped to.

    center, unit : ndarray of shape (n_targets,)
        What is taken off, and what they are then divided by.

    n_records : int
        Of a database: its sums are exact, whatever the order.
    """

    low: Floats
    high: Floats
    center: Floats
    unit: Floats
    n_records: int

    @property
    def n_columns(self) -> int:
        return 1 + len(self.low)

    @property
    def _ends(self) -> Floats:
        """Lowest and highest of what targets add, (2, n_targets), on the grid."""
        return self._on_grid(np.array([self.low, self.high]))

    def _on_grid(self, y: Floats) -> Floats:
        # A step of the grid is too small to be seen, and so large that sums are exact.
        reach = np.maximum(self._units(self.high), -self._units(self.low))
        steps = exact_steps(self.n_records, max(1.0, reach.max()))
        return np.asarray(np.round(self._units(y) * steps) / steps)

    def _units(self, y: Floats) -> Floats:
        # Divided first: differences of very large numbers may be beyond any.
        return np.asarray(y / self.unit - self.center / self.unit)

    def __call__(self, y: Any) -> Floats:
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if targets.shape[1] != len(self.low) or np.isnan(targets).any():
            raise ValueError(
                f"Targets must be numbers in {len(self.low)} column(s), got shape "
                f"{targets.shape}."
            )
        clipped = np.clip(targets, self.low, self.high)
        return np.column_stack([np.ones(len(targets)), self._on_grid(clipped)])

    def as_targets(self, values: Floats) -> Floats:
        """Return numbers in the units of what is added as targets, in their range."""
        with np.errstate(over="ignore"):  # what is beyond all numbers is clipped
            return np.clip(self.center + self.unit * values, self.low, self.high)

    def largest(self, relation: str) -> tuple[Floats, float, float]:
        low, high = self._ends
        most, apart = np.maximum(high, -low), high - low
        if relation != "replace-one":
            outputs = np.append(1.0, most)
            return outputs, float(outputs.sum()), float(np.linalg.norm(outputs))
        # In two cells of a tree, or in the same one, where only targets differ.
        l1 = max(2 + 2 * most.sum(), apart.sum())
        l2 = max(math.sqrt(2 + 2 * (most**2).sum()), float(np.linalg.norm(apart)))
        return np.append(1.0, np.maximum(most, apart)), float(l1), l2
