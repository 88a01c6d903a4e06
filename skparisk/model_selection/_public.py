"""What a choice by public records starts from, and what it leaves to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk._private import has_records_of
from skparisk.model_selection._candidates import Records, own_sampler
from skparisk.model_selection._levels import private_parts
from skparisk.neighbors import sample_database
from skparisk.reference import TableReference, as_reference
from skparisk.reference._sketch import RecordSketch

__all__ = [
    "count_public_records",
    "find_public_records",
    "refuse_private_samplers",
    "shares_records",
    "tabulate_scores",
]


def find_public_records(
    estimator: Any, records: Records, n_records: int, seed: np.random.SeedSequence
) -> tuple[Any, Any] | None:
    """Return public records, if any: those that were given, or of the sampler.

    Not of the sampler in a pipeline, whose reference has the units of its last step. A
    reference that is no table makes two records for each of `n_records`.
    """
    if records.X_reference is not None:
        return records.X_reference, records.y_reference
    sampler = own_sampler(estimator)
    if sampler is None or sampler.reference is None:
        return None
    reference = as_reference(sampler.reference)
    if isinstance(reference, TableReference):
        return reference.pool.X, reference.pool.y
    return sample_database(reference, 2 * n_records, seed)


def shares_records(X: Any, other: Any) -> bool:
    """Tell if two tables have records in common; sparse ones if they are one object."""
    if X is other or hasattr(X, "tocsr") or hasattr(other, "tocsr"):
        return X is other
    one, two = sketch(X), sketch(other)
    if one is None or two is None:
        return np.array_equal(np.asarray(X), np.asarray(other))
    return one.overlaps(two)


def sketch(X: Any) -> RecordSketch | None:
    """Return hashes of records, where they are numbers."""
    try:
        return RecordSketch.of(np.asarray(X, dtype=np.float64))
    except (TypeError, ValueError):
        return None


def refuse_private_samplers(estimators: Sequence[Any], X: Any) -> None:
    """Refuse samplers whose reference has private records, before these are split."""
    own = sketch(X)
    parts = [part for estimator in estimators for part in private_parts(estimator)]
    samplers = [sampler for sampler in map(own_sampler, parts) if sampler is not None]
    if own is not None and any(has_records_of(sampler, own) for sampler in samplers):
        raise ValueError(
            "A SensitivitySampler of the estimator was fitted on private records, or "
            "has them as its reference: give it a public reference."
        )


def count_public_records(estimators: Sequence[Any], n_records: int) -> int:
    """Return the number of records that is public.

    With "add-remove" that is what the sampler was given: there may be one less.
    """
    parts = [part for estimator in estimators for part in private_parts(estimator)]
    samplers = [sampler for sampler in map(own_sampler, parts) if sampler is not None]
    known = [getattr(sampler, "n_records_", sampler.n_records) for sampler in samplers]
    return max((number for number in known if number is not None), default=n_records)


def tabulate_scores(
    params: Sequence[dict[str, Any]], scores: NDArray[np.float64]
) -> dict[str, Any]:
    """Return candidates and their scores as `cv_results_`, without times."""
    with np.errstate(invalid="ignore"):  # infinite scores
        means, deviations = scores.mean(axis=1), scores.std(axis=1)
    comparable = np.where(np.isnan(means), -np.inf, means)
    results: dict[str, Any] = {}
    for name in sorted({name for candidate in params for name in candidate}):
        column = np.ma.MaskedArray(np.empty(len(params), dtype=object), mask=True)
        for row, candidate in enumerate(params):
            if name in candidate:
                column[row] = candidate[name]
        results[f"param_{name}"] = column
    results["params"] = list(params)
    for split, of_split in enumerate(scores.T):
        results[f"split{split}_test_score"] = of_split
    results["mean_test_score"] = means
    results["std_test_score"] = deviations
    above = comparable[None, :] > comparable[:, None]
    results["rank_test_score"] = 1 + above.sum(axis=1, dtype=np.int32)
    return results
