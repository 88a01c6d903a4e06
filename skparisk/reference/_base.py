"""What a reference is: a population that databases are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from skparisk.core.claim import Assumption
from skparisk.core.pairs import Withheld
from skparisk.core.sealed import People, PublicForm, Records, take_rows
from skparisk.reference._domain import Domain
from skparisk.reference._learning import Learning
from skparisk.reference._parted import Parted
from skparisk.reference._records import Schema, as_numbers, is_numbers, n_rows
from skparisk.reference._sketch import RecordSketch

# How a query is given records: as they are, or as an array of finite numbers.
Form: TypeAlias = Literal["given", "numbers"]
# Rows of a person, and of one for one in the reference, that sums have digits for.
_MOST_ROWS, _MORE_ROWS = 2**12, 2**8
# Records of a database that are in memory together.
_TAKEN_AT_ONCE = 2**18


@dataclass(frozen=True, eq=False)
class RecordPool:
    """Records to build databases from, by index: features, and maybe targets.

    Arrays are read-only views, also after a round trip through pickle.

    Parameters
    ----------
    X : ndarray, sparse matrix or data frame of shape (n_rows, n_features)
        The rows; an array of shape (n_rows,) if they are texts.

    y : ndarray of shape (n_rows,) or (n_rows, n_targets), default=None
        Numbers, or labels.

    ends : ndarray of shape (n_records,), default=None
        End of the rows of each record, if records are people with consecutive rows.
        None: each row is a record.

    weights : ndarray of shape (n_rows,), default=None
        Weights of rows, if known and not yet among the targets.
    """

    X: Records
    y: NDArray[Any] | None = None
    ends: NDArray[np.intp] | None = None
    weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name in ("X", "y"):
            if isinstance(array := getattr(self, name), np.ndarray):
                view = array.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.X, self.y, self.ends, self.weights)

    @cached_property
    def n_records(self) -> int:
        """Number of records."""
        return n_rows(self.X) if self.ends is None else len(self.ends)

    @cached_property
    def sizes(self) -> NDArray[np.intp] | None:
        """Number of rows of each person; None if a row is a record."""
        return None if self.ends is None else People(self.X, self.ends).sizes

    def rows(self, records: Any) -> Any:
        """Return the rows of some records, by number."""
        if self.ends is None:
            return records
        return People(self.X, self.ends).places(records)

    @property
    def first_rows(self) -> Any:
        """The first row of each record."""
        if self.ends is None:
            return slice(None)
        return People(self.X, self.ends).firsts

    def like(self, X: Records, y: NDArray[Any] | None) -> RecordPool:
        """Return transformed rows of the same records."""
        return RecordPool(X, y, self.ends, self.weights)

    def part(self, records: Any) -> RecordPool:
        """Return a pool of some of the records."""
        sizes = self.sizes
        ends = None if sizes is None else sizes[records].cumsum()
        weights = take_rows(self.weights, self.rows(records))
        return RecordPool(*self.take(records), ends, weights)

    @property
    def numbers(self) -> RecordPool:
        """The same records as an array of finite numbers; itself if it is one.

        Labels are left out, as they are no numbers.
        """
        return self if self._numbers is None else self._numbers

    # None stands for the pool itself, which would hold itself in memory.
    @cached_property
    def _numbers(self) -> RecordPool | None:
        X = as_numbers(self.X, "X of the reference")
        y = None if self.y is None or self.y.dtype == object else self.y
        same = is_numbers(self.X) and y is self.y
        return None if same else self.like(X, y)

    def take(self, records: Any) -> tuple[Records, NDArray[Any] | None]:
        """Return the rows of some records, and their targets."""
        rows = self.rows(records)
        return take_rows(self.X, rows), take_rows(self.y, rows)

    def take_in_parts(
        self, records: NDArray[Any]
    ) -> tuple[Records, NDArray[Any] | None]:
        """Return the same, with only a part of many numeric rows in memory."""
        rows = self.rows(records)
        if len(rows) <= _TAKEN_AT_ONCE or not is_numbers(self.X):
            return take_rows(self.X, rows), take_rows(self.y, rows)
        ends = np.append(np.arange(0, len(rows), _TAKEN_AT_ONCE)[1:], len(rows))
        parts = [partial(take_rows, self.X, each) for each in np.split(rows, ends[:-1])]
        X = Parted(parts, take_rows(self.X, rows[:0]), ends=ends)
        return X, take_rows(self.y, rows)

    def in_form(self, form: Form) -> RecordPool:
        """Return the records in the form of a query."""
        return self.numbers if form == "numbers" else self


@dataclass(frozen=True, eq=False)
class DrawnRecords:
    """Records of some pairs, as indices into a pool.

    Parameters
    ----------
    pool : RecordPool
        The records.

    own : ndarray of shape (n_pairs, n_own)
        Records that only one database of a pair has.

    draw_shared : callable
        Returns the shared records, of shape (n_pairs, n_shared), in any order; or the
        count of each record of the pool, of shape (n_pairs, n_rows), as unsigned
        integers. Called once at most, after `own` was drawn.

    rng : numpy.random.Generator
        Draws the shared records and the order of all.
    """

    pool: RecordPool
    own: NDArray[np.integer[Any]]
    draw_shared: Callable[[], NDArray[Any]]
    rng: np.random.Generator


class RecordSource(Protocol):
    """Draw the records of pairs of databases of fixed sizes."""

    def draw(self, start: int, size: int, rng: np.random.Generator) -> DrawnRecords:
        """Return the records of the pairs start, ..., start + size - 1."""
        ...


class Held:
    """What is not changed by who has it: a copy, or a clone, is itself."""

    __slots__ = ()

    def __sklearn_clone__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@runtime_checkable
class Reference(Protocol):
    """A population of records; subclasses define `description` and `bind`.

    A subclass guarantees that `bind` draws independent, identically distributed pairs,
    or pairs exchangeable with a fresh pair of the population in `description`. Nothing
    of it may depend on private records. It may assume that a source is asked for its
    pairs in order, each once, and by independent generators.
    """

    @property
    def description(self) -> str:
        """Text about the reference on a certificate."""
        ...

    @property
    def for_new_people(self) -> str | None:
        """Risk for new people, if it is over resamples of a table."""
        return None

    @property
    def made_up(self) -> bool:
        """Whether records or targets follow a declared distribution."""
        return False

    @property
    def sketch(self) -> RecordSketch | None:
        """Hashes of records, or of some simulated ones, for recognition."""
        return None

    @property
    def schema(self) -> Schema | None:
        """Columns of the records, if known."""
        return None

    @property
    def form(self) -> PublicForm | None:
        """Container and types to cast private records to, if known.

        None: the form of the first drawn database.
        """
        return None

    @property
    def domain(self) -> Domain | None:
        """Ranges to which private records are clipped.

        Must leave the records of `bind` as they are. Must not depend on the differing
        records of a pair, unless the risk is over resamples of them.
        """
        return None

    @property
    def learning(self) -> Learning | None:
        """Level and size of the learning sample, if private records were used."""
        return None

    @property
    def targets(self) -> NDArray[Any] | None:
        """Targets, of any number, including all classes; None: unknown."""
        return None

    @property
    def numbers(self) -> Reference:
        """The same population as arrays of numbers."""
        return self

    @property
    def whole(self) -> RecordPool | None:
        """Public records to learn structure from, such as categories.

        None if there are only the records drawn for pairs.
        """
        return None

    @property
    def rows_per_person(self) -> tuple[int, int] | None:
        """Fewest and most rows of a record, if records are people."""
        return None

    @property
    def of_people(self) -> bool:
        """Whether a record is a person, who may have several rows."""
        return self.rows_per_person is not None

    def most_rows(self, n_records: int) -> int:
        """Return the number of rows for which sums must be exact."""
        if self.rows_per_person is None:
            return n_records
        return n_records * max(_MOST_ROWS, _MORE_ROWS * self.rows_per_person[1])

    def n_independent(self, n_own: int) -> int | None:
        """Return the number of pairs that have `n_own` records of their own.

        None if records are drawn anew for each pair.
        """
        return None

    def encoded(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> Reference:
        """Return the same population with `encode` applied to its targets."""
        return self

    @property
    def withheld(self) -> Withheld | None:
        """Facts for the certificate if the records are private; None: public."""
        return None

    @property
    def fixed_n_records(self) -> int | None:
        """Size of a database, if it is not the caller's choice."""
        return None

    def check_schema(self, schema: Schema) -> None:
        """Raise IncompatibleError if its columns are known and differ from `X`."""
        if self.schema is not None:
            self.schema.check_same(schema)

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of `n_pairs` pairs.

        Their databases have `n_shared` records in common, and differ in `n_own`
        records: 2 for "replace-one", 1 for "add-remove", and 0 for a database alone.
        """
        ...

    def shortcomings(self, *, n_records: int, n_outputs: int) -> dict[Assumption, str]:
        """Return reasons to doubt that it describes people, each with a sentence."""
        return {}


def is_reference(given: Any) -> bool:
    """Tell if it is a reference; `isinstance` alone would evaluate its properties."""
    return Reference in type(given).__mro__ or isinstance(given, Reference)
