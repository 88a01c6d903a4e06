"""Drawing pairs, answering the query on them, and joining what was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk._checks import check_n_jobs
from skparisk._progress import Progress, Watched
from skparisk.core.checks import (
    CalibrationError,
    check_at_least,
    check_random_state,
    check_relation,
)
from skparisk.core.pairs import SampledPairs
from skparisk.neighbors import (
    bind_pairs,
    block_size,
)
from skparisk.queries import PairDifferences, Query
from skparisk.reference import Reference, TableReference
from skparisk.reference._base import Form
from skparisk.reference._records import Schema
from skparisk.sensitivity._work import Block, Work
from skparisk.sensitivity._workers import run


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

    neighbors_per_database : int, default=1
        Pairs that have their first database in common, and follow each other.

    n_jobs : int, default=None
        Workers of joblib, which are given what this process would take longer for. The
        result does not depend on it: each block of pairs has a seed of its own, and
        the size of blocks depends on `n_records` only.

    random_state : int, RandomState or None, default=None
        Seeds the sampling.

    verbose : int, default=0
        Above 0: pairs done, a second and the time left, by a bar where tqdm is
        installed, else by lines on the standard error stream.

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

    Notes
    -----
    Rubinstein and Aldà, ICML 2017, Algorithm 1, all of its iterations; the
    position of the record that changes is drawn as well.

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
    return sample_pairs(
        query,
        reference,
        n_pairs=n_pairs,
        n_records=n_records,
        schema=Schema.of_width(n_features),
        form="given" if query.any_table else "numbers",
        relation=relation,
        n_neighbors=neighbors_per_database,
        n_jobs=n_jobs,
        entropy=check_random_state(random_state, "random_state").bytes(16),
        verbose=verbose,
    ).differences


def sample_pairs(
    query: Query,
    reference: Reference,
    *,
    n_pairs: int,
    n_records: int,
    schema: Schema,
    form: Form,
    relation: str,
    n_jobs: int | None,
    entropy: bytes,
    verbose: int,
    private: bool = False,
    n_neighbors: int = 1,
    watched: Watched | None = None,
) -> SampledPairs:
    """Return what `sample_differences` does, and all that calibration needs of it.

    `schema` is that of the records that the query will be asked about, and `form` that
    in which it is given them. `watched` is what progress shows. Where the reference is
    private, nothing about it is shown in an error or a warning.
    """
    check_relation(relation)
    check_at_least(n_pairs, "n_pairs", 1)
    check_at_least(n_records, "n_records", 2 if relation == "add-remove" else 1)
    check_n_jobs(n_jobs)
    check_neighbors(n_neighbors, n_pairs, n_records, query, reference)
    root = np.random.SeedSequence(int.from_bytes(entropy, "little"))
    source_seed, pairs_seed = root.spawn(2)
    n_drawn = 1 if query.is_sum else n_records
    source = bind_pairs(
        reference,
        n_pairs=n_pairs,
        n_records=n_drawn,
        relation=relation,
        seed=source_seed,
        n_neighbors=n_neighbors,
    )
    size, n_databases = block_size(n_drawn), n_pairs // n_neighbors
    starts = range(0, n_databases, size)
    blocks = [
        Block(start, min(size, n_databases - start), seed)
        for start, seed in zip(starts, pairs_seed.spawn(len(starts)), strict=True)
    ]
    # How a whole block is answered does not depend on their number.
    n_answers = n_databases * (1 + n_neighbors) if n_databases < size else math.inf
    work = Work(
        query,
        source,
        n_records,
        n_drawn,
        n_neighbors,
        schema,
        form,
        private=private,
        n_answers=n_answers,
    )
    progress = Progress(
        n_pairs, shown=bool(verbose), watched=None if private else watched
    )
    joined = _join(run(work, blocks, n_jobs, progress), query, private)
    joined.n_neighbors = n_neighbors
    return joined


def check_neighbors(
    n_neighbors: int,
    n_pairs: int,
    n_records: int,
    query: Query,
    reference: Reference,
) -> None:
    """Raise ValueError unless databases can have so many neighbors."""
    name = "neighbors_per_database"
    check_at_least(n_neighbors, name, 1)
    if n_pairs % n_neighbors:
        raise ValueError(
            f"n_pairs must be a multiple of {name}={n_neighbors}, got {n_pairs!r}."
        )
    if n_neighbors > n_records:
        raise ValueError(
            f"{name} must be at most n_records={n_records}, because each neighbor "
            f"differs in another record, got {n_neighbors!r}."
        )
    split = isinstance(reference, TableReference) and reference.sampling == "split"
    # Records that neighbors differ in are left out of what all of them share.
    if n_neighbors > 1 and isinstance(reference, TableReference):
        most = max(1, reference.n_rows // 4)
        if n_neighbors > most:
            raise ValueError(
                f"{name} must be at most {most} with a reference table of "
                f"{reference.n_rows} rows, got {n_neighbors!r}."
            )
    if n_neighbors > 1 and split:
        raise ValueError(
            f"{name} must be 1 with sampling='split', where the records that both "
            f"databases have come from half of the table; got {n_neighbors!r}. "
            "sampling='leave-out' allows more."
        )
    if n_neighbors > 1 and query.is_sum:
        raise ValueError(
            f"{name} must be 1 for {query}, a sum over records: how its neighbors "
            "differ does not depend on the database, so that pairs are as cheap and "
            f"say more; got {n_neighbors!r}."
        )


def _join(
    blocks: Sequence[PairDifferences], query: Query, private: bool
) -> SampledPairs:
    """Return all pairs together; a block without any answer has no width of its own."""
    failure = next((b.failure for b in blocks if b.failure is not None), None)
    if private and failure is not None:
        failure = (
            "it is not shown because it may reveal something about the private data"
        )
    widths = {b.values.shape[1] for b in blocks} - {0}
    if len(widths) > 1:
        raise ValueError(
            "The query must return the same number of outputs for every database"
            f"{'.' if private else f', got {sorted(widths)}.'}"
        )
    if not widths or not any(np.isfinite(b.values).any() for b in blocks):
        raise CalibrationError(
            "None of the sampled databases could be answered, so no noise is enough: "
            f"{failure}.",
            target=math.nan,
            best=1.0,
        )
    n_pairs, n_outputs = sum(len(b.values) for b in blocks), widths.pop()
    differences = np.full((n_pairs, n_outputs), np.inf)
    batched = any(b.errors is not None for b in blocks)
    errors = np.zeros_like(differences) if batched else None
    start = 0
    for block in blocks:
        rows = slice(start, start + len(block.values))
        start = rows.stop
        if not block.values.size:
            continue
        differences[rows] = block.values
        if errors is not None and block.errors is not None:
            errors[rows] = block.errors
    rounding = query.rounding(_sizes(blocks, n_outputs))
    return SampledPairs(differences, errors, rounding, failure, assumptions=frozenset())


def _sizes(blocks: Sequence[PairDifferences], n_outputs: int) -> NDArray[np.float64]:
    """Return the largest answers in all blocks, where they are known."""
    sizes = np.zeros(n_outputs)
    for block in blocks:
        if block.values.size and block.sizes is not None:
            np.maximum(sizes, block.sizes, out=sizes)
    return sizes
