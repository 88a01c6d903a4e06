"""What one release, or several together, guarantee: the currency of budgets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, Self

from skparisk._documents import as_html, as_text, read_document
from skparisk._text import NEIGHBORS, NO_NOISE
from skparisk._validate import check_at_least, check_choice
from skparisk.composition import _wording as wording
from skparisk.composition._sums import round_up

__all__ = [
    "DominatingLoss",
    "PrivacyGuarantee",
    "as_guarantee",
    "as_guarantees",
]

RANDOMNESS = ("implicit", "both", "explicit")

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
            plain[name] = _check_sentences(getattr(self, name), name)
        for name in ("delta", "risk", "failure_prob"):
            plain[name] = _check_range(getattr(self, name), name, 1.0)
        check_choice(self.randomness, "randomness", RANDOMNESS)
        if self.relation is not None:
            check_choice(self.relation, "relation", NEIGHBORS)
        check_choice(self.method, "method", wording.METHODS)
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
        return wording.in_words(self)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What is taken on the caller's word."""
        return wording.conditions(self)

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
        return read_document(
            document,
            "guarantee",
            cls._from_entries,
            names=[f.name for f in fields(cls)],
            derived=_DERIVED,
        )

    @classmethod
    def _from_entries(cls, entries: dict[str, Any]) -> Self:
        if isinstance(entries["loss"], Mapping):
            entries["loss"] = DominatingLoss(**entries["loss"])
        return cls(**entries)

    def __str__(self) -> str:
        return as_text(self, wording.rows(self))

    def _repr_html_(self) -> str:
        return as_html(self, wording.rows(self))


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


def _check_sentences(value: Any, name: str) -> tuple[str, ...]:
    listed = isinstance(value, tuple | list)
    if not listed or not all(isinstance(text, str) and text for text in value):
        raise ValueError(f"{name} must be a tuple of sentences, got {value!r}.")
    return tuple(value)


def _check_range(value: Any, name: str, most: float) -> float:
    """Return a number in [0, most], rounded up."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 <= value <= most:
        raise ValueError(f"{name} must be a number in [0, {most:g}], got {value!r}.")
    if isinstance(value, Rational):
        return round_up(Fraction(value))
    rounded = float(value)  # of a number that may have more digits
    return math.nextafter(rounded, math.inf) if rounded < value else rounded
