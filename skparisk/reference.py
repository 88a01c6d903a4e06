"""Where records come from: the public stand-ins for the private data.

A *reference* describes the population that neighboring databases are sampled
from. It must be public, simulated or already released: what is computed from it
is not protected by any noise.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from skparisk._validate import check_at_least, check_choice
from skparisk.exceptions import IncompatibleError

__all__ = [
    "BoxReference",
    "CallableReference",
    "DensityReference",
    "RecordPool",
    "RecordSource",
    "Reference",
    "TableReference",
    "as_reference",
    "check_columns",
]

SAMPLINGS = ("bootstrap", "subsample", "disjoint")


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

    def check_columns(self, n_features: int, names: tuple[str, ...] | None) -> None:
        """Raise IncompatibleError if it is known to have other columns."""
        ...

    def bind(
        self, n_pairs: int, n_drawn: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of `n_pairs` databases of `n_drawn` records each."""
        ...


def _check_y(y: ArrayLike, name: str = "y") -> NDArray[np.float64]:
    """Return finite numeric targets of shape (n,) or (n, n_targets)."""
    if np.ndim(y) not in (1, 2):
        raise ValueError(
            f"{name} must have one or two dimensions, got shape {np.shape(y)}."
        )
    checked: NDArray[np.float64] = check_array(
        y, ensure_2d=False, dtype=np.float64, input_name=name
    )
    return checked


def _read_only(array: NDArray[np.float64]) -> NDArray[np.float64]:
    view = array.view()
    view.flags.writeable = False
    return view


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
        targets = None if y is None else _check_y(y)
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


def check_columns(n_reference: int, n_features: int) -> None:
    """Raise IncompatibleError if a reference has another number of features."""
    if n_reference != n_features:
        raise IncompatibleError(
            f"The reference has {n_reference} features, and X has {n_features}: they "
            "must be the same."
        )


def _column_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame, where all are strings."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


class CallableReference:
    """Records made by a function.

    Parameters
    ----------
    sample : callable
        ``sample(n_records, rng)`` returns ``X`` of shape (n_records,
        n_features), or a tuple ``(X, y)``; `rng` is a `numpy.random.Generator`
        and the only source of randomness that it may use. The records are put
        in random order, so that it does not matter if they are sorted.

    description : str, default=None
        What is written on a certificate. None: the name of the function.

    Examples
    --------
    >>> from skparisk.reference import CallableReference
    >>> CallableReference(lambda n, rng: rng.exponential(size=(n, 1)), "Exp(1)")
    CallableReference('Exp(1)')
    """

    def __init__(
        self, sample: Callable[..., Any], description: str | None = None
    ) -> None:
        self.sample = sample
        name = getattr(sample, "__qualname__", type(sample).__qualname__)
        self.description = description or f"records made by the function {name}"

    def check_columns(self, n_features: int, names: tuple[str, ...] | None) -> None:
        """Nothing is known of the columns before records are drawn."""

    def bind(
        self, n_pairs: int, n_drawn: int, seed: np.random.SeedSequence
    ) -> RecordSource:
        """Return a source of databases."""
        return _SampledSource(self.sample, n_drawn)

    def __repr__(self) -> str:
        return f"CallableReference({self.description!r})"


