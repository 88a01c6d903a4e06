"""What calibration is told: which guarantee, and which noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from skparisk._validate import (
    check_at_least,
    check_choice,
    check_epsilon,
    check_positive,
    check_probability,
)
from skparisk.calibration import KnownRule, Rule
from skparisk.calibration._noise_level import check_risk_control
from skparisk.calibration._rules import as_rule, check_name, is_ours
from skparisk.certificate._claim import RANDOMNESS, check_sentences
from skparisk.exceptions import CalibrationError
from skparisk.mechanisms._shapes import NOISE_SHAPES

__all__ = ["MECHANISMS", "NoisePlan", "given_rule_proviso"]

MECHANISMS = ("laplace", "gaussian", "gaussian-classical", "exponential")

_GIVEN_RULE = (
    "The calibration rule ({}) was supplied by the caller, and its guarantee has not "
    "been checked."
)
# More do not make the shape better, and take memory.
_MOST_SHAPE_PAIRS = 2**16


def given_rule_proviso(rule: Any) -> tuple[str, ...]:
    """Return what a guarantee rests on by a rule of the caller's; nothing by ours."""
    return () if is_ours(rule) else (_GIVEN_RULE.format(rule.name),)


@dataclass(frozen=True)
class NoisePlan:
    """The parameters of calibration, checked one by one and against each other.

    They are those of :class:`~skparisk.SensitivitySampler`; see there.
    """

    epsilon: float
    gamma: float
    delta: float
    randomness: str
    mechanism: str
    noise_shape: str
    n_draws: int | None
    calibration: Any
    failure_prob: float
    sensitivity: float | None

    def __post_init__(self) -> None:
        epsilon = check_epsilon(self.epsilon)
        check_probability(self.gamma, "gamma")
        check_choice(self.randomness, "randomness", RANDOMNESS)
        check_choice(self.mechanism, "mechanism", MECHANISMS)
        check_choice(self.noise_shape, "noise_shape", NOISE_SHAPES)
        number = isinstance(self.delta, Real) and not isinstance(self.delta, bool)
        if not number or not 0 <= self.delta < 1:
            raise ValueError(f"delta must be a number in [0, 1), got {self.delta!r}.")
        if self.n_draws is not None:
            check_at_least(self.n_draws, "n_draws", 0)
        if self.known_rule is None:
            as_rule(self.calibration, self.failure_prob, self.draws or 1)
        else:
            check_name(self.known_rule)
        check_sentences(self.void_reasons, "void_reasons")
        if self.randomness == "explicit":
            check_positive(self.sensitivity, "sensitivity")
            self._refuse(
                self.noise_shape != "isotropic",
                "noise_shape must be 'isotropic' with randomness='explicit', because "
                "there are no sampled pairs to take a shape from; got "
                f"{self.noise_shape!r}.",
            )
        else:
            self._refuse(
                self.sensitivity is not None,
                "sensitivity must be None unless randomness='explicit', because "
                f"otherwise it is sampled; got {self.sensitivity!r}.",
            )
        self._refuse(
            self.law == "gaussian"
            and self.randomness == "implicit"
            and not self.delta
            and math.isfinite(epsilon),
            f"delta must be above 0 with mechanism={self.mechanism!r} and "
            "randomness='implicit', because the loss of gaussian noise has no bound; "
            f"got {self.delta!r}.",
        )
        classical = self.mechanism == "gaussian-classical"
        self._refuse(
            classical and (self.randomness == "both" or not self.delta),
            "mechanism='gaussian-classical' is for a delta above 0 and randomness "
            f"'implicit' or 'explicit'; got delta={self.delta!r} and "
            f"{self.randomness!r}.",
        )
        self._refuse(
            classical and 1 < epsilon < math.inf,
            "epsilon must be at most 1 with mechanism='gaussian-classical', because "
            f"its scale is proven only there; got {self.epsilon!r}.",
        )
        self._refuse(
            self.law == "exponential"
            and (
                self.randomness == "both"
                or self.delta > 0
                or self.noise_shape != "isotropic"
            ),
            "mechanism='exponential' is for randomness 'implicit' or 'explicit', "
            f"delta=0 and noise_shape='isotropic'; got {self.randomness!r}, "
            f"{self.delta!r} and {self.noise_shape!r}.",
        )
        self._refuse(
            bool(self.void_reasons)
            and (self.law != "laplace" or self.delta > 0 or self.randomness == "both"),
            f"calibration={self.calibration!r} reproduces a theorem on Laplace noise, "
            "delta=0 and randomness 'implicit' or 'explicit'; got "
            f"mechanism={self.mechanism!r}, delta={self.delta!r} and "
            f"{self.randomness!r}.",
        )
        self._refuse(
            self.draws == 0 and not self._knows_risk,
            "n_draws must be at least 1 unless mechanism='gaussian' and "
            "calibration='exchangeable', where the risk of a pair is known; got 0.",
        )
        # Plain numbers: those of NumPy may be short, and are rounded when calculated.
        for name in ("epsilon", "gamma", "delta", "failure_prob", "sensitivity"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else float(value))

    @staticmethod
    def _refuse(wrong: bool, message: str) -> None:
        if wrong:
            raise ValueError(message)

    @property
    def law(self) -> str:
        """Law of the noise."""
        return self.mechanism.partition("-")[0]

    @property
    def _knows_risk(self) -> bool:
        return self.mechanism == "gaussian" and self.calibration == "exchangeable"

    @property
    def draws(self) -> int | None:
        """Draws of the noise for each pair; None where the risk is not over noise."""
        if self.randomness != "both":
            return None
        if self.n_draws is None:
            return 0 if self._knows_risk else 1
        return int(self.n_draws)

    @property
    def rule(self) -> Rule:
        """The choice of the order statistic."""
        return as_rule(self.calibration, self.failure_prob, self.draws or 1)

    @property
    def known_rule(self) -> KnownRule | None:
        """What calibrates to a known sensitivity instead of what is exact, if any."""
        rule = self.calibration
        given = self.randomness == "explicit" and not isinstance(rule, str)
        return rule if given and isinstance(rule, KnownRule) else None

    @property
    def void_reasons(self) -> tuple[str, ...]:
        """Why nothing is guaranteed, by the rule."""
        if self.randomness == "explicit":
            return () if self.known_rule is None else self.known_rule.void_reasons
        return self.rule.void_reasons

    @property
    def provisos(self) -> tuple[str, ...]:
        """What the guarantee rests on, by the rule."""
        if self.randomness == "explicit" and self.known_rule is None:
            return ()
        return given_rule_proviso(self.known_rule or self.rule)

    def n_shape_pairs(self, n_pairs: int) -> int:
        """Return how many of the pairs the shape of the noise is taken from."""
        if self.noise_shape == "isotropic":
            return 0
        return min(n_pairs // 2, _MOST_SHAPE_PAIRS)

    def check_pairs(self, n_pairs: int) -> None:
        """Raise CalibrationError if so few pairs cannot certify the risk."""
        if self.randomness == "explicit":
            return
        n_shape = self.n_shape_pairs(
            check_at_least(
                n_pairs, "n_pairs", 1 if self.noise_shape == "isotropic" else 4
            )
        )
        try:
            if self.draws == 0:
                check_risk_control(n_pairs - n_shape, self.gamma)
            else:
                self._check_order(n_pairs - n_shape)
        except CalibrationError as error:
            if not n_shape:
                raise
            raise CalibrationError(
                f"{error} Of the n_pairs={n_pairs} pairs, "
                f"noise_shape={self.noise_shape!r} uses {n_shape}.",
                target=error.target,
                best=error.best,
            ) from error

    def _check_order(self, n_pairs: int) -> None:
        """Raise ValueError if a rule chooses what is not there, or claims no risk."""
        index, most = self.rule.order_index(n_pairs, self.gamma), self.draws or 1
        if not 1 <= index <= n_pairs * most:
            raise ValueError(
                f"calibration must choose one of {n_pairs * most} sampled scales, and "
                f"{self.rule.name!r} chose number {index!r}."
            )
