"""Minimizers of linear support vector machines with hinge loss.

Interior points tell which records are on the margin; with these the minimizer is that
of linear equations, and its duality gap shows whether they were the right ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skparisk.queries._linear_svc_solver import (
    EPS,
    LARGEST_GAP,
    MOST_STEPS,
    Rows,
    Solved,
    solve_positive,
)
from skparisk.queries._together import Floats

# Complementarity of interior points, in units of C: from where on they are polished
# although sides still change, and the last.
_NEAR = 1e-9
_NEAREST = 1e-40
# Share of the way to the bounds: interior points must stay inside.
_SHORT_OF_BOUNDS = 0.995
# Records this far from the margin are taken to stay on their side, and then checked.
_SPREADS = 6.0


class Start(NamedTuple):
    """Where to look for minimizers of resamples, and how far margins move from it."""

    w: Floats
    spread: float


def minimize_hinge(Z: Floats, counts: Floats, C: float) -> tuple[Floats, bool]:
    """Return the minimizer for one database, of shape (q,), and if it is proven.

    Then its duality gap is at most `_gap_floor`.
    """
    rows = Rows(Z)
    found = _minimize(rows, counts[None], np.zeros((1, Z.shape[1])), C, 1.0)[0]
    return found.w, found.gap <= largest_gap(rows, counts, found.w, C)


def largest_gap(rows: Rows, counts: Floats, w: Floats, C: float) -> float:
    """Return the largest duality gap with which w is an answer."""
    losses = C * counts @ np.maximum(1 - rows.Z @ w, 0.0)
    objective = float(0.5 * w @ w + losses)
    return min(_gap_floor(rows, counts, w, C), LARGEST_GAP * objective)


def solve_hinge(
    rows: Rows, counts: Floats, starts: Floats, C: float, pool: Start, closeness: float
) -> Solved:
    """Return minimizers for many databases, with counts of shape (len, n_rows).

    The `starts` are nearer than that of the pool, by the factor `closeness`.
    """
    away = pool.spread * closeness
    polished = _minimize(rows, counts, starts, C, away, _guess(rows, pool))
    bounds = [_bound(rows, counts[i], best, C) for i, best in enumerate(polished)]
    errors, radius = np.array(bounds).T
    return Solved(np.array([best.w for best in polished]), errors, radius)


def _guess(rows: Rows, pool: Start) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return records near the margin of the pool, and those that are charged if not."""
    margins = 1 - rows.Z @ pool.w
    far = _SPREADS * pool.spread
    return np.flatnonzero(np.abs(margins) <= far), np.flatnonzero(margins > far)


class _Polished(NamedTuple):
    """A minimizer for given records on the margin, and its duality gap."""

    w: Floats
    gap: float
    on: NDArray[np.intp]
    alphas: Floats
    margins: Floats
    least_singular: float


