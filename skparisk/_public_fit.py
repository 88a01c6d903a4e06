"""A fit to the public records alone, and a release compared with it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skparisk._simulated import is_simulated
from skparisk._threads import one_thread
from skparisk._training_data import SensitivitySource, TrainingData, public_table
from skparisk.core.checks import IncompatibleError, warn_caller
from skparisk.core.release import unseen
from skparisk.exceptions import UtilityWarning
from skparisk.queries import Query
from skparisk.reference._base import RecordPool
from skparisk.reference._comparison import ReferenceComparison
from skparisk.sensitivity import SensitivitySampler

Floats = NDArray[np.float64]
# Score of the model that an answer makes, on records and targets as queries have them.
Score = Callable[[Floats, Any, Any], float]

_N_FOLDS, _N_DRAWS = 5, 7
# More than what a score is above that of a constant, of regressors and classifiers.
_WORTHLESS = 1.0


@dataclass(frozen=True, eq=False)
class PublicFit:
    """A query that is asked about public records, as it is about private ones."""

    query: Query
    # Its targets are None if the query takes none.
    pool: RecordPool
    # Of the private fit.
    n_records: int

    def answer(self, records: NDArray[np.intp]) -> Floats | None:
        """Return the answer on some records, or None where there is none.

        A message would be about public records, but no release is to fail by what it is
        only compared with.
        """
        answer: Any = None
        with unseen():
            answer = copy.deepcopy(self.query)(*self.pool.take(records))
        if answer is None or not np.isfinite(answer).all():
            return None
        return np.asarray(answer, dtype=np.float64)

    @cached_property
    def _whole(self) -> Floats | None:
        """The answer on all records."""
        return self.answer(np.arange(self.pool.n_records))

    def compare(
        self, served: Floats, score: Score, weight: float = 1.0
    ) -> ReferenceComparison | None:
        """Compare served numbers with the fit on public records; None without scores.

        By five parts of the records, each scored with a fit on the others. The share of
        the public fit in what is served, 1 - `weight`, is that of these fits as well.
        """
        rows = np.arange(self.pool.n_records)
        if self.pool.y is None or len(rows) < 2 * _N_FOLDS:
            return None
        whole, parts = self._whole, self._parts(rows)
        told: list[tuple[float, float]] = []
        for held in parts:
            alone = self.answer(np.setdiff1d(rows, held))
            if whole is None or alone is None:
                return None
            both = served + (1 - weight) * (alone - whole)
            scores = (self._told(score, each, held) for each in (both, alone))
            told.append((next(scores), next(scores)))
        private, public = np.array(told).T
        if not np.isfinite(told).all():
            return None
        sizes = [len(held) for held in parts]
        return ReferenceComparison(
            float(np.average(private, weights=sizes)),
            float(np.average(public, weights=sizes)),
            len(rows),
            self.n_records,
            float(np.std(public - private, ddof=1) / math.sqrt(_N_FOLDS)),
        )

    def lost(self, score: Score, noise: Floats) -> float:
        """Return how much of its score a public fit loses to noise: the most."""
        rows, whole = np.arange(self.pool.n_records), self._whole
        assert whole is not None  # it was scored before
        told = [self._told(score, whole + each, rows) for each in noise]
        # What has no score is lost altogether.
        worst = float(np.min(np.nan_to_num(told, nan=-math.inf)))
        return self._told(score, whole, rows) - worst

    def _parts(self, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Return five parts of the records, each of which has all classes."""
        mixed = np.random.default_rng(len(rows)).permutation(rows)
        firsts = np.asarray(self.pool.y)[self.pool.first_rows]
        keys = firsts.reshape(len(rows), -1)[mixed, 0]
        order = mixed[np.argsort(keys, kind="stable")]
        return [order[part::_N_FOLDS] for part in range(_N_FOLDS)]

    def _told(self, score: Score, answer: Floats, rows: NDArray[np.intp]) -> float:
        """Return the score of an answer on some records, NaN where there is none."""
        with unseen():
            return float(score(answer, *self.pool.take(rows)))
        return math.nan


class BesidePublicMixin:
    """Serve what was released, compared with a fit on public records."""

    released_: Floats
    _noise_draws: Callable[[int], Floats]
    # None also for those that are compared with nothing.
    reference_comparison_: ReferenceComparison | None = None

    def compare_with_reference(self) -> ReferenceComparison:
        """Return how the private model does beside one of the public records alone.

        Computed by `fit`, from what was released and what is public: no ledger is
        charged for it.

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

    @staticmethod
    def _find_public_fit(
        source: SensitivitySource, query: Query, data: TrainingData
    ) -> PublicFit | None:
        """Return the fit on public records that a release is compared with, if any.

        Before the release, after which the reference is no longer there.
        """
        table = public_table(source, data.table)
        if isinstance(table, str) or data.reference_is_private:
            return None
        assert isinstance(source, SensitivitySampler)
        known = source.n_records
        n_records = data.n_records if known is None else int(known)
        # In the form that private records have.
        pool = table.pool.in_form("given" if query.any_table else "numbers")
        pool = pool.like(pool.X, pool.y if query.needs_y else None)
        return PublicFit(query, pool, n_records)

    def _serve(
        self,
        served: Floats,
        public: PublicFit | None,
        unpack: Callable[[Any, Floats], None],
        decode: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
        weight: float = 1.0,
        serve_public: Callable[[], None] | None = None,
    ) -> None:
        """Set what predicts, and compare it with public records alone.

        `unpack` sets the numbers of a model, and `decode` returns targets as they were
        before they were numbers. `weight` is that of the release. `serve_public` is
        called if public records alone do better, and noise is the reason.
        """

        def score(numbers: Floats, X: Any, y: Any) -> float:
            other: Any = copy.copy(self)
            unpack(other, numbers)
            return float(other.score(X, decode(y)))

        unpack(self, served)
        self.reference_comparison_ = None
        if public is None or not hasattr(self, "score") or is_simulated():
            return
        with one_thread():
            found = public.compare(served, score, weight)
            if found and found.public_is_better and serve_public is not None:
                lost = public.lost(score, self._noise_draws(_N_DRAWS))
                # Else private people are others than public ones. Beyond the loss to a
                # constant, one draw of noise may cost many times another.
                if lost > min(found.gap, _WORTHLESS) / 2:
                    serve_public()
                    found = replace(found, serves_public=True)
        if found is not None and found.public_is_better:
            warn_caller(found.advice, UtilityWarning)
        self.reference_comparison_ = found
