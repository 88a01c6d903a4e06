"""A linear model that is penalized toward a fit of public records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skparisk._public_fit import BesidePublicMixin, NoiseCost, PublicFit
from skparisk._threads import one_thread
from skparisk._training_data import SensitivitySource, TrainingData, public_table
from skparisk.core.checks import check_choice
from skparisk.core.noise import AdditiveNoise
from skparisk.linear_model._cross_fitted import (
    CrossFitted,
    Told,
    cross_fitted,
    kron,
    loss_weights,
)
from skparisk.linear_model._penalty_choice import PenaltyChooser
from skparisk.queries import (
    LogisticRegressionQuery,
    RidgeQuery,
    UnitsQuery,
)
from skparisk.queries._base import Floats
from skparisk.queries._linear import (
    CorrectionQuery,
    LinearQuery,
    in_units,
    units_of,
)
from skparisk.queries._newton import penalty_shares
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import RecordPool
from skparisk.sensitivity import SensitivitySampler

# Other penalties of a public fit: powers of 10 for each record, and columns of size 1.
_PLACES = (-1.0, -0.5, 0.0, 0.5, 1.0)
# Of a variance of 1: what is singular but for rounding can be solved for.
_RIDGE = 2.0**-36
_SMALLEST = np.finfo(np.float64).tiny
# Of the mean weight: along what public records do not tell apart, others may differ.
_LEAST_WEIGHT = 2.0**-10
# Logarithms of how much larger a shift is than the error of the public fit.
_LOG_ODDS = np.linspace(-12.0, 60.0, 721)


class Weighed(NamedTuple):
    """What a release tells of how far a public fit is off, for each output."""

    # What is to be added to the public fit.
    correction: Floats
    # Of the release, the mean among the outputs, in [0, 1].
    weight: float
    # Standard deviations of what public and private people differ in: medians.
    shift: Floats


def weights_of_seen(
    seen: Floats, response: Floats, *, release: Floats, public: Floats
) -> tuple[Floats, float]:
    """Return weights, in [0, 1], of what a release shows of a shift, and its variance.

    Along axes in which shifts are alike. A release shows ``response @ shift``, with an
    error of the covariance `release`, of a shift that is `public` and what populations
    differ in. The weights are those with which it is closest to the shift itself on
    average: nothing that a penalty took is enlarged, but no more is taken.
    """
    n_outputs, shape = len(seen), response @ response.T
    shown = response @ public @ response.T
    unit = max(np.trace(release + shown) / n_outputs, _SMALLEST)
    seen = seen / np.sqrt(unit)
    release, public, shown = (each / unit for each in (release, public, shown))
    # To directions in which chance is independent, and shifts are alike.
    turn = np.linalg.inv(np.linalg.cholesky(_lifted(shape, _RIDGE)))
    chance = release + shown + _RIDGE * np.eye(n_outputs)
    variances, axes = np.linalg.eigh(turn @ chance @ turn.T)
    turn = axes.T @ turn
    # Variances of shifts, and how likely each is.
    usual = np.trace(turn @ shown @ turn.T) / n_outputs
    sizes = (usual * np.exp(_LOG_ODDS))[:, None]
    chances = _posterior((turn @ seen) ** 2, variances + sizes)
    variances = np.diag(release + shown) + sizes * np.diag(shape)
    products = np.diag(public @ response.T) + sizes * np.diag(response)
    weights = chances @ (products / np.maximum(variances, _SMALLEST))
    median = sizes[np.searchsorted(np.cumsum(chances), 0.5), 0]
    return np.clip(weights, 0.0, 1.0), float(unit * median)


def _lifted(matrix: Floats, share: float) -> Floats:
    """Return a matrix of which no direction has less than a share of their mean."""
    mean = np.trace(matrix) / len(matrix)
    return matrix + share * (mean if mean > 0 else 1.0) * np.eye(len(matrix))


def _posterior(squares: Floats, variances: Floats) -> Floats:
    """Return how likely each shift is, for squares of such variances.

    Before these are known its mean is what is usual, and it is more than c times that
    with probability 1 / (1 + c)^2.
    """
    before = -2 * np.logaddexp(0, _LOG_ODDS) - np.logaddexp(0, -_LOG_ODDS)
    log = before - np.sum(np.log(variances) + squares / variances, axis=1) / 2
    chances = np.exp(log - log.max())
    return np.asarray(chances / chances.sum())


@dataclass(frozen=True, eq=False)
class PublicStart:
    """A linear model of public records, which private ones are to correct.

    Everything here is public. What is not in the units of the data is of columns that
    are centered and of size one, and of scores of size one: coefficients and the level
    of one score after the other.
    """

    # What pairs are drawn from; None once they are.
    table: TableReference | None
    # What the fit answers.
    usual: LinearQuery
    # Coefficients and intercepts of the fit, in the units of the data.
    numbers: Floats
    # Covariance of what the fit is off by, by chance.
    public: Floats
    # Mean over rows of products of two slopes.
    products: Floats
    # Second derivatives of the mean loss, half of which errors cost.
    weights: Floats
    # Sizes of the columns.
    units: Floats
    # Mean loss of the fit, and how much of it errors of size 1 in each score are.
    loss: float
    costs: Floats
    # Matrices that return numbers as they are released, and from these.
    to_outputs: Floats
    from_outputs: Floats
    # Of about how many rows a correction is released.
    n_rows: float

    @classmethod
    def of(
        cls, table: TableReference, usual: LinearQuery, n_records: int, *, chosen: bool
    ) -> Self | None:
        """Return the fit, of the best penalty if it is `chosen`; None if not finite."""
        fitted = cross_fitted(table, usual)
        if fitted is None:
            return None
        asked = usual
        part = table.numbers.pool.part(fitted.records)
        X, y = np.asarray(part.X), np.asarray(part.y)
        _, own = usual.targets_of(y)  # weights of records
        intercept = bool(usual.fit_intercept)
        known_units = units_of(X, fit_intercept=intercept)
        if chosen:
            fitted = _better(table, usual, known_units, fitted, y)
            asked = fitted.query
        units = np.array(known_units)
        n_rows, n_features = X.shape
        center = np.zeros(n_features)
        if intercept:
            center = np.average(X, axis=0, weights=own)
        with np.errstate(all="ignore"):
            told = Told.of(usual, fitted.left, y)
            design = (X - center) / units
            weights = loss_weights(usual, fitted.left, design, own)
        if weights is None or not np.isfinite(told.losses).all():
            return None
        if intercept:
            design = np.column_stack([design, np.ones(n_rows)])
        size = design.shape[1]
        if own is not None:
            design *= own[:, None]
        moved = (told.slopes[:, :, None] * design[:, None]).reshape(n_rows, -1)
        if part.sizes is not None:  # what rows of a person have in common adds up
            moved = np.add.reduceat(moved, part.first_rows, axis=0)
        products = moved.T @ moved / n_rows
        solved = np.linalg.pinv(
            weights + _penalties(asked, units, len(told.scales), n_rows), hermitian=True
        )
        # From coefficients of columns that are centered and of size one, and back.
        back = np.eye(size)
        back[:n_features, :n_features] = np.diag(1 / units)
        back[n_features:, :n_features] = -center / units
        scores, n_scores = np.diag(told.scales), len(told.scales)
        if usual.classes is not None and n_scores > 1:  # of all classes, with sum 0
            scores = np.eye(n_scores + 1)[:, 1:] - 1 / (n_scores + 1)
        places = np.arange(len(scores) * size).reshape(len(scores), size)
        order = [*places[:, :n_features].ravel(), *places[:, n_features:].ravel()]
        return cls(
            fitted.table,
            asked,
            fitted.numbers,
            solved @ products @ solved / n_rows,
            products,
            weights,
            units,
            float(np.average(told.losses, weights=own)),
            told.costs,
            kron(scores, back)[order],
            kron(np.linalg.pinv(scores), np.linalg.pinv(back))[:, order],
            n_records * n_rows / part.n_records,
        )

    def query(self, query: LinearQuery) -> CorrectionQuery:
        """Return the query of corrections to this fit."""
        known = replace(self, table=None)
        return CorrectionQuery(query, tuple(self.numbers.tolist()), self.usual, known)

    def score(self, query: CorrectionQuery, noise: Floats) -> float:
        """Return what to expect of a release that is added to the fit as it is.

        R2, or what is left of minus the mean logarithm of the loss. For people who
        differ from the public ones by as much as the fit is off by chance: what they
        differ by is what a strong penalty loses.
        """
        response, private = self._of_release(query)
        n_outputs = len(response)
        shape = self._shape
        usual = np.vdot(np.linalg.inv(shape), self.public) / n_outputs
        lost = response - np.eye(n_outputs)
        error = lost @ (self.public + usual * shape) @ lost.T
        error += private + self.from_outputs @ noise @ self.from_outputs.T
        costs = np.repeat(self.costs, n_outputs // len(self.costs))
        total = self.loss + np.vdot(costs[:, None] * self.weights, error)
        return float(1 - total)

    def weigh_with(self, released: Floats, sampler: SensitivitySampler) -> Weighed:
        """Return how much of a correction to add: all, near the largest numbers."""
        asked: Any = sampler.query_
        query: CorrectionQuery = asked.correction
        assert isinstance(sampler.mechanism_, AdditiveNoise)
        with np.errstate(all="ignore"):
            response, private = self._of_release(query)
            noise = sampler.mechanism_.covariance()
            noise = self.from_outputs @ noise @ self.from_outputs.T
            # To axes in which shifts are alike, and the penalty acts on each by itself.
            root = np.linalg.cholesky(self._shape)
            penalties = self._penalties_of(query)
            turn = np.linalg.eigh(root.T @ penalties @ root)[1].T @ np.linalg.inv(root)
            back = np.linalg.inv(turn)
            seen = turn @ self.from_outputs @ released
            weights, shift = weights_of_seen(
                seen,
                turn @ response @ back,
                release=turn @ (noise + private) @ turn.T,
                public=turn @ self.public @ turn.T,
            )
            to_outputs = self.to_outputs @ back
            correction = to_outputs @ (weights * seen)
            shifts = np.sqrt(shift * np.sum(np.square(to_outputs), axis=1))
        if not np.isfinite(correction).all():
            return Weighed(released, 1.0, np.full(len(released), np.inf))
        return Weighed(correction, float(weights.mean()), shifts)

    @property
    def _shape(self) -> Floats:
        """What people may differ in: alike in all that predictions show.

        But for directions of little weight.
        """
        inverse = np.linalg.inv(_lifted(self.weights, _LEAST_WEIGHT))
        return np.asarray(inverse, dtype=np.float64)

    def _of_release(self, query: CorrectionQuery) -> tuple[Floats, Floats]:
        """Return what a release shows of a shift, and its covariance over people."""
        solved = np.linalg.pinv(
            self.weights + self._penalties_of(query), hermitian=True
        )
        return solved @ self.weights, solved @ self.products @ solved / self.n_rows

    def _penalties_of(self, query: CorrectionQuery) -> Floats:
        return _penalties(query.query, self.units, len(self.costs), self.n_rows)


class CorrectionChooser(PenaltyChooser):
    """Chooses the penalty of corrections to a public fit."""

    def __init__(
        self,
        source: SensitivitySampler,
        start: PublicStart,
        n_private: int,
        query: RidgeQuery | LogisticRegressionQuery,
    ) -> None:
        assert start.table is not None
        super().__init__(source, start.table, n_private, query)
        self._start = start

    def _splits(self, pool: RecordPool) -> list[tuple[Any, Any]]:
        # What a fit leaves of each row is of other rows already.
        return [(slice(None), slice(0))]

    def _released(self, penalty: float) -> CorrectionQuery:
        asked = in_units(self._query.with_penalty(penalty), self._units)
        return self._start.query(asked)

    def _expected(
        self, penalty: float, noise: AdditiveNoise, covariance: Floats
    ) -> float:
        return self._start.score(self._released(penalty), covariance)


class CorrectionMixin(BesidePublicMixin):
    """Release corrections to a fit of public records, if they are combined."""

    # None for those that have no such parameter.
    combine: Any = None
    sampler_: SensitivitySampler | None
    _release: Callable[..., Floats]

    def _check_combine(
        self, source: SensitivitySource, table: Reference | None
    ) -> None:
        """Refuse a correction without public records, or of corrected ones."""
        if self.combine is not None:
            check_choice(self.combine, "combine", ("auto", "reference"))
        public = public_table(source, table)
        asked = getattr(source, "query_", None)
        if isinstance(public, str) and not getattr(asked, "is_correction", False):
            self._refuse_combine(public)
        known = None if hasattr(source, "certificate_") else source
        for each in (table, getattr(known, "reference", None)):
            if isinstance(each, TableReference) and each.is_cross_fitted:
                raise ValueError(
                    "reference must be the public table itself; got one with the "
                    "targets of an earlier correction."
                )

    def _find_start(
        self,
        source: SensitivitySource,
        query: Any,
        usual: Any,
        data: TrainingData,
    ) -> PublicStart | None:
        """Return the fit of public records that private ones are to correct, if any."""
        if self.combine is None:
            return None
        fitted = getattr(source, "query_", None)
        if isinstance(fitted, CorrectionQuery):
            known: PublicStart = fitted.public
            return known
        if data.reference_is_private:
            self._refuse_combine("the reference has records of the training data")
            return None
        table = public_table(source, data.table)
        if isinstance(table, str):
            return None  # it was refused unless "auto"
        assert isinstance(source, SensitivitySampler)
        if self.combine == "auto" and math.isinf(source.epsilon):
            return None  # there is no noise for public records to be better than
        start, n_records = None, source.n_records
        n_records = data.n_records if n_records is None else int(n_records)
        if table.targets is None or table.targets.dtype == object:
            reason = "the reference has no targets that are numbers"
        else:
            reason = f"{query} has no answer on all of them together"
            chosen = usual is not None
            start = PublicStart.of(table, usual or query, n_records, chosen=chosen)
        if start is None:
            self._refuse_combine(reason)
        return start

    def _refuse_combine(self, reason: str) -> None:
        """Refuse to correct a public fit that there is not, unless "auto"."""
        if self.combine == "reference":
            raise ValueError(
                "combine must be None or 'auto' unless pairs are sampled from a table "
                f"of public records, whose fit is to be corrected, but {reason}: give "
                "X_reference and y_reference; got 'reference'."
            )

    def _release_penalized(
        self,
        source: SensitivitySource,
        query: Any,
        asked: Any,
        data: TrainingData,
        unpack: Callable[[Any, Floats], None],
        decode: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
    ) -> Any:
        """Settle the penalty, which is returned; release, and serve the answer."""
        usual = asked.usual(query)
        start = self._find_start(source, query, usual, data)
        query, self.penalty_choice_ = asked.settle(query, source, data, start)
        # No noise is a reason to depart from the usual penalty.
        alone = (usual or query) if start is None else start.usual
        public = self._find_public_fit(source, alone, data)
        asks = query
        if start is not None:
            asks, data = start.query(query), data.of_rows(start.table, source)
        released = self._release(source, asks, data)
        self._serve_with(start, released, public, unpack, decode)
        return query.penalty

    def _serve_with(
        self,
        start: PublicStart | None,
        released: Floats,
        public: PublicFit | None,
        unpack: Callable[[Any, Floats], None],
        decode: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
        cost: NoiseCost | None = None,
        serve_public: Callable[[], None] | None = None,
    ) -> None:
        """Serve what was released, added to the public fit that it corrects, if any."""
        self.released_ = served = released
        combined, weight, shift = None, 1.0, None
        if start is not None:
            assert self.sampler_ is not None
            with one_thread():
                correction, weight, shift = start.weigh_with(released, self.sampler_)
            combined, served = "reference", start.numbers + correction
        if "combine" in vars(self):
            self.combine_, self.private_weight_ = combined, weight
            self.reference_shift_ = shift
        self._serve(served, public, unpack, decode, weight, cost, serve_public)


def _better(
    table: TableReference,
    usual: LinearQuery,
    units: tuple[float, ...],
    fitted: CrossFitted,
    y: Floats,
) -> CrossFitted:
    """Return the fit whose penalty predicts other rows best.

    But the usual one, unless that is worse by more than a standard error: the more
    coefficients are shrunk, the worse they may do for other people.
    """
    _, own = usual.targets_of(y)
    weights: Any = 1.0 if own is None else own
    losses = weights * Told.of(usual, fitted.left, y).losses
    best, least = fitted, losses.mean()
    for place in _PLACES:
        strength = 10**place * len(y)
        regress = usual.classes is None
        penalty = float(f"{strength if regress else 1 / strength:.3g}")
        query = in_units(usual.with_penalty(penalty), units)
        other = cross_fitted(table, query)
        if other is None:
            continue
        found = weights * Told.of(usual, other.left, y).losses
        gains = losses - found
        beyond_chance = gains.mean() > gains.std(ddof=1) / math.sqrt(len(gains))
        if found.mean() < least and beyond_chance:
            best, least = other, found.mean()
    return best


def _penalties(
    query: LinearQuery, units: Floats, n_scores: int, n_rows: float
) -> Floats:
    """Return second derivatives of the penalty, for each row."""
    own = (
        np.array(query.units) if isinstance(query, UnitsQuery) else np.ones(len(units))
    )
    penalty, classes = query.penalty, query.classes
    if classes is None:
        strengths = np.diag(np.broadcast_to(np.asarray(penalty, float), n_scores))
    else:
        strengths = penalty_shares(len(classes)) / penalty
    each = [*(own / units) ** 2, *[0.0] * bool(query.fit_intercept)]
    return kron(strengths / n_rows, np.diag(each))
