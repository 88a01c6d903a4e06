"""Sampling pairs of databases and answering the query on them, in several processes.

Databases are drawn in blocks, each from a seed of its own. The size of a block follows
from that of a database, and from whether each is answered by itself; sums use one
thread. So it makes no difference which process answers which of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from skparisk._checks import check_n_jobs
from skparisk._progress import Progress
from skparisk._threads import one_thread
from skparisk.core.checks import (
    CalibrationError,
    check_at_least,
    check_random_state,
    check_relation,
)
from skparisk.core.pairs import SampledPairs
from skparisk.core.release import silenced
from skparisk.neighbors import (
    NeighborPairs,
    bind_pairs,
    block_size,
    count_databases,
    draw_pairs,
)
from skparisk.queries import PairDifferences, Query
from skparisk.queries._base import Differences
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import Form, RecordPool
from skparisk.reference._records import Schema

# Seconds that workers take until they have imported what they need, at the most.
_START_UP = 2.0
# Seconds of a task: long beside what each does anew, as to prepare a pool, and short
# for who waits for the last one, or interrupts.
_TASK = 1.0

_NAN = (
    "the query returned NaN or infinity, as where numbers of the reference, "
    "X_reference or y_reference, are beyond 1e150: give all in other units"
)
_HIDDEN = "it is not shown because it may reveal something about the private data"


def sample_differences(
    query: Query,
    reference: Reference,
    *,
    n_pairs: int,
    n_records: int,
    n_features: int,
    relation: str = "replace-one",
    neighbors_per_database: int = 1,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> NDArray[np.float64]:
    """Return the differences of a query on many sampled pairs.

    Rubinstein and Aldà, ICML 2017, Algorithm 1, all of its iterations; the position of
    the record that changes is drawn as well.

    Parameters
    ----------
    query : Query
        Query to answer on both databases of a pair.

    reference : Reference
        Where records come from.

    n_pairs, n_records, n_features : int
        Pairs, records of the (larger) database of a pair, and features of a record.

    relation, neighbors_per_database, n_jobs, random_state, verbose
        As of :class:`SensitivitySampler`. Pairs of the same database follow each other.

    Returns
    -------
    differences : ndarray of shape (n_pairs, n_outputs)
        Infinite for a pair with an unanswered database: the query failed, or returned
        NaN or infinity.

    Raises
    ------
    ValueError
        If a number is out of range (with "add-remove", `n_records` is at least 2), or
        the query changes its number of outputs.

    CalibrationError
        If no pair has an answer.

    IncompatibleError
        If the reference has another number of features.

    Examples
    --------
    >>> from skparisk.queries import MeanQuery
    >>> from skparisk import SchemaReference
    >>> from skparisk.sensitivity import sample_differences
    >>> sample_differences(
    ...     MeanQuery(), SchemaReference([(0, 1)]), n_pairs=3, n_records=5, n_features=1
    ... ).shape
    (3, 1)
    """
    check_n_jobs(n_jobs)
    spec = PairSpec(
        query, reference, n_pairs, neighbors_per_database, n_records, relation
    )
    entropy = check_random_state(random_state, "random_state").bytes(16)
    schema = Schema.of_width(n_features)
    return spec.sample(schema, entropy, n_jobs=n_jobs, verbose=verbose).differences


@dataclass(frozen=True, eq=False)
class PairSpec:
    """Which pairs are sampled, but for random numbers."""

    query: Query
    reference: Reference
    n_pairs: int
    n_neighbors: int
    n_records: int
    relation: str
    # Whether nothing is calibrated to them: penalties are tried on such pairs.
    tried: bool = field(default=False, kw_only=True)

    @property
    def n_drawn(self) -> int:
        """Records of a database that are drawn."""
        return 1 if self.query.is_sum else self.n_records

    @property
    def form(self) -> Form:
        """How the query is given records."""
        return "given" if self.query.any_table else "numbers"

    def check(self) -> None:
        """Raise ValueError unless there are such pairs."""
        least = 2 if check_relation(self.relation) == "add-remove" else 1
        check_at_least(self.n_records, "n_records", least)
        check_at_least(self.n_neighbors, "neighbors_per_database", 1)
        count_databases(self.n_pairs, self.n_neighbors)
        # Each neighbor of a database differs from it in another record. Those of a
        # table are left out of what the others are drawn from.
        limits = [(self.n_records, f"n_records={self.n_records}")]
        table = self.reference
        if isinstance(table, TableReference):
            most = max(1, table.n_records // 4)
            limits.append((most, f"a reference table of {table.n_records} rows"))
            if table.sampling == "split":
                limits.append((1, "sampling='split'; sampling='leave-out' allows more"))
        if self.query.is_sum:
            why = "a sum over records; pairs of other databases cost no more"
            limits.append((1, f"{self.query}, {why}"))
        most, why = min(limits)
        if self.n_neighbors > most:
            raise ValueError(
                f"neighbors_per_database must be at most {most} with {why}, got "
                f"{self.n_neighbors}."
            )

    def sample(
        self,
        schema: Schema,
        entropy: bytes,
        *,
        n_jobs: int | None,
        private: bool = False,
        verbose: int = 0,
    ) -> SampledPairs:
        """Draw the pairs, and answer the query on both databases of each.

        `schema` is that of the records that the query will be asked about. Where the
        reference is private, nothing about it is shown.
        """
        self.check()
        root = np.random.SeedSequence(int.from_bytes(entropy, "little"))
        source_seed, pairs_seed = root.spawn(2)
        source = bind_pairs(
            self.reference,
            n_pairs=self.n_pairs,
            n_records=self.n_drawn,
            relation=self.relation,
            seed=source_seed,
            n_neighbors=self.n_neighbors,
        )
        draw = partial(
            draw_pairs,
            source,
            n_records=self.n_drawn,
            form=self.form,
            n_neighbors=self.n_neighbors,
            tried=self.tried,
        )
        task = _Task(self, draw, pairs_seed, schema, private)
        progress = Progress(self.n_pairs, shown=bool(verbose))
        found: list[_Block] = []
        with progress, one_thread(), closing(_answer(task, n_jobs)) as blocks:
            for block in blocks:
                found.append(block)
                progress.add(len(block.differences.values))
        found.sort(key=attrgetter("number"))
        pairs = _join([block.differences for block in found], self.query, private)
        pairs.n_neighbors = self.n_neighbors
        return pairs


class _Block(NamedTuple):
    """Answers on a block of databases, and how many seconds they took."""

    number: int
    differences: PairDifferences
    seconds: float


class _Task:
    """What a worker has to know, but for the numbers of the blocks it answers."""

    def __init__(
        self,
        spec: PairSpec,
        draw: Callable[..., NeighborPairs],
        seed: np.random.SeedSequence,
        schema: Schema,
        private: bool,
    ) -> None:
        self._query, self._n_records = spec.query, spec.n_records
        self._draw, self._seed = draw, seed
        self._schema, self._private = schema, private
        self._n_databases = spec.n_pairs // spec.n_neighbors
        plain = spec.query.is_plain  # then each neighbor takes as long
        answered = spec.n_drawn * (spec.n_neighbors if plain else 1)
        self._size = block_size(answered, plain)
        self.n_blocks = math.ceil(self._n_databases / self._size)

    def answer(self, first: int, last: int) -> Iterator[_Block]:
        """Yield answers on the blocks first, ..., last - 1, in order."""
        quietly = silenced if self._private else nullcontext
        pool = None
        for number in range(first, last):
            began, start = perf_counter(), number * self._size
            size = min(self._size, self._n_databases - start)
            key = (*self._seed.spawn_key, number)  # that of `spawn`
            seed = np.random.SeedSequence(self._seed.entropy, spawn_key=key)
            with quietly():
                pairs = self._draw(start=start, size=size, seed=seed)
                if pairs.pool is not pool:
                    pool, evaluate = pairs.pool, self._prepare(pairs.pool)
                found = evaluate(pairs)
            finite = np.isfinite(found.values).all(axis=1, keepdims=True)
            found = replace(found, values=np.where(finite, found.values, np.inf))
            yield _Block(number, found, perf_counter() - began)

    def _prepare(self, pool: RecordPool) -> Differences:
        """Return what answers pairs of a pool, which must have the right columns."""
        Schema.of(pool.X).check_same(self._schema)
        self._query.check_has_targets(pool)
        return self._query.on_pool(pool, self._n_records)


def _answer(task: _Task, n_jobs: int | None) -> Generator[_Block]:
    """Yield two blocks, set-up included, and others from workers if that pays."""
    n_workers, (backend, _) = effective_n_jobs(n_jobs), get_active_backend()
    for block in task.answer(0, task.n_blocks):
        yield block
        n_left = task.n_blocks - block.number - 1
        saved = n_left * block.seconds * (1 - 1 / n_workers)
        if block.number == 1 and n_left and saved > _START_UP:
            break
    else:
        return
    size = math.ceil(min(_TASK / block.seconds, n_left / n_workers))
    # Workers have the configuration of scikit-learn, which decides what steps return.
    # Large arrays are mapped by processes of this machine. Each worker of Dask is sent
    # the task before: with one that is lost, it would be gone if no other had it.
    client = getattr(backend, "client", None)
    sent = client.scatter(task, broadcast=True, hash=False) if client else task
    as_they_come = backend.supports_return_generator
    parallel = Parallel(
        n_jobs, return_as="generator_unordered" if as_they_come else "list"
    )
    for blocks in parallel(
        delayed(_answer_there)(sent, start, min(start + size, task.n_blocks))
        for start in range(task.n_blocks - n_left, task.n_blocks, size)
    ):
        yield from blocks


def _answer_there(sent: Any, first: int, last: int) -> list[_Block]:
    """Return the blocks first, ..., last - 1, in a worker."""
    task = sent if isinstance(sent, _Task) else sent.result()
    with one_thread():
        return list(task.answer(first, last))


def _join(
    parts: Sequence[PairDifferences], query: Query, private: bool
) -> SampledPairs:
    """Return all pairs together; a part without any answer has no width of its own."""
    answered = [part for part in parts if part.values.size]
    widths = {part.values.shape[1] for part in answered}
    if len(widths) > 1:
        raise ValueError(
            "The query must return the same number of outputs for every database"
            f"{'.' if private else f', got {sorted(widths)}.'}"
        )
    n = max(widths, default=0)
    errors = [part.errors for part in answered if part.errors is not None]
    sizes = [part.sizes for part in answered if part.sizes is not None]
    errors, sizes = (np.max([np.zeros(n), *each], axis=0) for each in (errors, sizes))
    differences = np.concatenate(
        [
            part.values if part.values.size else np.full((len(part.values), n), np.inf)
            for part in parts
        ]
    )
    failure = next((part.failure for part in parts if part.failure is not None), None)
    if np.isinf(differences).any():
        failure = failure or _NAN
    if private and failure is not None:
        failure = _HIDDEN
    if not np.isfinite(differences).any():
        raise CalibrationError(
            "None of the sampled databases could be answered, so no noise is enough: "
            f"{failure}.",
            target=math.nan,
            best=1.0,
        )
    return SampledPairs(
        differences,
        errors if errors.any() else None,
        query.rounding(sizes),
        failure,
        assumptions=frozenset(),
    )
