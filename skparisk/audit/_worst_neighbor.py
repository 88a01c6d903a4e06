"""The record whose change moves a release most, as far as a search finds it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from skparisk.audit._releases import (
    KnownNoise,
    Records,
    fit_to,
    numbers_of,
    places_of,
    refuse_in_ledger,
)
from skparisk.core.checks import check_at_least, check_random_state

_TRIALS = 400


@dataclass(frozen=True)
class WorstNeighbor:
    """A replaced record that moves a release far: see :func:`find_worst_neighbor`.

    Parameters
    ----------
    position : int
        Position of the replaced record.

    record : tuple of float
        Features of the new record.

    target : object
        Its target or label; None without targets.

    distance : float
        How far the answer moves: over the noise scale, in the norm of the law of the
        noise, where that is known; else the l2 distance, in units of the answer.
        Infinite where there is no answer, as the fit to the neighbor fails.

    epsilon : float or None
        Largest privacy loss of this pair at the noise that is stated, in [0, inf];
        None where that is not known.

    n_trials : int
        Records that were tried.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.audit import find_worst_neighbor
    >>> X = np.linspace(0.0, 1.0, 10)[:, np.newaxis]
    >>> found = find_worst_neighbor(np.mean, X, box=[(0.0, 1.0)], random_state=0)
    >>> round(found.distance, 6)
    0.1
    """

    position: int
    record: tuple[float, ...]
    target: Any
    distance: float
    epsilon: float | None
    n_trials: int

    def neighbor_of(self, X: ArrayLike, y: ArrayLike | None = None) -> Records:
        """Return the database with the record in its place.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            The database that was searched.

        y : array-like of shape (n_records,), default=None
            Its targets.

        Returns
        -------
        neighbor : tuple of ndarray
            (X,), or (X, y).
        """
        return _replaced(
            (np.asarray(X), *(() if y is None else (np.asarray(y),))),
            self.position,
            np.array(self.record),
            self.target,
        )


def find_worst_neighbor(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    box: Any = None,
    n_trials: int = _TRIALS,
    fit_params: Mapping[str, Any] | None = None,
    random_state: Any = None,
) -> WorstNeighbor:
    """Search for the replaced record that moves the answer of a release most.

    Half of the trials are corners of the box and random points of it, at random
    positions; the others move one coordinate, or the position, of the best so far.

    Parameters
    ----------
    estimator : estimator or callable
        A private estimator, whose query is asked without noise; one that adds no noise;
        or a callable ``query(X)``, ``query(X, y)``, that returns numbers.

    X : array-like of shape (n_records, n_features)
        The database: public or simulated, as what is found depends on it without noise.

    y : array-like of shape (n_records,), default=None
        Targets, or labels, which are then only those that occur.

    box : array-like of shape (n_features, 2) or (n_features + 1, 2), default=None
        Lower and upper bounds of each column and, if there is one more, of numeric
        targets. None: those of `X` and `y`.

    n_trials : int, default=400
        Records that are tried, >= 10. Each is a fit.

    fit_params : dict, default=None
        Further parameters of `fit`, such as ``X_reference``.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the search.

    Raises
    ------
    ValueError
        If a parameter is out of range, or `X` is no table of finite numbers.

    IncompatibleError
        If a ledger is open.

    Notes
    -----
    **Guarantee**. None that nothing is worse: it is a search. What it finds is a
    neighbor, so that the true sensitivity is at least what is found.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.audit import find_worst_neighbor
    >>> X = np.arange(5.0)[:, np.newaxis]
    >>> find_worst_neighbor(np.sum, X, box=[(0.0, 10.0)], random_state=0).record
    (10.0,)
    """
    refuse_in_ledger("A search for a worst neighbor")
    check_at_least(n_trials, "n_trials", 10)
    data = np.array(X, dtype=np.float64)
    if data.ndim != 2 or not data.size or not np.isfinite(data).all():
        raise ValueError(
            f"X must be a table of finite numbers, got an array of shape {data.shape}."
        )
    database: Records = (data,) if y is None else (data, np.array(y))
    answer, known = _answer_of(estimator, database, dict(fit_params or {}))
    return search(
        answer, known, database, box=box, n_trials=n_trials, random_state=random_state
    )


def search(
    answer: Callable[[Records], NDArray[np.float64]],
    known: KnownNoise | None,
    database: Records,
    *,
    box: Any = None,
    n_trials: int = _TRIALS,
    random_state: Any,
) -> WorstNeighbor:
    """Search a box for the record that moves an answer most."""
    rng = check_random_state(random_state, "random_state")
    space = _Box.of(database, box)
    at_home = answer(database)
    n_records = len(database[0])

    def distance(position: int, point: NDArray[np.float64]) -> float:
        neighbor = _replaced(database, position, *space.split(point))
        try:
            moved = answer(neighbor) - at_home
        except Exception:  # which tells the neighbor by itself
            return math.inf
        return float(np.linalg.norm(moved)) if known is None else known.length(moved)

    best = 0, space.corner(rng)
    largest = distance(*best)
    for trial in range(1, n_trials):
        if math.isinf(largest):
            break
        position, point = best
        if trial < n_trials // 2:
            position = int(rng.choice(n_records))
            point = space.corner(rng) if trial % 3 else space.inside(rng)
        elif trial % 4 == 0:
            position = int(rng.choice(n_records))
        else:
            point = space.step(point, rng)
        found = distance(position, point)
        if found > largest:
            best, largest = (position, point), found
    record, target = space.split(best[1])
    return WorstNeighbor(
        position=best[0],
        record=tuple(record.tolist()),
        target=target,
        distance=largest,
        epsilon=None if known is None else known.law.largest_loss(largest),
        n_trials=n_trials,
    )


@dataclass(frozen=True, eq=False)
class _Box:
    """Points: features and, where there is one, a target or the number of a label."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n_features: int
    labels: NDArray[Any] | None

    @classmethod
    def of(cls, database: Records, box: Any) -> _Box:
        data = database[0]
        n_features = data.shape[1]
        y = database[1] if len(database) > 1 else None
        bounds = np.column_stack([data.min(axis=0), data.max(axis=0)])
        labels = None
        if y is not None:
            if y.dtype.kind == "f" and y.ndim == 1:
                bounds = np.vstack([bounds, [y.min(), y.max()]])
            elif y.ndim == 1:
                labels = np.unique(y)
                bounds = np.vstack([bounds, [0, len(labels) - 1]])
            else:
                raise ValueError(
                    f"y must be of shape (n_records,), got {y.shape}: ask about one "
                    "target at a time."
                )
        if box is not None:
            given = np.asarray(box, dtype=np.float64)
            sizes = {n_features, len(bounds) if labels is None else n_features}
            fits = given.ndim == 2 and given.shape[1:] == (2,) and len(given) in sizes
            if not fits or not (given[:, 0] <= given[:, 1]).all():
                raise ValueError(
                    "box must have a lower and an upper bound for each of "
                    f"{n_features} columns, and may have some for numeric targets; got "
                    f"shape {given.shape}."
                )
            bounds[: len(given)] = given
        if not np.isfinite(bounds).all():
            raise ValueError("box must have finite bounds.")
        return cls(bounds[:, 0], bounds[:, 1], n_features, labels)

    def corner(self, rng: Any) -> NDArray[np.float64]:
        return np.where(rng.uniform(size=len(self.low)) < 0.5, self.low, self.high)

    def inside(self, rng: Any) -> NDArray[np.float64]:
        return np.asarray(rng.uniform(self.low, self.high))

    def step(self, point: NDArray[np.float64], rng: Any) -> NDArray[np.float64]:
        moved = point.copy()
        column = int(rng.choice(len(point)))
        ends = self.low[column], self.high[column]
        moved[column] = [*ends, rng.uniform(*ends)][int(rng.choice(3))]
        return moved

    def split(self, point: NDArray[np.float64]) -> tuple[NDArray[np.float64], Any]:
        """Return the features, and the target or label."""
        features = point[: self.n_features]
        if len(point) == self.n_features:
            return features, None
        last = point[-1]
        if self.labels is None:
            return features, float(last)
        return features, self.labels[round(float(last))].item()


