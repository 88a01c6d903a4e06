"""What a reference is: a population that databases are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from skparisk.exceptions import IncompatibleError

__all__ = [
    "RecordPool",
    "RecordSource",
    "Reference",
    "check_columns",
    "check_targets",
    "fingerprint",
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


class RecordSource(Protocol):
    """Draws databases for given sizes and a given number of pairs."""

    def draw(
        self, start: int, size: int, rng: np.random.Generator
    ) -> tuple[RecordPool, NDArray[np.intp]]:
        """Return a pool and the (size, n_drawn) indices of databases start, ..."""
        ...


class Reference(Protocol):
    """A population of records."""

    @property
    def description(self) -> str:
        """What is written on a certificate."""
        ...

    @property
    def fingerprint(self) -> bytes | None:
        """Of the records, where they are a table; to notice that they are private."""
        ...

    def check_columns(self, n_features: int, names: tuple[str, ...] | None) -> None:
        """Raise IncompatibleError if it is known to have other columns."""
        ...

    def bind(
        self, n_pairs: int, n_drawn: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of `n_pairs` databases of `n_drawn` records each."""
        ...


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


def fingerprint(X: NDArray[np.float64]) -> bytes:
    """Return what is the same for the same records in the same order, and else not."""
    digest = blake2b(str(X.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(X).data)
    return digest.digest()


def check_columns(n_reference: int, n_features: int) -> None:
    """Raise IncompatibleError if a reference has another number of features."""
    if n_reference != n_features:
        raise IncompatibleError(
            f"The reference has {n_reference} features, and X has {n_features}: they "
            "must be the same."
        )
