"""How far sampled neighbors are apart, as a picture."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skparisk.core.checks import (
    IncompatibleError,
    check_floats,
    check_number,
    check_probability,
)
from skparisk.displays._steps import (
    NOT_FITTED,
    Floats,
    StepDisplay,
    log_scale,
)


class SensitivityDisplay(StepDisplay):
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

    estimator_name : str, default=None
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.

    sensitivity_line_, gamma_line_ : matplotlib Line2D or None
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
        estimator_name: str | None = None,
    ) -> None:
        self.sensitivities = check_floats(sensitivities, "sensitivities", "[0, inf)")
        if self.sensitivities.ndim != 1 or not self.sensitivities.size:
            raise ValueError(
                "sensitivities must be a vector of some numbers, got "
                f"{sensitivities!r}."
            )
        self.sensitivities.flags.writeable = False
        self.sensitivity = sensitivity
        if sensitivity is not None:
            self.sensitivity = check_number(sensitivity, "sensitivity", "[0, inf)")
        self.gamma = None if gamma is None else check_probability(gamma, "gamma")
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
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

        ax, name, **kwargs
            As in `plot`; without a name it is the class of the estimator.

        Raises
        ------
        NotFittedError
            If there is no `certificate_`.

        IncompatibleError
            If nothing was sampled, as the sensitivity is known, or the pairs are not
            kept, as they came from private data.
        """
        check_is_fitted(estimator, "certificate_", msg=NOT_FITTED)
        evidence = estimator.certificate_.evidence
        own_name = type(estimator).__name__
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
        display = cls(
            sampler.sensitivities_,
            sensitivity=evidence.sensitivity,
            gamma=evidence.gamma,
            estimator_name=own_name if name is None else name,
        )
        return display.plot(ax, **kwargs)

    def _steps(self) -> tuple[Floats, Floats]:
        values, counts = np.unique(self.sensitivities, return_counts=True)
        above = len(self.sensitivities) - np.append(0, counts.cumsum())
        return np.append(0.0, values), above / len(self.sensitivities)

    def _mark(self, heights: Floats) -> list[float]:
        self.ax_.set_xlabel("sensitivity: distance between the answers on a pair")
        self.ax_.set_ylabel("share of the pairs above it")
        log_scale(self.ax_, "y")
        self.gamma_line_ = self.sensitivity_line_ = None
        if self.gamma is not None:
            self.gamma_line_ = self.ax_.axhline(
                self.gamma, color="gray", ls=":", label=f"risk γ = {self.gamma:.3g}"
            )
        if self.sensitivity is None:
            return []
        self.sensitivity_line_ = self.ax_.axvline(
            self.sensitivity,
            color=self.line_.get_color(),
            ls="--",
            label=f"sensitivity Δ = {self.sensitivity:.3g}",
        )
        return [self.sensitivity]
