"""Noise distributions: what each has to say, and all that follows from it."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, ndtr

from skparisk.core.checks import check_choice, check_floats
from skparisk.core.exact import (
    ByteSource,
    sample_discrete_gaussian,
    sample_discrete_laplace,
)
from skparisk.core.losses import (
    largest_shift,
    least_levels,
    rescale,
)
from skparisk.core.rounding import ROUNDING, below, grid_steps, unwrap

_Floats = NDArray[np.float64]

# Beyond so many noise scales an attacker is taken to be certain.
_CERTAIN_SHIFT = 128.0
# A loss so large, of probability below that, counts as infinite in composition.
_TAIL = 2.0**-72
_CURVE_POINTS = 256
# A profile that is 0, but for rounding.
_ROUNDED = 2.0**-30
# Other levels, and the risk at each of them.
Curve: TypeAlias = tuple[_Floats, _Floats] | None


def row_norms(values: _Floats, order: float) -> _Floats:
    """Return the l1, l2 or sup norm of each row; squares do not vanish or overflow."""
    if order == math.inf:
        return np.asarray(np.abs(values).max(axis=1))
    if order == 1:
        return np.asarray(np.abs(values).sum(axis=1))
    scaled, exponents = rescale(values)
    return np.ldexp(np.sqrt(np.einsum("ij,ij->i", scaled, scaled)), exponents)


class UnitNoise(NamedTuple):
    """The least noise scale for answers that are a distance of 1 apart, rounded up.

    And steps of the grid that it must have, for rounding to be paid for.
    """

    scale: float
    steps: int


class Law(ABC):
    r"""A noise distribution and its privacy loss.

    Noise is symmetric about 0 and independent for each output; noise of scale b is b
    times noise of scale 1. A law of one's own is one whose log-density changes by at
    most :math:`|t|` from z to z + t at scale 1: its loss is at most the l1 distance
    over the scale, for every release. It has a `name`, a `deviation` and `sample`, and
    perhaps a `profile`. All else follows from them, here.

    A subclass guarantees three things. `sample` draws exactly, from random bytes alone.
    Whole numbers of scale t have a coupling with numbers of the law itself at that
    scale: they lie within a step, and their losses differ by no more than the law's
    loss does within a step at both ends. `profile` is at least the truth for every two
    answers at that distance, for any number of outputs, and does not fall as the
    distance grows. Instances are values: immutable, hashable, equal if they are the
    same law.

    Attributes
    ----------
    name : str
        What certificates call it. Names of this package are taken.

    deviation : float
        Standard deviation of noise of scale 1.

    norm : {1, 2, inf}, default=1
        Order of the norm for the distance of two answers: 1 for a law of one's own.

    bounded : bool, default=True
        Whether the loss is at most the distance over the noise scale: not of Gaussian
        noise.

    chooses : callable, default=None
        For the exponential mechanism alone, which releases a choice among candidates:
        ``chooses(scale, steps)`` is what chooses.

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
    chooses: ClassVar[Any] = None

    @abstractmethod
    def sample(self, scale: int, size: int, source: ByteSource) -> NDArray[np.int64]:
        """Return whole numbers, drawn from the law at a whole scale in [1, 2**52].

        `source` returns a requested number of random bytes. The result must have the
        exact law, as a function of these bytes.
        """

    def profile(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        """Return the delta at levels of at least 0: the privacy profile of the noise.

        The largest over events of P(event) - exp(epsilon) P'(event), rounded up. Levels
        and distances over the noise scale, above 0, are numbers or arrays, broadcast
        against each other. The default is the profile of randomized response, the worst
        law with a loss of at most the distance. For log-concave densities, one output
        and any number of outputs have the same profile (:ref:`thm-explicit`).
        """
        a = np.asarray(shift, dtype=np.float64)
        gap = np.maximum(np.subtract(a, epsilon), 0.0)
        return -np.expm1(-gap) / (1 + np.exp(-a))

    def exceedance(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        """Return the probability that the loss exceeds a level of at least 0.

        Arguments as for `profile`. If the loss has a bound, of one output is enough.
        """
        return np.where(np.less(epsilon, shift), 1.0, 0.0)

    @property
    def composes(self) -> bool:
        """Whether more is known about the loss than its bound."""
        return type(self).profile is not Law.profile

    def risk(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        r"""Return the probability that the loss leaves [-epsilon, epsilon].

        Of any number of outputs if the loss has no bound, else of one. The loss is
        below -epsilon as often as it is above epsilon for the other database, so it
        follows from `profile`.

        Examples
        --------
        >>> from skparisk.core import Gaussian
        >>> round(Gaussian().risk(0.6, shift=1.0), 4)
        0.5958
        """
        above = self.exceedance(epsilon, shift)
        other = (above - self.profile(epsilon, shift)) * np.exp(np.negative(epsilon))
        return unwrap(np.minimum(above + other, 1.0))

    def largest_shift(self, epsilon: float, delta: float) -> float:
        """Return the largest distance over the scale with (epsilon, delta)-privacy.

        The inverse of `profile`, rounded down, to more noise.

        Examples
        --------
        >>> from skparisk.core import Gaussian, Laplace
        >>> round(Gaussian().largest_shift(1.0, delta=1e-5), 4)
        0.2681
        >>> round(Laplace().largest_shift(0.6, delta=0.1813), 4)
        1.0001
        """
        least = epsilon if self.bounded else 0.0
        if not delta:
            return least
        return max(least, largest_shift(lambda a: self.profile(epsilon, a), delta))

    def level(self, delta: float, shift: ArrayLike) -> Any:
        """Return the least epsilon with (epsilon, delta)-privacy at each distance.

        The inverse of `profile`, rounded up.

        Examples
        --------
        >>> from skparisk.core import Gaussian
        >>> round(Gaussian().level(1e-5, shift=1.0), 4)
        4.3772
        """
        a = np.asarray(shift, dtype=np.float64)
        if not delta:
            return a if self.bounded else np.full_like(a, math.inf)
        return least_levels(self.profile, delta, a, bounded=self.bounded)

    def shift_at_risk(self, epsilon: float, gamma: float, n_outputs: int = 1) -> float:
        """Return the largest distance over the scale with P(loss > epsilon) <= gamma.

        The inverse of `exceedance`, rounded down, to more noise. If the loss has a
        bound, the worst case of several outputs is not known, and `epsilon` is kept.

        Examples
        --------
        >>> from skparisk.core import Gaussian, Laplace
        >>> round(Gaussian().shift_at_risk(1.0, gamma=0.05), 4)
        0.5244
        >>> round(Laplace().shift_at_risk(0.6, gamma=0.7), 4)
        1.6217
        """
        least = epsilon if self.bounded else 0.0
        if self.bounded and n_outputs > 1:
            return least
        return max(least, largest_shift(lambda a: self.exceedance(epsilon, a), gamma))

    def unit_noise(self, epsilon: float, delta: float, n_outputs: int) -> UnitNoise:
        """Return noise that keeps (epsilon, delta) for every release."""
        shift = self.largest_shift(below(epsilon), delta)
        return self._unit_noise(epsilon, shift, n_outputs)

    def _unit_noise(self, epsilon: float, shift: float, n_outputs: int) -> UnitNoise:
        """Return the noise for answers that may be so many of its scales apart."""
        steps = grid_steps(epsilon, self._reach(n_outputs), shift)
        if not self.bounded:
            # Else the loss grows by no more than the distance: the level pays for it.
            shift -= self._reach(n_outputs) / steps
        return UnitNoise(1 / shift, steps)

    def noise_at_risk(
        self, epsilon: float, gamma: float, n_outputs: int
    ) -> tuple[UnitNoise, float, Curve]:
        """Return noise that loses more than `epsilon` with probability <= gamma.

        Over the noise alone, for any two answers. With the achieved risk, and, if
        known, other levels with their risks.
        """
        shift, curve = self.shift_at_risk(below(epsilon), gamma, n_outputs), None
        unit = self._unit_noise(epsilon, shift, n_outputs)
        if n_outputs == 1 or not self.bounded:
            longest, spent = self.on_grid(shift, n_outputs, unit.steps)
            levels = epsilon * np.geomspace(2.0**-8, 2.0**8, _CURVE_POINTS)
            if self.bounded:  # the least level that the loss never exceeds
                levels = np.append(levels, longest * (1 + ROUNDING) + spent)
            left = np.maximum(levels - spent, 0.0)
            curve = levels, self.exceedance(left, longest)
        kept = self.bounded and shift == below(epsilon)
        return unit, 0.0 if kept else gamma, curve

    def risk_steps(self, epsilon: float, gamma: float, n_outputs: int) -> int:
        """Return the grid steps that `risks` pays for."""
        shift = largest_shift(lambda a: self.risk(epsilon, a), gamma)
        return grid_steps(epsilon, self._reach(n_outputs), shift)

    def _reach(self, n_outputs: int) -> float:
        """Return by how many steps rounding to the grid lengthens a distance."""
        return float(n_outputs ** (1 / self.norm))

    def on_grid(
        self, shifts: ArrayLike, n_outputs: int, steps: int
    ) -> tuple[_Floats, _Floats]:
        """Return distances over the noise scale, and losses, on a grid.

        Distances as long as rounding to the grid can make them, for a noise scale of so
        many steps. And the excess loss of noise on the grid: noise within a step, at
        both ends (:ref:`thm-advantage`).
        """
        reach = self._reach(n_outputs) / steps
        longest = np.multiply(shifts, 1 + ROUNDING) + reach
        return longest, np.maximum(longest, 8.0) * reach

    def levels(
        self, shifts: _Floats, delta: float, *, n_outputs: int, steps: int
    ) -> _Floats:
        """Return the least levels of releases at a delta, on a grid."""
        longest, spent = self.on_grid(shifts, n_outputs, steps)
        return np.asarray(self.level(delta, longest) + spent)

    def risks(
        self, shifts: _Floats, levels: ArrayLike, *, n_outputs: int, steps: int
    ) -> _Floats:
        """Return the probability over the noise that levels are exceeded, on a grid.

        Of shape (n_pairs,), or (n_levels, n_pairs) for a column of levels. For a law
        whose loss has no bound.
        """
        longest, spent = self.on_grid(shifts, n_outputs, steps)
        left = np.maximum(np.subtract(levels, spent), 0.0)
        return np.asarray(self.risk(left, longest))

    def advantage(self, shifts: ArrayLike, *, n_outputs: int, steps: int) -> _Floats:
        """Return the total variation of releases, an attacker's gain.

        An upper bound of the total variation of the two releases, in [0, 1],
        nondecreasing in the distance. For distances of answers over the noise scale, in
        [0, inf], and a scale of at least so many grid steps.

        Notes
        -----
        **Guarantee** (:ref:`thm-advantage`). Who knows all but which of two databases
        it was, either as likely, guesses right with probability (1 + advantage)/2 at
        most: from `profile` at level 0.

        Examples
        --------
        >>> from skparisk.core import Gaussian, Laplace
        >>> Laplace().advantage([0.5, 1.0], n_outputs=1, steps=2**40).round(4)
        array([0.2212, 0.3935])
        >>> Gaussian().advantage([0.5, 1.0], n_outputs=9, steps=2**40).round(4)
        array([0.1974, 0.3829])
        """
        near = np.minimum(shifts, _CERTAIN_SHIFT)
        longest, spent = self.on_grid(near, n_outputs, steps)
        bound = (self.profile(0.0, longest) + spent) * (1 + ROUNDING)
        return np.where(near < _CERTAIN_SHIFT, np.minimum(bound, 1.0), 1.0)

    def loss_distribution(self, shift: float, step: float) -> Any:
        """Return dp-accounting's loss distribution at a distance, on a grid.

        Such that no delta is below what it is off the grid.
        """
        from dp_accounting.pld import pld_pmf
        from dp_accounting.pld import privacy_loss_distribution as pld

        most = shift if self.bounded else float(self.level(_TAIL, shift))
        above = np.arange(math.ceil(most / step) + 1)
        deltas = np.asarray(self.profile(above * step, shift), dtype=np.float64)
        # Noise is symmetric: what is below 0 follows from what is above.
        mirrored = 1 - np.exp(-above * step) * (1 - deltas)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(
            step,
            np.concatenate([-above[:0:-1], above]),
            np.concatenate([mirrored[:0:-1], deltas]),
        )
        return pld.PrivacyLossDistribution(pmf)


@dataclass(frozen=True)
class Laplace(Law):
    r"""Laplace noise, of mean absolute size b at scale b.

    Notes
    -----
    The loss of one output at the shift a is :math:`C = |E - a| - |E|`, E standard
    Laplace, with atoms 1/2 at a and :math:`e^{-a}/2` at -a. So `exceedance` is
    :math:`1 - e^{(\epsilon - a)/2}/2` from -a to a: at a known pair the noise alone
    cannot bring the risk under one half. `profile` is :math:`1 - e^{(\epsilon - a)/2}`
    below a, else 0; it is the worst case over all shifts of the same l1 norm
    (log-concave location family, group privacy: Dong, Roth, Su 2022, *Gaussian
    differential privacy*).

    Examples
    --------
    >>> from skparisk.core import Laplace
    >>> round(Laplace().exceedance(0.6, shift=1.0), 4)
    0.5906
    >>> round(Laplace().profile(0.6, shift=1.0), 4)
    0.1813
    """

    name: ClassVar[str] = "laplace"
    deviation: ClassVar[float] = math.sqrt(2.0)

    def sample(self, scale: int, size: int, source: ByteSource) -> NDArray[np.int64]:
        return sample_discrete_laplace(scale, size, source)

    def profile(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        level = check_floats(epsilon, "epsilon", "[0, inf]")
        a = check_floats(shift, "shift", "(0, inf]")
        a = np.minimum(a, np.finfo(np.float64).max)  # no inf - inf
        gap = np.maximum(a - level, 0.0)
        return unwrap(np.abs(np.expm1(-gap / 2)))  # hockey stick of one coordinate

    def exceedance(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        c = check_floats(epsilon, "epsilon", "[-inf, inf]")
        a = check_floats(shift, "shift", "[0, inf)")
        between = 0.5 - 0.5 * np.expm1(np.minimum(c - a, 0.0) / 2)  # -a <= c < a
        return unwrap(np.where(c < -a, 1.0, np.where(c < a, between, 0.0)))


_CLOSE = 0.5  # below this shift a difference of Mills ratios is an integral
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(7)  # exact to 1e-16 over _CLOSE


@dataclass(frozen=True)
class Gaussian(Law):
    r"""Gaussian noise; its scale is its standard deviation.

    Notes
    -----
    The loss C of any number of outputs at the l2 distance a, over the scale, is normal
    with mean :math:`a^2/2` and standard deviation a, so `exceedance` is
    :math:`\Phi(a/2 - \epsilon/a)`. `profile` is :math:`\Phi(-x) - e^\epsilon \Phi(-y)`
    with :math:`x = \epsilon/a - a/2`, :math:`y = \epsilon/a + a/2` (Balle, Wang 2018,
    *Improving the Gaussian Mechanism for Differential Privacy*, Theorem 8). With Mills'
    ratio :math:`M = \Phi(-\cdot)/\varphi` it is :math:`\varphi(x) (M(x) - M(y))`, and
    for a small shift :math:`\varphi(x) \int_x^y (1 - t M(t))\, dt`, so that nothing
    overflows, and tiny values keep their digits.

    Examples
    --------
    >>> from skparisk.core import Gaussian
    >>> round(Gaussian().exceedance(0.6, shift=1.0), 4)
    0.4602
    >>> round(Gaussian().profile(0.6, shift=1.0), 4)
    0.213
    """

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[float] = 2
    deviation: ClassVar[float] = 1.0
    bounded: ClassVar[bool] = False

    def sample(self, scale: int, size: int, source: ByteSource) -> NDArray[np.int64]:
        return sample_discrete_gaussian(scale, size, source)

    def profile(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        level = check_floats(epsilon, "epsilon", "[0, inf]")
        a = check_floats(shift, "shift", "[0, inf]")
        low, high = _standardize(level, a)
        density = np.exp(-0.5 * np.clip(low, -40.0, 40.0) ** 2) / math.sqrt(2 * math.pi)
        upper = np.where(low > 0, density * _mills(np.maximum(low, 0.0)), ndtr(-low))
        far = upper - density * _mills(high)  # Theorem 8, with e^ε φ(y) = φ(x)
        near = density * _mills_fall(np.clip(low, -1.0, 40.0), np.minimum(a, _CLOSE))
        return unwrap(np.where(a < _CLOSE, near, far))

    def exceedance(self, epsilon: ArrayLike, shift: ArrayLike) -> Any:
        c = check_floats(epsilon, "epsilon", "[-inf, inf]")
        low, _ = _standardize(c, check_floats(shift, "shift", "[0, inf]"))
        return unwrap(ndtr(-low))  # exact law, Φ(a/2 - ε/a)


def _standardize(
    loss: NDArray[np.float64], shift: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return c/a - a/2 and c/a + a/2, infinite where there is no doubt about C <= c."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        middle = loss / shift
    certain = (shift == 0) | np.isinf(loss)
    middle = np.where(certain, np.where(loss >= 0, np.inf, -np.inf), middle)
    half = np.where(certain, 0.0, shift / 2)
    return middle - half, middle + half


def _mills(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Mills' ratio of the normal law, P(Z > t) over the density at t."""
    return math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2))


def _mills_fall(
    start: NDArray[np.float64], length: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return by how much Mills' ratio falls on an interval, as an integral."""
    total = np.zeros_like(start)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        t = start + length * (1 + node) / 2
        total += weight * (1 - t * _mills(t))  # M' = t M - 1
    return length / 2 * total


LAWS: dict[str, Callable[[], Law]] = {
    "laplace": Laplace,
    "gaussian": Gaussian,
}
# Names of proven noise; that for a matrix is none of single numbers.
OWN_NAMES = frozenset({*LAWS, "exponential", "wishart"})
# What a law of one's own leaves as it is.
_KEPT = ("norm", "bounded", "chooses")
NORMS: dict[float, str] = {1: "l1", 2: "l2", math.inf: "sup"}


def is_ours(part: Any) -> bool:
    """Tell if an object is of this package, where it was proven or is marked."""
    kind = type(part)
    module = kind.__module__
    if module.partition(".")[0] != __name__.partition(".")[0]:
        return False
    # A class says itself where it is from: it must also be found there.
    return getattr(sys.modules.get(module), kind.__qualname__, None) is kind


def as_law(law: Any) -> Law:
    """Return the law of a name, or the one that is given."""
    if not isinstance(law, Law):
        return LAWS[check_choice(law, "law", LAWS)]()
    # A name of another type could be equal to none, and be written as one of ours.
    if type(law.name) is not str or not law.name:
        raise ValueError(f"law must have a name, got {law.name!r}.")
    if law.name in OWN_NAMES and not is_ours(law):
        raise ValueError(
            f"law must not be one of your own named {law.name!r}, which certificates "
            "use for one of skparisk's; give it another name."
        )
    kept = all(getattr(law, name) == getattr(Law, name) for name in _KEPT)
    if not is_ours(law) and not (kept and type(law).exceedance is Law.exceedance):
        raise ValueError(
            f"law must be a Law with the norm 1 and a loss of at most the distance, "
            f"as its defaults say, got {law!r} with others."
        )
    if law.bounded and np.max(law.profile(1.0, 1.0)) > _ROUNDED:
        raise ValueError(
            f"law must have a loss of at most the distance, got {law!r}, whose profile "
            "says that it is not bounded so."
        )
    if type(law).__hash__ is None:
        raise ValueError(
            f"law must be a value, immutable and hashable; got {law!r} of a class that "
            "is not: make it a dataclass with frozen=True."
        )
    return law
