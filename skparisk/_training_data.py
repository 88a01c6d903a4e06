"""What `fit` is given: private records, and where neighboring databases come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk._callers import refuse_reference_in_other_units
from skparisk._checks import private_people
from skparisk.core.claim import Unit
from skparisk.core.exact import ByteSource
from skparisk.core.release import hide_values
from skparisk.core.sealed import (
    PublicForm,
    Records,
    is_frame,
    numbers,
    of_people,
    on_rows,
    rows_of,
    unmasked,
)
from skparisk.queries._base import SampleWeights
from skparisk.reference import (
    CallableReference,
    Reference,
    TableReference,
)
from skparisk.reference._base import is_reference
from skparisk.reference._parted import read_like
from skparisk.reference._records import Schema, as_records, as_targets, beside, n_rows
from skparisk.reference._secret import SecretDraw, SecretSample, as_draw
from skparisk.reference._table import shares_people
from skparisk.sensitivity import KnownSensitivity, SensitivitySampler
from skparisk.sensitivity._drawing import Known

SensitivitySource: TypeAlias = SensitivitySampler | KnownSensitivity | str


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What `fit` was given, checked, and what is known about its reference."""

    # Private records, which may have names of columns.
    X: Any
    # The same, as they are kept: numbers where the estimator wants these.
    features: Records
    targets: NDArray[Any] | None
    # The reference that `fit` was given.
    table: Reference | None
    # Whether pairs come from the private records, or from a table that has records in
    # common with them.
    reference_is_private: bool
    # Who of them is used, if that was drawn in secret. Pairs are then swaps, and the
    # table is only for what is public: classes and structure.
    draw: SecretDraw | None = None
    # The reference that was compared with the private records.
    known: Known | None = None

    @property
    def n_records(self) -> int:
        """How many records are answered about."""
        return n_rows(self.features) if self.draw is None else self.draw.n_members

    def of_rows(
        self, table: TableReference | None, source: SensitivitySource
    ) -> TrainingData:
        """Return it with pairs of other rows, wherever the reference was given."""
        if table is None:
            return self
        if self.table is not None:
            return replace(self, table=table)
        assert isinstance(source, SensitivitySampler)
        source.set_params(reference=table)
        return self

    def weighted(
        self, query: Any, source: SensitivitySource, weights: Any
    ) -> tuple[Any, TrainingData]:
        """Return a query of weighted records, and these; the same without weights."""
        if weights is None:
            return query, self
        table = self.table
        if isinstance(table, TableReference):
            assert table.pool.weights is not None
            known: Any = SampleWeights.of(table.pool.weights)
            table = table._with_weights()
        else:
            assert isinstance(source, SensitivitySampler)
            known = source.query_.sample_weights
        targets = on_rows(lambda w, y: beside(y, w), weights, self.targets)
        data = replace(self, table=table, targets=targets)
        return replace(query, sample_weights=known), data

    def in_domain(self) -> tuple[Records, NDArray[Any] | None]:
        """Return the records moved to the domain of the reference, if it has one.

        A sensitivity that is declared may be known for that domain alone.
        """
        X, y = self.features, self.targets
        if self.table is None or self.table.domain is None:
            return X, y
        self.table.check_schema(Schema.of(X))
        y = None if y is None else hide_values(on_rows, as_targets, y)
        X, y = hide_values(self.table.domain.clip, X, y)
        form = self.table.form
        if form is not None and is_frame(rows_of(X)):  # in the public types again
            X = on_rows(form.read_features, X)
        return X, y


