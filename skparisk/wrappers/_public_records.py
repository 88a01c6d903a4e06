"""Databases that are not private, and fits to them: they tell what there is to release.

Nothing here has seen private records: where there is no public reference, they are
made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skparisk._classes import PublicClasses
from skparisk.core.checks import IncompatibleError
from skparisk.core.release import silenced, without_values
from skparisk.core.sealed import Records, copy_records, rows_of, take_rows
from skparisk.neighbors import Database, sample_database
from skparisk.queries import Reader
from skparisk.queries._estimator import takes_targets
from skparisk.queries._labels import label_codes
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import RecordPool
from skparisk.reference._records import Schema, frame_like, n_rows

# Of the largest number: more than what rounding in another order changes.
_SAME = 2.0**-20
# How often another database is drawn if one lacks a class, or cannot be fitted to.
_MOST_DRAWN = 6
# Records of the first database at most: more show nothing that these do not.
_MOST_RECORDS = 2**18
# Records that answers are compared on.
MOST_POINTS = 256


@dataclass(frozen=True, eq=False)
class PublicRecords:
    """Several databases of more than one size, and all public records."""

    # The first has as many records as the private one, if these are not very many.
    # Labels as estimators see them.
    # None, where the whole is all that is looked at.
    databases: Sequence[Database]
    # Records for public steps.
    whole: Database
    # Where they are from. None: they were made up, and only shapes may be taken from
    # them.
    reference: Reference | None
    # Records of a private database.
    n_records: int
    # The most rows of a person that are used, if so few are.
    max_rows: int | None = None

    @property
    def points(self) -> Records:
        """Records to compare answers on: rows of a person stand together."""
        return spread_rows(self.first[0])

    @property
    def pool(self) -> RecordPool:
        """The records for public steps, of which some may be of one person."""
        ends = None if self.table is None else self.table.pool.ends
        return RecordPool(*self.whole, ends)

    @property
    def first(self) -> Database:
        """A database of the usual size, where there is one."""
        return self.databases[0] if self.databases else self.whole

    @property
    def n_rows(self) -> float:
        """About how many private rows there are: people have as many as public ones."""
        known = self.reference
        sizes = known.pool.sizes if isinstance(known, TableReference) else None
        if sizes is None:
            return self.n_records
        most = sizes.max() if self.max_rows is None else self.max_rows
        return self.n_records * float(np.minimum(sizes, most).mean())

    @property
    def most_rows(self) -> int:
        """How many rows sums of private ones are to be exact for."""
        if self.max_rows is not None:
            return self.n_records * self.max_rows
        known = self.reference
        return self.n_records if known is None else known.most_rows(self.n_records)

    @property
    def table(self) -> TableReference | None:
        """The table whose rows both structure and pairs are from, if it is one."""
        known = self.reference
        if isinstance(known, TableReference) and known.whole is not None:
            return known
        return None

    @property
    def schema(self) -> Schema:
        """The columns of the records, as the estimator is given them."""
        return Schema.of(self.first[0])

    @classmethod
    def draw(
        cls,
        estimator: Any,
        reference: Reference,
        n_records: int,
        root: np.random.SeedSequence,
        labels: PublicClasses | None,
        *,
        max_rows: int | None,
        whole_alone: bool,
    ) -> Self:
        """Draw from a reference, until an estimator can be fitted.

        Nothing is drawn if the whole is all that is looked at, and there is one.
        """
        whole, databases = None, []
        if (pool := reference.whole) is not None:
            whole = _with_labels((pool.X, pool.y), labels)
        if whole is None or not whole_alone:
            databases = [
                _draw_one(estimator, reference, size, seeds, labels)
                for size, seeds in zip(_sizes(n_records), root.spawn(3), strict=True)
            ]
        return cls(databases, whole or databases[0], reference, n_records, max_rows)

    @classmethod
    def make_up(
        cls,
        X: Records,
        y: NDArray[np.float64] | None,
        labels: PublicClasses | None,
        *,
        n_records: int,
    ) -> Self:
        """Make up records that have the columns of the data, and their classes."""
        X, y = rows_of(X), rows_of(y)  # of which nothing but shapes is looked at
        schema = Schema.of(X)
        if schema.container not in ("array", "frame") or {*schema.kinds} != {"number"}:
            raise IncompatibleError(
                "X_reference must be given for sparse matrices, and for tables of "
                "anything but numbers, and be public: records can be made up for "
                "numbers alone."
            )
        if n_records < 2:
            raise ValueError(
                "X must have at least 2 records to find out what is learned from them, "
                "got n_samples = 1."
            )
        rng = np.random.default_rng(0)
        databases = []
        for size in _sizes(n_records):
            if labels is not None:
                size = max(size, len(labels.numbers))
            made = rng.random((size, schema.n_columns))
            score = made @ np.linspace(1.0, 0.2, schema.n_columns) / schema.n_columns
            targets: Any = None
            if labels is not None:  # all of them, in the order of the score
                targets = np.empty(size, dtype=labels.labels.dtype)
                codes = _spread(size, rng.uniform(1.0, 2.0, len(labels.labels)))
                targets[np.argsort(score)] = labels.labels[codes]
            elif y is not None:
                noise = 0.1 * rng.random((size, *y.shape[1:]))
                targets = score.reshape(-1, *[1] * (y.ndim - 1)) + noise
            records: Any = made
            if schema.container == "frame":  # of the same kind of frame
                records = frame_like(X, made)
            databases.append((records, targets))
        return cls(databases, databases[0], None, n_records)

    def fits_and_base(self, estimator: Any) -> tuple[list[Any], Any]:
        """Return fits to all databases, and one to all records of a table.

        Or else the first of these.
        """
        fits = [self.fit(estimator, database) for database in self.databases]
        base = self.fit(estimator, self.whole) if self.table else fits[0]
        return fits, base

    def fit(self, estimator: Any, database: Database) -> Any:
        """Return a fit to one of these databases, which stays as it is."""
        where = "the reference"
        if self.reference is None:
            where = "made-up records, as there is no X_reference"
        return _fit(estimator, database, where)

    def check_repeatable(self, estimator: Any, fitted: Any, reader: Reader) -> None:
        """Refuse a fit that is no function of the database, where that shows."""
        first, second = reader(fitted), reader(self.fit(estimator, self.databases[0]))
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


def spread_rows(records: Records) -> Records:
    """Return some rows from all over records."""
    size = n_rows(records)
    most = min(size, MOST_POINTS)
    return take_rows(records, np.linspace(0, size - 1, most).astype(np.intp))


def _fit(estimator: Any, database: Database, where: str) -> Any:
    """Return a fit to a database, which stays as it is, or say that it failed."""
    X, y = database
    kind = type(estimator).__name__
    supervised = takes_targets(estimator)
    if supervised and y is None:
        raise ValueError(f"{kind} takes targets, but the reference has none.")
    with silenced():
        fresh, records = clone(estimator), copy_records(X)  # it may work in place
        try:
            return fresh.fit(records, y) if supervised else fresh.fit(records)
        except Exception as error:
            told = without_values(str(error))
            raise ValueError(f"{kind} cannot be fitted to {where}: {told}") from None


def _draw_one(
    estimator: Any,
    reference: Reference,
    n_records: int,
    root: np.random.SeedSequence,
    labels: PublicClasses | None,
) -> Database:
    """Return a database with all classes, to which an estimator can be fitted."""
    failure: Exception | None = None
    for seed in root.spawn(_MOST_DRAWN):
        try:
            drawn = sample_database(reference, n_records, seed)
            database = _with_labels(drawn, labels)
            _fit(estimator, database, "the reference")
        except Exception as error:  # raised below, if it is not by chance
            failure = error
        else:
            return database
    assert failure is not None
    raise failure


def _spread(n_rows: int, shares: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return sorted codes, each at least once, in about these shares of the rows."""
    n_codes = len(shares)
    ends = np.cumsum(shares) / shares.sum()
    more = np.searchsorted(ends, np.linspace(0, 1, n_rows - n_codes, endpoint=False))
    return np.sort(np.concatenate([np.arange(n_codes), more]))


def _sizes(n_records: int) -> list[int]:
    """Return how many records the databases have: what grows with them shows."""
    n_records = min(n_records, _MOST_RECORDS)
    more = n_records + max(1, n_records // 4)
    return [n_records, more, more]


def _with_labels(database: Database, labels: PublicClasses | None) -> Database:
    """Return a database with labels in place of the numbers that stand for them."""
    X, y = database
    if labels is None or y is None:
        return database
    codes = label_codes(y, labels.numbers)
    missing = np.setdiff1d(np.arange(len(labels.numbers)), codes)
    if missing.size:
        raise ValueError(
            f"The class {labels.labels[missing[0]]} is missing from the first sampled "
            f"database: {n_rows(X)} records (n_records) are too few for a class this "
            "rare in the reference."
        )
    return X, labels.labels[codes]
