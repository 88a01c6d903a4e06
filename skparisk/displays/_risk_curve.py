"""The risk that is certified at the released noise, as a picture."""

from __future__ import annotations

import math

import numpy as np

from skparisk.core.claim import Certificate
from skparisk.core.rounding import ceil_text
from skparisk.displays._steps import (
    CertificateDisplay,
    Floats,
    StepDisplay,
    log_scale,
)


class RiskCurveDisplay(CertificateDisplay, StepDisplay):
    """Risk that is certified at the released noise, for each privacy level.

    Make it with `from_estimator` or `from_certificate`. The curve is a step function:
    a risk that is certified at a level holds at those above it, and below the first
    level nothing is certified.

    Parameters
    ----------
    certificate : Certificate
        Whose risks are drawn. The legend tells its `delta`, if any.

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
        self, certificate: Certificate, *, estimator_name: str | None = None
    ) -> None:
        super().__init__(certificate, estimator_name=estimator_name)
        delta = certificate.delta
        notes = [delta and f"δ = {ceil_text(delta, 3)}", self.caveat]
        self.caveat = ", ".join(str(note) for note in notes if note) or None

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
