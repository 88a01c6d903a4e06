"""The private audit of a reference, on records that are used for nothing else."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from skparisk._checks import check_n_jobs, hide_counts, private_people, seed_sequence
from skparisk._classes import PublicClasses
from skparisk._private import PrivateMixin
from skparisk._simulated import in_own_context, simulated
from skparisk._text import Statement, floor_text
from skparisk._training_data import Groups, reference_table
from skparisk._words import LEAKS
from skparisk.audit._blocks import (
    BlockJudge,
    choose_blocks,
    count_exceeding,
    cut_blocks,
)
from skparisk.audit._limits import (
    LARGEST_SHARE,
    CountNoise,
    check_confidence,
    cost_of_audit,
    required_blocks,
    risk_limits,
)
from skparisk.core import claim as core
from skparisk.core.checks import (
    IncompatibleError,
    check_epsilon,
    check_probability,
    warn_if_seeded,
)
from skparisk.core.claim import (
    Certificate,
    Leak,
    MeasuredRisk,
    Unit,
    refuse_second_audit,
)
from skparisk.core.exact import noise_source
from skparisk.core.release import draw, forgetting, hide_values
from skparisk.core.rounding import ceil_text, fields_of
from skparisk.core.sealed import of_people
from skparisk.ledger import OPEN, check_room, suspend_open
from skparisk.neighbors import Database, sample_people
from skparisk.queries import RecordQuery
from skparisk.queries._given import as_query, is_asked_again
from skparisk.reference import (
    Reference,
    SchemaReference,
    TableReference,
    as_reference,
)
from skparisk.reference._records import as_records, n_rows
from skparisk.reference._secret import SecretDraw, SecretSample
from skparisk.reference._sketch import RecordSketch
from skparisk.reference._table import shares_people
from skparisk.sensitivity import SensitivitySampler
from skparisk.sensitivity._sampler import check_given
from skparisk.wrappers._linear_steps import cross_fitted_table

_SHARED = (
    "X must be private records that were used for nothing else, but it shares records "
    "with the reference that is audited."
)
_VERDICTS = {
    "supported": (
        "The audit supports the reference: the true risk is at most {gamma}."
    ),
    "contradicted": (
        "The audit contradicts the reference: the true risk is above {gamma}. Do "
        "not use this reference at this risk."
    ),
    "inconclusive": (
        "The audit is inconclusive: the true risk may be below or above {gamma}. More "
        "blocks, or a larger epsilon for the audit, tell more."
    ),
}


@dataclass(frozen=True)
class ReferenceAudit(Statement, MeasuredRisk):
    """Result of an audit of a reference, and its privacy cost.

    Made by :func:`audit_reference`; prints as a paragraph. All of it follows from the
    noisy count and public numbers.

    Parameters
    ----------
    n_records, n_blocks, noisy_count : int
    epsilon, gamma, confidence, lower, upper : float
    seeded : bool
        As for :class:`~skparisk.core.MeasuredRisk`.

    audited : Certificate
        Certificate of the audited calibration, for databases of `n_records`.

    release_records : int, default=None
        Records of a database of the release itself, if known.

    Examples
    --------
    >>> from skparisk import PrivateRidge, audit_reference
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> public = {"X_reference": X[:1000], "y_reference": y[:1000]}
    >>> ridge = PrivateRidge(epsilon=1.0, gamma=0.2, random_state=0)
    >>> people = X[1000:4000], y[1000:4000]
    >>> audit = audit_reference(ridge, *people, epsilon=1.0, **public)
    >>> audit.n_blocks, audit.n_records, audit.certificate.epsilon
    (53, 55, 1.0)
    """

    audited: Certificate = dataclasses.field(kw_only=True, repr=False)
    release_records: int | None = dataclasses.field(default=None, kw_only=True)

    @property
    def measured(self) -> MeasuredRisk:
        """Summary of the audit for certificates."""
        return MeasuredRisk(**fields_of(self, MeasuredRisk))

    @property
    def certificate(self) -> Certificate:
        """Guarantee of the audit itself, for the people in its records."""
        return cost_of_audit(self.epsilon, self.seeded, self.audited.unit)

    def as_certificate(self) -> Certificate:
        """Return its claim for composition and budgets."""
        return self.certificate

    def _meaning(self) -> list[str]:
        """Return sentences for those who decide whether to use the reference."""
        low, high = floor_text(self.lower, 3), ceil_text(self.upper, 3)
        n, confidence = self.n_records, f"{self.confidence:g}"
        target = self.audited.require_evidence()
        seeded = (
            [f"The audit itself is void. {LEAKS[Leak.SEEDED_NOISE]}"]
            if self.seeded
            else []
        )
        return [
            *seeded,
            _VERDICTS[self.verdict].format(gamma=f"{self.gamma:g}"),
            f"At blocks of {n} records, as large as {n} people and one who takes the "
            f"place of another, the true risk of exceeding the level "
            f"{ceil_text(self.audited.epsilon)} is at most {high} (confidence "
            f"{confidence}) and at least {low} (confidence {confidence}), measured on "
            f"{self.n_blocks} blocks. Records of neighboring databases: "
            f"{target.reference}.",
            self._about_the_release(),
            "That rests on the caller's word: the records of the audit are like those "
            "of the release, and were used for nothing else.",
            f"The audit cost those records {ceil_text(self.epsilon)}-differential "
            "privacy.",
        ]

    def _about_the_release(self) -> str:
        """Return what the risk at the size of the blocks is for the release."""
        known = self.release_records
        if known == self.n_records:
            return f"The release is about databases of {known} records, too."
        if known is None:
            return "That it is the same at larger databases is evidence, not proof."
        return (
            f"That it is the same at databases of {known} records, which the release "
            "is about, is evidence, not proof. Penalties, where there are any, were "
            "scaled down with the number of records."
        )


# What the calibrations of an audit and of a release must share.
_OF_CLAIM = ("epsilon", "delta", "failure_prob", "randomness", "relation", "unit")
_OF_EVIDENCE = (
    "reference",
    "gamma",
    "law",
    "noise_shape",
    "calibration",
    "averages",
    "n_outputs",
)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A sampler fitted for databases of some size, and the labels of a classifier."""

    sampler: SensitivitySampler
    classes: PublicClasses | None

    def check_private(self, X: Any, y: Any) -> Database:
        """Return private records as the query takes them, or say what is wrong."""
        query = self.sampler.query_
        if self.classes is not None:
            y = self.classes.encode_private(check_given(query, y))
        X, y = self.sampler._check_data(query, X, y, reset=False)
        sketch = self.sampler.pairs_.sketch
        if sketch is not None and RecordSketch.of(X, y).overlaps(sketch):
            raise ValueError(_SHARED)
        return self.sampler._as_asked(X, y)


