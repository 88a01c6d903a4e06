"""Databases drawn from a table in ways that skparisk has not for references."""

from __future__ import annotations

from typing import Any

import numpy as np

from skparisk.core.sealed import take_rows
from skparisk.reference import CallableReference


def drawn_from(X: Any, y: Any, *, replace: bool) -> CallableReference:
    """Return records of a table, all drawn alike, with or without replacement."""

    def draw(n_records: int, rng: np.random.Generator) -> Any:
        rows = rng.choice(len(y), n_records, replace=replace)
        return take_rows(X, rows), y[rows]

    return CallableReference(draw)
