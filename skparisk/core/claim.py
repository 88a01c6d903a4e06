"""What a release guarantees, as numbers and codes: made here, and nowhere else.

A :class:`Certificate` is made by a release, a mechanism or composition; or of plain
numbers, on the caller's word, which it says. Others may weaken it, print it and count
it; whoever makes one by hand gets an error. Words are not made
here: what a code means in English is a table outside of the core.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.core import words
from skparisk.core.checks import (
    IncompatibleError,
    check_at_least,
    check_epsilon,
    check_probability,
    check_relation,
    is_number,
)
from skparisk.core.laws import as_law, is_ours
from skparisk.core.rounding import (
    MOST_STEPS,
    ROUNDING,
    add_up,
    check_range,
    exact_sum,
    fields_of,
)

_Floats = NDArray[np.float64]
_FAR = 700.0  # exp of more is no number
# There are fewer people: at exp(epsilon) above it, one of them may be singled out.
_MOST_PEOPLE = 1e10
# Confidence of an audit that settles a doubt, at the least.
_SURE = 0.95


class Scope(StrEnum):
    """Source of the randomness behind a risk."""

    PAIR = "implicit"  # the pair of databases, for all outputs
    PAIR_AND_NOISE = "both"
    NOISE = "explicit"  # for every pair of databases


class Population(StrEnum):
    """Population of the databases of sampled pairs."""

    PEOPLE = "people"  # of a public table, or whatever else the caller says is public
    DECLARED = "declared"  # records of a law that somebody declared
    PRIVATE = "private"  # the private records themselves, resampled
    CANDIDATES = "candidates"  # of whom some were drawn in secret


class Unit(StrEnum):
    """What neighboring databases differ in one of."""

    RECORD = "record"  # a row by itself
    PERSON = "person"  # with all of their rows


class Method(StrEnum):
    """How a claim was found."""

    SINGLE = "single"
    BASIC = "basic"
    PARALLEL = "parallel"
    EXACT = "exact"
    FILTER = "filter"
    POST_PROCESS = "post-process"


class Leak(StrEnum):
    """Private information that the noise does not cover."""

    SEEDED_NOISE = "seeded-noise"  # whoever knows the seed can take the noise away
    SEEDED_DRAW = "seeded-draw"  # or find out who was drawn for a secret sample
    PRIVATE_REFERENCE = "private-reference"  # pairs are of private records
    PRIVATE_CLASSES = "private-classes"  # found among the private labels
    LEARNS_MORE = "learns-more"  # parts of others around it learn without noise
    FITTED_PARTS = "fitted-parts"  # parameters hold an earlier fit
    CHOSEN = "chosen"  # a plain search chose by private scores
    REDRAWN = "redrawn"  # another secret sample was released before

    @property
    def voids(self) -> bool:
        """Whether it leaves no guarantee at all."""
        return self in _VOIDING


_VOIDING = frozenset({Leak.SEEDED_NOISE, Leak.SEEDED_DRAW})


class Assumption(StrEnum):
    """Assumptions of a guarantee that no code can check: `_words.py` has the sentences.

    Set where a reference, sample, query, step or number comes in, and by composition.
    """

    PUBLIC_REFERENCE = "public-reference"  # is public, and describes the people
    SECRET_DRAW = "secret-draw"  # of a secret sample: nobody is told who is used
    LEARNED_REFERENCE = "learned-reference"  # the risk is over pairs of a learned law
    FEW_ROWS = "few-rows"  # fewer than 10 for each released number
    REPEATED_ROWS = "repeated-rows"  # fewer than two for each record of a database
    ROWS_PER_RECORD = "rows-per-record"  # fewer for each record than such answers need
    NOISY_LAW = "noisy-law"  # the learned law is mostly noise
    DECLARED_SENSITIVITY = "declared-sensitivity"  # by the caller, as are the next five
    DECLARED_LEVEL = "declared-level"
    GIVEN_NOISE = "given-noise"
    GIVEN_SHAPE = "given-shape"
    GIVEN_PAIRS = "given-pairs"
    GIVEN_QUERY = "given-query"
    ROW_WISE_SCORE = "row-wise-score"  # a model predicts each record by itself
    PUBLIC_STEPS = "public-steps"  # were fitted on the reference, which is public
    SUPERVISED_STEPS = "supervised-steps"  # they fit these rows better than others
    FROZEN_PARTS = "frozen-parts"  # were fitted on public records
    SEEN_ONCE = "seen-once"  # each release sees a record once
    NOT_ADAPTIVE = "not-adaptive"  # no query with a risk depends on earlier releases
    LIMIT_FIXED = "limit-fixed"  # of the sum of levels, beforehand, as are the next two
    NUMBER_FIXED = "number-fixed"
    FILTER_FIXED = "filter-fixed"
    DISJOINT_PARTS = "disjoint-parts"  # each record is in one of them
    PAIRS_OF_PART = "pairs-of-part"  # were sampled for each part


class Doubt(StrEnum):
    """Reasons why a guarantee may concern other people than the private ones."""

    MADE_UP = "made-up"  # the reference was declared, not sampled from people
    THIN = "thin"  # it has too few rows to show the tail
    OUTLIER = "outlier"  # the release is further from it than chance explains
    CONTRADICTED = "contradicted"  # an audit with real people found more pairs beyond


@dataclass(frozen=True)
class DominatingLoss:
    """Known distribution that bounds the privacy loss of a release.

    Parameters
    ----------
    law : {"laplace", "gaussian"} or Law
        The loss of one output with noise of that law.

    shift : float
        Distance of the two answers over the noise scale, in [0, inf), in the norm of
        the law: l1 for Laplace noise, l2 for Gaussian noise.

    excess : float, default=0.0
        Largest excess of the loss over a variable of that law, >= 0, such as for noise
        on a grid.

    Examples
    --------
    >>> from skparisk.core import DominatingLoss
    >>> DominatingLoss("gaussian", shift=0.5)
    DominatingLoss(law=Gaussian(), shift=0.5, excess=0.0)
    """

    law: Any  # a Law, once it is made
    shift: float
    excess: float = 0.0

    def __post_init__(self) -> None:
        law = as_law(self.law)
        if not law.composes:
            raise ValueError(f"law must say how it composes, got {law!r}.")
        vars(self)["law"] = law  # frozen for all others
        for name in ("shift", "excess"):
            vars(self)[name] = value = check_range(getattr(self, name), name)
            if math.isinf(value):
                raise ValueError(f"{name} must be a finite number, got {value!r}.")

    @property
    def largest(self) -> float:
        """Largest possible loss, rounded up; infinite for Gaussian noise."""
        return add_up([self.shift, self.excess]) if self.law.bounded else math.inf


@dataclass(frozen=True)
class Advantage:
    """Gain of an attacker who knows all but which of two databases was used.

    The advantage is the total variation of the two releases: the largest difference in
    the probability of any event. Computations from a release never have more.

    Parameters
    ----------
    mean : float
        Upper bound of the advantage in [0, 1], on average over a fresh pair and the
        sampled pairs.

    quantile : float
        Upper bound for all but a share `risk` of the pairs. The mean says nothing of
        single people: there it may be many times as large.

    risk : float
        That share in [0, 1], over a fresh pair and the sampled pairs; 0 for a bound
        that holds for every pair.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    **Guarantee** (:ref:`thm-advantage`). Assumptions of its certificate.

    Examples
    --------
    >>> from skparisk.core import as_certificate
    >>> advantage = as_certificate(0.5).advantage
    >>> round(advantage.mean, 4)  # guesses are right with (1 + 0.2449) / 2 at most
    0.2449
    """

    mean: float
    quantile: float
    risk: float

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            vars(self)[name] = check_range(getattr(self, name), name, 1.0)


_CERTAIN = Advantage(1.0, 1.0, 0.0)


@dataclass(frozen=True)
class MeasuredRisk:
    """How often pairs of real records exceeded the level, in blocks of some size.

    Made by :func:`~skparisk.audit.audit_reference`, not by hand.

    Parameters
    ----------
    n_records, n_blocks : int
        Records of a block without its last one; and number of blocks, each one pair.

    noisy_count : int
        How many of them exceeded the level, plus noise of privacy level `epsilon`.

    gamma : float
        Risk that the verdict is about, in (0, 1): at least the one that the audited
        noise is calibrated to.

    confidence, lower, upper : float
        Limits in [0, 1] of the true risk at such databases, and the confidence of each
        of the two, in [0.5, 1).

    seeded : bool, default=False
        Whether the noise of the count can be repeated, and so removed.

    Raises
    ------
    ValueError
        If a number is out of range, or the limits are not in order.
    """

    n_records: int
    n_blocks: int
    noisy_count: int
    epsilon: float
    gamma: float
    confidence: float
    lower: float
    upper: float
    seeded: bool = False

    def __post_init__(self) -> None:
        check_at_least(self.n_records, "n_records", 1)
        check_at_least(self.n_blocks, "n_blocks", 1)
        check_probability(self.gamma, "gamma")
        check_probability(self.confidence, "confidence")
        in_order = 0 <= self.lower <= self.upper <= 1
        if self.confidence < 0.5 or not in_order:
            raise ValueError(
                "lower must be at most upper, and their confidence at least 0.5; got "
                f"{self.lower!r}, {self.upper!r} and {self.confidence!r}."
            )

    @property
    def verdict(self) -> str:
        """Verdict on the risk gamma, for databases of that size.

        "supported" (the upper limit is at most gamma), "contradicted" (the lower limit
        is above it) or "inconclusive".
        """
        if self.upper <= self.gamma:
            return "supported"
        return "contradicted" if self.lower > self.gamma else "inconclusive"

    def settles(self, gamma: float) -> bool:
        """Tell if it settles doubts about the reference of a claim with that risk.

        An upper limit at a low confidence, or by a count whose noise anyone can take
        away, settles nothing.
        """
        sure = self.confidence >= _SURE and not self.seeded
        return sure and self.upper <= gamma


@dataclass(frozen=True)
class Evidence:
    """Evidence from which the claim of a single release follows.

    Made by the core and by the mechanisms of this package, not by hand.

    Parameters
    ----------
    gamma : float
        Requested risk, in (0, 1); 0 if every pair and output keeps the level, or only a
        delta was requested.

    sensitivity, norm : float and {"l1", "l2", "sup", "trace"}
        Sensitivity that the noise is calibrated to, and its norm.

    noise_scale, law, noise_shape : float, str and str
        Scale of the noise of each output, in units of the output, or in the coordinates
        of a shape other than "isotropic"; and the names of law and shape.

    n_records, n_outputs : int
        Records of a database, and released numbers.

    calibration : str
        The rule that chose the order statistic; "declared" for a sensitivity that the
        caller gave, "bound" for a proven one.

    n_pairs, order_index : int, default=None
        Number m of calibrating pairs, and the rank K of the sensitivity, or critical
        scale, in use. None for a known sensitivity; an `order_index` of None beside
        `n_pairs` is for an average of exact risks.

    n_unanswered, n_shape_pairs : int, default=None
        Pairs among the `n_pairs` without an answer, which count as if no noise were
        enough; and other pairs, which the shape is taken from.

    population, reference, for_new_people : Population, str and str
        Population of the databases of the pairs, their source, and the meaning of a
        risk over resamples of a table for new people of its population.

    advantage : Advantage, default=None
        An attacker's gain at the released noise, measured on the sampled pairs.

    audit : MeasuredRisk, default=None
        Measurement of an audit of the reference; it does not change the claim.

    n_candidates : int, default=None
        Records from which `n_records` were drawn in secret, if the claim protects the
        draw.

    n_neighbors : int, default=1
        Pairs with a common first database: the risk counts databases with all of their
        neighbors.

    n_constant : int, default=0
        Outputs equal in every sampled pair: instead of a release, they keep their
        public values.

    margin : float, default=1.0
        Factor on the noise for the error of a reference table as a whole.

    rows_per_person : tuple of int, default=None
        The fewest and the most rows that a person has in the reference.

    curve : ndarray of shape (n_points, 2), default=None
        Other privacy levels, and their certified risks at the released noise. Not
        compared.
    """

    gamma: float
    sensitivity: float
    noise_scale: float
    n_records: int
    n_outputs: int
    calibration: str
    law: str = "laplace"
    norm: str = "l1"
    n_pairs: int | None = None
    order_index: int | None = None
    n_unanswered: int | None = None
    noise_shape: str = "isotropic"
    n_shape_pairs: int | None = None
    population: Population = Population.PEOPLE
    reference: str | None = None
    for_new_people: str | None = None
    advantage: Advantage | None = None
    audit: MeasuredRisk | None = None
    n_candidates: int | None = None
    n_neighbors: int = 1
    n_constant: int = 0
    margin: float = 1.0
    rows_per_person: tuple[int, int] | None = None
    curve: _Floats | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.curve is not None:
            curve = np.array(self.curve, dtype=np.float64)
            curve.flags.writeable = False
            object.__setattr__(self, "curve", curve)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()

    @property
    def averages(self) -> bool:
        """Whether it holds an average of exact risks instead of an order statistic."""
        return self.n_pairs is not None and self.order_index is None


@dataclass(frozen=True)
class Claim:
    """The fields of a certificate, and what follows from them.

    A claim by itself is nobody's word: a :class:`Certificate` is one that was made by
    a release, a :class:`~skparisk.FiledCertificate` one that was read from a document.
    """

    epsilon: float
    delta: float = 0.0
    risk: float = 0.0
    failure_prob: float = 0.0
    randomness: Scope = Scope.PAIR_AND_NOISE
    relation: str | None = None
    unit: Unit | None = Unit.RECORD
    loss: DominatingLoss | None = None
    method: Method = Method.SINGLE
    n_releases: int = 1
    post_processed: bool = False
    leaks: frozenset[Leak] = frozenset()
    assumptions: frozenset[Assumption] = frozenset()
    doubts: frozenset[Doubt] = frozenset()
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "epsilon": check_range(self.epsilon, "epsilon"),
            "randomness": Scope(self.randomness),
            "method": Method(self.method),
            "n_releases": check_at_least(self.n_releases, "n_releases", 0),
            "leaks": frozenset(map(Leak, self.leaks)),
            "assumptions": frozenset(map(Assumption, self.assumptions)),
            "doubts": frozenset(map(Doubt, self.doubts)),
        }
        for name in ("delta", "risk", "failure_prob"):
            plain[name] = check_range(getattr(self, name), name, 1.0)
        if self.relation is not None:
            check_relation(self.relation)
        if self.unit is not None:
            plain["unit"] = Unit(self.unit)
        vars(self).update(plain)  # frozen for all others

    @property
    def vacuous(self) -> bool:
        """Whether risk and delta add up to 1 or more, which guarantees nothing."""
        parts = [self.risk, self.failure_prob]
        # For sampled pairs a delta is not a part of the risk.
        if self.randomness != Scope.PAIR:
            parts.append(self.delta)
        return self.delta == 1 or exact_sum(parts) >= 1

    @property
    def void(self) -> bool:
        """Whether there is no guarantee at all."""
        voiding = any(leak.voids for leak in self.leaks)
        return math.isinf(self.epsilon) or self.vacuous or voiding

    @property
    def empty(self) -> bool:
        """Whether the level, 23.03 or more, promises nothing.

        Odds of one in ten billion that it was you, of all people, may then become even.
        """
        return self.epsilon >= math.log(_MOST_PEOPLE)

    @property
    def private(self) -> bool:
        """Whether the guarantee stands as written.

        This takes secret noise, a level that promises something, a proof, public
        classes, and a reference other than the private data. The reference must be of
        enough people, and neither an audit nor the release may contradict it.
        """
        return not (self.void or self.empty or self.leaks or self.doubts)

    @property
    def sampled(self) -> bool:
        """Whether the risk is over sampled pairs."""
        return bool(self.risk or self.failure_prob) and self.randomness != Scope.NOISE

    @property
    def confidence(self) -> float:
        """Probability that the rest holds: 1 - risk."""
        return 1 - self.risk

    @property
    def seeded(self) -> bool:
        """Whether anyone can repeat the noise, and so remove it."""
        return Leak.SEEDED_NOISE in self.leaks

    @property
    def reference_is_private(self) -> bool:
        """Whether neighboring databases were sampled from the private data."""
        return Leak.PRIVATE_REFERENCE in self.leaks

    @property
    def protects_membership(self) -> bool:
        """Whether it hides which records were used, not the records themselves."""
        return Assumption.SECRET_DRAW in self.assumptions

    @property
    def membership_odds(self) -> float:
        """Largest posterior odds that a record is used, outside the risk.

        ``exp(epsilon) * n / (N - n)``, for n records drawn in secret from N, and an
        attacker to whom all choices of n were equally likely before
        (:ref:`thm-secret-sample`). Infinite where there is no guarantee; an
        AttributeError unless it is about a single release of a secret sample.
        """
        evidence = self.require_evidence()
        if evidence.n_candidates is None:
            raise AttributeError("this certificate is not about a secret sample.")
        if self.void or self.epsilon > _FAR:
            return math.inf
        n_others = evidence.n_candidates - evidence.n_records
        odds = math.exp(self.epsilon) * evidence.n_records / n_others
        return odds * (1 + ROUNDING)

    @property
    def noise_epsilon(self) -> float:
        """Privacy level of the noise at the sensitivity: sensitivity / noise scale."""
        evidence = self.require_evidence()
        scale = evidence.noise_scale
        return evidence.sensitivity / scale if scale else math.inf

    @property
    def advantage(self) -> Advantage:
        """Gain of an attacker who knows all but which of two databases was used.

        On average and for all but a share of pairs. Measured on the sampled pairs where
        they are known, else from level, delta and risk (:ref:`thm-advantage`). It does
        not cover `leaks`; 1 where there is no guarantee.
        """
        if self.void:
            return _CERTAIN
        found, evidence = _from_levels(self), self.evidence
        if evidence is None or evidence.advantage is None:
            return found
        measured = evidence.advantage
        if self.randomness == Scope.PAIR_AND_NOISE and not evidence.averages:
            return measured
        # Both bound the mean over all pairs for every sample: so does the smaller one.
        return replace(measured, mean=min(measured.mean, found.mean))

    def require_evidence(self) -> Evidence:
        """Return the evidence of a single release; an AttributeError without any."""
        if self.evidence is None:
            raise AttributeError(
                "this certificate has no evidence of a single release."
            )
        return self.evidence

    def points(self) -> tuple[_Floats, _Floats]:
        """Return all levels with a certified risk, and these risks.

        Returns
        -------
        levels, risks : ndarray of shape (n_points,)
            The last ones belong to the claim itself.
        """
        curve = None if self.evidence is None else self.evidence.curve
        own = np.array([[self.epsilon, self.risk]])
        points = own if curve is None else np.concatenate([curve, own])
        return points[:, 0], points[:, 1]

    def risk_at(self, epsilon: float) -> float:
        """Return the certified risk at another privacy level.

        Parameters
        ----------
        epsilon : float
            In (0, inf], fixed without a look at the sampled pairs.

        Returns
        -------
        risk : float
            In [0, 1], at the noise as released. 1 where nothing is certified. With
            "pac", and for private pairs, nothing is certified below the level of the
            certificate. Of a void certificate it guarantees nothing, as its `epsilon`
            and `risk` do not.
        """
        epsilon = check_epsilon(epsilon)
        levels, risks = self.points()
        return float(np.min(risks[levels <= epsilon], initial=1.0))

    def epsilon_at(self, gamma: float) -> float:
        """Return the certified privacy level at another risk.

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

    def _follow(self) -> frozenset[Assumption]:
        """Return what it rests on by its other fields."""
        several, method, evidence = self.n_releases > 1, self.method, self.evidence
        secret = evidence is not None and evidence.population == Population.CANDIDATES
        public = not (secret or self.protects_membership or self.reference_is_private)
        cases = {
            Assumption.PUBLIC_REFERENCE: self.sampled and public,
            Assumption.SECRET_DRAW: secret,
            Assumption.NOT_ADAPTIVE: several and self.sampled,
            Assumption.SEEN_ONCE: several,
            Assumption.LIMIT_FIXED: several and method == Method.BASIC,
            Assumption.NUMBER_FIXED: several and method == Method.EXACT,
            Assumption.FILTER_FIXED: several and method == Method.FILTER,
            Assumption.DISJOINT_PARTS: method == Method.PARALLEL,
            Assumption.PAIRS_OF_PART: method == Method.PARALLEL and self.sampled,
            Assumption.DECLARED_SENSITIVITY: evidence is not None
            and evidence.calibration == "declared",
            Assumption.GIVEN_NOISE: self.loss is not None
            and not is_ours(self.loss.law),
        }
        return frozenset(code for code, applies in cases.items() if applies)

    @property
    def guarantee(self) -> str:
        """The claim in words."""
        return str(words().guarantee(self))

    @property
    def caveats(self) -> tuple[str, ...]:
        """Reasons why it is void, its gaps, and its assumptions, in words."""
        return tuple(words().caveats(self))

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions on the caller's word, each as the end of a sentence."""
        return tuple(words().conditions(self))

    def to_dict(self, *, curve: bool = False) -> dict[str, Any]:
        """Return plain numbers, strings and lists: strict JSON, also for YAML.

        Infinite numbers are the string "inf".

        Parameters
        ----------
        curve : bool, default=False
            Whether to write the whole (long) curve of other levels and risks. For pair
            and noise together, the point that determines the level best is written
            anyway, which exposes a document with an edited level.

        Returns
        -------
        document : dict
            The fields; the sentences that follow from them: "guarantee", "caveats" and
            "private"; and "schema", "schema_version", "version".
        """
        return dict(words().document(self, curve=curve))

    def __str__(self) -> str:
        return str(words().text(self))

    def _repr_html_(self) -> str:
        return str(words().html_of(self))


