"""How much more a private ridge could be worth, if real people were known beforehand.

Claim: with Gaussian noise for the pair and the noise together, at epsilon = 1 and gamma
= 0.05, the defaults of `PrivateRidge` are within 0.01 of the ceiling on the splits of
`utility.py` (diabetes, a third public): the median R2 over splits and draws of noise.

The ceiling is no release. Its noise has the shape and the scale that real pairs of
people beside the public ones ask for, at a risk of exactly gamma over these very pairs,
so that nothing is lost to a table of few rows; and of a grid of penalties it has the
one that is best on the test records, over all splits or, above that, in each split by
itself. What is above the ceiling has more of the real pairs beyond epsilon than it
claims, or is no ridge regression of the private records. The second ceiling has the
risk that a claim about people leaves of gamma where a table has that many rows.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from _drawn import drawn_from
from _splits import Cell, Split, make_split
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.optimize import brentq

from skparisk import PrivateRidge, SensitivitySampler
from skparisk.core import Gaussian, NoiseShape
from skparisk.queries import RidgeQuery
from skparisk.sensitivity import fit_noise_shape, sample_differences

EPSILON, GAMMA = 1.0, 0.05
CELL = Cell("diabetes", "a third", False)
PENALTIES = 10 ** np.arange(0.75, 2.3, 0.125)
N_PAIRS = 1000
# Draws of noise in each split.
N_DRAWS = 400
MOST_BELOW = 0.01
Floats = NDArray[np.float64]


def real_pairs(split: Split, penalty: float) -> Floats:
    """Return differences on pairs of people that no public record is of."""
    X = np.concatenate([split.X, split.X_test])
    y = np.concatenate([split.y, split.y_test])
    return sample_differences(
        RidgeQuery(penalty),
        drawn_from(X, y, replace=False),
        n_pairs=N_PAIRS,
        n_records=len(split.X),
        n_features=X.shape[1],
        random_state=0,
    )


def risk(shape: NoiseShape, scale: float, differences: Floats) -> float:
    """Return the share of losses beyond epsilon, over pairs and noise."""
    shifts = np.linalg.norm(shape.whiten(differences), axis=1) / scale
    return float(np.mean(Gaussian().risk(EPSILON, shifts)))


def r2_of_draws(
    split: Split, penalty: float, shape: NoiseShape, scale: float
) -> Floats:
    """Return R2 on the test records with each draw of the noise."""
    answer = RidgeQuery(penalty)(split.X, split.y)
    # The same draws wherever noises are compared.
    draws = np.random.default_rng(0).normal(scale=scale, size=(N_DRAWS, len(answer)))
    design = np.column_stack([split.X_test, np.ones(len(split.X_test))])
    errors = split.y_test - (answer + shape.color(draws)) @ design.T
    return 1 - np.mean(errors**2, axis=1) / split.y_test.var()


def ceiling(repeat: int, gammas: tuple[float, ...]) -> list[list[Floats]]:
    """Return R2 with each penalty, and the noise that real pairs ask for, at risks."""
    split, found = make_split(CELL, repeat), []
    for penalty in PENALTIES:
        differences = real_pairs(split, penalty)
        n_outputs = differences.shape[1]
        weights = RidgeQuery(penalty).output_weights(split.X_public, n_outputs)
        shape = fit_noise_shape("whitened", differences, weights=weights)
        lengths = np.linalg.norm(shape.whiten(differences), axis=1)
        scales = [
            brentq(
                lambda scale, *given: risk(given[0], scale, given[1]) - given[2],
                1e-3 * lengths.max(),
                1e3 * lengths.max(),
                args=(shape, differences, gamma),
            )
            for gamma in gammas
        ]
        found.append([r2_of_draws(split, penalty, shape, scale) for scale in scales])
    return found


def by_default(repeat: int) -> tuple[Floats, float]:
    """Return R2 of releases with all defaults, and their risk over real pairs."""
    split = make_split(CELL, repeat)
    sampler = SensitivitySampler(randomness="both", law="gaussian")
    model = PrivateRidge(
        combine=None,
        epsilon=EPSILON,
        gamma=GAMMA,
        sensitivity=sampler,
        random_state=repeat,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(split.X, split.y, **split.reference)
    noise: Any = model.sampler_.mechanism_
    kept = noise.shape, noise.noise_scale
    beyond = risk(*kept, real_pairs(split, model.alpha_))
    return r2_of_draws(split, model.alpha_, *kept), beyond


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--n-jobs", type=int, default=-1)
    arguments = parser.parse_args()
    parallel = Parallel(n_jobs=arguments.n_jobs)
    splits = range(arguments.repeats)
    n_independent = len(make_split(CELL, 0).X_public) // 2
    left = GAMMA - (1 - GAMMA) / n_independent
    print(f"median R2 over {arguments.repeats} splits and {N_DRAWS} draws of noise")
    print(f"{'':>28} gamma = {GAMMA:<8.4g} {left:.4f}")
    above = parallel(delayed(ceiling)(repeat, (GAMMA, left)) for repeat in splits)
    tops = np.transpose(above, (2, 1, 0, 3))  # (gammas, penalties, splits, draws)
    ones = [np.median(top, axis=(1, 2)) for top in tops]
    best = ones[0].argmax()
    each = [np.median(top[top.mean(axis=2).argmax(axis=0), splits]) for top in tops]
    first = f"one penalty, {PENALTIES[best]:.3g}"
    print(f"{first:>28} {ones[0].max():>16.4f} {ones[1].max():>8.4f}")
    print(f"{'a penalty for each split':>28} {each[0]:>16.4f} {each[1]:>8.4f}")
    own, beyond = zip(
        *parallel(delayed(by_default)(one) for one in splits), strict=True
    )
    print(f"{'defaults':>28} {np.median(own):>16.4f}")
    print(
        f"beyond epsilon, of real pairs and noise: {GAMMA:.4f} or {left:.4f} by "
        f"design, {np.mean(beyond):.4f} by default"
    )
    return 0 if np.median(own) >= ones[0].max() - MOST_BELOW else 1


if __name__ == "__main__":
    raise SystemExit(main())
