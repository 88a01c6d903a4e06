"""What is claimed of a release, its evidence, and the rules of what may be claimed.

The rules stand in one file, as whoever signs for one relies on all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skparisk.certificate._advantage import Advantage
from skparisk.certificate._audit import MeasuredRisk
from skparisk.certificate._carried import (
    check_advantage,
    check_carried,
    check_worst_loss,
)
from skparisk.certificate._loss import DominatingLoss, is_name
from skparisk.core.checks import (
    check_at_least,
    check_choice,
    check_flag,
    check_probability,
    check_relation,
)
from skparisk.core.laws import LAWS, NORMS, OWN_NAMES
from skparisk.core.rounding import check_range, exact_sum

RANDOMNESS = ("implicit", "both", "explicit")
_KNOWN = ("declared", "bound")
_RULES = ("exchangeable", "pac", "dkw", *_KNOWN)
SENTENCES = ("void_reasons", "leaks", "provisos")

# Each of these is one sentence. First: why there is no guarantee at all.
SEEDED = (
    "The noise was drawn from a seed (noise_random_state), and anyone who knows the "
    "seed can remove it: this release is NOT private."
)
SEEDED_DRAW = (
    "The secret sample was drawn from a seed (noise_random_state), and anyone who "
    "knows the seed knows who is used: this release is NOT private."
)
NO_NOISE = "epsilon is infinite and no noise was added: this release is NOT private."
INFINITE = "The total epsilon is infinite: these releases are NOT private."
CERTAIN = "Risk and delta add up to 1 or more, so nothing is guaranteed."
# What about the private data was released without noise.
PRIVATE_REFERENCE = (
    "The neighboring databases were sampled from the private data themselves, or from "
    "a table that shares records with them: the guarantee is only about resamples of "
    "these data, and the sensitivity and the scale and shape of the noise were "
    "computed from them without noise."
)
# What evidence then calls the reference.
PRIVATE_RECORDS = "resampled from private records"
PRIVATE_CLASSES = (
    "The classes were not declared but read off the private labels: the set of classes "
    "is released without noise."
)
LEARNS_MORE = (
    "Parts of the estimator that are not from skparisk were fitted to the private data "
    "and may hold what they learned without noise."
)
CHOSEN = "The parameters were chosen by scores on the private records, without noise."
PICKED = (
    "Which of the private records the release is about was chosen by earlier fits to "
    "them: one record may move which others these are."
)
REDRAWN = (
    "Another secret sample of these records, or of a part of them, was drawn and "
    "released as well: what both releases together tell is not covered."
)
# What the guarantee rests on. With one of the first four it does not stand: it may be
# about others than the people in the private records. Others inform.
MADE_UP = (
    "The claim is about made-up records, not about people. On real people such claims "
    "failed where that was measured: of pairs that should exceed the level with a risk "
    "of 0.05, a share of 0.28 did for logistic regression of an income (500 people), "
    "0.26 for that of a disease (150) and 0.08 for ridge regression of that disease "
    "(100). An audit with records that are set apart tells if it holds for these."
)
# What helps, where it is about made-up records.
BETTER = (
    "A few public records of such people say more than a declared schema, and so does "
    "a SecretSample of the private ones, or a LearnedReference."
)
THIN = (
    "The reference table has too few rows to show the tail that this risk is about, "
    "however many pairs are drawn from it."
)
OUTLIER = (
    "What was released is further from what the reference predicts than noise and "
    "chance explain: the reference may be in other units than the records, or of other "
    "people, and then the risk says nothing about these records."
)
CONTRADICTED = (
    "An audit with real records contradicts the reference: more pairs of people exceed "
    "the level than the risk says."
)
FORBIDDING = (MADE_UP, THIN, OUTLIER, CONTRADICTED)
MEMBERSHIP = (
    "What is protected is which of the records handed over are used; the scale and the "
    "shape of the noise depend on all of them, without noise."
)
DECLARED = "The sensitivity was declared by the caller and has not been checked."
_GIVEN_LAW = (
    "The law of the noise ({}) was supplied by the caller, and what it says of its "
    "privacy loss has not been checked."
)


def supports(audit: Any, gamma: float) -> bool:
    """Tell if an audit shows that the risk is no more than this, for people."""
    return audit is not None and not audit.seeded and audit.upper <= gamma


@dataclass(frozen=True)
class Evidence:
    """What the claim of a single release was computed from.

    Made by the estimators of this package, not by hand.

    Parameters
    ----------
    gamma : float
        Risk that was asked for, in (0, 1); 0 where every pair and output keeps the
        level, or a delta is all that was asked for.

    sensitivity : float
        What the noise is calibrated to.

    noise_scale : float
        Scale of the noise of each output, in units of the output; in the coordinates
        of `noise_shape` unless that is "isotropic".

    n_records : int
        Records of a database.

    n_outputs : int
        Numbers that are released.

    n_constant : int, default=0
        Those of them that differed on no sampled pair: they are not released, but what
        they are on public records.

    margin : float, default=1.0
        What the noise is multiplied by for what a reference table as a whole is off by.

    calibration : str
        The rule that chose the order statistic; "declared" for a sensitivity
        that the caller gave, "bound" for a proven one.

    law : str, default="laplace"
        Name of the law of the noise; "exponential" for a choice by scores.

    norm : {"l1", "l2", "sup", "trace"}, default=None
        Norm of the sensitivity. None: that of the law.

    n_pairs, order_index : int, default=None
        Sampled pairs m that calibrate, and the K of the K-th smallest sensitivity, or
        critical scale, that is used. None for a known sensitivity; an `order_index` of
        None beside `n_pairs` is for an average of exact risks.

    n_neighbors : int, default=1
        Pairs that have their first database in common: what the risk counts is a
        database with all of them.

    n_unanswered : int, default=None
        Pairs among the `n_pairs` of which a database had no answer. They count as if
        no noise were enough.

    noise_shape : str, default="isotropic"
        How much noise each direction of the answer gets, by name.

    n_shape_pairs : int, default=None
        Other sampled pairs that the shape is taken from, if it is.

    reference : str, default=None
        Where the sampled databases come from.

    for_new_people : str, default=None
        What a risk over resamples of a table means for new people of its population.

    advantage : Advantage, default=None
        What an attacker gains at the released noise, measured on the sampled pairs.
        None: only what the claim says is known of it.
    audit : MeasuredRisk, default=None
        What an audit of the reference measured; it changes nothing of the claim. None:
        not audited.
    worst_loss : float, default=None
        The largest loss of any pair, also outside the risk, where records are clipped
        to a domain in which the query is proven to move only so far. None: not known.
    n_candidates : int, default=None
        Records of which `n_records` were drawn in secret, if which of them is what the
        claim protects.

    made_up : bool, default=False
        Whether the sampled records are of a law that somebody declared, and not of
        people.

    curve : ndarray of shape (n_points, 2), default=None
        Other privacy levels and the risks that are certified for them at the released
        noise. None: none but those of the claim. Not compared.

    Raises
    ------
    ValueError
        If a number is out of range, or they do not go together.
    """

    gamma: float
    sensitivity: float
    noise_scale: float
    n_records: int
    n_outputs: int
    calibration: str
    law: str = "laplace"
    norm: str | None = None
    n_pairs: int | None = None
    order_index: int | None = None
    n_unanswered: int | None = None
    noise_shape: str = "isotropic"
    n_shape_pairs: int | None = None
    reference: str | None = None
    for_new_people: str | None = None
    advantage: Advantage | None = None
    audit: MeasuredRisk | None = None
    worst_loss: float | None = None
    n_candidates: int | None = None
    n_neighbors: int = 1
    n_constant: int = 0
    margin: float = 1.0
    made_up: bool = False
    curve: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "gamma": check_range(self.gamma, "gamma", 1.0),
            "sensitivity": check_range(self.sensitivity, "sensitivity"),
            "noise_scale": check_range(self.noise_scale, "noise_scale"),
            "n_records": check_at_least(self.n_records, "n_records", 1),
            "n_outputs": check_at_least(self.n_outputs, "n_outputs", 1),
            "n_neighbors": check_at_least(self.n_neighbors, "n_neighbors", 1),
            "made_up": check_flag(self.made_up, "made_up"),
        }
        plain["n_constant"] = check_at_least(self.n_constant, "n_constant", 0)
        plain["margin"] = check_range(self.margin, "margin")
        if plain["margin"] < 1:
            raise ValueError(f"margin must be at least 1, got {self.margin!r}.")
        if plain["n_constant"] >= plain["n_outputs"]:
            raise ValueError(
                f"n_constant must be below n_outputs={self.n_outputs}, as something is "
                f"released, got {self.n_constant!r}."
            )
        check_choice(self.calibration, "calibration", _RULES)
        for name in ("law", "noise_shape"):
            if not is_name(getattr(self, name)):
                raise ValueError(f"{name} must be a name, got {getattr(self, name)!r}.")
        norm = NORMS[LAWS[self.law]().norm] if self.law in LAWS else self.norm
        norms = (*NORMS.values(), "trace")
        plain["norm"] = check_choice(self.norm or norm, "norm", norms)
        if norm != plain["norm"]:
            raise ValueError(
                f"norm must be {norm!r} with law={self.law!r}, got {self.norm!r}."
            )
        least = {"n_pairs": 1, "n_unanswered": 0, "n_shape_pairs": 1}
        least |= {"n_candidates": plain["n_records"] + 1}
        for name, least_number in least.items():
            if getattr(self, name) is not None:
                number = check_at_least(getattr(self, name), name, least_number)
                plain[name] = number
        sample = self.order_index, self.n_unanswered, self.n_shape_pairs
        if self.n_pairs is not None:
            plain["order_index"] = self._check_sample(plain["n_pairs"])
        elif sample != (None,) * len(sample):
            raise ValueError(
                "order_index, n_unanswered and n_shape_pairs must be None "
                f"without n_pairs, got {sample!r}."
            )
        if self.advantage is not None:
            if not isinstance(self.advantage, Advantage) or self.n_pairs is None:
                raise ValueError(
                    "advantage must be None or an Advantage that was measured on "
                    f"n_pairs pairs, got {self.advantage!r}."
                )
            check_advantage(self)
        if self.worst_loss is not None:
            plain["worst_loss"] = check_range(self.worst_loss, "worst_loss")
            check_worst_loss(self)
        if self.curve is not None:
            plain["curve"] = _check_curve(self.curve)
        if self.audit is not None:
            self._check_audit(self.audit)
        vars(self).update(plain)  # frozen for all others

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.curve is not None:
            self.curve.flags.writeable = False

    def _check_audit(self, audit: Any) -> None:
        """Refuse an audit of a known sensitivity, or of a smaller risk, or of more."""
        if not isinstance(audit, MeasuredRisk):
            raise ValueError(f"audit must be None or a MeasuredRisk, got {audit!r}.")
        most = self.n_records if self.n_pairs is not None else 0
        if audit.gamma < self.gamma or audit.n_records > most:
            raise ValueError(
                "audit must be of sampled pairs, of a gamma of at least "
                f"{self.gamma!r} and of at most {self.n_records} records; got "
                f"{audit!r}."
            )

    def _check_sample(self, n_pairs: int) -> int | None:
        """Return which number counts, of so many pairs."""
        if n_pairs % self.n_neighbors:
            raise ValueError(
                f"n_pairs must be a multiple of n_neighbors={self.n_neighbors}, got "
                f"{n_pairs!r}."
            )
        if self.n_shape_pairs is not None and self.noise_shape == "isotropic":
            raise ValueError(
                "n_shape_pairs must be None with noise_shape='isotropic', got "
                f"{self.n_shape_pairs!r}."
            )
        if self.order_index is None:
            return None
        index = check_at_least(self.order_index, "order_index", 1)
        if index > n_pairs:
            raise ValueError(f"order_index must be at most {n_pairs}, got {index}.")
        return index

    @property
    def averages(self) -> bool:
        """Whether an average of exact risks is kept, and no order statistic."""
        return self.n_pairs is not None and self.order_index is None


@dataclass(frozen=True)
class Claim:
    """The fields of :class:`Certificate`, where they are documented, and their rules.

    Whoever makes one cannot claim what does not hold: what is missing is added (what
    voids it, what it rests on), and what contradicts itself is refused.
    """

    epsilon: float
    delta: float = 0.0
    risk: float = 0.0
    failure_prob: float = 0.0
    randomness: str = "both"
    relation: str | None = None
    loss: DominatingLoss | None = None
    method: str = "single"
    n_releases: int = 1
    group_size: int = 1
    post_processed: bool = False
    void_reasons: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    provisos: tuple[str, ...] = ()
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "epsilon": check_range(self.epsilon, "epsilon"),
            "n_releases": check_at_least(self.n_releases, "n_releases", 0),
            "group_size": check_at_least(self.group_size, "group_size", 1),
            "post_processed": bool(self.post_processed),
        }
        for name in ("delta", "risk", "failure_prob"):
            plain[name] = check_range(getattr(self, name), name, 1.0)
        for name in SENTENCES:
            plain[name] = check_sentences(getattr(self, name), name)
        check_choice(self.randomness, "randomness", RANDOMNESS)
        if self.relation is not None:
            check_relation(self.relation)
        if not isinstance(self.method, str) or not self.method:
            raise ValueError(f"method must be a name, got {self.method!r}.")
        if self.loss is not None:
            self._check_loss(self.loss, plain["epsilon"], self.evidence)
        plain["void_reasons"] += self._missing_reasons(plain)
        if self.evidence is not None:
            plain["provisos"] = self._check_evidence(self.evidence, plain)
            private = self.evidence.reference == PRIVATE_RECORDS
            if private and PRIVATE_REFERENCE not in plain["leaks"]:
                plain["leaks"] += (PRIVATE_REFERENCE,)
        plain["provisos"] += self._missing_provisos(plain["provisos"])
        vars(self).update(plain)  # frozen for all others

    @property
    def void(self) -> bool:
        """Whether there is no guarantee at all."""
        return bool(self.void_reasons)

    @property
    def private(self) -> bool:
        """Whether the guarantee stands as it is written.

        That takes secret noise, a proof, a reference other than the private data,
        public classes, and that the reference is of people, enough of them, and not
        contradicted by an audit or by what was released.
        """
        return not (self.void or self.leaks or self.doubts)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Provisos with which the guarantee does not stand; others only inform."""
        return tuple(text for text in self.provisos if text in FORBIDDING)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What voids the guarantee, or makes it rest on the caller's word."""
        return self.void_reasons + self.leaks + self.provisos

    def _missing_reasons(self, plain: dict[str, Any]) -> tuple[str, ...]:
        """Return what voids the claim by its numbers, and is not said yet."""
        reasons = plain["void_reasons"]
        if math.isinf(plain["epsilon"]) and not {NO_NOISE, INFINITE} & {*reasons}:
            return (NO_NOISE if self.method == "single" else INFINITE,)
        parts = [plain["risk"], plain["failure_prob"]]
        # For sampled pairs a delta is not a part of the risk.
        certain = plain["delta"] == 1 or exact_sum(parts) >= 1
        if self.randomness != "implicit":
            certain |= exact_sum([*parts, plain["delta"]]) >= 1
        return (CERTAIN,) if certain and not reasons else ()

    def _missing_provisos(self, said: tuple[str, ...]) -> tuple[str, ...]:
        """Return that a law or rule is not of this package, if it is not said yet."""
        given = [] if self.loss is None else [*law_proviso(self.loss.law_name)]
        if self.evidence is not None:
            given += law_proviso(self.evidence.law)
        return tuple(sorted({*given} - {*said}))

    def _check_loss(self, loss: Any, epsilon: float, evidence: Any) -> None:
        """Refuse a law of the loss that is no law, or of less loss than there is."""
        if not isinstance(loss, DominatingLoss):
            raise ValueError(f"loss must be None or a DominatingLoss, got {loss!r}.")
        if loss.largest < epsilon:
            raise ValueError(
                f"epsilon={self.epsilon!r} must be at most the largest loss of "
                f"{loss!r}, {loss.largest!r}."
            )
        if not isinstance(evidence, Evidence):
            return
        least = evidence.sensitivity / (evidence.noise_scale or math.inf)
        if loss.law_name != evidence.law or loss.shift < least:
            raise ValueError(
                f"loss must be the law of {evidence.law} noise, with a shift of "
                f"at least {least!r}, sensitivity / noise_scale; got {loss!r}."
            )

    def _check_evidence(self, evidence: Any, plain: dict[str, Any]) -> tuple[str, ...]:
        """Refuse what the evidence cannot carry; return all provisos.

        Here are the rules of method and mechanism: no delta beside a risk over pair
        and noise, one of them for noise whose loss has no bound, and so on.
        """
        if not isinstance(evidence, Evidence):
            raise ValueError(f"evidence must be None or Evidence, got {evidence!r}.")
        if plain["n_releases"] != 1 or plain["group_size"] != 1:
            raise ValueError(
                "evidence must be None unless n_releases and group_size are 1, got "
                f"{self.n_releases!r} and {self.group_size!r}."
            )
        finite, delta = math.isfinite(plain["epsilon"]), plain["delta"]
        known = self.randomness == "explicit"
        if known == (evidence.n_pairs is not None):
            raise ValueError(
                "n_pairs must be given unless randomness='explicit', got "
                f"{evidence.n_pairs!r} with {self.randomness!r}."
            )
        if self.randomness != "both" and evidence.averages:
            raise ValueError(
                "order_index must be given unless randomness='both', got None with "
                f"{self.randomness!r}."
            )
        if known != (evidence.calibration in _KNOWN):
            raise ValueError(
                f"calibration must be one of {_KNOWN} for a known sensitivity, and "
                f"the name of a rule otherwise, got {evidence.calibration!r}."
            )
        if evidence.calibration == "pac":
            check_probability(plain["failure_prob"], "failure_prob")
        if evidence.noise_scale == 0 and finite:
            raise ValueError("noise_scale must be above 0 with a finite epsilon.")
        if evidence.law == "exponential" and (
            delta or self.randomness == "both" or evidence.noise_shape != "isotropic"
        ):
            raise ValueError(
                "law='exponential' has no delta, no noise_shape and no "
                "randomness='both'."
            )
        if evidence.averages and evidence.law == "laplace" and plain["epsilon"]:
            raise ValueError(
                "order_index must be given with law='laplace' unless epsilon is 0, "
                "for a mean advantage; got None."
            )
        if delta and self.randomness == "both":
            raise ValueError(
                f"delta must be 0 with randomness='both', got {self.delta!r}."
            )
        if delta and known and evidence.gamma:
            raise ValueError(
                "gamma must be 0 with a delta and a known sensitivity, got "
                f"{evidence.gamma!r}."
            )
        bounded = self.randomness == "implicit" or (known and not plain["risk"])
        if evidence.law == "gaussian" and bounded and finite and not delta:
            raise ValueError(
                "delta must be above 0 for gaussian noise, whose loss has no bound, "
                f"with randomness={self.randomness!r} and risk={self.risk!r}."
            )
        if not plain["void_reasons"]:
            check_carried(evidence, plain, self.randomness)
        provisos: tuple[str, ...] = plain["provisos"]
        declared = evidence.calibration == "declared" and DECLARED not in provisos
        provisos = (DECLARED, *provisos) if declared else provisos
        audit = evidence.audit
        verdict = None if audit is None else audit.verdict
        if supports(audit, evidence.gamma):
            settled = (MADE_UP, THIN)
            provisos = tuple(text for text in provisos if text not in settled)
        elif evidence.made_up and MADE_UP not in provisos:
            provisos = (*provisos, MADE_UP)
        if verdict == "contradicted" and CONTRADICTED not in provisos:
            provisos = (*provisos, CONTRADICTED)
        member = evidence.n_candidates is not None and MEMBERSHIP not in provisos
        return (*provisos, MEMBERSHIP) if member else provisos


def law_proviso(name: str) -> tuple[str, ...]:
    """Return what a guarantee rests on by a law of the caller's; nothing by ours."""
    return () if name in OWN_NAMES else (_GIVEN_LAW.format(name),)


def check_sentences(value: Any, name: str) -> tuple[str, ...]:
    listed = isinstance(value, tuple | list)
    if not listed or not all(isinstance(text, str) and text for text in value):
        raise ValueError(f"{name} must be a tuple of sentences, got {value!r}.")
    return tuple(value)


def _check_curve(value: Any) -> NDArray[np.float64]:
    curve = np.array(value, dtype=np.float64)
    if curve.ndim != 2 or curve.shape[1] != 2 or not curve.size:
        raise ValueError(f"curve must be of shape (n_points, 2), got {curve.shape}.")
    if not ((curve >= 0) & (curve <= (math.inf, 1.0))).all():
        raise ValueError("curve must have levels in [0, inf] and risks in [0, 1].")
    curve.flags.writeable = False
    return curve
