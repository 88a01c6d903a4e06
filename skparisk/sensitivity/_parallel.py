"""Sampling pairs of databases and answering the query on them, in several processes.

Databases are drawn in blocks, each from a seed of its own. The size of a block follows
from that of a database, and sums use one thread. So it makes no difference which
process answers which of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import itemgetter
from time import monotonic, perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray

from skparisk._checks import check_n_jobs
from skparisk._progress import Progress, Watched
from skparisk._threads import one_thread
from skparisk.core.checks import (
    CalibrationError,
    check_at_least,
    check_random_state,
    check_relation,
)
from skparisk.core.pairs import SampledPairs
from skparisk.core.release import silenced
from skparisk.neighbors import NeighborPairs, bind_pairs, block_size, draw_pairs
from skparisk.queries import PairDifferences, Query
from skparisk.queries._base import Differences
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import Form, RecordPool
from skparisk.reference._records import Schema

# Seconds that new workers take until they have imported what they need, and those that
# wait for work, of which joblib ends those that waited for 300 s.
_START_UP, _HAND_OVER, _WAITING = 2.0, 0.25, 240.0
# Least seconds of a task; and as a multiple of what it takes to draw a block and to
# prepare its pool, which each task does anew.
_TASK, _WORTH_PREPARING = 0.3, 20
# Seconds until progress is shown, where pairs of a block are answered one by one.
_CHUNK = 0.1

_NAN = (
    "the query returned NaN or infinity, as where numbers of the reference, "
    "X_reference or y_reference, are beyond 1e150: give all in other units"
)
_HIDDEN = "it is not shown because it may reveal something about the private data"

# When workers of each backend had last done their work.
_last_used: dict[type, float] = {}

# The number of the first database, and differences of it and those that follow.
_Answers: TypeAlias = tuple[int, PairDifferences]


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
    """Return how much the query differs on each of many sampled pairs.

    Rubinstein and Aldà, ICML 2017, Algorithm 1, all of its iterations; the position of
    the record that changes is drawn as well.

    Parameters
    ----------
    query : Query
        What to answer on both databases of a pair.

    reference : Reference
        Where records come from.

    n_pairs, n_records, n_features : int
        Pairs, records of the (larger) database of a pair, and features of a record.

    relation, neighbors_per_database, n_jobs, random_state, verbose
        As of :class:`SensitivitySampler`. Pairs of the same database follow each other.

    Returns
    -------
    differences : ndarray of shape (n_pairs, n_outputs)
        Infinite for a pair of which one database has no answer: the query failed, or
        returned NaN or infinity.

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
        check_at_least(self.n_pairs, "n_pairs", 1)
        check_at_least(self.n_records, "n_records", least)
        name, given = "neighbors_per_database", self.n_neighbors
        check_at_least(given, name, 1)
        if self.n_pairs % given:
            raise ValueError(
                f"n_pairs must be a multiple of {name}={given}, got {self.n_pairs!r}."
            )
        # Each neighbor of a database differs from it in another record. Those of a
        # table are left out of what the others are drawn from.
        limits = [(self.n_records, f"n_records={self.n_records}")]
        table = self.reference
        if isinstance(table, TableReference):
            most = max(1, table.n_rows // 4)
            limits.append((most, f"a reference table of {table.n_rows} rows"))
            if table.sampling == "split":
                limits.append((1, "sampling='split'; sampling='leave-out' allows more"))
        if self.query.is_sum:
            why = "a sum over records; pairs of other databases cost no more"
            limits.append((1, f"{self.query}, {why}"))
        most, why = min(limits)
        if given > most:
            raise ValueError(f"{name} must be at most {most} with {why}, got {given}.")

    def sample(
        self,
        schema: Schema,
        entropy: bytes,
        *,
        n_jobs: int | None,
        private: bool = False,
        verbose: int = 0,
        watched: Watched | None = None,
    ) -> SampledPairs:
        """Draw the pairs, and answer the query on both databases of each.

        `schema` is that of the records that the query will be asked about. `watched` is
        what progress shows. Where the reference is private, nothing about it is shown.
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
        )
        task = _Task(self, draw, pairs_seed, schema, private)
        watched = None if private else watched
        progress = Progress(self.n_pairs, shown=bool(verbose), watched=watched)
        found: list[_Answers] = []
        with progress, one_thread(), closing(_answer(task, n_jobs)) as answers:
            for first, part in answers:
                found.append((first, part))
                progress.add(len(part.values), part.values)
        parts = [part for _, part in sorted(found, key=itemgetter(0))]
        pairs = _join(parts, self.query, private)
        pairs.n_neighbors = self.n_neighbors
        return pairs


class _Chunk(NamedTuple):
    """Answers on the databases first, ..., last - 1 of a block, and what they took."""

    first: int
    last: int
    differences: PairDifferences
    # Whether pairs of this pool are answered one by one.
    divisible: bool
    # Seconds for each database, and to draw the block and prepare its pool if new.
    each: float
    opening: float


class _Task:
    """What a worker has to know, but for the numbers of the databases it answers."""

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
        self.n_databases = spec.n_pairs // spec.n_neighbors
        self.size = block_size(spec.n_drawn)

    def answer(self, first: int, last: int) -> Iterator[_Chunk]:
        """Yield answers on the databases first, ..., last - 1, in order.

        If those of a block are answered together, `first` is the first of them.
        """
        _keep_memory()
        quietly = silenced if self._private else nullcontext
        pool, each = None, math.inf
        while first < last:
            began, (number, place) = perf_counter(), divmod(first, self.size)
            start = first - place
            stop = min(start + self.size, self.n_databases)
            key = (*self._seed.spawn_key, number)  # that of `spawn`
            seed = np.random.SeedSequence(self._seed.entropy, spawn_key=key)
            with quietly():
                pairs = self._draw(start=start, size=stop - start, seed=seed)
                if pairs.pool is not pool:
                    pool, evaluate = pairs.pool, self._prepare(pairs.pool)
                if divisible := self._query.is_plain:
                    _ = pairs.records  # drawn now, as a part of opening the block
            opening = perf_counter() - began
            while first < min(stop, last):
                began, end, part = perf_counter(), stop, pairs
                if divisible:
                    end = first + max(1, int(_CHUNK / max(each, 1e-9)))
                    end = min(end, stop, last)
                    part = pairs.part(first - start, end - start)
                with quietly():
                    found = _without_nan(evaluate(part))
                each = (perf_counter() - began) / (end - first)
                yield _Chunk(first, end, found, divisible, each, opening)
                first = end

    def _prepare(self, pool: RecordPool) -> Differences:
        """Return what answers pairs of a pool, which must have the right columns."""
        Schema.of(pool.X).check_same(self._schema)
        self._query.check_has_targets(pool)
        return self._query.on_pool(pool, self._n_records)


def _answer(task: _Task, n_jobs: int | None) -> Generator[_Answers]:
    """Yield answers in any order: first here, and of workers where they are faster."""
    n_workers, (backend, _) = effective_n_jobs(n_jobs), get_active_backend()
    n_databases, overhead = task.n_databases, 0.0
    waiting = monotonic() - _last_used.get(type(backend), -math.inf) < _WAITING
    start_up = _HAND_OVER if waiting else _START_UP
    for chunk in task.answer(0, n_databases):
        yield chunk.first, chunk.differences
        overhead, n_left = max(overhead, chunk.opening), n_databases - chunk.last
        seconds = n_left * (chunk.each + chunk.opening / task.size)
        saved = seconds * (1 - 1 / n_workers)
        # The first of them also took what has to be done once, such as imports.
        if chunk.first and n_left and saved > start_up + overhead:
            break
    else:
        return
    least = max(_TASK, _WORTH_PREPARING * overhead)
    rounds = max(1, round(seconds / n_workers / least))
    size = math.ceil(n_left / (rounds * n_workers))
    if not chunk.divisible:
        size = math.ceil(size / task.size) * task.size
    # Large arrays are mapped by processes of this machine. Each worker of Dask is sent
    # the task before: with one that is lost, it would be gone if no other had it.
    client = getattr(backend, "client", None)
    sent = client.scatter(task, broadcast=True, hash=False) if client else task
    as_they_come = backend.supports_return_generator
    _last_used.pop(type(backend), None)  # workers are ended where this is left
    parallel = Parallel(
        n_jobs, return_as="generator_unordered" if as_they_come else "list"
    )
    for answers in parallel(
        delayed(_answer_there)(sent, start, min(start + size, n_databases))
        for start in range(chunk.last, n_databases, size)
    ):
        yield from answers
    _last_used[type(backend)] = monotonic()


def _answer_there(sent: Any, first: int, last: int) -> list[_Answers]:
    """Return answers on the databases first, ..., last - 1, in a worker."""
    task = sent if isinstance(sent, _Task) else sent.result()
    with one_thread():
        return [(chunk.first, chunk.differences) for chunk in task.answer(first, last)]


@cache
def _keep_memory() -> None:
    """Let the memory of arrays that are gone be used again, once for a process.

    glibc gives that of the larger ones back to the system, and each new one takes a
    quarter more time for it, until it has seen that arrays of up to 32 MiB come and go.
    """
    np.empty(2**25 - 2**16, dtype=np.uint8)


def _without_nan(found: PairDifferences) -> PairDifferences:
    """Return differences that are infinite for a pair of which one is no number."""
    finite = np.isfinite(found.values).all(axis=1, keepdims=True)
    return replace(found, values=np.where(finite, found.values, np.inf))


def _join(
    parts: Sequence[PairDifferences], query: Query, private: bool
) -> SampledPairs:
    """Return all pairs together; a part without any answer has no width of its own."""
    widths = {part.values.shape[1] for part in parts} - {0}
    if len(widths) > 1:
        raise ValueError(
            "The query must return the same number of outputs for every database"
            f"{'.' if private else f', got {sorted(widths)}.'}"
        )
    n_outputs, last = max(widths, default=0), 0
    differences = np.full((sum(len(part.values) for part in parts), n_outputs), np.inf)
    errors, sizes = np.zeros(n_outputs), np.zeros(n_outputs)
    for part in parts:
        first, last = last, last + len(part.values)
        if part.values.size:
            differences[first:last] = part.values
            np.maximum(errors, 0.0 if part.errors is None else part.errors, out=errors)
            np.maximum(sizes, 0.0 if part.sizes is None else part.sizes, out=sizes)
    lost = np.isinf(differences).any(axis=1)
    failure = next((part.failure for part in parts if part.failure is not None), None)
    if lost.any():
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
