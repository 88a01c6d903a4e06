"""Queries: functions of a database, to be released.

A query maps a database, ``X`` of shape (n_records, n_features) and maybe ``y``, to a
vector of `n_outputs` numbers. Any callable is a query. The classes here compute the
differences of many pairs of neighboring databases fast.
"""

from skparisk.queries._base import (
    FunctionQuery,
    PairDifferences,
    Query,
)
from skparisk.queries._cells import CellsQuery
from skparisk.queries._density import (
    DensityQuery,
    kernel_density_sensitivity_bound,
)
from skparisk.queries._estimator import (
    AttributeReader,
    EstimatorQuery,
    PredictionReader,
    Reader,
)
from skparisk.queries._leaves import ClassAddend, LeafQuery, Leaves, TargetAddend
from skparisk.queries._linear import UnitsQuery
from skparisk.queries._linear_svc import LinearSVCQuery
from skparisk.queries._logistic import LogisticRegressionQuery
from skparisk.queries._moments import MomentsQuery
from skparisk.queries._ridge import RidgeQuery
from skparisk.queries._sums import MeanQuery, RecordQuery, SumQuery

__all__ = [
    "AttributeReader",
    "CellsQuery",
    "ClassAddend",
    "DensityQuery",
    "EstimatorQuery",
    "FunctionQuery",
    "LeafQuery",
    "Leaves",
    "LinearSVCQuery",
    "LogisticRegressionQuery",
    "MeanQuery",
    "MomentsQuery",
    "PairDifferences",
    "PredictionReader",
    "Query",
    "Reader",
    "RecordQuery",
    "RidgeQuery",
    "SumQuery",
    "TargetAddend",
    "UnitsQuery",
    "kernel_density_sensitivity_bound",
]
