"""Transformations of records each by itself, so that none moves what others become."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from skparisk.core.sealed import Records, take_rows
from skparisk.reference._records import concatenate, n_rows

# Fitted, they work on each value or on each row, without a product of matrices.
_ROW_WISE = {
    "Binarizer",
    "CountVectorizer",
    "DictVectorizer",
    "FeatureHasher",
    "HashingVectorizer",
    "KBinsDiscretizer",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MissingIndicator",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PolynomialFeatures",
    "QuantileTransformer",
    "RobustScaler",
    "SelectFromModel",
    "SelectKBest",
    "SelectPercentile",
    "SimpleImputer",
    "SplineTransformer",
    "StandardScaler",
    "TargetEncoder",
    "TfidfTransformer",
    "TfidfVectorizer",
    "VarianceThreshold",
}


def is_row_wise(step: Any) -> bool:
    """Tell if a fitted step is known to transform each record by itself."""
    kind = type(step)
    if isinstance(step, str):  # "passthrough" or "drop"
        return True
    if kind is Pipeline:
        return all(is_row_wise(part) for _, part in step.steps)
    if kind is FeatureUnion:
        return all(is_row_wise(part) for _, part in step.transformer_list)
    if kind is ColumnTransformer:
        return all(is_row_wise(part) for _, part, _ in step.transformers_)
    if kind is FrozenEstimator:
        return is_row_wise(step.estimator)
    package = kind.__module__.partition(".")[0]
    if kind.__name__ == "FunctionTransformer" and package == "sklearn":
        return step.func is None
    return package == "sklearn" and kind.__name__ in _ROW_WISE


def transform_each(step: Any, X: Records) -> Records:
    """Return what a fitted step makes of records, each of which it sees alone."""
    if is_row_wise(step):
        return step.transform(X)
    # A copy, because a step may count what it was given.
    return concatenate(
        [copy.deepcopy(step).transform(take_rows(X, [row])) for row in range(n_rows(X))]
    )


def answer_each(
    answer: Callable[[Records], Any], X: Records, spare: Callable[[], Any]
) -> Any:
    """Return the answer for some records, and a spare one for each that is refused.

    Steps refuse records, as encoders do with categories that they do not know: an error
    would tell of these. `answer` returns an array with a row for each record.
    """
    try:
        return answer(X)
    except Exception:  # of some record: each half is asked by itself
        n_records = n_rows(X)
        if n_records == 1:
            return spare()
        halves = slice(n_records // 2), slice(n_records // 2, None)
        return np.concatenate(
            [answer_each(answer, take_rows(X, half), spare) for half in halves]
        )
