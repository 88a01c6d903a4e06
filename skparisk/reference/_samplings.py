"""The ways to sample a table: how pairs are drawn by index, and what is known of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skparisk.reference._base import DrawnRecords, RecordPool
from skparisk.reference._rows import (
    Rows,
    draw_few_distinct,
    draw_rows,
    draw_shared_rows,
    draw_subsets,
)


@dataclass(frozen=True, eq=False)
class Sampling(ABC):
    """A source of pairs of `n_shared` and `n_own` rows of a table."""

    pool: RecordPool
    n_shared: int
    n_own: int

    @property
    def n_rows(self) -> int:
        return self.pool.n_rows

    def draw(self, start: int, size: int, rng: np.random.Generator) -> DrawnRecords:
        own = self.draw_own(start, size, rng)
        return DrawnRecords(
            self.pool, own, lambda: self.draw_shared(start, own, rng), rng
        )

    @abstractmethod
    def draw_own(self, start: int, size: int, rng: np.random.Generator) -> Rows:
        """Return the rows of one database alone, for some pairs."""

    @abstractmethod
    def draw_shared(
        self, start: int, own: Rows, rng: np.random.Generator
    ) -> Rows | NDArray[np.bool_]:
        """Return the rows that both databases of these pairs have."""


@dataclass(frozen=True, eq=False)
class LeaveOut(Sampling):
    """Own rows are different, and in no shared record."""

    replacement: bool

    def draw_own(self, start: int, size: int, rng: np.random.Generator) -> Rows:
        return draw_few_distinct(self.n_rows, size, self.n_own, rng)

    def draw_shared(
        self, start: int, own: Rows, rng: np.random.Generator
    ) -> Rows | NDArray[np.bool_]:
        if not self.replacement:
            return draw_subsets(self.n_rows, own, self.n_shared, rng)
        return draw_shared_rows(self.n_rows, own, self.n_shared, rng)


@dataclass(frozen=True, eq=False)
class UsedOnce(Sampling):
    """Consecutive stretches of one permutation of the table: no row is used twice."""

    order: Rows

    def draw_own(self, start: int, size: int, rng: np.random.Generator) -> Rows:
        return _stretches(self.order, start, size, self._n_drawn)[:, self.n_shared :]

    def draw_shared(self, start: int, own: Rows, rng: np.random.Generator) -> Rows:
        lines = _stretches(self.order, start, len(own), self._n_drawn)
        return lines[:, : self.n_shared].copy()

    @property
    def _n_drawn(self) -> int:
        return self.n_shared + self.n_own


@dataclass(frozen=True, eq=False)
class Split(Sampling):
    """Stretches of some rows, and shared records that are drawn from the others."""

    own: Rows
    others: Rows
    replacement: bool = True

    def draw_own(self, start: int, size: int, rng: np.random.Generator) -> Rows:
        return _stretches(self.own, start, size, self.n_own)

    def draw_shared(
        self, start: int, own: Rows, rng: np.random.Generator
    ) -> Rows | NDArray[np.bool_]:
        n_others = len(self.others)
        if self.replacement:
            return self.others[draw_rows(n_others, (len(own), self.n_shared), rng)]
        shared = draw_subsets(n_others, own[:, :0], self.n_shared, rng)
        if shared.dtype != np.bool_:
            return self.others[shared]
        chosen = np.zeros((len(own), self.n_rows), dtype=bool)
        chosen[:, self.others] = shared
        return chosen


def _stretches(rows: Rows, start: int, size: int, length: int) -> Rows:
    """Return consecutive lines of rows."""
    return rows[start * length : (start + size) * length].reshape(size, length)


@dataclass(frozen=True)
class Kind:
    """A way of sampling.

    `needs` returns the rows it takes, from the numbers of pairs, shared and own
    records; `for_new_people` is None where the risk is over the population itself.
    """

    description: str
    needs: Callable[[int, int, int], int]
    for_new_people: str | None = None


KINDS = {
    "leave-out": Kind(
        "resampled from a table of {} rows, with the differing records left out of the "
        "shared ones",
        lambda n_pairs, n_shared, n_own: n_own + min(n_shared, 1),
        "not known: proven only for answers that differ by the differing records "
        "alone, with noise whose shape is not learned from the table",
    ),
    "split": Kind(
        "two drawn from the population of which a table of {} rows is a random sample, "
        "the others from half of the table",
        lambda n_pairs, n_shared, n_own: max(2 * n_own * n_pairs, 2),
    ),
    # For sums, whose databases need not be drawn.
    "used-once": Kind(
        "drawn from the population of which a table of {} rows is a random sample, "
        "with no row used twice",
        lambda n_pairs, n_shared, n_own: n_pairs * (n_shared + n_own),
    ),
}
SAMPLINGS = ("leave-out", "split")
