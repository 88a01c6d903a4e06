"""What mechanisms for a known sensitivity have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core.checks import as_float, check_at_least, check_epsilon
from skparisk.core.claim import Assumption, Certificate
from skparisk.core.noise import AdditiveNoise
from skparisk.core.release import draw
from skparisk.ledger import OPEN

# What the claim of a mechanism for a declared sensitivity rests on.
DECLARED = frozenset({Assumption.DECLARED_SENSITIVITY})


class KnownMechanism(ABC):
    """A mechanism that knows its sensitivity, and so its noise."""

    sensitivity: float
    epsilon: float
    n_outputs: int
    noise: AdditiveNoise

    def _check(self) -> None:
        """Make plain numbers of the parameters, or refuse them."""
        epsilon = check_epsilon(self.epsilon)
        n_outputs = check_at_least(self.n_outputs, "n_outputs", 1)
        check_sensitivity(self.sensitivity, epsilon)
        object.__setattr__(self, "sensitivity", float(self.sensitivity))
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "n_outputs", n_outputs)

    @abstractmethod
    def as_certificate(self) -> Certificate:
        """Return the claim that composition and budgets count for one release."""

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
        # What counts are numbers: a `size` of the caller's may be anything.
        values = np.asarray(values, dtype=np.float64)
        n_rows = values.size // self.noise.n_outputs
        return np.asarray(
            draw(
                self.noise,
                values,
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
