"""What one release, or several together, guarantee: the currency of budgets."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any, Self

from skparisk._text import NEIGHBORS, NO_NOISE, ceil_text
from skparisk._validate import check_at_least, check_choice
from skparisk.exceptions import IncompatibleError

__all__ = [
    "METHODS",
    "DominatingLoss",
    "PrivacyGuarantee",
    "as_guarantee",
    "as_guarantees",
    "ceil_float",
    "exact_sum",
    "merge",
]

RANDOMNESS = ("implicit", "both", "explicit")

# How a guarantee was found, in words.
METHODS = {
    "single": "one release",
    "basic": "levels, deltas and risks add up",
    "parallel": "the largest of disjoint parts",
    "advanced": "advanced composition, tight mean of the loss",
    "dwork-roth": "advanced composition (Dwork and Roth 2014, Theorem 3.20)",
    "laplace": "advanced composition with the mean loss of Laplace noise",
    "privacy-at-risk": "Dandekar et al. 2021, Theorem 3",
    "privacy-at-risk-preprint": "Dandekar et al. (preprint), Theorem 3",
    "exact": "privacy loss distributions",
    "filter": "advanced composition with levels chosen on the way",
    "group": "group privacy",
    "approximate": "risk turned into delta",
    "transferred": "another population",
    "random-stopping": "random stopping: three times the level of one run",
}
# Valid only if how many releases there are, and their levels, were fixed before.
_FIXED_LEVELS = ("advanced", "dwork-roth", "laplace", "exact")
_INFINITE = "epsilon is infinite: this is NOT private."
_CERTAIN = "The risk, or delta, is 1: this says nothing."
_SENTENCES = ("void_reasons", "leaks", "provisos")
_DERIVED = ("private", "guarantee", "conditions")


@dataclass(frozen=True)
class DominatingLoss:
    """A known law that the privacy loss of a release stays below.

    Parameters
    ----------
    law : {"laplace", "gaussian"}
        The loss of one output with noise of that law.

    shift : float
        Distance of the two answers over the noise scale, in [0, inf): l1 for Laplace
        noise, l2 for Gaussian noise.

    excess : float, default=0.0
        The most by which the loss may exceed a variable of that law, >= 0, such as
        for noise on a grid.

    Examples
    --------
    >>> from skparisk.composition import DominatingLoss
    >>> DominatingLoss("gaussian", shift=0.5)
    DominatingLoss(law='gaussian', shift=0.5, excess=0.0)
    """

    law: str
    shift: float
    excess: float = 0.0

    def __post_init__(self) -> None:
        check_choice(self.law, "law", ("laplace", "gaussian"))
        for name in ("shift", "excess"):
            value = _check_range(getattr(self, name), name, math.inf)
            if math.isinf(value):
                raise ValueError(f"{name} must be a finite number, got {value!r}.")
            object.__setattr__(self, name, value)

    @property
    def largest(self) -> float:
        """Largest loss that there is; infinite for Gaussian noise."""
        bounded = self.law == "laplace"
        return self.shift + self.excess if bounded else math.inf


@dataclass(frozen=True)
class PrivacyGuarantee:
    """What one release, or several together, guarantee.

    What composition takes and returns. A :class:`~skparisk.RiskCertificate` becomes
    one by its `as_guarantee`, and so do the mechanisms.

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
        What neighboring databases are. None: not said; it then goes with any other.

    loss : DominatingLoss, default=None
        A law that the privacy loss stays below, outside a risk over pairs. None: only
        what `epsilon` and `delta` say is known.

    method : str, default="single"
        How it was found: a key of `METHODS`.

    n_releases : int, default=1
        Releases that it is about, >= 0.

    group_size : int, default=1
        Steps from one neighbor to the next that it is about, >= 1: see
        :func:`group_privacy`.

    post_processed : bool, default=False
        Whether a risk over pair and noise is a part of delta, on average over pairs,
        and no longer one of the loss: see :func:`post_process`.

    void_reasons, leaks, provisos : tuple of str, default=()
        Sentences: why there is no guarantee at all; what about the private data was
        released without noise; what else the guarantee rests on.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skparisk.composition import PrivacyGuarantee
    >>> print(PrivacyGuarantee(0.5, relation="replace-one").guarantee)
    For any two databases that differ in one record: the release is
    0.5-differentially private.
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

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "epsilon": _check_range(self.epsilon, "epsilon", math.inf),
            "n_releases": check_at_least(self.n_releases, "n_releases", 0),
            "group_size": check_at_least(self.group_size, "group_size", 1),
            "post_processed": bool(self.post_processed),
        }
        for name in _SENTENCES:
            plain[name] = tuple(str(text) for text in getattr(self, name))
        for name in ("delta", "risk", "failure_prob"):
            plain[name] = _check_range(getattr(self, name), name, 1.0)
        check_choice(self.randomness, "randomness", RANDOMNESS)
        if self.relation is not None:
            check_choice(self.relation, "relation", NEIGHBORS)
        check_choice(self.method, "method", METHODS)
        if self.loss is not None and not isinstance(self.loss, DominatingLoss):
            raise ValueError(
                f"loss must be None or a DominatingLoss, got {self.loss!r}."
            )
        if self.loss is not None and self.loss.largest < plain["epsilon"]:
            raise ValueError(
                f"epsilon={self.epsilon!r} must be at most the largest loss of "
                f"{self.loss!r}, {self.loss.largest!r}."
            )
        if math.isinf(plain["epsilon"]) and not plain["void_reasons"]:
            plain["void_reasons"] = (
                NO_NOISE if self.method == "single" else _INFINITE,
            )
        elif max(plain["risk"], plain["delta"]) == 1 and not plain["void_reasons"]:
            plain["void_reasons"] = (_CERTAIN,)
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def voided(self) -> bool:
        """Whether there is no guarantee at all."""
        return bool(self.void_reasons)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What voids the guarantee, or makes it rest on the caller's word."""
        return self.void_reasons + self.leaks + self.provisos

    @property
    def private(self) -> bool:
        """Whether the guarantee stands as it is written."""
        return not (self.voided or self.leaks)

    @property
    def confidence(self) -> float:
        """Probability that the rest holds: 1 - risk."""
        return 1 - self.risk

    @property
    def guarantee(self) -> str:
        """The claim in words."""
        return _in_words(self)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What is taken on the caller's word."""
        several = self.n_releases > 1
        sampled = self.risk > 0 and self.randomness != "explicit"
        cases = {
            "what was asked with a risk did not depend on earlier releases": (
                several and sampled
            ),
            "levels, or a limit of their sum, were fixed before the first release": (
                several and self.method == "basic"
            ),
            "how many releases there are, and their levels, did not depend on earlier "
            "releases": several and self.method in _FIXED_LEVELS,
            "a limit of the level, delta and slack were fixed before the first "
            "release, and that limit is what all releases together guarantee": (
                several and self.method == "filter"
            ),
            "the parts are disjoint, and which record is in which is fixed": (
                self.method == "parallel"
            ),
            "pairs for the release of a part were sampled as for that part": (
                self.method == "parallel" and sampled
            ),
            "each step from neighbor to neighbor in a group is as a sampled pair": (
                self.method == "group" and sampled
            ),
            "the divergence of the populations is at most what was given": (
                self.method == "transferred"
            ),
        }
        return tuple(text for text, applies in cases.items() if applies)

    def as_guarantee(self) -> PrivacyGuarantee:
        """Return itself: what composition takes may be composed already."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, which survive JSON and YAML.

        Returns
        -------
        document : dict
            The parameters, and what follows from them: "private", "guarantee" and
            "conditions".
        """
        document = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in _SENTENCES:
            document[name] = list(document[name])
        if self.loss is not None:
            names = [f.name for f in fields(self.loss)]
            document["loss"] = {name: getattr(self.loss, name) for name in names}
        derived = {name: getattr(self, name) for name in _DERIVED}
        derived["conditions"] = list(self.conditions)
        return derived | document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the guarantee that `to_dict` wrote.

        Parameters
        ----------
        document : mapping
            As `to_dict` returned it, also after JSON or YAML.

        Returns
        -------
        guarantee : PrivacyGuarantee

        Raises
        ------
        ValueError
            If an entry is missing or unknown, or does not follow from the rest.
        """
        if not isinstance(document, Mapping):
            raise ValueError(f"document must be a mapping, got {document!r}.")
        names = [f.name for f in fields(cls)]
        if set(document) != {*_DERIVED, *names}:
            raise ValueError(
                "document must have the entries of a guarantee, "
                f"{sorted({*_DERIVED, *names})}; got {sorted(map(str, document))}."
            )
        entries = {name: document[name] for name in names}
        try:
            if isinstance(entries["loss"], Mapping):
                entries["loss"] = DominatingLoss(**entries["loss"])
            guarantee = cls(**entries)
        except (TypeError, ValueError) as error:
            raise ValueError(f"document is not a guarantee: {error}") from error
        expected = guarantee.to_dict()
        wrong = [name for name, value in expected.items() if document[name] != value]
        if wrong:
            raise ValueError(
                f"document has entries that do not follow from the rest: {wrong}."
            )
        return guarantee

    def __str__(self) -> str:
        rows = "\n".join(f"  {name}: {value}" for name, value in _rows(self))
        notes = "".join(f"\nCaveat: {text}" for text in self.caveats)
        return f"{self.guarantee}\n{rows}{notes}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in _rows(self)
        )
        notes = "".join(
            f"<p><strong>Caveat.</strong> {html.escape(text)}</p>"
            for text in self.caveats
        )
        return (
            f"<div><p>{html.escape(self.guarantee)}</p>{notes}"
            f"<table>{rows}</table></div>"
        )


def as_guarantee(release: Any) -> PrivacyGuarantee:
    """Return what a release guarantees.

    Parameters
    ----------
    release : object with `as_guarantee`, float or tuple of float
        A :class:`PrivacyGuarantee`, a :class:`~skparisk.RiskCertificate` or a
        mechanism; or plain numbers, `epsilon`, (epsilon, delta) or (epsilon, delta,
        risk). A plain risk is taken to be over the pair and the noise together, the
        weakest reading.

    Returns
    -------
    guarantee : PrivacyGuarantee

    Raises
    ------
    ValueError
        If it is none of these, or a number is out of range.
    """
    if hasattr(release, "as_guarantee"):
        return _as_plain(release.as_guarantee())
    numbers = release if isinstance(release, tuple | list) else (release,)
    plain = all(isinstance(x, Real) and not isinstance(x, bool) for x in numbers)
    if not plain or not 1 <= len(numbers) <= 3:
        raise ValueError(
            "a release must be a certificate, a guarantee, a mechanism or up to three "
            f"numbers (epsilon, delta, risk), got {release!r}."
        )
    return PrivacyGuarantee(*numbers)


def _as_plain(guarantee: Any) -> PrivacyGuarantee:
    """Return a guarantee of no subclass, which cannot say something else later."""
    if not isinstance(guarantee, PrivacyGuarantee):
        raise ValueError(
            f"as_guarantee must return a PrivacyGuarantee, got {guarantee!r}."
        )
    if type(guarantee) is PrivacyGuarantee:
        return guarantee
    names = [f.name for f in fields(PrivacyGuarantee)]
    return PrivacyGuarantee(**{name: getattr(guarantee, name) for name in names})


def as_guarantees(releases: Iterable[Any]) -> list[PrivacyGuarantee]:
    """Return what each release of a list guarantees."""
    if isinstance(releases, str | Mapping) or not isinstance(releases, Iterable):
        raise ValueError(f"releases must be a list of releases, got {releases!r}.")
    listed = list(releases)
    if isinstance(releases, tuple) and any(isinstance(x, Real) for x in listed):
        raise ValueError(
            "releases must be a list, or have no bare numbers: a tuple of numbers is "
            "one release (epsilon, delta, risk), which goes into a list; got "
            f"{releases!r}."
        )
    return [as_guarantee(release) for release in listed]


def merge(guarantees: Iterable[PrivacyGuarantee]) -> dict[str, Any]:
    """Return what all rules of composition do alike: risks, caveats, relation.

    Risks add up (union bound). So does the share of samples that fail; it becomes a
    part of the risk unless all risks that are over pairs come with such a share.
    """
    all_of_them = list(guarantees)
    relations = {g.relation for g in all_of_them} - {None}
    if len(relations) > 1:
        raise IncompatibleError(
            "releases must have one relation of neighboring databases, got "
            f"{sorted(map(str, relations))}."
        )
    sizes = {g.group_size for g in all_of_them} or {1}
    if len(sizes) > 1:
        raise IncompatibleError(
            f"releases must be about groups of one size, got {sorted(sizes)}."
        )
    risky = [g for g in all_of_them if g.risk or g.failure_prob]
    kinds = {g.randomness for g in risky}
    risk = exact_sum(g.risk for g in risky)
    failure_prob = exact_sum(g.failure_prob for g in risky)
    if any(g.failure_prob == 0 and g.randomness != "explicit" for g in risky):
        risk, failure_prob = risk + failure_prob, Fraction(0)
    return {
        "risk": min(1.0, ceil_float(risk)),
        "failure_prob": min(1.0, ceil_float(failure_prob)),
        "randomness": kinds.pop() if len(kinds) == 1 else "both",
        "relation": relations.pop() if relations else None,
        "n_releases": sum(g.n_releases for g in all_of_them),
        "group_size": sizes.pop(),
        "post_processed": any(g.post_processed for g in all_of_them),
        **{
            name: tuple(
                sorted({text for g in all_of_them for text in getattr(g, name)})
            )
            for name in _SENTENCES
        },
    }


def exact_sum(numbers: Iterable[float]) -> Fraction:
    """Return the sum of the decimal numbers that floats are written as."""
    return sum((Fraction(repr(float(number))) for number in numbers), Fraction(0))


def ceil_float(value: Fraction) -> float:
    """Return the least float that is written as a decimal number >= `value`."""
    nearest = float(value)
    while Fraction(repr(nearest)) < value:
        nearest = math.nextafter(nearest, math.inf)
    return nearest


def _check_range(value: Any, name: str, most: float) -> float:
    """Return a number in [0, most], rounded up."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 <= value <= most:
        raise ValueError(f"{name} must be a number in [0, {most:g}], got {value!r}.")
    try:
        rounded = float(value)
    except OverflowError:
        return math.inf
    return math.nextafter(rounded, math.inf) if rounded < value else rounded


