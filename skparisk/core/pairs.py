"""What was sampled: differences of a query on pairs, and what they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.core.claim import Assumption, Leak, Population, Unit
from skparisk.core.laws import Law, row_norms
from skparisk.core.noise import Constant, NoiseShape

_Floats = NDArray[np.float64]
# Numbers that are worked on together: pairs times outputs.
CHUNK = 2**19
# What evidence calls the private records, as a reference.
PRIVATE_RECORDS = "resampled from private records"


@dataclass(frozen=True, eq=False)
class Withheld:
    """What a certificate says of pairs that come from private records.

    They are not kept, nor is what the certificate has of them besides the noise.
    """

    # Where they come from.
    reference: str = PRIVATE_RECORDS
    # Of how many records it is protected which are used; None: these themselves are.
    n_candidates: int | None = None
    leaks: frozenset[Leak] = frozenset({Leak.PRIVATE_REFERENCE})
    # Known to who knows which records are used, and holds nothing.
    origin: object = None


@dataclass(eq=False)
class SampledPairs:
    """Differences of a query on sampled pairs of neighboring databases.

    One object for all samplers calibrated from the same pairs: if the reference turns
    out to be private, `withhold` takes the pairs from all of them.

    Parameters
    ----------
    differences : ndarray of shape (n_pairs, n_outputs)
        Answers on the first database minus answers on the second; infinite for a pair
        without an answer, with the reason in `failure`.

    errors, rounding : ndarray of shape (n_outputs,)
        Largest error of each number of a difference, which enlarges distances (None: no
        error); and the largest difference of each output that counts as rounding.

    draw_seed : int
        Of the noise that pairs are tried with.

    sketch, schema, form, domain, learning : optional
        Data of the reference, unused here.

    answer, weights : ndarray or None
        For learning a shape: answers on a database of the reference, of shape
        (n_outputs,), and weights of errors, of shape (n_outputs, n_outputs).

    n_independent : int or None
        As how many independent pairs they count, if they are drawn from few records.

    n_rows_alone : int or None
        Rows of their table, where differences are of the differing records alone.

    assumptions, population, unit, for_new_people, rows_per_person
        As in :class:`Certificate` and :class:`Evidence`; unless they were sampled, they
        are on the caller's word.

    n_neighbors : int
        Pairs with the same first database, which follow each other: databases are
        exchangeable, and pairs are only if this is 1 (:ref:`thm-groups`).

    constant : Constant or None
        Outputs that differ in no pair, and are not released.

    margin : callable or None
        ``margin(distances, shape, law, index, gamma)`` returns the factor on the noise,
        at least 1, for the error of a table as a whole.
    """

    differences: NDArray[np.float64]
    errors: NDArray[np.float64] | None
    rounding: NDArray[np.float64]
    failure: str | None = None
    draw_seed: int = 0
    sketch: Any = None
    schema: Any = None
    domain: Any = None
    learning: Any = None
    answer: NDArray[np.float64] | None = None
    weights: NDArray[np.float64] | None = None
    n_independent: int | None = None
    assumptions: frozenset[Assumption] = frozenset({Assumption.GIVEN_PAIRS})
    n_neighbors: int = 1
    form: Any = None
    constant: Constant | None = None
    margin: Callable[..., float] | None = None
    population: Population = Population.PEOPLE
    for_new_people: str | None = None
    n_rows_alone: int | None = None
    unit: Unit = Unit.RECORD
    rows_per_person: tuple[int, int] | None = None
    withheld: Withheld | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for name in ("differences", "errors", "rounding"):
            if getattr(self, name) is not None:
                view = getattr(self, name).view()
                view.flags.writeable = False
                setattr(self, name, view)

    def __len__(self) -> int:
        return len(self.differences)

    @property
    def n_outputs(self) -> int:
        """Numbers in an answer of the query."""
        return self.differences.shape[1]

    @property
    def n_databases(self) -> int:
        """Number of first databases, with neighbors each."""
        return len(self) // self.n_neighbors

    def take(self, rows: Any) -> SampledPairs:
        """Return some of the pairs, for a calculation; views, of a slice."""
        return replace(self, differences=self.differences[rows])

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which pairs have answers on both databases."""
        return np.isfinite(self.differences[:, 0])

    @property
    def floor(self) -> NDArray[np.float64]:
        """Largest difference of each output that counts as rounding."""
        return np.maximum(0.0 if self.errors is None else self.errors, self.rounding)

    def blocks(self) -> Iterator[slice]:
        """Yield the rows of pairs to process together."""
        n_pairs, n_outputs = self.differences.shape
        step = max(1, CHUNK // n_outputs)
        for start in range(0, n_pairs, step):
            yield slice(start, min(start + step, n_pairs))

    def moves(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        """Yield sizes of answered pairs, in blocks, and which exceed rounding."""
        answered = self.answered
        for rows in self.blocks():
            some = np.flatnonzero(answered[rows]) + rows.start
            sizes = np.abs(self.differences[some])
            yield sizes, sizes > self.floor

    def count_still(self) -> int:
        """Return the number of pairs that differ by rounding at most."""
        return sum(int((~moved.any(axis=1)).sum()) for _, moved in self.moves())

    def lacks_tail(self, gamma: float) -> bool:
        """Tell if the pairs have too few rows to show the tail beyond a risk."""
        resampled = self.for_new_people is not None and self.n_independent is not None
        return resampled and gamma * int(self.n_independent or 0) < 1

    def still(self) -> NDArray[np.intp]:
        """Return the outputs that differ by rounding at most in every pair."""
        moves = np.zeros(self.n_outputs, dtype=bool)
        for _, moved in self.moves():
            moves |= moved.any(axis=0)
        return np.flatnonzero(~moves)

    def withhold(self, withheld: Withheld) -> None:
        """Forget the pairs: their reference was private, and certificates say so."""
        empty = np.empty((0, self.n_outputs))
        left = SampledPairs(
            empty,
            None,
            empty.sum(axis=0),
            schema=self.schema,
            learning=self.learning,
            assumptions=frozenset(),
            n_neighbors=self.n_neighbors,
            unit=self.unit,
        )
        vars(self).update(vars(left), withheld=withheld)

    def add_leak(self, leak: Leak) -> None:
        """Add a leak to all certificates over these pairs."""
        assert self.withheld is not None
        self.withheld = replace(self.withheld, leaks=self.withheld.leaks | {leak})


def norms_of_pairs(
    pairs: SampledPairs, shape: NoiseShape, law: Law
) -> NDArray[np.float64]:
    """Return distances in the coordinates of the noise, without a copy of all pairs.

    Infinite for pairs without an answer.
    """
    norms = np.full(len(pairs), np.inf)
    answered = pairs.answered
    for rows in pairs.blocks():
        some = np.flatnonzero(answered[rows]) + rows.start
        norms[some] = row_norms(shape.whiten(pairs.differences[some]), law.norm)
    if pairs.errors is not None:
        norms += row_norms(shape.whiten_errors(pairs.errors)[None], law.norm)
    return norms
