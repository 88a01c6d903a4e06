"""What was sampled: differences of a query on pairs, and what they tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.core.claim import Assumption, Leak, Population, Unit
from skparisk.core.laws import Law, row_norms
from skparisk.core.noise import ROUNDING_SLACK, Constant, NoiseShape
from skparisk.core.rounding import with_grid

_Floats = NDArray[np.float64]
# Numbers that are worked on together: pairs times outputs.
CHUNK = 2**19
# What evidence calls the private records, as a reference.
PRIVATE_RECORDS = "resampled from private records"
# More outputs have a map that is too large to look at.
_MOST_OUTPUTS = 2048


@dataclass(frozen=True, eq=False)
class LargestMove:
    """The most that two answers on neighboring databases of a domain are apart.

    For each output by itself, and for the norms of all; an l1 that is infinite is not
    known.
    """

    outputs: NDArray[np.float64]
    l2: float
    l1: float = math.inf

    def norm(self, shape: NoiseShape, order: float) -> float:
        """Return the most in the coordinates of the noise, in a norm."""
        outputs, l2, n_outputs = self.outputs, self.l2, len(self.outputs)
        l1 = self.l1
        if shape.name != "isotropic":
            if n_outputs > _MOST_OUTPUTS:
                return math.inf
            # Row i of the map says where output i of the noise comes from.
            rows = shape.whiten(np.eye(n_outputs)).T
            lengths = np.linalg.norm(rows, axis=1)
            outputs = np.minimum(np.abs(rows) @ outputs, lengths * l2)
            l2, l1 = float(np.linalg.norm(rows, 2)) * l2, math.inf
        l2 = min(l2, float(np.linalg.norm(outputs)))
        if order == 1:
            l2 = min(math.sqrt(n_outputs) * l2, float(outputs.sum()), l1)
        elif order == math.inf:
            l2 = min(l2, float(outputs.max()))
        return l2 * (1 + float(ROUNDING_SLACK))


def largest_loss(
    move: LargestMove | None, law: Law, shape: NoiseShape, scale: float, epsilon: float
) -> float | None:
    """Return the largest loss of any pair, whatever is released, if it is known."""
    if move is None or not law.bounded or not scale:
        return None
    shift = move.norm(shape, law.norm) / scale
    loss = with_grid(np.array([shift]), epsilon)[0]
    return float(loss) if math.isfinite(loss) else None


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

    largest_move : LargestMove or None
        Proven largest distance of answers in the domain, if there is one.

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
    largest_move: LargestMove | None = None
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
