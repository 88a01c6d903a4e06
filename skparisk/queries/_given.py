"""Queries as callers give them: made one, copied, and compared."""

from __future__ import annotations

import copy
import sys
from typing import Any

import joblib

from skparisk.queries._base import FunctionQuery, Query
from skparisk.queries._state import blank_padding
from skparisk.queries._sums import RecordQuery


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


def own_query(query: Any) -> Query:
    """Return a query that nobody else can change: pairs tell of it as it is now.

    What a function reads of globals, of a closure or of its defaults is not copied.
    """
    given = as_query(query)
    try:
        copied: Query = _copied(given)
        return copied
    except Exception as error:
        kept = f"copy.deepcopy failed with {type(error).__name__}: {error}"
    raise ValueError(
        f"query must be one that can be copied, so that what is released is what pairs "
        f"were sampled of, whatever is changed later; {given} cannot ({kept}). Give a "
        "function that makes or imports what it needs."
    )


def _copied(value: Any) -> Any:
    """Return a copy with nothing in common; pandas leaves what is in cells as it is."""
    copies: dict[int, Any] = {}
    copied = copy.deepcopy(value, copies)
    pandas: Any = sys.modules.get("pandas")
    for table in [*copies.values()] if pandas else []:
        if isinstance(table, pandas.Series) and table.dtype == object:
            table.iloc[:] = _copied(table.to_numpy())
        elif isinstance(table, pandas.DataFrame):
            for column in range(table.shape[1]):
                cells = table.iloc[:, column]
                if cells.dtype == object:
                    table.isetitem(column, _copied(cells.to_numpy()))
    return copied


def is_asked_again(query: Any, fitted: Query) -> bool:
    """Tell if a query is the one that a sampler has its copy of, unchanged."""
    one, other = (
        q.function if isinstance(q, FunctionQuery) else q
        for q in (as_query(query), fitted)
    )
    if are_alike(one, other):
        return True
    try:
        return bool(one == other)
    except ValueError:  # of arrays in a dataclass
        return False


def are_alike(one: Any, other: Any) -> bool:
    """Tell if two objects have the same content; what has no pickle is like nothing."""
    try:
        blank_padding((one, other))  # which is no part of what they are
        return joblib.hash(one) == joblib.hash(other)
    except Exception:
        return False
