"""What public records alone answer, and a release beside and together with that."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skparisk._simulated import is_simulated
from skparisk._threads import one_thread
from skparisk._training_data import SensitivitySource, TrainingData, public_table
from skparisk._weighing import Weighed, shape_of, units_of, weigh
from skparisk.core.checks import IncompatibleError, UtilityWarning, warn_caller
from skparisk.core.noise import AdditiveNoise
from skparisk.core.release import silenced
from skparisk.queries import Query
from skparisk.reference import Reference, TableReference
from skparisk.reference._comparison import ReferenceComparison
from skparisk.reference._records import n_rows, take_rows
from skparisk.sensitivity import SensitivitySampler
from skparisk.sensitivity._noise_shape import sampling_moments

Floats = NDArray[np.float64]
# Score of the model that an answer makes, on records and targets as queries have them.
Score = Callable[[Floats, Any, Any], float]

_N_FOLDS = 5
# Fits on half of the records, which tell how far the one on all of them may be off.
_N_HALVES = 100


class Alone(NamedTuple):
    """Numbers that public records come to alone, and scores of five such fits.

    Each of these is of four fifths of the records, on the others; None if there is no
    score. There may be no numbers either.
    """

    values: Floats | None
    scores: Floats | None = None
    # Numbers of these fits.
    folds: tuple[Floats, ...] = ()


@dataclass(frozen=True, eq=False)
class PublicFit:
    """A query that is asked about public records, as it is about private ones."""

    # That of the release, of so many records.
    query: Query
    X: Any
    y: Any
    n_records: int
    # What one would ask if there were no noise, where that is another query.
    usual: Query | None = None

    @classmethod
    def of(
        cls,
        table: TableReference,
        query: Query,
        data: TrainingData,
        n_records: int,
        usual: Query | None,
    ) -> PublicFit:
        """Return the fit on a table, in the form that private records have."""
        pool = table.pool.in_form("given" if query.any_table else "numbers").part()
        y = pool.y if query.needs_y else None
        return cls(query, pool.X, y, n_records, usual)

    @cached_property
    def n_public(self) -> int:
        return n_rows(self.X)

    @cached_property
    def whole(self) -> Floats | None:
        """The answer on all rows."""
        return self.answer(np.arange(self.n_public))

    @cached_property
    def alike(self) -> PublicFit:
        """The fit whose penalty for each record is that of the release."""
        query = self.query.resized(self.n_public / self.n_records)
        if query is self.query and self.usual is None:
            return self
        return replace(self, query=query, usual=None)

    def answer(self, rows: NDArray[np.intp]) -> Floats | None:
        """Return the answer on some rows, or None where there is none.

        A message would be about public records, but no release is to fail by what it is
        only compared with.
        """
        answer: Any = None
        with np.errstate(all="ignore"), silenced(), suppress(Exception):
            answer = self.query.detached()(
                take_rows(self.X, rows), take_rows(self.y, rows)
            )
        if answer is None or not np.isfinite(answer).all():
            return None
        return np.asarray(answer, dtype=np.float64)

    def variances(self, answer: Floats) -> Floats | None:
        """Return variances of the answer on all rows, by those on halves of them."""
        rng, n = np.random.default_rng(self.n_public), self.n_public
        left_out = max(1, n // 2)
        half = replace(self, query=self.query.resized((n - left_out) / n))
        others = (
            half.answer(np.sort(rng.permutation(n)[left_out:]))
            for _ in range(_N_HALVES)
        )
        moved = [(other - answer) ** 2 for other in others if other is not None]
        if not moved:
            return None
        return np.asarray((n - left_out) / left_out * np.mean(moved, axis=0))

    def weigh_with(
        self, released: Floats, alone: Floats, sampler: SensitivitySampler
    ) -> Weighed:
        """Return by how much to correct what public records come to alone."""
        assert isinstance(sampler.mechanism_, AdditiveNoise)
        alike = self.alike
        answer = alike.whole
        assert answer is not None
        moments = sampling_moments(
            sampler.pairs_, sampler.n_records_, str(sampler.certificate_.relation)
        )
        ratio = self.n_records / self.n_public
        # Pairs that are drawn from few rows differ by too much, as rows repeat.
        variances = alike.variances(answer) if 2 * ratio > 1 else None
        if variances is not None:
            moments = moments._replace(scales=np.sqrt(variances / ratio))
        noise, private = sampler.mechanism_.covariance(), moments.matrix()
        weights = self.query.output_weights(self.X, len(answer))
        units = units_of(noise + private * (1 + ratio))
        return weigh(
            released - answer,
            noise=noise,
            private=private,
            public=ratio * private,
            # Without weights people differ by as much as they vary.
            shape=private if weights is None else shape_of(weights, units),
            surplus=alone - answer,
        )

    def alone(self, score: Score | None) -> Alone:
        """Return what public records come to alone.

        By the usual query, which no noise is a reason to depart from, unless that of
        the release has a better score by more than a standard error.
        """
        if self.usual is None:
            return self._scored(score)
        usual = replace(self, query=self.usual, usual=None).alone(score)
        other = self.alike.alone(score)
        if usual.scores is not None and other.scores is not None:
            gains = other.scores - usual.scores
            if gains.mean() > gains.std(ddof=1) / math.sqrt(len(gains)):
                return other
        return other if usual.values is None else usual

    def compare(
        self, served: Floats, alone: Alone, score: Score, weight: float
    ) -> ReferenceComparison | None:
        """Compare numbers with public records alone; None without any score.

        The share of the public fit, 1 - `weight`, is that of a fit to the other folds
        on each fold.
        """
        if alone.scores is None or alone.values is None:
            return None
        scores: list[float] = []
        for fold, held in zip(alone.folds, self._folds, strict=True):
            numbers = served + (1 - weight) * (fold - alone.values)
            told = self._told(score, numbers, held)
            if told is None:
                return None
            scores.append(told)
        sizes = [len(held) for held in self._folds]
        private, public = (
            float(np.average(each, weights=sizes)) for each in (scores, alone.scores)
        )
        error = np.std(alone.scores - scores, ddof=1) / math.sqrt(_N_FOLDS)
        return ReferenceComparison(
            private, public, self.n_public, self.n_records, float(error)
        )

    @cached_property
    def _folds(self) -> list[NDArray[np.intp]]:
        """Return five parts of the rows, each of which has all classes."""
        mixed = np.random.default_rng(self.n_public).permutation(self.n_public)
        keys = np.asarray(self.y).reshape(self.n_public, -1)[mixed, 0]
        order = mixed[np.argsort(keys, kind="stable")]
        return [order[fold::_N_FOLDS] for fold in range(_N_FOLDS)]

    def _scored(self, score: Score | None) -> Alone:
        """Return the fit, with scores of those on four fifths, if all have one."""
        alone = Alone(self.whole)
        if score is None or self.y is None or self.n_public < 2 * _N_FOLDS:
            return alone
        scores: list[float] = []
        folds: list[Floats] = []
        for held in self._folds:
            others = np.ones(self.n_public, dtype=bool)
            others[held] = False
            answer = self.answer(np.flatnonzero(others))
            told = None if answer is None else self._told(score, answer, held)
            if answer is None or told is None:
                return alone
            scores.append(told)
            folds.append(answer)
        return Alone(self.whole, np.array(scores), tuple(folds))

    def _told(
        self, score: Score, answer: Floats, rows: NDArray[np.intp] | slice
    ) -> float | None:
        """Return the score of an answer on some rows, or None where there is none."""
        told: Any = None
        with np.errstate(all="ignore"), silenced(), suppress(Exception):
            told = score(answer, take_rows(self.X, rows), take_rows(self.y, rows))
        return None if told is None or not np.isfinite(told) else float(told)


class Start(Protocol):
    """A public fit that corrections were released to."""

    @property
    def numbers(self) -> Floats:
        """What it answers."""
        ...

    def weigh_with(self, released: Floats, sampler: SensitivitySampler) -> Weighed:
        """Return how much of what was released to add to it."""
        ...


class BesidePublicMixin:
    """Serve what was released, compared and weighed with a fit on public records."""

    released_: Floats
    private_weight_: float
    reference_shift_: Floats | None
    sampler_: SensitivitySampler | None
    # None also for those that have no such parameter, and are compared with nothing.
    combine: Any = None
    _combines: tuple[str, ...] = ("reference",)
    combine_: str | None = None
    reference_comparison_: ReferenceComparison | None = None

    def compare_with_reference(self) -> ReferenceComparison:
        """Return how the private model does beside one of the public records alone.

        Computed by `fit`, from what was released and what is public
        (:ref:`thm-combined`): no ledger is charged for it.

        Raises
        ------
        IncompatibleError
            If there is nothing to compare with: the reference is not a table of at
            least 10 public records with targets, the sensitivity was known or came
            from a sampler that was fitted already, or the estimator has no score.
        """
        check_is_fitted(self, "certificate_")
        if self.reference_comparison_ is None:
            raise IncompatibleError(
                "There is no comparison with the reference: it takes a table of at "
                "least 10 public records with targets, X_reference and y_reference of "
                "fit, on which the estimator can be fitted and scored."
            )
        return self.reference_comparison_

    def _check_combine(
        self, source: SensitivitySource, table: Reference | None
    ) -> None:
        """Refuse to weigh a release with public records that there are not."""
        public = public_table(source, table)
        corrects = getattr(getattr(source, "query_", None), "is_correction", False)
        if isinstance(public, str) and not corrects:
            self._refuse_combine(public)

    def _refuse_combine(self, reason: str) -> None:
        if self.combine == "reference":
            raise ValueError(
                "combine must be None unless pairs are sampled from a table of public "
                "records, for their fit to be corrected by the release or weighed with "
                f"it, but {reason}: give X_reference and y_reference; got "
                f"{self.combine!r}."
            )

    def _find_public_fit(
        self,
        source: SensitivitySource,
        query: Query,
        data: TrainingData,
        usual: Query | None = None,
    ) -> PublicFit | None:
        """Return the fit on public records that a release is compared with, if any.

        Before the release, after which the reference is no longer there. `usual` is
        what is asked of public records alone, unless it is the same query.
        """
        table = public_table(source, data.table)
        if isinstance(table, str) or data.reference_is_private:
            return None
        assert isinstance(source, SensitivitySampler)
        known = source.n_records
        n_records = data.n_records if known is None else int(known)
        public = PublicFit.of(table, query, data, n_records, usual)
        parts = (public, public.alike)
        if self.combine == "reference" and any(each.whole is None for each in parts):
            self._refuse_combine(f"{query} has no answer on all of them together")
        return public

    def _serve(
        self,
        released: Floats,
        public: PublicFit | None,
        unpack: Callable[[Any, Floats], None],
        decode: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
        start: Start | None = None,
    ) -> None:
        """Set what predicts, from what was released and from public records.

        With a `start`, what was released is a correction to that. `unpack` sets the
        numbers of a model, and `decode` returns targets as they were before they were
        numbers.
        """

        def score(numbers: Floats, X: Any, y: Any) -> float:
            other: Any = copy.copy(self)
            unpack(other, numbers)
            return float(other.score(X, decode(y)))

        unpack(self, released)
        self.released_ = served = released
        self.private_weight_, self.reference_shift_ = 1.0, None
        combined = start is not None or self.combine == "reference"
        self.combine_ = "reference" if combined else None
        self.reference_comparison_ = None
        compared = hasattr(self, "score") and not is_simulated()
        if start is None and (public is None or not (compared or combined)):
            return
        assert self.sampler_ is not None
        with one_thread():
            alone = Alone(None)
            if public is not None and (compared or combined):
                alone = public.alone(score if hasattr(self, "score") else None)
            if start is not None:
                weighed = start.weigh_with(released, self.sampler_)
                served = start.numbers + weighed.correction
            elif combined:
                assert public is not None
                assert alone.values is not None
                weighed = public.weigh_with(released, alone.values, self.sampler_)
                served = alone.values + weighed.correction
            if combined:
                self.private_weight_ = weighed.weight
                self.reference_shift_ = weighed.shift
                unpack(self, served)
            if public is not None and compared:
                self.reference_comparison_ = public.compare(
                    served, alone, score, self.private_weight_
                )
        found = self.reference_comparison_
        if found is not None and found.public_is_better:
            warn_caller(found.advice, UtilityWarning)
