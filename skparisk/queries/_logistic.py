"""Logistic regression as a query, with all pairs of a block solved together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk._checks import check_flag
from skparisk.core.checks import check_positive
from skparisk.core.pairs import LargestMove
from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import Differences, PairDifferences, Query
from skparisk.queries._bounds import longest_row, solved_logistic_bound
from skparisk.queries._labels import (
    check_classes,
    label_codes,
    pool_codes,
    split_offsets,
    where_classes_present,
)
from skparisk.queries._logistic_descent import PoolDescent
from skparisk.queries._logistic_pool import PoolSolver
from skparisk.queries._logistic_records import SharedRecords
from skparisk.queries._logistic_solver import AverageDatabase, minimizer, released
from skparisk.queries._looked_up import answers_to_prepare, representative
from skparisk.queries._together import outward_differences
from skparisk.queries._weights import prediction_weights
from skparisk.reference._base import RecordPool
from skparisk.reference._domain import Domain
from skparisk.reference._mapped import loaded

# Two answers are each off by so much, and what is released for them as well.
_TIMES_OFF = 4


@dataclass(frozen=True)
class LogisticRegressionQuery(Query):
    r"""Coefficients and intercepts of scikit-learn's `LogisticRegression`.

    Parameters
    ----------
    classes : sequence of float
        At least two different numbers, all that a label may be. Public.

    C : float, default=1.0
        Inverse of the penalty's strength, > 0.

    fit_intercept : bool, default=True
        Whether there are intercepts, which are not penalized, and released too.

    Raises
    ------
    ValueError
        If a parameter is out of range, or a label is none of the classes.

    Notes
    -----
    The answer holds ``coef_`` and then ``intercept_``, flattened: one row of
    coefficients for two classes, else one for each class. It minimizes
    :math:`\frac12 \|W\|^2 + C \sum \log \text{loss}`, by Newton's method down to
    rounding errors (scikit-learn's default solver stops earlier). Of more than two
    classes, the intercepts are shifted to the sum 0.

    A database without one of the classes has no minimizer where intercepts are
    free. The answer is then 0, as an error would tell that the class is missing.
    *Sampled* databases without one of the classes count as not answered: such a pair
    needs infinite noise.

    `differences` solves all pairs of a block together, from the solution of the
    pool; until each answer is proven to be within 2**-34 of its largest output.
    Pairs where that fails are solved one by one, and all pairs of a pool that is
    ill conditioned. Differences are rounded away from zero, by 2**-32 of the
    largest output.

    Labels may have columns beside them, one for each class but the first: scores
    that each record has already, relative to those of the first class, to which the
    answer adds. Answers of pairs are then within 2**-28 of the largest output, and
    differences rounded away by 2**-26.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import LogisticRegressionQuery
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 0, 1, 1])
    >>> LogisticRegressionQuery((0, 1))(X, y).round(3)
    array([ 0.958, -1.437])
    """

    classes: tuple[float, ...]
    C: float = 1.0
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", check_classes(self.classes))
        object.__setattr__(self, "C", check_positive(self.C, "C"))
        check_flag(self.fit_intercept, "fit_intercept")

    is_repeatable = True
    is_smooth = True
    needs_y = True

    def __call__(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        labels, offsets = split_offsets(y, self.classes)
        X, codes = np.asarray(X, dtype=np.float64), label_codes(labels, self.classes)
        n_classes, n_features = len(self.classes), X.shape[1]
        if self.fit_intercept and len(np.unique(codes)) < n_classes:
            return np.zeros(self._n_outputs(n_features))
        with np.errstate(all="ignore"):  # a warning would be a release of its own
            return released(
                minimizer(
                    X,
                    codes,
                    n_classes=n_classes,
                    C=self.C,
                    fit_intercept=self.fit_intercept,
                    offsets=offsets,
                ),
                n_features,
            )

    def resized(self, share: float) -> LogisticRegressionQuery:
        return replace(self, C=self.C / share)

    def largest_move(
        self, domain: Domain, n_records: int, relation: str
    ) -> LargestMove | None:
        box = domain.box
        if self.fit_intercept or box is None or not longest_row(box):
            return None
        bound = solved_logistic_bound(
            self.C,
            (n_records, box.shape[1]),
            x_norm=longest_row(box),
            n_classes=len(self.classes),
            relation=relation,
        )
        if bound is None:
            return None
        return LargestMove(np.full(self._n_outputs(box.shape[1]), bound), bound)

    def output_weights(self, X: Any, n_outputs: int) -> NDArray[np.float64] | None:
        return prediction_weights(X, n_outputs, fit_intercept=self.fit_intercept)

    def preparing(self, pool: RecordPool, n_records: int) -> float:
        return answers_to_prepare(pool, n_records, _MOST_TRANSFORMED, _PREPARING)

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        labels, offsets = split_offsets(loaded(pool.y), self.classes)
        codes = pool_codes(RecordPool(pool.X, labels), self.classes)
        with np.errstate(all="ignore"):
            solver = self._pool_solver(pool, codes, n_records, offsets)

        def differences(pairs: NeighborPairs) -> PairDifferences:
            if solver is None:
                return self._plain_differences(pairs)
            with np.errstate(all="ignore"):
                first, second, proven = solver(pairs)
                largest = np.abs([first, second]).max(axis=(0, 2))[:, None]
                off = np.maximum(solver.close * largest, solver.floor)
                outward = _TIMES_OFF * off
                return outward_differences(self, pairs, first, second, outward, proven)

        n_outputs = self._n_outputs(pool.X.shape[1])
        return where_classes_present(differences, codes, self.classes, n_outputs)

    def _n_outputs(self, n_features: int) -> int:
        n_rows = 1 if len(self.classes) == 2 else len(self.classes)
        return n_rows * (n_features + self.fit_intercept)

    def _pool_solver(
        self,
        pool: RecordPool,
        codes: NDArray[np.intp],
        n_records: int,
        offsets: NDArray[np.float64] | None = None,
    ) -> PoolSolver | PoolDescent | None:
        """Return what solves all pairs of a pool, or None where it is not exact."""
        n_classes = len(self.classes)
        if not np.bincount(codes, minlength=n_classes).all():
            return None
        part = representative(pool, n_records, _MOST_TRANSFORMED)
        if part is not None and not np.bincount(codes[part], minlength=n_classes).all():
            part = None  # a rare class takes all
        n_columns = pool.X.shape[1] + self.fit_intercept
        n_looked_at = min(n_records, pool.n_rows)
        cheapest = _cheapest(n_looked_at, len(self.classes) - 1, n_columns)
        try:
            average = AverageDatabase.of(
                pool.X,
                codes,
                n_classes=n_classes,
                C=self.C,
                fit_intercept=self.fit_intercept,
                n_records=n_records,
                part=part,
                offsets=offsets,
            )
            solver = cheapest(average)
        except np.linalg.LinAlgError:
            return None
        return solver if self._agrees(solver, average, pool) else None

    def _agrees(
        self,
        solver: PoolSolver | PoolDescent,
        average: AverageDatabase,
        pool: RecordPool,
    ) -> bool:
        """Tell if answers are those of the other solver, from which the releases come.

        On one database: the average one, whose answer is known, if databases are at
        least as large as the pool, and else one of records from all over the pool
        (whose classes may be sorted).
        """
        n_records, n_rows = average.n_records, pool.n_rows
        if n_records >= n_rows:
            swap = np.zeros((1, 1), dtype=np.intp)  # with itself
            records = solver.records
            assert isinstance(records, SharedRecords)  # of no more than a database
            own, _, proven = solver.solve(records, average.counts, swap, swap)
            answer = average.answer
        else:
            rows = np.linspace(0, n_rows - 1, n_records).astype(np.intp)[None]
            pair = NeighborPairs.of(pool, rows, np.zeros(1, np.intp), rows[:, 0])
            own, _, proven = solver(pair)
            answer = self(*next(pair.databases(0)))
        allowed = max(average.close * np.abs(own).max(), solver.floor)
        exact = np.abs(own[0] - answer).max() <= allowed
        return bool(exact and proven.all())


# Numbers of a pool that are looked at, however few databases are drawn from it.
_MOST_TRANSFORMED = 2**17
# Answers that take as long as to prepare as many records.
_PREPARING = 6
# Coefficients of a logit and of all up to which all second derivatives of a record take
# less time than the products that come in their place, as measured.
_FEW = 427


def _cheapest(
    n_records: int, n_logits: int, n_columns: int
) -> type[PoolSolver | PoolDescent]:
    """Return the solver that takes the fewest operations for a database.

    One makes all second derivatives and inverts them; the other, products with records.
    """
    size = n_logits * n_columns
    whole = n_records * (size + n_columns) + 6 * size**2
    return PoolSolver if whole <= _FEW * n_records else PoolDescent
