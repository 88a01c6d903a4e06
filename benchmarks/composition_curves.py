"""Composition of Laplace releases: what each rule says, and where Theorem 3 is false.

Figure 5 of Dandekar, Basu and Bressan (PoPETs 2021): the level of n releases at
delta = 1e-5, for the three settings of the paper. Claim: the exact level is the least
of all valid ones; that of Theorem 3 is below it from n = 257 and 277 on at noise levels
0.5 and 1.0, so it is false there, and at 0.1 it is above up to n = 300. The preprint's
form is above the exact level everywhere. With --plot FILE the curves are drawn.
"""

from __future__ import annotations

import argparse
import warnings

from skparisk.certificate import Certificate, DominatingLoss
from skparisk.composition import (
    compose_advanced,
    compose_basic,
    compose_exact,
    compose_laplace,
)
from skparisk.exceptions import HeuristicGuaranteeWarning
from skparisk.papers import compose_privacy_at_risk, dandekar_confidence

# Level of the noise, the paper's level at the optimum of the cost (0.08, 0.27 and 0.42
# in its captions), and from which n on Theorem 3 is below the exact level, up to 300.
SETTINGS = (
    (0.1, 0.0790469195, None),
    (0.5, 0.2741152836, 257),
    (1.0, 0.4211620913, 277),
)
DELTA = 1e-5
MOST = 300
SHOWN = (1, 10, 30, 100, 200, 256, 257, 276, 277, 300)
RULES = (
    "basic",
    "Dwork-Roth",
    "lecture",
    "Laplace",
    "Theorem 3",
    "preprint",
    "exact",
)


def levels(noise_epsilon: float, epsilon: float, n: int) -> dict[str, float]:
    """Return what each rule says of n releases."""
    loss = DominatingLoss("laplace", shift=noise_epsilon)
    releases = [Certificate(noise_epsilon, loss=loss)] * n
    risk = 1 - dandekar_confidence(epsilon, noise_epsilon)
    at_risk = [(epsilon, risk, noise_epsilon)] * n
    found = (
        compose_basic(releases),
        compose_advanced(releases, delta=DELTA, form="dwork-roth"),
        compose_advanced(releases, delta=DELTA),
        compose_laplace(releases, delta=DELTA),
        compose_privacy_at_risk(at_risk, delta=DELTA),
        compose_privacy_at_risk(at_risk, delta=DELTA, version="preprint"),
        compose_exact(releases, delta=DELTA),
    )
    return dict(zip(RULES, (g.epsilon for g in found), strict=True))


def show(noise_epsilon: float, epsilon: float, table: dict[int, dict]) -> None:
    confidence = dandekar_confidence(epsilon, noise_epsilon)
    print(f"noise level {noise_epsilon}, ({epsilon:.2f}, {confidence:.2f}) at risk")
    print("    n " + "".join(f"{rule:>12}" for rule in RULES))
    for n in SHOWN:
        print(f"{n:>5} " + "".join(f"{table[n][rule]:>12.5f}" for rule in RULES))


def first_violation(table: dict[int, dict], rule: str) -> int | None:
    """Return the least n for which a rule is below the exact level, by 1e-6 of it."""
    below = (n for n, row in table.items() if row[rule] < row["exact"] * (1 - 1e-6))
    return next(below, None)


def plot(tables: list[dict[int, dict]], file: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(tables), figsize=(13, 4), layout="constrained")
    for ax, table, (noise_epsilon, _, _) in zip(axes, tables, SETTINGS, strict=True):
        for rule in RULES:
            ax.plot(list(table), [row[rule] for row in table.values()], label=rule)
        highest = max(table[MOST]["basic"], table[MOST]["lecture"])
        ax.set(title=f"noise level {noise_epsilon}", xlabel="releases")
        ax.set(ylim=(0, highest), ylabel="privacy level")
    axes[0].legend()
    figure.savefig(file)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plot", metavar="FILE", help="draw the curves into a file")
    file = parser.parse_args().plot
    warnings.simplefilter("ignore", HeuristicGuaranteeWarning)
    held, tables = True, []
    for noise_epsilon, epsilon, expected in SETTINGS:
        table = {n: levels(noise_epsilon, epsilon, n) for n in range(1, MOST + 1)}
        tables.append(table)
        show(noise_epsilon, epsilon, table)
        first = first_violation(table, "Theorem 3")
        held &= first == expected
        where = f"from n = {first} on" if first else f"nowhere up to n = {MOST}"
        print(f"Theorem 3 is below the exact level {where}\n")
        valid = set(RULES) - {"Theorem 3"}
        held &= all(first_violation(table, rule) is None for rule in valid)
    if file:
        plot(tables, file)
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
