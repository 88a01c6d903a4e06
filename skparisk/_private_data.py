"""Checks of private data whose errors do not tell about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.validation import validate_data

__all__ = ["hide_values", "validate_private"]


def validate_private(estimator: Any, *data: Any, **parameters: Any) -> Any:
    """Validate private data as scikit-learn does, without values in a message."""
    return hide_values(validate_data, estimator, *data, **parameters)


def hide_values(check: Callable[..., Any], *data: Any, **parameters: Any) -> Any:
    """Return what a check of private data returns, without values in its message.

    What messages of scikit-learn tell after a colon or on further lines may be values,
    such as the text that is no number; but for the advice to reshape.
    """
    try:
        return check(*data, **parameters)
    except (TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        message = str(error)
    # Raised outside, so that the error does not come along.
    told = message.partition("\n")[0].partition(": ")[0]
    if told != message:
        told = (
            f"{told.rstrip(':')} (the rest is not shown because it may reveal "
            "something about the data)"
        )
        if "\nReshape your data" in message:
            told += ". Reshape your data: array.reshape(-1, 1) is a single feature."
    raise kind(told)
