"""Releasing answers with calibrated noise: what a fitted sampler does."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from skparisk._private_data import hide_values, validate_private
from skparisk.calibration import RiskCertificate
from skparisk.exceptions import (
    IncompatibleError,
    warn_if_seeded,
    warn_private_reference,
)
from skparisk.mechanisms import AdditiveNoise, ExponentialChoice
from skparisk.neighbors import check_n_records
from skparisk.queries import Query, RecordQuery, answer_private
from skparisk.reference import fingerprint

__all__ = ["ReleaseMixin"]


class ReleaseMixin(OneToOneFeatureMixin, TransformerMixin):
    """Methods of a sampler that is fitted: they use what `fit` has set."""

    query: Any
    noise_random_state: Any
    certificate_: RiskCertificate
    mechanism_: AdditiveNoise | ExponentialChoice
    query_: Query
    n_records_: int
    n_outputs_: int
    reference_fingerprint_: bytes | None

    def release(self, X: Any, y: Any = None) -> Any:
        """Answer the query on private data, with fresh noise.

        Each call spends its own privacy budget.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records, as many as were sampled (with "add-remove", or one
            less).

        y : array-like of shape (n_records,) or (n_records, n_targets), default=None
            Their targets.

        Returns
        -------
        released : ndarray of shape (n_outputs,) or int
            For "exponential" the index of the candidate that was chosen.

        Raises
        ------
        ValueError
            If the data or the answer are not finite numbers, or targets are missing.

        IncompatibleError
            If the data have another number of records than was sampled for, the
            answer another number of outputs, or the noise was seeded after `fit`.

        BudgetExceededError
            If a ledger is open and refuses.

        Warns
        -----
        PrivacyLeakWarning
            If the data are the very ones that the pairs were sampled from: the
            certificate then says so, and the pairs are dropped.
        """
        check_is_fitted(self, "certificate_")
        X, y = self._check_data(self.query_, X, y, reset=False)
        check_n_records(len(X), self.n_records_, self.certificate_.relation)
        answer = answer_private(self.query_, X, y)
        if len(answer) != self.n_outputs_:
            raise IncompatibleError(
                f"The query was sampled with {self.n_outputs_} outputs and returned "
                "another number of them on the private data."
            )
        self._withhold_own_reference(X)
        return self._add_noise(answer, self.certificate_)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Release each record by itself, with fresh noise (``query=None`` only).

        Each record is protected by itself, so no one who collects records needs
        to be trusted. Each call spends its own privacy budget.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Private records.

        Returns
        -------
        released : ndarray of shape (n_rows, n_features)

        Warns
        -----
        PrivacyLeakWarning
            If these are the very data that the pairs were sampled from.
        """
        check_is_fitted(self, "certificate_")
        if not isinstance(self.query_, RecordQuery):
            raise IncompatibleError(
                f"The pairs were sampled for the query {self.query_}, and not for "
                "records by themselves: fit again."
            )
        X, _ = self._check_data(self.query_, X, None, reset=False)
        certificate = self.certificate_
        if self._is_own_reference(X):
            warn_private_reference()
            certificate = _over_private_data(certificate)
        return self._add_noise(X, certificate)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Sample from data and release the same data; warns, as they are private.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Private records.

        y : ignored
            For the interface of scikit-learn.

        Returns
        -------
        released : ndarray of shape (n_rows, n_features)
        """
        self.fit(X)
        self._withhold_own_reference(X)
        return self.transform(X)

    def withhold_pairs(self) -> Self:
        """Drop the sampled pairs, and certify that the reference was private.

        Returns
        -------
        self : SensitivitySampler
        """
        self._check_pairs_kept()
        del self.differences_, self.difference_errors_, self.sensitivities_
        self.reference_fingerprint_ = None
        self.certificate_ = _over_private_data(self.certificate_)
        return self

    def _withhold_own_reference(self, X: Any) -> None:
        if self._is_own_reference(X):
            warn_private_reference()
            self.withhold_pairs()

    def _is_own_reference(self, X: Any) -> bool:
        known = self.reference_fingerprint_
        return known is not None and known == fingerprint(np.asarray(X, np.float64))

    def _add_noise(
        self, answers: NDArray[np.float64], certificate: RiskCertificate
    ) -> Any:
        if (self.noise_random_state is not None) != self.certificate_.seeded:
            raise IncompatibleError(
                f"noise_random_state={self.noise_random_state!r} was set after the "
                "certificate was made, which does not say so: fit or calibrate again."
            )
        warn_if_seeded(self.noise_random_state)
        add = (
            self.mechanism_.choose
            if isinstance(self.mechanism_, ExponentialChoice)
            else self.mechanism_.release
        )
        charges = [certificate.as_guarantee()]  # rows of records are different people's
        return add(
            answers,
            charges=charges,
            note=str(self.query_),
            noise_random_state=self.noise_random_state,
        )

    def _check_data(
        self, query: Query, X: Any, y: Any, *, reset: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        # The reference is public, unless an estimator has checked it before.
        validate = validate_data if reset else validate_private
        if not query.needs_y:
            return validate(self, X, dtype=np.float64, reset=reset), None
        if y is None:
            raise ValueError(f"y must be given, as the query {query} takes targets.")
        X, y = validate(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=reset
        )
        return X, hide_values(np.asarray, y, dtype=np.float64)

    def _check_pairs_kept(self) -> None:
        check_is_fitted(self, "certificate_")
        if not hasattr(self, "sensitivities_"):
            raise IncompatibleError(
                "There are no sampled pairs: they came from private data and were not "
                "kept, or the sensitivity was given. Sample from a public reference."
            )


def _over_private_data(certificate: RiskCertificate) -> RiskCertificate:
    return dataclasses.replace(
        certificate,
        reference="resamples of the private data themselves",
        reference_is_private=True,
        curve=(),
    )


def _has_transform(sampler: ReleaseMixin) -> bool:
    return sampler.query is None


# After scikit-learn's own wrapping for set_output, which would hide the condition.
for _name in ("transform", "fit_transform"):
    _method = available_if(_has_transform)(getattr(ReleaseMixin, _name))
    setattr(ReleaseMixin, _name, _method)
