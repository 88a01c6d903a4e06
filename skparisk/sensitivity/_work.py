"""The work that workers share: drawing pairs, and answering the query on them.

It is cut into tasks by what it takes, which no answer depends on: each block of pairs
has a seed of its own, and of a block only such queries are asked in parts that answer
its pairs one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np

from skparisk.core.release import silenced
from skparisk.neighbors import NeighborPairs, draw_pairs
from skparisk.queries import PairDifferences, Query
from skparisk.queries._base import Differences, is_one_by_one
from skparisk.reference import RecordSource
from skparisk.reference._base import Form, RecordPool
from skparisk.reference._records import Schema

# Seconds that a task takes at least, so that handing it over does not count.
_TASK = 0.3
# How much longer a task takes than what it has to prepare.
_WORTH_PREPARING = 20


class Block(NamedTuple):
    """Databases start, ..., start + size - 1, with their neighbors, from one seed."""

    start: int
    size: int
    seed: np.random.SeedSequence


class Part(NamedTuple):
    """Databases first, ..., last - 1 of a block."""

    block: Block
    first: int
    last: int


class Answered(NamedTuple):
    """What a query differs by on the pairs of some databases; `start` is the first."""

    start: int
    differences: PairDifferences


@dataclass(frozen=True, eq=False)
class Work:
    """All that a worker has to know beside the parts that it answers."""

    query: Query
    source: RecordSource
    # Records of a database, those that are drawn of it, and how many neighbors it has.
    n_records: int
    n_drawn: int
    n_neighbors: int
    # Columns that the records must have, and how the query is given them.
    schema: Schema
    form: Form
    # Whether nothing that is seen here may be shown.
    private: bool
    # Answers that are asked for in all, if they are fewer than those of a whole block.
    n_answers: float = math.inf

    def answer(self, parts: Iterable[Part]) -> list[Answered]:
        """Return the answers on some parts, one after the other."""
        desk = Desk(self)
        return [desk.answer(part) for part in parts]

    def draw(self, block: Block) -> NeighborPairs:
        """Return the pairs of a block."""
        return draw_pairs(
            self.source,
            n_records=self.n_drawn,
            start=block.start,
            size=block.size,
            seed=block.seed,
            form=self.form,
            n_neighbors=self.n_neighbors,
        )

    def prepare(self, pool: RecordPool) -> Differences:
        """Return what answers pairs of a pool, which must have the right columns."""
        Schema.of(pool.X).check_same(self.schema)
        if self.query.needs_y and pool.y is None:
            numbers = " that are numbers" if self.form == "numbers" else ""
            raise ValueError(
                f"The query {self.query} takes targets, but the reference has none "
                f"(y){numbers}."
            )
        if self.n_answers <= self.query.preparing(pool, self.n_records):
            return self.query._plain_differences
        return self.query.on_pool(pool, self.n_records)

    def quietly(self) -> AbstractContextManager[None]:
        """Show no warning of what is inside, if it is about private records."""
        return silenced() if self.private else nullcontext()


class Desk:
    """Where parts are answered: it holds the last block, and what its pool needs."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._block: Block | None = None
        self._pool: RecordPool | None = None
        self._pairs: NeighborPairs
        self._evaluate: Differences
        # Seconds that the last pool and the last block took, and that each database
        # of the last part took, with its neighbors.
        self.preparing = self.drawing = self.answering = 0.0

    @property
    def divisible(self) -> bool:
        """Whether a block may be answered in parts."""
        return is_one_by_one(self._evaluate)

    def open(self, block: Block) -> None:
        """Draw a block, unless it is the last one."""
        if block is self._block:
            return
        began = perf_counter()
        with self._work.quietly():
            pairs = self._work.draw(block)
            self.drawing = perf_counter() - began
            if pairs.pool is not self._pool:
                began = perf_counter()
                self._evaluate = self._work.prepare(pairs.pool)
                self.preparing = perf_counter() - began
            if self.divisible:  # or else with the first part
                began = perf_counter()
                _ = pairs.records
                self.drawing += perf_counter() - began
        self._block, self._pool, self._pairs = block, pairs.pool, pairs

    def answer(self, part: Part) -> Answered:
        """Return how much the query differs on the pairs of a part."""
        self.open(part.block)
        began = perf_counter()
        with self._work.quietly():
            whole = part.last - part.first == part.block.size
            pairs = self._pairs if whole else self._pairs.part(part.first, part.last)
            differences = _without_nan(self._evaluate(pairs))
        self.answering = (perf_counter() - began) / (part.last - part.first)
        return Answered(part.block.start + part.first, differences)

    def seconds(self, n_databases: int, n_blocks: int) -> float:
        """Return what more will take, if it is as the last part was."""
        return n_databases * self.answering + n_blocks * self.drawing

    def cut(self, parts: Sequence[Part], n_workers: int) -> list[list[Part]]:
        """Return tasks for workers: short ones, but long beside what they prepare."""
        alone = self.preparing + (self.drawing if self.divisible else 0.0)
        least = max(_TASK, _WORTH_PREPARING * alone)
        n_databases = sum(part.last - part.first for part in parts)
        seconds = self.seconds(n_databases, len(parts))
        rounds = max(1, round(seconds / least / n_workers))
        size = math.ceil(n_databases / (rounds * n_workers))
        return list(cut(parts, size, divisible=self.divisible))


def cut(parts: Iterable[Part], size: int, *, divisible: bool) -> Iterator[list[Part]]:
    """Yield tasks of `size` databases, in order; of whole parts if not `divisible`.

    These have as many databases as they must to be no fewer.
    """
    task: list[Part] = []
    room = size
    for block, start, end in parts:
        first = start
        while first < end:
            last = min(end, first + room) if divisible else end
            task.append(Part(block, first, last))
            room -= last - first
            first = last
            if room <= 0:
                yield task
                task, room = [], size
    if task:
        yield task


def _without_nan(found: PairDifferences) -> PairDifferences:
    """Return differences of which those that are no numbers are infinite."""
    finite = np.isfinite(found.values)
    if finite.all():
        return found
    wrong = ~np.asarray(finite.all(axis=1))
    values = np.where(wrong[:, None], np.inf, found.values)
    errors = None
    if found.errors is not None:
        errors = np.where(wrong[:, None], 0.0, found.errors)
    failure = found.failure or (
        "the query returned NaN or infinity, as where numbers of the reference, "
        "X_reference or y_reference, are beyond 1e150: give all in other units"
    )
    return PairDifferences(values, errors, found.sizes, failure)