@dataclass(frozen=True, eq=False)
class Audited:
    """What an audit is about: a sampler or a private estimator, and its reference."""

    model: Any  # as it was given, fitted or not
    sampler: SensitivitySampler  # of its pairs, not fitted
    reference: Reference
    given: dict[str, Any]  # the reference for `fit`, where an estimator takes it there

    @classmethod
    def of(
        cls,
        model: Any,
        X_reference: Any,
        y_reference: Any,
        groups_reference: Any = None,
        groups: Any = None,
    ) -> Audited:
        """Find the sampler and its reference, or say what cannot be audited."""
        given = {
            "X_reference": X_reference,
            "y_reference": y_reference,
            "groups_reference": groups_reference,
        }
        table = reference_table(*given.values(), needs_y=False, any_table=True)
        given = {name: value for name, value in given.items() if value is not None}
        source = model
        if isinstance(model, PrivateMixin):
            source = _own_sampler(model)
        elif not isinstance(model, SensitivitySampler):
            raise ValueError(
                "audited must be a SensitivitySampler or a private estimator, got "
                f"{type(model).__name__}: give the last step of a Pipeline, with "
                "records as the steps before transform them, or the estimator that a "
                "search has found."
            )
        _check_target(model, source)
        reference = source.reference
        Groups(groups).check(source, table)
        if isinstance(reference, SecretSample | SecretDraw):
            raise ValueError(
                "audited must have a reference that stands for people; a SecretSample "
                "is drawn from the records themselves, and its risk is exact: there is "
                "nothing to audit."
            )
        if reference is not None and table is not None:
            raise ValueError(
                "X_reference must be None if the SensitivitySampler has a reference: "
                "there can be only one."
            )
        if reference is None and table is None:
            raise ValueError(
                f"X_reference must be given: {type(model).__name__} has no reference "
                "of its own, or has dropped it after the fit."
            )
        public = as_reference(table if reference is None else reference)
        return cls(model, clone(source), public, given)

    @property
    def gamma(self) -> float:
        """The risk that is asked for."""
        return float(self.model.gamma)

    @property
    def certificate(self) -> Certificate | None:
        """That of a fit, where there has been one."""
        return getattr(self.model, "certificate_", None)

    @property
    def n_records(self) -> int | None:
        """Records of a database of the release, where that is known."""
        if self.certificate is not None:
            return self.certificate.require_evidence().n_records
        is_sampler = isinstance(self.model, SensitivitySampler)
        if is_sampler and isinstance(as_query(self.model.query), RecordQuery):
            return 1
        known = self.sampler.n_records
        return None if known is None else int(known)

    @in_own_context
    def calibrate(
        self,
        n_records: int,
        n_jobs: int | None,
        seed: np.random.SeedSequence,
    ) -> Calibrated:
        """Calibrate for databases of `n_records`, on public records alone."""
        draws, fits = seed.spawn(2)
        X, y, groups = sample_people(self.reference, n_records, draws)
        rng = np.random.default_rng(fits)
        # All of it is public: no ledger is charged.
        with simulated(), suspend_open():
            if isinstance(self.model, SensitivitySampler):
                sampler = self._own_sampler()
                sampler.set_params(n_records=n_records, reference=self.reference)
                prepared = _prepare(sampler, n_jobs, rng)
                found = Calibrated(prepared.fit(X, y, groups=groups), None)
            else:
                found = self._fit_model(X, y, groups, n_records, n_jobs, rng)
            self._check_same(found)
            return self._resized(found, n_records, X, y, groups)

    def _resized(
        self, found: Calibrated, n_records: int, X: Any, y: Any, groups: Any
    ) -> Calibrated:
        """Calibrate again, if the release weighs a penalty against more records."""
        sampler, classes = found.sampler, found.classes
        if self.n_records is None or self.n_records == n_records:
            return found
        query = sampler.query_.resized(n_records / self.n_records)
        if query == sampler.query_:
            return found
        reference = self.reference
        if classes is not None:
            reference = reference.encoded(partial(classes.encode, name="y_reference"))
            y = classes.encode(y, "y_reference")
        if query.is_correction:
            assert isinstance(reference, TableReference)
            # That of a sampler that an estimator has fitted has such targets already.
            if not reference.is_cross_fitted:
                reference = cross_fitted_table(query, reference)
        sampler = clone(sampler)
        sampler.set_params(query=query, reference=reference, n_records=n_records)
        return Calibrated(sampler.fit(X, y, groups=groups), classes)

    def _own_sampler(self) -> SensitivitySampler:
        """Return a sampler to fit; of a shape that was learned, with its name."""
        sampler: SensitivitySampler = clone(self.sampler)
        if self.certificate is not None and sampler.noise_shape == "auto":
            evidence = self.certificate.require_evidence()
            sampler.set_params(noise_shape=evidence.noise_shape)
        return sampler

    def _fit_model(
        self,
        X: Any,
        y: Any,
        groups: Any,
        n_records: int,
        n_jobs: int | None,
        rng: np.random.Generator,
    ) -> Calibrated:
        sampler = self._own_sampler()
        sampler.set_params(n_records=n_records, noise_random_state=None)
        model = clone(self.model).set_params(sensitivity=sampler)
        for name in ("alpha", "C"):  # what was chosen for more records is not again
            value = getattr(model, name, 0.0)
            if (value is None or isinstance(value, str)) and self.certificate:
                chosen = self.model.penalty_choice_ or getattr(self.model, f"{name}_")
                model.set_params(**{name: chosen})
        if is_classifier(model) and model.classes is None and not self.given:
            # Else they would be those of the drawn records, with a warning.
            model.set_params(classes=getattr(self.model, "classes_", np.unique(y)))
        taken = {n: v for n, v in self.given.items() if has_fit_parameter(model, n)}
        taken |= {} if groups is None else {"groups": groups}
        _prepare(model, n_jobs, rng).fit(X, y, **taken)
        classes = None
        if is_classifier(model):
            classes = PublicClasses.find(
                model.classes_, self.reference, None, model.sampler_, y
            )
        return Calibrated(model.sampler_, classes)

    def _check_same(self, found: Calibrated) -> None:
        """Refuse another reference or target than those of a fit."""
        if self.certificate is None:
            return
        claims: list[Any] = [self.certificate, found.sampler.certificate_]
        evidence: list[Any] = [claim.require_evidence() for claim in claims]
        named = [(name, claims) for name in _OF_CLAIM]
        for name, sides in [*named, *((name, evidence) for name in _OF_EVIDENCE)]:
            claimed, audited = (
                str(value) if isinstance(value, str) else value
                for value in (getattr(side, name) for side in sides)
            )
            if claimed != audited:
                raise IncompatibleError(
                    f"The audit is of a calibration with {name}={audited!r}, but the "
                    f"certificate has {name}={claimed!r}: it says nothing about that."
                )
        fitted = getattr(self.model, "sampler_", self.model)
        one, two = (s.pairs_.sketch for s in (fitted, found.sampler))
        if one and two and one.whole and two.whole and not one.same_rows(two):
            raise IncompatibleError(
                "X_reference must be the records that it was fitted with, but they "
                "are others."
            )
        own = fitted is self.model
        asked = as_query(fitted.query) if own else found.sampler.query_
        if not is_asked_again(asked, fitted.query_):
            raise IncompatibleError(
                f"The fit is of {fitted.query_}, but what is audited asks {asked} with "
                "other parameters: they were set after the fit. Fit again, or audit a "
                "clone."
            )
        refuse_second_audit(self.certificate)


