"""Records that fresh pairs of databases are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk._validate import check_at_least
from skparisk.audit._releases import Pair, Records
from skparisk.reference._records import as_records, as_targets, n_rows, take_rows


@dataclass(frozen=True, eq=False)
class Population:
    """Records that fresh databases are drawn from."""

    X: Any
    y: Any
    n_records: int

    @classmethod
    def of(cls, X: Any, y: Any, n_records: int | None) -> Population:
        X = as_records(X, "X")
        y = None if y is None else as_targets(y)
        rows = n_rows(X)
        size = rows // 2 if n_records is None else n_records
        check_at_least(size, "n_records", 1)
        if rows <= size:
            raise ValueError(
                f"X must have more than n_records={size} rows, to replace a record, "
                f"got {rows}."
            )
        return cls(X, y, size)

    def rows(self, n_pairs: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return rows of pairs; the last one takes the place of the first.

        No row is replaced, or takes a place, in two pairs: people are independent, and
        pairs that share them are not.
        """
        total = n_rows(self.X)
        own = rng.permutation(total)[: 2 * n_pairs].reshape(-1, 2)
        found = np.empty((len(own), self.n_records + 1), dtype=np.intp)
        for row, (removed, added) in zip(found, own, strict=True):
            order = rng.permutation(total)
            others = order[(order != removed) & (order != added)]
            row[0], row[1:-1], row[-1] = removed, others[: self.n_records - 1], added
        return found

    def most_pairs(self) -> int:
        return n_rows(self.X) // 2

    def pair(self, rows: NDArray[np.intp], at: int) -> Pair:
        own = rows[at]
        other = np.concatenate([own[-1:], own[1:-1]])
        return self._take(own[:-1]), self._take(other)

    def _take(self, rows: NDArray[np.intp]) -> Records:
        X = take_rows(self.X, rows)
        return (X,) if self.y is None else (X, take_rows(self.y, rows))
