"""A certificate that was read from a document: printed and checked, never charged.

What a document says must follow from its numbers: by the laws and rules of this
package, no more is claimed than they carry. No more is asked than what is necessary:
calibration rounds to the safe side, and pays for the grid of the noise, itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc

from skparisk import _words as words
from skparisk._text import from_strict
from skparisk._version import __version__
from skparisk.core.calibrate import point_of_level
from skparisk.core.checks import check_at_least, check_choice
from skparisk.core.claim import (
    Advantage,
    Assumption,
    Claim,
    DominatingLoss,
    Doubt,
    Evidence,
    Leak,
    MeasuredRisk,
    Population,
    Scope,
)
from skparisk.core.laws import LAWS, NORMS, OWN_NAMES
from skparisk.core.rounding import (
    ROUNDING,
    ceil_text,
    check_range,
    decimal,
    fields_of,
)

_KNOWN = ("declared", "bound")
_RULES = ("exchangeable", "pac", "dkw", *_KNOWN)
# Parts of the evidence that are documents of their own.
_MEASURED: Mapping[str, type] = {"advantage": Advantage, "audit": MeasuredRisk}

# Points of a curve at most.
_CURVE_POINTS = 2048
# Of tails, which are accurate to some digits less than sums are.
_SLACK = 1 + 2.0**-20


@dataclass(frozen=True)
class FiledCertificate(Claim):
    """Certificate read from a document: for reading, not for composition.

    It has the fields of a :class:`~skparisk.Certificate`, and prints alike. It rests on
    the author of the document alone, so ledgers do not charge it, and it does not
    compose. Its numbers are checked against each other.

    Raises
    ------
    ValueError
        If a number is out of range, or the evidence cannot carry the claim.

    Examples
    --------
    >>> from skparisk import FiledCertificate
    >>> from skparisk.core import as_certificate
    >>> filed = FiledCertificate.from_dict(as_certificate(0.5).to_dict())
    >>> filed.epsilon
    0.5
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss is not None:
            _check_loss(self, self.loss)
        if self.evidence is not None:
            _check_evidence(self, self.evidence)
        said = self.leaks | self.assumptions | self.doubts
        missing = {*self._follow(), *_follow_from(self.evidence)} - said
        _require(
            not missing,
            "leaks, assumptions and doubts must have what follows from the rest: "
            f"{', '.join(sorted(missing))}.",
        )

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], /) -> Self:
        """Return the certificate that `to_dict` wrote.

        Parameters
        ----------
        document : mapping
            As `to_dict` returned it, also after JSON or YAML.

        Raises
        ------
        ValueError
            If an entry is missing or unknown, the schema is another one, or the
            document contradicts its own numbers.
        """
        return _read(document, cls)


def filed(claim: Claim) -> FiledCertificate:
    """Return a claim as a filed one."""
    return FiledCertificate(**fields_of(claim, Claim))


def _read(document: Any, kind: Any) -> Any:
    """Return the claim that a document is of, if all that it says follows from it.

    Words are those of the version that wrote them: of another one, they are not
    compared but written anew.
    """
    if not isinstance(document, Mapping):
        raise ValueError(f"document must be a mapping, got {document!r}.")
    schema = {name: document.get(name) for name in words.SCHEMA}
    if schema != words.SCHEMA:
        raise ValueError(
            f"document must be a certificate with {words.SCHEMA}, got {schema}: it is "
            "something else, or was written by a version of skparisk with another "
            "schema."
        )
    derived = ("version", "guarantee", "caveats", "conditions", "private")
    entries = _entries(document, Claim, *words.SCHEMA, *derived)
    evidence, loss = document["evidence"], document["loss"]
    try:
        if loss is not None:
            entries["loss"] = DominatingLoss(**_entries(loss, DominatingLoss))
        if evidence is not None:
            parts = _entries(evidence, Evidence, optional="curve")
            for name, kind_ in _MEASURED.items():
                if parts[name] is not None:
                    parts[name] = kind_(**_entries(parts[name], kind_))
            entries["evidence"] = Evidence(**parts)
        claim = kind(**entries)
    except (TypeError, ValueError) as error:
        raise ValueError(f"document is not a certificate: {error}") from error
    has_curve = evidence is not None and "curve" in evidence
    expected = words.document(claim, curve=has_curve)
    if document["version"] != __version__:
        expected |= {name: document[name] for name in derived[:4]}
    wrong = [name for name, value in expected.items() if document[name] != value]
    if wrong:
        raise ValueError(
            f"document has entries that do not follow from the rest: {wrong}."
        )
    return claim


