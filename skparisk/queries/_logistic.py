"""Logistic regression as a query, of many databases at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skparisk._checks import check_flag
from skparisk.core.checks import check_positive
from skparisk.core.pairs import LargestMove
from skparisk.queries._base import Floats
from skparisk.queries._bounds import longest_row, solved_logistic_bound
from skparisk.queries._labels import check_classes, label_codes, split_offsets
from skparisk.queries._newton import LogLoss, Minimum
from skparisk.queries._weighted import Answers, WeightedQuery
from skparisk.queries._weights import prediction_weights
from skparisk.reference._domain import Domain

# Numbers of more bits are scaled down.
_LARGE = 64


@dataclass(frozen=True)
class LogisticRegressionQuery(WeightedQuery):
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

    Labels may have columns beside them, one for each class but the first: scores
    that each record has already, relative to those of the first class, to which the
    answer adds.

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
    # What features are moved by, and where Newton's method starts for these: medians of
    # public records, and their fit. Only rounding depends on it.
    center: tuple[float, ...] | None = field(default=None, compare=False, repr=False)
    start: tuple[float, ...] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", check_classes(self.classes))
        object.__setattr__(self, "C", check_positive(self.C, "C"))
        check_flag(self.fit_intercept, "fit_intercept")

    is_smooth = True
    needs_y = True

    def __call__(self, X: Any, y: Any = None) -> Floats:
        labels, _ = split_offsets(y, self.classes)
        codes = label_codes(labels, self.classes)
        if self.fit_intercept and len(np.unique(codes)) < len(self.classes):
            return np.zeros(self._n_outputs(np.shape(X)[1]))
        return super().__call__(X, y)

    def placed(self, X: Any, y: Any, n_records: int) -> Self:
        labels, _ = split_offsets(y, self.classes)
        if len(np.unique(label_codes(labels, self.classes))) < len(self.classes):
            return self
        center = np.median(np.asarray(X, dtype=np.float64), axis=0)
        placed = replace(self, center=tuple(np.nan_to_num(center).tolist()))
        weights = np.full((1, len(X)), n_records / len(X))
        loss, units = placed.loss(X, y)
        start = loss.minimize(weights).theta / units
        return replace(placed, start=tuple(np.nan_to_num(start).ravel().tolist()))

    def forget_place(self) -> None:
        object.__setattr__(self, "center", None)
        object.__setattr__(self, "start", None)

    def answering(self, X: Any, y: Any) -> Answers:
        (loss, units), n_features = self.loss(X, y), np.shape(X)[1]

        @np.errstate(all="ignore")  # that a number overflows would be a release
        def answers(weights: Floats, near: Minimum | None) -> tuple[Floats, Minimum]:
            found = loss.minimize(weights, near)
            theta = found.theta / units
            if self.fit_intercept and self.center is not None:
                theta[:, :, -1] -= theta[:, :, :-1] @ np.array(self.center)
            if theta.shape[1] > 1:  # of the first class as well, with the sum 0
                theta = np.concatenate([np.zeros_like(theta[:, :1]), theta], axis=1)
                theta -= theta.mean(axis=1, keepdims=True)
            (m, lines), free = theta.shape[:2], bool(self.fit_intercept)
            coef, intercept = theta[:, :, :n_features], theta[:, :, n_features:]
            parts = [
                coef.reshape(m, lines * n_features),
                intercept.reshape(m, lines * free),
            ]
            return np.concatenate(parts, axis=1), found

        return answers

    def loss(self, X: Any, y: Any) -> tuple[LogLoss, Floats]:
        """Return the loss of records, with moved features, and the units of these.

        A far private record, such as 1e200, must have an answer as any other.
        """
        labels, offsets = split_offsets(y, self.classes)
        codes, X = label_codes(labels, self.classes), np.asarray(X, dtype=np.float64)
        design = X
        if self.fit_intercept:
            moved = X if self.center is None else X - np.array(self.center)
            design = np.column_stack([moved, np.ones(len(X))])
        shape = (len(self.classes) - 1, design.shape[1])
        start = np.zeros(shape)
        if self.start is not None and len(self.start) == start.size:
            start = np.reshape(self.start, shape)
        penalty = np.full(shape[1], 1 / self.C)
        penalty[X.shape[1] :] = 0.0
        # Powers of 2: scaling by them is exact, and squares do not overflow.
        exponents = np.frexp(np.abs(design).max(axis=0, initial=0.0))[1]
        exponents = np.where(exponents > _LARGE, exponents, 0).clip(max=1000)
        units = np.ldexp(1.0, exponents)
        with np.errstate(all="ignore"):
            least = np.where(penalty > 0, 1e-300, 0.0)
            penalty = np.maximum(penalty / units / units, least)
            scaled = design / units
        loss = LogLoss(scaled, codes, shape[0], offsets, penalty, start * units)
        return loss, units

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

    def _n_outputs(self, n_features: int) -> int:
        n_rows = 1 if len(self.classes) == 2 else len(self.classes)
        return n_rows * (n_features + self.fit_intercept)
