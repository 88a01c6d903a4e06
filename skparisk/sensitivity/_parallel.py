"""Drawing pairs and answering the query on them, in parallel over blocks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from skparisk._validate import (
    check_at_least,
    check_choice,
    check_n_jobs,
    check_random_state,
)
from skparisk.neighbors import RELATIONS, block_size, draw_pairs, n_drawn
from skparisk.queries import Query, Rounded, check_answer
from skparisk.reference import RecordSource, Reference, check_columns

__all__ = ["sample_differences", "sample_rounded_differences"]

Block = tuple[int, int, np.random.SeedSequence]

_TASKS_PER_WORKER = 4
_SHOWN_STEPS = 20


def sample_differences(
    query: Query,
    reference: Reference,
    *,
    n_pairs: int,
    n_records: int,
    n_features: int,
    relation: str = "replace-one",
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> NDArray[np.float64]:
    """Return how much the query differs on each of many sampled pairs.

    Parameters
    ----------
    query : Query
        What to answer on both databases of a pair.

    reference : Reference
        Where records come from.

    n_pairs, n_records, n_features : int
        Pairs, records of the (larger) database of a pair, and features of a record.

    relation : {"replace-one", "add-remove"}, default="replace-one"
        How the databases of a pair differ.

    n_jobs : int, default=None
        Workers of joblib. The result does not depend on it: each block of pairs
        has a seed of its own, and the size of blocks depends on `n_records` only.

    random_state : int, RandomState or None, default=None
        Seeds the sampling.

    verbose : int, default=0
        Above 0: a progress bar where tqdm is installed, else joblib's messages.

    Returns
    -------
    differences : ndarray of shape (n_pairs, n_outputs)

    Raises
    ------
    ValueError
        If a number is out of range (with "add-remove", `n_records` is at least 2), or
        the query returns NaN or infinity, or changes its number of outputs.

    IncompatibleError
        If the reference has another number of features.

    Notes
    -----
    Rubinstein and Aldà, ICML 2017, Algorithm 1, all of its iterations; the
    position of the record that changes is drawn as well.

    Examples
    --------
    >>> from skparisk.queries import MeanQuery
    >>> from skparisk.reference import BoxReference
    >>> from skparisk.sensitivity import sample_differences
    >>> sample_differences(
    ...     MeanQuery(), BoxReference([0], [1]), n_pairs=3, n_records=5, n_features=1
    ... ).shape
    (3, 1)
    """
    differences, _ = sample_rounded_differences(
        query,
        reference,
        n_pairs=n_pairs,
        n_records=n_records,
        n_features=n_features,
        relation=relation,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=verbose,
    )
    return differences


def sample_rounded_differences(
    query: Query,
    reference: Reference,
    *,
    n_pairs: int,
    n_records: int,
    n_features: int,
    relation: str,
    n_jobs: int | None,
    random_state: Any,
    verbose: int,
) -> Rounded:
    """Return what `sample_differences` does, and the most that each may be off."""
    check_choice(relation, "relation", RELATIONS)
    check_at_least(n_pairs, "n_pairs", 1)
    check_at_least(n_records, "n_records", 2 if relation == "add-remove" else 1)
    check_n_jobs(n_jobs)
    entropy = check_random_state(random_state, "random_state").bytes(16)
    root = np.random.SeedSequence(int.from_bytes(entropy, "little"))
    source_seed, pairs_seed = root.spawn(2)
    source = reference.bind(n_pairs, n_drawn(n_records, relation), source_seed)
    size = block_size(n_records)
    starts = range(0, n_pairs, size)
    blocks = [
        (start, min(size, n_pairs - start), seed)
        for start, seed in zip(starts, pairs_seed.spawn(len(starts)), strict=True)
    ]
    # Each task prepares the pool once: few tasks, but enough to share and to show.
    workers = effective_n_jobs(n_jobs)
    wanted = 1 if workers == 1 else _TASKS_PER_WORKER * workers
    n_tasks = min(len(blocks), max(wanted, _SHOWN_STEPS if verbose else 1))
    tasks = (
        delayed(_sample_blocks)(
            [blocks[i] for i in indices],
            query,
            source,
            n_records,
            relation,
            n_features,
            os.getpid(),
        )
        for indices in np.array_split(np.arange(len(blocks)), n_tasks)
    )
    with _one_blas_thread():
        parts = _run(tasks, n_tasks, n_jobs, verbose)
    blocks_done = [block for part in parts for block in part]
    differences = [values for values, _ in blocks_done]
    lengths = {difference.shape[1] for difference in differences}
    if len(lengths) > 1:
        raise ValueError(
            "The query must return the same number of outputs for every database, "
            f"got {sorted(lengths)}."
        )
    if all(errors is None for _, errors in blocks_done):
        return np.concatenate(differences), None
    errors = [
        np.zeros_like(values) if off is None else off for values, off in blocks_done
    ]
    return np.concatenate(differences), np.concatenate(errors)


def _sample_blocks(
    blocks: Sequence[Block],
    query: Query,
    source: RecordSource,
    n_records: int,
    relation: str,
    n_features: int,
    parent: int,
) -> list[Rounded]:
    """Return the differences of each block of pairs, in one worker."""
    pool = None
    done: list[Rounded] = []
    # One thread per worker, so that sums do not depend on the number of threads;
    # threads of the parent process are limited there.
    in_parent = os.getpid() == parent
    with nullcontext() if in_parent else _one_blas_thread():
        for start, size, seed in blocks:
            pairs = draw_pairs(
                source,
                n_records=n_records,
                relation=relation,
                start=start,
                size=size,
                seed=seed,
            )
            if pairs.pool is not pool:
                pool = pairs.pool
                check_columns(pool.X.shape[1], n_features)
                if query.needs_y and pool.y is None:
                    raise ValueError(
                        f"The query {query} takes targets, and the reference has "
                        "none (y)."
                    )
                evaluate = query.on_pool(pool, n_records)
            differences, errors = evaluate(pairs)
            done.append((check_answer(differences, "a sampled database"), errors))
    return done


@cache
def _thread_pools() -> ThreadpoolController:
    """Return the thread pools of this process; to find them takes milliseconds."""
    return ThreadpoolController()


def _one_blas_thread() -> AbstractContextManager[Any]:
    return _thread_pools().limit(limits=1, user_api="blas")


def _run(
    tasks: Iterable[Any], n_tasks: int, n_jobs: int | None, verbose: int
) -> list[list[Rounded]]:
    """Run tasks in order, with a progress bar where there can be one."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        tqdm = None
    if verbose and tqdm is not None:
        tasks = tqdm(tasks, total=n_tasks, desc="sampling pairs", leave=False)
        verbose = 0
    results: list[list[Rounded]]
    results = Parallel(n_jobs=n_jobs, verbose=verbose)(tasks)
    return results
