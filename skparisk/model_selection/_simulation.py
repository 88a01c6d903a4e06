"""How well private estimators would do, found out from public records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import check_consistent_length
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from skparisk._checks import check_n_jobs, check_verbose, seed_sequence
from skparisk._simulated import in_own_context, simulated
from skparisk.core.checks import check_at_least
from skparisk.core.release import silenced
from skparisk.core.sealed import People, group_rows, of_people, rows_of, take_rows
from skparisk.ledger import suspend_open
from skparisk.model_selection._fits import (
    Records,
    as_indexable,
    fit_estimator,
    with_seeds,
)
from skparisk.reference._records import n_rows

Split = tuple[NDArray[np.intp], NDArray[np.intp]]


def simulate_scores(
    estimators: Iterable[Any],
    X: Any,
    y: Any = None,
    *,
    n_records: int,
    groups: Any = None,
    scoring: Any = None,
    cv: Any = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> NDArray[np.float64]:
    """Score private estimators on databases drawn from public records.

    For each split of the public records a database is drawn from the training part,
    each estimator is fitted to it, with the training part as its reference, and scored
    on the test part. So the scores estimate the performance on as many private records,
    noise included, if these are like the public ones.

    Parameters
    ----------
    estimators : iterable of estimator
        Private estimators, or pipelines whose last step is one. They are cloned. An
        estimator whose sampler has a reference of its own, or is fitted, keeps to it.

    X : array-like of shape (n_rows, n_features)
        Public records, in the units that private records will have.

    y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
        Their targets or labels.

    n_records : int
        Records of a private database, >= 1. They are drawn without replacement where
        the training part has so many, else with replacement.

    groups : array-like of shape (n_rows,), default=None
        Whose each row is, if people have several: records are then people with all of
        their rows, and so is what `cv` splits.

    scoring : str, callable or None, default=None
        One score, as in scikit-learn's `cross_val_score`; larger is better. None: the
        `score` of the estimators.

    cv : int, splitter or iterable, default=5
        Splits of the public records, as in `cross_val_score`.

    n_jobs : int, default=None
        Workers of joblib. The result does not depend on it.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the drawn databases, and replaces each `random_state` and
        `noise_random_state` in the estimators. All of it is public, and pairs of a
        later fit stay unseen.

    verbose : int or None, default=0
        Above 0: messages of joblib.

    Returns
    -------
    scores : ndarray of shape (n_estimators, n_splits)
        All estimators are fitted to the same database in a split.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are several scores.

    Notes
    -----
    **Guarantee** (:ref:`thm-free-simulation`). No private record is used, so the scores
    cost nothing, and an open ledger is not charged. The caller must ensure that `X` and
    `y` are public.

    Examples
    --------
    >>> from skparisk import PrivateRidge
    >>> from skparisk.datasets import load_census
    >>> from skparisk.model_selection import simulate_scores
    >>> X, y = load_census(return_X_y=True)
    >>> ridges = [PrivateRidge(1.0, epsilon=epsilon) for epsilon in (0.01, 1.0)]
    >>> public = {"X": X[:900], "y": y[:900], "n_records": 900, "cv": 2}
    >>> less, more = simulate_scores(ridges, **public, random_state=0).mean(axis=1)
    >>> bool(less < more)
    True
    """
    check_at_least(n_records, "n_records", 1)
    check_n_jobs(n_jobs)
    check_single_scoring(scoring)
    check_consistent_length(X, y)
    X, y = as_indexable(X), as_indexable(y)
    if groups is not None:
        people = group_rows(groups, "groups", n_rows(X))
        X, y = of_people(X, people), of_people(y, people)
    estimators = list(estimators)
    scorers = [check_scoring(estimator, scoring) for estimator in estimators]
    shown = X, y
    if isinstance(X, People):  # by the first row of each
        shown = take_rows(X.rows, X.firsts), take_rows(rows_of(y), X.firsts)
    splitter = check_cv(cv, shown[1], classifier=all(map(is_classifier, estimators)))
    splits: list[Split] = list(splitter.split(*shown))
    draws, fits = seed_sequence(random_state).spawn(2)
    drawn = list(zip(splits, draws.spawn(len(splits)), strict=True))
    seeds = [seed.spawn(len(splits)) for seed in fits.spawn(len(scorers))]
    tasks = [
        delayed(_simulate)(
            estimator, scorer, X, y, split, n_records, draw_seed, fit_seed
        )
        for estimator, scorer, of_fits in zip(estimators, scorers, seeds, strict=True)
        for (split, draw_seed), fit_seed in zip(drawn, of_fits, strict=True)
    ]
    found = Parallel(n_jobs=n_jobs, verbose=check_verbose(verbose))(tasks)
    return np.array(found, dtype=np.float64).reshape(len(scorers), len(splits))


def check_single_scoring(scoring: Any) -> Any:
    """Return one way of scoring: None, a name or a callable."""
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise ValueError(
            "scoring must be a single score: None, a name or a callable; got "
            f"{scoring!r}."
        )
    return scoring


@in_own_context
def _simulate(
    estimator: Any,
    scorer: Callable[..., Any],
    X: Any,
    y: Any,
    split: Split,
    n_records: int,
    draw_seed: np.random.SeedSequence,
    fit_seed: np.random.SeedSequence,
) -> float:
    """Return the score of an estimator in one split."""
    train, test = split
    rows = np.random.default_rng(draw_seed).choice(
        train, size=n_records, replace=len(train) < n_records
    )
    records = Records(
        take_rows(X, rows), take_rows(y, rows), take_rows(X, train), take_rows(y, train)
    )
    public = [rows_of(take_rows(data, test)) for data in (X, y) if data is not None]
    # All of it is public: no ledger is charged, and seeded noise is no leak.
    with simulated(), suspend_open(), threadpool_limits(1, "blas"), silenced():
        fitted = fit_estimator(with_seeds(estimator, fit_seed), records)
        return float(scorer(fitted, *public))
