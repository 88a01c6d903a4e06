"""The search for a penalty, on a scale of decades for each record."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Powers of 10 for each record, and columns of size 1: from where nothing is lost to the
# penalty, to where little but the intercept is left. Larger ones where that helps;
# smaller ones than two that were worse are not tried, as they get more noise, and take
# the longest to fit. There is one more half a decade on either side of the best: a top
# is flat toward smaller penalties and steep toward larger ones, so that a parabola over
# decades is off.
_LEAST, _MOST, _LARGER = -4.0, 1.0, 2


class Tried(dict[float, tuple[float, float]]):
    """Scores and noise of penalties, by their logarithm for each record."""

    def best(self) -> float:
        """Return the best; of equals the smallest, which lets the features count."""
        return max(self, key=lambda place: (self[place][0], -place))

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


def climb(score: Callable[[float], tuple[float, float]]) -> Tried:
    """Try penalties a decade apart, from the largest on, and then beside the best."""
    tried, place = Tried(), _MOST
    while place >= _LEAST and (not tried or tried.best() - place < 1.5):
        tried[place] = score(place)
        place -= 1
    for _ in range(_LARGER):
        top, below = sorted(tried, reverse=True)[:2]
        if not tried.score(top) > tried.score(below):
            break
        tried[top + 1] = score(top + 1)
    best = tried.best()
    for place in (best - 0.5, best + 0.5):
        tried[place] = score(place)
    return tried
