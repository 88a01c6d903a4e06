"""Dandekar, Figure 5 and Table 1: the level of many releases, at delta = 1e-5.

The exact level is the least of all valid ones; that of Theorem 3 is below it from 257
and 277 releases on at noise levels 0.5 and 1.0, so it is false there.
"""

from __future__ import annotations

import math
from typing import Any

from skparisk.core.claim import DominatingLoss, mint
from skparisk.core.compose import (
    compose_basic,
    compose_exact,
    concentrated,
)
from skparisk.papers import (
    compose_privacy_at_risk,
    dandekar_confidence,
    laplace_loss_mean,
)

from ._study import DANDEKAR, Line, Picture, Study, near

# Level of the noise, the level that is best for the cost, and the caption's numbers.
SETTINGS = (
    (0.1, 0.0790469195, (0.08, 0.80)),
    (0.5, 0.2741152836, (0.27, 0.61)),
    (1.0, 0.4211620913, (0.42, 0.54)),
)
FIRST_VIOLATION = {0.1: None, 0.5: 257, 1.0: 277}
DELTA = 1e-5
MOST = 300
FEW = (1, 30, 100, 200, 256, 257, 276, 277, MOST)
RULES = (
    "basic",
    "Dwork-Roth",
    "lecture",
    "Laplace",
    "Theorem 3",
    "preprint",
    "exact",
)
TABLE_1 = {100: (2.04, 1.81), 1000: (8.03, 5.95)}
NOT_COMPOSITION = (
    "These are levels of PATE on MNIST: the bound (Papernot et al. 2017, Theorem 3) "
    "depends on the votes of the teachers, which are private, and which the paper "
    "does not give."
)

Table = dict[int, dict[str, float]]


def levels(noise_epsilon: float, epsilon: float, n: int) -> dict[str, float]:
    """Return what each rule says of n releases."""
    loss = DominatingLoss("laplace", shift=noise_epsilon)
    releases = [mint(epsilon=noise_epsilon, loss=loss)] * n

    def advanced(mean: float) -> float:
        return concentrated(n * noise_epsilon**2, n * mean, DELTA)

    risk = 1 - dandekar_confidence(epsilon, noise_epsilon)
    at_risk = [(epsilon, risk, noise_epsilon)] * n
    basic = compose_basic(releases).epsilon
    found = (
        basic,
        advanced(noise_epsilon * math.expm1(noise_epsilon)),
        advanced(noise_epsilon * math.tanh(noise_epsilon / 2)),
        min(basic, advanced(laplace_loss_mean(noise_epsilon))),
        compose_privacy_at_risk(at_risk, delta=DELTA),
        compose_privacy_at_risk(at_risk, delta=DELTA, version="preprint"),
        compose_exact(releases, delta=DELTA).epsilon,
    )
    return dict(zip(RULES, found, strict=True))


def first_violation(table: Table, rule: str) -> int | None:
    """Return the least n for which a rule is below the exact level, by 1e-6 of it."""
    below = (n for n, row in table.items() if row[rule] < row["exact"] * (1 - 1e-6))
    return next(below, None)


def figure_lines(
    noise: float, epsilon: float, caption: Any, table: Table
) -> list[Line]:
    """Compare one panel of Figure 5."""
    item = f"Figure 5{'abc'[[s[0] for s in SETTINGS].index(noise)]}"
    confidence = dandekar_confidence(epsilon, noise)
    last = table[MOST]
    first = first_violation(table, "Theorem 3")
    others = (rule for rule in RULES if rule != "Theorem 3")
    valid = all(first_violation(table, rule) is None for rule in others)
    where = f"fails from {first} on" if first else f"holds up to {MOST}"
    return [
        Line(
            item,
            f"level and confidence of noise {noise} that are best for the cost",
            f"({caption[0]:.2f}, {caption[1]:.2f})",
            f"({epsilon:.4f}, {confidence:.4f})",
            near(epsilon, caption[0], 2) and near(confidence, caption[1], 2),
            note="With the true law the probability is below 1/2.",
        ),
        Line(
            item,
            f"level of {MOST} releases: Theorem 3, basic, advanced",
            "Theorem 3 is least of the three (curves only)",
            f"{last['Theorem 3']:.5f}, {last['basic']:.0f}, {last['Dwork-Roth']:.2f}",
            last["Theorem 3"] < min(last["basic"], last["Dwork-Roth"]),
            note=f"Exact {last['exact']:.5f}; valid in the same form (Laplace) "
            f"{last['Laplace']:.5f}.",
        ),
        Line(
            item,
            "Theorem 3 is a level of all releases together",
            "yes",
            where,
            first is None,
            ""
            if first is None
            else "Its mean of the privacy loss is that of a mixture of two mechanisms, "
            "and too small; from there on it is below the exact level.",
            "No other rule is below the exact level."
            if valid
            else "ANOTHER RULE IS BELOW THE EXACT LEVEL.",
        ),
    ]


def table_1_lines() -> list[Line]:
    """Compare Table 1 with what can be said without its data."""
    lines = []
    noise, epsilon, _ = SETTINGS[0]
    for n, printed in TABLE_1.items():
        row = levels(noise, epsilon, n)
        for column, paper in zip(
            ("moments accountant", "at risk"), printed, strict=True
        ):
            lines.append(
                Line(
                    "Table 1",
                    f"{n} queries at level 0.1, {column}",
                    f"{paper}",
                    f"exact {row['exact']:.4f}, Theorem 3 {row['Theorem 3']:.4f}",
                    None,
                    NOT_COMPOSITION,
                    "Without the votes no valid rule is below the exact level, which "
                    "is attained by a count.",
                )
            )
    return lines


def _draw(tables: list[Table], figure: Any) -> None:
    panels = figure.subplots(1, len(tables))
    for axes, table, (noise, _, _) in zip(panels, tables, SETTINGS, strict=True):
        for rule in ("basic", "Dwork-Roth", "Theorem 3", "Laplace", "exact"):
            style = "k--" if rule == "exact" else "-"
            values = [row[rule] for row in table.values()]
            axes.plot(list(table), values, style, label=rule)
        highest = max(table[MOST]["basic"], table[MOST]["lecture"])
        axes.set(title=f"ε₀ = {noise}", xlabel="releases", ylim=(0, highest))
    panels[0].set_ylabel("privacy level")
    panels[0].legend(fontsize="small")


def reproduce(fast: bool) -> Study:
    """Return the curves, at 12 numbers of releases if fast, else at all up to 300."""
    counts = FEW if fast else range(1, MOST + 1)
    lines, tables = [], []
    for noise, epsilon, caption in SETTINGS:
        table = {n: levels(noise, epsilon, n) for n in counts}
        tables.append(table)
        lines += figure_lines(noise, epsilon, caption, table)
    picture = Picture(
        "Dandekar, Figure 5",
        "Composed by Theorem 3, many releases have a far lower level than by the "
        "advanced composition.",
        "Lower it is, and false from 257 and 277 releases on at noise levels 0.5 and "
        "1: there it is below the exact level (dashed), which is valid, and lower "
        "than Theorem 3 before that.",
        lambda figure: _draw(tables, figure),
        (9.0, 3.2),
    )
    return Study(DANDEKAR, lines + table_1_lines(), [picture])
