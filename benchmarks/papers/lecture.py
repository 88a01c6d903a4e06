"""The worked numbers of the lecture CS459/689, *Differential Privacy*.

`docs/theory/lecture.rst` explains them one by one; here each stands beside ours.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skparisk.core import (
    Gaussian,
    compose_basic,
    compose_parallel,
)
from skparisk.core.compose import concentrated
from skparisk.mechanisms import (
    DiscreteMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
)

from ._study import LECTURE, Line, Study

SLIGHTLY = 1e-5  # answers are rounded to a grid, which the noise pays for
BIDS = np.array([1.0, 1.0, 3.01])
CHOLESTEROL = np.array([216, 501, 100, 535, 214])
ATTACK = np.array([0, 1, 0, 1, 1])
THRESHOLDS = np.array([100, 200, 300, 400, 500])


def _number(item: str, what: str, paper: float, here: float, note: str = "") -> Line:
    agrees = math.isclose(here, paper, rel_tol=SLIGHTLY)
    return Line(item, what, f"{paper:.6g}", f"{here:.6g}", agrees, note=note)


def _numbers(item: str, what: str, paper: Any, here: Any, note: str = "") -> Line:
    agrees = bool(np.allclose(here, paper, rtol=SLIGHTLY))
    texts = (", ".join(f"{x:.4f}" for x in numbers) for numbers in (paper, here))
    return Line(item, what, *texts, agrees, note=note)


def laplace_lines() -> list[Line]:
    n = 100
    scales = (
        ("Count of positive tests", "noise scale, ε = 1, either relation", 1.0),
        ("Sum of salaries, bounded", "noise scale, ε = 1", 180e3),
        ("Sum of salaries, unbounded", "noise scale, ε = 1", 200e3),
        ("Mean salary, bounded", "noise scale, ε = 1, n = 100", 180e3 / n),
        ("Histogram of ages, unbounded", "noise scale of a count, ε = 1", 1.0),
        ("Histogram of ages, bounded", "noise scale of a count, ε = 1", 2.0),
        ("Alice's salary", "noise scale, ε = 1", 180e3),
    )
    lines = [
        _number(item, what, scale, LaplaceMechanism(scale, 1.0).noise_scale)
        for item, what, scale in scales
    ]
    age = LaplaceMechanism(82.0, 82 / 3)
    tail = (math.log(0.5) - 1000) / math.log(10)
    return [
        *lines,
        _number(
            "Alice's age, b = 3",
            "level",
            82 / 3,
            float(age.privacy_loss(82.0)),
            "Next to no privacy: 27.3 is a factor of 7·10¹¹.",
        ),
        Line(
            "Truncated noise",
            "P(Lap(1) > 1000), decimal exponent",
            "about −435",
            f"{tail:.1f}",
            abs(tail + 435) < 1,
        ),
    ]


def response_lines() -> list[Line]:
    coins = RandomizedResponse(truth_probability=0.75)
    p, share = 0.75, 0.3
    mean = p * (1 - share) + (1 - p) * share
    n, honest = 5, 0.6
    places = RandomizedResponse(n, truth_probability=honest)
    estimate = coins.estimate_proportions([1] * 18 + [0] * 22)
    lie = (1 - honest) / (n - 1)
    matrix = np.full((n, n), lie) + (honest - lie) * np.eye(n)
    return [
        _numbers(
            "Randomized response",
            "probabilities of the answers given the truth, two coins",
            (0.75, 0.25, 0.25, 0.75),
            coins.matrix.ravel(),
        ),
        _number("Randomized response", "level, two coins", math.log(3), coins.epsilon),
        _number(
            "Randomized response",
            "level for p = 0.9, ln max(p/(1−p), (1−p)/p)",
            math.log(9),
            RandomizedResponse(truth_probability=0.9).epsilon,
        ),
        _number(
            "Randomized response",
            "mean answer for p₀ = 0.3",
            share * (1 - p) + (1 - share) * p,
            float(coins.matrix[:, 1] @ [share, 1 - share]),
            f"{mean:g} by p₀(1−p) + (1−p₀)p.",
        ),
        _numbers(
            "Exercise",
            "estimates 1.5 − 2ȳ and 2ȳ − 0.5 at ȳ = 18/40",
            (1.5 - 2 * 0.45, 2 * 0.45 - 0.5),
            estimate,
            "The table of the slide is empty: it is filled in class.",
        ),
        _number(
            "Generalized response",
            "level for p = 0.6 and n = 5, ln(p(n−1)/(1−p))",
            math.log(honest * (n - 1) / (1 - honest)),
            places.epsilon,
        ),
        _number(
            "General discrete mechanism",
            "the same from the matrix: ln of the largest ratio in a column",
            places.epsilon,
            DiscreteMechanism(matrix).epsilon,
        ),
    ]


def exponential_lines() -> list[Line]:
    prices = np.array([1.0, 2.0, 3.0, 4.0])
    revenue = prices * (BIDS[:, None] >= prices).sum(axis=0)
    offers = np.array([1.0, 1.01, 3.01, 3.02])
    weights = np.exp(np.array([3, 2, 3, 0]) / 8)
    auction = ExponentialMechanism(4.0, 1.0).probabilities(revenue)
    diagnosis = ExponentialMechanism(0.2, 1.25)
    above, from_on = (
        [float(np.mean(hit == ATTACK)) for hit in hits]
        for hits in (
            THRESHOLDS[:, None] < CHOLESTEROL,
            THRESHOLDS[:, None] <= CHOLESTEROL,
        )
    )
    values = np.arange(-60, 61)
    law = ExponentialMechanism(1.0, 2.0).probabilities(-np.abs(values - 7))
    laplace = np.exp(-np.abs(values - 7.0))
    laplace /= laplace.sum()
    even = ExponentialMechanism(4.0, 1e-9).probabilities([3, 2, 3, 0])
    return [
        _numbers(
            "Auction",
            "revenue at 1, 1.01, 3.01, 3.02",
            (3, 1.01, 3.01, 0),
            offers * (BIDS[:, None] >= offers).sum(axis=0),
        ),
        _numbers("Auction", "scores of the prices 1 to 4", (3, 2, 3, 0), revenue),
        _numbers(
            "Auction",
            "probabilities, Δ = 4, ε = 1",
            weights / weights.sum(),
            auction,
        ),
        Line(
            "Cholesterol",
            "probabilities of the thresholds, ε = 1.25",
            "asked, not answered",
            f"{', '.join(f'{p:.4f}' for p in diagnosis.probabilities(above))}, or "
            f"{', '.join(f'{p:.4f}' for p in diagnosis.probabilities(from_on))}",
            None,
            "The slide has no answer. Which of the two it is depends on what is "
            "predicted at the threshold itself, which is in its drawing.",
        ),
        _numbers(
            "Exponential mechanism",
            "probabilities as ε tends to 0, four candidates",
            [0.25] * 4,
            even,
        ),
        Line(
            "Exponential mechanism",
            "with the score −|f(D) − h|",
            "the Laplace mechanism",
            f"largest difference of probabilities {np.abs(law - laplace).max():.1e}",
            bool(np.abs(law - laplace).max() < 1e-6),
        ),
    ]


def gaussian_lines() -> list[Line]:
    n, epsilon = 100, 1.0
    delta = 1 / n**2
    lines = []
    for item, sensitivity, outputs, paper in (
        ("Sum of salaries", 190e3, 1, 2 * math.log(1.25 * n**2) * 190e3**2),
        ("Histogram of ages", math.sqrt(2), 11, 4 * math.log(1.25 * n**2)),
    ):
        mechanism = GaussianMechanism(sensitivity, epsilon, delta, n_outputs=outputs)
        least = mechanism.noise_scale**2
        spent = Gaussian().profile(epsilon, sensitivity / math.sqrt(paper))
        lines.append(
            Line(
                f"{item}, Gaussian",
                "σ² that is enough, n = 100, δ = 1/n², ε = 1",
                f"{paper:.6g}",
                f"{least:.6g} is",
                bool(least <= paper and spent <= delta),
                note=f"The least there is, {least / paper:.2f} of the lecture's.",
            )
        )
    return lines


def composition_lines() -> list[Line]:
    k, epsilon, delta = 100, 0.1, 1e-5
    releases = [epsilon] * k
    growth = (math.exp(epsilon) - 1) / (math.exp(epsilon) + 1)
    advanced = epsilon * math.sqrt(2 * k * math.log(1 / delta)) + k * epsilon * growth
    return [
        _number(
            "Composition",
            "100 releases at 0.1, naive",
            10,
            compose_basic(releases).epsilon,
        ),
        _number(
            "Composition",
            "100 releases at 0.1, advanced, δ′ = 10⁻⁵",
            advanced,
            concentrated(k * epsilon**2, k * epsilon * growth, delta),
            "The slide's exponent, e^{ε+1} in print, is read as e^ε + 1.",
        ),
        _number(
            "Composition",
            "releases of disjoint parts at 0.1, 0.5, 0.3",
            0.5,
            compose_parallel([0.1, 0.5, 0.3], partition="position").epsilon,
        ),
    ]


def reproduce(fast: bool) -> Study:
    """Return all numbers; both sizes are the same, and there is no picture."""
    lines = laplace_lines() + composition_lines() + response_lines()
    return Study(LECTURE, lines + exponential_lines() + gaussian_lines())
