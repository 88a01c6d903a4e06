"""The Laplace and the Gaussian mechanism for a known sensitivity."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core.calibrate import Target, find_known
from skparisk.core.checks import (
    as_float,
    check_at_least,
    check_epsilon,
    check_probability,
)
from skparisk.core.claim import Assumption, Certificate, mint
from skparisk.core.noise import ROUNDING_SLACK, AdditiveNoise
from skparisk.core.release import draw, hide_values
from skparisk.ledger import OPEN

# Assumption of the claim of a mechanism for a declared sensitivity.
DECLARED = frozenset({Assumption.DECLARED_SENSITIVITY})


class _AdditiveMechanism(ABC):
    """A mechanism that knows its sensitivity, and so its noise."""

    sensitivity: float
    epsilon: float
    n_outputs: int
    noise: AdditiveNoise
    _law: ClassVar[str]

    def __post_init__(self) -> None:
        epsilon = check_epsilon(self.epsilon)
        n_outputs = check_at_least(self.n_outputs, "n_outputs", 1)
        check_sensitivity(self.sensitivity, epsilon)
        object.__setattr__(self, "sensitivity", float(self.sensitivity))
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "n_outputs", n_outputs)
        object.__setattr__(self, "noise", self._known()[0])

    @abstractmethod
    def _target(self) -> Target: ...

    def _known(self) -> tuple[AdditiveNoise, Certificate]:
        sensitivity = self.sensitivity or 1.0  # 0 only without noise
        return find_known(
            sensitivity, self._target(), law=self._law, n_outputs=self.n_outputs
        )

    def as_certificate(self) -> Certificate:
        """Return the claim of one release, for composition and budgets."""
        return mint(
            epsilon=self.epsilon,
            delta=self._target().delta,
            loss=self._known()[1].loss,
            assumptions=DECLARED,
        )

    @property
    def grid(self) -> float:
        return self.noise.grid

    @property
    def noise_scale(self) -> float:
        return self.noise.noise_scale

    def release(
        self, values: ArrayLike, *, noise_random_state: Any = None
    ) -> NDArray[np.float64]:
        """Return the values with fresh noise.

        Parameters
        ----------
        values : array-like, last axis of length `n_outputs`
            Finite numbers. Each row is a release of its own.

        noise_random_state : int, RandomState, Generator or None, default=None
            None: the operating system's cryptographic source. Anything else is
            for tests: a release whose noise can be repeated is not private.

        Returns
        -------
        released : ndarray of the shape of `values`

        Raises
        ------
        ValueError
            If a value is NaN or infinite, or the last axis has another length.

        BudgetExceededError, IncompatibleError
            If a ledger is open and refuses; each row is charged.
        """
        # A `size` of the caller's own type may be anything.
        numbers = hide_values(np.asarray, values, dtype=np.float64)
        n_rows = numbers.size // self.noise.n_outputs
        return np.asarray(
            draw(
                self.noise,
                numbers,
                [self.as_certificate()] * n_rows,
                OPEN,
                note=str(self),
                noise_random_state=noise_random_state,
            )
        )


def check_sensitivity(sensitivity: float, epsilon: float) -> None:
    """Refuse a sensitivity that gives no noise, or no finite one."""
    allowed = "at least" if math.isinf(epsilon) else "above"
    value = as_float(sensitivity)
    if not 0 <= value < math.inf or (value == 0 and math.isfinite(epsilon)):
        raise ValueError(
            f"sensitivity must be a finite number {allowed} 0, got {sensitivity!r}."
        )


@dataclass(frozen=True)
class LaplaceMechanism(_AdditiveMechanism):
    """Laplace noise for a known l1 sensitivity, drawn exactly on a grid.

    Parameters
    ----------
    sensitivity : float
        Largest l1 distance of the values of neighboring databases; finite, > 0,
        or >= 0 with ``epsilon=inf``. In units of the values.

    epsilon : float
        Privacy level, in (0, inf]. Infinite: values are released as they are.

    n_outputs : int, default=1
        Number of values released together, >= 1.

    Attributes
    ----------
    noise_scale : float
        Scale b of the noise of each value: sensitivity / epsilon, and slightly more to
        pay for the rounding of the values and of the sensitivity.

    grid : float
        Distance of neighboring releasable values.

    noise : AdditiveNoise
        The noise itself.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the noise scale is no finite number.

    Notes
    -----
    **Guarantee**. For databases whose values differ by at most `sensitivity` in
    the l1 norm, the release is epsilon-differentially private (Dwork et al. 2006).
    Discrete Laplace noise of scale t on the integers has privacy loss at most
    ``|d|/t`` for a shift by d; rounding to the grid g makes the shift at most
    (sensitivity + n_outputs g)/g in the l1 norm. Sampling is exact: Canonne,
    Kamath and Steinke 2020, Algorithm 2. Floating-point noise instead would
    give the values away by its low bits (Mironov 2012).

    Examples
    --------
    >>> from skparisk.mechanisms import LaplaceMechanism
    >>> mechanism = LaplaceMechanism(sensitivity=1.0, epsilon=0.5)
    >>> round(mechanism.noise_scale, 6)
    2.0
    >>> mechanism.release([3.0]).shape
    (1,)
    """

    sensitivity: float
    epsilon: float
    n_outputs: int = 1
    noise: AdditiveNoise = field(init=False, repr=False)

    _law = "laplace"

    def _target(self) -> Target:
        return Target(self.epsilon, 0.0, randomness="explicit")

    def privacy_loss(self, distance: ArrayLike) -> NDArray[np.float64]:
        """Return the largest privacy loss of values at a distance, rounded up.

        Parameters
        ----------
        distance : array-like
            l1 distances of the values, >= 0, in units of the values.

        Returns
        -------
        loss : ndarray of the shape of `distance`
            (distance + n_outputs grid) / noise_scale; infinite without noise.
        """
        distance = np.asarray(distance, dtype=np.float64)
        if not self.noise.steps:
            return np.full(distance.shape, np.inf)
        with np.errstate(over="ignore"):  # an infinite loss is a safe answer
            enlarged = distance * (1 + float(ROUNDING_SLACK))
            loss = (enlarged + self.n_outputs * self.grid) / self.noise_scale
        # Up to the sensitivity the exact arithmetic of the grid says epsilon.
        most = np.where(distance <= self.sensitivity, self.epsilon, np.inf)
        return np.minimum(loss, most)


@dataclass(frozen=True)
class GaussianMechanism(_AdditiveMechanism):
    """Gaussian noise for a known l2 sensitivity, drawn exactly on a grid.

    Parameters
    ----------
    sensitivity : float
        Largest l2 distance of the values of neighboring databases; finite, > 0,
        or >= 0 with ``epsilon=inf``. In units of the values.

    epsilon, n_outputs
        As in :class:`LaplaceMechanism`.

    delta : float
        Additive relaxation of differential privacy, in (0, 1).

    Attributes
    ----------
    noise_scale : float
        Standard deviation of the noise of each value.

    grid, noise : float, AdditiveNoise
        As in :class:`LaplaceMechanism`.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the noise scale is no finite number.

    Notes
    -----
    **Guarantee** (:ref:`thm-gaussian`). For databases whose values differ by at most
    `sensitivity` in the l2 norm, the release is (epsilon, delta)-differentially
    private: Balle and Wang 2018, Theorem 8. A share 2**-20 of `epsilon` pays for the
    grid. The noise is the discrete Gaussian of Canonne, Kamath and Steinke 2020.

    Examples
    --------
    >>> from skparisk.mechanisms import GaussianMechanism
    >>> mechanism = GaussianMechanism(sensitivity=1.0, epsilon=0.5, delta=1e-5)
    >>> round(mechanism.noise_scale, 3)
    7.032
    >>> mechanism.release([3.0]).shape
    (1,)
    """

    sensitivity: float
    epsilon: float
    delta: float
    n_outputs: int = 1
    noise: AdditiveNoise = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_probability(self.delta, "delta"))
        super().__post_init__()

    _law = "gaussian"

    def _target(self) -> Target:
        return Target(self.epsilon, 0.0, self.delta, "explicit")
