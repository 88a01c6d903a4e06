"""Linear models as queries; in other units, and of what a public fit leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from skparisk.neighbors import NeighborPairs
from skparisk.queries._base import (
    Differences,
    Floats,
    PairDifferences,
    Query,
    SampleWeights,
)
from skparisk.queries._labels import split_offsets
from skparisk.reference._base import RecordPool
from skparisk.reference._parted import Parted
from skparisk.reference._records import beside


class LinearQuery(Query):
    """Coefficients of a penalized linear model and then intercepts, if it has any.

    Subclasses are dataclasses, with the penalty as a field.
    """

    # Of labels; None where targets are numbers.
    classes: tuple[float, ...] | None
    fit_intercept: bool
    is_repeatable = True
    needs_y = True
    _penalty_name = "C"

    def beside_weights(self, targets: Any, y: Any) -> Any:
        """Return other targets with the weights of `y`, if it has any."""
        if self.sample_weights is None:
            return targets
        return beside(targets, np.asarray(y)[:, -1])

    @property
    def penalty(self) -> Any:
        """The penalty of the model, under any name."""
        return getattr(self, self._penalty_name)

    def with_penalty(self, penalty: Any) -> Self:
        """Return the model with another penalty."""
        return replace(self, **{self._penalty_name: penalty})  # type: ignore[type-var]

    def resized(self, share: float) -> Self:
        return self.with_penalty(self.penalty / share)  # of C: a weight of the losses

    def output_weights(self, X: Any, n_outputs: int) -> Floats | None:
        return prediction_weights(X, n_outputs, fit_intercept=self.fit_intercept)


@dataclass(frozen=True)
class MappedQuery(LinearQuery):
    """A linear model of records that are mapped first, each by itself."""

    query: LinearQuery

    def mapped(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the records that the model is fitted to."""
        raise NotImplementedError

    def returned(self, numbers: Floats) -> Floats:
        """Return answers, differences or sizes of these, of shape (..., n_outputs)."""
        return numbers

    @property
    def classes(self) -> tuple[float, ...] | None:  # type: ignore[override]
        """The classes of the model, if it has any."""
        return self.query.classes

    @property
    def fit_intercept(self) -> bool:  # type: ignore[override]
        """Whether the model has intercepts."""
        return self.query.fit_intercept

    @property
    def sample_weights(self) -> SampleWeights | None:  # type: ignore[override]
        """Scale of the weights of records, if they have any."""
        return self.query.sample_weights

    @property
    def is_smooth(self) -> bool:
        return self.query.is_smooth

    @property
    def is_unordered(self) -> bool:
        return self.query.is_unordered

    @property
    def is_plain(self) -> bool:  # also of a class of one's own in these
        return super().is_plain or self.query.is_plain

    @property
    def penalty(self) -> Any:
        return self.query.penalty

    def with_penalty(self, penalty: Any) -> Self:
        return replace(self, query=self.query.with_penalty(penalty))

    def resized(self, share: float) -> Self:
        return replace(self, query=self.query.resized(share))

    def placed(self, X: Any, y: Any, n_records: int) -> Self:
        return replace(self, query=self.query.placed(*self.mapped(X, y), n_records))

    def forget_place(self) -> None:
        self.query.forget_place()

    def __call__(self, X: Any, y: Any = None) -> Floats:
        return self.returned(self.query(*self.mapped(X, y)))

    def on_pool(self, pool: RecordPool, n_records: int) -> Differences:
        if self.is_plain:
            return self._plain_differences
        self.check_has_targets(pool)
        mapped = pool.like(*self.mapped(pool.X, pool.y))
        differences = self.query.on_pool(mapped, n_records)

        def returned(pairs: NeighborPairs) -> PairDifferences:
            found = differences(pairs)
            errors, sizes = (
                None if each is None else self.returned(each)
                for each in (found.errors, found.sizes)
            )
            values = self.returned(found.values)
            return replace(found, values=values, errors=errors, sizes=sizes)

        return returned


