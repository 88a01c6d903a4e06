"""What is known of a law of noise: how it is drawn, and what privacy loss it has.

More than half of it is docstrings: the contract of whoever writes a law.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skparisk.core import rounding as grid
from skparisk.core.exact import ByteSource

_Floats = NDArray[np.float64]
# Beyond so many noise scales an attacker is taken to be certain.
_CERTAIN_SHIFT = 128.0
# Shares of the distance: levels that a law is asked about for its trade-off.
_SHARES = np.linspace(0.0, 1.0, 33)
# Relative error of a few operations, with a margin.
_ROUNDING = 1 + 2.0**-40
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

    def profile(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        """Return the delta of one output at levels of at least 0: its privacy profile.

        The largest over events of P(event) - exp(epsilon) P'(event), rounded up. Levels
        and distances over the noise scale, above 0, are numbers or arrays that are
        broadcast against each other.
        """
        raise self._unknown("profile")

    def trade_off(self, false_positive_rate: ArrayLike, shift: ArrayLike) -> Any:
        """Return the most true positives of a test with so many false ones.

        Of one output, as `profile`, from which it follows by default.
        """
        alpha, shifts = np.broadcast_arrays(false_positive_rate, shift)
        levels = np.multiply.outer(_SHARES, shifts)
        return true_positives(levels, self.profile(levels, shifts), alpha).min(axis=0)

    def on_grid(
        self, shifts: _Floats, n_outputs: int, steps: int
    ) -> tuple[_Floats, _Floats]:
        """Return what distances over the noise scale, and losses, become on a grid.

        Distances as long as rounding to the grid can make them, for a noise scale of so
        many steps, and what the loss of noise on the grid is larger by.
        """
        longest = shifts * (1 + 2 * grid.GRID_SHARE) + n_outputs / steps
        return longest, np.full_like(longest, 8 * n_outputs / steps)

    def knows_advantage(self, n_outputs: int) -> bool:
        """Tell if there is an `advantage` below 1."""
        return self.bounded or self.composes(n_outputs)

    def advantage(self, shifts: ArrayLike, *, n_outputs: int, steps: int) -> _Floats:
        """Return how far releases are apart: what an attacker gains by seeing one.

        Parameters
        ----------
        shifts : array-like of shape (n_pairs,)
            Distance of the answers of each pair over the noise scale, in [0, inf].

        n_outputs : int
            Released numbers, >= 1.

        steps : int
            Steps of the grid that the noise scale has at least.

        Returns
        -------
        advantage : ndarray of shape (n_pairs,)
            An upper bound of the total variation of the two releases, in [0, 1], which
            does not fall as the distance grows.

        Notes
        -----
        **Guarantee** (:ref:`thm-advantage`). Who knows all but which of two databases
        it was, either as likely, guesses right with probability (1 + advantage)/2 at
        most. From `profile` at level 0 where the law composes, else from the bound of
        the loss.

        Examples
        --------
        >>> from skparisk.laws import Gaussian, Laplace
        >>> Laplace().advantage([0.5, 1.0], n_outputs=1, steps=2**40).round(4)
        array([0.2212, 0.3935])
        >>> Gaussian().advantage([0.5, 1.0], n_outputs=9, steps=2**40).round(4)
        array([0.1974, 0.3829])
        """

        def bound(longest: _Floats, spent: _Floats) -> Any:
            if self.composes(n_outputs):
                return self.profile(0.0, longest) + spent
            return np.tanh((longest + spent) / 2)

        return self._for_attackers(bound, shifts, n_outputs, steps)

    def true_positive_rate(
        self,
        shifts: ArrayLike,
        false_positive_rate: ArrayLike,
        *,
        n_outputs: int,
        steps: int,
    ) -> _Floats:
        """Return the largest share of true positives at a share of false ones.

        Parameters
        ----------
        shifts, n_outputs, steps
            As for `advantage`.

        false_positive_rate : float or array-like of shape (n_pairs,)
            Probability, in [0, 1], that a test takes the one database for the other.

        Returns
        -------
        true_positive_rate : ndarray of shape (n_pairs,)
            An upper bound of the probability that it knows the other one.

        Notes
        -----
        **Guarantee** (:ref:`thm-advantage`): as `advantage`, from `trade_off` where the
        law composes.

        Examples
        --------
        >>> from skparisk.laws import Laplace
        >>> law = Laplace()
        >>> law.true_positive_rate([1.0], 0.01, n_outputs=1, steps=2**40).round(4)
        array([0.0272])
        """
        alpha = np.asarray(false_positive_rate, dtype=np.float64)

        def bound(longest: _Floats, spent: _Floats) -> Any:
            if self.composes(n_outputs):
                # A loss that is larger by `spent`: so many more false positives.
                more = np.minimum(alpha * np.exp(spent) * _ROUNDING, 1.0)
                return self.trade_off(more, longest)
            return true_positives(longest + spent, 0.0, alpha)

        return self._for_attackers(bound, shifts, n_outputs, steps)

    def _for_attackers(
        self, bound: Any, shifts: ArrayLike, n_outputs: int, steps: int
    ) -> _Floats:
        """Return a bound that is 1 for distances that are too large, rounded up."""
        if not self.knows_advantage(n_outputs):
            raise self._unknown("advantage")
        near = np.minimum(np.asarray(shifts, dtype=np.float64), _CERTAIN_SHIFT)
        found = bound(*self.on_grid(near, n_outputs, steps)) * _ROUNDING
        return np.where(near < _CERTAIN_SHIFT, np.minimum(found, 1.0), 1.0)

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


def true_positives(levels: Any, deltas: Any, false_positive_rate: Any) -> Any:
    """Return the most true positives that (epsilon, delta)-privacy leaves to a test.

    Broadcast against each other; all of levels, deltas and rates are in their ranges.
    """
    alpha = np.asarray(false_positive_rate, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        likelier = np.where(alpha > 0, np.exp(levels) * alpha, 0.0) + deltas
    missed = np.exp(-np.asarray(levels, dtype=np.float64)) * (1 - deltas - alpha)
    return np.minimum(np.minimum(likelier, 1 - missed), 1.0)
