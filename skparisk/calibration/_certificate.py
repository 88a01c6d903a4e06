"""The record of what a release guarantees."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import ROUND_CEILING, Context, Decimal
from numbers import Real
from typing import Any, Self

from skparisk._validate import (
    check_at_least,
    check_choice,
    check_epsilon,
    check_probability,
)

__all__ = ["RiskCertificate"]

# Notation that a data steward reads; each caveat is one sentence.
SEEDED = (
    "The noise was drawn from a seed (noise_random_state), so it can be removed: "
    "this release is NOT private."
)
NO_NOISE = "epsilon is infinite and no noise was added: this release is NOT private."
HEURISTIC_CLAIM = (
    "The claimed risk reproduces a formula of Dandekar et al. whose proof does not "
    "hold: it is no guarantee."
)
PRIVATE_REFERENCE = (
    "The neighboring databases were sampled from the private data themselves: the "
    "guarantee is over resamples of these data, and the sensitivity and the noise "
    "scale depend on them without noise."
)
DECLARED = "The sensitivity was declared by the caller and is not checked."

_NEIGHBORS = {
    "replace-one": "two databases that differ in one record",
    "add-remove": "two databases of which one has one record more",
}
_KNOWN = {
    "declared": "provided that the declared sensitivity is a true bound",
    "bound": "by a proven bound of the sensitivity, rows and targets being clipped to "
    "their declared bounds",
}
_DERIVED = ("private", "guarantee", "caveats", "confidence", "noise_epsilon")
_SAMPLED = ("exchangeable", "pac", "dkw", "bessel")


@dataclass(frozen=True)
class RiskCertificate:
    """What a release guarantees, under which conditions, and how it was computed.

    Made by the estimators of this package, not by hand. Holds nothing that
    depends on private data, unless `reference_is_private` says so. Parameters that
    make no certificate are a ValueError.

    Parameters
    ----------
    epsilon : float
        Privacy level, in (0, inf]. Unitless.

    gamma : float
        Risk that was asked for, in (0, 1); 0 for a known sensitivity.

    risk : float
        Risk that is achieved, in [0, 1]: the probability that the privacy loss
        exceeds `epsilon`.

    sensitivity : float
        What the noise is calibrated to, in the norm of the mechanism.

    noise_scale : float
        Scale of the noise of each output, in units of the output.

    n_records : int
        Records of a database.

    n_outputs : int
        Numbers that are released.

    calibration : str
        "exchangeable", "pac", "dkw", "bessel"; "declared" for a sensitivity that
        the caller gave, "bound" for a proven one.

    delta : float, default=0.0
        Additive relaxation of differential privacy, in [0, 1).

    mechanism : str, default="laplace"
        Law of the noise.

    randomness : str, default="implicit"
        What the risk is taken over.

    relation : str, default="replace-one"
        What neighboring databases are.

    n_pairs, order_index : int, default=None
        Sampled pairs m, and the K of the K-th smallest sensitivity that is used.

    failure_prob : float, default=None
        Probability, over the sampled pairs, that the risk is larger than claimed;
        None where the risk includes it.

    reference : str, default=None
        Where the sampled databases come from.

    reference_is_private : bool, default=False
        Whether that is the private data themselves.

    seeded : bool, default=False
        Whether the noise can be repeated, and so removed.

    curve : tuple of (float, float), default=()
        Other pairs (epsilon, risk) that are certified at the released noise. Empty:
        none but the one above.

    Examples
    --------
    >>> from skparisk import PrivateRidge
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> model = PrivateRidge(epsilon=1.0, gamma=0.05, random_state=0)
    >>> model.fit(X[:9000], y[:9000], X_reference=X[9000:], y_reference=y[9000:])
    PrivateRidge(random_state=0)
    >>> model.certificate_.risk <= 0.05, model.certificate_.private
    (True, True)
    """

    epsilon: float
    gamma: float
    risk: float
    sensitivity: float
    noise_scale: float
    n_records: int
    n_outputs: int
    calibration: str
    delta: float = 0.0
    mechanism: str = "laplace"
    randomness: str = "implicit"
    relation: str = "replace-one"
    n_pairs: int | None = None
    order_index: int | None = None
    failure_prob: float | None = None
    reference: str | None = None
    reference_is_private: bool = False
    seeded: bool = False
    curve: tuple[tuple[float, float], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check_choice(self.calibration, "calibration", (*_SAMPLED, *_KNOWN))
        check_choice(self.relation, "relation", _NEIGHBORS)
        check_choice(self.randomness, "randomness", ("implicit",))
        plain: dict[str, Any] = {
            "epsilon": check_epsilon(self.epsilon),
            "gamma": _check_range(self.gamma, "gamma", 1.0),
            "risk": _check_range(self.risk, "risk", 1.0),
            "delta": _check_range(self.delta, "delta", 1.0),
            "sensitivity": _check_range(self.sensitivity, "sensitivity"),
            "noise_scale": _check_range(self.noise_scale, "noise_scale"),
            "n_records": check_at_least(self.n_records, "n_records", 1),
            "n_outputs": check_at_least(self.n_outputs, "n_outputs", 1),
            "reference_is_private": bool(self.reference_is_private),
            "seeded": bool(self.seeded),
            "curve": tuple(
                (_check_range(level, "curve"), _check_range(risk, "curve", 1.0))
                for level, risk in self.curve
            ),
        }
        if plain["noise_scale"] == 0 and plain["epsilon"] < math.inf:
            raise ValueError("noise_scale must be above 0 with a finite epsilon.")
        if self.calibration in _SAMPLED:
            m = plain["n_pairs"] = check_at_least(self.n_pairs, "n_pairs", 1)
            index = check_at_least(self.order_index, "order_index", 1)
            if index > m:
                raise ValueError(f"order_index must be at most {m}, got {index}.")
            plain["order_index"] = index
        elif self.n_pairs is not None or self.order_index is not None:
            raise ValueError(
                "n_pairs and order_index must be None with calibration="
                f"{self.calibration!r}, got {self.n_pairs!r}, {self.order_index!r}."
            )
        if self.failure_prob is not None or self.calibration == "pac":
            beta = check_probability(self.failure_prob, "failure_prob")
            plain["failure_prob"] = beta
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def confidence(self) -> float:
        """Probability that the privacy loss stays within `epsilon`: 1 - risk."""
        return 1 - self.risk

    @property
    def noise_epsilon(self) -> float:
        """Privacy level of the noise at `sensitivity`: sensitivity / noise scale."""
        return self.sensitivity / self.noise_scale if self.noise_scale else math.inf

    @property
    def private(self) -> bool:
        """Whether the guarantee stands as it is written.

        That takes secret noise, a proof, and a reference other than the private
        data.
        """
        return not (self._voided or self.reference_is_private)

    @property
    def _voided(self) -> bool:
        return self.seeded or math.isinf(self.epsilon) or self.calibration == "bessel"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What voids the guarantee, or makes it rest on the caller's word."""
        cases = {
            SEEDED: self.seeded,
            NO_NOISE: math.isinf(self.epsilon),
            HEURISTIC_CLAIM: self.calibration == "bessel",
            PRIVATE_REFERENCE: self.reference_is_private,
            DECLARED: self.calibration == "declared",
        }
        return tuple(text for text, applies in cases.items() if applies)

    @property
    def guarantee(self) -> str:
        """The claim in words."""
        if self._voided:
            return f"There is no guarantee. {self.caveats[0]}"
        neighbors = _NEIGHBORS[self.relation]
        level = _ceil(self.epsilon)
        if self.delta:
            level = f"({level}, {_ceil(self.delta)})"
        if self.n_pairs is None:
            return (
                f"For any {neighbors}, {self.n_records} records: the release is "
                f"{level}-differentially private, {_KNOWN[self.calibration]}."
            )
        over = "over the fresh pair and the sampled pairs together"
        if self.failure_prob is not None:
            over = (
                f"over the fresh pair, in all but a share {_ceil(self.failure_prob)} "
                "of all samples of pairs"
            )
        confidence = 1 - Decimal(_ceil(self.risk))
        return (
            f"For {neighbors} ({self.n_records} records, {self.reference}): with "
            f"probability at least {confidence} {over}, the release is "
            f"{level}-differentially private for that pair, whatever is released."
        )

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
            below the level of the certificate.
        """
        epsilon = check_epsilon(epsilon)
        risks = [risk for level, risk in self._points if level <= epsilon]
        return min(risks, default=1.0)

    def epsilon_at(self, gamma: float) -> float:
        """Return the privacy level that is certified at another risk.

        Parameters
        ----------
        gamma : float
            Risk in (0, 1), fixed without a look at the sampled pairs.

        Returns
        -------
        epsilon : float
            At the noise as released. Infinite where nothing is certified.
        """
        gamma = check_probability(gamma, "gamma")
        levels = [level for level, risk in self._points if risk <= gamma]
        return min(levels, default=math.inf)

    @property
    def _points(self) -> tuple[tuple[float, float], ...]:
        return (*self.curve, (self.epsilon, self.risk))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, which survive JSON and YAML.

        An infinite number is a float as well; Python's `json` writes it as Infinity.

        Returns
        -------
        document : dict
            The parameters, and what follows from them: "private", "guarantee",
            "caveats", "confidence" and "noise_epsilon".
        """
        document = {f.name: getattr(self, f.name) for f in fields(self)}
        document["curve"] = [list(point) for point in self.curve]
        derived = {name: getattr(self, name) for name in _DERIVED}
        derived["caveats"] = list(self.caveats)
        return derived | document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the certificate that `to_dict` wrote.

        Parameters
        ----------
        document : mapping
            As `to_dict` returned it, also after JSON or YAML.

        Returns
        -------
        certificate : RiskCertificate

        Raises
        ------
        ValueError
            If an entry is missing or unknown, or if what the document says of the
            guarantee does not follow from its numbers.
        """
        if not isinstance(document, Mapping):
            raise ValueError(f"document must be a mapping, got {document!r}.")
        names = [f.name for f in fields(cls)]
        missing = [name for name in (*_DERIVED, *names) if name not in document]
        unknown = [name for name in document if name not in (*_DERIVED, *names)]
        if missing or unknown:
            raise ValueError(
                "document must have the entries of a certificate; missing are "
                f"{missing}, unknown are {unknown}."
            )
        try:
            certificate = cls(**{name: document[name] for name in names})
        except (TypeError, ValueError) as error:
            raise ValueError(f"document is not a certificate: {error}") from error
        expected = certificate.to_dict()
        wrong = [name for name, value in expected.items() if document[name] != value]
        if wrong:
            raise ValueError(
                f"document has entries that do not follow from the rest: {wrong}."
            )
        return certificate

    def __str__(self) -> str:
        rows = "\n".join(f"  {name}: {value}" for name, value in self._rows())
        caveats = "".join(f"\nCaveat: {text}" for text in self.caveats)
        return f"{self.guarantee}\n{rows}{caveats}"

    def _rows(self) -> list[tuple[str, str]]:
        achieved = "none is guaranteed" if self._voided else _ceil(self.risk)
        rows = [
            ("privacy level epsilon", _ceil(self.epsilon)),
            ("risk achieved", f"{achieved} (asked for: {self.gamma:g})"),
            ("delta", _ceil(self.delta)),
            ("risk is over", self._risk_is_over()),
            ("relation", self.relation),
            ("records, outputs", f"{self.n_records}, {self.n_outputs}"),
            ("sensitivity", f"{self.sensitivity:.6g}"),
            ("noise", f"{self.mechanism}, scale {self.noise_scale:.6g} per output"),
        ]
        if self.n_pairs is None:
            return [*rows, ("sensitivity known", self.calibration)]
        rows += [
            (
                "calibration",
                f"{self.calibration}, sensitivity number {self.order_index} of "
                f"{self.n_pairs} sampled",
            ),
            ("reference", str(self.reference)),
            (
                "taken on the caller's word",
                "the reference is public and describes the population",
            ),
        ]
        if self.failure_prob is not None:
            rows.append(("fails for a share of samples", _ceil(self.failure_prob)))
        return rows

    def _risk_is_over(self) -> str:
        if self.n_pairs is None:
            return "nothing: the level holds for every pair and output"
        return "the pair of neighboring databases, for all outputs"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self._rows()
        )
        caveats = "".join(
            f"<p><strong>Caveat.</strong> {html.escape(text)}</p>"
            for text in self.caveats
        )
        return (
            f"<div><p>{html.escape(self.guarantee)}</p>{caveats}"
            f"<table>{rows}</table></div>"
        )


def _ceil(value: float) -> str:
    """Write a number with 6 digits, rounded up: it is never claimed too small."""
    if math.isinf(value):
        return "inf"
    digits = Context(prec=6, rounding=ROUND_CEILING)
    return f"{float(digits.create_decimal(repr(value))):g}"


def _check_range(value: Any, name: str, most: float = math.inf) -> float:
    """Return a number in [0, most]."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 <= value <= most:
        raise ValueError(f"{name} must be a number in [0, {most:g}], got {value!r}.")
    return float(value)
