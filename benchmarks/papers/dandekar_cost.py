"""Dandekar, Figure 4 and the illustration of Section 5.3, with the true law beside it.

A health center would have to pay 5500 dollars to each of 100 people. The paper's
confidence says how much it saves by counting with a smaller level; the exact law of the
privacy loss says how much is left of that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skparisk.cost import CompensationModel
from skparisk.papers import DandekarTheorem4

from ._study import DANDEKAR, Line, Picture, Study, near

NOISE_LEVELS = (0.7, 0.6, 0.5)
NOISE = 0.5
STAFF = CompensationModel(compensation=5500, n_people=100)
PRINTED = DandekarTheorem4()


def budgets(law: Any) -> tuple[float, float, float]:
    """Return the budget without risk, the best level, and the budget at it."""
    level = STAFF.optimal_epsilon(NOISE, law=law)
    return STAFF.budget(NOISE), level, STAFF.budget_at_risk(level, NOISE, law=law)


def root_of_eq_10(noise_epsilon: float) -> float:
    """Return the root of Eq. 10, by bisection of a function that falls in epsilon."""

    def left(epsilon: float) -> float:
        return 1 / epsilon - math.log(1 - (1 - math.exp(epsilon)) / epsilon**2)

    low, high = 1e-3, noise_epsilon
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if left(middle) > 1 / noise_epsilon else (low, middle)
        )
    return low


def is_convex(noise_epsilon: float) -> bool:
    """Return whether the printed budget is convex on a fine grid (Lemma 4)."""
    levels = np.linspace(0.02, 1, 4001) * noise_epsilon
    values = STAFF.budget_at_risk(levels, noise_epsilon, law=PRINTED)
    return bool(np.all(np.diff(values, 2) > -1e-9 * values.max()))


def illustration_lines() -> list[Line]:
    plain, level, least = budgets(PRINTED)
    _, true_level, true_least = budgets("exact")
    eq_10 = root_of_eq_10(NOISE)
    return [
        Line(
            "Section 5.3",
            "least level for a mean absolute error of 2",
            "0.5",
            f"{1 / 2.0}",
            near(1 / 2.0, 0.5, 3),
        ),
        Line(
            "Section 5.3",
            "budget at level 0.5, dollars",
            "74434.40",
            f"{plain:.2f}",
            near(plain, 74434.40, 2),
            note="The paper cuts off the third decimal.",
        ),
        Line(
            "Section 5.3, Eq. 10",
            "level of the least budget",
            "0.274",
            f"{level:.4f} (root of Eq. 10: {eq_10:.4f})",
            near(level, 0.274, 3) and abs(level - eq_10) < 1e-6,
            note=f"With the true law it is {true_level:.4f}.",
        ),
        Line(
            "Section 5.3",
            "least budget, dollars",
            "37805.86",
            f"{least:.2f}",
            near(least, 37805.86, 2),
            note=f"With the true law {true_least:.2f}.",
        ),
        Line(
            "Section 5.3",
            "saving, dollars",
            "36628.532",
            f"{plain - least:.3f}",
            near(plain - least, 36628.54, 1),
            note=f"With the true law {plain - true_least:.2f}: real, and "
            f"{1 - (plain - true_least) / (plain - least):.0%} smaller. (The paper's "
            "is not the difference of its budgets, by a cent.)",
        ),
        Line(
            "Lemma 4",
            "the budget at risk is convex in the level, for any noise",
            "always",
            "at noise level 1.1: {}, at 1.2: {}".format(
                *("convex" if is_convex(e) else "not convex" for e in (1.1, 1.2))
            ),
            is_convex(1.1) and is_convex(1.2),
            "The proof takes the confidence for a constant; it holds up to a noise "
            "level of 1.1046.",
            "The least budget is still found: the search takes a grid, not convexity.",
        ),
        Line(
            "Eq. 11",
            "the best level lies in the permissible range [1/T, …]",
            "implied",
            f"{level:.3f}, and 1/T = 0.5",
            level >= 0.5,
            "The error is that of the noise, of level 0.5, and not of the level that "
            "is counted with; the lower end is about the wrong one of the two.",
        ),
    ]


def curve_lines() -> list[Line]:
    """Compare the curves of Figure 4, of which only the axes are in the text."""
    lines = []
    for noise in NOISE_LEVELS:
        level = STAFF.optimal_epsilon(noise, law=PRINTED)
        low = STAFF.budget_at_risk(level, noise, law=PRINTED)
        high = STAFF.budget(noise)
        true = STAFF.optimal_epsilon(noise)
        lines.append(
            Line(
                "Figure 4",
                f"budgets for noise of level {noise}: least, largest",
                "one minimum, within 30 000 to 135 000 (curves only)",
                f"{low:.0f} at {level:.3f}, {high:.0f}",
                30e3 < low < high < 135e3,
                note=f"True: {STAFF.budget_at_risk(true, noise):.0f} at {true:.3f}.",
            )
        )
    return lines


def _draw(figure: Any) -> None:
    axes = figure.subplots()
    for color, noise in zip(("C0", "C1", "C2"), NOISE_LEVELS, strict=True):
        levels = np.linspace(0.02, noise, 300)
        for law, style, name in ((PRINTED, "-", "paper"), ("exact", "--", "true")):
            values = STAFF.budget_at_risk(levels, noise, law=law)
            label = f"ε₀ = {noise}, {name}"
            axes.plot(
                levels[:-1], values[:-1], color=color, linestyle=style, label=label
            )
    axes.set(xlabel="privacy level ε", ylabel="budget (dollars)", ylim=(2e4, 1.4e5))
    axes.legend(fontsize="small", ncols=3)


def reproduce(fast: bool) -> Study:
    """Return the illustration; both sizes are the same."""
    plain, _, least = budgets(PRINTED)
    _, _, true_least = budgets("exact")
    picture = Picture(
        "Dandekar, Figure 4",
        f"A health center that counts with a smaller level saves {plain - least:.0f} "
        f"of {plain:.0f} dollars.",
        f"It saves {plain - true_least:.0f}. By the true law of the privacy loss "
        "(dashed) a smaller level is kept at most every second time at the worst "
        "pair, so that the other half is paid at the level of the noise.",
        _draw,
    )
    return Study(DANDEKAR, curve_lines() + illustration_lines(), [picture])
