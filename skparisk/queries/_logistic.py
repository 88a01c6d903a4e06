"""Logistic regression as a query, of many databases at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skparisk._checks import check_flag
from skparisk.core.checks import check_positive
from skparisk.queries._base import Floats, SampleWeights
from skparisk.queries._labels import check_classes, label_codes, split_offsets
from skparisk.queries._linear import centers_of
from skparisk.queries._newton import LogLoss, Minimum
from skparisk.queries._weighted import Answers, WeightedQuery

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
        Whether to fit and release intercepts, without a penalty.

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

    A database without one of the classes has no minimizer where intercepts are free.
    The answer is then 0, because an error would reveal the missing class. *Sampled*
    databases without one of the classes count as not answered: such a pair needs
    infinite noise.

    Labels may have columns beside them, one for each class but the first: scores that
    each record has already, relative to the first class, to which the answer adds.

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
    # Of records whose labels have weights beside them.
    sample_weights: SampleWeights | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", check_classes(self.classes))
        object.__setattr__(self, "C", check_positive(self.C, "C"))
        check_flag(self.fit_intercept, "fit_intercept")

    is_smooth = True

    @property
    def _needs_all_classes(self) -> bool:
        """Whether there are intercepts: nothing else holds these back."""
        return self.fit_intercept

    def _labels_of(self, targets: Any) -> tuple[NDArray[np.intp], Floats | None]:
        labels, offsets = split_offsets(targets, self.classes)
        return label_codes(labels, self.classes), offsets

    def placed(self, X: Any, y: Any, n_records: int) -> Self:
        targets, own = self.targets_of(y)
        codes, offsets = self._labels_of(targets)
        if len(np.unique(codes)) < len(self.classes):
            return self
        X = np.asarray(X, dtype=np.float64)
        placed = replace(self, center=centers_of(X))
        weights = np.full((1, len(X)), n_records / len(X))
        weights = weights if own is None else weights * own
        loss, units = placed.loss(X, codes, offsets)
        start = loss.minimize(weights).theta / units
        return replace(placed, start=tuple(np.nan_to_num(start).ravel().tolist()))

    def forget_place(self) -> None:
        object.__setattr__(self, "center", None)
        object.__setattr__(self, "start", None)

    def answering(
        self, X: Floats, codes: NDArray[np.intp], offsets: Floats | None
    ) -> Answers:
        loss, units = self.loss(X, codes, offsets)

        @np.errstate(all="ignore")  # that a number overflows would be a release
        def answers(weights: Floats, near: Minimum | None) -> tuple[Floats, Minimum]:
            found = loss.minimize(weights, near)
            theta = found.theta / units
            if self.fit_intercept and self.center is not None:
                theta[:, :, -1] -= theta[:, :, :-1] @ np.array(self.center)
            if theta.shape[1] > 1:  # of the first class as well, with the sum 0
                theta = np.concatenate([np.zeros_like(theta[:, :1]), theta], axis=1)
                theta -= theta.mean(axis=1, keepdims=True)
            return self._flat(theta), found

        return answers

    def loss(
        self, X: Floats, codes: NDArray[np.intp], offsets: Floats | None
    ) -> tuple[LogLoss, Floats]:
        """Return the loss of records with shifted features, and their units.

        A far private record, such as 1e200, must have an answer as any other.
        """
        moved = self.fit_intercept and self.center is not None
        design = self._with_constant(X - np.array(self.center) if moved else X)
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
        loss = LogLoss(scaled, codes, offsets, penalty, start * units)
        return loss, units
