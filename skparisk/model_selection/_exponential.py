"""The choice by the exponential mechanism, on private records that are held out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier, is_regressor

from skparisk.core.checks import check_epsilon, check_probability, warn_if_seeded
from skparisk.core.claim import mint
from skparisk.core.compose import compose_basic, compose_parallel, post_process
from skparisk.core.release import as_seeded, draw, forgetting, unseen
from skparisk.core.rounding import decimal
from skparisk.ledger import OPEN
from skparisk.ledger._open import check_room
from skparisk.linear_model._bounds import check_y_bounds
from skparisk.mechanisms import ExponentialMechanism
from skparisk.model_selection._fits import (
    Choice,
    Records,
    Task,
    charge_leaks,
    fit_recorded,
)

RecordScore = Callable[[Any, Any], Any]

# Scores of records are rounded down to multiples of this: their sums are exact.
_STEP = 2.0**-20


def find_record_score(estimator: Any, y_bounds: Any) -> RecordScore:
    """Return how predictions of single records are scored, from 0 to 1."""
    if is_classifier(estimator):
        return _agree
    if not is_regressor(estimator):
        raise ValueError(
            "estimator must be a classifier or a regressor with "
            f"selection='exponential', got {type(estimator).__name__}: choose on "
            "public records."
        )
    low, high = check_y_bounds(y_bounds)
    if low == high:
        raise ValueError(
            f"y_bounds must be two different numbers to score within, got {y_bounds!r}."
        )
    return partial(_closeness, width=high - low)


def _agree(y_true: Any, y_pred: Any) -> NDArray[np.float64]:
    """Return 1 for a label that is predicted, else 0."""
    same = np.asarray(y_true) == np.asarray(y_pred).reshape(np.shape(y_true))
    return same.reshape(len(same), -1).all(axis=1).astype(np.float64)


def _closeness(y_true: Any, y_pred: Any, *, width: float) -> NDArray[np.float64]:
    """Return 1 for a prediction without error, down to 0 if it is off by the width."""
    targets = np.asarray(y_true, dtype=np.float64)
    errors = np.abs(targets - np.asarray(y_pred).reshape(targets.shape))
    shares = np.minimum(errors.reshape(len(targets), -1), width) / width
    return 1 - shares.mean(axis=1)


def split_records(
    records: Records, holdout: float, seed: np.random.SeedSequence
) -> tuple[Records, Records]:
    """Return the records to train on, and those that are held out."""
    n_records = len(records)
    n_held_out = math.ceil(decimal(holdout) * n_records)
    if n_held_out >= n_records:
        raise ValueError(
            f"holdout={holdout!r} leaves no record to train on, got n_samples="
            f"{n_records}."
        )
    order = np.random.default_rng(seed).permutation(n_records)
    held_out, training = np.split(order, [n_held_out])
    return records.take(np.sort(training)), records.take(np.sort(held_out))


def score_hold_out(model: Any, held_out: Records, record_score: RecordScore) -> float:
    """Return the sum of scores, multiples of 2**-20 in [0, 1]; tell nothing else."""
    scores = None
    # That it failed is said below, outside, so that the error does not come along.
    with unseen():
        scores = np.array(
            record_score(held_out.y, model.predict(held_out.X)), dtype=np.float64
        )
    if scores is None:
        raise ValueError(
            "Scoring the held-out records failed. The reason is not shown because it "
            "may reveal something about them; try `predict` on public or made-up data."
        )
    known = np.nan_to_num(scores, nan=0.0).clip(0.0, 1.0)
    return float(np.floor(known / _STEP).sum() * _STEP)


class ExponentialSelection(BaseEstimator):
    """Fit all candidates to one part of the private records, and choose on the rest.

    For `selection` of :class:`~skparisk.model_selection.PrivateGridSearchCV`, where
    "exponential" is short for ``ExponentialSelection()``. The exponential mechanism
    chooses among the models by the sum of their scores on the records held out.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy level of the choice alone, in (0, inf].

    holdout : float, default=0.2
        Share of the private records to score on, in (0, 1), rounded up to a record.

    y_bounds : tuple of float, default=None
        Public (lowest, highest) target; for regressors. A record scores 1 minus the
        absolute error, as a share of their distance, at least 0; of a classifier 1 for
        the right label, else 0.

    Notes
    -----
    **Guarantee** (:ref:`thm-hold-out-choice`). The larger of `epsilon` and the sum over
    the fits of all candidates, as every record is in one part only. The caller must
    ensure that ``predict`` looks at one record at a time.

    An open :class:`~skparisk.ledger.PrivacyLedger` is charged for each fit and for the
    choice as they happen, more than the certificate says. If the levels in the
    parameters exceed the budget, nothing is fitted.

    Examples
    --------
    >>> from skparisk import PrivateRidge
    >>> from skparisk.datasets import load_census
    >>> from skparisk.model_selection import ExponentialSelection, PrivateGridSearchCV
    >>> ridge = PrivateRidge(epsilon=0.5, sensitivity=0.5)
    >>> by_hold_out = ExponentialSelection(epsilon=0.9, y_bounds=(0, 1))
    >>> grid = {"alpha": [1.0, 100.0]}
    >>> search = PrivateGridSearchCV(ridge, grid, selection=by_hold_out)
    >>> search.fit(*load_census(return_X_y=True)).certificate_.epsilon  # of two fits
    1.0
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        holdout: float = 0.2,
        y_bounds: Sequence[float] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.holdout = holdout
        self.y_bounds = y_bounds

    def _check_parameters(self) -> None:
        check_epsilon(self.epsilon)
        check_probability(self.holdout, "holdout")
        if self.y_bounds is not None:
            check_y_bounds(self.y_bounds)

    @forgetting
    def _choose(self, task: Task) -> Choice:
        """Fit all, and choose by scores that one record changes by 1 at most."""
        record_score = find_record_score(task.estimator, self.y_bounds)
        training, held_out = split_records(task.records, self.holdout, task.seeds)
        seed = task.noise_random_state
        warn_if_seeded(seed)
        choice = as_seeded(mint(epsilon=self.epsilon, relation="replace-one"), seed)
        known = [level for c in task.candidates if (level := c.level) is not None]
        # Relations that do not go together are refused before anything is released.
        compose_basic([choice, *known])
        mechanism = ExponentialMechanism(1.0, self.epsilon)
        whole = len(known) == len(task.candidates)
        if whole and not any(level.delta for level in known):
            # What will be charged at least: risks may be less.
            least = [mint(epsilon=x.epsilon, relation=x.relation) for x in known]
            check_room(*least, choice)
        models, scores, fits = [], [], charge_leaks(task.candidates)
        for candidate in task.candidates:
            model, releases = fit_recorded(candidate.estimator, training)
            models.append(model)
            try:
                scores.append(score_hold_out(model, held_out, record_score))
            except ValueError:  # all see that there is no score: a release
                OPEN.spend(choice, note=f"{mechanism}: no answer")
                raise
            fits += map(post_process, releases)
        index = draw(
            mechanism,
            scores,
            [choice],
            OPEN,
            note=str(mechanism),
            noise_random_state=seed,
        )
        parts = [compose_basic(fits), choice]
        certificate = compose_parallel(parts, partition="position")
        return Choice(index, models[index], certificate)
