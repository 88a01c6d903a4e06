"""Records of a public table, drawn by index."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_choice
from skparisk.core.claim import Assumption
from skparisk.core.sealed import (
    PublicForm,
    TargetForm,
    group_rows,
    ids_of,
    key_of_id,
    take_rows,
)
from skparisk.reference._base import (
    DrawnRecords,
    Held,
    RecordPool,
    RecordSource,
    Reference,
)
from skparisk.reference._records import (
    Schema,
    as_records,
    as_targets,
    beside,
    n_rows,
)
from skparisk.reference._rows import (
    Rows,
    draw_few_distinct,
    draw_rows,
    draw_shared_rows,
    draw_subsets,
)
from skparisk.reference._sketch import RecordSketch

SAMPLINGS = ("leave-out", "split")
_DESCRIPTIONS = {
    "leave-out": "resampled from a table of {}, with the differing records left "
    "out of the shared ones",
    "split": "two drawn from the population of which a table of {} is a random "
    "sample, the others from half of the table",
    # Set inside of the package alone, for sums: their databases need not be drawn.
    "used-once": "drawn from the population of which a table of {} is a random "
    "sample, with no row used twice",
}


@dataclass(frozen=True, eq=False)
class LeaveOut:
    """Draws rows of which own ones are different, and in no shared record."""

    pool: RecordPool
    n_shared: int
    n_own: int
    replacement: bool

    def draw(self, start: int, size: int, rng: np.random.Generator) -> DrawnRecords:
        n_rows = self.pool.n_records
        own = draw_few_distinct(n_rows, size, self.n_own, rng)
        draw = draw_shared_rows if self.replacement else draw_subsets
        return DrawnRecords(
            self.pool, own, lambda: draw(n_rows, own, self.n_shared, rng), rng
        )


@dataclass(frozen=True, eq=False)
class Split:
    """Draws stretches of some rows, and shared records from the others."""

    pool: RecordPool
    n_shared: int
    n_own: int
    own: Rows
    others: Rows
    replacement: bool = True

    def draw(self, start: int, size: int, rng: np.random.Generator) -> DrawnRecords:
        first, stop = start * self.n_own, (start + size) * self.n_own
        own = self.own[first:stop].reshape(size, self.n_own)
        return DrawnRecords(self.pool, own, lambda: self._draw_shared(size, rng), rng)

    def _draw_shared(self, size: int, rng: np.random.Generator) -> Rows:
        n_others = len(self.others)
        if self.replacement:
            return self.others[draw_rows(n_others, (size, self.n_shared), rng)]
        none = np.empty((size, 0), dtype=np.intp)
        return self.others[draw_subsets(n_others, none, self.n_shared, rng)]


# A table with fewer rows for each output does not show how they move together.
_ROWS_PER_OUTPUT = 10
_WEIGHTED = "; no weight counts as more than the largest one of the table"
_CROSS_FITTED = (
    "; the release corrects a fit to public records, and residuals of the table are "
    "under fits to its other rows"
)


class TableReference(Held, Reference):
    """Records of a public table.

    Immutable: a clone is the same object. An array of floats, a data frame and a sparse
    matrix in CSR are not copied; do not change them afterwards.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Public records: numbers, texts, booleans and dates, possibly missing, in an
        array or a data frame of pandas or polars; a sparse matrix; or texts, of shape
        (n_rows,). Most queries take only finite numbers.

    y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
        Their targets: finite numbers, or labels, of shape (n_rows,).

    sampling : str, default="leave-out"
        How databases are drawn from the table. Rows are taken to be independent draws
        from a population, one row a person.

        * "leave-out": databases share none of their differing records. Shared records
          are drawn without replacement, as people are, if a database has at most half
          as many records as the table has rows; else with replacement. The guarantee is
          over resamples of the table. For new people the risk is at most ``4 / (n_rows
          + 1)`` larger if differences do not depend on shared records, as for sums and
          means, and the shape of the noise is not learned from the table
          (:ref:`thm-leave-out`); for others it is not known.
        * "split": each pair of rows of one half of the table is used once, and shared
          records are drawn from the other half. The guarantee is exact for two records
          of the *population* (:ref:`thm-split`). Needs ``4 * n_pairs`` rows (with
          "add-remove", ``2 * n_pairs``).

    groups : array-like of shape (n_rows,), default=None
        Whose each row is: ids of any kind. A record is then a person with all of their
        rows, and the claim protects people (:ref:`thm-people`). The table keeps them;
        fitted estimators do not.

    Raises
    ------
    ValueError
        If the table has fewer than two rows, `X` or `y` holds infinity, or they differ
        in length; when bound, if it has too few rows for `sampling`.

    TypeError
        If a value is neither a number, a text, a boolean, a date nor missing.

    Examples
    --------
    >>> from skparisk import TableReference
    >>> TableReference([[1.0], [2.0], [4.0]], sampling="split")
    TableReference(3 rows, 1 feature, sampling='split')
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        sampling: str = "leave-out",
        *,
        groups: Any = None,
    ) -> None:
        self.sampling = check_choice(sampling, "sampling", SAMPLINGS)
        records = as_records(X, "X of the reference")
        targets, ends = _check_targets(y, n_rows(records)), None
        self._order: Any = slice(None)  # of the rows, as they were given
        self._people: frozenset[Any] = frozenset()  # by which they are known again
        if groups is not None:
            people = group_rows(groups, "groups of the reference", n_rows(records))
            self._order = people.rows
            self._people = frozenset(map(key_of_id, ids_of(groups) or ()))
            records, targets = (take_rows(x, people.rows) for x in (records, targets))
            ends = people.ends
        self.pool = RecordPool(records, targets, ends)
        if self.n_records < 2:
            raise ValueError(
                "A reference needs at least 2 records to show what one record "
                f"changes, got n_samples = {self.n_records}."
            )
        self._schema = Schema.of(records)
        self._form = PublicForm.of(records, y)
        self._sketch: RecordSketch | None = None
        self.is_cross_fitted = self.is_weighted = False

    @property
    def n_records(self) -> int:
        """Number of records: rows, or people with all of their rows."""
        return self.pool.n_records

    @property
    def _what(self) -> str:
        return "rows" if self.pool.ends is None else "people"

    @property
    def _size(self) -> str:
        rows = f"{n_rows(self.pool.X)} rows"
        people = self.pool.ends is not None
        return f"{self.n_records} people ({rows})" if people else rows

    @property
    def rows_per_person(self) -> tuple[int, int] | None:
        sizes = self.pool.sizes
        return None if sizes is None else (int(sizes.min()), int(sizes.max()))

    @property
    def schema(self) -> Schema:
        """The columns of the table."""
        return self._schema

    @property
    def form(self) -> PublicForm:
        """Container and types of the table and of its targets."""
        return self._form

    @property
    def numbers(self) -> Self:
        """The same table as an array of finite numbers; itself if it is one.

        Raises
        ------
        ValueError, TypeError
            If it has other things in it, or none.
        """
        if self.pool.numbers is self.pool:
            return self
        return self._with(self.pool.numbers, _schema=self._schema.as_numbers())

    def encoded(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return the same records with `encode` applied to their targets."""
        assert self.pool.y is not None
        y, old = encode(self.pool.y), self._form.targets
        targets = TargetForm.of(y)
        if old is not None and not old.labels:
            # Numbers stand for themselves, and classes keep their type.
            targets = replace(targets, dtype=old.dtype)
        return self._with(
            self.pool.like(self.pool.X, y),
            _form=replace(self._form, targets=targets),
            _sketch=None,
            is_cross_fitted=False,
        )

    @property
    def targets(self) -> NDArray[Any] | None:
        """The targets of the table."""
        return self.pool.y

    @property
    def whole(self) -> RecordPool | None:
        """All rows, unless pairs must see each row only once."""
        return self.pool if self.sampling == "leave-out" else None

    def n_independent(self, n_own: int) -> int | None:
        """Return the number of pairs with rows of their own."""
        return self.n_records // n_own

    def _with(self, pool: RecordPool, **changed: Any) -> Self:
        other = copy.copy(self)
        vars(other).update(changed, pool=pool)
        return other

    def _weighted(self, weights: NDArray[np.float64]) -> Self:
        """Return the same records with how much each row counts, as it was given."""
        in_order = take_rows(weights, self._order)
        return self._with(replace(self.pool, weights=in_order))

    def _with_weights(self) -> Self:
        """Return the same records with weights in the last column of their targets."""
        pool = self.pool
        assert pool.weights is not None
        return self._with(
            replace(pool, y=beside(pool.y, pool.weights), weights=None),
            _sketch=self.sketch,  # by which they are known again, without weights
            is_weighted=True,
        )

    def _in_form(self, form: PublicForm | None) -> Self:
        """Return the same table, if it was given in another form than it is in."""
        return self._with(self.pool, _form=form or self._form)

    def _part(self, most: int) -> Self:
        """Return rows drawn from it, if it has more; known as all."""
        if self.n_records <= most:
            return self
        # Always the same, so that what is learned from them does not depend on a seed.
        rng = np.random.default_rng(self.n_records)
        none = np.empty((1, 0), dtype=np.intp)
        (rows,) = draw_subsets(self.n_records, none, most, rng)
        return self._with(self.pool.part(np.sort(rows)), _sketch=self.sketch)

    def _half(self, rng: np.random.Generator) -> Self:
        """Return half of its rows, by chance."""
        rows = rng.permutation(self.n_records)[: self.n_records // 2]
        return self._with(self.pool.part(np.sort(rows)))

    def _cross_fitted(self, y: Any) -> Self:
        """Return the same records with targets as they are under fits to others."""
        pool = self.pool.like(self.pool.X, y)
        # By their own targets they are known again.
        return self._with(pool, _sketch=self.sketch, is_cross_fitted=True)

    def _halves(self) -> list[NDArray[np.intp]]:
        """Return the rows of pairs, and of shared records: the same for all seeds."""
        halves = np.random.default_rng(self.n_records).permutation(self.n_records)
        return np.split(halves, [self.n_records // 2])

    def _split_off(self, classes: NDArray[Any] | None) -> tuple[NDArray[np.intp], Self]:
        """Return half of its records, of each class; and a table of the others."""
        mixed = np.concatenate(self._halves())
        if classes is not None:
            firsts = classes[self.pool.first_rows]
            mixed = mixed[np.argsort(firsts[mixed], kind="stable")]
        half, others = np.sort(mixed[::2]), np.sort(mixed[1::2])
        return half, self._with(self.pool.part(others), _sketch=self.sketch)

    @property
    def description(self) -> str:
        words = _DESCRIPTIONS[self.sampling].format(self._size)
        if self.is_weighted:
            words += _WEIGHTED
        if self.is_cross_fitted:
            words += _CROSS_FITTED
        return words

    @property
    def for_new_people(self) -> str | None:
        """Risk for new people, if it is over resamples of the table."""
        if not self.is_thin:
            return None
        if self.is_cross_fitted:
            return "not known: the fit that is corrected is of this table as well"
        return (
            "not known: proven only for answers that differ by the differing records "
            "alone, with noise whose shape is not learned from the table"
        )

    @property
    def is_thin(self) -> bool:
        """Whether pairs are distributed like real ones, but depend on each other."""
        return self.sampling == "leave-out"

    @property
    def sketch(self) -> RecordSketch:
        """Hashes of the rows of the table, for recognition.

        Made anew each time, as their owner may have changed them meanwhile.
        """
        return self._sketch or RecordSketch.of(self.pool.X, self.pool.y)

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of pairs; see the class for the rows it needs."""
        needed, remedy = n_own + min(n_shared, 1), "add public records"
        if self.sampling == "split":
            needed = max(2 * n_own * n_pairs, 2)
            most = self.n_records // max(2 * n_own, 1)
            remedy = f"n_pairs={most} is the most it has rows for"
        elif self.sampling == "used-once":
            needed = n_pairs * (n_shared + n_own)
        if self.n_records < needed:
            raise ValueError(
                f"sampling={self.sampling!r} needs a reference table of at least "
                f"{needed} {self._what} for n_pairs={n_pairs} pairs of databases made "
                f"of {n_shared + n_own} records each, got {self.n_records}; {remedy}."
            )
        shape = (self.pool, n_shared, n_own)
        if self.sampling == "used-once":
            assert not (n_own and n_shared)  # of sums: pairs share no record
            order = np.random.default_rng(seed).permutation(self.n_records)
            return Split(*shape, order, order, replacement=False)
        if self.sampling == "split":
            own, others = self._halves()
            order = np.random.default_rng(seed).permutation(own)
            return Split(*shape, order, others)
        # Without replacement, as people are, where there is room.
        room = self.n_records >= max(2 * (n_shared + min(n_own, 1)), n_shared + n_own)
        return LeaveOut(*shape, replacement=not room)

    def shortcomings(self, *, n_records: int, n_outputs: int) -> dict[Assumption, str]:
        """Return reasons to doubt that the table describes people, with sentences.

        An empty one where it is no warning: few answers move less than among people.
        """
        found, n_rows = {}, self.n_records
        if n_rows < _ROWS_PER_OUTPUT * n_outputs:
            found[Assumption.FEW_ROWS] = (
                f"The reference table has {n_rows} {self._what}, fewer than "
                f"{_ROWS_PER_OUTPUT} for each of {n_outputs} released numbers."
            )
        if n_rows < 2 * n_records and n_records > 1:  # see bind
            found[Assumption.REPEATED_ROWS] = ""
        if n_rows < n_records:
            found[Assumption.REPEATED_ROWS] = (
                f"Databases of {n_records} records are drawn from only {n_rows} "
                f"{self._what} of a reference table, so {self._what} repeat: medians, "
                "quantiles, choices, and what depends on near or equal records move "
                "less between them than between databases of real people."
            )
        return found

    def __repr__(self) -> str:
        n_features = self._schema.n_columns
        plural = "" if n_features == 1 else "s"
        return (
            f"TableReference({self._size}, {n_features} feature{plural}, "
            f"sampling={self.sampling!r})"
        )


def shares_people(table: Any, groups: Any) -> bool:
    """Tell if one of these ids is in a table, if only of another type."""
    keys: frozenset[Any] = getattr(table, "_people", frozenset())
    private = ids_of(groups) if keys else None
    return private is not None and not keys.isdisjoint(map(key_of_id, private))


def _check_targets(y: Any, n_records: int) -> NDArray[Any] | None:
    """Return targets, as many as there are records."""
    targets = None if y is None else as_targets(y, "y of the reference")
    if targets is not None and len(targets) != n_records:
        raise ValueError(
            "X and y of a reference must have the same number of rows, got "
            f"{n_records} and {len(targets)}."
        )
    return targets
