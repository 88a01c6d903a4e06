"""Rubinstein and Aldà, Table 1, Figures 2 to 4, Example 6 and Proposition 8."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import lambertw

from skparisk import SensitivitySampler
from skparisk.core import required_pairs
from skparisk.exceptions import CalibrationError
from skparisk.papers import dkw_fewest_pairs, dkw_least_noise, dkw_least_risk
from skparisk.queries import MeanQuery

from ._study import RUBINSTEIN, Line, Picture, Study

AXIS = (0.05, 0.1, 0.2, 0.5)  # of Figure 2
SAMPLES = (100, 1000, 10_000)  # of Figure 3
BUDGETS = (500, 2000, 8000)  # of Figure 4
N_RECORDS = 100  # the paper does not say; the ratio to the exact one depends little
N_REPEATS = 50


def table_1_lines() -> list[Line]:
    """Compare the closed forms of Table 1 with a search over rho."""
    lines = []
    for gamma in (0.2, 0.05):
        point = dkw_fewest_pairs(gamma)
        rho = math.exp(float(lambertw(-gamma / (2 * math.sqrt(math.e)), -1).real) + 0.5)
        best = fewest_by_search(gamma)
        lines.append(
            Line(
                "Table 1, row 1",
                f"fewest pairs for γ = {gamma}: m, K, ρ",
                f"ρ = {rho:.9f}",
                f"m = {point.n_pairs}, K = {point.order_index}, ρ = {point.rho:.9f}",
                math.isclose(point.rho, rho, rel_tol=1e-9) and point.n_pairs == best,
                note=f"A search over ρ finds {best} too. As few as "
                f"{required_pairs(gamma)} pairs give the same statement by "
                "exchangeability.",
            )
        )
    point = dkw_least_noise(1500, 0.05)
    rho = math.exp(0.5 * float(lambertw(-1 / 6000, -1).real))
    lines.append(
        Line(
            "Table 1, row 2",
            "least K for m = 1500, γ = 0.05: K, ρ",
            f"ρ = {rho:.9f}",
            f"K = {point.order_index}, ρ = {point.rho:.9f}",
            math.isclose(point.rho, rho, rel_tol=1e-9) and point.order_index == 1496,
            note="By exchangeability K = 1426 gives the same statement.",
        )
    )
    point = dkw_least_risk(1000)
    rho = math.exp(0.5 * float(lambertw(-1 / 4000, -1).real))
    gamma = rho + math.sqrt(math.log(1 / rho) / 2000)
    lines.append(
        Line(
            "Table 1, row 3",
            "least γ for m = 1000: γ, ρ",
            f"γ = {gamma:.9f}, ρ = {rho:.9f}",
            f"γ = {point.gamma:.9f}, ρ = {point.rho:.9f}",
            math.isclose(point.gamma, gamma, rel_tol=1e-9),
            note=f"By exchangeability γ = {1 / 1001:.6f}.",
        )
    )
    ratios = [
        dkw_fewest_pairs(g).n_pairs * g**2 / math.log(1 / g) for g in (1e-2, 1e-5)
    ]
    lines.append(
        Line(
            "Corollary 16",
            "m γ² / ln(1/γ) at γ = 0.01, 0.00001",
            "m = o(ln(1/γ)/γ²)",
            ", ".join(f"{ratio:.3f}" for ratio in ratios),
            ratios[1] < 0.1,
            "The ratio tends to 1/2, not to 0, so the rate is O, if it is an o that is "
            "printed: ρ tends to 0 faster than γ, and m is about ln(1/ρ)/(2γ²).",
        )
    )
    return lines


def fewest_by_search(gamma: float) -> int:
    """Return the least m of Theorem 15's condition, over a fine grid of rho."""
    rho = np.linspace(0, min(gamma, 0.5), 200_001)[1:-1]
    return math.ceil(float((np.log(1 / rho) / (2 * (gamma - rho) ** 2)).min()))


def order_share(m: int, gamma: float) -> float:
    """Return K/m by Theorem 15, NaN where it has none."""
    try:
        return dkw_least_noise(m, gamma).order_index / m
    except CalibrationError:
        return math.nan