class Groups(NamedTuple):
    """Whose each private row is, as `fit` was given it."""

    private: Any = None
    # The most rows of a person that a proven bound is of, drawn with these numbers.
    max_rows: int = 0
    source: ByteSource | None = None

    def overlaps(self, source: SensitivitySource, table: Reference | None) -> bool:
        """Tell if somebody is in a table of people as well, by their id."""
        given = getattr(source, "reference", None) if table is None else table
        return shares_people(given, self.private)

    def of_private(self, *parts: Any) -> tuple[Any, ...]:
        """Return records person by person, in the order in which these come."""
        people = private_people(
            self.private,
            n_rows(parts[0]),
            max_rows=self.max_rows,
            source=self.source,
        )
        return tuple(of_people(part, people) for part in parts)

    def check(self, source: SensitivitySource, table: Reference | None) -> None:
        """Refuse one unit of protection for private records, another for pairs."""
        grouped = self.private is not None
        if grouped and self.max_rows:
            return  # no pairs are sampled
        sampler = source if isinstance(source, SensitivitySampler) else None
        if sampler is not None and table is None and hasattr(sampler, "certificate_"):
            known = [sampler.pairs_.unit == Unit.PERSON]
        else:
            given: tuple[Any, ...] = (table, getattr(source, "reference", None))
            if isinstance(given[1], SecretSample | SecretDraw):
                given = given[1:]  # a table besides has nobody who is in a pair
            known = [
                getattr(each, "of_people", False)
                for each in given
                if each is not None and not isinstance(each, SecretSample)
            ]
        if {*known, grouped} == {True, False}:
            there, missing = ("groups", "groups_reference")[:: 1 if grouped else -1]
            raise ValueError(
                f"{missing} must be given as well, got {there} alone: neighbors differ "
                "in one person with all of their rows, or in one row, among both the "
                "private and the public records. Of references only a TableReference, "
                "and the draw of a SecretSample, have groups."
            )
        if grouped and sampler is None:
            raise ValueError(
                "groups must be None with a sensitivity that is declared or proven, "
                "which is that of one row: give a SensitivitySampler, and "
                "groups_reference; of a PrivateEstimator a bound may be of max_rows."
            )


class RowWeights(NamedTuple):
    """How much each private and each public row counts, as `fit` was given it."""

    private: Any = None
    public: Any = None

    def of_public(
        self, source: SensitivitySource, table: Reference | None
    ) -> Reference | None:
        """Return the reference with its weights; refuse weights on one side alone."""
        fitted = getattr(source, "query_", None)
        known = None if fitted is None else fitted.sample_weights
        if self.private is not None and not isinstance(source, SensitivitySampler):
            raise ValueError(
                "sample_weight must be None with a sensitivity that is declared or "
                "proven, which is of rows that count alike: give a SensitivitySampler."
            )
        if (self.private is None) != (self.public is None and known is None):
            there, missing = ("sample_weight", "sample_weight_reference")[
                :: -1 if self.private is None else 1
            ]
            raise ValueError(
                f"{missing} must be given as well, got {there} alone: no weight counts "
                "as more than the largest public one, and neighbors differ in the "
                "weight of a record as well."
            )
        if self.public is None:
            return table
        if fitted is not None:
            raise ValueError(
                "sample_weight_reference must be None with a SensitivitySampler that "
                "is fitted: what was sampled before has its weights."
            )
        if not isinstance(table, TableReference):
            raise ValueError(
                "sample_weight_reference must be None unless X_reference has public "
                "records, or is a TableReference, whose rows have these weights."
            )
        weights = _as_weights(self.public, n_rows(table.pool.X), "_reference")
        with np.errstate(over="ignore"):
            mean = weights.mean()
        if not np.finfo(np.float64).tiny <= mean < np.inf:
            raise ValueError(
                "sample_weight_reference must have a mean above 0 that is finite: give "
                "weights of about 1."
            )
        return table._weighted(weights)

    def of_private(self, X: Records) -> NDArray[np.float64] | None:
        """Return the weights of private rows, if they have any."""
        if self.private is None:
            return None
        return hide_values(_as_weights, self.private, n_rows(X), "")


def _as_weights(given: Any, size: int, of: str) -> NDArray[np.float64]:
    if np.shape(given) == (size,):  # no frame, not even of one column
        weights = numbers(unmasked(given))
        if ((weights >= 0) & np.isfinite(weights)).all():
            return weights
    raise ValueError(
        f"sample_weight{of} must be a finite number >= 0 for each row, and nothing "
        "else."
    )