def _entries(
    document: Any, kind: type, *others: str, optional: str | None = None
) -> dict[str, Any]:
    """Return the parameters of a part, which has no other entries, as they were."""
    if not isinstance(document, Mapping):
        raise ValueError(f"document must hold a mapping, got {document!r}.")
    names = [field.name for field in fields(kind)]
    wanted = (*others, *names)
    missing = [name for name in wanted if name not in (*document, optional)]
    unknown = [name for name in document if name not in wanted]
    if missing or unknown:
        raise ValueError(
            f"document must have the entries of a certificate; missing: {missing}, "
            f"unknown: {unknown}."
        )
    return from_strict({name: document[name] for name in names if name in document})


def _require(holds: Any, message: str) -> None:
    """Refuse what does not hold."""
    if not holds:
        raise ValueError(message)


def _check_loss(claim: Claim, loss: Any) -> None:
    """Refuse a law of the loss of less loss than there is."""
    known = isinstance(loss, DominatingLoss)
    _require(known, f"loss must be None or a DominatingLoss, got {loss!r}.")
    _require(
        claim.epsilon <= loss.largest,
        f"epsilon={claim.epsilon!r} must be at most the largest loss of {loss!r}, "
        f"{loss.largest!r}.",
    )
    if claim.evidence is not None:
        law, scale = claim.evidence.law, claim.evidence.noise_scale
        least = claim.evidence.sensitivity / (scale or math.inf)
        _require(
            loss.law.name == law and loss.shift >= least,
            f"loss must be the law of {law} noise, with a shift of at least {least!r}, "
            f"sensitivity / noise_scale; got {loss!r}.",
        )


def _check_numbers(evidence: Evidence) -> None:
    """Refuse evidence whose numbers are out of range, or do not go together."""
    e, m = evidence, evidence.n_pairs
    for name in ("sensitivity", "noise_scale", "margin"):
        check_range(getattr(e, name), name)
    check_range(e.gamma, "gamma", 1.0)
    for name in ("n_records", "n_outputs", "n_neighbors"):
        check_at_least(getattr(e, name), name, 1)
    check_at_least(e.n_constant, "n_constant", 0)
    _require(e.margin >= 1, f"margin must be at least 1, got {e.margin!r}.")
    _require(
        e.n_constant < e.n_outputs,
        f"n_constant must be below n_outputs={e.n_outputs}, as something is released, "
        f"got {e.n_constant!r}.",
    )
    check_choice(e.calibration, "calibration", _RULES)
    drawn = Population(e.population) == Population.CANDIDATES
    _require(
        drawn == (e.n_candidates is not None),
        "n_candidates must be given if population is 'candidates', and only then; got "
        f"{e.n_candidates!r} with {str(e.population)!r}.",
    )
    for name in ("law", "noise_shape"):
        given = getattr(e, name)
        named = isinstance(given, str) and given
        _require(named, f"{name} must be a name, got {given!r}.")
    check_choice(e.norm, "norm", (*NORMS.values(), "trace"))
    norm = NORMS[LAWS[e.law]().norm] if e.law in LAWS else e.norm
    _require(
        norm == e.norm, f"norm must be {norm!r} with law={e.law!r}, got {e.norm!r}."
    )
    least_numbers = {"n_pairs": 1, "n_unanswered": 0, "n_shape_pairs": 1}
    for name, least in {**least_numbers, "n_candidates": e.n_records + 1}.items():
        if getattr(e, name) is not None:
            check_at_least(getattr(e, name), name, least)
    if m is None:
        for name in ("order_index", "n_unanswered", "n_shape_pairs", "advantage"):
            alone = getattr(e, name) is None
            _require(alone, f"{name} must be None without n_pairs.")
    else:
        _check_sample(e, m)
    if e.curve is not None:
        shape = e.curve.shape
        _require(
            len(shape) == 2 and shape[1] == 2 and shape[0],
            f"curve must be of shape (n_points, 2), got {shape}.",
        )
        _require(
            ((e.curve >= 0) & (e.curve <= (math.inf, 1.0))).all(),
            "curve must have levels in [0, inf] and risks in [0, 1].",
        )
    if e.audit is not None:
        most = 0 if m is None else e.n_records
        _require(
            e.audit.gamma >= e.gamma and e.audit.n_records <= most,
            f"audit must be of sampled pairs, of a gamma of at least {e.gamma!r} and "
            f"of at most {e.n_records} records; got {e.audit!r}.",
        )