def figure_lines() -> list[Line]:
    pairs = [dkw_fewest_pairs(gamma).n_pairs for gamma in AXIS]
    shares = [order_share(m, 0.2) for m in SAMPLES]
    least = [dkw_least_risk(m).gamma for m in SAMPLES]
    return [
        Line(
            "Figure 2",
            "fewest pairs for γ = 0.05, 0.1, 0.2, 0.5",
            "falls, within the axis 5 to 5000 (curve only)",
            ", ".join(map(str, pairs)),
            pairs == sorted(pairs, reverse=True) and 5 <= pairs[-1] < pairs[0] <= 5000,
            note="Exchangeable: "
            + ", ".join(str(required_pairs(g)) for g in AXIS)
            + ".",
        ),
        Line(
            "Figure 3",
            "K/m at γ = 0.2 and least γ, m = 100, 1000, 10 000",
            "falls with γ, and with m to 1 − γ (curves only)",
            f"{', '.join(f'{s:.4f}' for s in shares)}; "
            f"{', '.join(f'{g:.4f}' for g in least)}",
            shares == sorted(shares, reverse=True) and 0.8 < shares[-1] < 0.82,
            note="Exchangeable: K/m is 1 − γ but for 1/m at any m.",
        ),
    ]


@dataclass(frozen=True)
class Sampled:
    """Sensitivities of Example 6's mean, as multiples of the exact one."""

    gammas: np.ndarray
    ratios: np.ndarray  # (n_repeats, n_gammas), NaN below the least gamma
    calibration: str


def sampled_means(
    m: int, n_repeats: int, calibration: str = "dkw", seed: int = 0
) -> Sampled:
    """Sample the sensitivity of the mean of n exponential records, many times."""
    gammas = np.array([0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1])
    exact = np.log(1 / gammas) / N_RECORDS  # Example 6
    ratios = np.full((n_repeats, len(gammas)), np.nan)
    for repeat in range(n_repeats):
        sampler = SensitivitySampler(
            MeanQuery(),
            gamma=0.5,
            reference=lambda n, rng: rng.exponential(size=(n, 1)),
            n_records=N_RECORDS,
            n_pairs=m,
            calibration=calibration,
            random_state=seed + repeat,
        ).fit(np.zeros((1, 1)))
        for i, gamma in enumerate(gammas):
            try:
                other = sampler.calibrate(gamma=float(gamma))
                ratios[repeat, i] = other.sensitivity_ / exact[i]
            except CalibrationError:
                continue
    return Sampled(gammas, ratios, calibration)


def figure_4_lines(found: dict[int, Sampled]) -> list[Line]:
    lines = []
    for m, sampled in found.items():
        mean = sampled.ratios.mean(axis=0)
        defined = np.isfinite(mean)
        least = dkw_least_risk(m).gamma
        n_repeats = len(sampled.ratios)
        spread = sampled.ratios[:, -1].std() / math.sqrt(n_repeats)
        lines.append(
            Line(
                "Figure 4",
                f"sampled over exact sensitivity, m = {m}, first γ and γ = 0.1",
                "above 1, nearing 1 from the least γ on (curves only)",
                f"{mean[defined][0]:.3f} at γ = {sampled.gammas[defined][0]:g} (least "
                f"{least:.4f}), {mean[-1]:.3f} ± {spread:.3f} at 0.1"
                if defined.any()
                else f"none up to 0.1 (least γ {least:.4f})",
                bool(defined.any() and mean[defined].min() > 1),
                note=f"{n_repeats} repeats, n = {N_RECORDS}; the paper: 50, no n.",
            )
        )
    return lines