def _own_sampler(model: PrivateMixin) -> SensitivitySampler:
    """Return the sampler of an estimator; a known sensitivity has no reference."""
    source = model.sensitivity
    if isinstance(source, FrozenEstimator):
        source = source.estimator
    if source is None:
        return SensitivitySampler()
    if not isinstance(source, SensitivitySampler):
        raise ValueError(
            "sensitivity of what is audited must be None or a SensitivitySampler, got "
            f"{source!r}: a sensitivity that is known has no reference to audit."
        )
    return source


def _check_target(model: Any, source: SensitivitySampler) -> None:
    """Refuse what has no risk over pairs that blocks of records can be."""
    if source.relation == "add-remove":
        raise ValueError(
            "relation must be 'replace-one' for an audit, got 'add-remove': blocks are "
            "cut by position, so that a record more or less would change them all."
        )
    if source.advantage is not None:
        raise ValueError(
            f"advantage must be None for an audit, got {source.advantage!r}: it counts "
            "pairs that exceed a level, and with an advantage there is none."
        )
    check_probability(model.gamma, "gamma")
    if math.isinf(check_epsilon(model.epsilon)):
        raise ValueError(
            f"epsilon of what is audited must be finite, got {model.epsilon!r}: no "
            "pair exceeds an infinite level."
        )
    certificate = getattr(model, "certificate_", None)
    if certificate is not None and certificate.reference_is_private:
        raise IncompatibleError(
            "The neighbor pairs came from private data, so there is no public "
            "reference to audit: fit with one."
        )