def _in_words(claim: PrivacyGuarantee) -> str:
    if claim.voided:
        return f"There is no guarantee. {claim.caveats[0]}"
    words = _claim_in_words(claim)
    if claim.leaks:
        words += " This is apart from what was released without noise."
    return words


def _claim_in_words(claim: PrivacyGuarantee) -> str:
    neighbors = _neighbors(claim)
    several = claim.n_releases > 1
    what = f"{claim.n_releases} releases together" if several else "release"
    are = "are" if several else "is"
    if not (claim.risk or claim.failure_prob):
        return f"For any {neighbors}: the {what} {are} {_private_at(claim)}."
    if claim.randomness == "implicit":
        return (
            f"For {neighbors}: with probability at least {_confidence(claim)} over "
            f"{_over(claim, 'the fresh pair')}, the {what} {are} {_private_at(claim)} "
            "for that pair, whatever is released."
        )
    every = claim.randomness == "explicit"
    whom = f"For {'any ' if every else ''}{neighbors}:"
    if claim.delta or (claim.post_processed and not every):
        average = "" if every else ", on average over " + _over(claim, "the fresh pair")
        level = _private_at(claim, claim.delta + claim.risk)
        return f"{whom} the {what} {are} {level}{average}."
    over = _over(claim, "the noise" if every else "the fresh pair and the noise")
    return (
        f"{whom} the privacy loss of the {what} exceeds {ceil_text(claim.epsilon)} "
        f"with probability at most {ceil_text(claim.risk)} over {over}."
    )


