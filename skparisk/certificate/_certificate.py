"""The certificate: what a release, or several together, guarantee.

More than half of it is docstrings, of what is filed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skparisk.certificate import _document as document
from skparisk.certificate import _words as words
from skparisk.certificate._advantage import Advantage
from skparisk.certificate._attackers import advantage_of
from skparisk.certificate._audit import check_same_calibration, refuse_second_audit
from skparisk.certificate._claim import (
    MEMBERSHIP,
    PRIVATE_REFERENCE,
    SEEDED,
    Claim,
    Evidence,
    check_sentences,
)
from skparisk.core.checks import check_epsilon, check_probability, is_number
from skparisk.core.laws import Law
from skparisk.core.rounding import fields_of


@dataclasses.dataclass(frozen=True)
class Certificate(Claim):
    """What a release, or several together, guarantee, and on what that rests.

    Estimators and mechanisms make it, composition takes and returns it, and a
    :class:`~skparisk.ledger.PrivacyLedger` is charged with it. It holds nothing that
    depends on private data, unless it says so.

    Parameters
    ----------
    epsilon : float
        Privacy level, in [0, inf]. Unitless.

    delta : float, default=0.0
        Additive relaxation of differential privacy, in [0, 1].

    risk : float, default=0.0
        Probability that the rest does not hold, in [0, 1].

    failure_prob : float, default=0.0
        Probability, over the sampled pairs, that the risk is larger than that, in
        [0, 1]; 0 where the risk includes it.

    randomness : {"implicit", "both", "explicit"}, default="both"
        What the risk is taken over: the pair of databases, the pair and the noise
        together, or the noise alone, for every pair.

    relation : {"replace-one", "add-remove"}, default=None
        What neighboring databases are. None: not stated; it then goes with any other.

    loss : DominatingLoss, default=None
        A law that the privacy loss stays below, outside a risk over pairs. None: only
        what `epsilon` and `delta` say is known.

    method : str, default="single"
        How it was found: a key of `METHODS`, or words of one's own.

    n_releases : int, default=1
        Number of releases that it is about, >= 0.

    group_size : int, default=1
        Steps from one neighbor to the next that it is about, >= 1: see
        :func:`~skparisk.composition.group_privacy`.

    post_processed : bool, default=False
        Whether a risk over pair and noise is a part of delta, on average over pairs,
        and no longer one of the loss: see :func:`~skparisk.composition.post_process`.

    void_reasons, leaks, provisos : tuple of str, default=()
        Sentences: why there is no guarantee at all; what about the private data was
        released without noise; what else the guarantee rests on. What follows from the
        numbers, such as an infinite level, is added.

    evidence : Evidence, default=None
        What it was computed from, if it is about one release.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the evidence cannot carry the claim.

    Examples
    --------
    >>> from skparisk import Certificate, PrivateRidge
    >>> print(Certificate(0.5, relation="replace-one").guarantee)
    For any two databases that differ in one record: the release is
    0.5-differentially private.
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> model = PrivateRidge(epsilon=1.0, gamma=0.05, random_state=0)
    >>> public = {"X_reference": X[9000:], "y_reference": y[9000:]}
    >>> model = model.fit(X[:9000], y[:9000], **public)
    >>> model.certificate_.risk <= 0.05, model.certificate_.private
    (True, True)
    """

    @property
    def confidence(self) -> float:
        """Probability that the rest holds: 1 - risk."""
        return 1 - self.risk

    @property
    def guarantee(self) -> str:
        """The claim in words."""
        return words.in_words(self)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What is taken on the caller's word."""
        return words.conditions(self)

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated, and so removed."""
        return SEEDED in self.void_reasons

    @property
    def reference_is_private(self) -> bool:
        """Whether neighboring databases were sampled from the private data."""
        return PRIVATE_REFERENCE in self.leaks

    @property
    def protects_membership(self) -> bool:
        """Whether it is protected which records are used, and not the records."""
        return MEMBERSHIP in self.provisos

    @property
    def membership_odds(self) -> float:
        """Largest posterior odds that a record is used, outside the risk.

        ``exp(epsilon) * n / (N - n)``, of n records that were drawn in secret from N,
        for someone to whom all choices of n were equally likely before
        (:ref:`thm-secret-sample`). Infinite where there is no guarantee; an
        AttributeError unless it is about a single release of a secret sample.
        """
        return words.membership_odds(self, self.require_evidence())

    @property
    def noise_epsilon(self) -> float:
        """Privacy level of the noise at the sensitivity: sensitivity / noise scale."""
        evidence = self.require_evidence()
        scale = evidence.noise_scale
        return evidence.sensitivity / scale if scale else math.inf

    @property
    def advantage(self) -> Advantage:
        """What an attacker gains who knows all but which of two databases it was.

        On average and for all but a share of pairs. Measured on the sampled pairs where
        they are known, else from level, delta and risk (:ref:`thm-advantage`). It does
        not cover `leaks`; 1 where there is no guarantee.
        """
        return advantage_of(self)

    def require_evidence(self) -> Evidence:
        """Return the evidence of a single release; an AttributeError without any."""
        if self.evidence is None:
            raise AttributeError(
                "this certificate has no evidence of a single release."
            )
        return self.evidence

    def points(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return all levels of which a risk is certified, and these risks.

        Returns
        -------
        levels, risks : ndarray of shape (n_points,)
            The last ones are those of the claim itself.
        """
        curve = None if self.evidence is None else self.evidence.curve
        own = np.array([[self.epsilon, self.risk]])
        points = own if curve is None else np.concatenate([curve, own])
        return points[:, 0], points[:, 1]

    def risk_at(self, epsilon: float) -> float:
        """Return the risk that is certified for another privacy level.

        Parameters
        ----------
        epsilon : float
            In (0, inf], fixed without a look at the sampled pairs.

        Returns
        -------
        risk : float
            In [0, 1], at the noise as released. 1 where nothing is certified; with
            "pac", and for pairs that came from private data, that is everything
            below the level of the certificate. Of a void certificate it guarantees
            nothing, as its `epsilon` and `risk` do not.
        """
        epsilon = check_epsilon(epsilon)
        levels, risks = self.points()
        return float(np.min(risks[levels <= epsilon], initial=1.0))

    def epsilon_at(self, gamma: float) -> float:
        """Return the privacy level that is certified at another risk.

        Parameters
        ----------
        gamma : float
            Risk in (0, 1), fixed without a look at the sampled pairs.

        Returns
        -------
        epsilon : float
            At the noise as released. Infinite where nothing is certified. Of a void
            certificate it guarantees nothing.
        """
        gamma = check_probability(gamma, "gamma")
        levels, risks = self.points()
        return float(np.min(levels[risks <= gamma], initial=math.inf))

    def amended(
        self,
        *,
        void_reasons: Sequence[str] = (),
        leaks: Sequence[str] = (),
        provisos: Sequence[str] = (),
        conditions: Iterable[str] = (),
    ) -> Self:
        """Return it with more sentences that limit it; it cannot be given fewer.

        Parameters
        ----------
        void_reasons, leaks, provisos : list or tuple of str
            Sentences; the new reasons come first, provisos in order. One that is there
            already is not repeated.

        conditions : iterable of str
            Conditions of other certificates that this one was made from. Those that
            are none of its own become provisos.
        """
        new = {"void_reasons": void_reasons, "leaks": leaks, "provisos": provisos}
        for name, sentences in new.items():
            check_sentences(sentences, name)
        lost = set(conditions).difference(self.conditions)
        rests_on = {f"This rests on the caller's word: {text}." for text in lost}
        rests_on.update(self.provisos, provisos)
        return dataclasses.replace(
            self,
            void_reasons=tuple(dict.fromkeys((*void_reasons, *self.void_reasons))),
            leaks=tuple(dict.fromkeys((*self.leaks, *leaks))),
            provisos=tuple(sorted(rests_on)),
        )

    def with_audit(self, audit: Any) -> Self:
        """Return it with what an audit of its reference measured.

        The risk and whatever else it claims stay as they are. An audit that supports
        the risk settles what forbade that the guarantee stands, about a declared schema
        or few rows; one that contradicts it forbids that.

        Parameters
        ----------
        audit : ReferenceAudit
            Of :func:`~skparisk.audit.audit_reference`. That it is about the same query
            and the same public records cannot be checked here, as a certificate has
            neither; `audit_reference` does that for what is fitted.

        Raises
        ------
        ValueError
            If it is no audit, or this certificate has no evidence.

        IncompatibleError
            If it has been audited already, or the audit is of a reference of another
            description, of another target or
            number of outputs, or of databases that are larger than those of this
            certificate.
        """
        audited = getattr(audit, "audited", None)
        if not isinstance(audited, Certificate):
            raise ValueError(f"audit must be a ReferenceAudit, got {audit!r}.")
        if self.evidence is None:
            raise ValueError(
                "only the certificate of a single release has a reference that can be "
                "audited: give it the audit before it is composed."
            )
        check_same_calibration(self, audited)
        refuse_second_audit(self)
        evidence = dataclasses.replace(self.evidence, audit=audit.measured)
        return dataclasses.replace(self, evidence=evidence)

    def as_certificate(self) -> Certificate:
        """Return itself: what composition takes may be composed already."""
        return self

    def to_dict(self, *, curve: bool = False) -> dict[str, Any]:
        """Return plain numbers, strings and lists: strict JSON, also for YAML.

        Infinite numbers are the string "inf".

        Parameters
        ----------
        curve : bool, default=False
            Whether to write the whole curve of other levels and risks, which is long.
            For pair and noise together, the point that tells most of the level is
            written anyway: a document in which the level alone was edited is refused.

        Returns
        -------
        document : dict
            The parameters; the sentences that follow from them: "guarantee",
            "conditions" and "private"; and "schema", "schema_version", "version".
        """
        return document.write(self, curve=curve)

    @classmethod
    def from_dict(
        cls, document_: Mapping[str, Any], /, *, laws: Iterable[Law] = ()
    ) -> Self:
        """Return the certificate that `to_dict` wrote.

        Parameters
        ----------
        document : mapping
            As `to_dict` returned it, also after JSON or YAML.

        laws : iterable of Law, default=()
            Laws of one's own, which the document only names. Without its law, the
            numbers and words of a claim are read all the same, and what needs the law
            to compose it refuses.

        Raises
        ------
        ValueError
            If an entry is missing or unknown, if the schema is another one, or if what
            the document says does not follow from its numbers.
        """
        return document.read(document_, cls, laws)

    def __str__(self) -> str:
        return document.as_text(self)

    def _repr_html_(self) -> str:
        return document.as_html(self)


