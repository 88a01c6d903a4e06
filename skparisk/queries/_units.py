"""A linear model that penalizes coefficients as if columns were in other units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skparisk.core.pairs import LargestMove
from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import Differences, PairDifferences, Query
from skparisk.queries._linear_svc import LinearSVCQuery
from skparisk.queries._logistic import LogisticRegressionQuery
from skparisk.queries._ridge import RidgeQuery
from skparisk.reference._base import RecordPool
from skparisk.reference._columns import Interval
from skparisk.reference._domain import Domain
from skparisk.reference._mapped import MappedNumbers

LinearQuery = RidgeQuery | LogisticRegressionQuery | LinearSVCQuery


@dataclass(frozen=True)
class UnitsQuery(Query):
    """The answer of a linear model to records in other units, in the given ones.

    So only what the penalty weighs is another thing: coefficient j times unit j.

    Parameters
    ----------
    query : RidgeQuery, LogisticRegressionQuery or LinearSVCQuery
        Whose answer is coefficients, and then intercepts if it has any.

    units : tuple of float
        For each column, a power of 2: by these nothing is rounded.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import RidgeQuery, UnitsQuery
    >>> X, y = np.arange(8.0).reshape(4, 2), np.arange(4.0)
    >>> answer = UnitsQuery(RidgeQuery(1.0), (0.5, 1.0))(X, y)
    >>> (answer == RidgeQuery(1.0)(X / [0.5, 1.0], y) / [0.5, 1.0, 1.0]).all()
    np.True_
    """

    query: LinearQuery
    units: tuple[float, ...]

    def __post_init__(self) -> None:
        mantissas, _ = np.frexp(np.asarray(self.units, dtype=np.float64))
        if not len(self.units) or (mantissas != 0.5).any():
            raise ValueError(f"units must be powers of 2, got {self.units!r}.")

    is_repeatable = True
    needs_y = True

    @property
    def is_smooth(self) -> bool:
        return self.query.is_smooth

    @property
    def is_unordered(self) -> bool:
        return self.query.is_unordered

    @property
    def penalty(self) -> Any:
        """The penalty of the model."""
        return penalty_of(self.query)

    @property
    def classes(self) -> tuple[float, ...] | None:
        """The classes of the model, if it has any."""
        return getattr(self.query, "classes", None)

    @property
    def fit_intercept(self) -> bool:
        """Whether the model has intercepts."""
        return self.query.fit_intercept

    def __call__(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        return self._returned(self.query(self._converted(X), y))

    def __str__(self) -> str:
        return f"{self.query} in other units"

    def largest_move(
        self, domain: Domain, n_records: int, relation: str
    ) -> LargestMove | None:
        if domain.box is None:
            return None
        ends = zip(*self._converted(domain.box), strict=True)
        converted = Domain([Interval(*pair) for pair in ends], domain.targets)
        move = self.query.largest_move(converted, n_records, relation)
        if move is None:
            return None
        outputs = self._returned(move.outputs)
        return LargestMove(outputs, move.l2 / min(1.0, *self.units))

    def output_weights(self, X: Any, n_outputs: int) -> NDArray[np.float64] | None:
        return self.query.output_weights(X, n_outputs)

    def placed(self, X: Any, y: Any, n_records: int) -> Self:
        return replace(self, query=self.query.placed(self._converted(X), y, n_records))

    def forget_place(self) -> None:
        self.query.forget_place()

    def resized(self, share: float) -> UnitsQuery:
        return replace(self, query=self.query.resized(share))

    @property
    def is_plain(self) -> bool:
        return self.query.is_plain  # as that of a class of one's own

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        if self.is_plain:
            return super().on_pool(pool, n_records)
        converted = RecordPool(self._converted(pool.X), pool.y)
        differences = self.query.on_pool(converted, n_records)

        def returned(pairs: NeighborPairs) -> PairDifferences:
            found = differences(pairs)
            errors, sizes = (
                None if each is None else self._returned(each)
                for each in (found.errors, found.sizes)
            )
            return replace(
                found,
                values=self._returned(found.values),
                errors=errors,
                sizes=sizes,
            )

        return returned

    def _converted(self, X: Any) -> Any:
        units = np.array(self.units)
        return X.in_units(units) if isinstance(X, MappedNumbers) else X / units

    def _returned(self, answers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coefficients in the given units; intercepts have none."""
        n_outputs, width = answers.shape[-1], len(self.units)
        size = width + self.fit_intercept
        divisors = np.ones(n_outputs)
        n_coef = n_outputs // size * width
        divisors[:n_coef] = np.tile(self.units, n_coef // width)
        return answers / divisors


def in_units(query: Any, units: tuple[float, ...] | None) -> Any:
    """Return a linear model in these units; itself where they change nothing."""
    return query if units is None or set(units) == {1.0} else UnitsQuery(query, units)


def units_of(X: NDArray[np.float64], *, fit_intercept: bool) -> tuple[float, ...]:
    """Return, for public records, the power of 2 that is next to each column's size.

    Its standard deviation, or root mean square without an intercept; 1 for a column
    that has none but for rounding, or none that could be squared.
    """
    with np.errstate(all="ignore"):
        squares = X.var(axis=0) if fit_intercept else np.square(X).mean(axis=0)
        # A column that only rounding moves has no deviation.
        rounding = np.square(2.0**-40 * np.abs(X).max(axis=0))
    usable = (squares > np.maximum(rounding, 1e-100)) & (squares < 1e100)
    exponents = np.round(np.log2(np.where(usable, squares, 1.0)) / 2)
    return tuple(np.exp2(exponents).tolist())


def penalty_of(query: Any) -> Any:
    """Return the penalty of a linear model, by whatever name."""
    if isinstance(query, UnitsQuery):
        return query.penalty
    return query.alpha if isinstance(query, RidgeQuery) else query.C


def with_penalty(query: Any, penalty: Any) -> Any:
    """Return a linear model with another penalty."""
    if isinstance(query, UnitsQuery):
        return replace(query, query=with_penalty(query.query, penalty))
    if isinstance(query, RidgeQuery):
        return replace(query, alpha=penalty)
    return replace(query, C=penalty)
