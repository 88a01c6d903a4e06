"""A certificate that was read from a document: printed and checked, never charged.

What a document says must follow from its numbers: by the laws and rules of this
package, no more is claimed than they carry. No more is asked than what is necessary:
calibration rounds to the safe side, and pays for the grid of the noise, itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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
)
from skparisk.core.laws import LAWS, NORMS, Gaussian
from skparisk.core.losses import (
    gaussian_loss_exceedance,
    laplace_loss_exceedance,
)
from skparisk.core.rounding import (
    MOST_STEPS,
    ROUNDING,
    ceil_text,
    check_range,
    decimal,
    fields_of,
)

# Names of proven noise. That of noise for a matrix is none of single numbers.
OWN_NAMES = frozenset({"laplace", "gaussian", "exponential", "wishart"})
_KNOWN = ("declared", "bound")
_RULES = ("exchangeable", "pac", "dkw", *_KNOWN)
# Parts of the evidence that are documents of their own.
_MEASURED: Mapping[str, type] = {"advantage": Advantage, "audit": MeasuredRisk}

# Of tails, which are accurate to some digits less than sums are.
_SLACK = 1 + 2.0**-20
# What errors and the grid of the noise are paid for with is less of a level.
_NEAR = 1 - 2.0**-3
_CURVE_POINTS = 2048
_EXCEEDANCES: dict[str, Callable[..., Any]] = {
    "laplace": laplace_loss_exceedance,
    "gaussian": gaussian_loss_exceedance,
}


@dataclass(frozen=True)
class FiledCertificate(Claim):
    """What a document says that a release, or several together, guarantee.

    It has what a :class:`~skparisk.Certificate` has, and prints as that does. It is
    nobody's word but that of whoever wrote the document, and so it cannot be charged to
    a ledger, nor composed. Its numbers are checked against each other.

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
            _check_loss(self)
        if self.evidence is not None:
            _check_evidence(self, self.evidence)
        said = self.leaks | self.assumptions | self.doubts
        missing = {*self._follow(), *_follow_from(self.evidence)} - said
        if missing:
            raise ValueError(
                "leaks, assumptions and doubts must have what follows from the rest: "
                f"{', '.join(sorted(missing))}."
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
            If an entry is missing or unknown, if the schema is another one, or if what
            the document says does not follow from its numbers.
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


def _check_loss(claim: Claim) -> None:
    """Refuse a law of the loss of less loss than there is."""
    loss = claim.loss
    if not isinstance(loss, DominatingLoss):
        raise ValueError(f"loss must be None or a DominatingLoss, got {loss!r}.")
    if loss.largest < claim.epsilon:
        raise ValueError(
            f"epsilon={claim.epsilon!r} must be at most the largest loss of {loss!r}, "
            f"{loss.largest!r}."
        )
    if claim.evidence is None:
        return
    least = claim.evidence.sensitivity / (claim.evidence.noise_scale or math.inf)
    if loss.law_name != claim.evidence.law or loss.shift < least:
        raise ValueError(
            f"loss must be the law of {claim.evidence.law} noise, with a shift of "
            f"at least {least!r}, sensitivity / noise_scale; got {loss!r}."
        )


def _check_numbers(evidence: Evidence) -> None:
    """Refuse evidence whose numbers are out of range, or do not go together."""
    for name in ("sensitivity", "noise_scale", "margin"):
        check_range(getattr(evidence, name), name)
    check_range(evidence.gamma, "gamma", 1.0)
    for name, least in (("n_records", 1), ("n_outputs", 1), ("n_neighbors", 1)):
        check_at_least(getattr(evidence, name), name, least)
    check_at_least(evidence.n_constant, "n_constant", 0)
    if evidence.margin < 1:
        raise ValueError(f"margin must be at least 1, got {evidence.margin!r}.")
    if evidence.n_constant >= evidence.n_outputs:
        raise ValueError(
            f"n_constant must be below n_outputs={evidence.n_outputs}, as something is "
            f"released, got {evidence.n_constant!r}."
        )
    check_choice(evidence.calibration, "calibration", _RULES)
    drawn = Population(evidence.population) == Population.CANDIDATES
    if drawn != (evidence.n_candidates is not None):
        raise ValueError(
            "n_candidates must be given if population is 'candidates', and only then; "
            f"got {evidence.n_candidates!r} with {str(evidence.population)!r}."
        )
    for name in ("law", "noise_shape"):
        given = getattr(evidence, name)
        if not isinstance(given, str) or not given:
            raise ValueError(f"{name} must be a name, got {given!r}.")
    check_choice(evidence.norm, "norm", (*NORMS.values(), "trace"))
    norm = NORMS[LAWS[evidence.law]().norm] if evidence.law in LAWS else evidence.norm
    if norm != evidence.norm:
        raise ValueError(
            f"norm must be {norm!r} with law={evidence.law!r}, got {evidence.norm!r}."
        )
    least_numbers = {"n_pairs": 1, "n_unanswered": 0, "n_shape_pairs": 1}
    least_numbers |= {"n_candidates": evidence.n_records + 1}
    for name, least in least_numbers.items():
        if getattr(evidence, name) is not None:
            check_at_least(getattr(evidence, name), name, least)
    _check_sample(evidence)
    if evidence.advantage is not None:
        if evidence.n_pairs is None:
            raise ValueError("advantage must be None without n_pairs.")
        check_advantage(evidence)
    if evidence.worst_loss is not None:
        check_range(evidence.worst_loss, "worst_loss")
        check_worst_loss(evidence)
    if evidence.curve is not None:
        curve = evidence.curve
        if curve.ndim != 2 or curve.shape[1] != 2 or not curve.size:
            raise ValueError(
                f"curve must be of shape (n_points, 2), got {curve.shape}."
            )
        if not ((curve >= 0) & (curve <= (math.inf, 1.0))).all():
            raise ValueError("curve must have levels in [0, inf] and risks in [0, 1].")
    audit = evidence.audit
    if audit is not None:
        most = evidence.n_records if evidence.n_pairs is not None else 0
        if audit.gamma < evidence.gamma or audit.n_records > most:
            raise ValueError(
                "audit must be of sampled pairs, of a gamma of at least "
                f"{evidence.gamma!r} and of at most {evidence.n_records} records; got "
                f"{audit!r}."
            )


def _check_sample(evidence: Evidence) -> None:
    """Refuse numbers of pairs that do not go together."""
    index, m = evidence.order_index, evidence.n_pairs
    sample = index, evidence.n_unanswered, evidence.n_shape_pairs
    if m is None:
        if sample != (None,) * len(sample):
            raise ValueError(
                "order_index, n_unanswered and n_shape_pairs must be None without "
                f"n_pairs, got {sample!r}."
            )
        return
    if m % evidence.n_neighbors:
        raise ValueError(
            f"n_pairs must be a multiple of n_neighbors={evidence.n_neighbors}, got "
            f"{m!r}."
        )
    if evidence.n_shape_pairs is not None and evidence.noise_shape == "isotropic":
        raise ValueError(
            "n_shape_pairs must be None with noise_shape='isotropic', got "
            f"{evidence.n_shape_pairs!r}."
        )
    if index is not None and check_at_least(index, "order_index", 1) > m:
        raise ValueError(f"order_index must be at most {m}, got {index}.")


def _check_evidence(claim: Claim, evidence: Evidence) -> None:
    """Refuse what the evidence cannot carry.

    Here are the rules of method and mechanism: no delta beside a risk over pair
    and noise, one of them for noise whose loss has no bound, and so on.
    """
    if not isinstance(evidence, Evidence):
        raise ValueError(f"evidence must be None or Evidence, got {evidence!r}.")
    _check_numbers(evidence)
    if claim.n_releases != 1 or claim.group_size != 1:
        raise ValueError(
            "evidence must be None unless n_releases and group_size are 1, got "
            f"{claim.n_releases!r} and {claim.group_size!r}."
        )
    finite, delta = math.isfinite(claim.epsilon), claim.delta
    known = claim.randomness == "explicit"
    if known == (evidence.n_pairs is not None):
        raise ValueError(
            "n_pairs must be given unless randomness='explicit', got "
            f"{evidence.n_pairs!r} with {str(claim.randomness)!r}."
        )
    averaged = str(claim.randomness), evidence.calibration
    if evidence.averages and averaged != ("both", "exchangeable"):
        raise ValueError(
            "order_index must be given unless randomness='both' and "
            f"calibration='exchangeable', got None with {averaged!r}."
        )
    if known != (evidence.calibration in _KNOWN):
        raise ValueError(
            f"calibration must be one of {_KNOWN} for a known sensitivity, and "
            f"the name of a rule otherwise, got {evidence.calibration!r}."
        )
    if evidence.calibration == "pac" and not claim.failure_prob:
        raise ValueError("failure_prob must be above 0 with calibration='pac'.")
    if evidence.noise_scale == 0 and finite:
        raise ValueError("noise_scale must be above 0 with a finite epsilon.")
    if evidence.law == "exponential" and (
        delta or claim.randomness == "both" or evidence.noise_shape != "isotropic"
    ):
        raise ValueError(
            "law='exponential' has no delta, no noise_shape and no randomness='both'."
        )
    if evidence.averages and evidence.law == "laplace" and claim.epsilon:
        raise ValueError(
            "order_index must be given with law='laplace' unless epsilon is 0, for a "
            "mean advantage; got None."
        )
    if delta and claim.randomness == "both":
        raise ValueError(f"delta must be 0 with randomness='both', got {delta!r}.")
    if delta and known and evidence.gamma:
        raise ValueError(
            "gamma must be 0 with a delta and a known sensitivity, got "
            f"{evidence.gamma!r}."
        )
    bounded = claim.randomness == "implicit" or (known and not claim.risk)
    if evidence.law == "gaussian" and bounded and finite and not delta:
        raise ValueError(
            "delta must be above 0 for gaussian noise, whose loss has no bound, with "
            f"randomness={str(claim.randomness)!r} and risk={claim.risk!r}."
        )
    if not claim.void:
        check_carried(evidence, fields_of(claim), claim.randomness)


def _follow_from(evidence: Evidence | None) -> set[str]:
    """Return the codes that evidence comes with, besides those of a certificate."""
    if evidence is None:
        return set()
    audit, population = evidence.audit, evidence.population
    settled = audit is not None and not audit.seeded and audit.upper <= evidence.gamma
    cases = {
        Leak.PRIVATE_REFERENCE: population == Population.PRIVATE,
        Assumption.GIVEN_NOISE: evidence.law not in OWN_NAMES,
        Doubt.MADE_UP: population == Population.DECLARED and not settled,
        Doubt.CONTRADICTED: audit is not None and audit.verdict == "contradicted",
    }
    return {code for code, applies in cases.items() if applies}


def check_carried(evidence: Any, plain: dict[str, Any], randomness: str) -> None:
    """Refuse numbers of a claim, or other levels, below what the evidence carries."""
    epsilon, delta, risk = plain["epsilon"], plain["delta"], plain["risk"]
    at_rank = 0.0
    if evidence.n_pairs is not None:
        at_rank = _check_rank(evidence, risk, plain["failure_prob"])
    if evidence.law in OWN_NAMES and randomness != "both":
        shift = _shift_of(evidence)
        if randomness == "explicit" and risk and not delta:
            exceeded = float(_exceeded(evidence, shift, np.array([epsilon]))[0])
            if risk * _SLACK < exceeded:
                raise ValueError(
                    f"risk must be at least {exceeded:.6g}, with which the loss of "
                    f"{evidence.law} noise of scale {evidence.noise_scale!r} exceeds "
                    f"{epsilon!r} at sensitivity {evidence.sensitivity!r}; got "
                    f"{risk!r}."
                )
        elif delta * _SLACK < (
            spent := float(_least_deltas(evidence.law, epsilon, shift))
        ):
            raise ValueError(
                f"epsilon={epsilon!r} takes a delta of at least {spent:.6g} with "
                f"{evidence.law} noise of scale {evidence.noise_scale!r} at "
                f"sensitivity {evidence.sensitivity!r}, and delta is {delta!r}."
            )
    known = evidence.averages and evidence.advantage is not None
    if known and evidence.law in LAWS:
        each = _least_advantage(evidence)
        if epsilon:
            each = float(Gaussian().risk(epsilon, _shift_of(evidence)))
        least = _least_mean(evidence, each)
        if risk * _SLACK < least:
            raise ValueError(
                f"risk must be at least {least:.6g}, by sensitivity, noise_scale and "
                f"advantage of the evidence; got {risk!r}."
            )
    ours = randomness == "both" and evidence.law in OWN_NAMES
    if ours and 0 < epsilon < math.inf:
        _check_own_level(evidence, plain)
    if evidence.curve is not None:
        _check_levels(evidence, plain, at_rank, randomness)


def check_advantage(evidence: Any) -> None:
    """Refuse attackers who gain less than at the sensitivity, or on average.

    Nothing at the sensitivity, of a law of the caller's; the fresh pair counts for all.
    """
    known = evidence.law in LAWS and evidence.noise_scale
    measured, least = evidence.advantage, _least_advantage(evidence) if known else 0.0
    for name, bound in (("quantile", least), ("mean", _least_mean(evidence, least))):
        if getattr(measured, name) * _SLACK < bound:
            raise ValueError(
                f"advantage must have a {name} of at least {bound:.6g}, by n_pairs, "
                f"sensitivity and noise_scale of the evidence; got {measured!r}."
            )


def check_worst_loss(evidence: Any) -> None:
    """Refuse a largest loss of all pairs that is below that at the sensitivity.

    To a share of it, by which computed differences may be off.
    """
    if evidence.law not in LAWS or not evidence.noise_scale:
        return
    least = LAWS[evidence.law]().largest_loss(_shift_of(evidence))
    if evidence.worst_loss * (1 + 2.0**-10) < least:
        raise ValueError(
            f"worst_loss must be at least {least:.6g}, by sensitivity and noise_scale "
            f"of the evidence; got {evidence.worst_loss!r}."
        )


def _least_advantage(evidence: Any) -> float:
    law, on_grid = LAWS[evidence.law](), {"n_outputs": evidence.n_outputs}
    return float(law.advantage([_shift_of(evidence)], steps=MOST_STEPS, **on_grid)[0])


def _least_mean(evidence: Any, each: float) -> float:
    """Return what is certified on average, if pairs at the sensitivity count so much.

    And those that are farther apart: as many as the risk of the quantile says.
    """
    n_pairs, r = evidence.n_pairs, evidence.n_neighbors
    n_far = max(evidence.advantage.risk * (n_pairs + r) - r + 1, 0.0)
    return float((n_far * each + r) / (n_pairs + r))


def _shift_of(evidence: Any) -> float:
    """Return the sensitivity over the noise scale, no larger than it is."""
    if math.isinf(evidence.sensitivity):
        return math.inf
    return float(evidence.sensitivity / evidence.noise_scale * (1 - ROUNDING))


def _check_rank(evidence: Any, risk: float, failure_prob: float) -> float:
    """Refuse a risk that the pairs do not certify; return what they do at the least.

    Rules of this package certify no less than that, on average over samples, as a fresh
    pair is one more of the same (:ref:`thm-order-statistic`, :ref:`thm-groups`).
    """
    m, r, index = evidence.n_pairs, evidence.n_neighbors, evidence.order_index
    n_unanswered = evidence.n_unanswered or 0
    if index is not None and index > m - n_unanswered:
        raise ValueError(
            f"order_index must be at most {m - n_unanswered}, as no noise is enough "
            f"for pairs without an answer; got {index}."
        )
    if evidence.calibration == "pac":
        # P(Binomial(m, 1 - risk) >= K)
        fails = float(betaincc(m - index + 1, index, risk))
        if fails > failure_prob * _SLACK:
            raise ValueError(
                f"risk={risk!r} is exceeded by the {index}-th of {m} pairs in a share "
                f"{fails:.6g} of samples, and failure_prob is {failure_prob!r}."
            )
        return 1.0  # of other levels it certifies nothing
    n_above = n_unanswered if index is None else m - index
    least = Fraction(n_above + r, m + r)
    # Of the number, or of the decimals that it is written as.
    if max(Fraction(risk), decimal(risk)) < least:
        raise ValueError(
            f"risk must be at least {ceil_text(float(least))}, by n_pairs={m} and "
            f"order_index={index!r}, got {risk!r}."
        )
    return float(least)


def _least_deltas(name: str, levels: ArrayLike, shift: float) -> NDArray[np.float64]:
    """Return the deltas of noise at a distance over its scale; 0 or 1 if bounded."""
    law = LAWS[name]() if name in LAWS else None
    if law is None or math.isinf(shift) or not law.composes:
        return np.asarray(shift > np.asarray(levels), dtype=np.float64)
    return np.asarray(law.profile(levels, shift))


def _exceeded(
    evidence: Any, shift: float, levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the risks over the noise at which a pair exceeds levels.

    Of the worst that is known: it differs in one output only.
    """
    known = _EXCEEDANCES.get(evidence.law)
    if math.isinf(shift):
        return np.ones(len(levels))
    if known is None:
        return np.where(levels < shift, 1.0, 0.0)
    return np.asarray(known(levels, shift))


def _check_levels(
    evidence: Any, plain: dict[str, Any], at_rank: float, randomness: str
) -> None:
    """Refuse too small a risk for another level.

    For none that a pair at the sensitivity exceeds it is less than that of the claim.
    That may hold at lower levels as well, as with the textbook's Gaussian noise, or for
    pair and noise together, of which only the worst loss is told.
    """
    levels, risks = evidence.curve.T
    r, pairs, own = evidence.n_neighbors, evidence.n_pairs, evidence.law in OWN_NAMES
    if at_rank:
        every = plain["risk"] if evidence.calibration == "pac" else r / (pairs + r)
        bounds = np.full(len(levels), every)
        if randomness != "both" and own:
            lower = levels * _SLACK < plain["epsilon"]
            shift = _shift_of(evidence)
            spent = _least_deltas(evidence.law, levels[lower] * _SLACK, shift)
            lower[lower] = spent > plain["delta"] * _SLACK
            bounds[lower] = at_rank
    elif randomness == "explicit" and own:
        bounds = _exceeded(evidence, _shift_of(evidence), levels)
    else:
        return
    low = np.flatnonzero(risks * _SLACK < bounds)
    if low.size:
        level, claimed = evidence.curve[low[0]].tolist()
        raise ValueError(
            f"curve must have a risk of at least {bounds[low[0]]:.6g} for the level "
            f"{level!r}, by the other numbers of the claim; got {claimed!r}."
        )


def _check_own_level(evidence: Any, plain: dict[str, Any]) -> None:
    """Refuse a level that the curve, one database below, does not know.

    And a risk to the next of the points that a curve has. Whoever edits the curve as
    well is not told.
    """
    epsilon, risk = plain["epsilon"], plain["risk"]
    curve = np.empty((0, 2)) if evidence.curve is None else evidence.curve
    near = point_of_level(curve, epsilon)
    known = float(near[0, 1]) if len(near) else math.inf
    m = evidence.n_pairs
    below = evidence.n_neighbors / m + 2 / min(m, _CURVE_POINTS)
    if (risk + below) * _SLACK < known:
        raise ValueError(
            "epsilon must be a level for which the curve has a risk of at most "
            f"{risk + below:.6g}, and of {epsilon!r} it has "
            f"{known if len(near) else 'none'}."
        )
