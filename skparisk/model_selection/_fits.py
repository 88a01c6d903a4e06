"""Candidates of a search: their rows, seeds, references, levels and fits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from numbers import Real
from traceback import walk_tb
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, clone
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from skparisk._fitted_parts import refuse_frozen_on
from skparisk._private import PrivateMixin
from skparisk._training_data import known_of
from skparisk._words import LEAKS
from skparisk.core.calibrate import find_known
from skparisk.core.checks import IncompatibleError, PrivacyLeakWarning, warn_caller
from skparisk.core.claim import Certificate, Leak, as_certificate
from skparisk.core.compose import compose_basic
from skparisk.core.release import as_seeded, hide_values
from skparisk.core.sealed import People, rows_of, take_rows, unmasked
from skparisk.exceptions import UnrecordedReleaseError
from skparisk.ledger import PrivacyLedger
from skparisk.ledger._open import tell_open
from skparisk.neighbors import named_rows
from skparisk.reference._records import as_records
from skparisk.reference._secret import SecretDraw, SecretSample
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity import KnownSensitivity, SensitivitySampler
from skparisk.sensitivity._sampler import claim_at_most

_SEEDED = ("random_state", "noise_random_state")


@dataclass(frozen=True, eq=False)
class Records:
    """Private records, and public ones where there are any; or people, with theirs."""

    X: Any
    y: Any
    X_reference: Any = None
    y_reference: Any = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def of_people(self) -> bool:
        """Whether a record is a person, with all of their rows."""
        return isinstance(self.X, People)

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
    # Each value of a list by itself: one text among numbers leaves these numbers.
    return data if hasattr(data, "shape") else unmasked(data)


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
    X, y, fresh = rows_of(records.X), rows_of(records.y), clone(estimator)
    given = {
        "X_reference": rows_of(records.X_reference),
        "y_reference": rows_of(records.y_reference),
        "groups_reference": _ids("public", records.X_reference),
    }
    given = {name: part for name, part in given.items() if part is not None}
    own = {"groups": _ids("own", records.X)} if records.of_people else {}
    if isinstance(fresh, Pipeline):
        return _fit_pipeline(fresh, X, y, given, own)
    taken = _taken(fresh, given)
    if not taken and get_config()["enable_metadata_routing"]:
        taken = get_routing_for_object(fresh).consumes("fit", given)
    return fresh.fit(X, y, **own, **{name: given[name] for name in taken})


def _ids(side: str, records: Any) -> NDArray[Any] | None:
    """Return ids of the rows of people; None where records are rows."""
    people = isinstance(records, People)
    return named_rows(side, records.sizes) if people else None


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


def has_pairs(sampler: SensitivitySampler) -> bool:
    """Tell if a sampler is fitted, so that its pairs were drawn before."""
    return hasattr(sampler, "certificate_")


def _fit_pipeline(
    pipeline: Pipeline, X: Any, y: Any, given: dict[str, Any], own: dict[str, Any]
) -> Any:
    """Fit a pipeline whose steps get the reference as the steps before transform it."""
    asked, given = set(), given | own
    with config_context(enable_metadata_routing=True):
        for _, step in pipeline.steps:
            taken = _taken(step, given) | _takes(step, own)
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
    return _takes(estimator, given)


def _takes(estimator: Any, given: dict[str, Any]) -> set[str]:
    takes_any = hasattr(estimator, "fit")
    return {name for name in given if takes_any and has_fit_parameter(estimator, name)}


_PRIVATE = (PrivateMixin, SensitivitySampler)
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
    if isinstance(known, str) or getattr(part, "_proven_by_default", False):
        claim = as_certificate(part.epsilon).weaken(relation="replace-one")
    elif isinstance(known, KnownSensitivity):
        sensitivity, target, law = known._check(part.epsilon, part.gamma)
        claim = find_known(sensitivity, target, law=law)[1]
    else:
        sampler = SensitivitySampler() if source is None else source
        claim = claim_at_most(sampler, part.epsilon, part.gamma)
    claim = as_seeded(claim, part.noise_random_state)
    return claim if source is None else as_seeded(claim, source.noise_random_state)


# Remedy in a search for a ledger that is open in another process.
_OWN_LEDGER = (
    "A private search counts with its own ledger, which is open while it fits: use "
    "n_jobs=None in the estimator."
)


@dataclass(frozen=True, eq=False)
class Task:
    """Candidates, records and parameters of a selection."""

    candidates: Sequence[Candidate]
    records: Records
    seeds: np.random.SeedSequence
    estimator: Any
    scoring: Any
    cv: Any
    n_jobs: int | None
    verbose: int
    noise_random_state: Any


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen candidate, fitted, and the guarantee of the whole search."""

    index: int
    fitted: Any
    certificate: Certificate
    results: dict[str, Any] | None = None


