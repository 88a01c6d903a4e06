"""A lower bound of the privacy level that a release has, by attacking it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from skparisk._progress import Progress
from skparisk._text import floor_text
from skparisk.audit._distinguish import (
    Counts,
    accuracy_limit,
    learn_events,
    level_limit,
)
from skparisk.audit._limits import check_confidence
from skparisk.core.checks import (
    check_at_least,
    check_n_jobs,
    check_share,
    check_verbose,
    seed_sequence,
)

LEAST_RELEASES = 40
# Events that single calls are spread over workers in.
_TASKS_PER_WORKER = 4


@dataclass(frozen=True)
class EpsilonLowerBound:
    """A privacy level that a release does not keep, and how that was found out.

    Made by :func:`estimate_epsilon_lower_bound`.

    Parameters
    ----------
    epsilon : float
        Lower bound of the level, in [0, inf). 0: nothing was found.

    delta : float
        The delta that it is a level at, in [0, 1).

    confidence : float
        Probability that the true level is at least `epsilon`, in [0.5, 1).

    distinguisher : str
        What the event looks at.

    n_hits, n_hits_neighbor : int
        How many of `n_tested` fresh releases it has: of the database that makes it
        likelier, and of the other one.

    n_tested : int
        Releases of each database that are counted, half of those that were drawn.

    Examples
    --------
    >>> from skparisk.audit import EpsilonLowerBound
    >>> print(EpsilonLowerBound(0.5, 0.0, 0.95, "exact repeats", 90, 40, 100))
    The release has a privacy level of at least 0.5 (confidence 0.95), by exact
    repeats.
    """

    epsilon: float
    delta: float
    confidence: float
    distinguisher: str
    n_hits: int
    n_hits_neighbor: int
    n_tested: int

    def __str__(self) -> str:
        delta = f" at delta = {self.delta:g}" if self.delta else ""
        return (
            f"The release has a privacy level of at least {floor_text(self.epsilon, 3)}"
            f"{delta} (confidence {self.confidence:g}), by {self.distinguisher}."
        )


@dataclass(frozen=True)
class Attack:
    """What two events did on fresh releases: for the level, and for guesses."""

    by_level: Counts
    by_accuracy: Counts
    words: tuple[str, str]

    def level(self, alpha: float, delta: float) -> float:
        """Return a lower limit of the level."""
        return float(level_limit(*self.by_level.limits(alpha), delta))

    def accuracy(self, alpha: float) -> float:
        """Return a lower limit of how often a guess is right."""
        return float(accuracy_limit(*self.by_accuracy.limits(alpha)))


def estimate_epsilon_lower_bound(
    release: Callable[..., Any],
    database: Any,
    neighbor: Any,
    *,
    n_releases: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> EpsilonLowerBound:
    """Estimate how private a release is at most, by attacking it.

    A release is drawn many times for each of two neighboring databases. Half of the
    draws learn to tell them apart, by what they differ in on average, by a logistic
    regression, by numbers that repeat exactly and by their low bits, which give lost
    and seeded noise away. The other half counts how often the learned event occurs.

    Parameters
    ----------
    release : callable
        ``release(database)`` returns a number or an array of numbers, with noise of its
        own in each call. If it has a parameter `size`, as the samplers of NumPy,
        ``release(database, size=n)`` returns n independent releases along the first
        axis, which takes far less time. Anything but the noise must be the same in
        each.

    database, neighbor : object
        What `release` takes: two neighboring databases. Use public or simulated
        records: a bound depends on them without noise.

    n_releases : int
        Releases of each database, >= 40.

    delta : float, default=0.0
        Delta that the level is one at, in [0, 1).

    confidence : float, default=0.95
        Of the bound, in [0.5, 1).

    n_jobs : int, default=None
        Threads of joblib. Threads, as processes would copy the state of a generator
        that `release` holds, and so repeat its noise.

    random_state : int, RandomState, Generator or None, default=None
        Seeds which draws learn. The noise is that of `release`.

    verbose : int, default=0
        Above 0, progress is shown, by releases.

    Returns
    -------
    bound : EpsilonLowerBound
        Its `epsilon` is the bound.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the releases are no numbers of one shape.

    Notes
    -----
    **Guarantee** (:ref:`thm-lower-bound`). If releases are independent of each other, a
    release that is (`epsilon`, `delta`)-differentially private for this pair gets a
    bound above `epsilon` with probability 1 - `confidence` at most. A small bound shows
    nothing: another event, or another pair, may tell more.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk.audit import estimate_epsilon_lower_bound
    >>> from skparisk.mechanisms import LaplaceMechanism
    >>> mechanism = LaplaceMechanism(sensitivity=1.0, epsilon=1.0)
    >>> def release(count, size):
    ...     return mechanism.release(np.full((size, 1), count))
    >>> bound = estimate_epsilon_lower_bound(release, 3, 4, n_releases=20_000)
    >>> 0.7 < bound.epsilon < 1.1
    True
    """
    check_n_jobs(n_jobs)
    check_confidence(confidence)
    delta = check_share(delta, "delta")
    verbose = check_verbose(verbose)
    n_releases = check_at_least(n_releases, "n_releases", LEAST_RELEASES)
    shown = bool(verbose)
    with Progress(2 * n_releases, "releases", "release", shown=shown) as progress:
        draws = [
            draw_releases(release, each, n_releases, n_jobs, progress)
            for each in (database, neighbor)
        ]
    found = attack(*draws, alpha=1 - confidence, delta=delta, random_state=random_state)
    counts = found.by_level
    return EpsilonLowerBound(
        epsilon=found.level(1 - confidence, delta),
        delta=delta,
        confidence=float(confidence),
        distinguisher=found.words[0],
        n_hits=counts.hits,
        n_hits_neighbor=counts.others,
        n_tested=counts.n,
    )


def attack(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    *,
    alpha: float,
    delta: float,
    random_state: Any,
) -> Attack:
    """Learn events from half of the rows, and count them in the other half."""
    if first.shape != second.shape:
        raise ValueError(
            "release must return as many numbers for the neighbor as for the database, "
            f"got {second.shape[1]} and {first.shape[1]}."
        )
    rng = np.random.default_rng(seed_sequence(random_state))
    half = len(first) // 2
    mixed = [rows[rng.permutation(len(rows))] for rows in (first, second)]
    events = learn_events(
        *(rows[half:] for rows in mixed), alpha=alpha, delta=delta, rng=rng
    )
    tested = [rows[:half] for rows in mixed]
    counts = [event.count(*tested) for event in events]
    return Attack(counts[0], counts[1], (events[0].words, events[1].words))


def draw_releases(
    release: Callable[..., Any],
    database: Any,
    n_releases: int,
    n_jobs: int | None,
    progress: Progress,
) -> NDArray[np.float64]:
    """Return independent releases of a database, one a row."""
    workers = effective_n_jobs(n_jobs)
    parts = np.array_split(np.arange(n_releases), min(n_releases, workers))
    many = "size" in inspect.signature(release).parameters
    draw = _draw_many if many else _draw_each
    tasks = [delayed(draw)(release, database, len(part), progress) for part in parts]
    found = Parallel(n_jobs=n_jobs, require="sharedmem")(tasks)
    return np.concatenate(found)


def _draw_many(
    release: Callable[..., Any], database: Any, n: int, progress: Progress
) -> Any:
    rows = _as_numbers(release(database, size=n))
    if rows.ndim == 0 or len(rows) != n:
        raise ValueError(
            f"release must return {n} releases along the first axis when size={n}, got "
            f"shape {rows.shape}."
        )
    progress.add(n)
    return rows.reshape(n, -1)


def _draw_each(
    release: Callable[..., Any], database: Any, n: int, progress: Progress
) -> Any:
    rows = []
    for _ in range(n):
        rows.append(_as_numbers(release(database)).ravel())
        progress.add(1)
    if len({len(row) for row in rows}) > 1:
        raise ValueError("release must return as many numbers in each call.")
    return np.array(rows)


def _as_numbers(released: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(released, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "release must return numbers: give labels as whole numbers, and tables as "
            "arrays."
        ) from None
