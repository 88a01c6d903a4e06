"""Columns as they are declared: what they may hold, and how values are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import check_share, is_number
from skparisk.reference._columns import Categories, Column, Interval

_ALLOWED = (
    "a tuple (low, high), a range of whole numbers, a list of categories, a mapping of "
    "categories to weights, a frozen distribution of scipy.stats with finite ends, or "
    "a callable (n_records, rng) -> values"
)


# More whole numbers are a range, and no classes.
_MOST_LISTED = 2048


@dataclass(frozen=True, eq=False)
class Spec:
    """One column that is declared."""

    # ``(n_records, rng) -> values``, independent and alike.
    draw: Callable[[int, np.random.Generator], NDArray[Any]]
    # What is not None holds all that is drawn.
    domain: Column
    # All values, where these are few enough to be listed.
    classes: NDArray[Any] | None = None

    @classmethod
    def of(cls, declared: Any, name: str) -> Self:
        """Return what was declared of the column `name`, checked."""
        if isinstance(declared, cls):  # by a file
            return declared
        try:
            return cls._of(declared)
        except ValueError as error:
            raise ValueError(f"{name} of the schema: {error}") from error

    @classmethod
    def _of(cls, declared: Any) -> Self:
        if isinstance(declared, range):
            if not declared:
                raise ValueError(f"a range must not be empty, got {declared!r}.")
            # Not the least of all: there may be very many.
            low, high = sorted((declared[0], declared[-1]))
            domain = Interval(low, high)
            few = len(declared) <= _MOST_LISTED
            classes = np.asarray(declared) if few else None
            return cls(partial(_whole, declared), domain, classes)
        if isinstance(declared, tuple) and len(declared) == 2:
            domain = Interval(*declared)
            low, high = domain.low, domain.high
            if not isinstance(low, float):
                raise ValueError(f"a range must have numbers as ends, got {declared}.")
            return cls(partial(_uniform, low, high), domain)
        if isinstance(declared, Mapping):
            return cls.weighted(list(declared), list(declared.values()))
        if isinstance(declared, list | np.ndarray):
            return cls.weighted(list(declared), [1.0] * len(declared))
        if callable(getattr(declared, "rvs", None)):
            return cls._distributed(declared)
        if callable(declared) and not isinstance(declared, type):
            return cls(partial(_called, declared), None)
        raise ValueError(f"it must be {_ALLOWED}; got {declared!r}.")

    @classmethod
    def weighted(cls, values: Sequence[Any], weights: Sequence[Any]) -> Self:
        """Return categories, each with its share of the weights."""
        domain = Categories(tuple(values))
        shares = _shares(weights)
        known = array_of(domain.values)
        classes = array_of(domain.present)
        return cls(partial(_chosen, known, shares), domain, classes)

    @classmethod
    def histogram(cls, edges: Sequence[float], weights: Sequence[Any]) -> Self:
        """Return numbers that are uniform between neighboring edges."""
        ends = np.array(edges, dtype=np.float64)
        draw = partial(_binned, ends, _shares(weights))
        return cls(draw, Interval(ends[0], ends[-1]))

    @classmethod
    def _distributed(cls, distribution: Any) -> Self:
        low, high = map(float, distribution.support())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(
                "a distribution must have finite ends, because records are clipped to "
                f"them; got ends ({low}, {high}). Truncate it, or give a callable, to "
                "which nothing is clipped."
            )
        return cls(partial(_drawn, distribution, low, high), Interval(low, high))

    def with_missing(self, share: Any, name: str) -> Self:
        """Return the column with a share of values that are missing."""
        check_share(share, f"missing[{name!r}]")
        if isinstance(self.domain, Categories) and self.domain.missing:
            raise ValueError(
                f"missing[{name!r}] must not be given, because None is one of the "
                "declared categories."
            )
        domain = self.domain
        if isinstance(domain, Interval):
            domain = replace(domain, missing=True)
        elif isinstance(domain, Categories):
            domain = Categories((*domain.values, None), domain.default)
        draw = partial(_with_holes, self.draw, float(share))
        return replace(self, draw=draw, domain=domain, classes=None)

    def encoded(self, encode: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return the column with what `encode` makes of its values."""
        return replace(
            self,
            draw=partial(_encoded, self.draw, encode),
            classes=None if self.classes is None else encode(self.classes),
        )


def _whole(numbers: range, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    places = rng.integers(len(numbers), size=n)
    return numbers.start + numbers.step * places


def _chosen(
    values: NDArray[Any],
    shares: NDArray[np.float64],
    n: int,
    rng: np.random.Generator,
) -> NDArray[Any]:
    return rng.choice(values, n, p=shares)


def _uniform(
    low: Any, high: Any, n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    shares = rng.random(n)
    # Not low + share * (high - low), which may overflow or be rounded beyond an end.
    return np.clip((1 - shares) * low + shares * high, low, high)


def _binned(
    ends: NDArray[np.float64],
    shares: NDArray[np.float64],
    n: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    places = rng.choice(len(shares), n, p=shares)
    return _uniform(ends[places], ends[places + 1], n, rng)


def _drawn(
    distribution: Any, low: float, high: float, n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = np.asarray(distribution.rvs(size=n, random_state=rng), dtype=np.float64)
    return drawn.clip(low, high)


def _with_holes(
    draw: Callable[..., NDArray[Any]], share: float, n: int, rng: np.random.Generator
) -> NDArray[Any]:
    values = draw(n, rng)
    numbers = values.dtype.kind in "iuf"
    values = values.astype(np.float64 if numbers else object)
    values[rng.random(n) < share] = np.nan if numbers else None
    return values


def _encoded(
    draw: Callable[..., NDArray[Any]],
    encode: Callable[[NDArray[Any]], NDArray[Any]],
    n: int,
    rng: np.random.Generator,
) -> NDArray[Any]:
    return encode(draw(n, rng))


def _called(
    function: Callable[..., Any], n: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Return values of a callable, in random order: it may have sorted them."""
    values = np.asarray(function(n, rng))
    if values.shape != (n,):
        raise ValueError(
            f"A column of the schema was asked for {n} values and returned an array of "
            f"shape {values.shape}."
        )
    return rng.permutation(
        values.astype(object) if values.dtype.kind in "US" else values
    )


def _shares(weights: Sequence[Any]) -> NDArray[np.float64]:
    numbers = all(map(is_number, weights))
    values = np.array(weights if numbers else [math.nan], dtype=np.float64)
    good = np.isfinite(values).all() and (values >= 0).all() and values.any()
    total = values.sum()
    if not good or not math.isfinite(total):
        raise ValueError(
            "weights must be finite numbers >= 0, not all 0, one for each category; "
            f"got {list(weights)!r}."
        )
    return values / total


def array_of(values: Sequence[Any]) -> NDArray[Any]:
    """Return values as an array of numbers or booleans, or else of objects."""
    for kinds in ((bool, np.bool_), (Real,)):
        if all(isinstance(value, kinds) for value in values):
            return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