_MINT = object()


@dataclass(frozen=True, init=False)
class Certificate(Claim):
    """Guarantee of one release, or of several together, with its assumptions.

    Releases, mechanisms and composition make it; or plain numbers, on the caller's
    word, which it says. A ledger is charged with it, and composition takes it. A
    document yields a :class:`~skparisk.FiledCertificate` instead. It holds nothing that
    depends on private data, unless it says so.

    Attributes
    ----------
    epsilon, delta : float
        Privacy level, in [0, inf], and additive relaxation, in [0, 1]. Unitless.

    risk, failure_prob : float
        Probability that the rest does not hold, in [0, 1]; and the one, over the
        sampled pairs, that the risk is larger than that, 0 where the risk includes it.

    randomness : {"implicit", "both", "explicit"}
        Source of the risk: the pair of databases, the pair and the noise together, or
        the noise alone, for every pair.

    relation, unit : {"replace-one", "add-remove"} and {"record", "person"}, or None
        How neighboring databases differ, and in one of what: a row, or a person with
        all of their rows. None: not stated; it then goes with any other.

    loss : DominatingLoss or None
        A law that the privacy loss stays below, outside a risk over pairs. None: only
        what `epsilon` and `delta` say is known.

    method, n_releases : Method and int
        How it was found, and for how many releases.

    post_processed : bool
        Whether a risk over pair and noise is a part of delta, on average over pairs,
        and no longer one of the loss: see :func:`~skparisk.core.post_process`.

    leaks, assumptions, doubts : frozenset
        Codes: private information without noise, conditions on the caller's word, and
        reasons why the claim may concern other people than the private ones.

    evidence : Evidence or None
        Numbers behind the claim of a single release.

    Raises
    ------
    TypeError
        If called directly.

    Examples
    --------
    >>> from skparisk import PrivateRidge
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> model = PrivateRidge(epsilon=1.0, gamma=0.05, random_state=0)
    >>> public = {"X_reference": X[9000:], "y_reference": y[9000:]}
    >>> model = model.fit(X[:9000], y[:9000], **public)
    >>> model.certificate_.risk <= 0.05, model.certificate_.private
    (True, True)
    """

    def __init__(self, *_: Any, mint: object = None, **parts: Any) -> None:
        if mint is not _MINT or vars(self):  # nor is one made again
            raise TypeError(
                "a Certificate is made by a release or by composition, and not by "
                "hand: give plain numbers, (epsilon, delta, risk), where a release is "
                "asked for, or read a filed one with FiledCertificate.from_dict."
            )
        super().__init__(**parts)
        vars(self)["assumptions"] |= self._follow()

    def weaken(
        self,
        *,
        epsilon: float = 0.0,
        leaks: Iterable[Leak] = (),
        assumptions: Iterable[Assumption] = (),
        doubts: Iterable[Doubt] = (),
        relation: str | None = None,
        for_new_people: str | None = None,
    ) -> Certificate:
        """Return a weaker certificate: a smaller claim, or more assumptions.

        Parameters
        ----------
        epsilon : float, default=0.0
            Level for further records. The new level is at least this one; the
            certificate then claims no level below, and no law of the loss.

        leaks, assumptions, doubts : iterable of Leak, Assumption and Doubt
            Codes to add.

        relation : {"replace-one", "add-remove"}, default=None
            What neighbors are, where it does not say.

        for_new_people : str, default=None
            Meaning of the risk for new people.
        """
        changes: dict[str, Any] = {
            "leaks": self.leaks.union(leaks),
            "assumptions": self.assumptions.union(assumptions),
            "doubts": self.doubts.union(doubts),
        }
        if relation is not None:
            if self.relation not in (None, relation):
                raise ValueError(
                    f"relation must be {self.relation!r}, as it is, got {relation!r}."
                )
            changes["relation"] = relation
        evidence = self.evidence
        if epsilon:
            changes |= {"epsilon": max(epsilon, self.epsilon), "loss": None}
            if evidence is not None:
                evidence = _covering(evidence, epsilon)
        if evidence is not None and for_new_people is not None:
            evidence = replace(evidence, for_new_people=for_new_people)
        return remade(self, evidence=evidence, **changes)

    def without_evidence(self) -> Certificate:
        """Return a copy without evidence, for when the evidence reveals too much."""
        return remade(self, evidence=None)

    def as_certificate(self) -> Certificate:
        """Return itself, so that composed certificates compose further."""
        return self