def reference_of(source: Any, table: Any = None) -> Any:
    """Return a table, or else what a sampler has: pairs, a reference, or nothing."""
    if table is not None or not isinstance(source, SensitivitySampler):
        return table
    if hasattr(source, "certificate_"):
        return source.pairs_
    given = source.reference
    makes = callable(given) and not is_reference(given)
    return CallableReference(given) if makes else given


def public_table(source: Any, table: Reference | None) -> TableReference | str:
    """Return the public records that pairs will come from, or why there are none."""
    if not isinstance(source, SensitivitySampler):
        return "a sensitivity that is known says nothing of how answers vary"
    if hasattr(source, "certificate_"):
        return "a SensitivitySampler that is fitted has no records of its reference"
    if isinstance(source.reference, SecretSample | SecretDraw):
        return "a SecretSample draws pairs from the private records"
    given = source.reference if table is None else table
    if given is None:
        return "there is no reference"
    if not isinstance(given, TableReference):
        return f"the reference is a {type(given).__name__}"
    return given


def read_as_public(
    source: SensitivitySource,
    table: Reference | None,
    X: Any,
    y: Any = None,
    *,
    classifies: bool = False,
) -> tuple[Any, Any]:
    """Return private records and targets in the form of the public ones, if any."""
    if table is None and has_table(source):
        refuse_reference_in_other_units()
    form: PublicForm | None = getattr(reference_of(source, table), "form", None)
    if form is None:
        return X, y
    if classifies:  # labels are read as one of the classes, when these are known
        return form.read_features(X), y
    return read_like(form, X, y)


def has_table(source: SensitivitySource) -> bool:
    """Tell if the pairs of a sampler are, or will be, of rows of a table of its own."""
    if isinstance(source, SensitivitySampler) and hasattr(source, "certificate_"):
        pairs = source.pairs_
        return pairs.withheld is None and pairs.n_independent is not None
    return isinstance(public_table(source, None), TableReference)


def draw_members(
    source: SensitivitySource, X: Any, people: Groups | None
) -> SecretDraw | None:
    """Return who of the private records is used, if a sampler says it is secret."""
    secret = isinstance(getattr(source, "reference", None), SecretSample | SecretDraw)
    if not secret or hasattr(source, "certificate_"):
        return None
    assert isinstance(source, SensitivitySampler)
    records = hide_values(as_records, X, "X")
    if people is not None:
        (records,) = people.of_private(records)
    return as_draw(source.reference, records, source.noise_random_state)


def samples_training_data(source: SensitivitySource) -> bool:
    """Tell if pairs will be sampled from the data that are fitted, but for a table."""
    return (
        isinstance(source, SensitivitySampler)
        and source.reference is None
        and not hasattr(source, "certificate_")
    )


def reference_table(
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    needs_y: bool = True,
    any_table: bool = False,
) -> Reference | None:
    """Return the reference of `fit`, if any: of finite numbers, or `any_table`."""
    if X is None and y is None and groups is None:
        return None
    refuse_reference_in_other_units("X_reference")
    reference: Reference
    if is_reference(X):
        if y is not None or groups is not None:
            name = "groups_reference" if y is None else "y_reference"
            raise ValueError(
                f"{name} must be None if X_reference is a {type(X).__name__}, "
                "which has its targets, and whose rows these are, with it."
            )
        reference = X
    elif X is None or (y is None and needs_y):
        raise ValueError("X_reference and y_reference must be given together.")
    else:
        reference = TableReference(X, y, groups=groups)
    if needs_y and reference.targets is None:
        raise ValueError(
            f"The {type(reference).__name__} must have targets, but it has none."
        )
    if any_table:
        return reference
    if reference.targets is not None and reference.targets.dtype == object:
        raise ValueError("y_reference must be numbers, but it holds labels.")
    return reference.numbers


def known_of(sampler: SensitivitySampler) -> Known:
    """Return by what the reference of a sampler is known, before or after a fit."""
    return Known(sampler.reference, getattr(reference_of(sampler), "sketch", None))
