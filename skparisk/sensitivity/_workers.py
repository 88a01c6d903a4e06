"""Who does the work: this process, and workers of joblib where that is faster."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import closing, contextmanager
from functools import cache
from time import monotonic, sleep
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from skparisk._progress import Progress
from skparisk.queries import PairDifferences
from skparisk.sensitivity._work import Answered, Block, Desk, Part, Work

# Seconds that new workers take until they have imported what they need, and those that
# wait for work, of which joblib ends those that waited for 300 s. Imports take 1 s on
# an idle machine; two workers must not take longer than one on a busy one either.
_START_UP = 2.0
_HAND_OVER = 0.25
_WAITING = 240.0
# Seconds after which a part of a block that is answered here is enough.
_STEP = 0.1

# Seconds in which a cluster must have a worker, after it has lost all.
_START_AGAIN = 300.0
_PAUSE = 0.1
# How often workers may be lost, until the work itself seems to end them.
_MOST_LOSSES = 3

# When workers of a backend were used last.
_used: dict[str, float] = {}


def run(
    work: Work, blocks: Sequence[Block], n_jobs: int | None, progress: Progress
) -> list[PairDifferences]:
    """Return the differences of all pairs of all blocks, in order.

    The work begins in this process, which measures what it takes. If workers would be
    done with the rest sooner, they are given it.
    """
    found: list[Answered] = []
    _keep_memory()
    with (
        progress,
        one_thread(),
        closing(_answer(work, blocks, n_jobs)) as answers,
    ):
        for answered in answers:
            found += answered
            for one in answered:
                values = one.differences.values
                progress.add(len(values), values)
    return [one.differences for one in sorted(found, key=lambda one: one.start)]


def _answer(
    work: Work, blocks: Sequence[Block], n_jobs: int | None
) -> Generator[list[Answered]]:
    """Yield answers as they come, in any order."""
    n_workers = effective_n_jobs(n_jobs)
    desk, n_answered = Desk(work), 0
    left = [Part(block, 0, block.size) for block in reversed(blocks)]
    n_left = sum(block.size for block in blocks)
    while left:
        block, first, last = left.pop()
        desk.open(block)
        if desk.divisible:
            end = min(last, first + _stride(desk, n_answered))
            if end < last:
                left.append(Part(block, end, last))
            last = end
        yield [desk.answer(Part(block, first, last))]
        n_left -= last - first
        seconds = desk.seconds(n_left, len(left))
        # The first part also took what has to be done once, such as imports.
        if n_answered and n_workers > 1 and _is_worth_workers(desk, seconds, n_workers):
            tasks = desk.cut(left[::-1], n_workers)
            yield from _answer_elsewhere(work, tasks, n_jobs)
            return
        n_answered += last - first


def _stride(desk: Desk, n_answered: int) -> int:
    """Return of how many databases the next part is, that is answered here."""
    if not n_answered:
        return 1
    return max(1, min(2 * n_answered, int(_STEP / max(desk.answering, 1e-9))))


def _is_worth_workers(desk: Desk, seconds: float, n_workers: int) -> bool:
    """Tell if workers would be done sooner than this process alone, in `seconds`."""
    last_used = _used.get(type(get_active_backend()[0]).__name__)
    waiting = last_used is not None and monotonic() - last_used < _WAITING
    start_up = _HAND_OVER if waiting else _START_UP
    saved = seconds * (1 - 1 / n_workers)
    return saved > start_up + desk.preparing


def _answer_elsewhere(
    work: Work, tasks: Iterable[Sequence[Part]], n_jobs: int | None
) -> Iterator[list[Answered]]:
    """Yield the answers of workers, which stop where this is left.

    If some of them are lost, others are given what is left: loky ends all where one is
    killed, and a cluster may have lost all workers that had the work.
    """
    left, n_losses = dict(enumerate(tasks)), 0
    while left:
        try:
            for number, answered in _share_out(work, left, n_jobs):
                del left[number]
                yield answered
        except (BrokenExecutor, CancelledError):
            n_losses += 1
            if n_losses == _MOST_LOSSES:
                raise


def _share_out(
    work: Work, tasks: Mapping[int, Sequence[Part]], n_jobs: int | None
) -> Iterator[tuple[int, list[Answered]]]:
    """Yield the answers of workers, each with the number of its task."""
    backend, _ = get_active_backend()
    as_they_come = backend.supports_return_generator
    parallel = Parallel(
        n_jobs=n_jobs,
        return_as="generator_unordered" if as_they_come else "list",
    )
    shipped = _ship(work, backend)
    yield from parallel(
        delayed(_answer_there)(shipped, number, task)
        for number, task in [*tasks.items()]
    )
    _used[type(backend).__name__] = monotonic()  # they are ended where this is left


def _ship(work: Work, backend: Any) -> Any:
    """Return what stands for the work in tasks.

    joblib maps large arrays into the memory of processes on this machine, once. To
    workers of Dask the work is sent before, to each of them, so that none is the only
    one that has it, and might take it along when it is lost.
    """
    client = getattr(backend, "client", None)
    if client is None:
        return work
    end = monotonic() + _START_AGAIN
    while True:
        try:
            client.wait_for_workers(1, timeout=_START_AGAIN)
            return client.scatter(work, broadcast=True, hash=False)
        except OSError:  # of one that the scheduler has not yet noticed to be lost
            if monotonic() > end:
                raise
            sleep(_PAUSE)


def _answer_there(
    shipped: Any, number: int, parts: Sequence[Part]
) -> tuple[int, list[Answered]]:
    """Return the answers on some parts, in a worker."""
    # joblib gives tasks to this process itself where a cluster has one worker left.
    work = shipped if isinstance(shipped, Work) else shipped.result()
    _keep_memory()
    with one_thread():
        return number, work.answer(parts)


@cache
def _keep_memory() -> None:
    """Let the memory of arrays that are gone be used again, once for a process.

    glibc gives that of the larger ones back to the system, and each new one takes a
    quarter more time for it, until it has seen that arrays of up to 32 MiB come and go.
    A process that has read data has shown it one; a new worker has not.
    """
    np.empty(2**25 - 2**16, dtype=np.uint8)


@cache
def _thread_pools() -> ThreadpoolController:
    """Return the thread pools of this process; to find them takes milliseconds."""
    return ThreadpoolController()


class _Limit:
    """That of linear algebra, from the first thread that enters to the last to leave.

    Where they overlap, and another one leaves last, it may stay: threadpoolctl lets the
    thread that set a limit lift it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limiter: Any = None

    def enter(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._limiter = _thread_pools().limit(limits=1, user_api="blas")
            self._n_inside += 1

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._limiter.restore_original_limits()


_limit = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let one thread do what this one asks for: sums depend on how many there are.

    Fits to few records also take far longer where threads of OpenMP wait for a core
    that something else uses. OpenMP has a limit for each thread that asks; linear
    algebra has one for the whole process, until nobody needs it any more.
    """
    _limit.enter()
    try:
        with _thread_pools().limit(limits=1, user_api="openmp"):
            yield
    finally:
        _limit.leave()
