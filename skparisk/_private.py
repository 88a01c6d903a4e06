"""What private estimators share: one query, answered once, with noise."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags

from skparisk._secure_noise import noise_source
from skparisk._validate import (
    check_at_least,
    check_epsilon,
    check_n_jobs,
    check_positive,
    check_probability,
    check_verbose,
)
from skparisk.calibration import RiskCertificate
from skparisk.exceptions import (
    IncompatibleError,
    warn_if_seeded,
)
from skparisk.mechanisms import LaplaceMechanism
from skparisk.neighbors import check_n_records
from skparisk.queries import Query, answer_private
from skparisk.reference import TableReference, fingerprint
from skparisk.sensitivity import SensitivitySampler

__all__ = [
    "PrivateMixin",
    "SensitivitySource",
    "reference_table",
    "samples_training_data",
]

SensitivitySource: TypeAlias = SensitivitySampler | float | str


class PrivateMixin:
    """Release the answer of a query, and say what that guarantees."""

    epsilon: Any
    gamma: Any
    sensitivity: Any
    n_jobs: Any
    random_state: Any
    noise_random_state: Any
    verbose: Any
    certificate_: RiskCertificate

    def _check_privacy(
        self, bound_parameters: Mapping[str, Any] | None = None
    ) -> SensitivitySource:
        """Return where the sensitivity comes from, with all parameters checked.

        `bound_parameters` are the values of what is declared for "bound" alone, None
        for an estimator without a proven bound.
        """
        check_epsilon(self.epsilon)
        check_probability(self.gamma, "gamma")
        noise_source(self.noise_random_state)
        check_n_jobs(self.n_jobs)
        check_verbose(self.verbose)
        source = self.sensitivity
        if isinstance(source, FrozenEstimator):
            source = source.estimator
        proven = bound_parameters is not None
        if isinstance(source, str) and source == "bound" and proven:
            return "bound"
        declared = bound_parameters or {}
        if any(value is not None for value in declared.values()):
            values = " and ".join(repr(value) for value in declared.values())
            raise ValueError(
                f"{' and '.join(declared)} must be None unless sensitivity='bound', "
                f"which alone clips rows; got {values}."
            )
        if source is None:
            return SensitivitySampler()
        if isinstance(source, SensitivitySampler):
            return source
        if isinstance(source, Real) and not isinstance(source, bool):
            return check_positive(source, "sensitivity")
        raise ValueError(
            "sensitivity must be None, a SensitivitySampler (also in a "
            f"FrozenEstimator){', ' if proven else ' or '}a finite number above 0"
            f"{' or ' if proven else ''}{repr('bound') if proven else ''}; got "
            f"{source!r}."
        )

    def _release(
        self,
        source: SensitivitySource,
        query: Query,
        X: Any,
        features: NDArray[np.float64],
        y: NDArray[np.float64] | None,
        table: TableReference | None,
    ) -> NDArray[np.float64]:
        """Answer with noise for a sampled or a declared sensitivity; keep the claim.

        `features` is `X` as an array; `X` itself may have names of columns.
        """
        if not isinstance(source, SensitivitySampler):
            return self._release_known(query, features, y, float(source), "declared")
        sampler = self._fit_sampler(source, query, X, features, y, table)
        # Drops the pairs, with a warning, if they came from these very data.
        released = sampler.release(X, y)
        self._keep_claim(sampler.certificate_, sampler)
        return released

    def _release_known(
        self,
        query: Query,
        X: NDArray[np.float64],
        y: NDArray[np.float64] | None,
        sensitivity: float,
        calibration: str,
    ) -> NDArray[np.float64]:
        """Answer with noise for a sensitivity that is known: risk 0."""
        answer = answer_private(query, X, y)
        mechanism = LaplaceMechanism(sensitivity, self.epsilon, len(answer))
        certificate = RiskCertificate(
            epsilon=float(self.epsilon),
            gamma=0.0,
            risk=0.0,
            sensitivity=sensitivity,
            noise_scale=mechanism.noise_scale,
            n_records=len(X),
            n_outputs=len(answer),
            randomness="explicit",
            calibration=calibration,
            seeded=self.noise_random_state is not None,
        )
        warn_if_seeded(self.noise_random_state)
        released = mechanism.noise.release(
            answer,
            charges=[certificate.as_guarantee()],
            note=str(query),
            noise_random_state=self.noise_random_state,
        )
        self._keep_claim(certificate, None)
        return released

    def _fit_sampler(
        self,
        source: SensitivitySampler,
        query: Query,
        X: Any,
        features: NDArray[np.float64],
        y: NDArray[np.float64] | None,
        table: TableReference | None,
    ) -> SensitivitySampler:
        """Return a sampler that is fitted for this query, target and data."""
        fitted = hasattr(source, "certificate_")
        if source.mechanism == "exponential":
            raise ValueError(
                "mechanism of the SensitivitySampler must add noise to numbers, got "
                "'exponential', which chooses a candidate."
            )
        if table is not None and (fitted or source.reference is not None):
            raise ValueError(
                "X_reference must be None where the SensitivitySampler has a "
                "reference or is fitted already: there can be one reference only."
            )
        if fitted:
            if source.reference_fingerprint_ == fingerprint(features):
                raise ValueError(
                    "sensitivity must not be a SensitivitySampler that was fitted on "
                    "the training data, whose pairs would stay in the parameters."
                )
            if source.query_ != query:
                raise IncompatibleError(
                    f"The SensitivitySampler was fitted for {source.query_}, and "
                    f"{query} is to be released."
                )
            reused = copy.copy(source)
            if self.noise_random_state is not None:
                reused.noise_random_state = self.noise_random_state
            return reused.calibrate(epsilon=self.epsilon, gamma=self.gamma)
        if source.query is not None and source.query != query:
            raise IncompatibleError(
                f"The SensitivitySampler has the query {source.query}, and {query} "
                "is to be released: leave the query None."
            )
        sampler: SensitivitySampler = clone(source)
        own = ("n_jobs", "random_state", "noise_random_state", "verbose")
        overrides = {name: getattr(self, name) for name in own}
        sampler.set_params(
            query=query,
            epsilon=self.epsilon,
            gamma=self.gamma,
            **{name: value for name, value in overrides.items() if value is not None},
        )
        if sampler.n_records is not None:
            check_at_least(sampler.n_records, "n_records", 1)
            check_n_records(len(features), sampler.n_records, sampler.relation)
        if _is_table_of(sampler.reference, features):
            raise ValueError(
                "reference must not be the training data, which would stay in the "
                "parameters: leave it None to sample from them with a warning."
            )
        if table is not None:
            sampler.set_params(reference=table).fit(X, y)
            # The table is no part of a model; the sampled pairs stand for it.
            return sampler.set_params(reference=None, n_records=sampler.n_records_)
        return sampler.fit(X, y)

    def _keep_claim(
        self, certificate: RiskCertificate, sampler: SensitivitySampler | None
    ) -> None:
        """Set what is known of the release besides the released numbers."""
        self.sampler_ = sampler
        self.certificate_ = certificate
        self.epsilon_ = certificate.epsilon
        self.gamma_ = certificate.gamma
        self.risk_ = certificate.risk
        self.confidence_ = certificate.confidence
        self.sensitivity_ = certificate.sensitivity
        self.noise_scale_ = certificate.noise_scale
        self.noise_epsilon_ = certificate.noise_epsilon

    def __sklearn_tags__(self) -> Tags:
        return self._as_noisy(super().__sklearn_tags__())  # type: ignore[misc]

    def _as_noisy(self, tags: Tags) -> Tags:
        """Return tags of an estimator that adds noise, unless `epsilon` is infinite."""
        noisy = self.epsilon != math.inf
        tags.non_deterministic = noisy and self.noise_random_state is None
        # The noise may well exceed the signal of a small data set.
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score |= noisy
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score |= noisy
        return tags


def samples_training_data(source: SensitivitySource) -> bool:
    """Tell if pairs will be sampled from the data that are fitted, but for a table."""
    return (
        isinstance(source, SensitivitySampler)
        and source.reference is None
        and source.randomness != "explicit"
        and not hasattr(source, "certificate_")
    )


def reference_table(X: Any, y: Any) -> TableReference | None:
    """Return the public records that `fit` was given, with their targets, if any."""
    if (X is None) != (y is None):
        raise ValueError("X_reference and y_reference must be given together.")
    return None if X is None else TableReference(X, y)


def _is_table_of(reference: Any, X: NDArray[np.float64]) -> bool:
    return isinstance(reference, TableReference) and (
        reference.fingerprint == fingerprint(X)
    )
