"""Where a function of one level is largest, to more digits than its values show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import Polynomial

from skparisk.cost._laws import Floats

_LEAST = 1e-9  # level that is searched, as a share of the largest
_NARROWEST = 1e-13  # interval that is searched, as a share of its end
_ROUNDING = 1e-14  # of the values
_N_POINTS = 33
_DEGREE = 6


def find_maximum(function: Callable[[Floats], Floats], end: float) -> float:
    """Return where a function is largest in (0, end]; `end` if it is nowhere above 0.

    Searches a grid, and then finer and finer ones around the best point. Around a
    smooth maximum the values are equal but for rounding over a share 1e-8, so the end
    is the vertex of a polynomial as soon as one explains all values of a grid.
    """
    grid = np.union1d(
        np.geomspace(_LEAST * end, end, 512), np.linspace(0.0, end, 1025)[1:]
    )
    values = function(grid)
    if values.max() <= 0:
        return end
    low, high = _around_best(grid, values)
    while high - low > _NARROWEST * high:
        grid = np.linspace(low, high, _N_POINTS)
        values = function(grid)
        fit = Polynomial.fit(grid, values, _DEGREE)
        if np.abs(fit(grid) - values).max() <= _ROUNDING * values.max():
            turns = fit.deriv().roots()
            inside = (np.isreal(turns)) & (turns.real > low) & (turns.real < high)
            grid = np.append(grid, turns.real[inside])
            return float(grid[fit(grid).argmax()])
        low, high = _around_best(grid, values)
    return float(grid[values.argmax()])


def _around_best(grid: Floats, values: Floats) -> tuple[float, float]:
    """Return the neighbors of the best point of a grid."""
    best = int(values.argmax())
    return float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
