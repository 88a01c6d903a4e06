"""What a release comes to beside, and together with, a fit on public records."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skparisk._public_fit import PublicFit
from skparisk._simulated import is_simulated
from skparisk._training_data import SensitivitySource, TrainingData, public_table
from skparisk._weighing import Weighed
from skparisk.exceptions import IncompatibleError
from skparisk.queries import Query
from skparisk.reference import Reference
from skparisk.reference._comparison import ReferenceComparison
from skparisk.sensitivity import SensitivitySampler

Floats = NDArray[np.float64]


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
    reference_comparison_: ReferenceComparison | None = None

    def compare_with_reference(self) -> ReferenceComparison:
        """Return how the private model does beside one of the public records alone.

        Computed by `fit`, from what was released and what is public
        (:ref:`thm-combined`): no ledger is charged for it.

        Returns
        -------
        comparison : ReferenceComparison

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
        if isinstance(public, str):
            self._refuse_combine(public)

    def _refuse_combine(self, reason: str) -> None:
        if self.combine is not None:
            raise ValueError(
                "combine must be None unless pairs are sampled from a table of public "
                f"records, whose fit the release is weighed with, but {reason}: give "
                f"X_reference and y_reference; got {self.combine!r}."
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
        if self.combine is not None and any(each.whole is None for each in parts):
            self._refuse_combine(f"{query} has no answer on all of them together")
        return public

    def _serve(
        self,
        released: Floats,
        public: PublicFit | None,
        unpack: Callable[[Any, Floats], None],
        decode: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
        scored_by: Any = None,
        start: Start | None = None,
    ) -> None:
        """Set what predicts, from what was released and from public records.

        With a `start`, what was released is a correction to that. `unpack` sets the
        numbers of a model, and `decode` returns targets as they were before they were
        numbers. `scored_by` says what a score follows from, besides the kind of model,
        the query and the records, and is nothing private; None if that may be the level
        or the noise, so that public scores are found each time.
        """

        def score(numbers: Floats, X: Any, y: Any) -> float:
            other: Any = copy.copy(self)
            unpack(other, numbers)
            return float(other.score(X, decode(y)))

        served = released if start is None else start.numbers + released
        unpack(self, served)
        self.released_ = released
        self.private_weight_, self.reference_shift_ = 1.0, None
        self.reference_comparison_ = None
        compared = hasattr(self, "score") and not is_simulated()
        if public is None or not (compared or self.combine is not None):
            return
        assert self.sampler_ is not None
        alone = public.alone_beside(
            self.sampler_.pairs_,
            score if hasattr(self, "score") else None,
            None if scored_by is None else (type(self), scored_by),
        )
        if compared:
            self.reference_comparison_ = public.compare(served, alone, score)
        if self.combine is None:
            return
        if start is None:
            assert alone.values is not None
            corrected = alone.values
            weighed = public.weigh_with(released, alone.values, self.sampler_)
        else:
            corrected = start.numbers
            weighed = start.weigh_with(released, self.sampler_)
        self.private_weight_, self.reference_shift_ = weighed.weight, weighed.shift
        unpack(self, corrected + weighed.correction)