def _check_sample(evidence: Evidence, m: int) -> None:
    """Refuse numbers of pairs that do not go together."""
    r, index = evidence.n_neighbors, evidence.order_index
    _require(m % r == 0, f"n_pairs must be a multiple of n_neighbors={r}, got {m!r}.")
    _require(
        evidence.n_shape_pairs is None or evidence.noise_shape != "isotropic",
        "n_shape_pairs must be None with noise_shape='isotropic', got "
        f"{evidence.n_shape_pairs!r}.",
    )
    if index is not None:
        check_at_least(index, "order_index", 1)
        _require(index <= m, f"order_index must be at most {m}, got {index}.")


def _check_evidence(claim: Claim, evidence: Any) -> None:
    """Refuse evidence that breaks the rules of its method and mechanism."""
    known = isinstance(evidence, Evidence)
    _require(known, f"evidence must be None or Evidence, got {evidence!r}.")
    _check_numbers(evidence)
    finite, delta, over = math.isfinite(claim.epsilon), claim.delta, claim.randomness
    every, both = over == Scope.NOISE, over == Scope.PAIR_AND_NOISE
    rule, law = evidence.calibration, evidence.law
    bounded = over == Scope.PAIR or (every and not claim.risk)
    _require(
        claim.n_releases == 1,
        f"evidence must be None unless n_releases is 1, got {claim.n_releases!r}.",
    )
    _require(
        every == (evidence.n_pairs is None),
        "n_pairs must be given unless randomness='explicit', got "
        f"{evidence.n_pairs!r} with {str(over)!r}.",
    )
    _require(
        not evidence.averages or (both and rule == "exchangeable"),
        "order_index must be given unless randomness='both' and "
        f"calibration='exchangeable', got None with {(str(over), rule)!r}.",
    )
    _require(
        every == (rule in _KNOWN),
        f"calibration must be one of {_KNOWN} for a known sensitivity, and the name of "
        f"a rule otherwise, got {rule!r}.",
    )
    _require(
        rule != "pac" or claim.failure_prob,
        "failure_prob must be above 0 with calibration='pac'.",
    )
    _require(
        evidence.noise_scale or not finite,
        "noise_scale must be above 0 with a finite epsilon.",
    )
    _require(
        law != "exponential"
        or not (delta or both or evidence.noise_shape != "isotropic"),
        "law='exponential' has no delta, no noise_shape and no randomness='both'.",
    )
    _require(
        not (evidence.averages and law == "laplace" and claim.epsilon),
        "order_index must be given with law='laplace' unless epsilon is 0, for a mean "
        "advantage; got None.",
    )
    _require(
        not (delta and both),
        f"delta must be 0 with randomness='both', got {delta!r}.",
    )
    _require(
        not (delta and every and evidence.gamma),
        "gamma must be 0 with a delta and a known sensitivity, got "
        f"{evidence.gamma!r}.",
    )
    _require(
        delta or not (law == "gaussian" and bounded and finite),
        "delta must be above 0 for gaussian noise, whose loss has no bound, with "
        f"randomness={str(over)!r} and risk={claim.risk!r}.",
    )
    if not claim.void:
        _check_carried(claim, evidence)


def _follow_from(evidence: Evidence | None) -> set[str]:
    """Return the codes that evidence comes with, besides those of a certificate."""
    if evidence is None:
        return set()
    audit, population = evidence.audit, evidence.population
    settled = audit is not None and audit.settles(evidence.gamma)
    cases = {
        Leak.PRIVATE_REFERENCE: population == Population.PRIVATE,
        Assumption.GIVEN_NOISE: evidence.law not in OWN_NAMES,
        Doubt.MADE_UP: population == Population.DECLARED and not settled,
        Doubt.CONTRADICTED: audit is not None and audit.verdict == "contradicted",
    }
    return {code for code, applies in cases.items() if applies}


