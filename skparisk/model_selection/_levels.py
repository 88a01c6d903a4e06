"""What an estimator will spend when it is fitted, told from its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from skparisk._private import PrivateMixin
from skparisk.core.calibrate import find_known
from skparisk.core.claim import Certificate, as_certificate
from skparisk.core.compose import compose_basic
from skparisk.core.release import as_seeded
from skparisk.model_selection._candidates import (
    has_pairs,
    own_sampler,
)
from skparisk.preprocessing import RandomizedResponseTransformer
from skparisk.reference import LearnedReference
from skparisk.sensitivity import KnownSensitivity, SensitivitySampler
from skparisk.sensitivity._sampler import claim_at_most

_PRIVATE = (PrivateMixin, SensitivitySampler, RandomizedResponseTransformer)
_FITS_EACH_ONCE = (
    ColumnTransformer,
    FeatureUnion,
    Pipeline,
    TransformedTargetRegressor,
)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting of parameters, and an estimator that has it and is not fitted."""

    params: dict[str, Any]
    estimator: Any

    @property
    def level(self) -> Certificate | None:
        """What one fit spends at most; None if parameters do not tell."""
        return declared_certificate(self.estimator)

    @property
    def has_pairs(self) -> bool:
        """Whether a choice by reference might look at pairs of the last fit."""
        samplers = map(own_sampler, private_parts(self.estimator))
        return any(
            has_pairs(sampler)
            or getattr(sampler.reference, "sampling", None) == "split"
            for sampler in samplers
            if sampler is not None
        )

    @property
    def learns_more(self) -> bool:
        """Whether a fit may hold something of the data that has no noise."""
        return any(map(_may_learn, _parts(self.estimator).values()))


def private_parts(estimator: Any) -> list[Any]:
    """Return what in an estimator releases something with noise when it is fitted."""
    return [part for part in _parts(estimator).values() if isinstance(part, _PRIVATE)]


def declared_certificate(estimator: Any) -> Certificate | None:
    """Return what one fit spends at most; None if parameters do not tell."""
    parts = _parts(estimator)
    private = [name for name, part in parts.items() if isinstance(part, _PRIVATE)]
    # Anything else around them may fit them more often than once.
    unclear = any(
        _is_below(name, other) and not isinstance(part, _FITS_EACH_ONCE)
        for name in private
        for other, part in parts.items()
    )
    # The number of records to learn from depends on that of all records.
    samplers = [_source(parts[name]) for name in private]
    unclear |= any(
        isinstance(sampler.reference, LearnedReference)
        for sampler in samplers
        if sampler is not None
    )
    if unclear or not private:
        return None
    return compose_basic([_declared(parts[name]) for name in private])


def _parts(estimator: Any) -> dict[str, Any]:
    """Return an estimator and those in it, but not those in private or frozen ones."""
    nested = {
        name: value
        for name, value in estimator.get_params(deep=True).items()
        if hasattr(value, "fit")
    }
    nested[""] = estimator
    closed = [
        name
        for name, value in nested.items()
        if isinstance(value, (*_PRIVATE, FrozenEstimator))
    ]
    return {
        name: value
        for name, value in nested.items()
        if not isinstance(value, FrozenEstimator)
        and not any(_is_below(name, other) for other in closed)
    }


def _is_below(name: str, other: str) -> bool:
    return name.startswith(f"{other}__") if other else bool(name)


def _may_learn(part: Any) -> bool:
    """Tell if a part may keep something of what it is fitted to, without noise.

    Not what has noise of its own, what puts parts together, and transformers that have
    nothing to learn. Functions of one's own may look at all records at once.
    """
    if isinstance(part, _PRIVATE) or type(part).__module__.startswith("skparisk."):
        return False
    if isinstance(part, FunctionTransformer):
        return not _is_elementwise(part.func)
    if type(part) is TransformedTargetRegressor:
        return part.regressor is None or not _is_elementwise(part.func)
    if type(part) is Pipeline:
        return part.memory is not None
    if type(part) is ColumnTransformer:
        return any(
            callable(columns) and not isinstance(columns, make_column_selector)
            for _, _, columns in part.transformers
        )
    if type(part) is FeatureUnion:
        return False
    tags = get_tags(part) if isinstance(part, BaseEstimator) else None
    return tags is None or tags.requires_fit or tags.transformer_tags is None


def _is_elementwise(func: Any) -> bool:
    return func is None or (isinstance(func, np.ufunc) and func.signature is None)


def _source(part: Any) -> SensitivitySampler | None:
    """Return the sampler of a private estimator, if any."""
    return part if isinstance(part, SensitivitySampler) else own_sampler(part)


def _declared(part: Any) -> Certificate:
    """Return what a private estimator will spend at most."""
    source = _source(part)
    known = getattr(part, "sensitivity", None) if source is None else source
    if isinstance(known, Real):
        known = KnownSensitivity(float(known))
    proven = isinstance(known, str) or getattr(part, "_proven_by_default", False)
    if isinstance(part, RandomizedResponseTransformer) or proven:
        claim = as_certificate(part.epsilon).weaken(relation="replace-one")
    elif isinstance(known, KnownSensitivity):
        sensitivity, target, law = known._check(part.epsilon, part.gamma)
        claim = find_known(sensitivity, target, law=law)[1]
    else:
        sampler = SensitivitySampler() if source is None else source
        claim = claim_at_most(sampler, part.epsilon, part.gamma)
    claim = as_seeded(claim, part.noise_random_state)
    return claim if source is None else as_seeded(claim, source.noise_random_state)
