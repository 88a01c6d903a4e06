"""Fitted state, which must never be half of one fit and half of another."""

from __future__ import annotations


def forget_fit(estimator: object) -> None:
    """Delete all fitted attributes: a fit that fails leaves nothing to release."""
    for name in list(vars(estimator)):
        if name.endswith("_") and not name.startswith("_"):
            delattr(estimator, name)
