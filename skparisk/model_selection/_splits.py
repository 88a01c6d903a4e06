"""Which splitters are allowed, and which look at the values of records."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

from sklearn import model_selection
from sklearn.base import is_classifier

from skparisk.core.checks import is_whole

_BY_POSITION = (
    model_selection.GroupKFold,
    model_selection.GroupShuffleSplit,
    model_selection.KFold,
    model_selection.LeaveOneGroupOut,
    model_selection.LeaveOneOut,
    model_selection.LeavePGroupsOut,
    model_selection.LeavePOut,
    model_selection.PredefinedSplit,
    model_selection.RepeatedKFold,
    model_selection.ShuffleSplit,
    model_selection.TimeSeriesSplit,
)


def check_splitter(cv: Any) -> None:
    """Refuse what scikit-learn cannot split by; an iterator is not used up."""
    many = hasattr(cv, "split") or isinstance(cv, Iterable)
    if isinstance(cv, str) or not (cv is None or (cv >= 2 if is_whole(cv) else many)):
        raise ValueError(
            "cv must be None, a whole number >= 2, a splitter or an iterable of "
            f"splits, got {cv!r}."
        )


def may_split_by_values(cv: Any, estimator: Any) -> bool:
    """Tell if `cv` may look at values, as scikit-learn understands it.

    Splits that are given as lists of indices are taken to be fixed; groups to be those
    of the owners of records. A splitter that is not known may do anything.
    """
    if cv is None or isinstance(cv, Integral):
        return is_classifier(estimator)
    return hasattr(cv, "split") and type(cv) not in _BY_POSITION
