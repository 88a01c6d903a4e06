"""Base classes of displays, and their axes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skparisk.core.claim import Claim

Floats: TypeAlias = NDArray[np.float64]

NOT_FITTED = (
    "This %(name)s has no certificate_: fit it first, and pass the skparisk estimator "
    "itself, not a pipeline or a search around it."
)
# Where a logarithmic axis starts: a few pairs of nearly equal databases would
# stretch it by decades.
_FIRST_SHOWN = 0.99


class Display(ABC):
    """A picture on axes, with a legend."""

    # What a reader must know, and the name of what is shown; always in the legend.
    caveat: str | None = None
    estimator_name: str | None = None

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.

        **kwargs : dict
            For what matplotlib draws lines or bars with, but for `label`.

        Returns
        -------
        display : Display
            This one.
        """
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError(
                    'A display needs matplotlib: python -m pip install "skparisk[plot]"'
                ) from error
            ax = plt.subplots(layout="constrained")[1]
        self.ax_ = ax
        self.figure_ = self.ax_.figure
        self._draw(**kwargs)
        if self.ax_.get_legend_handles_labels()[0]:
            self.ax_.legend()
        return self

    @abstractmethod
    def _draw(self, **kwargs: Any) -> None:
        """Draw everything but the legend."""

    def _label(self, name: str | None) -> str | None:
        """Return what the legend says of a line, with the caveat."""
        if self.caveat is None:
            return name
        return self.caveat if name is None else f"{name} ({self.caveat})"


class CertificateDisplay(Display):
    """What a certificate says, of a release or of an estimator that has one."""

    def __init__(
        self, certificate: Claim, *, estimator_name: str | None = None
    ) -> None:
        if not isinstance(certificate, Claim):
            raise ValueError(f"certificate must be a Certificate, got {certificate!r}.")
        self.certificate = certificate
        self.estimator_name = estimator_name
        if certificate.void:
            self.caveat = "not a guarantee"
        elif certificate.reference_is_private:
            self.caveat = "over resamples of the private data"
        elif certificate.leaks:
            self.caveat = "not counting what was released without noise"

    @classmethod
    def from_certificate(
        cls,
        certificate: Claim,
        *,
        ax: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw what a certificate says.

        Parameters
        ----------
        certificate : Certificate or FiledCertificate
            The legend says so if it guarantees nothing.

        ax, name, **kwargs
            As in `plot`, with all that it takes.
        """
        return cls(certificate, estimator_name=name).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw what the certificate of a fitted estimator says.

        Parameters
        ----------
        estimator : estimator
            With a `certificate_`, such as a :class:`~skparisk.SensitivitySampler`.

        ax, name, **kwargs
            As in `from_certificate`; without a name it is the class of the estimator.

        Raises
        ------
        NotFittedError
            If there is no `certificate_`.
        """
        check_is_fitted(estimator, "certificate_", msg=NOT_FITTED)
        name = type(estimator).__name__ if name is None else name
        return cls.from_certificate(estimator.certificate_, ax=ax, name=name, **kwargs)


class StepDisplay(Display):
    """A step function that falls from 1, and what is marked on it."""

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
        """
        name = self.estimator_name if name is None else name
        return super().plot(ax, **{"label": name, **kwargs})

    def _draw(self, **kwargs: Any) -> None:
        limits = self.ax_.get_xlim() if self.ax_.has_data() else (math.inf, 0.0)
        x, y = self._steps()
        style = {**kwargs, "label": self._label(kwargs["label"])}
        (self.line_,) = self.ax_.plot(x, y, drawstyle="steps-post", **style)
        shown = np.append(x[y <= _FIRST_SHOWN], self._mark(y))
        fit_levels(self.ax_, shown[shown > 0], limits)

    @abstractmethod
    def _steps(self) -> tuple[Floats, Floats]:
        """Return where the steps begin, from 0 on, and their heights."""

    @abstractmethod
    def _mark(self, heights: Floats) -> list[float]:
        """Draw all but the curve, and return the marked values."""


def log_scale(ax: Any, axis: str) -> None:
    """Scale an axis logarithmically, with plain numbers at 1, 2 and 5."""
    getattr(ax, f"set_{axis}scale")("log", subs=[2, 5])
    ticks = getattr(ax, f"{axis}axis")
    ticks.set_major_formatter("{x:g}")
    ticks.set_minor_formatter("{x:g}")


def fit_levels(
    ax: Any, shown: Floats, limits: tuple[float, float] = (math.inf, 0.0)
) -> None:
    """Scale the horizontal axis to positive values, within no less than its limits.

    Logarithmically, if they span more than a decade.
    """
    if len(shown) and shown.max() > 10 * shown.min():
        log_scale(ax, "x")
    if len(shown) and ax.get_xscale() == "log":
        left = min(v for v in (shown.min() / 1.2, limits[0]) if v > 0)
        right = max(shown.max() * 1.2, limits[1])
        ax.set_xlim(left, right)
        if right > 1e4 * left:
            ax.xaxis.set_minor_formatter("")
