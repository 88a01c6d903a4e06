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
from skparisk.core.sealed import PublicForm, Records, take_rows
from skparisk.reference._domain import Domain
from skparisk.reference._learning import Learning
from skparisk.reference._parted import Parted
from skparisk.reference._records import Schema, as_numbers, is_numbers, n_rows
from skparisk.reference._rows import draw_subsets, listed
from skparisk.reference._sketch import RecordSketch

# How a query is given records: as they are, or as an array of finite numbers.
Form: TypeAlias = Literal["given", "numbers"]
# Records of a database that are in memory together.
_TAKEN_AT_ONCE = 2**18


def _read_only(records: Records) -> Records:
    """Return a view that cannot be written to; other containers as they are."""
    if not isinstance(records, np.ndarray):
        return records
    view = records.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, eq=False)
class RecordPool:
    """Records that databases are made of, by index: features, and maybe targets.

    Arrays are read-only views, also after a round trip through pickle.

    Parameters
    ----------
    X : ndarray, sparse matrix or data frame of shape (n_rows, n_features)
        The records; an array of shape (n_rows,) if they are texts.

    y : ndarray of shape (n_rows,) or (n_rows, n_targets), default=None
        Numbers, or labels.
    """

    X: Records
    y: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", _read_only(self.X))
        if self.y is not None:
            object.__setattr__(self, "y", _read_only(self.y))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.X, self.y)

    @cached_property
    def n_rows(self) -> int:
        """Number of records."""
        return n_rows(self.X)

    @property
    def numbers(self) -> RecordPool:
        """The same records as an array of finite numbers; itself where it is that.

        Labels are left out, as they are no numbers.
        """
        return self if self._numbers is None else self._numbers

    def part(self, most: int) -> RecordPool:
        """Return so many records at the most, drawn at random, or itself."""
        if self.n_rows <= most:
            return self
        # Always the same, so that what is learned from them does not depend on a seed.
        rng = np.random.default_rng(self.n_rows)
        none = np.empty((1, 0), dtype=np.intp)
        (rows,) = listed(draw_subsets(self.n_rows, none, most, rng))
        return RecordPool(*self.take(np.sort(rows)))

    # None stands for the pool itself, which would hold itself in memory.
    @cached_property
    def _numbers(self) -> RecordPool | None:
        X = as_numbers(self.X, "X of the reference")
        y = None if self.y is None or self.y.dtype == object else self.y
        same = is_numbers(self.X) and y is self.y
        return None if same else RecordPool(X, y)

    def take(self, rows: Any) -> tuple[Records, NDArray[Any] | None]:
        """Return the records and targets of some rows."""
        return take_rows(self.X, rows), take_rows(self.y, rows)

    def take_in_parts(self, rows: NDArray[Any]) -> tuple[Records, NDArray[Any] | None]:
        """Return the same, where rows are many of numbers: a part is in memory."""
        if len(rows) <= _TAKEN_AT_ONCE or not is_numbers(self.X):
            return self.take(rows)
        ends = np.append(np.arange(0, len(rows), _TAKEN_AT_ONCE)[1:], len(rows))
        parts = [partial(take_rows, self.X, each) for each in np.split(rows, ends[:-1])]
        X = Parted(parts, take_rows(self.X, rows[:0]), ends=ends)
        return X, take_rows(self.y, rows)

    def in_form(self, form: Form) -> RecordPool:
        """Return the records as a query is given them."""
        return self.numbers if form == "numbers" else self


@dataclass(frozen=True, eq=False)
class DrawnRecords:
    """The records of some pairs, as indices into a pool.

    Parameters
    ----------
    pool : RecordPool
        The records.

    own : ndarray of shape (n_pairs, n_own)
        Those that only one database of a pair has.

    draw_shared : callable
        Returns those that both have, of shape (n_pairs, n_shared), in any order; or how
        often each record of the pool is there, of shape (n_pairs, n_rows): unsigned
        integers, or truth values if none is there twice. Not asked for by queries whose
        differences do not depend on them. It is called once at the most, and draws from
        `rng`, which `own` was drawn with before.

    rng : numpy.random.Generator
        What puts them in random order, for queries that look at the order.
    """

    pool: RecordPool
    own: NDArray[np.integer[Any]]
    draw_shared: Callable[[], NDArray[Any]]
    rng: np.random.Generator


class RecordSource(Protocol):
    """Draws the records of pairs of databases, for sizes that are fixed."""

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
    """A population of records. Subclasses inherit what is not said otherwise.

    A class that implements this guarantees that `bind` draws pairs which are
    independent and alike, or exchangeable with a fresh pair of the population that
    `description` names; and that nothing of it depends on private records. It may
    assume that a source is asked for its pairs in order, each once, and by generators
    that are independent.
    """

    @property
    def description(self) -> str:
        """What is written on a certificate."""
        ...

    @property
    def for_new_people(self) -> str | None:
        """What the risk means for new people, where it is over resamples of some."""
        return None

    @property
    def made_up(self) -> bool:
        """Whether records, or targets, are of a law that somebody declared."""
        return False

    @property
    def sketch(self) -> RecordSketch | None:
        """Hashes of the records, or of some that are made, by which to know them."""
        return None

    @property
    def schema(self) -> Schema | None:
        """The columns of the records, where they are known."""
        return None

    @property
    def form(self) -> PublicForm | None:
        """Container and types that private records are read in, if known beforehand.

        None: those of the first database that is drawn.
        """
        return None

    @property
    def domain(self) -> Domain | None:
        """What private records are moved to, if to anything, before they are answered.

        It must leave the records of `bind` as they are, and must not depend on those in
        which the databases of a pair differ, unless the risk is over resamples of them.
        """
        return None

    @property
    def learning(self) -> Learning | None:
        """What it was learned with, if from private records that are not released."""
        return None

    @property
    def usual_n_records(self) -> int | None:
        """Records of a database where nothing else is asked for; None: those of `X`."""
        return None

    @property
    def targets(self) -> NDArray[Any] | None:
        """Targets as there may be, of any number, where they are known: all classes."""
        return None

    @property
    def numbers(self) -> Reference:
        """The same population as arrays of numbers, if that can be said beforehand."""
        return self

    @property
    def whole(self) -> RecordPool | None:
        """All that is public of the population, to learn structure such as categories.

        None where there is no more than what is drawn, or pairs must not be looked at.
        """
        return None

    def n_independent(self, n_own: int) -> int | None:
        """Return how many pairs it has whose `n_own` records are no other pair's.

        None where records are drawn anew for each pair.
        """
        return None

    def encoded(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> Reference:
        """Return the same population with what `encode` makes of its targets.

        Parameters
        ----------
        encode : callable
            Maps labels to numbers.

        Returns
        -------
        reference : Reference
            Of the same kind.
        """
        return self

    @property
    def withheld(self) -> Withheld | None:
        """What a certificate says if the records are private; None: they are public."""
        return None

    @property
    def fixed_n_records(self) -> int | None:
        """Records of a database, where that is not the caller's choice."""
        return None

    def check_schema(self, schema: Schema) -> None:
        """Raise IncompatibleError if it is known to have other columns than `X`."""
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
        """Return why it may not be like people, each with a sentence, or nothing."""
        return {}


def is_reference(given: Any) -> bool:
    """Tell if it is a reference, without a look at properties that have to be found.

    `isinstance` evaluates them all, before it asks if it is a subclass.
    """
    return Reference in type(given).__mro__ or isinstance(given, Reference)
