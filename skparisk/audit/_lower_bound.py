"""A lower bound of the privacy level that a release has, by attacking it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from skparisk._checks import seed_sequence

_Floats = NDArray[np.float64]
# From rows of releases to one number a row, large where the first database is likelier.
_Score = Callable[[_Floats], _Floats]

_MOST_COLUMNS = 32
_MOST_THRESHOLDS = 512
_MOST_ROWS_TO_FIT = 20_000
# Standardized numbers are cut off there, as tails say little and hide the rest.
_FAR = 8.0
_HUGE = 1e150
# Relative error of the inverse of the incomplete beta function, and more.
_SLACK = 1e-9


class Counts(NamedTuple):
    """How many fresh releases have an event, which was fixed before.

    `hits` of `n` releases of the database that makes it likelier, `others` of `n` of
    its neighbor. `words` name the event, and `level` is a lower limit by it.
    """

    hits: int
    others: int
    n: int
    words: str
    level: float


class Event(NamedTuple):
    """The releases whose score, times a sign, reaches a threshold."""

    score: _Score
    threshold: float
    sign: int
    words: str

    def count(self, rows: _Floats) -> int:
        """Return how many rows are among them."""
        return int(np.count_nonzero(self.sign * self.score(rows) >= self.threshold))


def level_limit(low: Any, high: Any, delta: float) -> Any:
    """Return the level that probabilities at these limits take; below 0 it is none."""
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0.0) / high)


def learn_event(
    first: _Floats,
    second: _Floats,
    *,
    alpha: float,
    delta: float,
    rng: np.random.Generator,
) -> Event:
    """Return the event of the largest level, with scores from half of the rows."""
    half = len(first) // 2
    found = []
    for words, score in _scores(first[:half], second[:half], rng):
        ours, others = score(first[half:]), score(second[half:])
        # Low scores of the one database are high ones of the other, with a sign.
        for sign, sides in ((1, (ours, others)), (-1, (-others, -ours))):
            thresholds, low, high = _at_thresholds(*sides, alpha)
            levels = level_limit(low, high, delta)
            at = int(np.argmax(levels))
            event = Event(score, float(thresholds[at]), sign, words)
            found.append((float(levels[at]), event))
    return max(found, key=lambda pair: pair[0])[1]  # few rows promise less than 0


def _at_thresholds(
    ours: _Floats, others: _Floats, alpha: float
) -> tuple[_Floats, _Floats, _Floats]:
    """Return thresholds, and the limits of both probabilities at each."""
    n = len(ours)
    thresholds = np.unique(np.concatenate([ours, others]))
    if len(thresholds) > _MOST_THRESHOLDS:
        picked = np.linspace(0, len(thresholds) - 1, _MOST_THRESHOLDS)
        thresholds = thresholds[picked.astype(np.intp)]
    hits, missed = (
        n - np.searchsorted(np.sort(scores), thresholds, side="left")
        for scores in (ours, others)
    )
    # Of many limits the best is lucky, often that of a rare event in a tail.
    low, high = _limits(hits, missed, n, alpha / len(thresholds))
    return thresholds, low, high


def _limits(
    hits: NDArray[Any], others: NDArray[Any], n: int, alpha: float
) -> tuple[_Floats, _Floats]:
    """Return a lower and an upper limit, each missed at alpha / 2 (Clopper-Pearson)."""
    low = np.zeros(len(hits))
    some = hits > 0
    low[some] = betaincinv(hits[some], n - hits[some] + 1, alpha / 2)
    high = np.ones(len(others))
    less = others < n
    high[less] = betaincinv(others[less] + 1, n - others[less], 1 - alpha / 2)
    return low * (1 - _SLACK), np.minimum(high * (1 + _SLACK), 1.0)


def _scores(
    first: _Floats, second: _Floats, rng: np.random.Generator
) -> Iterator[tuple[str, _Score]]:
    """Yield ways to score rows, with words for what they look at."""
    units = _units_of(first, second)
    ours, others = units(first), units(second)
    shift = ours.mean(axis=0) - others.mean(axis=0)
    spread = np.cov(np.concatenate([ours, others]), rowvar=False).reshape(
        len(shift), len(shift)
    )
    spread += (1e-6 + 1e-3 * np.trace(spread) / len(shift)) * np.eye(len(shift))
    in_spread = np.linalg.solve(spread, shift)

    def along(direction: _Floats) -> _Score:
        return lambda rows: np.asarray(units(rows) @ direction)

    yield "the mean difference of the releases", along(shift)
    yield "their mean difference, in units of their spread", along(in_spread)
    yield "the size of the releases", lambda rows: np.abs(units(rows)).sum(axis=1)
    if np.isnan(first).any() or np.isnan(second).any():
        yield "numbers that are missing", lambda rows: np.isnan(rows).sum(axis=1) * 1.0
    if ours.shape[1] > 1:
        leading = np.argsort(-np.abs(shift))[:_MOST_COLUMNS]
        for column in np.sort(leading):
            yield f"number {column} of the release", along(np.eye(len(shift))[column])
    yield "a logistic regression", _fit_logistic(units, first, second, rng)
    yield from _symbols(first, second)


def _units_of(first: _Floats, second: _Floats) -> _Score:
    """Return what gives numbers of rows in units of their spread, cut off far out."""
    both = _finite(np.concatenate([first, second]))
    center = np.median(both, axis=0)
    scale = np.median(np.abs(both - center), axis=0)
    scale = np.where(scale > 0, scale, both.std(axis=0))
    scale = np.where(scale > 0, scale, 1.0)

    def units(rows: _Floats) -> _Floats:
        with np.errstate(over="ignore"):
            return np.clip((_finite(rows) - center) / scale, -_FAR, _FAR)

    return units


def _fit_logistic(
    units: _Score, first: _Floats, second: _Floats, rng: np.random.Generator
) -> _Score:
    """Return logistic regression on numbers, sizes and closeness to a center."""
    from sklearn.linear_model import LogisticRegression

    centers = np.median(units(first), axis=0), np.median(units(second), axis=0)

    def features(rows: _Floats) -> _Floats:
        x = units(rows)
        # The exact loss of Laplace noise; x is that of Gaussian noise.
        near = np.abs(x - centers[1]) - np.abs(x - centers[0])
        return np.hstack([near, x, np.abs(x)])

    rows = [
        features(part[rng.permutation(len(part))[:_MOST_ROWS_TO_FIT]])
        for part in (first, second)
    ]
    labels = np.repeat([1, 0], [len(part) for part in rows])
    # Few iterations do: it is a score, and whatever it is the limits hold.
    model = LogisticRegression(C=1.0, max_iter=1000, tol=1e-3)
    weights = model.fit(np.concatenate(rows), labels).coef_[0]
    return lambda rows: np.asarray(features(rows) @ weights)


def _symbols(first: _Floats, second: _Floats) -> Iterator[tuple[str, _Score]]:
    """Yield scores by exact values, and by the last bits that are in use."""
    for column in range(min(first.shape[1], _MOST_COLUMNS)):
        for words, code in (
            ("exact repeats of number {}", _by_value),
            ("the low bits of number {}", _by_low_bits),
        ):
            score = _score_symbols(first, second, column, code)
            if score is not None:
                yield words.format(column), score


def _score_symbols(
    first: _Floats,
    second: _Floats,
    column: int,
    code: Callable[[_Floats], NDArray[np.int64]],
) -> _Score | None:
    """Return log likelihood ratios of symbols, or None if hardly any repeats."""

    def codes_of(rows: _Floats) -> NDArray[np.int64]:
        return code(np.ascontiguousarray(rows[:, column]))

    codes = [codes_of(rows) for rows in (first, second)]
    known, places = np.unique(np.concatenate(codes), return_inverse=True)
    if len(known) > 0.9 * len(places):
        return None
    counts = [
        np.bincount(part, minlength=len(known)) + 0.5
        for part in np.split(places, [len(first)])
    ]
    scores = np.log(counts[0] / counts[1])

    def score(rows: _Floats) -> _Floats:
        codes = codes_of(rows)
        places = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.where(known[places] == codes, scores[places], 0.0)

    return score


def _by_value(numbers: _Floats) -> NDArray[np.int64]:
    return (numbers + 0.0).view(np.int64)  # 0 and -0 are one


def _by_low_bits(numbers: _Floats) -> NDArray[np.int64]:
    """Return sign, exponent, and exponent of the last bit in use, as one number."""
    mantissa, exponent = np.frexp(_finite(numbers))
    whole = np.ldexp(np.abs(mantissa), 53).astype(np.int64)
    last = np.frexp((whole & -whole).astype(np.float64))[1].astype(np.int64)
    return (exponent.astype(np.int64) * 64 + last) * 2 + (mantissa < 0)


def _finite(rows: _Floats) -> _Floats:
    return np.nan_to_num(rows, nan=0.0, posinf=_HUGE, neginf=-_HUGE).clip(-_HUGE, _HUGE)


LEAST_RELEASES = 40


def attack(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    *,
    alpha: float,
    delta: float,
    random_state: Any,
) -> Counts:
    """Learn an event from half of the rows, and count it in the other half."""
    if first.shape != second.shape:
        raise ValueError(
            "release must return as many numbers for the neighbor as for the database, "
            f"got {second.shape[1]} and {first.shape[1]}."
        )
    rng = np.random.default_rng(seed_sequence(random_state))
    half = len(first) // 2
    mixed = [rows[rng.permutation(len(rows))] for rows in (first, second)]
    event = learn_event(
        *(rows[half:] for rows in mixed), alpha=alpha, delta=delta, rng=rng
    )
    tested = [rows[:half] for rows in mixed]
    hits, others = (event.count(rows) for rows in tested[:: event.sign])
    limits = _limits(np.array([hits]), np.array([others]), half, alpha)
    level = max(float(level_limit(*limits, delta)[0]), 0.0)
    return Counts(hits, others, half, event.words, level)


def draw_releases(
    release: Callable[..., Any], database: Any, n: int
) -> NDArray[np.float64]:
    """Return independent releases of a database, one a row."""
    if "size" in inspect.signature(release).parameters:
        rows = _as_numbers(release(database, size=n))
        if rows.ndim == 0 or len(rows) != n:
            raise ValueError(
                f"release must return {n} releases along the first axis when "
                f"size={n}, got shape {rows.shape}."
            )
        return rows.reshape(n, -1)
    each = [_as_numbers(release(database)).ravel() for _ in range(n)]
    if len({len(row) for row in each}) > 1:
        raise ValueError("release must return as many numbers in each call.")
    return np.array(each)


def _as_numbers(released: Any) -> _Floats:
    try:
        return np.asarray(released, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "release must return numbers: give labels as whole numbers, and tables as "
            "arrays."
        ) from None
