"""The audited model as a function that maps a database to released numbers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from skparisk.core.checks import IncompatibleError
from skparisk.core.claim import Certificate, as_certificate
from skparisk.core.laws import Law
from skparisk.core.noise import AdditiveNoise
from skparisk.core.release import silenced
from skparisk.queries._state import find_places, read
from skparisk.reference._records import as_records, as_targets, n_rows
from skparisk.sensitivity import SensitivitySampler

# X, or (X, y).
Records: TypeAlias = tuple[Any, ...]
Pair: TypeAlias = tuple[Records, Records]

# Attributes that describe a release, with many numbers of public pairs.
DESCRIBED = ("sampler_", "certificate_", "template_")
_MOST_NUMBERS = 1000


@dataclass(frozen=True, eq=False)
class KnownNoise:
    """The noise that a fitted model says it adds to the answers of its query."""

    sampler: SensitivitySampler
    noise: AdditiveNoise

    @classmethod
    def of(cls, fitted: Any) -> Self | None:
        """Return that of a fitted model; None where it has no pairs, or no noise."""
        sampler = getattr(fitted, "sampler_", None)
        if not isinstance(sampler, SensitivitySampler):
            return None
        noise = sampler.mechanism_
        if not isinstance(noise, AdditiveNoise) or not noise.steps:
            return None
        return cls(sampler, noise)

    @property
    def law(self) -> Law:
        law: Law = self.noise.law
        return law

    def answer(self, records: Records) -> NDArray[np.float64]:
        """Return the answer on a database, without noise."""
        X = as_records(records[0], "X")
        y = as_targets(records[1]) if len(records) > 1 else None
        query = copy.deepcopy(self.sampler.query_)
        return query(*self.sampler._as_asked(X, y if query.needs_y else None))

    def shift(self, first: Records, second: Records) -> float:
        """Return the distance of two answers over the noise scale; inf without one."""
        try:
            moved = self.answer(first) - self.answer(second)
        except Exception:  # which tells the databases apart by itself
            return math.inf
        white = self.noise.shape.whiten(moved[np.newaxis])
        scale = self.noise.noise_scale
        return float(np.linalg.norm(white[0], ord=self.law.norm)) / scale

    def allowed(self, shift: float, claim: Certificate) -> tuple[float, float]:
        """Return the level that a distance has, and the delta that it is one at."""
        if self.law.bounded:
            size = {"n_outputs": self.noise.n_outputs, "steps": self.noise.steps}
            return float(self.law.levels(np.array([shift]), 0.0, **size)[0]), 0.0
        delta = float(self.law.profile(claim.epsilon, shift)) if shift else 0.0
        return claim.epsilon, min(delta * (1 + 1e-6) + 1e-12, 1.0)

    def advantage(self, shift: float) -> float:
        """Return how far apart releases are at a distance, at most."""
        size = {"n_outputs": self.noise.n_outputs, "steps": self.noise.steps}
        return float(self.law.advantage([shift], **size)[0])


@dataclass(frozen=True, eq=False)
class Audited:
    """Something to audit: how it is released, what it claims, what noise it states."""

    name: str
    release: Callable[..., Any]
    claim: Certificate
    known: KnownNoise | None
    # What fits raised, once releases are drawn: they count as releases without numbers.
    failures: list[Exception] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        estimator: Any,
        databases: Pair,
        fit_params: Mapping[str, Any] | None,
        claim: Any,
    ) -> Audited:
        """Fit it to both databases of a first pair, to see what it releases."""
        stated = None if claim is None else as_certificate(claim)
        name = getattr(estimator, "__name__", type(estimator).__name__)
        if not hasattr(estimator, "fit"):
            if not callable(estimator) or stated is None:
                raise ValueError(
                    "estimator must have fit, or be a callable that maps a database to "
                    f"numbers, with a claim such as claim=1.0; got {estimator!r} with "
                    f"claim={claim!r}."
                )
            return cls(name, estimator, stated, None)
        params = dict(fit_params or {})
        fitted = _first_fit(estimator, databases[0], params)
        stated = getattr(fitted, "certificate_", None) if stated is None else stated
        if not isinstance(stated, Certificate):
            raise ValueError(
                f"claim must be given for a {name}, which has no certificate_: a "
                "Certificate, or numbers such as 1.0 or (1.0, 1e-6)."
            )
        if stated.protects_membership:
            raise IncompatibleError(
                "An audit compares two databases, but the claim of a SecretSample is "
                "about which records of one database are used. Audit its release as a "
                "callable that draws them anew."
            )
        sampler = getattr(fitted, "sampler_", None)
        known = None
        if isinstance(sampler, SensitivitySampler):
            if sampler.pairs_.learning is not None:
                raise IncompatibleError(
                    "An audit with a LearnedReference would learn it anew for each "
                    "release. Give the law that was learned as the reference, "
                    "X_reference=model.sampler_.reference, and audit that."
                )
            # The pairs are public, and drawn once: what is audited is the release.
            kept: dict[str, Any] = {"sensitivity": FrozenEstimator(sampler)}
            own = estimator.get_params(deep=False)
            if "classes" in own and hasattr(fitted, "classes_"):
                kept["classes"] = fitted.classes_
            estimator, params = clone(estimator).set_params(**kept), {}
            known = KnownNoise.of(fitted) if math.isfinite(stated.epsilon) else None
        places = places_of(
            [_first_fit(estimator, each, params) for each in (*databases, *databases)]
        )
        if not places:
            raise ValueError(f"estimator must learn numbers, but {name} has none.")

        failures: list[Exception] = []

        def release(database: Records) -> NDArray[np.float64]:
            try:
                fitted = fit_to(estimator, database, params)
            except (MemoryError, OSError):  # of the machine
                raise
            except Exception as error:
                failures.append(error)
                return np.full(sum(places.values()), np.nan)
            return numbers_of(fitted, places)

        return cls(name, release, stated, known, failures)


def fit_to(estimator: Any, database: Records, params: Mapping[str, Any]) -> Any:
    """Return a copy that is fitted to a database, without its warnings."""
    with silenced():
        return clone(estimator).fit(*database, **params)


def _first_fit(estimator: Any, database: Records, params: Mapping[str, Any]) -> Any:
    """Return a fit, or say that it failed before anything was attacked."""
    try:
        return fit_to(estimator, database, params)
    except Exception as error:
        error.add_note(
            f"It was raised by the fit of a {type(estimator).__name__} to a database "
            f"of {n_rows(database[0])} records of the first pair, before any attack."
        )
        raise


def places_of(fits: list[Any]) -> dict[str, int]:
    """Return the numbers to look at, and how many there are at each place.

    Those that differ among fits if any do; parameters are no result of a fit.
    """
    sizes: dict[str, int] = {}
    values: dict[str, list[bytes]] = {}
    for fitted in fits:
        params = fitted.get_params(deep=False) if hasattr(fitted, "get_params") else ()
        skipped = {*params, *DESCRIBED}
        for place, value in find_places(fitted):
            if place.partition(".")[0] in skipped or isinstance(value, str):
                continue
            if isinstance(value, np.ndarray | np.number | int | float):
                numbers = np.asarray(value)
                if numbers.dtype.kind in "iufb" and numbers.size <= _MOST_NUMBERS:
                    sizes[place] = max(sizes.get(place, 0), numbers.size)
                    values.setdefault(place, []).append(numbers.tobytes())
    moved = {place: size for place, size in sizes.items() if len({*values[place]}) > 1}
    return moved or sizes


def numbers_of(fitted: Any, places: Mapping[str, int]) -> NDArray[np.float64]:
    """Return the numbers at the places, NaN where there are fewer."""
    found = np.full(sum(places.values()), np.nan)
    start = 0
    for place, size in places.items():
        try:
            values = np.ravel(np.asarray(read(fitted, place), dtype=np.float64))[:size]
            found[start : start + len(values)] = values
        except (AttributeError, LookupError):  # this fit has no such number
            pass
        start += size
    return found
