"""Pictures of a report: SVG inside of the page, in its colors, with words."""

from __future__ import annotations

import math
from html import escape

import numpy as np
from numpy.typing import NDArray

from skparisk._text import guesses_text
from skparisk.core.claim import Claim
from skparisk.core.rounding import ceil_text

Floats = NDArray[np.float64]

_WIDTH = 340
# Of a curve: each of them holds by itself, so that fewer say less, and nothing wrong.
_MOST_POINTS = 60


def gain_picture(claim: Claim) -> str:
    """Draw how often an attacker guesses right; nothing without a guarantee."""
    if claim.void:
        return ""
    gain = claim.advantage
    bars = [("guessing blindly", 50.0, "quiet")]
    bars.append(("on average, at most", float(guesses_text(gain.mean)), "bar"))
    if gain.risk and gain.quantile < 1:
        most = float(guesses_text(gain.quantile))
        bars.append(("all but the risk, at most", most, "bar"))
    parts = []
    for place, (name, value, kind) in enumerate(bars):
        top = 8 + 34 * place
        parts.append(
            f"<text x='0' y='{top + 8}'>{name}: {value:g} in 100</text>"
            f"<rect class='track' x='0' y='{top + 13}' width='{_WIDTH}' height='9'/>"
            f"<rect class='{kind}' x='0' y='{top + 13}' height='9' "
            f"width='{_WIDTH * value / 100:.1f}'/>"
        )
    said = "; ".join(f"{name} {value:g} of 100" for name, value, _ in bars)
    return _svg("Right guesses of an attacker", said, 34 * len(bars) + 8, parts)


def risk_picture(claim: Claim) -> str:
    """Draw the risks that are certified for other levels, if there are any."""
    if claim.void:
        return ""
    levels, risks = claim.points()
    kept = np.isfinite(levels) & (levels > 0) & (risks > 0)
    order = np.argsort(levels[kept], kind="stable")
    levels = levels[kept][order]
    risks = np.minimum.accumulate(risks[kept][order])
    if len(levels) < 3 or levels.max() <= levels.min() or risks.max() <= risks.min():
        return ""
    chosen = np.unique(np.linspace(0, len(levels) - 1, _MOST_POINTS).astype(int))
    levels, risks = levels[chosen], risks[chosen]
    left, right, top, bottom = 44, _WIDTH - 10, 22, 190
    x = _places(levels, left, right)
    y = _places(risks, bottom, top)
    steps = f"M{x[0]:.1f} {y[0]:.1f}" + "".join(
        f"H{across:.1f}V{up:.1f}" for across, up in zip(x[1:], y[1:], strict=True)
    )
    parts = [
        f"<path class='axis' d='M{left} {top}V{bottom}H{right}'/>",
        f"<path class='line' d='{steps}'/>",
        "<text x='0' y='12'>risk</text>",
        f"<text x='0' y='{top + 8}'>{risks.max():.2g}</text>",
        f"<text x='0' y='{bottom}'>{risks.min():.2g}</text>",
        f"<text x='{left}' y='{bottom + 16}'>{levels.min():.2g}</text>",
        f"<text x='{right}' y='{bottom + 16}' text-anchor='end'>{levels.max():.3g}"
        "</text>",
        f"<text x='{(left + right) / 2}' y='{bottom + 16}' text-anchor='middle'>"
        "epsilon</text>",
    ]
    said = (
        f"From a risk of {ceil_text(float(risks[0]), 3)} at epsilon {levels[0]:.3g} to "
        f"{ceil_text(float(risks[-1]), 3)} at {levels[-1]:.3g}, both on log scales."
    )
    return _svg("Certified risk at other privacy levels", said, bottom + 24, parts)


def _places(values: Floats, first: float, last: float) -> Floats:
    """Return where values are between two ends, on a log scale."""
    logs = np.log(values)
    shares = (logs - logs.min()) / (logs.max() - logs.min())
    return first + (last - first) * shares


def _svg(title: str, said: str, height: float, parts: list[str]) -> str:
    return (
        f"<figure><svg viewBox='0 0 {_WIDTH} {math.ceil(height)}' role='img' "
        f"aria-label='{escape(title)}. {escape(said)}'>{''.join(parts)}</svg>"
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )
