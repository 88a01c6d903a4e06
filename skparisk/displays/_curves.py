"""The risk of a release at each level, and how far sampled neighbors are apart."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skparisk.core.checks import IncompatibleError
from skparisk.core.claim import Claim
from skparisk.core.rounding import ceil_text
from skparisk.displays._base import Display, Floats, fit_levels, log_scale

# Where a logarithmic axis starts: a few pairs of nearly equal databases would
# stretch it by decades.
_FIRST_SHOWN = 0.99


class _StepDisplay(Display):
    """A step function that falls from 1, and what is marked on it.

    Both axes are logarithmic: the vertical one as the risks that matter are small
    (unless one is 0, or there is none below 1), the other one if it spans more than a
    decade.
    """

    estimator_name: str | None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the certificate or the sampled pairs of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            With a `certificate_`, such as a :class:`~skparisk.SensitivitySampler` or a
            :class:`~skparisk.PrivateRidge`.

        name : str, default=None
            Name in the legend. None: the class of the estimator.

        ax, **kwargs
            As in `plot`.

        Raises
        ------
        NotFittedError
            If there is no `certificate_`.

        IncompatibleError
            By a SensitivityDisplay, if nothing was sampled, as the sensitivity is
            known, or the pairs are not kept, as they came from private data.
        """
        message = (
            "This %(name)s has no certificate_: fit it first, and pass the skparisk "
            "estimator itself, not a pipeline or a search around it."
        )
        check_is_fitted(estimator, "certificate_", msg=message)
        return cls._of(estimator, name or type(estimator).__name__).plot(ax, **kwargs)

    @classmethod
    @abstractmethod
    def _of(cls, estimator: Any, name: str) -> Self:
        """Return the display of a fitted estimator."""

    def _draw(self, **kwargs: Any) -> None:
        limits = self.ax_.get_xlim() if self.ax_.has_data() else (math.inf, 0.0)
        x, y = self._steps()
        label = self._label(kwargs.pop("label", self.estimator_name))
        (self.line_,) = self.ax_.plot(
            x, y, drawstyle="steps-post", label=label, **kwargs
        )
        shown = np.append(x[y <= _FIRST_SHOWN], self._mark(y))
        fit_levels(self.ax_, shown[shown > 0], limits)

    @abstractmethod
    def _steps(self) -> tuple[Floats, Floats]:
        """Return where the steps begin, from 0 on, and their heights."""

    @abstractmethod
    def _mark(self, heights: Floats) -> list[float]:
        """Draw all but the curve, and return the marked values."""