def _prepare(model: Any, n_jobs: int | None, rng: np.random.Generator) -> Any:
    """Let a clone be repeatable in what is public, and its noise be secret."""
    given: dict[str, Any] = {"noise_random_state": None, "verbose": 0}
    if model.random_state is None:
        given["random_state"] = int(rng.integers(2**31))
    if n_jobs is not None:
        given["n_jobs"] = n_jobs
    return model.set_params(**given)


@hide_counts
def audit_reference(
    audited: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    gamma: float | None = None,
    n_blocks: int | None = None,
    confidence: float = 0.95,
    groups: Any = None,
    X_reference: Any = None,
    y_reference: Any = None,
    groups_reference: Any = None,
    random_state: Any = None,
    noise_random_state: Any = None,
    n_jobs: int | None = None,
) -> ReferenceAudit:
    """Measure privately how often pairs of real people exceed the claimed level.

    The risk of a certificate is over pairs of a reference. The audit cuts private
    records into blocks, each one real pair. The number of blocks that exceed the level
    is released with noise. The model is calibrated anew, for databases as small as the
    blocks. A penalty against a sum over records, as in `Ridge`, is scaled down with
    their number, if the release has a known size.

    .. important::
       Use the records `X` for nothing else: neither to fit the model, nor for the
       reference, nor for another audit whose result changes this one. Only records of
       the reference are recognized; the rest is on the caller's word, as the audit
       says.

    Parameters
    ----------
    audited : SensitivitySampler or private estimator
        Fitted or not, with sampled pairs of "replace-one" neighbors. If it is fitted,
        the audit is also put on its `certificate_`.

    X : array-like of shape (n_rows, n_features)
        Private records, independent draws of the population of the release. The types
        of the columns of a data frame count as public.

    y : array-like of shape (n_rows,) or (n_rows, n_targets), default=None
        Their targets or labels.

    epsilon : float
        Privacy level of the audit, finite, >= 2**-20. Unitless.

    gamma : float, default=None
        Risk that the verdict is about, in (0, 1). None: the requested risk, also the
        least. With a perfect reference the true risk is close to that, and the audit
        inconclusive: ask about twice as much, or fit for half.

    n_blocks : int, default=None
        Blocks T, of ``n_rows // n_blocks`` records each: more than 20, and at most one
        more than a database of the release. None: :func:`required_blocks` for the
        audited risk, or more where blocks would be too large.

    confidence : float, default=0.95
        Confidence of each of the two limits, in [0.5, 1). Below 0.95, no doubt about a
        reference is settled.

    groups : array-like of shape (n_rows,), default=None
        Whose each row is, if the claim is about people with several rows: blocks are of
        people then, and so are the numbers of records here.

    X_reference, y_reference, groups_reference : array-like, default=None
        The public records, for a model without a reference of its own. A fitted model
        or sampler has dropped them: give the same again.

    random_state : int, RandomState, Generator or None, default=None
        Seeds the cutting of blocks, and the sampling of pairs where that has no seed of
        its own: nothing that must be secret.

    noise_random_state : int, RandomState, Generator or None, default=None
        As in :meth:`skparisk.mechanisms.LaplaceMechanism.release`; else the audit is
        not private, and says so.

    n_jobs : int, default=None
        Workers of joblib. The result does not depend on it.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are too few records, infinite or
        missing numbers, or records of the reference. If there is no reference, the
        relation is "add-remove", the sensitivity is known, or the target is an
        `advantage`.

    CalibrationError
        If the noise cannot be calibrated for databases of that size.

    IncompatibleError
        If it has been audited already, because the better of two audits would be no
        audit. If the reference or target differs from the fit's, its pairs came from
        private data, or `X` has other columns.

    BudgetExceededError
        If a ledger is open and refuses.

    Warns
    -----
    PrivacyLeakWarning
        If the noise is seeded.

    ReferenceWarning
        As a fit to as many public records does.

    Notes
    -----
    **Guarantee** (:ref:`thm-audit`). The audit is epsilon-differentially private for
    replaced records. Each limit of the true risk, at databases as large as the blocks,
    holds with probability `confidence` at least, so that "supported" or "contradicted"
    is wrong with probability 1 - `confidence` at most. The caller must ensure that
    records are independent, and drawn like the records of the release. That the risk at
    the size of the release is the same is evidence, not proof.

    Records of the audit and of the release are disjoint: both together cost the larger
    of their levels (:func:`~skparisk.core.compose_parallel`). An open ledger does not
    know that, and adds up; see :ref:`thm-audit`.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk import SensitivitySampler, audit_reference
    >>> from skparisk.reference import CallableReference
    >>> rng = np.random.default_rng(0)
    >>> population = CallableReference(lambda n, rng: rng.normal(size=(n, 1)))
    >>> sampler = SensitivitySampler(np.mean, gamma=0.2, reference=population)
    >>> audit = audit_reference(sampler, rng.normal(size=(6000, 1)), epsilon=2.0)
    >>> audit.n_records, audit.lower <= audit.upper
    (135, True)
    """
    noise = CountNoise.at(epsilon)
    check_confidence(confidence)
    check_n_jobs(n_jobs)
    noise_source(noise_random_state)
    public, cuts = seed_sequence(random_state).spawn(2)
    what = Audited.of(audited, X_reference, y_reference, groups_reference, groups)
    judged = what.gamma if gamma is None else check_probability(gamma, "gamma")
    if judged < what.gamma:
        raise ValueError(
            f"gamma must be at least {what.gamma!r}, the risk that was asked for, got "
            f"{gamma!r}: noise for it does not aim at less."
        )
    seeded = noise_random_state is not None
    unit = Unit.RECORD if groups is None else Unit.PERSON
    cost = cost_of_audit(float(epsilon), seeded, unit)
    check_room(cost)
    form = what.reference.form
    if form is not None:
        X = form.read_features(X)
    records = hide_values(as_records, X, "X")
    people = private_people(groups, n_rows(records))
    n_blocks, n_records = choose_blocks(
        n_rows(records) if people is None else len(people.ends),
        n_blocks,
        n_release=what.n_records,
        needed=lambda: required_blocks(
            judged,
            epsilon=epsilon,
            confidence=confidence,
            risk=what.gamma if what.gamma <= LARGEST_SHARE * judged else None,
        ),
    )
    calibrated = what.calibrate(n_records, n_jobs, public)
    X, y = calibrated.check_private(X, y)
    if shares_people(what.reference, groups):
        raise ValueError(_SHARED)
    database = of_people(X, people), of_people(y, people)
    warn_if_seeded(noise_random_state)
    blocks = cut_blocks(database, n_blocks, n_records + 1, cuts)

    @forgetting
    def count() -> int:
        noisy: int = draw(
            noise,
            count_exceeding(BlockJudge.of(calibrated.sampler), blocks, n_jobs),
            [cost],
            OPEN,
            note=f"audit of a reference in {n_blocks} blocks",
            noise_random_state=noise_random_state,
        )
        return noisy

    noisy_count = count()
    limits = risk_limits(noisy_count, n_blocks, noise=noise, confidence=confidence)
    certificate = calibrated.sampler.certificate_
    audit = ReferenceAudit(
        n_records,
        n_blocks,
        noisy_count,
        float(epsilon),
        judged,
        confidence,
        limits.lower,
        limits.upper,
        seeded,
        audited=certificate,
        release_records=what.n_records,
    )
    sampler = audited
    if isinstance(audited, PrivateMixin) and hasattr(audited, "certificate_"):
        own = audited.certificate_
        audited.certificate_ = core.claim_with_audit(own, audit.measured)
        sampler = audited.sampler_
    if hasattr(sampler, "claim_"):
        claim = sampler.claim_
        own = core.claim_with_audit(claim.certificate, audit.measured)
        sampler.claim_ = claim.stating(own)
    settled = audit.measured.settles(certificate.require_evidence().gamma)
    if settled and isinstance(what.reference, SchemaReference):
        what.reference._audited = True
    return audit
