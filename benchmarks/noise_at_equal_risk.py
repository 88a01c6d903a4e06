"""Noise for the same guarantee level: which calibration needs how much of it.

Claim: for ridge regression at one epsilon and one risk gamma = 0.05, noise that is
calibrated over pairs and noise together ("both") has a scale at least 1.5, 2.4 and 4
times smaller than over pairs alone ("implicit") at k = 6, 20 and 64 released numbers;
on the diabetes data (gamma = 0.1, alpha/n = 0.01) "both" with whitened noise has at
least 8 times less root-mean-square prediction error due to noise.

Each row is calibrated from the same sampled pairs. The error due to noise is exact: the
root of the mean of x' C x over the records x, C the covariance of the released numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_diabetes, make_regression

from skparisk import SensitivitySampler
from skparisk.datasets import load_census
from skparisk.queries import RidgeQuery
from skparisk.reference import TableReference

N_PAIRS = 20_000
BASELINE = "exchangeable, implicit"
CALIBRATIONS = {
    "dkw, implicit (Rubinstein)": {"calibration": "dkw"},
    BASELINE: {},
    "both": {"randomness": "both"},
    "whitened": {"noise_shape": "whitened"},
    "both, whitened": {"randomness": "both", "noise_shape": "whitened"},
    "gaussian, both, whitened": {
        "law": "gaussian",
        "randomness": "both",
        "noise_shape": "whitened",
    },
}


@dataclass
class Problem:
    """A ridge regression, and what is claimed of it: the less noise of one row."""

    name: str
    X: np.ndarray
    y: np.ndarray
    alpha: float
    gamma: float
    claims: dict[tuple[str, str], float]


def problems() -> Iterator[Problem]:
    X, y = load_census(return_X_y=True)
    yield Problem("census", X, y, 1.0, 0.05, {})
    X, y = load_diabetes(return_X_y=True)
    claims = {("both, whitened", "error"): 8.0}
    yield Problem("diabetes", X, y, 0.01 * len(X), 0.1, claims)
    for k, claim in {6: 1.5, 20: 2.4, 64: 4.0}.items():
        X, y = make_regression(1000, k - 1, noise=10.0, random_state=0)
        claims = {("both", "scale"): claim}
        yield Problem(f"synthetic, k = {k}", X, y, 1.0, 0.05, claims)


def compare(problem: Problem) -> bool:
    """Print the rows of one problem, and return whether its claims hold."""
    X, y = problem.X, problem.y
    sampler = SensitivitySampler(
        RidgeQuery(problem.alpha),
        gamma=problem.gamma,
        reference=TableReference(X, y),
        noise_shape="isotropic",
        n_pairs=N_PAIRS,
        random_state=0,
    ).fit(X, y)
    moments = np.column_stack([X, np.ones(len(X))])
    moments = moments.T @ moments / len(X)
    defaults = sampler.get_params()
    rows = {}
    for name, parameters in CALIBRATIONS.items():
        noise = sampler.set_params(**defaults | parameters).calibrate().mechanism_
        error = np.sqrt(np.trace(noise.covariance() @ moments))
        rows[name] = {"scale": noise.noise_scale, "error": error}
    print(f"\n{problem.name} (n = {len(X)}, gamma = {problem.gamma})")
    held = True
    for name, row in rows.items():
        ratios = {what: rows[BASELINE][what] / row[what] for what in row}
        # Scales of another law or shape are in other units.
        same = not {"whitened", "gaussian"} & set(name.split(", "))
        scale_ratio = f"{ratios['scale']:>7.2f}" if same else f"{'':>7}"
        claimed = [
            f"{what} >= {least:g}: {'holds' if ratios[what] >= least else 'FAILS'}"
            for (row_name, what), least in problem.claims.items()
            if row_name == name
        ]
        held &= not any("FAILS" in text for text in claimed)
        print(
            f"{name:<28} {row['scale']:>10.4g} {scale_ratio} {row['error']:>12.4g} "
            f"{ratios['error']:>7.2f}  {' '.join(claimed)}",
            flush=True,
        )
    return held


def main() -> int:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    print(f"{N_PAIRS} pairs, epsilon = 1; ratios to '{BASELINE}': how much less noise")
    print(f"{'':<28} {'scale':>10} {'ratio':>7} {'RMS error':>12} {'ratio':>7}")
    held = [compare(problem) for problem in problems()]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