@dataclass
class _Interior:
    """Interior points: margins are slack - excess, alphas and rest add up to bounds.

    Optimal where w = fixed + Z' alphas, and alphas excess = 0 = rest slack. Records of
    bound 0 are not there.
    """

    W: Floats
    fixed: Floats
    alphas: Floats
    rest: Floats
    excess: Floats
    slack: Floats
    bounds: Floats

    @classmethod
    def around(
        cls, rows: Rows, bounds: Floats, W: Floats, fixed: Floats, away: float
    ) -> _Interior:
        """Return a central point for given coefficients."""
        margins = rows.margins(W)
        # Both above 0, and the two products of each record equal: as central as it can
        # be with its margin.
        slack = np.maximum(margins, 0.0) + away
        excess = slack - margins
        share = slack / (slack + excess)
        return cls(
            W, fixed, bounds * share, bounds * (1 - share), excess, slack, bounds
        )

    def part(self, which: Any) -> _Interior:
        return _Interior(*(getattr(self, f.name)[which] for f in fields(self)))

    def complementarity(self) -> Floats:
        """Return the mean of the products over records, in units of their bounds."""
        products = self.alphas * self.excess + self.rest * self.slack
        return products.sum(axis=1) * _inverse(2 * self.bounds.sum(axis=1))

    def sides(self, rows: Rows) -> NDArray[np.int8]:
        """Return where records tend to: 0 beyond the margin, 1 on it, 2 charged.

        In units of margins, duals are compared to what they move the record's own.
        """
        unit = np.maximum(_inverse(self.bounds), rows.norms**2)
        beyond = self.alphas * unit <= self.excess
        charged = self.rest * unit <= self.slack
        return np.where(beyond, np.int8(0), np.where(charged, np.int8(2), np.int8(1)))

    def improve(self, rows: Rows) -> _Interior:
        """Return the point after a predictor-corrector step (Mehrotra)."""
        # Newton's equations for a s, b x, the margins and w, solved by elimination: one
        # system (I + sum of spread z z') dW is left, of size q whatever the records.
        # Margins are x - s from the start, and stay so.
        a, b, s, x = self.alphas, self.rest, self.excess, self.slack
        spread = a * b * _inverse(s * b + x * a)
        hessians = rows.hessians(spread)
        dual = self.fixed + a @ rows.Z - self.W
        per_a, per_b = _inverse(a), _inverse(b)

        def direction(lower: Floats, upper: Floats) -> tuple[Floats, ...]:
            """Newton's, to where the two products are `lower` and `upper` more."""
            right = lower * per_a - upper * per_b
            dW = solve_positive(hessians, dual + (spread * right) @ rows.Z)
            da = spread * (right - dW @ rows.Z.T)
            return dW, da, (lower - s * da) * per_a, (upper + x * da) * per_b

        def longest(da: Floats, ds: Floats, dx: Floats) -> Floats:
            """Return the longest step that keeps all of them positive, at most 1."""
            shares = (-da * per_a, da * per_b, -ds / s, -dx / x)
            largest = [share.max(axis=1, initial=1.0) for share in shares]
            return 1 / np.max(largest, axis=0)[:, None]

        dW, da, ds, dx = direction(-a * s, -b * x)
        step = longest(da, ds, dx)
        mean = self.complementarity()[:, None]
        ahead = self.moved(step, dW, da, ds, dx).complementarity()[:, None]
        # Mehrotra's rule: center the more, the less the plain step would have gained;
        # and take off what the two moves multiply to.
        centered = (ahead * _inverse(mean)) ** 3 * mean * self.bounds
        dW, da, ds, dx = direction(
            centered - a * s - da * ds, centered - b * x + da * dx
        )
        step = _SHORT_OF_BOUNDS * longest(da, ds, dx)
        return self.moved(step, dW, da, ds, dx)

    def moved(
        self, step: Floats, dW: Floats, da: Floats, ds: Floats, dx: Floats
    ) -> _Interior:
        return replace(
            self,
            W=self.W + step * dW,
            alphas=self.alphas + step * da,
            rest=self.rest - step * da,
            excess=self.excess + step * ds,
            slack=self.slack + step * dx,
        )


def _minimize(
    rows: Rows,
    weights: Floats,
    starts: Floats,
    C: float,
    away: float,
    guess: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None,
) -> list[_Polished]:
    """Interior points, until it is clear which records are on the margin.

    With a guess only the records near the margin are looked at, its first part, unless
    that is found to be wrong. Of the others, those of its second part are charged.
    """
    near, above = guess or (np.arange(len(rows.Z)), np.arange(0))
    part = rows.part(near)
    fixed = C * weights[:, above] @ rows.Z[above]
    points = _Interior.around(part, C * weights[:, near], starts, fixed, away)
    sides = points.sides(part)
    best: dict[int, _Polished] = {}
    todo = np.arange(len(weights))
    n_left = MOST_STEPS
    while len(todo):
        n_left -= 1
        points = points.improve(part)
        closeness = points.complementarity() if n_left else np.zeros(len(todo))
        done = closeness <= _NEAREST
        before, sides = sides, points.sides(part)
        ready = (sides == before).all(axis=1) | (closeness <= _NEAR)
        for i in np.flatnonzero(ready):
            counts, number = weights[todo[i]], int(todo[i])
            on, charged = near[sides[i] == 1], np.append(near[sides[i] == 2], above)
            alphas = points.alphas[i, sides[i] == 1]
            new = _polish(rows, counts, on, charged, alphas, C)
            best[number] = new
            # The gap proves the answer, so that a wrong guess of sides is only a try.
            done[i] |= new.gap <= _gap_floor(rows, counts, new.w, C)
        todo, points, sides = todo[~done], points.part(~done), sides[~done]
    again = [
        i
        for i, new in best.items()
        if guess and not new.gap <= _gap_floor(rows, weights[i], new.w, C)
    ]
    if again:
        whole = _minimize(rows, weights[again], starts[again], C, away)
        best.update(zip(again, whole, strict=True))
    return [best[i] for i in range(len(weights))]


