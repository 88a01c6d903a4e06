"""The risk that is certified at the released noise, as a picture."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skparisk.certificate import Certificate
from skparisk.certificate._rounding import ceil_text, check_range
from skparisk.displays._steps import (
    CertificateDisplay,
    Floats,
    StepDisplay,
    caveat_of,
    frozen_numbers,
    log_scale,
)


class RiskCurveDisplay(CertificateDisplay, StepDisplay):
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
        self,
        epsilon: ArrayLike,
        risk: ArrayLike,
        *,
        target_epsilon: float | None = None,
        target_risk: float | None = None,
        caveat: str | None = None,
        estimator_name: str | None = None,
    ) -> None:
        self.epsilon = frozen_numbers(epsilon, "epsilon")
        self.risk = frozen_numbers(risk, "risk", 1.0)
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
            self.target_epsilon = check_range(target_epsilon, "target_epsilon")
            self.target_risk = float(
                frozen_numbers(target_risk, "target_risk", 1.0, ndim=0)
            )
        self.caveat = caveat
        self.estimator_name = estimator_name

    @classmethod
    def from_certificate(
        cls,
        certificate: Certificate,
        *,
        ax: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of a certificate; the legend tells its `delta`, if any."""
        delta = certificate.delta
        notes = [delta and f"δ = {ceil_text(delta, 3)}", caveat_of(certificate)]
        caveats = [note for note in notes if note]
        points, _ = certificate.points()
        epsilon = sorted(level for level in {*points.tolist()} if level < math.inf)
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
            log_scale(self.ax_, "y")
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
            label=f"release: ε = {ceil_text(epsilon, 3)}, risk {ceil_text(risk, 3)}",
        )
        return [epsilon]