def _check_carried(claim: Claim, evidence: Evidence) -> None:
    """Refuse numbers of a claim below what the evidence carries."""
    epsilon, delta, risk = claim.epsilon, claim.delta, claim.risk
    ours, shift = evidence.law in OWN_NAMES, math.inf
    if math.isfinite(evidence.sensitivity):  # over the noise scale, rounded down
        shift = float(evidence.sensitivity / evidence.noise_scale * (1 - ROUNDING))
    both = claim.randomness == Scope.PAIR_AND_NOISE
    if evidence.n_pairs is not None:
        _check_rank(evidence, risk, claim.failure_prob)
    by = (
        f"{evidence.law} noise of scale {evidence.noise_scale!r} at sensitivity "
        f"{evidence.sensitivity!r}"
    )
    if ours and claim.randomness == Scope.NOISE and risk and not delta:
        least = float(_exceeded(evidence, shift, np.array([epsilon]))[0])
        _require(
            risk * _SLACK >= least,
            f"risk must be at least {least:.6g}, with which the loss of {by} exceeds "
            f"{epsilon!r}; got {risk!r}.",
        )
    elif ours and not both:
        least = float(_least_deltas(evidence.law, epsilon, shift))
        _require(
            delta * _SLACK >= least,
            f"epsilon={epsilon!r} takes a delta of at least {least:.6g} with {by}, and "
            f"delta is {delta!r}.",
        )
    if both and ours and 0 < epsilon < math.inf:
        _check_own_level(claim, evidence)


def _check_rank(evidence: Any, risk: float, failure_prob: float) -> None:
    """Refuse a risk that the pairs do not certify.

    Rules of this package certify no less than that, on average over samples, as a fresh
    pair is one more of the same (:ref:`thm-order-statistic`, :ref:`thm-groups`).
    """
    m, r, index = evidence.n_pairs, evidence.n_neighbors, evidence.order_index
    answered = m - (evidence.n_unanswered or 0)
    _require(
        index is None or index <= answered,
        f"order_index must be at most {answered}, as no noise is enough for pairs "
        f"without an answer; got {index}.",
    )
    if evidence.calibration == "pac":
        # P(Binomial(m, 1 - risk) >= K)
        fails = float(betaincc(m - index + 1, index, risk))
        _require(
            fails <= failure_prob * _SLACK,
            f"risk={risk!r} is exceeded by the {index}-th of {m} pairs in a share "
            f"{fails:.6g} of samples, and failure_prob is {failure_prob!r}.",
        )
        return
    least = Fraction(m - (answered if index is None else index) + r, m + r)
    _require(  # of the number, or of the decimals that it is written as
        max(Fraction(risk), decimal(risk)) >= least,
        f"risk must be at least {ceil_text(float(least))}, by n_pairs={m} and "
        f"order_index={index!r}, got {risk!r}.",
    )


def _least_deltas(name: str, levels: ArrayLike, shift: float) -> NDArray[np.float64]:
    """Return the deltas of noise at a distance over its scale; 0 or 1 if bounded."""
    law = LAWS[name]() if name in LAWS else None
    if law is None or math.isinf(shift) or not law.composes:
        return np.asarray(shift > np.asarray(levels), dtype=np.float64)
    return np.asarray(law.profile(levels, shift))


def _exceeded(
    evidence: Any, shift: float, levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the risks over the noise at levels, for the worst pair that is known."""
    if math.isinf(shift):
        return np.ones(len(levels))
    if evidence.law not in LAWS:
        return np.where(levels < shift, 1.0, 0.0)
    return np.asarray(LAWS[evidence.law]().exceedance(levels, shift))


def _check_own_level(claim: Claim, evidence: Any) -> None:
    """Refuse a level that the curve, one database below, does not know.

    And a risk to the next of the points that a curve has. Whoever edits the curve as
    well is not told.
    """
    curve = np.empty((0, 2)) if evidence.curve is None else evidence.curve
    near = point_of_level(curve, claim.epsilon)
    known = float(near[0, 1]) if len(near) else math.inf
    m = evidence.n_pairs
    most = claim.risk + evidence.n_neighbors / m + 2 / min(m, _CURVE_POINTS)
    _require(
        known <= most * _SLACK,
        "epsilon must be a level for which the curve has a risk of at most "
        f"{most:.6g}, and of {claim.epsilon!r} it has "
        f"{known if len(near) else 'none'}.",
    )