def _replaced(
    database: Records, position: int, record: NDArray[np.float64], target: Any
) -> Records:
    """Return a database with another record at a position."""
    X = np.array(database[0], dtype=np.float64)
    X[position] = record
    if len(database) == 1:
        return (X,)
    y = database[1].copy()
    y[position] = target
    return X, y


def _answer_of(
    estimator: Any, database: Records, params: dict[str, Any]
) -> tuple[Callable[[Records], NDArray[np.float64]], KnownNoise | None]:
    """Return the answer without noise, and the noise that is stated."""
    if not hasattr(estimator, "fit"):
        if not callable(estimator):
            raise ValueError(
                "estimator must have fit, or be a callable that returns numbers, got "
                f"{estimator!r}."
            )
        return lambda records: np.ravel(
            np.asarray(estimator(*records), dtype=np.float64)
        ), None
    fitted = fit_to(estimator, database, params)
    known = KnownNoise.of(fitted)
    if known is not None:
        return known.answer, known
    other = tuple(np.roll(part[1:], 1, axis=0) for part in database)
    if hasattr(fitted, "certificate_"):
        estimator = clone(estimator).set_params(epsilon=np.inf)
    fits = [fit_to(estimator, each, params) for each in (database, other)]
    places = places_of(fits)
    return lambda records: numbers_of(fit_to(estimator, records, params), places), None
