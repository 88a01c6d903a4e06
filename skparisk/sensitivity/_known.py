"""A sensitivity that is known: nothing is sampled."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from skparisk._checks import check_flag
from skparisk.core.calibrate import Target
from skparisk.core.checks import check_choice, check_positive
from skparisk.core.laws import NORMS, Law, as_law


class KnownSensitivity(BaseEstimator):
    """A bound on the distance of answers on neighboring databases, and the noise.

    For ``sensitivity=`` of the estimators, which have the privacy level. A plain number
    is short for ``KnownSensitivity(number)``: Laplace noise, and a risk of 0.

    Parameters
    ----------
    sensitivity : float
        Largest distance of the answers on any neighboring databases, > 0. It is not
        checked.

    norm : {"l1", "l2", "sup"}, default="l1"
        Norm of the bounded distance; must be the norm of the law.

    law : {"laplace", "gaussian"} or Law, default="laplace"
        Law of the noise.

    delta : float, default=0.0
        Above 0: (epsilon, delta)-differential privacy. In [0, 1).

    at_risk : bool, default=False
        Whether the privacy loss may exceed the level with a probability of the
        estimator's `gamma`, over the noise (Dandekar's "explicit" randomness). For
        Gaussian noise without a delta. With Laplace noise it is worth something for one
        output and a risk of 1/2 or more only.

    Notes
    -----
    **Guarantee** (:ref:`thm-explicit`). For every pair of neighbors, and all that may
    be released, (epsilon, delta)-differential privacy; `at_risk`, the privacy loss
    exceeds epsilon with probability gamma at most, over the noise.
    The caller must ensure the bound.

    Examples
    --------
    >>> from skparisk import KnownSensitivity, PrivateRidge
    >>> from skparisk.datasets import load_census
    >>> X, y = load_census(return_X_y=True)
    >>> known = KnownSensitivity(0.004, norm="l2", law="gaussian", delta=1e-6)
    >>> ridge = PrivateRidge(epsilon=0.5, sensitivity=known).fit(X, y)
    >>> ridge.risk_, ridge.certificate_.delta
    (0.0, 1e-06)
    """

    def __init__(
        self,
        sensitivity: float,
        *,
        norm: str = "l1",
        law: str | Law = "laplace",
        delta: float = 0.0,
        at_risk: bool = False,
    ) -> None:
        self.sensitivity = sensitivity
        self.norm = norm
        self.law = law
        self.delta = delta
        self.at_risk = at_risk

    def _check(self, epsilon: Any, gamma: Any) -> tuple[float, Target, Law]:
        """Return the bound, what is asked of the noise, and its law, all checked."""
        sensitivity = check_positive(self.sensitivity, "sensitivity")
        law = as_law(self.law)
        if law.chooses:
            raise ValueError(
                "law must be of noise that is added to numbers, got "
                f"{law.name!r}, which chooses a candidate."
            )
        if check_choice(self.norm, "norm", NORMS.values()) != NORMS[law.norm]:
            raise ValueError(
                f"norm must be {NORMS[law.norm]!r} with law={law.name!r}, because its "
                f"noise is for a bound in that norm; got {self.norm!r}."
            )
        if check_flag(self.at_risk, "at_risk") and self.delta:
            raise ValueError(
                f"delta must be 0 with at_risk=True, got {self.delta!r}: either is "
                "asked for."
            )
        asked = gamma if self.at_risk else 0.0
        target = Target(epsilon, asked, self.delta, "explicit")
        target.check_law(law, sampled=False)
        return sensitivity, target, law
