"""``skparisk demo``: a private ridge regression on real census records."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from skparisk._cli._parser import Commands, checked
from skparisk._validate import (
    check_at_least,
    check_epsilon,
    check_n_jobs,
    check_probability,
)

EPSILONS = (0.05, 0.5)
GAMMAS = (0.05, 0.01)
FORMATS = (".png", ".pdf", ".svg")


def run(options: argparse.Namespace) -> int:
    """Sample, train, print and draw."""
    from skparisk import _demo
    from skparisk.queries import RidgeQuery
    from skparisk.sensitivity import SensitivitySampler

    split = _demo.split_census(options.seed)
    sampler = SensitivitySampler(
        RidgeQuery(_demo.ALPHA),
        epsilon=options.epsilon[0],
        gamma=options.gamma[0],
        failure_prob=_demo.FAILURE_PROB,
        noise_shape="isotropic",  # so that sensitivities are in dollars
        n_records=_demo.N_TRAIN,
        n_pairs=options.n_pairs,
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=1,
    ).fit(split.X_public, split.y_public)
    print(_demo.describe(split, options.seed), flush=True)
    rows = list(_demo.table_rows(split, sampler, options.epsilon, options.gamma))
    print(f"\n{_demo.format_table(_demo.HEADER, rows)}\n\n{_demo.explain()}")
    print(f"\n{_demo.format_certificate(sampler.certificate_)}\n")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("No picture: it needs matplotlib (python -m pip install matplotlib).")
        return 0
    figure = Figure(figsize=(8, 5), layout="constrained")
    _demo.draw_picture(figure, sampler, options.output)
    print(f"Picture of the sampled sensitivities: {options.output}")
    return 0


def add_to(commands: Commands) -> Sequence[argparse.ArgumentParser]:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="train private models of census records, and compare them",
        description="Train a private ridge regression on US Census records, at "
        "several privacy levels and risks and with several calibrations of the "
        "noise, and compare it with ridge regression without noise.",
    )
    parser.add_argument(
        "--epsilon",
        nargs="+",
        type=checked(float, check_epsilon),
        default=EPSILONS,
        metavar="E",
        help=f"privacy levels, each in (0, inf] (default: {words(EPSILONS)})",
    )
    parser.add_argument(
        "--gamma",
        nargs="+",
        type=checked(float, lambda value: check_probability(value, "gamma")),
        default=GAMMAS,
        metavar="G",
        help="risks, each in (0, 1): the probability that the privacy loss exceeds "
        f"the privacy level (default: {words(GAMMAS)})",
    )
    parser.add_argument(
        "--n-pairs",
        type=checked(int, lambda value: check_at_least(value, "n_pairs", 1)),
        default=2_000,
        metavar="M",
        help="pairs of neighboring databases to sample, at least 1/G - 1 (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--n-jobs",
        type=checked(int, check_n_jobs),
        metavar="N",
        help="workers for sampling, -1 for all processors; the sampled pairs do not "
        "depend on it (default: 1)",
    )
    parser.add_argument(
        "--seed",
        type=checked(int, lambda value: check_at_least(value, "seed", 0)),
        default=0,
        metavar="S",
        help="seeds the split of the records and the sampling of pairs, never the "
        "noise, so the RMSE differs from run to run (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=checked(Path, check_output),
        default=Path("skparisk_census.png"),
        metavar="FILE",
        help=f"file for the picture, ending in one of {words(FORMATS)} (default: "
        "%(default)s)",
    )
    parser.set_defaults(run=run)
    return [parser]


def words(values: Iterable[object]) -> str:
    """Return values as one string."""
    return " ".join(map(str, values))


def check_output(path: Path) -> Path:
    """Return a path that a picture can be saved to."""
    known = path.suffix.lower() in FORMATS
    if not known or path.is_dir() or not path.parent.is_dir():
        raise ValueError(
            f"output must end in one of {words(FORMATS)}, in a folder that exists; got "
            f"'{path}'."
        )
    return path
