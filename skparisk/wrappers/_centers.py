"""Clusters: one step of Lloyd's algorithm, from public centers to private means."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from skparisk.core.checks import IncompatibleError
from skparisk.queries._leaves import CenterCells, CentersQuery, TargetAddend
from skparisk.queries._state import Numbers
from skparisk.reference import TableReference
from skparisk.reference._records import n_rows
from skparisk.wrappers._forests import (
    LeafTemplate,
    check_apart,
    find_kind,
    step_names,
    steps_before,
)
from skparisk.wrappers._public_records import PublicRecords
from skparisk.wrappers._public_steps import PublicSteps

_KINDS = {"sklearn.cluster": ("KMeans", "MiniBatchKMeans")}
_CENTERS = "centers"
# Least reach of a record from its center, in deviations.
_REACH = 4.0


def find_centers(estimator: Any) -> Any:
    """Return an estimator of cluster centers, as `find_kind` does."""
    return find_kind(estimator, _KINDS)


def make_centers_query(
    estimator: Any, public: PublicRecords, *, paired: bool
) -> tuple[CentersQuery, TableReference | None]:
    """Return sums over the records of each public cluster, and the rows for pairs.

    Rows lie closer to centers that were fitted to them than others do. Where pairs are
    drawn from a table, half of it makes the centers, and pairs are of the other half.
    """
    model = find_centers(estimator)
    if public.reference is None:
        raise IncompatibleError(
            f"{type(model).__name__} starts from public centers: give X_reference, "
            "public records or a SchemaReference."
        )
    every, apart = public.whole[0], None
    made_of = every
    if paired and public.is_resampled:
        assert public.reference_table is not None
        half, apart = public.reference_table._split_off(None)
        made_of, _ = public.pool.take(half)
    fitted = public.fit(estimator, (made_of, None))
    before = steps_before(fitted)
    cells = CenterCells.of_public(find_centers(fitted).cluster_centers_, every, before)
    check_apart(cells, every, model)
    places, around = cells.place(every)
    if len(np.unique(places)) < cells.n_cells:
        raise ValueError(
            f"n_clusters must be at most the number of different public records, got "
            f"{cells.n_cells}."
        )
    # Degrees of freedom: each center is fitted to its records.
    left = max(1, len(around) - cells.n_cells)
    unit = np.sqrt((around**2).sum(axis=0) / left)
    reach = np.maximum(np.abs(around).max(axis=0), _REACH * unit)
    unit = np.where(unit > 2.0**-20 * reach, unit, np.where(reach > 0, reach, 1.0))
    middle = np.zeros(len(unit))
    addend = TargetAddend(-reach, reach, middle, unit, public.most_rows)
    added, in_cells = addend(around), np.zeros((cells.n_cells, addend.n_columns))
    np.add.at(in_cells, places[:, 0], added)  # exact in any order
    template = CentersTemplate(
        fitted,
        addend,
        public.n_rows,
        leaves=cells,
        in_nodes=(),
        in_cells=in_cells,
        share=public.n_rows / n_rows(every) if public.is_resampled else 0.0,
        squares=(added**2).sum(axis=0),
    )
    told = PublicSteps((*step_names(before), _CENTERS))
    query = CentersQuery(cells, addend, estimator, template=template, public_steps=told)
    return query, apart


@dataclass(frozen=True, eq=False)
class CentersTemplate(LeafTemplate):
    """A fit to public records, whose centers are moved by means of released sums."""

    @property
    def places(self) -> tuple[str, ...]:
        """Where centers are."""
        return (self._inside("cluster_centers_"),)

    def serve(self, released: Numbers, deviations: Numbers) -> Any:
        """Return a copy with centers from sums with noise of these deviations."""
        assert isinstance(self.addend, TargetAddend)
        moved = self.addend.as_targets(
            self._values(released["sums"], deviations["sums"])
        )
        served = copy.deepcopy(self.fitted)
        model = find_centers(served)
        centers, cells = model.cluster_centers_ + moved, self.leaves
        model.cluster_centers_ = np.clip(centers, cells.low, cells.high)
        vars(model).pop("labels_", None)  # of public records, by other centers
        return served
