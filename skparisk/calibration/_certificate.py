"""The record of what a release guarantees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, Self

from skparisk._documents import as_html, as_text, read_document
from skparisk._text import NEIGHBORS
from skparisk._validate import (
    check_at_least,
    check_choice,
    check_epsilon,
    check_probability,
)
from skparisk.calibration import _wording as wording
from skparisk.composition import DominatingLoss, PrivacyGuarantee
from skparisk.mechanisms import LAWS, NOISE_SHAPES
from skparisk.mechanisms import _grid_cost as grid_cost
from skparisk.privacy_loss import (
    gaussian_classical_shift,
    gaussian_explicit_shift,
    gaussian_shift,
)

__all__ = ["RANDOMNESS", "RiskCertificate"]

_DERIVED = ("private", "guarantee", "caveats", "confidence", "noise_epsilon")
_SAMPLED = ("exchangeable", "pac", "dkw", "bessel")
_KNOWN = (*wording.KNOWN, "bessel")
# Outputs over the level, for which the grid is next to nothing.
_FINE_GRID = 2.0**30
# A noise scale that is too small for a fine grid.
_COARSE_SCALE = 2.0**-960
RANDOMNESS = ("implicit", "both", "explicit")


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
        Risk that was asked for, in (0, 1); 0 where every pair and output keeps the
        level, or `delta` is all that was asked for.

    risk : float
        Risk that is achieved, in [0, 1]: the probability that the privacy loss
        exceeds `epsilon`.

    sensitivity : float
        What the noise is calibrated to, in the norm of the mechanism.

    noise_scale : float
        Scale of the noise of each output, in units of the output; in the coordinates
        of `noise_shape` unless that is "isotropic".

    n_records : int
        Records of a database.

    n_outputs : int
        Numbers that are released.

    calibration : str
        "exchangeable", "pac", "dkw", "bessel"; "declared" for a sensitivity that
        the caller gave, "bound" for a proven one.

    delta : float, default=0.0
        Additive relaxation of differential privacy, in [0, 1).

    mechanism : {"laplace", "gaussian", "exponential"}, default="laplace"
        Law of the noise; "exponential" for a choice by scores.

    randomness : {"implicit", "both", "explicit"}, default="implicit"
        What the risk is taken over: the pair of databases, the pair and the noise
        together, or, for a known sensitivity, the noise alone.

    relation : str, default="replace-one"
        What neighboring databases are.

    n_pairs, order_index : int, default=None
        Sampled pairs m that calibrate, and the K of the K-th smallest sensitivity, or
        critical scale, that is used.

    n_draws : int, default=None
        With "both": draws of the noise for each pair; 0 for the exact risk of each
        pair, averaged, which is no order statistic.

    noise_shape : {"isotropic", "diagonal", "whitened"}, default="isotropic"
        How much noise each direction of the answer gets.

    n_shape_pairs : int, default=None
        Other sampled pairs that the shape is taken from.

    failure_prob : float, default=None
        Probability, over the sampled pairs, that the risk is larger than claimed;
        None where the risk includes it.

    n_unanswered : int, default=None
        Pairs among the `n_pairs` of which a database had no answer. They count as if
        no noise were enough.

    reference : str, default=None
        Where the sampled databases come from.

    for_new_people : str, default=None
        What a risk over resamples of a table means for new people of its population.

    provisos, further_leaks : tuple of str, default=()
        Sentences: what else the guarantee rests on, such as a reference that cannot
        carry a risk of that size; what else of the private data has no noise.

    reference_is_private : bool, default=False
        Whether that is the private data themselves.

    classes_are_private : bool, default=False
        Whether the classes of a classifier were read off the private labels.

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
    n_draws: int | None = None
    noise_shape: str = "isotropic"
    n_shape_pairs: int | None = None
    failure_prob: float | None = None
    n_unanswered: int | None = None
    reference: str | None = None
    for_new_people: str | None = None
    provisos: tuple[str, ...] = ()
    further_leaks: tuple[str, ...] = ()
    reference_is_private: bool = False
    classes_are_private: bool = False
    seeded: bool = False
    curve: tuple[tuple[float, float], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check_choice(self.randomness, "randomness", RANDOMNESS)
        sampled = self.randomness != "explicit"
        check_choice(self.calibration, "calibration", _SAMPLED if sampled else _KNOWN)
        check_choice(self.relation, "relation", NEIGHBORS)
        check_choice(self.mechanism, "mechanism", (*LAWS, "exponential"))
        check_choice(self.noise_shape, "noise_shape", NOISE_SHAPES)
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
            "classes_are_private": bool(self.classes_are_private),
            "seeded": bool(self.seeded),
            "provisos": tuple(self.provisos),
            "further_leaks": tuple(self.further_leaks),
            "curve": tuple(
                (_check_range(level, "curve"), _check_range(risk, "curve", 1.0))
                for level, risk in self.curve
            ),
        }
        if plain["noise_scale"] == 0 and plain["epsilon"] < math.inf:
            raise ValueError("noise_scale must be above 0 with a finite epsilon.")
        if sampled:
            plain |= self._check_sample()
        elif self._sample != (None,) * len(self._sample):
            raise ValueError(
                "n_pairs, order_index, n_draws, n_shape_pairs and n_unanswered must be "
                f"None with randomness='explicit', got {self._sample!r}."
            )
        self._check_claim(plain)
        if self.failure_prob is not None or self.calibration == "pac":
            beta = check_probability(self.failure_prob, "failure_prob")
            plain["failure_prob"] = beta
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def _sample(self) -> tuple[int | None, ...]:
        numbers = self.n_pairs, self.order_index, self.n_draws, self.n_shape_pairs
        return (*numbers, self.n_unanswered)

    def _check_sample(self) -> dict[str, int]:
        """Return the numbers of pairs, draws and order, which must fit."""
        sample = {"n_pairs": check_at_least(self.n_pairs, "n_pairs", 1)}
        most = sample["n_pairs"]
        sample["n_unanswered"] = check_at_least(
            self.n_unanswered or 0, "n_unanswered", 0
        )
        if self.randomness == "both":
            n_draws = check_at_least(self.n_draws, "n_draws", 0)
            most *= sample.setdefault("n_draws", n_draws)
        elif self.n_draws is not None:
            raise ValueError(
                f"n_draws must be None unless randomness='both', got {self.n_draws!r}."
            )
        if most:
            index = check_at_least(self.order_index, "order_index", 1)
            if index > most:
                raise ValueError(f"order_index must be at most {most}, got {index}.")
            sample["order_index"] = index
        elif (self.order_index, self.mechanism, self.calibration) != (
            (None, "gaussian", "exchangeable")
        ):
            raise ValueError(
                "n_draws must be at least 1 but for gaussian noise, the exchangeable "
                "calibration and no order_index, got 0."
            )
        if self.noise_shape != "isotropic":
            n_shape = check_at_least(self.n_shape_pairs, "n_shape_pairs", 1)
            sample["n_shape_pairs"] = n_shape
        elif self.n_shape_pairs is not None:
            raise ValueError(
                "n_shape_pairs must be None with noise_shape='isotropic', got "
                f"{self.n_shape_pairs!r}."
            )
        return sample

    def _check_claim(self, plain: Mapping[str, Any]) -> None:
        """Refuse a delta where there can be none, or none where there must be one."""
        delta, finite = plain["delta"], plain["epsilon"] < math.inf
        if self.mechanism == "exponential" and (
            delta or self.randomness == "both" or self.noise_shape != "isotropic"
        ):
            raise ValueError(
                "mechanism='exponential' has no delta, no noise_shape and no "
                "randomness='both'."
            )
        if delta and self.randomness == "both":
            raise ValueError(
                f"delta must be 0 with randomness='both', got {self.delta!r}."
            )
        if delta and self.randomness == "explicit" and plain["gamma"]:
            raise ValueError(
                "gamma must be 0 with a delta and a known sensitivity, got "
                f"{self.gamma!r}."
            )
        bounded = self.randomness == "implicit" or (
            self.randomness == "explicit" and not plain["risk"]
        )
        if self.mechanism == "gaussian" and bounded and finite and not delta:
            raise ValueError(
                "delta must be above 0 for gaussian noise, whose loss has no bound, "
                f"with randomness={self.randomness!r} and risk={self.risk!r}."
            )

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

        That takes secret noise, a proof, a reference other than the private data, and
        public classes.
        """
        return not (self.voided or wording.leaks(self))

    @property
    def voided(self) -> bool:
        """Whether there is no guarantee at all."""
        return bool(wording.void_reasons(self))

    @property
    def caveats(self) -> tuple[str, ...]:
        """What voids the guarantee, or makes it rest on the caller's word."""
        return wording.void_reasons(self) + wording.leaks(self) + wording.provisos(self)

    @property
    def guarantee(self) -> str:
        """The claim in words."""
        return wording.guarantee(self)

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

    def as_guarantee(self) -> PrivacyGuarantee:
        """Return what composition and budgets count of this release.

        Returns
        -------
        guarantee : PrivacyGuarantee
            With the law that the privacy loss stays below, where there is one for all
            pairs outside the risk.
        """
        loss = None
        known = self.mechanism in LAWS and self.randomness != "both"
        # Then the grid costs a share 2**-20 of the shift, and of the level.
        fine = (
            self.n_outputs / self.epsilon <= _FINE_GRID
            and self.noise_scale >= _COARSE_SCALE
        )
        if known and fine and not self.voided:
            loss = DominatingLoss(
                self.mechanism,
                shift=max(self.noise_epsilon, self._least_shift)
                * (1 + 2 * grid_cost.GRID_SHARE),
                excess=self.epsilon * 2 * grid_cost.GRID_SHARE,
            )
        return PrivacyGuarantee(
            self.epsilon,
            self.delta,
            self.risk,
            failure_prob=self.failure_prob or 0.0,
            randomness=self.randomness,
            relation=self.relation,
            loss=loss,
            void_reasons=wording.void_reasons(self),
            leaks=wording.leaks(self),
            provisos=wording.provisos(self),
        )

    @property
    def _least_shift(self) -> float:
        """Shift that no calibration is below, whatever a document may say."""
        if self.mechanism == "laplace":
            return self.epsilon
        level = grid_cost.below(self.epsilon)
        if not self.delta:
            return gaussian_explicit_shift(level, self.risk)
        textbook = gaussian_classical_shift if self.epsilon <= 1 else gaussian_shift
        return min(textbook(level, self.delta), gaussian_shift(level, self.delta))

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
        for name in ("provisos", "further_leaks"):
            document[name] = list(document[name])
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
        return read_document(
            document,
            "certificate",
            lambda entries: cls(**entries),
            names=[f.name for f in fields(cls)],
            derived=_DERIVED,
        )

    def __str__(self) -> str:
        return as_text(self, wording.rows(self))

    def _repr_html_(self) -> str:
        return as_html(self, wording.rows(self))


def _check_range(value: Any, name: str, most: float = math.inf) -> float:
    """Return a number in [0, most]."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 <= value <= most:
        raise ValueError(f"{name} must be a number in [0, {most:g}], got {value!r}.")
    return float(value)
