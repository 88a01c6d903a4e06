"""The choice by simulation on public records, which costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.core.checks import IncompatibleError, is_whole
from skparisk.core.compose import compose_basic
from skparisk.model_selection._fits import (
    Choice,
    Records,
    Task,
    charge_leaks,
    find_samplers,
    fit_recorded,
    own_sampler,
)
from skparisk.model_selection._simulation import simulate_scores
from skparisk.neighbors import sample_database
from skparisk.reference import TableReference, as_reference


def check_cv(cv: Any) -> None:
    """Refuse what are no splits of public records."""
    many = hasattr(cv, "split") or isinstance(cv, Iterable)  # is not used up
    if isinstance(cv, str) or not (cv is None or (cv >= 2 if is_whole(cv) else many)):
        raise ValueError(
            "cv must be None, a whole number >= 2, a splitter or an iterable of "
            f"splits, got {cv!r}."
        )


def choose_by_reference(task: Task) -> Choice:
    """Choose by simulation, and fit the best candidate to the private records."""
    candidates, records = task.candidates, task.records
    if len(candidates) > 1 and any(candidate.has_pairs for candidate in candidates):
        raise IncompatibleError(
            "selection='reference' must not look at the pairs that calibrate the "
            "noise: a SensitivitySampler must not be fitted beforehand, nor have a "
            "reference with sampling='split'."
        )
    made, simulated = task.seeds.spawn(2)
    estimators = [candidate.estimator for candidate in candidates]
    n_records = _count_public_records(estimators, len(records))
    public = _find_public_records(estimators[0], records, n_records, made)
    scores = simulate_scores(
        estimators,
        *public,
        n_records=n_records,
        scoring=task.scoring,
        cv=task.cv,
        n_jobs=task.n_jobs,
        random_state=np.random.default_rng(simulated),
        verbose=task.verbose,
    )
    results = _tabulate([candidate.params for candidate in candidates], scores)
    index = int(results["rank_test_score"].argmin())
    told = charge_leaks([candidates[index]])
    fitted, releases = fit_recorded(estimators[index], records)
    return Choice(index, fitted, compose_basic([*told, *releases]), results)


def _tabulate(
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


def _find_public_records(
    estimator: Any, records: Records, n_records: int, seed: np.random.SeedSequence
) -> tuple[Any, Any]:
    """Return public records: those that were given, or of the sampler.

    Not of the sampler in a pipeline, whose reference has the units of its last step. A
    reference that is no table makes two records for each of `n_records`.
    """
    if records.X_reference is not None:
        return records.X_reference, records.y_reference
    sampler = own_sampler(estimator)
    if sampler is None or sampler.reference is None:
        raise ValueError(
            "X_reference must be public records with selection='reference', which "
            "scores the candidates on them, got None: give some, or choose on private "
            "records by selection='exponential'."
        )
    reference = as_reference(sampler.reference)
    if isinstance(reference, TableReference):
        return reference.pool.X, reference.pool.y
    return sample_database(reference, 2 * n_records, seed)


def _count_public_records(estimators: Sequence[Any], n_records: int) -> int:
    """Return the number of records that is public.

    With "add-remove" that is what the sampler was given: there may be one less.
    """
    samplers = find_samplers(estimators)
    known = [getattr(sampler, "n_records_", sampler.n_records) for sampler in samplers]
    return max((number for number in known if number is not None), default=n_records)
