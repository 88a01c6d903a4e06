"""Counts, means and quantiles of a data frame: a data steward's first questions."""

from skparisk.tables._private import PrivateTable

__all__ = ["PrivateTable"]