def mint(**parts: Any) -> Certificate:
    """Make a certificate: for this folder, and the mechanisms that are proven.

    What has more numbers than a level goes through calibration.
    """
    return Certificate(**parts, mint=_MINT)


def remade(certificate: Certificate, **changes: Any) -> Certificate:
    """Return a certificate with other fields: for this folder alone."""
    return mint(**(fields_of(certificate) | changes))


def _covering(evidence: Evidence, epsilon: float) -> Evidence:
    """Return evidence that also covers a level, at all other levels as well."""
    curve, measured = evidence.curve, evidence.advantage
    advantage = mint(epsilon=epsilon).advantage
    if curve is not None:
        curve = np.maximum(curve, [epsilon, 0.0])
    if measured is not None:
        measured = replace(
            measured,
            mean=max(measured.mean, advantage.mean),
            quantile=max(measured.quantile, advantage.quantile),
        )
    return replace(evidence, curve=curve, advantage=measured)


def claim_with_audit(certificate: Certificate, measured: MeasuredRisk) -> Certificate:
    """Return a certificate with what an audit of its reference measured.

    The risk and whatever else it claims stay as they are. An audit that supports the
    risk settles the doubts about a declared law, or few rows; one that contradicts it
    is a doubt. For the audit of a reference alone, which sees to it that both are about
    the same query, reference and target.
    """
    refuse_second_audit(certificate)
    evidence, doubts = certificate.require_evidence(), certificate.doubts
    if measured.settles(evidence.gamma):
        doubts -= {Doubt.MADE_UP, Doubt.THIN}
    if measured.verdict == "contradicted":
        doubts |= {Doubt.CONTRADICTED}
    return remade(
        certificate, evidence=replace(evidence, audit=measured), doubts=doubts
    )


