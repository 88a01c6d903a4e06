"""What a privacy level, or an accuracy, costs, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from skparisk.core.checks import check_choice
from skparisk.core.rounding import ceil_text
from skparisk.cost import CostModel, Frontier
from skparisk.displays._base import Display, Floats, fit_levels

_AXES = {
    "epsilon": "privacy level ε used for the cost",
    "error": "error on public records",
}
_TEXTS: dict[str, dict[str, Any]] = {
    "epsilon": {"xytext": (0, -6), "ha": "center", "va": "top"},
    "error": {"xytext": (4, 4), "ha": "left", "va": "bottom", "rotation": 45},
}
_N_LEVELS = 400


class _Curve(NamedTuple):
    """One line, with the places of its points that are marked, and their texts."""

    x: Floats
    cost: Floats
    marked: list[int]
    texts: list[str]
    name: str


class CostDisplay(Display):
    """Plot the cost of privacy levels, or of accuracy.

    Make it with `from_model` or `from_frontier`.

    Parameters
    ----------
    curves : sequence of tuple
        The lines, each with the fields `x` and `cost` (arrays), `marked` (indices),
        `texts` (of the marked points) and `name`.

    against : {"epsilon", "error"}, default="epsilon"
        Horizontal axis: privacy levels, as smooth lines, or measured errors, as joined
        points. It is logarithmic for positive values that span more than a decade.

    caveat : str, default=None
        Warning to the reader; always in the legend.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        One for each curve.

    marks_ : list of matplotlib Line2D
        The marked points of each curve.

    ax_, figure_ : matplotlib Axes, Figure
        Where the curves are.

    See Also
    --------
    skparisk.cost.CostModel.budget_at_risk, skparisk.cost.frontier : The numbers.

    Examples
    --------
    >>> from skparisk.cost import CompensationModel
    >>> from skparisk.displays import CostDisplay
    >>> display = CostDisplay.from_model(CompensationModel(5500.0, n_people=100))
    >>> [line.get_label() for line in display.lines_]
    ['noise ε₀ = 0.7', 'noise ε₀ = 0.6', 'noise ε₀ = 0.5']
    >>> display.curves[-1].texts
    ['43,479 at ε = 0.156']
    """

    def __init__(
        self,
        curves: Sequence[_Curve],
        *,
        against: str = "epsilon",
        caveat: str | None = None,
    ) -> None:
        self.curves = tuple(curves)
        self.against = check_choice(against, "against", _AXES)
        self.caveat = caveat

    @classmethod
    def from_model(
        cls,
        model: CostModel,
        noise_epsilon: float | Sequence[float] = (0.7, 0.6, 0.5),
        *,
        n_outputs: int = 1,
        law: Any = "exact",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the cost of each level, and mark the cheapest.

        Figure 4 of Dandekar, Basu and Bressan (2021), with the law
        :class:`skparisk.papers.DandekarTheorem4`.

        Parameters
        ----------
        model : CostModel
            Cost of a release, such as a :class:`~skparisk.cost.CompensationModel`.

        noise_epsilon : float or sequence of float, default=(0.7, 0.6, 0.5)
            Privacy levels of the Laplace noise, in (0, inf): one line for each, up to
            there.

        n_outputs, law
            As in :meth:`~skparisk.cost.CostModel.budget_at_risk`.

        ax, **kwargs
            As in `plot`.

        Raises
        ------
        ValueError
            If an argument is out of range.
        """
        curves = []
        for level in np.atleast_1d(np.asarray(noise_epsilon)).tolist():
            best = model.optimal_epsilon(level, n_outputs, law)
            x = np.union1d(np.linspace(0.0, level, _N_LEVELS + 1)[1:], best)
            cost = model.budget_at_risk(x, level, n_outputs, law)
            at = int(np.searchsorted(x, best))
            # In whole units where it is large.
            money = f"{cost[at]:,.0f}" if cost[at] >= 1000 else f"{cost[at]:.3g}"
            text = f"{money} at ε = {best:.3g}"
            name = f"noise ε₀ = {ceil_text(level, 3)}"
            curves.append(_Curve(x, cost, [at], [text], name))
        caveat = None if law == "exact" else "not a guarantee"
        return cls(curves, caveat=caveat).plot(ax, **kwargs)

    @classmethod
    def from_frontier(
        cls, frontier: Frontier, *, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Draw costs against errors, and mark the points that no other one beats.

        Parameters
        ----------
        frontier : Frontier
            From :func:`skparisk.cost.frontier`. Points of an infinite cost are left
            out.

        ax, **kwargs
            As in `plot`.

        Returns
        -------
        display : CostDisplay
            With one line for each risk, from level to level.
        """
        curves = []
        for gamma in np.unique(frontier.gamma):
            rows = np.flatnonzero(
                (frontier.gamma == gamma) & np.isfinite(frontier.cost)
            )
            rows = rows[np.argsort(frontier.epsilon[rows], kind="stable")]
            marked = np.flatnonzero(frontier.efficient[rows])
            curves.append(
                _Curve(
                    frontier.error[rows],
                    frontier.cost[rows],
                    marked=marked.tolist(),
                    texts=[f"ε = {e:.3g}" for e in frontier.epsilon[rows[marked]]],
                    name=f"risk γ = {gamma:.3g}",
                )
            )
        return cls(curves, against="error").plot(ax, **kwargs)

    def _draw(self, **kwargs: Any) -> None:
        style = {"marker": "." if self.against == "error" else ""} | kwargs
        self.lines_, self.marks_ = [], []
        for curve in self.curves:
            label = self._label(curve.name)
            lines = self.ax_.plot(curve.x, curve.cost, label=label, **style)
            at, color = curve.marked, lines[0].get_color()
            x, cost = curve.x[at], curve.cost[at]
            self.marks_ += self.ax_.plot(x, cost, "o", color=color)
            self.lines_ += lines
            for *place, text in zip(x, cost, curve.texts, strict=True):
                self.ax_.annotate(
                    text,
                    place,
                    textcoords="offset points",
                    color=color,
                    fontsize="small",
                    **_TEXTS[self.against],
                )
        self.ax_.set_xlabel(_AXES[self.against])
        self.ax_.set_ylabel("budget for compensation")
        self.ax_.margins(y=0.1)  # for the texts
        self.ax_.yaxis.set_major_formatter("{x:,.10g}")
        if self.against == "error":
            errors = np.concatenate([[], *(curve.x for curve in self.curves)])
            fit_levels(self.ax_, errors if (errors > 0).all() else errors[:0])
