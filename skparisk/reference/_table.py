"""Records of a public table, drawn by index."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from skparisk._validate import check_choice
from skparisk.exceptions import IncompatibleError
from skparisk.reference._base import (
    RecordPool,
    RecordSource,
    check_columns,
    check_targets,
    fingerprint,
)

__all__ = ["SAMPLINGS", "TableReference"]

SAMPLINGS = ("bootstrap", "subsample", "disjoint")


class _IndexSource:
    """Draws rows of one table by index."""

    def __init__(
        self, pool: RecordPool, draw: Callable[..., NDArray[np.intp]], n_drawn: int
    ) -> None:
        self._pool = pool
        self._draw = draw
        self._n_drawn = n_drawn

    def draw(
        self, start: int, size: int, rng: np.random.Generator
    ) -> tuple[RecordPool, NDArray[np.intp]]:
        n_rows = len(self._pool.X)
        return self._pool, self._draw(n_rows, start, size, self._n_drawn, rng)


def _bootstrap(
    n_rows: int, start: int, size: int, n_drawn: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    # 32-bit draws take half the time of 64-bit ones.
    dtype: type = np.int32 if n_rows < 2**31 else np.int64
    return rng.integers(n_rows, size=(size, n_drawn), dtype=dtype).astype(np.intp)


def _subsample(
    n_rows: int, start: int, size: int, n_drawn: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    rows = np.empty((size, n_drawn), dtype=np.intp)
    for row in rows:
        row[:] = rng.choice(n_rows, size=n_drawn, replace=False)
    return rows


class _Disjoint:
    """Consecutive stretches of one permutation of the table."""

    def __init__(self, n_rows: int, seed: np.random.SeedSequence) -> None:
        self._order = np.random.default_rng(seed).permutation(n_rows)

    def __call__(
        self,
        n_rows: int,
        start: int,
        size: int,
        n_drawn: int,
        rng: np.random.Generator,
    ) -> NDArray[np.intp]:
        stretch = self._order[start * n_drawn : (start + size) * n_drawn]
        return stretch.reshape(size, n_drawn)


class TableReference:
    """Records of a public table.

    Immutable: cloning returns the same object, so that a table is never copied.
    Nor is an array of floats copied when it is given; do not change it afterwards.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Public records. Finite numbers.

    y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
        Their targets.

    sampling : {"bootstrap", "subsample", "disjoint"}, default="bootstrap"
        How databases are drawn from the table.

        * "bootstrap": with replacement. The guarantee is over databases drawn
          from the *empirical distribution* of the table.
        * "subsample": without replacement within a pair of databases; needs
          one row more than a database has records. The guarantee is over
          random subsets of the table.
        * "disjoint": no row is used twice in any pair, so that the pairs are
          independent draws from the population of which the table is a random
          sample, and the guarantee is over that *population*. Needs
          ``n_pairs * (n_records + 1)`` rows (with "add-remove", ``n_pairs *
          n_records``).

    Attributes
    ----------
    n_rows : int
        Rows of the table.

    description : str
        What is written on a certificate.

    feature_names : tuple of str or None
        Column names, where `X` has them.

    Raises
    ------
    ValueError
        If the table has fewer than two rows, holds anything but finite numbers,
        or `X` and `y` differ in length; when bound, if it has too few rows for
        `sampling`.

    Examples
    --------
    >>> from skparisk.reference import TableReference
    >>> TableReference([[1.0], [2.0], [4.0]], sampling="subsample")
    TableReference(3 rows, 1 feature, sampling='subsample')
    """

    def __init__(
        self, X: ArrayLike, y: ArrayLike | None = None, sampling: str = "bootstrap"
    ) -> None:
        self.sampling = check_choice(sampling, "sampling", SAMPLINGS)
        self.feature_names = _column_names(X)
        features = check_array(X, dtype=np.float64, input_name="X")
        if len(features) < 2:
            raise ValueError(
                "A reference needs at least 2 records to show what one record "
                f"changes, got n_samples = {len(features)}."
            )
        targets = None if y is None else check_targets(y)
        if targets is not None and len(targets) != len(features):
            raise ValueError(
                "X and y of a reference must have the same number of rows, got "
                f"{len(features)} and {len(targets)}."
            )
        self.pool = RecordPool(features, targets)

    @property
    def n_rows(self) -> int:
        return len(self.pool.X)

    @property
    def description(self) -> str:
        how = {
            "bootstrap": "records drawn with replacement from a table of {} records",
            "subsample": "records drawn without replacement from a table of {} records",
            "disjoint": "the population that a table of {} records is a random "
            "sample of, no record of it used twice",
        }[self.sampling]
        return how.format(self.n_rows)

    @cached_property
    def fingerprint(self) -> bytes:
        """Of the records of the table, in their order."""
        return fingerprint(self.pool.X)

    def check_columns(self, n_features: int, names: tuple[str, ...] | None) -> None:
        """Raise IncompatibleError if the table has other columns."""
        check_columns(self.pool.X.shape[1], n_features)
        if None not in (names, self.feature_names) and names != self.feature_names:
            raise IncompatibleError(
                f"The reference has the columns {list(self.feature_names or ())}, and "
                f"X has {list(names or ())}: they must be the same, in one order."
            )

    def bind(
        self, n_pairs: int, n_drawn: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of databases; see the class for the rows it needs."""
        needed = {
            "bootstrap": 2,
            "subsample": n_drawn,
            "disjoint": n_pairs * n_drawn,
        }[self.sampling]
        if self.n_rows < needed:
            raise ValueError(
                f"sampling={self.sampling!r} needs a reference table of at least "
                f"{needed} rows for n_pairs={n_pairs} pairs of databases made of "
                f"{n_drawn} records each, got {self.n_rows}; sampling='bootstrap' "
                "makes do with fewer."
            )
        draw: Callable[..., NDArray[np.intp]]
        if self.sampling == "bootstrap":
            draw = _bootstrap
        elif self.sampling == "subsample":
            draw = _subsample
        else:
            draw = _Disjoint(self.n_rows, seed)
        return _IndexSource(self.pool, draw, n_drawn)

    def __sklearn_clone__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        n_features = self.pool.X.shape[1]
        plural = "" if n_features == 1 else "s"
        return (
            f"TableReference({self.n_rows} rows, {n_features} feature{plural}, "
            f"sampling={self.sampling!r})"
        )


def _column_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame, where all are strings."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)
