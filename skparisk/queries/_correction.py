"""What is to be added to a public linear fit: the same fit, of what that leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.queries._base import Differences, Floats, Query
from skparisk.queries._labels import split_offsets
from skparisk.queries._logistic import LogisticRegressionQuery
from skparisk.queries._ridge import RidgeQuery
from skparisk.queries._units import UnitsQuery
from skparisk.reference._base import RecordPool
from skparisk.reference._mapped import loaded

Corrected: TypeAlias = RidgeQuery | LogisticRegressionQuery | UnitsQuery


@dataclass(frozen=True)
class CorrectionQuery(Query):
    """The answer of a linear model to what a public fit leaves of targets.

    So coefficients are penalized by how far they are from those of the public fit.
    `start` is no function of the records that it is asked about, so that each record is
    mapped by itself, and neighbors stay neighbors. What the fit leaves of the rows that
    it was fitted to is too small: pairs are to be drawn from others
    (:ref:`thm-correction`).
    """

    # Of what that fit leaves: the ridge regression of residuals; or the logistic
    # regression of records whose scores are those of the public fit beforehand.
    query: Corrected
    # Coefficients and then intercepts of the public fit, as `query` has them.
    start: tuple[float, ...]
    # What the public records answered it to.
    usual: Corrected
    # Statistics of that fit, by which a correction is weighed.
    public: Any = field(default=None, compare=False, repr=False)

    is_repeatable = True
    is_smooth = True  # as what it corrects
    needs_y = True
    is_correction = True

    @property
    def is_unordered(self) -> bool:
        return self.query.is_unordered

    @property
    def classes(self) -> tuple[float, ...] | None:
        """The classes of the model, if it has any."""
        return getattr(self.query, "classes", None)

    def __call__(self, X: Any, y: Any = None) -> Floats:
        # None, such as of far records, is no correction: sampled ones have no answer.
        answer = self.query(X, self.left(X, y))
        return answer if np.isfinite(answer).all() else np.zeros(len(answer))

    def __str__(self) -> str:
        return f"{self.query} of residuals under a public fit"

    def left(self, X: Any, y: Any) -> Floats:
        """Return what the public fit leaves of targets."""
        scores = linear_scores(self.query, np.array(self.start), X, y)
        return targets_left(self.query, y, scores)

    def output_weights(self, X: Any, n_outputs: int) -> Floats | None:
        return self.query.output_weights(X, n_outputs)

    def placed(self, X: Any, y: Any, n_records: int) -> Self:
        return replace(self, query=self.query.placed(X, self.left(X, y), n_records))

    def forget_place(self) -> None:
        self.query.forget_place()

    def resized(self, share: float) -> CorrectionQuery:
        return replace(self, query=self.query.resized(share))

    @property
    def is_plain(self) -> bool:
        return self.query.is_plain  # as that of a class of one's own

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        if self.is_plain:
            return super().on_pool(pool, n_records)
        X, y = loaded(pool.X), loaded(pool.y)
        left = RecordPool(X, None if y is None else self.left(X, y))
        return self.query.on_pool(left, n_records)


def linear_scores(query: Corrected, numbers: Floats, X: Any, y: Any) -> Floats:
    """Return what coefficients and intercepts add to scores, (n_rows, n_scores).

    Predictions of targets; of classes the scores of all but the first, less those of
    the first.
    """
    classes = getattr(query, "classes", None)
    if classes is None:
        return predict_linear(numbers, X, np.size(y) // len(y))
    if len(classes) == 2:
        return predict_linear(numbers, X, 1)
    scores = predict_linear(numbers, X, len(classes))
    return scores[:, 1:] - scores[:, :1]


def targets_left(query: Corrected, y: Any, scores: Floats) -> Floats:
    """Return targets of records that have scores already.

    Residuals; labels stay as they are, with the scores beside them.
    """
    y = np.asarray(y, dtype=np.float64)
    classes = getattr(query, "classes", None)
    if classes is None:
        return np.asarray(y - scores.reshape(y.shape))
    labels, before = split_offsets(y, classes)
    return np.column_stack([labels, scores if before is None else before.T + scores])


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