def refuse_second_audit(certificate: Certificate) -> None:
    """Refuse an audit, best before it is charged, where there has been one."""
    if certificate.require_evidence().audit is not None:
        raise IncompatibleError(
            "The certificate has an audit already: limits that are chosen among those "
            "of several audits do not hold with their confidence. Fit again with what "
            "was learned, on records of which none was in the first."
        )


def over_private_records(
    certificate: Certificate,
    *,
    reference: str,
    n_candidates: int | None,
    leaks: Iterable[Leak],
    curve: _Floats | None,
) -> Certificate:
    """Return the claim over pairs from private data, without what it has of these.

    As the scale of the noise, an advantage does not depend on who was drawn.
    """
    known, secret = certificate.require_evidence(), n_candidates is not None
    of_pairs = (
        "for_new_people",
        "n_unanswered",
        "advantage",
        "audit",
        "rows_per_person",
    )
    kept: dict[str, Any] = dict.fromkeys(of_pairs)
    if secret:
        kept["advantage"] = known.advantage
    return remade(
        certificate,
        evidence=replace(
            known,
            population=Population.CANDIDATES if secret else Population.PRIVATE,
            reference=reference,
            n_candidates=n_candidates,
            curve=curve,
            **kept,
        ),
        leaks=certificate.leaks.union(leaks),
        assumptions=certificate.assumptions - {Assumption.PUBLIC_REFERENCE},
    )


