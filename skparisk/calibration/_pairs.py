"""What was sampled: differences of a query on pairs, and what they tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from skparisk.calibration._moves import LargestMove
from skparisk.certificate._learning import Learning
from skparisk.core.laws import Law, row_norms
from skparisk.core.sealed import PublicForm
from skparisk.mechanisms import IsotropicShape, NoiseShape
from skparisk.mechanisms._moments import Moments, second_moments
from skparisk.mechanisms._shapes import Constant, whole_shape
from skparisk.reference._base import Withheld
from skparisk.reference._domain import Domain
from skparisk.reference._records import Schema
from skparisk.reference._sketch import RecordSketch

# Numbers that are worked on together: pairs times outputs.
CHUNK = 2**19


@dataclass(eq=False)
class SampledPairs:
    """Differences of a query on sampled pairs of neighboring databases.

    One object for all samplers that are calibrated from the same pairs: if the
    reference turns out to be private, `withhold` takes them from all of these.

    Parameters
    ----------
    differences : ndarray of shape (n_pairs, n_outputs)
        Answer on the first database minus answer on the second. Infinite for a pair of
        which one database has no answer.

    errors : ndarray of shape (n_pairs, n_outputs) or None
        The most that these may be off by rounding, where pairs are answered together.

    rounding : ndarray of shape (n_outputs,)
        What is rounding if an output differs by no more.

    failure : str or None
        Why a database has no answer, where one has none.

    draw_seed : int
        Of the noise that pairs are tried with.

    sketch : RecordSketch or None
        To know the records of the reference again.

    schema : Schema or None
        The columns of the records that the query was asked about.

    form : PublicForm or None
        What private records and targets are read in. None: the reference is private.

    domain : Domain or None
        What records are moved to before the query is asked about them.

    learning : Learning or None
        What the reference was learned with, if other private records were used for it.

    largest_move : LargestMove or None
        The most that answers can be apart in the domain, where that is proven.

    answer : ndarray of shape (n_outputs,) or None
        What the query answers on a database of the reference, if it does.

    weights : ndarray of shape (n_outputs, n_outputs) or None
        How much errors of the outputs weigh in what these are for, if that is known.

    n_independent : int or None
        As how many independent pairs they count, if they are drawn from few records.

    provisos : tuple of str
        What a guarantee that comes from them rests on.

    constant : Constant or None
        Outputs that differ in no pair, which are not released.

    halves : tuple of SampledPairs
        Pairs of halves of the table, where that is to be looked at.

    made_up : bool
        Whether they are of a declared law, and not of people.

    for_new_people : str or None
        What a risk over resamples means for new people, whatever is asked.

    n_rows_alone : int or None
        Rows of their table, where differences are of the differing records alone.

    n_neighbors : int
        Pairs with the same first database, which follow each other: databases are
        exchangeable, and pairs are only if this is 1 (:ref:`thm-groups`).
    """

    differences: NDArray[np.float64]
    errors: NDArray[np.float64] | None
    rounding: NDArray[np.float64]
    failure: str | None = None
    draw_seed: int = 0
    sketch: RecordSketch | None = None
    schema: Schema | None = None
    domain: Domain | None = None
    learning: Learning | None = None
    largest_move: LargestMove | None = None
    answer: NDArray[np.float64] | None = None
    weights: NDArray[np.float64] | None = None
    n_independent: int | None = None
    provisos: tuple[str, ...] = ()
    n_neighbors: int = 1
    form: PublicForm | None = None
    constant: Constant | None = None
    halves: tuple[SampledPairs, ...] = ()
    made_up: bool = False
    for_new_people: str | None = None
    n_rows_alone: int | None = None
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
        """Numbers that the query answers with."""
        return self.differences.shape[1]

    @property
    def n_databases(self) -> int:
        """Databases that these are neighbors of."""
        return len(self) // self.n_neighbors

    def after(self, n_databases: int) -> SampledPairs:
        """Return the pairs of all databases but the first; views, for a calculation."""
        pairs = slice(n_databases * self.n_neighbors, None)
        errors = None if self.errors is None else self.errors[pairs]
        return SampledPairs(
            self.differences[pairs],
            errors,
            self.rounding,
            self.failure,
            self.draw_seed,
            n_neighbors=self.n_neighbors,
        )

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which pairs have answers on both databases."""
        return np.isfinite(self.differences[:, 0])

    def floor(self, pairs: slice | NDArray[np.intp]) -> NDArray[np.float64]:
        """Return what is rounding if an output of a pair differs by no more."""
        if self.errors is None:
            return self.rounding
        return np.maximum(self.errors[pairs], self.rounding)

    def blocks(self) -> Iterator[slice]:
        """Yield the rows of pairs that are worked on together."""
        n_pairs, n_outputs = self.differences.shape
        step = max(1, CHUNK // n_outputs)
        for start in range(0, n_pairs, step):
            yield slice(start, min(start + step, n_pairs))

    def count_still(self) -> int:
        """Return how many pairs do not differ by more than rounding."""
        n_still = 0
        for rows in self.blocks():
            still = np.abs(self.differences[rows]) <= self.floor(rows)
            # The first output moves in most: only of others all are looked at.
            n_still += int(still[still[:, 0]].all(axis=1).sum())
        return n_still

    def lacks_tail(self, gamma: float) -> bool:
        """Tell if they are of too few rows to show the tail that a risk is about."""
        resampled = self.for_new_people is not None and self.n_independent is not None
        return resampled and gamma * int(self.n_independent or 0) < 1

    def still(self) -> NDArray[np.intp]:
        """Return the outputs that do not differ by more than rounding in any pair."""
        moves = np.zeros(self.n_outputs, dtype=bool)
        answered = self.answered
        for rows in self.blocks():
            some = np.flatnonzero(answered[rows]) + rows.start
            moves |= (np.abs(self.differences[some]) > self.floor(some)).any(axis=0)
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
            n_neighbors=self.n_neighbors,
        )
        vars(self).update(vars(left), withheld=withheld)

    def add_leak(self, leak: str) -> None:
        """Let certificates over pairs that are withheld say what else is not protected.

        One that is there already is not repeated.
        """
        assert self.withheld is not None
        leaks = tuple(dict.fromkeys((*self.withheld.leaks, leak)))
        self.withheld = replace(self.withheld, leaks=leaks)


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
        # In units of the answer, what they are off by has been added to each already.
        if pairs.errors is not None and type(whole_shape(shape)) is not IsotropicShape:
            off = shape.whiten_errors(pairs.errors[some])
            norms[some] += row_norms(off, law.norm)
    return norms


def sampling_moments(pairs: SampledPairs, n_records: int, relation: str) -> Moments:
    """Return the covariance of an answer on `n_records` people drawn by chance.

    By the jackknife: one record that is replaced moves the answer by the difference of
    two influences, each the share 1/n of what makes up its error, and one that comes or
    goes by one of them. At the number of records that the pairs were sampled with.
    """
    answered = np.flatnonzero(pairs.answered)
    moments = second_moments(pairs.differences[answered], pairs.floor(answered))
    changed = 2 if relation == "replace-one" else 1
    return moments._replace(scales=moments.scales * np.sqrt(n_records / changed))
