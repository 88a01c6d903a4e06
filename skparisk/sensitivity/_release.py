"""Releasing answers with calibrated noise: what a fitted sampler does."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skparisk._callers import refuse_reference_in_other_units
from skparisk._checks import warn_private_reference, warn_redrawn
from skparisk._private_data import (
    validate_private,
    validate_private_records,
)
from skparisk._simulated import is_simulated
from skparisk.core.checks import IncompatibleError
from skparisk.core.claim import Certificate, Evidence, Leak
from skparisk.core.noise import AdditiveNoise, NoiseShape
from skparisk.core.pairs import SampledPairs, Withheld, norms_of_pairs
from skparisk.core.release import Plan, hide_values, release
from skparisk.core.sealed import PublicForm, Records, Sealed, seal
from skparisk.ledger import OPEN
from skparisk.ledger._open import refuse_without_level
from skparisk.mechanisms import Exponential, ExponentialChoice
from skparisk.neighbors import check_n_records
from skparisk.queries import Query, RecordQuery
from skparisk.reference._learned import refuse_learned_from
from skparisk.reference._parted import read_like
from skparisk.reference._records import Schema, as_targets
from skparisk.reference._secret import SecretDraw
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity._claim import ClaimOfPairs


class PairsNotKeptError(IncompatibleError, AttributeError):
    """There are no pairs to look at, so that attributes of pairs are missing."""


def _shown(path: str, doc: str) -> Any:
    """Return a property that shows what the certificate says."""
    read = attrgetter(path)  # by itself nothing that documentation can describe
    return property(lambda sampler: read(sampler), doc=doc)


class ReleaseMixin(OneToOneFeatureMixin, TransformerMixin):
    """Methods of a sampler that is fitted: they use what `fit` has set."""

    query: Any
    reference: Any
    noise_random_state: Any
    query_: Query
    mechanism_: AdditiveNoise | ExponentialChoice
    claim_: ClaimOfPairs
    _fit: Callable[..., Self]

    @property
    def certificate_(self) -> Certificate:
        """The whole claim; of pairs that turned out to be private, as it is then."""
        return self.claim_.certificate

    @property
    def pairs_(self) -> SampledPairs:
        """What was sampled, shared by all samplers that are calibrated from it."""
        return self.claim_.pairs

    @property
    def _evidence(self) -> Evidence:
        return self.certificate_.require_evidence()

    @property
    def n_pairs_(self) -> int:
        """Pairs that were sampled."""
        return (self._evidence.n_pairs or 0) + (self._evidence.n_shape_pairs or 0)

    n_records_ = _shown("_evidence.n_records", "Records of a database.")
    n_outputs_ = _shown("_evidence.n_outputs", "Released numbers.")
    sensitivity_ = _shown("_evidence.sensitivity", "What the noise is calibrated to.")
    noise_scale_ = _shown("_evidence.noise_scale", "Scale of the noise of each output.")
    noise_epsilon_ = _shown(
        "certificate_.noise_epsilon", "``sensitivity_ / noise_scale_``."
    )
    risk_ = _shown("certificate_.risk", "Achieved risk.")

    @property
    def differences_(self) -> NDArray[np.float64]:
        """Answer on the first database minus answer on the second, for each pair."""
        return self._kept_pairs().differences

    @property
    def sensitivities_(self) -> NDArray[np.float64]:
        """Norms of the pairs that calibrate, in the coordinates of the noise."""
        pairs = self._kept_pairs()
        pairs = pairs.take(slice(self._evidence.n_shape_pairs or 0, None))
        shape = getattr(self.mechanism_, "shape", NoiseShape())
        law = getattr(self.mechanism_, "law", Exponential())
        return norms_of_pairs(pairs, shape, law)

    def release(self, X: Any, y: Any = None) -> Any:
        """Answer the query on private data, with fresh noise.

        Each call spends its own privacy budget.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records, as many as were sampled (with "add-remove", or one
            less). A table of any kind for a query that takes one; columns of a data
            frame are given to it in the types of the public ones. With the draw of a
            :class:`~skparisk.SecretSample` as `reference`: all that were drawn from,
            though the query is answered about the members.

        y : array-like of shape (n_records,) or (n_records, n_targets), default=None
            Their targets.

        Returns
        -------
        released : ndarray of shape (n_outputs,) or int
            For "exponential" the index of the candidate that was chosen.

        Raises
        ------
        ValueError
            If the data or the answer are not finite numbers, targets are missing, or
            the data are records that the reference was learned from.

        IncompatibleError
            If the data have another number of records or of targets than was sampled
            for, labels for numbers, the answer another number of outputs, or the noise
            was seeded after `fit`; or steps of a Pipeline before it learn from them.

        BudgetExceededError
            If a ledger is open and refuses.

        Warns
        -----
        PrivacyLeakWarning
            If the data have records in common with the reference that the pairs were
            sampled from: the certificate then says so, and the pairs are dropped, also
            from samplers that share them. If another secret sample of the same records
            was released before.
        """
        check_is_fitted(self, "mechanism_")
        X, y = self._check_data(self.query_, X, y, reset=False)
        self._recognize(X, y)
        draw = self.reference if isinstance(self.reference, SecretDraw) else None
        if draw is not None:
            draw.check(X)
        return self._answer(X, y, draw)

    def _answer(
        self, X: Records, y: NDArray[Any] | None, draw: SecretDraw | None
    ) -> Any:
        """Answer about private records, or about those of them that were drawn."""
        self._check_noise()
        withheld = self.pairs_.withheld
        known = None if withheld is None else withheld.origin
        if known is not (None if draw is None else draw.origin):
            raise IncompatibleError(
                "The pairs were not sampled for the reference that there is now: a "
                "release about a secret sample takes the draw that the sampler was "
                "fitted with, half = SecretSample(fraction).draw(X, y), as its "
                "reference; fit again."
            )
        if draw is None:
            return self._answer_about(X, y)
        with draw.releasing() as others:
            if others:
                refuse_without_level(
                    "Another secret sample of the same records",
                    remedy="Draw once, half = SecretSample(fraction).draw(X, y), and "
                    "give reference=half to all fits.",
                )
                warn_redrawn()
                self.pairs_.add_leak(Leak.REDRAWN)
            return self._answer_about(*draw.take_members(X, y))

    def _answer_about(self, X: Records, y: NDArray[Any] | None) -> Any:
        private = self._seal(X, y)
        relation = str(self.certificate_.relation)
        check_n_records(private.n_records, self.n_records_, relation)
        return self._release_planned(self.query_, private)

    def _release_planned(self, query: Query | None, private: Sealed) -> Any:
        plan = Plan(
            query,
            lambda n_outputs: (self.mechanism_, self.certificate_),
            at_most=self.claim_.charge,
            charge=lambda certificate: self.claim_.charge,
            n_outputs=self.n_outputs_,
        )
        released, _ = release(
            plan,
            private,
            OPEN,
            note=str(self.query_),
            noise_random_state=self.noise_random_state,
        )
        return released

    def _seal(self, X: Records, y: NDArray[Any] | None) -> Sealed:
        """Return private records as the query was given public ones.

        Moved to the domain of the reference, in its types; what was moved is not said.
        """
        return seal(*self._in_domain(X, y), like=self._form)

    def _as_asked(
        self, X: Records, y: NDArray[Any] | None
    ) -> tuple[Records, NDArray[Any] | None]:
        """Return the same, open: for audits, which answer without noise."""
        X, y = self._in_domain(X, y)
        return X if self._form is None else self._form.read_features(X), y

    def _in_domain(
        self, X: Records, y: NDArray[Any] | None
    ) -> tuple[Records, NDArray[Any] | None]:
        domain = self.pairs_.domain
        return (X, y) if domain is None else hide_values(domain.clip, X, y)

    @property
    def _form(self) -> PublicForm | None:
        """What records are read in, if the query takes any table."""
        return self.pairs_.form if self.query_.any_table else None

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
            As `release`.
        """
        check_is_fitted(self, "mechanism_")
        if not isinstance(self.query_, RecordQuery):
            raise IncompatibleError(
                f"The pairs were sampled for the query {self.query_}, not for records "
                "by themselves: fit again."
            )
        X, _ = self._check_data(self.query_, X, None, reset=False)
        self._recognize(X, None)
        self._check_noise()
        return np.asarray(self._release_planned(None, self._seal(X, None)))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Sample from data and release the same data; warns, as they are private.

        With a `reference` nothing is sampled from them.

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
        private = self.reference is None
        if private:
            warn_private_reference()
        return self._fit(X, None, private=private).transform(X)

    def _recognize(self, X: Records, y: Any) -> None:
        """Drop the pairs, with a warning, if private records are in their reference."""
        refuse_learned_from(self.pairs_.learning, X, y)
        if self.pairs_.withheld is None:
            refuse_reference_in_other_units()
        sketch = self.pairs_.sketch
        if sketch is None or is_simulated():
            return
        if RecordSketch.of(X, y).overlaps(sketch):
            self.pairs_.withhold(Withheld())
            self.query_.forget_place()
            warn_private_reference()

    def _check_noise(self) -> None:
        """Refuse a release before there is an answer, if it does not fit a ledger."""
        if (self.noise_random_state is not None) != self.certificate_.seeded:
            raise IncompatibleError(
                f"noise_random_state={self.noise_random_state!r} was set after the "
                "certificate was made, so the certificate does not mention it: fit or "
                "calibrate again."
            )

    def _check_data(
        self, query: Query, X: Any, y: Any, *, reset: bool
    ) -> tuple[Records, NDArray[Any] | None]:
        if query.needs_y:
            check_given(query, y)
        if not reset and self.pairs_.form is not None:
            X, y = read_like(self.pairs_.form, X, y if query.needs_y else None)
        if query.any_table:
            return self._check_table(X, y if query.needs_y else None, reset=reset)
        if not query.needs_y:
            return validate_private(self, X, dtype=np.float64, reset=reset), None
        X, y = validate_private(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=reset
        )
        return X, hide_values(np.asarray, y, dtype=np.float64)

    def _check_table(
        self, X: Any, y: Any, *, reset: bool
    ) -> tuple[Records, NDArray[Any] | None]:
        """Return records as they are kept, and numbers or labels."""
        checked = validate_private_records(
            self, X, y, reset=reset, allow_nan=True, multi_output=True
        )
        X, y = (checked, None) if y is None else checked
        if not reset:
            assert self.pairs_.schema is not None
            self.pairs_.schema.check_same(Schema.of(X))
        return X, None if y is None else hide_values(as_targets, y)

    def _kept_pairs(self) -> SampledPairs:
        """Return the sampled pairs; where there are none, say why."""
        check_is_fitted(self, "mechanism_")
        if self.pairs_.withheld:
            raise PairsNotKeptError(
                "There are no sampled pairs: they came from private data and were not "
                "kept. Sample from a public reference."
            )
        return self.pairs_


def check_given(query: Query, y: Any) -> Any:
    """Return the targets, which the query takes."""
    if y is None:
        raise ValueError(f"y must be given because the query {query} takes targets.")
    return y


def _has_transform(sampler: ReleaseMixin) -> bool:
    return sampler.query is None


# After scikit-learn's own wrapping for set_output, which would hide the condition.
for _name in ("transform", "fit_transform"):
    _method = available_if(_has_transform)(getattr(ReleaseMixin, _name))
    setattr(ReleaseMixin, _name, _method)