def _inverse(values: Floats) -> Floats:
    """Return 1 / values, or 0 where there is no record."""
    return 1 / np.where(values == 0, math.inf, values)


def _gap_floor(rows: Rows, counts: Floats, w: Floats, C: float) -> float:
    """Return a duality gap that rounding explains."""
    # A margin is a sum of q + 1 terms of total size `reach`. What it is off costs up to
    # C times as often as its record occurs. The factor 8 is slack; a proven sensitivity
    # pays for all of it (`bounded_linear_svc_problem`).
    reach = 1 + float(rows.norms.max(initial=0.0, where=counts > 0)) * math.hypot(*w)
    return C * float(counts.max()) * (len(w) + 1) * 8 * EPS * reach


def _polish(
    rows: Rows,
    counts: Floats,
    on: NDArray[np.intp],
    above: NDArray[np.intp],
    alphas: Floats,
    C: float,
) -> _Polished:
    """Put records exactly on the margin or at their bound, as they nearly are."""
    # In the span of the records on the margin w is where their margins are 0; across it
    # w is the sum over the records that are charged.
    Z, bounds = rows.Z[on], C * counts[on]
    total = C * (counts[above] @ rows.Z[above])
    if len(on):
        left, values, right = np.linalg.svd(Z, full_matrices=len(on) < Z.shape[1])
        rank = int((values > values[0] * max(Z.shape) * EPS).sum())
        left, values = left[:, :rank], values[:rank]
        span, rest = right[:rank], right[rank:]
        w = span.T @ (left.sum(axis=0) / values) + rest.T @ (rest @ total)
        w += span.T @ ((1 - Z @ w) @ left / values)  # the rounding of a long sum
        alphas = alphas + left @ (span @ (w - total - alphas @ Z) / values)
        alphas = np.clip(alphas, 0.0, bounds)
        least_singular = float(values[-1]) if rank == len(on) else 0.0
    else:
        w, least_singular = total, math.inf
    margins = 1 - rows.Z @ w
    # The gap of w and any feasible duals, here the clipped ones, holds whatever the
    # polishing was worth. It is a sum of terms >= 0, so that nothing cancels: losses
    # minus dual times margin of each record, and half the square of Z' dual - w.
    terms = C * counts * np.maximum(margins, 0.0)
    terms[on] -= alphas * margins[on]
    terms[above] = C * counts[above] * np.maximum(-margins[above], 0.0)
    residual = total + alphas @ Z - w
    gap = float(terms.sum() + 0.5 * residual @ residual)
    return _Polished(w, gap, on, alphas, margins, least_singular)


def _bound(
    rows: Rows, counts: Floats, best: _Polished, C: float
) -> tuple[float, float]:
    """Return how far a minimizer may be off, infinite if uncertain, and the radius.

    Two solutions whose duality gap is below the floor are within the radius of each
    other. If the records on the margin are independent, their dual variables clear of
    the bounds, and no other record that close to the margin, then all such solutions
    are on the same pieces, and only the rounding of their linear equations is left.
    The gap does not show that: half of the radius is there for it.
    """
    # The objective is 1-strongly convex: a gap g puts the minimizer within sqrt(2 g).
    floor = _gap_floor(rows, counts, best.w, C)
    radius = 2 * math.sqrt(2 * floor)
    least = best.least_singular
    clear = np.abs(best.margins) > radius * rows.norms + floor / C
    clear[best.on] = clear[counts == 0] = True
    # Where w moves by the radius, the duals of independent records move by no more than
    # radius / least.
    slack = np.minimum(best.alphas, C * counts[best.on] - best.alphas).min(
        initial=math.inf
    )
    if not (best.gap <= floor and clear.all() and slack * least > radius):
        return math.inf, radius
    q = len(best.w)
    size = math.hypot(*best.w)
    on_norms = rows.norms[best.on]
    off = np.abs(best.margins[best.on]) + q * EPS * (1 + on_norms * size)
    error = float(np.linalg.norm(off)) / least + q * EPS * size
    # Roundings of a long sum add up as a random walk does.
    charged = C * counts * (best.margins > 0)
    rounding = math.sqrt(counts.sum()) * EPS * float(charged @ rows.norms)
    if len(off) < q:  # the rest of the minimizer is that sum
        error += rounding
    return (error if max(error, rounding) <= radius / 4 else math.inf), radius
