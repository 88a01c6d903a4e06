"""Tables as files hold them: texts, in which nothing decides what a column is."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

__all__ = ["MISSING", "as_table", "as_target", "holds_numbers", "read_texts"]

MISSING = "missing"


def read_texts(path: Path, target: str) -> Any:
    """Return a CSV as texts: nothing in it decides what a column holds."""
    import pandas

    try:
        # A first line that is too long must not make a column of names of the rows.
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            texts = pandas.read_csv(path, dtype=str, index_col=False)
    except OSError:
        raise
    except Exception:  # what is wrong may be a value
        texts = None
    if texts is None:
        raise ValueError(f"'{path}' must be a CSV with a head, in UTF-8.")
    if target not in texts or len(texts.columns) < 2 or not len(texts):
        raise ValueError(
            f"'{path}' must begin with a line of the names of its columns, the target "
            f"{target!r} and others, and have records. What it begins with is not "
            "shown, as it may be a record."
        )
    return texts


def holds_numbers(texts: Any) -> bool:
    """Tell if all that is there are numbers."""
    there = texts.dropna()
    return len(there) > 0 and bool(as_numbers(there).notna().all())


def as_numbers(texts: Any) -> Any:
    """Return numbers, missing where there is none."""
    import numpy as np
    import pandas

    numbers = pandas.to_numeric(texts, errors="coerce").astype(np.float64)
    return numbers.where(np.isfinite(numbers))


def as_table(texts: Any, kinds: dict[str, bool], gap: str | None) -> Any:
    """Return columns of the kinds that are public, in that order."""
    import pandas

    made = {
        name: as_numbers(texts[name])
        if kinds[name]
        else texts[name].astype(object).where(texts[name].notna(), gap)
        for name in kinds
    }
    return pandas.DataFrame(made)


def as_target(texts: Any, classes: bool) -> Any:
    """Return labels, or numbers."""
    if classes:
        return texts.astype(object).where(texts.notna(), MISSING).to_numpy()
    return as_numbers(texts).to_numpy()
