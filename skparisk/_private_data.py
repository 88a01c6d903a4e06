"""Checks of private data whose errors do not tell about them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    column_or_1d,
)
from sklearn.utils.validation import validate_data

from skparisk.core.release import hide_values
from skparisk.reference._parted import Parted
from skparisk.reference._records import as_records


def validate_private(estimator: Any, *data: Any, **parameters: Any) -> Any:
    """Validate private data as scikit-learn does, without values in a message."""
    if isinstance(data[0], Parted):
        return _validate_parts(estimator, *data, **parameters)
    return hide_values(validate_data, estimator, *data, **parameters)


def _validate_parts(
    estimator: Any,
    X: Parted,
    y: Any = "no_validation",
    *,
    dtype: Any,
    reset: bool = True,
    **parameters: Any,
) -> Any:
    """Validate numbers in parts, each once; targets are in memory."""
    hide_values(validate_data, estimator, X.head, reset=reset, skip_check_array=True)
    numbers = partial(check_array, dtype=dtype, ensure_min_samples=0, input_name="X")
    records = X.mapped(partial(hide_values, numbers))
    if not len(records):
        raise ValueError("X must have at least one record, got none.")
    if isinstance(y, str):
        return records
    y = hide_values(_validate_targets, records, y, **parameters)
    return records, y


def validate_private_records(estimator: Any, *data: Any, **parameters: Any) -> Any:
    """Validate private records of any table, without values in a message."""
    return hide_values(validate_records, estimator, *data, **parameters)


def validate_records(
    estimator: Any,
    X: Any,
    y: Any = "no_validation",
    *,
    allow_nan: bool,
    reset: bool = True,
    multi_output: bool = False,
    y_numeric: bool = False,
) -> Any:
    """Return records as they are kept; with `y` as scikit-learn has it, if it is given.

    Sets `n_features_in_` and `feature_names_in_`, or compares with them, but for texts,
    which have no features. NaN is refused in numbers, unless it is allowed; what is
    missing in other records is for the estimator to refuse.
    """
    records = as_records(X, "X")
    if not allow_nan and getattr(records, "dtype", None) == np.float64:
        assert_all_finite(records, input_name="X")
    is_table = len(records.shape) == 2
    if not reset and is_table != hasattr(estimator, "n_features_in_"):
        names = ("texts", "a table") if is_table else ("a table", "texts")
        raise ValueError("X must be {}, as it was in fit, got {}.".format(*names))
    # It says if targets are required, where they are asked for.
    targets = None if y is None else "no_validation"
    validate_data(
        estimator,
        records,
        targets,
        reset=reset,
        skip_check_array=True,
        ensure_2d=is_table,
    )
    if y is None or isinstance(y, str):
        return records
    parameters = {"multi_output": multi_output, "y_numeric": y_numeric}
    return records, _validate_targets(records, y, **parameters)


def _validate_targets(
    records: Any, y: Any, *, multi_output: bool = False, y_numeric: bool = False
) -> Any:
    """Return targets, as many as there are records."""
    if multi_output:
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    else:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
    if y_numeric and y.dtype.kind == "O":
        y = y.astype(np.float64)
    check_consistent_length(records, y)
    return y