def charge_leaks(candidates: Iterable[Candidate]) -> list[Certificate]:
    """Charge, warn of and return what fits of candidates may hold without noise."""
    if not any(candidate.learns_more for candidate in candidates):
        return []
    leak = tell_open(leaks=[Leak.LEARNS_MORE], note="parts that are not from skparisk")
    warn_caller(
        f"{LEAKS[Leak.LEARNS_MORE]} Fit them to public data first and wrap them in a "
        "FrozenEstimator, or wrap each in a PrivateEstimator.",
        PrivacyLeakWarning,
    )
    return [leak]


def fit_recorded(estimator: Any, records: Records) -> tuple[Any, list[Certificate]]:
    """Fit a clone; return it with the certificates of its releases.

    What steps that are not of this package say of records may show them.
    """
    advice = failure = ""
    try:
        with PrivacyLedger(math.inf) as tape:
            fitted = fit_estimator(estimator, records)
    except UnrecordedReleaseError as error:
        advice = f"{error} {_OWN_LEDGER}"
    except Exception as error:
        if _is_of_skparisk(error):
            raise
        failure = type(error).__name__
    if advice:
        raise UnrecordedReleaseError(advice)
    if failure:
        raise ValueError(
            f"The fit of a candidate failed outside of skparisk ({failure}). The "
            "message is not shown because it may reveal something about the records; "
            "try the estimator on public or made-up data."
        )
    # A ledger in memory keeps the certificates themselves.
    releases = [as_certificate(entry.certificate) for entry in tape.releases]
    if not releases:
        raise IncompatibleError(
            "estimator must be private, or a pipeline with a private estimator: the "
            f"fit of {estimator!r} charged nothing to an open ledger."
        )
    return fitted, releases


def _is_of_skparisk(error: Exception) -> bool:
    """Tell if this package, or a call of it, raised an error, which shows no value."""
    names = [
        str(frame.f_globals.get("__name__"))
        for frame, _ in walk_tb(error.__traceback__)
    ]
    ours = [name for name in names if name.startswith("skparisk.")]
    asked = any(not name.startswith("skparisk.model_selection.") for name in ours)
    return asked or names[-1] in ours


def refuse_private_records(estimators: Sequence[Any], records: Records) -> None:
    """Refuse what knows the private records, as long as these are whole."""
    X, y = rows_of(records.X), rows_of(records.y)
    own = RecordSketch.of(hide_values(as_records, X, "X"))
    samplers = find_samplers(estimators)
    if any(isinstance(s.reference, SecretSample | SecretDraw) for s in samplers):
        raise ValueError(
            "A SensitivitySampler of the estimator has a SecretSample as its "
            "reference, which no search takes: fits to parts of the records are other "
            "draws. Choose on public records, by simulate_scores, and fit once."
        )
    if any(known_of(sampler).has(own) for sampler in samplers):
        raise ValueError(
            "A SensitivitySampler of the estimator was fitted on private records, or "
            "has them as its reference: give it a public reference."
        )
    for estimator in estimators:
        frozen = leading_frozen_steps(estimator)
        parts = [step.estimator for step in frozen]
        whole = [make_pipeline(*frozen)] if frozen else []
        refuse_frozen_on(parts, whole, X, y)
    public = rows_of(records.X_reference)
    if public is None:
        return
    known = RecordSketch.of(as_records(public, "X_reference"))
    # One object with itself also where all its records are alike.
    if X is public or own.overlaps(known):
        raise ValueError(
            "X_reference must be public and must not share records with the "
            "training data."
        )


def find_samplers(estimators: Sequence[Any]) -> list[SensitivitySampler]:
    """Return the samplers that the private parts of estimators were given."""
    parts = [part for estimator in estimators for part in private_parts(estimator)]
    return [sampler for sampler in map(own_sampler, parts) if sampler is not None]
