"""Public records, and steps of pipelines that are fitted on them and frozen.

Nothing here has seen private records: where there is no public reference, some are made
up. Noise on the numbers of a scaler or an imputer would cost accuracy. Categories,
vocabularies and chosen columns are no numbers, and decide the shape of later steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from skparisk._classes import PublicClasses
from skparisk.core.checks import IncompatibleError
from skparisk.core.release import silenced, without_values
from skparisk.core.sealed import Records, copy_records, rows_of, take_rows
from skparisk.neighbors import Database, sample_database
from skparisk.queries import Reader
from skparisk.queries._base import same_but_for
from skparisk.queries._estimator import takes_targets
from skparisk.queries._labels import label_codes
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import RecordPool
from skparisk.reference._records import Schema, frame_like, n_rows
from skparisk.wrappers._template import (
    answer_alike,
    learned_numbers,
    learns_structure,
    structured_parts,
)

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
        """Draw until an estimator can be fitted; nothing if the whole is enough."""
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
        """Return fits to all databases, and one to a whole table, or the first."""
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


# Steps of pipelines

_PERMUTATIONS, _MOST_PERMUTED = 4, 2**11
# Rows transformed alone, and the share by which they may differ from those in company.
_ALONE, _SAME_ALONE = 8, 2.0**-40
# Times as large, mean square in deviations of rows that were fitted.
_LARGER = 1.5
# Share of new rows that are rare, such as those of a category.
_RARE = 0.1
_IDLE = ("passthrough", None)


@dataclass(frozen=True)
class PublicSteps:
    """Names of steps, as parameters of an estimator, that were fitted on the reference.

    Those of `supervised` fit the records for pairs better than new ones.
    """

    names: tuple[str, ...] = ()
    supervised: tuple[str, ...] = ()


class Prepared(NamedTuple):
    """An estimator with public steps."""

    # With these steps frozen; as it is where there are none.
    estimator: Any
    # All steps but the last, where they transform each record by itself.
    front: Pipeline | None = None
    public_steps: PublicSteps = PublicSteps()
    # Rows for pairs: the steps were not fitted to them.
    table: TableReference | None = None


def freeze_steps(
    estimator: Any,
    public: PublicRecords,
    released: Sequence[str],
    *,
    paired: bool,
    noisy: bool,
) -> Prepared:
    """Fit the steps of a pipeline before its last on public records, and freeze them.

    Without noise, or if numbers of a step are `released`, only learned structure is
    frozen: a step, or members of a ColumnTransformer or FeatureUnion. Members of one at
    the end are frozen as well.

    If steps fit rows that they have seen better than others, as those that look at
    targets do, they are fitted to half of the table where pairs are drawn from it
    (`paired`): these are drawn from the other half.

    Raises
    ------
    IncompatibleError
        If a step learns structure, and there is no reference.
    """
    fitted = _fit_steps(estimator, public.whole)
    if public.reference is None:
        if learned := [name for name, step in fitted.items() if _has_structure(step)]:
            raise IncompatibleError(
                f"{' and '.join(learned)} learned what is no array of numbers, such as "
                "categories: give X_reference, to fit such steps on public records."
            )
        return Prepared(estimator)

    def chosen(fitted: dict[str, Any]) -> dict[str, Any]:
        frozen: dict[str, Any] = {}
        for name, step in fitted.items():
            asked = any(place.startswith(f"steps.{name}.") for place in released)
            whole = noisy and not asked
            frozen |= {name: step} if whole else _find_structure(name, step)
        return frozen

    steps, apart, known = chosen(fitted), None, False
    pool, table = public.pool, public.table if paired else None
    if steps and table and _knows_its_rows(estimator, fitted, pool):
        classes = pool.y if is_classifier(estimator) else None
        half, others = table._split_off(classes)
        try:
            steps = chosen(_fit_steps(estimator, pool.take(half)))
            apart = others
        except Exception:  # half is too little: what they know is said
            known = True
    prepared = estimator
    if steps:
        frozen = {name: FrozenEstimator(step) for name, step in steps.items()}
        prepared = clone(estimator).set_params(**frozen)
    names = tuple(name for name, step in steps.items() if learned_numbers(step))
    told = PublicSteps(names, names if known else ())
    return Prepared(prepared, _front_of(prepared, public), told, apart)


def _split(estimator: Any) -> tuple[Pipeline | None, str, Any]:
    """Return the steps before the last one that does anything, its name, and it."""
    if not isinstance(estimator, Pipeline):
        return None, "", estimator
    places = [at for at, (_, step) in enumerate(estimator.steps) if step not in _IDLE]
    at = max(places, default=0)
    return estimator[:at], *estimator.steps[at]


def _fit_steps(estimator: Any, database: Database) -> dict[str, Any]:
    """Fit steps before the last, and members of it that learn structure, by name."""
    front, last_name, last = _split(estimator)
    steps: dict[str, Any] = {}
    X, y = database
    with silenced():
        prepared = copy_records(X)
        for name, step in front.steps if front is not None else ():
            if step in _IDLE:
                continue
            fitted = step if isinstance(step, FrozenEstimator) else clone(step)
            if hasattr(fitted, "fit_transform"):
                prepared = fitted.fit_transform(prepared, y)
            else:
                prepared = fitted.fit(prepared, y).transform(prepared)
            if fitted is not step:
                steps[name] = fitted
        if isinstance(last, ColumnTransformer | FeatureUnion):
            steps |= _find_structure(last_name, clone(last).fit(prepared, y))
    return steps


def _find_structure(name: str, step: Any) -> dict[str, Any]:
    """Return a fitted step if it learned structure, or the members of it that did."""
    if isinstance(step, FrozenEstimator) or not hasattr(step, "get_params"):
        return {}
    if not isinstance(step, ColumnTransformer | FeatureUnion):
        return {name: step} if _has_structure(step) else {}
    union = isinstance(step, FeatureUnion)
    members = step.named_transformers if union else step.named_transformers_
    found: dict[str, Any] = {}
    for inside, member in members.items():
        found |= _find_structure(f"{name}__{inside}".removeprefix("__"), member)
    return found


def _front_of(prepared: Any, public: PublicRecords) -> Pipeline | None:
    """Return the steps before the last, if records are transformed by themselves."""
    if not isinstance(prepared, Pipeline) or len(prepared) == 1:
        return None
    front = prepared[:-1]
    steps = [step for _, step in front.steps if step not in _IDLE]
    if not all(isinstance(step, FrozenEstimator) for step in steps):
        return None
    try:  # all records, and a database of them
        alone = _transforms_alone(front, public.whole[0])
        if alone and public.first is not public.whole:
            alone = _transforms_alone(front, public.first[0])
        return front if alone else None
    except Exception:  # some refuse a single record, or return other than numbers
        return None


def _transformed(front: Any, records: Any) -> Any:
    found = front.transform(copy_records(records))
    return np.asarray(found.toarray() if issparse(found) else found)


def _transforms_alone(front: Any, points: Any) -> bool:
    """Tell if records are transformed alike by themselves and among others."""
    together, n = _transformed(front, points), n_rows(points)
    mixed = np.random.default_rng(0).permutation(n)
    few = [mixed[row : row + 1] for row in range(min(n, _ALONE))]
    return all(
        same_but_for(_SAME_ALONE, one, other)
        for rows in (*few, mixed[: n // 2], mixed[n // 2 :])
        if len(rows)
        for one, other in zip(
            _transformed(front, take_rows(points, rows)).T,
            together[rows].T,
            strict=True,
        )
    )


def _knows_its_rows(estimator: Any, steps: dict[str, Any], pool: RecordPool) -> bool:
    """Tell if steps would transform rows otherwise, had they not been fitted to these.

    If other targets would change them; or if what a fit to half of the rows makes of
    the others is larger, so that pairs of new people are further apart. Or if that
    cannot be told, of other than numbers, or as they cannot be fitted to half.
    """
    front, _, _ = _split(estimator)
    names = () if front is None else front.named_steps
    if not any(learned_numbers(steps[name]) for name in names if name in steps):
        return False
    try:
        return _differs_on_others(front, pool)
    except Exception:
        return True


def _differs_on_others(front: Pipeline, pool: RecordPool) -> bool:
    def fitted(X: Any, y: Any) -> Pipeline:
        with silenced():
            return clone(front).fit(copy_records(X), y)

    rng = np.random.default_rng(0)
    points = spread_rows(pool.X)
    pool = pool.part(rng.permutation(pool.n_records)[:_MOST_PERMUTED])
    X: Any = pool.X
    y: Any = pool.y
    one = fitted(X, y)
    for _ in range(0 if y is None else _PERMUTATIONS):  # some choose alike by chance
        other = fitted(X, rng.permutation(y))
        if not answer_alike(one, other, points, ("transform",)):
            return True
    # By people, whose rows may be alike.
    half = pool.n_records // 2
    seen, targets = pool.take(slice(half))
    others, _ = pool.take(slice(half, None))
    one = fitted(seen, targets)
    own = _transformed(one, seen)
    try:
        new = _transformed(one, others)
    except ValueError:  # such as of a category: it does so of private records, too
        return False
    if own.dtype.kind not in "biuf":
        return True
    with np.errstate(all="ignore"):
        center, deviation = own.mean(axis=0), own.std(axis=0)
        moves = deviation > 0
        size = np.square((new - center)[:, moves] / deviation[moves]).mean()
        apart = (new != center)[:, ~moves].mean(axis=0)
    larger = bool(moves.any() and not size < _LARGER)
    return larger or bool((apart > _RARE).any())


def _has_structure(fitted: Any) -> bool:
    """Tell if a step learned structure, or a part of it did."""
    return learns_structure(fitted) or bool(structured_parts(fitted))
