"""Records that are held out, and how well a model predicts each of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor

from skparisk.core.release import silenced
from skparisk.core.rounding import decimal
from skparisk.linear_model._bounds import check_y_bounds
from skparisk.model_selection._candidates import Records

RecordScore = Callable[[Any, Any], Any]

# Scores of records are rounded down to multiples of this: their sums are exact.
_STEP = 2.0**-20


def default_record_score(estimator: Any, y_bounds: Any) -> RecordScore:
    """Return how predictions of single records are scored, from 0 to 1."""
    if is_classifier(estimator):
        return _agree
    if not is_regressor(estimator):
        raise ValueError(
            "record_score must be given unless the estimator is a classifier or a "
            "regressor; got None."
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
    """Return the sum of the scores of records, each a multiple of 2**-20 in [0, 1].

    Nothing but the sum may tell about the records: no warning, no message of an error.
    """
    scores = None
    # That it failed is said below, outside, so that the error does not come along.
    with np.errstate(all="ignore"), silenced(), suppress(Exception):
        scores = np.array(
            record_score(held_out.y, model.predict(held_out.X)), dtype=np.float64
        )
    if scores is None:
        raise ValueError(
            "Scoring the held-out records failed. The reason is not shown because it "
            "may reveal something about them; try `predict` and record_score on public "
            "or made-up data."
        )
    if scores.shape != (len(held_out),):
        raise ValueError(
            f"record_score must return one number for each of the {len(held_out)} "
            "records, and returned something else."
        )
    known = np.nan_to_num(scores, nan=0.0).clip(0.0, 1.0)
    return float(np.floor(known / _STEP).sum() * _STEP)
