"""What private estimators share: one query, answered once, with noise.

Its methods are in the order in which a fit takes them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags

from skparisk._callers import (
    frozen_around,
    is_searched,
    leaks_around,
    refuse_resampling_ensembles,
)
from skparisk._checks import check_n_jobs, check_verbose, warn_private_reference
from skparisk._hints import (
    HintMixin,
    distance,
    noise_of,
    noise_to_spread,
)
from skparisk._public_fit import BesidePublicMixin
from skparisk._simulated import is_simulated
from skparisk._training_data import (
    Groups,
    SensitivitySource,
    TrainingData,
    draw_members,
    known_of,
    reference_of,
    samples_training_data,
)
from skparisk._words import DOUBTS
from skparisk.core.calibrate import Noise, find_known
from skparisk.core.checks import (
    IncompatibleError,
    check_at_least,
    check_epsilon,
    check_positive,
    check_probability,
    is_number,
    warn_caller,
)
from skparisk.core.claim import Assumption, Certificate, Doubt, Leak, Unit
from skparisk.core.exact import noise_source
from skparisk.core.laws import as_law
from skparisk.core.release import Plan, check_n_records, hide_values, release
from skparisk.core.sealed import People, Records, on_rows, rows_of, seal
from skparisk.exceptions import ReferenceWarning
from skparisk.ledger import OPEN
from skparisk.ledger._open import tell_open
from skparisk.queries import Query
from skparisk.reference import Reference
from skparisk.reference._learned import refuse_learned_from
from skparisk.reference._records import as_targets, n_rows
from skparisk.reference._sketch import RecordSketch
from skparisk.sensitivity import KnownSensitivity, SensitivitySampler
from skparisk.sensitivity._drawing import Known
from skparisk.sensitivity._sampler import check_given

_ONE_REFERENCE = (
    "X_reference must be None if the SensitivitySampler has a reference or has already "
    "been fitted: there can be only one reference."
)
_IF_FAR = (
    "Give records and reference the same columns and units, behind the same scaler; "
    "see with audit_reference whether the reference describes these people."
)


class PrivateMixin(HintMixin, BesidePublicMixin):
    """Release the answer of a query, and say what that guarantees."""

    epsilon: Any
    gamma: Any
    sensitivity: Any
    n_jobs: Any
    random_state: Any
    noise_random_state: Any
    verbose: Any
    certificate_: Certificate

    # Whether `fit` takes records that are not finite numbers.
    _takes_any_table = False
    # Whether it sums private records up, of which a part at a time is in memory.
    _takes_parts = False

    def set_params(self, **params: Any) -> Self:
        """Set parameters, creating a sampler for its own if there is none.

        Parameters
        ----------
        **params : dict
            As in scikit-learn. ``sensitivity__n_pairs`` and the like turn a
            `sensitivity` of None into a :class:`~skparisk.SensitivitySampler`.
        """
        nested = any(name.startswith("sensitivity__") for name in params)
        if nested and params.get("sensitivity", self.sensitivity) is None:
            params = {**params, "sensitivity": SensitivitySampler()}
        return super().set_params(**params)  # type: ignore[misc]

    def _check_privacy(
        self, bound_parameters: Mapping[str, Any] | None = None
    ) -> SensitivitySource:
        """Return where the sensitivity comes from, with all parameters checked.

        `bound_parameters` are the values of what is declared for "bound" alone, None
        for an estimator without a proven bound.
        """
        refuse_resampling_ensembles()
        source = self.sensitivity
        if isinstance(source, FrozenEstimator):
            source = source.estimator
        source = SensitivitySampler() if source is None else source
        sampled = isinstance(source, SensitivitySampler)
        if not sampled or hasattr(source, "certificate_"):
            check_epsilon(self.epsilon)
            check_probability(self.gamma, "gamma")
        noise_source(self.noise_random_state)
        check_n_jobs(self.n_jobs)
        check_verbose(self.verbose)
        proven = bound_parameters is not None
        if isinstance(source, str) and source == "bound" and proven:
            return "bound"
        declared = bound_parameters or {}
        if any(value is not None for value in declared.values()):
            values = " and ".join(repr(value) for value in declared.values())
            raise ValueError(
                f"{' and '.join(declared)} must be None unless sensitivity='bound', "
                f"because only that clips rows; got {values}."
            )
        if isinstance(source, SensitivitySampler):
            return self._prepare(source)
        if is_number(source):
            source = KnownSensitivity(check_positive(source, "sensitivity"))
        if isinstance(source, KnownSensitivity):
            source._check(self.epsilon, self.gamma)
            return source
        raise ValueError(
            "sensitivity must be None, a SensitivitySampler (also in a "
            "FrozenEstimator), a KnownSensitivity"
            f"{', ' if proven else ' or '}a finite number above 0"
            f"{' or ' if proven else ''}{repr('bound') if proven else ''}; got "
            f"{source!r}."
        )

    def _prepare(self, source: SensitivitySampler) -> SensitivitySampler:
        """Return the sampler of this fit, of checked parameters; or a fitted one."""
        if as_law(source.law).chooses:
            raise ValueError(
                "law of the SensitivitySampler must be of noise that is added to "
                f"numbers, got {source.law!r}, which chooses a candidate."
            )
        if hasattr(source, "certificate_"):
            return source
        own = ("n_jobs", "random_state", "noise_random_state", "verbose")
        given = {name: getattr(self, name) for name in own}
        given = {name: value for name, value in given.items() if value is not None}
        sampler: SensitivitySampler = clone(source)
        sampler.__dict__ |= given | {"epsilon": self.epsilon, "gamma": self.gamma}
        sampler._terms = sampler._check_parameters()
        return sampler

    def _recognize(
        self,
        source: SensitivitySource,
        X: Any,
        features: Records,
        targets: NDArray[Any] | None,
        table: Reference | None,
        people: Groups | None = None,
    ) -> TrainingData:
        """Warn of a private reference, by rows or ids of `people`, or refuse it."""
        draw = draw_members(source, X, people)
        if is_simulated():
            return TrainingData(X, features, targets, table, False, draw)
        for each in (table, reference_of(source)):
            learning = getattr(each, "learning", None)
            refuse_learned_from(learning, features, targets)
        own = RecordSketch.of(features, targets)
        known = Known(table, None if table is None else table.sketch)
        private = known.has(own)
        private |= people is not None and people.overlaps(source, table)
        if draw is not None:
            if private:
                raise ValueError(
                    "X_reference must be public, but it shares records with the "
                    "training data. With a SecretSample it only supplies classes and "
                    "structure, so it can be left None."
                )
            return TrainingData(X, features, targets, table, False, draw)
        if isinstance(source, SensitivitySampler):
            private |= table is None and samples_training_data(source)
            of_source = known_of(source)
            if of_source.has(own):
                raise ValueError(
                    "sensitivity must not be a SensitivitySampler whose reference "
                    "shares records with the training data, because these would stay "
                    "in the parameters: give it a public reference, or leave its "
                    "reference None to sample from the training data with a warning."
                )
            if private:
                warn_private_reference()
            known = of_source if table is None else known
        elif private:
            raise ValueError(
                "X_reference must be public, but it shares records with the training "
                "data. With a known sensitivity it says what classes and splits there "
                "are, without noise: give public records or a SchemaReference, or "
                "declare the classes where nothing else is taken from it."
            )
        return TrainingData(X, features, targets, table, private, known=known)

    def _release(
        self,
        source: SensitivitySource,
        query: Query,
        data: TrainingData,
        check: Callable[[SensitivitySampler], None] | None = None,
    ) -> NDArray[np.float64]:
        """Answer with noise, unless `check` refuses it before any charge."""
        if isinstance(source, KnownSensitivity):
            return self._release_known(query, *data.in_domain(), source)
        assert isinstance(source, SensitivitySampler)  # "bound" is released elsewhere
        features, targets = data.features, None
        if query.needs_y:
            given = check_given(query, data.targets)
            targets = hide_values(on_rows, as_targets, given)
        if hasattr(source, "certificate_"):
            sampler = self._take_sampler(source, query, data)
            # It may have been fitted for other columns.
            alone, _ = query.targets_of(rows_of(targets))
            sampler._check_data(query, data.X, alone, reset=False)
        else:
            sampler = source
            self._fit_sampler(sampler, query, data, targets)
        if check is not None:
            check(sampler)
        released = np.asarray(sampler._answer(features, targets, data.draw))
        self._keep_claim(sampler.certificate_, sampler)
        if not is_simulated() and distance(sampler, released) > 1:
            warn_caller(f"{DOUBTS[Doubt.OUTLIER]} {_IF_FAR}", ReferenceWarning)
            note = "a release far from its reference"
            self._add_to_claim(doubts=[Doubt.OUTLIER], note=note)
        return released

    def _release_known(
        self,
        query: Query,
        X: Records,
        y: NDArray[Any] | None,
        known: KnownSensitivity,
        *,
        proven: bool = False,
    ) -> NDArray[np.float64]:
        """Answer with noise for a sensitivity that is known; keep the claim."""
        sensitivity, target, law = known._check(self.epsilon, self.gamma)

        def noise(n_outputs: int) -> tuple[Noise, Certificate]:
            return find_known(
                sensitivity,
                target,
                law=law,
                n_outputs=n_outputs,
                n_records=n_rows(X),
                relation="replace-one",
                unit=Unit.PERSON if isinstance(X, People) else Unit.RECORD,
                proven=proven,
            )

        return self._release_planned(query, X, y, noise)

    def _release_planned(
        self,
        query: Query,
        X: Records,
        y: NDArray[Any] | None,
        noise: Callable[[int], tuple[Noise, Certificate]],
    ) -> NDArray[np.float64]:
        """Answer with noise that is known for an answer of any length."""
        # Before there is an answer, whose length is not known yet.
        plan = Plan(query, noise, at_most=noise(1)[1])
        released, certificate = release(
            plan,
            seal(X, y),
            OPEN,
            note=str(query),
            noise_random_state=self.noise_random_state,
        )
        self._keep_claim(certificate, None)
        return np.asarray(released)

    def _take_sampler(
        self, source: SensitivitySampler, query: Query, data: TrainingData
    ) -> SensitivitySampler:
        """Return a sampler with the pairs of one that is fitted, for this target."""
        if data.table is not None:
            raise ValueError(_ONE_REFERENCE)
        if source.query_ != query:
            raise IncompatibleError(
                f"The SensitivitySampler was fitted for {source.query_}, but {query} "
                "is to be released."
            )
        taken = copy.copy(source)
        if self.noise_random_state is not None:
            taken.noise_random_state = self.noise_random_state
        if taken.advantage is not None:  # in the place of a level
            return taken.set_params(epsilon=self.epsilon).calibrate(gamma=self.gamma)
        return taken.calibrate(epsilon=self.epsilon, gamma=self.gamma)

    def _fit_sampler(
        self,
        sampler: SensitivitySampler,
        query: Query,
        data: TrainingData,
        targets: NDArray[Any] | None,
    ) -> None:
        """Fit a sampler that was prepared, for a query and data."""
        draw, table = data.draw, data.table if data.draw is None else None
        if table is not None and sampler.reference is not None:
            raise ValueError(_ONE_REFERENCE)
        if sampler.query is not None and sampler.query != query:
            raise IncompatibleError(
                f"The SensitivitySampler has the query {sampler.query}, but {query} is "
                "to be released: leave its query None."
            )
        sampler.query = query
        if sampler.n_records is not None:
            check_at_least(sampler.n_records, "n_records", 1)
            check_n_records(data.n_records, sampler.n_records, sampler.relation)
        if table is not None:
            sampler.set_params(reference=table)
        if draw is not None:
            sampler.set_params(reference=draw.reference(data.features, targets))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):  # the columns are known: they have been validated
                setattr(sampler, name, getattr(self, name))
        sampler._fit_checked(
            data.features,
            targets,
            private=data.reference_is_private,
            known=data.known,
        )
        if draw is not None:  # who was drawn, and from whom, is no part of a model
            sampler.set_params(reference=draw.sample)
        if table is not None:
            # The table is no part of a model; the sampled pairs stand for it.
            sampler.set_params(reference=None, n_records=sampler.n_records_)

    def _keep_claim(
        self, certificate: Certificate, sampler: SensitivitySampler | None
    ) -> None:
        """Set what is known of the release besides the released numbers."""
        evidence = certificate.require_evidence()
        self.sampler_ = sampler
        self.certificate_ = certificate
        self.epsilon_ = certificate.epsilon
        self.gamma_ = evidence.gamma
        self.risk_ = certificate.risk
        self.confidence_ = certificate.confidence
        self.sensitivity_ = evidence.sensitivity
        self.noise_scale_ = evidence.noise_scale
        self.noise_epsilon_ = certificate.noise_epsilon
        self.noise_to_spread_ = noise_to_spread(sampler)
        if is_simulated():
            return
        if frozen_around():
            self._add_to_claim(
                assumptions=[Assumption.FROZEN_PARTS], note="parts fitted before"
            )
        leaks = leaks_around(certificate.leaks, warn=not is_searched())
        if leaks:
            self._add_to_claim(leaks=leaks, note="what is around a fit")

    def _noise_deviations(self) -> NDArray[np.float64]:
        """Return about how large the noise of each output is, or that of all."""
        if self.sampler_ is None:
            law = as_law(getattr(self.sensitivity, "law", "laplace"))
            return np.array([self.noise_scale_ * law.deviation])
        return noise_of(self.sampler_).deviations()

    def _add_to_claim(
        self,
        *,
        leaks: Iterable[Leak] = (),
        assumptions: Iterable[Assumption] = (),
        doubts: Iterable[Doubt] = (),
        note: str,
    ) -> None:
        """Tell ledgers and the certificate what else was released, or is believed."""
        tell_open(leaks=leaks, assumptions=assumptions, doubts=doubts, note=note)
        self._state(
            self.certificate_.weaken(
                leaks=leaks, assumptions=assumptions, doubts=doubts
            )
        )

    def _state(self, certificate: Certificate) -> None:
        """Let the claim be this one, also where the sampler shows it."""
        self.certificate_ = certificate
        if self.sampler_ is not None:
            self.sampler_.claim_ = self.sampler_.claim_.stating(certificate)

    def _say_of_new_people(self, words: str) -> None:
        """Tell on the claim, and those recalibrated from it, what is not known."""
        evidence = self.certificate_.require_evidence()
        if evidence.for_new_people is not None:  # else pairs are of new people
            self._state(self.certificate_.weaken(for_new_people=words))
            assert self.sampler_ is not None  # only samples have the sentence
            pairs = self.sampler_.pairs_
            pairs.for_new_people, pairs.n_rows_alone = words, None

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
