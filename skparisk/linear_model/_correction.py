"""A ridge regression that is penalized toward a fit of public records."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skparisk._public_fit import PublicFit
from skparisk._training_data import TrainingData
from skparisk._weighing import Weighed, shape_of, weigh
from skparisk.linear_model._penalty_choice import PenaltyChooser
from skparisk.mechanisms import AdditiveNoise
from skparisk.queries import RidgeQuery, UnitsQuery
from skparisk.queries._correction import CorrectionQuery, predict_linear
from skparisk.queries._together import Floats
from skparisk.queries._units import (
    in_units,
    penalty_of,
    units_of,
    with_penalty,
)
from skparisk.queries._weights import prediction_weights
from skparisk.reference import TableReference
from skparisk.reference._records import take_rows
from skparisk.sensitivity import SensitivitySampler

_N_FOLDS = 10
# Other penalties of a public fit: powers of 10 for each record, and columns of size 1.
_PLACES = (-1.0, -0.5, 0.0, 0.5, 1.0)


class CrossFitted(NamedTuple):
    """A fit of some rows of a table, and a table to draw pairs from.

    Its targets of these rows are such that their residuals under the fit are those of
    fits to other rows.
    """

    table: TableReference
    numbers: Floats
    rows: NDArray[np.intp]

    @property
    def residuals(self) -> Floats:
        """Residuals of the rows, of shape (n_rows, n_targets)."""
        X, y = self.table.pool.take(self.rows)
        targets = np.asarray(y, dtype=np.float64).reshape(len(self.rows), -1)
        return np.asarray(
            targets - predict_linear(self.numbers, X, targets.shape[1]),
            dtype=np.float64,
        )


@dataclass(frozen=True, eq=False)
class PublicStart:
    """A ridge regression of public records, which private ones are to correct.

    Everything here is public. What is not in the units of the data is of columns that
    are centered and of size one, and of residuals of size one: coefficients and the
    level of one target after the other.
    """

    # What pairs are drawn from.
    table: TableReference
    # What the fit answers.
    usual: RidgeQuery | UnitsQuery
    # Coefficients and intercepts of the fit, in the units of the data.
    numbers: Floats
    # Covariance of what the fit is off by, by chance.
    public: Floats
    # Mean over rows of products of two residuals and of two columns, of shape
    # (n_targets, n_targets, size, size).
    products: Floats
    # Mean square of what errors do to predictions of a target, of shape (size, size).
    weights: Floats
    # Sizes of the columns.
    units: Floats
    # Mean squares of residuals, over variances of targets.
    shares: Floats
    # A matrix that returns numbers as they are released.
    to_outputs: Floats
    # Of how many records a correction is released.
    n_records: int

    @classmethod
    def of(
        cls, table: TableReference, usual: RidgeQuery, n_records: int, *, chosen: bool
    ) -> Self | None:
        """Return the fit on a table; None if there is none that is finite.

        Its penalty is the usual one; if it is to be chosen, another that is better.
        """
        fitted = cross_fitted(table, usual)
        if fitted is None:
            return None
        asked: RidgeQuery | UnitsQuery = usual
        X, y = (np.asarray(each) for each in fitted.table.pool.take(fitted.rows))
        intercept = usual.fit_intercept
        known_units = units_of(X, fit_intercept=intercept)
        if chosen:
            asked, fitted = _better(table, usual, known_units, fitted)
        residuals = fitted.residuals
        units, n_targets = np.array(known_units), residuals.shape[1]
        n_rows, n_features = X.shape
        center = X.mean(axis=0) if intercept else np.zeros(n_features)
        with np.errstate(all="ignore"):
            design = (X - center) / units
            size = n_features + intercept
            weights = prediction_weights(design, size, fit_intercept=intercept)
            squares = np.mean(np.square(residuals), axis=0)
        if weights is None or not np.isfinite(squares).all():
            return None
        scales = np.sqrt(np.where(squares > 0, squares, 1.0))
        if intercept:
            design = np.column_stack([design, np.ones(n_rows)])
        moved = (residuals / scales).T[:, :, None] * design
        products = np.einsum("tni,unj->tuij", moved, moved, optimize=True) / n_rows
        each = np.eye(size)
        each[:n_features, :n_features] = np.diag(1 / units)
        each[n_features:, :n_features] = -center / units
        places = np.arange(n_targets * size).reshape(n_targets, size)
        order = [*places[:, :n_features].ravel(), *places[:, n_features:].ravel()]
        solved = _solved(weights, asked, units, n_targets, n_rows)
        variances = np.maximum(y.reshape(n_rows, -1).var(axis=0), 2.0**-1000)
        return cls(
            fitted.table,
            asked,
            fitted.numbers,
            _covariance(solved, products) / n_rows,
            products,
            weights,
            units,
            squares / variances,
            np.kron(np.diag(scales), each)[order],
            n_records,
        )

    def query(self, query: RidgeQuery | UnitsQuery) -> CorrectionQuery:
        """Return the query of corrections to this fit."""
        return CorrectionQuery(query, tuple(self.numbers.tolist()), self.usual)

    def used_in(self, source: SensitivitySampler, data: TrainingData) -> TrainingData:
        """Let pairs be drawn from the table, wherever the reference was given."""
        if data.table is not None:
            return replace(data, table=self.table)
        source.set_params(reference=self.table)
        return data

    def score(self, query: CorrectionQuery, noise: Floats) -> float:
        """Return the expected R2 of a release that is added to the fit as it is.

        For people who differ from the public ones by as much as the fit is off by
        chance: what they differ by is what a strong penalty loses.
        """
        response, private = self._of_release(query)
        n_outputs, n_targets = len(response), len(self.shares)
        shape = self._shape
        usual = np.vdot(np.linalg.inv(shape), self.public) / n_outputs
        lost = response - np.eye(n_outputs)
        back = np.linalg.inv(self.to_outputs)
        error = lost @ (self.public + usual * shape) @ lost.T
        error += private + back @ noise @ back.T
        costs = np.kron(np.diag(self.shares), self.weights) / n_targets
        return float(1 - self.shares.mean() - np.vdot(costs, error))

    def weigh_with(self, released: Floats, sampler: SensitivitySampler) -> Weighed:
        """Return how much of a correction that was released to add to the fit."""
        query = sampler.query_
        assert isinstance(query, CorrectionQuery)
        assert isinstance(sampler.mechanism_, AdditiveNoise)
        response, private = self._of_release(query)
        seen = self.to_outputs @ response
        return weigh(
            released,
            noise=sampler.mechanism_.covariance(),
            private=self.to_outputs @ private @ self.to_outputs.T,
            public=seen @ self.public @ seen.T,
            shape=seen @ self._shape @ seen.T,
        )

    @property
    def _shape(self) -> Floats:
        """What people may differ in: alike in all that predictions show."""
        shape = np.kron(np.eye(len(self.shares)), shape_of(self.weights))
        return np.asarray(shape, dtype=np.float64)

    def _of_release(self, query: CorrectionQuery) -> tuple[Floats, Floats]:
        """Return what a release shows of a shift, and its covariance over people."""
        n, n_targets = self.n_records, len(self.shares)
        solved = _solved(self.weights, query.query, self.units, n_targets, n)
        return _blocks(solved @ self.weights), _covariance(solved, self.products) / n


class CorrectionChooser(PenaltyChooser):
    """Chooses the penalty of corrections to a public fit."""

    def __init__(
        self,
        source: SensitivitySampler,
        start: PublicStart,
        n_private: int,
        query: RidgeQuery,
    ) -> None:
        super().__init__(source, start.table, n_private, query)
        self._start = start

    def _released(self, penalty: float) -> CorrectionQuery:
        asked = in_units(with_penalty(self._query, penalty), self._units)
        return self._start.query(asked)

    def _expected(
        self, penalty: float, noise: AdditiveNoise, covariance: Floats
    ) -> float:
        return self._start.score(self._released(penalty), covariance)


def cross_fitted(
    table: TableReference, usual: RidgeQuery | UnitsQuery
) -> CrossFitted | None:
    """Return a fit on a table whose residuals are those of fits to other rows.

    Its own residuals are smaller than those of new people, and so would be the noise.
    With "split" the fit is one of the rows that all databases share: of those that
    pairs differ in it has seen nothing, as of new people. None if a fit has no answer,
    or none that is finite.
    """
    table = table.numbers._part()
    pool, rows = table.pool, np.arange(table.n_rows)
    if table.sampling == "split":
        rows = table._halves()[1]
    y = np.array(pool.y, dtype=np.float64)
    fit, targets = PublicFit(usual, pool.X, y, table.n_rows), y.reshape(len(y), -1)
    mixed = np.random.default_rng(len(rows)).permutation(rows)
    folds = [mixed[fold::_N_FOLDS] for fold in range(min(_N_FOLDS, len(rows)))]
    others = [fit.answer(np.setdiff1d(rows, held)) for held in folds]
    numbers = fit.answer(rows)
    if numbers is None:
        return None
    for held, other in zip(folds, others, strict=True):
        if other is None:
            return None
        for sign, each in ((1.0, numbers), (-1.0, other)):
            moved = predict_linear(each, take_rows(pool.X, held), targets.shape[1])
            targets[held] += sign * moved
    return CrossFitted(table._cross_fitted(y), numbers, rows)


def _better(
    table: TableReference,
    usual: RidgeQuery,
    units: tuple[float, ...],
    fitted: CrossFitted,
) -> tuple[RidgeQuery | UnitsQuery, CrossFitted]:
    """Return the fit whose penalty predicts other rows best.

    But the usual one, unless that is worse by more than a standard error: the more
    coefficients are shrunk, the worse they may do for other people.
    """
    errors = _squares(fitted)
    best: tuple[RidgeQuery | UnitsQuery, CrossFitted] = usual, fitted
    least = errors.mean()
    for place in _PLACES:
        penalty = float(f"{10**place * len(fitted.rows):.3g}")
        query = in_units(with_penalty(usual, penalty), units)
        other = cross_fitted(table, query)
        if other is None:
            continue
        found = _squares(other)
        gains = errors - found
        beyond_chance = gains.mean() > gains.std(ddof=1) / math.sqrt(len(gains))
        if found.mean() < least and beyond_chance:
            best, least = (query, other), found.mean()
    return best


def _squares(fitted: CrossFitted) -> Floats:
    """Return mean squares of what is left of the targets of each row."""
    return np.asarray(np.mean(np.square(fitted.residuals), axis=1))


def _solved(
    weights: Floats,
    query: RidgeQuery | UnitsQuery,
    units: Floats,
    n_targets: int,
    n_records: int,
) -> Floats:
    """Return what solves the normal equations of a record, for each target."""
    own = np.ones(len(units))
    if isinstance(query, UnitsQuery):
        own = np.array(query.units)
    alphas = np.asarray(penalty_of(query), dtype=np.float64)
    penalties = np.zeros((n_targets, len(weights)))
    strengths = np.broadcast_to(alphas, n_targets) / n_records
    penalties[:, : len(units)] = np.outer(strengths, (own / units) ** 2)
    systems = weights + penalties[:, :, None] * np.eye(len(weights))
    return np.asarray(np.linalg.pinv(systems, hermitian=True))


def _covariance(solved: Floats, products: Floats) -> Floats:
    """Return the covariance of the answer on one record, target after target."""
    blocks = np.einsum("tij,tujk,ukl->tiul", solved, products, solved, optimize=True)
    size = solved.shape[0] * solved.shape[1]
    return blocks.reshape(size, size)


def _blocks(each: Floats) -> Floats:
    """Return a matrix that has others on its diagonal."""
    n, size = each.shape[:2]
    matrix = np.zeros((n, size, n, size))
    matrix[np.arange(n), :, np.arange(n)] = each
    return matrix.reshape(n * size, n * size)
