"""The search for a penalty, on a scale of decades for each record."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from skparisk.queries._together import Floats

__all__ = ["Tried", "climb", "first_places"]

# For each record, in mean squares of a column: from where nothing is lost to it, to
# where little but the intercept is left.
_LEAST, _MOST = 1e-4, 10.0
# Steps from there to there, of a decade at the least; and to larger ones, where that
# helps. Smaller ones than two that were worse are not tried: they get more noise, and
# take the longest to fit.
_LONGEST, _LARGER = 6, 2


class Tried(dict[float, tuple[float, float]]):
    """Scores and noise of penalties, by their logarithm for each record."""

    def best(self) -> float:
        """Return the best; of equals the largest, which has the least noise."""
        return max(self, key=lambda place: (self[place][0], place))

    def score(self, place: float) -> float:
        return self[place][0]

    def vertex(self) -> float:
        """Return where a parabola through the best and its neighbors has its top."""
        best = self.best()
        places = sorted(self)
        around = places[max(places.index(best) - 1, 0) : places.index(best) + 2]
        scores = [self.score(place) for place in around]
        if len(around) < 3 or not np.isfinite(scores).all():
            return best
        low, middle, high = scores
        bend = low - 2 * middle + high
        step = (around[2] - around[0]) / 2
        return best + step * (low - high) / (2 * bend) if bend < 0 else best


def climb(
    score: Callable[[float], tuple[float, float]], least: float, most: float
) -> Tried:
    """Try penalties from the largest on, and then around the best of them."""
    step = max(1.0, (most - least) / _LONGEST)
    tried, place = Tried(), most
    while place > least - step / 2 and (not tried or tried.best() - place < 1.5 * step):
        tried[place] = score(place)
        place -= step
    for _ in range(_LARGER):
        top, below = sorted(tried, reverse=True)[:2]
        if not tried.score(top) > tried.score(below):
            break
        tried[top + step] = score(top + step)
    while step > 1:
        step /= 2
        best = tried.best()
        for place in (best + step, best - step):
            tried[place] = score(place)
    return tried


def first_places(X: Floats, fit_intercept: bool) -> tuple[float, float]:
    """Return logarithms of the least and the most that is tried for each record.

    On the scale of a middle column at the least, of the largest one at the most: a
    penalty by which columns of small units would matter is none for the others.
    """
    with np.errstate(all="ignore"):
        squares = X.var(axis=0) if fit_intercept else np.square(X).mean(axis=0)
    squares = squares[squares > 0].clip(1e-100, 1e100)
    middle, largest = (np.median(squares), squares.max()) if squares.size else (1, 1)
    return math.log10(_LEAST * middle), math.log10(_MOST * largest)
