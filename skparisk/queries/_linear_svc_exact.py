"""Exact minimizers of linear support vector machines, in integers.

For what floating-point numbers do not find: any coefficients are the minimizer of some
other problem, and on the straight path from that one to the given one the minimizers
are piecewise linear. Its corners are followed in exact arithmetic, where an end is a
proof: all conditions of a minimizer hold. Rounding is done once, at the end.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Exact", "exact_hinge", "exact_squared_hinge"]

_Floats: TypeAlias = NDArray[np.float64]
_Integers: TypeAlias = NDArray[Any]  # of Python's integers, which do not overflow

# When the path is given up: after so many corners, or so much work.
_MOST_CORNERS = 1000
_MOST_WORK = 2**28
# The units of guesses are so small that noise of 2**31 of them changes little. It keeps
# corners apart: powers of 7 modulo a prime.
_RESOLUTION = 64
_PRIME = 2**31 - 1
_FIRST_POWER = 100


class Exact(NamedTuple):
    """A minimizer, rounded, and the records that are on the margin or charged above it.

    Not all that are on the margin, but those that the minimizer follows from.
    """

    w: _Floats
    on: NDArray[np.intp]
    charged: NDArray[np.bool_]


def exact_hinge(
    Z: _Floats, counts: _Floats, C: float, w: _Floats, alphas: _Floats
) -> Exact | None:
    """Return the minimizer, found from a guess, or None if it is too far from it.

    The `alphas` are the dual variables of the guess w, of shape (n_rows,).
    """
    problem = _Problem.of(Z, counts, C, w)
    inside = np.minimum(alphas, C * counts - alphas)
    order = np.argsort(-inside, kind="stable")
    on = _independent(problem.rows, [i for i in order if inside[i] > 0])
    charged = alphas >= C * counts
    V = _prove(problem, on, charged, alphas)
    if V is not None:
        return Exact(problem.coefficients(V), _sorted(on), charged)
    path = _HingePath(problem, on, alphas > 0.5 * C * counts, alphas[on])
    V = _follow(path, Z.size + Z.shape[1] ** 3, Z.shape[1])
    if V is None:
        return None
    return Exact(problem.coefficients(V), _sorted(path.on), path.charged)


def exact_squared_hinge(
    Z: _Floats, counts: _Floats, C: float, w: _Floats
) -> Exact | None:
    """Return the minimizer, found from a guess, or None if it is too far from it."""
    problem = _Problem.of(Z, 2 * counts, C, w)
    path = _SquaredHingePath(problem)
    V = _follow(path, Z.size * Z.shape[1], Z.shape[1])
    if V is None:
        return None
    return Exact(problem.coefficients(V), _sorted([]), path.active)


class _Problem(NamedTuple):
    """Minimize ½|V|² + Σ bounds ℓ(one - rows V), the guess of V, and units of w."""

    rows: _Integers
    bounds: _Integers
    one: int
    guess: _Integers
    to_coefficients: Fraction
    to_alphas: Fraction

    @classmethod
    def of(cls, Z: _Floats, counts: _Floats, C: float, w: _Floats) -> _Problem:
        finest = max((x.as_integer_ratio()[1] for x in Z.flat), default=1)
        weights = [Fraction(C) * Fraction(c) for c in counts]
        units = max((x.denominator for x in weights), default=1)
        one = finest**2 * units << _RESOLUTION
        guess = [_rounded(x, Fraction(one, finest)) for x in w]
        return cls(
            _integers([[int(Fraction(x) * finest) for x in z] for z in Z], Z.shape),
            _integers([int(x * one / finest**2) for x in weights], counts.shape),
            one,
            _integers(guess, w.shape) + _noise(len(w)),
            Fraction(finest, one),
            Fraction(finest**2, one),
        )

    def coefficients(self, V: list[Fraction]) -> _Floats:
        return np.array([float(v * self.to_coefficients) for v in V])


class _Corner(NamedTuple):
    """Where the path turns: τ = -start / slope, and which of the conditions it is."""

    number: int
    start: int
    slope: int

    def tau(self) -> Fraction:
        return Fraction(-self.start, self.slope)


class _HingePath:
    """Records at one bound or the other, and independent ones `on` the margin.

    At τ, all margins are one + τ shift - rows V, and V = charged rows - τ pull + rows'
    alphas. Margins of other records and alphas are linear in τ.
    """

    def __init__(
        self,
        problem: _Problem,
        on: list[int],
        charged: NDArray[np.bool_],
        alphas: _Floats,
    ) -> None:
        self._problem, self.on, self.charged = problem, on, charged
        bounds, to_integers = problem.bounds[on], 1 / problem.to_alphas
        first = _integers([_rounded(a, to_integers) for a in alphas], alphas.shape)
        noise = _noise(len(on))
        first = np.minimum(np.maximum(first, noise), bounds - noise)
        self._shift, total = _start(problem, on, charged)
        self._pull = total + first @ problem.rows[on] - problem.guess

    def conditions(self) -> tuple[_Integers, _Integers, int]:
        """Return V and what must not be negative, at 0 and per τ, over a denominator.

        Of shapes (q, 2) and (n_rows + len(on), 2): first margins, then alphas.
        """
        rows, bounds, one, *_ = self._problem
        on, charged = self.on, self.charged
        Z, total = rows[on], bounds[charged] @ rows[charged]
        V = np.stack([total, -self._pull], axis=1)
        limits = np.stack([np.full(len(rows), one, object), self._shift], axis=1)
        alphas, unit = _solve(Z @ Z.T, limits[on] - Z @ V)
        V = unit * V + Z.T @ alphas
        sides = np.where(charged, 1, -1)[:, None]
        sides[on] = 0
        margins = sides * (unit * limits - rows @ V)
        room = -alphas
        room[:, 0] += unit * bounds[on]
        self._alphas, self._unit = alphas, unit
        return V, np.concatenate([margins, alphas, room]), unit

    def turn(self, corner: _Corner) -> None:
        """Put a record on the margin, or at a bound."""
        k, n, on = corner.number, len(self.charged), self.on
        if k < n:
            self._put_on(k, corner)
        else:
            leaves, charged = (k - n) % len(on), k >= n + len(on)
            self.charged[on[leaves]] = charged
            del on[leaves]

    def _put_on(self, new: int, corner: _Corner) -> None:
        """Put it there; if it depends on those that are, instead of one of them."""
        rows, bounds, *_ = self._problem
        on, Z = self.on, rows[self.on]
        ratios, unit = _solve(Z @ Z.T, (Z @ rows[new])[:, None])
        if (unit * rows[new] != ratios[:, 0] @ Z).any():
            self.charged[new] = False
            on.append(new)
            return
        # Its alpha moves away from its bound, the others so that V is the same.
        sign = -1 if self.charged[new] else 1
        scale = self._unit * corner.slope
        at = self._alphas @ np.array([corner.slope, -corner.start], dtype=object)
        lengths = [Fraction(bounds[new])]
        for i, a, ratio in zip(on, at, sign * ratios[:, 0], strict=True):
            way = a if ratio > 0 else scale * bounds[i] - a
            length = Fraction(way * unit, scale * abs(ratio)) if ratio else lengths[0]
            lengths.append(length)
        first = min(range(len(lengths)), key=lengths.__getitem__)
        if first == 0:
            self.charged[new] = not self.charged[new]
        else:
            self.charged[on[first - 1]] = sign * ratios[first - 1, 0] < 0
            self.charged[new] = False
            on[first - 1] = new


def _prove(
    problem: _Problem, on: list[int], charged: NDArray[np.bool_], alphas: _Floats
) -> list[Fraction] | None:
    """Return V if the guess is right, but for the alphas of those `on` the margin.

    Others may be there too. Where many are, the path would be long.
    """
    rows, bounds, one, *_ = problem
    to_integers = 1 / problem.to_alphas
    fixed = _integers([_rounded(a, to_integers) for a in alphas], alphas.shape)
    fixed = np.where(charged, bounds, np.minimum(fixed, bounds))
    fixed[on] = 0
    Z, total = rows[on], fixed @ rows
    solution, unit = _solve(Z @ Z.T, (one - Z @ total)[:, None])
    moved = solution[:, 0]
    V = unit * total + moved @ Z
    margins = unit * one - rows @ V
    right = ((margins <= 0) | (fixed == bounds)) & ((margins >= 0) | (fixed == 0))
    right[on] = (moved >= 0) & (moved <= unit * bounds[on])
    return [Fraction(v, unit) for v in V] if right.all() else None


class _SquaredHingePath:
    """Records that are `active`, at any place of the path."""

    def __init__(self, problem: _Problem) -> None:
        self._problem = problem
        margins = problem.one - problem.rows @ problem.guess
        self.active = np.array(margins > 0, dtype=bool)
        noise = np.where(self.active, 1, -1) * _noise(len(margins))
        self._shift = noise
        active = self.active
        charges = problem.bounds[active] * (margins + noise)[active]
        self._pull = charges @ problem.rows[active] - problem.one * problem.guess

    def conditions(self) -> tuple[_Integers, _Integers, int]:
        rows, bounds, one, *_ = self._problem
        Z = rows[self.active]
        weighted = bounds[self.active][:, None] * Z
        limits = np.stack([np.full(len(rows), one, object), self._shift], axis=1)
        right = weighted.T @ limits[self.active]
        right[:, 1] -= self._pull
        identity = np.array(one * np.eye(Z.shape[1], dtype=object))
        V, unit = _solve(identity + weighted.T @ Z, right)
        sides = np.where(self.active, 1, -1)[:, None]
        return V, sides * (unit * limits - rows @ V), unit

    def turn(self, corner: _Corner) -> None:
        self.active[corner.number] = not self.active[corner.number]


def _start(
    problem: _Problem, on: list[int], charged: NDArray[np.bool_]
) -> tuple[_Integers, _Integers]:
    """Return shifts of margins that let the guess be right, and the charged rows."""
    charged[on] = False
    margins = problem.one - problem.rows @ problem.guess
    sides = np.where(charged, 1, -1)
    sides[on] = 0
    right = sides * margins > 0
    shift = sides * _noise(len(margins)) - np.where(right, 0, margins)
    return shift, problem.bounds[charged] @ problem.rows[charged]


def _follow(
    path: _HingePath | _SquaredHingePath, n_products: int, length: int
) -> list[Fraction] | None:
    """Return V at the end of the path, or None if it has too many corners.

    Each takes that many products of numbers whose length is about that.
    """
    most = min(_MOST_CORNERS, 1 + _MOST_WORK // (n_products * length))
    for _ in range(most):
        V, conditions, unit = path.conditions()
        ahead = np.flatnonzero(conditions[:, 0] < 0)
        if not len(ahead):
            return [Fraction(v, unit) for v in V[:, 0]]
        corners = [_Corner(int(k), *conditions[k]) for k in ahead]
        path.turn(max(corners, key=_Corner.tau))
    return None


def _independent(rows: _Integers, candidates: list[int]) -> list[int]:
    """Return candidates that are linearly independent (modulo a prime)."""
    found: list[int] = []
    echelon: list[tuple[int, _Integers]] = []
    for i in candidates:
        row = rows[i] % _PRIME
        for column, other in echelon:
            row = (row - row[column] * other) % _PRIME
        columns = np.flatnonzero(row)
        if len(columns):
            column = int(columns[0])
            echelon.append((column, row * pow(row[column], -1, _PRIME) % _PRIME))
            found.append(i)
    return found


def _solve(system: _Integers, right: _Integers) -> tuple[_Integers, int]:
    """Return integers and a denominator, which is the determinant (Bareiss).

    The system is positive definite.
    """
    k = len(system)
    table = np.concatenate([system, right], axis=1)
    last = 1
    for i in range(k):
        pivot, others = table[i, i], np.arange(k) != i
        products = np.outer(table[others, i], table[i])
        table[others] = (pivot * table[others] - products) // last
        last = pivot
    return table[:, k:], last


def _integers(values: Any, shape: tuple[int, ...]) -> _Integers:
    """Return an array of Python's integers, which may be long."""
    return np.array(values, dtype=object).reshape(shape)


def _sorted(numbers: list[int]) -> NDArray[np.intp]:
    return np.array(sorted(numbers), dtype=np.intp)


def _rounded(x: float, unit: Fraction) -> int:
    return int(Fraction(x) * unit) if np.isfinite(x) else 0


def _noise(n: int) -> _Integers:
    """Return fixed positive integers that have nothing to do with one another."""
    noise = [pow(7, _FIRST_POWER + i, _PRIME) for i in range(n)]
    return _integers(noise, (n,))