def example_lines() -> list[Line]:
    """Compare Example 6 and Proposition 8."""
    gamma = 0.05
    sensitivity = math.log(1 / gamma) / N_RECORDS
    rng = np.random.default_rng(0)
    moves = np.abs(np.subtract(*rng.exponential(size=(2, 400_000)))) / N_RECORDS
    share = float((moves > sensitivity).mean())
    # Exponential laws of rates 1.02 and 1: both risks and the divergence are known.
    n, rate = 10, 1.02
    divergence = math.log(rate) + 1 / rate - 1
    shifted = gamma ** (1 / rate)
    bound = gamma + math.sqrt((n + 1) * divergence / 2)
    return [
        Line(
            "Example 6",
            "risk of the mean of exponential records at Δ = ln(1/γ)/(λn), γ = 0.05",
            "0.05",
            f"{share:.4f} of 400 000 pairs",
            abs(share - gamma) < 0.002,
        ),
        Line(
            "Proposition 8",
            "risk under Exp(1) of what has risk 0.05 under Exp(1.02), n = 10",
            f"at most {bound:.4f}",
            f"{shifted:.4f}",
            gamma < shifted <= bound,
            note="The bound grows with √n although the mean's risk does not depend "
            "on n: it is of little use beyond a few records.",
        ),
    ]


def _draw_pairs(figure: Any) -> None:
    axes = figure.subplots()
    gammas = np.geomspace(0.02, 0.6, 60)
    axes.loglog(gammas, [dkw_fewest_pairs(g).n_pairs for g in gammas], label="paper")
    exact = [required_pairs(g) for g in gammas]
    axes.loglog(gammas, exact, "k--", label="exchangeable")
    axes.set(xlabel="risk γ", ylabel="pairs m")
    axes.legend()


def _draw_orders(figure: Any) -> None:
    axes = figure.subplots()
    gammas = np.linspace(0.005, 0.5, 100)
    for m in SAMPLES:
        axes.plot(gammas, [order_share(m, g) for g in gammas], label=f"m = {m}")
    axes.plot(gammas, 1 - gammas, "k--", label="exchangeable")
    axes.set(xlabel="risk γ", ylabel="order statistic K/m", ylim=(0, 1.02))
    axes.legend()


def _draw_means(found: dict[int, Sampled], exchangeable: Sampled, figure: Any) -> None:
    axes = figure.subplots()
    curves = [(f"m = {m}", sampled) for m, sampled in found.items()]
    curves.append((f"exchangeable, m = {BUDGETS[0]}", exchangeable))
    for name, sampled in curves:
        exact = np.log(1 / sampled.gammas) / N_RECORDS
        axes.plot(sampled.gammas, sampled.ratios.mean(axis=0) * exact, label=name)
    axes.plot(sampled.gammas, exact, "k--", label="exact")
    axes.set(xlabel="risk γ", ylabel="sensitivity")
    axes.legend(fontsize="small")


def reproduce(fast: bool) -> Study:
    """Return all; Figure 4 has 10 repeats if fast, 50 as in the paper if not."""
    n_repeats = 10 if fast else N_REPEATS
    found = {m: sampled_means(m, n_repeats) for m in BUDGETS}
    exchangeable = sampled_means(BUDGETS[0], n_repeats, "exchangeable")
    at = list(exchangeable.gammas).index(0.05)
    ratio = float(exchangeable.ratios[:, at].mean())
    pictures = [
        Picture(
            "Rubinstein, Figure 2",
            "So many pairs are needed for a risk.",
            "True of the proof, and far more than needed: by exchangeability the same "
            "statement takes 1/γ − 1 pairs (dashed).",
            _draw_pairs,
        ),
        Picture(
            "Rubinstein, Figure 3",
            "The order statistic that is taken nears 1 − γ as pairs are added.",
            "True; by exchangeability it is there at once (dashed).",
            _draw_orders,
        ),
        Picture(
            "Rubinstein, Figure 4",
            "The sampled sensitivity of a mean quickly nears the exact one.",
            "True, from above. The exchangeable order statistic is at "
            f"{ratio:.2f} times the exact one with 500 pairs at γ = 0.05, where "
            "Theorem 15 has none with 500.",
            lambda figure: _draw_means(found, exchangeable, figure),
        ),
    ]
    lines = table_1_lines() + figure_lines() + figure_4_lines(found) + example_lines()
    return Study(RUBINSTEIN, lines, pictures)
