"""What a query is, plain functions as queries, and the simplest queries."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.neighbors import NeighborPairs
from skparisk.reference import RecordPool

__all__ = [
    "Differences",
    "FunctionQuery",
    "MeanQuery",
    "Query",
    "RecordQuery",
    "Rounded",
    "answer_private",
    "as_query",
    "check_answer",
]

# Differences of a block of pairs, and the most that each may be off, or None.
Rounded: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64] | None]
Differences: TypeAlias = Callable[[NeighborPairs], Rounded]


class Query:
    """A function of a database; subclasses may know faster `differences`."""

    @property
    def needs_y(self) -> bool:
        """Whether the answer depends on targets."""
        return False

    def __call__(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Return the answer, of shape (n_outputs,)."""
        raise TypeError(f"{type(self).__name__} does not say what it computes.")

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        """Prepare what all pairs of a pool share; return their differences' function.

        The returned function maps a `NeighborPairs` block to an array of shape
        (n_pairs, n_outputs), the first answer minus the second, moved away from zero
        by what it may be off; and an array of how far it may then be off, or None if
        these are the differences of the very answers that would be released.
        """
        return self._plain_differences

    def differences(self, pairs: NeighborPairs) -> NDArray[np.float64]:
        """Return f(D) - f(D') for each pair, of shape (n_pairs, n_outputs)."""
        return self.on_pool(pairs.pool, pairs.n_records)(pairs)[0]

    def _plain_differences(self, pairs: NeighborPairs) -> Rounded:
        rows: list[NDArray[np.float64]] = []
        for pair in range(len(pairs)):
            first, second = (self(*database) for database in pairs.databases(pair))
            lengths = {len(first), len(second), *map(len, rows[:1])}
            if len(lengths) > 1:
                raise ValueError(
                    "The query must return the same number of outputs for every "
                    f"database, got {sorted(lengths)}."
                )
            rows.append(first - second)
        return np.array(rows), None


@dataclass(frozen=True)
class FunctionQuery(Query):
    """Any callable as a query.

    Parameters
    ----------
    function : callable
        ``function(X)`` or ``function(X, y)``, returns a number or an array, which
        is flattened. `X` and `y` are arrays of floats, also where data frames were
        given. `y` is passed if a second positional argument is required or is
        named "y".

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import FunctionQuery
    >>> FunctionQuery(np.median)(np.array([[1.0], [2.0], [9.0]]))
    array([2.])
    """

    function: Callable[..., Any]

    @cached_property
    def needs_y(self) -> bool:
        """Whether the function takes targets."""
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except ValueError:  # a builtin without a signature
            return False
        positional = [
            p
            for p in parameters
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        if len(positional) < 2:
            return False
        return positional[1].default is inspect.Parameter.empty or (
            positional[1].name == "y"
        )

    def __call__(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        answer = self.function(X, y) if self.needs_y else self.function(X)
        try:
            numbers = np.asarray(answer).ravel()
            if numbers.size and not np.iscomplexobj(numbers) and answer is not None:
                return numbers.astype(np.float64)
        except (TypeError, ValueError):
            pass  # said below, without the answer, which may be private
        raise ValueError(
            f"The query {self} must return a number or an array of at least one "
            f"number, got {type(answer).__name__}."
        )

    def __str__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


@dataclass(frozen=True)
class RecordQuery(Query):
    """A database of one record, released as it is (the local model)."""

    def __call__(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        return np.asarray(X[0], dtype=np.float64)

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        def differences(pairs: NeighborPairs) -> Rounded:
            if pairs.replacement is None:
                raise ValueError(
                    "relation must be 'replace-one' for a record by itself, as it "
                    "cannot be released if it is not there."
                )
            return pool.X[pairs.removed] - pool.X[pairs.replacement], None

        return differences


@dataclass(frozen=True)
class MeanQuery(Query):
    """Mean of each feature.

    Notes
    -----
    Differences are rounded away from zero, by what `numpy.mean` may be off.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import MeanQuery
    >>> MeanQuery()(np.array([[1.0], [2.0], [9.0]]))
    array([4.])
    """

    def __call__(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        return np.asarray(np.mean(X, axis=0), dtype=np.float64)

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        # np.mean adds row by row: this is the most that two means are off.
        rounding = n_records * 2.0**-52 * np.abs(pool.X).max(axis=0)

        def differences(pairs: NeighborPairs) -> Rounded:
            removed = pool.X[pairs.removed]
            if pairs.replacement is not None:
                moves = (removed - pool.X[pairs.replacement]) / n_records
            else:
                means = np.array([pool.X[rows].mean(axis=0) for rows in pairs.records])
                moves = (removed - means) / (n_records - 1)
            errors = np.broadcast_to(2 * rounding, moves.shape)
            return moves + np.copysign(rounding, moves), errors

        return differences


def as_query(query: Any) -> Query:
    """Return a query: itself, a callable, or None for a record by itself."""
    if query is None:
        return RecordQuery()
    if isinstance(query, Query):
        return query
    if callable(query):
        return FunctionQuery(query)
    raise ValueError(
        f"query must be None, a callable f(X) or f(X, y), or a Query; got {query!r}."
    )


def answer_private(query: Query, X: Any, y: Any) -> NDArray[np.float64]:
    """Answer a query on private data: nothing but the answer may tell about them.

    Neither a warning nor the message of an error is shown, as both would be a release.
    The query works on copies, so that it cannot change what it is asked about.
    """
    X, y = np.array(X), None if y is None else np.array(y)
    failure = None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = query(X, y)
        except Exception as error:
            failure = type(error).__name__
    if failure is not None:  # outside, so that the error does not come along
        raise ValueError(
            f"The query {query} failed on the private data with {failure}, whose "
            "message is not shown as it may tell about them. See what it says on "
            "public or made-up data."
        )
    return check_answer(answer, "the private data")


def check_answer(answer: ArrayLike, what: str) -> NDArray[np.float64]:
    """Return finite numbers, or say that they are not."""
    checked = np.asarray(answer, dtype=np.float64)
    if not np.isfinite(checked).all():
        raise ValueError(f"The query returned NaN or infinity on {what}.")
    return checked
