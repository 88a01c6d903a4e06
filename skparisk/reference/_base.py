"""What a reference is: a population that databases are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from skparisk.exceptions import IncompatibleError
from skparisk.reference._sketch import RecordSketch

__all__ = [
    "DrawnRecords",
    "RecordPool",
    "RecordSource",
    "Reference",
    "check_columns",
    "check_targets",
]


def _read_only(array: NDArray[np.float64]) -> NDArray[np.float64]:
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, eq=False)
class RecordPool:
    """Records that databases are made of, by index: features, and maybe targets.

    The arrays are read-only views, also after a round trip through pickle.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", _read_only(self.X))
        if self.y is not None:
            object.__setattr__(self, "y", _read_only(self.y))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.X, self.y)


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
        Returns those that both have, of shape (n_pairs, n_shared), in any order; or, if
        none is there twice, a truth value for each record of the pool, of shape
        (n_pairs, n_rows). Not asked for by queries whose differences do not depend on
        them. It is called once at the most, and draws from `rng`, which `own` was drawn
        with before.

    rng : numpy.random.Generator
        What puts them in random order, for queries that look at the order.
    """

    pool: RecordPool
    own: NDArray[np.integer[Any]]
    draw_shared: Callable[[], NDArray[np.integer[Any]] | NDArray[np.bool_]]
    rng: np.random.Generator


class RecordSource(Protocol):
    """Draws the records of pairs of databases, for sizes that are fixed."""

    def draw(self, start: int, size: int, rng: np.random.Generator) -> DrawnRecords:
        """Return the records of the pairs start, ..., start + size - 1."""
        ...


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
    def sketch(self) -> RecordSketch | None:
        """Hashes of the records, where they are a table, by which to know them."""
        return None

    def check_columns(self, n_features: int, names: tuple[str, ...] | None) -> None:
        """Raise IncompatibleError if it is known to have other columns."""
        return

    def bind(
        self, n_pairs: int, *, n_shared: int, n_own: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of `n_pairs` pairs.

        Their databases have `n_shared` records in common, and differ in `n_own`
        records: 2 for "replace-one", 1 for "add-remove", and 0 for a database alone.
        """
        ...

    def shortcomings(
        self, *, n_records: int, n_own: int, n_outputs: int, gamma: float
    ) -> tuple[str, ...]:
        """Return sentences: why it cannot carry a risk of that size, or nothing."""
        return ()


def check_targets(y: ArrayLike, name: str = "y") -> NDArray[np.float64]:
    """Return finite numeric targets of shape (n,) or (n, n_targets)."""
    if np.ndim(y) not in (1, 2):
        raise ValueError(
            f"{name} must have one or two dimensions, got shape {np.shape(y)}."
        )
    checked: NDArray[np.float64] = check_array(
        y, ensure_2d=False, dtype=np.float64, input_name=name
    )
    return checked


def check_columns(n_reference: int, n_features: int) -> None:
    """Raise IncompatibleError if a reference has another number of features."""
    if n_reference != n_features:
        raise IncompatibleError(
            f"The reference has {n_reference} features, but X has {n_features}: the "
            "numbers must be equal."
        )
