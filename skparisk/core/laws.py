"""Laws of noise: how they are drawn, and what privacy loss they have."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from skparisk.core import rounding as grid
from skparisk.core.checks import check_choice, check_positive
from skparisk.core.exact import (
    ByteSource,
    sample_discrete_gaussian,
    sample_discrete_laplace,
)
from skparisk.core.losses import (
    gaussian_delta,
    gaussian_delta_epsilon,
    gaussian_explicit_shift,
    gaussian_loss_exceedance,
    gaussian_risk,
    gaussian_risk_shift,
    gaussian_shift,
    laplace_delta,
    laplace_delta_noise_epsilon,
    laplace_loss_exceedance,
    laplace_noise_epsilon,
)

_Floats = NDArray[np.float64]

# No standard noise comes near; products with it stay within the range of floats.
_LARGEST_NOISE = 1e150


def row_norms(values: _Floats, order: float) -> _Floats:
    """Return the l1, l2 or sup norm of each row; squares do not vanish or overflow."""
    if order == math.inf:
        return np.asarray(np.abs(values).max(axis=1))
    if order == 1:
        return np.asarray(np.abs(values).sum(axis=1))
    scaled, exponents = rescale(values)
    return np.ldexp(np.sqrt(np.einsum("ij,ij->i", scaled, scaled)), exponents)


def rescale(v: _Floats) -> tuple[_Floats, NDArray[np.int32]]:
    """Divide each row by a power of two: its largest size is then in [1, 2), or 0."""
    exponents = np.frexp(np.abs(v).max(axis=1))[1] - 1
    return v / np.ldexp(1.0, exponents)[:, np.newaxis], exponents


def row_sums(terms: _Floats, start: _Floats | float = 0) -> _Floats:
    """Return start plus the sum of each row, accurate also where terms cancel.

    The leading digits are split off on a grid so coarse that sums on it are exact
    (Rump, Ogita and Oishi 2008).
    """
    exponents = np.frexp(np.abs(terms).max(axis=1, keepdims=True))[1]
    grid = np.ldexp(1.0, exponents + terms.shape[1].bit_length())
    leading = (grid + terms) - grid
    return (start + leading.sum(axis=1)) + (terms - leading).sum(axis=1)


def check_pairs(differences: ArrayLike, noise: ArrayLike) -> tuple[_Floats, _Floats]:
    """Return differences of pairs, and a vector of standard noise for each."""
    v = np.asarray(differences, dtype=np.float64)
    draws = np.asarray(noise, dtype=np.float64)
    if v.ndim != 2 or v.shape[1] == 0:
        raise ValueError(
            "differences must be of shape (n_pairs, n_outputs) with n_outputs >= 1, "
            f"got shape {v.shape}."
        )
    if draws.shape != v.shape:
        raise ValueError(
            f"noise must be of the shape of differences, {v.shape}, got {draws.shape}."
        )
    if not np.isfinite(v).all():
        raise ValueError("differences must be finite, got NaN or infinity.")
    if not np.abs(draws).max(initial=0) <= _LARGEST_NOISE:
        raise ValueError(
            f"noise must be standard noise, of size at most {_LARGEST_NOISE:g}, got "
            f"{np.abs(draws).max()}."
        )
    return v, draws


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

    Examples
    --------
    >>> from skparisk.core import Gaussian, Laplace
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
        >>> from skparisk.core import Gaussian, Laplace
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
        >>> from skparisk.core import Laplace
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

    def choice(self, scale: float, steps: int) -> Any:
        """Return what chooses by scores, of a scale; 0 for the best."""
        raise self._unknown("choice")

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


_CURVE_POINTS = 256


@dataclass(frozen=True)
class Laplace(Law):
    r"""Laplace noise, of density ``exp(-\|z\|/b)/(2 b)`` at scale b.

    A pair with difference v and noise E of scale 1 has at noise scale b = 1/s the loss
    :math:`C(s) = \sum_j |E_j - s v_j| - |E_j|`, which is convex, straight between
    kinks, and 0 at 0. It may fall below -epsilon before it rises above epsilon. The
    critical scale is 1/s at the first of the two, the root of one equation: nothing is
    searched.

    Notes
    -----
    **Guarantee** (:ref:`thm-critical-scale`). At every scale :math:`b \ge b^*` the loss
    of a pair is within :math:`\pm\varepsilon`, and just below :math:`b^*` it is not.
    This holds up to rounding, by about :math:`k \, 2^{-52} \, \|v\|_1 / b^*` of the
    loss for k outputs, to either side. One sort and two cumulative sums, whose
    temporaries take the memory of about ten arrays like the differences.

    Examples
    --------
    >>> from skparisk.core import Laplace
    >>> Laplace().critical_scales([[1.0], [1.0]], [[0.25], [-0.25]], epsilon=0.5)
    array([1., 2.])
    >>> Laplace().peak_losses([[1.0], [1.0]], [[0.25], [-0.25]], scale=2.0)
    array([0.25, 0.5 ])
    """

    name: ClassVar[str] = "laplace"
    deviation: ClassVar[float] = math.sqrt(2.0)
    takes_delta: ClassVar[bool] = True
    draws: ClassVar[bool] = True

    def sample(self, scale: int, size: int, source: ByteSource) -> NDArray[np.int64]:
        return sample_discrete_laplace(scale, size, source)

    def unit_noise(self, epsilon: float, delta: float, n_outputs: int) -> UnitNoise:
        if not delta:
            return super().unit_noise(epsilon, delta, n_outputs)
        shift = laplace_delta_noise_epsilon(grid.below(epsilon), delta)
        return UnitNoise(1 / shift, grid.laplace_steps(epsilon, n_outputs))

    def levels(
        self, shifts: _Floats, epsilon: float, delta: float, *, n_outputs: int
    ) -> _Floats:
        # Outside events of probability delta it is smaller by 2 ln(1/(1 - delta)).
        losses = np.maximum(shifts + 2 * math.log1p(-delta), 0.0)
        return grid.with_grid(losses, epsilon)

    def composes(self, n_outputs: int) -> bool:
        return True

    def profile(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        return laplace_delta(epsilon, shift)

    def trade_off(self, false_positive_rate: ArrayLike, shift: ArrayLike) -> Any:
        alpha, a = np.broadcast_arrays(false_positive_rate, shift)
        # F(a - F^-1(1 - alpha)), F of the standard Laplace law, tail by tail.
        low = alpha < 0.5
        tail = np.where(low, alpha, 1 - alpha)
        with np.errstate(divide="ignore"):
            end = np.log(2 * tail)  # the quantile: -end where low, end elsewhere
        beyond = a + np.where(low, end, -end)
        return np.where(
            beyond < 0,
            np.exp(np.minimum(beyond, 0.0)) / 2,
            1 - np.exp(-np.maximum(beyond, 0.0)) / 2,
        )

    def on_grid(
        self, shifts: _Floats, n_outputs: int, steps: int
    ) -> tuple[_Floats, _Floats]:
        # An odd distance d in steps has 1 - exp(-d / 2t) / cosh(1 / 2t): thm-advantage.
        longest = shifts * (1 + 2.0**-40) + n_outputs / steps + 0.25 / steps**2
        return longest, np.zeros_like(longest)

    def loss_distribution(self, shift: float, step: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.from_laplace_mechanism(1 / shift, value_discretization_interval=step)

    def noise_at_risk(
        self, epsilon: float, gamma: float, n_outputs: int
    ) -> tuple[UnitNoise, float, Curve]:
        level = grid.below(epsilon)
        shift = laplace_noise_epsilon(level, gamma, n_outputs)
        curve: Curve = None
        if n_outputs == 1:  # the exact law of the loss of one output
            levels = shift * np.linspace(0, 1, _CURVE_POINTS)
            risks = laplace_loss_exceedance(levels, shift)
            curve = levels + epsilon * grid.GRID_SHARE, risks
        unit = UnitNoise(1 / shift, grid.laplace_steps(epsilon, n_outputs))
        return unit, gamma if shift > level else 0.0, curve

    def standard_noise(
        self, rng: np.random.Generator, size: tuple[int, ...]
    ) -> _Floats:
        return rng.laplace(size=size)

    def critical_scales(
        self, differences: ArrayLike, noise: ArrayLike, epsilon: float
    ) -> _Floats:
        epsilon = check_positive(epsilon, "epsilon")
        loss = _piecewise_loss(differences, noise)
        # C at each kink times u > 0. No division: exact for small whole numbers, and so
        # are the ties, where C touches -epsilon without going below.
        at_kinks = (
            loss.slopes[:, :-1] * loss.sizes + loss.intercepts[:, :-1] * loss.shifts
        )
        real = loss.edges[:, 1:-1] < np.inf
        with np.errstate(over="ignore"):
            beyond = (np.abs(at_kinks) > epsilon * loss.shifts) & real
        piece = np.where(beyond.any(axis=1), beyond.argmax(axis=1), real.sum(axis=1))

        # slope s - sum 2 E = epsilon or -epsilon, whichever has the sign of the slope
        slope, passed = loss.line(piece)
        doubled = np.copysign(2, slope)[:, np.newaxis] * loss.sizes
        rise = row_sums(np.where(passed, doubled, 0), start=epsilon)
        left = np.take_along_axis(loss.edges, piece[:, np.newaxis], axis=1)[:, 0]
        right = np.take_along_axis(loss.edges, piece[:, np.newaxis] + 1, axis=1)[:, 0]
        with np.errstate(divide="ignore", over="ignore"):
            scales = np.clip(np.abs(slope) / rise, 1 / right, 1 / left)
            return np.ldexp(scales, loss.exponents)

    def peak_losses(
        self, differences: ArrayLike, noise: ArrayLike, scale: float
    ) -> _Floats:
        mantissa, exponent = math.frexp(check_positive(scale, "scale"))
        loss = _piecewise_loss(differences, noise)
        kinks = loss.edges[:, 1:-1]
        with np.errstate(over="ignore", invalid="ignore"):
            end = np.ldexp(1 / mantissa, loss.exponents - exponent)
            before = kinks < end[:, np.newaxis]
            slope, passed = loss.line(before.sum(axis=1))
            rise = np.ldexp(slope / mantissa, loss.exponents - exponent)
            at_end = row_sums(np.where(passed, -2 * loss.sizes, 0), start=rise)
            at_kinks = loss.slopes[:, :-1] * kinks + loss.intercepts[:, :-1]
        # C is convex and C(0) = 0: |C| is largest at the end, or at a kink of a dip.
        dips = np.max(-at_kinks, axis=1, where=before, initial=0)
        return np.maximum(np.abs(at_end), dips)

    def off_by(
        self, errors: _Floats, differences: _Floats, noise: _Floats
    ) -> tuple[_Floats, _Floats]:
        return errors.sum(axis=1), np.zeros(len(errors))

    def drawn_steps(self, epsilon: float, n_outputs: int) -> int:
        return grid.laplace_steps(epsilon, n_outputs)


class _PiecewiseLoss(NamedTuple):
    """The straight pieces of C of each pair; piece i is between edges i and i + 1.

    Signs are flipped so that E >= 0, with u for v: term j is ``-s u``, and turns at
    ``E / u`` into ``s u - 2 E`` if u > 0. All in the order of the kinks, those at
    infinity last, and with s in units of ``2**-exponents``.
    """

    shifts: _Floats  # u, the largest of a row in [1, 2)
    sizes: _Floats  # E
    edges: _Floats  # 0, the n_outputs kinks, infinity
    slopes: _Floats  # C(s) = slope s + intercept on each of n_outputs + 1 pieces
    intercepts: _Floats
    exponents: NDArray[np.int32]

    def line(self, piece: NDArray[np.intp]) -> tuple[_Floats, NDArray[np.bool_]]:
        """Return the accurate slope on one piece per pair, and what turned before."""
        passed = np.arange(self.shifts.shape[1]) < piece[:, np.newaxis]
        return row_sums(np.where(passed, self.shifts, -self.shifts)), passed


def _piecewise_loss(differences: ArrayLike, noise: ArrayLike) -> _PiecewiseLoss:
    v, noise = check_pairs(differences, noise)
    v, exponents = rescale(v)
    u, sizes = v * np.copysign(1, noise), np.abs(noise)
    edges = np.zeros((len(u), u.shape[1] + 2))
    edges[:, -1] = np.inf
    with np.errstate(over="ignore"):
        np.divide(np.where(u > 0, sizes, np.inf), np.abs(u), out=edges[:, 1:-1])
    order = np.argsort(edges[:, 1:-1], axis=1)
    edges[:, 1:-1] = np.take_along_axis(edges[:, 1:-1], order, axis=1)
    u = np.take_along_axis(u, order, axis=1)
    sizes = np.take_along_axis(sizes, order, axis=1)

    slopes, intercepts = np.zeros((2, len(u), u.shape[1] + 1))
    np.cumsum(np.maximum(u, 0), axis=1, out=slopes[:, 1:])
    np.cumsum(np.where(u > 0, sizes, 0), axis=1, out=intercepts[:, 1:])
    slopes *= 2
    slopes -= u.sum(axis=1, keepdims=True)
    intercepts *= -2
    return _PiecewiseLoss(u, sizes, edges, slopes, intercepts, exponents)


@dataclass(frozen=True)
class Gaussian(Law):
    r"""Gaussian noise; its scale is its standard deviation.

    A pair with difference v and noise E of scale 1 has at noise scale
    :math:`\sigma = 1/s` the loss :math:`s^2 \|v\|^2/2 - s (v \cdot E)`, a parabola.

    Notes
    -----
    **Guarantee** (:ref:`thm-gaussian`, :ref:`thm-critical-scale`). At every scale
    :math:`\sigma \ge \sigma^*` the loss of a pair is within :math:`\pm\varepsilon`, and
    just below :math:`\sigma^*` it is not. This holds up to rounding, to either side, by
    about :math:`k \, 2^{-52} \, \|v\| \, (\|v\|/\sigma^* + \|E\|) / \sigma^*` of the
    loss for k outputs.

    Examples
    --------
    >>> from skparisk.core import Gaussian
    >>> Gaussian().critical_scales([[1.0], [1.0]], [[1.0], [-0.75]], epsilon=0.5)
    array([0.41421356, 2.        ])
    >>> Gaussian().peak_losses([[1.0], [1.0]], [[1.0], [-0.75]], scale=2.0)
    array([0.375, 0.5  ])
    """

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[float] = 2
    deviation: ClassVar[float] = 1.0
    bounded: ClassVar[bool] = False
    takes_delta: ClassVar[bool] = True
    draws: ClassVar[bool] = True
    knows_risk: ClassVar[bool] = True

    def sample(self, scale: int, size: int, source: ByteSource) -> NDArray[np.int64]:
        return sample_discrete_gaussian(scale, size, source)

    def unit_noise(self, epsilon: float, delta: float, n_outputs: int) -> UnitNoise:
        shift = gaussian_shift(grid.below(epsilon), delta)
        steps = grid.gaussian_steps(epsilon, n_outputs, shift)
        # Rounding to the grid lengthens the distance by at most sqrt(k) steps.
        return UnitNoise(1 / (shift - math.sqrt(n_outputs) / steps), steps)

    def levels(
        self, shifts: _Floats, epsilon: float, delta: float, *, n_outputs: int
    ) -> _Floats:
        steps = self.unit_noise(epsilon, delta, n_outputs).steps
        longest, spent = self.on_grid(shifts, n_outputs, steps)
        return np.asarray(gaussian_delta_epsilon(delta, longest) + spent)

    def composes(self, n_outputs: int) -> bool:
        return True

    def profile(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        return gaussian_delta(epsilon, shift)

    def trade_off(self, false_positive_rate: ArrayLike, shift: ArrayLike) -> Any:
        # Guessing has its own rate; for tiny rates ndtri may be infinite.
        known = ndtr(ndtri(false_positive_rate) + shift)
        return np.maximum(known, false_positive_rate)

    def on_grid(
        self, shifts: _Floats, n_outputs: int, steps: int
    ) -> tuple[_Floats, _Floats]:
        rounding = math.sqrt(n_outputs) / steps
        longest = shifts * (1 + 2.0**-40) + rounding
        return longest, longest * rounding

    def loss_distribution(self, shift: float, step: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.from_gaussian_mechanism(
            1 / shift, value_discretization_interval=step
        )

    def noise_at_risk(
        self, epsilon: float, gamma: float, n_outputs: int
    ) -> tuple[UnitNoise, float, Curve]:
        shift = gaussian_explicit_shift(grid.below(epsilon), gamma)
        steps = grid.gaussian_steps(epsilon, n_outputs, shift)
        rounding = math.sqrt(n_outputs) / steps
        levels = epsilon * np.geomspace(2.0**-8, 2.0**8, _CURVE_POINTS)
        left = np.maximum(levels - rounding * shift, 0.0)
        curve = levels, gaussian_loss_exceedance(left, shift)
        return UnitNoise(1 / (shift - rounding), steps), gamma, curve

    def standard_noise(
        self, rng: np.random.Generator, size: tuple[int, ...]
    ) -> _Floats:
        return rng.normal(size=size)

    def critical_scales(
        self, differences: ArrayLike, noise: ArrayLike, epsilon: float
    ) -> _Floats:
        epsilon = check_positive(epsilon, "epsilon")
        norms, z, exponents = _projected(differences, noise)
        # With t = s |v|: C = t**2 / 2 - t z, which dips below -epsilon iff z > bound.
        bound = math.sqrt(min(2 * epsilon, sys.float_info.max))
        dips = z > bound
        dip = np.sqrt(np.maximum(z - bound, 0)) * np.sqrt(np.maximum(z + bound, 0))
        total = np.abs(z) + np.where(dips, dip, np.hypot(z, bound))
        # The roots of t**2 / 2 - t z = ±epsilon, without cancellation: total is
        # 2 epsilon / t where C dips and where z < 0, and t elsewhere.
        with np.errstate(divide="ignore", over="ignore"):
            scales = norms * np.where(dips | (z < 0), total / 2 / epsilon, 1 / total)
            return np.ldexp(scales, exponents)

    def peak_losses(
        self, differences: ArrayLike, noise: ArrayLike, scale: float
    ) -> _Floats:
        mantissa, exponent = math.frexp(check_positive(scale, "scale"))
        norms, z, exponents = _projected(differences, noise)
        with np.errstate(over="ignore"):
            end = np.ldexp(norms / mantissa, exponents - exponent)
            least = np.minimum(end, np.maximum(z, 0))  # where t**2 / 2 - t z is least
            return np.maximum(end * (end / 2 - z), least * (z - least / 2))

    def off_by(
        self, errors: _Floats, differences: _Floats, noise: _Floats
    ) -> tuple[_Floats, _Floats]:
        off = row_norms(errors, 2)
        linear = off * row_norms(noise, 2)
        return linear, off * (row_norms(differences, 2) + off / 2)

    def drawn_steps(self, epsilon: float, n_outputs: int) -> int:
        return grid.drawn_gaussian_steps(epsilon, n_outputs)

    def pair_risks(
        self,
        distances: _Floats,
        scale: float,
        levels: ArrayLike,
        *,
        n_outputs: int,
        steps: int,
    ) -> _Floats:
        longest, spent = self.on_grid(distances / scale, n_outputs, steps)
        left = np.maximum(np.subtract(levels, spent), 0.0)
        return np.asarray(gaussian_risk(left, longest))

    def risk_steps(self, epsilon: float, gamma: float, n_outputs: int) -> int:
        shift = gaussian_risk_shift(epsilon, gamma)
        return grid.gaussian_steps(epsilon, n_outputs, shift)


def _projected(
    differences: ArrayLike, noise: ArrayLike
) -> tuple[_Floats, _Floats, NDArray[np.int32]]:
    """Return the norms (times 2**exponents) and the noise along each difference."""
    v, noise = check_pairs(differences, noise)
    v, exponents = rescale(v)
    norms = np.sqrt(np.einsum("ij,ij->i", v, v))
    z = np.einsum("ij,ij->i", v, noise) / np.where(norms > 0, norms, 1)
    return norms, z, exponents


LAWS: dict[str, Callable[[], Law]] = {
    "laplace": Laplace,
    "gaussian": Gaussian,
}
# Those of this package that are elsewhere have these names.
_OWN_NAMES = frozenset({*LAWS, "exponential", "wishart"})
NORMS: dict[float, str] = {1: "l1", 2: "l2", math.inf: "sup"}


def is_ours(part: Any) -> bool:
    """Tell if an object is of this package, where it was proven or is marked."""
    kind = type(part)
    module = kind.__module__
    if module.partition(".")[0] != __name__.partition(".")[0]:
        return False
    # A class says itself where it is from: it must also be found there.
    return getattr(sys.modules.get(module), kind.__qualname__, None) is kind


def check_name(part: Any, what: str, taken: Iterable[str], one: str = "one") -> None:
    """Refuse a part of the caller's without a name, or with that of one of ours.

    A name of another type than str could be equal to none, and be written as one of
    ours.
    """
    if type(part.name) is not str or not part.name:
        raise ValueError(f"{what} must have a name, got {part.name!r}.")
    if part.name in taken and not is_ours(part):
        raise ValueError(
            f"{what} must not be {one} of your own named {part.name!r}, which "
            "certificates use for one of skparisk's; give it another name."
        )


def as_law(law: Any) -> Law:
    """Return the law of a name, or the one that is given."""
    if not isinstance(law, Law):
        return LAWS[check_choice(law, "law", LAWS)]()
    check_name(law, "law", _OWN_NAMES)
    if law.norm not in NORMS:
        raise ValueError(
            f"law must have the norm 1, 2 or inf; got {law!r} with {law.norm!r}."
        )
    if type(law).__hash__ is None:
        raise ValueError(
            f"law must be a value, immutable and hashable; got {law!r} of a class that "
            "is not: make it a dataclass with frozen=True."
        )
    return law
