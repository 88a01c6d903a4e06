"""Minimizers of linear support vector machines with squared hinge loss.

All problems are of the form: minimize ½|w|² + C Σ c ℓ(1 - z·w) over w, with signed
records z, how often each occurs c, and margins 1 - z·w that the loss ℓ charges above 0.
With the right active records a Newton step is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skparisk.queries._together import Floats, symmetric

_Step: TypeAlias = Callable[[Floats], Floats]

EPS = 2.0**-52
MOST_STEPS = 100
# The most of the objective that may be duality gap, however far rounding goes.
LARGEST_GAP = 2.0**-20
# Margins closer to 0 than that share of their terms may be on either side.
_TIE = 2.0**-44
# How clear of the margin records must be, relative to the solution.
_RADIUS = 2.0**-24


class Rows:
    """Signed records of shape (n_rows, q), and what many databases of them share."""

    def __init__(self, Z: Floats, products: Floats | None = None) -> None:
        self.Z = Z
        self.norms = np.sqrt(np.einsum("ij,ij->i", Z, Z))
        self._products = products

    @staticmethod
    def products(Z: Floats) -> Floats:
        """Return Z_i Z_j of each record, of shape (n_rows, q (q + 1) / 2)."""
        i, j = np.triu_indices(Z.shape[1])
        return Z[:, i] * Z[:, j]

    def part(self, which: NDArray[np.intp]) -> Rows:
        products = None if self._products is None else self._products[which]
        return Rows(self.Z[which], products)

    def margins(self, W: Floats) -> Floats:
        """Return 1 - z·w, of shape (n_databases, n_rows)."""
        return 1.0 - W @ self.Z.T

    def hessians(self, weights: Floats) -> Floats:
        """Return I + Σ weight z z' for each database."""
        q = self.Z.shape[1]
        if self._products is None:
            grams = np.array([(self.Z * c[:, None]).T @ self.Z for c in weights])
        else:
            grams = symmetric(weights @ self._products, q)
        return grams + np.eye(q)

    def step(self, weights: Floats) -> Floats:
        """Minimize ½|w|² + ½ Σ weight (1 - z·w)², by normal equations."""
        return solve_positive(self.hessians(weights), weights @ self.Z)

    def accurate_step(self, weights: Floats) -> Floats:
        """Do the same for one database, by orthogonal factors."""
        active = weights[0] > 0
        roots = np.sqrt(weights[0, active])
        q = self.Z.shape[1]
        system = np.vstack([np.eye(q), self.Z[active] * roots[:, None]])
        right = np.append(np.zeros(q), roots)
        factor: Any = np.linalg.qr(np.column_stack([system, right]), mode="r")
        # Factors of the records have the root of the condition of the normal equations.
        # Least squares: where C is huge, the factor may be singular to all digits.
        solution: Floats = np.linalg.lstsq(factor[:q, :q], factor[:q, q])[0]
        return solution[None]


class Solved(NamedTuple):
    """Minimizers of many databases.

    The errors are infinite where the pieces that the records are on are not certain.
    Otherwise every record on a side of the margin stays there within `radius`.
    """

    W: Floats
    errors: Floats
    radius: Floats