def _neighbors(claim: PrivacyGuarantee) -> str:
    if claim.group_size == 1:
        return NEIGHBORS.get(claim.relation or "", "two neighboring databases")
    steps = {
        "replace-one": "that differ in at most {} records",
        "add-remove": "that at most {} added or removed records make equal",
    }.get(claim.relation or "", "that are at most {} neighbors apart")
    return f"two databases {steps.format(claim.group_size)}"


def _private_at(claim: PrivacyGuarantee, delta: float | None = None) -> str:
    level = ceil_text(claim.epsilon)
    delta = claim.delta if delta is None else delta
    if delta:
        level = f"({level}, {ceil_text(min(1.0, delta))})"
    return f"{level}-differentially private"


def _confidence(claim: PrivacyGuarantee) -> str:
    return str(1 - Decimal(ceil_text(claim.risk)))


def _over(claim: PrivacyGuarantee, what: str) -> str:
    if claim.failure_prob:
        share = ceil_text(claim.failure_prob)
        return f"{what}, in all but a share {share} of all samples of pairs"
    return what if claim.randomness == "explicit" else f"{what} and the sampled pairs"


def _rows(claim: PrivacyGuarantee) -> list[tuple[str, str]]:
    over = {
        "implicit": "the pair of databases",
        "both": "the pair of databases and the noise together",
        "explicit": "the noise, for every pair",
    }
    rows = [
        ("privacy level epsilon", ceil_text(claim.epsilon)),
        ("delta", ceil_text(claim.delta)),
        ("risk", ceil_text(claim.risk)),
    ]
    if claim.risk:
        rows.append(("risk is over", over[claim.randomness]))
    if claim.failure_prob:
        rows.append(("fails for a share of samples", ceil_text(claim.failure_prob)))
    rows += [
        ("relation", claim.relation or "not said"),
        ("releases", str(claim.n_releases)),
        ("composition", METHODS[claim.method]),
    ]
    rows += [("taken on the caller's word", text) for text in claim.conditions]
    return rows
