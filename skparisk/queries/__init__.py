"""Queries: functions of a database whose answers are to be released.

A query maps a database, ``X`` of shape (n_records, n_features) and maybe ``y``,
to a vector of `n_outputs` numbers. Any callable is a query. The classes here
know a fast way to tell how much many pairs of neighboring databases differ.
"""

from skparisk.queries._base import (
    FunctionQuery,
    MeanQuery,
    Query,
    RecordQuery,
    Rounded,
    as_query,
    check_answer,
)
from skparisk.queries._ridge import RidgeQuery

__all__ = [
    "FunctionQuery",
    "MeanQuery",
    "Query",
    "RecordQuery",
    "RidgeQuery",
    "Rounded",
    "as_query",
    "check_answer",
]
