"""Estimators that are tried: their rows, their seeds, their reference."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from joblib import hash as hash_of
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from skparisk._private import PrivateMixin
from skparisk.core.sealed import take_rows
from skparisk.sensitivity import SensitivitySampler

_SEEDED = ("random_state", "noise_random_state")


@dataclass(frozen=True, eq=False)
class Records:
    """Private records, and public ones where there are any."""

    X: Any
    y: Any
    X_reference: Any = None
    y_reference: Any = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, rows: NDArray[np.intp]) -> Records:
        """Return some of the private records, and all of the public ones."""
        return dataclasses.replace(
            self, X=take_rows(self.X, rows), y=take_rows(self.y, rows)
        )


def as_indexable(data: Any) -> Any:
    """Return what rows can be taken of: an array, a data frame, a sparse matrix."""
    if data is None or hasattr(data, "iloc"):
        return data
    if hasattr(data, "tocsr"):
        return data.tocsr()
    return data if hasattr(data, "shape") else np.asarray(data)


def configure(estimator: Any, params: dict[str, Any]) -> Any:
    """Return a clone with other parameters, which are cloned as well."""
    return clone(estimator).set_params(**clone(params, safe=False))


def with_seeds(estimator: Any, seed: np.random.SeedSequence) -> Any:
    """Return a clone with seeded sampling and noise, as only public fits may have."""
    rng = np.random.default_rng(seed)
    return clone(estimator).set_params(
        **{
            name: int(rng.integers(2**31))
            for name in sorted(estimator.get_params(deep=True))
            if name.rpartition("__")[2] in _SEEDED
        }
    )


def fit_estimator(estimator: Any, records: Records) -> Any:
    """Fit a clone, with the reference where it takes one and has none of its own."""
    X, y, fresh = records.X, records.y, clone(estimator)
    given = {
        name: getattr(records, name)
        for name in ("X_reference", "y_reference")
        if getattr(records, name) is not None
    }
    if isinstance(fresh, Pipeline):
        return _fit_pipeline(fresh, X, y, given)
    taken = _taken(fresh, given)
    if not taken and get_config()["enable_metadata_routing"]:
        taken = get_routing_for_object(fresh).consumes("fit", given)
    return fresh.fit(X, y, **{name: given[name] for name in taken})


def leading_frozen_steps(estimator: Any) -> list[FrozenEstimator]:
    """Return the first steps of a pipeline, as long as they are frozen."""
    steps = [step for _, step in getattr(estimator, "steps", ())]
    return list(takewhile(lambda step: isinstance(step, FrozenEstimator), steps))


def own_sampler(estimator: Any) -> SensitivitySampler | None:
    """Return the sampler that a private estimator was given, if any."""
    sampler = getattr(estimator, "sensitivity", None)
    if isinstance(sampler, FrozenEstimator):
        sampler = sampler.estimator
    return sampler if isinstance(sampler, SensitivitySampler) else None


def same_but_for_levels(estimators: Sequence[Any]) -> list[list[int]]:
    """Group the numbers of estimators that can be calibrated from the same pairs.

    They differ in `epsilon` and `gamma` alone. The smallest risk, which takes most
    pairs, comes first.
    """
    groups: dict[Any, list[int]] = {}
    for number, estimator in enumerate(estimators):
        key: Any = number
        if isinstance(estimator, PrivateMixin) and estimator._query_is_given:
            # Without noise another query may be asked.
            level = 1.0 if math.isfinite(estimator.epsilon) else math.inf
            known = clone(estimator).set_params(epsilon=level, gamma=0.05)
            key = hash_of(known)
        groups.setdefault(key, []).append(number)
    return [
        sorted(group, key=lambda number: getattr(estimators[number], "gamma", 0.0))
        for group in groups.values()
    ]


def has_pairs(sampler: SensitivitySampler) -> bool:
    """Tell if a sampler is fitted, so that its pairs were drawn before."""
    return hasattr(sampler, "certificate_")


def _fit_pipeline(pipeline: Pipeline, X: Any, y: Any, given: dict[str, Any]) -> Any:
    """Fit a pipeline whose steps get the reference as the steps before transform it."""
    asked = set()
    with config_context(enable_metadata_routing=True):
        for _, step in pipeline.steps:
            taken = _taken(step, given)
            if taken:
                step.set_fit_request(**dict.fromkeys(taken, True))
            asked |= taken
        if "X_reference" in asked:
            transformed = {*(pipeline.transform_input or ()), "X_reference"}
            pipeline.set_params(transform_input=sorted(transformed))
        return pipeline.fit(X, y, **{name: given[name] for name in asked})


def _taken(estimator: Any, given: dict[str, Any]) -> set[str]:
    """Return the parts of a reference that the `fit` of an estimator wants."""
    sampler = own_sampler(estimator)
    if not hasattr(estimator, "fit") or (
        sampler is not None and (sampler.reference is not None or has_pairs(sampler))
    ):
        return set()
    return {name for name in given if has_fit_parameter(estimator, name)}