def as_certificate(release: Any) -> Certificate:
    """Return the certificate of a release.

    Parameters
    ----------
    release : object with `as_certificate`, float or tuple of float
        A :class:`Certificate` or a mechanism; or plain numbers, `epsilon`, (epsilon,
        delta) or (epsilon, delta, risk), on the caller's word. A plain risk is taken to
        be over the pair and the noise together, the weakest reading.

    Raises
    ------
    ValueError
        If it is none of these, or a number is out of range.

    Examples
    --------
    >>> from skparisk.core import as_certificate
    >>> as_certificate((0.5, 1e-6)).delta
    1e-06
    """
    if hasattr(release, "as_certificate"):
        found = release.as_certificate()
        if type(found) is not Certificate:
            raise ValueError(
                f"as_certificate must return a Certificate, got {found!r}."
            )
        return found
    numbers = release if isinstance(release, tuple | list) else (release,)
    plain = all(map(is_number, numbers))
    if not plain or not 1 <= len(numbers) <= 3:
        raise ValueError(
            "a release must be a certificate, a mechanism or up to three numbers "
            f"(epsilon, delta, risk), got {release!r}."
        )
    names = ("epsilon", "delta", "risk")
    given = dict(zip(names, numbers, strict=False))
    return mint(**given, unit=None, assumptions=frozenset({Assumption.DECLARED_LEVEL}))


