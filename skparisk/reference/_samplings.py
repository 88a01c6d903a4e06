"""How pairs are drawn from a pool of records, by index."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class Bootstrap(Sampling):
    """All rows independent."""

    def draw_own(self, start: int, size: int, rng: np.random.Generator) -> Rows:
        return draw_rows(self.n_rows, (size, self.n_own), rng)

    def draw_shared(self, start: int, own: Rows, rng: np.random.Generator) -> Rows:
        return draw_rows(self.n_rows, (len(own), self.n_shared), rng)


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
class Disjoint(Sampling):
    """Consecutive stretches of one permutation of the table."""

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
