"""Isotonic regression from counts and sums over bins of the one feature."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skparisk.core.checks import IncompatibleError
from skparisk.queries._addends import TargetAddend
from skparisk.queries._class_sums import as_numbers
from skparisk.queries._leaves import LeafQuery
from skparisk.queries._row_wise import answer_each
from skparisk.queries._state import Numbers
from skparisk.queries._together import Floats
from skparisk.wrappers._from_sums import SumsTemplate, find_target_addend
from skparisk.wrappers._public_records import PublicRecords

_FEWEST_BINS, _MOST_BINS = 2, 1024
# Of a bin's weight: that of the ends, where values are repeated.
_LITTLE = 2.0**-30


def is_isotonic(estimator: Any) -> bool:
    """Tell if an estimator is scikit-learn's isotonic regression."""
    package = sys.modules.get("sklearn.isotonic")
    return type(estimator) is getattr(package, "IsotonicRegression", None)


@dataclass(frozen=True)
class BinCells:
    """Bins of one width; what is beyond the ends is in the first or the last."""

    low: float
    high: float
    n_cells: int

    n_trees = 1

    @property
    def centers(self) -> Floats:
        """The middle of each bin."""
        shares = (np.arange(self.n_cells) + 0.5) / self.n_cells
        return np.asarray(self.low * (1 - shares) + self.high * shares)

    def of(self, X: Any) -> NDArray[np.intp]:
        """Return the bin of each record, (n_records, 1): the first of what is none."""
        found = answer_each(self._of_numbers, X, lambda: np.zeros((1, 1)))
        return np.asarray(found, dtype=np.intp)

    def _of_numbers(self, X: Any) -> NDArray[np.intp]:
        numbers = as_numbers(X).reshape(-1, 1).clip(self.low, self.high)
        width = self.high / self.n_cells - self.low / self.n_cells
        bins = (numbers / width - self.low / width) if width > 0 else 0 * numbers
        return np.minimum(np.nan_to_num(bins), self.n_cells - 1).astype(np.intp)


def make_isotonic_query(
    estimator: Any, public: PublicRecords, epsilon: float
) -> LeafQuery:
    """Return counts and sums over bins, of bounds that are those of public records."""
    if public.reference is None:
        raise IncompatibleError(
            "The feature of IsotonicRegression must have bounds for "
            "sensitivity='bound': give X_reference, public records or a "
            "SchemaReference, to take them from."
        )
    X, y = public.whole
    domain = public.reference.domain
    box = None if domain is None else domain.box
    ends = as_numbers(X) if box is None else box
    if ends.reshape(len(ends), -1).shape[1] != 1:
        raise ValueError(
            f"X must have one feature for IsotonicRegression, got {ends.shape[1]}."
        )
    # Of many records or little noise there is more to see.
    fine = math.sqrt(min(public.n_records * epsilon, 9.0 * _MOST_BINS**2)) / 3
    n_bins = max(_FEWEST_BINS, math.ceil(fine))
    cells = BinCells(float(np.min(ends)), float(np.max(ends)), n_bins)
    addend = find_target_addend(y, public.reference, public.n_records)
    template = IsotonicTemplate(clone(estimator), addend, public.n_records, cells)
    return replace(LeafQuery(cells, addend, estimator), template=template)


@dataclass(frozen=True, eq=False)
class IsotonicTemplate(SumsTemplate):
    """What is public of an isotonic regression, which is not fitted: bounds alone."""

    addend: TargetAddend
    # Where records were counted.
    cells: BinCells

    @property
    def places(self) -> tuple[str, ...]:
        """Where the regression keeps what follows from the sums."""
        return ("X_thresholds_", "y_thresholds_")

    def serve(self, released: Numbers, deviations: Numbers) -> Any:
        """Return scikit-learn's own fit to the means of bins."""
        sums, deviation = released["sums"], deviations["sums"]
        counts, totals, places = merged_bins(
            sums[:, 0], sums[:, 1], self.cells.centers, 2 * float(deviation[0, 0])
        )
        values = self.addend.as_targets((totals / counts)[:, None])[:, 0]
        # The ends have the values of the first and the last bin.
        points = np.array([self.cells.low, *places, self.cells.high])
        ends = [0, *range(len(counts)), -1]
        weights = counts[ends]
        weights[[0, -1]] = _LITTLE * counts.min()
        return clone(self.fitted).fit(points, values[ends], sample_weight=weights)


def merged_bins(
    counts: Floats, totals: Floats, centers: Floats, fewest: float
) -> tuple[Floats, Floats, Floats]:
    """Return counts, sums and places of bins that have more than so many records, >= 0.

    From the first to the last, each is joined with those before that have fewer. What
    is left over at the end is left out; if nothing has as many, all bins are one.
    Counts and sums are noisy; places are the middles of bins, weighted by positive
    counts.
    """
    positive = np.maximum(counts, 0.0)
    columns = np.column_stack([counts, totals, positive * centers, positive])
    found, run = [], np.zeros(4)
    for each in columns:
        run = run + each
        if run[0] > fewest:
            found.append(run)
            run = np.zeros(4)
    if not found:
        found = [np.array([max(run[0], 1.0), run[1], centers.mean(), 1.0])]
    merged = np.array(found)
    return merged[:, 0], merged[:, 1], merged[:, 2] / merged[:, 3]