def distinct_rows(rows: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return an index of each distinct row, sorted, and the number of each row."""
    # Sorted, so that sums over records, and their rounding, are those of any order.
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    numbers = np.empty(len(rows), dtype=np.intp)
    numbers[order] = np.cumsum(new) - 1
    return order[new], numbers


def minimize_squared_hinge(Z: Floats, counts: Floats, C: float) -> tuple[Floats, bool]:
    """Return the minimizer for one database, of shape (q,), and if it is proven.

    Then its gradient is down to rounding.
    """
    rows, start = Rows(Z), np.zeros((1, Z.shape[1]))
    w = _newton(rows, 2 * C * counts[None], start, rows.accurate_step)[0]
    gradient, longest = gradient_length(rows, counts, w, C)
    return w, gradient <= longest


def gradient_length(
    rows: Rows, counts: Floats, w: Floats, C: float
) -> tuple[float, float]:
    """Return how long the gradient of a database is at w, and how long it may be."""
    # The objective is 1-strongly convex: the minimizer is no further than the gradient
    # is long, and the objective no more than half of its square above the least.
    size = math.hypot(*w)
    charged = np.maximum(1 - rows.Z @ w, 0.0)
    weights = 2 * C * counts * (charged > 0)
    charges = weights * charged
    objective = 0.5 * float(size**2 + charges @ charged)
    gradient = math.hypot(*(w - charges @ rows.Z))
    sums = charges + weights * (1 + rows.norms * size)
    floor = (len(w) + 1) * 8 * EPS * (size + float(sums @ rows.norms))
    return gradient, min(floor, math.sqrt(2 * LARGEST_GAP * objective))


def solve_squared_hinge(rows: Rows, counts: Floats, starts: Floats, C: float) -> Solved:
    """Return minimizers for many databases, with counts of shape (len, n_rows)."""
    W = _newton(rows, 2 * C * counts, starts, rows.step)
    return _bound(rows, counts, W, C)


def _newton(rows: Rows, weights: Floats, starts: Floats, step: _Step) -> Floats:
    """Semismooth Newton steps until the active records stay the same, then exact."""
    W = starts.copy()
    todo = np.arange(len(W))
    for _ in range(MOST_STEPS):
        margins, weighted = rows.margins(W[todo]), weights[todo]
        active = margins > 0
        ahead = step(weighted * active)
        moves = rows.margins(ahead)
        # On the active records the loss is quadratic: if the step keeps them, it is the
        # minimizer. Records that rounding puts on the other side do not count.
        tie = _TIE * (1 + _lengths(ahead)[:, None] * rows.norms)
        changed = ((moves > 0) != active) & (np.abs(moves) > tie) & (weighted > 0)
        moves -= margins
        settled = ~changed.any(axis=1) | (np.abs(moves) <= tie).all(axis=1)
        W[todo[settled]] = ahead[settled]
        going = ~settled
        todo = todo[going]
        if not len(todo):
            break
        W[todo] = _search_line(
            W[todo], ahead[going], margins[going], moves[going], weighted[going]
        )
    return W


def _search_line(
    W: Floats, ahead: Floats, margins: Floats, moves: Floats, weights: Floats
) -> Floats:
    """Go towards `ahead` as long as the objective decreases, to a tenth of the way."""
    # The objective is convex, so the sign of its slope along the way can be bisected,
    # and it falls all the way to `low`. Pieces are finitely many: no more precision is
    # needed than that each step gets somewhere.
    P = ahead - W
    low, high = np.zeros(len(W)), np.ones(len(W))
    tried = high.copy()
    todo = np.arange(len(W))
    pulls = weights * moves
    while len(todo):
        t = tried[todo, None]
        charged = np.maximum(margins[todo] + t * moves[todo], 0.0)
        slopes = np.einsum("ij,ij->i", P[todo], W[todo] + t * P[todo])
        down = slopes + np.einsum("ij,ij->i", charged, pulls[todo]) <= 0
        low[todo[down]] = tried[todo[down]]
        high[todo[~down]] = tried[todo[~down]]
        todo = todo[(low[todo] < 0.9 * high[todo]) & (high[todo] > EPS)]
        tried[todo] = 0.5 * (low[todo] + high[todo])
    return W + low[:, None] * P


def _bound(rows: Rows, counts: Floats, W: Floats, C: float) -> Solved:
    """Return how far minimizers may be off: the inverse Hessian times the gradient.

    And times what the gradient may be off, by rounding of its sum, and of the margins:
    with roots D of the counts, ||H^-1 Z' D|| is at most 1/2.
    """
    margins = rows.margins(W)
    sizes = _lengths(W)
    radius = _RADIUS * sizes
    clear = np.abs(margins) > radius[:, None] * rows.norms
    active = 2 * C * counts * (margins > 0)
    charges = active * margins
    gradients = W - charges @ rows.Z
    # Roundings of a long sum add up as a random walk does.
    rounding = math.sqrt(counts[0].sum()) * EPS
    unsure = rounding * (np.abs(W) + charges @ np.abs(rows.Z))
    # Callers have no records of a large weight, so that 19 bits of inverses are right.
    inverses = np.linalg.inv(rows.hessians(active))
    moves = np.abs(inverses) @ (np.abs(gradients) + unsure)[:, :, None]
    off = W.shape[1] * EPS * (1 + sizes[:, None] * rows.norms)
    off = 0.5 * np.sqrt(np.einsum("ij,ij,ij->i", active, off, off))
    # Twice, for what the inverse itself is off.
    errors = 2 * (_lengths(moves[:, :, 0]) + off)
    certain = (clear | (counts == 0)).all(axis=1)
    return Solved(W, np.where(certain & (errors < radius), errors, math.inf), radius)


def _lengths(vectors: Floats) -> Floats:
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths


def solve_positive(systems: Floats, right: Floats) -> Floats:
    """Solve positive definite systems, which rounding must not make singular."""
    scales = 1 / np.sqrt(systems.diagonal(axis1=1, axis2=2))
    scaled = systems * scales[:, :, None] * scales[:, None, :]
    # A few ulps of the diagonal, which is 1.
    scaled += 8 * EPS * np.eye(scales.shape[1])
    solutions: Any = np.linalg.solve(scaled, (scales * right)[:, :, None])
    return scales * solutions[:, :, 0]