class _SampledSource:
    """Calls a function once for each database and strings the records together."""

    def __init__(self, sample: Callable[..., Any], n_drawn: int) -> None:
        self._sample = sample
        self._n_drawn = n_drawn

    def draw(
        self, start: int, size: int, rng: np.random.Generator
    ) -> tuple[RecordPool, NDArray[np.intp]]:
        databases = [self._database(rng) for _ in range(size)]
        X = np.concatenate([X for X, _ in databases])
        X = check_array(X, dtype=np.float64, input_name="X of the reference")
        targets = [y for _, y in databases if y is not None]
        y = None
        if targets:
            y = _check_y(np.concatenate(targets), "y of the reference")
            if len(y) != len(X):
                raise ValueError("The reference returned y for some databases only.")
        # A sample may be sorted (GaussianMixture: by component), and the last record
        # becomes the replacement: it has the law of the others in random order only.
        rows = np.arange(len(X)).reshape(size, self._n_drawn)
        return RecordPool(X, y), rng.permuted(rows, axis=1)

    def _database(
        self, rng: np.random.Generator
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        drawn = self._sample(self._n_drawn, rng)
        X, y = drawn if isinstance(drawn, tuple) else (drawn, None)
        X, y = np.asarray(X), None if y is None else np.asarray(y)
        for name, array in (("X", X), ("y", y)):
            if array is not None and np.shape(array)[:1] != (self._n_drawn,):
                raise ValueError(
                    f"The reference was asked for {self._n_drawn} records and "
                    f"returned {name} of shape {np.shape(array)}."
                )
        return X, y


class DensityReference(CallableReference):
    """Records of a fitted generative model.

    Parameters
    ----------
    density : object
        Fitted, with a method ``sample(n_samples)``, such as scikit-learn's
        `GaussianMixture` and `KernelDensity`. Its `random_state`, as an argument
        or as a parameter, is set for each call; it must have one.

    target_columns : int or sequence of int, default=None
        Columns of the samples that are the targets, for a model of records
        and targets together. None: the samples have no targets. An int gives
        `y` of one dimension.

    Examples
    --------
    >>> from sklearn.mixture import GaussianMixture
    >>> from skparisk.reference import DensityReference
    >>> mixture = GaussianMixture(random_state=0).fit([[0.0], [1.0], [2.0]])
    >>> DensityReference(mixture)
    DensityReference('records sampled from a fitted GaussianMixture')
    """

    def __init__(
        self, density: Any, target_columns: int | tuple[int, ...] | None = None
    ) -> None:
        if not callable(getattr(density, "sample", None)):
            raise ValueError(
                "density must be a fitted object with a method sample(n_samples), "
                f"got {density!r}."
            )
        arguments = inspect.signature(density.sample).parameters
        self._seeded_by_argument = "random_state" in arguments
        if not self._seeded_by_argument and not hasattr(density, "random_state"):
            raise ValueError(
                "density must have a random_state, as an argument of sample or as a "
                "parameter, or its samples could neither be repeated nor be "
                f"independent in each worker; got {density!r}. Give a callable "
                "(n_records, rng) -> X or (X, y) instead."
            )
        self.density = density
        self.target_columns = target_columns
        super().__init__(
            self._sample_density,
            f"records sampled from a fitted {type(density).__name__}",
        )

    def _sample_density(self, n_records: int, rng: np.random.Generator) -> Any:
        # The stream of `rng` itself: seeds of 32 bits would repeat among many pairs.
        state = np.random.RandomState(rng.bit_generator)
        if self._seeded_by_argument:
            drawn = self.density.sample(n_records, random_state=state)
        else:
            density = copy.copy(self.density)
            density.random_state = state
            drawn = density.sample(n_records)
        # GaussianMixture returns the component of each sample as well.
        X = np.asarray(drawn[0] if isinstance(drawn, tuple) else drawn)
        if self.target_columns is None:
            return X
        y = X[:, np.asarray(self.target_columns)]
        return np.delete(X, self.target_columns, axis=1), y

    def __repr__(self) -> str:
        return f"DensityReference({self.description!r})"


class BoxReference(CallableReference):
    """Records uniform on declared bounds, for when nothing else is known.

    Parameters
    ----------
    low, high : array-like of shape (n_features,)
        Bounds of the features. Finite, ``low <= high``.

    y_low, y_high : float or array-like of shape (n_targets,), default=None
        Bounds of the targets, if there are any.

    Examples
    --------
    >>> from skparisk.reference import BoxReference
    >>> BoxReference([0, 18], [1, 100])
    BoxReference('records uniform on a box of dimension 2')
    """

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        y_low: ArrayLike | None = None,
        y_high: ArrayLike | None = None,
    ) -> None:
        self.low, self.high = _check_bounds(low, high, "low", "high")
        if self.low.ndim != 1:
            raise ValueError(
                f"low must have shape (n_features,), got shape {self.low.shape}."
            )
        if (y_low is None) != (y_high is None):
            raise ValueError("y_low and y_high must be given together.")
        self.y_bounds = (
            None
            if y_low is None or y_high is None
            else _check_bounds(y_low, y_high, "y_low", "y_high")
        )
        if self.y_bounds is not None and self.y_bounds[0].ndim > 1:
            raise ValueError(
                "y_low must be a number or have shape (n_targets,), got shape "
                f"{self.y_bounds[0].shape}."
            )
        n_features = check_at_least(len(self.low), "the number of features", 1)
        super().__init__(
            self._sample_box, f"records uniform on a box of dimension {n_features}"
        )

    def _sample_box(self, n_records: int, rng: np.random.Generator) -> Any:
        X = rng.uniform(self.low, self.high, size=(n_records, len(self.low)))
        if self.y_bounds is None:
            return X
        y_low, y_high = self.y_bounds
        return X, rng.uniform(y_low, y_high, size=(n_records, *y_low.shape))

    def __repr__(self) -> str:
        return f"BoxReference({self.description!r})"


def _check_bounds(
    low: ArrayLike, high: ArrayLike, low_name: str, high_name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    lower, upper = np.array(low, dtype=float), np.array(high, dtype=float)
    finite = np.isfinite(lower).all() and np.isfinite(upper).all()
    if lower.shape != upper.shape or not finite or (lower > upper).any():
        raise ValueError(
            f"{low_name} and {high_name} must be finite, of one shape, and "
            f"{low_name} <= {high_name}; got {low!r} and {high!r}."
        )
    return lower, upper


def as_reference(reference: Any) -> Reference:
    """Return `reference` itself, or a plain callable as a `CallableReference`."""
    if not isinstance(reference, type):
        if hasattr(reference, "bind") and hasattr(reference, "description"):
            return reference
        if callable(reference):
            return CallableReference(reference)
    raise ValueError(
        "reference must be a TableReference, DensityReference, BoxReference or a "
        f"callable (n_records, rng) -> X or (X, y); got {reference!r}."
    )
