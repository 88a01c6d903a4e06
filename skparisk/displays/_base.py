"""The base class of displays, and their axes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


class Display(ABC):
    """A picture on axes, with a legend."""

    # Warning to the reader; always in the legend.
    caveat: str | None = None

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.

        **kwargs : dict
            For matplotlib's `plot`, which draws the lines.

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


def log_scale(ax: Any, axis: str) -> None:
    """Scale an axis logarithmically, with plain numbers at 1, 2 and 5."""
    getattr(ax, f"set_{axis}scale")("log", subs=[2, 5])
    ticks = getattr(ax, f"{axis}axis")
    ticks.set_major_formatter("{x:g}")
    ticks.set_minor_formatter("{x:g}")


def fit_levels(
    ax: Any, shown: Floats, limits: tuple[float, float] = (math.inf, 0.0)
) -> None:
    """Scale the horizontal axis to positive values: by logarithms over a decade."""
    if len(shown) and shown.max() > 10 * shown.min():
        log_scale(ax, "x")
    if len(shown) and ax.get_xscale() == "log":
        left = min(v for v in (shown.min() / 1.2, limits[0]) if v > 0)
        right = max(shown.max() * 1.2, limits[1])
        ax.set_xlim(left, right)
        if right > 1e4 * left:
            ax.xaxis.set_minor_formatter("")
