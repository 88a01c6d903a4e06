"""Linear models at the end of an estimator: they correct the fit of public records.

And all sampled databases are answered at once, where others are fitted one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import Pipeline

from skparisk.core.sealed import take_rows
from skparisk.linear_model._cross_fitted import cross_fitted
from skparisk.queries import LogisticRegressionQuery, RidgeQuery
from skparisk.queries._base import Differences, Floats
from skparisk.queries._estimator import EstimatorQuery
from skparisk.queries._leaves import LeafQuery, as_numbers
from skparisk.queries._linear import CorrectionQuery, LinearQuery
from skparisk.reference import TableReference
from skparisk.reference._base import RecordPool
from skparisk.reference._records import n_rows

# Columns behind the steps before the model: each database has as many squared.
_MOST_COLUMNS = 256
# Records that steps transform together: copies of all would not fit into memory.
_ROWS_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class LinearStepQuery(EstimatorQuery):
    """What a linear model at the end of an estimator learns, by a query of its own."""

    linear: Any = None

    is_plain = False

    @property
    def is_correction(self) -> bool:  # type: ignore[override]
        return isinstance(self.linear, CorrectionQuery)

    @property
    def correction(self) -> CorrectionQuery:
        """The query of the model behind the steps."""
        assert isinstance(self.linear, CorrectionQuery)
        return self.linear

    @property
    def is_smooth(self) -> bool:
        return bool(self.linear.is_smooth)

    @property
    def is_unordered(self) -> bool:
        return bool(self.linear.is_unordered)

    def __call__(self, X: Any, y: Any = None) -> Floats:
        return np.asarray(self.linear(self.prepared(X), y))

    def prepared(self, X: Any) -> Floats:
        if self.front is None:
            return as_numbers(X)
        made: Any = None
        for start in range(0, max(n_rows(X), 1), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            part = as_numbers(super().prepared(take_rows(X, rows)))
            if made is None:  # the others are put beside it as they come
                made = np.empty((n_rows(X), part.shape[1]))
            made[rows] = part
        return np.asarray(made)

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        self.check_has_targets(pool)
        prepared = pool.like(self.prepared(pool.X), pool.y)
        differences: Differences = self.linear.on_pool(prepared, n_records)
        return differences

    def placed(self, X: Any, y: Any, n_records: int) -> Self:
        placed = self.linear.placed(self.prepared(X), y, n_records)
        return replace(self, linear=placed)

    def forget_place(self) -> None:
        self.linear.forget_place()

    def output_weights(self, X: Any, n_outputs: int) -> Floats | None:
        weights: Floats | None = self.linear.output_weights(self.prepared(X), n_outputs)
        return weights

    def resized(self, share: float) -> Self:
        resized = super().resized(share)
        assert isinstance(resized, type(self))
        return replace(resized, linear=self.linear.resized(share))

    def prepared_table(self, table: TableReference) -> TableReference:
        """Return the rows of a table in memory as the model is given them."""
        pool = table.pool
        prepared = TableReference(self.prepared(pool.X), pool.y, table.sampling)
        prepared.pool = pool.like(prepared.pool.X, prepared.pool.y)
        return prepared


def _find_linear(query: EstimatorQuery) -> LinearQuery | None:
    """Return the query that has the answers of a linear model at the end, if it is one.

    A linear, ridge or logistic regression whose coefficients and intercepts are
    released. Not of others: a penalty that is chosen by the data is larger for what is
    left of public rows, so that pairs of these move less than those of new people.
    """
    last = query.estimator
    if isinstance(last, Pipeline) and (query.front or len(last) == 1):
        last = last[-1]
    names = tuple(place.rpartition(".")[2] for place in sorted(query.shapes))
    if names != ("coef_", "intercept_")[: 1 + bool(getattr(last, "fit_intercept", 0))]:
        return None
    if query.shapes[min(query.shapes)][-1] > _MOST_COLUMNS:
        return None
    own = query.sample_weights
    if type(last) in (LinearRegression, Ridge) and not last.positive:
        alpha = getattr(last, "alpha", 0.0)
        return RidgeQuery(alpha, last.fit_intercept, sample_weights=own)
    if type(last) is not LogisticRegression or query.classes is None:
        return None
    plain = (
        last.class_weight is None
        and last.penalty in ("l2", "deprecated")
        and not last.l1_ratio
        and last.solver != "liblinear"  # which penalizes intercepts
        and getattr(last, "multi_class", "auto") in ("auto", "deprecated")
        and np.isfinite(last.C)
    )
    if not plain:
        return None
    return LogisticRegressionQuery(
        query.classes, last.C, last.fit_intercept, sample_weights=own
    )


def linear_step(query: EstimatorQuery | LeafQuery) -> LinearStepQuery | None:
    """Return the linear model at the end, if no step before knows the rows of pairs."""
    if isinstance(query, LeafQuery):
        return None
    linear = _find_linear(query)
    if linear is None or query.public_steps.supervised:
        return None
    fields = {name: getattr(query, name) for name in query.__dataclass_fields__}
    fields["shapes"] = dict(sorted(query.shapes.items()))  # coefficients first
    return LinearStepQuery(**fields, linear=linear)


def cross_fitted_table(query: Any, table: TableReference) -> TableReference:
    """Return a table with targets as they are under fits to its other rows."""
    behind = isinstance(query, LinearStepQuery)
    prepared = query.prepared_table(table) if behind else table
    fitted = cross_fitted(prepared, query.correction.usual)
    assert fitted is not None  # it was, for the release
    return table._cross_fitted(fitted.table.pool.y)
