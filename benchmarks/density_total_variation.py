"""Error of a released density: sampled against global sensitivity.

Claim: for the kernel density estimate of Rubinstein and Aldà (ICML 2017), Section 7.3
and Figure 7, the total variation distance of the Bernstein mechanism's release to the
non-private estimate is, with a sampled sensitivity (gamma = 0.01 or 0.1; their
calibration, "dkw", or the exchangeable one), at every epsilon at most that with the
global one; at least 1.4 times smaller at epsilon = 0.05, the private end of their axis,
and 2 times at 0.01; at epsilon = 10 all are the error of the polynomial itself, to 2 %.

5000 records of 0.4 N(0.5, 0.02) + 0.6 N(0.75, 0.005), clipped to [0, 1]; lattice size
10, order 3, 50 000 pairs from a public table of other draws. The paper does not say
which bandwidth it took: here Silverman's rule of thumb for that mixture. Both densities
are normalized on [0, 1], the released one after its negative values are set to zero.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from sklearn.neighbors import KernelDensity

from skparisk import SensitivitySampler
from skparisk.mechanisms import BernsteinMechanism, BernsteinPolynomial
from skparisk.queries import DensityQuery
from skparisk.reference import TableReference

N_RECORDS = 5000
N_PUBLIC = 100_000
N_PAIRS = 50_000
N_REPEATS = 1000
LATTICE_SIZE = 10
ORDER = 3
# The paper's figure shows 0.05 to 0.20.
AXIS = (0.01, 0.02, 0.05, 0.10, 0.15, 0.20, 0.5, 1.0, 10.0)
MONTE_CARLO = 1.005
GRID = (np.arange(2000) + 0.5) / 2000
GLOBAL = "global"

Noise = Callable[[np.ndarray], np.ndarray]


def draw_records(n_records: int, rng: np.random.Generator) -> np.ndarray:
    first = rng.random(n_records) < 0.4
    means, variances = np.where(first, 0.5, 0.75), np.where(first, 0.02, 0.005)
    return rng.normal(means, np.sqrt(variances)).clip(0, 1)[:, None]


def silverman_bandwidth(X: np.ndarray) -> float:
    quartiles = np.quantile(X, [0.25, 0.75])
    spread = min(X.std(), np.diff(quartiles)[0] / 1.34)
    return float(0.9 * spread * len(X) ** -0.2)


def normalized(densities: np.ndarray) -> np.ndarray:
    """Return densities on the grid that integrate to one; uniform if none is left."""
    positive = densities.clip(min=0)
    means = positive.mean(axis=-1, keepdims=True)
    return np.where(means > 0, positive / np.where(means > 0, means, 1), 1.0)


def mechanisms(
    query: DensityQuery,
) -> dict[str, tuple[float, Callable[[float], Noise]]]:
    """Return the l1 sensitivity, and what gives the noise for an epsilon, by name."""
    bound = query.sup_bound(N_RECORDS)

    def known(epsilon: float) -> Noise:
        return BernsteinMechanism(
            bound, epsilon, lattice_size=LATTICE_SIZE, order=ORDER
        ).laplace.release

    found = {GLOBAL: (bound * (LATTICE_SIZE + 1), known)}
    public = draw_records(N_PUBLIC, np.random.default_rng(1))
    for gamma in (0.01, 0.1):
        for calibration in ("dkw", "exchangeable"):
            sampler = SensitivitySampler(
                query,
                gamma=gamma,
                calibration=calibration,
                reference=TableReference(public),
                n_records=N_RECORDS,
                n_pairs=N_PAIRS,
                random_state=0,
            ).fit(public[:1])

            def sampled(epsilon: float, sampler: SensitivitySampler = sampler) -> Noise:
                return sampler.calibrate(epsilon=epsilon).mechanism_.release

            name = f"{calibration}, {gamma:g}"
            found[name] = (sampler.sensitivity_, sampled)
    return found


def main() -> int:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    X = draw_records(N_RECORDS, np.random.default_rng(0))
    public = draw_records(N_RECORDS, np.random.default_rng(1))
    bandwidth = silverman_bandwidth(public)
    query = DensityQuery([(0.0, 1.0)], bandwidth, lattice_size=LATTICE_SIZE)
    estimate = KernelDensity(bandwidth=bandwidth).fit(X).score_samples(GRID[:, None])
    truth = normalized(np.exp(estimate))
    values = query(X)
    # A release is linear in the values: its density on the grid is this matrix times.
    matrix = np.array(
        [BernsteinPolynomial(unit, ORDER).on_grid([GRID]) for unit in np.eye(11)]
    )

    def distances(rows: np.ndarray) -> np.ndarray:
        return 0.5 * np.abs(normalized(rows @ matrix) - truth).mean(axis=1)

    floor = float(distances(values[None])[0])
    found = mechanisms(query)
    print(
        f"n = {N_RECORDS}, bandwidth {bandwidth:.4f}, {N_PAIRS} pairs; total variation "
        f"distance, mean of {N_REPEATS} releases; polynomial alone: {floor:.4f}"
    )
    print(f"{'epsilon':<12}" + "".join(f"{name:>20}" for name in found))
    print(f"{'sensitivity':<12}" + "".join(f"{s:>20.5f}" for s, _ in found.values()))
    errors = {name: np.empty(len(AXIS)) for name in found}
    copies = np.tile(values, (N_REPEATS, 1))
    for i, epsilon in enumerate(AXIS):
        for name, (_, noise) in found.items():
            errors[name][i] = distances(noise(epsilon)(copies)).mean()
        cells = "".join(
            f"{errors[name][i]:>12.4f} ({errors[GLOBAL][i] / errors[name][i]:.2f}x)"
            for name in found
        )
        print(f"{epsilon:<12g}{cells}", flush=True)
    ratios = np.array(
        [errors[GLOBAL] / error for name, error in errors.items() if name != GLOBAL]
    )
    held = {
        "at most the global error at every epsilon": (ratios * MONTE_CARLO >= 1).all(),
        "1.4 times smaller at 0.05": (ratios[:, AXIS.index(0.05)] >= 1.4).all(),
        "2 times smaller at 0.01": (ratios[:, AXIS.index(0.01)] >= 2).all(),
        "the polynomial's error at 10": all(
            abs(error[AXIS.index(10.0)] / floor - 1) <= 0.02
            for error in errors.values()
        ),
    }
    for claim, holds in held.items():
        print(f"{claim}: {'holds' if holds else 'FAILS'}")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
