"""What is asked of the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from skparisk.certificate._claim import RANDOMNESS
from skparisk.core.checks import (
    check_choice,
    check_epsilon,
    check_probability,
    check_share,
    is_number,
)
from skparisk.core.laws import Law


@dataclass(frozen=True)
class Target:
    """What is asked of the noise, checked where it is made and nowhere else.

    Parameters
    ----------
    epsilon : float
        Privacy level, in (0, inf]. Unitless. Infinite: no noise. With an `advantage` it
        is 0: see `of_advantage`.

    gamma : float, default=0.05
        Risk, in (0, 1): probability that the privacy loss exceeds `epsilon`. With
        "explicit" it may be 0: every pair keeps the level.

    delta : float, default=0.0
        Additive relaxation of differential privacy, in [0, 1). Not used with "both".

    randomness : {"implicit", "both", "explicit"}, default="implicit"
        What the risk is over: the pair of databases, the pair and the noise together,
        or the noise alone, for every pair.

    advantage : float, default=None
        What an attacker may gain on average over pairs, in (0, 1), instead of a level:
        see `of_advantage`.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from skparisk.calibration import Target
    >>> Target(0.5, delta=1e-6)
    Target(epsilon=0.5, gamma=0.05, delta=1e-06, randomness='implicit', advantage=None)
    """

    epsilon: float
    gamma: float = 0.05
    delta: float = 0.0
    randomness: str = "implicit"
    advantage: float | None = None

    def __post_init__(self) -> None:
        check_choice(self.randomness, "randomness", RANDOMNESS)
        none = self.randomness == "explicit" and is_number(self.gamma)
        gamma = self.gamma
        if not (none and gamma == 0):
            gamma = check_probability(gamma, "gamma")
        delta = check_share(self.delta, "delta")
        # Plain numbers: those of NumPy may be short, and are rounded when calculated.
        if self.advantage is None:
            epsilon = check_epsilon(self.epsilon)
        else:
            epsilon = self._check_advantage(self.advantage)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "gamma", float(gamma))
        object.__setattr__(self, "delta", delta)

    @classmethod
    def of_advantage(cls, advantage: float, gamma: float = 0.05) -> Self:
        """Return what is asked of noise that leaves attackers so much to gain.

        Parameters
        ----------
        advantage : float
            Most that who knows all but which of two databases it was may gain, on
            average over pairs: the total variation of the two releases, in (0, 1).

        gamma : float, default=0.05
            Share of pairs, in (0, 1), that what is said of all others leaves out.

        Returns
        -------
        target : Target
            Of level 0, whose risk over pair and noise together is the advantage.

        Raises
        ------
        ValueError
            If a parameter is out of range.

        Examples
        --------
        >>> from skparisk.calibration import Target
        >>> Target.of_advantage(0.1).advantage
        0.1
        """
        return cls(0.0, gamma, randomness="both", advantage=advantage)

    def _check_advantage(self, advantage: Any) -> float:
        asked = check_probability(advantage, "advantage")
        if (self.epsilon, self.delta, self.randomness) != (0, 0, "both"):
            raise ValueError(
                "epsilon and delta must be 0, and randomness 'both', with an "
                f"advantage, which stands for them: see Target.of_advantage; got "
                f"{self.epsilon!r}, {self.delta!r} and {self.randomness!r}."
            )
        object.__setattr__(self, "advantage", asked)
        return 0.0

    def check_law(self, law: Law) -> None:
        """Raise ValueError if noise of a law cannot keep it."""
        name = f"law={law.name!r}"
        if self.advantage is not None:
            if law.chooses or not law.knows_advantage(1):
                raise ValueError(
                    f"advantage must be None with {name}: it is for noise that is "
                    "added to numbers, whose loss is bounded or composes; got "
                    f"{self.advantage!r}."
                )
            return
        if self.randomness == "both":
            if not (law.draws or law.knows_risk):
                raise ValueError(
                    f"randomness must not be 'both' with {name}, of which no losses of "
                    "drawn noise are known."
                )
            return
        if self.delta and not law.takes_delta:
            raise ValueError(f"delta must be 0 with {name}, got {self.delta!r}.")
        if math.isinf(self.epsilon):
            return
        if self.randomness == "explicit" and self.gamma > 0 and not self.delta:
            law.noise_at_risk(self.epsilon, self.gamma, 1)
            return
        if self.epsilon > law.most_epsilon:
            raise ValueError(
                f"epsilon must be at most {law.most_epsilon:g} with {law!r}, which is "
                f"proven only there; got {self.epsilon!r}."
            )
        if not (law.bounded or self.delta):
            raise ValueError(
                f"delta must be above 0 with {name} and randomness={self.randomness!r},"
                f" because the loss of {law.name} noise has no bound; got "
                f"{self.delta!r}."
            )
