"""Dandekar, Figures 1 to 3 and the numbers worked out with Theorems 4 to 6.

The formulas are evaluated as printed (`skparisk.papers`), and beside them stands what
is true: the law of the privacy loss at the worst pair, and the pairs that an order
statistic needs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skparisk.core import Laplace, required_pairs
from skparisk.papers import (
    bessel_joint_confidence,
    bessel_joint_noise_epsilon,
    dandekar_confidence,
    dandekar_epsilon,
    dandekar_noise_epsilon,
    sample_confidence,
)

from ._study import DANDEKAR, Line, Picture, Study, near

OUTPUTS = (1, 2, 3)
NOISE_LEVELS = (1.0, 1.5, 2.0, 2.5)
ERRORS = (0.0001, 0.001, 0.01, 0.1)
JOINT_ERRORS = (0.01, 0.012, 0.015, 0.02)
JOINT_PAIRS = (10_000, 15_000, 20_000, 25_000)
NO_GUARANTEE = "The proof takes two distances for independent that share the output."


def levels_by_outputs(confidence: float) -> list[float]:
    """Return the levels of Figure 1a, noise of level 1, for k = 1, 2, 3."""
    return [dandekar_epsilon(confidence, 1.0, k) for k in OUTPUTS]


def levels_by_noise(confidence: float) -> list[float]:
    """Return the levels of Figure 1b, one output."""
    return [dandekar_epsilon(confidence, noise) for noise in NOISE_LEVELS]


def pairs_for_error(risk: float, rho: float) -> float:
    """Return the pairs of Figure 2: Eq. 13 solved for them."""
    return math.log(2 / risk) / (2 * rho**2)


def sample_error(n_pairs: int, risk: float) -> float:
    """Return the error rho that so many pairs have outside of a risk, by Eq. 13."""
    return math.sqrt(math.log(2 / risk) / (2 * n_pairs))


def joint_confidence(epsilon: float, n_pairs: int, rho: float) -> float:
    """Return the empirical confidence of Figure 3, for sensitivities below the largest.

    The paper does not say which confidence of the sensitivity and which ratio eta it
    drew: here the limits 1 and 1.
    """
    share = bessel_joint_confidence(epsilon, 1.0, 1 - 1e-12)
    return max(0.0, sample_confidence(n_pairs, rho)) * share


def overlap(epsilon: float, noise_epsilon: float) -> float:
    """Return Lemma 5's overlap of two Laplace densities, sensitivity 1."""
    at = math.log(noise_epsilon / epsilon) / (noise_epsilon - epsilon)
    return 1 - (math.exp(-epsilon * at) - math.exp(-noise_epsilon * at))


def _rising(numbers: list[float]) -> bool:
    return bool(np.all(np.diff(numbers) > 0))


def _listed(numbers: list[float], digits: int = 3) -> str:
    return ", ".join(f"{x:.{digits}f}" for x in numbers)


def figure_lines() -> list[Line]:
    """Compare what the text says of the curves; their data are not printed."""
    by_outputs, by_noise = levels_by_outputs(0.5), levels_by_noise(0.5)
    pairs = [pairs_for_error(risk, 0.01) for risk in (0.1, 0.5, 0.9)]
    axis = pairs_for_error(0.9, 0.1), pairs_for_error(0.5, 0.0001)
    by_error = [joint_confidence(0.5, 10_000, rho) for rho in JOINT_ERRORS]
    by_pairs = [joint_confidence(0.5, n, 0.01) for n in JOINT_PAIRS]
    risk = Laplace().exceedance(0.6, 1.0)
    claimed = 1 - dandekar_confidence(0.6, 1.0)
    return [
        Line(
            "Figure 1a",
            "level at confidence 0.5, noise of level 1, k = 1, 2, 3",
            "rises with k (curves only)",
            _listed(by_outputs),
            _rising(by_outputs),
            note=f"No guarantee. {NO_GUARANTEE} At level 0.6 of noise 1 (k = 1) the "
            f"formula's risk is {claimed:.3f}, the true one {risk:.3f}.",
        ),
        Line(
            "Figure 1b",
            "level at confidence 0.5, k = 1, noise of level 1, 1.5, 2, 2.5",
            "rises with the noise's level (curves only)",
            _listed(by_noise),
            _rising(by_noise),
            note="No guarantee: the true risk is 1/2 or more below the level of the "
            "noise, whatever that is.",
        ),
        Line(
            "Figure 2",
            "pairs for an error of 0.01, at risks 0.1, 0.5, 0.9",
            "fall as the risk rises; axis 10² to 10⁸",
            f"{_listed(pairs, 0)}; {axis[0]:.0f} to {axis[1]:.1e} at the corners",
            _rising(pairs[::-1]) and axis[0] > 10 and axis[1] < 1e8,
            note="Far more than needed: at risk 0.05 an error of 0.01 takes "
            f"{math.ceil(pairs_for_error(0.05, 0.01))} pairs; the order statistic "
            f"needs {required_pairs(0.05)}.",
        ),
        Line(
            "Figure 3a",
            "confidence of level 0.5, 10 000 pairs, errors 0.01, 0.012, 0.015, 0.02",
            "less for a smaller error (curves only)",
            _listed(by_error),
            _rising(by_error),
            note="No guarantee: the error itself is missing from the formula, so that "
            "a larger one looks better for nothing. γ₂ = η = 1 here; the paper does "
            "not say which it drew.",
        ),
        Line(
            "Figure 3b",
            "confidence of level 0.5, error 0.01, 10 000 to 25 000 pairs",
            "rises with the pairs (curves only)",
            _listed(by_pairs),
            _rising(by_pairs),
            note="No guarantee, as in Figure 3a.",
        ),
    ]


