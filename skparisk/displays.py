"""Pictures of what is certified, and of what was sampled; they need matplotlib."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import ROUND_CEILING, Context
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skparisk._validate import check_epsilon, check_positive, check_probability
from skparisk.calibration import RiskCertificate
from skparisk.exceptions import IncompatibleError

__all__ = ["RiskCurveDisplay", "SensitivityDisplay"]

Floats = NDArray[np.float64]

_NOT_FITTED = (
    "This %(name)s has no certificate_: fit it first, and give the estimator of "
    "skparisk itself, not a pipeline or a search around it."
)
# Where a logarithmic axis starts: a few pairs of nearly equal databases would
# stretch it by decades.
_FIRST_SHOWN = 0.99


class _StepDisplay(ABC):
    """A step function that falls from 1, and what is marked on it."""

    caveat: str | None = None
    estimator_name: str | None

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the curve.

        Both axes are logarithmic: the vertical one as the risks that matter are small
        (unless one is 0, or there is none below 1), the other one if it spans more
        than a decade.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.

        name : str, default=None
            Name in the legend. None: `estimator_name`.

        **kwargs : dict
            For matplotlib's `plot`, which draws the curve; not `drawstyle`.

        Returns
        -------
        display : RiskCurveDisplay or SensitivityDisplay
            This one.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        self.ax_ = _new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        limits = self.ax_.get_xlim() if self.ax_.has_data() else (math.inf, 0.0)
        label = kwargs.pop("label", self.estimator_name if name is None else name)
        if self.caveat is not None:
            label = self.caveat if label is None else f"{label} ({self.caveat})"
        x, y = self._steps()
        (self.line_,) = self.ax_.plot(
            x, y, drawstyle="steps-post", label=label, **kwargs
        )
        shown = np.append(x[y <= _FIRST_SHOWN], self._mark(y))
        _fit_levels(self.ax_, shown[shown > 0], limits)
        if self.ax_.get_legend_handles_labels()[0]:
            self.ax_.legend()
        return self

    @abstractmethod
    def _steps(self) -> tuple[Floats, Floats]:
        """Return where the steps begin, from 0 on, and their heights."""

    @abstractmethod
    def _mark(self, heights: Floats) -> list[float]:
        """Draw all but the curve, and return the marked values."""


class RiskCurveDisplay(_StepDisplay):
    """Risk that is certified at the released noise, for each privacy level.

    Make it with `from_estimator` or `from_certificate`. The curve is a step function:
    a risk that is certified at a level holds at those above it, and below the first
    level nothing is certified.

    Parameters
    ----------
    epsilon : array-like of shape (n_points,)
        Privacy levels, finite, >= 0, rising.

    risk : array-like of shape (n_points,)
        Risk that is certified at each, in [0, 1], never rising.

    target_epsilon, target_risk : float, default=None
        Level, in (0, inf], and risk, in [0, 1], of the release, to be marked.

    caveat : str, default=None
        What a reader must know; always in the legend.

    estimator_name : str, default=None
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve, from 1 at a level of 0 to somewhat beyond the last level.

    marker_ : matplotlib Line2D or None
        The release; None without a finite target.

    ax_, figure_ : matplotlib Axes, Figure
        Where the curve is.

    See Also
    --------
    RiskCertificate.risk_at : The same as a number.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk import SensitivitySampler
    >>> from skparisk.displays import RiskCurveDisplay
    >>> public = np.random.default_rng(0).exponential(size=(500, 1))
    >>> sampler = SensitivitySampler(np.mean, epsilon=1.0, random_state=0).fit(public)
    >>> display = RiskCurveDisplay.from_estimator(sampler)
    >>> display.ax_.get_xlabel()
    'privacy level ε'
    """

    def __init__(
        self,
        epsilon: ArrayLike,
        risk: ArrayLike,
        *,
        target_epsilon: float | None = None,
        target_risk: float | None = None,
        caveat: str | None = None,
        estimator_name: str | None = None,
    ) -> None:
        self.epsilon = _frozen(epsilon, "epsilon")
        self.risk = _frozen(risk, "risk", 1.0)
        if len(self.epsilon) != len(self.risk):
            raise ValueError(
                "epsilon and risk must have the same length, got "
                f"{len(self.epsilon)} and {len(self.risk)}."
            )
        if (np.diff(self.epsilon) <= 0).any():
            raise ValueError(f"epsilon must rise from point to point, got {epsilon!r}.")
        if (np.diff(self.risk) > 0).any():
            raise ValueError(f"risk must not rise from point to point, got {risk!r}.")
        if (target_epsilon is None) != (target_risk is None):
            raise ValueError(
                "target_epsilon and target_risk must be given together, got "
                f"{target_epsilon!r} and {target_risk!r}."
            )
        self.target_epsilon = target_epsilon
        self.target_risk = target_risk
        if target_epsilon is not None:
            self.target_epsilon = check_epsilon(target_epsilon, "target_epsilon")
            self.target_risk = float(_frozen(target_risk, "target_risk", 1.0, ndim=0))
        self.caveat = caveat
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the curve of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            With a `certificate_`, such as a :class:`~skparisk.SensitivitySampler`.

        ax, **kwargs
            As in `plot`.

        name : str, default=None
            Name in the legend. None: the class of the estimator.

        Returns
        -------
        display : RiskCurveDisplay

        Raises
        ------
        NotFittedError
            If there is no `certificate_`.
        """
        check_is_fitted(estimator, "certificate_", msg=_NOT_FITTED)
        name = type(estimator).__name__ if name is None else name
        return cls.from_certificate(estimator.certificate_, ax=ax, name=name, **kwargs)

    @classmethod
    def from_certificate(
        cls,
        certificate: RiskCertificate,
        *,
        ax: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of a certificate.

        Parameters
        ----------
        certificate : RiskCertificate
            The legend says so if it guarantees nothing, or with a `delta`.

        ax, name, **kwargs
            As in `plot`.

        Returns
        -------
        display : RiskCurveDisplay
        """
        caveats = []
        if certificate.delta:
            caveats.append(f"δ = {_round_up(certificate.delta)}")
        if certificate.voided:
            caveats.append("not a guarantee")
        elif not certificate.private:
            caveats.append("over resamples of the private data")
        levels = {level for level, _ in certificate.curve} | {certificate.epsilon}
        epsilon = sorted(level for level in levels if level < math.inf)
        # What holds at 0 holds at all levels, and `risk_at` takes those above 0.
        risk = [certificate.risk_at(max(level, math.ulp(0.0))) for level in epsilon]
        display = cls(
            epsilon,
            risk,
            target_epsilon=certificate.epsilon,
            target_risk=certificate.risk,
            caveat=", ".join(caveats) or None,
            estimator_name=name,
        )
        return display.plot(ax, **kwargs)

    def _steps(self) -> tuple[Floats, Floats]:
        end = 1.25 * self.epsilon.max(initial=0.0) or 1.0
        x = np.concatenate([[0.0], self.epsilon, [end]])
        return x, np.concatenate([[1.0], self.risk, [self.risk.min(initial=1.0)]])

    def _mark(self, heights: Floats) -> list[float]:
        self.ax_.set_xlabel("privacy level ε")
        self.ax_.set_ylabel("risk: probability that the loss exceeds ε")
        if 0 < heights.min() < 1 and self.target_risk != 0:
            _log_scale(self.ax_, "y")
        else:
            self.ax_.update_datalim([(0, 0), (0, 1)])
        self.marker_ = None
        epsilon, risk = self.target_epsilon, self.target_risk
        if epsilon is None or risk is None or math.isinf(epsilon):
            return []
        (self.marker_,) = self.ax_.plot(
            [epsilon],
            [risk],
            "o",
            color=self.line_.get_color(),
            label=f"release: ε = {_round_up(epsilon)}, risk {_round_up(risk)}",
        )
        return [epsilon]


class SensitivityDisplay(_StepDisplay):
    """Share of the sampled pairs whose sensitivity is above each value.

    Make it with `from_estimator`. It shows what was sampled, and guarantees nothing.
    At `sensitivity` the curve has come below `gamma`, as the sampling has a share in
    the risk.

    Parameters
    ----------
    sensitivities : array-like of shape (n_pairs,)
        Sampled sensitivities, finite, >= 0, at least one, in any order.

    sensitivity : float, default=None
        The one of them that stands for `gamma`, finite, >= 0.

    gamma : float, default=None
        Risk that was asked for, in (0, 1).

    bound : float, default=None
        Largest sensitivity of all pairs of neighbors, finite, > 0, if it is known.

    estimator_name : str, default=None
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.

    sensitivity_line_, gamma_line_, bound_line_ : matplotlib Line2D or None
        A line at each of the parameters; None where that is None.

    ax_, figure_ : matplotlib Axes, Figure
        Where the curve is.

    See Also
    --------
    SensitivitySampler.sensitivity_at : The one that stands for another risk.

    Examples
    --------
    >>> import numpy as np
    >>> from skparisk import SensitivitySampler
    >>> from skparisk.displays import SensitivityDisplay
    >>> public = np.random.default_rng(0).exponential(size=(500, 1))
    >>> sampler = SensitivitySampler(np.mean, random_state=0).fit(public)
    >>> display = SensitivityDisplay.from_estimator(sampler)
    >>> display.ax_.get_ylabel()
    'share of the pairs above it'
    """

    def __init__(
        self,
        sensitivities: ArrayLike,
        *,
        sensitivity: float | None = None,
        gamma: float | None = None,
        bound: float | None = None,
        estimator_name: str | None = None,
    ) -> None:
        self.sensitivities = _frozen(sensitivities, "sensitivities")
        if not len(self.sensitivities):
            raise ValueError(
                f"sensitivities must be at least one number, got {sensitivities!r}."
            )
        self.sensitivity = sensitivity
        if sensitivity is not None:
            self.sensitivity = float(_frozen(sensitivity, "sensitivity", ndim=0))
        self.gamma = None if gamma is None else check_probability(gamma, "gamma")
        self.bound = None if bound is None else check_positive(bound, "bound")
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        bound: float | None = None,
        ax: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the sampled sensitivities of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A :class:`~skparisk.SensitivitySampler`, or one with a `sampler_`, such as
            :class:`~skparisk.PrivateRidge`.

        bound : float, default=None
            As in the class.

        ax, **kwargs
            As in `plot`.

        name : str, default=None
            Name in the legend. None: the class of the estimator.

        Returns
        -------
        display : SensitivityDisplay

        Raises
        ------
        NotFittedError
            If there is no `certificate_`.

        IncompatibleError
            If nothing was sampled, as the sensitivity is known, or the pairs are not
            kept, as they came from private data.
        """
        check_is_fitted(estimator, "certificate_", msg=_NOT_FITTED)
        certificate = estimator.certificate_
        own_name = type(estimator).__name__
        if certificate.n_pairs is None:
            raise IncompatibleError(
                f"The sensitivity of this {own_name} is known, so no pairs were "
                "sampled, and there is nothing to draw."
            )
        sampler = getattr(estimator, "sampler_", estimator)
        if not hasattr(sampler, "sensitivities_"):
            raise IncompatibleError(
                f"The sampled pairs of this {own_name} are not kept, as they came "
                "from private data. Sample from a public reference instead."
            )
        display = cls(
            sampler.sensitivities_,
            sensitivity=certificate.sensitivity,
            gamma=certificate.gamma,
            bound=bound,
            estimator_name=own_name if name is None else name,
        )
        return display.plot(ax, **kwargs)

    def _steps(self) -> tuple[Floats, Floats]:
        values, counts = np.unique(self.sensitivities, return_counts=True)
        above = len(self.sensitivities) - np.append(0, counts.cumsum())
        return np.append(0.0, values), above / len(self.sensitivities)

    def _mark(self, heights: Floats) -> list[float]:
        self.ax_.set_xlabel("sensitivity: distance of the answers on a pair")
        self.ax_.set_ylabel("share of the pairs above it")
        _log_scale(self.ax_, "y")
        self.gamma_line_ = self.sensitivity_line_ = self.bound_line_ = None
        if self.gamma is not None:
            self.gamma_line_ = self.ax_.axhline(
                self.gamma, color="gray", ls=":", label=f"risk γ = {self.gamma:.3g}"
            )
        if self.sensitivity is not None:
            self.sensitivity_line_ = self.ax_.axvline(
                self.sensitivity,
                color=self.line_.get_color(),
                ls="--",
                label=f"sensitivity Δ = {self.sensitivity:.3g}",
            )
        if self.bound is not None:
            self.bound_line_ = self.ax_.axvline(
                self.bound, color="black", ls="-.", label=f"bound: {self.bound:.3g}"
            )
        return [mark for mark in (self.sensitivity, self.bound) if mark is not None]


def _frozen(values: Any, name: str, most: float = math.inf, *, ndim: int = 1) -> Floats:
    """Return a read-only copy of finite numbers in [0, most]."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array([[math.nan]])
    valid = np.isfinite(array) & (array >= 0) & (array <= most)
    if array.ndim != ndim or not valid.all():
        what = "a vector of finite numbers" if ndim else "a finite number"
        limits = ">= 0" if math.isinf(most) else f"in [0, {most:g}]"
        raise ValueError(f"{name} must be {what} {limits}, got {values!r}.")
    array.flags.writeable = False
    return array


def _round_up(value: float) -> str:
    """Write a number with 3 digits, rounded up: it is never claimed too small."""
    digits = Context(prec=3, rounding=ROUND_CEILING)
    return f"{float(digits.create_decimal(repr(value))):g}"


def _new_axes() -> Any:
    """Return the axes of a new figure of pyplot."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'A display needs matplotlib: python -m pip install "skparisk[plot]"'
        ) from error
    return plt.subplots(layout="constrained")[1]


def _log_scale(ax: Any, axis: str) -> None:
    """Scale an axis logarithmically, with plain numbers at 1, 2 and 5."""
    getattr(ax, f"set_{axis}scale")("log", subs=[2, 5])
    ticks = getattr(ax, f"{axis}axis")
    ticks.set_major_formatter("{x:g}")
    ticks.set_minor_formatter("{x:g}")


def _fit_levels(ax: Any, shown: Floats, limits: tuple[float, float]) -> None:
    """Scale the horizontal axis to positive values, within no less than its limits."""
    if len(shown) and shown.max() > 10 * shown.min():
        _log_scale(ax, "x")
    if len(shown) and ax.get_xscale() == "log":
        left = min(v for v in (shown.min() / 1.2, limits[0]) if v > 0)
        right = max(shown.max() * 1.2, limits[1])
        ax.set_xlim(left, right)
        if right > 1e4 * left:
            ax.xaxis.set_minor_formatter("")