class RiskCurveDisplay(_StepDisplay):
    """Plot the certified risk at each privacy level, for the released noise.

    Make it with `from_estimator`. The curve is a step function: a certified risk holds
    at all higher levels, and nothing is certified below the first level.

    Parameters
    ----------
    certificate : Certificate or FiledCertificate
        Whose risks are drawn. The legend shows its `delta`, if any, and whether it
        guarantees nothing.

    estimator_name : str, default=None
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve, from 1 at a level of 0 to somewhat beyond the last level.

    marker_ : matplotlib Line2D or None
        The release; None without a finite level.

    ax_, figure_ : matplotlib Axes, Figure
        Where the curve is.

    See Also
    --------
    Certificate.risk_at : The same as a number.

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
        self, certificate: Claim, *, estimator_name: str | None = None
    ) -> None:
        if not isinstance(certificate, Claim):
            raise ValueError(f"certificate must be a Certificate, got {certificate!r}.")
        self.certificate = certificate
        self.estimator_name = estimator_name
        notes = [f"δ = {ceil_text(certificate.delta, 3)}"] * bool(certificate.delta)
        if certificate.void:
            notes.append("not a guarantee")
        elif certificate.reference_is_private:
            notes.append("over resamples of the private data")
        elif certificate.leaks:
            notes.append("not counting what was released without noise")
        self.caveat = ", ".join(notes) or None

    @classmethod
    def _of(cls, estimator: Any, name: str) -> Self:
        return cls(estimator.certificate_, estimator_name=name)

    def _steps(self) -> tuple[Floats, Floats]:
        levels, _ = self.certificate.points()
        epsilon = np.unique(levels[np.isfinite(levels)])
        # What holds at 0 holds at all levels, and `risk_at` takes those above 0.
        above_0 = np.maximum(epsilon, math.ulp(0.0))
        risk = [1.0, *map(self.certificate.risk_at, above_0.tolist())]
        end = 1.25 * epsilon.max(initial=0.0) or 1.0
        return np.concatenate([[0.0], epsilon, [end]]), np.array([*risk, min(risk)])

    def _mark(self, heights: Floats) -> list[float]:
        self.ax_.set_xlabel("privacy level ε")
        self.ax_.set_ylabel("risk: probability that the loss exceeds ε")
        epsilon, risk = self.certificate.epsilon, self.certificate.risk
        if 0 < heights.min() < 1 and risk:
            log_scale(self.ax_, "y")
        else:
            self.ax_.update_datalim([(0, 0), (0, 1)])
        self.marker_ = None
        if math.isinf(epsilon):
            return []
        (self.marker_,) = self.ax_.plot(
            [epsilon],
            [risk],
            "o",
            color=self.line_.get_color(),
            label=f"release: ε = {ceil_text(epsilon, 3)}, risk {ceil_text(risk, 3)}",
        )
        return [epsilon]


class SensitivityDisplay(_StepDisplay):
    """Plot the share of sampled pairs above each sensitivity.

    Make it with `from_estimator`. It shows sampled pairs, and guarantees nothing. At
    `sensitivity` the curve has come below `gamma`, as the sampling has a share in the
    risk.

    Parameters
    ----------
    sensitivities : ndarray of shape (n_pairs,)
        Sampled sensitivities, finite, >= 0, at least one, in any order.

    sensitivity : float
        The one of them that stands for `gamma`, finite, >= 0.

    gamma : float
        Requested risk, in (0, 1).

    estimator_name : str
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.

    sensitivity_line_, gamma_line_ : matplotlib Line2D
        A line at each of the parameters.

    ax_, figure_ : matplotlib Axes, Figure
        Where the curve is.

    See Also
    --------
    SensitivitySampler.calibrate : Noise for another risk, from the same pairs.

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
        sensitivities: Floats,
        *,
        sensitivity: float,
        gamma: float,
        estimator_name: str,
    ) -> None:
        self.sensitivities = sensitivities
        self.sensitivity = sensitivity
        self.gamma = gamma
        self.estimator_name = estimator_name

    @classmethod
    def _of(cls, estimator: Any, name: str) -> Self:
        own_name = type(estimator).__name__
        evidence = estimator.certificate_.evidence
        if evidence is None or evidence.n_pairs is None:
            raise IncompatibleError(
                f"The sensitivity of this {own_name} is known, so no pairs were "
                "sampled, and there is nothing to draw."
            )
        sampler = getattr(estimator, "sampler_", estimator)
        if not hasattr(sampler, "sensitivities_"):
            raise IncompatibleError(
                f"The sampled pairs of this {own_name} were not kept because they came "
                "from private data. Sample from a public reference instead."
            )
        return cls(
            sampler.sensitivities_,
            sensitivity=evidence.sensitivity,
            gamma=evidence.gamma,
            estimator_name=name,
        )

    def _steps(self) -> tuple[Floats, Floats]:
        values, counts = np.unique(self.sensitivities, return_counts=True)
        above = len(self.sensitivities) - np.append(0, counts.cumsum())
        return np.append(0.0, values), above / len(self.sensitivities)

    def _mark(self, heights: Floats) -> list[float]:
        self.ax_.set_xlabel("sensitivity: distance between the answers on a pair")
        self.ax_.set_ylabel("share of the pairs above it")
        log_scale(self.ax_, "y")
        self.gamma_line_ = self.ax_.axhline(
            self.gamma, color="gray", ls=":", label=f"risk γ = {self.gamma:.3g}"
        )
        self.sensitivity_line_ = self.ax_.axvline(
            self.sensitivity,
            color=self.line_.get_color(),
            ls="--",
            label=f"sensitivity Δ = {self.sensitivity:.3g}",
        )
        return [self.sensitivity]