@dataclass(frozen=True)
class UnitsQuery(MappedQuery):
    """Answer of a linear model on rescaled records, in the original units.

    So only the penalty changes: it weighs coefficient j times unit j.

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

    units: tuple[float, ...]

    def __post_init__(self) -> None:
        mantissas, _ = np.frexp(np.asarray(self.units, dtype=np.float64))
        if not len(self.units) or (mantissas != 0.5).any():
            raise ValueError(f"units must be powers of 2, got {self.units!r}.")

    def mapped(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rescaled records."""
        units = np.array(self.units)
        if isinstance(X, Parted):
            return X.mapped(lambda records: records / units), y
        return X / units, y

    def returned(self, numbers: Floats) -> Floats:
        """Return coefficients in the original units; intercepts have none."""
        n_outputs, width = numbers.shape[-1], len(self.units)
        divisors = np.ones(n_outputs)
        n_coef = n_outputs // (width + self.fit_intercept) * width
        divisors[:n_coef] = np.tile(self.units, n_coef // width)
        return numbers / divisors

    def __str__(self) -> str:
        return f"{self.query} in other units"


@dataclass(frozen=True)
class CorrectionQuery(MappedQuery):
    """The answer of a linear model to what a public fit leaves of targets.

    So coefficients are penalized by how far they are from those of the public fit.
    `start` is no function of the records that it is asked about, so that each record is
    mapped by itself, and neighbors stay neighbors. What the fit leaves of the rows that
    it was fitted to is too small: pairs are to be drawn from others
    (:ref:`thm-correction`).

    `query` is of what that fit leaves: the ridge regression of residuals; or the
    logistic regression of records whose scores are those of the public fit beforehand.
    """

    # Coefficients and then intercepts of the public fit, as `query` has them.
    start: tuple[float, ...]
    # What the public records answered it to.
    usual: LinearQuery
    # Statistics of that fit, by which a correction is weighed.
    public: Any = field(default=None, compare=False, repr=False)

    is_correction = True

    @property
    def correction(self) -> Self:
        """The query itself: of models behind steps it is another one."""
        return self

    def __call__(self, X: Any, y: Any = None) -> Floats:
        # None, such as of far records, is no correction: sampled ones have no answer.
        answer = super().__call__(X, y)
        return answer if np.isfinite(answer).all() else np.zeros(len(answer))

    def mapped(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return what the public fit leaves of targets."""
        targets, _ = self.targets_of(y)
        scores = linear_scores(self.query, np.array(self.start), X, targets)
        return X, self.beside_weights(targets_left(self.query, targets, scores), y)

    def __str__(self) -> str:
        return f"{self.query} of residuals under a public fit"


def linear_scores(query: LinearQuery, numbers: Floats, X: Any, y: Any) -> Floats:
    """Return what coefficients and intercepts add to scores, (n_rows, n_scores).

    Predictions of targets; of classes the scores of all but the first, less those of
    the first.
    """
    if query.classes is None:
        return predict_linear(numbers, X, np.size(y) // len(y))
    if len(query.classes) == 2:
        return predict_linear(numbers, X, 1)
    scores = predict_linear(numbers, X, len(query.classes))
    return scores[:, 1:] - scores[:, :1]


def targets_left(query: LinearQuery, y: Any, scores: Floats) -> Floats:
    """Return residuals, or labels with scores beside them, of records with scores."""
    y = np.asarray(y, dtype=np.float64)
    if query.classes is None:
        left = scores.reshape(y.shape)
        return np.subtract(y, left, out=left)  # of many records one array less
    labels, before = split_offsets(y, query.classes)
    return np.column_stack([labels, scores if before is None else before.T + scores])


def predict_linear(numbers: Floats, X: Any, n_targets: int) -> Floats:
    """Return what coefficients and intercepts predict, of shape (n_rows, n_targets).

    Column after column: what is predicted for a record must not depend on the others,
    by rounding either, as the product of two matrices does.
    """
    if isinstance(X, Parted):
        return X.gathered(lambda some: predict_linear(numbers, some, n_targets))
    X = np.asarray(X, dtype=np.float64)
    n_rows, n_features = X.shape
    coef = numbers[: n_features * n_targets].reshape(n_targets, n_features)
    predicted = np.zeros((n_rows, n_targets))
    for column, weights in zip(X.T, coef.T, strict=True):
        predicted += column[:, None] * weights
    intercepts = numbers[n_features * n_targets :]
    return predicted + intercepts if len(intercepts) else predicted


def in_units(query: Any, units: tuple[float, ...] | None) -> Any:
    """Return a linear model in these units; itself where they change nothing."""
    return query if units is None or set(units) == {1.0} else UnitsQuery(query, units)


def units_of(X: Floats, *, fit_intercept: bool) -> tuple[float, ...]:
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


def centers_of(records: Floats) -> tuple[float, ...]:
    """Return medians of public columns: unlike means, few far rows do not move them."""
    with np.errstate(all="ignore"):
        return tuple(np.nan_to_num(np.median(records, axis=0)).tolist())


def prediction_weights(
    X: Floats,
    n_outputs: int,
    *,
    fit_intercept: bool,
    weights: Floats | None = None,
) -> Floats | None:
    """Return the mean square, over records X, of what an error does to predictions.

    A quadratic form, of shape (n_outputs, n_outputs): for coefficients of one
    prediction after the other, and then intercepts. Deviations of features from their
    means are shrunk by Ledoit and Wolf's rule, in their own units: a direction in which
    so few records do not differ is one in which others may. None if squares overflow.
    With `weights` of mean 1 it is a weighted mean.
    """
    n_features = X.shape[1]
    with np.errstate(all="ignore"):
        means = np.average(X, axis=0, weights=weights)
        deviations = X - means
        if weights is not None:
            deviations *= np.sqrt(weights)[:, None]
        spreads = np.sqrt(np.einsum("ij,ij->j", deviations, deviations) / len(X))
        deviations *= 1 / np.where(spreads > 0, spreads, 1.0)
        features = spreads[:, None] * shrunk_moments(deviations) * spreads
        features += np.outer(means, means)
        if not np.isfinite(features).all():
            return None
    size = n_features + fit_intercept
    each = np.ones((size, size))
    each[:n_features, :n_features] = features
    if fit_intercept:
        each[:n_features, -1] = each[-1, :n_features] = means
    if n_outputs == size:
        return each
    n_predictions = n_outputs // size
    places = np.arange(n_outputs).reshape(n_predictions, size)
    coefs, intercepts = places[:, :n_features], places[:, n_features:]
    order = np.concatenate([coefs.ravel(), intercepts.ravel()])
    return np.kron(np.eye(n_predictions), each)[np.ix_(order, order)]


def shrunk_moments(values: Floats, n_independent: int | None = None) -> Floats:
    """Return second moments of rows, not centered, by the rule of Ledoit and Wolf.

    Shrunk toward a multiple of the identity, so that any rotation of the rows is one of
    these; of the size of 1, as squares must not overflow. Where rows depend on each
    other they tell no more than `n_independent` would.
    """
    n_rows, n_columns = values.shape
    moments = values.T @ values / n_rows
    mean = np.trace(moments) / n_columns
    size = np.sum(moments**2)
    spread = size - n_columns * mean**2
    n_telling = n_rows if n_independent is None else min(n_rows, max(n_independent, 1))
    lengths = np.einsum("ij,ij->i", values, values)
    error = (np.mean(lengths**2) - size) / n_telling
    share = min(1.0, max(error, 0.0) / spread) if spread > 0 else 0.0
    return (1 - share) * moments + share * mean * np.eye(n_columns)