def as_certificates(releases: Iterable[Any]) -> list[Certificate]:
    """Return what each release of a list guarantees, as :func:`as_certificate` does.

    A ValueError if it is no list of releases, such as a single tuple of numbers.
    """
    if isinstance(releases, str | Mapping) or not isinstance(releases, Iterable):
        raise ValueError(f"releases must be a list of releases, got {releases!r}.")
    listed = list(releases)
    if isinstance(releases, tuple) and any(map(is_number, listed)):
        raise ValueError(
            "releases must be a list, not bare numbers: a tuple of numbers is one "
            f"release (epsilon, delta, risk), so put it into a list; got {releases!r}."
        )
    return [as_certificate(release) for release in listed]


def _from_levels(claim: Claim) -> Advantage:
    """Return what follows from level, delta, risk and the law of the loss alone."""
    outside = min(1.0, add_up([claim.risk, claim.failure_prob]))
    over_noise = bool(outside) and claim.randomness != Scope.PAIR
    delta = min(1.0, add_up([claim.delta, outside])) if over_noise else claim.delta
    shrunk = math.exp(-claim.epsilon)
    gain = (-math.expm1(-claim.epsilon) + 2 * delta * shrunk) / (1 + shrunk)
    if claim.epsilon:  # else it is delta itself
        gain = _rounded(gain)
    for_every_pair = claim.randomness == Scope.NOISE and not claim.failure_prob
    loss = claim.loss
    if loss is not None and (for_every_pair or not over_noise):
        (by_law,) = loss.law.advantage([loss.shift], n_outputs=1, steps=MOST_STEPS)
        gain = min(gain, _rounded(float(by_law + loss.excess)))
    if not outside or claim.randomness == Scope.NOISE:
        return Advantage(gain, gain, 0.0)
    if over_noise:  # on average over pairs: nothing is said of single ones
        return Advantage(gain, 1.0, outside)
    # On average, where it does not hold for a share of pairs.
    return Advantage(_rounded((1 - outside) * gain + outside), gain, outside)


def _rounded(bound: float) -> float:
    return min(1.0, bound * (1 + ROUNDING))
