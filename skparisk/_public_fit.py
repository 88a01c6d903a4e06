"""A fit to the public records alone, and a release compared with it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skparisk._hints import noise_draws
from skparisk._simulated import is_simulated
from skparisk._threads import one_thread
from skparisk._training_data import SensitivitySource, TrainingData, public_table
from skparisk.core.checks import IncompatibleError, warn_caller
from skparisk.core.release import unseen
from skparisk.exceptions import UtilityWarning
from skparisk.queries import Query
from skparisk.reference import TableReference
from skparisk.reference._base import RecordPool
from skparisk.reference._comparison import ReferenceComparison
from skparisk.sensitivity import SensitivitySampler

Floats = NDArray[np.float64]
# Score of the model that an answer makes, on records and targets as queries have them.
Score = Callable[[Floats, Any, Any], float]

_N_FOLDS, _N_DRAWS = 5, 9
# More than what a score is above that of a constant, of regressors and classifiers.
_WORTHLESS = 1.0
# Of a score: less is not worth a refusal.
_MARGIN = 0.02
# Noise is tried at so many halves.
_HALVES = 12


@dataclass(frozen=True)
class NoiseCost:
    """What noise costs a fit of public records, by their cross-validated score."""

    # Score without noise.
    public: float
    # What private records may add: as much as the last half of the public ones, which
    # is what any number more add where errors fall as 1 / n.
    gain: float
    # The cost of a share of the noise: the median over draws.
    of_share: Callable[[float], float]

    @cached_property
    def whole(self) -> float:
        """The cost of the noise."""
        return self.of_share(1.0)

    def explains(self, gap: float) -> bool:
        """Tell if it is the reason that a release scores so much less.

        Beyond the loss to a constant, one draw of noise may cost many times another.
        """
        return self.whole > min(gap, _WORTHLESS) / 2

    def refuse(self, kind: str, epsilon: float, n_records: int) -> None:
        """Refuse a release that would be worse than a fit of public records."""
        most = self.gain + _MARGIN
        if self.whole <= most:
            return
        powers = (2**power for power in range(1, _HALVES + 1))
        enough = next((each for each in powers if self.of_share(1 / each) <= most), 0)
        when = f", also at {2**_HALVES} times the epsilon"
        if enough:
            when = (
                f"; at epsilon={epsilon * enough:.3g}, or with {n_records * enough:,} "
                "records, it would be as good"
            )
        lost = f"{self.whole:.2g}" if self.whole < _WORTHLESS else "more than 1"
        raise IncompatibleError(
            f"With {n_records:,} records and epsilon={epsilon:.3g}, this {kind} would "
            f"be worse than one of the public records alone{when}. That one scores "
            f"{self.public:.2g} (cross-validated), and with such noise {lost} less, of "
            f"which more records make up about {self.gain:.2g}. Nothing was released "
            "or charged. Serve a fit to the public records, or take a linear model or "
            "a forest, which correct such a fit; in Python, combine=None releases it "
            "anyway."
        )


@dataclass(frozen=True, eq=False)
class PublicFit:
    """A query that is asked about public records, as it is about private ones."""

    query: Query
    # Its targets are None if the query takes none.
    pool: RecordPool
    # Of the private fit.
    n_records: int
    # Score on the second rows of what serves a fit to the first, if that is more than
    # the answer: as of predictions at points.
    score_fit: Callable[[Any, Any, Any, Any], float] | None = None

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
    def _folds(self) -> list[tuple[NDArray[np.intp], Floats]] | None:
        """Five parts of the rows, each with the answer on the others, if any."""
        rows = np.arange(self.pool.n_records)
        if self.pool.y is None or len(rows) < 2 * _N_FOLDS:
            return None
        found = []
        for held in self._parts(rows, _N_FOLDS):
            alone = self.answer(np.setdiff1d(rows, held))
            if alone is None:
                return None
            found.append((held, alone))
        return found

    def compare(
        self, served: Floats, score: Score, weight: float = 1.0
    ) -> ReferenceComparison | None:
        """Compare served numbers with the fit on public records; None without scores.

        By five parts of the records, each scored with a fit on the others. The share of
        the public fit in what is served, 1 - `weight`, is that of these fits as well.
        """
        rows = np.arange(self.pool.n_records)
        if (folds := self._folds) is None or (whole := self.answer(rows)) is None:
            return None
        added = [(1 - weight) * (alone - whole) for _, alone in folds]
        private = np.array(
            [
                self._told(score, served + each, held)
                for each, (held, _) in zip(added, folds, strict=True)
            ]
        )
        public = self._scores_alone(score)
        if not np.isfinite([private, public]).all():
            return None
        sizes = [len(held) for held, _ in folds]
        return ReferenceComparison(
            float(np.average(private, weights=sizes)),
            float(np.average(public, weights=sizes)),
            len(rows),
            self.n_records,
            float(np.std(public - private, ddof=1) / math.sqrt(_N_FOLDS)),
        )

    def cost_of(self, score: Score, sampler: SensitivitySampler) -> NoiseCost | None:
        """Return what the noise of a sampler costs; None without scores."""
        if (folds := self._folds) is None:
            return None

        noise = noise_draws(sampler, _N_DRAWS)

        def mean(answers: Iterable[Floats | None]) -> float:
            told = [
                -math.inf if each is None else self._told(score, each, held)
                for each, (held, _) in zip(answers, folds, strict=True)
            ]
            return float(np.mean(np.nan_to_num(told, nan=-math.inf)))

        def of_share(share: float) -> float:
            drawn = [mean(alone + share * each for _, alone in folds) for each in noise]
            return public - float(np.median(drawn))

        def half(held: NDArray[np.intp]) -> Floats | None:
            others = np.setdiff1d(np.arange(self.pool.n_records), held)
            return self.answer(self._parts(others, 2)[0])

        plain = mean(alone for _, alone in folds)
        public = float(np.mean(self._scores_alone(score)))
        if not math.isfinite(public):
            return None
        gain = plain - mean(half(held) for held, _ in folds)
        return NoiseCost(public, gain if 0 < gain < math.inf else 0.0, of_share)

    def _scores_alone(self, score: Score) -> Floats:
        """Return the score of each fifth of the rows, with a fit to the others."""
        assert self._folds is not None
        if self.score_fit is None:
            told = [self._told(score, each, held) for held, each in self._folds]
            return np.array(told)
        scores = np.full(_N_FOLDS, math.nan)
        with unseen():
            for fold, (held, _) in enumerate(self._folds):
                rows = np.setdiff1d(np.arange(self.pool.n_records), held), held
                parts = (part for some in rows for part in self.pool.take(some))
                scores[fold] = self.score_fit(*parts)
        return scores

    def _parts(self, rows: NDArray[np.intp], n_parts: int) -> list[NDArray[np.intp]]:
        """Return parts of records, each of which has all classes."""
        mixed = np.random.default_rng(len(rows)).permutation(rows)
        firsts = np.asarray(self.pool.y)[self.pool.first_rows]
        keys = firsts.reshape(self.pool.n_records, -1)[mixed, 0]
        order = mixed[np.argsort(keys, kind="stable")]
        return [order[part::n_parts] for part in range(n_parts)]

    def _told(self, score: Score, answer: Floats, rows: NDArray[np.intp]) -> float:
        """Return the score of an answer on some records, NaN where there is none."""
        with unseen():
            return float(score(answer, *self.pool.take(rows)))
        return math.nan


class BesidePublicMixin:
    """Serve what was released, compared with a fit on public records."""

    released_: Floats
    # None also for those that are compared with nothing.
    reference_comparison_: ReferenceComparison | None = None

    def compare_with_reference(self) -> ReferenceComparison:
        """Compare the private model with a fit to the public records alone.

        `fit` computes it from the release and public records, so ledgers do not charge
        it.

        Raises
        ------
        IncompatibleError
            If there is nothing to compare with: the reference is not a table of at
            least 10 public records with targets, the sensitivity was known or came from
            a fitted sampler, or the estimator has no score. Trees have none either,
            because their splits know these records, unless they score less than public
            trees all the same.
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
        """Return the fit to compare with, while the reference is still there."""
        table = data.table if source == "bound" else public_table(source, data.table)
        if not isinstance(table, TableReference) or data.reference_is_private:
            return None
        known = getattr(source, "n_records", None)
        n_records = data.n_records if known is None else int(known)
        # In the form that private records have.
        pool = table.pool.in_form("given" if query.any_table else "numbers")
        pool = pool.like(pool.X, pool.y if query.needs_y else None)
        if query.targets_of(pool.y)[0] is None:  # weights, and no targets
            pool = pool.like(pool.X, None)
        return PublicFit(query, pool, n_records)

    def _serve(
        self,
        served: Floats,
        public: PublicFit | None,
        unpack: Callable[[Any, Floats], None],
        decode: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
        weight: float = 1.0,
        cost: NoiseCost | None = None,
        serve_public: Callable[[], None] | None = None,
    ) -> None:
        """Set what predicts, and compare it with public records alone.

        `unpack` sets the numbers of a model, and `decode` returns targets as they were
        before they were numbers. `weight` is that of the release. `serve_public` is
        called if public records alone do better, and the `cost` of noise explains it:
        else private people are others than public ones.
        """
        unpack(self, served)
        self.reference_comparison_ = None
        if public is None or not hasattr(self, "score") or is_simulated():
            return
        with one_thread():
            score = self._scorer(unpack, decode, public.query)
            found = public.compare(served, score, weight)
        if found and found.public_is_better and cost and cost.explains(found.gap):
            assert serve_public is not None
            serve_public()
            found = replace(found, serves_public=True)
        if found is not None and found.public_is_better:
            warn_caller(found.advice, UtilityWarning)
        self.reference_comparison_ = found

    def _scorer(
        self,
        unpack: Callable[[Any, Floats], None],
        decode: Callable[[NDArray[Any]], NDArray[Any]],
        query: Query,
    ) -> Score:
        """Return what scores the model that has some numbers."""

        def score(numbers: Floats, X: Any, y: Any) -> float:
            other: Any = copy.copy(self)
            unpack(other, numbers)
            targets, weights = query.targets_of(y)
            own = {} if weights is None else {"sample_weight": weights}
            return float(other.score(X, decode(targets), **own))

        return score
