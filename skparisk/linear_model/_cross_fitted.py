"""A public linear fit, and what fits to other rows leave of each of its rows."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from skparisk._public_fit import PublicFit
from skparisk.queries._base import Floats
from skparisk.queries._labels import label_codes
from skparisk.queries._linear import (
    LinearQuery,
    linear_scores,
    prediction_weights,
    targets_left,
)
from skparisk.reference import TableReference

_N_FOLDS = 10


class CrossFitted(NamedTuple):
    """A fit of some records of a table, and a table to draw pairs from.

    Its targets of these are such that what the fit leaves of them is what fits to
    other rows leave.
    """

    query: LinearQuery
    table: TableReference
    numbers: Floats
    records: NDArray[np.intp]

    @property
    def left(self) -> Floats:
        """What the fit leaves of the targets of their rows."""
        X, y = self.table.pool.take(self.records)
        targets, _ = self.query.targets_of(y)
        scores = linear_scores(self.query, self.numbers, X, targets)
        return targets_left(self.query, targets, scores)


class Told(NamedTuple):
    """What rows tell of scores that they have, in units in which these are alike."""

    # Slopes of the loss of each row in its scores, of shape (n_rows, n_scores).
    slopes: Floats
    # The loss of each row, without units.
    losses: Floats
    # Units of scores, and what a mean square in these adds to the loss, each.
    scales: Floats
    costs: Floats

    @classmethod
    def of(cls, query: LinearQuery, left: Floats, y: Floats) -> Self:
        """Return what rows tell of which so much is left; by their targets as such."""
        classes = query.classes
        y, weights = query.targets_of(y)
        if classes is None:
            residuals = left.reshape(len(left), -1)
            n_scores = residuals.shape[1]
            squares = np.average(np.square(residuals), axis=0, weights=weights)
            scales = np.sqrt(np.where(squares > 0, squares, 1.0))
            variances = np.maximum(y.reshape(len(y), -1).var(axis=0), 2.0**-1000)
            return cls(
                -residuals / scales,
                np.mean(np.square(residuals) / variances, axis=1),
                scales,
                squares / variances / n_scores,
            )
        codes, p = label_codes(left[:, 0], classes), _probabilities(left)
        n_scores = p.shape[1] - 1
        own = p[np.arange(len(p)), codes]
        return cls(
            p[:, 1:] - (codes[:, None] == np.arange(1, n_scores + 1)),
            -np.log(np.maximum(own, 2.0**-1000)),
            np.ones(n_scores),
            np.full(n_scores, 0.5),
        )


def cross_fitted(table: TableReference, usual: LinearQuery) -> CrossFitted | None:
    """Return a fit on a table whose residuals are those of fits to other rows.

    Its own residuals are smaller than those of new people, and so would be the noise.
    With "split" the fit is one of the rows that all databases share: of those that
    pairs differ in it has seen nothing, as of new people. None if a fit has no answer,
    or none that is finite.
    """
    table = table.numbers
    pool, records = table.pool, np.arange(table.n_records)
    if table.sampling == "split":
        records = table._halves()[1]
    y = np.asarray(pool.y, dtype=np.float64)
    fit = PublicFit(usual, pool.like(pool.X, y), table.n_records)
    targets, _ = usual.targets_of(y)
    mixed = np.random.default_rng(len(records)).permutation(records)
    if usual.classes is not None:  # all of them in each fit
        mixed = mixed[np.argsort(targets[pool.first_rows][mixed], kind="stable")]
    folds = [mixed[fold::_N_FOLDS] for fold in range(min(_N_FOLDS, len(records)))]
    others = [fit.answer(np.setdiff1d(records, held)) for held in folds]
    numbers = fit.answer(records)
    if numbers is None:
        return None
    moved: Floats | None = None
    for held, other in zip(folds, others, strict=True):
        if other is None:
            return None
        X, own = fit.pool.take(held)[0], targets[pool.rows(held)]
        theirs, ours = (linear_scores(usual, each, X, own) for each in (other, numbers))
        moved = np.zeros((len(y), theirs.shape[1])) if moved is None else moved
        moved[pool.rows(held)] = theirs - ours
    assert moved is not None
    left = usual.beside_weights(targets_left(usual, targets, moved), y)
    return CrossFitted(usual, table._cross_fitted(left), numbers, records)


def loss_weights(
    query: LinearQuery, left: Floats, design: Floats, weights: Floats | None
) -> Floats | None:
    """Return second derivatives of the mean loss; None if they overflow.

    In coefficients of columns that are centered, and then of the intercept, of one
    score after the other. Of classes they are weighed means over rows, of which few
    may have any weight: so many rows as there are columns are added to which all are
    alike.
    """
    n_rows, size = len(design), design.shape[1] + query.fit_intercept
    each = prediction_weights(
        design, size, fit_intercept=query.fit_intercept, weights=weights
    )
    classes = query.classes
    if each is None or classes is None:
        return None if each is None else kron(np.eye(left.size // n_rows), each)
    if query.fit_intercept:
        design = np.column_stack([design, np.ones(n_rows)])
    p = _probabilities(left)[:, 1:]
    curvatures = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None])
    if weights is not None:
        curvatures *= weights[:, None, None]
    moved = np.einsum("nab,ni,nj->aibj", curvatures, design, design, optimize=True)
    sizes = np.trace(curvatures, axis1=1, axis2=2)
    telling = sizes.sum() ** 2 / max(np.square(sizes).sum(), 2.0**-1000)
    share = size / (size + telling)
    alike = share * kron(curvatures.mean(axis=0), each)
    return alike + (1 - share) * moved.reshape(alike.shape) / n_rows


def _probabilities(left: Floats) -> Floats:
    """Return those of all classes, for labels with scores beside them."""
    scores = np.column_stack([np.zeros(len(left)), left[:, 1:]])
    return np.asarray(softmax(scores, axis=1), dtype=np.float64)


def kron(one: NDArray[Any], other: NDArray[Any]) -> Floats:
    return np.asarray(np.kron(one, other), dtype=np.float64)
