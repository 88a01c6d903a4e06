"""What a private linear model is asked to do about its penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from skparisk._training_data import SensitivitySource, TrainingData, public_table
from skparisk.linear_model._correction import CorrectionChooser, PublicStart
from skparisk.linear_model._penalty_choice import (
    USUAL_PENALTY,
    PenaltyChoice,
    PenaltyChooser,
)
from skparisk.queries import LogisticRegressionQuery, RidgeQuery
from skparisk.queries._linear import CorrectionQuery, LinearQuery, UnitsQuery, in_units
from skparisk.reference import Reference, TableReference
from skparisk.sensitivity import SensitivitySampler


@dataclass(frozen=True)
class AskedPenalty:
    """What a penalty is, or that it is to be chosen from public records.

    `value` is used where nothing is `chosen`, with the units of what was chosen before.
    "auto" was asked for if the choice is not optional.
    """

    name: str
    value: Any
    chosen: bool = False
    optional: bool = True
    units: tuple[float, ...] | None = None

    @classmethod
    def of(
        cls,
        value: Any,
        name: str,
        source: SensitivitySource,
        table: Reference | None,
        epsilon: float,
    ) -> Self:
        """Return what a parameter asks for; "auto" is refused where that cannot be."""
        if isinstance(value, PenaltyChoice):
            if source == "bound":
                raise ValueError(
                    f"{name} must be a number with sensitivity='bound', whose bound is "
                    f"for columns in the units of the data, got {value!r}."
                )
            return cls(name, value.chosen, units=value.units)
        explicit = isinstance(value, str)
        if explicit and value != "auto":
            raise ValueError(
                f"{name} must be None, 'auto', a number or a PenaltyChoice, got "
                f"{value!r}."
            )
        if value is not None and not explicit:
            return cls(name, value)
        reason = _why_not(source, table)
        if reason is None:
            chosen = explicit or not math.isinf(epsilon)
            return cls(name, USUAL_PENALTY, chosen, optional=not explicit)
        if explicit:
            raise ValueError(
                f"{name} must be a number or None, got 'auto', which is chosen on a "
                f"table of public records, X_reference and y_reference, but {reason}."
            )
        query = getattr(source, "query_", None)  # of a sampler that is fitted
        query = query.query if isinstance(query, CorrectionQuery) else query
        if isinstance(query, UnitsQuery):
            return cls(name, query.penalty, units=query.units)
        return cls(name, getattr(query, name, USUAL_PENALTY))

    def settle(
        self,
        query: LinearQuery,
        source: SensitivitySource,
        data: TrainingData,
        start: PublicStart | None = None,
    ) -> tuple[Any, PenaltyChoice | None]:
        """Return the query with its penalty, and a comparison of penalties or None."""
        if not self.chosen or (data.reference_is_private and self.optional):
            self._check_width(data.features.shape[1])
            return in_units(query, self.units), None
        if data.reference_is_private:
            raise ValueError(
                f"{self.name} must be a number or None, got 'auto', which is chosen on "
                "a public reference, but this one shares records with the training "
                "data: give other public records, or a number."
            )
        assert isinstance(source, SensitivitySampler)
        # The number of records is all that is known of the private ones.
        chooser: PenaltyChooser
        if start is None:
            table = public_table(source, data.table)
            assert isinstance(table, TableReference)  # else nothing is to be chosen
            chooser = PenaltyChooser(source, table, data.n_records, query)
        else:
            assert isinstance(query, RidgeQuery | LogisticRegressionQuery)
            chooser = CorrectionChooser(source, start, data.n_records, query)
        choice = chooser.choose()
        return query if choice is None else chooser.query(choice.chosen), choice

    def usual(self, query: Any) -> Any:
        """Return the query with the usual penalty; None where one was given."""
        if not self.chosen and self.units is None:
            return None
        return query.with_penalty(USUAL_PENALTY)

    def _check_width(self, n_features: int) -> None:
        if self.units is not None and len(self.units) != n_features:
            raise ValueError(
                f"{self.name} must be for {n_features} features, as X has, got a "
                f"choice for {len(self.units)}."
            )


def _why_not(source: SensitivitySource, table: Reference | None) -> str | None:
    """Return why a penalty cannot be chosen, or None if it can be."""
    public = public_table(source, table)
    if isinstance(public, str):
        return public
    if public.whole is None:
        return f"no choice may look at rows that have sampling={public.sampling!r}"
    return None
