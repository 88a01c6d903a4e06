"""What is known of a law of noise: how it is drawn, and what privacy loss it has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk._secure_noise import ByteSource
from skparisk.laws import _grid as grid

__all__ = ["Curve", "Law", "UnitNoise"]

_Floats = NDArray[np.float64]
# Other levels, and the risk at each of them.
Curve: TypeAlias = tuple[_Floats, _Floats] | None


class UnitNoise(NamedTuple):
    """What noise takes for answers that are a distance of 1 apart.

    Parameters
    ----------
    scale : float
        The least noise scale, rounded up.

    steps : int
        Steps of the grid that this scale must have, for rounding to be paid for.
    """

    scale: float
    steps: int


class Law(ABC):
    r"""A law of noise, and what is known of its privacy loss.

    Noise is symmetric about 0. That of scale b is that of scale 1 times b, independent
    for each output, drawn on a grid so fine that the scale has many steps of it.

    A class that implements this guarantees that `sample` draws from its law exactly,
    from random bytes alone, and that whatever else it says of the privacy loss is true
    of every two answers so far apart, or rounded to the safe side. It may assume that
    levels, risks and deltas are in their ranges, that distances are finite or infinite
    numbers of at least 0, in its own norm, and that answers are rounded by at most half
    a step of the grid each. Instances are values: immutable, hashable, equal if
    they are the same law.

    What is not overridden is right for a law whose log-density changes by at most
    :math:`|t|` from z to z + t at scale 1: its loss is at most the l1 distance over the
    scale (`bounded`), whatever is released, and no more is known of it.

    Attributes
    ----------
    name : str
        What certificates call it. Those of this package are taken.

    norm : {1, 2, inf}, default=1
        Order of the norm in which the distance of two answers counts.

    deviation : float
        Standard deviation of noise of scale 1.

    bounded : bool, default=True
        Whether the loss at a distance has a bound. If not, there is no level for all
        that may be released without a delta.

    takes_delta : bool, default=False
        Whether `unit_noise` and `levels` make use of a delta.

    draws : bool, default=False
        Whether pairs can be tried with draws of the noise, for a risk over both: then
        there are `standard_noise`, `critical_scales`, `peak_losses`, `off_by` and
        `drawn_steps`.

    knows_risk : bool, default=False
        Whether `pair_risks` and `risk_steps` are there, so that no draws are needed.

    chooses : bool, default=False
        Whether what is released is a choice among candidates by their scores.

    most_epsilon : float, default=inf
        The largest level that `unit_noise` is proven for.

    Examples
    --------
    >>> from skparisk.laws import Gaussian, Laplace
    >>> Laplace().unit_noise(0.5, 0.0, n_outputs=1).scale
    2.000001907350452
    >>> Gaussian().norm, Gaussian().bounded
    (2, False)
    """

    name: ClassVar[str]
    norm: ClassVar[float] = 1
    deviation: ClassVar[float]
    bounded: ClassVar[bool] = True
    takes_delta: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    knows_risk: ClassVar[bool] = False
    chooses: ClassVar[bool] = False
    most_epsilon: ClassVar[float] = math.inf

    @abstractmethod
    def sample(self, scale: int, size: int, source: ByteSource) -> NDArray[np.int64]:
        """Return whole numbers, drawn from the law at a whole scale in [1, 2**52].

        `source` returns as many random bytes as it is asked for; the law of what is
        returned must be exact, and a function of these bytes.
        """

    def unit_noise(self, epsilon: float, delta: float, n_outputs: int) -> UnitNoise:
        """Return the noise that keeps (epsilon, delta) for all that may be released."""
        return UnitNoise(
            1 / grid.below(epsilon), grid.laplace_steps(epsilon, n_outputs)
        )

    def levels(
        self, shifts: _Floats, epsilon: float, delta: float, *, n_outputs: int
    ) -> _Floats:
        """Return the least levels that are kept at distances over the noise scale.

        With the same delta, on the grid of noise that was calibrated to `epsilon`.
        """
        return grid.with_grid(shifts, epsilon)

    def largest_loss(self, shift: float) -> float:
        """Return the largest loss at a distance over the noise scale; may be inf."""
        return shift if self.bounded else math.inf

    def composes(self, n_outputs: int) -> bool:
        """Tell if composition may use the law of the loss: there must be `profile`.

        The loss of so many outputs at a distance is then dominated by that of one
        output at the same distance.
        """
        return False

    def profile(self, epsilon: ArrayLike, shift: float) -> Any:
        """Return the delta of one output at levels of at least 0: its privacy profile.

        The largest over events of P(event) - exp(epsilon) P'(event), rounded up.
        """
        raise self._unknown("profile")

    def loss_distribution(self, shift: float, step: float) -> Any:
        """Return dp-accounting's law of the loss of one output, on a grid of losses.

        From `profile`, such that no delta is below what it is off the grid; a law whose
        loss has no bound overrides it.
        """
        from dp_accounting.pld import pld_pmf
        from dp_accounting.pld import privacy_loss_distribution as pld

        ends = math.ceil(self.largest_loss(shift) / step)
        above = np.arange(ends + 1)
        deltas = np.asarray(self.profile(above * step, shift), dtype=np.float64)
        # Noise is symmetric: what is below 0 follows from what is above.
        mirrored = 1 - np.exp(-above * step) * (1 - deltas)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(
            step,
            np.concatenate([-above[:0:-1], above]),
            np.concatenate([mirrored[:0:-1], deltas]),
        )
        return pld.PrivacyLossDistribution(pmf)

    def width(self, shift: float) -> float:
        """Return how far losses of one output are spread, about."""
        return 2 * shift if self.bounded else 20 * shift

    def noise_at_risk(
        self, epsilon: float, gamma: float, n_outputs: int
    ) -> tuple[UnitNoise, float, Curve]:
        """Return noise whose loss is above `epsilon` with probability gamma at most.

        Over the noise alone, for any two answers. With the risk that is achieved, and
        other levels with their risks, where they are known. By default there is none,
        which takes a loss that has a bound.
        """
        if not self.bounded:
            raise ValueError(
                f"{type(self).__name__} does not say its noise_at_risk, and its loss "
                "has no bound: it has no noise for a risk over the noise."
            )
        return self.unit_noise(epsilon, 0.0, n_outputs), 0.0, None

    def standard_noise(
        self, rng: np.random.Generator, size: tuple[int, ...]
    ) -> _Floats:
        """Return noise of scale 1 in floating point, to try sampled pairs with."""
        raise self._unknown("standard_noise")

    def critical_scales(
        self, differences: ArrayLike, noise: ArrayLike, epsilon: float
    ) -> _Floats:
        r"""Return the least scales from which on the loss of each pair is in bounds.

        Parameters
        ----------
        differences : array-like of shape (n_pairs, n_outputs)
            For each pair of databases, what one answers minus what the other does.
            Finite.

        noise : array-like of shape (n_pairs, n_outputs)
            For each pair, one vector of noise of scale 1.

        epsilon : float
            Target privacy level, > 0.

        Returns
        -------
        critical_scales : ndarray of shape (n_pairs,)
            :math:`b^* \ge 0`, in the unit of `differences`; 0 where both answer the
            same. At every scale from there on the loss of the pair at this noise is
            within :math:`\pm\varepsilon`.

        Raises
        ------
        ValueError
            If the arrays are not two tables of one shape with finite numbers, `noise`
            is beyond 1e150, or `epsilon` is not finite and above 0.
        """
        raise self._unknown("critical_scales")

    def peak_losses(
        self, differences: ArrayLike, noise: ArrayLike, scale: float
    ) -> _Floats:
        """Return the largest loss of each pair, at any scale from `scale` on.

        The inverse of `critical_scales`: the least level whose critical scale is at
        most `scale`. It never rises as `scale` grows, as the loss there may.

        Parameters
        ----------
        differences, noise : array-like of shape (n_pairs, n_outputs)
            As for `critical_scales`.

        scale : float
            Noise scale, > 0, in the unit of `differences`.

        Returns
        -------
        peak_losses : ndarray of shape (n_pairs,)
            At least 0.

        Raises
        ------
        ValueError
            As for `critical_scales`, or if `scale` is not finite and above 0.
        """
        raise self._unknown("peak_losses")

    def off_by(
        self, errors: _Floats, differences: _Floats, noise: _Floats
    ) -> tuple[_Floats, _Floats]:
        """Return by how much losses are off, where differences are off by errors.

        By at most ``linear / b + square / b**2`` at noise scale b: the two, for each
        pair.
        """
        raise self._unknown("off_by")

    def drawn_steps(self, epsilon: float, n_outputs: int) -> int:
        """Return the steps of the grid at which one draw of the noise pays for it.

        No draw is counted whose largest part is beyond 64 times the scale.
        """
        raise self._unknown("drawn_steps")

    def pair_risks(
        self,
        distances: _Floats,
        scale: float,
        levels: ArrayLike,
        *,
        n_outputs: int,
        steps: int,
    ) -> _Floats:
        """Return the risk over the noise of each pair, that a level is exceeded.

        Rounded up; of shape (n_pairs,), or (n_levels, n_pairs) for a column of levels.
        """
        raise self._unknown("pair_risks")

    def risk_steps(self, epsilon: float, gamma: float, n_outputs: int) -> int:
        """Return the steps of the grid at which `pair_risks` pays for it."""
        raise self._unknown("risk_steps")

    def _unknown(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not say its {method}.")