def as_certificate(release: Any) -> Certificate:
    """Return what a release guarantees.

    Parameters
    ----------
    release : object with `as_certificate`, float or tuple of float
        A :class:`Certificate` or a mechanism; or plain numbers, `epsilon`, (epsilon,
        delta) or (epsilon, delta, risk). A plain risk is taken to be over the pair and
        the noise together, the weakest reading.

    Raises
    ------
    ValueError
        If it is none of these, or a number is out of range.

    Examples
    --------
    >>> from skparisk.certificate import as_certificate
    >>> as_certificate((0.5, 1e-6)).delta
    1e-06
    """
    if hasattr(release, "as_certificate"):
        return _as_plain(release.as_certificate())
    numbers = release if isinstance(release, tuple | list) else (release,)
    plain = all(map(is_number, numbers))
    if not plain or not 1 <= len(numbers) <= 3:
        raise ValueError(
            "a release must be a certificate, a mechanism or up to three numbers "
            f"(epsilon, delta, risk), got {release!r}."
        )
    return Certificate(*numbers)


def as_certificates(releases: Iterable[Any]) -> list[Certificate]:
    """Return what each release of a list guarantees, as :func:`as_certificate` does.

    A ValueError if it is no list of releases, such as a single tuple of numbers.
    """
    if isinstance(releases, str | Mapping) or not isinstance(releases, Iterable):
        raise ValueError(f"releases must be a list of releases, got {releases!r}.")
    listed = list(releases)
    if isinstance(releases, tuple) and any(isinstance(x, Real) for x in listed):
        raise ValueError(
            "releases must be a list, not bare numbers: a tuple of numbers is one "
            f"release (epsilon, delta, risk), so put it into a list; got {releases!r}."
        )
    return [as_certificate(release) for release in listed]


def _as_plain(certificate: Any) -> Certificate:
    """Return a certificate of no subclass, which cannot say something else later."""
    if not isinstance(certificate, Certificate):
        raise ValueError(
            f"as_certificate must return a Certificate, got {certificate!r}."
        )
    if type(certificate) is Certificate:
        return certificate
    return Certificate(**fields_of(certificate, Certificate))
