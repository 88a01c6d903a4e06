"""Records of a public table, drawn by index."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skparisk._validate import check_choice
from skparisk.certificate._rounding import ceil_text
from skparisk.reference._base import (
    DrawnRecords,
    RecordPool,
    RecordSource,
    Reference,
)
from skparisk.reference._records import Schema, as_records, as_targets, n_rows
from skparisk.reference._rows import (
    Rows,
    draw_few_distinct,
    draw_rows,
    draw_subsets,
    step_over,
)
from skparisk.reference._sketch import RecordSketch

__all__ = ["SAMPLINGS", "TableReference"]

# A table with fewer rows for each output does not show how they move together.
_ROWS_PER_OUTPUT = 10


@dataclass(frozen=True, eq=False)
class _Sampling(ABC):
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


class _Bootstrap(_Sampling):
    """All rows independent."""

    def draw_own(self, start: int, size: int, rng: np.random.Generator) -> Rows:
        return draw_rows(self.n_rows, (size, self.n_own), rng)

    def draw_shared(self, start: int, own: Rows, rng: np.random.Generator) -> Rows:
        return draw_rows(self.n_rows, (len(own), self.n_shared), rng)


@dataclass(frozen=True, eq=False)
class _LeaveOut(_Sampling):
    """Own rows are different, and in no shared record."""

    replacement: bool

    def draw_own(self, start: int, size: int, rng: np.random.Generator) -> Rows:
        return draw_few_distinct(self.n_rows, size, self.n_own, rng)

    def draw_shared(
        self, start: int, own: Rows, rng: np.random.Generator
    ) -> Rows | NDArray[np.bool_]:
        if not self.replacement:
            return draw_subsets(self.n_rows, own, self.n_shared, rng)
        n_others = self.n_rows - self.n_own
        return step_over(draw_rows(n_others, (len(own), self.n_shared), rng), own)


@dataclass(frozen=True, eq=False)
class _Disjoint(_Sampling):
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
class _Split(_Sampling):
    """Stretches of some rows, and shared records that are drawn from the others."""

    own: Rows
    others: Rows

    def draw_own(self, start: int, size: int, rng: np.random.Generator) -> Rows:
        return _stretches(self.own, start, size, self.n_own)

    def draw_shared(self, start: int, own: Rows, rng: np.random.Generator) -> Rows:
        n_others = len(self.others)
        return self.others[draw_rows(n_others, (len(own), self.n_shared), rng)]


def _stretches(rows: Rows, start: int, size: int, length: int) -> Rows:
    """Return consecutive lines of rows."""
    return rows[start * length : (start + size) * length].reshape(size, length)


@dataclass(frozen=True)
class _Kind:
    """What is known of a way of sampling before anything is drawn.

    `needs` returns the rows it takes, from the numbers of pairs, shared and own
    records; `for_new_people` is None where the risk is over the population itself.
    """

    description: str
    needs: Callable[[int, int, int], int]
    for_new_people: str | None = None


_THIN = (
    "risk at most {} larger for sums and means, because the table has only so many "
    "rows; not known for other queries"
)
_KINDS = {
    "leave-out": _Kind(
        "resampled from a table of {} rows, with the differing records left out of the "
        "shared ones",
        lambda n_pairs, n_shared, n_own: n_own + min(n_shared, 1),
        _THIN,
    ),
    "bootstrap": _Kind(
        "drawn with replacement from a table of {} rows",
        lambda n_pairs, n_shared, n_own: 2,
        "not known: the record that is put in may already be in the database, which "
        "hides how far it can move the answer",
    ),
    "subsample": _Kind(
        "drawn without replacement from a table of {} rows",
        lambda n_pairs, n_shared, n_own: n_shared + n_own,
        _THIN,
    ),
    "split": _Kind(
        "two drawn from the population of which a table of {} rows is a random sample, "
        "the others from half of the table",
        lambda n_pairs, n_shared, n_own: max(2 * n_own * n_pairs, 2),
    ),
    "disjoint": _Kind(
        "drawn from the population of which a table of {} rows is a random sample, "
        "with no row used twice",
        lambda n_pairs, n_shared, n_own: n_pairs * (n_shared + n_own),
    ),
}
SAMPLINGS = tuple(_KINDS)


class TableReference(Reference):
    """Records of a public table.

    Immutable: cloning returns the same object, so that a table is never copied.
    Nor are an array of floats, a data frame and a sparse matrix in CSR copied when they
    are given; do not change them afterwards.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Public records: numbers, texts, booleans and dates, some of which may be
        missing, in an array or a data frame of pandas or polars; a sparse matrix; or
        texts, of shape (n_rows,). Most queries take only finite numbers.

    y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
        Their targets: finite numbers, or labels, of shape (n_rows,).

    sampling : str, default="leave-out"
        How databases are drawn from the table. Rows are taken to be independent draws
        from a population, one row a person.

        * "leave-out": the records in which two databases differ are in no record that
          they share. Without replacement where a database has at most half as many
          records as the table has rows, which is the law of real pairs; else the
          shared records are drawn with replacement. The guarantee is over resamples of
          the table; for new people the risk is at most ``4 / (n_rows + 1)`` larger if
          differences do not depend on shared records, as for sums and means
          (:ref:`thm-leave-out`), and not known for other queries.
        * "split": each pair of rows of one half of the table is used once, and shared
          records are drawn from the other half. The guarantee is exact for two records
          of the *population* (:ref:`thm-split`). Needs ``4 * n_pairs`` rows (with
          "add-remove", ``2 * n_pairs``).
        * "disjoint": no row is used twice in any pair, so that the guarantee is over
          whole databases of the *population*. Needs ``n_pairs * (n_records + 1)`` rows
          (with "add-remove", ``n_pairs * n_records``).
        * "subsample": without replacement within a pair of databases; needs one row
          more than a database has records. The guarantee is over random subsets of the
          table.
        * "bootstrap": with replacement. The guarantee is over draws from the
          *empirical distribution* of the table. The record that is put in may stand in
          the database already: of real pairs, more exceed the level than the risk says.

    Attributes
    ----------
    n_rows : int
        Rows of the table.

    schema : Schema
        Its columns.

    description : str
        What is written on a certificate.

    feature_names : tuple of str or None
        Column names, where `X` has them.

    Raises
    ------
    ValueError
        If the table has fewer than two rows, `X` or `y` holds infinity, or they differ
        in length; when bound, if it has too few rows for `sampling`. What is missing,
        or is no number, is refused by queries that take only numbers.

    TypeError
        If a value is neither a number, a text, a boolean, a date nor missing.

    Examples
    --------
    >>> from skparisk.reference import TableReference
    >>> TableReference([[1.0], [2.0], [4.0]], sampling="subsample")
    TableReference(3 rows, 1 feature, sampling='subsample')
    """

    def __init__(self, X: Any, y: Any = None, sampling: str = "leave-out") -> None:
        self.sampling = check_choice(sampling, "sampling", SAMPLINGS)
        records = as_records(X, "X of the reference")
        if n_rows(records) < 2:
            raise ValueError(
                "A reference needs at least 2 records to show what one record "
                f"changes, got n_samples = {n_rows(records)}."
            )
        self.pool = RecordPool(records, _check_targets(y, n_rows(records)))
        self._schema = Schema.of(records)

    @property
    def n_rows(self) -> int:
        return self.pool.n_rows

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, where the table is a data frame that has some."""
        return self._schema.names

    @property
    def schema(self) -> Schema:
        """The columns of the table."""
        return self._schema

    @property
    def numbers(self) -> Self:
        """The same table as an array of finite numbers; itself where it is that.

        Raises
        ------
        ValueError, TypeError
            If it has other things in it, or none.
        """
        if self.pool.numbers is self.pool:
            return self
        return self._with(self.pool.numbers, self._schema.as_numbers())

    def with_targets(self, y: Any) -> Self:
        """Return the same records with other targets.

        Parameters
        ----------
        y : array-like of shape (n_rows,) or (n_rows, n_targets), or None
            Numbers, or labels.

        Returns
        -------
        reference : TableReference
        """
        other = self._with(RecordPool(self.pool.X, _check_targets(y, self.n_rows)))
        other.__dict__.pop("sketch", None)
        return other

    def _with(self, pool: RecordPool, schema: Schema | None = None) -> Self:
        other = copy.copy(self)
        other.pool = pool
        other._schema = self._schema if schema is None else schema
        return other

    @property
    def description(self) -> str:
        return self._kind.description.format(self.n_rows)

    @property
    def for_new_people(self) -> str | None:
        """What the risk means for new people, where it is over resamples."""
        words = self._kind.for_new_people
        more = ceil_text(min(1.0, 4 / (self.n_rows + 1)), 3)
        return None if words is None else words.format(more)

    @property
    def _kind(self) -> _Kind:
        return _KINDS[self.sampling]

    @cached_property
    def sketch(self) -> RecordSketch:
        """Hashes of the rows of the table, by which to know them again."""
        return RecordSketch.of(self.pool.X, self.pool.y)

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of pairs; see the class for the rows it needs."""
        needed = self._kind.needs(n_pairs, n_shared, n_own)
        if self.n_rows < needed:
            raise ValueError(
                f"sampling={self.sampling!r} needs a reference table of at least "
                f"{needed} rows for n_pairs={n_pairs} pairs of databases made of "
                f"{n_shared + n_own} records each, got {self.n_rows}; "
                f"{self._remedy(n_own)}."
            )
        shape = (self.pool, n_shared, n_own)
        if self.sampling == "bootstrap":
            return _Bootstrap(*shape)
        if self.sampling == "disjoint":
            order = np.random.default_rng(seed).permutation(self.n_rows)
            return _Disjoint(*shape, order)
        if self.sampling == "split":
            # The halves are the same for each seed: what is learned from the shared
            # records of one draw may be used with the pairs of another.
            halves = np.random.default_rng(self.n_rows).permutation(self.n_rows)
            own, others = np.split(halves, [self.n_rows // 2])
            order = np.random.default_rng(seed).permutation(own)
            return _Split(*shape, order, others)
        # Without replacement, as people are, where there is room.
        room = 2 * (n_shared + min(n_own, 1)) <= self.n_rows
        return _LeaveOut(*shape, self.sampling == "leave-out" and not room)

    def _remedy(self, n_own: int) -> str:
        if self.sampling == "split":
            return f"n_pairs={self.n_rows // (2 * n_own)} is the most it has rows for"
        if self.sampling == "leave-out":
            return "add public records"
        return "sampling='leave-out' makes do with fewer"

    def shortcomings(
        self, *, n_records: int, n_own: int, n_outputs: int, gamma: float
    ) -> tuple[str, ...]:
        """Return sentences: why the table cannot carry a risk, or nothing."""
        found, n_rows = [], self.n_rows
        if self.for_new_people is not None and gamma * (n_rows // n_own) < 1:
            found.append(
                f"The reference table has {n_rows} rows, so it does not show the tail "
                f"that a risk of {gamma:g} is about, which takes "
                f"{n_own * math.ceil(1 / gamma)} rows."
            )
        if n_rows < _ROWS_PER_OUTPUT * n_outputs:
            found.append(
                f"The reference table has {n_rows} rows, fewer than "
                f"{_ROWS_PER_OUTPUT} for each of {n_outputs} released numbers."
            )
        if n_records > n_rows:
            found.append(
                f"Databases of {n_records} records are drawn from only {n_rows} rows "
                "of a reference table, so rows repeat: medians, quantiles and choices "
                "move less between them than between databases of real people."
            )
        return tuple(found)

    def __sklearn_clone__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        n_features = self._schema.n_columns
        plural = "" if n_features == 1 else "s"
        return (
            f"TableReference({self.n_rows} rows, {n_features} feature{plural}, "
            f"sampling={self.sampling!r})"
        )


def _check_targets(y: Any, n_records: int) -> NDArray[Any] | None:
    """Return targets of a table, as many as it has records."""
    targets = None if y is None else as_targets(y, "y of the reference")
    if targets is not None and len(targets) != n_records:
        raise ValueError(
            "X and y of a reference must have the same number of rows, got "
            f"{n_records} and {len(targets)}."
        )
    return targets
