"""What is to be added to a public linear fit: the ridge regression of its residuals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import Differences, PairDifferences, Query
from skparisk.queries._ridge import RidgeQuery
from skparisk.queries._together import Floats
from skparisk.queries._units import UnitsQuery
from skparisk.reference._base import RecordPool
from skparisk.reference._mapped import loaded


@dataclass(frozen=True)
class CorrectionQuery(Query):
    """The answer of a ridge regression to what a public fit leaves of targets.

    So coefficients are penalized by how far they are from those of the public fit.
    `start` is no function of the records that it is asked about, so that each record is
    mapped by itself, and neighbors stay neighbors. Residuals of the rows that it was
    fitted to are too small: pairs are to be drawn from others (:ref:`thm-correction`).

    Parameters
    ----------
    query : RidgeQuery or UnitsQuery
        The ridge regression of residuals.

    start : tuple of float
        Coefficients and then intercepts of the public fit, as `query` has them.

    usual : RidgeQuery or UnitsQuery
        What the public records answered it to.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.queries import RidgeQuery
    >>> from skparisk.queries._correction import CorrectionQuery
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0])
    >>> query = CorrectionQuery(RidgeQuery(alpha=1e6), (2.0, 0.0), RidgeQuery())
    >>> query(X, y).round(3)  # the slope is right, and the level is not
    array([0., 1.])
    """

    query: RidgeQuery | UnitsQuery
    start: tuple[float, ...]
    usual: RidgeQuery | UnitsQuery

    is_repeatable = True
    needs_y = True

    def __call__(self, X: Any, y: Any = None) -> Floats:
        return self.query(X, self.residuals(X, y))

    def __str__(self) -> str:
        return f"{self.query} of residuals under a public fit"

    def residuals(self, X: Any, y: Any) -> Floats:
        """Return targets less what the public fit predicts, in the shape of targets."""
        y = np.asarray(y)
        predicted = predict_linear(np.array(self.start), X, y.size // len(y))
        return np.asarray(y - predicted.reshape(y.shape))

    def output_weights(self, X: Any, n_outputs: int) -> Floats | None:
        return self.query.output_weights(X, n_outputs)

    def resized(self, share: float) -> CorrectionQuery:
        return replace(self, query=self.query.resized(share))

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        X, y = loaded(pool.X), loaded(pool.y)
        left = RecordPool(X, None if y is None else self.residuals(X, y))
        differences = self.query.on_pool(left, n_records)

        def of_residuals(pairs: NeighborPairs) -> PairDifferences:
            return differences(pairs.of_pool(left))

        return of_residuals


def predict_linear(numbers: Floats, X: Any, n_targets: int) -> NDArray[np.float64]:
    """Return what coefficients and intercepts predict, of shape (n_rows, n_targets).

    Column after column: what is predicted for a record must not depend on the others,
    by rounding either, as the product of two matrices does.
    """
    X = np.asarray(X, dtype=np.float64)
    n_rows, n_features = X.shape
    coef = numbers[: n_features * n_targets].reshape(n_targets, n_features)
    predicted = np.zeros((n_rows, n_targets))
    for column, weights in zip(X.T, coef.T, strict=True):
        predicted += column[:, None] * weights
    intercepts = numbers[n_features * n_targets :]
    return predicted + intercepts if len(intercepts) else predicted
