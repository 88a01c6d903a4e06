"""Databases that are not private, and fits to them: they tell what there is to release.

Nothing here has seen private records: where there is no public reference, they are
made up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skparisk._classes import PublicClasses
from skparisk._silence import silenced
from skparisk.neighbors import Database, sample_database
from skparisk.queries import Reader
from skparisk.queries._estimator import takes_targets
from skparisk.queries._labels import label_codes
from skparisk.reference import Reference, TableReference

__all__ = ["MOST_POINTS", "PublicRecords", "fit_on"]

# Of the largest number: more than what rounding in another order changes.
_SAME = 2.0**-20
# How often another database is drawn if one lacks a class, or cannot be fitted to.
_MOST_DRAWN = 3
# Records that answers are compared on.
MOST_POINTS = 256


@dataclass(frozen=True, eq=False)
class PublicRecords:
    """Several databases of more than one size, and all public records.

    Parameters
    ----------
    databases : sequence of (X, y)
        The first has as many records as the private one. Labels as estimators see them.

    whole : (X, y)
        What structure is learned from, such as categories.

    reference : Reference or None
        Where they are from. None: they were made up, and only shapes may be taken from
        them.
    """

    databases: Sequence[Database]
    whole: Database
    reference: Reference | None

    @property
    def points(self) -> Any:
        """Records to compare answers on."""
        return self.databases[0][0][:MOST_POINTS]

    @classmethod
    def draw(
        cls,
        estimator: Any,
        reference: Reference,
        n_records: int,
        root: np.random.SeedSequence,
        labels: PublicClasses | None,
    ) -> Self:
        """Draw from a reference, until an estimator can be fitted."""
        failure: Exception | None = None
        for seed in root.spawn(_MOST_DRAWN):
            try:
                drawn = cls(
                    *_draw_databases(reference, n_records, seed, labels), reference
                )
                next(drawn.fits(estimator))
            except Exception as error:  # raised below, if it is not by chance
                failure = error
            else:
                return drawn
        assert failure is not None
        raise failure

    @classmethod
    def make_up(
        cls,
        shape: tuple[int, ...],
        y: NDArray[np.float64] | None,
        labels: PublicClasses | None,
    ) -> Self:
        """Make up records that have the shapes of the data, and their classes."""
        rng = np.random.default_rng(0)
        databases = []
        for n_records in _sizes(shape[0]):
            n_rows = n_records
            if labels is not None:
                n_rows = max(n_rows, len(labels.numbers))
            X = rng.random((n_rows, *shape[1:]))
            score = X @ np.linspace(1.0, 0.2, shape[1]) / shape[1]
            targets: Any = None
            if labels is not None:  # all of them, in the order of the score
                targets = np.empty(n_rows, dtype=labels.labels.dtype)
                codes = _spread(n_rows, rng.uniform(1.0, 2.0, len(labels.labels)))
                targets[np.argsort(score)] = labels.labels[codes]
            elif y is not None:
                noise = 0.1 * rng.random((n_rows, *y.shape[1:]))
                targets = score.reshape(-1, *[1] * (y.ndim - 1)) + noise
            databases.append((X, targets))
        return cls(databases, databases[0], None)

    def fits(self, estimator: Any) -> Iterator[Any]:
        """Yield fits of an estimator to each of the databases."""
        for database in self.databases:
            yield fit_on(estimator, database)

    def check_repeatable(self, estimator: Any, fitted: Any, reader: Reader) -> None:
        """Refuse a fit that is no function of the database, where that shows."""
        first, second = reader(fitted), reader(fit_on(estimator, self.databases[0]))
        for name, values in first.items():
            size = np.abs(values).max(initial=0.0)
            again = second[name]
            if values.shape != again.shape or not np.allclose(
                values, again, rtol=0.0, atol=_SAME * size, equal_nan=True
            ):
                raise ValueError(
                    f"Two fits of {type(fitted).__name__} to the same records differ "
                    f"in {name}: what is released must be a function of the database. "
                    "Set every random_state in it."
                )


def fit_on(estimator: Any, database: Database) -> Any:
    """Return a fit to a database, which stays as it is."""
    X, y = database
    supervised = takes_targets(estimator)
    if supervised and y is None:
        raise ValueError(
            f"{type(estimator).__name__} takes targets, but the reference has none."
        )
    with silenced():
        fresh, records = clone(estimator), X.copy()  # it may work in place
        return fresh.fit(records, y) if supervised else fresh.fit(records)


def _spread(n_rows: int, shares: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return sorted codes, each at least once, in about these shares of the rows."""
    n_codes = len(shares)
    ends = np.cumsum(shares) / shares.sum()
    more = np.searchsorted(ends, np.linspace(0, 1, n_rows - n_codes, endpoint=False))
    return np.sort(np.concatenate([np.arange(n_codes), more]))


def _sizes(n_records: int, most: int | None = None) -> list[int]:
    """Return how many records the databases have: what grows with them shows."""
    more = n_records + max(1, n_records // 4)
    more = more if most is None else min(more, max(most, n_records))
    return [n_records, more, more]


def _draw_databases(
    reference: Reference,
    n_records: int,
    seed: np.random.SeedSequence,
    labels: PublicClasses | None,
) -> tuple[list[Database], Database]:
    table = reference if isinstance(reference, TableReference) else None
    whole = table is not None and table.sampling not in ("split", "disjoint")
    sparing = table is not None and table.sampling in ("subsample", "disjoint")
    sizes = _sizes(n_records, table.n_rows if table is not None and sparing else None)
    drawn = [
        sample_database(reference, size, child)
        for size, child in zip(sizes, seed.spawn(len(sizes)), strict=True)
    ]
    databases = [_with_labels(database, labels) for database in drawn]
    if whole and table is not None:
        everything = (table.pool.X, table.pool.y)
        return databases, _with_labels(everything, labels)
    return databases, databases[0]


def _with_labels(database: Database, labels: PublicClasses | None) -> Database:
    """Return a database with labels in place of the numbers that stand for them."""
    X, y = database
    if labels is None:
        return database
    codes = label_codes(y, labels.numbers)
    missing = np.setdiff1d(np.arange(len(labels.numbers)), codes)
    if missing.size:
        raise ValueError(
            f"The class {labels.labels[missing[0]]} is missing from the first sampled "
            f"database: {len(X)} records (n_records) are too few for a class this rare "
            "in the reference."
        )
    return X, labels.labels[codes]