def worked_lines() -> list[Line]:
    """Compare the numbers that the text works out."""
    first = dandekar_noise_epsilon(0.4, 0.6)
    six = dandekar_noise_epsilon(0.4, 0.6, 6)
    tolerance = sample_confidence(15_000, 0.01)
    again = bessel_joint_noise_epsilon(0.4, 0.9, 0.9, sample_confidence=tolerance)
    same = overlap(0.6, 1.0)
    return [
        Line(
            "Appendix B",
            "overlap of Laplace noise of levels 1 and 0.6",
            "0.81",
            f"{same:.4f}",
            near(same, 0.81, 2),
            note="The overlap says nothing of the loss: it is within 0.6 in "
            f"{1 - Laplace().exceedance(0.6, 1.0):.3f} of releases at the worst "
            "pair. (The paper's next sentence has 0.8 in place of 0.6.)",
        ),
        Line(
            "Section 6.2, case 1",
            "level of the noise for level 0.4 at confidence 0.6",
            "0.8",
            f"{first:.4f}",
            near(first, 0.8, 2),
            note="By the formula for one output; ridge regression has six here, for "
            f"which the formula gives {six:.2f}. True for the worst pair: 0.4.",
        ),
        Line(
            "Section 6.2, case 2",
            "error rho for 10 000 pairs, read from Figure 2",
            "0.01",
            f"{sample_error(10_000, 0.27):.4f} at a risk of 0.27",
            near(sample_error(10_000, 0.27), 0.01, 3),
            note=f"At a risk of 0.05 it is {sample_error(10_000, 0.05):.4f}.",
        ),
        Line(
            "Section 6.2, case 2",
            "Eq. 13, tolerance of 15 000 pairs and error 0.01",
            "0.9",
            f"{tolerance:.4f}",
            near(tolerance, 0.9, 2),
            note="Theorem 5 leaves out a −ρ: what is proved is (γ₂ − ρ) times this.",
        ),
        Line(
            "Section 6.2, case 3",
            "level of the noise for level 0.4, both confidences 0.9",
            "0.8",
            f"{again:.4f}",
            near(again, 0.8, 2),
            "With η = 1 the equation has this root, less than 0.4; 0.8 needs "
            f"η = {again / 0.8:.3f}, and by Lemma 12 η is at least 1.",
            "η is a guess: its proof takes distribution functions for 1-Lipschitz.",
        ),
    ]


def _draw_levels(figure: Any) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    confidences = np.linspace(0.01, 0.99, 99)
    for k in OUTPUTS:
        levels = [dandekar_epsilon(c, 1.0, k) for c in confidences]
        left.plot(confidences, levels, label=f"k = {k}")
    for noise in NOISE_LEVELS:
        levels = [dandekar_epsilon(c, noise) for c in confidences]
        right.plot(confidences, levels, label=f"ε₀ = {noise}")
    true = np.linspace(0.0, 1.0, 101)
    for axes in (left, right):
        within = [1 - Laplace().exceedance(e, 1.0) for e in true[:-1]] + [1.0]
        axes.plot(within, true, "k--", label="true, k = 1, ε₀ = 1")
        axes.set(xlabel="confidence γ₁", ylim=(0, 1.05))
        axes.legend(fontsize="small")
    left.set_ylabel("privacy level ε")


def _draw_pairs(figure: Any) -> None:
    axes = figure.subplots()
    risks = np.linspace(0.005, 0.995, 199)
    for rho in ERRORS:
        pairs = [pairs_for_error(risk, rho) for risk in risks]
        axes.semilogy(risks, pairs, label=f"ρ = {rho:g}")
    exact = [required_pairs(risk) for risk in risks]
    axes.semilogy(risks, exact, "k--", label="order statistic")
    axes.set(xlabel="privacy at risk γ₂", ylabel="pairs")
    axes.legend(fontsize="small")


def _draw_joint(figure: Any) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    levels = np.linspace(0.01, 1.0, 100)
    for rho in JOINT_ERRORS:
        curve = [joint_confidence(e, 10_000, rho) for e in levels]
        left.plot(curve, levels, label=f"ρ = {rho:g}")
    for n in JOINT_PAIRS:
        curve = [joint_confidence(e, n, 0.01) for e in levels]
        right.plot(curve, levels, label=f"{n} pairs")
    for axes in (left, right):
        axes.set(xlabel="confidence γ̂₃", xlim=(0, 1))
        axes.legend(fontsize="small")
    left.set_ylabel("privacy level ε")


def reproduce(fast: bool) -> Study:
    """Return the figures and numbers; both sizes are the same."""
    pictures = [
        Picture(
            "Dandekar, Figure 1",
            "Laplace noise of level ε₀ keeps to a smaller level ε with a confidence "
            "that is well above 1/2 near ε₀.",
            "The formula is reproduced, and not true. At the worst pair the loss is "
            "within any ε below ε₀ with a probability of 1/2 at most (dashed).",
            _draw_levels,
        ),
        Picture(
            "Dandekar, Figure 2",
            "A sensitivity to be trusted takes thousands of sampled pairs.",
            "True of the inequality that is used (Dvoretzky, Kiefer, Wolfowitz), and "
            "not of the sensitivity: its order statistic needs 1/γ − 1 pairs (dashed).",
            _draw_pairs,
        ),
        Picture(
            "Dandekar, Figure 3",
            "The confidence over pairs and noise together rises with the pairs and "
            "with the error that one is content with.",
            "The formula is reproduced (γ₂ = η = 1), and no guarantee: a larger error "
            "has to lower the confidence by itself, and it is left out.",
            _draw_joint,
        ),
    ]
    return Study(DANDEKAR, figure_lines() + worked_lines(), pictures)
